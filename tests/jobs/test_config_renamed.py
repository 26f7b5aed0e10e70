"""Keys with new names: the old ones are read, with a note; both at once are refused."""

import logging

import pytest
import yaml

from rl_world import lanes_config
from skillwright.config import RlConfig, RunConfig, load_config, load_rl_config, study_settings
from skillwright.config.renamed import RENAMED
from skillwright.config.yaml_files import key_paths
from skillwright.core import ConfigError
from skillwright.jobs.weights import open_rl, start_rl

MODELS = {
    "target": {"backend": "scripted", "model": "household"},
    "optimizer": {"backend": "scripted", "model": "analyst"},
}
GATE = {"kind": "explore", "task_type_veto": 0.1}
OLD_GATE = {"kind": "explore", "family_veto": 0.1}


def written(folder, name="a.yaml", **sections):
    path = folder / name
    path.write_text(yaml.safe_dump({"models": MODELS, **sections}), encoding="utf-8")
    return path


def recipe(folder, **sections):
    path = folder / "a.yaml"
    plain = {"evolve": None, "distill": None, "cold_start": None}
    path.write_text(yaml.safe_dump({**plain, **sections}), encoding="utf-8")
    return path


def test_every_new_name_is_a_key_and_no_old_name_is():
    known = {place.path for kind in (RunConfig, RlConfig) for place in key_paths(kind)}
    assert {row.new for row in RENAMED} <= known
    assert not {row.old for row in RENAMED} & known


def test_a_file_with_old_names_means_the_same_and_is_noted(tmp_path, caplog):
    old = written(tmp_path, distil={"tasks": 3}, evaluation={"gate": OLD_GATE})
    found = load_config(old)
    noted = [record.message for record in caplog.records]
    assert noted == [
        f"{old}: 'distil' is now 'distill'",
        f"{old}: 'evaluation.gate.family_veto' is now 'evaluation.gate.task_type_veto'",
    ]
    caplog.clear()
    assert found == load_config(written(tmp_path, distill={"tasks": 3}, evaluation={"gate": GATE}))
    assert not caplog.records


def test_an_old_value_of_a_renamed_key_is_read(tmp_path, caplog):
    found = load_rl_config(recipe(tmp_path, bank={"told": "nothing"}))
    assert found.bank.inject == "none"
    assert "'bank.told' is now 'bank.inject', and 'nothing' is 'none'" in caplog.text
    assert load_rl_config(recipe(tmp_path), ["bank.told=nothing"]) == found
    assert load_rl_config(recipe(tmp_path), ["bank.inject=none"]) == found


def test_a_setting_with_an_old_name_is_noted_and_lies_over_the_file(tmp_path, caplog):
    path = written(tmp_path, distil={"tasks": 3, "lessons": 2})
    found = load_config(
        path, ["distil.tasks=4", "evaluation.gate={kind: explore, family_veto: 0.1}"]
    )
    assert (found.distill.tasks, found.distill.lessons) == (4, 2)
    assert found.evaluation.gate.task_type_veto == 0.1
    assert "--set: 'distil' is now 'distill'" in caplog.text
    said = study_settings("openai_chat:m", None, ["distil.lessons=5"])
    assert said.distill.lessons == 5


def test_a_base_may_have_old_names_and_a_child_new_ones(tmp_path):
    written(tmp_path, "base.yaml", distil={"tasks": 3, "lessons": 2})
    child = written(tmp_path, _base_="base.yaml", distill={"tasks": 5})
    found = load_config(child).distill
    assert (found.tasks, found.lessons) == (5, 2)


def test_both_names_at_once_are_refused(tmp_path):
    path = written(tmp_path, distil={"tasks": 3}, distill={"tasks": 3})
    with pytest.raises(ConfigError, match=r"'distil' is now 'distill'; give only that"):
        load_config(path)
    with pytest.raises(ConfigError, match=r"--set: 'distil' is now 'distill'; give only that"):
        load_config(written(tmp_path), ["distil.tasks=3", "distill.lessons=2"])


def test_a_stored_run_with_old_names_resumes_without_a_note(tmp_path, caplog):
    with start_rl(lanes_config(tmp_path)) as run:
        path, config = run.folder.path, run.config
    stored = path / "config.yaml"
    values = yaml.safe_load(stored.read_text("utf-8"))
    values["distil"] = values.pop("distill")
    values["bank"]["told"] = values["bank"].pop("inject")
    stored.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    caplog.set_level(logging.WARNING)
    with open_rl(path) as run:
        assert run.config == config
    assert not caplog.records
