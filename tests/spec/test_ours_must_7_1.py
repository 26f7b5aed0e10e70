"""Correctness and statistics: what the original gets wrong, row by row, and ours must not."""

import difflib
import json
import re

import pytest
from spec_worlds import STRICT, CutAt, Elder, PowerCut, SetDuel, change_item, two_epochs, world

from doors import (
    ALL_RULES,
    ALL_WRONG,
    Coach,
    Walker,
    doors_config,
    look,
    resumed,
    rule,
    stored_turns,
    story,
    trained,
)
from fakes import ScriptedReplies, make_episode
from skillwright.core import ModelError, Task, skill_hash
from skillwright.datasets import SplitDataLoader
from skillwright.evaluation import AlphaLedger, Decision, PairedGate, StrictGate
from skillwright.rollout import EngineDown
from skillwright.textopt import (
    Comparison,
    FailureNote,
    Optimizer,
    PairPolicy,
    StepContext,
    StepSettings,
    failure_patterns,
    plan_minibatches,
    read_episodes,
    reflect,
)

IDLE = [[], [], [], []]
LUCK = [(0.0, 1.0)] * 9 + [(1.0, 0.0)] * 8 + [(1.0, 1.0)] * 7  # one task better in 24


async def judged(gate, rewards):
    return await gate.judge(SetDuel(rewards), AlphaLedger(0.05, planned=1))


def gate_draws(path, step):
    with look(path) as store:
        return {e.draw for e in store.episodes(phase="gate") if e.step == step}


async def test_7_1_01_a_gain_that_luck_explains_is_rejected():
    assert (await judged(StrictGate(), LUCK)).accepted  # what the original would have taken
    verdict = await judged(PairedGate(), LUCK)
    assert verdict.decision is Decision.REJECT
    assert verdict.p_value > 0.05


async def test_7_1_01_a_margin_is_an_option():
    assert not (await judged(StrictGate(margin=0.05), LUCK)).accepted


async def test_7_1_01_repeats_are_an_option(tmp_path):
    config = doors_config(tmp_path, evaluation={"gate": {"kind": "paired", "draws": 3}})
    path, _ = await trained(config, Walker(), Coach([[ALL_RULES], []]))
    assert gate_draws(path, step=1) == {0, 1, 2}


async def test_7_1_01_an_accepted_skill_does_not_keep_the_luck_it_was_accepted_with(tmp_path):
    plan = [[rule("attic"), rule("hall")], ["Be quick."]]
    path, report = await trained(doors_config(tmp_path), Walker(), Coach(plan))
    first, second = (step.verdict for step in report.state.steps)
    assert first.accepted
    scores = [total for total, _ in first.seen.candidate.values()]
    assert second.incumbent_score < sum(scores) / len(scores)  # it was drawn at its best
    assert gate_draws(path, step=1).isdisjoint(gate_draws(path, step=2))


def broken_at(*numbers, error="503"):
    def on_call(number):
        if number in numbers:
            raise ModelError(error)

    return on_call


async def test_7_1_02_a_fault_is_flagged_and_excluded_from_scores(tmp_path):
    config = doors_config(tmp_path, env=world(tmp_path, "Jammed"), rollout={"retries": 0})
    change_item(tmp_path / "tasks" / "val", 3, jams=True)
    path, report = await trained(config, Walker(), Coach([]), skill=ALL_RULES)
    score = report.state.baseline.overall
    assert (score.failures, score.episodes, score.success_rate) == (1, 23, 1.0)
    with look(path) as store:
        (failed,) = [episode for episode in store.episodes() if episode.failure]
    assert (failed.task_id, failed.reward) == ("val-03", None)
    assert failed.failure.message.endswith("it jams")


async def test_7_1_02_a_fault_is_retried_in_a_fresh_environment(tmp_path):
    config = doors_config(tmp_path, rollout={"retries": 1, "max_concurrent": 1})
    path, report = await trained(config, Walker(broken_at(3)), Coach([]), skill=ALL_RULES)
    assert report.state.baseline.overall.failures == 0
    with look(path) as store:
        assert sorted({episode.attempts for episode in store.episodes()}) == [1, 2]


async def test_7_1_02_a_failed_episode_is_played_again_on_resume(tmp_path):
    config = doors_config(tmp_path, rollout={"retries": 0, "max_concurrent": 1})

    def on_call(number):
        broken_at(3)(number)
        if number == 9:
            raise PowerCut

    with pytest.raises(PowerCut):
        await trained(config, Walker(on_call), Coach([]), skill=ALL_RULES)
    path = tmp_path / "runs" / "doors"
    report = await resumed(path, Walker(), Coach([]))
    assert report.state.baseline.overall.failures == 0
    with look(path) as store:
        episodes = store.episodes()
    failed = {episode.key for episode in episodes if episode.failure}
    assert len(failed) == 1
    assert failed <= {episode.key for episode in episodes if episode.reward is not None}


async def test_7_1_02_too_many_faults_stop_the_run_and_too_many_lost_pairs_the_decision(tmp_path):
    with pytest.raises(EngineDown, match=r"the last 20 episodes all failed.*503"):
        await trained(doors_config(tmp_path), Walker(broken_at(*range(9, 999))), Coach([]))
    verdict = await judged(PairedGate(), [(None, 1.0)] * 3 + [(0.0, 1.0)] * 21)
    assert verdict.decision is Decision.UNDECIDED
    assert verdict.lost == 3


async def test_7_1_03_a_slow_update_is_measured_by_default(tmp_path):
    path, report = await trained(two_epochs(tmp_path), Walker(), Elder(IDLE, ALL_WRONG))
    assert [epoch.action for epoch in report.state.epochs] == ["", "reject"]
    assert report.best_skill == ""
    with look(path) as store:
        (verdict,) = store.verdicts()
        played = [e for e in store.episodes(phase="gate") if e.step is not None]
    assert verdict.origin == "slow_update"
    assert verdict.body["rollouts"] == len(played) > 0
    assert verdict.body["interval"][1] < 0  # it is harm beyond doubt


async def test_7_1_03_a_later_candidate_meets_the_measured_soft_score_of_a_slow_update(tmp_path):
    gate = {"kind": "strict", "metric": "soft"}
    config = two_epochs(tmp_path, 3, env=world(tmp_path, "Ajar"), evaluation={"gate": gate})
    plan = [[], [], [], [], ["Be quick."], []]
    _, report = await trained(config, Walker(), Elder(plan, ALL_RULES))
    assert report.state.epochs[1].accepted
    (verdict,) = [step.verdict for step in report.state.steps if step.verdict]
    assert (verdict.incumbent_score, verdict.accepted) == (1.0, False)


async def test_7_1_04_a_score_of_zero_is_a_score_and_a_finished_run_resumes_as_a_no_op(tmp_path):
    config = doors_config(tmp_path)
    path, report = await trained(config, Walker(), Coach([[], []]), skill=ALL_WRONG)
    assert report.state.baseline.overall.success_rate == 0.0
    before, bytes_before = story(path), (path / "run.sqlite").read_bytes()
    target, coach = Walker(), Coach([])
    assert await resumed(path, target, coach) == report
    assert (target.calls, coach.calls) == ([], [])
    assert story(path) == before
    assert (path / "run.sqlite").read_bytes() == bytes_before


async def test_7_1_04_a_baseline_of_zero_is_not_measured_again(tmp_path):
    with pytest.raises(PowerCut):
        await trained(
            doors_config(tmp_path), Walker(), CutAt([], "## Trajectories"), skill=ALL_WRONG
        )
    path, target = tmp_path / "runs" / "doors", Walker()
    known = stored_turns(path)
    await resumed(path, target, Coach([]))
    assert known.isdisjoint(target.calls)
    with look(path) as store:
        assert len(store.events("baseline")) == 1


def budgets(coach):
    """Return the budgets that analysts were told, in the order of the steps."""
    told = [user for user, _ in coach.calls if "## Trajectories" in user]
    found = [re.search(r"Propose at most (\d+) edits", user)[1] for user in told]
    return [int(number) for number in dict.fromkeys(found)]


LINEAR = {"learning_rate": 8, "min_learning_rate": 2, "lr_scheduler": "linear"}


async def test_7_1_05_the_budget_belongs_to_the_step_after_a_skip_and_after_a_resume(tmp_path):
    whole = Elder([[], ["Be quick."]])
    await trained(doors_config(tmp_path, optimizer=LINEAR), Walker(), whole)
    assert budgets(whole) == [5, 2]  # 8 and 2, half way and at the end
    config = doors_config(tmp_path, run={"name": "cut"}, optimizer=LINEAR)
    with pytest.raises(PowerCut):
        await trained(config, Walker(), CutAt([[], []], "Step 1:"))
    rest = Elder([[], ["Be quick."]])
    await resumed(tmp_path / "runs" / "cut", Walker(), rest)
    assert budgets(rest) == [2]


async def test_7_1_05_what_earlier_steps_tried_outlives_a_resume(tmp_path):
    plan = [[ALL_WRONG], []]
    with pytest.raises(PowerCut):
        await trained(doors_config(tmp_path), Walker(), CutAt(plan, "Step 1:"))
    coach = Elder(plan)
    await resumed(tmp_path / "runs" / "doors", Walker(), coach)
    (told, *_) = coach.asked("## Trajectories")
    assert "Step 1: reject" in told
    assert " ".join(ALL_WRONG.split()) in told


async def test_7_1_05_what_a_look_back_played_and_noted_outlives_a_resume(tmp_path):
    config = two_epochs(tmp_path, 3)
    with pytest.raises(PowerCut):
        await trained(config, Walker(), CutAt([], "Step 4:", notes="Doors are numbers."))
    path, target, coach = tmp_path / "runs" / "doors", Walker(), Elder([])
    with look(path) as store:
        assert len(store.episodes(phase="slow_update")) == 5  # one skill: its pairs are shared
    known = stored_turns(path)
    await resumed(path, target, coach)
    assert known.isdisjoint(target.calls)
    assert all("Doors are numbers." in user for user in coach.asked("## Trajectories"))


async def test_7_1_06_versions_are_append_only_with_parent_hash_and_diff(tmp_path):
    plan = [[rule("attic"), rule("hall")], [], [], []]
    config = two_epochs(tmp_path, evaluation=STRICT)
    path, report = await trained(config, Walker(), Elder(plan, rule("cellar")))
    assert report.state.epochs[1].accepted
    with look(path) as store:
        versions = store.skills()
        texts = [store.skill(version.version) for version in versions]
    assert [(v.parent, v.origin) for v in versions] == [
        (None, "initial_skill"),
        (0, "step_0001"),
        (1, "slow_update_epoch_02"),
    ]
    assert [version.hash for version in versions] == [skill_hash(text) for text in texts]
    diff = list(difflib.unified_diff(texts[1].splitlines(), texts[2].splitlines(), lineterm=""))
    assert "+" + rule("cellar") in diff
    assert not [line for line in diff if line.startswith("-") and not line.startswith("---")]
    for version, text in enumerate(texts):
        file = path / "skills" / f"skill_v{version:04d}.md"
        assert file.read_text(encoding="utf-8") == text


LOST = {"op": "insert_after", "target": "- Be bold.", "content": ALL_RULES}


async def test_7_1_07_an_edit_whose_anchor_is_lost_is_repaired(tmp_path):
    coach = Elder([[LOST], []], anchor="- Be quick.")
    path, report = await trained(doors_config(tmp_path), Walker(), coach, skill="- Be quick.\n")
    assert report.best_skill == f"- Be quick.\n\n{ALL_RULES}\n"
    with look(path) as store:
        assert [e.status for e in store.edits(1) if e.status] == ["repaired_insert_after"]


async def test_7_1_07_without_repair_it_is_counted_and_a_candidate_without_change_is_not_played(
    tmp_path,
):
    config = doors_config(tmp_path, optimizer={"repair_anchors": False})
    path, report = await trained(config, Walker(), Coach([[LOST], []]), skill="- Be quick.\n")
    assert report.state.steps[0].action == "skip_no_change"
    assert report.best_skill == "- Be quick.\n"  # it did not become an append
    with look(path) as store:
        (status,) = {e.status for e in store.edits(1) if e.stage == "selected"}
        assert status.startswith("skipped_insert_after")
        assert not [e for e in store.episodes(phase="gate") if e.step == 1]


def test_7_1_08_a_threshold_parts_failures_from_successes():
    results = [make_episode(f"T{i}", reward) for i, reward in enumerate((0.0, 0.3, 0.7, 1.0))]
    settings = StepSettings(success_threshold=0.5)
    planned = plan_minibatches(read_episodes(results).rows, settings, None)
    assert [(m.source_type, [row.id for row in m.rows]) for m in planned] == [
        ("failure", ["T0", "T1"]),
        ("success", ["T2", "T3"]),
    ]


def test_7_1_08_a_threshold_parts_the_categories_of_a_slow_update():
    tasks = [Task("T0", "fake"), Task("T1", "fake")]
    comparison = Comparison.plan(
        tasks, wanted=2, seed=1, epoch=2, policy=PairPolicy.MIXED, success_threshold=0.5
    )
    before = [make_episode(task.id, 0.3) for task in comparison.todo]
    after = [make_episode(task.id, {"T0": 0.4, "T1": 0.6}[task.id]) for task in comparison.todo]
    found = {pair.task_id: pair.category for pair in comparison.add(before, after).pairs}
    assert found == {"T0": "persistent_fail", "T1": "improved"}


async def test_7_1_08_a_run_shows_a_partial_reward_to_the_analysts_of_failures(tmp_path):
    coach = Elder([])
    config = doors_config(tmp_path, env=world(tmp_path, "Ajar", success_threshold=0.5))
    await trained(config, Walker(), coach)
    shown = {
        (outcome, reward)
        for user in coach.asked("## Trajectories")
        for outcome, reward in re.findall(r'outcome="(\w+)" reward="([\d.]+)"', user)
    }
    assert shown == {("failure", "0.30"), ("success", "1.00")}


def test_7_1_09_failure_labels_are_joined_by_id():
    rows = read_episodes([make_episode(f"T{i}") for i in range(3)]).rows
    notes = [FailureNote("late", 2, trajectories=("T2", "T0")), FailureNote("lost", 1)]
    found = {p.pattern: (p.count, p.task_ids) for p in failure_patterns(rows, notes)}
    assert found["late"] == (2, ("T2", "T0"))
    assert found["lost"] == (1, ())  # nobody said whose it is, so nobody is named


async def test_7_1_09_the_order_of_answers_changes_nothing_and_support_is_computed():
    rows = read_episodes([make_episode(f"T{i}") for i in range(6)]).rows

    def answer(asked):
        ids = re.findall(r'<trajectory id="(T\d)"', asked.user)
        cited = [{"id": one, "turns": [0]} for one in ids]
        edit = {"op": "append", "content": ids[0], "evidence": cited, "support_count": 99}
        return {"patch": {"edits": [edit]}}

    async def proposals(finish_order):
        optimizer = Optimizer(ScriptedReplies(answer, finish_order=finish_order))
        context, settings = StepContext("s1", "", 4), StepSettings(minibatch_size=2)
        found = await reflect(optimizer, settings, context, rows)
        return [one for patch in found.patches for one in patch.proposals]

    first, last = await proposals([0, 1, 2]), await proposals([2, 1, 0])
    assert first == last
    assert [(one.edit.content, one.support) for one in last] == [("T0", 2), ("T2", 2), ("T4", 2)]


async def test_7_1_10_a_success_rate_is_one_whatever_the_gate_looks_at(tmp_path):
    gate = {"kind": "strict", "metric": "soft"}
    config = doors_config(tmp_path, env=world(tmp_path, "Ajar"), evaluation={"gate": gate})
    _, report = await trained(config, Walker(), Coach([[rule("attic")], []]))
    score = report.state.baseline.overall
    assert score.success_rate < score.mean_reward
    assert report.state.steps[0].verdict.incumbent_score == pytest.approx(score.mean_reward)
    for table in report.test.tables.values():
        whole = table.overall
        assert whole.episodes + whole.failures == 12
        assert (whole.success_rate * whole.episodes) == round(whole.success_rate * whole.episodes)


def test_7_1_10_a_manifest_is_reproducible_and_has_hashes(tmp_path):
    def manifest(name, **changed):
        items = [{"id": str(number), "question": f"q{number}"} for number in range(177)]
        items[5] |= changed
        data = tmp_path / f"{name}.json"
        data.write_text(json.dumps(items), encoding="utf-8")
        loader = SplitDataLoader(data_path=str(data), split_output_dir=str(tmp_path / name))
        loader.setup({})
        return json.loads((tmp_path / name / "split_manifest.json").read_text(encoding="utf-8"))

    one, same, other = manifest("one"), manifest("same"), manifest("other", question="changed")
    assert one["counts"] == {"train": 35, "val": 18, "test": 124}
    assert one["sha256"] == same["sha256"] != other["sha256"]


async def test_7_1_11_words_like_must_earn_nothing(tmp_path):
    shouted = "You MUST ALWAYS verify. NEVER, only, critical, important: ensure it."
    config = doors_config(tmp_path, evaluation=STRICT)
    _, report = await trained(config, Walker(), Coach([[shouted], []]), skill=ALL_RULES)
    assert report.state.steps[0].verdict.effect == 0.0
    assert report.best_skill == ALL_RULES


async def test_7_1_12_analysts_are_asked_for_as_many_edits_as_the_schedule_allows(tmp_path):
    coach = Elder([["Be quick."], ["Be slow."]])
    await trained(doors_config(tmp_path, optimizer=LINEAR), Walker(), coach)
    assert budgets(coach) == [5, 2]
