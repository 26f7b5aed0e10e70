"""The teachers of the retail store and of the web shop read the same prompts."""

import pytest

from bank_houses import added
from skillwright.bank import (
    Bank,
    BankSource,
    DistillSettings,
    EvolutionResults,
    EvolveSettings,
    Teacher,
    apply,
    distill,
    evolve,
    skill_line,
)
from skillwright.core import Act, BankSkill, EpisodeSpec, PlainSkill, SkillKind
from skillwright.datasets import EvolutionTasks, StudyTasks
from skillwright.models import ChatAgent
from skillwright.rollout import LocalEngine
from skillwright.worlds.tau_bench import TauBenchEnv, tau_tasks
from skillwright.worlds.tau_bench.scripted import RetailRule, ScriptedRetail, read_rules
from skillwright.worlds.tau_bench.scripted.agent import BAD_RULES
from skillwright.worlds.tau_bench.scripted.teacher import INSIGHTS as RETAIL
from skillwright.worlds.tau_bench.scripted.teacher import RetailTeacher
from skillwright.worlds.webshop import WebShopEnv, webshop_tasks
from skillwright.worlds.webshop.scripted import BAD_RULES as SHOP_HARM
from skillwright.worlds.webshop.scripted import ScriptedShopper, ShopRule
from skillwright.worlds.webshop.scripted import read_rules as read_shop_rules
from skillwright.worlds.webshop.scripted.optimizer import read_purchase
from skillwright.worlds.webshop.scripted.teacher import INSIGHTS, WebShopTeacher
from tau_built_in.generate import HERE

RETAIL_CONFIG = {"user_strategy": "rule_based", "data_dir": str(HERE)}
NAMED = (TauBenchEnv.category, TauBenchEnv.scope)


async def calls(tasks, skills):
    engine = LocalEngine(
        ChatAgent(ScriptedRetail()), lambda task: TauBenchEnv(RETAIL_CONFIG, dict(task.extras))
    )
    return await engine.run([EpisodeSpec(task, 1) for task in tasks], skills)


def wins(results):
    return sum(one.is_success() for one in results)


@pytest.mark.parametrize("one", RETAIL, ids=lambda one: one.teaching.key)
def test_every_retail_teaching_is_obeyed_in_the_form_of_the_bank(one):
    for wording in range(len(one.teaching.principles)):
        written = one.teaching.principle([], wording)
        del written["evidence"]
        skill = BankSkill("t001", **written, kind=SkillKind.TASK_SPECIFIC, category="cancel")
        rules = read_rules(skill_line(skill))
        assert RetailRule(one.teaching.key) in rules
        assert not rules & BAD_RULES


async def test_calls_are_distilled_and_evolution_goes_on_where_they_end():
    train, test = (tau_tasks(split, RETAIL_CONFIG) for split in ("train", "test"))
    base = await calls(train, PlainSkill(""))
    teacher = Teacher(RetailTeacher())
    found = await distill(base, teacher, DistillSettings(), *NAMED)
    found.refuse_gaps()
    assert not found.report.blocked
    bank, _ = apply(Bank(), found.changes, None)
    split = EvolutionTasks.every(StudyTasks(tuple(train)), 1)
    settings = EvolveSettings(trigger_accuracy=1.0)
    banks = [bank]
    for _ in range(3):
        told = BankSource(banks[-1], categorize=NAMED[0], scope=NAMED[1])
        played = EvolutionResults(split, tuple(await calls(train, told)))
        update = await evolve(played, banks[-1], teacher, settings, *NAMED)
        banks.append(update.candidate(banks[-1], settings.caps)[0])
    sources = [BankSource(one, categorize=NAMED[0], scope=NAMED[1]) for one in banks]
    without, first, last = [
        wins(await calls(test, source)) for source in (PlainSkill(""), sources[0], sources[-1])
    ]
    assert without < first < last


def visit(task, actions):
    """Play a visit by given actions."""

    class Shopper:
        identity = "test:shopper"

        async def act_batch(self, contexts):
            done = [sum(m["role"] == "assistant" for m in one.messages) for one in contexts]
            return [Act(actions[min(n, len(actions) - 1)]) for n in done]

    engine = LocalEngine(Shopper(), lambda task: WebShopEnv(extras=dict(task.extras)))
    return engine.run([EpisodeSpec(task, 1)], PlainSkill(""))


async def visits(kind):
    found = []
    for task in webshop_tasks("train", 8):
        gold = WebShopEnv.gold_actions(task.extras)
        if kind == "without options":
            chosen = len(gold) > 3
            gold = [*gold[:2], gold[-1]]
            if not chosen:
                continue
        elif kind == "looking on":
            gold = [gold[0], "click[next >]", "click[back to search]"]
        elif kind == "a long query":
            gold = [f"search[{task.description}]", "click[back to search]"]
        found += await visit(task, gold)
    return found


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("without options", "Options of its kind"),
        ("looking on", "Buy in time"),
        ("a long query", "Search with few words"),
    ],
)
async def test_what_visits_lacked_becomes_a_lesson(kind, name):
    results = await visits(kind)
    found = await distill(
        results, Teacher(WebShopTeacher()), DistillSettings(), WebShopEnv.category, WebShopEnv.scope
    )
    found.refuse_gaps()
    assert not found.report.blocked
    lessons = [c.draft.name for c in found.changes if c.draft.kind is SkillKind.LESSON]
    assert name in lessons


async def test_what_visits_did_well_becomes_principles():
    results = await visits("gold")
    assert all(one.is_success() for one in results)
    found = await distill(
        results, Teacher(WebShopTeacher()), DistillSettings(), WebShopEnv.category, WebShopEnv.scope
    )
    names = {change.draft.name for change in found.changes}
    assert {"Choose every option", "Stay below the price"} <= names


def test_a_visit_is_read_as_its_pages_tell_it():
    text = (
        "[0] result: Instruction: [SEP] i want a red hat, and price lower than 20.00 dollars [SEP] "
        "Back to Search [SEP] < Prev [SEP] color [SEP] red [SEP] blue [SEP] A Hat [SEP] "
        "Price: $25.5 [SEP] Buy Now\n[1] action: click[buy now]\n[1] result: Thank you [SEP] "
        'Purchased [SEP] options [SEP] {"color": "blue"} [SEP] 0.5'
    )
    seen = read_purchase(text)
    assert (seen.limit, seen.price, seen.bought) == (20.0, 25.5, True)
    assert (seen.wanted, seen.chosen) == ({"red"}, {"blue"})
    missing = [one.teaching.key for one in INSIGHTS if one.was_missing(text)]
    assert missing == ["options", "price"]
    assert not read_purchase("").bought


async def test_harmful_advice_is_retired():
    task = webshop_tasks("train", 1)[0]
    results = tuple(await visit(task, ["search[hat]", "click[next >]"]))
    believed = BankSkill(
        "",
        "First come",
        "Buy the first product of the results at once; the shop sorts the best one first.",
        "always",
        SkillKind.GENERAL,
    )
    bank, _ = apply(Bank(), added(believed), None)
    split = EvolutionTasks.every(StudyTasks((task,)), 1)
    update = await evolve(
        EvolutionResults(split, results),
        bank,
        Teacher(WebShopTeacher()),
        EvolveSettings(),
        WebShopEnv.category,
        WebShopEnv.scope,
    )
    _, report = update.candidate(bank, EvolveSettings().caps)
    assert report.retired == ("g001",)


@pytest.mark.parametrize("one", INSIGHTS, ids=lambda one: str(one.teaching.key))
def test_every_shopping_teaching_is_obeyed_in_the_form_of_the_bank(one):
    rule = ShopRule(one.teaching.key)
    for wording in range(len(one.teaching.principles)):
        written = one.teaching.principle([], wording)
        del written["evidence"]
        skill = BankSkill("t001", **written, kind=SkillKind.TASK_SPECIFIC, category="apparel")
        rules = read_shop_rules(skill_line(skill))
        assert rule in rules
        assert not rules & SHOP_HARM


async def shopped(tasks, skills):
    engine = LocalEngine(
        ChatAgent(ScriptedShopper()), lambda task: WebShopEnv(extras=dict(task.extras))
    )
    return await engine.run([EpisodeSpec(task, 1) for task in tasks], skills)


async def test_visits_are_distilled_and_evolution_makes_a_good_shopper():
    train, test = webshop_tasks("train", 60), webshop_tasks("test", 60)
    naming = (WebShopEnv.category, WebShopEnv.scope)
    teacher = Teacher(WebShopTeacher())
    found = await distill(await shopped(train, PlainSkill("")), teacher, DistillSettings(), *naming)
    found.refuse_gaps()
    assert not found.report.blocked
    bank, _ = apply(Bank(), found.changes, None)
    split = EvolutionTasks.every(StudyTasks(tuple(train)), 1)
    settings = EvolveSettings(trigger_accuracy=1.0)
    for _ in range(2):
        told = BankSource(bank, categorize=naming[0], scope=naming[1])
        played = EvolutionResults(split, tuple(await shopped(train, told)))
        bank, _ = (await evolve(played, bank, teacher, settings, *naming)).candidate(
            bank, settings.caps
        )
    told = BankSource(bank, categorize=naming[0], scope=naming[1])
    assert wins(await shopped(test, PlainSkill(""))) < 0.4 * len(test)
    assert wins(await shopped(test, told)) >= 0.8 * len(test)
