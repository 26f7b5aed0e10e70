"""tau-bench with native calls as a run: scored as with tags, resumed, graded again, refused."""

import hashlib
import json

import pytest
from typer.testing import CliRunner

from doors import llms, look
from mock_openai import MockOpenAI, completion, error
from skillwright.cli.app import app
from skillwright.config.run import validated
from skillwright.core import (
    Completion,
    ConfigError,
    EpisodeResult,
    EpisodeSpec,
    Lapse,
    ModelRefused,
    Task,
    ToolCall,
    Usage,
)
from skillwright.jobs.inspect import regrade
from skillwright.jobs.run import Health, NullCallback, env_findings
from skillwright.jobs.text import (
    EvalPlan,
    EvalReport,
    examine,
    look_at_tasks,
    open_run,
    preflight,
    run_evaluation,
    start_run,
)
from skillwright.rollout.transcript import read_episodes
from skillwright.worlds.tau_bench import TauBenchEnv, upstream_words
from skillwright.worlds.tau_bench.report import published as published_lines
from skillwright.worlds.tau_bench.scripted import ScriptedRetail
from skillwright.worlds.tau_bench.scripted.optimizer import LESSONS
from strict_tools import StrictOpenAI, Turn, call, say
from tau_checkout import USER_WORDS, write_checkout
from tau_models import shop, tau_config, tau_evaluated, tau_settings
from tau_store import CANCEL

ONCE = EvalPlan("test", 1)


class NativeClerk:
    """Looks up the order, cancels it by a native call, and says good bye."""

    identity = "scripted:native-clerk"

    def __init__(self, dies_after=None):
        self.calls = 0
        self.offered = []
        self._dies_after = dies_after

    async def complete(self, messages, *, tools=(), sampling=None, purpose):
        del sampling, purpose
        if self.calls == self._dies_after:
            raise RuntimeError("killed")
        self.calls += 1
        self.offered.append([one["function"]["name"] for one in tools])
        taken = sum(message["role"] == "assistant" for message in messages)
        usage = Usage(calls=1, input_tokens=100, output_tokens=10)
        if taken == 2:
            return Completion("Good bye.", usage=usage)
        name, arguments = [("get_order_details", {"order_id": "#W1"}), CANCEL][taken]
        made = ToolCall(f"call_{taken}", name, json.dumps(arguments))
        native = {"dialect": "test", "content": {"reasoning": "hm"}}
        return Completion("Wait.", "tool_calls", usage=usage, tool_calls=(made,), native=native)


@pytest.fixture
def native(tmp_path):
    return tau_config(tmp_path, shop(tmp_path / "shop", count=4), tools="native")


def episodes(path):
    with look(path) as store:
        return {one.task_id: store.load_episode(one.id) for one in store.episodes()}


def built_in(folder, tools):
    settings = tau_settings(folder, "built-in", user_strategy="rule_based", tools=tools)
    del settings["env"]["config"]["user_replies"]
    return validated(settings, "built-in")


async def test_the_built_in_store_is_scored_alike_with_tags_and_natively(tmp_path):
    skill = "".join(f"- {line}\n" for line in list(LESSONS.values())[::2])
    scored = {}
    for tools in ("tags", "native"):
        config = built_in(tmp_path / tools, tools)
        path, report = await tau_evaluated(config, ONCE, ScriptedRetail(), skill)
        scored[tools] = {task: one.reward for task, one in episodes(path).items()}
        assert report.turns.share == 0.0
    assert scored["native"] == scored["tags"]
    assert {0.0, 1.0} == set(scored["native"].values())
    called = [one.trajectory.turns for one in episodes(path).values()]
    assert any(turn.act.tool_calls for turns in called for turn in turns)
    assert not any("<tool_call>" in turn.act.text for turns in called for turn in turns)


async def test_the_tools_are_offered_in_every_turn_and_the_call_is_the_action(native):
    clerk = NativeClerk()
    path, report = await tau_evaluated(native, ONCE, clerk)
    assert report.pass_k == (1.0,)
    assert all("cancel_pending_order" in names for names in clerk.offered)
    first = next(iter(episodes(path).values())).trajectory.turns
    assert [turn.metadata.get("source") for turn in first] == [
        "get_order_details",
        "cancel_pending_order",
        "user",
    ]
    assert first[1].prompt[-2]["native"]["content"] == {"reasoning": "hm"}
    assert first[1].prompt[-1] == {
        "role": "tool",
        "tool_call_id": "call_0",
        "content": first[0].observation,
    }


async def test_a_run_that_was_killed_goes_on_and_asks_nothing_twice(native, tmp_path):
    whole, _ = await tau_evaluated(native, ONCE, NativeClerk())
    other = tau_config(tmp_path / "other", tmp_path / "shop", tools="native")
    with start_run(other, "", ONCE) as run, pytest.raises((RuntimeError, ExceptionGroup)):
        await run_evaluation(run, ONCE, NullCallback(), llms(NativeClerk(dies_after=7)))
    kept = episodes(run.folder.path)
    rest = NativeClerk()
    with open_run(run.folder.path) as run:
        report = await run_evaluation(run, run.plan, NullCallback(), llms(rest))
    assert report.pass_k == (1.0,)
    assert rest.calls == 3 * (4 - len(kept))
    expected = {task: one.trajectory for task, one in episodes(whole).items()}
    assert {task: one.trajectory for task, one in episodes(run.folder.path).items()} == expected


async def test_native_episodes_are_graded_again_from_what_was_stored(native):
    path, _ = await tau_evaluated(native, ONCE, NativeClerk())
    report = regrade(path)
    assert report.stands
    assert report.unchanged == 4


async def test_analysts_read_calls_results_and_the_text_beside_them(native):
    path, _ = await tau_evaluated(native, ONCE, NativeClerk())
    (row, *_) = read_episodes(list(episodes(path).values())).rows
    kinds = [line.kind for line in row.lines]
    assert kinds[:3] == ["text beside the call", "tool call", "tool result"]
    assert row.lines[0].text == "Wait."
    assert row.lines[1].text == 'get_order_details {"order_id": "#W1"}'
    assert kinds[6:8] == ["agent to user", "user"]


# Who takes no tools


@pytest.mark.parametrize(
    "target",
    [
        {"backend": "codex_exec", "model": "m"},
        {"backend": "claude_code_exec", "model": "m"},
        {"backend": "claude_chat", "model": "m", "transport": "cli"},
    ],
)
async def test_a_program_at_a_command_line_is_refused_before_the_run(tmp_path, target):
    settings = tau_settings(tmp_path, shop(tmp_path / "shop"), tools="native")
    settings["models"]["target"] = target
    config = validated(settings, "here")
    with pytest.raises(ConfigError, match=r"takes none.*tools: tags"):
        await look_at_tasks(config, trains=False)
    settings["env"]["config"]["tools"] = "tags"
    await look_at_tasks(validated(settings, "here"), trains=False)


def behind(server, tmp_path, **config):
    settings = tau_settings(tmp_path, shop(tmp_path / "shop"), **config)
    target = {
        "backend": "openai_chat",
        "model": "m",
        "base_url": server.base_url,
        "api_key": server.api_key,
    }
    return validated({**settings, "models": {**settings["models"], "target": target}}, "here")


async def test_a_server_that_takes_no_tools_is_found_out_by_the_first_question(tmp_path):
    async def handler(body):
        if body.get("tools"):
            return error(400, '"auto" tool choice requires --enable-auto-tool-choice')
        return completion("ready")

    async with MockOpenAI(handler) as server:
        native = behind(server, tmp_path / "native", tools="native")
        with pytest.raises(ModelRefused, match="enable-auto-tool-choice"):
            await preflight(native, ONCE)
        found = {one.name: one for one in await examine(tmp_path, native)}
        assert found["target"].health is Health.BAD
        await preflight(behind(server, tmp_path / "tags"), ONCE)


async def test_calls_that_a_server_left_in_the_text_are_carried_out_and_counted(tmp_path):
    name, arguments = CANCEL
    left = Turn(f"[TOOL_CALLS]{name}{json.dumps(arguments)}")
    async with StrictOpenAI([left, say("Good bye.")]) as server:
        config = behind(server, tmp_path, tools="native")
        with start_run(config, "", ONCE) as run:
            report = await run_evaluation(run, ONCE, NullCallback())
    assert server.refused == []
    assert report.pass_k == (1.0,)
    shares, move = report.turns.lines()
    assert "50.0% tool calls in the text that were read" in shares
    assert "has no parser for the tool calls" in move
    assert report.turns.share == 0


async def test_calls_in_the_text_that_cannot_be_read_are_no_score(tmp_path):
    left = Turn('<tool_call>{"name": "think", "argu')
    async with StrictOpenAI([left] * 40) as server:
        config = behind(server, tmp_path, tools="native")
        with start_run(config, "", ONCE) as run, pytest.raises(ConfigError) as caught:
            await run_evaluation(run, ONCE, NullCallback())
    assert "100.0% tool calls in the text" in str(caught.value)
    assert "parser for the tool calls" in str(caught.value)


async def test_native_calls_are_no_lapse_where_they_are_the_action(tmp_path):
    script = [Turn(calls=(call(*CANCEL),)), say("Good bye.")]
    async with StrictOpenAI(script) as server:
        config = behind(server, tmp_path, tools="native")
        with start_run(config, "", ONCE) as run:
            report = await run_evaluation(run, ONCE, NullCallback())
    assert report.turns.lapses[Lapse.NATIVE_CALLS] == 0
    assert report.pass_k == (1.0,)


# What it compares with


def published(tmp_path, **config):
    """Settings as near to tau-bench's own as a small shop can be."""
    words = write_checkout(tmp_path / "checkout")
    settings = {
        "tools": "native",
        "prompt": "tau-bench",
        "user_strategy": "llm",
        "user_prompt": "tau-bench",
        "user_settings": {"temperature": None},
        "tau_bench_dir": str(words),
        **config,
    }
    return tau_config(tmp_path, shop(tmp_path / "shop", count=4), **settings)


def test_other_tools_and_another_prompt_make_other_episodes(tmp_path):
    data = shop(tmp_path / "shop")
    protocol = comparable(tau_config(tmp_path, data))["protocol"]
    assert (protocol["tools"], protocol["prompt"]) == ("tags", "skillwright")
    asked = tau_config(tmp_path, data, tools="native", prompt="tau-bench")
    protocol = comparable(asked)["protocol"]
    assert (protocol["tools"], protocol["prompt"]) == ("native", "tau-bench")


def test_other_words_for_the_user_make_other_episodes(tmp_path):
    config = published(tmp_path)
    before = comparable(config)["user"]["words"]
    edited = write_checkout(tmp_path / "edited")
    path = edited / "tau_bench" / "envs" / "user.py"
    path.write_text(path.read_text().replace("You ring up", "You walk into"))
    other = published(tmp_path / "other", tau_bench_dir=str(edited))
    assert comparable(other)["user"]["words"] != before


async def test_a_report_says_in_what_it_departs_from_the_published_figures(native):
    path, report = await tau_evaluated(native, ONCE, NativeClerk())
    said = report.environment.facts["departures"]
    assert said == [
        "the data is not tau-bench's",
        "prompt is ours; 'tau-bench' is its agent's",
        "user_strategy is 'scripted', and there 'llm'",
    ]
    assert EvalReport.from_dict(json.loads(json.dumps(report.to_dict()))) == report
    shown = CliRunner().invoke(app, ["runs", "show", str(path)]).output
    assert "not comparable with tau-bench's published figures:" in shown
    assert "  user_strategy is 'scripted', and there 'llm'" in shown


@pytest.fixture
def same_words(monkeypatch):
    """Take the words of the test's checkout for those of the published figures."""
    digest = hashlib.sha256(USER_WORDS.encode()).hexdigest()
    monkeypatch.setattr(upstream_words, "PUBLISHED", digest)


def comparable(config):
    return TauBenchEnv.identity(config.env.config)["comparability"]


def findings(config, count=115, split="test"):
    """Return what is found where the first test tasks were all won."""
    extras = [{"task_index": index, "task_split": split} for index in range(count)]
    played = [Task(f"{split}-{one['task_index']:03}", "tau_bench", one) for one in extras]
    results = [EpisodeResult(EpisodeSpec(task, seed=0), reward=1.0) for task in played]
    return env_findings(config, "test", 1, results)


def departures(*args, **kwargs):
    return findings(*args, **kwargs).facts["departures"]


@pytest.fixture
def original(tmp_path, reference_data, same_words):
    def made(**config):
        data = {"data_dir": str(reference_data / "tau_retail")}
        return published(tmp_path, **{"user_replies": None, **data, **config})

    return made


def told(found):
    return "\n".join(published_lines(found.facts))


def test_a_score_compares_where_words_tools_and_data_are_the_originals(original):
    found = findings(original(user_simulator_model="gpt-4o"))
    assert found.facts["departures"] == []
    assert told(found) == (
        "comparable with published figures of tau-bench's tool-calling agent whose user was "
        "played by gpt-4o"
    )


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"tools": "tags", "prompt": "skillwright"}, "tools is 'tags'"),
        ({"prompt": "skillwright"}, "prompt is ours"),
        ({"user_prompt": "parity"}, "user_prompt is ours"),
        ({"user_prompt": "completion_boundary"}, "user_prompt is ours"),
        ({"user_settings": {}}, "the user's temperature is 0"),
        ({"user_settings": {"temperature": 0.7}}, "the user's temperature is 0.7"),
        ({"parsing": "strict"}, "parsing is 'strict', and there 'default'"),
        ({"score_on_truncation": True}, "score_on_truncation is True"),
        ({"empty_observation": "(none)"}, "empty_observation is '(none)'"),
        ({"data_dir": "built-in"}, "the data is not tau-bench's"),
    ],
)
def test_one_setting_of_ours_is_enough_not_to_compare(original, change, why):
    found = findings(original(**change), count=1 if "data_dir" in change else 115)
    assert any(said.startswith(why) for said in found.facts["departures"])
    assert told(found).startswith("not comparable with tau-bench's published figures:\n  ")


def test_fewer_tasks_turns_or_memory_do_not_compare(original):
    config = original()
    assert findings(config, count=20).facts["departures"] == [
        "20 of the 115 test tasks were played"
    ]
    assert findings(config, 3, "dev").facts["departures"] == [
        "the tasks are of dev, and there of test"
    ]
    settings = config.model_dump()
    settings["env"]["max_turns"] = 50
    settings["rollout"]["history_turns"] = 4
    assert departures(validated(settings, "here")) == [
        "max_turns is 50, and there 30",
        "history_turns is 4, and its agent remembers all",
    ]


def test_words_that_somebody_changed_are_not_the_originals(tmp_path, reference_data):
    config = published(tmp_path, data_dir=str(reference_data / "tau_retail"))
    (why,) = departures(config)
    assert why.startswith("the words for the user in ")
