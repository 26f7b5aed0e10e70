"""Adapters that do not reflect themselves get raw patches from our analysts."""

import asyncio
import json
import logging

import pytest

from fakes import ScriptedReplies
from skillwright.core import ContractError, ModelError, RawPatch, ReflectRequest
from skillwright.rollout import EngineDown
from skillwright.textopt import (
    Evidence,
    Optimizer,
    StepContext,
    StepSettings,
    TextReflector,
    read_raw_patches,
    read_rows,
)


def request(tmp_path, *rows, **more):
    for row in rows:
        if row.pop("saved", True):
            folder = tmp_path / row["id"]
            folder.mkdir()
            items = [{"action": "look", "env_feedback": "ok"}]
            (folder / "conversation.json").write_text(json.dumps(items), encoding="utf-8")
    return ReflectRequest(list(rows), "# Skill\n", tmp_path, **more)


def row(row_id, hard, **more):
    return {"id": row_id, "hard": hard, "soft": hard, **more}


def answer(asked):
    if 'id="r1"' in asked.user:
        return "nothing comes to model"
    edits = [{"op": "append", "content": "Look.", "evidence": [{"id": "r3"}]}]
    return {"reasoning": "r", "patch": {"edits": edits}, "success_patterns": ["looking"]}


def test_raw_patches_come_in_order_with_none_for_a_fault(tmp_path, caplog):
    asked_for = request(
        tmp_path,
        row("r1", 0),
        row("r2", 0.0, saved=False),
        row("r3", 0.4),
        minibatch_size=1,
        step_buffer_context="Step 1: reject",
        meta_skill_context="Be brief.",
    )
    model = ScriptedReplies(answer)
    with caplog.at_level(logging.WARNING):
        patches = TextReflector(Optimizer(model, repair_rounds=0)).reflect(asked_for)
    assert patches[0] is None
    assert patches[1] == {
        "patch": {
            "reasoning": "r",
            "edits": [
                {
                    "op": "append",
                    "content": "Look.",
                    "support_count": 1,
                    "source_type": "success",
                    "evidence": [{"id": "r3", "turns": []}],
                }
            ],
        },
        "source_type": "success",
        "batch_size": 1,
        "failure_summary": [],
        "success_patterns": ["looking"],
    }
    assert RawPatch.from_dict(patches[1]).patch.edits[0].content == "Look."
    assert (
        "## Earlier steps\nStep 1: reject\n\n## Optimizer notes\nBe brief." in model.asked[0].user
    )
    assert "row 'r2' is not analyzed" in caplog.text
    assert "analyst adapter.f0 gave nothing usable" in caplog.text


def test_an_endpoint_that_is_down_is_no_list_of_nothing(tmp_path):
    reflector = TextReflector(Optimizer(ScriptedReplies(lambda asked: ModelError("503"))))
    with pytest.raises(EngineDown, match=r"all 1 analyst calls to the optimizer failed.* 503"):
        reflector.reflect(request(tmp_path, row("r1", 0)))


def test_raw_patches_of_ours_can_be_read_back(tmp_path):
    def said(asked):
        ids = [name for name in ("r1", "r2") if f'id="{name}"' in asked.user]
        edit = {"op": "append", "content": "Look.", "evidence": [{"id": ids[0], "turns": [0]}]}
        summary = [{"failure_type": "shut", "ids": ids}]
        return {"patch": {"edits": [edit]}, "failure_summary": summary}

    asked_for = request(tmp_path, row("r1", 0), row("r2", 0), row("r3", 0))
    (payload,) = TextReflector(Optimizer(ScriptedReplies(said))).reflect(asked_for)
    found = read_raw_patches(
        [payload],
        name="s3",
        transcripts=read_rows(asked_for.results, tmp_path),
        settings=StepSettings(),
        context=StepContext("s3", "# Skill\n", 4),
    )
    (patch,) = found.patches
    assert patch.proposals[0].evidence == (Evidence("r1", (0,)),)
    assert [(note.failure_type, note.trajectories) for note in patch.failures] == [
        ("shut", ("r1", "r2"))
    ]
    assert patch.notes == ()


def test_the_adapters_prompts_budget_and_filter_are_used(tmp_path):
    model = ScriptedReplies(lambda asked: {"patch": {"edits": [{"content": c} for c in "abc"]}})
    asked_for = request(
        tmp_path,
        row("r1", 0),
        row("r2", 1),
        failure_only=True,
        edit_budget=2,
        prompts=(("analyst_error", "My own prompt."),),
    )
    (patch,) = TextReflector(Optimizer(model)).reflect(asked_for)
    assert model.asked[0].messages[0]["content"] == "My own prompt."
    assert len(patch["patch"]["edits"]) == 2


async def test_calls_go_to_the_loop_that_the_model_belongs_to(tmp_path):
    home = asyncio.get_running_loop()
    seen = []

    def remember(asked):
        seen.append(asyncio.get_running_loop())
        return {"patch": {"edits": []}}

    reflector = TextReflector(Optimizer(ScriptedReplies(remember)), loop=home)
    await asyncio.to_thread(reflector.reflect, request(tmp_path, row("r1", 0)))
    assert seen == [home]


async def test_waiting_on_its_own_loop_is_refused(tmp_path):
    reflector = TextReflector(Optimizer(ScriptedReplies([])))
    with pytest.raises(ContractError, match="worker thread"):
        reflector.reflect(request(tmp_path, row("r1", 0)))


def test_answers_are_kept_for_people_under_their_documented_names(tmp_path):
    folder = tmp_path / "patches"
    asked_for = request(tmp_path, row("r1", 0), row("r3", 1), minibatch_size=1, patches_dir=folder)
    TextReflector(Optimizer(ScriptedReplies(answer), repair_rounds=0)).reflect(asked_for)
    kept = {file.name: json.loads(file.read_text(encoding="utf-8")) for file in folder.iterdir()}
    assert sorted(kept) == ["minibatch_fail_000.json", "minibatch_succ_000.json"]
    assert kept["minibatch_fail_000.json"]["failure"]["cause"] == "reply"
    assert kept["minibatch_succ_000.json"]["patch"]["edits"][0]["content"] == "Look."
    assert kept["minibatch_succ_000.json"]["trajectories"] == ["r3"]
