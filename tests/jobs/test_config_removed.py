"""Keys that were removed: refused with what holds now, and kept where a stored run has them."""

import importlib.util
from pathlib import Path

import pytest
import yaml

from doors import doors_config
from rl_world import lanes_config
from skillwright.config import RlConfig, RunConfig, dump_config, load_config, load_rl_config
from skillwright.config.removed import REMOVED, why_removed
from skillwright.config.yaml_files import key_paths
from skillwright.core import ConfigError
from skillwright.jobs import open_run, read_run, start_run
from skillwright.jobs.weights import open_rl, start_rl

ROOT = Path(__file__).parents[2]
MODELS = {
    "target": {"backend": "scripted", "model": "household"},
    "optimizer": {"backend": "scripted", "model": "analyst"},
}
MOST_KEYS = (
    # 180, and for what was not there: a table's split_column and encoding, trackers,
    # cold_start.expert_reads and .demonstrations, context and threads of a local model,
    # policy.optimizer and .start, evaluation.baseline; policy steps (grpo.gate_every), and
    # internalize with ten; policy.sampler; rollout.engine and rollout.ray with three;
    # train.speculate and models.*.hedge
    190 + 16 + 2
)


def written(folder, **sections):
    path = folder / "a.yaml"
    path.write_text(yaml.safe_dump({"models": MODELS, **sections}), encoding="utf-8")
    return path


def edited(path, change):
    """Change a stored configuration, as an older version would have written it."""
    values = yaml.safe_load((path / "config.yaml").read_text("utf-8"))
    change(values)
    (path / "config.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")


def test_a_configuration_has_few_keys():
    file = ROOT / "docs" / "generate_configuration.py"
    found = importlib.util.spec_from_file_location("generate_configuration", file)
    generator = importlib.util.module_from_spec(found)
    found.loader.exec_module(generator)
    assert len(generator.keys()) <= MOST_KEYS


def test_no_removed_key_is_one_that_may_be_set():
    known = {place.path for kind in (RunConfig, RlConfig) for place in key_paths(kind)}
    known |= {path.replace(".target.", ".*.") for path in known}
    assert not {row.key for row in REMOVED} & known


def test_a_removed_key_is_refused_with_what_holds_now_and_what_to_use(tmp_path):
    path = written(tmp_path, optimizer={"rank_fallback": "order"}, rollout={"mode": "lockstep"})
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    first, second = str(caught.value).splitlines()
    assert first.startswith(f"{path}: key 'optimizer.rank_fallback' was removed: it is now always")
    assert "support. run.parity: true does as SkillOpt does" in first
    assert second.endswith("key 'rollout.mode' was removed: it is now always free.")
    with pytest.raises(ConfigError, match=r"--set .*key 'models\.target\.top_k' was removed"):
        load_config(written(tmp_path), ["models.target.top_k=3"])


def test_a_removed_key_with_the_value_that_holds_says_nothing_new(tmp_path):
    plain = load_config(written(tmp_path))
    said = {"rank_fallback": "support", "memory_steps": 64, "none_means_fixed": False}
    assert load_config(written(tmp_path, optimizer=said)) == plain
    assert "rank_fallback" not in dump_config(plain)


def test_a_file_with_every_removed_key_at_what_holds_means_the_same(tmp_path):
    skill_aware = {"optimizer": {"skill_aware": {}}}
    plain = written(tmp_path, evaluation={"gate": {"kind": "strict"}}, **skill_aware)
    values = yaml.safe_load(plain.read_text("utf-8"))
    for row in REMOVED:
        *sections, leaf = row.key.split(".")
        if sections[0] in {"gradient", "optimizer", "evaluation", "rollout", "bank", "distill"}:
            place = values
            for section in sections:
                place = place.setdefault(section, {})
            place[leaf] = row.now
    (tmp_path / "old").mkdir()
    assert load_config(written(tmp_path / "old", **values)) == load_config(plain)


def test_what_parity_brings_may_be_said_in_parity_only(tmp_path):
    there = {"optimizer": {"rank_fallback": "order"}}
    in_parity = load_config(written(tmp_path, run={"parity": True}, **there))
    assert in_parity == load_config(written(tmp_path, run={"parity": True}))
    assert in_parity.optimizer.rank_fallback == "order"
    with pytest.raises(ConfigError, match="rank_fallback"):
        load_config(written(tmp_path, run={"parity": True}, optimizer={"rank_fallback": "support"}))


def test_a_run_of_an_earlier_version_goes_on_with_its_settings(tmp_path):
    config = doors_config(tmp_path, optimizer={"rank_fallback": "order", "memory_steps": 3})
    with start_run(config, "") as run:
        path = run.folder.path
    with open_run(path) as run:
        assert run.config == config
    assert load_config(path / "config.yaml").optimizer.memory_steps == 3


def test_a_run_with_a_setting_that_no_class_has_is_shown_and_not_resumed(tmp_path):
    with start_rl(lanes_config(tmp_path)) as run:
        path = run.folder.path
    edited(path, lambda values: values["grpo"].update(dual_clip=5.0, clip_low=0.2))
    assert load_rl_config(path / "config.yaml") == run.config
    assert read_run(path).rl is not None
    with pytest.raises(ConfigError, match="Resume it with the version that began it") as caught:
        open_rl(path)
    assert "'grpo.dual_clip' was removed: it is now always 3.0" in str(caught.value)
    assert "clip_low" not in str(caught.value)


@pytest.mark.parametrize(
    ("load", "sections", "command"),
    [
        (load_config, {"grpo": {"iterations": 3}}, "rl"),
        (load_rl_config, {"train": {"epochs": 1}}, "train"),
        (load_rl_config, {}, "train"),
    ],
)
def test_a_file_of_the_other_kind_names_the_command_that_takes_it(
    tmp_path, load, sections, command
):
    path = tmp_path / "file.yaml"
    given = sections if command == "rl" else {"models": MODELS, **sections}
    path.write_text(yaml.safe_dump(given), encoding="utf-8")
    with pytest.raises(ConfigError, match=f"run `skillwright {command} ") as caught:
        load(path)
    assert "unknown key" not in str(caught.value)


def test_every_removed_key_says_what_holds():
    assert all(why_removed(row.key.replace("*", "target")) for row in REMOVED)
    assert "always no_skills and other_scope" in why_removed("evaluation.controls")
