import json
import random

import pytest

from rollout_worlds import Bisector, Broken, Worlds, guess_task
from skillwright.core import EpisodeSpec, PlainSkill, RolloutResult
from skillwright.core.seeds import evaluation_seed
from skillwright.datasets import BatchSpec, SplitError
from skillwright.rollout import EngineDown, Limits, LocalEngine, TextEnvAdapter

TRAIN = [guess_task(f"t{i}", upper=4) for i in range(6)]
VAL = [guess_task(f"v{i}", upper=4) for i in range(3)]


@pytest.fixture
def make_adapter():
    made = []

    def make(worlds=None, *, tasks=None, limits=None, **kwargs):
        engine = LocalEngine(Bisector(), worlds or Worlds(), limits=limits or Limits(retries=0))
        made.append(TextEnvAdapter(engine, tasks or {"train": TRAIN, "valid_seen": VAL}, **kwargs))
        return made[-1]

    yield make
    for adapter in made:
        adapter.close()


def test_a_train_batch_is_the_start_of_a_shuffle_by_its_seed(make_adapter):
    order = list(TRAIN)
    random.Random(5).shuffle(order)
    batch = make_adapter().build_train_env(batch_size=4, seed=5)
    assert [spec.task for spec in batch] == order[:4]
    assert batch == make_adapter().build_train_env(batch_size=4, seed=5)
    others = make_adapter().build_train_env(batch_size=4, seed=6)
    assert not {spec.seed for spec in batch} & {spec.seed for spec in others}


@pytest.mark.parametrize("split", ["val", "valid_seen", "selection"])
def test_an_evaluation_batch_is_the_start_of_its_split_under_any_alias(make_adapter, split):
    adapter = make_adapter()
    assert [spec.task for spec in adapter.build_eval_env(2, split, seed=1)] == VAL[:2]
    everything = adapter.build_eval_env(0, split, seed=1)
    assert [spec.seed for spec in everything] == [evaluation_seed(1, v.id, 0) for v in VAL]


def test_an_unknown_split_is_refused(make_adapter):
    with pytest.raises(SplitError, match="no split is called 'vla'"):
        make_adapter().build_eval_env(0, "vla", seed=1)
    with pytest.raises(SplitError):
        make_adapter(tasks={"trian": TRAIN})


def test_a_split_without_tasks_is_refused_because_no_rows_would_read_as_zero(make_adapter):
    with pytest.raises(SplitError, match=r"no test tasks; it has tasks for: train, val"):
        make_adapter().build_eval_env(0, "valid_unseen", seed=1)
    with pytest.raises(SplitError, match=r"no train tasks"):
        make_adapter(tasks={"val": VAL, "train": []}).build_train_env(batch_size=1, seed=1)


def test_tasks_given_twice_for_one_split_and_negative_sizes_are_refused(make_adapter):
    with pytest.raises(SplitError, match="'val' and 'valid_seen' name the same split"):
        make_adapter(tasks={"val": VAL, "valid_seen": VAL})
    with pytest.raises(SplitError, match="env_num is -1"):
        make_adapter().build_eval_env(-1, "val", seed=1)


def test_a_planned_batch_is_built_by_its_phase(make_adapter):
    adapter = make_adapter()
    train = adapter.build_env_from_batch(BatchSpec("train", "train", 5, 2), out_root="x")
    held_out = adapter.build_env_from_batch(BatchSpec("eval", "valid_seen", 5, 2), out_root="x")
    assert train == adapter.build_train_env(2, 5)
    assert held_out == adapter.build_eval_env(2, "valid_seen", 5)


def test_a_rollout_returns_the_documented_rows_and_writes_conversations(make_adapter, tmp_path):
    adapter = make_adapter(limits=Limits(max_turns=2))
    specs = adapter.build_eval_env(0, "val", seed=3)
    rows = adapter.rollout(specs, "Halve.", str(tmp_path), use_eval_feedback=True)
    assert [row["id"] for row in rows] == ["v0", "v1", "v2"]
    assert {row["hard"] for row in rows} == {0, 1}  # the seed was chosen so
    for row in rows:
        assert RolloutResult.from_dict(row).to_dict()["id"] == row["id"]
        assert row["soft"] == float(row["hard"])
        assert row["task_type"] == "easy"
        assert bool(row["fail_reason"]) is (row["hard"] == 0)
        file = tmp_path / "predictions" / row["id"] / "conversation.json"
        opening, *steps = json.loads(file.read_text("utf-8"))
        assert opening == {"role": "user", "content": "I think of a number from 1 to 4."}
        assert len(steps) == row["n_turns"]
        assert set(steps[0]) == {"step", "action", "env_feedback", "reasoning"}
    lost = next(row for row in rows if not row["hard"])
    assert lost["fail_reason"] == "the turn limit was reached (reward 0.00 after 2 turns)"


def test_a_success_is_a_reward_from_the_threshold_on(make_adapter, tmp_path):
    adapter = make_adapter(limits=Limits(max_turns=1), success_threshold=0.0)
    rows = adapter.rollout(adapter.build_eval_env(0, "val", 3), "", str(tmp_path))
    assert [row["hard"] for row in rows] == [1, 1, 1]


def test_a_failure_is_no_row_and_is_listed_apart(make_adapter, tmp_path, caplog):
    adapter = make_adapter(Worlds(v1=Broken))
    rows = adapter.rollout(adapter.build_eval_env(0, "val", seed=3), "", str(tmp_path))
    assert [row["id"] for row in rows] == ["v0", "v2"]
    (failure,) = json.loads((tmp_path / "failures.json").read_text("utf-8"))
    assert failure["id"] == "v1"
    assert failure["cause"] == "environment"
    assert "1 of 3 episodes failed and are left out of the scores" in caplog.text
    assert not (tmp_path / "predictions" / "v1").exists()
    make_adapter().rollout(adapter.build_eval_env(0, "val", seed=3), "", str(tmp_path))
    assert not (tmp_path / "failures.json").exists()  # it would tell of the rollout before


def test_a_rollout_of_failures_only_raises_because_no_rows_would_read_as_zero(
    make_adapter, tmp_path
):
    adapter = make_adapter(Worlds(Broken))
    with pytest.raises(EngineDown, match="all 3 episodes failed"):
        adapter.rollout(adapter.build_eval_env(0, "val", seed=3), "", str(tmp_path))


def test_several_attempts_at_a_task_have_ids_of_their_own(make_adapter, tmp_path):
    specs = [EpisodeSpec(VAL[0], seed=draw, draw=draw) for draw in range(2)]
    rows = make_adapter().rollout(specs, "", str(tmp_path))
    assert [row["id"] for row in rows] == ["v0", "v0.1"]


async def test_the_blocking_rollout_works_inside_a_running_loop(make_adapter, tmp_path):
    adapter = make_adapter(limits=Limits(max_concurrent=1))
    specs = adapter.build_eval_env(0, "val", seed=3)
    first = adapter.rollout(specs, "", str(tmp_path))
    assert adapter.rollout(specs, "", str(tmp_path)) == first
    assert len(first) == 3


async def test_the_asynchronous_rollout_stays_in_the_callers_loop(make_adapter):
    adapter = make_adapter()
    specs = adapter.build_train_env(batch_size=3, seed=1)
    results = await adapter.arollout(specs, PlainSkill(""))
    assert [result.spec for result in results] == specs


def test_task_types_are_those_of_all_splits(make_adapter):
    assert make_adapter().get_task_types() == ["easy"]
