"""One dollar, at an endpoint with prices: the command stops, says so, and resumes on request."""

import json

import pytest
from typer.testing import CliRunner

from doors import ALL_RULES, Coach, Walker, doors_settings, look, story
from mock_openai import answer_with
from served import served
from skillwright.cli.app import app
from skillwright.core import Completion

SLOTS, TURNS = 4, 2
PRICES = {"input_usd_per_mtok": 1_000, "output_usd_per_mtok": 5_000, "as_of": "today"}


class Ready(Coach):
    """A coach that also answers the question whether it is there."""

    async def complete(self, messages, **about):
        if len(messages) == 1:
            return Completion("ready")
        return await super().complete(messages, **about)


def write(folder, server, budget):
    folder.mkdir()
    settings = doors_settings(folder)
    endpoint = {"backend": "openai_chat", "base_url": server.base_url}
    settings["models"] = {
        "target": endpoint | {"model": "walker"},
        "optimizer": endpoint | {"model": "coach"},
        "prices": {"walker": PRICES, "coach": PRICES},
    }
    settings["rollout"] = {"max_concurrent": SLOTS}
    settings["budget"] = budget
    settings["evaluation"] = {"gate": {"kind": "paired"}}  # its decisions need no budget's rest
    path = folder / "run.yaml"
    path.write_text(json.dumps(settings), encoding="utf-8")
    return str(path), folder / "runs" / "doors"


def cost(run):
    with look(run) as store:
        return store.usage_since()[0].cost_usd


def test_one_dollar_stops_a_run_within_its_batch_and_a_larger_budget_goes_on(tmp_path):
    llms = {"walker": Walker(), "coach": Ready([[ALL_RULES], ["Be quick."]])}
    runner = CliRunner()
    with served(answer_with(llms), api_key=None) as server:
        free, whole = write(tmp_path / "whole", server, {})
        assert runner.invoke(app, ["train", free]).exit_code == 0
        dearest = 0.015  # ten tokens there, one back
        bounded, part = write(tmp_path / "part", server, {"usd": 1.0})
        assert cost(whole) > 1.5
        stopped = runner.invoke(app, ["train", bounded])
        assert stopped.exit_code == 3, stopped.output
        assert "The budget of 1 USD is spent" in stopped.stderr
        assert "skillwright resume" in stopped.stderr
        assert 1.0 <= cost(part) <= 1.0 + SLOTS * TURNS * dearest
        again = runner.invoke(app, ["resume", str(part)])
        assert again.exit_code == 3
        done = runner.invoke(app, ["resume", str(part), "--set", "budget.usd=100"])
        assert done.exit_code == 0, done.output
    assert story(part) == story(whole)
    assert cost(part) == pytest.approx(cost(whole), rel=1e-12)  # floats add up in another order
