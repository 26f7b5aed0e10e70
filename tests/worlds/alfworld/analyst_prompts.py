"""What a scripted analyst is asked: real prompts over real games, and its answers read back."""

import json
from dataclasses import replace

from skillwright.core import EpisodeSpec, PlainSkill, Purpose, Sampling
from skillwright.core.seeds import training_seed
from skillwright.models import ChatAgent
from skillwright.rollout import Limits, LocalEngine
from skillwright.textopt import load_prompt, read_episodes, render_trajectories
from skillwright.textopt.optimizer import (
    budget_section,
    notes_section,
    skill_section,
    user_message,
)
from skillwright.worlds.alfworld import AlfworldEnv, generated_tasks
from skillwright.worlds.alfworld.scripted import ScriptedHousehold
from skillwright.worlds.alfworld.scripted.optimizer import ScriptedAnalyst

FULL_SKILL = """\
## Searching
- Go from place to place in order and tick off each spot, so that none is searched twice.
- Whatever is shut deserves a look inside: open it.
- Look first wherever such a thing would normally be kept.

## Handling
- Grab the object you need the instant you spot it.
- Something that must be clean goes through the sinkbasin before you deliver it.
- Something that must be hot goes into the microwave before you deliver it.
- Something that must be cold goes into the fridge before you deliver it.
- With the object in hand, walk up to the lamp and switch it on.
- When two objects are needed, go and fetch the second one after delivering the first.
- A destination that is shut has to be opened before you drop the object there.
"""
"""Every good rule, in words that no analyst uses."""


def engine():
    agent = ChatAgent(ScriptedHousehold())
    return LocalEngine(
        agent, lambda task: AlfworldEnv(extras=dict(task.extras)), limits=Limits(max_concurrent=8)
    )


_PLAYED = {}


async def play(skill, count=60):
    """Play generated games; equal questions are played once per test run."""
    key = (skill, count)
    if key not in _PLAYED:
        tasks = generated_tasks("train", count)
        specs = [EpisodeSpec(task, training_seed(7, 1, 1, task.id)) for task in tasks]
        _PLAYED[key] = tuple(await engine().run(specs, PlainSkill(skill)))
    return _PLAYED[key]


async def failures(skill="", count=8):
    """Return the first failures of a batch."""
    return [result for result in await play(skill) if not result.reward][:count]


async def successes(skill="", count=8):
    """Return the first successes of a batch."""
    return [result for result in await play(skill) if result.reward][:count]


def reading(results, *, skill="", outcome="failure", budget=4, earlier=""):
    """Write the user message of an analyst as the learner does."""
    before = user_message(
        skill_section(skill),
        budget_section("Propose", budget),
        ("Earlier steps", earlier),
        notes_section(""),
    )
    shown = render_trajectories(read_episodes(results).rows, outcome, 50_000)
    return f"{before}\n\n## Trajectories\n{shown.text}"


async def said(prompt, user, seed=None):
    """Return the text of an answer."""
    messages = [
        {"role": "system", "content": load_prompt(prompt)},
        {"role": "user", "content": user},
    ]
    model = ScriptedAnalyst()
    answer = await model.complete(messages, sampling=Sampling(seed=seed), purpose=Purpose.REFLECT)
    return answer.text


async def asked(prompt, user, seed=None):
    """Return an answer as JSON."""
    return json.loads(await said(prompt, user, seed))


async def proposed(results, *, seed=None, prompt="analyst_error", **parts):
    """Return the edits that an analyst proposes."""
    reply = await asked(prompt, reading(results, **parts), seed)
    return reply["patch"]["edits"]


def with_opening(result, opening):
    """Return a result whose game was opened by another text."""
    return replace(result, trajectory=replace(result.trajectory, opening=opening))


def with_observations(result, change):
    """Return a result whose observations are changed by a function of (turn, text)."""
    turns = tuple(
        replace(turn, observation=change(turn.index, turn.observation))
        for turn in result.trajectory.turns
    )
    return replace(result, trajectory=replace(result.trajectory, turns=turns))
