"""What is looked at before a run of the recipe, and whom that asks what."""

import pytest

from mock_openai import MockOpenAI
from rl_world import Lanes, lanes_config
from skillwright.core import ConfigError
from skillwright.jobs.run import Finding, Health
from skillwright.jobs.weights.preflight import examine_rl, preflight_rl

EMBEDDER = "http://127.0.0.1:1/v1#letters"


def named(findings):
    return {one.name: one for one in findings}


async def test_a_model_in_two_roles_is_asked_once(tmp_path):
    async with MockOpenAI() as server:
        llm = {
            "backend": "openai_chat",
            "model": "large",
            "base_url": server.base_url,
            "api_key": server.api_key,
        }
        llms = {"teacher": llm, "expert": llm}
        config = lanes_config(tmp_path, models=llms)
        await preflight_rl(config)
        assert len(server.bodies) == 1
        found = named(await examine_rl(config))
        assert len(server.bodies) == 2
        assert found["teacher and expert"].health is Health.OK
        other = lanes_config(tmp_path, models={**llms, "base": {**llm, "model": "small"}})
        await preflight_rl(other)
        assert sorted(body["model"] for body in server.bodies[2:]) == ["large", "small"]


async def test_an_endpoint_that_embeds_is_asked_nothing(tmp_path):
    config = lanes_config(tmp_path, bank={"embedder": EMBEDDER})
    await preflight_rl(config)  # nobody answers at that address
    found = named(await examine_rl(config))
    assert "letters" in found["bank"].detail
    assert {one.health for one in found.values()} == {Health.OK}


async def test_money_that_an_embedder_would_spend_unseen_is_refused(tmp_path):
    config = lanes_config(tmp_path, bank={"embedder": EMBEDDER}, budget={"usd": 2})
    unheld = (
        "budget.usd = 2 cannot be held: no prices are known for bank.embedder "
        f"'{EMBEDDER}'; bound budget.tokens instead"
    )
    with pytest.raises(ConfigError) as found:
        await preflight_rl(config)
    assert str(found.value) == unheld
    assert named(await examine_rl(config))["budget"] == Finding("budget", Health.BAD, unheld)


@pytest.mark.parametrize("inject", ["trajectories", "none"])
async def test_where_no_skill_is_injected_nothing_is_embedded_and_nothing_spent(tmp_path, inject):
    bank = {"embedder": EMBEDDER, "inject": inject}
    await preflight_rl(lanes_config(tmp_path, bank=bank, budget={"usd": 2}, evolve=None))


class NativeLanes(Lanes):
    """Offers a tool natively."""

    def native_tools(self):
        return [{"type": "function", "function": {"name": "take"}}]


async def test_a_policy_is_not_trained_on_native_calls(tmp_path):
    config = lanes_config(tmp_path, env={"name": f"{__file__}:NativeLanes"})
    with pytest.raises(ConfigError, match=r"policy\.kind 'scorer': .* takes none.*tools: tags"):
        await preflight_rl(config)
    assert named(await examine_rl(config))["tasks"].health is Health.BAD


async def test_tasks_that_cannot_be_found_are_said_once(tmp_path):
    policy = {"kind": "hf", "model": "Qwen/Qwen2.5-1.5B-Instruct"}
    data = {"kind": "split_dir", "path": str(tmp_path / "none")}
    found = await examine_rl(lanes_config(tmp_path, env={"data": data}, policy=policy))
    assert [one.name for one in found if one.health is Health.BAD] == ["tasks", "policy"]
