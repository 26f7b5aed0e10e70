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
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import orjson
from job import chance, prose

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measuring.endpoint import completion, serve

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

    @property
    def asked(self) -> int:
        """How many requests came."""
        return self._asked.total()

    def reply(self, head: bytes, body: bytes) -> tuple[float, Callable[[], bytes]]:
        """Return the seconds to wait, and what answers then."""
        if head.startswith(b"GET /log"):
            log = {"asked": self.asked, "answered": self.log}
            return 0.0, lambda: orjson.dumps(log)
        arrived = perf_counter()
        asked = orjson.loads(body)
        system, user = (asked["messages"][index]["content"] for index in (0, -1))
        stage = STAGES.get(system.partition("\n")[0].strip(), "target")
        if stage == "target":
            subject = re.findall(r"Item (\S+)\.", user)[0]
            text = _letter(system, subject)
        else:
            subject, text = stage, _proposal(system, user)
        answer = completion(text, asked["model"])

        def send() -> bytes:
            self.log.append((stage, arrived, perf_counter()))
            return answer

        return self._latency_s(subject), send

    def _latency_s(self, subject: str) -> float:
        self._asked[subject] += 1
        rng = random.Random(chance(self._seed, subject, str(self._asked[subject])))
        return self._median_s * math.exp(self._sigma * rng.gauss(0.0, 1.0))


def _letter(system: str, item: str) -> str:
    """Answer right or wrong by the item and the number of edits in the skill, not their words.

    The sides word their edits differently; so they still take the same decisions.
    """
    return "AB"[chance(item, str(system.count("\n- "))) % 2]


def _proposal(system: str, asked: str) -> str:
    """Write one answer that has what any stage asks for: edits, their choice, and notes."""
    source = str(chance(system, asked))
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


if __name__ == "__main__":
    endpoint = Endpoint(float(sys.argv[1]), float(sys.argv[2]), sys.argv[3])
    asyncio.run(serve(endpoint.reply))
