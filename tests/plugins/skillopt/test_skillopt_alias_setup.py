"""What an adapter may ask of the models before anything is played."""

import asyncio

import pytest
from skillopt_runs import evaluated, rereading

from doors import Walker
from skillwright.config import dump_config, load_config
from skillwright.core import ConfigError
from skillwright.jobs.text.adapters.bench import check_adapter
from skillwright.jobs.text.adapters.models import flat_settings
from skillwright.plugins.skillopt import skillopt_alias
from skillwright.plugins.skillopt.session import ModelSession, SessionModel


async def test_which_model_it_will_be_is_known_when_an_adapter_is_built(tmp_path):
    config = rereading(tmp_path, "Informed")
    assert (await check_adapter(config)).val == 24
    _, report = await evaluated(config, Walker())
    assert report.table.overall.episodes == 12


async def test_it_belongs_to_its_own_run_while_another_goes_on(tmp_path):
    llm = SessionModel("other", "codex_exec", Walker)
    other = ModelSession(llm, llm, asyncio.get_running_loop())
    try:
        config = rereading(tmp_path, "Informed")
        await check_adapter(config)
        await evaluated(config, Walker())
    finally:
        other.close()


def test_how_many_turns_an_adapter_takes_is_its_own_to_say(tmp_path):
    config = rereading(tmp_path, "Informed")
    file = tmp_path / "config.yaml"
    file.write_text(dump_config(config), encoding="utf-8")
    assert load_config(file) == config
    for one in (config, load_config(file)):
        assert not {"max_turns", "max_steps"} & flat_settings(one, tmp_path).keys()
    given = load_config(file, ["env.max_turns=3"])
    assert flat_settings(given, tmp_path).items() >= {"max_turns": 3, "max_steps": 3}.items()


class Analysts:
    """Says what it was asked."""

    def __init__(self):
        self.asked = []

    def reflect(self, request):
        self.asked.append(request)
        return [None, {"patch": {"edits": []}, "source_type": "failure"}]


async def test_one_analyst_can_be_asked_about_one_minibatch(tmp_path):
    with skillopt_alias():
        from skillopt.gradient.reflect import (
            run_error_analyst_minibatch,
            run_success_analyst_minibatch,
        )
    llm, analysts = SessionModel("any", "openai_chat", Walker), Analysts()
    session = ModelSession(llm, llm, asyncio.get_running_loop(), analysts)
    rows = [{"id": "a", "hard": 0}, {"id": "b", "hard": 0}]
    try:
        found = await asyncio.to_thread(
            run_error_analyst_minibatch,
            "skill",
            rows,
            str(tmp_path),
            3,
            system_prompt="Look.",
            step_buffer_context="before",
        )
        await asyncio.to_thread(run_success_analyst_minibatch, "skill", rows, str(tmp_path))
    finally:
        session.close()
    assert found == {"patch": {"edits": []}, "source_type": "failure"}
    lost, won = analysts.asked
    assert (lost.edit_budget, lost.minibatch_size, lost.skill) == (3, 2, "skill")
    assert (lost.prompts, lost.step_buffer_context) == ((("analyst_error", "Look."),), "before")
    assert [row["hard"] for row in won.results] == [1, 1]


async def test_before_the_run_there_is_nobody_to_ask(tmp_path):
    config = rereading(tmp_path, "Informed")
    config.env.config["early"] = True
    with pytest.raises(ConfigError, match="no run is running"):
        await check_adapter(config)
