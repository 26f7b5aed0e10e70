"""The published vectors of SkillOpt, through its own module paths."""

import json
import random
import sys

import pytest

from skillwright.core import ContractError
from skillwright.plugins.skillopt import skillopt_alias

with skillopt_alias():
    from skillopt.config import apply_overrides, flatten_config, is_structured, load_config
    from skillopt.datasets.base import BaseDataLoader, SplitDataLoader
    from skillopt.evaluation.gate import (
        compute_semantic_density,
        evaluate_gate,
        select_gate_score,
    )
    from skillopt.gradient.aggregate import _merge_batch, merge_patches
    from skillopt.gradient.reflect import fmt_trajectory
    from skillopt.optimizer import appendix, rank_and_select, skill, skill_aware, slow_update
    from skillopt.optimizer.scheduler import AutonomousScheduler, build_scheduler
    from skillopt.optimizer.update_modes import (
        is_full_rewrite_minibatch_mode,
        is_rewrite_mode,
        normalize_update_mode,
        payload_key,
        payload_label,
        truncate_payload,
    )
    from skillopt.types import Edit, Patch, RawPatch, RolloutResult, SlowUpdateResult
    from skillopt.utils import compute_score, extract_json, extract_json_array, skill_hash
    from skillopt.utils.json_utils import _top_level_brace_objects


S = "# T\n\n- a\n- b"
B = "<!-- SLOW_UPDATE_START -->\ng\n<!-- SLOW_UPDATE_END -->\n"
P = "# T\n\n- a\n\n\n" + B


def test_types_read_and_write_the_documented_dicts():
    assert Edit.from_dict({"content": "x", "unknown": 1}).to_dict() == {
        "op": "append",
        "content": "x",
    }
    assert Edit("replace", "x", "y", support_count=0).to_dict()["support_count"] == 0
    patch = Patch.from_dict({"edits": [{"op": "delete", "target": "t"}], "reasoning": "r"})
    assert list(patch.to_dict()) == ["reasoning", "edits"]
    row = RolloutResult.from_dict({"id": 7, "hard": 1, "soft": "0.5", "mine": "kept"})
    assert (row.id, row.hard, row.soft, row.extras) == ("7", 1.0, 0.5, {"mine": "kept"})
    assert row.to_dict() == {"id": "7", "hard": 1.0, "soft": 0.5, "mine": "kept"}
    assert RawPatch.from_dict(None) is None
    assert RawPatch.from_dict({"patch": "text"}) is None
    assert SlowUpdateResult().to_dict() == {"reasoning": "", "slow_update_content": ""}


@pytest.mark.parametrize(
    ("score", "action", "best", "best_step"),
    [
        (0.6, "accept", 0.7, 1),
        (0.8, "accept_new_best", 0.8, 3),
        (0.5, "reject", 0.7, 1),
        (0.7, "accept", 0.7, 1),
    ],
)
def test_gate(score, action, best, best_step):
    judged = evaluate_gate("new", score, "current", 0.5, "best", 0.7, 1, 3)
    assert (judged.action, judged.best_score, judged.best_step) == (action, best, best_step)


def test_gate_scores_and_density():
    assert select_gate_score(0.5, 0.8, "mixed", 0.25) == 0.575
    for metric in ("hard", "soft", "mixed"):
        assert isinstance(select_gate_score(1, 1, metric), float)
    assert compute_semantic_density("You MUST always verify the answer.") == 0.5
    with pytest.raises(ValueError, match="unknown gate metric"):
        select_gate_score(0.5, 0.8, "mean")


@pytest.mark.parametrize(
    ("mode", "most", "steps", "budgets"),
    [
        ("cosine", 4, 4, [4, 3, 2, 2]),
        ("cosine", 8, 8, [8, 7, 6, 5, 4, 3, 2, 2]),
        ("cosine", 4, 1, [4]),
        ("linear", 4, 4, [4, 3, 2, 2]),
        ("linear", 8, 8, [7, 6, 6, 5, 4, 4, 3, 2]),
        ("constant", 4, 2, [4, 4]),
        ("autonomous", 4, 2, [999, 999]),
    ],
)
def test_schedulers(mode, most, steps, budgets):
    scheduler = build_scheduler(mode, most, 2, steps)
    assert [scheduler.step() for _ in range(steps)] == budgets
    assert scheduler.state_dict() == {"current_step": steps}


def test_a_scheduler_without_a_bound_names_it():
    assert build_scheduler("autonomous").get_lr(1) == AutonomousScheduler.NO_LIMIT == 999


def test_an_unknown_scheduler_is_a_value_error():
    with pytest.raises(ValueError, match=r"^Unknown scheduler mode"):
        build_scheduler("cosin")


def test_scores_and_hashes():
    assert compute_score([]) == (0.0, 0.0)
    assert compute_score([{"hard": 1, "soft": 0.5}, {"hard": 0, "soft": 0.0}]) == (0.5, 0.25)
    assert compute_score([RolloutResult("a", 1.0, 0.5)]) == (1.0, 0.5)
    assert skill_hash("") == "e3b0c44298fc1c14"
    assert skill_hash("hello") == "2cf24dba5fb0a30e"


def test_json_is_found_in_what_a_model_wrote():
    assert extract_json('so {"no": 1} then\n```json\n{"yes": 2}\n```') == {"yes": 2}
    assert extract_json('well, {"a": {"b": [1]}} it is') == {"a": {"b": [1]}}
    assert extract_json("nothing") is None
    assert extract_json_array("these: [1, 2]") == [1, 2]
    for text, found in ARRAYS.items():
        assert extract_json_array(text) == found, text
    deep = "[" * 5_000 + "]" * 5_000
    assert extract_json_array(deep) is None
    assert extract_json_array(f"```json\n{deep}\n```") is None


def test_a_lone_broken_object_is_warned_of_where_nobody_mends_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "json_repair", None)
    with pytest.warns(RuntimeWarning, match="json_repair"):
        assert extract_json('{"a": 1,}') is None
    assert extract_json('{"a": 1,} and {"b": 2,}') is None
    assert extract_json("say {op: delete} and be done") is None  # words, which nobody should mend


def test_outer_braces_are_found_and_those_in_quotes_are_none():
    assert _top_level_brace_objects('x {"a": {"b": "}"}} y {} z {"open": 1') == [
        '{"a": {"b": "}"}}',
        "{}",
    ]
    assert _top_level_brace_objects('write "set it to {x}" there') == []


@pytest.mark.parametrize(
    ("text", "edit", "result"),
    [
        (S, {"op": "append", "content": "  x \n"}, "# T\n\n- a\n- b\n\nx\n"),
        (S, {"op": "insert_after", "content": "x", "target": "- a"}, "# T\n\n- a\n\nx\n- b"),
        (S, {"op": "insert_after", "content": "x", "target": "zz"}, "# T\n\n- a\n- b\n\nx\n"),
        (S, {"op": "replace", "content": "Q", "target": "a"}, "# T\n\n- Q\n- b"),
        (S, {"op": "delete", "target": "- a"}, "# T\n\n\n- b"),
        (P, {"op": "append", "content": "x"}, "# T\n\n- a\n\nx\n\n" + B),
        (P, {"op": "replace", "content": "Q", "target": "g"}, P),
    ],
)
def test_edits_as_dicts_and_as_objects(text, edit, result):
    assert skill.apply_edit(text, edit) == result
    assert skill.apply_patch(text, Patch([Edit.from_dict(edit)])) == result
    assert skill.apply_patch_with_report(text, {"edits": [edit]})[0] == result


@pytest.mark.parametrize("odd", ["x", None, [], ["op"], 3])
def test_what_is_no_edit_changes_no_skill(odd):
    for apply in (skill.apply_edit, skill.apply_patch):
        with pytest.raises(ContractError, match="must be a mapping of its fields"):
            apply(S, odd)
    assert skill.apply_patch_with_report(S, {"edits": [odd]})[1][0]["status"] == "error"


def test_protected_regions():
    assert slow_update.replace_slow_update_field(P, "NEW") == "# T\n\n- a\n\n" + B.replace(
        "g", "NEW"
    )
    assert slow_update.extract_slow_update_field(P) == "g"
    assert slow_update.has_slow_update_field(P)
    assert not slow_update.has_slow_update_field(S)
    empty = appendix.inject_empty_appendix_field(S)
    assert empty.endswith("<!-- APPENDIX_END -->\n")
    assert (appendix.has_appendix_field(S), appendix.has_appendix_field(empty)) == (False, True)
    assert appendix.append_to_appendix_field(S, []) == empty
    noted = appendix.append_notes(S, ["Look twice.", "look twice"])
    assert appendix.extract_appendix_notes(noted) == ["Look twice."]
    assert skill_aware.read_appendix_notes([{"note": "a"}, "b", {"content": "A."}]) == ["a", "b"]
    assert skill_aware.extract_appendix_notes({"appendix_notes": "x"}) == ["x"]
    assert skill_aware.extract_appendix_notes(None) == []
    assert "EXECUTION_LAPSE" in skill_aware.augment_error_prompt("Look.")


def test_update_modes():
    assert normalize_update_mode("suggestions") == "rewrite_from_suggestions"
    assert payload_key("full_rewrite") == "skill_candidates"
    assert (is_rewrite_mode("rewrite"), is_rewrite_mode(None)) == (True, False)
    assert is_full_rewrite_minibatch_mode("full_rewrite")
    assert payload_label("rewrite", title=True) == "Suggestions"
    assert truncate_payload({"edits": [1, 2, 3]}, 2, "patch") == {"edits": [1, 2]}
    with pytest.raises(ValueError, match="there is no skill update mode"):
        normalize_update_mode("pach")


def test_a_merge_that_fails_puts_patches_one_after_the_other(caplog):
    patches = [
        {"edits": [{"op": "append", "content": "a"}]},
        {"edits": [{"op": "append", "content": "b", "merge_level": 1}]},
    ]
    merged = _merge_batch("skill", patches, level=2)  # nobody is there to be asked
    assert [(e["content"], e["merge_level"]) for e in merged["edits"]] == [("a", 2), ("b", 1)]
    assert "no run is running" not in caplog.text
    both = merge_patches("skill", patches[:1], patches[1:])
    assert [edit["content"] for edit in both["edits"]] == ["a", "b"]
    assert "merge_level" not in both["edits"][0]
    assert merge_patches("skill", [], []) == {"reasoning": "no patches", "edits": []}
    assert merge_patches("skill", patches[:1], []) == patches[0]


def test_a_ranking_that_fails_takes_the_first_edits():
    patch = {"edits": [{"op": "append", "content": str(n)} for n in range(5)]}
    kept = rank_and_select("skill", patch, 2)
    assert [edit["content"] for edit in kept["edits"]] == ["0", "1"]
    assert kept["ranking_details"]["fallback"]
    assert rank_and_select("skill", patch, 5) is patch


def test_a_conversation_is_written_line_by_line():
    turns = [
        {"type": "tool_call", "cmd": "ls", "obs": "a.txt"},
        {"step": 2, "action": "look", "env_feedback": "a room", "reasoning": "why not"},
        {"role": "system", "content": "checked"},
        {"content": "done"},
        "so",
    ]
    assert fmt_trajectory(turns).splitlines() == [
        "[action] ls",
        "[obs]    a.txt",
        "[step 2 think] why not",
        "[step 2 action] look",
        "[step 2 obs]    a room",
        "[verification] checked",
        "[agent] done",
        "[agent] so",
    ]


def test_seeds_batches_and_minibatches():
    assert BaseDataLoader.make_base_seeds(4, 1, 42) == [43, 44, 45, 46]
    assert BaseDataLoader.shuffle_epoch_seeds([43, 44, 45, 46], 2, 42) == [44, 43, 46, 45]
    loader = SplitDataLoader()
    loader.train_items = [{"id": str(n)} for n in (7, 3, 2, 8, 5, 6, 9)]
    assert [i["id"] for i in loader.build_train_batch(3, 7).payload] == ["6", "9", "5"]


def test_split_manifest(tmp_path):
    (tmp_path / "raw.json").write_text(json.dumps([{"id": str(n)} for n in range(10)]))
    loader = SplitDataLoader(
        data_path=str(tmp_path / "raw.json"), split_output_dir=str(tmp_path / "o")
    )
    loader.setup({})
    assert [item["id"] for item in loader.train_items] == ["7", "3"]
    manifest = json.loads((tmp_path / "o" / "split_manifest.json").read_text())
    assert manifest["counts"] == {"train": 2, "val": 1, "test": 7}
    assert manifest["split_ratio"] == "2:1:7"
    order = list(range(10))
    random.Random(42).shuffle(order)
    assert order == [7, 3, 2, 8, 5, 6, 9, 4, 0, 1]


def test_configuration_is_inherited_in_either_form(tmp_path):
    (tmp_path / "base.yaml").write_text(
        "train: {batch_size: 8, num_epochs: 2}\noptimizer: {learning_rate: 6}\nenv: {name: mine}\n"
    )
    (tmp_path / "child.yaml").write_text("_base_: base.yaml\nbatch_size: 5\nedit_budget: 3\n")
    config = load_config(tmp_path / "child.yaml")
    assert "batch_size" not in config["train"]
    assert (config["batch_size"], config["edit_budget"]) == (5, 3)
    assert is_structured(config)
    flat = flatten_config(config)
    assert (flat["batch_size"], flat["num_epochs"], flat["edit_budget"]) == (5, 2, 3)
    assert flat["env"] == "mine"


def test_a_circle_of_bases_is_a_value_error(tmp_path):
    (tmp_path / "a.yaml").write_text("_base_: b.yaml\n")
    (tmp_path / "b.yaml").write_text("_base_: a.yaml\n")
    with pytest.raises(ValueError, match="Circular _base_ inheritance"):
        load_config(tmp_path / "a.yaml")


def test_overrides_are_cast_and_placed():
    config = {"train": {"batch_size": 8}}
    options = ["train.batch_size=4", "edit_budget=2", "env.workers=1", "evaluation.use_gate=no"]
    flat = flatten_config(apply_overrides(config, options))
    assert (flat["batch_size"], flat["edit_budget"], flat["workers"]) == (4, 2, 1)
    assert flat["use_gate"] is False
    assert apply_overrides({"batch_size": 1}, ["train.batch_size=1e1"])["batch_size"] == 10.0
    assert apply_overrides({}, ["env.note=None"])["note"] == "None"


@pytest.mark.parametrize(
    ("label", "optimizer", "target"),
    [
        ("claude", "claude_chat", "claude_chat"),
        ("qwen", "openai_chat", "qwen_chat"),
        ("azure_openai", "openai_chat", "openai_chat"),
        ("codex", "codex_exec", "codex_exec"),
    ],
)
def test_the_label_of_a_backend_fills_roles(label, optimizer, target):
    flat = flatten_config({"model": {"backend": label}, "env": {"name": "mine"}})
    assert (flat["optimizer_backend"], flat["target_backend"]) == (optimizer, target)


def test_aliases_of_codex_settings():
    flat = flatten_config({"codex_path": "/bin/codex", "sandbox": "read-only", "env": "mine"})
    assert flat["codex_exec_path"] == "/bin/codex"
    assert flat["codex_exec_sandbox"] == "read-only"


@pytest.mark.parametrize(
    "config",
    [{"gradient": {"max_analyst_rounds": 2}}, {"model": {"codex_exec_full_auto": True}}],
    ids=["rounds", "full_auto"],
)
def test_retired_options_are_warned_of(config):
    with pytest.warns(FutureWarning, match="retired"):
        flatten_config({**config, "env": {"name": "mine"}})


ARRAYS = {
    "first [1] second [2]": None,
    '{"a": [1]} then [2]': [2],
    "{ prose [1, 2]": [1, 2],
    '"[1]" and [3]': [3],
    "[1, 2, ": None,
    '```json\n["a"]\n``` or [2]': ["a"],
}
