"""The store that comes with the package: its bytes, its people, and every one of its tasks."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from skillwright.worlds.tau_bench import TauBenchEnv, open_store
from skillwright.worlds.tau_bench.tau_core import Database, call_tool, store
from tau_built_in.generate import HERE, PLAN, store_files, write_store
from tau_store import tool_call

STORE = open_store(HERE)
TASKS = [
    pytest.param(split, index, id=f"{split}-{index}-{'-'.join(one.__name__ for one in recipes)}")
    for split, plan in PLAN.items()
    for index, recipes in enumerate(plan)
]
TERMINATING = "transfer_to_human_agents"
WRITES = ("cancel_", "modify_", "return_", "exchange_")


def read(name):
    return json.loads((HERE / name).read_text(encoding="utf-8"))


def play(split, index, calls, said):
    """Carry out calls, say something, and return the reward."""
    extras = {"task_split": split, "task_index": index, "max_turns": 60}
    script = {"user_strategy": "scripted", "user_replies": ["Hello."], "data_dir": str(HERE)}
    env = TauBenchEnv(script, extras)
    env.init([])
    for name, kwargs in calls:
        if env.step(tool_call(name, **kwargs))["done"]:
            break
    else:
        env.step(f"Done. {said}")
    return env.get_metrics()["reward"]


def gold(split, index):
    return [(one.name, dict(one.kwargs)) for one in STORE.task(split, index).actions]


def swapped_variant(db, name, kwargs):
    """Return another item of the same product in place of the first one that was asked for."""
    order = db.find("orders", kwargs["order_id"])
    item = next(one for one in order["items"] if one["item_id"] == kwargs["item_ids"][0])
    variants = db.find("products", item["product_id"])["variants"].values()
    others = [
        one["item_id"]
        for one in variants
        if one["available"] and one["item_id"] not in kwargs["new_item_ids"]
    ]
    return name, {**kwargs, "new_item_ids": [others[0], *kwargs["new_item_ids"][1:]]}


def mistaken(db, name, kwargs):
    """Return what a careless agent may do in place of a gold write."""
    if name == "cancel_pending_order":
        reasons = {"no longer needed", "ordered by mistake"} - {kwargs["reason"]}
        return name, {**kwargs, "reason": reasons.pop()}
    if name.endswith("_address"):
        return name, {**kwargs, "address2": ""}
    if name == "modify_pending_order_payment":
        return "cancel_pending_order", {
            "order_id": kwargs["order_id"],
            "reason": "no longer needed",
        }
    if name == "return_delivered_order_items":
        return name, {**kwargs, "item_ids": kwargs["item_ids"][1:]}
    return swapped_variant(db, name, kwargs)


def officious(db, task):
    """Return a write that nobody asked for, where the right thing is to write nothing."""
    for order_id in db.find("users", task.user_id)["orders"]:
        order = db.find("orders", order_id)
        if order["status"] == "pending":
            return "cancel_pending_order", {"order_id": order_id, "reason": "no longer needed"}
        if order["status"] == "delivered":
            return "return_delivered_order_items", {
                "order_id": order_id,
                "item_ids": [item["item_id"] for item in order["items"]],
                "payment_method_id": order["payment_history"][0]["payment_method_id"],
            }
    address = {**db.find("users", task.user_id)["address"], "address2": "Unit 0"}
    return "modify_user_address", {"user_id": task.user_id, **address}


@pytest.mark.parametrize(("split", "index"), TASKS)
def test_gold_and_outputs_are_paid_and_a_plausible_mistake_is_not(split, index):
    task, calls = STORE.task(split, index), gold(split, index)
    said = " ".join(task.outputs)
    assert play(split, index, calls, said) == 1.0

    db = Database(STORE.tables)
    writes = [at for at, (name, _) in enumerate(calls) if name.startswith(WRITES)]
    if writes:
        wrong = mistaken(db, *calls[writes[-1]])
        calls[writes[-1]] = wrong
    else:
        wrong = officious(db, task)
        calls.insert(1, wrong)
    for name, kwargs in calls:
        if (name, kwargs) != wrong:
            call_tool(db, name, kwargs)
    assert not call_tool(db, *wrong).is_error, "the mistake must be one that the tools let pass"
    assert play(split, index, calls, said) == 0.0


@pytest.mark.parametrize(("split", "index"), TASKS)
def test_gold_keeps_the_rules_of_the_tools(split, index):
    db = Database(STORE.tables)
    results = [call_tool(db, name, kwargs) for name, kwargs in gold(split, index)]
    assert not [result.observation for result in results if result.is_error]
    assert results[0].observation == STORE.task(split, index).user_id


@pytest.mark.parametrize(("split", "index"), TASKS)
def test_required_outputs_must_be_said(split, index):
    if STORE.task(split, index).outputs:
        assert play(split, index, gold(split, index), "") == 0.0


def test_who_does_nothing_is_paid_only_where_nothing_can_be_done():
    free = {
        (split, index)
        for split, index in (one.values for one in TASKS)
        if play(split, index, [], "")
    }
    assert free == {("train", 15), ("val", 11), ("test", 11)}


def test_generating_it_again_gives_the_same_bytes(tmp_path):
    assert {name: (HERE / name).read_bytes() for name in store_files()} == store_files()
    write_store(tmp_path)
    assert all((tmp_path / name).read_bytes() == made for name, made in store_files().items())


def test_the_luck_of_the_process_does_not_matter():
    random.seed(1)
    code = (
        f"import hashlib; import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r})\n"
        "from tau_built_in.generate import store_files\n"
        "sys.stdout.write(hashlib.sha256(b''.join(store_files().values())).hexdigest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1


def test_it_is_as_large_as_promised():
    assert [len(read(f"{name}.json")) for name in ("users", "products", "orders")] == [60, 12, 150]
    assert {split: len(STORE.tasks(split)) for split in STORE.splits} == {
        "train": 16,
        "val": 12,
        "test": 12,
    }
    STORE.load()


def test_every_writing_tool_is_asked_for():
    named = {name for one in TASKS for name, _ in gold(*one.values)}
    assert {name for name in named if name.startswith(WRITES)} | {TERMINATING} == {
        "cancel_pending_order",
        "exchange_delivered_order_items",
        "modify_pending_order_address",
        "modify_pending_order_items",
        "modify_pending_order_payment",
        "modify_user_address",
        "return_delivered_order_items",
        TERMINATING,
    }
    assert {"calculate", "list_all_product_types", "get_user_details"} <= named


def test_no_customer_is_in_two_tasks():
    customers = [STORE.task(*one.values).user_id for one in TASKS]
    assert len(set(customers)) == len(customers)


def test_the_tables_agree_with_each_other():
    users, products, orders = (read(f"{name}.json") for name in ("users", "products", "orders"))
    listed = [order_id for user in users.values() for order_id in user["orders"]]
    assert sorted(listed) == sorted(orders)
    for order_id, order in orders.items():
        owner = users[order["user_id"]]
        assert order_id in owner["orders"]
        assert order["order_id"] == order_id
        assert order["payment_history"][0]["payment_method_id"] in owner["payment_methods"]
        total = round(sum(item["price"] for item in order["items"]), 2)
        assert order["payment_history"][0]["amount"] == total
        for item in order["items"]:
            variant = products[item["product_id"]]["variants"][item["item_id"]]
            assert (variant["price"], variant["options"]) == (item["price"], item["options"])
    names = [(user["name"]["first_name"], user["name"]["last_name"]) for user in users.values()]
    assert len(set(names)) == len(names)


def test_it_is_used_where_nothing_else_is_named(monkeypatch, tmp_path):
    monkeypatch.delenv("SKILLWRIGHT_TAU_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert store.BUILT_IN == HERE
    assert store.data_dir() == store.DataSource(str(HERE), "built-in")
    assert TauBenchEnv({"user_strategy": "scripted"}, {"task_index": 0}).data.origin == "built-in"


def test_nothing_of_it_is_in_the_official_data(reference_data):
    for name in ("users", "products", "orders"):
        theirs = json.loads((reference_data / "tau_retail" / f"{name}.json").read_text())
        assert not theirs.keys() & read(f"{name}.json").keys()
