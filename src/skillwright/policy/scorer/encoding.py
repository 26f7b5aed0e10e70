"""Encode turns of a text game: segments of text, tokens, and tensors for a batch."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import blake2b
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from skillwright.core import ContractError, TurnContext
from skillwright.core.agent import action_in
from skillwright.core.jsonio import digest

_LISTING: Final = re.compile(r"\n\n[^\n]*commands: [^\n]*$")
_TAKEN: Final = re.compile(r"take (.+) from .+")
_LAID_DOWN: Final = re.compile(r"(?:move|put) (.+?) (?:to|in/on|in|on) .+")
_WENT: Final = re.compile(r"go to (.+)")
_LATEST: Final = 2


@dataclass(frozen=True, slots=True)
class Reading:
    """A turn as segments of text.

    Attributes:
        task: The last paragraph of the opening.
        skill: The injected skills.
        scene: The rest of the opening.
        held: The object in the agent's hands, or "nothing".
        here: Its place and latest observation.
        visited: Distinct visited places.
        latest: Its last commands.
        commands: The admissible commands.
    """

    task: str
    skill: str
    scene: str
    held: str
    here: str
    visited: str
    latest: str
    commands: tuple[str, ...]


def read_turn(context: TurnContext) -> Reading:
    """Read a turn from the conversation and the list of commands.

    The held object and the place follow from the agent's commands.

    Raises:
        ContractError: The environment does not list its commands.
    """
    commands = context.metadata.get("admissible_commands")
    if not commands:
        raise ContractError(
            "a scoring policy chooses from a list, and this environment's metadata has no "
            "'admissible_commands'; use a policy that writes text"
        )
    opening, latest_seen = "", ""
    given = []
    for message in context.messages:
        if message["role"] == "assistant":
            given.append(message["content"])
        elif message["role"] == "user":
            opening = opening or message["content"]
            latest_seen = message["content"]
    return _read(context.skill, opening, latest_seen, tuple(given), tuple(commands))


def _read(
    skill: str, opening: str, latest_seen: str, answers: tuple[str, ...], commands: tuple[str, ...]
) -> Reading:
    scene, task = _split(opening)
    given = [action_in(answer) for answer in answers]
    held, place = "nothing", ""
    visited: dict[str, None] = {}
    for command in given:
        if found := _WENT.fullmatch(command):
            place = found[1]
            visited[place] = None
        elif found := _TAKEN.fullmatch(command):
            held = found[1]
        elif _LAID_DOWN.fullmatch(command):
            held = "nothing"
    seen = _without_listing(latest_seen) if given else ""
    return Reading(
        task=task,
        skill=skill,
        scene=scene,
        held=held,
        here=f"{place}. {seen}",
        visited=". ".join(visited),
        latest=". ".join(given[-_LATEST:]),
        commands=commands,
    )


@lru_cache(maxsize=4096)
def _split(opening: str) -> tuple[str, str]:
    scene, _, task = _without_listing(opening).rpartition("\n\n")
    return scene, task


@lru_cache(maxsize=16384)
def _without_listing(content: str) -> str:
    return _LISTING.sub("", content)


UNKNOWN: Final = 1
"""Id of words outside the vocabulary, which are still equal to themselves; 0 is padding."""

MOST_NUMBER: Final = 31
"""Larger numbers share one embedding; their tokens are still distinct."""

# Skill ids ("[t014]") say nothing about the world.
_TAG: Final = re.compile(r"^- \[\w+\] ", re.MULTILINE)
_TOKEN: Final = re.compile(r"([a-z][a-z'-]*)(?: (\d+)\b)?|(\d+)|([.:?!])|\n")


class Token(NamedTuple):
    """A token; "cabinet 3" is one.

    Attributes:
        word: Lower-case; "." for the end of a sentence or line, "" for a bare number.
        number: The number in the text plus 1; 0 if there is none.
        name: Hash of word and number.
        kind: Hash of the word.
    """

    word: str
    number: int
    name: int
    kind: int


@lru_cache(maxsize=65536)
def tokenize(text: str) -> tuple[Token, ...]:
    """Split a text into tokens, without commas and brackets."""
    tokens: list[Token] = []
    for word, number, bare, _ in _TOKEN.findall(_TAG.sub("- ", text).lower()):
        digits = number or bare
        shown = word if word or bare else "."
        if shown == "." and tokens and tokens[-1].word == ".":
            continue
        tokens.append(_token(shown, digits))
    return tuple(tokens)


@lru_cache(maxsize=65536)
def _token(word: str, digits: str) -> Token:
    number = int(digits) + 1 if digits else 0
    return Token(word, number, _hashed(f"{word} {digits}"), _hashed(word))


def _hashed(text: str) -> int:
    """Return 31 bits, equal in every process."""
    return int.from_bytes(blake2b(text.encode(), digest_size=4).digest(), "big") >> 1


FULL_STOP: Final = _token(".", "")
"""The end of a sentence or line."""


@dataclass(frozen=True)
class Vocabulary:
    """The known words.

    Attributes:
        words: In the order of their ids, which start at 2.
    """

    words: tuple[str, ...]

    @classmethod
    def of(cls, texts: Iterable[str]) -> "Vocabulary":
        """Return the sorted words of some texts."""
        return cls(tuple(sorted({token.word for text in texts for token in tokenize(text)})))

    @cached_property
    def ids(self) -> dict[str, int]:
        """Ids by word."""
        return {word: index for index, word in enumerate(self.words, start=UNKNOWN + 1)}

    @property
    def size(self) -> int:
        """Number of ids, including padding and the unknown word."""
        return len(self.words) + UNKNOWN + 1

    @cached_property
    def digest(self) -> str:
        """Digest of the words."""
        return digest(list(self.words))


# Parts of an episode that do not change are encoded once. Every token has *match bits*, two per
# segment: whether its name, and whether its word, also occurs there.


SEGMENTS: Final = ("task", "skill", "scene", "held", "here", "visited", "latest")
COMMANDS_SEGMENT: Final = len(SEGMENTS)
MATCH_BITS: Final = 2 * len(SEGMENTS)

_FIXED: Final = SEGMENTS[:3]
_CHANGING: Final = SEGMENTS[3:]
_SCENE: Final = SEGMENTS.index("scene")
TASK: Final = SEGMENTS.index("task")

WORD, NUMBER, SEGMENT, BITS, NAME, KIND = range(6)
"""The columns of a token table."""

Table = NDArray[np.int32]

MOST_TOKENS_OF_A_COMMAND: Final = 8
MOST_FIXED_TOKENS: Final = 1024
"""Longer skills are truncated."""
MOST_CHANGING_TOKENS: Final = 256

GAP: Final = 8
"""Empty tokens between the parts of a batch; at least the reach of a convolution."""


@dataclass(frozen=True, eq=False)
class Fixed:
    """The parts of an episode that do not change.

    Attributes:
        name: Digest of the texts.
        prompt: Token table of task and skill, ``[tokens, 6]``.
        sentences: Tokens of each sentence, ``[sentences]``.
        scene: Distinct word ids of the scene, ``[words]``.
        once: Segments that contain a token name or kind, as bits.
        twice: Segments that contain it more than once.
    """

    name: str
    prompt: Table
    sentences: Table
    scene: Table
    once: dict[int, int]
    twice: dict[int, int]


@dataclass(frozen=True, eq=False)
class Encoded:
    """An encoded turn.

    Attributes:
        fixed: Shared by all turns with the same task, skill and scene.
        prompt: Token table of the other segments, ``[tokens, 6]``.
        sentences: Tokens of each sentence, ``[sentences]``.
        words: Token table of the distinct tokens of all commands, ``[tokens, 6]``.
        commands: Rows of ``words`` per command, ``[commands, 8]``; -1 is padding.
    """

    fixed: Fixed
    prompt: Table
    sentences: Table
    words: Table
    commands: Table


_NO_SCENE: Final[Table] = np.zeros(0, dtype=np.int32)


class Encoder:
    """Encodes readings; repeated texts are cached."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._fixed = lru_cache(maxsize=8192)(self._encode_fixed)
        self._row = lru_cache(maxsize=65536)(self._make_row)

    def encode(self, reading: Reading) -> Encoded:
        """Encode a turn."""
        fixed = self._fixed(reading.task, reading.skill, reading.scene)
        texts = (reading.held, reading.here, reading.visited, reading.latest)
        segments = [tokenize(text) for text in texts]
        once, twice = _occurrences(segments, len(_FIXED), fixed.once, fixed.twice)
        rows = [
            self._row(token, index, _match(token, index, once, twice))
            for index, tokens in enumerate(segments, start=len(_FIXED))
            for token in tokens
        ]
        words: dict[Token, int] = {}
        commands = np.full((len(reading.commands), MOST_TOKENS_OF_A_COMMAND), -1, dtype=np.int32)
        for index, command in enumerate(reading.commands):
            tokens = tokenize(command)[:MOST_TOKENS_OF_A_COMMAND]
            commands[index, : len(tokens)] = [words.setdefault(t, len(words)) for t in tokens]
        named = [
            self._row(token, COMMANDS_SEGMENT, _match(token, COMMANDS_SEGMENT, once, twice))
            for token in words
        ]
        prompt = rows[:MOST_CHANGING_TOKENS]
        return Encoded(fixed, _table(prompt), _sentences(prompt), _table(named), commands)

    def _encode_fixed(self, task: str, skill: str, scene: str) -> Fixed:
        segments = [tokenize(task), tokenize(skill), tuple(dict.fromkeys(tokenize(scene)))]
        once, twice = _occurrences(segments, 0, {}, {})
        rows = [
            self._row(token, index, _match(token, index, once, twice))
            for index, tokens in enumerate(segments[:_SCENE])
            for token in tokens
        ]
        seen = {self.vocabulary.ids.get(token.word, UNKNOWN) for token in segments[_SCENE]}
        scene_words = np.array(sorted(seen), dtype=np.int32)
        name = digest([task, skill, scene])
        prompt = rows[:MOST_FIXED_TOKENS]
        return Fixed(name, _table(prompt), _sentences(prompt), scene_words, once, twice)

    def _make_row(self, token: Token, segment: int, bits: int) -> tuple[int, ...]:
        word = self.vocabulary.ids.get(token.word, UNKNOWN)
        number = min(token.number, MOST_NUMBER)
        return (word, number, segment, bits, token.name, token.kind)


def _sentences(rows: Sequence[tuple[int, ...]]) -> Table:
    """Count the tokens of each sentence; it ends with its full stop, or with its segment."""
    ends = [
        at
        for at, (row, after) in enumerate(pairwise(rows), start=1)
        if row[NAME] == FULL_STOP.name or row[SEGMENT] != after[SEGMENT]
    ]
    bounds = [0, *ends, len(rows)] if rows else [0]
    return np.array([end - start for start, end in pairwise(bounds)], dtype=np.int32)


def _occurrences(
    segments: Iterable[Sequence[Token]], first: int, once: dict[int, int], twice: dict[int, int]
) -> tuple[dict[int, int], dict[int, int]]:
    once, twice = once.copy(), twice.copy()
    for index, tokens in enumerate(segments, start=first):
        bit = 1 << index
        # A name equals a kind only if the token has no number.
        names = Counter(token.name for token in tokens)
        kinds = Counter(token.kind for token in tokens)
        for found, shift in ((names, 0), (kinds, len(SEGMENTS))):
            for key, count in found.items():
                once[key] = once.get(key, 0) | bit << shift
                if count > 1:
                    twice[key] = twice.get(key, 0) | bit << shift
    return once, twice


def _match(token: Token, segment: int, once: dict[int, int], twice: dict[int, int]) -> int:
    low, high = (1 << len(SEGMENTS)) - 1, ((1 << len(SEGMENTS)) - 1) << len(SEGMENTS)
    own = (1 << segment | 1 << segment + len(SEGMENTS)) if segment < len(SEGMENTS) else 0
    here = once.get(token.name, 0) & low | once.get(token.kind, 0) & high
    again = twice.get(token.name, 0) & low | twice.get(token.kind, 0) & high
    return here & ~own | again & own


def _table(rows: Sequence[tuple[int, ...]]) -> Table:
    return np.array(rows, dtype=np.int32).reshape(len(rows), 6)


@dataclass(frozen=True, slots=True)
class Batch:
    """Turns as tensors; B turns, T tokens of the longest prompt, W distinct tokens of commands.

    The tokens of all prompts form one sequence of L tokens, with `GAP` empty ones around each part,
    so that convolutions neither mix parts nor process padding. Shared parts occur once.

    Attributes:
        tokens: Token table, ``[L, 6]``.
        sentences: Tokens of each sentence and gap, in the order of ``tokens``; L in total.
        sentence_of: Sentence of each token, ``[L]``.
        scene_of: Row of ``scenes`` of each token, ``[L]``; 0 is the empty scene.
        scenes: Word ids, ``[scenes, words]``, padded with 0.
        prompt: Rows of ``tokens`` of each turn's prompt, ``[B, T]``; 0 is padding.
        words: Token tables of the commands' tokens, ``[B, W, 6]``, padded with 0.
        commands: Rows of ``words``, ``[B, commands, 8]``; -1 is padding.
    """

    tokens: torch.Tensor
    sentences: torch.Tensor
    sentence_of: torch.Tensor
    scene_of: torch.Tensor
    scenes: torch.Tensor
    prompt: torch.Tensor
    words: torch.Tensor
    commands: torch.Tensor


def collate(turns: Sequence[Encoded]) -> Batch:
    """Combine turns into one batch, which holds each distinct fixed part once."""
    distinct = {turn.fixed.name: turn.fixed for turn in turns}
    whole: list[Fixed | Encoded] = [*distinct.values(), *turns]
    parts = [one.prompt for one in whole]
    # A gap is a sentence too, as every token has one.
    sentences = np.concatenate([[GAP], *(np.append(one.sentences, GAP) for one in whole)])
    starts = np.cumsum([GAP, *(len(part) + GAP for part in parts)])
    tokens = np.zeros((starts[-1], 6), dtype=np.int32)
    for start, part in zip(starts, parts, strict=False):
        tokens[start : start + len(part)] = part
    scene_of = np.zeros(len(tokens), dtype=np.int32)
    where = {}
    for number, (key, fixed) in enumerate(distinct.items()):
        rows = np.arange(starts[number], starts[number] + len(fixed.prompt), dtype=np.int32)
        scene_of[rows], where[key] = number + 1, rows
    prompts = [
        np.concatenate([where[turn.fixed.name], np.arange(start, start + len(turn.prompt))])
        for turn, start in zip(turns, starts[len(distinct) :], strict=False)
    ]
    return Batch(
        tokens=torch.from_numpy(tokens),
        sentences=torch.from_numpy(sentences),
        sentence_of=torch.from_numpy(np.repeat(np.arange(len(sentences)), sentences)),
        scene_of=torch.from_numpy(scene_of),
        scenes=_padded([_NO_SCENE, *(fixed.scene for fixed in distinct.values())]),
        prompt=_padded(prompts),
        words=_padded([turn.words for turn in turns]),
        commands=_padded([turn.commands for turn in turns], filling=-1),
    )


def _padded(tables: Sequence[NDArray[Any]], filling: int = 0) -> torch.Tensor:
    longest = max(1, *(len(table) for table in tables))
    padded = np.full((len(tables), longest, *tables[0].shape[1:]), filling, dtype=np.int32)
    for index, table in enumerate(tables):
        padded[index, : len(table)] = table
    return torch.from_numpy(padded)
