"""A fault of an endpoint is never a score, and never decides anything."""

import asyncio

import pytest

from doors import ALL_RULES, ALL_WRONG, Coach, Walker, doors_config, look, resumed, story, trained
from samples import once
from skillwright.core import ModelError, ModelRefused, RequestRefused, RunError
from skillwright.jobs.inspect import read_run
from skillwright.jobs.run import CallFinished
from skillwright.rollout import EngineDown

PLAN = [[ALL_RULES], [ALL_WRONG]]


class Faulty:
    """Raises an error at some calls, or at all of them."""

    def __init__(self, error, *numbers):
        self.error = error
        self._numbers = numbers

    def __call__(self, number):
        if not self._numbers or number in self._numbers:
            raise self.error


class Listener:
    def __init__(self):
        self.calls = []

    def on_event(self, event):
        if isinstance(event, CallFinished):
            self.calls.append(event)


@once
async def reference(tmp_path):
    folder = tmp_path / "reference"
    folder.mkdir()
    path, _ = await trained(doors_config(folder), Walker(), Coach(PLAN))
    return story(path)


@pytest.mark.parametrize("step", [1, 2])
async def test_a_dead_optimizer_leaves_the_step_undecided_and_the_run_can_go_on(tmp_path, step):
    error = ModelError("the gateway is on fire")
    error.failed_calls = 3
    listener = Listener()

    class Mortal(Coach):
        def _answer(self, user):
            if step == 1 or "Step 1:" in user:
                raise error
            return super()._answer(user)

    dead = Mortal(PLAN)
    with pytest.raises(EngineDown, match="analyst calls to the optimizer failed; the latest: the"):
        await trained(doors_config(tmp_path), Walker(), dead, callback=listener)
    path = tmp_path / "runs" / "doors"
    assert read_run(path).steps == step - 1
    with look(path) as store:
        assert not [patch for patch in store.patches() if patch.failure]
        spent = store.usage_by_purpose()["reflect"]
    lost = [event for event in listener.calls if event.usage.failed_calls]
    assert spent.failed_calls == 3 * len(lost) > 0
    await resumed(path, Walker(), Coach(PLAN))
    assert story(path) == await reference(tmp_path)


async def test_one_fault_among_the_analysts_is_recorded_and_the_others_are_heard(tmp_path):
    path, report = await trained(
        doors_config(tmp_path), Walker(), Coach(PLAN, Faulty(ModelError("lost"), 1))
    )
    assert report.best_skill == f"{ALL_RULES}\n"
    with look(path) as store:
        assert [p.id for p in store.patches() if p.failure] == ["s1.f0"]


async def test_an_answer_that_is_no_json_is_a_fault_of_that_analyst(tmp_path):
    class Mumbler(Coach):
        def _answer(self, user):
            return "I would rather not"  # a JSON text, and no object

    # Where it is not stopped for them.
    config = doors_config(tmp_path, run={"parity": True})
    _, report = await trained(config, Walker(), Mumbler([]))
    assert {step.action for step in report.state.steps} == {"skip_analyst_faults"}


@pytest.mark.parametrize("number", [1, 2, 3, 4])
async def test_a_refused_optimizer_stops_the_run_which_then_goes_on_as_if_it_had_not(
    tmp_path, number
):
    refused = Faulty(ModelRefused("401: the key is wrong"), *range(number, 99))
    coach = Coach(PLAN, refused)
    with pytest.raises(
        ModelRefused, match="optimizer was refused: 401: the key is wrong"
    ) as caught:
        await trained(doors_config(tmp_path), Walker(), coach)
    assert caught.value.exit_code == 2
    path = tmp_path / "runs" / "doors"
    assert read_run(path).steps == 0
    with look(path) as store:
        assert not store.patches()
        assert not store.edits()
    await resumed(path, Walker(), Coach(PLAN))
    assert story(path) == await reference(tmp_path)


async def test_a_question_that_is_refused_alone_is_a_fault_of_that_analyst(tmp_path):
    blocked = Faulty(RequestRefused("blocked by a content policy"), 1)
    path, report = await trained(doors_config(tmp_path), Walker(), Coach(PLAN, blocked))
    assert [step.action for step in report.state.steps] == ["accept", "reject"]
    assert report.state.final.accepted
    with look(path) as store:
        assert [p.failure.cause.value for p in store.patches() if p.failure] == ["model_refused"]


@pytest.mark.parametrize("number", [1, 30, 60, 300])
async def test_a_refused_agent_stops_the_run_wherever_it_is(tmp_path, number):
    if number == 300:  # in the test, where three artifacts are played at once
        walker = Walker()
        await trained(doors_config(tmp_path, run={"name": "first"}), walker, Coach(PLAN))
        number = len(walker.calls) - 5
    refused = Faulty(ModelRefused("403: not for you"), *range(number, 999))
    with pytest.raises(ModelRefused, match="403: not for you"):
        await trained(doors_config(tmp_path), Walker(refused), Coach(PLAN))
    path = tmp_path / "runs" / "doors"
    with look(path) as store:
        assert store.counts()["failures"] == 0
    await resumed(path, Walker(), Coach(PLAN))
    assert story(path) == await reference(tmp_path)


async def test_single_faults_of_the_agent_are_retried_and_change_nothing(tmp_path):
    faults = Faulty(ModelError("503"), *range(5, 999, 7))
    config = doors_config(tmp_path, rollout={"retries": 9})
    path, _ = await trained(config, Walker(faults), Coach(PLAN))
    assert story(path) == await reference(tmp_path)
    with look(path) as store:
        assert store.counts()["failures"] == 0
        assert max(episode.attempts for episode in store.episodes()) > 1


async def test_an_episode_that_stays_without_an_answer_is_a_failure_and_no_score(tmp_path):
    config = doors_config(tmp_path, rollout={"retries": 0, "max_concurrent": 1})
    # The first batch goes first, in at most 12 calls; the baseline follows.
    path, report = await trained(config, Walker(Faulty(ModelError("503"), 20)), Coach(PLAN))
    assert report.state.baseline.overall.failures == 1
    assert report.state.baseline.overall.episodes == 23
    with look(path) as store:
        failed = [episode for episode in store.episodes() if episode.failure]
    assert [(e.reward, e.failure.message, e.phase) for e in failed] == [(None, "503", "gate")]
    assert report.best_skill == f"{ALL_RULES}\n"


async def test_a_dead_endpoint_stops_the_run_and_loses_nothing(tmp_path):
    dead = Faulty(ModelError("connection refused"), *range(100, 9999))
    with pytest.raises(EngineDown, match="connection refused"):
        await trained(doors_config(tmp_path), Walker(dead), Coach(PLAN))
    path = tmp_path / "runs" / "doors"
    await resumed(path, Walker(), Coach(PLAN))
    assert story(path) == await reference(tmp_path)


@pytest.mark.parametrize("error", [ZeroDivisionError("a bug"), RunError("the disk is full")])
async def test_what_is_no_fault_of_a_mind_escapes_as_it_is(tmp_path, error):
    with pytest.raises(type(error), match=str(error)):
        await trained(doors_config(tmp_path), Walker(), Coach([], Faulty(error)))
    with pytest.raises(type(error), match=str(error)):
        await trained(doors_config(tmp_path), Walker(Faulty(error, 60)), Coach(PLAN))


async def test_cancelling_leaves_no_task_behind(tmp_path):
    started = asyncio.Event()

    class Stuck(Walker):
        async def complete(self, *args, **kwargs):
            started.set()
            await asyncio.Event().wait()

    run = asyncio.create_task(trained(doors_config(tmp_path), Stuck(), Coach([])))
    await started.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ({"max_failure_share": 0.3}, "at most 30% may"),
        ({"give_up_after": 2}, "the last 2 episodes all failed"),
    ],
)
async def test_a_run_with_more_faults_than_it_may_have_stops_and_goes_on_as_if_not(
    tmp_path, bounds, words
):
    def flaky(number):
        # Every third call is lost, and of those to come after many two in a row.
        if number % 3 == 0 or (number > 30 and number % 3 == 1):
            raise ModelError("the line is bad")

    rollout = {"retries": 0, "max_concurrent": 1, **bounds}
    config = doors_config(tmp_path, rollout=rollout)
    with pytest.raises(EngineDown, match=words):
        await trained(config, Walker(flaky), Coach(PLAN))
    path = tmp_path / "runs" / "doors"
    await resumed(path, Walker(), Coach(PLAN))
    assert story(path)["verdicts"] == (await reference(tmp_path))["verdicts"]
