"""The models that an adapter asks through `skillopt.model`: those of its run."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from skillwright.config.env import AdapterData, RatioData, SplitDirData
from skillwright.config.readers import config_readers
from skillwright.config.run import RunConfig
from skillwright.core import (
    ChatModel,
    Completion,
    ConfigError,
    Message,
    ModelError,
    Purpose,
    Sampling,
)
from skillwright.core.chat import question
from skillwright.core.jsonio import digest
from skillwright.jobs.run import Budget, Callback, CallFinished
from skillwright.models import FolderAgent
from skillwright.rollout.compat import ModelSession, Role, SessionModel, compat
from skillwright.runs import CallRecord, RunStore

# The run's models for an adapter; its calls need a permit, are recorded and counted like others.


@dataclass(slots=True)
class AdapterCalls:
    """A chat model for an adapter. Every call is recorded, and none is answered from the store.

    An adapter that repeats a request wants a new sample. Whole batches are stored instead, so a
    resumed run repeats no call. The permit of a batch covers its calls.
    """

    program: ChatModel
    store: RunStore
    callback: Callback
    budget: Budget
    clock: Callable[[], float] = time.monotonic

    @property
    def identity(self) -> str:
        """The model's identity."""
        return self.program.identity

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] = (),
        sampling: Sampling = Sampling(),
        purpose: Purpose,
    ) -> Completion:
        """Ask the model, and record the reply."""
        key = digest(
            {**question(self.identity, messages, tools, sampling), "purpose": purpose.value}
        )

        def ask() -> Awaitable[Completion]:
            return self.program.complete(messages, tools=tools, sampling=sampling, purpose=purpose)

        return await self._recorded(key, messages, purpose, ask)

    async def work(
        self, messages: Sequence[Message], folder: Path, *, keeps_edits: bool
    ) -> Completion:
        """Run a command-line agent on the files of a folder, and record its reply."""
        agent = cast("FolderAgent", self.program)
        key = digest([self.identity, messages[-1]["content"], str(folder)])

        def ask() -> Awaitable[Completion]:
            return agent.work(messages, folder, keeps_edits=keeps_edits)

        return await self._recorded(key, messages, Purpose.ROLLOUT, ask)

    async def _recorded(
        self,
        key: str,
        messages: Sequence[Message],
        purpose: Purpose,
        ask: Callable[[], Awaitable[Completion]],
    ) -> Completion:
        async with self.budget.permit("call"):
            began = self.clock()
            call = CallRecord(key, purpose, self.identity, messages, error="not answered")
            try:
                answer = await ask()
            except ModelError as error:
                spent = replace(error.usage, failed_calls=error.failed_calls)
                said = str(error) or type(error).__name__
                self._keep(replace(call, error=said, usage=spent), began)
                raise
            self._keep(replace(call, error=None, completion=answer, usage=answer.usage), began)
            return answer

    def _keep(self, call: CallRecord, began: float) -> None:
        self.store.record_call(replace(call, wall_s=self.clock() - began))
        self.budget.note(call.usage)
        self.callback.on_event(CallFinished(call.purpose.value, call.usage))


MakeRole = Callable[[Role], ChatModel]


def bound_models(
    config: RunConfig, make: MakeRole, store: RunStore, callback: Callback, budget: Budget
) -> AbstractContextManager[ModelSession | None]:
    """Give an adapter the models of its run, until the block ends."""
    return _bound(config, lambda role: AdapterCalls(make(role), store, callback, budget))


def named_models(config: RunConfig) -> AbstractContextManager[ModelSession | None]:
    """Give an adapter the names of its run's models, until the block ends; none can be called."""

    def refuse(role: Role) -> ChatModel:
        raise ConfigError(compat(config.env.compat or "skillopt").no_run)

    return _bound(config, refuse)


def set_up_within(session: ModelSession | None) -> AbstractContextManager[object]:
    """Bind adapters that are built inside the block to this run, if several run concurrently."""
    return nullcontext() if session is None else session.hear()


@contextmanager
def _bound(config: RunConfig, make: MakeRole) -> Iterator[ModelSession | None]:
    if config.env.compat is None:
        yield None
        return

    def llm(role: Role) -> SessionModel:
        settings = getattr(config.models, role)
        effort = getattr(settings, "reasoning_effort", None) or ""
        name = getattr(settings, "model", None) or settings.backend
        bound = getattr(settings, "max_tokens", None)
        return SessionModel(str(name), settings.backend, lambda: make(role), str(effort), bound)

    open_session = compat(config.env.compat).session
    session = open_session(llm("target"), llm("optimizer"), asyncio.get_running_loop())
    try:
        yield session
    finally:
        session.close()


# A run's configuration for an adapter: one flat dict with SkillOpt's documented names.
#
# It holds no secrets: of the models, an adapter gets only the names.
#
# Source: SkillOpt (microsoft/SkillOpt) 0.2, its flat keys.


_ABSENT = object()


def flat_settings(config: RunConfig, out_root: Path) -> dict[str, Any]:
    """Return the argument of `EnvAdapter.setup`; ``env.config`` overrides all other settings."""
    return {
        **_copied(config),
        **_models(config),
        **_data(config),
        "lr_scheduler": (
            "autonomous"
            if config.optimizer.lr_control_mode == "autonomous"
            else config.optimizer.lr_scheduler
        ),
        "use_skill_aware_reflection": config.optimizer.skill_aware is not None,
        "use_gate": config.evaluation.gate.kind != "open",
        **_turns(config.env.given_turns),
        "workers": config.rollout.max_concurrent,
        "env": _short_name(config.env.name),
        **config.env.config,
        "out_root": str(out_root),
    }


def _turns(given: int | None) -> dict[str, int]:
    """Return the turn limit under both of its names; without one, the adapter's default holds."""
    return {} if given is None else {"max_turns": given, "max_steps": given}


def _short_name(name: str) -> str:
    """Return the class of ``path/to/file.py:Class``; loaders name folders by it."""
    return re.sub(r"\W+", "_", name.rpartition(":")[2])


def _copied(config: RunConfig) -> dict[str, Any]:
    """Return the keys that have the same meaning in SkillOpt and here."""
    named = {flat: key for one in config_readers() for flat, key in one.flat_names().items()}
    found = {flat: _read(config, key) for flat, key in named.items()}
    return {name: value for name, value in found.items() if value is not _ABSENT}


def _read(config: RunConfig, path: str) -> Any:
    value: Any = config
    for name in path.split("."):
        value = getattr(value, name, _ABSENT)
    return value


def _models(config: RunConfig) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for role in ("optimizer", "target"):
        llm = getattr(config.models, role)
        settings |= {f"{role}_model": llm.model, f"{role}_backend": llm.backend}
    effort = getattr(config.models.target, "reasoning_effort", None)
    timeout_s = getattr(config.models.target, "timeout_s", None)
    settings |= {"reasoning_effort": effort or ""}
    return settings | ({"exec_timeout": timeout_s} if timeout_s else {})


def _data(config: RunConfig) -> dict[str, Any]:
    limits = config.evaluation
    settings: dict[str, Any] = {
        "train_size": 0,
        "sel_env_num": limits.val_tasks or 0,
        "test_env_num": limits.test_tasks or 0,
    }
    match config.env.data:
        case AdapterData(train=train, val=val, test=test):
            given = {"train_size": train, "sel_env_num": val, "test_env_num": test}
            settings |= {name: count for name, count in given.items() if count}
        case SplitDirData(path=path):
            settings |= {"split_mode": "split_dir", "split_dir": path}
        case RatioData(path=path, ratio=ratio, seed=seed):
            settings |= {"split_mode": "ratio", "data_path": path}
            settings |= {"split_ratio": ratio, "split_seed": seed}
        case _:
            pass
    return settings
