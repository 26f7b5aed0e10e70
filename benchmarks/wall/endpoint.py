"""A chat endpoint of its own process: it answers by content, after a latency, and keeps a log.

    python benchmarks/wall/endpoint.py 200 0.0 1     (median ms, sigma of the logarithm, seed)

The port is the first line that it prints; ``GET /log`` gives ``asked``, how many requests came, and
``answered``, a row per answer: stage, seconds of arrival and of answer on one clock. With a sigma
above 0 latencies are lognormal. They are drawn by what is asked, the n-th request about an item or
the n-th of a stage, so that two clients that send the same work meet the same slow calls.
"""

import asyncio
import json
import math
import random
import re
import sys
from collections import Counter
from time import perf_counter
from typing import Any

import orjson
from job import chance, prose

STAGES = {
    "# Analyst: failures": "analyst",
    "# Analyst: successes": "analyst",
    "# Merge: failures": "merge",
    "# Merge: successes": "merge",
    "# Merge: final": "merge_final",
    "# Rank edits": "ranking",
    "# Slow update": "slow_update",
    "# Meta skill": "meta_skill",
}
EDITS = 6


class Endpoint:
    """Answers and remembers.

    Args:
        median_ms: Of the latency.
        sigma: Of its logarithm; 0 makes every latency the median.
        seed: Of the draws.
    """

    def __init__(self, median_ms: float, sigma: float, seed: str) -> None:
        self.log: list[tuple[str, float, float]] = []
        self._median_s = median_ms / 1000
        self._sigma = sigma
        self._seed = seed
        self._asked: Counter[str] = Counter()

    def answer(self, body: bytes) -> tuple[str, float, bytes]:
        """Return the stage of a conversation, the seconds to wait, and what to say then."""
        asked = orjson.loads(body)
        told, user = (asked["messages"][index]["content"] for index in (0, -1))
        stage = STAGES.get(told.partition("\n")[0].strip(), "target")
        if stage == "target":
            subject = re.findall(r"Item (\S+)\.", user)[0]
            text = _letter(told, subject)
        else:
            subject, text = stage, _proposal(told, user)
        return stage, self._latency_s(subject), orjson.dumps(_completion(asked["model"], text))

    def told(self) -> dict[str, Any]:
        """Return the log as it is given out."""
        return {"asked": self._asked.total(), "answered": self.log}

    def _latency_s(self, subject: str) -> float:
        self._asked[subject] += 1
        luck = random.Random(chance(self._seed, subject, str(self._asked[subject])))
        return self._median_s * math.exp(self._sigma * luck.gauss(0.0, 1.0))


class Connection(asyncio.Protocol):
    """As much HTTP as clients need that send one request at a time; it costs next to nothing."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._received = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep where answers go."""
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        """Answer a request as soon as it is there as a whole."""
        self._received += data
        head, found, body = self._received.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
        if not found or len(body) < (int(length[1]) if length else 0):
            return
        self._received = b""
        if head.startswith(b"GET /log"):
            self._send(orjson.dumps(self._endpoint.told()))
            return
        arrived = perf_counter()
        stage, wait_s, answer = self._endpoint.answer(body)
        worked_s = perf_counter() - arrived
        later = asyncio.get_running_loop().call_later
        later(max(0.0, wait_s - worked_s), self._answer, stage, arrived, answer)

    def _answer(self, stage: str, arrived: float, body: bytes) -> None:
        self._endpoint.log.append((stage, arrived, perf_counter()))
        self._send(body)

    def _send(self, body: bytes) -> None:
        head = (
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        if self._transport is not None:
            self._transport.write(head.encode() + body)


def _letter(told: str, item: str) -> str:
    """Answer right or wrong by the item and the number of edits in the skill, not their words.

    The sides word their edits differently; so they still take the same decisions.
    """
    return "AB"[chance(item, str(told.count("\n- "))) % 2]


def _proposal(told: str, asked: str) -> str:
    """Write one answer that has what any stage asks for: edits, their choice, and notes."""
    source = str(chance(told, asked))
    edits = [
        {
            "op": "append",
            "target": "",
            "content": f"- {prose(f'{source} {number}', 20)}.",
            "sources": [f"p1.e{number % 4 + 1}", "p2.e1"],
        }
        for number in range(EDITS)
    ]
    return json.dumps(
        {
            "reasoning": prose(source, 30),
            "patch": {"reasoning": prose(source, 10), "edits": edits},
            "edits": edits,
            "selected_indices": list(range(EDITS)),
            "slow_update_content": prose(f"{source} slow", 40),
            "meta_skill_content": prose(f"{source} meta", 40),
        }
    )


def _completion(model: str, text: str) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": text},
            }
        ],
        "usage": {"prompt_tokens": 500, "completion_tokens": 50, "total_tokens": 550},
    }


async def serve(median_ms: float, sigma: float, seed: str) -> None:
    """Serve on a free port until the process is ended."""
    endpoint = Endpoint(median_ms, sigma, seed)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(endpoint), "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1]), float(sys.argv[2]), sys.argv[3]))
