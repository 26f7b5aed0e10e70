"""tau3's bank: documents that name tools, tools that are unlocked or given, and its reward."""

import gzip
import json
import tarfile

import pytest
from typer.testing import CliRunner

from skillwright.cli.app import app
from skillwright.core import DataError
from skillwright.worlds.tau_bench import Store, TauBenchEnv, open_store, tau_tasks
from skillwright.worlds.tau_bench.tau_core import DOMAINS, TauEnv, call_tool
from skillwright.worlds.tau_bench.upstream import fetch_tau_bench
from skillwright.worlds.tau_bench.user_model import role_prompt
from tau3_store import (
    ACCOUNTS,
    BANK_DOCUMENTS,
    BANK_TABLES,
    DISPUTE,
    FREEZE,
    ORDERS,
    REFUND,
    bank_code,
    bank_task,
    tau3_data,
    write_tau2,
)
from tau_store import OPENING, tool_call, write_sums

CODE = "../../../../src/tau2/domains/banking_knowledge/tools.py"


@pytest.fixture
def bank(tmp_path):
    return tau3_data(tmp_path, "banking")


def episode(data, index=0):
    return TauEnv(open_store(data, data.name), "base", index)


def unlocked(env, tool, **arguments):
    env.call("unlock_discoverable_agent_tool", {"agent_tool_name": tool})
    called = {"agent_tool_name": tool, "arguments": json.dumps(arguments)}
    return env.call("call_discoverable_agent_tool", called).observation


def by_user(env, tool, text):
    called = {"discoverable_tool_name": tool, "arguments": text}
    return env.call_by_user("call_discoverable_user_tool", called).observation


def bank_env(data, index=0, replies=(OPENING,), **settings):
    config = {"user_strategy": "scripted", "user_replies": list(replies), "domain": data.name}
    extras = {"task_index": index, "task_split": "base"}
    return TauBenchEnv({**config, "data_dir": str(data), **settings}, extras)


# Data


def test_documents_and_what_hidden_tools_take_are_tables(bank):
    store = open_store(bank, "tau3_banking")
    assert store.splits == ("base",)
    assert [*store.tables.records["documents"]] == ["doc_1", "doc_2"]
    manual = store.tables.records["manuals"]["close_bank_account_7392"]
    assert manual["side"] == "assistant"
    assert manual["parameters"]["reason"] == {
        "type": "string",
        "description": "Why",
        "required": False,
    }
    assert store.tables.records["manuals"][DISPUTE]["side"] == "user"
    assert store.tables.records["cash_back_disputes"] == {}


@pytest.mark.parametrize(
    ("retrieval", "shown", "not_shown"),
    [
        ("grep_only", "# Bank grep_only", "## Cards"),
        ("full_kb", "## Money (back)\n\nHave", "{{"),
        ("golden_retrieval", "## Cards\n\nFreeze", "## Money"),
        ("no_knowledge", "# Bank no_knowledge", "## Cards"),
    ],
)
def test_the_agent_reads_documents_as_it_is_set(bank, retrieval, shown, not_shown):
    messages, _ = bank_env(bank, retrieval=retrieval).init([])
    system = messages[0]["content"]
    assert shown in system
    assert not_shown not in system
    assert ('"name": "grep"' in system) == (retrieval == "grep_only")


def test_a_document_may_be_needed_by_its_title(bank):
    messages, _ = bank_env(bank, 1, retrieval="golden_retrieval").init([])
    assert "## Money (back)" in messages[0]["content"]


def test_a_needed_document_that_is_not_there_is_named(bank):
    with pytest.raises(DataError, match="needs the document 'doc_9', which documents"):
        open_store(bank, "tau3_banking").policy("golden_retrieval", ["doc_9"])


def test_an_archive_brings_documents_prompts_and_tools(tmp_path):
    repository = write_tau2(tmp_path / "repo", "banking")
    with tarfile.open(tmp_path / "tau2.tar.gz", "w:gz") as archive:
        archive.add(repository, "tau2-bench-a2c0247")
    source = str(tmp_path / "tau2.tar.gz")
    fetched = fetch_tau_bench(tmp_path / "made", source, domain="tau3_banking", any_version=True)
    assert (fetched.tasks, fetched.is_pinned) == ({"base": 3}, False)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({f"documents/{name}.json": None for name in BANK_DOCUMENTS}, "has no documents"),
        ({"db.json": json.dumps({"users": {"data": {}}})}, "the database has no accounts"),
        ({"db.json": json.dumps({"users": [1]})}, "is no domain of tau2-bench"),
        ({"db.json": None}, r"has no db\.json"),
        ({CODE: None}, r"has no src/tau2/domains/banking_knowledge/tools\.py"),
        ({CODE: "def x(:"}, r"tools\.py"),
        ({CODE: bank_code(without=FREEZE)}, rf"manuals\.json lacks {FREEZE}"),
        ({"prompts/full_kb.md": None}, r"has no full_kb\.md"),
        ({"prompts/components/head.md": None}, r"has no head\.md"),
        (
            {"db.json": json.dumps({n: {"data": r} for n, r in BANK_TABLES.items()}).replace(
                '"class": "savings", ', "")},
            "'a1' lacks class",
        ),
    ],
)  # fmt: skip
def test_what_is_no_data_of_a_bank_is_refused(tmp_path, files, said):
    with pytest.raises(DataError, match=said):
        tau3_data(tmp_path, "banking", **files)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (CODE, b"# \xff", r"tools\.py' is not UTF-8: byte 2"),
        ("tasks.json.gz", gzip.compress(b"[1, 2, 3]", mtime=0)[:-9], r"gz' is no whole gzip file"),
        ("tasks.json.gz", b"[]", r"gz' is no whole gzip file"),
        ("tasks.json", b"[]", "or no task in it"),
    ],
)
def test_a_damaged_file_of_a_bank_is_named(tmp_path, name, content, said):
    kept = {} if name == CODE else {"tasks.json": None}
    source = write_tau2(tmp_path / "repo", "banking", **kept)
    (source / "data/tau2/domains/banking_knowledge" / name).write_bytes(content)
    with pytest.raises(DataError, match=said):
        fetch_tau_bench(tmp_path / "made", str(source), domain="tau3_banking", any_version=True)


def test_tasks_of_another_edition_are_refused_by_name(tmp_path):
    odd = bank_task("task_009", ("assistant", "open_vault", {}, None))
    with pytest.raises(DataError, match=r"task_009.*open_vault, which is no tool of domain"):
        tau3_data(tmp_path, "banking", **{"tasks.json": json.dumps([odd])})


def test_an_initial_state_with_an_unknown_table_is_refused(tmp_path):
    state = {"initialization_data": {"agent_data": {"vaults": {"v1": {}}}}}
    odd = bank_task("task_009", initial_state=state)
    data = tau3_data(tmp_path, "banking", **{"tasks.json": json.dumps([odd])})
    with pytest.raises(DataError, match=r"initial state cannot be made.*no table 'vaults'"):
        episode(data).restart()


def test_the_command_takes_the_pinned_package_only(tmp_path):
    source, run = write_tau2(tmp_path / "repo", "banking"), CliRunner().invoke
    asked = ["data", "tau-bench", "--tasks", "tau3", "--domain", "banking", "--from", str(source)]
    refused = run(app, [*asked, "--to", str(tmp_path / "made")])
    assert refused.exit_code == 2
    assert "is not that of inspect-evals 0.26" in refused.stderr
    other = run(app, ["data", "tau-bench", "--domain", "banking"])
    assert "banking is a domain of tau3 only; add --tasks tau3" in other.stderr


def test_documents_are_of_the_bank_only(tmp_path):
    with pytest.raises(DataError, match="only tau3_banking has documents"):
        TauBenchEnv({"retrieval": "full_kb", "data_dir": "built-in"}, {"task_index": 0})


# Tools


def test_a_search_ranks_documents_by_matches(bank):
    env = episode(bank)
    found = env.call("grep", {"pattern": "CARD"}).observation
    assert found.startswith("1. Cards\n   ID: doc_1\n   Score: 3.0000\n   Content: Freeze")
    assert "2. Money (back)" in found
    assert env.call("grep", {"pattern": "a card ("}).observation.startswith("No matches")
    assert env.call("grep", {"pattern": " "}).observation.startswith("No matches found")


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+$", "((a+))+$", "((a+)b)+$", r"(.|\n)*fee", r"(?:\w|\s)+@", "(a?){30}a{30}", ".*.*.*x"],
)
def test_a_search_that_could_run_without_end_is_refused(bank, pattern):
    seen = episode(bank).call("grep", {"pattern": pattern}).observation
    assert seen.startswith(f"Error: the pattern {pattern!r} repeats a repeat or a choice")


@pytest.mark.parametrize(
    "pattern", ["(freeze|close).*cards?", r"\bcard.*\b", "(?:ca)+rd", "(?i)(a )?card", r"card|\)+"]
)
def test_usual_searches_are_carried_out(bank, pattern):
    assert "1. Cards" in episode(bank).call("grep", {"pattern": pattern}).observation


def test_without_search_the_agent_cannot_call_it(bank):
    env = bank_env(bank, retrieval="no_knowledge")
    env.init([])
    (seen,) = env.step(tool_call("grep", pattern="card"))["observations"]
    assert seen["content"] == "Error: Tool 'grep' not found."


def test_a_hidden_tool_is_called_once_it_is_unlocked(bank):
    env = episode(bank)
    called = {"agent_tool_name": FREEZE, "arguments": '{"card_id": "d1"}'}
    locked = env.call("call_discoverable_agent_tool", called)
    assert "has not been unlocked" in locked.observation
    shown = env.call("unlock_discoverable_agent_tool", {"agent_tool_name": FREEZE}).observation
    assert "  - card_id: string (required) - The card" in shown
    assert "Frozen Date: 11/14/2025" in env.call("call_discoverable_agent_tool", called).observation
    assert env.db.find("debit_cards", "d1")["status"] == "FROZEN"
    listed = env.call("list_discoverable_agent_tools", {}).observation
    assert f"tool_name: {FREEZE}" in listed


@pytest.mark.parametrize(
    ("tool", "text", "said"),
    [
        ("open_vault_0001", "{}", "Unknown agent tool 'open_vault_0001'"),
        (DISPUTE, "{}", f"Unknown agent tool '{DISPUTE}'"),
        (FREEZE, "{", "Invalid JSON in arguments: Expecting property name"),
        (FREEZE, "[1]", f"tools.KnowledgeTools.{FREEZE}() argument after ** must be a mapping"),
        (FREEZE, "{}", "missing 1 required positional argument: 'card_id'"),
        (FREEZE, '{"card_id": "d1", "x": 1}', "got an unexpected keyword argument 'x'"),
        (FREEZE, '{"card_id": "d9"}', "Debit card 'd9' not found."),
        (FREEZE, '{"card_id": ["d1"]}', "Invalid arguments: unhashable type"),
        (REFUND, '{"account_id": "a1", "amount": "x", "credit_type": "fee_refund"}', "'<='"),
    ],
)
def test_a_hidden_tool_that_refuses_says_why_and_changes_no_account(bank, tool, text, said):
    env = episode(bank)
    env.call("unlock_discoverable_agent_tool", {"agent_tool_name": tool})
    called = {"agent_tool_name": tool, "arguments": text}
    answer = env.call("call_discoverable_agent_tool", called).observation
    assert answer.startswith("Error: ")
    assert said in answer
    assert {place.table for place in env.db.changed} <= {"agent_discoverable_tools"}


def test_a_user_calls_what_it_was_given(bank):
    env = episode(bank)
    text = '{"user_id": "u1", "transaction_id": "t1"}'
    assert "has not been given to you" in by_user(env, DISPUTE, text)
    given = {"discoverable_tool_name": DISPUTE, "arguments": '{"user_id": "u1"}'}
    assert "Tool given to user" in env.call("give_discoverable_user_tool", given).observation
    assert by_user(env, DISPUTE, "{}") == "Error: Missing required parameter: user_id"
    assert "Status: SUBMITTED" in by_user(env, DISPUTE, text)
    assert "may have already been submitted" in by_user(env, DISPUTE, text)
    assert len(env.db.rows("cash_back_disputes")) == 1


def test_transactions_begin_with_the_latest_and_ties_keep_their_order(bank):
    seen = unlocked(episode(bank), "get_bank_account_transactions_9173", account_id="a1")
    places = [seen.index(f"Record ID: {name}\n") for name in ("new", "tie", "tied", "old")]
    assert places == sorted(places)


def test_a_whole_number_is_the_same_as_a_decimal_one(bank):
    ids = []
    for amount in (5, 5.0):
        env = episode(bank)
        unlocked(env, REFUND, account_id="a1", amount=amount, credit_type="fee_refund")
        ids.append([key for key, _ in env.db.rows("bank_account_transaction_history")][-1])
        assert env.db.find("accounts", "a1")["current_holdings"] == "15.00"
    assert ids[0] == ids[1]


def test_an_unknown_tool_and_odd_names_are_observations(bank):
    db = episode(bank).db
    assert call_tool(db, "open_vault", {}).observation == "Error: Tool 'open_vault' not found."
    seen = call_tool(db, "get_user_information_by_id", {"user_id": 'u"1'}).observation
    assert seen.startswith("Error: Invalid JSON")


# Tasks and reward


def test_gold_earns_the_reward_and_a_needed_read_is_needed(bank):
    env = episode(bank)
    unlocked(env, FREEZE, card_id="d1")
    assert env.grade().reward == 0.0
    unlocked(env, ACCOUNTS, user_id="u1")
    assert env.grade().reward == 1.0


def test_a_read_that_the_gold_actions_lack_costs_nothing_and_a_write_does(bank):
    env = episode(bank)
    unlocked(env, FREEZE, card_id="d1")
    unlocked(env, ACCOUNTS, user_id="u1")
    unlocked(env, ORDERS, credit_card_account_id="c1")
    assert env.grade().reward == 1.0
    unlocked(env, "close_bank_account_7392", account_id="a9")
    assert env.grade().reward == 0.0


def test_an_initial_state_adds_records_and_fields(bank):
    env = episode(bank, 2)
    assert env.db.find("debit_cards", "d1")["last_4_digits"] == "1234"
    assert "already frozen" in unlocked(env, FREEZE, card_id="d1")
    assert env.db.find("debit_cards", "d2") == {}


@pytest.mark.parametrize(("reason", "reward"), [("other", 1.0), ("x", 0.0)])
def test_a_required_transfer_counts_by_its_reason(bank, reason, reward):
    env = episode(bank, 1)
    env.restart()
    env.call("transfer_to_human_agents", {"summary": "y", "reason": reason})
    assert env.grade().reward == reward


def test_a_whole_episode_is_played(bank):
    env = opened(bank)
    for text in (
        tool_call("unlock_discoverable_agent_tool", agent_tool_name=FREEZE),
        hidden_call(FREEZE, card_id="d1"),
        tool_call("unlock_discoverable_agent_tool", agent_tool_name=ACCOUNTS),
        hidden_call(ACCOUNTS, user_id="u1"),
    ):
        assert env.step(text)["done"] is False
    assert env.step("It is frozen.")["reward"] == 1.0


def opened(data):
    env = bank_env(data)
    env.init([])
    return env


def hidden_call(tool, **arguments):
    called = {"agent_tool_name": tool, "arguments": json.dumps(arguments)}
    return tool_call("call_discoverable_agent_tool", **called)


def test_tasks_have_a_type_by_the_tool_that_is_meant(bank):
    config = {"domain": "tau3_banking", "data_dir": str(bank)}
    kinds = [one.task_type for one in tau_tasks("base", config)]
    assert kinds == ["debit_card", "human_agent", "read_only"]


def test_a_user_is_shown_the_tools_of_its_task(bank):
    domain, tasks = DOMAINS["tau3_banking"], open_store(bank, "tau3_banking").tasks("base")
    assert "tools of your own" not in role_prompt(
        "x", "parity", domain=domain, tools=tasks[0].user_tools
    )
    shown = role_prompt("x", "parity", domain=domain, tools=tasks[1].user_tools)
    assert "submit_referral" in shown
    assert "apply_for_credit_card" not in shown
    assert "apply_for_credit_card" in role_prompt("x", "parity", domain=domain)


def test_a_data_set_without_a_policy_for_a_way_to_read_is_refused(bank):
    (bank / "prompts.json").write_text(json.dumps({"grep_only": "x"}), encoding="utf-8")
    write_sums(bank)
    with pytest.raises(DataError, match="has no text for full_kb"):
        Store(bank, DOMAINS["tau3_banking"]).policy("full_kb", ())
