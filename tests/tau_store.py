"""A shop so small that a test can see all of it, and episodes in it."""

import hashlib
import json
from pathlib import Path

from skillwright.worlds.tau_bench import TauBenchEnv, open_store
from skillwright.worlds.tau_bench.tau_core import Database, call_tool

OPENING = "Hello, it is about my order."


def variant(item_id, price, available=True, **options):
    return {"item_id": item_id, "options": options, "available": available, "price": price}


def item(item_id, price, product="lamp", **options):
    name = product.capitalize()
    options = options or {"colour": "red"}
    return {
        "name": name,
        "product_id": product,
        "item_id": item_id,
        "price": price,
        "options": options,
    }


def paid(amount, method):
    return {"transaction_type": "payment", "amount": amount, "payment_method_id": method}


def address(zip_code):
    return {
        "address1": "1 Elm Street",
        "address2": "",
        "city": "Denver",
        "country": "USA",
        "state": "CO",
        "zip": zip_code,
    }


def order(order_id, user_id, items, status, method):
    total = round(sum(one["price"] for one in items), 2)
    return {
        "order_id": order_id,
        "user_id": user_id,
        "address": address("80279"),
        "items": items,
        "fulfillments": [],
        "status": status,
        "payment_history": [paid(total, method)],
    }


def user(first, last, zip_code, *methods, orders=()):
    return {
        "name": {"first_name": first, "last_name": last},
        "address": address(zip_code),
        "email": f"{first}.{last}@example.com",
        "payment_methods": {method["id"]: method for method in methods},
        "orders": list(orders),
    }


def gift_card(number, balance):
    return {"source": "gift_card", "id": f"gift_card_{number}", "balance": balance}


def paypal(number):
    return {"source": "paypal", "id": f"paypal_{number}"}


TABLES = {
    "users": {
        "ann_ash_1": user(
            "Ann", "Ash", "80279", gift_card(1, 50), paypal(1), orders=["#W1", "#W2", "#W3"]
        ),
        "ann_oak_2": user("Ann", "Oak", "10001", paypal(2), gift_card(2, 5), orders=["#W4"]),
        "bob_elm_3": user("Bob", "Elm", "10001", paypal(3)),
    },
    "products": {
        "lamp": {
            "name": "Lamp",
            "product_id": "lamp",
            "variants": {
                "11": variant("11", 20.1, colour="red"),
                "12": variant("12", 30.4, colour="blue"),
                "13": variant("13", 10.0, colour="green"),
                "14": variant("14", 10.0, available=False, colour="grey"),
            },
        },
        "book": {"name": "Book", "product_id": "book", "variants": {"21": variant("21", 7.5)}},
    },
    "orders": {
        "#W1": order("#W1", "ann_ash_1", [item("11", 20.1)], "pending", "paypal_1"),
        "#W2": order("#W2", "ann_ash_1", [item("11", 20.1)], "delivered", "paypal_1"),
        "#W3": order(
            "#W3", "ann_ash_1", [item("11", 20.1), item("12", 30.4)], "pending", "gift_card_1"
        ),
        "#W4": order(
            "#W4", "ann_oak_2", [item("11", 20.1), item("11", 20.1)], "processed", "paypal_2"
        ),
    },
}


def task(*actions, outputs=(), user_id="ann_ash_1"):
    listed = [{"name": name, "kwargs": kwargs} for name, kwargs in actions]
    return {
        "user_id": user_id,
        "instruction": "You are Ann Ash and want something.",
        "actions": listed,
        "outputs": list(outputs),
    }


CANCEL = ("cancel_pending_order", {"order_id": "#W1", "reason": "no longer needed"})
RETURN = (
    "return_delivered_order_items",
    {"order_id": "#W2", "item_ids": ["11"], "payment_method_id": "paypal_1"},
)
TASKS = [
    task(("get_order_details", {"order_id": "#W1"}), CANCEL),
    task(CANCEL, RETURN, outputs=["20.10", "1234"]),
    task(("transfer_to_human_agents", {"summary": "nothing to be done"})),
]


def write_store(folder: Path, **files) -> Path:
    """Write the shop with its checksums; keyword arguments replace files by stem."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {**TABLES, "tasks_test": TASKS, "rules": ["Be kind."], **files}
    texts = {f"{stem}.json": json.dumps(value) for stem, value in wanted.items()}
    texts["wiki.md"] = "# Policy\n\nHelp people.\n"
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    write_sums(folder)
    return folder


def write_sums(folder: Path) -> None:
    """Write the checksums of what is there."""
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(folder.iterdir())
        if path.suffix in {".json", ".md"}
    ]
    (folder / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


def database(folder) -> Database:
    """Begin with the pristine database."""
    return Database(open_store(folder).tables)


def answer(db, name, **kwargs) -> str:
    """Call a tool and return what it says."""
    return call_tool(db, name, kwargs).observation


def tool_call(name, **arguments) -> str:
    """Write a call as an agent does."""
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def make_env(folder, index=0, replies=(OPENING,), **settings) -> TauBenchEnv:
    """Build an episode with a scripted user; ``extras`` among the settings is added to its own."""
    extras = {"task_index": index, "task_split": "test", **settings.pop("extras", {})}
    script = {"user_strategy": "scripted", "user_replies": list(replies)}
    return TauBenchEnv({"data_dir": str(folder), **script, **settings}, extras)


def open_env(folder, index=0, replies=(OPENING,), **settings) -> TauBenchEnv:
    """Build an episode and open it."""
    env = make_env(folder, index, replies, **settings)
    env.init([])
    return env
