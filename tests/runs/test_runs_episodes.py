"""Episodes in the store: what is read back is what was recorded."""

import json
import math
import sqlite3
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwright.core import (
    Act,
    ContractError,
    EpisodeResult,
    EpisodeSpec,
    Failure,
    FailureCause,
    Purpose,
    RunError,
    StopReason,
    Task,
    Trajectory,
    Turn,
    Usage,
)
from skillwright.core.jsonio import digest
from skillwright.runs import Redactor, RunStore

FAILURE = Failure(FailureCause.MODEL, "503 from https://me:hunter2@host/v1")


def columns(store_path, query):
    connection = sqlite3.connect(store_path)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def test_an_episode_is_found_by_its_key_and_equals_what_was_recorded(store, make_episode):
    episode = make_episode(turns=5, step=1)
    store.record_episode(episode, agent="scripted:household", skill="- Open.")
    assert store.find_episode(episode.key) == episode
    assert store.find_episode("another key") is None


def test_an_episode_outlives_its_process(store_path, make_episode):
    episode = make_episode()
    with RunStore.open(store_path) as store:
        store.record_episode(episode)
    with RunStore.open(store_path) as store:
        assert store.find_episode(episode.key) == episode


@pytest.mark.parametrize("window", [None, 0, 2])
def test_the_exact_messages_of_every_turn_are_rebuilt(store, make_episode, window):
    episode = make_episode(turns=8, window=window)
    store.record_episode(episode)
    rebuilt = store.find_episode(episode.key)
    for turn, original in zip(rebuilt.trajectory.turns, episode.trajectory.turns, strict=True):
        assert turn.prompt == original.prompt


def test_each_turn_is_stored_with_the_digest_of_its_prompt(store, store_path, make_episode):
    for window in (None, 1):
        episode = make_episode(turns=4, window=window, key=f"window {window}")
        number = store.record_episode(episode)
        stored = columns(
            store_path,
            f"SELECT prompt_digest FROM turns WHERE episode = {number} ORDER BY position",
        )
        expected = [digest(list(turn.prompt)) for turn in episode.trajectory.turns]
        assert [row[0].hex() for row in stored] == expected


def test_a_turn_costs_what_is_new_in_it_and_not_its_whole_prompt(store, store_path, make_episode):
    store.record_episode(make_episode(turns=100))
    stored = columns(store_path, "SELECT length(said) FROM episodes")[0][0]
    said = sum(len(json.dumps(turn.prompt)) for turn in make_episode(turns=100).trajectory.turns)
    assert said > 800_000
    assert stored < 10_000


def test_what_many_episodes_share_is_stored_once(store, store_path, make_episode):
    for draw in range(5):
        store.record_episode(make_episode(draw=draw), skill="- Open.")
    texts = columns(store_path, "SELECT count(*) FROM texts")[0][0]
    assert texts == 4  # extras, opening, skill, system message


def test_a_failure_is_recorded_and_the_later_success_is_found_in_its_place(store, make_episode):
    failed = make_episode(failure=FAILURE)
    store.record_episode(failed)
    store.record_episode(failed)
    assert store.find_episode(failed.key) is None
    store.record_episode(make_episode())
    assert store.find_episode(failed.key) == make_episode()
    assert store.counts()["failures"] == 2
    assert store.counts()["episodes"] == 1


def test_a_success_is_kept_once_per_key_and_the_first_one_stays(store, make_episode):
    first = store.record_episode(make_episode())
    again = store.record_episode(replace(make_episode(), reward=0.0))
    assert again == first
    assert store.find_episode(make_episode().key).reward == 1.0
    assert store.usage_by_purpose()["rollout"].calls == 3


def test_episodes_without_a_key_are_kept_apart_and_never_found(store, make_episode):
    for _ in range(2):
        store.record_episode(make_episode(key=""))
    assert store.counts()["episodes"] == 2
    assert store.find_episode("") is None


def test_any_episode_is_loaded_by_its_number(store, make_episode):
    failed = make_episode(failure=Failure(FailureCause.TIMEOUT, "over 60 s"))
    number = store.record_episode(failed)
    assert store.load_episode(number) == failed
    assert store.task(number) == failed.spec.task
    with pytest.raises(RunError, match="holds no episode 99"):
        store.load_episode(99)


def test_summaries_carry_what_reports_need(store, make_episode):
    store.record_episode(make_episode("t2", step=3), agent="scripted:household")
    store.record_episode(make_episode("t1", failure=FAILURE, phase="gate"))
    first, second = store.episodes()
    assert (first.task_id, second.task_id) == ("t1", "t2")
    assert first.reward is None
    assert first.failure.cause is FailureCause.MODEL
    assert "hunter2" not in first.failure.message
    assert (second.reward, second.failure, second.stop_reason) == (1.0, None, StopReason.DONE)
    assert (second.agent, second.step, second.skill_version) == ("scripted:household", 3, "abc")
    assert (second.turns, second.attempts, second.metrics) == (3, 2, {"turns": 3.0})
    assert second.usage == Usage(3, 303, 30, cost_usd=1.5)
    assert second.ended_at - second.started_at == second.wall_s == 1.5


def test_summaries_can_be_asked_for_by_phase_split_step_and_task(store, make_episode):
    store.record_episode(make_episode("t1", step=1))
    store.record_episode(make_episode("t1", phase="gate", draw=1, step=2))
    store.record_episode(make_episode("t2", step=2))
    assert [e.task_id for e in store.episodes(phase="train")] == ["t1", "t2"]
    assert [e.draw for e in store.episodes(task_id="t1")] == [0, 1]
    assert [e.phase for e in store.episodes(step=2, phase="gate")] == ["gate"]
    assert len(store.episodes(split="train")) == 3
    assert store.episodes(split="test") == []


def test_what_a_simulated_user_said_and_cost_stands_apart(store, store_path, make_episode):
    episode = make_episode(turns=1)
    turn = episode.trajectory.turns[0]
    talked = replace(turn, metadata={**turn.metadata, "user_simulator": {"said": "Hello?"}})
    episode = replace(episode, trajectory=replace(episode.trajectory, turns=(talked,)))
    spent = {Purpose.ROLLOUT: Usage(1, 10), Purpose.USER: Usage(2, 20, cost_usd=None)}
    store.record_episode(episode, usage=spent)
    assert store.find_episode(episode.key) == episode
    user = columns(store_path, "SELECT user FROM turns")
    assert user == [('{"said":"Hello?"}',)]
    user_spent = Usage(2, 20, cost_usd=None)
    assert store.usage_by_purpose() == {"rollout": Usage(1, 10), "user": user_spent}
    assert store.episodes()[0].usage == Usage(3, 30, cost_usd=None)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"metadata": {"seen": {1, 2}}}, "metadata of turn 0 cannot be stored"),
        ({"metadata": {"score": math.nan}}, "metadata of turn 0 cannot be stored"),
    ],
)
def test_metadata_that_is_no_json_is_the_environments_fault(store, make_episode, change, named):
    episode = make_episode(turns=1)
    turn = replace(episode.trajectory.turns[0], **change)
    broken = replace(episode, trajectory=replace(episode.trajectory, turns=(turn,)))
    with pytest.raises(ContractError, match=named) as caught:
        store.record_episode(broken)
    assert "environment 'alfworld', task 't1'" in str(caught.value)
    assert store.counts()["episodes"] == 0


def test_metrics_that_are_no_json_are_the_environments_fault_too(store, make_episode):
    with pytest.raises(ContractError, match="metrics"):
        store.record_episode(replace(make_episode(), metrics={"loss": math.inf}))


def test_known_secrets_are_taken_out_of_everything_that_was_said(store_path, make_episode):
    episode = make_episode("my-secret-task-key")
    with RunStore.open(store_path, redactor=Redactor(["my-secret-task-key"])) as store:
        store.record_episode(episode)
        rebuilt = store.find_episode(episode.key)
    assert "<redacted>" in rebuilt.trajectory.opening
    assert "my-secret-task-key" not in str(rebuilt.trajectory)


def test_an_adapters_score_and_row_come_back_as_they_were(store, make_episode):
    row = {"id": "t1", "hard": True, "soft": 0.25, "log": ["a", None, {"\ud800": 1e-9}]}
    episode = replace(make_episode(), reward=0.25, hard=0.5, row=row)
    store.record_episode(episode)
    found = store.find_episode(episode.key)
    assert found == episode
    assert (found.hard, found.row) == (0.5, row)
    assert store.episodes()[0].hard == 0.5


def test_a_failed_episode_keeps_its_row(store, make_episode):
    failed = replace(
        make_episode(failure=Failure(FailureCause.ENVIRONMENT, "no hard")), row={"id": "t1"}
    )
    assert store.load_episode(store.record_episode(failed)) == failed


def test_an_empty_row_is_not_no_row(store, make_episode):
    for row in ({}, None):
        episode = replace(make_episode(key=f"row {row}"), row=row)
        store.record_episode(episode)
        assert store.find_episode(episode.key).row == row


def test_known_secrets_are_taken_out_of_an_adapters_row(store_path, make_episode):
    row = {"header": "Bearer my-secret-api-key", "score": 1}
    with RunStore.open(store_path, redactor=Redactor(["my-secret-api-key"])) as store:
        number = store.record_episode(replace(make_episode(), row=row))
        assert store.load_episode(number).row == {"header": "Bearer <redacted>", "score": 1}


def test_a_row_that_is_no_json_is_the_adapters_fault(store, make_episode):
    with pytest.raises(ContractError, match=r"environment 'alfworld', task 't1'.*rows"):
        store.record_episode(replace(make_episode(), row={"image": b"\x89PNG"}))
    assert store.counts()["episodes"] == 0


# Lone surrogates are included; a pair of them is left out, which JSON joins to one character.
TEXTS = st.text(st.characters(exclude_categories=[]), max_size=30).filter(
    lambda text: json.loads(json.dumps(text)) == text
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(-1e9, 1e9) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
MESSAGES = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant", "tool"])},
    optional={
        "content": TEXTS | st.none() | st.lists(st.dictionaries(TEXTS, TEXTS, max_size=1)),
        "name": TEXTS,
        "tool_calls": st.lists(st.dictionaries(TEXTS, TEXTS, max_size=2), max_size=2),
    },
)
METADATA = st.dictionaries(TEXTS, JSON, max_size=3)
COUNTS = st.integers(0, 2**40)
USAGES = st.builds(Usage, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS, st.none() | st.floats(0, 1e6))
ACTS = st.builds(
    Act,
    TEXTS,
    USAGES,
    st.none() | st.lists(st.integers(0, 2**31), max_size=3).map(tuple),
    st.none() | st.lists(st.floats(-100, 0), max_size=3).map(tuple),
    st.sampled_from(["stop", "length"]),
)


@st.composite
def trajectories(draw):
    pool = draw(st.lists(MESSAGES, min_size=1, max_size=5))
    prompts = st.lists(st.sampled_from(pool), max_size=6).map(tuple)
    turns = [
        Turn(
            index,
            draw(prompts),
            draw(ACTS),
            draw(TEXTS),
            draw(st.floats(-1, 1)),
            draw(METADATA),
            draw(prompts),
            draw(st.integers(0, 2**31)),
        )
        for index in range(draw(st.integers(0, 4)))
    ]
    return Trajectory(draw(TEXTS), tuple(turns), draw(METADATA))


@given(trajectories(), METADATA, st.floats(0, 1), st.none() | TEXTS)
def test_whatever_an_episode_holds_comes_back_equal(
    tmp_path_factory, trajectory, extras, reward, skill
):
    path = tmp_path_factory.mktemp("law") / "run.sqlite"
    spec = EpisodeSpec(Task("t", "guess", extras), seed=1, draw=2, phase="p")
    episode = EpisodeResult(spec, reward, trajectory=trajectory, key="k")
    with RunStore.open(path) as store:
        number = store.record_episode(episode, skill=skill)
        assert store.find_episode("k") == episode
    prompts = columns(path, f"SELECT prompt_digest FROM turns WHERE episode = {number}")
    assert [row[0].hex() for row in prompts] == [digest(list(t.prompt)) for t in trajectory.turns]


def test_recording_forty_turns_takes_milliseconds(store, make_episode):
    episodes = [make_episode(f"t{number}", turns=40) for number in range(20)]
    times = []
    for episode in episodes:
        start = time.perf_counter()
        store.record_episode(episode)
        times.append(time.perf_counter() - start)
    # About 1.5 ms on a laptop core; the bound leaves room for a busy machine and none for
    # rewriting every prompt in every turn.
    assert min(times) < 0.010
