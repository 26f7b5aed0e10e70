"""The scripted shopper: what it does badly, what a skill teaches it, and its analyst."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwright.core import Purpose
from skillwright.worlds.alfworld.scripted.edits import are_alike
from skillwright.worlds.webshop import WebShopEnv, webshop_tasks
from skillwright.worlds.webshop.scripted import (
    BAD_RULES,
    GOOD_RULES,
    LESSONS,
    SUPERSTITIONS,
    ScriptedBuyer,
    ScriptedShopper,
    ShopRule,
    read_rules,
)
from skillwright.worlds.webshop.scripted.optimizer import read_purchase
from skillwright.worlds.webshop.scripted.page import read_page, read_wish

TAUGHT = {rule: f"- {lesson.wordings[0]}\n" for rule, lesson in LESSONS.items()}
WORDINGS = [text for lesson in LESSONS.values() for text in lesson.wordings]
HARM = {
    ShopRule.BUY_AT_ONCE: SUPERSTITIONS[0],
    ShopRule.CHEAPEST: SUPERSTITIONS[1],
    ShopRule.READ_ALL: SUPERSTITIONS[2],
}
# What fifteen turns in the built-in shop leave time for.
NEEDED = set(GOOD_RULES) - {ShopRule.NEW_WORDS, ShopRule.BUY_IN_TIME}


async def visit(task, skill="", llm=None, config=None, extras=None):
    """Shop for one customer; return the metrics, the actions and how many of them were listed."""
    env = WebShopEnv(config, {**task.extras, **(extras or {})})
    messages, metadata = env.init([])
    messages[0]["content"] += f"\n\n## Skill\n\n{skill}"
    actions, listed = [], 0
    while True:
        answer = await (llm or ScriptedShopper()).complete(messages, purpose=Purpose.ROLLOUT)
        actions.append(answer.text.removeprefix("<action>").removesuffix("</action>"))
        listed += actions[-1] in metadata["admissible_commands"]
        step = env.step(answer.text)
        metadata = step["metadata"]
        messages += [{"role": "assistant", "content": answer.text}, *step["observations"]]
        if step["done"]:
            return env.get_metrics(), actions, listed


async def won(skill, split="test", count=100, **kwargs):
    """Return the share of customers who get exactly what they wanted."""
    visits = [await visit(task, skill, **kwargs) for task in webshop_tasks(split, count)]
    return sum(metrics["success"] for metrics, _, _ in visits) / count


@pytest.mark.parametrize("split", ["train", "val", "test"])
async def test_with_every_rule_it_wins_four_of_five_and_without_few(split):
    assert await won("".join(TAUGHT.values()), split) >= 0.8
    assert await won("", split) < 0.2


@pytest.mark.parametrize("rule", sorted(NEEDED))
async def test_each_rule_is_needed(rule):
    skill = "".join(TAUGHT.values())
    without = "".join(line for other, line in TAUGHT.items() if other != rule)
    assert await won(without, count=150) < await won(skill, count=150) - 0.03


async def test_whoever_never_minds_the_turns_buys_nothing_in_the_end():
    skill = "".join(line for rule, line in TAUGHT.items() if rule != ShopRule.BUY_IN_TIME)
    tasks = webshop_tasks("test", 60)
    bought = [(await visit(task, skill))[0]["bought"] for task in tasks]
    assert sum(bought) < 60
    minding = [(await visit(task, skill + TAUGHT[ShopRule.BUY_IN_TIME]))[0] for task in tasks]
    assert all(metrics["bought"] for metrics in minding)


async def test_where_a_search_is_used_up_it_searches_with_other_words():
    """A limit below all prices leaves nothing on a page to look at."""
    told = "i need a rug that is non slip, and price lower than 1.00 dollars"
    results = (
        f"Instruction: [SEP] {told} [SEP] Back to Search [SEP] Page 1 (Total results: 1) [SEP] "
        "Next > [SEP] B0AAAAAAAA [SEP] Rug [SEP] $23.5"
    )
    shop = f"WebShop [SEP] Instruction: [SEP] {told} [SEP] Search"
    skill = "".join(TAUGHT.values())
    messages = [{"role": "system", "content": f"## Skill\n\n{skill}"}]
    said = []
    for page in (shop, results, shop, results):
        messages.append({"role": "user", "content": page})
        answer = await ScriptedShopper().complete(messages, purpose=Purpose.ROLLOUT)
        messages.append({"role": "assistant", "content": answer.text})
        said.append(answer.text)
    assert said[1] == "<action>click[back to search]</action>"
    assert said[0] != said[2]
    assert said[2].startswith("<action>search[")


@pytest.mark.parametrize("rule", sorted(HARM))
async def test_harmful_rules_harm(rule):
    skill = "".join(TAUGHT.values())
    assert await won(f"{skill}- {HARM[rule]}\n") < await won(skill) - 0.15


PLAYED_WITHOUT = {
    ShopRule.OPTIONS: set(),
    ShopRule.KEY_WORDS: set(),
    ShopRule.PRICE: {ShopRule.OPTIONS},
    ShopRule.FEATURES: {ShopRule.OPTIONS},
    ShopRule.NEXT_HIT: {ShopRule.OPTIONS, ShopRule.FEATURES},
    ShopRule.BUY_IN_TIME: set(GOOD_RULES) - {ShopRule.BUY_IN_TIME},
}


@pytest.mark.parametrize("rule", PLAYED_WITHOUT)
async def test_the_analyst_finds_in_lost_visits_what_was_missing(rule):
    """It is shown visits as analysts are: pages cut to lines, the actions numbered."""
    skill = "".join(TAUGHT[other] for other in PLAYED_WITHOUT[rule])
    shown = []
    for task in webshop_tasks("train", 60):
        env = WebShopEnv(None, dict(task.extras))
        messages, _ = env.init([])
        messages[0]["content"] += f"\n\n## Skill\n\n{skill}"
        lines, done = [f"<task>{messages[1]['content']}</task>"], False
        while not done:
            answer = await ScriptedShopper().complete(messages, purpose=Purpose.ROLLOUT)
            step = env.step(answer.text)
            done, text = step["done"], step["observations"][0]["content"]
            messages += [{"role": "assistant", "content": answer.text}, *step["observations"]]
            number = len(messages) // 2 - 1
            lines += [f"[{number}] action: {answer.text}"]
            lines += [f"[{number}] result: " + text.replace("\n", "\n    ")]
        if not env.get_metrics()["success"]:
            shown.append("\n".join(lines) + "\n")
    found = [LESSONS[rule].seen_in(episode) for episode in shown]
    assert LESSONS[rule].wordings in found


@pytest.mark.parametrize("rule", LESSONS)
def test_every_wording_is_recognized_as_its_rule_and_no_other(rule):
    for text in LESSONS[rule].wordings:
        assert read_rules(f"# Skill\n- {text}\n") == {rule}


def test_no_superstition_is_good_advice():
    assert {rule for text in SUPERSTITIONS for rule in read_rules(text)} >= BAD_RULES
    told = "".join(TAUGHT.values())
    for text in SUPERSTITIONS:
        rules = read_rules(f"{told}- {text}\n")
        assert rules & BAD_RULES or not rules >= GOOD_RULES, text


def test_no_two_lessons_are_taken_for_one_when_edits_are_merged():
    texts = [*WORDINGS, *SUPERSTITIONS]
    assert not [(a, b) for at, a in enumerate(texts) for b in texts[:at] if are_alike(a, b)]


@pytest.mark.parametrize(
    "config",
    [
        {"observation_mode": "text_rich"},
        {"num_prev_obs": 2, "num_prev_actions": 2},
        {"show_actions": False},
        {"show_attributes": True},
    ],
)
async def test_it_reads_the_pages_however_they_are_shown(config):
    assert await won("".join(TAUGHT.values()), count=40, config=config) >= 0.8


async def test_with_few_turns_it_buys_what_it_has():
    for task in webshop_tasks("test", 20):
        metrics, _, _ = await visit(task, "".join(TAUGHT.values()), extras={"max_turns": 6})
        assert metrics["bought"]


@pytest.mark.parametrize("goals", ["human", "synthetic"])
async def test_the_expert_chooses_from_the_list_and_needs_no_skill(goals):
    tasks = webshop_tasks("val", 100, goals=goals)
    visits = [await visit(task, llm=ScriptedBuyer()) for task in tasks]
    assert sum(metrics["success"] for metrics, _, _ in visits) >= 80
    actions = sum(len(actions) for _, actions, _ in visits)
    assert sum(listed for _, _, listed in visits) >= 0.99 * actions


@given(st.lists(st.text(max_size=60), max_size=5))
async def test_what_is_no_shop_is_answered_with_a_search(texts):
    messages = [{"role": "user", "content": text} for text in texts]
    answer = await ScriptedShopper().complete(messages, purpose=Purpose.ROLLOUT)
    assert answer.text.startswith("<action>search[")


@given(st.text(max_size=120))
def test_any_text_is_read_without_a_fault(text):
    read_rules(text)
    read_wish(text)
    read_purchase(text)
    read_page(f"Instruction: [SEP] x [SEP] Back to Search [SEP] < Prev [SEP] {text} [SEP] Buy Now")
    read_page(f"Instruction: [SEP] x [SEP] Back to Search [SEP] Page 1 [SEP] {text}")


def test_a_wish_is_taken_apart():
    wish = read_wish(
        "my sister has a picnic soon and i need something nice. i want hiking boots that are water "
        "proof and wide fit, in brown, size 7.5, and price lower than 60.00 dollars"
    )
    assert wish.thing == ("hiking", "boots")
    assert wish.attributes == ("water proof", "wide fit")
    assert wish.options == ("in brown", "size 7.5")
    assert wish.limit == 60
    assert wish.queries[0] == "hiking boots water proof wide fit brown 7.5"
    assert wish.fitting(["7", "7.5", "light brown", "brown"]) == ["brown", "7.5"]
    assert wish.unmet_options(["brown", "8"]) == ["size 7.5"]


def test_of_two_values_that_fit_the_longer_one_is_meant():
    wish = read_wish("i want a hat that is soft, in light brown")
    assert wish.fitting(["brown", "light brown"]) == ["light brown"]
