"""A run's episodes are replayed: equal, different, or not replayable, each counted apart."""

import asyncio
import json

import pytest

import doors
from doors import Coach, Walker, doors_config, evaluated, look, rule, trained
from skillwright.config.run import validated
from skillwright.core import DataError, ModelError, RunError
from skillwright.envs import spec
from skillwright.jobs.inspect import replay_run
from skillwright.jobs.run import NullCallback
from skillwright.jobs.text import EvalPlan, run_evaluation, start_run
from skillwright.worlds.tau_bench.scripted import ScriptedRetail
from skillwright.worlds.tau_bench.scripted.optimizer import LESSONS
from somebodys import Chosen, adapter_config
from tau_models import RULE, Clerk, shop, tau_config, tau_evaluated, tau_settings
from tau_store import tool_call

PLAN = EvalPlan("test", 2)


@pytest.fixture
async def run(tmp_path):
    """An evaluation of 24 episodes by an agent that mostly guesses."""
    path, _ = await evaluated(doors_config(tmp_path), PLAN, Walker(), skill=rule("hall"))
    return path


def test_an_evaluation_is_replayed_to_the_last_value(run):
    before = (run / "run.sqlite").read_bytes()
    report = replay_run(run)
    assert (report.equal, report.differing, report.not_replayed) == (24, 0, 0)
    with look(run) as store:
        assert report.turns == sum(one.turns for one in store.episodes())
    assert report.stands
    assert (run / "run.sqlite").read_bytes() == before


async def test_a_training_is_replayed_with_every_version_of_its_skill(tmp_path):
    coach = Coach([[rule("attic")], [rule("cellar")]])
    path, _ = await trained(doors_config(tmp_path), Walker(), coach)
    report = replay_run(path)
    with look(path) as store:
        assert len({one.skill_version for one in store.episodes()}) > 1
        assert report.equal == len(store.episodes())
    assert report.stands


def test_named_episodes_are_replayed_once_each(run):
    with look(run) as store:
        key = store.episode(3).key
    assert replay_run(run, ["e1", "e3", key, "e1"]).equal == 2
    with pytest.raises(RunError, match="no episode 'e99'"):
        replay_run(run, ["e1", "e99"])


def test_how_far_it_is_can_be_watched(run):
    seen = []
    replay_run(run, watch=lambda done, total: seen.append((done, total)))
    assert seen == [(number, 24) for number in range(1, 25)]


def test_an_environment_that_has_changed_is_found_out(run, monkeypatch):
    found = spec(f"{doors.__file__}:Doors").load()  # the class that runs find by its file
    monkeypatch.setattr(found, "step", lambda self, action: self.reply("It is stuck."))
    report = replay_run(run)
    assert report.equal == 0
    assert report.differing == 24
    assert not report.stands
    fields = {one.difference.field for one in report.differences}
    assert fields <= {"observation", "reward", "end"}
    assert all(one.as_then for one in report.differences)  # its version does not say so


def test_a_changed_environment_that_says_so_is_told_from_one_that_does_not(run):
    config = (run / "config.yaml").read_text(encoding="utf-8")
    (run / "config.yaml").write_text(config.replace("max_turns: 2", "max_turns: 1"))
    report = replay_run(run)
    assert report.differing > 0
    assert not any(one.as_then for one in report.differences)
    (first, *_) = report.differences
    assert (first.difference.field, first.difference.now) == ("metadata.truncated", "true")


async def test_failures_are_replayed_as_far_as_they_went_and_others_are_counted_apart(tmp_path):
    def dies(number):
        if number in (1, 4):
            raise ModelError("503")

    config = doors_config(tmp_path, rollout={"retries": 0, "max_concurrent": 1})
    path, _ = await evaluated(config, PLAN, Walker(dies))
    with look(path) as store:
        turns = sorted(one.turns for one in store.episodes() if one.failure)
    report = replay_run(path)
    assert report.equal == 24 - turns.count(0)
    assert report.not_replayed == turns.count(0) > 0
    assert report.reasons.most_common(1)[0][0] == "it ended before its first turn: model"
    assert report.stands


async def test_nothing_replayed_is_nothing_shown(tmp_path):
    path, _ = await evaluated(adapter_config(tmp_path, Chosen), EvalPlan("test", 1), Walker())
    report = replay_run(path)
    assert (report.equal, report.not_replayed, report.stands) == (0, 12, False)
    (reason,) = report.reasons
    assert "plays by itself" in reason


def test_a_run_whose_environment_is_gone_is_refused(run):
    (run / "config.yaml").write_text(
        (run / "config.yaml").read_text(encoding="utf-8").replace(":Doors", ":Gone")
    )
    with pytest.raises(DataError, match="Gone"):
        replay_run(run)


def test_episodes_whose_data_is_gone_are_not_replayed(run, monkeypatch):
    found = spec(f"{doors.__file__}:Doors").load()
    build = found.__init__

    def needs_a_file(self, env_config=None, extras=None):
        if extras["room"] == "attic":
            raise DataError("there is no file 'attic.txt'")
        build(self, env_config, extras)

    monkeypatch.setattr(found, "__init__", needs_a_file)
    report = replay_run(run)
    assert (report.equal, report.differing, report.not_replayed) == (16, 0, 8)
    assert dict(report.reasons) == {"there is no file 'attic.txt'": 8}


async def test_a_secret_that_was_taken_out_is_no_difference(tmp_path, monkeypatch):
    monkeypatch.setenv("DOOR_API_KEY", "sk-abcdef123456")

    class Babbler(Walker):
        async def complete(self, messages, **more):
            answer = await super().complete(messages, **more)
            return type(answer)(f"sk-abcdef123456 {answer.text}", usage=answer.usage)

    path, _ = await evaluated(doors_config(tmp_path), EvalPlan("test", 1), Babbler())
    report = replay_run(path)
    assert (report.equal, report.differing, report.not_replayed) == (0, 0, 12)
    assert list(report.reasons) == ["its agent said a secret, which is not stored"]


def test_a_run_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(RunError, match="no run 'nowhere'"):
        replay_run("nowhere", root=tmp_path)


# Simulated users


async def test_what_a_simulated_user_said_comes_from_the_record(tmp_path):
    config = tau_config(tmp_path, shop(tmp_path / "shop", count=4))
    path, _ = await tau_evaluated(config, EvalPlan("test", 1), Clerk(), RULE)
    text = (path / "config.yaml").read_text(encoding="utf-8")
    assert "Hello, it is about my order." in text
    (path / "config.yaml").write_text(
        text.replace("Hello, it is about my order.", "Something else.")
    )
    assert replay_run(path).equal == 4


async def test_an_agent_that_would_now_speak_to_the_user_is_a_difference(tmp_path, monkeypatch):
    from skillwright.worlds.tau_bench import env

    config = tau_config(tmp_path, shop(tmp_path / "shop", count=2))
    turns = [tool_call("think", thought="?"), "Bye."]
    path, _ = await tau_evaluated(config, EvalPlan("test", 1), Clerk(turns=turns))
    parse = env.parse
    monkeypatch.setattr(env, "parse", lambda text, *rest: parse(text.replace("<", ""), *rest))
    (found, _) = replay_run(path).differences
    assert found.difference.field == "environment"
    assert "speak to the user where it called a tool" in found.difference.now


@pytest.mark.parametrize("tools", ["tags", "native"])
async def test_the_built_in_store_is_replayed_in_both_protocols(tmp_path, tools):
    settings = tau_settings(tmp_path, "built-in", user_strategy="rule_based", tools=tools)
    del settings["env"]["config"]["user_replies"]
    config = validated(settings, "built-in")
    skill = "".join(f"- {line}\n" for line in list(LESSONS.values())[::2])
    path, report = await tau_evaluated(config, EvalPlan("test", 1), ScriptedRetail(), skill)
    assert 0 < report.pass_k[0] < 1
    found = replay_run(path)
    assert (found.differing, found.not_replayed) == (0, 0)
    assert found.equal == report.table.overall.episodes


WORLDS = {
    "alfworld": (
        {"name": "alfworld", "data": {"kind": "generated", "train": 6, "val": 8, "test": 12}},
        {"model": "household", "noise": 0.3},
    ),
    "webshop": (
        {"name": "webshop", "data": {"kind": "webshop", "train": 6, "val": 8, "test": 12}},
        {"model": "shopper"},
    ),
    "qa": ({"name": "qa", "data": {"kind": "qa", "train": 6, "val": 8, "test": 12}},
           {"model": "reader"}),
    "search": ({"name": "qa", "config": {"passages": "generated"},
                "data": {"kind": "qa", "train": 6, "val": 8, "test": 12}},
               {"model": "seeker", "noise": 0.3}),
}  # fmt: skip


@pytest.mark.parametrize("name", WORLDS)
def test_every_built_in_environment_repeats_itself(cli_run, name):
    env, target = WORLDS[name]
    path = cli_run(env, {"backend": "scripted", **target})
    report = replay_run(path)
    assert (report.equal, report.differing, report.not_replayed) == (12, 0, 0)


@pytest.fixture
def cli_run(tmp_path):
    """Evaluate a blank skill with the models that a configuration names."""

    def play(env, target):
        analyst = {"backend": "scripted", "model": "analyst"}
        settings = {
            "run": {"root": str(tmp_path / "runs")},
            "env": json.loads(json.dumps(env)),
            "models": {"target": target, "optimizer": analyst},
        }
        plan = EvalPlan("test", 1)
        with start_run(validated(settings, "world"), "Look around first.", plan) as run:
            asyncio.run(run_evaluation(run, plan, NullCallback()))
            return run.folder.path

    return play
