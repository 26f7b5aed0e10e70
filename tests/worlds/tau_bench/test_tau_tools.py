"""The tools of the shop: every check, effect and odd argument."""

import json

import pytest

from skillwright.worlds.tau_bench import DOMAINS
from skillwright.worlds.tau_bench.tau_core import call_tool
from tau_store import answer, database, write_store

NEW_HOME = {
    "address1": "2 Oak Road",
    "address2": "",
    "city": "Denver",
    "state": "CO",
    "country": "USA",
    "zip": "80000",
}


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    return write_store(tmp_path_factory.mktemp("shop"))


@pytest.fixture
def db(shop):
    return database(shop)


def balance(db, user_id="ann_ash_1", method="gift_card_1"):
    return db.find("users", user_id)["payment_methods"][method]["balance"]


# Reading


def test_a_user_is_found_by_email_in_any_case_and_not_trimmed(db):
    assert answer(db, "find_user_id_by_email", email="ANN.ash@Example.com") == "ann_ash_1"
    assert answer(db, "find_user_id_by_email", email=" ann.ash@example.com") == (
        "Error: user not found"
    )


def test_a_user_is_found_by_name_and_zip_of_this_episode(db):
    find = {"first_name": "ann", "last_name": "OAK"}
    assert answer(db, "find_user_id_by_name_zip", **find, zip="10001") == "ann_oak_2"
    assert answer(db, "find_user_id_by_name_zip", **find, zip=10001) == "Error: user not found"
    answer(db, "modify_user_address", user_id="ann_oak_2", **NEW_HOME)
    assert answer(db, "find_user_id_by_name_zip", **find, zip="80000") == "ann_oak_2"
    assert answer(db, "find_user_id_by_name_zip", **find, zip="10001") == "Error: user not found"


def test_what_is_not_there_is_not_found(db):
    assert answer(db, "get_order_details", order_id="W1") == "Error: order not found"
    assert answer(db, "get_order_details", order_id=None) == "Error: order not found"
    assert answer(db, "get_product_details", product_id="11") == "Error: product not found"
    assert answer(db, "get_user_details", user_id=True) == "Error: user not found"


def test_products_are_listed_by_name(db):
    assert answer(db, "list_all_product_types") == '{"Book": "book", "Lamp": "lamp"}'


def test_reading_changes_nothing(db):
    for name in ("get_order_details", "get_user_details", "get_product_details"):
        parameter = f"{name.split('_')[1]}_id"
        answer(db, name, **{parameter: {"order": "#W1", "user": "bob_elm_3"}.get(name, "lamp")})
    answer(db, "think", thought="hm")
    assert db.changed == {}


# Cancelling, addresses, payment


def test_cancelling_refunds_and_appends_the_reason(db):
    shown = json.loads(
        answer(db, "cancel_pending_order", order_id="#W3", reason="ordered by mistake")
    )
    assert list(shown)[-1] == "cancel_reason"
    assert shown["status"] == "cancelled"
    assert shown["payment_history"][-1] == {
        "transaction_type": "refund",
        "amount": 50.5,
        "payment_method_id": "gift_card_1",
    }
    assert balance(db) == 100.5


@pytest.mark.parametrize(
    ("order_id", "reason", "error"),
    [
        ("#W9", "no longer needed", "order not found"),
        ("#W2", "no longer needed", "non-pending order cannot be cancelled"),
        ("#W1", "No longer needed", "invalid reason"),
        ("#W1", ["no longer needed"], "invalid reason"),
    ],
)
def test_a_refused_cancellation_leaves_no_trace(db, order_id, reason, error):
    assert answer(db, "cancel_pending_order", order_id=order_id, reason=reason) == f"Error: {error}"
    assert db.changed == {}


def test_cancelling_after_a_change_of_payment_credits_the_gift_card_for_every_entry(db):
    change = {"order_id": "#W1", "payment_method_id": "gift_card_1"}
    answer(db, "modify_pending_order_payment", **change)
    assert balance(db) == 29.9
    shown = json.loads(
        answer(db, "cancel_pending_order", order_id="#W1", reason="no longer needed")
    )
    assert len(shown["payment_history"]) == 6
    assert balance(db) == 50.0
    assert isinstance(balance(db), float)  # which is another state than the whole number 50


@pytest.mark.parametrize(
    ("order_id", "method", "error"),
    [
        ("#W9", "paypal_1", "order not found"),
        ("#W2", "gift_card_1", "non-pending order cannot be modified"),
        ("#W1", "paypal_9", "payment method not found"),
        ("#W1", "paypal_1", "the new payment method should be different from the current one"),
    ],
)
def test_a_refused_change_of_payment_leaves_no_trace(db, order_id, method, error):
    said = answer(db, "modify_pending_order_payment", order_id=order_id, payment_method_id=method)
    assert said == f"Error: {error}"
    assert db.changed == {}


def test_a_payment_is_changed_once(db):
    change = {"order_id": "#W3", "payment_method_id": "paypal_1"}
    shown = json.loads(answer(db, "modify_pending_order_payment", **change))
    kinds = [one["transaction_type"] for one in shown["payment_history"]]
    assert kinds == ["payment", "payment", "refund"]
    assert shown["status"] == "pending"
    assert balance(db) == 100.5
    assert "exactly one payment" in answer(db, "modify_pending_order_payment", **change)


def test_a_new_address_keeps_the_order_of_its_keys_and_any_type_of_value(db):
    odd = {**NEW_HOME, "zip": 80000}
    said = answer(db, "modify_pending_order_address", order_id="#W1", **odd)
    assert list(json.loads(said)["address"]) == list(NEW_HOME)
    assert json.loads(said)["address"]["zip"] == 80000
    answer(db, "cancel_pending_order", order_id="#W1", reason="no longer needed")
    again = answer(db, "modify_pending_order_address", order_id="#W1", **odd)
    assert again == "Error: non-pending order cannot be modified"


# Swapping and returning items


def swap(db, tool, order_id, old, new, method="paypal_1"):
    return answer(
        db, tool, order_id=order_id, item_ids=old, new_item_ids=new, payment_method_id=method
    )


def test_a_difference_in_price_is_not_rounded_when_items_are_modified(db):
    shown = json.loads(swap(db, "modify_pending_order_items", "#W1", ["11"], ["12"]))
    assert shown["status"] == "pending (item modified)"
    assert shown["items"][0]["options"] == {"colour": "blue"}
    assert shown["payment_history"][-1]["amount"] == 30.4 - 20.1 != 10.3
    assert "non-pending" in swap(db, "modify_pending_order_items", "#W1", ["12"], ["11"])


def test_a_cheaper_item_is_refunded_to_the_gift_card(db):
    shown = json.loads(swap(db, "modify_pending_order_items", "#W1", ["11"], ["13"], "gift_card_1"))
    assert shown["payment_history"][-1]["transaction_type"] == "refund"
    assert balance(db) == 60.1


def test_swapping_in_a_chain_hits_the_first_item_of_that_id_again(db):
    shown = json.loads(swap(db, "modify_pending_order_items", "#W3", ["11", "12"], ["12", "13"]))
    assert [one["item_id"] for one in shown["items"]] == ["13", "12"]


@pytest.mark.parametrize("tool", ["modify_pending_order_items", "exchange_delivered_order_items"])
@pytest.mark.parametrize(
    ("old", "new", "method", "error"),
    [
        (["99"], ["12"], "paypal_1", "99 not found"),
        (["11", "11"], ["12", "12"], "paypal_1", "11 not found"),
        ("11", "12", "paypal_1", "1 not found"),
        ([11], [12], "paypal_1", "11 not found"),
        ([["11"]], ["12"], "paypal_1", "['11'] not found"),
        (["11"], [], "paypal_1", "the number of items to be exchanged should match"),
        (["11"], ["14"], "paypal_1", "new item 14 not found or available"),
        (["11"], ["21"], "paypal_1", "new item 21 not found or available"),
        (["11"], [["12"]], "paypal_1", "unhashable type: 'list'"),
        (["11"], None, "paypal_1", "object of type 'NoneType' has no len()"),
        (5, ["12"], "paypal_1", "'int' object is not iterable"),
        ({"11": 1}, ["12"], "paypal_1", "'dict' object has no attribute 'count'"),
        (["11"], ["12"], "paypal_9", "payment method not found"),
    ],
)
def test_a_refused_swap_leaves_no_trace(db, tool, old, new, method, error):
    order_id = "#W1" if tool.startswith("modify") else "#W2"
    assert swap(db, tool, order_id, old, new, method) == f"Error: {error}"
    assert db.changed == {}


def test_a_gift_card_must_hold_the_difference(db):
    spent = {"order_id": "#W1", "payment_method_id": "gift_card_1"}
    answer(db, "modify_pending_order_payment", **spent)
    short = swap(db, "modify_pending_order_items", "#W3", ["11"], ["12"], "gift_card_1")
    assert "insufficient" not in short  # 29.9 are left, and 10.3 are needed
    assert balance(db) == 19.6


def test_nothing_can_be_swapped_for_nothing(db):
    assert json.loads(swap(db, "modify_pending_order_items", "#W1", "", ""))["payment_history"][
        -1
    ] == {"transaction_type": "refund", "amount": 0, "payment_method_id": "paypal_1"}
    said = swap(db, "exchange_delivered_order_items", "#W2", [], [])
    assert said.endswith('"exchange_price_difference": 0}')


def test_an_exchange_is_only_written_down(db):
    shown = json.loads(
        swap(db, "exchange_delivered_order_items", "#W2", ["11"], ["12"], "gift_card_1")
    )
    assert list(shown)[-4:] == [
        "exchange_items",
        "exchange_new_items",
        "exchange_payment_method_id",
        "exchange_price_difference",
    ]
    assert shown["exchange_price_difference"] == 10.3
    assert shown["items"][0]["item_id"] == "11"
    assert balance(db) == 50


@pytest.mark.parametrize(
    ("order_id", "items", "method", "error"),
    [
        ("#W9", [], "paypal_1", "order not found"),
        ("#W1", [], "paypal_1", "non-delivered order cannot be returned"),
        ("#W2", ["99"], "paypal_9", "payment method not found"),
        ("#W2", ["99"], "paypal_1", "some item not found"),
    ],
)
def test_a_refused_return_leaves_no_trace(db, order_id, items, method, error):
    asked = {"order_id": order_id, "item_ids": items, "payment_method_id": method}
    assert answer(db, "return_delivered_order_items", **asked) == f"Error: {error}"
    assert db.changed == {}


def test_a_return_goes_to_a_gift_card_or_the_first_method(db):
    asked = {"order_id": "#W2", "item_ids": ["11"], "payment_method_id": "gift_card_1"}
    shown = json.loads(answer(db, "return_delivered_order_items", **asked))
    assert shown["status"] == "return requested"
    assert list(shown)[-2:] == ["return_items", "return_payment_method_id"]


# Calls of any shape


@pytest.mark.parametrize(
    ("name", "kwargs", "said"),
    [
        ("Think", {"thought": "x"}, "Unknown action Think"),
        ("", {}, "Unknown action "),
        ("respond", {"content": "x"}, "Unknown action respond"),
        ("think", {}, "Think.invoke() missing 1 required positional argument: 'thought'"),
        (
            "modify_pending_order_payment",
            {},
            "ModifyPendingOrderPayment.invoke() missing 2 required positional arguments: "
            "'order_id' and 'payment_method_id'",
        ),
        (
            "find_user_id_by_name_zip",
            {"x": 1, "y": 2},
            "FindUserIdByNameZip.invoke() got an unexpected keyword argument 'x'",
        ),
        (
            "think",
            {"x": 1, "data": {}},
            "tau_bench.envs.retail.tools.think.Think.invoke() got multiple values for keyword "
            "argument 'data'",
        ),
        ("get_user_details", {"user_id": {}}, "unhashable type: 'dict'"),
        ("find_user_id_by_email", {"email": 5}, "'int' object has no attribute 'lower'"),
    ],
)
def test_a_malformed_call_is_answered_as_python_would(db, name, kwargs, said):
    result = call_tool(db, name, kwargs)
    expected = said if said.startswith("Unknown") else f"Error: {said}"
    assert (result.observation, result.is_error, result.ends_episode) == (expected, True, False)


def test_a_transfer_ends_the_episode_even_if_it_is_malformed(db):
    assert call_tool(db, "transfer_to_human_agents", {"summary": "x"}).observation == (
        "Transfer successful"
    )
    assert call_tool(db, "transfer_to_human_agents", {}).ends_episode
    assert len(DOMAINS["retail"].tools) == 16
