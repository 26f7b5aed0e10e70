"""The scripted agent understands people, not just the analyst that it was built beside.

The skills below were written by hand, by somebody who had not seen the lexicon of the recognizer
or the sentences of the analyst.
"""

import pytest

from skillwright.core import EpisodeSpec, PlainSkill
from skillwright.core.seeds import evaluation_seed
from skillwright.envs import make
from skillwright.evaluation import Score
from skillwright.models import ChatAgent
from skillwright.rollout import Limits, LocalEngine
from skillwright.worlds.alfworld import generated_tasks
from skillwright.worlds.alfworld.scripted import ScriptedHousehold
from skillwright.worlds.alfworld.scripted.lessons import FROM_FAILURES, FROM_SUCCESSES, LESSONS

PLAIN = """\
# Household skill
- Search systematically: visit each receptacle once and don't go back to places already searched.
- Open closed receptacles to look inside.
- When you see the wanted object, take it right away.
- If the object must be clean, clean it at a sinkbasin before placing it.
- If it must be hot, heat it with the microwave before placing it.
- If it must be cool, cool it with the fridge before placing it.
- To look at something under a lamp, carry it to the lamp and use the lamp.
- For two objects, bring the first one, then get the second and put it in the same receptacle.
- If the destination is closed, open it before placing the object.
"""
CHATTY = """\
Keep track of where you've been; each spot deserves only a single visit. Things hide behind closed
doors, so open every closed container you come to. Grab the requested object the moment you see it.

Rinse the item with the sinkbasin before you put it down if it has to be clean. Before delivering a
hot object, go to the microwave and heat it. When a cold item is requested, take it to the fridge
and cool it first. With the object in hand, go to where the lamp is and use the lamp.

Two-object tasks need two trips: deliver one, then find the other and deliver it to the same spot.
You cannot put things into a closed drawer; open it first.
"""
TERSE = """\
1. Do a systematic sweep of all receptacles; no place twice.
2. A closed receptacle hasn't been searched until you open it.
3. Once the object you need is visible, take it immediately.
4. Objects that need to be clean must be washed at the sink prior to placement.
5. Hot items: microwave first, then place.
6. Cooling tasks need a stop at the fridge: cool the item there before placing.
7. Look tasks: hold the object, walk to the desklamp, and turn it on.
8. After placing the first of two objects, look for another one and put it in the same place.
9. Make sure that the destination receptacle is open before you place the item.
"""
HARMFUL = (
    "Never open closed receptacles.",
    "Leave drawers and cabinets shut; opening them wastes time.",
    "Do not bother opening closed containers.",
)


async def share_solved(skill, games=60):
    engine = LocalEngine(
        ChatAgent(ScriptedHousehold()),
        lambda task: make(task.env, extras=dict(task.extras)),
        limits=Limits(max_turns=50),
    )
    specs = [
        EpisodeSpec(task, evaluation_seed(3, task.id, 0))
        for task in generated_tasks("val", games, seed=9)
    ]
    return Score.of(await engine.run(specs, PlainSkill(skill))).success_rate


@pytest.mark.parametrize("skill", [PLAIN, CHATTY, TERSE], ids=["plain", "chatty", "terse"])
async def test_rules_that_people_wrote_in_three_wordings_are_obeyed(skill):
    assert await share_solved(skill) >= 0.85


@pytest.mark.parametrize("harm", HARMFUL)
async def test_harmful_rules_that_people_wrote_are_obeyed_too(harm):
    assert await share_solved(f"{PLAIN}- {harm}\n") <= 0.7


def test_the_analyst_never_says_it_in_these_words():
    lessons = [text for lesson in LESSONS.values() for text in lesson.wordings]
    beliefs = [text for one in (*FROM_FAILURES, *FROM_SUCCESSES) for text in one.wordings]
    ours = " ".join(f"{PLAIN} {CHATTY} {TERSE} {' '.join(HARMFUL)}".split()).lower()
    assert not [text for text in (*lessons, *beliefs) if text.rstrip(".").lower() in ours]
