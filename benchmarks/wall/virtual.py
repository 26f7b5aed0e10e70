"""Our side of the job where only waiting takes time: `virtual.py SIGMA SEED [hedge]`.

The event loop's clock jumps to the next timer whenever nothing is left to do, and the endpoint is
asked without a network. So the seconds are those of the answers that had to be waited for, to the
last digit the same on any machine, however busy. The last line is a JSON object.
"""

import asyncio
import json
import selectors
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import job
import ours
from endpoint import Endpoint

from skillwright.config.run import validated
from skillwright.jobs.run import NullCallback
from skillwright.jobs.text import run_training, start_run
from skillwright.models import HttpClient, dialect_of
from skillwright.models.http.client import HttpReply
from skillwright.models.http.endpoint import EndpointModel

NOWHERE = "http://127.0.0.1:1/v1"
MEDIAN_MS = 200.0


class Jump(selectors.DefaultSelector):
    """Waits for nothing: what is not ready now is due later, and the clock goes there."""

    now_s = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        """Return what is ready, or let the time pass."""
        found = super().select(0)
        if not found:
            self.now_s += timeout or 0.0
        return found


class Loop(asyncio.SelectorEventLoop):
    """A loop on the clock of a `Jump`."""

    def __init__(self) -> None:
        self.jump = Jump()
        super().__init__(self.jump)
        self._clock_resolution = 1e-9  # a timer due within so much is due now

    def time(self) -> float:
        """Return the seconds that were jumped over."""
        return self.jump.now_s


class Client(HttpClient):
    """Asks an endpoint in this process."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__()
        self._endpoint = endpoint

    async def post_json(
        self, url: str, body: bytes, *, headers: Mapping[str, str], timeout_s: float
    ) -> HttpReply:
        """Answer after the latency."""
        del headers, timeout_s
        latency_s, answer = self._endpoint.reply(b"POST /", body)
        await asyncio.sleep(latency_s)
        return HttpReply(url, 200, {}, json.loads(answer()))


async def train(sigma: float, seed: str, *options: str) -> dict[str, Any]:
    """Train once, and say how long it waited."""
    endpoint, loop = Endpoint(MEDIAN_MS, sigma, seed), asyncio.get_running_loop()
    client = Client(endpoint)
    with tempfile.TemporaryDirectory() as folder:
        job.write_items(Path(folder) / "tasks")
        settings = ours.settings(NOWHERE, f"{folder}/tasks", f"{folder}/out", *options)

        def make(config: Any, _: HttpClient) -> EndpointModel:
            return EndpointModel(dialect_of(config), client, clock=loop.time)

        with start_run(validated(settings, "wall"), "") as run:
            report = await run_training(run, NullCallback(), make)
    return {
        "waited_s": loop.time(),
        "asked": endpoint.asked,
        "actions": [step.action for step in report.state.steps],
        "skills": [report.best_skill, report.final_skill],
    }


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=Loop) as runner:
        print(json.dumps(runner.run(train(float(sys.argv[1]), *sys.argv[2:]))))
