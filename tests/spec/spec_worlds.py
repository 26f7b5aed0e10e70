"""What the tests of this folder play with: more models for the doors of `doors`, and set pairs."""

import json
import os
import sqlite3
import subprocess
import sys
import zlib
from contextlib import closing

from doors import Coach, Doors, doors_config
from fakes import make_episode
from skillwright.core import EnvError, Pair

STRICT = {"gate": {"kind": "strict"}}
SLOW, NOTES = "## Previous guidance\n", "## Previous notes\n"


class Ajar(Doors):
    """Doors that can be left ajar: a wrong door ends the episode with a reward of 0.3."""

    def step(self, action):
        if action.strip() == str(self.extras["door"]):
            return super().step(action)
        self.turns += 1
        return self.finish("It is only ajar.", reward=0.3)


class Jammed(Doors):
    """Doors of which some jam: no fault of whoever opens them."""

    def step(self, action):
        if self.extras.get("jams"):
            raise EnvError("it jams")
        return super().step(action)


class Telling(Doors):
    """Doors with a note behind them, which tells the key of the agent's endpoint."""

    def step(self, action):
        self.turns += 1
        return self.reply(f"It is locked. A note says {os.environ['OPENAI_API_KEY']}.")


class Elder(Coach):
    """A coach that answers every question: it epoch update, and puts anchors right.

    Args:
        plan: As in `Coach`.
        guidance: What it writes into the skill at an epoch's end.
        notes: What it writes for itself there.
        anchor: Where it finds that a lost edit belongs.
    """

    def __init__(self, plan, guidance="", *, notes="Say less.", anchor="", on_call=None):
        super().__init__(plan, on_call)
        self._guidance, self._notes, self._anchor = guidance, notes, anchor

    def _answer(self, user):
        if SLOW in user:
            return {"slow_update_content": self._guidance}
        if NOTES in user:
            return {"meta_skill_content": self._notes}
        if "nearest" in user and "## Edits\n" in user:
            edits = json.loads(user.split("## Edits\n")[1])
            return {"anchors": [{"id": edit["id"], "target": self._anchor} for edit in edits]}
        return super()._answer(user)

    def asked(self, words):
        """Return the questions that hold some words, in the order in which they came."""
        return [user for user, _ in self.calls if words in user]


class PowerCut(RuntimeError):
    """Nobody expects it."""


class CutAt(Elder):
    """Fails, as no endpoint does, at the first question that holds some words."""

    def __init__(self, plan, words, **more):
        super().__init__(plan, **more)
        self._words = words

    def _answer(self, user):
        if self._words in user:
            raise PowerCut(self._words)
        return super()._answer(user)


class SetDuel:
    """A duel whose rewards are set: (incumbent's, candidate's) by task; ``None`` is a Failure."""

    def __init__(self, rewards):
        self.drawn = []
        self._pairs = {
            f"t{number}": Pair(make_episode(f"t{number}", old), make_episode(f"t{number}", new))
            for number, (old, new) in enumerate(rewards)
        }

    @property
    def task_ids(self):
        return list(self._pairs)

    async def draw(self, task_ids, n):
        self.drawn.append(n)
        return [self._pairs[task_id] for task_id in task_ids for _ in range(n)]


def two_epochs(folder, epochs=2, **sections):
    """Return a run of 2 steps an epoch, with a epoch update on 5 tasks at its end."""
    sections["optimizer"] = {"slow_update_samples": 5, **sections.get("optimizer", {})}
    return doors_config(folder, train={"epochs": epochs, "batch_size": 6}, **sections)


def world(folder, name, **more):
    """Return the settings of an environment of this file, for tasks of `doors`."""
    data = {"kind": "split_dir", "path": str(folder / "tasks")}
    return {"name": f"{__file__}:{name}", "max_turns": 2, "data": data, **more}


def change_item(folder, number, **values):
    """Change an item of a split that is written already."""
    file = folder / "items.json"
    items = json.loads(file.read_text(encoding="utf-8"))
    items[number] |= values
    file.write_text(json.dumps(items), encoding="utf-8")


def everything_written(folder):
    """Return every text below a run's folder, those inside its database unpacked."""
    found = []
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            found.append(file.read_bytes().decode("utf-8", "replace"))
        if file.suffix == ".sqlite":
            with closing(sqlite3.connect(file)) as database:
                found += _cells(database)
    return found


def _cells(database):
    tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    for (table,) in tables:
        for row in database.execute(f'SELECT * FROM "{table}"'):
            for cell in row:
                yield _unpacked(cell) if isinstance(cell, bytes) else str(cell)


def _unpacked(cell):
    try:
        return zlib.decompress(cell).decode("utf-8", "replace")
    except zlib.error:
        return cell.decode("utf-8", "replace")


def python(*words, **variables):
    """Run Python in a process of its own, which finds what this one finds."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **variables}
    command = [sys.executable, *words]
    return subprocess.run(
        command, capture_output=True, encoding="utf-8", errors="replace", env=env, check=False
    )
