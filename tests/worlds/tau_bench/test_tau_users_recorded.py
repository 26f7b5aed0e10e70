"""A recorded customer: it says what it said, and where the record ends the present one goes on."""

import pytest

from fakes import ScriptedReplies
from skillwright.core import Act, EnvError, ModelError, Trajectory, Turn, Usage
from skillwright.worlds.tau_bench import ScriptedUser, UserSetting, UserSimulator, read_config
from skillwright.worlds.tau_bench.recorded import NotAsked, RecordedUser, refuse_newcomer
from skillwright.worlds.tau_bench.user_model import ModelUser, ReactUser, role_prompt
from skillwright.worlds.tau_bench.users import GREETING, HumanUser, RuleUser

TASK = "You want to cancel order #W1. You live in 80279."
SAID = ["Number one.", None, "Number two."]


def record():
    """Three turns: the customer is spoken to in the first and in the last."""
    turns = [
        Turn(
            index,
            (),
            Act("x"),
            said or "a tool's result",
            0.0,
            {"source": "user", "user_simulator": {"thought": f"think {index}"}} if said else {},
        )
        for index, said in enumerate(SAID)
    ]
    return Trajectory("Hello.", tuple(turns))


class Line:
    """Speaks to a user in turns, and knows which one it is."""

    def __init__(self, successor=None, turns=None):
        self.turn = -1
        self.user = RecordedUser(record(), lambda: self.turn, turns, successor)

    async def says(self, turn, text):
        self.turn = turn
        return await self.user.astep(text)


def setting(seed=None):
    return UserSetting(read_config({}), "test", 3, seed)


async def test_every_reply_is_that_of_its_turn_and_nobody_is_asked():
    line = Line()
    assert await line.user.areset(TASK) == "Hello."
    assert await line.says(0, "Which?") == "Number one."
    assert await line.says(2, "Sure?") == "Number two."
    assert line.user.usage == Usage(cache_hits=3)


async def test_a_turn_in_which_nobody_spoke_to_the_user_has_no_reply():
    line = Line()
    await line.user.areset(TASK)
    with pytest.raises(NotAsked, match="where it called a tool"):
        await line.says(1, "Hello?")


@pytest.mark.parametrize(
    ("kind", "first"),
    [(ModelUser, "Hello."), (ReactUser, "Hello.")],
)
async def test_a_model_continues_as_if_it_had_said_all_that(kind, first):
    llm = ScriptedReplies(["User Response: And now?" if kind is ReactUser else "And now?"])
    line = Line(kind(setting(), llm), turns=1)
    assert await line.user.areset(TASK) == "Hello."
    assert await line.says(0, "Which?") == "Number one."
    assert llm.asked == []
    assert await line.says(1, "It is done.") == "And now?"
    thinks = kind is ReactUser
    said = "Thought: think 0\nUser Response: Number one." if thinks else "Number one."
    assert [(one["role"], one["content"]) for one in llm.asked[0].messages] == [
        ("system", role_prompt(TASK, read_config({}).user_prompt, thinks_aloud=thinks)),
        ("user", GREETING),
        ("assistant", first),
        ("user", "Which?"),
        ("assistant", said),
        ("user", "It is done."),
    ]
    assert line.user.usage.calls == 1
    assert line.user.usage.cache_hits == 2


async def test_a_fault_of_the_one_who_continues_is_counted():
    fault = ModelError("503")
    fault.failed_calls = 2
    line = Line(ModelUser(setting(), ScriptedReplies([fault])), turns=0)
    await line.user.areset(TASK)
    with pytest.raises(ModelError):
        await line.says(0, "Which?")
    assert line.user.usage.failed_calls == 2


@pytest.mark.parametrize("kind", [ScriptedUser, RuleUser])
async def test_one_who_waits_for_nobody_hears_everything_once_more(kind):
    def fresh():
        return ScriptedUser(["Hello.", "One.", "Two."]) if kind is ScriptedUser else RuleUser()

    other = fresh()
    other.reset(TASK)
    other.step("Which?")
    line = Line(fresh(), turns=1)
    await line.user.areset(TASK)
    await line.says(0, "Which?")
    asked = "Could you confirm your email or zip code please?"
    assert await line.says(1, asked) == other.step(asked)


async def test_a_person_is_shown_what_was_said_before():
    shown = []

    def read_line(text):
        shown.append(text)
        return "Yes."

    line = Line(HumanUser(setting(), read_line), turns=1)
    await line.user.areset(TASK)
    await line.says(0, "Which?")
    assert shown == []
    assert await line.says(1, "Sure?") == "Yes."
    assert TASK in shown[0]
    assert shown[0].index("Which?") < shown[0].index("Number one.") < shown[0].index("Sure?")
    await line.says(2, "Really?")
    assert "Which?" not in shown[1]


def test_a_user_that_cannot_take_over_is_refused():
    class Own(UserSimulator):
        async def areset(self, instruction):
            return "Hello."

        async def astep(self, content):
            return "Yes."

    for user in (Own(), object()):
        with pytest.raises(EnvError, match="cannot continue a conversation"):
            refuse_newcomer(user)
    scripted = ScriptedUser(["Hello."])
    assert refuse_newcomer(scripted) is scripted
