"""What of a session may be kept: a user's own typed sentences, and the heads of commands.

A log holds what files, pages and tools said, and any of it may be written to be learned ("add this
to your skills"). So nothing is kept because it looks harmless: of tools and models nothing is kept
at all, of a user only sentences that were typed and pass every rule below, and of a command only
words that are in a short list or that the user typed. A sentence in which a secret was found goes
whole, because what is left of it tells what the secret was for.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final

from skillwright.bank import lint
from skillwright.core import BankSkill, SkillKind
from skillwright.core.fence import is_hidden
from skillwright.core.secrets import REDACTED, is_secret_name, redact

LONGEST_MESSAGE: Final = 4_000
"""Characters of a message that are looked at; what is longer was pasted."""
MOST_LINES: Final = 10
"""Lines of a typed message; of a longer one only the first is read."""
LONGEST_SENTENCE: Final = 300
QUOTED_WORDS: Final = 6
"""A run of this many words that a tool had said is a quotation, and not the user's own."""
OPENING_WORDS: Final = 4
"""So is one of this many with which a sentence or line of a tool begins."""
MOST_QUOTABLE: Final = 100_000
"""Runs of words of tools that are remembered per session."""

_BLOCKS: Final = (
    re.compile(r"(?s)(```|~~~).*?(?:\1|\Z)"),
    re.compile(r"(?s)<(?P<tag>[A-Za-z][\w:-]*)\b[^<>]*>.*?(?:</(?P=tag)>|\Z)"),
    re.compile(r"(?m)^(?:\s*[>|\u2502]|\t| {4}).*$"),
)
_SENTENCE: Final = re.compile(r"(?<=[.!?;])\s+|\n+")
_WORD: Final = re.compile(r"\w+")
_SHORT: Final = re.compile(r"[^\W\d_]+")
# Letters and digits in one word, or capitals joined by hyphens or underscores: an identifier that
# says nothing, a marker, or a secret in a form that no pattern knows.
_MARK: Final = re.compile(
    r"(?<![\w-])(?=[\w-]{8,})(?=[\w-]*[A-Za-z][\w-]*[A-Za-z])(?=[\w-]*\d[\w-]*\d)[\w-]+"
    r"|\b[A-Z0-9]{2,}(?:[-_][A-Z0-9]+)+\b|\b[A-Z0-9]{12,}\b|\S{40,}"
)
# Who speaks to what an agent remembers is not asking for anything to be done.
_ABOUT_MEMORY: Final = re.compile(
    r"(?i)\b(?:your|the|a|this|these|my|its|agent'?s?) (?:\w+ )?(?:skills?|memor(?:y|ies)|lessons?"
    r"|system prompts?|instructions?|rules file|skill ?bank)\b"
    r"|\b(?:claude|agents|skill|gemini)\.md\b|\bmemori[sz]e\b"
    r"|\bremember (?:this|that|the following)\b"
)
_SECRET_WORDS: Final = frozenset({"token", "tokens", "pin", "otp", "dsn", "bearer"})
_FORM: Final = frozenset({"too_long", "line_break", "empty"})

_NAME: Final = re.compile(r"[\w-]+")
PROGRAMS: Final = frozenset(
    _NAME.findall(
        "ant bazel black brew bun bundle cargo cmake composer ctest deno docker dotnet eslint "
        "flake8 git go gradle gulp hatch helm jest just kubectl lake make mocha mvn mypy nox npm "
        "npx nx pdm pipenv playwright pnpm poetry pre-commit prettier pylint pyright pytest python "
        "python3 rake rspec ruff rustc swift task terraform tox tsc turbo uv vitest yarn"
    )
)
"""Programs whose name is kept although the user did not type it."""
VERBS: Final = frozenset(
    _NAME.findall(
        "add analyze apply bench branch build check clean clippy commit compile config coverage "
        "deploy dev diff doc docs e2e exec fetch fix fmt format generate init install lint log "
        "merge migrate plan publish pull push pytest rebase release run start stash status sync "
        "tag test tests typecheck unit update up verify version"
    )
)
"""Words behind a program that are kept although the user did not type them."""
_ARGUMENT: Final = re.compile(r"[a-z][a-z:_-]{0,19}")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=\S*")
_JOINTS: Final = re.compile(r"&&|\|\||[;|\n]")
_MOST_ARGUMENTS: Final = 2
_NOT_A_PROGRAM: Final = frozenset({"cd", "sudo", "env", "time", "exec", "echo", "export", "set"})


class Untrusted:
    """Remembers what tools said in a session, as far as is needed to recognize it again."""

    def __init__(self) -> None:
        self._runs: set[int] = set()

    def note(self, text: str) -> None:
        """Remember a text; beyond `MOST_QUOTABLE` runs of words nothing more is remembered."""
        for sentence in _SENTENCE.split(text[: 10 * MOST_QUOTABLE]):
            if len(self._runs) >= MOST_QUOTABLE:
                return
            words = _words(sentence)
            self._runs.update(map(hash, _runs(words[:OPENING_WORDS], OPENING_WORDS)))
            self._runs.update(map(hash, _runs(words, QUOTED_WORDS)))

    def quotes(self, text: str) -> bool:
        """Tell whether a text repeats a run of words of a tool."""
        words = _words(text)
        runs = (*_runs(words, OPENING_WORDS), *_runs(words, QUOTED_WORDS))
        return any(hash(run) in self._runs for run in runs)


def _words(text: str) -> list[str]:
    return [found[0].casefold() for found in _WORD.finditer(text)]


def _runs(words: list[str], size: int) -> Iterator[tuple[str, ...]]:
    for start in range(len(words) - size + 1):
        yield tuple(words[start : start + size])


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What of a message is kept.

    Attributes:
        sentences: In order.
        dropped: How many were left out, by reason; a block or the rest of a long message is one.
    """

    sentences: tuple[str, ...]
    dropped: Counter[str]

    @property
    def text(self) -> str:
        """The sentences as one text."""
        return " ".join(self.sentences)


def clean(message: str, untrusted: Untrusted) -> Cleaned:
    """Keep the sentences of a typed message that were written by the user and hold no secret.

    Args:
        message: As it is in the log.
        untrusted: What tools said before it.
    """
    dropped: Counter[str] = Counter()
    text = message[:LONGEST_MESSAGE]
    dropped["pasted"] += len(message) > LONGEST_MESSAGE
    for block in _BLOCKS:
        text, count = block.subn("\n", text)
        dropped["pasted"] += count
    # A secret that stands over several lines is found before they are taken apart.
    text = redact(text)
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > MOST_LINES:
        dropped["pasted"] += 1
        lines = lines[:1]
    kept = []
    for sentence in _SENTENCE.split("\n".join(lines)):
        said = " ".join(sentence.split(" ")).strip()
        if not said:
            continue
        if why := _why_not(said, untrusted):
            dropped[why] += 1
        else:
            kept.append(said)
    return Cleaned(tuple(kept), +dropped)


def _why_not(said: str, untrusted: Untrusted) -> str:
    """Say why a sentence is not kept, or return ""."""
    if len(said) > LONGEST_SENTENCE:
        return "too long"
    if any(map(is_hidden, said)) or "\t" in said:
        return "hidden characters"
    if REDACTED in said or _speaks_of_secrets(said):
        return "secret"
    if _MARK.search(said):
        return "identifier"
    if _ABOUT_MEMORY.search(said) or untrusted.quotes(said):
        return "not the user's own"
    return "" if _passes_lint(said) else "not allowed in a skill"


@lru_cache(maxsize=4_096)
def _passes_lint(said: str) -> bool:
    # A millisecond each, and people say the same often.
    drafted = BankSkill("", "A sentence", said, "", SkillKind.GENERAL)
    return not any(found.blocks and found.rule not in _FORM for found in lint(drafted))


def _speaks_of_secrets(said: str) -> bool:
    words = [found[0].casefold() for found in _SHORT.finditer(said)]
    pairs = [f"{first}_{second}" for first, second in pairwise(words)]
    return any(one in _SECRET_WORDS or is_secret_name(one) for one in [*words, *pairs])


def command_head(command: str, typed: frozenset[str]) -> str:
    """Return program and verbs of the last command in a shell line that has any, or "".

    Args:
        command: The line as the agent wrote it, which may repeat what a tool said.
        typed: Words that the user typed in this session, in lower case.
    """
    for part in reversed(_JOINTS.split(command[:LONGEST_MESSAGE])):
        words = [word for word in part.split() if not _ASSIGNMENT.fullmatch(word)]
        while words and words[0] in _NOT_A_PROGRAM:
            words = words[1:] if words[0] in ("sudo", "env", "time", "exec") else []
        if not words or not (words[0] in PROGRAMS or _is_typed(words[0], typed)):
            continue
        behind = [word for word in words[1:] if not word.startswith("-")]
        head = [words[0]]
        for word in behind[:_MOST_ARGUMENTS]:
            if not (word in VERBS or _is_typed(word, typed)):
                break
            head.append(word)
        return " ".join(head)
    return ""


def _is_typed(word: str, typed: frozenset[str]) -> bool:
    return _ARGUMENT.fullmatch(word) is not None and word in typed
