"""Every documented module path and name of `skillopt` is there on request, and only then."""

import importlib
import sys
import threading
import types
from pathlib import Path

import pytest

from skillwright.config.env import EnvSection
from skillwright.core import ConfigError
from skillwright.envs import EnvAdapter, spec
from skillwright.jobs.run.tasks import find_adapter
from skillwright.plugins.skillopt import alias_names, skillopt_alias

TYPES = (
    "BatchSpec Edit EditOp FailureSummaryEntry GateAction GateResult Patch RawPatch RolloutResult "
    "SlowUpdateResult"
)
DOCUMENTED = {
    "skillopt": f"{TYPES} __version__",
    "skillopt.envs.base": "EnvAdapter",
    "skillopt.datasets.base": "BaseDataLoader SplitDataLoader BatchSpec SPLIT_NAMES",
    "skillopt.types": TYPES,
    "skillopt.evaluation.gate": (
        "GateAction GateMetric GateResult evaluate_gate select_gate_score compute_semantic_density"
    ),
    "skillopt.model": (
        "chat_target chat_target_messages chat_optimizer chat_optimizer_messages "
        "chat_with_deployment get_target_backend is_target_exec_backend get_token_summary "
        "reset_token_tracker configure_azure_openai configure_qwen_chat configure_codex_exec "
        "is_target_chat_backend get_codex_exec_config chat_messages_with_deployment "
        "set_target_backend set_target_deployment"
    ),
    "skillopt.model.codex_harness": "prepare_workspace render_skill_md run_target_exec",
    "skillopt.model.azure_openai": (
        "TARGET_DEPLOYMENT get_target_client get_reasoning_effort tracker _needs_responses_api"
    ),
    "skillopt.prompts": "load_prompt",
    "skillopt.config": "load_config flatten_config is_structured apply_overrides",
    "skillopt.utils": "extract_json extract_json_array compute_score skill_hash",
    "skillopt.utils.json_utils": "extract_json extract_json_array _top_level_brace_objects",
    "skillopt.gradient.reflect": (
        "run_minibatch_reflect run_error_analyst_minibatch run_success_analyst_minibatch "
        "fmt_trajectory"
    ),
    "skillopt.gradient.aggregate": "merge_patches _merge_batch _hierarchical_merge",
    "skillopt.optimizer": (
        "skill scheduler appendix slow_update update_modes skill_aware rank_and_select"
    ),
    "skillopt.optimizer.appendix": "has_appendix_field append_to_appendix_field",
    "skillopt.optimizer.scheduler": "build_scheduler NO_LIMIT",
    "skillopt.optimizer.slow_update": "has_slow_update_field",
    "skillopt.optimizer.update_modes": "is_rewrite_mode is_full_rewrite_minibatch_mode",
    "scripts.train": "_ENV_REGISTRY _register_builtins",
    "scripts.eval_only": "_ENV_REGISTRY _register_builtins",
}


def left_over():
    return [name for name in sys.modules if name.partition(".")[0] in ("skillopt", "scripts")]


@pytest.mark.parametrize("path", DOCUMENTED)
def test_every_documented_name_can_be_imported(path):
    with skillopt_alias():
        module = importlib.import_module(path)
        for name in DOCUMENTED[path].split():
            got = {}
            exec(f"from {path} import {name}", got)
            assert got[name] is getattr(module, name)
    assert left_over() == []


def test_a_missing_name_and_a_missing_module_are_named_with_the_nearest():
    with skillopt_alias():
        with pytest.raises(
            ImportError, match=r"'skillopt\.model' has no 'chat_trget'.*chat_target"
        ):
            exec("from skillopt.model import chat_trget")
        with pytest.raises(ImportError, match=r"'skillopt' has no 'modle'.*model"):
            exec("import skillopt.modle")
        assert not hasattr(importlib.import_module("skillopt.model"), "chat_trget")


def test_outside_there_is_no_such_package():
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("skillopt")


def test_it_may_be_opened_inside_of_itself_and_closes_after_a_fault():
    def fail():
        with skillopt_alias():
            with skillopt_alias():
                pass
            assert "skillopt" in sys.modules
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert left_over() == []


def test_the_real_package_is_refused_once_it_is_imported(monkeypatch):
    real = types.ModuleType("skillopt")
    real.__file__ = "/somewhere/skillopt/__init__.py"
    monkeypatch.setitem(sys.modules, "skillopt", real)
    with pytest.raises(ConfigError, match="/somewhere/skillopt"), skillopt_alias():
        pass
    assert sys.modules["skillopt"] is real


def test_somebodys_own_scripts_package_is_left_alone(monkeypatch):
    own = types.ModuleType("scripts")
    monkeypatch.setitem(sys.modules, "scripts", own)
    with skillopt_alias():
        assert sys.modules["scripts"] is own
    assert sys.modules["scripts"] is own


def test_many_threads_come_and_go():
    faults = []
    ready = threading.Barrier(8)

    def come_and_go():
        try:
            ready.wait()
            for _ in range(50):
                with skillopt_alias():
                    assert importlib.import_module("skillopt.envs.base").EnvAdapter is EnvAdapter
        except BaseException as fault:  # noqa: BLE001 - told to the test
            faults.append(fault)

    threads = [threading.Thread(target=come_and_go) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert left_over() == []


def test_a_checkout_of_a_benchmark_is_found_below_skillopt_envs(tmp_path):
    folder = tmp_path / "skillopt" / "envs" / "rooms"
    (folder / "prompts").mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "loader.py").write_text("from skillopt.datasets.base import SplitDataLoader as Own\n")
    (folder / "prompts" / "analyst_error.md").write_text("Look at the doors.")
    (folder / "adapter.py").write_text(
        "from skillopt.envs.base import EnvAdapter\n"
        "from skillopt.envs.rooms.loader import Own\n"
        "class Rooms(EnvAdapter):\n"
        "    def build_train_env(self, batch_size, seed, **kw): return []\n"
        "    def build_eval_env(self, env_num, split, seed, **kw): return []\n"
        "    def rollout(self, env_manager, skill_content, out_dir, **kw):\n"
        "        from skillopt.envs.rooms import loader\n"
        "        return [loader.Own]\n"
        "    def get_task_types(self): return []\n"
    )
    env = EnvSection(name=f"{folder / 'adapter.py'}:Rooms", compat="skillopt")
    found = find_adapter(env)
    assert left_over() == []
    assert found.__module__ == "skillopt.envs.rooms.adapter"
    with skillopt_alias(folder / "adapter.py"):
        assert found().rollout([], "", "")
        assert found().get_error_minibatch_prompt() == "Look at the doors."
        load_prompt = importlib.import_module("skillopt.prompts").load_prompt
        assert load_prompt("analyst_error", "rooms") == "Look at the doors."
        assert load_prompt("analyst_success", "rooms").startswith("# ")
    assert left_over() == []


def test_benchmarks_and_scripts_of_an_installed_package_are_found_by_name(tmp_path, monkeypatch):
    for name in (
        "skillopt",
        "skillopt/envs",
        "skillopt/envs/cellars",
        "skillopt/engine",
        "scripts",
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    adapter = tmp_path / "skillopt" / "envs" / "cellars" / "adapter.py"
    adapter.write_text("from skillopt.envs.base import EnvAdapter as Base\n")
    (tmp_path / "scripts" / "dig.py").write_text("DEPTH = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    with skillopt_alias():
        assert importlib.import_module("skillopt.envs.cellars.adapter").Base is EnvAdapter
        assert importlib.import_module("scripts.dig").DEPTH == 3
        with pytest.raises(ImportError, match="has no 'engine'"):
            importlib.import_module("skillopt.engine")
    assert left_over() == []
    with skillopt_alias():
        assert "skillopt.envs.cellars" in sys.modules


def test_what_is_put_into_the_registry_has_a_name_here():
    from skillwright.envs import deregister

    with skillopt_alias():
        registry = importlib.import_module("scripts.train")._ENV_REGISTRY
        registry["rooms_here"] = Path
        try:
            assert spec("rooms_here").find() is Path
            assert importlib.import_module("scripts.eval_only")._ENV_REGISTRY is registry
        finally:
            del registry["rooms_here"]
            deregister("rooms_here")


def test_the_names_of_all_modules_can_be_listed():
    listed = alias_names()
    assert "chat_target" in listed["skillopt.model"]
    assert {path for path in DOCUMENTED if path.startswith("skillopt")} <= listed.keys()
