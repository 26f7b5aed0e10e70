"""A bank evolves on what another trainer played."""

from dataclasses import replace

import pytest
from typer.testing import CliRunner

from bank_doors import TEACHER, Timid, adding, bank_config, bank_file, cast, proposing, room_skill
from doors import evaluated
from skillwright.bank import BankStore
from skillwright.cli.app import app
from skillwright.config import StudySettings
from skillwright.core import DataError, Failure, FailureCause, StopReason
from skillwright.jobs.bank import evolve_on_rollouts, study_run
from skillwright.jobs.run import NullCallback, look_at_work
from skillwright.jobs.text import EvalPlan
from skillwright.rollout import EngineDown, read_rollouts, write_rollouts

STUDY = StudySettings.model_validate(
    {"models": {"teacher": TEACHER}, "evolve": {"trigger_accuracy": 1.0}}
)


@pytest.fixture
async def played(tmp_path):
    """Episodes of train tasks as a trainer plays them; most of them are lost."""
    path, _ = await evaluated(bank_config(tmp_path), EvalPlan("train", 1), Timid())
    return [replace(one, spec=replace(one.spec, phase="train")) for one in study_run(path).episodes]


@pytest.fixture
def bank(tmp_path):
    return bank_file(tmp_path / "bank.sqlite", ["attic"])


def failed(one):
    return replace(
        one,
        reward=None,
        failure=Failure(FailureCause.ENVIRONMENT, "gone"),
        stop_reason=StopReason.FAILURE,
    )


async def test_failures_of_weak_categories_change_the_bank_and_the_log_says_why_no_gate_was_asked(
    tmp_path, bank, played
):
    files = [tmp_path / "step_000001.jsonl", tmp_path / "step_000002.jsonl"]
    write_rollouts([failed(played[0]), *played[1:6]], files[0])
    write_rollouts(played[6:], files[1])
    write_rollouts(played[6:], files[1])  # the step was stopped and taken again
    teacher = proposing(adding(room_skill("hall")))
    report = await evolve_on_rollouts(
        files, bank, STUDY, "between checkpoints", NullCallback(), cast(None, teacher)
    )
    (one,) = report.rounds
    assert (one.action, one.before, one.version) == ("without_gate", 1, 2)
    assert sum(episodes for _, episodes in one.success.values()) == len(played) - 1
    assert one.changes[0].startswith("added as t00")
    with BankStore.open(bank, read_only=True) as store:
        assert any("hall" in skill.principle for skill in store.load().active)
        assert store.log()[-1].reason.endswith("without a gate: between checkpoints")
        evidence = {key for skill in store.load().active for key in skill.provenance.episodes}
    with look_at_work(bank) as work:
        assert all(work.find_episode(key) for key in evidence)


async def test_given_again_it_without_models_and_changes_nothing(tmp_path, bank, played):
    file = tmp_path / "step_000001.jsonl"
    write_rollouts(played, file)
    teacher = proposing(adding(room_skill("hall")), adding(room_skill("hall")))
    for version in (2, 2):
        report = await evolve_on_rollouts(
            [file], bank, STUDY, "why", NullCallback(), cast(None, teacher)
        )
        assert report.rounds[0].version == version


async def test_tasks_that_decide_and_failures_alone_teach_nothing(tmp_path, bank, played):
    val = tmp_path / "val.jsonl"
    write_rollouts([replace(played[0], spec=replace(played[0].spec, phase="eval"))], val)
    with pytest.raises(DataError, match="rollouts of train tasks"):
        await evolve_on_rollouts([val], bank, STUDY, "why", NullCallback())
    lost = tmp_path / "lost.jsonl"
    write_rollouts(list(map(failed, played)), lost)
    with pytest.raises(EngineDown, match="gone"):
        await evolve_on_rollouts([lost], bank, STUDY, "why", NullCallback())


def test_rollouts_come_back_as_they_were_but_for_prompts_and_tokens(tmp_path, played):
    file = tmp_path / "deep" / "step.jsonl"
    write_rollouts([failed(played[0])], file)
    write_rollouts(played[1:], file)
    back = read_rollouts(file)
    assert [one.failure is None for one in back] == [False, *[True] * (len(played) - 1)]
    for one, other in zip(back, [failed(played[0]), *played[1:]], strict=True):
        assert (one.spec, one.reward, one.key) == (other.spec, other.reward, other.key)
        assert one.trajectory.opening == other.trajectory.opening
        said = [(turn.act.text, turn.observation) for turn in other.trajectory.turns]
        assert [(turn.act.text, turn.observation) for turn in one.trajectory.turns] == said


@pytest.mark.parametrize("text", ["", "{}\n", "no\n", '{"task": {"id": "a"}}\n'])
def test_what_is_no_file_of_rollouts_is_refused_by_its_line(tmp_path, text):
    file = tmp_path / "x.jsonl"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=r"x\.jsonl"):
        read_rollouts(file)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("x.jsonl", "say --without-gate 'why'"),
        ("x.jsonl --without-gate why --rounds 2", "ask for one round"),
        ("x.yaml --without-gate why", "with a configuration a gate decides"),
        ("x.jsonl --without-gate why", "no teacher is named"),
    ],
)
def test_the_command_says_what_it_needs(tmp_path, bank, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["bank", "evolve", "--bank", str(bank), *words.split()])
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())
