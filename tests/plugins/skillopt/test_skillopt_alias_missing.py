"""What the alias does not have is never a zero: the run stops and says what is missing."""

import pytest
from skillopt_runs import evaluated, rereading

from doors import Coach, Walker, trained
from skillwright.config.env import EnvSection
from skillwright.core import ConfigError
from skillwright.jobs.run.tasks import find_adapter


def asking(folder, adapter):
    return rereading(folder, adapter, file="missing.py")


@pytest.mark.parametrize(
    ("adapter", "said"),
    [
        ("MissingName", r"'skillopt\.model' has no 'get_quantum_exec_config'.*get_codex_exec"),
        ("Wrapping", "has no 'get_quantum_exec_config'"),
        ("MissingModule", r"'skillopt' has no 'engine'"),
        ("MissingPrompt", r"'nowhere' has no prompt 'rollout_system'"),
    ],
)
async def test_a_name_that_is_missing_refuses_the_rollout_that_caught_it(tmp_path, adapter, said):
    with pytest.raises(ConfigError, match=said):
        await evaluated(asking(tmp_path, adapter), Walker())


@pytest.mark.parametrize("adapter", ["GenericPrompt", "Careful"])
async def test_what_is_there_in_another_way_is_no_fault(tmp_path, adapter):
    _, report = await evaluated(asking(tmp_path, adapter), Walker())
    assert report.table.overall.success_rate == 1.0


async def test_what_a_module_did_without_is_said_when_it_is_loaded(tmp_path, caplog):
    adapter = tmp_path / "older.py"
    adapter.write_text(
        "from skillopt.envs.base import EnvAdapter\n"
        "try:\n"
        "    from skillopt.model import chat_quantum\n"
        "except ImportError:\n"
        "    chat_quantum = None\n"
        "class Older(EnvAdapter):\n"
        "    def build_train_env(self, batch_size, seed, **kw): return []\n"
        "    def build_eval_env(self, env_num, split, seed, **kw): return []\n"
        "    def rollout(self, env_manager, skill_content, out_dir, **kw): return []\n"
        "    def get_task_types(self): return []\n",
        encoding="utf-8",
    )
    env = EnvSection(name=f"{adapter}:Older", compat="skillopt")
    assert find_adapter(env) is find_adapter(env)
    [said] = caplog.messages
    assert "was loaded without something that it looked for" in said
    assert "'skillopt.model' has no 'chat_quantum'" in said


async def test_a_name_that_analysts_miss_ends_the_training(tmp_path):
    with pytest.raises(ConfigError, match="has no 'summarize_everything'"):
        await trained(asking(tmp_path, "MissingInReflect"), Walker(), Coach([]))
