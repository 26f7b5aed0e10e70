"""A tiny world for the recipe, with models to match: a whole run takes a second.

Every task is a room whose door only a skill can tell, and there are two turns to find it. `Visitor`
takes the door that its skill names, else any; `Tutor` writes the rules that it is allowed to know.

    config = lanes_config(tmp_path)                      # 12 train, 9 val, 9 test tasks
    path, report = await recipe(config)
    story(path)                                          # everything that must not depend on time
"""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from skillwright.bank import BankStore
from skillwright.config import RlConfig, validated_rl
from skillwright.core import Act, Completion, Message, Purpose, Sampling, Usage
from skillwright.core.seeds import derive_seed
from skillwright.envs import TextEnv
from skillwright.jobs.run import MADE, SESSION, SESSION_ENDED
from skillwright.jobs.weights import TIMING, RlReport, open_rl, run_rl, start_rl
from skillwright.jobs.weights.wiring import PolicyMaker
from skillwright.policy import LossReport, Row, Sampled, StepReport
from skillwright.runs import RunStore

ROOMS = {"attic": 4, "cellar": 2, "hall": 1}
DOORS = (1, 2, 3, 4)
COMMANDS = tuple(f"take door {door}" for door in DOORS)
_ROOM = re.compile(r"You are in the (\w+)\.")


def rule(room: str, door: int | None = None) -> str:
    """Say which door of a room to take; by default the right one."""
    return f"In the {room} take door {door or ROOMS[room]}."


class Lanes(TextEnv):
    """One room; the reward is 1 for its door."""

    def init(self, prompt):
        text = f"You are in the {self.extras['room']}."
        opening = [
            {"role": "system", "content": "Choose a door."},
            {"role": "user", "content": f"It is quiet.\n\n{text}"},
        ]
        return [*prompt, *opening], self._seen(text)

    def step(self, action):
        self.turns += 1
        action = action.removeprefix("<action>").removesuffix("</action>")
        if action == "break":
            raise RuntimeError("the floor gave way")
        if action == f"take door {ROOMS[self.extras['room']]}":
            return self.finish("It opens.", reward=float(self.extras.get("worth", 1)))
        reply = self.reply("It is locked.", done=self.turns >= self.max_turns)
        reply["reward"] = 0 * float(self.extras.get("worth", 1))  # NaN where that is one
        reply["metadata"] = {**reply["metadata"], **self._seen("It is locked.")}
        return reply

    def _seen(self, text):
        listed = {} if self.extras.get("unlisted") else {"admissible_commands": list(COMMANDS)}
        return {"observation": text, **listed}


class Visitor:
    """Takes the door that the skill names for the room, or any.

    Args:
        on_call: Called with the number of every call, from 1, before it is answered.
    """

    identity = "scripted:visitor"

    def __init__(self, on_call: Callable[[int], None] = lambda number: None) -> None:
        self.calls: list[str] = []
        self._on_call = on_call

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
        self.calls.append(said)
        self._on_call(len(self.calls))
        room = _ROOM.search(said)
        known = re.findall(rf"In the {room[1]} take door (\d)", messages[0]["content"])
        tried = len(messages) - 2
        drawn = derive_seed("any", sampling.seed or 0) % len(DOORS)
        door = known[-1] if known else DOORS[drawn] if tried else DOORS[drawn - 1]
        return Completion(f"<action>take door {door}</action>", usage=Usage(calls=1))


class Tutor:
    """Writes what it knows as the teacher's prompts ask for it.

    Args:
        first: Rooms whose rules it writes for the first bank.
        later: Rooms whose rules it proposes when the bank evolves, update by update.
        fault: Raised instead of an answer whose prompt holds the text.
    """

    identity = "scripted:tutor"

    def __init__(
        self,
        first: Sequence[str] = ("attic",),
        later: Sequence[Sequence[str]] = (("cellar", "hall"),),
        fault: tuple[str, Exception] | None = None,
    ) -> None:
        self.calls: list[tuple[str, str]] = []
        self._first, self._later, self._fault = first, later, fault

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] = (),
        sampling: Sampling = Sampling(),
        purpose: Purpose,
    ) -> Completion:
        del tools, sampling, purpose
        system, user = messages[0]["content"], messages[-1]["content"]
        self.calls.append((system.splitlines()[0], user))
        if self._fault is not None and self._fault[0] in system:
            raise self._fault[1]
        return Completion(json.dumps(self._answer(system, user)))

    def _answer(self, system: str, user: str) -> dict[str, Any]:
        ids = re.findall(r'id="([^"]+)"', user) or ["T0"]
        cited = [{"id": ids[0], "turns": [0]}]
        if system.startswith("# Evolve"):
            # By its prompt, not by its memory: another process has another tutor.
            earlier = user.partition("## Earlier changes\n")[2].partition("\n\n")[0]
            before = len(re.findall(r"^- ", earlier, re.MULTILINE))
            sums = [sum(map(len, self._later[:n])) for n in range(len(self._later))]
            rooms = self._later[sums.index(before)] if before in sums else ()
            kind = {"op": "add", "kind": "task_specific"}
            changes = [{**kind, "category": room, **written(room, cited)} for room in rooms]
            return {"reasoning": "They do not know the doors.", "changes": changes}
        if system.startswith("# Distill: general"):
            text = "Look at the name of the room before you choose."
            return {"skills": [{**written("room", cited), "principle": text}]}
        category = re.search(r"## Category\n(\w+)", user)
        room = category[1] if category else ""
        skill = written(room, cited)
        if room not in self._first:
            skill["principle"] = f"Doors of the {room} differ, so try another one next time."
        if system.startswith("# Distill: failures"):
            wrong = {
                "failure_point": f"a wrong door of the {room}",
                "flawed_reasoning": "any door would do",
                "corrective_action": "take the one that opens",
            }
            skill["principle"] = f"Remember which door of the {room} was locked."
            return {"lessons": [{**skill, **wrong}]}
        return {"skills": [skill]}


def written(room: str, cited: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a skill that tells the door of a room."""
    principle = rule(room) if room in ROOMS else "Look first."
    when = f"when you are in the {room}"
    return {
        "name": f"Door of {room}",
        "principle": principle,
        "applicability": when,
        "evidence": cited,
    }


def write_tasks(folder: Path, train: int = 24, val: int = 9, test: int = 9, **extras: Any) -> Path:
    """Write tasks as a folder that is split already; the rooms take turns."""
    for split, count in {"train": train, "val": val, "test": test}.items():
        rooms = [list(ROOMS)[index % len(ROOMS)] for index in range(count)]
        items = [
            {
                "id": f"{split}-{index:02d}",
                "task_type": room,
                "room": room,
                "description": f"leave the {room}",
                **extras,
            }
            for index, room in enumerate(rooms)
        ]
        (folder / split).mkdir(parents=True, exist_ok=True)
        (folder / split / "items.json").write_text(json.dumps(items), encoding="utf-8")
    return folder


def lanes_settings(folder: Path, **extras: Any) -> dict[str, Any]:
    """Return settings of a run in a folder: tasks are written there, runs are kept there."""
    if not (folder / "tasks").is_dir():
        write_tasks(folder / "tasks", **extras)
    scripted = {"backend": "scripted"}
    return {
        "run": {"name": "lanes", "root": str(folder / "runs")},
        "env": {
            "name": f"{__file__}:Lanes",
            "max_turns": 2,
            "data": {"kind": "split_dir", "path": str(folder / "tasks")},
        },
        "models": {
            "teacher": {**scripted, "model": "household_teacher"},
            "expert": {**scripted, "model": "searcher"},
        },
        "policy": {"width": 16},
        "bank": {"delta": -1.0},
        "cold_start": {"steps": 12, "batch_rows": 16, "learning_rate": 0.01},
        "grpo": {
            "iterations": 4,
            "tasks_per_iteration": 6,
            "group_size": 4,
            "learning_rate": 0.003,
            "checkpoint_every": 3,
        },
        "evolve": {"every": 2, "nth": 4, "trigger_accuracy": 1.0},
        "evaluation": {"gate": {"kind": "strict"}, "val_every": 2},
    }


def lanes_config(folder: Path, **sections: Any) -> RlConfig:
    """Return the configuration of a run, some keys of its sections changed."""
    settings = lanes_settings(folder)
    for name, values in sections.items():
        is_mapping = isinstance(values, dict) and "kind" not in values
        settings[name] = {**settings.get(name, {}), **values} if is_mapping else values
    return validated_rl(settings, "lanes")


class Notebook:
    """Watches a run, and keeps what it saw.

    Args:
        stop_at: At which event, from 1, it ends the process's work as Ctrl-C would; 0 for none.
    """

    def __init__(self, stop_at: int = 0) -> None:
        self.events: list[Any] = []
        self._stop_at = stop_at

    def on_event(self, event: Any) -> None:
        self.events.append(event)
        if len(self.events) == self._stop_at:
            raise Stopped

    def of(self, kind: type) -> list[Any]:
        """Return the events of a kind, in order."""
        return [event for event in self.events if isinstance(event, kind)]


class Stopped(BaseException):
    """The process ends here."""


def llms(visitor: Any = None, tutor: Any = None):
    """Make these models, whatever the configuration names."""
    acting, writing = visitor or Visitor(), tutor or Tutor()
    return lambda config, client: writing if config.model == "household_teacher" else acting


async def recipe(config: RlConfig, callback: Any = None, **who: Any) -> tuple[Path, RlReport]:
    """Run the recipe in a new run; return its folder and the report."""
    maker = who.pop("maker", None)
    with start_rl(config) as run:
        watching = callback or Notebook()
        return run.folder.path, await run_rl(run, watching, llms(**who), maker)


async def resumed(path: Path, callback: Any = None, **who: Any) -> RlReport:
    """Resume a run of the recipe."""
    maker = who.pop("maker", None)
    with open_rl(path) as run:
        return await run_rl(run, callback or Notebook(), llms(**who), maker)


OF_OTHERS = (TIMING, "opened_before")  # what time, or another run in the folder, decides


def story(path: Path) -> dict[str, Any]:
    """Return everything that a run decided and measured, and nothing that depends on time."""
    with RunStore.open(path / "run.sqlite", read_only=True) as store:
        events = [
            (
                event.kind,
                {key: value for key, value in event.payload.items() if key not in OF_OTHERS},
            )
            for event in store.events()
            if event.kind not in (SESSION, SESSION_ENDED, MADE)
        ]
    with BankStore.open(path / "bank" / "bank.sqlite", read_only=True) as bank:
        log = [
            (one.event, one.before, one.version, one.reason, one.verdict, one.outcomes)
            for one in bank.log()
        ]
        now = bank.load()
        skills = [(one, now.stats_of(one.id)) for one in now.skills]
        return {"events": events, "log": log, "skills": skills, "totals": bank.totals()}


class Obedient:
    """A policy without a network: it takes the door that its skill names, and else any.

    Args:
        on_learn: Called with the number of every pass over rows, from 1, before it is made.
    """

    encoding = "obedient"

    def __init__(self, on_learn: Callable[[int], None] = lambda number: None) -> None:
        self.steps, self.passes, self.reference = 0, 0, ""
        self.skills: list[str] = []
        self._on_learn = on_learn

    @property
    def identity(self) -> str:
        return f"obedient:{self.steps}"

    def sample(self, contexts, *, temperature):
        return [self._choose(context, temperature) for context in contexts]

    def _choose(self, context, temperature):
        self.skills.append(context.skill)
        room = _ROOM.search(context.messages[1]["content"])[1]
        named = re.findall(rf"In the {room} take door (\d)", context.skill)
        drawn = derive_seed("obedient", context.seed if temperature else room) % len(DOORS)
        chosen = int(named[-1]) - 1 if named else drawn
        row = Row(chosen, (chosen,), (-1.0,), (True,), self.encoding)
        return Sampled(Act(COMMANDS[chosen], token_ids=(chosen,), logprobs=(-1.0,)), row)

    def forget(self):
        """It keeps nothing of what it was asked."""

    def target(self, context, text):
        del context
        chosen = COMMANDS.index(text)
        return Row(chosen, (chosen,), (0.0,), (True,), self.encoding)

    def forward_backward(self, rows, loss):
        del loss
        if rows:
            self.passes += 1
            self._on_learn(self.passes)
        return LossReport(loss=0.5, rows=len(rows), tokens=float(len(rows)))

    def optim_step(self, learning_rate):
        self.steps += 1
        return StepReport(1.0, learning_rate=learning_rate)

    def freeze_reference(self):
        self.reference = f"reference of step {self.steps}"
        return self.reference

    def state(self):
        return {"steps": self.steps, "reference": self.reference}

    def load(self, state):
        self.steps, self.reference = state["steps"], state["reference"]


class ObedientMaker(PolicyMaker):
    """Makes one policy, whatever the configuration names."""

    needs_turns = False

    def __init__(self, config: RlConfig, policy: Obedient | None = None) -> None:
        super().__init__(config)
        self.policy = policy or Obedient()

    def recipe(self, turns):
        del turns
        return {}

    def make(self, recipe):
        del recipe
        return self.policy
