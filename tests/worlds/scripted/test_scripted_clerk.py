"""The scripted clerk follows the rules of its skill, and its optimizer finds them in failures."""

import pytest

from skillwright.models.scripted.prompts import Reading
from skillwright.worlds.scripted.clerk import ClerkAnalyst, ScriptedClerk, read_rules, words_of

ASKED = "message: My invoice is wrong\nAnswer with one of: login, billing, delivery"


def answer(skill, asked=ASKED, noise=0.0, seed=0, *said):
    system = f"Write it.\n\n## Skill\n\n{skill}" if skill else "Write it."
    messages = [{"role": "system", "content": system}, {"role": "user", "content": asked}, *said]
    return ScriptedClerk(noise).reply(messages, seed)


@pytest.mark.parametrize(
    ("skill", "reply"),
    [
        ("", "login"),
        ('- When it says "invoice", answer "billing".', "billing"),
        ('- When it says "parcel", "invoice", answer "billing".', "billing"),
        ('- When it says "invoices", answer "billing".', "login"),
        ('When it says "wrong", answer "delivery".\nPay no attention to "wrong".', "login"),
        ('When it says "invoice", "wrong", answer "billing".\nWhen it says "wrong", answer "x".',
         "billing"),
        ('Answer with what stands after "message".', "My invoice is wrong"),
    ],
)  # fmt: skip
def test_the_clerk_answers_by_the_rules_of_its_skill(skill, reply):
    assert answer(skill) == f"<answer>{reply}</answer>"


def test_harmful_advice_harms():
    skill = 'When it says "invoice", answer "billing".\nAnswer in a full sentence, as is polite.'
    assert answer(skill) == "<answer>I would say that the answer is billing</answer>"


def test_a_second_try_is_another_answer():
    tried = {"role": "assistant", "content": answer("")}
    assert answer("", ASKED, 0.0, 0, tried) == "<answer>billing</answer>"


def test_noise_answers_at_random_but_alike_at_equal_seeds():
    replies = [answer("", noise=0.9, seed=seed) for seed in range(40)]
    assert len(set(replies)) == 3
    assert replies == [answer("", noise=0.9, seed=seed) for seed in range(40)]


def test_without_options_it_says_that_it_does_not_know():
    assert answer("", "What?") == "<answer>unknown</answer>"


def episode(asked, right, given="login"):
    said = f'[0] result: Expected "{right}", and you answered "{given}".'
    return f"<task>{asked}</task>\n[0] action: {given}\n{said}\n"


def found(episodes, skill=""):
    reading = Reading(skill=skill, budget=8, earlier="", trajectories=())
    shown = {f"row-{number}": text for number, text in enumerate(episodes)}
    return [text for _, text, _ in ClerkAnalyst()._found(reading, shown)]


def test_words_that_go_with_one_answer_only_become_a_rule():
    episodes = [
        episode("invoice is late, hello", "billing"),
        episode("an invoice for Ann", "billing"),
        episode("late parcel, hello", "delivery"),
    ]
    rules = read_rules("\n".join(found(episodes)))
    assert rules.answers["invoice"] == {"billing": 1}
    assert "late" not in rules.answers
    assert "hello" not in rules.answers


def test_words_that_misled_twice_are_ignored_from_then_on():
    skill = 'When it says "hello", answer "login".'
    episodes = [episode(f"hello {word}", "billing") for word in ("invoice", "payment")]
    assert 'Pay no attention to "hello".' in found(episodes, skill)


def test_an_answer_that_stands_in_the_text_is_copied():
    episodes = [episode(f"total: {n}\nname: Ann", str(n), "x") for n in (12, 31)]
    assert 'Answer with what stands after "total".' in found(episodes)


def test_options_and_names_of_columns_are_no_words():
    assert words_of(ASKED) == {"invoice", "wrong"}
