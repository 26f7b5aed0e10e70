"""A repository shaped like tau2-bench's with data of our own: a shop, a phone company, a bank."""

import json
from pathlib import Path
from typing import Any

from skillwright.worlds.tau_bench import TauBenchEnv
from skillwright.worlds.tau_bench.tau_core.banking import DISCOVERABLE
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


FREEZE, ACCOUNTS = "freeze_debit_card_3892", "get_all_user_accounts_by_user_id_3847"
ORDERS, REFUND = "get_pending_replacement_orders_5765", "apply_savings_account_credit_6831"
DISPUTE = "submit_cash_back_dispute_0589"
PARAMETERS = {
    FREEZE: "card_id (string): The card",
    ACCOUNTS: "user_id (string): The user",
    ORDERS: "credit_card_account_id (string): The card",
    REFUND: "account_id (string): Where\n        amount (number): How much\n"
    "        credit_type (string): 'fee_refund'",
    DISPUTE: "user_id (string): Who\n        transaction_id (string): Which",
    "close_bank_account_7392": "account_id (string): Which\n        reason (string, optional): Why",
    "get_bank_account_transactions_9173": "account_id (string): Which",
}
OF_USER = (DISPUTE, "get_referral_link", "get_card_last_4_digits", "deposit_check_3847")
BANK_TABLES = {
    "users": {"u1": {"name": "Ann Ash", "user_id": "u1", "email": "ann@example.com"}},
    "accounts": {
        "a1": {"account_id": "a1", "user_id": "u1", "class": "savings", "level": "Gold Account",
               "status": "OPEN", "current_holdings": "10", "date_opened": "01/01/2020"},
    },
    "debit_cards": {
        "d1": {"card_id": "d1", "account_id": "a1", "status": "ACTIVE", "last_4_digits": "1234",
               "issue_reason": "first_card"},
    },
    "credit_card_accounts": {
        "c1": {"account_id": "c1", "user_id": "u1", "current_balance": "$5.00"},
    },
    "credit_card_transaction_history": {"t1": {"transaction_id": "t1", "user_id": "u1"}},
    "bank_account_transaction_history": {
        name: {"account_id": "a1", "date": date, "description": name, "type": "x", "amount": 1.0}
        for name, date in (
            ("old", "12/31/2024"), ("tie", "11/02/2025"), ("tied", "11/02/2025"),
            ("new", "11/10/2025 09:00:00"),
        )
    },
}  # fmt: skip
BANK_DOCUMENTS = {
    "doc_1": {"id": "doc_1", "title": "Cards", "content": f"Freeze a card with {FREEZE}. Card."},
    "doc_2": {"id": "doc_2", "title": "Money (back)", "content": "Have the user call it. A card."},
}


def bank_code(without: str = "") -> str:
    """Write the file in which tools describe what they take."""
    lines = []
    for holder, is_users in (("KnowledgeTools", False), ("KnowledgeUserTools", True)):
        lines.append(f"class {holder}:")
        for name in sorted(DISCOVERABLE - {without}):
            if (name in OF_USER) == is_users:
                args = PARAMETERS.get(name)
                args = f"\n\n    Args:\n        {args}" if args else ""
                lines.append(f'  def {name}(self):\n    """Do {name}.{args}\n    """')
    return "\n".join(lines)


def bank_task(number: str, *actions: Any, basis: str = "DB", **other: Any) -> Any:
    """Write a task; an action is who, tool, arguments, and what is compared."""
    gold = [
        {"action_id": "a", "requestor": who, "name": name, "arguments": of, "compare_args": same}
        for who, name, of, same in actions
    ]
    criteria = {"actions": gold, "communicate_info": ["unasked"], "reward_basis": [basis]}
    told = {"persona": None, "instructions": "You are Ann Ash."}
    return {"id": number, "user_scenario": told, "evaluation_criteria": criteria, **other}


def hidden(tool: str, **arguments: Any) -> list[Any]:
    """Return gold actions that unlock and call a tool of the agent."""
    called = {"agent_tool_name": tool, "arguments": json.dumps(arguments)}
    return [
        ("assistant", "unlock_discoverable_agent_tool", {"agent_tool_name": tool}, None),
        ("assistant", "call_discoverable_agent_tool", called, None),
    ]


FROZEN_BEFORE = {"agent_data": {"debit_cards": {"data": {"d1": {"status": "FROZEN"}, "d2": {}}}}}
TASKS["banking"] = [
    bank_task(
        "task_001",
        *hidden(FREEZE, card_id="d1"),
        *hidden(ACCOUNTS, user_id="u1"),
        required_documents=["doc_1"],
        user_tools=[],
    ),
    bank_task(
        "task_002",
        ("assistant", "transfer_to_human_agents", {"summary": "", "reason": "other"}, ["reason"]),
        basis="ACTION",
        required_documents=["Money (back)"],
        user_tools=["submit_referral"],
    ),
    bank_task("task_003", initial_state={"initialization_data": FROZEN_BEFORE}),
]


def _bank_files() -> dict[str, Any]:
    names = ("grep_only", "full_kb", "required_docs", "no_knowledge")
    places = {"full_kb": "\n{{full_knowledge_base}}", "required_docs": "\n{{required_documents}}"}
    prompts = {
        f"prompts/{name}.md": f"{{{{component:head}}}} {name}{places.get(name, '')}"
        for name in names
    }
    documents = {f"documents/{name}.json": json.dumps(of) for name, of in BANK_DOCUMENTS.items()}
    tables = {name: {"data": rows, "notes": ""} for name, rows in BANK_TABLES.items()}
    return {
        "split_tasks.json": None,
        "policy.md": None,
        "db.json": json.dumps(tables),
        "prompts/components/head.md": "# Bank",
        "../../../../src/tau2/domains/banking_knowledge/tools.py": bank_code(),
        **prompts,
        **documents,
    }


def write_tau2(folder: Path, domain: str, **files: Any) -> Path:
    """Write the repository; keyword arguments replace a domain's files, ``None`` leaves one out."""
    name = "banking_knowledge" if domain == "banking" else domain
    into = folder / "data" / "tau2" / "domains" / name
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
    if domain == "banking":
        wanted |= _bank_files()
    for name, text in (wanted | files).items():
        if text is not None:
            (into / name).parent.mkdir(parents=True, exist_ok=True)
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
