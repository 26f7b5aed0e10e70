"""What the alias does not have is never a zero: the run stops and says what is missing."""

import pytest
from skillopt_runs import evaluated, rereading

from doors import Coach, Walker, trained
from skillwright.core import ConfigError


def asking(folder, adapter):
    return rereading(folder, adapter, file="missing.py")


@pytest.mark.parametrize(
    ("adapter", "said"),
    [
        ("MissingName", r"'skillopt\.model' has no 'get_quantum_exec_config'.*get_codex_exec"),
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


async def test_a_name_that_analysts_miss_ends_the_training(tmp_path):
    with pytest.raises(ConfigError, match="has no 'summarise_everything'"):
        await trained(asking(tmp_path, "MissingInReflect"), Walker(), Coach([]))
