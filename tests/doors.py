"""A tiny world with models to match: a whole training run takes a tenth of a second.

Every task is a room with a door to find. `Walker` takes the door that its skill names for the room
and otherwise guesses; `Coach` proposes what it was told to propose. Both look at the text of their
messages and at the seed only, so they answer alike in this process and behind HTTP.

    skill = rule("attic")                      # "In the attic take door 4."
    config = doors_config(tmp_path)            # 12 train, 24 val, 12 test tasks, 2 steps
    path, report = await trained(config, Walker(), Coach([[ALL_RULES], ["Be quick."]]))
    story(path)                                # everything that must not depend on time
"""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from skillwright.config import RunConfig
from skillwright.config.run import validated
from skillwright.core import Completion, Message, Purpose, Sampling, Usage
from skillwright.core.seeds import derive_seed
from skillwright.envs import TextEnv
from skillwright.jobs.run import Callback, MakeModel, NullCallback
from skillwright.jobs.text import (
    EvalPlan,
    EvalReport,
    Kind,
    TrainReport,
    open_run,
    run_evaluation,
    run_training,
    start_run,
)
from skillwright.runs import RunStore

ROOMS = {"attic": 4, "cellar": 2, "hall": 6}
DOORS = range(1, 7)


def rule(room: str, door: int | None = None) -> str:
    """Say which door of a room to take; by default the right one."""
    return f"In the {room} take door {door or ROOMS[room]}."


ALL_RULES = "\n".join(map(rule, ROOMS))
ALL_WRONG = "\n".join(rule(room, 9) for room in ROOMS)
NOTES = "Rules that name a door are followed."
SLOW, META = "## Previous guidance\n", "## Previous notes\n"


class Doors(TextEnv):
    """One room; the reward is 1 for its door, which its extras know."""

    def init(self, prompt):
        text = f"You are in the {self.extras['room']}. There are doors 1 to 6."
        opening = [
            {"role": "system", "content": "Answer with the number of a door."},
            {"role": "user", "content": text},
        ]
        return [*prompt, *opening], {"observation": text}

    def step(self, action):
        self.turns += 1
        if action.strip() == str(self.extras["door"]):
            return self.finish("It opens.", reward=1.0)
        return self.reply("It is locked.")


class Walker:
    """Takes the door that the skill names for the room, or any.

    Args:
        on_call: Called with the number of every call, from 1, before it is answered; what it
            raises is what the endpoint does.
    """

    identity = "scripted:walker"

    def __init__(self, on_call: Callable[[int], None] | None = None) -> None:
        self.calls: list[tuple[str, int]] = []
        self._on_call = on_call or (lambda number: None)

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] = (),
        sampling: Sampling = Sampling(),
        purpose: Purpose,
    ) -> Completion:
        del tools, purpose
        said = "\n".join(message["content"] for message in messages)
        self.calls.append((said, sampling.seed or 0))
        self._on_call(len(self.calls))
        found = re.search(r"You are in the (\w+)\.", said)
        if found is None:
            return Completion("ready")
        room = found[1]
        rules = re.findall(rf"In the {room} take door (\d+)\.", messages[0]["content"])
        door = rules[-1] if rules else 1 + derive_seed("guess", sampling.seed or 0) % len(DOORS)
        return Completion(str(door), usage=Usage(calls=1, input_tokens=9, output_tokens=1))


class Coach:
    """Proposes, step by step, the texts that it was given, each as an edit that appends it.

    Args:
        plan: One list of texts (or of whole edits) per step; after the last, nothing.
        on_call: As in `Walker`.
    """

    identity = "scripted:coach"

    def __init__(
        self,
        plan: Sequence[Sequence[str | dict[str, str]]],
        on_call: Callable[[int], None] | None = None,
    ) -> None:
        self.calls: list[tuple[str, int]] = []
        self._plan = plan
        self._on_call = on_call or (lambda number: None)

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] = (),
        sampling: Sampling = Sampling(),
        purpose: Purpose,
    ) -> Completion:
        del tools, purpose
        user = messages[1]["content"]
        self.calls.append((user, sampling.seed or 0))
        self._on_call(len(self.calls))
        return Completion(json.dumps(self._answer(user)))

    def _answer(self, user: str) -> dict[str, Any]:
        if "## Trajectories" in user:
            step = len(re.findall(r"^Step \d+:", user, re.MULTILINE))
            wanted = self._plan[step] if step < len(self._plan) else []
            edits = [{"op": "append", "content": x} if isinstance(x, str) else x for x in wanted]
            return {"patch": {"edits": edits}}
        if "## Patches" in user:
            patches = json.loads(user.split("## Patches\n")[1])
            merged: dict[str, dict[str, Any]] = {}
            for edit in (edit for patch in patches for edit in patch["edits"]):
                fields = {name: edit[name] for name in ("op", "target", "content")}
                merged.setdefault(json.dumps(fields), {**fields, "sources": []})
                merged[json.dumps(fields)]["sources"].append(edit["id"])
            return {"edits": list(merged.values())}
        return {"selected_indices": list(range(9))}


class Veteran(Coach):
    """A coach that also epoch update: it writes the guidance and the notes that it was told to.

    Args:
        plan: As in `Coach`.
        guidance: What is in the skill after an epoch.
        fault: Heading of the question that is not answered -> what is raised instead.
    """

    def __init__(self, plan, guidance="", fault=None):
        super().__init__(plan)
        self._guidance = guidance
        self._fault = fault or {}

    def _answer(self, user):
        for heading, error in self._fault.items():
            if heading in user:
                raise error
        if SLOW in user:
            return {"slow_update_content": self._guidance}
        if META in user:
            return {"meta_skill_content": NOTES}
        return super()._answer(user)

    def asked(self, heading):
        return [user for user, _ in self.calls if heading in user]


class Reminder(Coach):
    """A coach whose analysts also note what the agent is to be reminded of."""

    def __init__(self, plan, *notes):
        super().__init__(plan)
        self._notes = list(notes)

    def _answer(self, user):
        answer = super()._answer(user)
        if "patch" in answer:
            answer["appendix_notes"] = self._notes
        return answer


class Notebook:
    """Watches a run, and keeps what it saw."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def on_event(self, event: Any) -> None:
        self.events.append(event)

    def of(self, kind: type) -> list[Any]:
        """Return the events of a kind, in order."""
        return [event for event in self.events if isinstance(event, kind)]


def write_tasks(folder: Path, train: int = 12, val: int = 24, test: int = 12) -> Path:
    """Write tasks as a folder that is split already; the rooms take turns."""
    for split, count in {"train": train, "val": val, "test": test}.items():
        items = [
            {
                "id": f"{split}-{index:02d}",
                "task_type": room,
                "room": room,
                "door": ROOMS[room],
                "visit": f"{split} {index}",  # no task repeats one of another split
            }
            for index, room in ((index, list(ROOMS)[index % len(ROOMS)]) for index in range(count))
        ]
        (folder / split).mkdir(parents=True, exist_ok=True)
        (folder / split / "items.json").write_text(json.dumps(items), encoding="utf-8")
    return folder


def doors_settings(folder: Path) -> dict[str, Any]:
    """Return settings of a run in a folder: tasks are written there, runs are kept there."""
    if not (folder / "tasks").is_dir():
        write_tasks(folder / "tasks")
    return {
        "run": {"name": "doors", "root": str(folder / "runs")},
        "env": {
            "name": f"{__file__}:Doors",
            "max_turns": 2,
            "data": {"kind": "split_dir", "path": str(folder / "tasks")},
        },
        "models": {
            "target": {"backend": "scripted", "model": "household"},
            "optimizer": {"backend": "scripted", "model": "analyst"},
        },
        "train": {"epochs": 1, "batch_size": 6},
        "gradient": {"minibatch_size": 3},
    }


def doors_config(folder: Path, **sections: dict[str, Any]) -> RunConfig:
    """Return the configuration of a run, some keys of its sections changed."""
    settings = doors_settings(folder)
    for name, values in sections.items():
        settings[name] = {**settings.get(name, {}), **values}
    return validated(settings, "doors")


def llms(target: Any, optimizer: Any = None) -> MakeModel:
    """Make these models, whatever the configuration names."""
    return lambda config, client: optimizer if config.model == "analyst" else target


async def trained(
    config: RunConfig,
    target: Any,
    optimizer: Any,
    *,
    skill: str = "",
    callback: Callback | None = None,
) -> tuple[Path, TrainReport]:
    """Train in a new run; return its folder and the report."""
    with start_run(config, skill) as run:
        made = llms(target, optimizer)
        return run.folder.path, await run_training(run, callback or NullCallback(), made)


async def resumed(path: Path, target: Any, optimizer: Any, *overrides: str) -> TrainReport:
    """Continue with a training run, under other budgets if ``overrides`` say so."""
    with open_run(path, overrides=overrides) as run:
        return await run_training(run, NullCallback(), llms(target, optimizer))


async def evaluated(
    config: RunConfig, plan: EvalPlan, target: Any, *, skill: str = ""
) -> tuple[Path, EvalReport]:
    """Evaluate in a new run; return its folder and the report."""
    with start_run(config, skill, plan) as run:
        return run.folder.path, await run_evaluation(run, plan, NullCallback(), llms(target))


def look(path: Path) -> RunStore:
    """Open a run's store to look at it."""
    return RunStore.open(path / "run.sqlite", read_only=True)


def stored_turns(path: Path) -> set[tuple[str, int | None]]:
    """Return what agents were asked in the episodes that a store holds."""
    with look(path) as store:
        episodes = [store.load_episode(e.id) for e in store.episodes()]
    return {
        ("\n".join(message["content"] for message in turn.prompt), turn.seed)
        for episode in episodes
        for turn in episode.trajectory.turns
    }


def story(path: Path) -> dict[str, Any]:
    """Return everything about a run that must not depend on time, chance or interruptions."""
    with look(path) as store:
        kinds = [kind.value for kind in Kind]
        return {
            "events": [
                (e.kind, {name: one for name, one in e.payload.items() if name != "opened_before"})
                for e in store.events()
                if e.kind in kinds
            ],
            "skills": [store.skill(version.version) for version in store.skills()],
            "edits": store.edits(),
            "patches": store.patches(),
            "verdicts": store.verdicts(),
            "episodes": sorted(
                (e.key, e.phase, e.step or 0, e.task_id, e.draw, e.seed, e.reward or 0.0, e.turns)
                for e in store.episodes()
                if e.failure is None
            ),
            "files": {
                str(file.relative_to(path)): file.read_bytes()
                for file in sorted(path.rglob("*.md"))
            },
        }
