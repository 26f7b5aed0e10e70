import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwright.core import Act, ConfigError, Turn
from skillwright.rollout import PromptStyle, render
from skillwright.rollout.prompt import with_other_skill

SYSTEM = {"role": "system", "content": "Play."}
USER = {"role": "user", "content": "A room."}


def said(messages):
    return [(message["role"], message["content"]) for message in messages]


def played(style, opening, exchanges, skill=""):
    """Play turns as an episode does: each keeps the prompt that it was shown."""
    turns = []
    for index, (act, replies) in enumerate(exchanges):
        turns.append(
            Turn(
                index=index,
                prompt=render(style, opening, turns, skill),
                act=Act(act),
                observation="",
                reward=0.0,
                messages=tuple({"role": "user", "content": reply} for reply in replies),
            )
        )
    return turns


def test_a_skill_is_put_under_its_heading_at_the_end_of_the_first_system_message():
    later = {"role": "system", "content": "Later."}
    prompt = render(PromptStyle(), [SYSTEM, USER, later], [], "Open things.\n")
    assert said(prompt) == [
        ("system", "Play.\n\n## Skill\n\nOpen things.\n"),
        ("user", "A room."),
        ("system", "Later."),
    ]
    assert SYSTEM["content"] == "Play."


def test_a_skill_makes_its_own_system_message_where_there_is_none():
    prompt = render(PromptStyle(), [USER], [], "Open things.")
    assert said(prompt) == [("system", "## Skill\n\nOpen things."), ("user", "A room.")]


@pytest.mark.parametrize("blank", ["", " \n\t"])
def test_a_blank_skill_adds_nothing(blank):
    assert render(PromptStyle(), [SYSTEM, USER], [], blank) == (SYSTEM, USER)


def test_a_conversation_alternates_what_the_agent_said_and_what_came_of_it():
    style = PromptStyle()
    turns = played(style, [SYSTEM, USER], [("look", ["A chair."]), ("sit", ["You sit."])])
    assert said(render(style, [SYSTEM, USER], turns, ""))[2:] == [
        ("assistant", "look"),
        ("user", "A chair."),
        ("assistant", "sit"),
        ("user", "You sit."),
    ]


def test_a_short_history_keeps_the_opening_and_the_latest_exchanges():
    style = PromptStyle(history_turns=1)
    turns = played(style, [SYSTEM, USER], [("look", ["A chair."]), ("sit", ["You sit."])], "S")
    assert said(render(style, [SYSTEM, USER], turns, "S")) == [
        ("system", "Play.\n\n## Skill\n\nS"),
        ("user", "A room."),
        ("assistant", "sit"),
        ("user", "You sit."),
    ]


def test_a_history_without_the_latest_exchange_is_refused():
    with pytest.raises(ConfigError, match="at least 1 exchange"):
        PromptStyle(history_turns=0)


def test_messages_are_shared_between_the_prompts_of_an_episode():
    style = PromptStyle()
    turns = played(style, [SYSTEM, USER], [("look", ["A chair."]), ("sit", ["You sit."])], "S")
    prompt = render(style, [SYSTEM, USER], turns, "S")
    earlier = turns[-1].prompt
    assert all(new is old for new, old in zip(prompt, earlier, strict=False))


@given(
    exchanges=st.lists(st.tuples(st.text(), st.lists(st.text(), max_size=2)), max_size=8),
    history_turns=st.none() | st.integers(1, 9),
    skill=st.sampled_from(["", "Open things."]),
)
def test_rendering_turn_by_turn_equals_rendering_from_scratch(exchanges, history_turns, skill):
    style = PromptStyle(history_turns=history_turns)
    turns = played(style, [SYSTEM, USER], exchanges, skill)
    expected = list(render(style, [SYSTEM, USER], [], skill))
    kept = exchanges if history_turns is None else exchanges[-history_turns:]
    for act, replies in kept:
        expected.append({"role": "assistant", "content": act})
        expected += [{"role": "user", "content": reply} for reply in replies]
    assert list(render(style, [SYSTEM, USER], turns, skill)) == expected


@pytest.mark.parametrize("opening", [(SYSTEM, USER), (USER,)])
@pytest.mark.parametrize("given", ["", "Take the left door.", "Play.\n\nWell."])
@pytest.mark.parametrize("instead", ["", "Take the right door."])
def test_a_prompt_is_as_it_would_be_with_another_skill(opening, given, instead):
    exchanges = [("look", ["A door."]), ("open it", ["A hall."]), ("go", ["Out."])]
    turns = played(PromptStyle(), opening, exchanges, given)
    wanted = played(PromptStyle(), opening, exchanges, instead)
    for turn, other in zip(turns, wanted, strict=True):
        before = turn.prompt
        assert with_other_skill(turn.prompt, given, instead) == other.prompt
        assert turn.prompt == before
