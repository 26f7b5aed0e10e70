"""A repository shaped like tau2-bench's with data of our own: a shop, and a telecom company."""

import json
from pathlib import Path
from typing import Any

from skillwright.worlds.tau_bench import TauBenchEnv
from skillwright.worlds.tau_bench.upstream import fetch_tau_bench
from tau_store import OPENING, TABLES

CANCEL = ("cancel_pending_order", {"order_id": "#W1", "reason": "no longer needed"})

TELECOM = """
[[plans]]
plan_id = "P1"
name = "Small"
data_limit_gb = 5
price_per_month = 40.0
data_refueling_price_per_gb = 2.0

[[devices]]
device_id = "D1"
device_type = "phone"
model = "X"
is_esim_capable = true
activation_date = "2025-01-20T14:30:00"

[[lines]]
line_id = "L1"
phone_number = "555-1"
status = "Active"
plan_id = "P1"
device_id = "D1"
data_used_gb = 3.2

[[customers]]
customer_id = "C1"
full_name = "Ann Ash"
date_of_birth = "1990-01-01"
email = "ann@example.com"
phone_number = "555-0"
line_ids = ["L1"]
bill_ids = ["B1"]

[customers.address]
street = "1 Elm"
city = "Denver"
state = "CO"
zip_code = "80279"

[[bills]]
bill_id = "B1"
customer_id = "C1"
period_start = "2025-01-01"
period_end = "2025-01-31"
issue_date = "2025-02-01"
total_due = 40.0
due_date = "2025-02-15"
status = "Issued"
"""
PHONE = """
[device]
network_technology_connected = "5G"

[device.app_statuses.messaging]
app_name = "messaging"

[device.app_statuses.messaging.permissions]
sms = true
storage = false
phone = true
network = false
"""


def scenario(number: str, criteria: dict[str, Any], **other: Any) -> dict[str, Any]:
    told = {
        "task_instructions": "Be patient.",
        "domain": "a",
        "reason_for_call": "You want help.",
        "known_info": "You are Ann Ash.",
    }
    scene = {"persona": None, "instructions": told}
    return {"id": number, "user_scenario": scene, "evaluation_criteria": criteria, **other}


def retail_task(number: str, *actions: Any, sentences: Any = None) -> dict[str, Any]:
    listed = [{"action_id": "a", "name": name, "arguments": of} for name, of in actions]
    criteria = {
        "actions": listed,
        "communicate_info": ["not asked for"],
        "nl_assertions": sentences,
        "reward_basis": ["DB", "NL_ASSERTION"],
    }
    return scenario(number, criteria)


def function(side: str, called: str, /, **arguments: Any) -> dict[str, Any]:
    return {"env_type": side, "func_name": called, "arguments": arguments, "assert_value": True}


def telecom_task(number: str, begun: list[Any], *asserted: Any, actions: Any = ()) -> Any:
    gold = [
        {"action_id": "a", "requestor": who, "name": name, "arguments": of, "compare_args": same}
        for who, name, of, same in actions
    ]
    parts = ["ENV_ASSERTION", *(["ACTION"] if gold else [])]
    criteria = {"actions": gold, "env_assertions": list(asserted), "reward_basis": parts}
    user = function("user", "set_user_info", name="Ann Ash", phone_number="555-1")
    return scenario(number, criteria, initial_state={"initialization_actions": [user, *begun]})


ABROAD = [
    function("user", "set_user_location", abroad=True),
    function("user", "turn_roaming_off"),
    function("assistant", "enable_roaming", customer_id="C1", line_id="L1"),
]
HAS_DATA = function("user", "assert_mobile_data_status", expected_status=True)
TASKS = {
    "retail": [
        retail_task("0", CANCEL),
        retail_task("1", CANCEL, sentences=["The agent is polite.", "It says the price."]),
        retail_task("2", ("cancel_pending_order", {**CANCEL[1], "reason": "x"})),
    ],
    "telecom": [
        telecom_task("[mobile_data_issue]roaming", ABROAD, HAS_DATA),
        telecom_task(
            "[service_issue]locked",
            [function("user", "lock_sim_card", mode="pin")],
            function("user", "assert_service_status", expected_status="no_service"),
            actions=[("assistant", "transfer_to_human_agents", {"summary": "x"}, [])],
        ),
    ],
}


def write_tau2(folder: Path, domain: str, **files: Any) -> Path:
    """Write the repository; keyword arguments replace a domain's files, ``None`` leaves one out."""
    into = folder / "data" / "tau2" / "domains" / domain
    into.mkdir(parents=True)
    users = {key: {"user_id": key, **user} for key, user in TABLES["users"].items()}
    ids = [task["id"] for task in TASKS[domain]]
    wanted: dict[str, Any] = {
        "tasks.json": json.dumps(TASKS[domain]),
        "split_tasks.json": json.dumps({"train": ids[:1], "test": ids, "full": ids}),
        "policy.md": "# Policy",
        "db.json": json.dumps({**TABLES, "users": users}),
    }
    if domain == "telecom":
        texts = {"db.toml": TELECOM, "user_db.toml": PHONE, "main_policy.md": "M"}
        wanted |= {"db.json": None, **texts, "tech_support_manual.md": "T"}
    for name, text in (wanted | files).items():
        if text is not None:
            (into / name).write_text(text, encoding="utf-8")
    return folder


def tau3_data(folder: Path, domain: str, **files: Any) -> Path:
    """Convert the repository, and return the folder with the data."""
    source = write_tau2(folder / "checkout", domain, **files)
    made = folder / f"tau3_{domain}"
    fetch_tau_bench(made, str(source), domain=f"tau3_{domain}", any_version=True)
    return made


def tau3_env(data: Path, index: int = 0, replies: Any = (OPENING,), **settings: Any) -> TauBenchEnv:
    """Build an episode with a scripted user, and open it."""
    config = {"user_strategy": "scripted", "user_replies": list(replies), "domain": data.name}
    extras = {"task_index": index, "task_split": "test"}
    env = TauBenchEnv({**config, "data_dir": str(data), **settings}, extras)
    env.init([])
    return env
