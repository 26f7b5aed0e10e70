"""The requests in a session, their outcomes, and the checks of a later reply.

These rules find evidence of the outcome; without any, it is unknown and is not used.

1. The user corrects ("use pnpm, not npm"): a failure. A later reply must name the first term and
   not the second.
2. The user rejects ("no, ..."), or stops the agent: a failure.
3. The user approves ("thanks"): a success.
4. Without an answer, the exit code of the last checking command (``test``, ``lint``, ``build``,
   ...) decides.

A success with such a command and exit code 0 also has a check: a later reply must name it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from skillwright.plugins.sessions.logs.cleaning import VERBS
from skillwright.plugins.sessions.logs.recorder import Interrupted, Ran, Said, Session

LONGEST_PROMPT: Final = 500
_LEAST_WORDS: Final = 2

_TERM: Final = (
    r"(?:`(?P<{0}q>[^`\n]{{1,40}})`|\"(?P<{0}d>[^\"\n]{{1,40}})\"|(?P<{0}w>[\w./:+@-]*\w))"
)


def _pair(pattern: str) -> re.Pattern[str]:
    text = pattern.replace("WANTED", _TERM.format("w")).replace("OTHER", _TERM.format("o"))
    return re.compile(rf"(?i){text}")


_CORRECTIONS: Final = (
    _pair(r"\buse WANTED(?:,| and|, and)? (?:not|never) OTHER"),
    _pair(r"\buse WANTED (?:instead of|rather than) OTHER"),
    _pair(r"\b(?:don't|do not|never) use OTHER[,;:]? (?:but )?(?:always )?use WANTED"),
    _pair(r"\binstead of OTHER,? use WANTED"),
    _pair(r"\bnot OTHER,? (?:but|use) WANTED"),
)
_REJECTION: Final = re.compile(
    r"(?i)(?:no|nope|wrong|stop|undo|revert|incorrect)\b(?! (?:problem|worries))"
    r"|(?:that|this|it)(?:'s| is| was)(?: still)? (?:not|wrong|broken|incorrect)\b"
    r"|not what i\b|i (?:said|asked)\b"
)
_APPROVAL: Final = re.compile(
    r"(?i)(?:thanks|thank you|great|perfect|nice|lgtm|looks good|awesome|excellent|well done"
    r"|(?:that|it)(?:'s| is)? (?:works|worked|right|correct|good|perfect))\b"
)
_CHECKING: Final = re.compile(
    r"\b(?:tests?|lint|check|build|typecheck|verify|e2e|unit|clippy|pytest|jest|vitest|mypy|tox|ruff"
    r"|eslint|tsc|pyright|nox|ctest|mocha|rspec)\b"
)


class Outcome(StrEnum):
    """The outcome of a request."""

    SUCCESS = "success"
    FAILURE = "failure"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Check:
    """Required and forbidden terms of a reply.

    Attributes:
        kind: Evidence: ``correction`` or ``command``.
        wanted: A term, or words of a command in order.
        unwanted: A term, or "".
    """

    kind: str
    wanted: str
    unwanted: str = ""

    @property
    def pattern(self) -> str:
        """Regular expression that matches correct replies."""
        first = rf"(?is)\A(?=.*{_named(self.wanted)})"
        return first + (rf"(?!.*{_named(self.unwanted)})" if self.unwanted else "")


def _named(term: str) -> str:
    words = r"[^\n;&|]*?[^\n;&|\w-]".join(re.escape(word) for word in term.split())
    return rf"(?<![\w-]){words}(?![\w-])"


@dataclass(frozen=True, slots=True)
class Attempt:
    """A command of the agent, as in `Ran`."""

    command: str
    code: int | None


@dataclass(frozen=True, slots=True)
class Request:
    """A request of a user, and its outcome.

    Attributes:
        session: Id of the session.
        number: From 0, in the session.
        prompt: Kept part of the request.
        is_whole: Whether all of it was kept.
        attempts: Commands until the user's answer.
        answer: Kept part of the user's answer.
        outcome: Outcome of the first attempt.
        because: Rule that determined it.
        check: Check of a later reply, if known.
    """

    session: str
    number: int
    prompt: str
    is_whole: bool
    attempts: tuple[Attempt, ...]
    answer: str
    outcome: Outcome
    because: str
    check: Check | None

    @property
    def decides(self) -> bool:
        """Whether it can be repeated and scored: its text is complete, and a check is known."""
        return self.check is not None and self.is_whole and len(self.prompt.split()) >= _LEAST_WORDS


@dataclass(slots=True)
class _Open:
    """A request that is being read."""

    said: Said
    attempts: list[Attempt] = field(default_factory=list)
    answer: Said | None = None
    was_stopped: bool = False


def requests_of(session: Session) -> list[Request]:
    """Split a session into requests with outcomes, by the rules above."""
    return [_judged(session, number, one) for number, one in enumerate(_opened(session))]


def _opened(session: Session) -> Iterator[_Open]:
    current: _Open | None = None
    for event in session.events:
        if not isinstance(event, Said):
            if current is not None and current.answer is None:
                _take_down(event, current)  # only commands before an answer are the first attempt
            continue
        said = event
        if _is_answer(event):
            if current is not None and current.answer is None:
                current.answer = event
            said = _rest(event)
            if not said.sentences:
                continue
        if current is not None:
            yield current
        current = _Open(said) if said.sentences else None
    if current is not None:
        yield current


def _take_down(event: Ran | Interrupted, current: _Open) -> None:
    if isinstance(event, Ran):
        current.attempts.append(Attempt(event.command, event.code))
    else:
        current.was_stopped = True


def _is_answer(said: Said) -> bool:
    first = said.sentences[0] if said.sentences else ""
    is_opinion = _REJECTION.match(first) or _APPROVAL.match(first)
    return bool(is_opinion) or correction_in(said.sentences) is not None


def _rest(said: Said) -> Said:
    """Return the request after an approval; corrections and rejections contain none."""
    if not _APPROVAL.match(said.sentences[0]) or correction_in(said.sentences):
        return Said((), True)
    return Said(said.sentences[1:], said.is_whole)


def correction_in(sentences: tuple[str, ...]) -> Check | None:
    """Find a correction: the wanted and the unwanted term."""
    for sentence in sentences:
        for pattern in _CORRECTIONS:
            if found := pattern.search(sentence):
                wanted, other = (
                    next(found[key + way] for way in "qdw" if found[key + way]) for key in "wo"
                )
                if wanted.casefold() != other.casefold():
                    return Check("correction", wanted.casefold(), other.casefold())
    return None


def _judged(session: Session, number: int, one: _Open) -> Request:
    answer = one.answer.sentences if one.answer is not None else ()
    outcome, because, check = _outcome(one, answer)
    prompt = " ".join(one.said.sentences)
    return Request(
        session=session.id,
        number=number,
        prompt=prompt[:LONGEST_PROMPT],
        is_whole=one.said.is_whole and len(prompt) <= LONGEST_PROMPT,
        attempts=tuple(one.attempts),
        answer=" ".join(answer),
        outcome=outcome,
        because=because,
        check=check,
    )


def _outcome(one: _Open, answer: tuple[str, ...]) -> tuple[Outcome, str, Check | None]:
    if (correction := correction_in(answer)) is not None:
        return Outcome.FAILURE, "the user corrected it", correction
    if answer and _REJECTION.match(answer[0]):
        return Outcome.FAILURE, "the user rejected it", None
    if one.was_stopped:
        return Outcome.FAILURE, "the user stopped it", None
    done = [try_.command for try_ in one.attempts if try_.command and try_.code == 0]
    check = Check("command", essence(done[-1])) if done else None
    if answer:
        return Outcome.SUCCESS, "the user approved it", check
    checks = [
        try_
        for try_ in one.attempts
        if try_.code is not None and _CHECKING.search(essence(try_.command))
    ]
    if not checks:
        return Outcome.UNKNOWN, "nothing says how it went", None
    if checks[-1].code == 0:
        passed = Check("command", essence(checks[-1].command))
        return Outcome.SUCCESS, f"{checks[-1].command} ended with 0", passed
    return Outcome.FAILURE, f"{checks[-1].command} ended with {checks[-1].code}", None


def essence(command: str) -> str:
    """Return the program and its verbs, without arguments."""
    words = command.split()
    return " ".join([*words[:1], *(word for word in words[1:] if word in VERBS)])
