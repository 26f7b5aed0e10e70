"""The scripted household with noise: random actions that follow the seed and the prompt."""

from statistics import correlation

import pytest

from skillwright.core import Message, Purpose, Sampling
from skillwright.core.seeds import derive_seed
from skillwright.worlds.alfworld import AlfworldEnv, World, generate_problem, generated_tasks
from skillwright.worlds.alfworld.scripted import ScriptedHousehold, read_conversation

OPENING = (
    "You are in the middle of a room. Looking quickly around you, you see a cabinet 1, "
    "a countertop 1, a fridge 1, a microwave 1, and a shelf 1.\n\nYour task is to: {}."
)
ARRIVED = "You arrive at countertop 1. On the countertop 1, you see a mug 1."
LISTED = ("go to shelf 1", "inventory", "look", "take mug 1 from countertop 1")
WANTED = LISTED[3]
SKILL = """
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
RECIPE = "Brown the meat, add the onions, and let the stew simmer."


def _conversation(skill: str, task: str, *turns: tuple[str, str]) -> list[Message]:
    messages: list[Message] = [
        {"role": "system", "content": f"Play the game.\n\n## Skill\n\n{skill}"},
        {"role": "user", "content": OPENING.format(task)},
    ]
    for command, observation in turns:
        messages.append({"role": "assistant", "content": f"<action>{command}</action>"})
        messages.append({"role": "user", "content": observation})
    return messages


def _at_countertop(skill: str = SKILL) -> list[Message]:
    seen = f"{ARRIVED}\n\nAdmissible commands: {', '.join(LISTED)}"
    return _conversation(skill, "put a mug in shelf", ("go to countertop 1", seen))


async def _command(messages: list[Message], noise: float, seed: int) -> str:
    reply = await ScriptedHousehold(noise).complete(
        messages, sampling=Sampling(seed=seed), purpose=Purpose.ROLLOUT
    )
    return reply.text.removeprefix("<action>").removesuffix("</action>")


async def _commands(messages: list[Message], noise: float, count: int = 1000) -> list[str]:
    return [await _command(messages, noise, seed) for seed in range(count)]


async def _play(
    skill: str, noise: float, number: int, *, show: bool = True
) -> tuple[list[Message], float]:
    """Play one generated game; return the conversation and the reward."""
    (task,) = generated_tasks("val", 1, start=number)
    env = AlfworldEnv({"show_admissible": show}, dict(task.extras))
    messages, _ = env.init([])
    messages[0]["content"] += f"\n\n## Skill\n\n{skill}"
    for turn in range(50):
        command = await _command(messages, noise, derive_seed("turn", number, turn))
        out = env.step(command)
        said: Message = {"role": "assistant", "content": command}
        messages = [*messages, said, *out["observations"]]
        if out["done"]:
            break
    return messages, out["reward"]


@pytest.mark.parametrize("noise", [0.0, 0.05, 0.2])
async def test_a_random_listed_action_is_taken_in_the_given_share_of_turns(noise):
    commands = await _commands(_at_countertop(), noise)
    for command in LISTED[:3]:
        assert commands.count(command) / 1000 == pytest.approx(noise / 4, abs=0.02)
    assert set(commands) <= set(LISTED)


async def test_without_a_list_random_actions_are_those_that_the_agent_believes_possible():
    rejected, given, kinds = 0, 0, set()
    for number in range(12):
        messages, _ = await _play("", 0.9, number, show=False)
        given += len(messages[2::2])
        rejected += sum(message["content"] == "Nothing happens." for message in messages[3::2])
        kinds |= {message["content"].split(" ")[0] for message in messages[2::2]}
    assert {"go", "open", "close", "take", "move", "examine", "look", "inventory"} <= kinds
    assert rejected < 0.05 * given


async def test_equal_prompts_and_seeds_get_equal_actions_in_every_process():
    commands = await _commands(_at_countertop(""), 0.5, 8)
    assert commands == await _commands(_at_countertop(""), 0.5, 8)
    # Written down, because a hash that differs between processes would not show otherwise.
    firsts = "take go take look take inventory go take"
    assert " ".join(command.split(" ")[0] for command in commands) == firsts


async def test_another_skill_text_draws_independent_random_actions():
    def strays(commands: list[str]) -> list[float]:
        return [float(command != WANTED) for command in commands]

    plain = await _commands(_at_countertop(), 0.4)
    more = await _commands(_at_countertop(f"{SKILL}\n{RECIPE}"), 0.4)
    assert abs(correlation(strays(plain), strays(more))) < 0.08


async def test_with_noise_all_random_choices_follow_the_prompt():
    plain, more = _at_countertop(""), _at_countertop(RECIPE)
    assert await _commands(plain, 0.0, 200) == await _commands(more, 0.0, 200)
    # At this noise no random action occurs; what differs are the agent's own choices.
    one, other = await _commands(plain, 1e-9, 200), await _commands(more, 1e-9, 200)
    assert sum(a != b for a, b in zip(one, other, strict=True)) > 60


async def test_what_random_actions_did_is_believed_as_it_happened():
    for number in range(18):
        (task,) = generated_tasks("val", 1, start=number)
        messages, _ = await _play(SKILL, 0.7, number)
        world = World(generate_problem(**task.extras["generated"]))
        for message in messages[2::2]:
            world.act(message["content"])
        belief = read_conversation(messages)
        assert belief.held == world.held
        assert not belief.closed & world.opened
        for place, names in belief.contents.items():
            assert set(names) == set(world.contents[place])
        for name, verbs in belief.treated.items():
            states = {{"heat": "hot"}.get(verb, verb) for verb in verbs}
            assert states == world.states[name] & {"clean", "hot", "cool"}


async def test_an_object_that_was_heated_by_chance_is_cooled_again():
    turns = (
        ("go to countertop 1", ARRIVED),
        ("take mug 1 from countertop 1", "You pick up the mug 1 from the countertop 1."),
        ("go to fridge 1", "You arrive at fridge 1. The fridge 1 is closed."),
        ("cool mug 1 with fridge 1", "You cool the mug 1 using the fridge 1."),
        ("go to microwave 1", "You arrive at microwave 1. The microwave 1 is closed."),
        ("heat mug 1 with microwave 1", "You heat the mug 1 using the microwave 1."),
    )
    cool = _conversation(SKILL, "put a cool mug in shelf", *turns)
    assert await _command(cool, 0.0, 0) == "go to fridge 1"


async def test_a_complete_skill_still_succeeds_at_a_noise_of_a_tenth():
    rewards = [(await _play(SKILL, 0.1, number))[1] for number in range(30)]
    assert sum(rewards) >= 27


async def test_noise_is_part_of_the_identity():
    names = [ScriptedHousehold(noise).identity for noise in (0.0, 0.05, 0.1)]
    assert names == [
        "scripted:household",
        "scripted:household noise=0.05",
        "scripted:household noise=0.1",
    ]
