"""The original airline's recorded behavior: every observation, every state; and its data."""

import json
import shutil

import pytest

from skillwright.worlds.tau_bench import DOMAINS, open_store
from skillwright.worlds.tau_bench.tau_core import Database, call_tool
from skillwright.worlds.tau_bench.tau_core.schemas import AIRLINE_SCHEMAS
from skillwright.worlds.tau_bench.tau_core.tools import TRANSFER
from skillwright.worlds.tau_bench.upstream import fetch_tau_bench
from tau_airline import airline_env
from tau_checkout import write_checkout
from tau_store import tool_call

PRISTINE = "4587e6b48ad2b2c4f3e1fecb40aabec7bb2286513273b8f8cec3f5865222f290"
WITH_OUTPUTS = [2, 8, 9, 44]
BYE = "That is done. Goodbye."


@pytest.fixture(scope="module")
def folder(reference_data):
    found = reference_data / "tau_airline"
    if not found.is_dir():
        pytest.skip(f"no data of tau-bench airline at {found}")
    return found


@pytest.fixture(scope="module")
def store(folder):
    return open_store(folder, "airline")


@pytest.fixture(scope="module")
def vectors(folder):
    lines = (folder / "vectors_public.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_every_recorded_call_has_its_observation_and_its_state(store, vectors):
    assert Database(store.tables).state_hash() == vectors[0]["initial_hash"] == PRISTINE
    sequences = [vector for vector in vectors if vector["kind"] == "random"]
    assert len(sequences) >= 120
    for sequence in sequences:
        db = Database(store.tables)
        for call in sequence["calls"]:
            observation = call_tool(db, call["name"], call["kwargs"]).observation
            where = (sequence["id"], call["name"], call["kwargs"])
            assert (*where, observation) == (*where, call["observation"])
            assert (*where, db.state_hash()) == (*where, call["hash"])


def test_every_gold_sequence_has_its_observations_and_its_end(store, vectors):
    records = [vector for vector in vectors if vector["kind"] == "gold"]
    assert len(records) >= 25
    for record in records:
        db, where = Database(store.tables), (record["split"], record["task_index"])
        for step in record["steps"]:
            observation = call_tool(db, step["name"], step["kwargs"]).observation
            assert (where, observation) == (where, step["observation"])
        gold = store.gold(*where)
        assert db.state_hash() == gold.db.state_hash() == record["final_hash"]
        assert (where, gold.is_untouched) == (where, record["gold_is_noop"])


def rewards(folder, store, last):
    found = []
    for index, task in enumerate(store.tasks("test")):
        env = airline_env(folder, index)
        env.init([])
        for one in task.actions:
            if one.name != TRANSFER:
                env.step(tool_call(one.name, **one.kwargs))
        found.append(env.step(last(task))["reward"])
    return found


def test_gold_actions_and_outputs_win_every_task_and_silence_those_without_outputs(folder, store):
    assert rewards(folder, store, lambda task: f"{BYE} {' '.join(task.outputs)}") == [1.0] * 50
    silent = rewards(folder, store, lambda task: BYE)
    assert [index for index, reward in enumerate(silent) if reward == 0.0] == WITH_OUTPUTS
    assert sum(store.gold("test", index).is_untouched for index in range(50)) == 20


def test_the_shared_tables_are_as_they_were_after_all_that(folder, store):
    for index in range(50):
        env = airline_env(folder, index)
        env.init([])
        assert env.tau_env.db.tables is store.tables
        for action in store.task("test", index).actions:
            env.step(tool_call(action.name, **action.kwargs))
        assert not any(ref.table == "flights" for ref in env.tau_env.db.changed)
    records = {name: dict(rows) for name, rows in store.tables.records.items()}
    assert Database(type(store.tables)(store.domain, records)).state_hash() == PRISTINE


def test_our_own_words_for_the_tools_fit_the_originals(folder):
    def bare(kind):
        if isinstance(kind, dict):
            return {name: bare(one) for name, one in kind.items() if name != "description"}
        return kind

    def shape(schemas):
        functions = [one["function"] for one in schemas]
        return [(one["name"], bare(one["parameters"])) for one in functions]

    theirs = json.loads((folder / "tools.json").read_text())
    assert shape(AIRLINE_SCHEMAS) == shape(theirs)
    for ours, one in zip(AIRLINE_SCHEMAS, theirs, strict=True):
        assert (
            ours["function"]["parameters"]["required"] == one["function"]["parameters"]["required"]
        )


def test_the_official_data_comes_out_as_it_is_known(folder, tmp_path):
    def read(name):
        return json.loads((folder / f"{name}.json").read_text())

    names = DOMAINS["airline"].tables
    checkout = write_checkout(
        tmp_path / "checkout",
        domain="airline",
        tables={name: (folder / f"{name}.json").read_text() for name in names},
        tasks={"test": read("tasks_test")},
        rules=read("rules"),
        tools=read("tools"),
    )
    shutil.copy(folder / "wiki.md", checkout / "tau_bench" / "envs" / "airline" / "wiki.md")
    made = fetch_tau_bench(tmp_path / "made", str(checkout), domain="airline")
    assert made.is_pinned
    assert made.tasks == {"test": 50}
    for name in DOMAINS["airline"].upstream:
        assert (tmp_path / "made" / name).read_bytes() == (folder / name).read_bytes()
    again = fetch_tau_bench(tmp_path / "made", domain="airline")
    assert again.was_there, "what is there is not asked for again"
