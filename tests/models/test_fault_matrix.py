"""Each fault of an endpoint, in each dialect, at each stage of a training run.

What passes by itself changes nothing; what nobody can cure stops the run, which then resumes as if
nothing had been; what concerns one request is a recorded fault: never a score, never "no edits".
"""

import pytest
from fault_worlds import ALONE, FATAL, PASSING, STAGES, WORLDS, Storm, Trainer

from doors import look, story
from skillwright.core import ModelRefused, RequestRefused

AGENTS = {"rollout": "train", "gate": "gate", "test": "test"}
PURPOSES = {
    "analyst": "reflect",
    "merge": "merge",
    "ranking": "rank",
    "slow_update": "slow_update",
    "meta_skill": "meta_skill",
}
_FAST = ("openai_chat", "claude_chat")


def cells(faults, *, fast_stages=()):
    """Return dialect, fault (and stage); all but a slice are heavy."""
    found = []
    for dialect in WORLDS:
        for fault in faults:
            if not fast_stages:
                marks = () if dialect == _FAST[0] else (pytest.mark.heavy,)
                found.append(pytest.param(dialect, fault, marks=marks))
                continue
            for stage in PURPOSES if fault == "empty answer" else STAGES:
                is_fast = dialect in _FAST and stage in fast_stages
                marks = () if is_fast else (pytest.mark.heavy,)
                found.append(pytest.param(dialect, fault, stage, marks=marks))
    return found


@pytest.fixture(scope="module")
def sound_runs(tmp_path_factory):
    """Train without a fault, once per dialect, and return the story."""
    known = {}

    async def train(dialect):
        if dialect not in known:
            trainer = Trainer(tmp_path_factory.mktemp(dialect), dialect)
            await trainer.train()
            known[dialect] = story(trainer.path)
        return known[dialect]

    return train


def spent(path):
    with look(path) as store:
        return {name: used.failed_calls for name, used in store.usage_by_purpose().items()}


@pytest.mark.parametrize(("dialect", "fault"), cells(PASSING))
async def test_what_passes_by_itself_changes_nothing_at_any_stage(
    tmp_path, sound_runs, dialect, fault
):
    settings = {"timeout_s": 0.2} if fault == "time-out" else {}
    trainer = Trainer(tmp_path, dialect, **settings)
    storm = Storm(PASSING[fault](WORLDS[dialect]), STAGES)
    await trainer.train(storm)
    assert storm.met == dict.fromkeys(STAGES, 1)
    assert story(trainer.path) == await sound_runs(dialect)
    failed = spent(trainer.path)
    assert failed["rollout"] >= len(AGENTS)
    assert all(failed[purpose] >= 1 for purpose in PURPOSES.values())
    with look(trainer.path) as store:
        assert store.counts()["failures"] == 0


@pytest.mark.parametrize(
    ("dialect", "fault", "stage"), cells(FATAL, fast_stages=("analyst", "test"))
)
async def test_what_nobody_can_cure_stops_the_run_which_goes_on_as_if_it_had_not(
    tmp_path, sound_runs, dialect, fault, stage
):
    trainer = Trainer(tmp_path, dialect)
    storm = Storm(FATAL[fault](WORLDS[dialect]), [stage], times=None)
    words = "key" if fault == "wrong key" else "another key|top it up"
    with pytest.raises(ModelRefused, match=words) as caught:
        await trainer.train(storm)
    assert not isinstance(caught.value, RequestRefused)
    assert caught.value.exit_code == 2
    assert storm.met[stage] >= 1
    with look(trainer.path) as store:
        assert store.counts()["failures"] == 0
        assert not [patch for patch in store.patches() if patch.failure]
    await trainer.train()
    assert story(trainer.path) == await sound_runs(dialect)


@pytest.mark.parametrize(
    ("dialect", "fault", "stage"), cells(ALONE, fast_stages=("rollout", "analyst"))
)
async def test_what_concerns_one_request_is_recorded_and_never_scored(
    tmp_path, sound_runs, dialect, fault, stage
):
    trainer = Trainer(tmp_path, dialect)
    # An answer without words came, so it is asked for once more; it comes without again. Of an
    # agent it would be a clumsy move, unless the endpoint withheld it.
    is_wordless = fault == "empty answer" or (
        dialect == "claude_chat" and fault == "refused content"
    )
    times = 2 if is_wordless and stage in PURPOSES else 1
    storm = Storm(ALONE[fault](WORLDS[dialect]), [stage], times)
    report = await trainer.train(storm)
    assert storm.met[stage] == times
    with look(trainer.path) as store:
        failed = [one for one in store.episodes() if one.failure]
        faults = [patch for patch in store.patches() if patch.failure]
    if stage in AGENTS:
        assert [(one.reward, one.phase) for one in failed] == [(None, AGENTS[stage])]
        assert failed[0].failure.cause == "model_refused"
        assert not faults
    else:
        assert not failed
        causes = [patch.failure.cause.value for patch in faults]
        said = {"analyst", "merge", "ranking"} & {stage}
        assert causes == ["reply" if is_wordless else "model_refused"] * len(said)
        assert spent(trainer.path)[PURPOSES[stage]] == (0 if is_wordless else 1)
    # The others are heard: edits are made, and what was refused decided nothing.
    assert [step.action for step in report.state.steps] == ["accept_new_best", "reject"]
    actions = [epoch.action for epoch in report.state.epochs]
    assert actions == ["", "skip_fault" if stage == "slow_update" else "reject"]
    sound = await sound_runs(dialect)
    if stage in ("meta_skill", "test"):  # nothing comes after these that could differ
        assert story(trainer.path)["verdicts"] == sound["verdicts"]
