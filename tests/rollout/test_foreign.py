"""Somebody else's adapter is called as it expects, and nothing of it holds up the loop."""

import asyncio
import contextvars
import threading

import pytest

from skillwright.core import EnvError
from skillwright.envs import EnvAdapter
from skillwright.rollout.foreign import CallThread, ForeignAdapter

FLAVOR = contextvars.ContextVar("flavour", default="none")


class Plain(EnvAdapter):
    """Blocks, as every adapter of the documented contract may."""

    def __init__(self, name="plain"):
        self.name = name
        self.born_in = threading.current_thread()

    def build_train_env(self, batch_size, seed):
        return batch_size, seed

    def build_eval_env(self, env_num, split, seed, **kwargs):
        return kwargs

    def rollout(self, env_manager, skill_content, out_dir, **kwargs):
        return [threading.current_thread(), kwargs]

    def get_task_types(self):
        return []


class Eager(Plain):
    async def rollout(self, env_manager, skill_content, out_dir, **kwargs):
        await asyncio.sleep(0)
        return [threading.current_thread()]

    def reflect(self, results, skill_content, out_dir, **kwargs):
        return self.answer()

    async def answer(self):
        return ["awaited"]


async def test_an_adapter_is_built_and_called_in_one_thread_of_its_own():
    foreign = await ForeignAdapter.build(Plain, {"name": "mine"})
    adapter = foreign.adapter
    first, named = await foreign.call(adapter.rollout, None, "", "", use_eval_feedback=True)
    second, _ = await foreign.call(adapter.rollout, None, "", "")
    assert adapter.name == "mine"
    assert adapter.born_in is first is second
    assert first is not threading.current_thread()
    assert first.daemon
    assert named == {"use_eval_feedback": True}
    foreign.close()


async def test_names_that_a_method_does_not_take_are_not_passed():
    foreign = ForeignAdapter(Plain())
    assert await foreign.call(foreign.adapter.build_train_env, 2, 7, out_root="o") == (2, 7)
    told = await foreign.call(foreign.adapter.build_eval_env, 0, "train", 7, out_root="o")
    assert told == {"out_root": "o"}
    foreign.close()


async def test_asynchronous_methods_are_awaited_in_the_loop():
    foreign = ForeignAdapter(Eager())
    [thread] = await foreign.call(foreign.adapter.rollout, None, "", "")
    assert thread is threading.current_thread()
    # A plain method that hands out something to await is understood too.
    assert await foreign.call(foreign.adapter.reflect, [], "", "") == ["awaited"]
    foreign.close()


async def test_the_loop_goes_on_while_an_adapter_blocks():
    opened = threading.Event()
    thread = CallThread("slow")
    waiting = asyncio.create_task(thread.run(lambda: opened.wait(30)))
    await asyncio.sleep(0)
    opened.set()  # only a loop that continues gets here
    assert await waiting is True
    thread.close()


async def test_whoever_is_cancelled_does_not_wait_for_a_call_that_blocks():
    never, started = threading.Event(), threading.Event()

    def block():
        started.set()
        return never.wait(30)

    thread = CallThread("stuck")
    waiting = asyncio.create_task(thread.run(block))
    await asyncio.to_thread(started.wait, 30)
    queued = asyncio.create_task(thread.run(lambda: pytest.fail("it was cancelled")))
    await asyncio.sleep(0)
    for task in (waiting, queued):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert not never.is_set()
    never.set()
    assert await thread.run(lambda: "next") == "next"
    thread.close()


@pytest.mark.parametrize(
    ("raised", "seen"),
    [
        (ValueError("no"), ValueError),
        (StopIteration(3), EnvError),
        (SystemExit(1), EnvError),
        (KeyboardInterrupt(), EnvError),
        (asyncio.CancelledError(), EnvError),
    ],
)
async def test_what_an_adapter_raises_reaches_its_caller_and_ends_nothing_else(raised, seen):
    def fail():
        raise raised

    thread = CallThread("failing")
    with pytest.raises(seen):
        await thread.run(fail)
    assert await thread.run(lambda: "alive") == "alive"
    thread.close()


async def test_context_variables_of_the_run_reach_the_adapter():
    thread = CallThread("context")
    FLAVOR.set("vanilla")
    assert await thread.run(FLAVOR.get) == "vanilla"
    thread.close()


def test_an_overridden_method_is_told_from_an_inherited_one():
    assert ForeignAdapter(Eager()).overrides("reflect")
    assert not ForeignAdapter(Plain()).overrides("reflect")
    assert not ForeignAdapter(Plain()).overrides("build_env_from_batch")
