"""A whole run in every mode of the learner, asked for through the configuration alone."""

import asyncio
import json

import pytest

from doors import ALL_RULES, ALL_WRONG, Coach, Walker, doors_config, look, resumed, story, trained
from samples import heavy
from skillwright.config.run import validated
from skillwright.core import ModelError
from skillwright.jobs.run import EpisodeFinished, NullCallback
from skillwright.jobs.text import run_training, start_run

SUGGESTIONS, SKILLS = "rewrite_from_suggestions", "full_rewrite_minibatch"
PLAN = [[ALL_RULES], [ALL_WRONG]]
BROKEN = {"op": "insert_after", "target": "- Be bold.", "content": ALL_RULES}
SKILL = "- Be quick.\n"


class Writer(Coach):
    """A coach for every mode: what `Coach` would append it suggests, or writes as a whole skill.

    Args:
        plan: As in `Coach`.
        mode: The run's update mode.
        budget: What it answers where it may set the budget.
        anchor: Where it finds that a lost edit belongs.
        fault: Heading of the system prompt -> what is raised instead of an answer.
    """

    def __init__(self, plan, mode="patch", budget=1, anchor="- Be quick.", fault=None):
        super().__init__(plan)
        self.asked = []
        self.max_tokens = {}
        self._mode = mode
        self._anchor = anchor
        self._fault = fault or {}
        self._special = {
            "# Edit budget": lambda user: {"reasoning": "one will do", "edit_budget": budget},
            "# Repair anchors": self._repaired,
            "# Rewrite the skill": self._rewritten,
        }
        self._heading = ""

    async def complete(self, messages, **asked):
        self._heading = messages[0]["content"].partition("\n")[0]
        self.asked.append(self._heading)
        self.max_tokens[self._heading] = asked["sampling"].max_tokens
        return await super().complete(messages, **asked)

    def _answer(self, user):
        if self._heading in self._fault:
            raise self._fault[self._heading]
        if self._heading in self._special:
            return self._special[self._heading](user)
        if "## Patches" in user:
            return self._merged(user)
        answer = super()._answer(user)
        if "patch" in answer:
            return {"patch": self._items(answer["patch"]["edits"])}
        return answer

    def _items(self, edits):
        match self._mode:
            case "patch":
                return {"edits": edits}
            case "rewrite_from_suggestions":
                changes = [{"type": "add_rule", "instruction": edit["content"]} for edit in edits]
                return {"revise_suggestions": changes}
            case _:
                skills = [{"new_skill": e["content"], "change_summary": ["anew"]} for e in edits]
                return {"skill_candidates": skills}

    def _merged(self, user):
        """Keep the first of every distinct item, and say which ones it stands for."""
        key = {"patch": "edits", SUGGESTIONS: "revise_suggestions", SKILLS: "skill_candidates"}
        text = {"patch": "content", SUGGESTIONS: "instruction", SKILLS: "new_skill"}[self._mode]
        kept = {}
        for patch in json.loads(user.split("## Patches\n")[1]):
            for item in next(value for value in patch.values() if isinstance(value, list)):
                kept.setdefault(item[text], {**item, "sources": []})["sources"].append(item["id"])
        return {key[self._mode]: list(kept.values())}

    def _repaired(self, user):
        edits = json.loads(user.split("## Edits\n")[1])
        anchors = [{"id": edit["id"], "target": self._anchor} for edit in edits]
        return {"reasoning": "it was misquoted", "anchors": anchors}

    def _rewritten(self, user):
        suggestions = json.loads(user.split("## Suggestions\n")[1])
        text = "\n".join(item["instruction"] for item in suggestions)
        return {"new_skill": text, "change_summary": ["rules for doors"]}


def mode_config(folder, mode, **optimizer):
    folder.mkdir(exist_ok=True)
    return doors_config(folder, optimizer={"skill_update_mode": mode, **optimizer})


def statuses(path, step):
    with look(path) as store:
        return sorted({edit.status for edit in store.edits(step) if edit.stage == "selected"})


def patch(path, name):
    with look(path) as store:
        found = [patch for patch in store.patches() if patch.id == name]
    return found[0] if found else None


@pytest.mark.parametrize(
    ("mode", "status"),
    [
        ("patch", "applied_append"),
        (SUGGESTIONS, "applied_rewrite"),
        (SKILLS, "applied_rewrite"),
    ],
)
async def test_every_update_mode_learns_what_helps_and_refuses_what_does_not(
    tmp_path, mode, status
):
    path, report = await trained(mode_config(tmp_path, mode), Walker(), Writer(PLAN, mode))
    assert [step.action for step in report.state.steps] == ["accept", "reject"]
    assert report.best_skill.strip() == ALL_RULES
    assert statuses(path, 1) == statuses(path, 2) == [status]
    with look(path) as store:
        versions = [(v.version, v.parent, v.origin) for v in store.skills()]
        assert ALL_WRONG in store.skill(2)
        verdicts = {edit.verdict for edit in store.edits(1) if edit.stage == "selected"}
    assert versions[1:] == [(1, 0, "step_0001"), (2, 1, "step_0002")]
    assert verdicts == {"accept"}


async def test_a_rewrite_by_suggestions_is_kept_with_what_went_in(tmp_path):
    writer = Writer(PLAN, SUGGESTIONS)
    config = mode_config(tmp_path, SUGGESTIONS, rewrite_max_tokens=777)
    path, _ = await trained(config, Walker(), writer)
    kept = patch(path, "s1.rewrite")
    assert kept.inputs == kept.edits
    assert dict(kept.details) == {"change_summary": ["rules for doors"], "unusable": ""}
    assert kept.prompt_digest
    assert writer.asked.count("# Rewrite the skill") == 2
    assert writer.max_tokens["# Rewrite the skill"] == 777
    assert writer.max_tokens["# Analyst: failures, suggestions"] == 16_384


async def test_a_skill_that_an_analyst_wrote_is_taken_without_another_call(tmp_path):
    writer = Writer(PLAN, SKILLS)
    path, _ = await trained(mode_config(tmp_path, SKILLS), Walker(), writer)
    assert "# Rewrite the skill" not in writer.asked
    assert dict(patch(path, "s1.rewrite").details) == {"change_summary": ["anew"], "unusable": ""}


async def test_a_rewrite_without_an_answer_skips_the_step_and_says_why(tmp_path):
    fault = {"# Rewrite the skill": ModelError("the gateway is on fire")}
    path, report = await trained(
        mode_config(tmp_path, SUGGESTIONS),
        Walker(),
        Writer(PLAN, SUGGESTIONS, fault=fault),
        skill=SKILL,
    )
    assert {step.action for step in report.state.steps} == {"skip_no_rewrite"}
    assert report.best_skill == SKILL
    assert statuses(path, 1) == ["skipped_no_rewrite"]
    kept = patch(path, "s1.rewrite")
    assert kept.failure.message == kept.details["unusable"] == "the gateway is on fire"
    assert kept.edits == ()


@pytest.mark.parametrize(
    ("control", "made", "asked"),
    [("fixed", 2, 0), ("autonomous", 1, 2), ("none", 3, 0)],
)
async def test_every_control_mode_sets_the_budget_of_a_step(tmp_path, control, made, asked):
    plan = [["Be quick.", "Be bold.", "Be kind."], ["Look.", "Listen.", "Knock."]]
    config = mode_config(
        tmp_path, "patch", lr_control_mode=control, learning_rate=2, min_learning_rate=2
    )
    writer = Writer(plan)
    path, report = await trained(config, Walker(), writer)
    assert [len(step.entry.edits) for step in report.state.steps] == [made, made]
    assert writer.asked.count("# Edit budget") == asked
    kept = patch(path, "s1.lr")
    if control != "autonomous":
        assert kept is None
        return
    assert dict(kept.details) == {"budget": 1, "fallback": False}
    # Who decides on the budget later sees everything: analysts have no cap of their own then.
    assert (len(kept.inputs), kept.reasoning, kept.failure) == (3, "one will do", None)


async def test_a_ranking_is_kept_with_what_it_chose_from(tmp_path):
    config = mode_config(tmp_path, "patch", lr_control_mode="autonomous")
    path, _ = await trained(config, Walker(), Writer([["Be bold.", "Be kind."]]))
    kept = patch(path, "s1.rank")
    assert (len(kept.inputs), len(kept.edits)) == (2, 1)
    assert dict(kept.details) == {"ranked": True, "notes": []}
    fault = {"# Rank edits": ModelError("lost")}
    other = mode_config(tmp_path / "fault", "patch", lr_control_mode="autonomous")
    path, _ = await trained(other, Walker(), Writer([["Be bold.", "Be kind."]], fault=fault))
    kept = patch(path, "s1.rank")
    assert (kept.failure.message, len(kept.edits)) == ("lost", 1)
    assert kept.details["ranked"] is False


async def test_a_budget_without_an_answer_makes_no_edit_and_says_why(tmp_path):
    fault = {"# Edit budget": ModelError("lost")}
    config = mode_config(tmp_path, "patch", lr_control_mode="autonomous")
    path, report = await trained(config, Walker(), Writer(PLAN, fault=fault))
    assert {step.action for step in report.state.steps} == {"skip_no_change"}
    kept = patch(path, "s1.lr")
    assert (kept.failure.message, dict(kept.details)) == ("lost", {"budget": 0, "fallback": True})


@pytest.mark.parametrize(
    ("optimizer", "status", "asked"),
    [
        ({}, "repaired_insert_after", 1),
        ({"repair_anchors": False}, "skipped_insert_after_target_not_found", 0),
        (
            {"repair_anchors": False, "insert_after_fallback": True},
            "applied_insert_after_fallback_append",
            0,
        ),
    ],
)
async def test_an_edit_without_its_anchor_is_repaired_skipped_or_appended(
    tmp_path, optimizer, status, asked
):
    writer = Writer([[BROKEN]])
    path, _ = await trained(
        mode_config(tmp_path, "patch", **optimizer), Walker(), writer, skill=SKILL
    )
    assert statuses(path, 1) == [status]
    assert writer.asked.count("# Repair anchors") == asked
    kept = patch(path, "s1.repair")
    assert (kept is None) == (asked == 0)
    if kept:
        assert kept.inputs == kept.edits
        assert dict(kept.details) == {"anchors": {kept.edits[0]: "- Be quick."}, "notes": []}
        assert kept.reasoning == "it was misquoted"


async def test_a_repair_without_an_answer_leaves_the_edit_skipped_and_says_why(tmp_path):
    fault = {"# Repair anchors": ModelError("lost")}
    path, report = await trained(
        mode_config(tmp_path, "patch"), Walker(), Writer([[BROKEN]], fault=fault), skill=SKILL
    )
    assert report.state.steps[0].action == "skip_no_change"
    kept = patch(path, "s1.repair")
    assert (kept.failure.message, kept.edits) == ("lost", ())


class StopAfter:
    """Cancels a task at the start of an episode or a call, counted over the whole run."""

    def __init__(self, count):
        self.task = None
        self._left = count

    def on_event(self, event):
        self._left -= not isinstance(event, EpisodeFinished) or not event.reused
        if self._left == 0:
            self.task.cancel()


@pytest.mark.parametrize("count", [34, 36, 38, 40, 60, 95, 100])
async def test_a_run_that_rewrites_goes_on_after_a_stop_as_if_it_had_not_been(tmp_path, count):
    optimizer = {"lr_control_mode": "autonomous"}
    whole, _ = await trained(
        mode_config(tmp_path / "whole", SUGGESTIONS, **optimizer),
        Walker(),
        Writer(PLAN, SUGGESTIONS),
    )
    stopper = StopAfter(count)
    cut = mode_config(tmp_path / "cut", SUGGESTIONS, **optimizer)
    stopper.task = asyncio.create_task(
        trained(cut, Walker(), Writer(PLAN, SUGGESTIONS), callback=stopper)
    )
    with pytest.raises(asyncio.CancelledError):
        await stopper.task
    path = tmp_path / "cut" / "runs" / "doors"
    with look(path) as store:
        answered = store.counts()["calls"]
    writer = Writer(PLAN, SUGGESTIONS)
    await resumed(path, Walker(), writer)
    assert story(path) == story(whole)
    with look(path) as store:
        assert store.counts()["calls"] == answered + len(writer.calls)


@pytest.mark.parametrize(
    ("mode", "control"),
    [
        ("patch", "autonomous"),
        (SUGGESTIONS, "fixed"),
        (SKILLS, "none"),
        *heavy(
            ("patch", "fixed"),
            ("patch", "none"),
            (SUGGESTIONS, "autonomous"),
            (SUGGESTIONS, "none"),
            (SKILLS, "fixed"),
            (SKILLS, "autonomous"),
        ),
    ],
)
async def test_the_scripted_models_play_a_whole_run_in_every_mode(tmp_path, mode, control):
    config = validated(
        {
            "run": {"root": str(tmp_path / "runs")},
            "env": {"data": {"train": 12, "val": 24, "test": 6, "household": 1}, "max_turns": 30},
            "models": {
                "target": {"backend": "scripted", "model": "household"},
                "optimizer": {"backend": "scripted", "model": "analyst"},
            },
            "train": {"epochs": 2, "batch_size": 12},
            "optimizer": {
                "skill_update_mode": mode,
                "lr_control_mode": control,
                "slow_update_samples": 4,
            },
        },
        "scripted",
    )
    with start_run(config, "") as run:
        report = await run_training(run, NullCallback())
        path = run.folder.path
    assert report.state.finished
    assert (len(report.state.steps), len(report.state.epochs)) == (2, 2)
    assert (config.decisions(12), report.state.ledger.planned) == (3, 2)
    made = "applied_rewrite" if mode != "patch" else "applied_append"
    assert any(made in statuses(path, step) for step in (1, 2))
    # A skill that is written anew as a whole has no budget that anybody could set.
    assert (patch(path, "s1.lr") is not None) == (control == "autonomous" and mode != SKILLS)
    assert (patch(path, "s1.rewrite") is not None) == (mode != "patch")
    with look(path) as store:
        assert not [patch for patch in store.patches() if patch.failure]
        judged = {f"step_{v.step:04d}" if v.origin == "step" else "slow_update_epoch_02"
                  for v in store.verdicts() if v.origin != "release"}  # fmt: skip
        origins = {one.origin for one in store.skills() if not one.origin.startswith("lines_")}
        assert origins == {"initial_skill", *judged}
