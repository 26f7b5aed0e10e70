"""The scripted household agent: what it does depends on the text of its skill and on its luck."""

from collections.abc import Sequence

import pytest

from skillwright.core import Message, Purpose, Sampling
from skillwright.core.seeds import derive_seed
from skillwright.worlds.alfworld import AlfworldEnv, generated_tasks, habits_text, household
from skillwright.worlds.alfworld.scripted import ScriptedHousehold

ROOM = (
    "-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room. Looking quickly "
    "around you, you see a cabinet 2, a cabinet 1, a countertop 1, a desk 1, a fridge 1, "
    "a microwave 1, a shelf 1, and a sinkbasin 1.\n\nYour task is to: {task}."
)
ON_COUNTER = ("go to countertop 1", "You arrive at countertop 1. On the countertop 1, you see {}.")
TAKE_MUG = ("take mug 1 from countertop 1", "You pick up the mug 1 from the countertop 1.")
AT_CABINET = ("go to cabinet 1", "You arrive at cabinet 1. The cabinet 1 is closed.")
SEEDS = range(12)

SKILL = """
# Household tasks

- Search the room place by place and never go back to one you have searched.
- A closed receptacle must be opened, because things may be hidden in it.
- If you see the wanted object, pick it up at once.
- When something clean is asked for, wash it in the sinkbasin before you place it.
- When something hot is asked for, heat it in the microwave before you place it.
- When something cool is asked for, chill it in the fridge before you place it.
- To examine something under a lamp, bring it to the lamp and switch the lamp on.
- If two objects are wanted, deliver one, then find the second and put it in the same receptacle.
- If the destination is closed, open it before you put the object down.
- Look first where such an object is usually kept.
"""
LINES = [line for line in SKILL.splitlines() if line.startswith("- ")]


def _told(task: str, *turns: tuple[str, str], skill: str = "") -> list[Message]:
    system = "Play the game." + (f"\n\n## Skill\n\n{skill}" if skill else "")
    messages: list[Message] = [
        {"role": "system", "content": system},
        {"role": "user", "content": ROOM.format(task=task)},
    ]
    for action, observation in turns:
        messages.append({"role": "assistant", "content": f"<action>{action}</action>"})
        messages.append({"role": "user", "content": observation})
    return messages


async def _acts(messages: Sequence[Message]) -> set[str]:
    """What the agent does next, over several kinds of luck."""
    replies = [
        await ScriptedHousehold().complete(
            messages, sampling=Sampling(seed=seed), purpose=Purpose.ROLLOUT
        )
        for seed in SEEDS
    ]
    return {reply.text.removeprefix("<action>").removesuffix("</action>") for reply in replies}


def _seeing(*things: str) -> tuple[str, str]:
    listed = ", and ".join(f"a {thing}" for thing in things)
    return ON_COUNTER[0], ON_COUNTER[1].format(listed)


MUG = "put a mug in shelf"
PLACE_MUG = ("move mug 1 to shelf 1", "You move the mug 1 to the shelf 1.")
AT_SHELF = ("go to shelf 1", "You arrive at shelf 1. On the shelf 1, you see nothing.")
AT_DESK = ("go to desk 1", "You arrive at desk 1. On the desk 1, you see a desklamp 1.")

SITUATIONS = [
    ("Peek inside anything that's shut.", MUG, [AT_CABINET], "open cabinet 1"),
    (
        "Seize the required item the moment it appears.",
        MUG,
        [_seeing("mug 1", "cup 1")],
        TAKE_MUG[0],
    ),
    (
        "Rinse the object at a basin prior to putting it down.",
        "put a clean mug in shelf",
        [_seeing("mug 1"), TAKE_MUG],
        "go to sinkbasin 1",
    ),
    (
        "Warm the item up in the microwave prior to delivering it.",
        "heat some mug and put it in shelf",
        [
            _seeing("mug 1"),
            TAKE_MUG,
            ("go to microwave 1", "You arrive at microwave 1. The microwave 1 is closed."),
        ],
        "heat mug 1 with microwave 1",
    ),
    (
        "Chill it with the fridge first when the task wants something cold.",
        "put a cool mug in shelf",
        [_seeing("mug 1"), TAKE_MUG],
        "go to fridge 1",
    ),
    (
        "Take the item over to the desklamp and activate the lamp.",
        "look at mug under the desklamp",
        [AT_DESK, _seeing("mug 1"), TAKE_MUG, AT_DESK],
        "use desklamp 1",
    ),
    (
        "Pick up what you need when you see it. Don't stop at one when two are requested; get the "
        "other too.",
        "put two mug in shelf",
        [_seeing("mug 1", "mug 2"), TAKE_MUG, AT_SHELF, PLACE_MUG],
        "go to countertop 1",
    ),
    (
        "A closed destination has to be opened prior to putting anything in.",
        "put a mug in cabinet",
        [_seeing("mug 1"), TAKE_MUG, AT_CABINET],
        "open cabinet 1",
    ),
    (
        "Check every place once, in order. Try the places first where you would expect the object.",
        "put a egg in desk",
        [],
        "go to countertop 1",
    ),
]


@pytest.mark.parametrize(("skill", "task", "turns", "command"), SITUATIONS)
async def test_a_rule_is_obeyed_whatever_the_luck(skill, task, turns, command):
    assert await _acts(_told(task, *turns, skill=skill)) == {command}
    assert await _acts(_told(task, *turns)) != {command}


async def test_places_are_searched_once_and_in_order():
    cabinet = (
        "open cabinet 1",
        "You open the cabinet 1. The cabinet 1 is open. In it, you see nothing.",
    )
    seen = [_seeing("cup 1"), AT_CABINET, cabinet]
    skill = "Don't retrace your steps: tick off each spot once."
    assert await _acts(_told(MUG, *seen, skill=skill)) == {"go to cabinet 2"}
    assert len(await _acts(_told(MUG, *seen))) > 3


async def test_habits_are_tried_first():
    skill = "In the kitchen, mugs are kept in cabinet 2. Search each place once."
    assert await _acts(_told(MUG, skill=skill)) == {"go to cabinet 2"}
    elsewhere = "In the bathroom, mugs are kept in shelf 1. Search each place once."
    assert await _acts(_told(MUG, skill=elsewhere)) == {"go to cabinet 2"}  # the first in the list
    skill = "Mugs are kept in fridge 1. Mugs are kept in desk 1. Search each place once."
    assert await _acts(_told(MUG, skill=skill)) == {"go to desk 1"}  # the last word


@pytest.mark.parametrize(
    ("advice", "turns", "command"),
    [
        ("Check your inventory after every move.", [AT_SHELF], "inventory"),
        ("Always examine every receptacle.", [AT_SHELF], "examine shelf 1"),
        ("Look around after every move.", [AT_SHELF], "look"),
    ],
)
async def test_useless_advice_is_obeyed_too(advice, turns, command):
    assert await _acts(_told(MUG, *turns, skill=f"{SKILL}\n- {advice}")) == {command}


async def test_harmful_advice_is_obeyed_too():
    shut = f"{SKILL}\n- Never open anything that is closed."
    assert "open cabinet 1" not in await _acts(_told(MUG, AT_CABINET, skill=shut))
    raw = f"{SKILL}\n- Skip heating: put the object straight down at the destination."
    hot = _told("put a hot mug in shelf", _seeing("mug 1"), TAKE_MUG, skill=raw)
    assert await _acts(hot) == {"go to shelf 1"}
    few = f"{SKILL}\n- Only search the first two places."
    seen = [_seeing("cup 1"), ("go to sinkbasin 1", "You arrive at sinkbasin 1.")]
    more = await _acts(_told("put a egg in desk", *seen, skill=few))
    assert await _acts(_told("put a egg in desk", *seen, skill=SKILL)) == {"go to fridge 1"} != more
    back = f"{SKILL}\n- Always go back to the start after each search."
    assert "go to shelf 1" in await _acts(_told(MUG, AT_SHELF, _seeing("cup 1"), skill=back))


async def test_equal_questions_get_equal_answers():
    messages = _told(MUG, _seeing("cup 1"), AT_SHELF)
    first = await ScriptedHousehold().complete(
        messages, sampling=Sampling(seed=7), purpose=Purpose.ROLLOUT
    )
    # Another instance, fresh strings, and much else asked in between: no memory shows.
    await _acts(_told("put two mug in shelf", _seeing("mug 1"), skill=SKILL))
    copies: list[Message] = [{**m, "content": "".join(list(m["content"]))} for m in messages]
    again = await ScriptedHousehold().complete(
        copies, sampling=Sampling(seed=7), purpose=Purpose.CHECK
    )
    assert again == first


async def test_the_agent_says_that_it_is_scripted_and_counts_its_tokens():
    agent = ScriptedHousehold()
    reply = await agent.complete(_told(MUG), sampling=Sampling(seed=1), purpose=Purpose.ROLLOUT)
    assert agent.identity.startswith("scripted:")
    assert agent.is_scripted
    assert reply.model == agent.identity
    assert reply.usage.calls == 1
    assert reply.usage.input_tokens > 0


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [{"role": "user", "content": "Are you there?"}],
        [{"role": "user", "content": "Your task is to: write a poem."}],
        [{"role": "assistant", "content": "look"}, {"role": "user", "content": "Nothing happens."}],
    ],
)
async def test_a_conversation_about_something_else_is_answered_with_a_look(messages):
    assert await _acts(messages) == {"look"}


async def test_a_refused_command_is_not_given_again():
    refused = ("go to shelf 1", "Nothing happens.")
    acts = await _acts(_told(MUG, _seeing("mug 1"), TAKE_MUG, refused, skill=SKILL))
    assert "go to shelf 1" not in acts


async def test_older_dialects_and_short_memories_are_understood():
    skill = "Take the wanted object as soon as you see it."
    loc = ("go to countertop 1", "You arrive at loc 4. On the countertop 1, you see a mug 1.")
    assert await _acts(_told(MUG, loc, skill=skill)) == {TAKE_MUG[0]}
    shelf = ("go to shelf 1", "You arrive at loc 9. On the shelf 1, you see nothing.")
    told = _told(MUG, loc, TAKE_MUG, shelf, skill=skill)
    told[-1]["content"] += "\n\nAdmissible commands: go to desk 1, look, put mug 1 in/on shelf 1"
    told[-1]["content"] += ", examine shelf 1"
    assert await _acts(told) == {"put mug 1 in/on shelf 1"}
    trimmed = [*told[:2], *told[-2:]]  # the agent forgets that it holds the mug
    assert await _acts(trimmed)


async def _reward(skill: str, number: int, task, show: bool = True) -> float:
    return (await _played(skill, number, task, show))[0]


async def _commands(skill: str, number: int, task) -> list[str]:
    return (await _played(skill, number, task))[1]


async def _played(skill: str, number: int, task, show: bool = True) -> tuple[float, list[str]]:
    commands = []
    env = AlfworldEnv({"show_admissible": show}, dict(task.extras))
    messages, _ = env.init([])
    if skill:
        text = f"{messages[0]['content']}\n\n## Skill\n\n{skill}"
        messages[0] = {"role": "system", "content": text}
    for turn in range(50):
        sampling = Sampling(seed=derive_seed("turn", number, turn))
        reply = await ScriptedHousehold().complete(
            messages, sampling=sampling, purpose=Purpose.ROLLOUT
        )
        commands.append(reply.text)
        out = env.step(reply.text)
        said: Message = {"role": "assistant", "content": reply.text}
        messages = [*messages, said, *out["observations"]]
        if out["done"]:
            break
    return out["reward"], commands


async def _wins(skill: str, count: int = 60, family: str = "", **where) -> float:
    tasks = generated_tasks("val", count, **where)
    rewards = [
        await _reward(skill, number, task)
        for number, task in enumerate(tasks)
        if family in task.task_type
    ]
    return sum(rewards) / len(rewards)


async def test_a_complete_skill_wins_and_an_empty_one_rarely_does():
    assert await _wins(SKILL) >= 0.92
    assert 0.05 <= await _wins("", 90) <= 0.25


async def test_games_are_won_without_a_list_of_commands():
    tasks = generated_tasks("test", 18)
    assert all([await _reward(SKILL, n, task, show=False) for n, task in enumerate(tasks)])


async def test_an_irrelevant_skill_changes_nothing():
    recipe = "Brown the meat, add the onions, and let the stew simmer. Never lift the lid twice."
    tasks = generated_tasks("train", 24)
    empty = [await _reward("", number, task) for number, task in enumerate(tasks)]
    assert [await _reward(recipe, number, task) for number, task in enumerate(tasks)] == empty


async def test_a_rule_about_other_tasks_changes_no_command():
    rules = "\n".join(LINES[:2])
    more = f"{rules}\n{LINES[4]}\n{LINES[6]}"
    for number in range(0, 24, 6):  # plain pick-and-place games
        (task,) = generated_tasks("train", 1, start=number)
        with_more = await _commands(more, number, task)
        assert await _commands(rules, number, task) == with_more


@pytest.mark.parametrize(
    ("missing", "family"),
    [
        *(pytest.param(one, "", marks=pytest.mark.heavy) for one in range(3)),
        (3, "clean"),
        pytest.param(4, "heat", marks=pytest.mark.heavy),
        pytest.param(5, "cool", marks=pytest.mark.heavy),
        (6, "look"),
        (7, "two"),
        pytest.param(8, "pick", marks=pytest.mark.heavy),
    ],
)
async def test_a_missing_rule_costs_where_it_matters(missing, family):
    skill = "\n".join(line for number, line in enumerate(LINES) if number != missing)
    assert await _wins(skill, 120, family) <= await _wins(SKILL, 120, family) - 0.07


@pytest.mark.heavy
@pytest.mark.parametrize(
    "advice",
    [
        "Never open closed things.",
        "Put the object straight down; skip heating, cleaning and cooling.",
        "Check the inventory after every move.",
        "Examine every object and receptacle before moving on.",
        "Look around after every move.",
        "Go back to the start after each receptacle.",
        "Only search the first few places.",
    ],
)
async def test_harmful_advice_costs(advice):
    assert await _wins(f"{SKILL}\n- {advice}", 120) <= await _wins(SKILL, 120) - 0.07


@pytest.mark.heavy
async def test_the_habits_of_a_home_help_an_agent_with_rules_enough():
    rules = "\n".join(LINES[:3])
    home = household(3)
    plain = await _wins(rules, 60, "simple", household=3)
    assert await _wins(f"{rules}\n{habits_text(home)}", 60, "simple", household=3) >= plain
