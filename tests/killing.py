"""Kills runs at chosen moments, and looks at what they kept; needs signals that Windows lacks.

A moment is a number of requests that the endpoint has seen, so nothing here knows of a clock.

    with executioner(plan) as (server, killer):
        run = KilledRun(folder, server, killer)
        die_often(run, 20, random.Random(7), longest=30)
        run.lost, run.repeated  # finished episodes that are gone, stored answers asked again
"""

import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from doors import Coach, Walker, doors_config, look
from mock_openai import Answer, MockOpenAI, answer_with
from served import served
from skillwright.config import RunConfig, dump_config
from skillwright.config.run import validated
from skillwright.core.jsonio import digest

COMMAND = Path(sys.executable).with_name("skillwright")
Question = tuple[str, str, int | None]
"""Which model, the digest of what it was told, and the seed; an optimizer's store keeps no seed."""


class Executioner:
    """A handler that counts the requests, and kills a process when it has seen enough."""

    def __init__(self, llms: Mapping[str, Any]) -> None:
        self.asked: list[Question] = []
        self._answer = answer_with(llms)
        self._lock = threading.Lock()
        self._victim: subprocess.Popen[str] | None = None
        self._left = 0

    async def __call__(self, body: dict[str, Any]) -> Answer:
        """Answer, unless this is the request that the client shall not survive."""
        self.asked.append(question_of(body))
        with self._lock:
            self._left -= 1
            if self._left == 0 and self._victim is not None:
                self._victim.send_signal(signal.SIGKILL)
        if len(body["messages"]) == 1:
            return "ready"  # the small question that every start begins with
        return await self._answer(body)

    def start(self, words: list[str], after: int | None, env: Mapping[str, str]) -> int:
        """Run a command, kill it at its ``after``-th request, and return its exit code."""
        with self._lock:
            self._victim, self._left = None, after or 0
            process = self._victim = subprocess.Popen(
                words,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, **env},
            )
        _, errors = process.communicate()
        with self._lock:
            self._victim = None
        assert process.returncode in (0, -signal.SIGKILL), errors
        return process.returncode


def question_of(body: Mapping[str, Any]) -> Question:
    """Say what a request asks."""
    seed = body.get("seed") if body["model"] == "walker" else None
    return body["model"], digest(body["messages"]), seed


@contextmanager
def executioner(plan: list[Any]) -> Iterator[tuple[MockOpenAI, Executioner]]:
    """Serve the models of `doors` over HTTP, with somebody who kills their clients."""
    handler = Executioner({"walker": Walker(), "coach": Coach(plan)})
    with served(handler) as server:
        yield server, handler


def behind(server: MockOpenAI, config: RunConfig, concurrent: int = 4) -> RunConfig:
    """Return a configuration whose models are the server's, few calls in flight at once."""
    endpoint = {
        "backend": "openai_chat",
        "base_url": server.base_url,
        "api_key_env": "DOORS_KEY",
        "max_concurrent": concurrent,
    }
    settings = config.model_dump(mode="json")
    settings["models"] = {
        "target": {**endpoint, "model": "walker"},
        "optimizer": {**endpoint, "model": "coach"},
    }
    return validated(settings, "killed")


class KilledRun:
    """A training run in processes that are killed, one after the other, until one comes through.

    Args:
        folder: An empty folder of its own.
        server: Where its models are.
        killer: Its handler.
        settings: Sections of the configuration, as for `doors_config`.

    Attributes:
        path: The run's folder.
        kills: Processes that were killed so far.
        lost: Finished episodes that a store once had and later had no more.
        repeated: Questions that were asked again although the store had the answer.
        phases: How many kills left an episode of each phase as the latest stored one.
    """

    def __init__(
        self, folder: Path, server: MockOpenAI, killer: Executioner, **settings: dict[str, Any]
    ) -> None:
        config = behind(server, doors_config(folder, **settings))
        self.path = Path(config.run.root) / config.run.name
        self.kills = 0
        self.lost: set[int] = set()
        self.repeated: set[Question] = set()
        self.phases = Counter[str]()
        self._file = folder / "doors.yaml"
        self._file.write_text(dump_config(config), encoding="utf-8")
        self._killer = killer
        self._env = {"DOORS_KEY": server.api_key or ""}
        self._finished: set[int] = set()

    def live(self, after: int | None = None) -> bool:
        """Begin or resume until the ``after``-th request, or to the end; say whether it is done."""
        known, seen = self.answered(), len(self._killer.asked)
        begun = (self.path / "config.yaml").is_file()
        words = ["resume", str(self.path)] if begun else ["train", str(self._file)]
        code = self._killer.start([str(COMMAND), *words], after, self._env)
        self.repeated |= known & set(self._killer.asked[seen:])
        finished = self.finished()
        self.lost |= self._finished - finished
        self._finished |= finished
        self.kills += code != 0
        if code:
            self.phases[self._latest_phase()] += 1
        return code == 0

    def finished(self) -> set[int]:
        """Return the episodes that the store has results for."""
        if not (self.path / "run.sqlite").is_file():
            return set()
        with look(self.path) as store:
            return {episode.id for episode in store.episodes() if episode.failure is None}

    def _latest_phase(self) -> str:
        if not (self.path / "run.sqlite").is_file():
            return "none"
        with look(self.path) as store:
            latest = max(store.episodes(), key=lambda one: one.id, default=None)
            return latest.phase if latest else "none"

    def answered(self) -> set[Question]:
        """Return the questions that the store has answers for."""
        if not (self.path / "run.sqlite").is_file():
            return set()
        with look(self.path) as store:
            turns = [
                ("walker", digest(list(turn.prompt)), turn.seed)
                for episode in self.finished()
                for turn in store.load_episode(episode).trajectory.turns
            ]
            return {*turns, *(("coach", call.prompt_digest, None) for call in store.calls())}


def die_often(run: KilledRun, kills: int, rng: random.Random, longest: int) -> None:
    """Kill a run so often, at random moments, and let it come to its end; it may be done before.

    Args:
        run: It has not begun.
        kills: How often at most.
        luck: Draws the moments.
        longest: Most requests in a life.
    """
    while not run.live(rng.randint(1, longest) if run.kills < kills else None):
        pass
