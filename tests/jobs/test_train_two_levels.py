"""Two levels: steps change the current skill, and only a release test what is released."""

import asyncio
import json
import re
from collections import Counter

import pytest

from doors import (
    ALL_RULES,
    ALL_WRONG,
    Coach,
    Notebook,
    Veteran,
    Walker,
    doors_config,
    llms,
    look,
    resumed,
    rule,
    stored_turns,
    story,
    trained,
    write_tasks,
)
from samples import heavy, once
from skillwright.cli.tables import _endings
from skillwright.core import ConfigError, ModelError, skill_hash
from skillwright.core.skill import slow_update_field
from skillwright.evaluation import RELEASE_DRAWS_FROM, Decision, Verdict
from skillwright.evaluation.gates.current import CurrentSkill
from skillwright.jobs.inspect import read_run
from skillwright.jobs.run import (
    EpisodeFinished,
    NullCallback,
    ReleaseTested,
    StageStarted,
    StepDecided,
)
from skillwright.jobs.text import open_run, restore, run_proof

ROOM_BY_ROOM = [[rule("attic")], [rule("cellar")], [rule("hall")], []]
LOFT, SHED, BARN = rule("loft", 3), rule("shed", 5), rule("barn", 1)


def rare_rooms(folder, **rooms):
    """Give the first val tasks to other rooms, so many to each; their doors are those above."""
    doors = {"loft": 3, "shed": 5, "barn": 1}
    file = write_tasks(folder / "tasks") / "val" / "items.json"
    items = json.loads(file.read_text(encoding="utf-8"))
    wanted = [room for room, count in rooms.items() for _ in range(count)]
    for item, room in zip(items, wanted, strict=False):
        item |= {"task_type": room, "room": room, "door": doors[room]}
    file.write_text(json.dumps(items), encoding="utf-8")


def config_of(folder, epochs=2, **gate):
    return doors_config(
        folder, train={"epochs": epochs}, evaluation={"gate": {"kind": "explore", **gate}}
    )


def episodes(path, phase):
    with look(path) as store:
        return store.episodes(phase=phase)


async def test_accepted_steps_change_the_current_skill_and_the_release_test_the_released_one(
    tmp_path,
):
    seen = []

    class Reader:
        def on_event(self, event):
            if isinstance(event, StageStarted) and event.stage == "release test":
                folder = tmp_path / "runs" / "doors"
                for name in ("best_skill.md", "current_skill.md"):
                    seen.append((folder / name).read_text(encoding="utf-8"))

    path, report = await trained(
        config_of(tmp_path), Walker(), Veteran(ROOM_BY_ROOM), callback=Reader()
    )
    state = report.state
    assert [step.action for step in state.steps] == [*["accept"] * 3, "skip_no_patches"]
    assert not any(step.is_best for step in state.steps)
    before, current = seen
    assert before == ""
    assert current.startswith(
        "<!-- Version 3 is current and not tested yet; version 0 is released. -->"
    )
    assert all(line in current for line in ALL_RULES.splitlines())
    assert (state.skill_version, state.best_version) == (3, 3)
    assert state.final.accepted
    assert report.best_skill == report.final_skill
    assert (path / "best_skill.md").read_text(encoding="utf-8") == report.best_skill
    assert state.release_text.startswith("Version 3 is released. Proven better: ")
    assert (
        (path / "current_skill.md")
        .read_text(encoding="utf-8")
        .startswith(f"<!-- {state.release_text} -->")
    )
    assert read_run(path).to_dict()["release"] == state.release_text
    assert state.proofs == (state.final,)
    # The one thing that was released is one candidate of three that were accepted.
    assert read_run(path).accepted == 3


async def test_a_step_meets_the_skill_that_the_steps_before_it_made(tmp_path):
    path, report = await trained(config_of(tmp_path), Walker(), Veteran(ROOM_BY_ROOM))
    with look(path) as store:
        made = [(v.version, v.parent, v.origin) for v in store.skills()]
        played = [store.load_episode(e.id) for e in store.episodes(phase="gate")]
        hashes = [skill_hash(store.skill(version)) for version in range(4)]
    assert made[1:] == [(1, 0, "step_0001"), (2, 1, "step_0002"), (3, 2, "step_0003")]
    by_step = {step: {e.skill_version for e in played if e.spec.step == step} for step in (1, 2, 3)}
    # The first decision draws the initial skill again; later ones draw their candidate alone.
    assert by_step == {1: {hashes[0], hashes[1]}, 2: {hashes[2]}, 3: {hashes[3]}}
    # No draw serves two decisions. The baseline is draw 0.
    draws = {step: min(e.spec.draw for e in played if e.spec.step == step) for step in (1, 2, 3)}
    assert draws == {1: 1, 2: 6, 3: 11}
    assert report.state.accepts == 4  # the release too


async def test_the_belief_about_the_current_skill_is_rebuilt_from_the_store(tmp_path):
    path, report = await trained(config_of(tmp_path), Walker(), Veteran(ROOM_BY_ROOM))
    seen = report.state.seen
    baseline = [e for e in episodes(path, "gate") if e.step is None]
    assert {one: total for one, (total, _) in seen[0].candidate.items()} == {
        e.task_id: e.reward for e in baseline
    }
    assert [one.accepted for one in seen[1:]] == [True] * 3
    drawn = sum(count for one in seen[1:] for _, count in (*one.candidate.values(),))
    again = sum(count for _, count in seen[1].incumbent.values())
    assert drawn + again == len(episodes(path, "gate")) - len(baseline)
    current = CurrentSkill.of(list(seen[0].candidate), seen)
    last = report.state.steps[2].verdict
    assert current.estimate == last.current
    assert f"current {last.current}" in last.reason


async def test_each_candidate_has_draws_of_its_own(tmp_path):
    plan = [[ALL_WRONG], [ALL_WRONG, "Run."], [ALL_RULES], []]
    path, report = await trained(config_of(tmp_path), Walker(), Veteran(plan))
    assert [s.action for s in report.state.steps[:3]] == ["reject", "reject", "accept"]
    played = Counter((e.skill_version, e.draw, e.task_id) for e in loaded(path, "gate"))
    assert max(played.values()) == 1
    firsts = {e.step: e.draw for e in reversed(episodes(path, "gate")) if e.step}
    assert firsts == {1: 1, 2: 6, 3: 11}


def loaded(path, phase):
    class Flat:
        def __init__(self, episode):
            self.skill_version = episode.skill_version
            self.draw, self.task_id = episode.spec.draw, episode.spec.task.id

    with look(path) as store:
        return [Flat(store.load_episode(e.id)) for e in store.episodes(phase=phase)]


async def test_the_release_test_draws_what_no_step_has_drawn_on_either_side(tmp_path):
    path, report = await trained(config_of(tmp_path), Walker(), Veteran(ROOM_BY_ROOM))
    judged, released = episodes(path, "gate"), episodes(path, "release")
    assert min(e.draw for e in released) == RELEASE_DRAWS_FROM > max(e.draw for e in judged)
    assert {e.seed for e in released}.isdisjoint(e.seed for e in judged)
    assert {e.split for e in released} == {"val"}
    assert {e.step for e in released} == {4}
    with look(path) as store:
        sides = Counter(store.load_episode(e.id).skill_version for e in released)
        hashes = {skill_hash(store.skill(version)) for version in (0, 3)}
        (verdict,) = [v for v in store.verdicts() if v.origin == "release"]
    # Initial and current skill, equally often: one draw of 24 tasks each.
    assert sides == dict.fromkeys(hashes, 24)
    assert (verdict.step, verdict.body) == (4, report.state.final.to_dict())


async def test_steps_that_prove_nothing_alone_are_proven_together(tmp_path):
    rare_rooms(tmp_path, loft=4, shed=4, barn=4)
    plan = [[LOFT], [SHED], [BARN], []]
    _, report = await trained(config_of(tmp_path), Walker(), Veteran(plan))
    assert [step.action for step in report.state.steps[:3]] == ["accept"] * 3
    assert report.state.final.accepted
    (tmp_path / "paired").mkdir()
    rare_rooms(tmp_path / "paired", loft=4, shed=4, barn=4)
    paired = doors_config(
        tmp_path / "paired", train={"epochs": 2}, evaluation={"gate": {"kind": "paired"}}
    )
    _, report = await trained(paired, Walker(), Veteran(plan))
    assert report.best_skill == ""


async def test_what_is_not_proven_leaves_the_initial_skill_released_and_says_why(tmp_path):
    rare_rooms(tmp_path, loft=4)
    notebook = Notebook()
    path, report = await trained(
        config_of(tmp_path, 1), Walker(), Coach([[LOFT], []]), skill="Be kind.\n", callback=notebook
    )
    state = report.state
    assert (state.skill_version, state.best_version) == (1, 0)
    assert report.best_skill == report.initial_skill == "Be kind.\n"
    assert (path / "best_skill.md").read_bytes() == b"Be kind.\n"
    assert LOFT in report.final_skill
    assert LOFT in (path / "current_skill.md").read_text(encoding="utf-8")
    assert state.final.decision is Decision.REJECT
    said = "Version 0 stays released; version 1 is current. "
    assert state.release_text == said + state.final.reason
    assert re.search(r"Not proven better: \d+ of 24 tasks went better", state.release_text)
    assert "more val tasks would prove a gain of this size" in state.release_text
    assert [event.verdict for event in notebook.of(ReleaseTested)] == [state.final]
    # Both are tested, each for itself.
    assert list(report.test.tables) == ["initial", "empty", "best", "final"]
    assert {e.skill_version for e in loaded(path, "test")} == {
        skill_hash(text) for text in ("Be kind.\n", "", report.final_skill)
    }
    assert state.proofs == ()


async def test_where_nothing_was_accepted_there_is_nothing_to_test(tmp_path):
    path, report = await trained(config_of(tmp_path, 1), Walker(), Coach([[ALL_WRONG], []]))
    assert report.state.final is None
    assert not episodes(path, "release")
    assert report.state.ledger.made == 0
    said = "Version 0 is current and released: nothing else was accepted."
    assert report.state.release_text == said


async def test_the_ledger_counts_release_tests_only(tmp_path):
    path, report = await trained(config_of(tmp_path), Walker(), Veteran(ROOM_BY_ROOM))
    ledger = report.state.ledger
    # A proof leaves its alpha for the next claim.
    assert (ledger.planned, ledger.made, ledger.spent) == (2, 0, 0)
    assert {step.verdict.alpha for step in report.state.steps[:3]} == {None}
    assert report.state.final.alpha == pytest.approx(0.03)
    with look(path) as store:
        assert restore(config_of(tmp_path), store) == report.state


class StopInRelease:
    """Cancels a task after so many episodes of the release test."""

    def __init__(self, count):
        self.task, self._left = None, count

    def on_event(self, event):
        is_one = isinstance(event, EpisodeFinished) and event.result.spec.phase == "release"
        self._left -= is_one or isinstance(event, ReleaseTested)
        if self._left == 0:
            self.task.cancel()


@once
async def one_small_gain(tmp_path):
    """Return the story of the run that is not killed."""
    (tmp_path / "whole").mkdir()
    rare_rooms(tmp_path / "whole", loft=4)
    path, _ = await trained(config_of(tmp_path / "whole", 1), Walker(), Coach([[LOFT], []]))
    assert len(episodes(path, "release")) == EPISODES
    return story(path)


EPISODES = 320


# The first look draws 24 tasks once on both sides; after the last one everything is judged.
@pytest.mark.parametrize(
    "count", [1, 49, EPISODES, *heavy(40, 48, 150, EPISODES - 1, EPISODES + 1)]
)
async def test_a_run_that_was_killed_in_its_release_test_decides_as_if_it_had_not_been(
    tmp_path, count
):
    whole = await one_small_gain(tmp_path)
    plan = [[LOFT], []]
    (tmp_path / "part").mkdir()
    rare_rooms(tmp_path / "part", loft=4)
    stopper = StopInRelease(count)
    stopper.task = asyncio.create_task(
        trained(config_of(tmp_path / "part", 1), Walker(), Coach(plan), callback=stopper)
    )
    with pytest.raises(asyncio.CancelledError):
        await stopper.task
    path = tmp_path / "part" / "runs" / "doors"
    known, walker, coach = stored_turns(path), Walker(), Coach(plan)
    await resumed(path, walker, coach)
    assert story(path) == whole
    assert known.isdisjoint(walker.calls)
    assert not coach.calls


async def test_a_slow_update_passes_the_same_two_levels(tmp_path):
    path, report = await trained(
        config_of(tmp_path), Walker(), Veteran([[], [], [], []], ALL_RULES)
    )
    epoch = report.state.epochs[1]
    assert (epoch.action, epoch.is_best, epoch.verdict.alpha) == ("accept", False, None)
    assert slow_update_field(report.best_skill).strip() == ALL_RULES
    with look(path) as store:
        assert {v.origin: v.body["decision"] for v in store.verdicts()} == {
            "slow_update": "accept",
            "release": "accept",
        }


async def test_what_entered_unmeasured_is_released_only_if_it_is_proven(tmp_path):
    for name, guidance in (("good", ALL_RULES), ("bad", ALL_WRONG)):
        (tmp_path / name).mkdir()
        config = doors_config(
            tmp_path / name,
            train={"epochs": 2},
            optimizer={"slow_update_samples": 5, "gate_slow_update": False},
        )
        _, report = await trained(config, Walker(), Veteran([[], [], [], []], guidance))
        assert report.state.epochs[1].action == "force_accept"
        assert slow_update_field(report.final_skill).strip() == guidance
        assert report.state.final.accepted is (name == "good")
        assert report.best_skill == (report.final_skill if name == "good" else "")


async def test_a_rewritten_skill_passes_the_same_two_levels(tmp_path):
    class Rewriter(Coach):
        def _answer(self, user):
            answer = super()._answer(user)
            if "patch" not in answer:
                return answer
            skills = [{"new_skill": e["content"]} for e in answer["patch"]["edits"]]
            return {"patch": {"skill_candidates": skills}}

    config = doors_config(
        tmp_path,
        optimizer={"skill_update_mode": "full_rewrite_minibatch"},
        gradient={"minibatch_size": 40, "failure_only": True},  # one analyst, so nothing to merge
    )
    _, report = await trained(config, Walker(), Rewriter([[ALL_RULES], []]), skill="Go.\n")
    assert [step.action for step in report.state.steps] == ["accept", "skip_no_patches"]
    assert report.state.final.accepted
    assert report.best_skill.strip() == ALL_RULES


async def test_too_many_harmed_tasks_are_accepted_in_a_step_and_not_released(tmp_path):
    plan = [[f"{ALL_RULES}\n{rule('loft', 1)}"], []]
    for most, released in ((0, False), (1, True)):
        (tmp_path / str(most)).mkdir()
        rare_rooms(tmp_path / str(most), loft=1)
        config = config_of(tmp_path / str(most), 1, max_worse_tasks=most)
        _, report = await trained(config, Walker(), Coach(plan), skill=f"{LOFT}\n")
        assert report.state.steps[0].action == "accept"
        assert report.state.final.accepted is released
    assert report.best_skill == report.final_skill != report.initial_skill


async def proven_again(path):
    with open_run(path) as run:
        return await run_proof(run, NullCallback(), llms(Walker(), Coach([])))


async def test_a_second_test_has_fresh_draws_and_what_is_left_of_the_alpha(tmp_path):
    rare_rooms(tmp_path, loft=4)
    path, first = await trained(config_of(tmp_path, 1), Walker(), Coach([[LOFT], []]))
    known = {(e.task_id, e.draw) for e in episodes(path, "release")}
    report = await proven_again(path)
    again = {(e.task_id, e.draw) for e in episodes(path, "release")} - known
    assert min(draw for _, draw in again) == RELEASE_DRAWS_FROM + 1_000
    assert report.state.final.alpha == pytest.approx(0.02)
    assert (report.state.ledger.made, report.state.best_version) == (2, 0)
    assert report.state.steps == first.state.steps
    with pytest.raises(ConfigError, match="its alpha is spent on its tests"):
        await proven_again(path)


async def test_a_release_test_that_lost_its_episodes_costs_no_alpha_and_can_be_made_again(tmp_path):
    class LostInRelease(Walker):
        lost = False

        def on_event(self, event):
            if isinstance(event, StageStarted):
                self.lost = event.stage == "release test"

        async def complete(self, messages, **asked):
            # One in five does not answer: too many for a verdict, too few for an outage.
            if self.lost and asked["sampling"].seed % 5 == 0:
                raise ModelError("503")
            return await super().complete(messages, **asked)

    walker = LostInRelease()
    config = config_of(tmp_path, 1).model_copy(
        update={"rollout": config_of(tmp_path).rollout.model_copy(update={"retries": 0})}
    )
    path, report = await trained(config, walker, Coach([[ALL_RULES], []]), callback=walker)
    assert report.state.final.decision is Decision.UNDECIDED
    assert (report.state.ledger.made, report.best_skill) == (0, "")
    assert "have no score on both sides, for failures of a model" in report.state.release_text
    report = await proven_again(path)
    assert report.state.final.accepted
    assert (report.state.ledger.made, report.best_skill) == (0, report.final_skill)
    with pytest.raises(ConfigError, match="what it ended with is released"):
        await proven_again(path)


async def test_only_a_run_with_a_release_test_can_prove_more(tmp_path):
    paired = doors_config(tmp_path, evaluation={"gate": {"kind": "paired"}})
    path, _ = await trained(paired, Walker(), Coach([[ALL_WRONG], []]))
    with pytest.raises(ConfigError, match="its gate proves each step"):
        await proven_again(path)
    idle, _ = await trained(config_of(tmp_path, 1), Walker(), Coach([]))
    with pytest.raises(ConfigError, match="nothing was accepted in it"):
        await proven_again(idle)


async def test_watchers_see_the_steps_and_then_the_release(tmp_path):
    notebook = Notebook()
    await trained(config_of(tmp_path), Walker(), Veteran(ROOM_BY_ROOM), callback=notebook)
    told = [e for e in notebook.events if isinstance(e, StepDecided | ReleaseTested)]
    assert [type(event) for event in told] == [StepDecided] * 4 + [ReleaseTested]
    stages = [event.stage for event in notebook.of(StageStarted)]
    assert stages.index("release test") < stages.index("test")


# Budgets.


def with_budget(folder, rollouts, epochs=40):
    return doors_config(
        folder,
        train={"epochs": epochs},
        evaluation={"gate": {"kind": "explore"}},
        budget={"rollouts": rollouts},
    )


@pytest.mark.parametrize("rollouts", [300, 420])
async def test_a_budget_of_rollouts_is_never_exceeded_and_ends_with_a_test(tmp_path, rollouts):
    config = with_budget(tmp_path, rollouts)
    plan = [*ROOM_BY_ROOM[:3], *[["Be quick."]] * 77]
    path, report = await trained(config, Walker(), Veteran(plan))
    with look(path) as store:
        counts = store.counts()
    assert counts["episodes"] + counts["failures"] <= rollouts
    assert report.state.finished
    assert report.state.last_step < 80
    assert report.state.final is not None
    assert report.test is not None
    assert not report.state.ran_out_of_patience
    assert report.state.cut_by_budget == 80
    assert any("the budget paid for" in line for line in _endings(report.state))


class StopAfter:
    """A callback that cancels a task after so many played episodes."""

    def __init__(self, count):
        self.task, self._left = None, count

    def on_event(self, event):
        self._left -= isinstance(event, EpisodeFinished)
        if not self._left:
            self.task.cancel()


async def test_with_a_budget_a_step_reads_the_rollouts_of_the_same_skill_again(tmp_path):
    coach = Veteran([[f"Count to {number}."] for number in range(9)] + [[]] * 71)
    path, report = await trained(with_budget(tmp_path, 400), Walker(), coach)
    judged = [one.step for one in report.state.steps if one.verdict]
    accepted = [one.step for one in report.state.steps if one.enters]
    with look(path) as store:
        played = {one.step for one in store.episodes(phase="train")}
    assert (judged[:9], accepted) == ([*range(1, 10)], [])
    assert {1, 2} <= played
    assert not played & {*range(3, 11)}  # two steps have played all train tasks
    assert 11 in played  # the last step led to no candidate
    asked = [user for user, _ in coach.calls if "Count to 4." in user]
    assert asked  # what failed is told where the rollouts are the same


def steady_plan():
    return Veteran([*ROOM_BY_ROOM[:3], *[["Be quick."]] * 77])


@pytest.mark.parametrize("count", [84, 132, 156])
async def test_a_run_with_a_budget_that_was_interrupted_decides_as_without(tmp_path, count):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    whole, _ = await trained(with_budget(tmp_path / "a", 200), Walker(), steady_plan())
    stop = StopAfter(count)
    config = with_budget(tmp_path / "b", 200)
    stop.task = asyncio.create_task(trained(config, Walker(), steady_plan(), callback=stop))
    with pytest.raises(asyncio.CancelledError):
        await stop.task
    path = tmp_path / "b" / "runs" / "doors"
    await resumed(path, Walker(), steady_plan())
    assert story(path) == story(whole)


async def test_after_a_proof_between_two_epochs_training_continues(tmp_path, monkeypatch):
    plan = "skillwright.evaluation.gates.plan.is_time_to_test"
    monkeypatch.setattr(plan, lambda known, spending, *, is_last: True)
    told = Veteran([[], [ALL_RULES], [], []])
    _, report = await trained(with_budget(tmp_path, 300, epochs=2), Walker(), told)
    assert report.state.steps[1].accepted
    assert report.state.final.accepted
    assert (report.state.tested, report.state.last_step) == ((1,), 4)


def played(path):
    with look(path) as store:
        counts = store.counts()
    return counts["episodes"] + counts["failures"]


async def test_a_run_that_its_budget_cut_short_continues_under_with_a_larger_one(tmp_path):
    path, first = await trained(with_budget(tmp_path, 200), Walker(), steady_plan())
    assert first.state.cut_by_budget
    assert any("`skillwright resume` with a larger one" in line for line in _endings(first.state))
    same = await resumed(path, Walker(), Veteran([]))
    assert (same.state.last_step, played(path)) == (first.state.last_step, played(path))
    more = await resumed(path, Walker(), steady_plan(), "budget.rollouts=400")
    assert more.state.last_step > first.state.last_step
    assert more.state.steps[: first.state.last_step] == first.state.steps
    assert 200 < played(path) <= 400
    assert more.state.finished
    assert more.test is not None
    again = await resumed(path, Walker(), Veteran([]), "budget.rollouts=300")
    assert again.state.last_step == more.state.last_step  # a smaller budget is no reason


async def test_a_step_that_the_budget_cannot_judge_is_judged_by_a_run_with_a_larger_one(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    path, report = await trained(with_budget(tmp_path / "a", 100), Walker(), steady_plan())
    assert report.state.steps == ()
    assert played(path) <= 100
    await resumed(path, Walker(), steady_plan(), "budget.rollouts=200")
    whole, _ = await trained(with_budget(tmp_path / "b", 200), Walker(), steady_plan())
    with look(path) as there, look(whole) as here:
        steps = [[one.payload for one in store.events("step")] for store in (there, here)]
    assert steps[0] == steps[1]


async def test_a_second_test_keeps_that_the_budget_had_cut_the_run(tmp_path, monkeypatch):
    async def lost(self, duel, ledger, terms):
        return Verdict(Decision.UNDECIDED, "Undecided: the endpoint was down.")

    with monkeypatch.context() as patched:
        patched.setattr("skillwright.evaluation.gates.release.ReleaseTest.judge", lost)
        path, first = await trained(with_budget(tmp_path, 200), Walker(), steady_plan())
    assert (first.state.cut_by_budget, first.state.final.decision) == (80, Decision.UNDECIDED)
    again = await proven_again(path)
    assert again.state.final.decision is not Decision.UNDECIDED
    assert (again.state.cut_by_budget, again.state.cut_under) == (80, first.state.cut_under)
