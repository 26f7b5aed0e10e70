"""What single OpenAI models refuse, known before anything is sent: data that ages (2026-11)."""

import re
from dataclasses import dataclass

from skillwright.core import ModelRefused
from skillwright.models.dialects.openai_config import OpenAIChatConfig


@dataclass(frozen=True, slots=True)
class _Quirk:
    """Why a kind of call is refused, and the fix."""

    models: re.Pattern[str]
    tools_only: bool
    fix: str
    harmless_effort: str | None = "\0"  # with this effort there is no problem; None: unset


_QUIRKS = (
    _Quirk(
        re.compile(r"gpt-5[.\d]*-codex|codex-mini|gpt-5\.4-pro"),
        tools_only=False,
        fix="answers on the responses route only: set transport: responses",
    ),
    _Quirk(
        re.compile(r"gpt-5\.4(?!-pro)"),
        tools_only=True,
        harmless_effort=None,
        fix="takes no tools on chat completions beside a reasoning_effort: leave that out, or set "
        "transport: responses",
    ),
    _Quirk(
        re.compile(r"gpt-5\.6|gpt-6-sol"),
        tools_only=True,
        harmless_effort="none",
        fix="takes tools on chat completions only with reasoning_effort: none; set that, or "
        "transport: responses",
    ),
    _Quirk(
        re.compile(r"gpt-6\.1-sol"),
        tools_only=True,
        fix="takes no tools on chat completions: set transport: responses",
    ),
)


def refuse_what_the_model_refuses(config: OpenAIChatConfig, *, tools: bool) -> None:
    """Refuse a call to OpenAI's chat completions that the model is known to answer with a 400."""
    if config.served_by.name != "openai" or config.transport != "chat_completions":
        return
    for quirk in _QUIRKS:
        if not quirk.models.match(config.model) or (quirk.tools_only and not tools):
            continue
        if config.reasoning_effort != quirk.harmless_effort:
            raise ModelRefused(f"nothing was sent: model {config.model!r} {quirk.fix}.")
