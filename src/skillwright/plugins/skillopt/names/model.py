"""`skillopt.model`: blocking functions that ask the models of the run."""

import logging
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, Final

from skillwright.core import Completion, ConfigError, DataError, Message, Purpose, Sampling
from skillwright.core.jsonio import digest
from skillwright.models.skill_md import render_skill_md
from skillwright.plugins.skillopt.session import Ask, present_session, session_if_any
from skillwright.plugins.skillopt.workspace import prepare_workspace
from skillwright.rollout.compat import Role

# `skillopt.model.codex_harness`. Source: SkillOpt (microsoft/SkillOpt), its exec harnesses.


def run_target_exec(  # noqa: PLR0913 - the documented signature
    work_dir: Path | str,
    prompt: str,
    model: str | None = None,
    timeout: float | None = None,
    images: Iterable[Path | str] | None = None,
    data_dirs: Iterable[Path | str] | None = None,
    allowed_tools: Any = None,
    permission_mode: Any = None,
    sandbox: Any = None,
    full_auto: Any = None,
    allow_file_edits: bool = False,
    **kwargs: Any,
) -> tuple[str, str]:
    """Run the target's program on a copy of a folder, and return its last message.

    ``allow_file_edits`` copies its changes back. ``models.target`` determines model, tools and
    sandbox; the arguments for those are ignored.
    """
    session = present_session()
    target: Any = session.model("target")
    if not hasattr(getattr(target, "program", target), "work"):
        raise ConfigError(
            f"run_target_exec runs a program, and models.target.backend is "
            f"{session.llms['target'].backend!r}; ask is_target_exec_backend() first"
        )
    folder = Path(work_dir)
    if not folder.is_dir():
        raise DataError(f"there is no folder {str(folder)!r} to run in; prepare_workspace makes it")
    for source in map(Path, data_dirs or ()):
        if source.is_dir() and not (folder / source.name).exists():
            shutil.copytree(source, folder / source.name)
    asked: list[Message] = [{"role": "user", "content": prompt}]
    answer = session.put(
        digest([str(folder), prompt]),
        "target",
        partial(target.work, asked, folder, keeps_edits=allow_file_edits),
    )
    return answer.text, answer.reasoning or answer.text


EXEC_NAMES: Final[Mapping[str, Any]] = {
    "prepare_workspace": prepare_workspace,
    "render_skill_md": render_skill_md,
    "run_target_exec": run_target_exec,
}
"""Names of `skillopt.model.codex_harness`."""


# `skillopt.model`. Source: SkillOpt (microsoft/SkillOpt), whose signatures are kept. The run's
# settings determine retries, limits, deadlines and ``reasoning_effort``, and also
# ``max_completion_tokens`` where a call leaves it at its default.


DEFAULT_TOKENS: Final = 16_384
"""Default limit of an answer in every signature; passing it counts as passing none."""
EXEC_BACKENDS: Final = ("codex_exec", "claude_code_exec")

_PURPOSES: Final[Mapping[str, Purpose]] = MappingProxyType(
    {
        "analyst": Purpose.REFLECT,
        "merge": Purpose.MERGE,
        "ranking": Purpose.RANK,
        "lr_autonomous": Purpose.BUDGET,
        "rewrite": Purpose.REWRITE,
        "slow_update": Purpose.SLOW_UPDATE,
        "meta_skill": Purpose.META_SKILL,
        "appendix_consolidate": Purpose.APPENDIX,
        "judge": Purpose.JUDGE,
    }
)
_USAGE = dict[str, int]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CalledFunction:
    """Name of a called function, and its arguments as JSON text."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class CalledTool:
    """A tool call, as in OpenAI's client."""

    id: str
    function: CalledFunction
    type: str = "function"

    def model_dump(self, mode: str = "python", **kwargs: Any) -> dict[str, Any]:
        """Return the call as part of a message."""
        function = {"name": self.function.name, "arguments": self.function.arguments}
        return {"id": self.id, "type": self.type, "function": function}


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """An answer, as in OpenAI's client."""

    content: str
    tool_calls: list[CalledTool] | None = None
    role: str = "assistant"

    def model_dump(self, mode: str = "python", **kwargs: Any) -> dict[str, Any]:
        """Return the answer as a message of the conversation."""
        said: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.tool_calls:
            said["tool_calls"] = [call.model_dump() for call in self.tool_calls]
        return said


def _chat_of(role: Role, default_retries: int) -> Callable[..., tuple[str, _USAGE]]:
    """Return the function ``chat_<role>``; retries are ignored, as the run has its own."""

    def ask(
        system: str,
        user: str,
        max_completion_tokens: int = DEFAULT_TOKENS,
        retries: int = default_retries,
        stage: str = role,
        reasoning_effort: str | None = None,
        timeout: float | None = None,
    ) -> tuple[str, _USAGE]:
        """Ask the run's model of this role; return text, prompt, completion and total tokens.

        Without an answer, a `ModelError` is raised: let it pass, or leave the row out.
        """
        _log_ignored_effort(role, reasoning_effort)
        answer = _ask(role, _pair(system, user), max_completion_tokens, stage, timeout)
        return answer.text, _usage(answer)

    ask.__name__ = ask.__qualname__ = f"chat_{role}"
    return ask


chat_target = _chat_of("target", 5)
chat_optimizer = _chat_of("optimizer", 3)


def _messages_of(role: Role) -> Callable[..., tuple[Any, _USAGE]]:
    def ask(  # noqa: PLR0913 - the documented signature
        messages: Sequence[Mapping[str, Any]],
        max_completion_tokens: int = DEFAULT_TOKENS,
        retries: int = 5,
        stage: str = role,
        reasoning_effort: str | None = None,
        *,
        tools: Sequence[dict[str, Any]] | None = None,
        tool_choice: Any = None,
        return_message: bool = False,
        timeout: float | None = None,
    ) -> tuple[Any, _USAGE]:
        """Ask with a conversation and tools; see `chat_target`."""
        _log_ignored_effort(role, reasoning_effort)
        given = _tools(tools, tool_choice)
        answer = _ask(role, messages, max_completion_tokens, stage, timeout, tools=given)
        return (message_of(answer) if return_message else answer.text), _usage(answer)

    ask.__name__ = ask.__qualname__ = f"chat_{role}_messages"
    return ask


def chat_messages_with_deployment(
    deployment: str, messages: Sequence[Mapping[str, Any]], *args: Any, **kwargs: Any
) -> tuple[Any, _USAGE]:
    """Ask the role whose model has this name, with a conversation."""
    return _messages_of(_role_of(deployment))(messages, *args, **kwargs)


def chat_with_deployment(
    deployment: str,
    system: str,
    user: str,
    max_completion_tokens: int = DEFAULT_TOKENS,
    retries: int = 5,
    stage: str = "target",
    **kwargs: Any,
) -> tuple[str, _USAGE]:
    """Ask the role whose model has this name."""
    asked = chat_target if _role_of(deployment) == "target" else chat_optimizer
    return asked(system, user, max_completion_tokens, retries, stage, **kwargs)


def _role_of(deployment: str) -> Role:
    llms = present_session().llms
    roles: tuple[Role, ...] = ("target", "optimizer")
    for role in roles:
        if llms[role].name == deployment:
            return role
    known = " and ".join(f"{llms[role].name!r} ({role})" for role in roles)
    raise ConfigError(f"no model of this run is called {deployment!r}; it has {known}")


def get_target_backend() -> str:
    """Return the backend of the target model."""
    return present_session().llms["target"].backend


def get_optimizer_backend() -> str:
    """Return the backend of the optimizer model."""
    return present_session().llms["optimizer"].backend


def is_target_exec_backend() -> bool:
    """Return whether the target is a command-line agent."""
    return get_target_backend() in EXEC_BACKENDS


def is_target_chat_backend() -> bool:
    """Return whether the target is a chat model."""
    return not is_target_exec_backend()


def is_optimizer_chat_backend() -> bool:
    """Return whether the optimizer is a chat model."""
    return get_optimizer_backend() not in EXEC_BACKENDS


def needs_responses_api(model: str) -> bool:
    """Return false: the settings determine each model's route."""
    return False


def get_codex_exec_config() -> dict[str, Any]:
    """Return the original's keys for `run_target_exec`, where `models.target` replaces them."""
    llm = present_session().llms["target"]
    return {
        "path": "",
        "sandbox": "",
        "profile": "",
        "full_auto": True,
        "reasoning_effort": llm.effort,
        "use_sdk": "",
        "network_access": False,
        "web_search": False,
        "approval_policy": "never",
        "empty_response_retries": 0,
    }


def get_token_summary() -> dict[str, dict[str, int]]:
    """Return calls and tokens by stage, with their sums under ``_total``."""
    return present_session().tokens()


def reset_token_tracker() -> None:
    """Reset the sums; the run's store keeps its own."""
    present_session().forget_tokens()


class Tracker:
    """`azure_openai.tracker`: counts the run's tokens by stage."""

    def record(self, stage: str, prompt_tokens: int = 0, completion_tokens: int = 0) -> None:
        """Add a call made outside of `skillopt.model`."""
        present_session().count(stage, prompt_tokens, completion_tokens)

    def summary(self) -> dict[str, dict[str, int]]:
        """Return `get_token_summary`."""
        return get_token_summary()

    def reset(self) -> None:
        """Call `reset_token_tracker`."""
        reset_token_tracker()


def get_target_client() -> Any:
    """Return an object with ``chat.completions.create``, as in OpenAI's client."""
    return SimpleNamespace(chat=SimpleNamespace(completions=SimpleNamespace(create=_create)))


def get_reasoning_effort() -> str | None:
    """Return the target's reasoning effort, or ``None``."""
    return present_session().llms["target"].effort or None


def message_of(answer: Completion) -> ChatMessage:
    """Return an answer as in OpenAI's client."""
    calls = [
        CalledTool(call.id, CalledFunction(call.name, call.arguments)) for call in answer.tool_calls
    ]
    return ChatMessage(answer.text, calls or None)


def _create(
    *,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[dict[str, Any]] | None = None,
    tool_choice: Any = None,
    max_completion_tokens: int | None = None,
    max_tokens: int | None = None,
    timeout: float | None = None,
    **others: Any,
) -> Any:
    sampling = {name: others[name] for name in ("temperature", "top_p", "seed") if name in others}
    bound = max_completion_tokens or max_tokens
    given = _tools(tools, tool_choice)
    answer = _ask("target", messages, bound, "target", timeout, tools=given, **sampling)
    choice = SimpleNamespace(
        index=0, message=message_of(answer), finish_reason=answer.finish_reason
    )
    return SimpleNamespace(
        choices=[choice], model=answer.model, usage=SimpleNamespace(**_usage(answer))
    )


def _ask(
    role: Role,
    messages: Sequence[Mapping[str, Any]],
    max_tokens: int | None,
    stage: str,
    timeout: float | None,
    tools: Sequence[dict[str, Any]] = (),
    **sampling: Any,
) -> Completion:
    usual = Purpose.ROLLOUT if role == "target" else Purpose.REFLECT
    if max_tokens == DEFAULT_TOKENS:
        max_tokens = present_session().llms[role].max_tokens or DEFAULT_TOKENS
    asked = Ask(
        role=role,
        messages=[_plain(message) for message in messages],
        stage=stage,
        purpose=usual if role == "target" else _PURPOSES.get(stage, usual),
        tools=tools,
        sampling=Sampling(max_tokens=max_tokens, **sampling),
        timeout_s=timeout,
    )
    return present_session().ask(asked)


def _pair(system: str, user: str) -> list[Message]:
    asked: Message = {"role": "user", "content": user}
    return [{"role": "system", "content": system}, asked] if system else [asked]


def _plain(message: Mapping[str, Any]) -> Message:
    """Return a message whose content parts are joined, if all are texts."""
    dump = getattr(message, "model_dump", None)
    said: dict[str, Any] = dict(dump(mode="json") if dump else message)
    content = said.get("content")
    if isinstance(content, list) and all(
        isinstance(part, Mapping) and part.get("type") == "text" for part in content
    ):
        said["content"] = "\n".join(str(part.get("text", "")) for part in content)
    elif content is None:
        said["content"] = ""
    return said  # type: ignore[return-value]


def _tools(tools: Sequence[dict[str, Any]] | None, choice: Any) -> Sequence[dict[str, Any]]:
    if choice not in (None, "auto", "none") and tools:
        _log.warning("tool_choice %r is not passed on: the model chooses itself", choice)
    return () if choice == "none" else tuple(tools or ())


def _usage(answer: Completion) -> _USAGE:
    used = answer.usage
    return {
        "prompt_tokens": used.input_tokens,
        "completion_tokens": used.output_tokens,
        "total_tokens": used.input_tokens + used.output_tokens,
    }


def _log_ignored_effort(role: str, effort: str | None) -> None:
    llm = present_session().llms[role]
    if effort and effort != llm.effort:
        _log.debug("reasoning_effort %r of a call: models.%s decides", effort, role)


@cache
def _configured_elsewhere(name: str) -> Callable[..., None]:
    def configure(*args: Any, **kwargs: Any) -> None:
        """Do nothing: the run's configuration determines the models."""
        _log.warning("%s() has no effect: the run's configuration says what the models are", name)

    configure.__name__ = configure.__qualname__ = name
    return configure


def _some_name(name: str) -> Any:
    """Return ``configure_*`` and ``set_*`` functions, of which there is no list."""
    if name.startswith(("configure_", "set_")):
        return _configured_elsewhere(name)
    raise AttributeError(f"skillopt.model has no {name!r}")


def _deployment(name: str) -> Any:
    """Return the current name of a role's model."""
    role = name.removesuffix("_DEPLOYMENT").lower()
    if name not in ("TARGET_DEPLOYMENT", "OPTIMIZER_DEPLOYMENT"):
        return _some_name(name)
    session = session_if_any()
    return session.llms[role].name if session is not None else os.environ.get(name, "")


_FUNCTIONS: Final[Mapping[str, Any]] = {
    "chat_target": chat_target,
    "chat_target_messages": _messages_of("target"),
    "chat_optimizer": chat_optimizer,
    "chat_optimizer_messages": _messages_of("optimizer"),
    "chat_with_deployment": chat_with_deployment,
    "chat_messages_with_deployment": chat_messages_with_deployment,
    "get_target_backend": get_target_backend,
    "get_optimizer_backend": get_optimizer_backend,
    "is_target_exec_backend": is_target_exec_backend,
    "is_target_chat_backend": is_target_chat_backend,
    "is_optimizer_chat_backend": is_optimizer_chat_backend,
    "get_codex_exec_config": get_codex_exec_config,
    "get_token_summary": get_token_summary,
    "reset_token_tracker": reset_token_tracker,
    "get_reasoning_effort": get_reasoning_effort,
}

MODULES: Final[Mapping[str, Mapping[str, Any]]] = {
    "skillopt.model.codex_harness": EXEC_NAMES,
    "skillopt.model": {**_FUNCTIONS, "__getattr__": _some_name},
    "skillopt.model.backend_config": {
        name: _FUNCTIONS[name]
        for name in (
            "get_target_backend",
            "get_optimizer_backend",
            "is_target_exec_backend",
            "is_target_chat_backend",
            "is_optimizer_chat_backend",
            "get_codex_exec_config",
        )
    },
    "skillopt.model.azure_openai": {
        **_FUNCTIONS,
        "get_target_client": get_target_client,
        "_needs_responses_api": needs_responses_api,
        "tracker": Tracker(),
        "__getattr__": _deployment,
    },
}
