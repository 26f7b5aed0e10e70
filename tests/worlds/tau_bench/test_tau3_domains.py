"""tau3's domains: data from a checkout, tools, users with tools, and whose loss it is."""

import json
import tarfile

import pytest
from typer.testing import CliRunner

from skillwright.cli.app import app
from skillwright.core import DataError
from skillwright.jobs.text import EvalPlan
from skillwright.worlds.tau_bench import DOMAINS, Store, TauBenchEnv, open_store, tau_tasks
from skillwright.worlds.tau_bench.line import asks, invents
from skillwright.worlds.tau_bench.tau_core import Database, begin, call_tool
from skillwright.worlds.tau_bench.upstream import fetch_tau_bench
from tau3_store import TASKS, TELECOM, retail_task, tau3_data, tau3_env, write_tau2
from tau_models import Clerk, tau_config, tau_evaluated
from tau_store import OPENING, tool_call, write_sums


@pytest.fixture
def retail(tmp_path):
    return tau3_data(tmp_path, "retail")


@pytest.fixture
def telecom(tmp_path):
    return tau3_data(tmp_path, "telecom")


def db_of(data, index=None):
    store = open_store(data, data.name)
    if index is None:
        return Database(store.tables)
    return begin(store.tables, store.task("test", index))


def answers(db, *calls, by_user=False):
    return [call_tool(db, name, of, by_user=by_user).observation for name, of in calls]


# Data


def test_records_get_the_fields_and_decimals_of_the_originals_models(retail, telecom):
    order = open_store(retail, "tau3_retail").tables.records["orders"]["#W1"]
    assert [*order][-8:-5] == ["payment_history", "cancel_reason", "exchange_items"]
    users = open_store(retail, "tau3_retail").tables.records["users"]
    assert repr(users["ann_ash_1"]["payment_methods"]["gift_card_1"]["balance"]) == "50.0"
    tables = open_store(telecom, "tau3_telecom").tables.records
    assert repr(tables["plans"]["P1"]["data_limit_gb"]) == "5.0"
    assert tables["lines"]["L1"]["suspension_start_date"] is None
    assert tables["devices"]["D1"]["activation_date"] == "2025-01-20 14:30:00"
    assert tables["phone"]["device"]["battery_level"] == 80  # left out of the file


def test_splits_are_those_of_the_repository(retail):
    store = open_store(retail, "tau3_retail")
    assert store.splits == ("test", "train")
    assert len(store.tasks("test")) == 3
    assert store.wiki == "# Policy"


def test_an_archive_of_the_repository_is_taken_with_its_license(tmp_path):
    repository = write_tau2(tmp_path / "repo", "telecom")
    (repository / "LICENSE").write_text("MIT", encoding="utf-8")
    with tarfile.open(tmp_path / "tau2.tar.gz", "w:gz") as archive:
        archive.add(repository, "tau2-bench-a2c0247")
    made = tmp_path / "made"
    source = str(tmp_path / "tau2.tar.gz")
    fetched = fetch_tau_bench(made, source, domain="tau3_telecom", any_version=True)
    assert (fetched.tasks, fetched.is_pinned) == ({"test": 2, "train": 1}, False)
    assert (made / "LICENSE").read_text(encoding="utf-8") == "MIT"


@pytest.mark.parametrize(
    ("domain", "files", "told"),
    [
        ("retail", {"db.json": json.dumps({"users": {}})}, "the database has no products"),
        ("retail", {"db.json": "{"}, "is not JSON"),
        ("retail", {"db.json": "[]"}, "is no domain of tau2-bench"),
        ("retail", {"tasks.json": "3"}, "is no domain of tau2-bench"),
        ("retail", {"tasks.json": None}, "has no tasks.json"),
        ("retail", {"policy.md": None}, "has no policy.md"),
        ("retail", {"split_tasks.json": '{"test": ["9"]}'}, "names no task: '9'"),
        ("telecom", {"db.toml": "x"}, "is not TOML"),
        ("telecom", {"db.toml": TELECOM.replace('plan_id = "P1"', "", 1)}, "plan_id"),
        ("telecom", {"db.toml": TELECOM.replace('["L1"]', '["L2"]')}, "lines that are not there"),
        ("telecom", {"user_db.toml": "[device]\nairplane_mode = 3"}, "airplane_mode is 3"),
        (
            "telecom",
            {"user_db.toml": "[device.app_statuses.messaging]\napp_name = 'm'"},
            "lacks permissions",
        ),
    ],
)
def test_what_is_no_data_of_tau3_is_refused(tmp_path, domain, files, told):
    with pytest.raises(DataError, match=told):
        tau3_data(tmp_path, domain, **files)


def test_tasks_of_another_edition_are_refused_by_name(tmp_path):
    odd = retail_task("7", ("get_item_price", {}))
    files = {"tasks.json": json.dumps([odd]), "split_tasks.json": None}
    with pytest.raises(DataError, match=r"id '7'.*get_item_price, which is no tool of domain"):
        tau3_data(tmp_path, "retail", **files)


def test_the_command_fetches_pinned_data_only_and_says_how_to_play_it(tmp_path):
    source, run = write_tau2(tmp_path / "repo", "retail"), CliRunner().invoke
    asked = ["data", "tau-bench", "--tasks", "tau3", "--from", str(source)]
    refused = run(app, [*asked, "--to", str(tmp_path / "made")])
    assert refused.exit_code == 2
    assert "is not tau2-bench at a2c0247" in refused.stderr
    taken = run(app, [*asked, "--to", str(tmp_path / "made"), "--any-version"])
    assert "Play it with env.config.domain: tau3_retail" in taken.stdout + taken.stderr
    other = run(app, ["data", "tau-bench", "--domain", "telecom"])
    assert other.exit_code == 2
    assert "add --tasks tau3" in other.stderr


def test_the_wrong_domain_for_a_folder_is_named(telecom):
    with pytest.raises(
        DataError, match=r"tau-bench tau3_telecom, and env_config\.domain is 'retail'"
    ):
        open_store(telecom).load()


# Tools


def test_retail_differs_where_tau2_bench_does(retail):
    db = db_of(retail)
    swap = {"order_id": "#W1", "payment_method_id": "paypal_1"}
    told = answers(
        db,
        ("get_order_details", {"order_id": "#W9"}),
        ("get_item_details", {"item_id": "11"}),
        ("think", {"thought": "x"}),
        ("calculate", {"expression": "x"}),
        ("cancel_pending_order", {"order_id": "#W1"}),
        ("modify_pending_order_items", {**swap, "item_ids": ["11"], "new_item_ids": ["11"]}),
        ("modify_pending_order_items", {**swap, "item_ids": ["11"], "new_item_ids": ["12"]}),
        ("modify_pending_order_payment", {"order_id": "#W1", "payment_method_id": "gift_card_1"}),
    )
    assert told[0] == "Error: Order not found"
    assert json.loads(told[1])["price"] == 20.1
    assert told[2:6] == [
        "Error: Tool 'think' not found.",
        "Error: Invalid characters in expression",
        "Error: RetailTools.cancel_pending_order() "
        "missing 1 required positional argument: 'reason'",
        "Error: The new item id should be different from the old item id",
    ]
    assert json.loads(told[6])["status"] == "pending (item modified)"
    # It is still pending enough to be paid otherwise, but has two payments now.
    assert told[7] == "Error: There should be exactly one payment for a pending order"


def test_several_modified_items_all_get_the_price_of_the_last(retail):
    call = {
        "order_id": "#W3",
        "item_ids": ["11", "12"],
        "new_item_ids": ["12", "13"],
        "payment_method_id": "paypal_1",
    }
    (told,) = answers(db_of(retail), ("modify_pending_order_items", call))
    assert [(one["item_id"], one["price"]) for one in json.loads(told)["items"]] == [
        ("13", 10.0),  # its own replacement was replaced again
        ("12", 30.4),
    ]


def test_what_the_agent_does_reaches_the_phone_and_back(telecom):
    db = db_of(telecom, 0)
    line = {"customer_id": "C1", "line_id": "L1"}
    assert answers(db, ("check_payment_request", {}), by_user=True) == [
        "No payment request has been made."
    ]
    answers(db, ("send_payment_request", {"customer_id": "C1", "bill_id": "B1"}))
    told = answers(db, ("check_payment_request", {}), ("make_payment", {}), by_user=True)
    assert told[0] == "You have a payment request for bill B1 of 40.0 USD."
    assert db.find("bills", "B1")["status"] == "Paid"
    answers(db, ("suspend_line", {**line, "reason": "lost"}))
    (told,) = answers(db, ("reboot_device", {}), by_user=True)
    assert told.endswith("Status Bar: 📵 No Signal | 📵 Data Disabled | 🔋 80%")


def test_a_new_bill_has_the_same_id_in_every_replay(telecom):
    refuel = ("refuel_data", {"customer_id": "C1", "line_id": "L1", "gb_amount": 2})
    found = []
    for _ in range(2):
        db = db_of(telecom)
        (told,) = answers(db, refuel)
        assert json.loads(told)["charge"] == "4.0"
        found.append(db.find("customers", "C1")["bill_ids"])
    assert found[0] == found[1]
    assert len(found[0]) == 2


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (("toggle_roaming", {"on": True}), "TelecomUserTools.toggle_roaming() got an unexpected"),
        (("get_customer_by_id", {"customer_id": "C1"}), "Tool 'get_customer_by_id' not found."),
        (("set_apn_settings", {"apn_settings": "x"}), "apn_settings is not an object"),
        (("set_apn_settings", {"apn_settings": {"apn_name": "x"}}), "validation error for APNS"),
        (("grant_app_permission", {"app_name": "x", "permission": 1}), "no attribute 'lower'"),
    ],
)
def test_a_users_tool_that_refuses_says_why_and_changes_nothing(telecom, call, told):
    db = db_of(telecom, 0)
    before = dict(db.changed)
    (answer,) = answers(db, call, by_user=True)
    assert answer.startswith("Error: ")
    assert told in answer
    assert db.changed == before


def test_an_initial_state_that_cannot_be_made_is_told(telecom, tmp_path):
    task = json.loads(json.dumps(TASKS["telecom"][0]))
    task["initial_state"]["initialization_actions"][0]["arguments"]["phone_number"] = "0"
    files = {"tasks.json": json.dumps([task]), "split_tasks.json": None}
    data = tau3_data(tmp_path / "odd", "telecom", **files)
    with pytest.raises(DataError, match=r"initial state cannot be made.*phone number 0 not found"):
        begin(
            open_store(data, "tau3_telecom").tables,
            open_store(data, "tau3_telecom").task("base", 0),
        )


def test_an_assertion_that_cannot_be_checked_raises_before_the_first_turn(tmp_path):
    task = json.loads(json.dumps(TASKS["telecom"][0]))
    task["evaluation_criteria"]["env_assertions"][0]["arguments"] = {"mood": "good"}
    files = {
        "tasks.json": json.dumps([task]),
        "split_tasks.json": json.dumps({"test": [task["id"]]}),
    }
    data = tau3_data(tmp_path, "telecom", **files)
    with pytest.raises(DataError, match=r"assert_mobile_data_status.*fails"):
        tau3_env(data)


def test_converted_data_that_lacks_a_key_is_refused(telecom):
    for name, key in (("phone", "airplane_mode"), ("customers", "date_of_birth")):
        path = telecom / f"{name}.json"
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(f'"{key}"', '"other"'), encoding="utf-8")
        write_sums(telecom)
        with pytest.raises(DataError, match=f"lacks {key}"):
            Store(telecom, DOMAINS["tau3_telecom"]).load()
        path.write_text(text, encoding="utf-8")


def test_tau_benchs_own_words_are_not_for_a_user_of_tau3(retail):
    with pytest.raises(DataError, match="Leave one of them out"):
        tau3_env(retail, user_prompt="tau-bench", user_strategy="llm")


# A user with tools


def test_the_user_works_on_its_phone_and_the_agent_sees_only_what_it_says(telecom):
    env = tau3_env(telecom, 0, [OPENING, tool_call("toggle_roaming"), "It is on now."])
    output = env.step("Please switch roaming on.")
    assert [one["content"] for one in output["observations"]] == ["It is on now."]
    (called,) = output["metadata"]["user_simulator"]["tool_calls"]
    assert called["result"].startswith("Data Roaming is now ON.")
    assert env.step("Anything else?")["reward"] == 1.0  # the script ends, and so does the call


def test_without_the_phone_the_state_is_not_as_asserted(telecom):
    output = tau3_env(telecom, 0).step("Good bye.")
    assert output["reward"] == 0.0
    assert output["metadata"]["reward_breakdown"]["state_failed"] == ["assert_mobile_data_status"]


@pytest.mark.parametrize(("call", "reward"), [("transfer_to_human_agents", 1.0), ("", 0.0)])
def test_a_required_call_counts_whatever_its_summary_and_does_not_end_the_call(
    telecom, call, reward
):
    env = tau3_env(telecom, 1, [OPENING, "###TRANSFER###"])
    assert env.step(tool_call(call, summary="y"))["done"] is False
    output = env.step("You are being transferred.")
    assert (output["done"], output["reward"]) == (True, reward)


def test_a_user_that_calls_tools_without_end_is_a_failure_not_a_score(telecom):
    env = tau3_env(telecom, 0, [OPENING, *[tool_call("check_status_bar")] * 40])
    output = env.step("Look at the status bar.")
    assert output["metadata"]["infra_error"] is True
    assert "called tools 30 times in one turn" in output["metadata"]["error"]


def test_all_calls_of_a_users_message_are_run_in_order(telecom):
    twice = tool_call("toggle_data") + tool_call("toggle_data")
    output = tau3_env(telecom, 0, [OPENING, twice, "Done."]).step("Switch data off and on.")
    (called,) = output["metadata"]["user_simulator"]["tool_calls"]
    assert "Data is now OFF" in called["result"].split("\n\n")[0]
    assert "Data is now ON" in called["result"].split("\n\n")[1]


def test_a_user_that_begins_with_a_tool_is_a_failure_not_a_message(telecom):
    output = tau3_env(telecom, 0, [tool_call("toggle_data")]).step("Hello.")
    assert "called a tool before it said anything" in output["metadata"]["error"]


def test_a_shop_without_user_tools_takes_a_users_call_as_its_words(retail):
    said = tool_call("toggle_roaming")
    output = tau3_env(retail, 0, [OPENING, said]).step("Hi.")
    assert [one["content"] for one in output["observations"]] == [said]


# Tasks that a model has to judge, and labels that do not replay


def test_tasks_that_need_a_judge_are_left_out_without_one(retail):
    config = {"domain": "tau3_retail", "data_dir": str(retail)}
    assert [one.id for one in tau_tasks("test", config)] == ["test-000", "test-002"]
    assert len(tau_tasks("test", {**config, "judge_votes": 1})) == 3
    with pytest.raises(DataError, match=r"set env\.config\.judge_votes: 1"):
        TauBenchEnv(config, {"task_index": 1})


async def test_a_report_says_whose_loss_it_was_and_which_label_does_not_replay(retail, tmp_path):
    config = tau_config(tmp_path, retail, domain="tau3_retail")
    _, report = await tau_evaluated(config, EvalPlan("test", 1), Clerk(farewell="More?"))
    facts, lines = (
        report.environment.facts,
        "\n".join(
            TauBenchEnv.report_lines(
                report.environment.facts,
                {
                    name: f"score of {name}"
                    for name in ("no_op", "without_free", "as_labeled", "without_wrong")
                },
            )
        ),
    )
    assert facts["judge"]["left_out"] == ["test-001"]
    assert "left out without a judge (env.config.judge_votes): 1: test-001" in lines
    assert facts["losses"] == {"user": 1, "user_ended_early": 1}
    assert "1 lost episodes by cause: 0 agent, 1 simulated user (1 ended early), 0 label" in lines
    assert facts["suspect_labels"]["test-002"]["refused"] == [
        "cancel_pending_order: Error: Invalid reason"
    ]
    assert "corrected it): test-002\n  as labeled: score of as_labeled" in lines


def test_signs_of_a_faulty_user_are_rough_and_mean_something():
    assert invents("It is #W1234567.", "You are Ann.")
    assert not invents("It is #W1234567.", "Your order is #w1234567.")
    assert invents("ann@example.com", "")
    assert asks('Shall I proceed? "')
    assert not asks("Is it? No. Done.")
    assert not asks("That is done. Is there anything else I can help you with?")
