"""A bank for the world of `doors`: one skill per room, which says what door to take."""

from pathlib import Path

from bank_houses import Replies, lesson, principle
from doors import ROOMS, Coach, Walker, doors_config, rule
from skillwright.bank import Add, Bank, BankStore, apply
from skillwright.core import BankSkill, Completion, Sampling, SkillKind

NO_SAMPLING = Sampling()
TEACHER = {"backend": "scripted", "model": "household_teacher"}


def room_skill(room, door=None):
    """Return the skill of a room's category; what it says is what `Walker` reads."""
    when = f"in the {room}"
    return BankSkill(
        "", f"Door of the {room}", rule(room, door), when, SkillKind.TASK_SPECIFIC, room
    )


def rooms_bank(rooms=tuple(ROOMS)):
    """Return a bank that knows the doors of some rooms."""
    return apply(Bank(), [Add(room_skill(room)) for room in rooms])[0]


def bank_file(path: Path, rooms=tuple(ROOMS)) -> Path:
    """Keep such a bank in a file."""
    with BankStore.open(path) as store:
        store.commit([Add(room_skill(room)) for room in rooms], reason="made by hand")
    return path


def bank_config(folder: Path, **sections):
    """Return a configuration of doors that has a teacher, some keys changed."""
    models = {
        "target": {"backend": "scripted", "model": "household"},
        "optimizer": {"backend": "scripted", "model": "analyst"},
        "teacher": TEACHER,
    }
    # Every skill of a room is near enough to be told.
    told = {"delta": -1.0}
    return doors_config(folder, **{"models": models, "bank": told, **sections})


class Timid(Walker):
    """A walker that opens nothing where it was not told what to open."""

    async def complete(self, messages, *, tools=(), sampling=NO_SAMPLING, purpose):
        told = await super().complete(messages, tools=tools, sampling=sampling, purpose=purpose)
        if "take door" in messages[0]["content"] or told.text == "ready":
            return told
        return Completion("0", usage=told.usage)


def cast(target=None, teacher=None):
    """Make these models, whatever the configuration names."""
    llms = {"analyst": Coach([]), "household_teacher": teacher}
    return lambda config, client: llms.get(config.model) or target or Walker()


def proposing(*changes):
    """Return a teacher that has one principle and one lesson, and these changes, one per round."""
    rounds = iter(changes)
    last = {"reasoning": "", "changes": []}

    def answer(messages):
        title = messages[0]["content"].partition("\n")[0]
        if title == "# Evolve":
            return next(rounds, last)
        if title == "# Distill: failures":
            return {"lessons": [lesson("Locked", failure_point="a locked door.")]}
        return {"skills": [principle("Read signs", "Read the sign of a room.")]}

    return Replies(answer)


def adding(*skills):
    """Return a proposal of skills, as a teacher writes it."""
    return {
        "reasoning": "They do not know the doors.",
        "changes": [
            {
                "op": "add",
                "kind": "task_specific",
                "category": one.category,
                "name": one.name,
                "principle": one.principle,
                "applicability": one.applicability,
                "evidence": [{"id": "?", "turns": []}],
            }
            for one in skills
        ],
    }
