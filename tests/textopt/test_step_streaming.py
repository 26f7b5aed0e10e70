"""Micro-batches are analyzed as they come in and merged as they can be, with one outcome."""

import asyncio
import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes import ScriptedReplies, in_one_batch, make_episode
from skillwright.core import Completion, Edit, ModelError, ModelTimeout, Purpose, RequestRefused
from skillwright.rollout import EngineDown
from skillwright.textopt import (
    AnalystPatch,
    Evidence,
    Optimizer,
    Proposal,
    Reflection,
    StepContext,
    StepSettings,
    StepStatus,
    TrainRollouts,
    plan_minibatches,
    propose,
    read_episodes,
)

SETTINGS = StepSettings(minibatch_size=1, merge_batch_size=2)
CONTEXT = StepContext("s3", "# Skill\n", budget=99, seed=7)
ONE = [make_episode("T0")]
SAFETY_NET_S = 20  # only a run that would wait for ever meets it


def episodes(*rewards):
    return [make_episode(f"T{number}", reward) for number, reward in enumerate(rewards)]


def edits_in(asked):
    return [e for p in json.loads(asked.user.split("## Patches\n")[1]) for e in p["edits"]]


def answer(asked):
    """An analyst writes a rule of what it saw; a merge keeps every edit."""
    if asked.purpose is Purpose.REFLECT:
        (row_id,) = (part.partition('"')[0] for part in asked.user.split('<trajectory id="')[1:])
        return {"patch": {"edits": [{"op": "append", "content": row_id, "evidence": [row_id]}]}}
    return {"edits": [{**edit, "sources": [edit["id"]]} for edit in edits_in(asked)]}


def stage(asked):
    """Name a call by what it is about: ``T2``, or ``T0+T1`` for a merge."""
    if asked.purpose is Purpose.REFLECT:
        return answer(asked)["patch"]["edits"][0]["content"]
    return "+".join(edit["content"] for edit in edits_in(asked))


class Chained(ScriptedReplies):
    """Answers a call only when something else has happened.

    Args:
        after: By the name of a call (`stage`): the entry of the log that lets it go.
        reply: What is answered.
    """

    def __init__(self, after, reply=answer):
        super().__init__(reply)
        self.after = after
        self.log = []
        self._happened = {}

    def happening(self, entry):
        return self._happened.setdefault(entry, asyncio.Event())

    def note(self, entry):
        self.log.append(entry)
        self.happening(entry).set()

    async def complete(self, messages, **asked):
        completion = await super().complete(messages, **asked)
        name = stage(self.asked[self.finished[-1]])
        self.note(f"asked {name}")
        if name in self.after:
            await self.happening(self.after[name]).wait()
        self.note(f"answered {name}")
        return completion


async def stepped(model, train_rollouts, settings=SETTINGS):
    async with asyncio.timeout(SAFETY_NET_S):
        return await propose(Optimizer(model, repair_rounds=0), settings, CONTEXT, train_rollouts)


async def test_analysts_start_while_another_micro_batch_is_still_played():
    model = Chained({})

    async def played_late():
        await model.happening("asked T0").wait()
        return TrainRollouts(read_episodes([make_episode("late")]))

    step = await stepped(model, [played_late(), *in_one_batch(ONE)])
    assert model.log[0] == "asked T0"
    assert [p.call for p in step.reflection.patches] == ["s3.b0.f0", "s3.b1.f0"]


async def test_failures_merge_while_a_success_is_still_analyzed():
    model = Chained({"T2": "asked T0+T1"})
    step = await stepped(model, in_one_batch(episodes(0.0, 0.0, 1.0)))
    assert model.log.index("asked T0+T1") < model.log.index("answered T2")
    assert [merge.call for merge in step.merged.merges] == ["s3.f.m1.0", "s3.final"]


async def test_a_chunk_merges_while_later_ones_are_still_analyzed():
    model = Chained({"T2": "asked T0+T1"})
    await stepped(model, in_one_batch(episodes(0.0, 0.0, 0.0, 0.0)))
    assert model.log.index("asked T0+T1") < model.log.index("answered T2")


async def test_levels_overlap_too():
    model = Chained({"T4": "asked T0+T1+T2+T3"})
    step = await stepped(model, in_one_batch(episodes(*[0.0] * 5)))
    assert model.log.index("asked T0+T1+T2+T3") < model.log.index("answered T4")
    calls = [merge.call for merge in step.merged.merges]
    assert calls == ["s3.f.m1.0", "s3.f.m1.1", "s3.f.m2.0", "s3.f.m3.0"]


async def test_failures_merge_while_an_earlier_micro_batch_without_any_is_still_analyzed():
    model = Chained({"won": "asked T0+T1"})
    won = in_one_batch([make_episode("won", 1.0)])
    await stepped(model, [*won, *in_one_batch(episodes(0.0, 0.0))])
    assert model.log.index("asked T0+T1") < model.log.index("answered won")


async def test_a_last_analyst_without_an_edit_lets_a_higher_level_go_on():
    def reply(asked):
        return {"patch": {"edits": []}} if stage(asked) == "T6" else answer(asked)

    model = Chained({"T6": "answered T3+T4+T5", "T3+T4+T5": "answered T0+T1+T2"}, reply)
    settings = StepSettings(minibatch_size=1, merge_batch_size=3)
    step = await stepped(model, in_one_batch(episodes(*[0.0] * 7)), settings)
    calls = [merge.call for merge in step.merged.merges]
    assert calls == ["s3.f.m1.0", "s3.f.m1.1", "s3.f.m2.0"]
    assert len(step.merged.proposals) == 6


async def test_a_merge_waits_for_all_patches_before_it():
    model = Chained({"T0": "answered T3"})
    await stepped(model, in_one_batch(episodes(0.0, 0.0, 0.0, 0.0)))
    merges = [place for place, entry in enumerate(model.log) if "+" in entry]
    assert model.log.index("answered T0") < merges[0]


class Delayed:
    """Answers at once, and lets others go first as often as it is told."""

    identity = "delayed"

    def __init__(self, delays, reply=answer):
        self._inner = ScriptedReplies(reply)
        self._delays = itertools.cycle(delays)

    async def pause(self):
        for _ in range(next(self._delays)):
            await asyncio.sleep(0)

    async def complete(self, messages, **asked):
        completion = await self._inner.complete(messages, **asked)
        await self.pause()
        return completion


def forgetful(asked):
    """As `answer`, but some say nothing usable, nothing at all, or drop what was there."""
    said = answer(asked)
    match stage(asked):
        case "T1":
            return "no"
        case "T4":
            return {"patch": {"edits": []}}
        case "T2+T3":
            return {"edits": []}
        case name if name.startswith("T0+T0"):
            return "no"
    return said


rewards = st.lists(st.sampled_from([0.0, 0.0, 1.0, None]), max_size=7)


@given(
    batches=st.lists(rewards, min_size=1, max_size=3),
    delays=st.lists(st.integers(0, 20), min_size=1, max_size=12),
    size=st.integers(2, 3),
    workers=st.sampled_from([1, 2, 16]),
)
def test_whoever_comes_first_the_step_is_the_same(batches, delays, size, workers):
    def run(delays, workers):
        model = Delayed(delays, forgetful)
        settings = StepSettings(minibatch_size=1, merge_batch_size=size, analyst_workers=workers)

        async def played(results, seed):
            await model.pause()
            return TrainRollouts(read_episodes(results), seed)

        train_rollouts = [played(episodes(*batch), seed) for seed, batch in enumerate(batches)]
        return asyncio.run(stepped(model, train_rollouts, settings))

    assert run(delays, workers) == run([0], 16)


def level_by_level(leaves, size):
    """Merge as the rule says it: level by level, chunk by chunk, every edit kept."""
    nodes, merges, level = list(leaves), [], 0
    while len(nodes) > 1:
        level += 1
        chunks = [nodes[start : start + size] for start in range(0, len(nodes), size)]
        nodes = [" ".join(chunk) for chunk in chunks]
        merges += [
            (f"s3.f.m{level}.{number}", nodes[number])
            for number, chunk in enumerate(chunks)
            if len(chunk) > 1
        ]
    return merges


@given(
    groups=st.lists(st.lists(st.booleans(), max_size=9), min_size=1, max_size=3),
    delays=st.lists(st.integers(0, 20), min_size=1, max_size=12),
    size=st.integers(2, 4),
)
def test_chunks_are_those_of_a_merge_level_by_level(groups, delays, size):
    leaves = [
        f"T{group}.{number}"
        for group, batch in enumerate(groups)
        for number, has_edit in enumerate(batch)
        if has_edit
    ]

    def reply(asked):
        said = answer(asked)
        silent = asked.purpose is Purpose.REFLECT and stage(asked) not in leaves
        return {"patch": {"edits": []}} if silent else said

    model = Delayed(delays, reply)

    async def played(group, batch):
        await model.pause()
        results = [make_episode(f"T{group}.{number}") for number in range(len(batch))]
        return TrainRollouts(read_episodes(results))

    settings = StepSettings(minibatch_size=1, merge_batch_size=size)
    train_rollouts = [played(group, batch) for group, batch in enumerate(groups)]
    step = asyncio.run(stepped(model, train_rollouts, settings))
    contents = {one.id: one.edit.content for one in step.proposals}
    found = [(m.call, " ".join(contents[one] for one in m.inputs)) for m in step.merged.merges]
    assert found == level_by_level(leaves, size)


async def test_each_micro_batch_is_shuffled_by_its_own_seed():
    results = episodes(*[0.0] * 6)
    step = await stepped(
        ScriptedReplies(lambda asked: {"patch": {"edits": []}}),
        [*in_one_batch(results, 5), *in_one_batch(results, 9), *in_one_batch(results)],
    )
    rows = read_episodes(results).rows
    planned = [
        f"b{batch}.{row.id}"
        for batch, seed in enumerate([5, 9, None])
        for minibatch in plan_minibatches(rows, SETTINGS, seed)
        for row in minibatch.rows
    ]
    assert [name for p in step.reflection.patches for name in p.trajectories] == planned


async def test_no_question_of_a_step_is_asked_with_the_luck_of_another():
    model = ScriptedReplies(merging)
    await stepped(model, [*in_one_batch(ONE), *in_one_batch(ONE)])
    assert model.asked[0].messages == model.asked[1].messages
    assert len({asked.sampling.seed for asked in model.asked} - {None}) == 3


async def test_a_task_in_two_micro_batches_is_two_trajectories():
    step = await stepped(ScriptedReplies(merging), [*in_one_batch(ONE), *in_one_batch(ONE)])
    (proposal,) = step.merged.proposals
    assert proposal.evidence == (Evidence("b0.T0"), Evidence("b1.T0"))
    assert step.failed == ("b0.T0", "b1.T0")
    (pattern,) = step.entry(3, "reject").failures
    assert (pattern.pattern, pattern.count, pattern.task_ids) == ("shut", 2, ("T0",))


def merging(asked):
    if asked.purpose is Purpose.REFLECT:
        return {**answer(asked), "failure_summary": [{"failure_type": "shut", "ids": ["T0"]}]}
    return {"edits": [{"op": "append", "content": "both", "sources": ["p1.e1", "p2.e1"]}]}


@pytest.mark.parametrize("workers", [1, 3])
async def test_analyst_workers_bounds_the_analysts_of_the_whole_step(workers):
    class Counting(Delayed):
        now = most = 0

        async def complete(self, messages, **asked):
            self.now += 1
            self.most = max(self.most, self.now)
            completion = await super().complete(messages, **asked)
            self.now -= 1
            return completion

    model = Counting([5], lambda asked: {"patch": {"edits": []}})
    settings = StepSettings(minibatch_size=1, analyst_workers=workers)
    batch = episodes(0.0, 0.0, 0.0, 1.0)
    await stepped(model, [*in_one_batch(batch), *in_one_batch(batch)], settings)
    assert model.most == workers


async def test_an_adapters_own_analysts_are_asked_and_merged():
    def own(context):
        proposal = Proposal(f"{context.name}.a0.e1", edit_of(context), "failure", (Evidence("T0"),))
        return Reflection(
            (AnalystPatch(f"{context.name}.a0", "failure", ("T0",), (proposal,)),), ("odd",)
        )

    async def reflecting(context):
        return own(context)

    async def played():
        return TrainRollouts(read_episodes(ONE), seed=11, reflect=reflecting)

    step = await stepped(ScriptedReplies(answer), [played(), *in_one_batch(ONE)])
    assert [one.id for one in step.proposals[:2]] == ["s3.b0.a0.e1", "s3.b1.f0.e1"]
    assert step.proposals[0].evidence == (Evidence("b0.T0"),)
    assert [merge.inputs for merge in step.merged.merges] == [("s3.b0.a0.e1", "s3.b1.f0.e1")]
    assert step.to_dict()["reflection_notes"] == ["odd"]
    alone = await stepped(ScriptedReplies([]), [played()])
    assert alone.candidate == "# Skill\n\nseed 11\n"


def edit_of(context):
    return Edit("append", f"seed {context.seed}")


async def test_a_micro_batchs_own_prompts_go_to_its_analysts_only():
    async def played():
        return TrainRollouts(read_episodes(ONE), env_prompts={"analyst_error": "# Mine"})

    model = ScriptedReplies(answer)
    await stepped(model, [played(), *in_one_batch(ONE)])
    systems = [asked.messages[0]["content"].partition("\n")[0] for asked in model.asked]
    assert systems == ["# Mine", "# Analyst: failures", "# Merge: failures"]


async def test_a_micro_batch_that_cannot_be_played_stops_the_step():
    async def down():
        raise EngineDown("nothing but failures")

    with pytest.raises(EngineDown, match="nothing but failures"):
        await stepped(ScriptedReplies(answer), [down(), *in_one_batch(ONE)])


@pytest.mark.parametrize("fault", [ModelError("503"), ModelTimeout("over 60 s")])
async def test_a_step_that_reaches_no_analyst_is_no_step(fault):
    batch = episodes(0.0, 1.0)
    with pytest.raises(EngineDown, match=r"all 4 analyst calls .* the latest: (503|over)"):
        await stepped(
            ScriptedReplies(lambda asked: fault), [*in_one_batch(batch), *in_one_batch(batch)]
        )


@pytest.mark.parametrize("usable", ["no", RequestRefused("too long"), Completion('{"a": ')])
async def test_a_step_with_one_bad_answer_among_faults_is_a_skip(usable):
    model = ScriptedReplies([ModelError("503"), usable])
    step = await stepped(model, in_one_batch(episodes(0.0, 1.0)))
    assert step.status is StepStatus.FAULTS


async def test_a_step_without_micro_batches_proposes_nothing():
    step = await stepped(ScriptedReplies([]), [])
    assert step.status is StepStatus.NO_PATCHES
