"""Episodes and calls as OpenTelemetry spans, for the export of a run and for the live tracker.

Names are those of OpenTelemetry's semantic conventions for generative AI: an episode is an
``invoke_agent`` span, each of its turns a ``chat`` span below it, and so is each call of an
optimizer or teacher. Its reward is the event ``gen_ai.evaluation.result``. Spans hold no messages.

Source: github.com/open-telemetry/semantic-conventions-genai, which has no release yet; the events
as of 0387091, ``gen_ai.skill.name`` as merged on 2026-09-29 (pull request 498). The conventions
have a span for a tool that loads a skill, and nothing for skills in a prompt, as here: those are
events of our own, with the conventions' attribute for the name.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from skillwright.core import EpisodeResult, Usage

SERVICE = "skillwright"
EVALUATION = "gen_ai.evaluation.result"
SKILL_IN_PROMPT = "skillwright.skill_in_prompt"

Facts = Mapping[str, Any]
"""Texts, numbers and lists of texts by name; ``None`` is unknown."""


@dataclass(frozen=True, slots=True)
class Span:
    """A timed operation.

    Attributes:
        trace: 32 hexadecimal digits.
        id: 16 hexadecimal digits.
        parent: The id of the parent span, or ``""``.
        times: Start and end, in seconds since 1970.
        events: Names of events, with the time and the known attributes of each.
    """

    trace: str
    id: str
    parent: str
    name: str
    times: tuple[float, float]
    facts: Facts
    events: Sequence[tuple[str, float, Facts]] = ()

    @property
    def known(self) -> dict[str, Any]:
        """The attributes that are known."""
        return _known(self.facts)

    @property
    def asks(self) -> bool:
        """Whether it is a request to a model (a client span)."""
        return self.name.startswith("chat")


def episode_spans(
    named: str, result: EpisodeResult, agent: str, usage: Usage, ended_at: float
) -> list[Span]:
    """Return an episode's span, and its turns' spans as children.

    Args:
        named: A unique name of the episode, from which ids derive.
        result: The episode.
        agent: The agent's identity.
        usage: Usage, a simulated user's included.
        ended_at: Seconds since 1970.
    """
    trace, task = _digits(named, 32), result.spec.task
    parent = _digits(f"{trace}/episode", 16)
    start, turns = ended_at - result.wall_s, result.trajectory.turns
    facts = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": agent,
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "skillwright.task.id": task.id,
        "skillwright.task.type": task.task_type,
        "skillwright.phase": result.spec.phase,
        "skillwright.skill_version": result.skill_version or None,
        "skillwright.stop_reason": result.stop_reason.value,
        "error.type": None if result.failure is None else result.failure.cause.value,
    }
    events: list[tuple[str, float, Facts]] = [
        (
            SKILL_IN_PROMPT,
            start,
            _known({"gen_ai.skill.name": skill, "skillwright.skill_score": score}),
        )
        for skill, score in zip_longest(result.skill_ids, result.skill_scores)
    ]
    if result.reward is not None:
        score = {"gen_ai.evaluation.name": "reward", "gen_ai.evaluation.score.value": result.reward}
        events.append((EVALUATION, ended_at, score))
    whole = Span(trace, parent, "", f"invoke_agent {task.env}", (start, ended_at), facts, events)
    # The times of turns are unknown, so they share the episode's time evenly.
    each = result.wall_s / max(len(turns), 1)
    return [
        whole,
        *(
            Span(
                trace,
                _digits(f"{trace}/{turn.index}", 16),
                parent,
                f"chat {agent}",
                (start + each * number, start + each * (number + 1)),
                {
                    "gen_ai.operation.name": "chat",
                    "gen_ai.request.model": agent,
                    "gen_ai.response.finish_reasons": [turn.act.finish_reason],
                    "gen_ai.usage.input_tokens": turn.act.usage.input_tokens,
                    "gen_ai.usage.output_tokens": turn.act.usage.output_tokens,
                },
            )
            for number, turn in enumerate(turns)
        ),
    ]


def call_span(
    named: str, purpose: str, times: tuple[float, float], facts: Mapping[str, Any] = {}
) -> Span:
    """Return the span of an optimizer's or teacher's call, with further attributes."""
    trace = _digits(named, 32)
    facts = {"gen_ai.operation.name": "chat", "skillwright.purpose": purpose, **facts}
    return Span(trace, _digits(trace, 16), "", f"chat {purpose}", times, facts)


def numbers_span(named: str, step: int, values: Mapping[str, float], at: float) -> Span:
    """Return a span without duration with the numbers of a step."""
    trace = _digits(named, 32)
    facts = {"skillwright.step": step, **{f"skillwright.{key}": one for key, one in values.items()}}
    return Span(trace, _digits(trace, 16), "", "skillwright.step", (at, at), facts)


def _known(facts: Facts) -> dict[str, Any]:
    return {key: value for key, value in facts.items() if value is not None}


def _digits(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]
