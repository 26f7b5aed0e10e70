"""Evolving a bank where proof is left to the end: in memory first, and in the file once."""

import json

import pytest

from bank_doors import Timid, adding, bank_config, bank_file, cast, proposing, room_skill
from bank_houses import Replies
from doors import Notebook, write_tasks
from skillwright.bank import Add, Bank, BankStore, apply, save_bank
from skillwright.evaluation import RELEASE_DRAWS_FROM, Decision
from skillwright.jobs.bank import approve_by_gate, evolve_bank, import_into
from skillwright.jobs.run import EpisodeFinished, NullCallback, StageStarted, look_at_work

EVOLVE = {"nth": 2, "trigger_accuracy": 1.0}
BOTH = (adding(room_skill("hall")), adding(room_skill("cellar")))
LOFT = room_skill("loft", 3)


@pytest.fixture
def bank(tmp_path):
    return tmp_path / "bank.sqlite"


def config_of(folder, **evaluation):
    return bank_config(folder, evolve=EVOLVE, evaluation=evaluation)


def with_a_loft(folder):
    """Give half of the train tasks and two of the val tasks to a loft, whose door is the third."""
    written = write_tasks(folder / "tasks")
    for split, count in (("train", 6), ("val", 2)):
        file = written / split / "items.json"
        items = json.loads(file.read_text(encoding="utf-8"))
        for item in items[:count]:
            item |= {"task_type": "loft", "room": "loft", "door": 3}
        file.write_text(json.dumps(items), encoding="utf-8")
    return folder


def kept(bank):
    """Return what a bank's file holds: its skills, its log, and what they were worth."""
    with BankStore.open(bank, read_only=True) as store:
        now = store.load()
        log = [
            (str(one.event), one.before, one.version, one.step, one.reason) for one in store.log()
        ]
        return [skill.text for skill in now.active], log, store.totals()


def verdicts(bank):
    with BankStore.open(bank, read_only=True) as store:
        return [entry.verdict for entry in store.log()]


class Nobody(Replies):
    """A teacher that has answered everything already."""

    def __init__(self):
        def refuse(messages):
            raise AssertionError("nobody is to be asked again")

        super().__init__(refuse)


async def test_rounds_build_on_one_another_and_the_file_changes_once(tmp_path, bank):
    bank_file(bank, ["attic"])
    at_the_test = []

    class Reader:
        def on_event(self, event):
            if isinstance(event, StageStarted) and event.stage == "release test":
                at_the_test.append(kept(bank))

    teacher = proposing(*BOTH)
    report = await evolve_bank(config_of(tmp_path), bank, 2, Reader(), cast(Timid(), teacher))
    assert [one.action for one in report.rounds] == ["accept", "accept"]
    first, second = report.rounds
    # The second round was played with what the first one had let in.
    assert first.success["hall"][0] == 0
    assert second.success["hall"] == (2, 2)
    assert "added as" in teacher.asked[-1][1]["content"]
    ((texts, log, _),) = at_the_test
    assert (len(texts), log) == (1, kept(bank)[1][:1])
    texts, log, totals = kept(bank)
    assert [text.partition(".")[0] for text in texts] == [
        f"Door of the {room}" for room in ("attic", "hall", "cellar")
    ]
    assert log[1:] == [("changed", 1, 2, 2, "evolved in rounds 1, 2")]
    assert report.release.accepted
    assert verdicts(bank)[1] == report.release.to_dict()
    assert {one.verdict.alpha for one in report.rounds} == {None}
    assert report.release.alpha == pytest.approx(0.02187, abs=1e-5)
    # What the second round let in was not played on the evolution split any more.
    assert set(totals) == {"t001", "t002"}
    assert report.to_dict()["release"] == report.release.to_dict()


async def test_a_round_after_the_last_change_names_a_version_that_the_bank_has(tmp_path, bank):
    bank_file(bank, ["attic"])
    report = await evolve_bank(
        config_of(tmp_path), bank, 3, NullCallback(), cast(Timid(), proposing(*BOTH))
    )
    assert [(one.before, one.version) for one in report.rounds] == [(1, 2), (2, 2), (2, 2)]


async def test_the_release_draws_what_no_round_has_drawn(tmp_path, bank):
    bank_file(bank, ["attic"])
    await evolve_bank(config_of(tmp_path), bank, 2, NullCallback(), cast(Timid(), proposing(*BOTH)))
    with look_at_work(bank) as store:
        judged, released = store.episodes(phase="gate"), store.episodes(phase="release")
    told = {e.skill_ids for e in released}
    assert told == {("t001",), (), ("t002",), ("t003",)}
    # Attic tasks are told the same on both sides: one episode is both, and the first draw serves.
    by_room = {room: {e.draw for e in released if e.task_type == room} for room in
               ("attic", "hall", "cellar")}  # fmt: skip
    assert min(by_room["hall"] | by_room["cellar"]) >= RELEASE_DRAWS_FROM
    assert max(e.draw for e in judged) < RELEASE_DRAWS_FROM
    shared = {(e.task_id, e.draw) for e in released} & {(e.task_id, e.draw) for e in judged}
    assert {name for name, _ in shared} <= {e.task_id for e in judged if e.task_type == "attic"}


async def test_what_is_not_proven_leaves_the_bank_as_it_was_and_says_why(tmp_path, bank):
    with_a_loft(tmp_path)
    bank_file(bank)
    before = kept(bank)[0]
    report = await evolve_bank(
        config_of(tmp_path), bank, 1, NullCallback(), cast(Timid(), proposing(adding(LOFT)))
    )
    (one,) = report.rounds
    assert one.verdict.accepted
    assert (one.before, one.version) == (1, 1)
    assert report.release.decision is Decision.REJECT
    assert "Not proven better: 2 of 24 tasks went better and 0 worse" in report.release.reason
    texts, log, totals = kept(bank)
    assert texts == before
    assert log[1:] == [("rejected", 1, 1, 1, report.release.reason)]
    assert verdicts(bank)[1] == report.release.to_dict()
    assert set(totals) <= {"t001", "t002", "t003"}


async def test_a_later_teacher_is_told_what_became_of_it(tmp_path, bank):
    with_a_loft(tmp_path)
    bank_file(bank)
    for number in (1, 2):
        teacher = proposing(adding(LOFT))
        report = await evolve_bank(
            config_of(tmp_path), bank, 1, NullCallback(), cast(Timid(), teacher)
        )
        assert [one.number for one in report.rounds] == [number]
    told = teacher.asked[-1][1]["content"]
    assert "- not proven: add [new] task_specific, category loft: Door of the loft" in told
    assert "added as" not in told


async def test_a_round_that_is_rejected_is_none_of_what_is_tested(tmp_path, bank):
    bank_file(bank, ["attic"])
    harmful = adding(room_skill("attic", 9))
    teacher = proposing(harmful, adding(room_skill("hall")))
    report = await evolve_bank(config_of(tmp_path), bank, 2, NullCallback(), cast(Timid(), teacher))
    assert [one.action for one in report.rounds] == ["reject", "accept"]
    _, log, _ = kept(bank)
    assert [(event, step) for event, _, _, step, _ in log[1:]] == [("changed", 2), ("rejected", 1)]
    assert log[1][-1] == "evolved in round 2"


async def test_where_nothing_was_accepted_there_is_no_release_test(tmp_path, bank):
    bank_file(bank, ["attic"])
    seen = Notebook()
    teacher = proposing(adding(room_skill("hall", 9)))
    report = await evolve_bank(config_of(tmp_path), bank, 1, seen, cast(Timid(), teacher))
    assert (report.rounds[0].action, report.release) == ("reject", None)
    assert "release test" not in [event.stage for event in seen.of(StageStarted)]
    with look_at_work(bank) as store:
        assert not store.episodes(phase="release")


class Stop(BaseException):
    """The process ends here."""


class StopAt:
    """Ends the process at the n-th event that a condition holds for."""

    def __init__(self, condition, count=1):
        self._condition, self._left = condition, count

    def on_event(self, event):
        self._left -= bool(self._condition(event))
        if self._left == 0:
            raise Stop


def second_round(event):
    return isinstance(event, StageStarted) and (event.stage, event.step) == ("evolve", 2)


def judged(phase):
    return lambda event: isinstance(event, EpisodeFinished) and event.result.spec.phase == phase


MOMENTS = {
    "in the first gate": (judged("gate"), 9),
    "before the second question": (second_round, 1),
    "in the second gate": (judged("gate"), 60),
    "as the release test begins": (judged("release"), 1),
    "in the release test": (judged("release"), 50),
}


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_command_that_was_stopped_is_given_again_and_ends_the_same(tmp_path, moment):
    ends = []
    for name in ("whole", "part"):
        folder = tmp_path / name
        folder.mkdir()
        file = bank_file(folder / "bank.sqlite", ["attic"])
        config, teacher, walker = config_of(folder), proposing(*BOTH), Timid()
        if name == "part":
            with pytest.raises(Stop):
                await evolve_bank(config, file, 2, StopAt(*MOMENTS[moment]), cast(walker, teacher))
            assert len(kept(file)[1]) == 1  # nothing is written down before the end
        report = await evolve_bank(config, file, 2, NullCallback(), cast(walker, teacher))
        # Only calls in flight when the process ended are made again.
        in_flight = config.rollout.max_concurrent if name == "part" else 0
        assert len(walker.calls) - len(set(walker.calls)) <= in_flight
        ends.append((kept(file), len(teacher.asked), [one.to_dict() for one in report.rounds],
                     report.release))  # fmt: skip
    assert ends[0] == ends[1]


async def test_a_command_that_is_given_again_after_its_end_begins_new_rounds(tmp_path, bank):
    bank_file(bank, ["attic"])
    config = config_of(tmp_path)
    await evolve_bank(config, bank, 2, NullCallback(), cast(Timid(), proposing(*BOTH)))
    report = await evolve_bank(config, bank, 1, NullCallback(), cast(Timid(), Nobody()))
    assert [(one.number, one.action) for one in report.rounds] == [(3, "none_weak")]
    assert report.release is None


async def approved(folder, bank, *skills):
    source, _ = apply(Bank(), [Add(one) for one in skills])
    save_bank(source, folder / "theirs.json")
    import_into(bank, str(folder / "theirs.json"))
    return await approve_by_gate(config_of(folder), bank, [], NullCallback(), cast(Timid()))


async def test_what_is_admitted_is_released_at_once_so_it_must_be_proven(tmp_path, bank):
    with_a_loft(tmp_path)
    bank_file(bank, ["attic"])
    refused = await approved(tmp_path, bank, LOFT)
    assert refused.refused
    assert "Not proven better: 2 of 24 tasks went better" in refused.verdict.reason
    with look_at_work(bank) as store:
        drawn = [e for e in store.episodes() if e.task_type == "loft" and e.split == "val"]
    assert {e.phase for e in drawn} == {"release"}
    assert min(e.draw for e in drawn) >= RELEASE_DRAWS_FROM
    assert not (await approved(tmp_path, bank, room_skill("hall"))).refused
