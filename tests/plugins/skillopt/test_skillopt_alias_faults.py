"""A fault of the model is never a score, whatever an adapter makes of it."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from contextvars import ContextVar

import pytest
from skillopt_runs import SWALLOWING

from doors import Walker, llms, look, write_tasks
from skillwright.config.run import validated
from skillwright.core import (
    Completion,
    ConfigError,
    ContractError,
    EpisodeResult,
    ModelError,
    ModelRefused,
    ModelTimeout,
    Usage,
)
from skillwright.jobs import EvalPlan, NullCallback, run_evaluation, start_run
from skillwright.plugins.skillopt import skillopt_alias
from skillwright.plugins.skillopt.session import (
    NO_ANSWER,
    ModelSession,
    SessionModel,
    forget_unanswered,
)

with skillopt_alias():
    from skillopt.model import (
        azure_openai,
        chat_optimizer,
        chat_optimizer_messages,
        chat_target,
        chat_target_messages,
        chat_with_deployment,
        get_token_summary,
        reset_token_tracker,
    )


class Echo:
    """Answers with what it was asked; raises what it was told to, once per question."""

    identity = "echo"

    def __init__(self, name="echo", *faults):
        self.name = name
        self.faults = list(faults)
        self.asked = []

    async def complete(self, messages, *, tools=(), sampling=None, purpose):
        self.asked.append((messages, sampling, purpose))
        if self.faults:
            raise self.faults.pop(0)
        text = f"{self.name}: {messages[-1]['content']}"
        return Completion(text, usage=Usage(calls=1, input_tokens=3, output_tokens=2))


class Permitted(Echo):
    """Remembers the permit under which it was asked."""

    def __init__(self, permit):
        super().__init__("t")
        self._permit = permit
        self.seen = []

    async def complete(self, *asked, **how):
        self.seen.append(self._permit.get())
        return await super().complete(*asked, **how)


def session_of(target=None, optimizer=None, **settings):
    llms = (target or Echo("t"), optimizer or Echo("o"))
    made = [
        SessionModel(f"{one.name}-1", "openai_chat", lambda one=one: one, **settings)
        for one in llms
    ]
    return ModelSession(*made, asyncio.get_running_loop())


@pytest.fixture
async def session():
    made = session_of()
    yield made
    made.close()


async def test_both_roles_are_asked_from_a_thread_and_their_tokens_are_counted(session):
    said, used = await asyncio.to_thread(chat_target, "system", "hello")
    assert said == "t: hello"
    assert used == {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    assert (await asyncio.to_thread(chat_optimizer, "", "why", stage="judge"))[0] == "o: why"
    assert (await asyncio.to_thread(chat_with_deployment, "o-1", "", "who"))[0] == "o: who"
    summary = get_token_summary()
    assert summary["judge"] == {
        "calls": 1,
        "prompt_tokens": 3,
        "completion_tokens": 2,
        "total_tokens": 5,
    }
    assert summary["_total"]["calls"] == 3
    reset_token_tracker()
    assert get_token_summary()["_total"]["calls"] == 0
    assert azure_openai.TARGET_DEPLOYMENT == "t-1"


async def test_a_message_comes_back_in_the_shape_of_openais_client(session):
    asked = [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    ]
    message, _ = await asyncio.to_thread(chat_target_messages, asked, return_message=True)
    assert (message.content, message.tool_calls) == ("t: a\nb", None)
    assert message.model_dump(mode="json") == {"role": "assistant", "content": "t: a\nb"}
    create = azure_openai.get_target_client().chat.completions.create
    answer = await asyncio.to_thread(create, model="any", messages=asked, max_tokens=5)
    assert answer.choices[0].message.content == "t: a\nb"


def ask_in_every_way(**bound):
    talk = [{"role": "user", "content": "hello"}]
    chat_target("", "hello", **bound)
    chat_target_messages(talk, **bound)
    chat_optimizer("", "hello", **bound)
    chat_optimizer_messages(talk, **bound)
    chat_with_deployment("t-1", "", "hello", **bound)


@pytest.mark.parametrize(
    ("configured", "bound", "sent"),
    [
        (500, {}, 500),
        (64_000, {}, 64_000),
        (None, {}, 16_384),
        (500, {"max_completion_tokens": 16_384}, 500),  # what their own adapters pass on
        (500, {"max_completion_tokens": 900}, 900),
    ],
)
async def test_the_default_bound_of_a_call_never_replaces_the_configured_one(
    configured, bound, sent
):
    target, optimizer = Echo("t"), Echo("o")
    with closing(session_of(target, optimizer, max_tokens=configured)):
        await asyncio.to_thread(ask_in_every_way, **bound)
    asked = [sampling.max_tokens for _, sampling, _ in [*target.asked, *optimizer.asked]]
    assert asked == [sent] * 5


async def test_a_pool_of_the_adapters_own_asks_the_one_run_that_goes_on(session):
    def ask_many():
        with ThreadPoolExecutor(4) as pool:
            return list(pool.map(lambda n: chat_target("", str(n))[0], range(16)))

    assert await asyncio.to_thread(ask_many) == [f"t: {n}" for n in range(16)]


async def test_a_stray_thread_asks_under_the_permit_of_the_rollout_beside_a_reflect(tmp_path):
    permit = ContextVar("permit", default="none")
    told = Permitted(permit)
    made = session_of(told)
    permit.set("rollout")
    with closing(made), made.hear(tmp_path):
        permit.set("none")  # a reflect begins while the rollout continues, and holds no permit
        with made.hear(), ThreadPoolExecutor(1) as pool:
            await asyncio.wrap_future(pool.submit(chat_target, "", "hello"))
    assert told.seen == ["rollout"]


async def test_two_runs_are_told_apart_by_context_and_a_stray_thread_is_refused():
    one, two = session_of(Echo("one")), session_of(Echo("two"))
    try:
        for session, name in ((one, "one"), (two, "two")):
            with session.hear():
                assert (await asyncio.to_thread(chat_target, "", "x"))[0] == f"{name}: x"
        with pytest.raises(ConfigError, match="2 runs"), ThreadPoolExecutor(1) as pool:
            await asyncio.wrap_future(pool.submit(chat_target, "", "x"))
    finally:
        one.close()
        two.close()


async def test_on_the_event_loop_it_would_wait_for_itself(session):
    with pytest.raises(ContractError, match="to_thread"):
        chat_target("", "x")


def test_without_a_run_there_is_nobody_to_ask():
    with pytest.raises(ConfigError, match="no run is running"):
        chat_target("", "x")


async def test_after_the_end_of_a_run_whoever_waits_is_told(session):
    class Never(Echo):
        async def complete(self, messages, **kwargs):
            begun.set()
            await asyncio.Event().wait()

    begun = asyncio.Event()
    session.close()
    waiting = session_of(Never())
    asked = asyncio.ensure_future(asyncio.to_thread(chat_target, "", "x"))
    await begun.wait()
    waiting.close()
    with pytest.raises(ModelError, match="ended"):
        await asked


async def test_a_timeout_is_a_typed_fault():
    class Slow(Echo):
        async def complete(self, messages, **kwargs):
            await asyncio.Event().wait()

    session = session_of(Slow())
    try:
        with pytest.raises(ModelTimeout):
            await asyncio.to_thread(chat_target, "", "x", timeout=0.01)
    finally:
        session.close()


async def test_rows_that_quote_a_fault_are_left_out_and_charged_to_the_model():
    session = session_of(Echo("t", ModelError("down")))
    with session.hear() as hearing, pytest.raises(ModelError, match="down") as caught:
        await asyncio.to_thread(chat_target, "", "x")
    rows = [{"id": "a", "hard": 0, "why": [str(caught.value)]}, {"id": "b", "hard": 1}]
    assert hearing.sift(rows) == [rows[1]]
    assert NO_ANSWER in hearing.lost["a"]
    session.close()


def asked_in_turn(*texts):
    """Ask one question after the other in this thread, and continue after a fault."""
    for text in texts:
        with suppress(ModelError):
            chat_target("", text)


@pytest.mark.parametrize(
    ("faults", "asked", "spoils"),
    [
        (1, "x", True),
        (2, "xxx", False),  # asked again at once, and answered
        (1, "xyx", True),  # given up; an equal question later is another episode's
    ],
)
async def test_a_fault_that_no_row_tells_of_spoils_the_batch_unless_it_was_mended(
    faults, asked, spoils
):
    session = session_of(Echo("t", *[ModelError("down")] * faults))
    rows = [{"id": "a", "hard": 0}]
    with closing(session), session.hear() as hearing:
        await asyncio.to_thread(asked_in_turn, *asked)
        if spoils:
            with pytest.raises(ModelError, match="down"):
                hearing.sift(rows)
        else:
            assert hearing.sift(iter(rows)) == rows


async def test_every_fault_must_be_told_of_by_a_row():
    session = session_of(Echo("t", ModelError("down"), ModelError("down")))
    with closing(session), session.hear() as hearing:
        said = []
        for asked in ("x", "y"):
            with pytest.raises(ModelError) as caught:
                await asyncio.to_thread(chat_target, "", asked)
            said.append(str(caught.value))
        with pytest.raises(ModelError):
            hearing.sift([{"id": "a", "why": said[0]}, {"id": "b", "hard": 0, "soft": 0.0}])
        assert hearing.sift([{"id": "a", "why": said[0]}, {"id": "b", "why": said[1]}]) == []
    assert set(hearing.lost) == {"a", "b"}


async def test_a_refused_key_stops_everything():
    session = session_of(Echo("t", ModelRefused("401")))
    with session.hear() as hearing:
        with pytest.raises(ModelRefused) as caught:
            await asyncio.to_thread(chat_target, "", "x")
        with pytest.raises(ModelRefused):
            hearing.sift([{"id": "a", "hard": 0, "why": str(caught.value)}])
    session.close()


def test_an_adapter_does_not_go_on_from_rows_that_were_no_scores(tmp_path):
    (tmp_path / "results.jsonl").write_text(f'{{"id": "a", "why": "{NO_ANSWER}"}}\n{{"id": "b"}}\n')
    forget_unanswered(tmp_path)
    assert (tmp_path / "results.jsonl").read_text() == '{"id": "b"}\n'


async def test_an_adapter_that_scores_faults_as_zeros_has_failures_and_no_zeros(tmp_path):
    write_tasks(tmp_path / "tasks")
    settings = {
        "run": {"root": str(tmp_path / "runs"), "name": "x"},
        "models": {
            "target": {"backend": "scripted", "model": "household"},
            "optimizer": {"backend": "scripted", "model": "analyst"},
        },
        "env": {
            "name": SWALLOWING,
            "compat": "skillopt",
            "config": {"split_dir": str(tmp_path / "tasks"), "workers": 1},
        },
        "rollout": {"retries": 0},
    }
    config = validated(settings, "x")

    def sometimes(number):
        if number % 3 == 0:
            raise ModelError("the endpoint is down")

    plan = EvalPlan("test", 1)
    with start_run(config, "", plan) as run:
        report = await run_evaluation(run, plan, NullCallback(), llms(Walker(sometimes)))
        path = run.folder.path
    assert report.table.overall.failures == 4
    with look(path) as store:
        episodes = [store.load_episode(e.id) for e in store.episodes()]
    lost = [one for one in episodes if one.failure is not None]
    assert {one.failure.cause.value for one in lost} == {"model"}
    assert all(isinstance(one, EpisodeResult) for one in episodes)
    assert len(episodes) == 12


async def test_a_call_that_cannot_be_made_is_no_zero_either():
    one, two = session_of(), session_of()
    with one.hear() as hearing:
        with pytest.raises(ConfigError), ThreadPoolExecutor(1) as pool:
            await asyncio.wrap_future(pool.submit(chat_target, "", "x"))
        with pytest.raises(ConfigError, match="2 runs"):
            hearing.sift([{"id": "a", "hard": 0}])
    two.close()
    with one.hear() as hearing:
        with pytest.raises(ContractError):
            chat_target("", "x")
        with pytest.raises(ContractError):
            hearing.sift([{"id": "a", "hard": 0}])
    one.close()
