"""A training run: what it decides, and what it leaves behind."""

import shutil

from doors import (
    ALL_RULES,
    ALL_WRONG,
    Coach,
    Notebook,
    Walker,
    doors_config,
    look,
    resumed,
    rule,
    story,
    trained,
)
from skillwright.config import load_config
from skillwright.core import skill_hash
from skillwright.jobs.inspect import list_episodes, read_episode, read_run
from skillwright.jobs.run import NullCallback, StepDecided
from skillwright.jobs.text import open_run, run_training

LEARNED = f"{ALL_RULES}\n"


async def test_a_run_accepts_what_helps_and_rejects_what_does_not(tmp_path):
    path, report = await trained(
        doors_config(tmp_path), Walker(), Coach([[ALL_RULES], [ALL_WRONG]])
    )
    assert [step.action for step in report.state.steps] == ["accept", "reject"]
    assert report.best_skill == LEARNED
    assert ALL_WRONG in (path / "skills" / "skill_v0002.md").read_text(encoding="utf-8")
    rates = {name: table.overall.success_rate for name, table in report.test.tables.items()}
    assert rates["best"] == rates["final"] == 1.0
    assert rates["initial"] < 0.5
    assert report.test.gains["best"].gain > 0.5


async def test_everything_is_on_disk(tmp_path):
    config = doors_config(tmp_path)
    path, report = await trained(config, Walker(), Coach([[ALL_RULES], [ALL_WRONG]]))
    assert sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()) == [
        "best_skill.md",
        "config.yaml",
        "current_skill.md",
        "run.lock",
        "run.sqlite",
        "skills/skill_v0000.md",
        "skills/skill_v0001.md",
        "skills/skill_v0002.md",
    ]
    assert (path / "best_skill.md").read_text(encoding="utf-8") == report.best_skill
    assert load_config(path / "config.yaml") == config
    with look(path) as store:
        assert [event.kind for event in store.events()] == [
            "made", "session", "tasks", "baseline", "step", "step", "epoch", "final",
            "test_opened", "test", "finished", "session_ended",
        ]  # fmt: skip
        versions = store.skills()
        assert [(v.version, v.parent, v.origin) for v in versions] == [
            (0, None, "initial_skill"),
            (1, 0, "step_0001"),
            (2, 1, "step_0002"),
        ]
        judged = {(v.origin, v.step): v for v in store.verdicts()}
        assert [one.body["decision"] for one in judged.values()] == ["accept", "accept", "reject"]
        by_step = [judged["step", 1], judged["step", 2]]
        assert [v.candidate for v in by_step] == [v.hash for v in versions[1:]]
        assert judged["release", 2].candidate == versions[1].hash
        spent = store.usage_by_purpose()
        assert set(spent) == {"rollout", "reflect", "merge"}
        assert spent["rollout"].calls == store.counts()["turns"]
        assert spent["reflect"].calls + spent["merge"].calls == store.counts()["calls"]


async def test_every_edit_can_be_traced_to_the_turns_behind_it(tmp_path):
    path, _ = await trained(doors_config(tmp_path), Walker(), Coach([[ALL_RULES], ["Be quick."]]))
    with look(path) as store:
        edits = store.edits()
        played = {(e.step, e.task_id) for e in store.episodes(phase="train")}
        patches = store.patches()
        for edit in edits:
            known = {other.id for other in edits if other.step == edit.step}
            assert set(edit.parents) <= known
            assert edit.parents or edit.stage == "proposed"
            assert edit.evidence
            assert {(edit.step, task) for task, _ in edit.evidence} <= played
            assert store.prompt(edit.prompt_digest)[0]["role"] == "system"
        by_edit = {(p.step, edit): p for p in patches for edit in p.edits}
        assert by_edit.keys() == {(edit.step, edit.id) for edit in edits}
        (selected,) = [e for e in edits if e.step == 1 and e.status]
        assert (selected.status, selected.verdict) == ("applied_append", "accept")
        first, last = selected.lines
        lines = store.skill(1).splitlines()[first - 1 : last]
        assert lines == ALL_RULES.splitlines()


async def test_every_episode_and_call_knows_its_step(tmp_path):
    path, _ = await trained(doors_config(tmp_path), Walker(), Coach([[ALL_RULES], ["Be quick."]]))
    with look(path) as store:
        steps = {(e.phase, e.step) for e in store.episodes()}
    assert steps == {("gate", None), ("train", 1), ("gate", 1), ("train", 2), ("gate", 2),
                     ("release", 2), ("test", None)}  # fmt: skip


async def test_where_nothing_helps_the_initial_skill_comes_out_byte_for_byte(tmp_path):
    skill = "# Doors  \n\n- Ümläute & <tags>\n\n\n  trailing spaces stay   \n\n"
    path, report = await trained(
        doors_config(tmp_path), Walker(), Coach([[ALL_WRONG], ["Be quick."]]), skill=skill
    )
    assert [step.action for step in report.state.steps] == ["reject", "reject"]
    assert report.best_skill == report.initial_skill == skill
    for name in ("best_skill.md", "skills/skill_v0000.md"):
        assert (path / name).read_bytes() == skill.encode()
    tables = report.test.tables
    assert tables["initial"] == tables["best"] == tables["final"]


async def test_a_step_without_edits_is_skipped_before_the_gate(tmp_path):
    target = Walker()
    path, report = await trained(doors_config(tmp_path), target, Coach([]))
    assert [step.action for step in report.state.steps] == ["skip_no_patches"] * 2
    assert [step.verdict for step in report.state.steps] == [None, None]
    with look(path) as store:
        assert not store.verdicts()
        assert len(store.skills()) == 1
        assert {e.phase for e in store.episodes()} == {"gate", "train", "test"}
        assert len(store.episodes(phase="gate")) == 24  # the baseline


async def test_a_step_whose_edits_change_nothing_is_skipped_before_the_gate(tmp_path):
    missing = {"op": "replace", "target": "no such line", "content": "x"}
    path, report = await trained(
        doors_config(tmp_path), Walker(), Coach([[missing], [missing]]), skill="Be kind.\n"
    )
    assert [step.action for step in report.state.steps] == ["skip_no_change"] * 2
    with look(path) as store:
        assert {e.status for e in store.edits() if e.stage == "selected"} == {
            "skipped_replace_target_not_found"
        }


async def test_later_steps_are_told_what_earlier_ones_tried(tmp_path):
    coach = Coach([[ALL_WRONG], [ALL_RULES]])
    await trained(doors_config(tmp_path), Walker(), coach)
    last = next(user for user, _ in reversed(coach.calls) if "## Trajectories" in user)
    assert "Step 1: reject (" in last
    assert f"Rejected edits:\n- append: {' '.join(ALL_WRONG.split())}" in last


async def test_watchers_see_every_decision_in_order(tmp_path):
    notebook = Notebook()
    _, report = await trained(
        doors_config(tmp_path), Walker(), Coach([[ALL_RULES], []]), callback=notebook
    )
    assert [(e.step, e.action) for e in notebook.of(StepDecided)] == [
        (step.step, step.action) for step in report.state.steps
    ]
    assert type(notebook.events[0]).__name__ == "RunStarted"
    assert notebook.events[0].llms == {
        "target": "scripted:walker",
        "optimizer": "scripted:coach",
    }


async def test_the_test_split_is_sealed_until_it_is_opened_once(tmp_path):
    path, _ = await trained(doors_config(tmp_path), Walker(), Coach([[ALL_RULES], []]))
    with look(path) as store:
        opened = [event for event in store.events() if event.kind == "test_opened"]
        assert len(opened) == 1
        for phase, split in (("train", "train"), ("gate", "val"), ("test", "test")):
            episodes = store.episodes(phase=phase)
            assert {e.split for e in episodes} == {split}
            assert {e.task_id.split("-")[0] for e in episodes} == {split}
        first = min(e.id for e in store.episodes(phase="test"))
        assert first > max(e.id for e in store.episodes() if e.phase != "test")
        best = skill_hash(LEARNED)
        assert opened[0].payload == {
            "skills": {"initial": skill_hash(""), "best": best, "final": best}
        }


async def test_equal_artifacts_are_tested_once(tmp_path):
    path, report = await trained(doors_config(tmp_path), Walker(), Coach([[ALL_RULES], []]))
    with look(path) as store:
        assert len(store.episodes(phase="test")) == 2 * 12  # initial, and best = final
    assert report.test.tables["best"] == report.test.tables["final"]


async def test_a_placebo_of_the_same_length_is_tested_beside_the_best(tmp_path):
    config = doors_config(tmp_path, evaluation={"placebo": True})
    path, report = await trained(config, Walker(), Coach([[ALL_RULES], []]))
    assert set(report.test.tables) == {"initial", "best", "final", "placebo"}
    with look(path) as store:
        digest = next(e for e in store.events() if e.kind == "test_opened").payload["skills"]
        assert digest["placebo"] not in (digest["best"], digest["initial"])
    assert report.test.tables["placebo"] == report.test.tables["initial"]  # it says nothing
    every = list_episodes(path).episodes
    played = [one for one in every if one.summary.skill_version == digest["placebo"]]
    assert {one.tested for one in played} == {"placebo"}
    assert read_episode(path, played[0].name).skill.startswith("placebo, ")


async def test_a_run_may_leave_the_test_split_closed(tmp_path):
    path, report = await trained(
        doors_config(tmp_path, evaluation={"test": False}), Walker(), Coach([[ALL_RULES], []])
    )
    assert report.test is None
    assert report.to_dict()["test"] is None
    with look(path) as store:
        assert not store.episodes(phase="test")
    summary = read_run(path)
    assert (summary.is_finished, summary.result) == (True, "finished, not tested")


async def test_a_step_that_meets_a_task_twice_gives_it_other_luck(tmp_path):
    # Micro-batches of 11, 1 and, because the 12 tasks are used up, 11 again.
    config = doors_config(tmp_path, train={"batch_size": 11, "accumulation": 3})
    path, report = await trained(config, Walker(), Coach([]))
    assert len(report.state.steps) == 1
    with look(path) as store:
        episodes = store.episodes(phase="train", step=1)
    firsts = {e.task_id: e.seed for e in episodes if e.draw == 0}
    again = {e.task_id: e.seed for e in episodes if e.draw == 1}
    assert (len(episodes), len(firsts), len(again)) == (23, 12, 11)
    assert all(firsts[task] != seed for task, seed in again.items())


async def test_a_finished_run_that_is_resumed_returns_its_report_and_without_models(tmp_path):
    path, report = await trained(doors_config(tmp_path), Walker(), Coach([[ALL_RULES], []]))
    before = story(path)
    target, coach = Walker(), Coach([])
    assert await resumed(path, target, coach) == report
    assert not target.calls
    assert not coach.calls
    assert story(path) == before


async def test_a_finished_run_needs_neither_tasks_nor_models(tmp_path):
    path, report = await trained(doors_config(tmp_path), Walker(), Coach([[ALL_RULES], []]))
    shutil.rmtree(tmp_path / "tasks")
    (path / "best_skill.md").unlink()

    def nobody(config, client):
        raise AssertionError(f"{config.model} is not needed")

    with open_run(path) as run:
        assert await run_training(run, NullCallback(), nobody) == report
    assert (path / "best_skill.md").read_text(encoding="utf-8") == report.best_skill


async def test_each_step_is_drawn_with_fresh_luck_after_an_accept(tmp_path):
    config = doors_config(tmp_path, evaluation={"gate": {"kind": "paired"}})
    plan = [[rule("attic"), rule("hall")], ["Be quick."]]
    path, _ = await trained(config, Walker(), Coach(plan))
    with look(path) as store:
        draws = {e.step: e.draw for e in store.episodes(phase="gate")}
        judged = [v.body["decision"] for v in store.verdicts() if v.origin == "step"]
    assert judged == ["accept", "reject"]
    assert draws == {None: 0, 1: 0, 2: 1}
