"""What a call to a model costs the caller: our client beside openai's and plain httpx.

The server is a process of its own on this machine that answers every chat completion alike, after
a latency, and costs some hundredths of a millisecond per request. Every reading is a fresh client
process; CPU time is that process's alone, imports and set-up not counted.

    64 in flight, 0 ms        CPU per request: what a call costs
    1,000 in flight, 500 ms   CPU per request, requests per second, and wall time by ideal (waves x
                              latency), with the opening of all connections in it

The targets are ratios to the peers, turn by turn: a busy machine is as busy for them. Milliseconds,
requests per second and the ratio to the ideal, which a slow machine misses for want of CPU time,
are printed for the reader.

    .venv/bin/python benchmarks/model_client.py [--repeats 5]

Ours is measured through `make_model`: limiter, pacer, circuit, retries, usage and prices included.
httpx only posts and parses. The peers are installed from PyPI into a virtual environment outside
this tree, once ($XDG_CACHE_HOME or ~/.cache). All clients run on asyncio's own event loop.
"""

import argparse
import asyncio
import gc
import json
import os
import subprocess
import sys
import time
import venv
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from measuring import Check, Kind, at_least, at_most, ratios_of, report
from measuring.endpoint import completion, serve, served

CPU_TO_OPENAI = {"64_at_0ms": 0.15, "1000_at_500ms": 0.09}
CPU_TO_HTTPX = {"64_at_0ms": 0.14, "1000_at_500ms": 0.02}
REQUESTS_TO_OPENAI = 3.5
BODY_CHARS = 6_000
KEY = "sk-benchmark"
GC = (10_000, 10, 10)
"""When Python collects garbage: as the command line sets it, and here for every client."""
PEERS = ("openai==3.52.0", "httpx==0.28.1")

Ask = Callable[[], Awaitable[str]]


@dataclass(frozen=True)
class Load:
    """How much is asked at once, and how long the server takes."""

    name: str  # what it is called in the result
    in_flight: int  # requests at a time
    latency_ms: float  # of every answer
    requests: dict[str, int]  # how many of them, by client; slow ones are asked for fewer


LOADS = (
    Load("64_at_0ms", 64, 0.0, {"ours": 6_400, "openai": 1_280, "httpx": 1_280}),
    Load("1000_at_500ms", 1_000, 500.0, {"ours": 20_000, "openai": 3_000, "httpx": 1_000}),
)

MESSAGES = [
    {"role": "system", "content": "You act in a house. " * (BODY_CHARS // 20)},
    {"role": "user", "content": "You are in the kitchen."},
]
ANSWER = completion("go to fridge 1", tokens=(1500, 5))


# --- the clients --------------------------------------------------------------------------------


async def make_ours(base_url: str, in_flight: int, held: AsyncExitStack) -> Ask:
    """Ask as a run does."""
    from skillwright.core import Purpose, Sampling
    from skillwright.models import HttpClient, OpenAIChatConfig, make_model

    client = await held.enter_async_context(HttpClient())
    # The whole load at once: how a bound rises to it is not what is measured here.
    bounds = {"max_concurrent": in_flight, "start_concurrent": in_flight}
    config = OpenAIChatConfig(model="m", base_url=base_url, api_key=KEY, **bounds)
    model = make_model(config, client)
    sampling = Sampling(temperature=0.0, seed=1)

    async def ask() -> str:
        answer = await model.complete(MESSAGES, sampling=sampling, purpose=Purpose.ROLLOUT)
        return answer.text

    return ask


async def make_openai(base_url: str, in_flight: int, held: AsyncExitStack) -> Ask:
    """Ask with OpenAI's own client as it comes; its pool takes 1,000."""
    from openai import AsyncOpenAI

    del in_flight
    client = await held.enter_async_context(AsyncOpenAI(base_url=base_url, api_key=KEY))

    async def ask() -> str:
        answer = await client.chat.completions.create(
            model="m", messages=MESSAGES, temperature=0.0, seed=1
        )
        return answer.choices[0].message.content

    return ask


async def make_httpx(base_url: str, in_flight: int, held: AsyncExitStack) -> Ask:
    """Post JSON with httpx and parse what comes back, no more."""
    import httpx

    limits = httpx.Limits(max_connections=in_flight, max_keepalive_connections=in_flight)
    client = await held.enter_async_context(httpx.AsyncClient(limits=limits, timeout=120))
    body = {"model": "m", "messages": MESSAGES, "temperature": 0.0, "seed": 1}

    async def ask() -> str:
        reply = await client.post(
            f"{base_url}/chat/completions", json=body, headers={"Authorization": f"Bearer {KEY}"}
        )
        return reply.json()["choices"][0]["message"]["content"]

    return ask


CLIENTS = {"ours": make_ours, "openai": make_openai, "httpx": make_httpx}


async def play(client: str, url: str, in_flight: int, requests: int) -> dict[str, float]:
    """Send the requests, ``in_flight`` at a time; return wall and CPU seconds."""
    async with AsyncExitStack() as held:
        ask = await CLIENTS[client](f"{url}/v1", in_flight, held)
        await ask()  # whatever is only loaded when it is used
        gc.set_threshold(*GC)
        left = iter(range(requests))

        async def work() -> None:
            for _ in left:
                if await ask() != "go to fridge 1":
                    raise AssertionError("another answer came")

        cpu, wall = time.process_time(), time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for _ in range(in_flight):
                group.create_task(work())
        return {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}


# --- the readings -------------------------------------------------------------------------------


@cache
def peers_python() -> Path:
    """Return the Python that has the peers; they are installed where they are not yet."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = home / "skillwright-benchmarks" / "-".join(PEERS).replace("==", "-")
    python, ready = folder / "bin" / "python", folder / "ready"
    if not ready.exists():
        venv.create(folder, with_pip=True, clear=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *PEERS], check=True)
        ready.touch()
    return python


def read(client: str, load: Load, url: str) -> dict[str, float]:
    """Take one reading in a fresh process."""
    requests = load.requests[client]
    python = sys.executable if client == "ours" else peers_python()
    command = [str(python), __file__, "--client", client, "--url", url]
    command += ["--in-flight", str(load.in_flight), "--requests", str(requests)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{client} failed:\n{done.stderr}")
    took = json.loads(done.stdout)
    ideal_s = requests / load.in_flight * load.latency_ms / 1000
    return {
        "cpu_ms": 1000 * took["cpu_s"] / requests,
        "requests_per_s": requests / took["wall_s"],
        **({"ratio": took["wall_s"] / ideal_s} if ideal_s else {}),
    }


def summed_up(readings: list[dict[str, float]]) -> dict[str, Any]:
    """Return the median and the spread of every figure."""
    found: dict[str, Any] = {}
    for name in readings[0]:
        values = [reading[name] for reading in readings]
        found[name] = round(median(values), 4)
        found[f"{name}_spread"] = [round(min(values), 4), round(max(values), 4)]
    return found


def measure(repeats: int) -> dict[str, dict[str, list[dict[str, float]]]]:
    """Take all readings, the clients by turns, so that a busy minute meets each of them."""
    taken: dict[str, dict[str, list[dict[str, float]]]] = {}
    for load in LOADS:
        readings: dict[str, list[dict[str, float]]] = {client: [] for client in CLIENTS}
        with served(__file__, "--serve", load.latency_ms) as url:
            read("ours", load, url)  # nobody is first with a cold machine
            for _ in range(repeats):
                for client in CLIENTS:
                    readings[client].append(read(client, load, url))
        for client, found in readings.items():
            figures = summed_up(found).items()
            shown = "  ".join(f"{k} {v}" for k, v in figures if not k.endswith("spread"))
            print(f"{load.name:>14}  {client:<7} {shown}", flush=True)
        taken[load.name] = readings
    return taken


def judged(taken: dict[str, dict[str, list[dict[str, float]]]]) -> list[Check]:
    """Hold our readings against those of the peers, turn by turn."""

    def ratio(load: str, client: str, figure: str) -> list[float]:
        ours, theirs = (
            [reading[figure] for reading in taken[load][name]] for name in ("ours", client)
        )
        return ratios_of(ours, theirs)

    checks = []
    for client, targets in (("openai", CPU_TO_OPENAI), ("httpx", CPU_TO_HTTPX)):
        for load, target in targets.items():
            name = f"CPU per request, {load.replace('_', ' ')}, to {client}'s"
            checks.append(at_most(name, Kind.PEER, ratio(load, client, "cpu_ms"), target))
    requests = ratio("1000_at_500ms", "openai", "requests_per_s")
    name = "requests per second, 1000 at 500ms, to openai's"
    return [*checks, at_least(name, Kind.PEER, requests, REQUESTS_TO_OPENAI)]


def main() -> int:
    """Play the part that the arguments name; without one, measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    for name in ("--serve", "--client", "--url", "--in-flight", "--requests"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve is not None:
        latency_s = float(asked.serve) / 1000
        asyncio.run(serve(lambda head, body: (latency_s, lambda: ANSWER)))
    elif asked.client is not None:
        load = asked.url, int(asked.in_flight), int(asked.requests)
        print(json.dumps(asyncio.run(play(asked.client, *load))))
    else:
        taken = measure(asked.repeats)
        figures = {
            load: {client: summed_up(readings) for client, readings in clients.items()}
            for load, clients in taken.items()
        }
        return report(judged(taken), figures=figures, peers=PEERS, cpus=os.cpu_count())
    return 0


if __name__ == "__main__":
    sys.exit(main())
