"""tau3's tools and rewards beside the implementation in the package ``inspect-evals`` (MIT).

In one process: the same random calls on the same database, 1,000 sequences a domain. Observations
and states are equal but for what `comparable` takes out: inspect-evals writes JSON without spaces
and dates with a T, names its classes otherwise, and returns the numbers of an answer that is no
record as numbers, where tau2-bench, and so ours, returns texts; it draws a new bill's id at random.
"""

import asyncio
import json
import re
from collections import Counter
from copy import deepcopy
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest
from tau3_calls import airline, banking, retail, telecom

from skillwright.worlds.tau_bench.tau3_data import convert_tau3
from skillwright.worlds.tau_bench.tau_core import (
    Database,
    RecordRef,
    TauEnv,
    begin,
    call_tool,
    gold_state,
    grade,
)
from skillwright.worlds.tau_bench.tau_core.reward import Action
from skillwright.worlds.tau_bench.tau_core.store import DOMAINS, Store
from skillwright.worlds.tau_bench.tau_core.tools import TRANSFER
from tau_store import write_sums

pytestmark = pytest.mark.oracle

SEQUENCES = 1_000
CALLS = 6
OWN_CLASSES = {f"{name}Tools": f"{name}AgentTools" for name in ("Retail", "Airline", "Telecom")}


@pytest.fixture(scope="module")
def theirs():
    tau2 = pytest.importorskip("inspect_evals.tau2", reason="needs `pip install inspect-evals`")
    return Path(tau2.__file__).parent


@pytest.fixture(scope="module")
def store_of(theirs, tmp_path_factory):
    """Open a domain with the database of inspect-evals, so that both begin with the same."""

    def make(name):
        domain, folder = DOMAINS[f"tau3_{name}"], tmp_path_factory.mktemp(name)
        convert_tau3(theirs / "data", folder, domain)
        write_sums(folder)
        return Store(folder, domain)

    return make


class Copied(dict):
    """Records of a shared database; each is copied when it is first looked up."""

    def __init__(self, records):
        super().__init__(records)
        self.looked_up = set()

    def __getitem__(self, key):
        record = super().__getitem__(key)
        if key not in self.looked_up:
            self.looked_up.add(key)
            record = record.model_copy(deep=True)
            super().__setitem__(key, record)
        return record

    def __setitem__(self, key, record):
        self.looked_up.add(key)
        super().__setitem__(key, record)


def answer(call, *args):
    """Return their observation, by the words of tau2-bench's environment for a failed call."""
    try:
        found = call(*args)
    except Exception as error:  # noqa: BLE001 - as tau2-bench's environment does
        return f"Error: {error}"
    return found if isinstance(found, str) else json.dumps(found, default=str)


def comparable(text):
    """Take out of an observation what is known to differ."""
    for ours, other in OWN_CLASSES.items():
        text = text.replace(f"{ours}.", f"{other}.")
    text = re.sub(r"\bB[0-9a-f]{8}\b", "B-new", text.replace("Cannot evaluate expression: ", ""))
    try:
        return _plain(json.loads(text))
    except ValueError:
        return text


def _plain(value):
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, str) and re.fullmatch(r"-?\d+(\.\d+)?", value):
        return float(value)
    if isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\d[T ]", value):
        return value.replace("T", " ")
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def calculated(kit, expression):
    from inspect_evals.tau2.common.tools import calculate

    return asyncio.run(calculate()(expression=expression))


def call_theirs(kit, name, kwargs):
    if name == "no_such_tool":
        raise ValueError(f"Tool '{name}' not found.")
    if name == "calculate" and kwargs.keys() == {"expression"}:
        return calculated(kit, **kwargs)
    return getattr(kit, name)(**kwargs)


@pytest.mark.parametrize("name", ["retail", "airline"])
def test_a_thousand_random_sequences_see_and_leave_the_same(name, store_of):
    from inspect_evals.tau2.airline.AirlineAgentTools import AirlineAgentTools
    from inspect_evals.tau2.retail.RetailAgentTools import RetailAgentTools

    make, calls = {"retail": (RetailAgentTools, retail), "airline": (AirlineAgentTools, airline)}[
        name
    ]
    store, rng = store_of(name), Random(7)
    records, owned = store.tables.records, {"retail": "orders", "airline": "reservations"}[name]
    users = [
        key for key, user in records["users"].items() if user[owned] and user["payment_methods"]
    ]
    pristine = make(instance=f"{name} pristine")
    pristine.initialize()
    tasks, counts = store.tasks("base"), Counter()
    for sequence in range(SEQUENCES):
        at, user_id = rng.randrange(len(tasks)), rng.choice(users)
        db, copies = Database(store.tables), copied(pristine.db, store.domain.tables)
        kit = make(instance=f"{name} {sequence}", initialized=True)
        kit.db = pristine.db.model_copy(update=copies)
        # Half of the sequences are a task's gold actions, most of them whole, and then some.
        gold = [(one.name, one.kwargs) for one in tasks[at].actions if one.name != TRANSFER]
        gold = gold[: rng.choice([len(gold), len(gold), rng.randint(0, len(gold))])]
        planned = gold if sequence % 2 else []
        planned = [*planned, *[None] * (CALLS if not sequence % 2 else rng.choice([0, 0, 1]))]
        for call in planned:
            tool, kwargs = call or calls(rng, records, user_id)
            if tool == "calculate" and kwargs.keys() != {"expression"}:
                continue  # theirs is no method of the class, and names itself otherwise
            ours = call_tool(db, tool, deepcopy(kwargs)).observation
            other = answer(call_theirs, kit, tool, deepcopy(kwargs))
            assert (tool, kwargs, comparable(ours)) == (tool, kwargs, comparable(other))
            counts["succeeded"] += not ours.startswith("Error")
        for table, of in copies.items():
            changed = {ref.key for ref in db.changed if ref.table == table}
            for key in (changed | of.looked_up) & of.keys():
                mine = json.loads(json.dumps(db.find(table, key)))
                assert mine == dict.__getitem__(of, key).model_dump(mode="json"), (table, key)
            assert not changed - of.keys()
        # The reward: their records equal those after their own replay of the gold actions.
        target = make(instance=f"{name} gold {sequence}", initialized=True)
        wanted = copied(pristine.db, store.domain.tables)
        target.db = pristine.db.model_copy(update=wanted)
        for one in tasks[at].actions:
            if one.name not in (TRANSFER, "calculate"):
                answer(call_theirs, target, one.name, deepcopy(dict(one.kwargs)))
        equal = all(same(copies[table], wanted[table]) for table in copies)
        assert grade(db, store.gold("base", at), (), tasks[at]).database_matches == equal
        counts["rewarded"] += equal
    assert counts["succeeded"] > SEQUENCES  # and not only refusals were compared
    assert SEQUENCES / 10 < counts["rewarded"] < SEQUENCES * 9 / 10


def copied(db, tables):
    return {table: Copied(getattr(db, table)) for table in tables}


def same(one, other):
    keys = one.looked_up | other.looked_up
    return all(dict.get(one, key) == dict.get(other, key) for key in keys)


def test_a_thousand_random_sequences_on_both_sides_of_a_phone_see_and_leave_the_same(store_of):
    from inspect_evals.tau2.data_model.tasks import Task
    from inspect_evals.tau2.telecom.environment import Environment
    from inspect_evals.tau2.telecom.solver import perform_action
    from inspect_evals.tau2.telecom.TelecomAgentTools import TelecomAgentTools
    from inspect_evals.tau2.telecom.TelecomUserTools import TelecomUserTools

    store, rng, succeeded, won = store_of("telecom"), Random(7), 0, 0
    tasks = [(split, at) for split in ("base", "small") for at in range(len(store.tasks(split)))]
    raw = {
        split: json.loads((store.folder / f"tasks_{split}.json").read_text())
        for split in ("base", "small")
    }
    pristine = (
        TelecomAgentTools(instance="agent pristine"),
        TelecomUserTools(instance="user pristine"),
    )
    for one in pristine:
        one.initialize()
    for sequence in range(SEQUENCES):
        split, at = rng.choice(tasks)
        task = store.task(split, at)
        db = begin(store.tables, task)
        kits = [
            type(one)(instance=f"{type(one).__name__} {sequence}", initialized=True)
            for one in pristine
        ]
        for kit, one in zip(kits, pristine, strict=True):
            kit.db = one.db.model_copy(deep=True)
        theirs = Environment(user_tools=kits[1], tools=kits[0])
        wanted = Task.model_validate(raw[split][at])
        for action in wanted.initial_state.initialization_actions or []:
            perform_action(theirs, action)
        number = db.find("phone", "surroundings")["phone_number"]
        customer_id = kits[0].get_customer_by_phone(number).customer_id
        gold = [
            (one.by_user, one.name, dict(one.kwargs))
            for one in task.actions
            if one.name != "transfer_to_human_agents"
        ]
        for step in range(CALLS + len(gold)):
            with_gold = step >= CALLS or rng.random() < 0.2
            if with_gold and gold:
                by_user, tool, kwargs = gold.pop(0)
            else:
                by_user, tool, kwargs = telecom(rng, store.tables.records, customer_id)
            ours = call_tool(db, tool, deepcopy(kwargs), by_user=by_user).observation
            other = answer(call_telecom, kits[by_user], tool, deepcopy(kwargs))
            theirs.sync_tools()
            assert (tool, kwargs, comparable(ours)) == (tool, kwargs, comparable(other))
            succeeded += not ours.startswith("Error")
        assert carrier(db) == their_carrier(kits[0].db)
        assert phone(db) == _plain(kits[1].db.model_dump(mode="json"))
        ours = grade(db, gold_state(store.tables, task), (), task, task.actions)
        right = [
            getattr(kits[one.env_type == "user"], one.func_name)(**one.arguments)
            == one.assert_value
            for one in wanted.evaluation_criteria.env_assertions or []
        ]
        assert ours.reward == float(all(right))
        won += all(right)
    assert succeeded > SEQUENCES
    assert 50 < won < SEQUENCES - 50


def call_telecom(kit, name, kwargs):
    found = call_theirs(kit, name, kwargs)
    if isinstance(found, list):
        return [one.model_dump(mode="json") for one in found]
    if isinstance(found, dict):
        return {
            k: v.model_dump(mode="json") if hasattr(v, "model_dump") else v
            for k, v in found.items()
        }
    return found.model_dump(mode="json") if hasattr(found, "model_dump") else found


def carrier(db):
    tables = ("plans", "customers", "lines", "bills", "devices")
    refs = {ref for ref in db.changed if ref.table in tables}
    refs |= {RecordRef(table, key) for table in tables for key in db.tables.records[table]}
    return comparable(json.dumps({f"{ref.table} {ref.key}": db.record(ref) for ref in refs}))


def their_carrier(db):
    found = {
        f"{table} {one[f'{table[:-1]}_id']}": one
        for table, of in db.model_dump(mode="json").items()
        for one in of
    }
    return comparable(json.dumps(found))


def phone(db):
    device = dict(db.find("phone", "device"))
    device.pop("next_vpn")
    return _plain(
        json.loads(json.dumps({"device": device, "surroundings": db.find("phone", "surroundings")}))
    )


def test_a_thousand_random_sequences_in_a_bank_see_and_leave_the_same(store_of):
    """Theirs is tau2-bench before 1.0.1, which changed three things that are taken out here:

    whole numbers in the arguments of hidden tools are decimal numbers (but a requested increase),
    an account's transactions begin with the latest, and a logged call of a hidden tool that only
    reads is no difference.
    """
    from inspect_evals.tau2.banking.BankingAgentTools import BankingAgentTools

    store, rng, counts = store_of("banking"), Random(7), Counter()
    records, tasks = store.tables.records, store.tasks("base")
    raw = json.loads((store.folder / "tasks_base.json").read_text())
    pristine = BankingAgentTools(instance="bank pristine")
    pristine.initialize()
    for sequence in range(SEQUENCES):
        at, user_id = rng.randrange(len(tasks)), rng.choice([*records["users"]])
        db, kits = begin(store.tables, tasks[at]), bank(pristine, raw[at], str(sequence))
        db.unlocked.add("grep")
        # Half of the sequences are a task's gold actions, most of them whole, and then some.
        gold = [(one.by_user, one.name, dict(one.kwargs)) for one in tasks[at].actions]
        gold = gold[: rng.choice([len(gold), len(gold), rng.randint(0, len(gold))])]
        planned = [*(gold if sequence % 2 else []), *[None] * rng.choice([0, 0, 2])]
        planned = planned if sequence % 2 else [None] * CALLS * 2
        called = []
        for call in planned:
            for by_user, tool, kwargs in prepared(rng, call or banking(rng, records, user_id)):
                ours = call_tool(db, tool, deepcopy(kwargs), by_user=by_user).observation
                other = answer(call_bank, kits[by_user], tool, deepcopy(kwargs))
                seen = (sequence, tool, kwargs, in_any_order(ours))
                assert seen == (sequence, tool, kwargs, in_any_order(banks_words(other)))
                called.append(Action(tool, kwargs, by_user))
                counts["succeeded"] += not ours.startswith("Error")
        state = bank_state(kits[0].db)
        for table, rows in state.items():
            mine = json.loads(json.dumps(dict(db.rows(table))))
            assert (sequence, table, mine) == (sequence, table, rows)
        target = bank(pristine, raw[at], f"{sequence} gold")
        for one in tasks[at].actions:
            if one.name != TRANSFER:
                answer(call_bank, target[one.by_user], one.name, deepcopy(dict(one.kwargs)))
        mine = grade(db, store.gold("base", at), (), tasks[at], called)
        wanted = bank_state(target[0].db)
        assert mine.database_matches == (without_reads(state, wanted) == wanted)
        counts["reads forgiven"] += mine.database_matches and state != wanted
        counts["rewarded"] += mine.database_matches
        missing = unused(called, raw[at])
        others = [name for name in mine.actions_missing or () if name != TRANSFER]
        if "ACTION" in tasks[at].basis:  # theirs takes any transfer for the right one
            assert others == [name for name in missing if name != TRANSFER]
    assert counts["succeeded"] > SEQUENCES
    assert SEQUENCES / 10 < counts["rewarded"] < SEQUENCES * 9 / 10
    assert counts["reads forgiven"] > 10


def test_gold_earns_the_reward_in_all_tasks_of_the_bank(store_of):
    store = store_of("banking")
    for at, task in enumerate(store.tasks("base")):
        env = TauEnv(store, "base", at)
        env.restart()
        for one in task.actions:
            (env.call_by_user if one.by_user else env.call)(one.name, one.kwargs)
        assert (at, env.grade().reward) == (at, 1.0)


@pytest.mark.parametrize("retrieval", ["grep_only", "full_kb", "no_knowledge"])
def test_the_banks_policies_are_theirs(store_of, retrieval):
    from inspect_evals.tau2.banking.agents import _get_domain_policy

    theirs = _get_domain_policy(retrieval.removesuffix("_only"))
    assert store_of("banking").policy(retrieval, ()) == theirs


def bank(pristine, task, name):
    """Return their tools of agent and user at the start of a task."""
    from inspect_evals.tau2.banking.BankingAgentTools import BankingAgentTools
    from inspect_evals.tau2.banking.BankingUserTools import BankingUserTools
    from inspect_evals.tau2.banking.environment import apply_initial_state
    from inspect_evals.tau2.data_model.tasks import Task

    kits = [
        BankingAgentTools(instance=f"agent {name}", initialized=True),
        BankingUserTools(instance=f"user {name}", initialized=True),
    ]
    kits[0].db = kits[1].db = pristine.db.model_copy(deep=True)
    kits[1].db = kits[0].db
    # A copy, because the records of a task's initial state are then changed by the tools.
    apply_initial_state(*kits, Task.model_validate(deepcopy(task)).initial_state)
    return kits


def prepared(rng, call):
    """Unlock, or give, most tools that documents name before they are called."""
    by_user, name, kwargs = call
    tool = kwargs.get("agent_tool_name") or kwargs.get("discoverable_tool_name")
    if name.startswith("call_") and rng.random() < 0.9:
        if by_user:
            yield False, "give_discoverable_user_tool", {"discoverable_tool_name": tool}
        else:
            yield False, "unlock_discoverable_agent_tool", {"agent_tool_name": tool}
    yield call


def call_bank(kit, name, kwargs):
    from inspect_evals.tau2.banking.tools import banking_grep

    if name == "grep" and kwargs.keys() == {"pattern"}:
        return asyncio.run(banking_grep()(**kwargs))
    if name.startswith("call_") and isinstance(kwargs.get("arguments"), str):
        try:
            given = json.loads(kwargs["arguments"], parse_int=float)
            if isinstance(given, dict) and "requested_increase_amount" in given:
                given["requested_increase_amount"] = int(given["requested_increase_amount"])
            kwargs["arguments"] = json.dumps(given)
        except ValueError:
            pass
    if isinstance(kwargs.get("annual_income"), int):
        kwargs["annual_income"] = float(kwargs["annual_income"])
    return call_theirs(kit, name, kwargs)


def banks_words(text):
    text = text.replace("BankingUserTools.", "KnowledgeUserTools.")
    text = text.replace("BankingAgentTools.", "KnowledgeTools.")
    ours = "tau2.domains.banking_knowledge.tools."
    return text.replace("inspect_evals.tau2.banking.KnowledgeTools.", ours)


def in_any_order(text):
    """Sort the records of a list of transactions, which ours begins with the latest."""
    if "Executed: get_bank_account_transactions_9173" not in text:
        return text
    return sorted(re.sub(r"(?m)^\d+\. Record", "Record", text).strip().split("\n\n"))


def bank_state(db):
    return {table: of["data"] for table, of in db.model_dump().items()}


def without_reads(state, wanted):
    """Take out logged calls of tools that only read, which the gold actions do not have."""
    logged = {
        key: row
        for key, row in state["agent_discoverable_tools"].items()
        if key in wanted["agent_discoverable_tools"]
        or not row["tool_name"].startswith(("get_", "initial_transfer_", "emergency_"))
    }
    return {**state, "agent_discoverable_tools": logged}


def unused(called, task):
    """Return the gold actions that their scorer misses."""
    from inspect_ai.model import ChatMessageAssistant
    from inspect_ai.tool import ToolCall
    from inspect_evals.tau2.common.scorer import find_unused_actions
    from inspect_evals.tau2.data_model.tasks import Task

    def heard(by_user):
        calls = [
            ToolCall(id="x", function=one.name, arguments=dict(one.kwargs))
            for one in called
            if one.by_user == by_user
        ]
        return SimpleNamespace(messages=[ChatMessageAssistant(content="", tool_calls=calls)])

    return [
        one.name
        for one in find_unused_actions(heard(False), heard(True), Task.model_validate(task))
    ]
