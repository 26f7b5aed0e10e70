"""What `skillwright serve --upstream` costs: CPU per request, beside proxies that only forward.

The endpoint, each proxy and the client are processes of their own on this machine. The client plays
conversations of ten requests, as an agent does: a system text of 6,000 characters, and with every
request an answer and a result more. The CPU time is the proxy's alone.

    forward     a bare forwarder on aiohttp, the stack that ours is on
    starlette   a bare forwarder on starlette and uvicorn, with aiohttp's client
    plain       ours, with nothing to do: no skills, --no-record
    all         ours, with a skill document, the seed bank of ALFWorld, and everything recorded and
                judged: what is stored is in its CPU time

Whole answers, and streams of 50 pieces of which the second half comes 20 ms after the first. What
ours adds is set against plain work: two pieces are a millisecond where one takes the 0.5 ms that
it took on a quiet machine (RESULTS.md).

    .venv/bin/python benchmarks/serve_proxy.py [--repeats 5] [--connections 10000]

``--connections`` opens so many at once, idle, and says what becomes of them; nothing of it decides.
"""

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import aiohttp
from aiohttp import web

from measuring import Check, Kind, at_most, plain_s, ratios_of, report

CONVERSATIONS, REQUESTS, IN_FLIGHT = 40, 10, 8
PIECES, PAUSE_S = 50, 0.02
ADDED = {"whole": 2.0, "streamed": 2.0}
TO_FORWARD = {"whole": 5.0, "streamed": 5.0}
FIRST_BY_LAST = 0.8
KEY = "benchmark-key-0123456789"
SKILL = "Look before you act. " * 40


# --- the endpoint, and the bare forwarders --------------------------------------------------------


def piece(text: str, finish: str | None = None) -> bytes:
    """Return an event of a stream."""
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    event = {"id": "1", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(event).encode() + b"\n\n"


async def endpoint(request: web.BaseRequest) -> web.StreamResponse:
    """Answer every conversation alike."""
    body = json.loads(await request.content.read())
    if not body.get("stream"):
        message = {"role": "assistant", "content": "go to fridge 1"}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        usage = {"prompt_tokens": 1500, "completion_tokens": 5}
        return web.json_response({"model": "m", "choices": [choice], "usage": usage})
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for number in range(PIECES):
        if number == PIECES // 2:
            await asyncio.sleep(PAUSE_S)
        last = number == PIECES - 1
        await response.write(piece(f"word{number} ", "stop" if last else None))
        await asyncio.sleep(0)
    await response.write(b"data: [DONE]\n\n")
    return response


def forwarder(session: aiohttp.ClientSession, upstream: str) -> Any:
    """Return a handler that does nothing but forward."""

    async def forward(request: web.BaseRequest) -> web.StreamResponse:
        kept = {n: v for n, v in request.headers.items() if n not in ("Host", "Content-Length")}
        body, url = await request.content.read(), upstream + request.raw_path
        async with session.request(request.method, url, data=body, headers=kept) as answer:
            own = {"Content-Type": answer.headers["Content-Type"]}
            response = web.StreamResponse(status=answer.status, headers=own)
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            return response

    return forward


async def serve_aiohttp(upstream: str) -> None:
    """Serve on a free port, which is the first line printed."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        handler = forwarder(session, upstream) if upstream else endpoint
        server = web.Server(handler, access_log=None)
        listener = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
        print(listener.sockets[0].getsockname()[1], flush=True)
        await listener.serve_forever()


async def serve_starlette(upstream: str) -> None:
    """Serve the same on starlette and uvicorn."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import StreamingResponse
    from starlette.routing import Route

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def forward(request: Request) -> StreamingResponse:
            kept = {n: v for n, v in request.headers.items() if n not in ("host", "content-length")}
            url = upstream + request.url.path
            asked = session.request(request.method, url, data=await request.body(), headers=kept)
            answer = await asked.__aenter__()

            async def chunks() -> Any:
                async for chunk in answer.content.iter_any():
                    yield chunk
                answer.release()

            kind = answer.headers["Content-Type"]
            return StreamingResponse(chunks(), status_code=answer.status, media_type=kind)

        app = Starlette(routes=[Route("/{path:path}", forward, methods=["POST"])])
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False))
        from skillwright.core.loopback import bound_socket

        bound = bound_socket(0)
        print(bound.getsockname()[1], flush=True)
        await server.serve([bound])


# --- the client -----------------------------------------------------------------------------------


class Played:
    """What a client saw: how early first pieces came, by when the last did."""

    def __init__(self) -> None:
        self.first_by_last: list[float] = []


async def converse(
    session: aiohttp.ClientSession, url: str, name: str, played: Played, *, streamed: bool
) -> None:
    """Play one conversation, and judge it where that is taken."""
    talk: list[dict[str, str]] = [
        {"role": "system", "content": "You act in a house. " * 300},
        {"role": "user", "content": f"Put a clean mug on desk {name}. " + "You see a room. " * 20},
    ]
    for _ in range(REQUESTS):
        body = {"model": "m", "messages": talk, "stream": streamed}
        start = time.perf_counter()
        async with session.post(f"{url}/v1/chat/completions", json=body) as answer:
            if answer.status != 200:
                raise SystemExit(f"status {answer.status}: {await answer.text()}")
            chunks, times = [], []
            async for chunk in answer.content.iter_any():
                chunks.append(chunk)
                times.append(time.perf_counter() - start)
        if streamed:
            played.first_by_last.append(times[0] / times[-1])
            said = "".join(f"word{number} " for number in range(PIECES))
        else:
            said = json.loads(b"".join(chunks))["choices"][0]["message"]["content"]
        talk += [
            {"role": "assistant", "content": said},
            {"role": "user", "content": "Result. " * 60},
        ]


async def play(url: str, *, streamed: bool, judged: bool) -> Played:
    """Play all conversations, some at a time."""
    played, left = Played(), iter(range(CONVERSATIONS))
    headers = {"Authorization": f"Bearer {KEY}"}
    async with aiohttp.ClientSession(headers=headers) as session:

        async def work() -> None:
            for number in left:
                await converse(session, url, str(number), played, streamed=streamed)
                if judged:
                    async with session.post(f"{url}/v1/feedback", json={"reward": 1}) as answer:
                        await answer.read()

        async with asyncio.TaskGroup() as group:
            for _ in range(IN_FLIGHT):
                group.create_task(work())
    return played


def cpu_of(pid: int) -> float:
    """Return the CPU seconds that a process took so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    """Return the memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


# --- the readings ---------------------------------------------------------------------------------


@contextmanager
def started(words: list[str], **environ: str) -> Iterator[tuple[str, int]]:
    """Start a process that prints a port or an address; give the address and the process."""
    settings = {**os.environ, **environ}
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=settings)
    try:
        assert process.stdout is not None
        said = process.stdout.readline().strip()
        address = said.partition("=")[2].removesuffix("/v1") or f"http://127.0.0.1:{said}"
        yield address, process.pid
    finally:
        process.kill()
        process.wait()


def proxies(upstream: str, folder: Path, held: ExitStack) -> dict[str, tuple[str, int]]:
    """Start every proxy."""
    (folder / "skill.md").write_text(SKILL, encoding="utf-8")
    bare = [sys.executable, __file__, "--upstream", upstream, "--serve"]
    ours = [sys.executable, "-m", "skillwright", "serve", "--upstream", upstream]
    ours += ["--key-env", "BENCHMARK_KEY", "--root", str(folder / "runs")]
    injects = ["--skill", str(folder / "skill.md"), "--bank", "seed:alfworld", "--env", "alfworld"]
    return {
        "forward": held.enter_context(started([*bare, "aiohttp"])),
        "starlette": held.enter_context(started([*bare, "starlette"])),
        "plain": held.enter_context(started([*ours, "--no-record"], BENCHMARK_KEY=KEY)),
        "all": held.enter_context(started([*ours, *injects], BENCHMARK_KEY=KEY)),
    }


def measure(repeats: int, connections: int) -> tuple[list[Check], dict[str, Any]]:
    """Take all readings, the proxies by turns."""
    cpu: dict[str, dict[str, list[float]]] = {kind: {} for kind in ADDED}
    plain, early = [], []
    with tempfile.TemporaryDirectory() as folder, ExitStack() as held:
        upstream, _ = held.enter_context(started([sys.executable, __file__, "--serve", "aiohttp"]))
        found = proxies(upstream, Path(folder), held)
        for turn in range(repeats + 1):
            for kind in ADDED:
                for name, (url, pid) in found.items():
                    before = cpu_of(pid)
                    asked = {"streamed": kind == "streamed", "judged": name == "all"}
                    played = asyncio.run(play(url, **asked))
                    took = (cpu_of(pid) - before) / (CONVERSATIONS * REQUESTS)
                    if turn:  # nobody is first with a cold machine
                        cpu[kind].setdefault(name, []).append(took)
                        early += played.first_by_last if name == "all" else []
            plain.append(plain_s())
        opened = asyncio.run(open_many(found["all"], connections)) if connections else {}
    checks = []
    unit = median(plain)
    for kind, taken in cpu.items():
        added = [one - other for one, other in zip(taken["all"], taken["forward"], strict=True)]
        units = [more / unit for more in added]
        name = f"CPU that ours adds to a request with everything on, {kind}"
        checks.append(at_most(name, Kind.PLAIN, units, ADDED[kind]))
        ratios = ratios_of(taken["all"], taken["forward"])
        name = f"CPU per request with everything on, {kind}, to a bare forwarder's"
        checks.append(at_most(name, Kind.PEER, ratios, TO_FORWARD[kind]))
    name = "first piece of a stream, by when its last came"
    checks.append(at_most(name, Kind.SHARE, early, FIRST_BY_LAST))
    figures = {
        f"{kind} {name}": [round(1000 * one, 3) for one in (median(all_), min(all_), max(all_))]
        for kind, taken in cpu.items()
        for name, all_ in taken.items()
    }
    return checks, {"cpu_ms_per_request": figures, "plain_ms": 1000 * unit, **opened}


async def open_many(proxy: tuple[str, int], count: int) -> dict[str, Any]:
    """Open connections that ask nothing; say how many stay, and whether one more is answered."""
    url, pid = proxy
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, count + 1_000), hard))
    port, before = int(url.rpartition(":")[2]), resident_mb(pid)
    held, away = [], 0
    for _ in range(count):
        held.append(await asyncio.open_connection("127.0.0.1", port))
    for reader, _ in held:
        try:
            async with asyncio.timeout(0.001):
                away += (await reader.read(12)) == b"HTTP/1.1 503"
        except (TimeoutError, ConnectionError):
            pass
    grown = resident_mb(pid) - before
    for _, writer in held:
        writer.close()
    await asyncio.sleep(1)
    await play(url, streamed=False, judged=False)  # ends the program where one is not answered
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return {"connections": {"opened": count, "sent_away": away, "grown_mb": round(grown, 1)}}


def main() -> int:
    """Play the part that the arguments name; without one, measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--connections", type=int, default=0)
    parser.add_argument("--serve", choices=("aiohttp", "starlette"), help=argparse.SUPPRESS)
    parser.add_argument("--upstream", default="", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve == "aiohttp":
        asyncio.run(serve_aiohttp(asked.upstream))
    elif asked.serve == "starlette":
        asyncio.run(serve_starlette(asked.upstream))
    else:
        checks, figures = measure(asked.repeats, asked.connections)
        return report(checks, **figures, cpus=os.cpu_count())
    return 0


if __name__ == "__main__":
    sys.exit(main())
