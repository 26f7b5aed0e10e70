"""Simulated users played by models: strategies ``llm``, ``react``, ``verify``, ``reflection``."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Final

from skillwright.core import (
    ChatModel,
    ConfigError,
    Message,
    ModelError,
    ModelTimeout,
    Purpose,
    ReplyInvalid,
    Sampling,
    Usage,
)
from skillwright.core.chat import INTERRUPTED
from skillwright.core.marks import spoken
from skillwright.core.seeds import derive_seed
from skillwright.envs.side_models import shared_model
from skillwright.models import EndpointConfig, parse_model_config
from skillwright.models.http.client import HttpClient
from skillwright.models.http.endpoint import EndpointModel
from skillwright.models.registry import dialect_of
from skillwright.worlds.tau_bench.config import TauBenchEnvConfig
from skillwright.worlds.tau_bench.parsing import utf8_safe
from skillwright.worlds.tau_bench.prompts import prompt
from skillwright.worlds.tau_bench.tau_core.domain import OUT_OF_SCOPE, TRANSFERRED, Domain
from skillwright.worlds.tau_bench.tau_core.retail import RETAIL
from skillwright.worlds.tau_bench.tau_core.store import DOMAINS
from skillwright.worlds.tau_bench.upstream_words import user_words
from skillwright.worlds.tau_bench.users import GREETING, STOP, Heard, UserSetting, UserSimulator

_GARBLED: Final = 2  # an unusable reply is requested once more


def user_endpoint(config: TauBenchEnvConfig) -> EndpointConfig:
    """Return the settings of the user's model as an endpoint configuration."""
    settings: dict[str, Any] = {
        "backend": config.user_backend,
        "model": config.user_simulator_model,
        "base_url": config.user_simulator_endpoint,
        "max_tokens": config.user_sim_max_tokens,
        "temperature": config.user_sim_temperature,
        "timeout_s": min(config.request_timeout, config.user_deadline_s),
        "deadline_s": config.user_deadline_s,
        "max_attempts": config.user_retries + 1,
        "max_concurrent": config.user_max_concurrent,
        # The number of episodes is limited already, so requests need no slow start.
        "start_concurrent": config.user_max_concurrent,
        **({"api_key_env": config.user_api_key_env} if config.user_api_key_env else {}),
        **config.user_settings,
    }
    return _parsed(json.dumps(settings, sort_keys=True, default=str))


@lru_cache(maxsize=64)
def _parsed(settings: str) -> EndpointConfig:
    given = json.loads(settings)
    if "api_key" in given:
        # Settings are stored with a run.
        raise ConfigError(
            "tau_bench env_config: user_settings holds an api_key, which would be stored; name "
            "the environment variable that holds it in user_api_key_env"
        )
    try:
        parsed = parse_model_config(given, "the user's model")
    except ConfigError as error:
        raise ConfigError(
            f"tau_bench env_config: {error} (base_url is user_simulator_endpoint, model is "
            "user_simulator_model, backend is user_backend, all others are in user_settings)"
        ) from None
    if not isinstance(parsed, EndpointConfig) or given.get("transport") == "cli":
        raise ConfigError(
            "tau_bench env_config: the user is played by a model behind an HTTP endpoint, not by "
            "a program; take user_backend 'openai_chat', or leave out transport: cli"
        )
    return parsed


def open_model(
    config: EndpointConfig,
    client: HttpClient,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> ChatModel:
    """Make the model of a user; an unusable reply is requested once more."""
    return EndpointModel(dialect_of(config), client, sleep=sleep, max_garbled=_GARBLED)


def role_prompt(
    instruction: str,
    variant: str,
    *,
    thinks_aloud: bool = False,
    domain: Domain = RETAIL,
    tools: Sequence[str] | None = None,
) -> str:
    """Return the role prompt of a customer's model; ``tools`` are those shown, if not all."""
    shown = [
        one for one in domain.user_schemas if tools is None or one["function"]["name"] in tools
    ]
    parts = [prompt("customer", instruction=instruction)]
    if domain.is_tau3:
        ends = {"transferred": TRANSFERRED, "out_of_scope": OUT_OF_SCOPE}
        parts.append(prompt("customer_tau3", **ends))
    if variant == "completion_boundary":
        parts.append(prompt("customer_boundary"))
    if shown:
        parts.append(prompt("customer_tools", tools=json.dumps(shown, indent=1)))
    return "".join([*parts, *([prompt("customer_aside")] if thinks_aloud else [])])


def judge_prompt(conversation: Sequence[Message], draft: str) -> list[Message]:
    """Ask whether a draft is a good next message, with the customer's view of the conversation."""
    return _about("draft_judge", conversation, draft)


def reflect_prompt(conversation: Sequence[Message], draft: str) -> list[Message]:
    """Ask for the faults of a draft and for a better one."""
    return _about("draft_reflect", conversation, draft)


def advice(draft: str, proposal: str) -> Message:
    """Pass a better message to the customer, who may still say something else."""
    return {"role": "user", "content": prompt("draft_advice", draft=draft, proposal=proposal)}


def _about(name: str, conversation: Sequence[Message], draft: str) -> list[Message]:
    role, *said = conversation
    # The model is the customer, so to it the agent is the user.
    speakers = {"user": "Agent", "assistant": "Customer"}
    transcript = "\n".join(f"{speakers[one['role']]}: {one['content']}" for one in said)
    asked = prompt(name, role=role["content"], transcript=transcript, draft=draft)
    return [{"role": "user", "content": asked}]


_TRIES = 2  # an unusable reply is requested once more


class ModelUser(UserSimulator):
    """A customer played by a model, with one completion per message (strategy ``llm``).

    The model is the assistant of its conversation, and the agent the user. It never sees the
    agent's tool calls and their results.
    """

    thinks_aloud: ClassVar[bool] = False

    def __init__(self, setting: UserSetting, model: ChatModel | None = None) -> None:
        super().__init__()
        self._setting = setting
        self._config = setting.config
        self._endpoint = user_endpoint(setting.config)
        self._model = model
        self._asked = 0
        self._conversation: list[Message] = []

    async def areset(self, instruction: str) -> str:
        """Begin a conversation and return the opening message."""
        self._conversation = [{"role": "system", "content": self._role(instruction)}]
        return await self.astep(GREETING)

    def _role(self, instruction: str) -> str:
        variant = self._config.user_prompt
        if variant == "tau-bench":
            return user_words(self._config).role(instruction)
        return role_prompt(
            instruction,
            variant,
            thinks_aloud=self.thinks_aloud,
            domain=DOMAINS[self._config.domain],
            tools=self._setting.tools,
        )

    async def astep(self, content: str) -> str:
        """Take a message of the agent and return the answer."""
        self.backstage = {}
        heard: Message = {"role": "user", "content": content}
        conversation = [*self._conversation, heard]
        deadline_s = self._config.user_deadline_s
        try:
            async with asyncio.timeout(deadline_s):
                written = await self._reply(conversation)
        except TimeoutError as error:
            if INTERRUPTED.get() is None:  # else the cancelled request is recorded already
                self.usage += Usage(failed_calls=1)
            raise ModelTimeout(
                f"the simulated user took longer than user_deadline_s = {deadline_s:g}"
            ) from error
        self._conversation = [*conversation, {"role": "assistant", "content": written}]
        return self._said(written)

    def take_over(self, instruction: str, conversation: Sequence[Heard]) -> None:
        """Take recorded messages as its own."""
        self._conversation = [{"role": "system", "content": self._role(instruction)}]
        for one in conversation:
            self._conversation += [
                {"role": "user", "content": one.heard},
                {"role": "assistant", "content": self._remembered(one)},
            ]

    def _remembered(self, one: Heard) -> str:
        """Return the text that it would have written for a message."""
        return one.said

    async def _reply(self, conversation: Sequence[Message]) -> str:
        """Return the model's next text, as it will remember it."""
        return await self._ask(conversation, self._said)

    def _said(self, written: str) -> str:
        """Return the part of a text that the agent hears, or ``""``."""
        return written

    async def _ask(
        self, messages: Sequence[Message], usable: Callable[[str], object] = str.strip
    ) -> str:
        """Ask the model; ask once more if its text is blank, only reasoning, or unusable."""
        for _ in range(_TRIES):
            written = utf8_safe(spoken(await self._complete(messages)))
            if written and usable(written):
                return written
        raise ReplyInvalid(
            f"model {self._endpoint.model!r}, which plays the user, answered {_TRIES} times "
            "without a text that can be said; a thinking model may need more user_sim_max_tokens"
        )

    async def _complete(self, messages: Sequence[Message]) -> str:
        model = self._model or await shared_model(self._endpoint, open_model)
        try:
            completion = await model.complete(
                messages, sampling=Sampling(seed=self._next_seed()), purpose=Purpose.USER
            )
        except ModelError as error:
            self.usage += Usage(failed_calls=error.failed_calls)
            raise
        self.usage += completion.usage
        return completion.text

    def _next_seed(self) -> int | None:
        setting = self._setting
        self._asked += 1
        if setting.seed is None:
            return None
        # Derived from the number of the request, so that a repeated request gets another seed.
        task = f"{setting.split}/{setting.task_index}"
        return derive_seed("tau_bench user", setting.seed, task, self._asked)


_LABEL: Final = re.compile(r"^[ \t*#]*(thought|user response)[ \t*]*:[ \t*]*", re.I | re.M)


class ReactUser(ModelUser):
    """A customer that writes a thought and then a message (strategy ``react``).

    Only the message is said; the thought stays in the model's conversation. As in tau-bench, a
    marker anywhere, also in the thought, is the whole message.
    """

    thinks_aloud: ClassVar[bool] = True

    def _said(self, written: str) -> str:
        thought, said = split_thought(written)
        if thought:
            self.backstage["thought"] = thought
        return STOP if STOP in written else said

    def _remembered(self, one: Heard) -> str:
        return f"Thought: {one.thought}\nUser Response: {one.said}" if one.thought else one.said


def split_thought(written: str) -> tuple[str, str]:
    """Split a text into the thought and the message.

    Of repeated labels the first that is not blank counts, since models continue with later turns.
    Without a label all of it is the message; a thought alone has a blank message.
    """
    labels = list(_LABEL.finditer(written))
    if not labels:
        return "", written.strip()
    ends = [label.start() for label in labels[1:]] + [len(written)]
    found = {"thought": "", "user response": ""}
    for label, end in zip(labels, ends, strict=True):
        name = label.group(1).lower()
        found[name] = found[name] or written[label.end() : end].strip()
    return found["thought"], found["user response"]


# Customers whose drafts are judged before they are said. The judge is the same model and sees the
# conversation with the true roles. Rejected drafts and advice are not remembered.


_DRAFTS: Final = 3
_RESPONSE: Final = re.compile(r"^[ \t*#]*response[ \t*]*:[ \t*]*", re.I | re.M)


class _JudgedUser(ModelUser):
    """A customer played by a model, with a judge."""

    async def _is_good(self, conversation: Sequence[Message], draft: str) -> bool:
        verdict = await self._ask(judge_prompt(conversation, draft))
        good = "true" in verdict.lower()
        if not good:
            self.backstage.setdefault("refused", []).append(draft)
        return good


class VerifyingUser(_JudgedUser):
    """A customer with up to three drafts; the third is said in any case (``verify``)."""

    async def _reply(self, conversation: Sequence[Message]) -> str:
        draft = ""
        for _ in range(_DRAFTS):
            draft = await self._ask(conversation)
            if await self._is_good(conversation, draft):
                break
        return draft


class ReflectingUser(_JudgedUser):
    """A customer that revises a rejected draft once (strategy ``reflection``).

    The revised draft is said if the judge accepts it, else the first draft.
    """

    async def _reply(self, conversation: Sequence[Message]) -> str:
        first = await self._ask(conversation)
        if await self._is_good(conversation, first):
            return first
        reflection = await self._ask(reflect_prompt(conversation, first), _proposal)
        self.backstage["reflection"] = reflection
        second = await self._ask([*conversation, advice(first, _proposal(reflection))])
        return second if await self._is_good(conversation, second) else first


def _proposal(reflection: str) -> str:
    """Return the text after the last label, or all of it without a label."""
    return _RESPONSE.split(reflection)[-1].strip()
