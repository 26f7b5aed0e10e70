"""The original's recorded behavior: every observation, every state, every reward."""

import json
import random
import threading
from itertools import islice

import pytest

from skillwright.core.concurrency import together
from skillwright.envs import check_env
from skillwright.worlds.tau_bench import TauBenchEnv, open_store
from skillwright.worlds.tau_bench.tau_core import Database, call_tool, grade
from skillwright.worlds.tau_bench.tau_core.tools import TRANSFER
from tau_store import OPENING, make_env, tool_call

PRISTINE = "5a4b2cb59f4d12dea7e4adff24a7f8fada510ead49372ea4a729a82bbb5f49b5"
WITH_OUTPUTS = (
    *(2, 3, 4, 16, 19, 21, 24, 28, 29, 30, 31, 32, 34, 36, 37, 38, 39, 40, 43, 44, 45, 46, 47),
    *(54, 59, 60, 62, 63, 67, 68, 70, 76, 89, 96, 104, 105, 109),
)
NO_OPS = [10, 12, 24, 25, 50, 57, 62, 65, 67, 68, 106]
FREE = [10, 12, 25, 50, 57, 65, 106]
BYE = "That is done. Goodbye."


@pytest.fixture(scope="module")
def folder(reference_data):
    return reference_data / "tau_retail"


@pytest.fixture(scope="module")
def store(folder):
    return open_store(folder)


@pytest.fixture(scope="module")
def vectors(folder):
    lines = (folder / "vectors_public.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def of_kind(vectors, kind):
    return [vector for vector in vectors if vector["kind"] == kind]


def fresh(store):
    return Database(store.tables)


def run(db, calls):
    return [call_tool(db, call["name"], call["kwargs"]).observation for call in calls]


def test_the_pristine_state_has_the_originals_hash(store, vectors):
    (meta,) = of_kind(vectors, "meta")
    assert fresh(store).state_hash() == meta["initial_hash"] == PRISTINE


def test_every_recorded_call_has_its_observation_and_its_state(store, vectors):
    sequences = of_kind(vectors, "random")
    assert len(sequences) >= 358
    for sequence in sequences:
        db = fresh(store)
        for call in sequence["calls"]:
            (observation,) = run(db, [call])
            where = (sequence["id"], call["name"], call["kwargs"])
            assert (*where, observation) == (*where, call["observation"])
            assert (*where, db.state_hash()) == (*where, call["hash"])


def test_every_gold_sequence_has_its_observations_and_its_end(store, vectors):
    records = of_kind(vectors, "gold")
    assert len(records) >= 270
    for record in records:
        db, where = fresh(store), (record["split"], record["task_index"])
        wanted = [step["observation"] for step in record["steps"]]
        assert (where, run(db, record["steps"])) == (where, wanted)
        assert (where, db.state_hash()) == (where, record["final_hash"])
        gold = store.gold(*where)
        assert (where, gold.is_untouched) == (where, record["gold_is_noop"])
        assert (where, gold.db.state_hash()) == (where, record["final_hash"])


def test_every_recorded_reward_is_ours(store, vectors):
    for record in of_kind(vectors, "gold"):
        where = (record["split"], record["task_index"])
        db, gold, task = fresh(store), store.gold(*where), store.task(*where)
        assert task.outputs == record["outputs"]
        empty = grade(db, gold, [], task)
        run(db, record["steps"])
        spoken = grade(db, gold, [" ".join(task.outputs)], task)
        silent = grade(db, gold, [], task)
        names = ("reward_empty", "reward_gold_then_say_outputs", "reward_gold_silent")
        found = [empty.reward, spoken.reward, silent.reward]
        assert (where, found) == (where, [record[name] for name in names])


def test_the_reward_agrees_with_the_hash_on_wrong_trajectories_too(store, vectors):
    rng = random.Random(0)
    records = of_kind(vectors, "gold")
    by_user = {}
    for record in records:
        by_user.setdefault(record["user_id"], []).append(record)
    matches = 0
    for record in records:
        db = fresh(store)
        # Half-way there, or with another task of the same customer on top.
        other = rng.choice(by_user[record["user_id"]])
        run(db, record["steps"][: rng.randint(0, len(record["steps"]))])
        run(db, other["steps"] if rng.random() < 0.5 else [])
        end = db.state_hash()
        for task in (record, other):
            where = (task["split"], task["task_index"])
            judged = grade(db, store.gold(*where), [], store.task(*where))
            assert judged.database_matches == (end == task["final_hash"])
            assert bool(judged.differing) != judged.database_matches
            matches += judged.database_matches
    assert 0 < matches < 2 * len(records)


# The test split, played through the environment


def play(folder, index, turns):
    env = make_env(folder, index)
    env.init([])
    rewards = []
    for turn in turns:
        output = env.step(turn)
        rewards.append(output["reward"])
        if output["done"]:
            assert sum(rewards[:-1]) == 0.0
            return output
    raise AssertionError(f"task {index} did not end")


def gold_calls(store, index):
    actions = store.task("test", index).actions
    return [tool_call(one.name, **one.kwargs) for one in actions if one.name != TRANSFER]


def test_gold_actions_and_outputs_win_every_test_task(folder, store):
    assert len(store.tasks("test")) == 115
    for index in range(115):
        said = f"{BYE} {' '.join(store.task('test', index).outputs)}"
        output = play(folder, index, [*gold_calls(store, index), said])
        assert (index, output["reward"]) == (index, 1.0)


def test_gold_actions_alone_win_where_nothing_has_to_be_said(folder, store):
    rewards = [play(folder, index, [*gold_calls(store, index), BYE]) for index in range(115)]
    lost = tuple(index for index, output in enumerate(rewards) if output["reward"] == 0.0)
    assert lost == WITH_OUTPUTS
    assert all(output["metadata"]["reward_breakdown"]["r_db"] == 1.0 for output in rewards)


def test_an_empty_conversation_wins_exactly_seven_test_tasks(folder, store):
    won = [index for index in range(115) if play(folder, index, [BYE])["reward"] == 1.0]
    assert won == FREE
    assert [i for i in range(115) if store.gold("test", i).is_untouched] == NO_OPS


@pytest.mark.parametrize("index", [10, 12, 26, 50])
def test_a_transfer_in_the_gold_actions_is_not_asked_for(folder, store, index):
    assert TRANSFER in {action.name for action in store.task("test", index).actions}
    actions = store.task("test", index).actions
    every = [tool_call(action.name, **action.kwargs) for action in actions]
    assert play(folder, index, every)["reward"] == 1.0


def test_every_dev_task_is_won_by_its_gold_actions(folder, store):
    for index in range(20):
        env = make_env(folder, index, extras={"task_split": "dev"})
        env.init([])
        for action in store.task("dev", index).actions:
            env.step(tool_call(action.name, **action.kwargs))
        assert env.step(BYE)["reward"] == 1.0


def test_the_environment_passes_its_check(folder, monkeypatch):
    monkeypatch.setenv("SKILLWRIGHT_TAU_DATA", str(folder))
    report = check_env("tau_bench", fuzz=200)
    assert report.ok, report.to_dict()
    assert TauBenchEnv.examples()[0]["task_split"] == "test"


# Many at once


def writes(store, index):
    """Gold calls of a test task, and then the calls of its neighbor, which are wrong for it."""
    turns = [*gold_calls(store, index % 115), *gold_calls(store, (index + 1) % 115)]
    return turns[:20]


def ends_as_alone(folder, store, index):
    env = make_env(folder, index % 115)
    env.init([])
    for turn in writes(store, index):
        env.step(turn)
    return env.tau_env.db.changed, env.step(BYE)["reward"]


def test_thirty_two_threads_share_the_database_without_a_stray_write(folder, store):
    alone = [ends_as_alone(folder, store, index) for index in range(115)]
    found, barrier = {}, threading.Barrier(32)

    def work(number):
        barrier.wait()
        for index in islice(range(number, number + 64), 64):
            found[number, index] = ends_as_alone(folder, store, index % 115)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 32 * 64
    assert all(end == alone[index % 115] for (_, index), end in found.items())
    assert hash_from_nothing(store) == PRISTINE


async def test_a_thousand_coroutines_share_the_database_without_a_stray_write(folder, store):
    alone = [ends_as_alone(folder, store, index)[0] for index in range(115)]

    async def work(number):
        env = make_env(folder, number % 115, replies=[OPENING, "Yes", "Yes"])
        env.user_sim = Dawdling(env.user_sim)
        await env.ainit([])
        for turn, call in enumerate(writes(store, number)):
            if turn == 1:
                await env.astep("Is that right?")
            await env.astep(call)
        return number % 115, env.tau_env.db.changed

    ends = await together(work(number) for number in range(1_000))
    assert all(changed == alone[index] for index, changed in ends)
    assert hash_from_nothing(store) == PRISTINE


class Dawdling:
    """Lets every other episode go first before it answers."""

    def __init__(self, user):
        self._user = user

    async def areset(self, instruction):
        await together(self._nothing() for _ in range(2))
        return self._user.reset(instruction)

    async def astep(self, content):
        await together(self._nothing() for _ in range(2))
        return self._user.step(content)

    async def _nothing(self):
        return None


def hash_from_nothing(store):
    """Hash the shared records anew, without any text that is remembered."""
    tables = type(store.tables)(
        store.domain, {name: dict(rows) for name, rows in store.tables.records.items()}
    )
    return Database(tables).state_hash()
