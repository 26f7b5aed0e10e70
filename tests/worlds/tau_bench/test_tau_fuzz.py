"""Anything a model writes is an observation."""

import json
import random

import pytest

from skillwright.core.jsonio import canonical
from skillwright.envs.drive import fuzz_action
from skillwright.worlds.tau_bench import DOMAINS
from tau_store import TABLES, make_env, write_store

ODD = (
    *(
        None,
        True,
        False,
        0,
        -1,
        10**400,
        0.5,
        -0.0,
        1e308,
        "",
        " ",
        "#W1",
        "#W2",
        "#W3",
        "11",
        "12",
    ),
    *(
        "ann_ash_1",
        "paypal_1",
        "gift_card_1",
        "no longer needed",
        "(1+2)*3",
        "9**9**9",
        "1/0",
        "()",
    ),
    *(
        "\ud800",
        "\x00",
        "###STOP###",
        "<think>",
        "</tool_call>",
        [],
        {},
        [[]],
        ["11"],
        ["11", "12"],
    ),
    *(["11", None], [{}], {"a": []}, {"11": "12"}, "ann.ash@example.com", "Ann", "80279", "lamp"),
)
FITTING = {
    "order_id": ("#W1", "#W2", "#W3"),
    "item_ids": (["11"], ["12"], ["11", "12"], [], ""),
    "new_item_ids": (["12"], ["11"], ["13", "13"], [], ""),
    "payment_method_id": ("paypal_1", "gift_card_1"),
    "reason": ("no longer needed", "ordered by mistake"),
    "user_id": ("ann_ash_1",),
}
WRAPPED = (
    "{}",
    "<tool_call>{}</tool_call>",
    "<tool_call>{}",
    "{}</tool_call>",
    "<think>hm</think><tool_call>{}</tool_call>",
    "Let me see. <tool_call>{}</tool_call><tool_call>{}</tool_call>",
    "```json\n{}\n```",
)


def odd_call(rng):
    """Write a call that has the right names, mostly, and anything for arguments."""
    name = rng.choice((*DOMAINS["retail"].tools, "respond", "Think", "", "\ud800"))
    wanted = [*DOMAINS["retail"].parameters.get(name, ("content",))]
    if rng.random() < 0.2:
        wanted = wanted[: rng.randint(0, len(wanted))] + rng.choice(([], ["data"], ["x"]))
    arguments = {
        one: rng.choice(FITTING.get(one, ODD) if rng.random() < 0.9 else ODD) for one in wanted
    }
    call = {"name": name, "arguments": rng.choice((arguments, json.dumps(arguments)))}
    text = json.dumps(call, ensure_ascii=rng.random() < 0.5)
    if rng.random() < 0.1:
        cut = rng.randint(0, len(text))
        text = text[:cut] + rng.choice(("", '"', "}", "NaN", "\ud800")) + text[cut:]
    return rng.choice(WRAPPED).replace("{}", text)


def survive(folder, seed, actions):
    """Play until so many actions were taken; every output must be storable."""
    rng, taken, changed = random.Random(seed), 0, set()
    while taken < actions:
        mode = rng.choice(("default", "strict", "lenient"))
        env = make_env(folder, rng.randrange(3), ["Hi", *["Go on."] * 40], parsing=mode)
        env.init([])
        done = False
        while not done and taken < actions:
            action = fuzz_action(rng, ()) if rng.random() < 0.3 else odd_call(rng)
            output = env.step(action)
            done = output["done"]
            taken += 1
            canonical(output).encode()
            assert 0.0 <= output["reward"] <= 1.0
        canonical(env.get_metrics())
        assert env.tau_env.db.state_hash()
        changed |= {record.get("status") for record in env.tau_env.db.changed.values()}
    # Otherwise the actions would not have been worth much.
    assert changed >= {"cancelled", "return requested", "exchange requested"}


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    return write_store(tmp_path_factory.mktemp("shop"))


def test_nothing_that_a_model_writes_raises(shop):
    survive(shop, seed=1, actions=3_000)
    unchanged = make_env(shop).tau_env.store.tables.records
    assert json.dumps(unchanged) == json.dumps(TABLES)


@pytest.mark.heavy
def test_nothing_in_a_hundred_thousand_actions_raises(shop):
    survive(shop, seed=2, actions=100_000)
