"""The customer played by rules: what it says when, and that it says it every time."""

import pytest

from skillwright.worlds.tau_bench import STOP, TauBenchEnv, open_store, user_strategies
from skillwright.worlds.tau_bench.users import NO_MORE, YES, RuleUser, first_person
from tau_built_in.generate import HERE, PLAN

INSTRUCTION = (
    "You are Alma Dunmoor and your email is alma.d@example.com. "
    "You want to cancel your order #W1234567. You ordered it by mistake. "
    "If it is too late to cancel it, you want to return everything in it. "
    "You want the refund to go to your gift card. "
    "You want to know the tracking number of your order #W7654321. You are brief."
)


@pytest.fixture
def user():
    user = RuleUser()
    assert user.reset(INSTRUCTION) == "Hello. I want to cancel my order #W1234567."
    return user


@pytest.mark.parametrize(
    ("heard", "said"),
    [
        ("What is your email?", "I am Alma Dunmoor and my email is alma.d@example.com."),
        ("Please provide your zip code.", "I am Alma Dunmoor and my email is alma.d@example.com."),
        ("What is the reason?", "I ordered it by mistake."),
        ("Why do you want that?", "I ordered it by mistake."),
        ("Which payment method?", "I want the refund to go to my gift card."),
        ("I will cancel it, an email follows. Shall I (yes/no)?", YES),
        ("Which order is it?", "I do not remember the order number."),
        ("Sorry, it cannot be done.", "In that case I want to return everything in it."),
        ("What do you want?", "I want to cancel my order #W1234567."),
        ("Done. Anything else?", "I want to know the tracking number of my order #W7654321."),
        ("Done.", "I want to know the tracking number of my order #W7654321."),
        ("Done. Goodbye.", STOP),
    ],
)
def test_it_answers_what_it_is_asked(user, heard, said):
    assert user.step(heard) == said


def test_it_says_each_case_and_each_wish_once_and_hangs_up_at_the_end(user):
    assert user.step("That is not possible.").startswith("In that case")
    assert user.step("Sorry, anything else?") == (
        "I want to know the tracking number of my order #W7654321."
    )
    assert user.step("Which payment method?") == NO_MORE, "that was about something else"
    assert user.step("It is 12.") == STOP
    assert user.step("Hello?") != ""
    assert user.reset(INSTRUCTION).startswith("Hello."), "a new conversation starts again"
    assert user.step("Why?") == "I ordered it by mistake."


async def test_both_pairs_say_the_same():
    user = RuleUser()
    assert await user.areset(INSTRUCTION) == RuleUser().reset(INSTRUCTION)
    assert await user.astep("What is your email?") == user.step("What is your email?")


@pytest.mark.parametrize("instruction", ["", "Hm.", "You are brief.", "If so, you want it."])
def test_an_instruction_that_wants_nothing_is_no_fault(instruction):
    user = RuleUser()
    assert user.reset(instruction)
    assert user.step("Yes?")
    assert user.step("")


def test_what_it_is_told_about_itself_it_says_of_itself():
    assert first_person("You want your order sent to you.") == "I want my order sent to me."
    assert first_person("In your order you are the one.") == "In my order I am the one."


def test_it_is_a_strategy_of_the_environment():
    assert "rule_based" in user_strategies()
    env = TauBenchEnv({"user_strategy": "rule_based", "data_dir": str(HERE)}, {"task_index": 0})
    (_, opening), _ = env.init([])
    assert opening["content"].startswith("Hello. I want to cancel my order")


@pytest.mark.parametrize("split", PLAN)
def test_it_understands_every_built_in_instruction(split):
    for task in open_store(HERE).tasks(split):
        user = RuleUser()
        opening = user.reset(task.instruction)
        assert opening != f"Hello. {NO_MORE}"
        assert " you" not in opening.lower()
        assert user.step("What is your email or zip code?").startswith("I am ")


def test_official_instructions_are_no_fault(reference_data):
    for split in ("test", "dev", "train"):
        for task in open_store(reference_data / "tau_retail").tasks(split):
            user = RuleUser()
            heard = [user.reset(task.instruction)]
            heard += [user.step(f"Done with {turn}. Anything else?") for turn in range(20)]
            assert all(heard)
            assert heard[-1] == STOP
