"""What an adapter may ask of the models before anything is played."""

import asyncio

import pytest
from skillopt_runs import evaluated, rereading

from doors import Walker
from skillwright.core import ConfigError
from skillwright.integrations.skillopt_session import Mind, ModelSession
from skillwright.jobs.adapter_bench import check_adapter


async def test_which_model_it_will_be_is_known_when_an_adapter_is_built(tmp_path):
    config = rereading(tmp_path, "Informed")
    assert (await check_adapter(config)).val == 24
    _, report = await evaluated(config, Walker())
    assert report.table.overall.episodes == 12


async def test_it_belongs_to_its_own_run_while_another_goes_on(tmp_path):
    mind = Mind("other", "codex_exec", Walker)
    other = ModelSession(mind, mind, asyncio.get_running_loop())
    try:
        config = rereading(tmp_path, "Informed")
        await check_adapter(config)
        await evaluated(config, Walker())
    finally:
        other.close()


async def test_before_the_run_there_is_nobody_to_ask(tmp_path):
    config = rereading(tmp_path, "Informed")
    config.env.config["early"] = True
    with pytest.raises(ConfigError, match="no run is going on"):
        await check_adapter(config)
