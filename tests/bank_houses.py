"""Generated houses and models for the tests of a skill bank."""

import json
from collections.abc import Callable, Sequence

from skillwright.bank import Add, Bank, BankSource
from skillwright.core import (
    BankSkill,
    Completion,
    EpisodeSpec,
    PlainSkill,
    SkillKind,
)
from skillwright.core.seeds import evaluation_seed
from skillwright.models import ChatAgent
from skillwright.rollout import Limits, LocalEngine
from skillwright.worlds.alfworld import AlfworldEnv, generated_tasks
from skillwright.worlds.alfworld.scripted import ScriptedHousehold

categorize, scope = AlfworldEnv.category, AlfworldEnv.scope


def tasks_of(category, count, split="train", household=None):
    """Return the first games of a category."""
    tasks = generated_tasks(split, 12 * count, household=household)
    return [task for task in tasks if categorize(task) == category][:count]


def engine(model=None):
    return LocalEngine(
        ChatAgent(model or ScriptedHousehold()),
        lambda task: AlfworldEnv(extras=dict(task.extras)),
        limits=Limits(max_concurrent=8),
    )


NO_SKILL = PlainSkill("")


async def play(tasks, skills=NO_SKILL, model=None, seed=1):
    specs = [EpisodeSpec(task, evaluation_seed(seed, task.id, 0)) for task in tasks]
    return await engine(model).run(specs, skills)


def injected_by(bank: Bank) -> BankSource:
    return BankSource(bank, categorize=categorize, scope=scope)


def skill(name, principle, *, id="", kind=SkillKind.GENERAL, category="", scope=""):
    return BankSkill(id, name, principle, "in every task", kind, category, scope)


def added(*drafts):
    return [Add(draft) for draft in drafts]


class Replies:
    """A teacher that answers with what it was given, and remembers what it was asked.

    Args:
        answer: The texts in order, the last one for ever; or a function of the messages. A reply
            that is no text is written as JSON; an exception is raised.
    """

    identity = "test:replies"

    def __init__(self, answer: Sequence[object] | Callable[[Sequence[dict]], object]) -> None:
        self.asked: list[Sequence[dict]] = []
        self._answer = answer

    async def complete(self, messages, *, tools=(), sampling=None, purpose):
        self.asked.append(messages)
        if callable(self._answer):
            reply = self._answer(messages)
        else:
            reply = self._answer[min(len(self.asked), len(self._answer)) - 1]
        if isinstance(reply, Exception):
            raise reply
        return Completion(reply if isinstance(reply, str) else json.dumps(reply))


def principle(name="Search once", text="Visit each place once.", when="while you search", ids=()):
    return {
        "name": name,
        "principle": text,
        "applicability": when,
        "evidence": [{"id": one, "turns": [0, 999]} for one in ids] or [{"id": "?", "turns": []}],
    }


def lesson(name="Empty hands", **fields):
    return {
        **principle(name, "Check what you hold before you use an appliance."),
        "failure_point": "heating an object that lies in the microwave.",
        "flawed_reasoning": "It would have to be inside.",
        "corrective_action": "take it first, then heat it.",
        **fields,
    }


def by_title(general=None, successes=None, failures=None, place=None, evolve=None):
    """Answer each kind of request in its form."""
    replies = {
        "# Distill: general": {"skills": general or [principle()]},
        "# Distill: successes": {"skills": successes or [principle("Hold it first", "Hold it.")]},
        "# Distill: failures": {"lessons": failures or [lesson()]},
        "# Distill: place": {"skills": place if place is not None else []},
        "# Evolve": evolve,
    }
    return lambda messages: replies[messages[0]["content"].partition("\n")[0]]
