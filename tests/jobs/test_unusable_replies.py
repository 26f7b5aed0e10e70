"""An optimizer whose replies cannot be used stops the run, which says why and can go on."""

import json

import pytest

from doors import ALL_RULES, ALL_WRONG, Coach, Notebook, Walker, doors_config, look, resumed, story
from doors import trained as trained_on
from samples import once
from skillwright.core import Completion, ModelError, RequestRefused
from skillwright.jobs.inspect import read_run
from skillwright.jobs.kinds import Kind
from skillwright.jobs.run import StepDecided
from skillwright.jobs.text.replies import Replies
from skillwright.rollout import EngineDown

PLAN = [[ALL_RULES], [ALL_WRONG]]
# Every trajectory is read alone: six analysts in each of two steps.
ALONE = {"gradient": {"minibatch_size": 1}}


class Odd(Coach):
    """A coach that gives some analysts' questions another reply; the number is of the analyst."""

    def __init__(self, plan, odd, is_odd=lambda step, number: True):
        super().__init__(plan)
        self._odd = odd
        self._is_odd = is_odd
        self._numbers = {}

    async def complete(self, messages, *, tools=(), sampling, purpose):
        user = messages[1]["content"]
        if "## Trajectories" in user:
            step = 1 + user.count("\nStep ")
            number = self._numbers.setdefault(user, len(self._numbers))
            if self._is_odd(step, number):
                self.calls.append((user, sampling.seed or 0))
                if isinstance(self._odd, Exception):
                    raise self._odd
                return Completion(self._odd)
        return await super().complete(messages, tools=tools, sampling=sampling, purpose=purpose)


def edits(*items):
    return json.dumps({"patch": {"edits": list(items)}})


async def trained(tmp_path, coach, callback=None, **sections):
    config = doors_config(tmp_path, **{**ALONE, **sections})
    return await trained_on(config, Walker(), coach, callback=callback)


@once
async def reference(tmp_path):
    folder = tmp_path / "reference"
    folder.mkdir()
    path, _ = await trained(folder, Coach(PLAN))
    return story(path)


UNUSABLE = {
    "prose": ("I would rather not.", "could not be read"),
    "empty": ("", "could not be read"),
    "another form": ('{"answer": 4}', "could not be read"),
    "unknown operation": (edits({"op": "sing", "content": "La."}), "op 'sing' is none of"),
    "no objects": (edits("Be quick."), "it is a str, not an object"),
    "refused alone": (RequestRefused("blocked by a content policy"), "blocked by a content policy"),
}


@pytest.mark.parametrize("name", UNUSABLE)
async def test_a_first_step_without_a_usable_reply_stops_the_run_before_the_test(tmp_path, name):
    odd, words = UNUSABLE[name]
    with pytest.raises(EngineDown, match=r"^step 1 is not decided: 6 of 6 optimizer") as caught:
        await trained(tmp_path, Odd(PLAN, odd))
    path = tmp_path / "runs" / "doors"
    said = str(caught.value)
    assert words in said
    assert "s1.f0" in said
    assert "The test stays sealed" in said
    assert "resume" in said
    if isinstance(odd, str):
        assert odd[:20] in said
    summary = read_run(path)
    assert summary.steps == 0
    assert summary.stopped == said
    with look(path) as store:
        assert not store.events(Kind.TEST_OPENED)
        assert not [one for one in store.episodes() if one.split == "test"]
    # A mended model is asked again, and decides as if nothing had happened.
    walker = Walker()
    await resumed(path, walker, Coach(PLAN))
    assert story(path) == await reference(tmp_path)
    assert read_run(path).stopped == ""


async def test_a_model_that_is_not_mended_stops_the_resumed_run_again(tmp_path):
    with pytest.raises(EngineDown):
        await trained(tmp_path, Odd(PLAN, "no"))
    path = tmp_path / "runs" / "doors"
    for _ in range(2):
        with pytest.raises(EngineDown, match="6 of 6"):
            await resumed(path, Walker(), Odd(PLAN, "no"))
    await resumed(path, Walker(), Coach(PLAN))
    assert story(path) == await reference(tmp_path)


async def test_two_replies_are_too_few_to_stop_a_first_step(tmp_path):
    seen = Notebook()
    bad = Odd(PLAN, "no", lambda step, number: step == 1)
    _, report = await trained(tmp_path, bad, seen, gradient={"minibatch_size": 12})
    step, _ = report.state.steps
    assert step.action == "skip_analyst_faults"
    assert 1 <= step.replies.asked == step.replies.unusable <= 2
    assert "optimizer replies could not be read" in step.remarks[0]
    assert "(example: call s1.f0)" in step.remarks[0]
    assert seen.of(StepDecided)[0].remarks == step.remarks
    assert report.test is not None


async def test_a_small_run_without_a_usable_reply_does_not_spend_its_test(tmp_path):
    few = {"gradient": {"minibatch_size": 12}, "train": {"batch_size": 12}}
    with pytest.raises(EngineDown, match=r"[12] of [12] optimizer replies could not be read"):
        await trained(tmp_path, Odd(PLAN, "no"), **few)
    with look(tmp_path / "runs" / "doors") as store:
        assert not store.events(Kind.TEST_OPENED)


async def test_a_reply_that_proposes_nothing_is_no_fault(tmp_path):
    _, report = await trained(tmp_path, Coach([]))
    assert [step.action for step in report.state.steps] == ["skip_no_patches"] * 2
    assert report.state.all_replies == Replies(12, 0)
    assert [step.remarks for step in report.state.steps] == [()] * 2


async def test_most_replies_of_a_run_unusable_stop_it_at_a_later_step(tmp_path):
    bad = Odd(PLAN, "no", lambda step, number: number % 6 > 1 or step == 2)
    with pytest.raises(EngineDown, match=r"step 2 .* 6 of 6 .*\(10 of \d+ .* in this run\)"):
        await trained(tmp_path, bad)
    path = tmp_path / "runs" / "doors"
    assert read_run(path).steps == 1
    await resumed(path, Walker(), Coach(PLAN))
    assert [step.action for step in read_run(path).state.steps][1] in ("reject", "undecided")


async def test_a_few_unusable_replies_are_counted_and_stop_nothing(tmp_path):
    _, report = await trained(tmp_path, Odd(PLAN, "no", lambda step, number: number == 2))
    first = report.state.steps[0]
    assert first.action == "accept"
    assert first.replies.unusable == 1
    assert first.remarks[0].startswith(f"1 of {first.replies.asked} optimizer replies could not be")


async def test_skillopts_decisions_are_taken_under_parity_and_the_causes_are_said(tmp_path):
    _, report = await trained(tmp_path, Odd(PLAN, "no"), run={"parity": True})
    assert {step.action for step in report.state.steps} == {"skip_analyst_faults"}
    assert all("could not be read" in step.remarks[0] for step in report.state.steps)
    assert report.state.all_replies.unusable == report.state.all_replies.asked


async def test_a_dead_endpoint_is_named_in_the_run_that_it_stopped(tmp_path):
    with pytest.raises(EngineDown):
        await trained(tmp_path, Odd(PLAN, ModelError("500: the gateway is on fire")))
    stopped = read_run(tmp_path / "runs" / "doors").stopped
    assert "500: the gateway is on fire" in stopped


async def test_dropped_edits_and_edits_that_were_not_made_are_named_with_their_causes(tmp_path):
    good = {"op": "append", "content": ALL_RULES}
    lost = {"op": "replace", "target": "no such line", "content": "x"}
    plan = [[good, {"op": "sing", "content": "La."}, lost]]
    _, report = await trained(tmp_path, Coach(plan), gradient={"minibatch_size": 6})
    remarks = "\n".join(report.state.steps[0].remarks)
    assert "dropped: op 'sing' is none of" in remarks
    assert "not made: replace target not found" in remarks


async def test_what_was_repaired_in_replies_is_named_once_for_all_of_them(tmp_path):
    almost = f'{{"patch": {{"edits": [{{"op": "append", "content": {json.dumps(ALL_RULES)}}},]}}}}'
    few = Odd([], almost, lambda step, number: step == 1 and number < 3)
    _, report = await trained(tmp_path, few)
    first = report.state.steps[0]
    assert first.action == "accept"
    assert first.replies.unusable == 0
    [said] = [one for one in first.remarks if "repaired" in one]
    assert said.startswith("3 replies were repaired: ")
    assert "JSON" in said
    assert "(example: call s1.f0)" in said


@pytest.mark.parametrize(
    ("replies", "earlier", "is_last", "stops"),
    [
        (Replies(3, 3), Replies(), False, True),
        (Replies(2, 2), Replies(), False, False),
        (Replies(2, 2), Replies(), True, True),
        (Replies(1, 1), Replies(), True, True),
        (Replies(2, 1), Replies(), True, False),
        (Replies(3, 2), Replies(), False, False),
        (Replies(3, 2), Replies(), True, True),
        (Replies(4, 2), Replies(), True, False),
        (Replies(4, 4), Replies(1, 0), False, False),
        (Replies(6, 6), Replies(4, 0), False, True),
        (Replies(5, 5), Replies(5, 0), False, False),
        (Replies(0, 0), Replies(), True, False),
        (Replies(1, 1), Replies(2, 1), True, True),
    ],
)
def test_a_run_stops_for_a_lost_first_step_or_most_of_its_replies(replies, earlier, is_last, stops):
    assert replies.are_too_bad(earlier, is_last=is_last) is stops
