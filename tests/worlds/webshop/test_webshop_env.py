"""A visit to the shop: every page byte for byte, every rule, and the contract of environments."""

import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from webshop_recorded import GOLDEN, recordings

from skillwright.core import DataError, EnvError
from skillwright.envs import check_env
from skillwright.worlds.webshop import (
    Catalogue,
    CatalogueSource,
    Product,
    Session,
    WebShopEnv,
    Wish,
    open_catalogue,
    webshop_tasks,
)
from skillwright.worlds.webshop.goals import search_commands
from skillwright.worlds.webshop.session import Part, as_rich_text, as_text, done_page

RULE = {"tagger": "rule"}
ACTIONS = st.one_of(
    st.text(max_size=30),
    st.text(max_size=20).map(lambda text: f"search[{text}]"),
    st.text(max_size=20).map(lambda text: f"click[{text}]"),
    st.sampled_from(
        [
            "search[rug]",
            "click[next >]",
            "click[< prev]",
            "click[back to search]",
            "click[description]",
            "click[buy now]",
            "<action>search[tea]</action>",
        ]
    ),
    st.integers(0, 60),
)


@pytest.fixture(scope="module")
def tasks():
    return webshop_tasks("test", env_config=RULE)


def opened(task, config=None, **extras):
    env = WebShopEnv({**RULE, **(config or {})}, {**task.extras, **extras})
    _, metadata = env.init([])
    return env, metadata


def shown(output):
    return output["metadata"]["observation"]


def clicks(output):
    return output["metadata"]["available_actions"]["clickables"]


@pytest.mark.parametrize("name", ["visit_text.json", "visit_text_rich.json", "searches.json"])
def test_pages_and_rankings_are_as_they_were_recorded(name):
    assert recordings()[name] == (GOLDEN / name).read_text(encoding="utf-8")


def test_the_contract_holds():
    report = check_env("skillwright.worlds.webshop:WebShopEnv")
    assert report.ok, [check for check in report.checks if not check.ok]


def test_every_gold_solution_is_worth_exactly_one(tasks):
    synthetic = webshop_tasks("val", 60, goals="synthetic", env_config=RULE)
    # A named option with a color inside a word cannot be met; the reward's tests hold why.
    possible = [task for task in synthetic if "blueberry" not in task.description]
    assert len(possible) > 40
    for task in [*tasks, *possible]:
        env, _ = opened(task)
        rewards = [env.step(action)["reward"] for action in WebShopEnv.gold_actions(task.extras)]
        assert rewards[-1] == 1.0, task
        assert sum(rewards) == 1.0, task
        assert env.get_metrics()["success"] == 1, task


@given(st.lists(ACTIONS, max_size=20), st.integers(0, 399))
def test_nothing_that_is_written_breaks_the_shop(actions, number):
    tasks = webshop_tasks("test", env_config=RULE)
    env, metadata = opened(tasks[number % len(tasks)], max_turns=60)
    total = 0.0
    for action in actions:
        listed = metadata["admissible_commands"]
        if isinstance(action, int):
            action = listed[action % len(listed)] if listed else ""
        output = env.step(action)
        metadata, total = output["metadata"], total + output["reward"]
        assert output["done"] == bool(metadata.get("reward_breakdown"))
    assert 0 <= total <= 1
    assert env.get_metrics()["score"] == pytest.approx(100 * total)


def test_everything_that_is_listed_can_be_done(tasks):
    for task in tasks[:10]:
        env, metadata = opened(task, max_turns=200)
        for turn in range(40):
            listed = [one for one in metadata["admissible_commands"] if one != "click[buy now]"]
            output = env.step(listed[turn * 7 % len(listed)])
            assert not output["observations"][0]["content"].startswith("That did nothing.")
            metadata = output["metadata"]


def test_a_search_works_on_every_page_and_clears_the_options(tasks):
    task = next(t for t in tasks if len(WebShopEnv.gold_actions(t.extras)) == 5)
    search, product, first, second, buy = WebShopEnv.gold_actions(task.extras)
    env, _ = opened(task)
    for action in (search, product, first, second, "click[features]", search, product):
        output = env.step(action)
        assert "That did nothing" not in output["observations"][0]["content"]
    assert env.step(buy)["metadata"]["reward_breakdown"]["r_option"] == 0


def test_another_value_of_an_option_replaces_the_first(tasks):
    catalogue = open_catalogue(CatalogueSource())
    goal = catalogue.goal(tasks[0].extras["goal"])
    session = Session(catalogue, goal, "rule")
    product = catalogue.product(goal.asin)
    name, values = next(iter(product.options.items()))
    actions = [f"search[{product.title.lower()}]", f"click[{goal.asin.lower()}]"]
    for action in [*actions, f"click[{values[0]}]", f"click[{values[1]}]"]:
        assert session.act(action)
    assert [part.text for part in session.page if part.clicked] == [values[1]]
    assert session.act("click[buy now]")
    assert Part(f'{{"{name}": "{values[1]}"}}') in session.page
    assert not session.act("click[buy now]")


def test_an_action_is_the_last_in_tags_or_the_last_on_a_line(tasks):
    for text in (
        "I think <action>search[rug]</action> or <action>search[wool rug]</action>",
        "search[rug]\nAction: search[wool rug]",
        "  search[wool rug] ",
    ):
        env, _ = opened(tasks[0])
        assert env.step(text)["postprocessed_action"] == "search[wool rug]"
    env, _ = opened(tasks[0])
    assert env.step("I would search[wool rug] now")["metadata"]["observation"].startswith("WebShop")
    assert env.get_metrics()["invalid_actions"] == 1


def test_running_out_of_turns_is_told_apart_from_a_bad_purchase(tasks):
    env, _ = opened(tasks[0], max_turns=2)
    assert not env.step("search[rug]")["done"]
    last = env.step("click[next >]")
    assert (last["done"], last["reward"], last["metadata"]["truncated"]) == (True, 0.0, True)
    assert env.get_metrics()["truncated"] == 1
    assert env.get_metrics()["bought"] == 0


def test_buying_in_the_last_turn_is_no_truncation(tasks):
    env, _ = opened(tasks[0], max_turns=3)
    first = clicks(env.step("search[rug]"))[2]
    env.step(f"click[{first}]")
    last = env.step("click[buy now]")
    assert last["done"]
    assert not last["metadata"]["truncated"]


def test_earlier_pages_and_actions_stand_before_the_page_oldest_first(tasks):
    env, opening = opened(tasks[0], {"num_prev_obs": 2, "num_prev_actions": 1})
    one, two = env.step("search[rug]"), env.step("click[next >]")
    first = shown(one).split(" [SEP] search[rug] [SEP] ")
    assert first[0] == opening["observation"]
    assert shown(two).startswith(f"{opening['observation']} [SEP] {first[1]} [SEP] click[next >]")


def test_searches_are_offered_where_the_search_bar_is(tasks):
    env, metadata = opened(tasks[0])
    assert metadata["available_actions"] == {"has_search_bar": True, "clickables": ["search"]}
    assert metadata["admissible_commands"] == search_commands(tasks[0].description)
    listed = env.step("search[rug]")["metadata"]["admissible_commands"]
    assert listed[:2] == ["click[back to search]", "click[next >]"]
    assert len(listed) == 12


@given(st.text(max_size=80))
def test_what_is_offered_to_any_instruction_is_a_search(instruction):
    commands = search_commands(instruction)
    assert len(commands) == len(set(commands)) <= 4
    assert all(one.startswith("search[") and one.endswith("]") for one in commands)


def test_actions_need_not_be_shown(tasks):
    env, _ = opened(tasks[0], {"show_actions": False})
    output = env.step("search[rug]")
    assert output["observations"][0]["content"] == shown(output)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"observation_mod": "text"}, "no setting 'observation_mod'. Did you mean 'observation_m"),
        ({"observation_mode": "html"}, "there is none here; use 'text' or 'text_rich'"),
        ({"observation_mode": "txt"}, "observation_mode is 'txt'. Did you mean 'text'"),
        ({"num_prev_obs": "1"}, "num_prev_obs is '1'; it must be a whole number"),
        ({"num_prev_obs": -1}, "it must be at least 0"),
        ({"show_actions": 1}, "it must be true or false"),
        ({"catalogue": ""}, "catalogue is empty"),
        ({"engine": "lucene"}, "Known: fts5, tantivy"),
        (["text"], "give a mapping of settings"),
    ],
)
def test_a_wrong_setting_is_named(config, message, tasks):
    with pytest.raises(DataError, match=message):
        WebShopEnv(config, dict(tasks[0].extras))


@pytest.mark.parametrize(
    ("extras", "message"),
    [
        ({}, "'goal' is missing"),
        ({"gaol": "x"}, "no setting 'gaol'. Did you mean 'goal'"),
        ({"goal": 5}, "goal is 5; it must be str"),
        ({"goal": "x", "world_seed": True}, "world_seed is True; it must be int"),
        ({"goal": "x", "max_turns": 0}, "needs at least 1"),
    ],
)
def test_a_wrong_extra_is_named(extras, message):
    with pytest.raises(DataError, match=message):
        WebShopEnv(extras=extras)


@pytest.mark.parametrize(
    ("name", "value"),
    [("tagger", "spacy"), ("goal_id", "0"), ("catalogue_sha256", "0"), ("engine", "tantivy")],
)
def test_a_task_is_not_played_over_anything_that_it_was_not_made_with(name, value, tasks):
    with pytest.raises(DataError, match=f"was made with {name} '{value}'"):
        opened(tasks[0], **{name: value})


def test_a_step_needs_an_opening(tasks):
    with pytest.raises(EnvError, match="before init"):
        WebShopEnv(extras=dict(tasks[0].extras)).step("search[rug]")


def test_episodes_share_one_catalogue_and_name_it_in_another_process(tasks):
    source = CatalogueSource()
    assert pickle.loads(pickle.dumps(source)) == source
    assert open_catalogue(source) is open_catalogue(CatalogueSource())
    code = (
        "from skillwright.worlds.webshop import *; print(open_catalogue(CatalogueSource()).digest)"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert told.stdout.strip() == open_catalogue(source).digest


def test_threads_that_come_at_once_open_one_catalogue():
    ready = threading.Barrier(4)

    def opened_by_one(_):
        ready.wait()
        return id(open_catalogue(CatalogueSource(seed=71)))

    with ThreadPoolExecutor(4) as threads:
        assert len(set(threads.map(opened_by_one, range(4)))) == 1


def test_a_text_that_is_blank_is_not_visible():
    page = (Part("a"), Part(""), Part(" "), Part("b", "button"))
    assert as_text(page) == "a [SEP] b"
    assert as_rich_text(page) == "a\n[button] b [button_]\n"


RUG = Product(
    "B000000001",
    "Rug",
    description="Soft.",
    bullets=("Wool.", "Woven."),
    prices=(20.0,),
    options={"color": ("red", "caf\u00e9"), "trim": ("red", "blue")},
    category="home",
    query="rug",
    crumbs="Home \u203a Rugs",
    attributes=("soft",),
    wishes=(Wish("a rug", ("soft",)),),
)


@pytest.fixture
def visit():
    catalogue = Catalogue.of_products([RUG], CatalogueSource())
    return Session(catalogue, catalogue.goal("B000000001/human/0"), "rule", show_attributes=True)


def rich(session, *actions):
    for action in actions:
        assert session.act(action), action
    return as_rich_text(session.page)


def test_white_space_of_rich_pages_is_that_of_the_originals_templates(visit):
    told = visit.goal.instruction_text
    assert rich(visit) == f"WebShop\nInstruction: \n{told}\n[button] Search [button_]\n"
    bar = "[button] Back to Search [button_]\n"
    listed = "\n[button] B000000001 [button_]\nRug\n$20.0\n"
    assert rich(visit, "search[rug]") == (
        f"Instruction:\n{told}\n{bar}Page 1 (Total results: 1)\n[button] Next > [button_]\n{listed}"
    )
    below = f"Instruction:\n{told}\n{bar}[button] < Prev [button_]\n"
    assert rich(visit, "click[b000000001]", "click[features]") == f"{below} Wool.\n Woven.\n"
    assert rich(visit, "click[< prev]", "click[description]") == f"{below}Soft.\n"
    assert rich(visit, "click[< prev]", "click[reviews]") == below
    assert rich(visit, "click[< prev]", "click[attributes]") == (
        f"{below} soft\nhome\nrug\nHome \u203a Rugs\n"
    )
    assert as_text(visit.page).endswith("soft [SEP] home [SEP] rug [SEP] Home \u203a Rugs")


def test_what_was_visited_is_marked_until_the_way_back_to_the_search_page(visit):
    assert "[button] B000000001" in rich(visit, "search[rug]")
    seen = "[clicked button] B000000001 [clicked button_]"
    assert seen in rich(visit, "click[b000000001]", "click[< prev]")
    assert seen in rich(visit, "search[rug]")
    assert "[button] B000000001" in rich(visit, "click[back to search]", "search[rug]")


def test_the_chosen_value_alone_is_marked_also_outside_ascii(visit):
    # The original looks for the value, in quotation marks, in the page's address: there one of
    # the second kind is never marked, and one of the first kind with both options.
    page = rich(visit, "search[rug]", "click[b000000001]", "click[caf\u00e9]", "click[red]")
    assert page.startswith("You have clicked red.\nYou have clicked caf\u00e9.\n")
    assert "color\n  [button] red [button_]\n  [clicked button] caf\u00e9 [clicked button_]" in page
    assert "trim\n  [clicked button] red [clicked button_]\n  [button] blue [button_]" in page


def test_the_page_of_a_purchase_has_every_field_of_the_original():
    chosen = {"size": "men's <9>", "color": "caf\u00e9"}
    page = done_page(RUG, chosen, Fraction(4, 5))
    options = r'{"color": "caf\u00e9", "size": "men\u0027s \u003c9\u003e"}'
    assert as_text(page) == (
        "Thank you for shopping with us! [SEP] Your code: [SEP] None [SEP] (Paste it in your MTurk "
        "interface.) [SEP] Purchased [SEP] asin [SEP] B000000001 [SEP] options [SEP] "
        f"{options} [SEP] attrs [SEP] None [SEP] category [SEP] None [SEP] query [SEP] None "
        "[SEP] product category [SEP] None [SEP] Target [SEP] asin [SEP] options [SEP] attrs [SEP] "
        "price upper [SEP] instuction text [SEP] category [SEP] product category [SEP] query [SEP] "
        "Goal [SEP] None [SEP] Reward [SEP] Your score (min 0.0, max 1.0) [SEP] 0.8 [SEP] "
        "Reward Details [SEP] None"
    )
    assert as_rich_text(page).startswith(
        "Thank you for shopping with us!\nYour code: \nNone\n (Paste it in your MTurk interface.)\n"
    )


def test_the_built_in_shop_has_no_other_engine(tasks):
    with pytest.raises(DataError, match="use engine 'fts5'"):
        open_catalogue(CatalogueSource(engine="tantivy"))


def test_buying_the_first_hit_for_the_whole_sentence_rarely_wins(tasks):
    won = 0
    for task in tasks[:150]:
        env, metadata = opened(task)
        hits = clicks(env.step(metadata["admissible_commands"][0]))[2:]
        env.step(f"click[{hits[0]}]")
        won += env.step("click[buy now]")["metadata"]["won"]
    assert 0 < won < 0.2 * 150
