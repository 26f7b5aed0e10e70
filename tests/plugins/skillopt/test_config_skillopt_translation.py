import pytest

from skillwright.config.env import AlfworldData, RatioData, SplitDirData
from skillwright.config.run import validated
from skillwright.core import ConfigError
from skillwright.evaluation import OpenGate, StrictGate
from skillwright.plugins.skillopt.config.files import translate


def translated(resolved, *layers, environ=None):
    values, warnings = translate(resolved(*layers), environ or {})
    return validated(values, "SkillOpt configuration"), warnings


def test_what_both_know_is_carried_over(resolved):
    config, warnings = translated(
        resolved,
        {
            "model": {
                "backend": "openai_chat",
                "optimizer": "big",
                "target": "small",
                "rewrite_max_completion_tokens": 32000,
            },
            "train": {"num_epochs": 2, "batch_size": 10, "accumulation": 2, "seed": 7},
            "gradient": {"minibatch_size": 4, "merge_batch_size": 3, "failure_only": True}
            | {"analyst_workers": 3},
            "optimizer": {
                "learning_rate": 8,
                "min_learning_rate": 1,
                "lr_scheduler": "linear",
                "lr_control_mode": "auto",
                "skill_update_mode": "rewrite",
                "use_slow_update": False,
                "slow_update_samples": 9,
                "slow_update_gate_with_selection": True,
                "longitudinal_pair_policy": "10_01",
                "use_meta_skill": False,
                "use_skill_aware_reflection": True,
                "skill_aware_appendix_source": "failure_only",
                "skill_aware_consolidate_threshold": 12,
            },
            "evaluation": {
                "gate_metric": "mixed",
                "gate_mixed_weight": 0.25,
                "sel_env_num": 30,
                "eval_test": False,
            },
            "env": {
                "name": "mine",
                "data_path": "items.json",
                "split_ratio": "4:2:4",
                "split_seed": 0,
                "skill_init": "s.md",
                "out_root": "out/first",
                "exec_timeout": 30,
                "workers": 12,
                "max_steps": 20,
                "max_completion_tokens": 999,
                "image_detail": "low",
            },
        },
    )
    assert warnings == []
    assert (config.run.root, config.run.name, config.run.seed) == ("out", "first", 7)
    assert (config.train.epochs, config.train.batch_size, config.train.accumulation) == (2, 10, 2)
    assert config.gradient.model_dump() == {
        "minibatch_size": 4,
        "merge_batch_size": 3,
        "failure_only": True,
        "success_threshold": None,
        "analyst_budget": "scheduled",
        "analyst_workers": 3,
    }
    only_ours = {
        "repair_anchors",
        "insert_after_fallback",
        "replies_as_written",
        "memory_steps",
        "memory_across_epochs",
        "none_means_fixed",
        "rank_fallback",
    }
    assert config.optimizer.model_dump(exclude=only_ours) == {
        "learning_rate": 8,
        "min_learning_rate": 1,
        "lr_scheduler": "linear",
        "lr_control_mode": "autonomous",
        "skill_update_mode": "rewrite_from_suggestions",
        "rewrite_max_tokens": 32000,
        "use_slow_update": False,
        "slow_update_samples": 9,
        "gate_slow_update": True,
        "longitudinal_pair_policy": "changed",
        "use_meta_skill": False,
        "skill_aware": {
            "appendix_source": "failure_only",
            "consolidate_threshold": 12,
            "gated": True,
        },
    }
    assert config.evaluation.gate == StrictGate(metric="mixed", mixed_weight=0.25)
    assert (config.evaluation.val_tasks, config.evaluation.test_tasks) == (30, None)
    assert config.evaluation.test is False
    assert config.env.data == RatioData(path="items.json", ratio="4:2:4", seed=7)
    assert (config.env.max_turns, config.env.config) == (20, {"image_detail": "low"})
    assert (config.skill.init, config.rollout.max_concurrent) == ("s.md", 12)
    target = config.models.target
    assert (target.model, target.timeout_s, target.max_tokens) == ("small", 30, 999)
    assert (target.reasoning_effort, target.base_url) == ("medium", "https://api.openai.com/v1")
    assert config.models.optimizer.model == "big"


def test_what_the_shipped_defaults_ask_of_the_learner_is_done(resolved):
    config, _ = translated(resolved, {"model_backend": "openai_chat", "env": "alfworld"})
    learner = config.optimizer
    assert (learner.use_slow_update, learner.slow_update_samples) == (True, 20)
    assert (learner.use_meta_skill, learner.longitudinal_pair_policy) == (True, "mixed")
    assert (learner.lr_control_mode, learner.skill_update_mode) == ("fixed", "patch")
    assert learner.rewrite_max_tokens == 64000


@pytest.mark.parametrize(
    ("key", "theirs", "ours"),
    [
        ("skill_update_mode", "edits", "patch"),
        ("skill_update_mode", "rewrite", "rewrite_from_suggestions"),
        ("skill_update_mode", "suggestions", "rewrite_from_suggestions"),
        ("skill_update_mode", "rewrite_suggestions", "rewrite_from_suggestions"),
        ("skill_update_mode", "full_rewrite", "full_rewrite_minibatch"),
        ("skill_update_mode", "minibatch_full_rewrite", "full_rewrite_minibatch"),
        ("skill_update_mode", "skill_rewrite_minibatch", "full_rewrite_minibatch"),
        ("lr_control_mode", "manual", "fixed"),
        ("lr_control_mode", "scheduler", "fixed"),
        ("lr_control_mode", "scheduled", "fixed"),
        ("lr_control_mode", "auto", "autonomous"),
        ("lr_control_mode", "optimizer", "autonomous"),
        ("lr_control_mode", "off", "none"),
        ("lr_control_mode", "no_lr", "none"),
        ("longitudinal_pair_policy", "change", "changed"),
        ("longitudinal_pair_policy", "delta", "changed"),
        ("longitudinal_pair_policy", "01_10", "changed"),
        ("longitudinal_pair_policy", "stable", "unchanged"),
        ("longitudinal_pair_policy", "same", "unchanged"),
        ("longitudinal_pair_policy", "00_11", "unchanged"),
    ],
)
def test_an_alias_of_a_mode_is_carried_over_under_its_name(resolved, key, theirs, ours):
    base = {"model": {"backend": "openai_chat"}, "env": {"name": "alfworld"}}
    config, _ = translated(resolved, {**base, "optimizer": {key: theirs}})
    assert getattr(config.optimizer, key) == ours


ALFWORLD = {"model": {"backend": "openai_chat"}, "env": {"name": "alfworld"}}


@pytest.mark.parametrize(("value", "said"), [(False, True), (True, False)])
def test_an_unmeasured_slow_update_is_done_as_there_and_said(resolved, value, said):
    layer = {**ALFWORLD, "optimizer": {"slow_update_gate_with_selection": value}}
    config, warnings = translated(resolved, layer)
    assert config.optimizer.gate_slow_update is value
    assert any("enters the current skill unmeasured" in warning for warning in warnings) is said
    assert translated(resolved, ALFWORLD)[0].optimizer.gate_slow_update is False
    unused = {**layer, "optimizer": {**layer["optimizer"], "use_slow_update": False}}
    assert translated(resolved, unused)[1] == []


def test_a_file_without_a_gate_gets_the_open_one(resolved):
    layer = {**ALFWORLD, "evaluation": {"use_gate": False, "gate_metric": "soft"}}
    config, warnings = translated(resolved, layer)
    assert config.evaluation.gate == OpenGate(metric="soft")
    assert not [warning for warning in warnings if "gate_metric" in warning]
    assert translated(resolved, ALFWORLD)[0].evaluation.gate == StrictGate()


def test_skill_aware_reflection_is_off_unless_the_file_turns_it_on(resolved):
    layer = {**ALFWORLD, "optimizer": {"skill_aware_consolidate_threshold": 12}}
    assert translated(resolved, layer)[0].optimizer.skill_aware is None


def test_the_scheduler_without_a_schedule_asks_for_the_budget(resolved):
    layer = {**ALFWORLD, "optimizer": {"lr_scheduler": "Autonomous"}}
    config, warnings = translated(resolved, layer)
    assert config.optimizer.lr_control_mode == "autonomous"
    assert any("asked for each step's budget" in warning for warning in warnings)


def test_alfworld_reads_the_official_games_unless_items_are_named(resolved):
    openai = {"model_backend": "openai_chat", "env": "alfworld"}
    config, _ = translated(resolved, {**openai, "train_size": 39, "data_root": "/d"})
    assert config.env.data == AlfworldData(root="/d", train=39)
    config, _ = translated(resolved, {**openai, "split_mode": "split_dir", "split_dir": "s"})
    assert config.env.data == SplitDirData(path="s")


def test_what_has_no_effect_here_is_said(resolved):
    _, warnings = translated(
        resolved,
        {
            "model": {"azure_openai_ad_scope": "sk-secret", "codex_exec_profile": "p"},
            "train": {"train_size": 5, "steps_per_epoch": 9},
            "gradient": {"max_analyst_rounds": 3},
            "optimizer": {"meta_learning_rate": 2, "use_slow_update": False},
            "env": {"name": "mine", "data_path": "x.json", "split_sed": 3},
        },
    )
    text = "\n".join(warnings)
    for dotted in (
        "model.azure_openai_ad_scope",
        "model.codex_exec_profile",
        "train.steps_per_epoch",
        "train.train_size",
        "gradient.max_analyst_rounds",
        "optimizer.meta_learning_rate",
    ):
        assert f"{dotted} has no effect here: " in text
    assert "env.split_sed is passed on to the environment. Did you mean 'env.split_seed'?" in text
    assert "no azure_openai_endpoint is set for the target: OpenAI's own endpoint is used" in text
    assert "sk-secret" not in text
    assert len(warnings) == 9


def test_settings_that_alfworld_does_not_have_are_said(resolved):
    _, warnings = translated(
        resolved,
        {"model_backend": "openai_chat", "env": "alfworld", "shuffle_choices": True},
    )
    assert "env.shuffle_choices has no effect here: alfworld has no such setting." in warnings


def test_words_count_in_the_gate_where_a_file_asks_for_it(resolved):
    asked = {"use_semantic_density": True, "semantic_density_weight": 0.2, "leading_words": "a, b"}
    config, warnings = translated(resolved, {"evaluation": asked, "env": {"name": "alfworld"}})
    gate = config.evaluation.gate
    assert (gate.density_weight, gate.leading_words) == (0.2, ["a", "b"])
    assert not [warning for warning in warnings if "density" in warning]
    assert translated(resolved, {"env": "alfworld"})[0].evaluation.gate.density_weight == 0.0


def test_a_compatible_endpoint_may_be_in_the_file(resolved):
    model = {
        "backend": "openai_compatible",
        "openai_compatible_base_url": "https://shared/v1",
        "target_openai_compatible_base_url": "https://own/v1",
        "target_openai_compatible_timeout_seconds": 180.0,
        "openai_compatible_model": "m",
    }
    config, _ = translated(resolved, {"model": model, "env": {"name": "alfworld"}})
    target, optimizer = config.models.target, config.models.optimizer
    assert (target.base_url, target.model, target.timeout_s) == ("https://own/v1", "m", 180.0)
    assert (optimizer.base_url, optimizer.model) == ("https://shared/v1", "m")


def test_azure_may_be_signed_in_to(resolved):
    layer = {
        "env": {"name": "alfworld"},
        "model": {
            "azure_openai_endpoint": "https://a.openai.azure.com/",
            "azure_openai_auth_mode": "managed_identity",
        },
    }
    config, warnings = translated(resolved, layer)
    assert config.models.target.key_header == "managed_identity"
    assert not config.models.target.needs_key
    assert not [warning for warning in warnings if "azure" in warning.lower()]


def test_azure_is_reached_by_its_v1_route(resolved):
    config, warnings = translated(
        resolved,
        {
            "env": "alfworld",
            "azure_openai_endpoint": "https://a.openai.azure.com/",
            "azure_openai_api_key": "k",
            "target_azure_openai_endpoint": "https://plain/v1",
            "target_azure_openai_auth_mode": "openai_compatible",
            "reasoning_effort": "",
        },
    )
    optimizer, target = config.models.optimizer, config.models.target
    assert optimizer.base_url == "https://a.openai.azure.com/openai/v1"
    assert optimizer.api_key_env == "AZURE_OPENAI_API_KEY"
    assert optimizer.api_key.get_secret_value() == "k"
    assert optimizer.reasoning_effort is None
    assert target.base_url == "https://plain/v1"
    assert not [warning for warning in warnings if "azure" in warning.lower()]


def test_an_openai_compatible_backend_takes_its_base_url_from_the_environment(resolved):
    layer = {"model": {"backend": "compat", "target": "m"}, "env": {"name": "alfworld"}}
    environ = {
        "OPENAI_COMPATIBLE_BASE_URL": "http://shared/v1",
        "TARGET_OPENAI_COMPATIBLE_BASE_URL": "http://own/v1",
        "TARGET_OPENAI_COMPATIBLE_API_KEY": "sk-own",
    }
    config, _ = translated(resolved, layer, environ=environ)
    assert config.models.target.base_url == "http://own/v1"
    assert config.models.target.api_key_env == "TARGET_OPENAI_COMPATIBLE_API_KEY"
    assert config.models.optimizer.base_url == "http://shared/v1"
    assert config.models.optimizer.api_key_env == "OPENAI_API_KEY"  # a server that needs none
    with pytest.raises(ConfigError, match="environment variable OPENAI_COMPATIBLE_BASE"):
        translated(resolved, layer, environ={"PATH": ""})


@pytest.mark.parametrize(
    ("said", "thinking"),
    [
        ({}, "server_default"),
        ({"qwen_chat_thinking_mode": "server_default"}, "server_default"),
        ({"qwen_chat_thinking_mode": "disabled"}, "disabled"),
        (
            {"target_qwen_chat_enable_thinking": True, "qwen_chat_enable_thinking": False},
            "enabled",
        ),
    ],
)
def test_qwen_is_reached_with_its_thinking_switch(resolved, said, thinking):
    shared = {"qwen_chat_timeout_seconds": 900, "target_qwen_chat_temperature": 0.0}
    layer = {"model": {"backend": "qwen", **shared, **said}, "env": {"name": "alfworld"}}
    target = translated(resolved, layer)[0].models.target
    assert (target.base_url, target.model) == ("http://localhost:8000/v1", "Qwen/Qwen3.5-4B")
    assert (target.temperature, target.timeout_s, target.deadline_s) == (0.0, 900, 900)
    assert (target.backend, target.thinking) == ("qwen_chat", thinking)
    assert target.api_key_env == "QWEN_CHAT_API_KEY"


def test_minimax_is_reached_with_what_the_file_says(resolved):
    said = {"minimax_region": "cn_zh", "minimax_temperature": 0.3, "minimax_api_key": "k"}
    layer = {"model": {"backend": "minimax", **said}, "env": {"name": "alfworld"}}
    target = translated(resolved, layer)[0].models.target
    assert (target.backend, target.model, target.temperature) == ("minimax_chat", "MiniMax-M3", 0.3)
    assert (target.base_url, target.thinking) == ("https://api.minimaxi.com/v1", "disabled")
    assert target.max_tokens is None
    assert target.api_key.get_secret_value() == "k"
    layer["model"] |= {"minimax_max_tokens": 9000, "target_minimax_model": "MiniMax-M2"}
    target = translated(resolved, layer)[0].models.target
    assert (target.model, target.max_tokens) == ("MiniMax-M2", 9000)
    assert target.thinking == "server_default"


def test_codex_acts_and_proposes_with_what_the_file_says(resolved):
    said = {
        "codex_exec_path": "/opt/codex",
        "codex_exec_sandbox": "workspace-write",
        "codex_exec_reasoning_effort": "high",
        "codex_exec_network_access": True,
        "codex_exec_web_search": "disabled",
    }
    layer = {"model": {"backend": "codex", "target": "t", **said}, "env": {"name": "alfworld"}}
    layer["env"] |= {"exec_timeout": 240, "max_completion_tokens": 99}
    config, warnings = translated(resolved, layer)
    target, optimizer = config.models.target, config.models.optimizer
    assert (target.backend, target.model, target.timeout_s) == ("codex_exec", "t", 240)
    assert (target.path, target.effort, target.sandbox) == (
        "/opt/codex",
        "high",
        "workspace-write",
    )
    assert (target.network, target.web_search) == (True, False)
    # What a target may do, nobody granted to the optimizer.
    assert (optimizer.backend, optimizer.path, optimizer.effort) == (
        "codex_exec",
        "/opt/codex",
        "high",
    )
    assert (optimizer.sandbox, optimizer.network, optimizer.timeout_s) == ("read-only", False, 600)
    assert not [line for line in warnings if "codex" in line]


def test_claude_code_acts_and_leaves_the_optimizer_to_an_endpoint(resolved, monkeypatch):
    layer = {"model": {"backend": "claude_code_exec"}, "env": {"name": "alfworld"}}
    target = translated(resolved, layer)[0].models.target
    assert (target.backend, target.model) == ("claude_code_exec", "claude-sonnet-4-6")
    assert (target.path, target.effort, target.timeout_s) == ("claude", "medium", 120)
    assert translated(resolved, layer)[0].models.optimizer.backend == "openai_chat"
    monkeypatch.setenv("CLAUDE_CODE_EXEC_PATH", "/opt/claude")
    assert translated(resolved, layer)[0].models.target.path == "/opt/claude"
    layer["model"] |= {"claude_code_exec_path": "/own/claude", "claude_code_exec_effort": "low"}
    target = translated(resolved, layer)[0].models.target
    assert (target.path, target.effort) == ("/own/claude", "low")


def test_claude_is_reached_by_its_api_and_that_is_said(resolved):
    layer = {"model": {"backend": "claude"}, "env": {"name": "alfworld"}}
    config, warnings = translated(resolved, layer)
    for role in ("target", "optimizer"):
        llm = getattr(config.models, role)
        assert (llm.backend, llm.model) == ("claude_chat", "claude-sonnet-4-6")
        assert any(f"the {role} is reached by Anthropic's API" in line for line in warnings)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"model": {"target_backend": "cursor"}}, "model.target_backend is 'cursor_exec'"),
        ({"model": {"optimizer_backend": "copilot"}}, "use 'openai_chat' or 'claude_chat'"),
        ({"model": {"optimizer_backend": "claude_code_exec"}}, "'claude_code_exec' only acts"),
        (
            {"model": {"backend": "codex", "codex_exec_network_access": True}},
            "network: true needs sandbox: workspace-write",
        ),
        (
            {"optimizer": {"skill_update_mode": "rewrites"}},
            "optimizer.skill_update_mode is 'rewrites'. Known: full_rewrite_minibatch, patch",
        ),
        ({"optimizer": {"lr_scheduler": "cosin"}}, "'optimizer.lr_scheduler' is 'cosin'"),
        ({"train": {"batch_size": "many"}}, "train.batch_size: Input should be a valid integer"),
        ({"env": {"name": ""}}, "env.name is blank"),
        ({"env": {"name": "mine"}}, "env.data_path is blank"),
        ({"env": {"name": "mine", "split_mode": "split_dir"}}, "env.split_dir is blank"),
        ({"env": {"name": "mine", "split_mode": "x"}}, "must be 'ratio' or 'split_dir', not 'x'"),
    ],
)
def test_what_cannot_run_here_is_refused(resolved, said, words):
    base = {"model": {"target": "m"}, "env": {"name": "alfworld"}}
    with pytest.raises(ConfigError, match=words):
        translated(resolved, base, said)
