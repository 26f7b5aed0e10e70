"""Sessions become skills where later sessions prove them, and nothing else is learned or stored."""

import asyncio
import json
import shutil

import pytest

from session_adoption import CONFIG, NAME
from session_canaries import everything_written, leaked, plant
from session_logs import Talk, ordinary
from skillwright.bank import BankStore, document_folder, read_agent_skills, write_agent_skills
from skillwright.core import ConfigError, DataError, ModelRefused, SkillStatus
from skillwright.jobs.bank import Stager
from skillwright.jobs.inspect import ExportOptions, verify_skills
from skillwright.jobs.run import NullCallback
from skillwright.models import make_model
from skillwright.models.scripted.prompts import episode_texts
from skillwright.models.scripted.teacher import Teaching, whole
from skillwright.plugins.sessions.coder import CoderTeacher, ScriptedCoder
from skillwright.plugins.sessions.learn import (
    begin_round,
    learn_from_sessions,
    plan_round,
    report_of,
    roll_back_sessions,
    session_config,
    settle,
)
from skillwright.plugins.sessions.logs import read_sessions


def learn(folder, logs, teacher=None, *, agent=None, describes=False):
    """Give the command, with a teacher and an agent of the test's own."""
    bank = folder / "sessions.sqlite"
    config = folder / "models.yaml"
    described = CONFIG.replace(
        "scripted, model: coder_teacher", "openai_chat, model: coder_teacher"
    )
    config.write_text(described if describes else CONFIG, encoding="utf-8")
    found = read_sessions([logs])
    settle(bank)
    plan = plan_round(found, bank)
    chosen = session_config(config, bank, plan, None, [])
    why_not = plan.why_not or begin_round(plan, chosen, bank)
    if why_not:
        return report_of(found, plan, why_not)

    def make(llm, client):
        own = {"coder_teacher": teacher, "coder": agent}.get(getattr(llm, "model", ""))
        return make_model(llm, client) if own is None else own

    options = ExportOptions(folder / "skills", NAME, asks_model=describes, make=make)
    return asyncio.run(
        learn_from_sessions(found, plan, chosen, bank, options, NullCallback(), make)
    )


def files(folder):
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def skills_of(folder):
    with BankStore.open(folder / "sessions.sqlite", read_only=True) as store:
        return store.load().skills


class Gullible(CoderTeacher):
    """Writes down whatever it reads, beside what users corrected."""

    identity = "scripted:gullible"

    def general(self, asked):
        shown = {**episode_texts(asked.text, "success"), **episode_texts(asked.text, "failure")}
        lines = {
            line.strip(): name
            for name, text in shown.items()
            for line in text.splitlines()
            if line.strip()
        }
        copied = [
            Teaching("", "", f"Copied {at}", (line[:400],), "always", "", "", "").principle(
                [{"id": name, "turns": []}]
            )
            for at, (line, name) in enumerate(lines.items())
        ]
        return [*(super().general(asked) or ()), *copied][:12]


class Contrary(CoderTeacher):
    """Teaches the opposite of what users want."""

    identity = "scripted:contrary"

    def general(self, asked):
        wrong = Teaching("", "", "Use npm", ("Use npm, not git.",), "always", "a", "b", "c")
        shown = {**episode_texts(asked.text, "success"), **episode_texts(asked.text, "failure")}
        return [wrong.principle(whole(shown))]

    def failures(self, asked):
        return [
            {
                **self.general(asked)[0],
                "failure_point": "a",
                "flawed_reasoning": "b",
                "corrective_action": "c",
            }
        ]

    def successes(self, asked, rng):
        return self.general(asked)


@pytest.fixture(scope="module")
def adopted(tmp_path_factory):
    """A folder where the ordinary sessions were learned from."""
    folder = tmp_path_factory.mktemp("adopted")
    ordinary(folder / "logs")
    return folder, learn(folder, folder / "logs")


@pytest.fixture
def copied(adopted, tmp_path):
    """Logs and nothing else, or a place for them."""
    shutil.copytree(adopted[0] / "logs", tmp_path / "logs")
    return tmp_path


def test_what_later_sessions_prove_is_adopted_and_staged(adopted):
    folder, report = adopted
    assert report.verdict.accepted, report.because
    assert report.tasks == {"train": 9, "val": 9, "test": 2}
    assert {one.status for one in skills_of(folder)} == {SkillStatus.ACTIVE}
    staged = {one.principle for one in read_agent_skills(folder / "skills" / NAME)}
    assert {"Use pnpm, not npm.", "Use ruff, not flake8."} <= staged
    assert "coding tasks" in report.staged.description


def test_what_is_staged_carries_its_proof(adopted):
    folder, report = adopted
    assert report.staged.facts["proven"] == "yes"
    (found,) = asyncio.run(verify_skills(folder / "skills" / NAME))
    assert {check.name: check.outcome for check in found.checks}["evidence"] == "pass"
    assert found.holds


def test_no_request_that_decides_was_read_by_the_teacher(adopted):
    folder, _ = adopted
    plan = plan_round(read_sessions([folder / "logs"]), folder / "nothing.sqlite")
    split = {row["id"].rsplit("-", 1)[0]: row["split"] for row in plan.rows}
    started = {one.id: one.started for one in read_sessions([folder / "logs"]).sessions}
    latest = max(started[one] for one, name in split.items() if name == "train")
    assert all(started[one] > latest for one, name in split.items() if name != "train")


@pytest.mark.parametrize(
    "teacher",
    [
        pytest.param(None, id="careful"),
        pytest.param(Gullible(), id="gullible", marks=pytest.mark.heavy),
    ],
)
def test_no_canary_and_no_secret_is_learned_or_stored(teacher, tmp_path):
    plant(tmp_path / "all")
    logs = tmp_path / "all" / "logs"
    assert len(leaked(everything_written(logs))) == 60, "all of them are in the logs"
    own = tmp_path / "own"
    own.mkdir()
    report = learn(own, logs, teacher)
    assert report.verdict is not None, report.because
    assert leaked(everything_written(own)) == []
    if teacher is None:
        assert report.verdict.accepted
        assert (own / "skills" / NAME / "SKILL.md").is_file()


def test_what_makes_later_requests_go_worse_stays_pending(copied):
    report = learn(copied, copied / "logs", Contrary())
    assert not report.verdict.accepted
    assert report.because.startswith("Not proven better")
    assert {one.status for one in skills_of(copied)} == {SkillStatus.PENDING}
    assert not (copied / "skills").exists()


def test_a_session_decides_once(adopted, copied):
    for path in ("sessions.sqlite", "sessions.work"):
        source = adopted[0] / path
        (shutil.copytree if source.is_dir() else shutil.copy2)(source, copied / path)
    again = plan_round(read_sessions([copied / "logs"]), copied / "sessions.sqlite")
    assert again.why_not
    assert not again.size("val") or again.why_not.startswith("too few")
    first = plan_round(read_sessions([copied / "logs"]), copied / "nothing.sqlite").round
    for day in (20, 21, 22, 23):
        talk = Talk(f"2026-11-{day}T09:00:00+00:00", name=f"new-{day}")
        for what in ("baskets", "prices"):
            talk.user(f"Test the {what} of day {day}").ran("npm test", 1).user("Use pnpm, not npm.")
        talk.claude(copied / "logs")
    second = plan_round(read_sessions([copied / "logs"]), copied / "sessions.sqlite").round
    assert second.number == 2
    assert not set(second.val) & {*first.val, *first.train}
    assert set(first.val) <= set(second.train)


def test_without_a_check_nothing_is_asked_and_it_is_said_why(tmp_path):
    Talk("2026-11-02T09:00:00+00:00").user("Mend the cart").user("And the shop").claude(tmp_path)
    report = learn(tmp_path, tmp_path / "claude")
    assert "no request has a check" in report.because
    assert report.distilled is None
    assert not (tmp_path / "sessions.sqlite").exists()


def test_too_few_later_requests_prove_nothing_and_no_teacher_is_asked(tmp_path):
    for talk in ordinary(tmp_path / "unused")[:6]:
        talk.claude(tmp_path / "logs")
    shutil.rmtree(tmp_path / "unused")
    few = sorted((tmp_path / "logs" / "claude").iterdir())
    few[4].unlink()
    report = learn(tmp_path, tmp_path / "logs")
    assert "no proposal could pass" in report.because
    assert report.distilled is None


def test_a_configuration_with_an_environment_is_refused(copied):
    config = copied / "own.yaml"
    config.write_text(f"env: {{name: alfworld}}\n{CONFIG}", encoding="utf-8")
    bank = copied / "sessions.sqlite"
    plan = plan_round(read_sessions([copied / "logs"]), bank)
    with pytest.raises(ConfigError, match="names an environment"):
        session_config(config, bank, plan, None, [])


# Back again.


def test_a_rollback_brings_every_byte_back_and_refuses_what_was_changed_by_hand(copied):
    old = document_folder("# Old\n\nBe brief.\n", NAME, "An old skill.")
    target = write_agent_skills(old, copied / "skills")
    (target / "notes.bin").write_bytes(b"\xff mine\r\n")
    before = files(copied / "skills")
    bank = copied / "sessions.sqlite"
    assert learn(copied, copied / "logs").verdict.accepted
    after = files(copied / "skills")
    assert after.keys() > before.keys()
    assert after["learned-from-sessions/SKILL.md"] != before["learned-from-sessions/SKILL.md"]

    (target / "SKILL.md").write_bytes(after["learned-from-sessions/SKILL.md"] + b"\nMine.\n")
    with pytest.raises(DataError, match="changed by hand"):
        roll_back_sessions(bank, "a test")
    assert (target / "SKILL.md").read_bytes().endswith(b"Mine.\n")
    (target / "SKILL.md").write_bytes(after["learned-from-sessions/SKILL.md"])

    assert roll_back_sessions(bank, "a test").takes_back == 1
    assert files(copied / "skills") == before
    assert not [one for one in skills_of(copied) if one.status is SkillStatus.ACTIVE]
    with pytest.raises(DataError, match="nothing that was adopted is in effect"):
        roll_back_sessions(bank, "once more")
    assert files(copied / "skills") == before


# What an interrupted command had done is not done again.


class Gone(ScriptedCoder):
    """An agent whose endpoint refuses."""

    def reply(self, messages, seed):
        raise ModelRefused("the endpoint is gone")


class Silent(CoderTeacher):
    """A teacher that may not be asked."""

    def reply(self, messages, seed):
        raise AssertionError("the teacher was asked again")


def test_after_an_end_before_the_test_the_teacher_is_not_asked_again(adopted, copied):
    with pytest.raises(ModelRefused):
        learn(copied, copied / "logs", agent=Gone())
    assert not (copied / "skills").exists()
    report = learn(copied, copied / "logs", Silent())
    assert report.verdict.accepted
    assert files(copied / "skills") == files(adopted[0] / "skills")


class Describer(CoderTeacher):
    """Writes another description each time that it is asked."""

    asked = 0

    def reply(self, messages, seed):
        if "## Prompts" not in messages[-1]["content"]:
            return super().reply(messages, seed)
        self.asked += 1
        text = f"How the cart project is built and tested, wording {self.asked}. Use for its code."
        return json.dumps({"description": text})


def test_a_description_is_asked_for_once(copied, monkeypatch):
    teacher = Describer()

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Stager, "write", killed)
        with pytest.raises(KeyboardInterrupt):
            learn(copied, copied / "logs", teacher, describes=True)
    report = learn(copied, copied / "logs", teacher, describes=True)
    assert "wording 1." in report.staged.description
    assert teacher.asked == 1
