"""How much of an evaluation on tau-bench is waiting that nobody needs: 115 tasks x 4 over HTTP.

Agent and simulated user are two servers in processes of their own that take 200 ms for an answer.
The agent carries out the gold actions one by one and then says what is required; the user opens,
and hangs up at that. An episode is a chain of requests, each of which waits for the one before.

    .venv/bin/python benchmarks/eval_http.py [--concurrent 64] [--trials 4] [--repeats 3]

The peer is a bare client that plays chains of the same lengths at the same servers in turns with
ours: 64 connections, and a request after the answer to the one before. It spends as much CPU time
a request as ours did in that turn, so that it waits for a busy machine as ours does, and what is
left of the ratio is waiting that nobody needs. The CPU time itself is given in pieces of plain
work. The ratio to greedy scheduling without any overhead (the same chains, at 200
ms a request) is printed; a slow machine misses it for want of CPU time. What is measured is
`run_evaluation` as the command line calls it: opening the data, every request, the store on disk,
the report.

The data is ``$SKILLWRIGHT_TAU_DATA``, or ``$SKILLWRIGHT_REFERENCE_DATA/tau_retail``.
"""

import argparse
import asyncio
import gc
import heapq
import itertools
import json
import os
import re
import resource
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from time import perf_counter, process_time
from typing import Any

import orjson

from measuring import Kind, at_least, at_most, compared, long_plain_s, plain_work, ratios_of, report
from measuring.endpoint import completion, serve, served
from measuring.machine import tau_folder

LATENCY_S = 0.2
WALL_TO_BARE = 1.5
WORK_PER_REQUEST = 2.0
"""CPU time, in pieces of plain work."""
GC = (10_000, 10, 10)
"""When Python collects garbage: as the command line sets it."""
ROLES = ("policy", "user")
STOP = "###STOP###"
TRANSFER = "transfer_to_human_agents"


def test_tasks() -> list[dict[str, Any]]:
    """Read the test split."""
    return json.loads((tau_folder() / "tasks_test.json").read_text(encoding="utf-8"))


def gold_turns(task: dict[str, Any]) -> list[str]:
    """Return what the agent writes in each of its turns."""
    calls = [
        {"name": one["name"], "arguments": one["kwargs"]}
        for one in task["actions"]
        if one["name"] != TRANSFER
    ]
    said = f"That is done. {' '.join(task['outputs'])}".strip()
    return [*(f"<tool_call>{json.dumps(call)}</tool_call>" for call in calls), said]


# --- the servers --------------------------------------------------------------------------------


class Policy:
    """Carries out the gold actions of the task that the user names."""

    def __init__(self) -> None:
        self._turns = [gold_turns(task) for task in test_tasks()]

    def answer(self, messages: Sequence[dict[str, str]]) -> str:
        """Say the next thing."""
        named = re.search(r"number (\d+)\.", messages[1]["content"])
        taken = sum(message["role"] == "assistant" for message in messages)
        return self._turns[int(named[1])][taken] if named else "ready"


class Customer:
    """Names its task, then hangs up."""

    def __init__(self) -> None:
        self._tasks = [task["instruction"] for task in test_tasks()]

    def answer(self, messages: Sequence[dict[str, str]]) -> str:
        """Say the next thing."""
        if any(message["role"] == "assistant" for message in messages):
            return STOP
        system = messages[0]["content"]
        found = [index for index, text in enumerate(self._tasks) if text in system]
        # Where one instruction is a part of another, the longer one was meant.
        index = max(found, key=lambda one: len(self._tasks[one]), default=0)
        return f"Hello, I am customer number {index}."


async def serve_role(role: str) -> None:
    """Serve until killed; the first line printed is the port."""
    model = Policy() if role == "policy" else Customer()

    def reply(head: bytes, body: bytes) -> tuple[float, Callable[[], bytes]]:
        del head
        text = model.answer(orjson.loads(body)["messages"])
        return LATENCY_S, lambda: completion(text, tokens=(5_000, 40))

    await serve(reply)


# --- the ideal ----------------------------------------------------------------------------------


def chains(trials: int) -> list[int]:
    """Return the requests of each episode, in the order of the specs: all tasks, then again."""
    # The user opens and hangs up; between, the agent takes its turns.
    return [2 + len(gold_turns(task)) for task in test_tasks()] * trials


def greedy_makespan(lengths: Sequence[int], slots: int) -> float:
    """Return when the last chain ends if each takes the first slot that is free, in seconds."""
    free_at = [0.0] * slots
    for length in lengths:
        heapq.heapreplace(free_at, free_at[0] + length * LATENCY_S)
    return max(free_at)


# --- the peer -----------------------------------------------------------------------------------


async def bare_s(url: str, lengths: Sequence[int], concurrent: int, cpu_s: float) -> float:
    """Play chains with no more than a connection needs, and return the seconds.

    Args:
        url: The server.
        lengths: Requests of each chain.
        concurrent: Chains at once.
        cpu_s: CPU seconds that a request is to cost, what the connection needs included.
    """
    host, port = url.removeprefix("http://").removesuffix("/v1").split(":")
    messages = [
        {"role": role, "content": "You serve customers. " * 250} for role in ("system", "user")
    ]
    body = orjson.dumps({"model": "m", "messages": messages, "temperature": 0.0})
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}"
    request, left = head.encode() + b"\r\n\r\n" + body, iter(lengths)
    began, answered = process_time(), itertools.count(1)

    async def play() -> None:
        reader, writer = await asyncio.open_connection(host, int(port))
        for length in left:
            for _ in range(length):
                writer.write(request)
                answer = await reader.readuntil(b"\r\n\r\n")
                size = int(answer.split(b"Content-Length: ")[1].split(b"\r\n")[0])
                orjson.loads(await reader.readexactly(size))
                spent = began + next(answered) * cpu_s
                while process_time() < spent:
                    plain_work()
        writer.close()

    started = perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(concurrent):
            group.create_task(play())
    return perf_counter() - started


# --- the evaluation -----------------------------------------------------------------------------


def evaluate(policy: str, user: str, concurrent: int, trials: int) -> dict[str, Any]:
    """Run the evaluation in a new folder, and return what it took."""
    from skillwright.config.run import validated
    from skillwright.jobs.run import NullCallback
    from skillwright.jobs.text import EvalPlan, run_evaluation, start_run

    endpoint = {
        "backend": "openai_chat",
        "model": "m",
        "base_url": policy,
        "api_key": "sk-mock",
        # A server of one's own needs no crowd to be let in slowly.
        "start_concurrent": concurrent,
    }
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "run": {"name": "eval", "root": folder},
            "env": {
                "name": "tau_bench",
                "config": {"user_simulator_endpoint": user, "data_dir": str(tau_folder())},
            },
            "models": {"target": endpoint, "optimizer": endpoint},
            "rollout": {"max_concurrent": concurrent},
        }
        config, plan = validated(settings, "benchmark"), EvalPlan("test", trials)
        started, cpu = perf_counter(), process_time()
        with start_run(config, "", plan) as run:
            report = asyncio.run(run_evaluation(run, plan, NullCallback()))
        wall_s, cpu_s = perf_counter() - started, process_time() - cpu
    overall = report.table.overall
    return {
        "wall_s": wall_s,
        "cpu_s": cpu_s,
        "episodes": overall.episodes,
        "failures": overall.failures,
        "pass_k": report.pass_k,
        "requests": {name: spent.calls for name, spent in report.usage.items()},
    }


def main() -> int:
    """Measure, and print the checks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--concurrent", type=int, default=64)
    parser.add_argument("--trials", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--serve", choices=ROLES, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve:
        asyncio.run(serve_role(asked.serve))
        return 0
    os.environ.setdefault("OPENAI_API_KEY", "sk-mock")
    gc.set_threshold(*GC)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    lengths = chains(asked.trials)
    ideal_s = greedy_makespan(lengths, asked.concurrent)
    print(f"{len(lengths)} chains of {sum(lengths):,} requests, {asked.concurrent} at once")
    print(f"greedy scheduling without overhead: {ideal_s:.2f} s")
    readings: list[dict[str, Any]] = []
    bare: list[float] = []
    with ExitStack() as held:
        roles = [held.enter_context(served(__file__, "--serve", role)) for role in ROLES]
        policy, user = (f"{url}/v1" for url in roles)

        def once() -> float:
            readings.append(evaluate(policy, user, asked.concurrent, asked.trials))
            latest = readings[-1]
            cost_s = latest["cpu_s"] / sum(lengths)
            bare.append(asyncio.run(bare_s(policy, lengths, asked.concurrent, cost_s)))
            print(f"  {latest['wall_s']:.2f} s, bare {bare[-1]:.2f} s, CPU {latest['cpu_s']:.2f} s")
            return cost_s

        work = compared(once, asked.repeats, long_plain_s)
    walls = [reading["wall_s"] for reading in readings]
    solved = min(chance for reading in readings for chance in reading["pass_k"])
    played = min(reading["episodes"] for reading in readings) / len(lengths)
    checks = [
        at_most("wall time, to a bare client's", Kind.PEER, ratios_of(walls, bare), WALL_TO_BARE),
        at_most("CPU time per request", Kind.PLAIN, work, WORK_PER_REQUEST),
        at_least("episodes that were scored", Kind.SHARE, [played], 1.0),
        at_least("episodes won", Kind.SHARE, [solved], 1.0),
    ]
    return report(
        checks,
        chains=len(lengths),
        requests=sum(lengths),
        concurrent=asked.concurrent,
        greedy_s=round(ideal_s, 3),
        wall_s=[round(wall, 3) for wall in walls],
        cpu_s=[round(reading["cpu_s"], 3) for reading in readings],
        to_greedy=[round(wall / ideal_s, 3) for wall in walls],
        requests_counted=readings[-1]["requests"],
    )


if __name__ == "__main__":
    sys.exit(main())
