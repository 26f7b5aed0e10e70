"""An evaluation on tau-bench: how often, how reliably, and comparable with what."""

import asyncio
import json

import pytest

from doors import llms, look
from skillwright.core import DataError, ModelError, Purpose, Usage
from skillwright.jobs.inspect import read_run
from skillwright.jobs.run import NullCallback, make_env, make_splits
from skillwright.jobs.text import (
    EvalPlan,
    EvalReport,
    open_run,
    preflight,
    run_evaluation,
    start_run,
)
from skillwright.models import agent_of
from skillwright.rollout import LocalEngine, TextEnvAdapter
from skillwright.worlds.tau_bench import TauBenchEnv
from tau_models import RULE, TRANSFER, Clerk, shop, tau_config, tau_evaluated
from tau_store import CANCEL, RETURN, task, tool_call, write_store

TWICE = EvalPlan("test", 2)
MIXED = [task(CANCEL), task(RETURN), task(), task(outputs=["20.10"]), task(CANCEL, RETURN)]


def identity(config):
    return TauBenchEnv.identity(config.env.config)


@pytest.fixture
def mixed(tmp_path):
    data = shop(tmp_path / "shop", tasks_test=MIXED)
    return tau_config(tmp_path, data)


async def test_pass_k_has_intervals_and_tasks_that_want_nothing_stand_apart(mixed):
    _, report = await tau_evaluated(mixed, TWICE, Clerk(), RULE)
    assert report.pass_k == (0.2, 0.2)  # what is to be cancelled is won, both times
    for chance, interval in zip(report.pass_k, report.pass_k_intervals, strict=True):
        assert interval.low < chance < interval.high
    found = report.environment
    assert found.scores["no_op"].episodes == 4  # nothing to be changed: two tasks, twice
    assert found.scores["no_op"].success_rate == 0.0  # and yet it cancelled
    assert found.facts["free_tasks"] == ["test-002"]
    assert found.scores["without_free"].tasks == 4
    assert set(report.table.task_types) == {"cancel", "return", "read_only", "several_kinds"}


async def test_hanging_up_wins_the_free_tasks_only_and_the_report_says_so(mixed):
    _, report = await tau_evaluated(mixed, TWICE, Clerk())
    assert report.pass_k[0] == 0.2
    assert report.environment.scores["without_free"].success_rate == 0.0


@pytest.mark.parametrize(
    ("turns", "rate"),
    [
        (["<tool_call>{</tool_call>"], "parse_error"),
        ([tool_call("get_order_details", order_id="#none")], "tool_error"),
        ([tool_call("think", thought="?")] * 40, "truncated"),
    ],
)
async def test_rates_count_episodes_by_what_went_wrong_in_them(mixed, turns, rate):
    _, report = await tau_evaluated(mixed, TWICE, Clerk(turns=turns))
    rates = report.environment.facts["rates"]
    others = {"parse_error", "tool_error", "truncated"} - {rate}
    assert rates[rate] == 1.0
    assert all(rates[other] == 0.0 for other in others)
    assert (rates["user_failure"], rates["failure"]) == (0.0, 0.0)


async def test_a_report_is_read_back_as_it_was(mixed):
    path, report = await tau_evaluated(mixed, TWICE, Clerk(), RULE)
    assert EvalReport.from_dict(json.loads(json.dumps(report.to_dict()))) == report
    assert read_run(path).evaluation == report


async def test_a_report_of_an_earlier_version_is_read(mixed):
    _, report = await tau_evaluated(mixed, TWICE, Clerk(), RULE)
    known = {"split", "trials", "skill_version", "table", "pass_k", "complete_tasks"}
    earlier = {name: value for name, value in report.to_dict().items() if name in known}
    read = EvalReport.from_dict(earlier)
    assert read.pass_k == report.pass_k
    assert (read.environment, read.pass_k_intervals) == (None, ())


async def test_a_report_with_the_former_section_of_tau_bench_is_read_as_todays(mixed):
    _, report = await tau_evaluated(mixed, TWICE, Clerk(), RULE)
    stored = report.to_dict()
    section = stored.pop("environment")
    assert section["name"] == "tau_bench"
    stored["tau_bench"] = {**section["facts"], **section["scores"]}
    assert EvalReport.from_dict(json.loads(json.dumps(stored))) == report


async def test_settings_say_what_a_score_is_comparable_with(tmp_path, mixed):
    _, report = await tau_evaluated(mixed, TWICE, Clerk())
    settings = report.environment.facts["settings"]
    assert settings["played"] == {
        "split": "test",
        "data_splits": ["test"],
        "trials": 2,
        "max_turns": 30,
    }
    assert settings["benchmark"] != "tau-bench retail, original 115"  # it is a shop of ours
    assert settings["user"]["strategy"] == "scripted"
    assert len(settings["data"]["checksum"]) == 64
    assert report.environment.facts["data_origin"] == "env_config.data_dir"
    elsewhere = shop(tmp_path / "moved", tasks_test=MIXED)
    assert identity(tau_config(tmp_path, elsewhere)) == identity(mixed)


def test_the_original_data_is_called_so(tmp_path, reference_data):
    config = tau_config(tmp_path, reference_data / "tau_retail")
    told = identity(config)["comparability"]
    assert told["benchmark"] == "tau-bench retail, original 115"


async def test_nothing_is_played_twice_when_it_goes_on(tmp_path):
    data = shop(tmp_path / "shop", count=3)
    config, clerk = tau_config(tmp_path, data), Clerk()
    with start_run(config, RULE, TWICE) as run:
        first = await run_evaluation(run, TWICE, NullCallback(), llms(clerk))
        with run.store.transaction():
            run.store.append_event("evaluated", {**first.to_dict(), **_with_failures(first)})
    calls = clerk.calls
    with open_run(run.folder.path) as again:
        report = await run_evaluation(again, again.plan, NullCallback(), llms(clerk))
    assert clerk.calls == calls
    assert report == first


def _with_failures(report):
    """Return a table that would make the run continue."""
    table = report.to_dict()["table"]
    table["overall"]["failures"] = 1
    return {"table": table}


class Costly:
    """A user that tells what it takes."""

    def __init__(self, setting, fails_at=()):
        self.usage = Usage()
        self.backstage = {}
        self._fails = setting.task_index in fails_at
        self._said = 0

    async def areset(self, instruction):
        return await self.astep(instruction)

    async def astep(self, content):
        self._said += 1
        if self._fails:
            raise ModelError("the user's server is down")
        self.usage += Usage(calls=1, input_tokens=50, output_tokens=5, cost_usd=0.01)
        return "Hello." if self._said == 1 else "###STOP###"


class Failing(Costly):
    def __init__(self, setting):
        super().__init__(setting, fails_at=(0,))


@pytest.fixture
def strategies():
    from skillwright.worlds.tau_bench import users

    before = dict(users._strategies)
    users.register_user("costly", f"{__name__}:Costly")
    users.register_user("failing", f"{__name__}:Failing")
    yield
    users._strategies.clear()
    users._strategies.update(before)


async def test_both_endpoints_tokens_and_money_are_told_apart(tmp_path, strategies):
    config = tau_config(tmp_path, shop(tmp_path / "shop", count=3), user_strategy="costly")
    path, report = await tau_evaluated(config, EvalPlan("test", 1), Clerk(), RULE)
    user, agent = report.usage[Purpose.USER.value], report.usage[Purpose.ROLLOUT.value]
    assert (user.calls, user.input_tokens, user.output_tokens) == (6, 300, 30)
    assert user.cost_usd == pytest.approx(0.06)
    assert (agent.calls, agent.input_tokens) == (6, 600)
    with look(path) as store:
        assert store.usage_by_purpose() == report.usage


async def test_a_user_that_is_lost_is_no_score(tmp_path, strategies):
    config = tau_config(tmp_path, shop(tmp_path / "shop", count=4), user_strategy="failing")
    _, report = await tau_evaluated(config, EvalPlan("test", 1), Clerk(), RULE)
    found = report.environment.facts
    assert found["rates"]["user_failure"] == found["rates"]["failure"] == 0.25
    assert report.table.overall.success_rate == 1.0
    assert found["failures_as_losses"] == 0.75
    assert report.complete_tasks == 3


async def test_a_user_that_nobody_answers_for_is_found_before_the_first_episode(tmp_path):
    config = tau_config(
        tmp_path,
        write_store(
            tmp_path / "s", tasks_train=MIXED, tasks_val=MIXED, tasks_test=[task(TRANSFER)]
        ),
        user_strategy="llm",
        user_simulator_endpoint="http://127.0.0.1:9/v1",
        user_settings={"max_attempts": 1},
    )
    with pytest.raises(ModelError, match=r"127\.0\.0\.1:9"):
        await preflight(config, TWICE)


async def test_a_wrong_setting_of_the_user_is_found_before_the_first_episode(tmp_path):
    data = shop(tmp_path / "shop")
    config = tau_config(tmp_path, data, user_strategy="llm", user_backend="openai_cat")
    with pytest.raises(DataError, match="openai_chat"):
        await preflight(config, TWICE)


async def test_the_result_is_the_same_at_any_concurrency(tmp_path, mixed):
    reports = []
    for most in (1, 64):
        rollout = mixed.rollout.model_copy(update={"max_concurrent": most})
        config = mixed.model_copy(update={"rollout": rollout})
        _, report = await tau_evaluated(config, TWICE, Clerk(), RULE)
        reports.append(report)
    assert reports[0] == reports[1]


async def test_it_is_an_adapter_for_a_trainer_that_knows_adapters_only(tmp_path, mixed):
    splits = make_splits(mixed)
    engine = LocalEngine(agent_of(Clerk()), make_env(mixed.env))
    adapter = TextEnvAdapter(engine, {"train": splits.train.tasks, "val": splits.val.tasks})
    batch = adapter.build_train_env(4, seed=1)
    rows = await asyncio.to_thread(adapter.rollout, batch, RULE, str(tmp_path / "out"))
    assert [row["hard"] for row in rows] == [1] * 4
    assert {row["task_type"] for row in rows} == {"cancel"}
    told = (tmp_path / "out" / "predictions" / rows[0]["id"] / "conversation.json").read_text()
    assert "cancel_pending_order" in told
