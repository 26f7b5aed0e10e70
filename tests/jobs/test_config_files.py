import contextlib
import logging
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from skillwright.config import RunConfig, dump_config, is_rl_config, load_config
from skillwright.config.yaml_files import dump_yaml, key_paths, merge, nested, read_layers
from skillwright.core import ConfigError
from skillwright.evaluation import ExploreGate, PairedGate, StrictGate
from skillwright.plugins.skillopt.config.keys import KEYS

ROOT = Path(__file__).resolve().parents[2]
MODELS = """
models:
  target: {backend: scripted, model: household}
  optimizer: {backend: scripted, model: analyst}
"""


@pytest.fixture
def write(tmp_path):
    def write_file(name: str, body: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(body, encoding="utf-8")
        return path

    return write_file


def refusal(path, *overrides) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(path, overrides)
    return str(caught.value)


def test_a_file_is_read_and_the_run_is_called_after_it(write):
    config = load_config(write("my first run.yaml", MODELS + "train: {epochs: 2}"))
    assert config.train.epochs == 2
    assert config.run.name == "my-first-run"
    named = load_config(write("b.yaml", MODELS + "run: {name: other}"))
    assert named.run.name == "other"


def test_a_child_is_laid_over_its_base_and_paths_are_relative_to_the_file(write):
    write("base/root.yaml", MODELS + "train: {epochs: 9, batch_size: 9}\nrun: {seed: 9}")
    write("base/middle.yaml", "_base_: root.yaml\ntrain: {batch_size: 5}")
    child = write("child.yaml", "_base_: base/middle.yaml\ntrain: {epochs: 1}")
    config = load_config(child)
    assert (config.train.epochs, config.train.batch_size, config.run.seed) == (1, 5, 9)


def test_another_kind_replaces_its_base_as_a_whole(write):
    write("base.yaml", MODELS + "evaluation: {gate: {kind: paired, draws: 3}}")
    child = write("child.yaml", "_base_: base.yaml\nevaluation: {gate: {kind: strict}}")
    assert load_config(child).evaluation.gate == StrictGate()
    same = write("same.yaml", "_base_: base.yaml\nevaluation: {gate: {task_type_veto: 0.1}}")
    assert load_config(same).evaluation.gate == PairedGate(draws=3, task_type_veto=0.1)


def test_a_circle_of_bases_is_refused_with_its_chain(write):
    a = write("a.yaml", "_base_: sub/b.yaml")
    write("sub/b.yaml", "_base_: ../a.yaml")
    message = refusal(a)
    assert message.startswith("Circular _base_ inheritance: ")
    assert message.count("a.yaml") == 2
    assert "b.yaml" in message
    assert "Circular _base_ inheritance" in refusal(write("self.yaml", "_base_: self.yaml"))


def test_a_missing_file_is_refused_with_the_nearest_one(write, tmp_path):
    write("train.yaml", MODELS)
    write("other.yml", MODELS)
    write("notes.txt", "")
    message = refusal(tmp_path / "trian.yaml")
    assert "there is no config file" in message
    assert "Did you mean 'train.yaml'?" in message
    assert "Known: other.yml, train.yaml." in refusal(tmp_path / "zzz")
    assert "There is no folder" in refusal(tmp_path / "no" / "train.yaml")
    (tmp_path / "empty").mkdir()
    assert "holds no YAML files" in refusal(tmp_path / "empty" / "train.yaml")
    assert "it is a folder" in refusal(tmp_path / "empty")


def test_a_missing_base_is_refused_with_the_file_that_names_it(write):
    message = refusal(write("child.yaml", "_base_: bas.yaml"))
    assert "bas.yaml' (the _base_ of " in message
    assert "child.yaml')" in message


@pytest.mark.parametrize("value", ["[a.yaml, b.yaml]", "3", '""'])
def test_a_base_is_one_path(write, value):
    message = refusal(write("child.yaml", f"_base_: {value}"))
    assert "it is one path, relative to this file" in message


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("train:\n  epochs: [1, 2\nrun: {}", "line 3, column"),
        ("train:\n\tepochs: 1", "line 2, column 1: found character '\\t'"),
        ("train: {epochs: 1}\ntrain: {}", "line 2, column 1: key 'train' stands here twice"),
        ("train:\n  1: x", "line 2, column 3: a key must be text; write '1' in quotes"),
        ("train: *nowhere", "line 1, column 8: found undefined alias"),
        ("run: !!python/object:os.system {}", "could not determine a constructor"),
        ("- a\n- b", "the file holds a list; write sections"),
        ("just words", "the file holds a str"),
        ("a: 2024-99-99", "month must be in 1..12"),
        ("\x07", "special characters are not allowed"),
    ],
)
def test_bad_yaml_is_refused_with_its_place(write, body, words):
    path = write("bad.yaml", body)
    message = refusal(path)
    assert words in message
    assert message.startswith(str(path))


def test_a_file_that_is_not_utf_8_is_refused(tmp_path):
    path = tmp_path / "latin.yaml"
    path.write_bytes(b"run: {name: caf\xe9}")
    assert "is not UTF-8: byte 15 is 0xe9" in refusal(path)


def test_an_empty_file_lacks_its_models(write):
    assert "'models' is missing" in refusal(write("empty.yaml", "# nothing\n"))


def test_numbers_may_have_an_exponent_without_a_point(write):
    config = load_config(write("a.yaml", MODELS + "evaluation: {alpha: 1e-2}"))
    assert config.evaluation.alpha == 0.01


def test_overrides_are_read_as_yaml_and_the_last_one_wins(write):
    config = load_config(
        write("a.yaml", MODELS),
        [
            "train.batch_size=8",
            "train.batch_size=9",
            "evaluation.test=false",
            "evaluation.alpha=1e-2",
            "env.config.rooms=[kitchen, bath]",
            "env.data={kind: generated, train: 12}",
            "skill.init=",
            "run.name=x=y",
            "run.name='7'",
            "evaluation.gate.task_type_veto=0.2",
        ],
    )
    assert (config.train.batch_size, config.evaluation.test, config.evaluation.alpha) == (
        9,
        False,
        0.01,
    )
    assert config.env.config == {"rooms": ["kitchen", "bath"]}
    assert (config.env.data.train, config.env.data.val) == (12, 40)
    assert (config.skill.init, config.run.name) == ("", "7")
    assert config.evaluation.gate == ExploreGate(task_type_veto=0.2)


def test_an_override_may_change_a_kind(write):
    path = write("a.yaml", MODELS + "evaluation: {gate: {kind: paired, draws: 3}}")
    assert load_config(path, ["evaluation.gate.kind=strict"]).evaluation.gate == StrictGate()
    target = "models.target={backend: openai_chat, model: m}"
    assert load_config(path, [target]).models.target.model == "m"


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("train.batch_sise=8", "no key 'train.batch_sise'. Did you mean 'train.batch_size'?"),
        ("trian.batch_size=8", "Did you mean 'train.batch_size'?"),
        ("batch_size=8", "Did you mean 'train.batch_size'?"),
        (
            "train.zzz=8",
            "Known: train.accumulation, train.batch_size, train.epochs, train.patience.",
        ),
        ("zzz=8", "gradient, models, optimizer, rollout,"),
        ("train.batch_size.x=8", "no key 'train.batch_size.x'"),
        ("train.batch_size", "has no '='; write section.key=value"),
        ("train.batch_size=[1", "--set 'train.batch_size=[1', line 1, column"),
        ("train.batch_size=big", "train.batch_size: Input should be a valid integer, not 'big'"),
        ("evaluation.gate={kind: strict, draws: 2}", "unknown key 'evaluation.gate.draws'"),
    ],
)
def test_a_wrong_override_is_refused_with_the_nearest_path(write, override, words):
    assert words in refusal(write("a.yaml", MODELS), override)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
MAPPINGS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


@given(MAPPINGS)
def test_dumped_yaml_is_read_back_as_the_same_values(tmp_path_factory, values):
    path = tmp_path_factory.getbasetemp() / "values.yaml"
    path.write_text(dump_yaml(values), encoding="utf-8")
    (layer,) = read_layers(path)
    assert layer.values == values


@given(MAPPINGS, MAPPINGS)
def test_laying_the_same_values_over_again_changes_nothing(base, child):
    before = repr((base, child))
    merged = merge(base, child)
    assert merge(merged, child) == merged
    assert merge(base, {}) == merge({}, base) == base
    assert repr((base, child)) == before


THEIRS = st.sampled_from([key.flat for key in KEYS] + ["workers", "max_steps", "data_root"])


@given(st.dictionaries(THEIRS, VALUES, min_size=1, max_size=3))
def test_a_wrong_value_in_a_file_of_skillopts_is_a_config_error(tmp_path_factory, values):
    path = tmp_path_factory.getbasetemp() / "junk.yaml"
    sound = {"model_backend": "openai_chat", "env": "alfworld"}
    path.write_text(dump_yaml({**sound, **values}), encoding="utf-8")
    with contextlib.suppress(ConfigError):
        load_config(path)


@given(st.sampled_from([place.path for place in key_paths(RunConfig)]), VALUES)
def test_a_wrong_value_in_a_file_of_ours_is_a_config_error(tmp_path_factory, place, value):
    path = tmp_path_factory.getbasetemp() / "junk.yaml"
    path.write_text(dump_yaml(merge(yaml.safe_load(MODELS), nested(place, value))), "utf-8")
    with contextlib.suppress(ConfigError):
        load_config(path)


def test_a_config_that_was_dumped_loads_as_itself(write, tmp_path):
    config = load_config(write("a.yaml", MODELS + "evaluation: {gate: {kind: strict}}"))
    again = write("runs/a/config.yaml", dump_config(config))
    assert load_config(again) == config


# A job of a cluster is no configuration of a run.
CLUSTER_JOBS = {*(ROOT / "examples").rglob("*_job.yaml")}


def test_every_config_in_the_repository_loads():
    for folder in ("examples", "src/skillwright/jobs"):
        for path in sorted({*(ROOT / folder).rglob("*.yaml")} - CLUSTER_JOBS):
            if not is_rl_config(path):
                load_config(path)


def test_a_file_of_skillopts_is_translated_and_what_has_no_effect_is_said(write, caplog):
    path = write(
        "skillopt.yaml",
        "model: {backend: openai_chat, optimizer: gpt-a, target: gpt-b}\n"
        "train: {num_epochs: 2}\n"
        "env: {name: alfworld}\n",
    )
    with caplog.at_level(logging.WARNING):
        config = load_config(path, ["train.batch_size=7"])
    assert (config.models.target.model, config.models.optimizer.model) == ("gpt-b", "gpt-a")
    assert (config.train.epochs, config.train.batch_size) == (2, 7)
    assert config.run.name == "skillopt"
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        f"{path}: optimizer.slow_update_gate_with_selection is false, which is the default of "
        "SkillOpt's base file: guidance enters the current skill unmeasured. Write true, and the "
        "gate judges it."
    ]


@pytest.mark.parametrize("ratio", ["1:1:1", "4:1:5", "2:1:7", "10:30:60", "70:20:10"])
def test_a_ratio_is_a_ratio_and_no_number_to_the_base_of_sixty(write, ratio):
    data = f"{{kind: ratio, path: x, ratio: {ratio}}}"
    path = write("ratio.yaml", f"{MODELS}env: {{name: qa, data: {data}}}\n")
    assert load_config(path).env.data.ratio == ratio
    other = "3:3:4"
    assert load_config(path, [f"env.data.ratio={other}"]).env.data.ratio == other
    again = write("again.yaml", dump_config(load_config(path, [f"env.data.ratio={ratio}"])))
    assert load_config(again).env.data.ratio == ratio


def test_numbers_texts_and_times_are_what_they_look_like(write):
    text = (
        "a: 17\nb: -3\nc: 1_000\nd: 1e-3\ne: 12:30\nf: -1:30.5\ng: 1.5\nh: 0x1F\ni: '1:1'\nj: x:1\n"
    )
    assert read_layers(write("values.yaml", text))[-1].values == {
        "a": 17,
        "b": -3,
        "c": 1000,
        "d": 0.001,
        "e": "12:30",
        "f": "-1:30.5",
        "g": 1.5,
        "h": 31,
        "i": "1:1",
        "j": "x:1",
    }
