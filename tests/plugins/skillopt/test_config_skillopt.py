import pytest

from skillwright.config import RunConfig
from skillwright.config.yaml_files import key_paths, read_layers
from skillwright.core import ConfigError
from skillwright.plugins.skillopt.config.files import is_skillopt, resolve_layers
from skillwright.plugins.skillopt.config.keys import KEYS

SCOPE = "https://cognitiveservices.azure.com/.default"
# The documented defaults of the shipped base file, by flat name.
DOCUMENTED = {
    "model_backend": "azure_openai",
    "optimizer_model": "gpt-5.5",
    "target_model": "gpt-5.5",
    "optimizer_backend": "openai_chat",
    "target_backend": "openai_chat",
    "reasoning_effort": "medium",
    "rewrite_reasoning_effort": "",
    "rewrite_max_completion_tokens": 64000,
    "codex_exec_path": "",
    "codex_exec_sandbox": "",
    "codex_exec_profile": "",
    "codex_exec_reasoning_effort": "",
    "codex_exec_approval_policy": "",
    "codex_exec_use_sdk": None,
    "codex_exec_network_access": None,
    "codex_exec_web_search": None,
    "claude_code_exec_path": "claude",
    "claude_code_exec_profile": "",
    "claude_code_exec_use_sdk": "auto",
    "claude_code_exec_effort": "medium",
    "claude_code_exec_max_thinking_tokens": 16384,
    "cursor_exec_path": "",
    "cursor_exec_sandbox": "",
    "copilot_exec_path": "",
    "copilot_exec_home": "",
    "copilot_exec_allow_all_tools": None,
    "copilot_chat_optimizer_model": "",
    "copilot_chat_target_model": "",
    "copilot_chat_timeout": None,
    "codex_trace_to_optimizer": True,
    "azure_openai_endpoint": "",
    "azure_openai_api_version": "2024-12-01-preview",
    "azure_openai_api_key": "",
    "azure_openai_auth_mode": "",
    "azure_openai_ad_scope": SCOPE,
    "azure_openai_managed_identity_client_id": "",
    "qwen_chat_thinking_mode": "",
    "minimax_region": "",
    "minimax_base_url": "",
    "minimax_api_key": "",
    "minimax_model": "MiniMax-M3",
    "minimax_temperature": 0.7,
    "minimax_max_tokens": 8000,
    "minimax_enable_thinking": False,
    "num_epochs": 4,
    "batch_size": 40,
    "accumulation": 1,
    "seed": 42,
    "train_size": 0,
    "minibatch_size": 8,
    "merge_batch_size": 8,
    "analyst_workers": 16,
    "failure_only": False,
    "edit_budget": 4,
    "min_edit_budget": 2,
    "lr_scheduler": "cosine",
    "lr_control_mode": "fixed",
    "skill_update_mode": "patch",
    "use_slow_update": True,
    "slow_update_samples": 20,
    "slow_update_gate_with_selection": False,
    "longitudinal_pair_policy": "mixed",
    "use_meta_skill": True,
    "use_skill_aware_reflection": False,
    "skill_aware_appendix_source": "both",
    "skill_aware_consolidate_threshold": 0,
    "use_gate": True,
    "gate_metric": "hard",
    "gate_mixed_weight": 0.5,
    "use_semantic_density": False,
    "semantic_density_weight": 0.05,
    "sel_env_num": 0,
    "test_env_num": 0,
    "eval_test": True,
    "env": "alfworld",
    "skill_init": "",
    "out_root": "",
    "split_mode": "ratio",
    "split_ratio": "2:1:7",
    "split_seed": 42,
    "split_dir": "",
    "data_path": "",
    "split_output_dir": "",
    "exec_timeout": 120,
}


def refusal(resolved, *layers) -> str:
    with pytest.raises(ConfigError) as caught:
        resolved(*layers)
    return str(caught.value)


def test_a_file_that_says_nothing_resolves_to_the_documented_defaults(resolved):
    assert resolved({"env": {"name": "alfworld"}}) == DOCUMENTED


def test_structured_and_flat_files_mean_the_same(resolved):
    structured = {key.dotted: f"v{i}" for i, key in enumerate(KEYS) if _is_free(key)}
    sections: dict = {}
    for dotted, value in structured.items():
        section, _, leaf = dotted.partition(".")
        sections.setdefault(section, {})[leaf] = value
    flat = {key.flat: structured[key.dotted] for key in KEYS if _is_free(key)}
    assert resolved(sections) == resolved(flat)
    assert resolved(flat).items() >= flat.items()


def _is_free(key) -> bool:
    """Keys whose values are not a closed set."""
    closed = {"skill_update_mode", "lr_control_mode", "longitudinal_pair_policy"}
    return not key.flat.endswith("_backend") and key.flat not in closed


def test_the_table_is_consistent():
    ours = {place.path for place in key_paths(RunConfig)}
    assert len({key.dotted for key in KEYS}) == len({key.flat for key in KEYS}) == len(KEYS)
    for key in KEYS:
        assert bool(key.ours) != bool(key.reason), key.dotted
        assert not key.ours or key.ours in ours, key.dotted


def test_structured_keys_win_over_flat_ones_in_one_file(resolved):
    assert resolved({"batch_size": 1, "train": {"batch_size": 2}})["batch_size"] == 2


@pytest.mark.parametrize("base", [{"batch_size": 1}, {"train": {"batch_size": 1}}])
@pytest.mark.parametrize("child", [{"batch_size": 2}, {"train": {"batch_size": 2}}])
def test_a_child_wins_over_its_base_in_either_form(resolved, base, child):
    assert resolved(base, child)["batch_size"] == 2


def test_settings_of_the_environment_pass_by_their_bare_names_and_are_merged(resolved):
    base = {"env": {"name": "mine", "workers": 24, "deep": {"a": 1, "b": 1}, "odd_one": [1]}}
    flat = resolved(base, {"env": {"deep": {"b": 2}}})
    assert (flat["workers"], flat["odd_one"], flat["deep"]) == (24, [1], {"a": 1, "b": 2})


@pytest.mark.parametrize(
    ("said", "flat", "value"),
    [
        ({"model": {"codex_path": "/c"}}, "codex_exec_path", "/c"),
        ({"model": {"codex_cli_bin": "/c"}}, "codex_exec_path", "/c"),
        ({"codex_bin": "/c"}, "codex_exec_path", "/c"),
        ({"codex_bin": "/c", "codex_exec_path": "/d"}, "codex_exec_path", "/d"),
        ({"codex_exec_path": "/d", "codex_bin": "/c"}, "codex_exec_path", "/d"),
        ({"model": {"sandbox": "read-only"}}, "codex_exec_sandbox", "read-only"),
        ({"codex_sandbox": "read-only"}, "codex_exec_sandbox", "read-only"),
        ({"model": {"azure_endpoint": "https://a"}}, "azure_openai_endpoint", "https://a"),
        ({"azure_api_version": "v"}, "azure_openai_api_version", "v"),
        ({"azure_api_key": "k"}, "azure_openai_api_key", "k"),
        ({"optimizer": {"skill_update_mode": "edits"}}, "skill_update_mode", "patch"),
        ({"optimizer": {"lr_control_mode": " Auto"}}, "lr_control_mode", "autonomous"),
        ({"skill_update_mode": "rewrite"}, "skill_update_mode", "rewrite_from_suggestions"),
        ({"skill_update_mode": "full_rewrite"}, "skill_update_mode", "full_rewrite_minibatch"),
        ({"lr_control_mode": "auto"}, "lr_control_mode", "autonomous"),
        ({"lr_control_mode": "no_lr"}, "lr_control_mode", "none"),
        ({"longitudinal_pair_policy": "10_01"}, "longitudinal_pair_policy", "changed"),
        ({"target_backend": "codex"}, "target_backend", "codex_exec"),
        ({"target_backend": "openai"}, "target_backend", "codex_exec"),
        ({"target_backend": "compat"}, "target_backend", "openai_compatible"),
        ({"target_backend": "anthropic"}, "target_backend", "claude_chat"),
        ({"target_backend": "azure-openai"}, "target_backend", "openai_chat"),
        ({"target_backend": "cursor_agent"}, "target_backend", "cursor_exec"),
        ({"target_backend": "github_copilot"}, "target_backend", "copilot_chat"),
        ({"target_backend": "minimax"}, "target_backend", "minimax_chat"),
        ({"target_backend": None}, "target_backend", "openai_chat"),
    ],
)
def test_aliases_of_keys_and_values_become_canonical(resolved, said, flat, value):
    found = resolved(said)
    assert found[flat] == value
    assert not {"codex_path", "codex_bin", "sandbox", "azure_api_key"} & found.keys()


@pytest.mark.parametrize(
    ("label", "optimizer", "target", "model"),
    [
        ("azure_openai", "openai_chat", "openai_chat", "gpt-5.5"),
        ("claude", "claude_chat", "claude_chat", "claude-sonnet-4-6"),
        ("codex", "codex_exec", "codex_exec", "gpt-5.5"),
        ("copilot_chat", "copilot_chat", "copilot_chat", "gpt-4o"),
        ("openai_compatible", "openai_compatible", "openai_compatible", "gpt-4o-mini"),
        ("claude_code_exec", "openai_chat", "claude_code_exec", "claude-sonnet-4-6"),
        ("cursor_exec", "openai_chat", "cursor_exec", "composer-2.5"),
        ("copilot_exec", "openai_chat", "copilot_exec", "gpt-5.5"),
        ("qwen", "openai_chat", "qwen_chat", "Qwen/Qwen3.5-4B"),
        ("minimax", "openai_chat", "minimax_chat", "MiniMax-M3"),
    ],
)
def test_a_label_fills_the_roles_that_are_left_open(resolved, label, optimizer, target, model):
    flat = resolved({"model": {"backend": label}})
    assert (flat["optimizer_backend"], flat["target_backend"]) == (optimizer, target)
    assert flat["target_model"] == model
    assert flat["optimizer_model"] == (model if optimizer == target else "gpt-5.5")


def test_a_backend_that_was_chosen_is_told_from_a_default(resolved):
    chosen = resolved({"model": {"backend": "claude", "optimizer_backend": "openai_chat"}})
    assert (chosen["optimizer_backend"], chosen["target_backend"]) == ("openai_chat", "claude_chat")
    # The shipped base file names both; a child's label comes after it and wins.
    base = {"model": {"backend": "azure_openai", "optimizer_backend": "openai_chat"}}
    inherited = resolved(base, {"model": {"backend": "claude"}})
    assert inherited["optimizer_backend"] == "claude_chat"
    later = resolved({"model": {"backend": "claude"}}, {"optimizer_backend": "openai_chat"})
    assert later["optimizer_backend"] == "openai_chat"


def test_a_placeholder_model_is_replaced_unless_it_was_chosen(resolved):
    base = {"model": {"optimizer": "gpt-5.5", "target": "gpt-5.4"}}
    inherited = resolved(base, {"model": {"backend": "claude", "target": "gpt-5.4"}})
    assert inherited["optimizer_model"] == "claude-sonnet-4-6"
    assert inherited["target_model"] == "gpt-5.4"
    own = resolved({"target_model": "my-model"}, {"model": {"backend": "claude"}})
    assert own["target_model"] == "my-model"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"train": {"batch_sise": 1}}, "'train.batch_sise'. Did you mean 'train.batch_size'?"),
        ({"train": {"learning_rate": 1}}, "Did you mean 'optimizer.learning_rate'?"),
        ({"optimizer": {"edit_budget": 1}}, "Did you mean 'optimizer.learning_rate'?"),
        ({"env": {"batch_size": 1}}, "'env.batch_size'. Did you mean 'train.batch_size'?"),
        ({"optimizer": {"codex_path": "x"}}, "unknown key 'optimizer.codex_path'"),
        ({"batch_sise": 1}, "unknown key 'batch_sise'. Did you mean 'batch_size'?"),
        ({"max_step": 1}, "Did you mean 'max_steps'?"),
        ({"trian": {"batch_size": 1}}, "unknown key 'trian'. Did you mean 'train'?"),
        ({"train": 5}, "unknown key 'train'"),
        ({"target_backend": "open_chat"}, "model.target_backend is 'open_chat'. Did you mean"),
        ({"skill_update_mode": "pach"}, "optimizer.skill_update_mode is 'pach'. Did you mean"),
        ({"lr_control_mode": "x"}, "optimizer.lr_control_mode is 'x'"),
        ({"longitudinal_pair_policy": "x"}, "Known: changed, mixed, unchanged."),
        ({"model": {"backend": "gemini"}}, "model.backend is 'gemini'"),
    ],
)
def test_a_misspelled_key_or_value_is_refused_with_the_right_one(resolved, said, words):
    assert words in refusal(resolved, {"num_epochs": 1, **said})


def test_circular_inheritance_is_refused(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("_base_: a.yaml\nnum_epochs: 3\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="Circular _base_ inheritance"):
        resolve_layers(read_layers(path))


@pytest.mark.parametrize(
    ("values", "answer"),
    [
        ({"model": {"target": "m"}}, True),
        ({"batch_size": 4}, True),
        ({"train": {"num_epochs": 4}}, True),
        ({"env": {"name": "alfworld", "split_mode": "ratio"}}, True),
        ({"optimizer": {"slow_update_gate_with_selection": False}}, True),
        ({"optimizer": {"use_slow_update": False}}, False),
        ({"codex_bin": "x"}, True),
        ({"train": {"batch_size": 4}}, False),
        ({"models": {}, "train": {"num_epochs": 4}}, False),
        ({"run": {}, "batch_size": 4}, False),
        ({"trian": {}}, False),
        ({}, False),
    ],
)
def test_a_file_is_taken_for_skillopts_by_what_only_it_has(values, answer):
    assert is_skillopt(values) is answer
