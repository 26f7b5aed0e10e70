"""Performance, robustness and security: what the original does, row by row, and ours must not."""

import ast
import asyncio
import json
from collections import Counter
from pathlib import Path

import pytest
from spec_worlds import Elder, python

import skillwright
from doors import (
    ALL_RULES,
    ALL_WRONG,
    Coach,
    Doors,
    Walker,
    doors_config,
    look,
    rule,
    story,
    trained,
)
from fakes import ScriptedReplies, make_episode
from mock_openai import MockOpenAI
from skillwright.core import (
    Completion,
    EpisodeSpec,
    PlainSkill,
    Purpose,
    Sampling,
    Task,
    Trajectory,
)
from skillwright.models import ChatAgent, HttpClient, OpenAIChatConfig, make_model
from skillwright.rollout import LocalEngine, MemoryRecorder
from skillwright.rollout.transcript import write_predictions
from skillwright.textopt import (
    Optimizer,
    StepContext,
    StepSettings,
    estimate_tokens,
    read_episodes,
    reflect,
)

SOURCE = Path(skillwright.__file__).parent
SAFE_S = 30  # a test that would otherwise wait for ever ends here


class Meeting(Coach):
    """Answers no merge of a side before those of both sides are there."""

    def __init__(self):
        super().__init__([[ALL_RULES]])
        self._met = asyncio.Event()
        self.sides = Counter()

    async def complete(self, messages, **asked):
        heading = messages[0]["content"].partition("\n")[0]
        if heading in ("# Merge: failures", "# Merge: successes") and not self._met.is_set():
            self.sides[heading] += 1
            if len(self.sides) == 2:
                self._met.set()
            await self._met.wait()
        return await super().complete(messages, **asked)


async def test_7_2_01_independent_merges_run_at_once(tmp_path):
    whole = {"epochs": 1, "batch_size": 12}
    config = doors_config(tmp_path, train=whole, gradient={"minibatch_size": 1})
    coach = Meeting()
    async with asyncio.timeout(SAFE_S):
        await trained(config, Walker(), coach, skill=f"{rule('attic')}\n{rule('hall', 9)}\n")
    assert coach.sides == {"# Merge: failures": 1, "# Merge: successes": 1}


class Together(Walker):
    """Answers no episode of the test before one of either skill is there."""

    def __init__(self):
        super().__init__()
        self._both = asyncio.Event()
        self._learned = set()

    async def complete(self, messages, **asked):
        if "[test]" in messages[-1]["content"] and not self._both.is_set():
            self._learned.add(ALL_RULES in messages[0]["content"])
            if len(self._learned) == 2:
                self._both.set()
            await self._both.wait()
        return await super().complete(messages, **asked)


class Labeled(Doors):
    """Says in its opening which split it is of."""

    def init(self, prompt):
        messages, info = super().init(prompt)
        said = f"{messages[-1]['content']} [{self.extras['split']}]"
        return [*messages[:-1], {**messages[-1], "content": said}], info


async def test_7_2_01_artifacts_are_tested_at_once(tmp_path):
    config = labeled_config(tmp_path)
    async with asyncio.timeout(SAFE_S):
        _, report = await trained(config, Together(), Coach([[ALL_RULES], []]), skill="Be kind.")
    assert report.test.tables["best"].overall.success_rate == 1.0


def labeled_config(folder):
    """Return a run in `Labeled`, whose tasks know their split."""
    config = doors_config(folder)
    for split in ("train", "val", "test"):
        file = folder / "tasks" / split / "items.json"
        items = json.loads(file.read_text(encoding="utf-8"))
        text = json.dumps([{**item, "split": split} for item in items])
        file.write_text(text, encoding="utf-8")
    named = config.env.model_copy(update={"name": f"{__file__}:Labeled"})
    return config.model_copy(update={"env": named})


@pytest.mark.parametrize("max_concurrent", [1, 64])
async def test_7_2_01_results_are_those_of_one_after_the_other(tmp_path, max_concurrent):
    stories = []
    for name, bound in (("one", 1), ("other", max_concurrent)):
        (tmp_path / name).mkdir()
        config = doors_config(tmp_path / name, rollout={"max_concurrent": bound})
        path, _ = await trained(config, Walker(), Coach([[ALL_RULES], [ALL_WRONG]]))
        stories.append(story(path))
    assert stories[0] == stories[1]


class Verbose(Doors):
    """Answers with a quarter of a million characters."""

    def step(self, action):
        self.turns += 1
        return self.reply("It is locked." + " Nothing happens." * 15_000)


async def test_7_2_02_prompts_keep_a_token_budget_and_what_was_cut_is_stored(tmp_path):
    coach, data = Elder([[], []]), {"kind": "split_dir", "path": str(tmp_path / "tasks")}
    env = {"name": f"{__file__}:Verbose", "max_turns": 3, "data": data}
    path, _ = await trained(doors_config(tmp_path, env=env), Walker(), coach, skill=ALL_WRONG)
    asked = coach.asked("## Trajectories")
    assert 0 < max(map(estimate_tokens, asked)) <= 60_000
    with look(path) as store:
        cuts = [cut for patch in store.patches() for cut in patch.details.get("cuts", ())]
    assert cuts
    assert all(cut["characters"] > 100_000 for cut in cuts)


async def test_7_2_03_rollouts_are_reused_by_content_in_training_too():
    recorder, walker = MemoryRecorder(), Walker()
    task = Task("t0", "doors", extras={"room": "attic", "door": 4}, split="train")
    spec = EpisodeSpec(task, seed=1, phase="train", step=1)
    for skill, calls in ((ALL_RULES, 1), (ALL_RULES, 1), (ALL_WRONG, 3)):
        engine = LocalEngine(ChatAgent(walker), lambda t: Doors(extras=t.extras), recorder=recorder)
        (result,) = await engine.run([spec], PlainSkill(skill))
        assert (result.reward is not None, min(len(walker.calls), 3)) == (True, calls)


async def test_7_2_08_a_cancelled_run_leaves_no_work_behind(tmp_path):
    started, answered = asyncio.Event(), []

    class Stuck(Walker):
        async def complete(self, *args, **kwargs):
            started.set()
            await asyncio.Event().wait()
            answered.append(args)

    run = asyncio.create_task(trained(doors_config(tmp_path), Stuck(), Coach([])))
    await started.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert not answered
    with look(tmp_path / "runs" / "doors") as store:
        assert not store.episodes()


def test_7_2_10_a_safe_id_keeps_its_name_and_any_other_is_escaped_with_a_mapping(tmp_path):
    ids = ["task_1", "2026-06:12", "../../etc/passwd", "..", "con", "a/b", "ü"]
    folder = tmp_path / "predictions"
    write_predictions(folder, {one: Trajectory(opening=f"about {one}") for one in ids})
    found = {file.parent for file in tmp_path.rglob("conversation.json")}
    assert {place.parent for place in found} == {folder}
    names = json.loads((folder / "names.json").read_text(encoding="utf-8"))
    assert {names.get(place.name, place.name) for place in found} == set(ids)
    assert set(ids) - set(names.values()) == {"task_1"}
    assert not [place.name for place in found if set(place.name) & set('<>:"/\\|?*')]


@pytest.mark.parametrize("module", ["textopt.select", "evaluation", "datasets", "core"])
def test_7_2_11_who_wants_a_schedule_or_a_score_loads_no_network(module):
    heavy = ("aiohttp", "openai", "httpx", "torch", "numpy", "sqlite3")
    ask = f"import sys, skillwright.{module}; print([m for m in {heavy} if m in sys.modules])"
    assert python("-c", ask).stdout.strip() == "[]"


async def test_7_2_12_what_a_stage_asks_for_reaches_the_endpoint():
    async with MockOpenAI() as server, HttpClient() as client:
        config = OpenAIChatConfig(model="m", base_url=server.base_url, api_key=server.api_key)
        for asked in (16_384, 64_000):
            await make_model(config, client).complete(
                [{"role": "user", "content": "?"}],
                sampling=Sampling(max_tokens=asked),
                purpose=Purpose.REFLECT,
            )
    assert [body["max_tokens"] for body in server.bodies] == [16_384, 64_000]


CUT_OFF = Completion('{"patch": {"edits": [{"op": "app', finish_reason="length")


async def test_7_2_12_a_reply_that_was_cut_off_is_asked_for_again_with_more_room():
    model = ScriptedReplies([CUT_OFF, {"patch": {"edits": [{"op": "append", "content": "x"}]}}])
    (patch,) = (await analyzed(model)).patches
    assert [one.edit.content for one in patch.proposals] == ["x"]
    first, second = [asked.sampling.max_tokens for asked in model.asked]
    assert (first, second) == (16_384, 32_768)


async def test_7_2_12_a_reply_that_stays_cut_off_says_so():
    found = await analyzed(ScriptedReplies([CUT_OFF, CUT_OFF]))
    (fault,) = found.faults
    assert "cut off by the token limit" in fault.failure.message


async def analyzed(model):
    rows = read_episodes([make_episode("T0")]).rows
    return await reflect(Optimizer(model), StepSettings(), StepContext("s1", "", 4), rows)


def test_7_2_13_no_function_is_longer_than_a_screen_or_two():
    lengths = {
        f"{file.relative_to(SOURCE)}:{node.name}": node.end_lineno - node.lineno + 1
        for file in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert not {name: lines for name, lines in lengths.items() if lines > 80}
