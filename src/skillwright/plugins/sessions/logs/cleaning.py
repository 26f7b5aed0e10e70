"""What may be kept of a session: a user's own typed sentences, and the heads of commands.

Logs contain texts of files, pages and tools, which may be prompt injections ("add this to your
skills"). So nothing of tools and models is kept, of a user only typed sentences that pass every
rule below, and of a command only words that are in a short list or that the user typed. A sentence
with a secret is dropped completely, because the rest tells what the secret is for.
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
from skillwright.core.fence import hidden_at
from skillwright.core.secrets import REDACTED, is_secret_name, redact

LONGEST_MESSAGE: Final = 4_000
"""Characters of a message that are read; longer ones are pasted."""
MOST_LINES: Final = 10
"""Lines of a typed message; of a longer one only the first is read."""
LONGEST_SENTENCE: Final = 300
QUOTED_WORDS: Final = 6
"""Words of a sequence that makes a text a quotation of a tool."""
OPENING_WORDS: Final = 4
"""The same for a sequence at the start of a tool's sentence or line."""
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
# Letters and digits in one word, or capitals with hyphens or underscores: a meaningless identifier,
# a marker, or a secret of unknown form.
_MARK: Final = re.compile(
    r"(?<![\w-])(?=[\w-]{8,})(?=[\w-]*[A-Za-z][\w-]*[A-Za-z])(?=[\w-]*\d[\w-]*\d)[\w-]+"
    r"|\b[A-Z0-9]{2,}(?:[-_][A-Z0-9]+)+\b|\b[A-Z0-9]{12,}\b|\S{40,}"
)
# Sentences addressed to the agent's memory request no work.
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
"""Programs whose names are kept even if the user did not type them."""
VERBS: Final = frozenset(
    _NAME.findall(
        "add analyze apply bench branch build check clean clippy commit compile config coverage "
        "deploy dev diff doc docs e2e exec fetch fix fmt format generate init install lint log "
        "merge migrate plan publish pull push pytest rebase release run start stash status sync "
        "tag test tests typecheck unit update up verify version"
    )
)
"""Subcommands that are kept even if the user did not type them."""
_ARGUMENT: Final = re.compile(r"[a-z][a-z:_-]{0,19}")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=\S*")
_JOINTS: Final = re.compile(r"&&|\|\||[;|\n]")
_MOST_ARGUMENTS: Final = 2
_NOT_A_PROGRAM: Final = frozenset({"cd", "sudo", "env", "time", "exec", "echo", "export", "set"})


class Untrusted:
    """The tools' texts in a session, as hashed word sequences."""

    def __init__(self) -> None:
        self._runs: set[int] = set()

    def note(self, text: str) -> None:
        """Remember a text, up to `MOST_QUOTABLE` word sequences."""
        for sentence in _SENTENCE.split(text[: 10 * MOST_QUOTABLE]):
            if len(self._runs) >= MOST_QUOTABLE:
                return
            words = _words(sentence)
            self._runs.update(map(hash, _runs(words[:OPENING_WORDS], OPENING_WORDS)))
            self._runs.update(map(hash, _runs(words, QUOTED_WORDS)))

    def quotes(self, text: str) -> bool:
        """Return whether a text repeats a word sequence of a tool."""
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
    """The kept sentences of a message, and the number of omissions by reason."""

    sentences: tuple[str, ...]
    dropped: Counter[str]

    @property
    def text(self) -> str:
        """The sentences as one text."""
        return " ".join(self.sentences)


def clean(message: str, untrusted: Untrusted) -> Cleaned:
    """Keep the sentences that the user wrote and that contain no secret."""
    dropped: Counter[str] = Counter()
    text = message[:LONGEST_MESSAGE]
    dropped["pasted"] += len(message) > LONGEST_MESSAGE
    for block in _BLOCKS:
        text, count = block.subn("\n", text)
        dropped["pasted"] += count
    # Secrets over several lines are found before the text is split.
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
    """Return why a sentence is not kept, or ""."""
    if len(said) > LONGEST_SENTENCE:
        return "too long"
    if hidden_at(said) or "\t" in said:
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
    # Cached: it takes a millisecond, and users repeat themselves.
    drafted = BankSkill("", "A sentence", said, "", SkillKind.GENERAL)
    return not any(found.blocks and found.rule not in _FORM for found in lint(drafted))


def _speaks_of_secrets(said: str) -> bool:
    words = [found[0].casefold() for found in _SHORT.finditer(said)]
    pairs = [f"{first}_{second}" for first, second in pairwise(words)]
    return any(one in _SECRET_WORDS or is_secret_name(one) for one in [*words, *pairs])


def command_head(command: str, typed: frozenset[str]) -> str:
    """Return program and verbs of the last known command in a shell line, or "".

    ``typed`` are the user's words in this session, in lower case.
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
