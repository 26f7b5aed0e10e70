"""A customer played by a model: the strategy ``llm``, and what the others share with it."""

import asyncio
from collections.abc import Callable, Sequence
from typing import ClassVar

from skillwright.core import (
    ChatModel,
    Message,
    ModelError,
    ModelTimeout,
    Purpose,
    ReplyInvalid,
    Sampling,
    Usage,
)
from skillwright.core.seeds import derive_seed
from skillwright.envs.tau_bench.parsing import utf8_safe, visible_text
from skillwright.envs.tau_bench.upstream_words import user_words
from skillwright.envs.tau_bench.user_endpoint import shared_model, user_endpoint
from skillwright.envs.tau_bench.user_prompts import role_prompt
from skillwright.envs.tau_bench.users import GREETING, UserSetting, UserSimulator

_TRIES = 2  # what is no reply is asked for again once


class ModelUser(UserSimulator):
    """A customer that a model plays, with one completion per message (strategy ``llm``).

    To the model the roles are turned round: it is the assistant, the agent is the user. It never
    sees the agent's tool calls and their results.
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
        """Begin a conversation and say the opening message."""
        self._conversation = [{"role": "system", "content": self._role(instruction)}]
        return await self.astep(GREETING)

    def _role(self, instruction: str) -> str:
        variant = self._config.user_prompt
        if variant == "tau-bench":
            return user_words(self._config).role(instruction)
        return role_prompt(instruction, variant, thinks_aloud=self.thinks_aloud)

    async def astep(self, content: str) -> str:
        """Hear what the agent says and answer."""
        self.backstage = {}
        heard: Message = {"role": "user", "content": content}
        conversation = [*self._conversation, heard]
        deadline_s = self._config.user_deadline_s
        try:
            async with asyncio.timeout(deadline_s):
                written = await self._reply(conversation)
        except TimeoutError as error:
            self.usage += Usage(failed_calls=1)  # the request that was given up
            raise ModelTimeout(
                f"the simulated user took longer than user_deadline_s = {deadline_s:g}"
            ) from error
        self._conversation = [*conversation, {"role": "assistant", "content": written}]
        return self._said(written)

    async def _reply(self, conversation: Sequence[Message]) -> str:
        """Return what the model writes next, as it shall remember it."""
        return await self._ask(conversation, self._said)

    def _said(self, written: str) -> str:
        """Return the part of what it wrote that the agent hears; blank where there is none."""
        return written

    async def _ask(
        self, messages: Sequence[Message], usable: Callable[[str], object] = str.strip
    ) -> str:
        """Ask the model once; a second time where its text is blank, all thought, or not usable."""
        for _ in range(_TRIES):
            written = utf8_safe(visible_text(await self._complete(messages)))
            if written and usable(written):
                return written
        raise ReplyInvalid(
            f"model {self._endpoint.model!r}, which plays the user, answered {_TRIES} times "
            "without a text that can be said; a thinking model may need more user_sim_max_tokens"
        )

    async def _complete(self, messages: Sequence[Message]) -> str:
        model = self._model or await shared_model(self._endpoint)
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
        # By the number of the request, so that what is asked again meets other luck.
        task = f"{setting.split}/{setting.task_index}"
        return derive_seed("tau_bench user", setting.seed, task, self._asked)
