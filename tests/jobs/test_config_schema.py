import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from skillwright.config import RunConfig, dump_config
from skillwright.config.env import AlfworldData, GeneratedData, RatioData
from skillwright.config.run import TrainSection, validated
from skillwright.config.yaml_files import key_paths
from skillwright.core import ConfigError
from skillwright.evaluation import ExploreGate, StrictGate

SCRIPTED = {
    "target": {"backend": "scripted", "model": "household"},
    "optimizer": {"backend": "scripted", "model": "analyst"},
}


def config(**sections) -> RunConfig:
    return validated({"models": SCRIPTED, **sections}, "run.yaml")


def refusal(**sections) -> str:
    with pytest.raises(ConfigError) as caught:
        config(**sections)
    return str(caught.value)


def test_only_the_models_must_be_given():
    plain = config()
    assert (plain.run.seed, plain.train.epochs, plain.train.batch_size) == (42, 4, 40)
    assert (plain.gradient.minibatch_size, plain.gradient.merge_batch_size) == (8, 8)
    assert (plain.optimizer.learning_rate, plain.optimizer.min_learning_rate) == (4, 2)
    assert plain.optimizer.lr_scheduler == "cosine"
    assert plain.evaluation.gate == ExploreGate()
    assert plain.env.data == GeneratedData()
    assert "'models' is missing" in _explained({})


def _explained(values) -> str:
    with pytest.raises(ConfigError) as caught:
        validated(values, "run.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"trian": {}}, "run.yaml: unknown key 'trian'. Did you mean 'train'?"),
        ({"train": {"epoch": 1}}, "unknown key 'train.epoch'. Did you mean 'epochs'?"),
        (
            {"train": {"epochs": "four"}},
            "train.epochs: Input should be a valid integer, not 'four'",
        ),
        ({"train": {"epochs": True}}, "train.epochs: Input should be a valid integer, not True"),
        ({"train": {"epochs": 0}}, "train.epochs: Input should be greater than 0, not 0"),
        ({"train": 5}, "train: Input should be a valid dictionary"),
        ({"train": None}, "train: Input should be a valid dictionary"),
        ({"run": {"name": 7}}, "run.name: Input should be a valid string, not 7"),
        ({"run": {"name": "../up"}}, "run.name: '../up' cannot name a run's folder"),
        ({"gradient": {"merge_batch_size": 1}}, "greater than or equal to 2, not 1"),
        (
            {"optimizer": {"lr_scheduler": "cosin"}},
            "'optimizer.lr_scheduler' is 'cosin'. Did you mean 'cosine'?",
        ),
        (
            {"optimizer": {"learning_rate": 2, "min_learning_rate": 3}},
            "optimizer: min_learning_rate (3) exceeds learning_rate (2); swap them",
        ),
        (
            {"evaluation": {"gate": {"kind": "pared"}}},
            "evaluation.gate: no gate 'pared'. Did you mean 'paired'?",
        ),
        (
            {"evaluation": {"gate": {"kind": "strict", "draws": 2}}},
            "unknown key 'evaluation.gate.draws'",
        ),
        ({"evaluation": {"gate": {"drows": 2}}}, "Did you mean 'draws'?"),
        ({"evaluation": {"alpha": 0.5}}, "evaluation.alpha: Input should be less than 0.5"),
        ({"evaluation": {"alpha": float("nan")}}, "evaluation.alpha"),
        ({"env": {"data": {"kind": "ratio"}}}, "'env.data.path' is missing"),
        (
            {"env": {"name": "mine", "data": {"kind": "ratio", "path": "x", "ratio": "2:1"}}},
            "env.data.ratio: split_ratio must be in train:val:test form",
        ),
        (
            {"env": {"name": "mine:Env"}},
            "env: data.kind 'generated' gives games of 'alfworld', and the environment is 'mine:",
        ),
        (
            {"env": {"name": "alfwrld"}},
            "env: no environment 'alfwrld'. Did you mean 'alfworld'?",
        ),
        (
            {"models": {**SCRIPTED, "target": SCRIPTED["optimizer"]}},
            "models: the scripted 'analyst' cannot be the target; use 'household' there",
        ),
        (
            {"models": {**SCRIPTED, "target": {"backend": "openai_chat", "modle": "m"}}},
            "unknown key 'models.target.modle'. Did you mean 'model'?",
        ),
    ],
)
def test_a_wrong_setting_is_refused_with_its_path_and_the_right_name(sections, words):
    assert words in refusal(**sections)


def test_every_problem_has_a_line_of_its_own():
    lines = refusal(train={"epoch": 1, "batch_size": -1}).splitlines()
    assert len(lines) == 2
    assert all(line.startswith("run.yaml: ") for line in lines)


def test_a_key_that_should_be_secret_is_never_shown():
    target = {"backend": "openai_chat", "model": "m", "api_key": ["sk-secret"]}
    assert "sk-secret" not in refusal(models={**SCRIPTED, "target": target})


def test_a_gate_on_too_few_games_is_refused_before_anything_runs():
    few, paired = {"data": {"kind": "generated", "val": 7}}, {"gate": {"kind": "paired"}}
    said = refusal(env=few, evaluation=paired)
    assert "the paired gate cannot prove a gain on 7 val tasks: at alpha = 0.0071" in said
    assert "(7 decisions share 0.05) it takes at least 8" in said
    assert "takes at least 8" in refusal(evaluation={**paired, "val_tasks": 5})
    assert config(env=few, evaluation={"gate": {"kind": "strict"}}).env.data.val == 7
    many_steps = {"epochs": 40, "batch_size": 10}
    said = refusal(env={"data": {"val": 11}}, train=many_steps, evaluation=paired)
    assert "199 decisions" in said
    assert config(env={"data": {"val": 12}}, train=many_steps, evaluation=paired)


def test_a_release_test_on_too_few_games_is_refused_whatever_the_number_of_steps():
    few = {"data": {"kind": "generated", "val": 7}}
    said = "release test cannot prove a gain on 7 val tasks: at alpha = 0.03 it takes at least 8"
    many_steps = {"epochs": 40, "batch_size": 10}
    assert said in refusal(env=few)
    assert said in refusal(env=few, train=many_steps)
    assert "on 5 val tasks" in refusal(evaluation={"val_tasks": 5})
    assert config(env={"data": {"val": 8}}, train=many_steps)
    # Six tenths of alpha are for the first test: 2^-11 is below 0.0006, and 2^-10 is not.
    strict = {"alpha": 0.001}
    assert "takes at least 11" in refusal(env={"data": {"val": 10}}, evaluation=strict)
    assert config(env={"data": {"val": 11}}, evaluation=strict)


def test_every_step_and_every_slow_update_after_the_first_epoch_is_a_decision():
    train = {"epochs": 3, "batch_size": 10}
    assert config(train=train).decisions(25) == 3 * 3 + 2
    assert config(train=train, optimizer={"use_slow_update": False}).decisions(25) == 3 * 3
    assert config(train=train, optimizer={"use_meta_skill": False}).decisions(25) == 3 * 3 + 2
    assert config(train={**train, "epochs": 1}).decisions(25) == 3


@pytest.mark.parametrize(
    ("optimizer", "words"),
    [
        ({"skill_update_mode": "rewrite"}, "optimizer.skill_update_mode"),
        ({"lr_control_mode": "auto"}, "optimizer.lr_control_mode"),
        ({"longitudinal_pair_policy": "delta"}, "optimizer.longitudinal_pair_policy"),
        ({"slow_update_samples": 0}, "optimizer.slow_update_samples"),
        ({"rewrite_max_tokens": 0}, "optimizer.rewrite_max_tokens"),
        ({"use_slow_updates": True}, "optimizer.use_slow_update"),
    ],
)
def test_a_mode_that_is_not_ours_is_refused_by_its_key(optimizer, words):
    assert words in refusal(optimizer=optimizer)


def test_kinds_have_their_own_settings():
    strict = {"kind": "strict", "margin": 0.02, "metric": "mixed", "mixed_weight": 0.25}
    built = config(
        env={"name": "mine", "data": {"kind": "ratio", "path": "items.json"}},
        evaluation={"gate": strict},
    )
    assert built.env.data == RatioData(path="items.json", ratio="2:1:7", seed=42)
    gate = StrictGate(margin=0.02, metric="mixed", mixed_weight=0.25)
    assert built.evaluation.gate == gate
    official = config(env={"data": {"kind": "alfworld_data", "train": 39}})
    assert official.env.data == AlfworldData(train=39)


def test_a_config_is_frozen():
    with pytest.raises(ValueError, match="frozen"):
        config().train.epochs = 5


@given(st.integers(1, 500), st.integers(1, 64), st.integers(1, 4))
def test_an_epoch_has_as_many_steps_as_its_tasks_fill(tasks, batch_size, accumulation):
    steps = TrainSection(batch_size=batch_size, accumulation=accumulation).steps_per_epoch(tasks)
    assert (steps - 1) * batch_size * accumulation < tasks <= steps * batch_size * accumulation


def test_a_dump_is_read_back_as_the_same_config():
    original = config(
        run={"name": "a.b-c", "seed": 1},
        env={"config": {"show_admissible": False, "odd": ["1e-3", "yes", "no: 1", None, 1e-7]}},
        evaluation={"gate": {"task_type_veto": 0.1}},
    )
    assert validated(yaml.safe_load(dump_config(original)), "again") == original


def test_a_dump_holds_no_key():
    target = {"backend": "openai_chat", "model": "m", "api_key": "sk-secret"}
    built = config(models={**SCRIPTED, "target": target})
    assert built.models.target.api_key.get_secret_value() == "sk-secret"
    assert "sk-secret" not in dump_config(built)
    assert "api_key:" not in dump_config(built)


def test_every_path_of_the_schema_is_listed_once():
    paths = [place.path for place in key_paths(RunConfig)]
    assert len(paths) == len(set(paths))
    assert {"train", "train.batch_size", "env.data.path", "models.target.prices"} <= set(paths)
    open_ = {place.path for place in key_paths(RunConfig) if place.is_open}
    assert "env.config" in open_
    assert "models.target.extra_body" in open_
    assert "train" not in open_
