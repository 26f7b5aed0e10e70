"""Turns as numbers: one small table per turn, and tensors for a batch of them.

What holds for a whole episode is encoded once. Every token carries *match bits*, two per
segment: "this very name occurs there too", "this word does"; it does not count itself.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from skillwright.core.jsonio import digest
from skillwright.policy.scorer.reading import Reading
from skillwright.policy.scorer.tokens import (
    FULL_STOP,
    MOST_NUMBER,
    UNKNOWN,
    Token,
    Vocabulary,
    tokenise,
)

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
"""Longer skills are cut at their end."""
MOST_CHANGING_TOKENS: Final = 256

GAP: Final = 8
"""Empty tokens between the parts of a batch; no convolution reaches further."""


@dataclass(frozen=True, eq=False)
class Fixed:
    """What holds for a whole episode.

    Attributes:
        name: Equal for equal texts, in every process.
        prompt: Token table of task and skill, ``[tokens, 6]``.
        sentences: How many tokens each of its sentences has, ``[sentences]``.
        scene: Word ids of the scene, each once, ``[words]``.
        once: Token name or kind -> segments with it, as bits.
        twice: Token name or kind -> segments that have it more than once.
    """

    name: str
    prompt: Table
    sentences: Table
    scene: Table
    once: dict[int, int]
    twice: dict[int, int]


@dataclass(frozen=True, eq=False)
class Encoded:
    """A turn.

    Attributes:
        fixed: Shared by all turns with the same task, skill and scene.
        prompt: Token table of what changes, ``[tokens, 6]``.
        sentences: How many tokens each of its sentences has, ``[sentences]``.
        words: Token table of the distinct tokens of all commands, ``[tokens, 6]``.
        commands: Rows of ``words`` that make up each command, ``[commands, 8]``; -1 is padding.
    """

    fixed: Fixed
    prompt: Table
    sentences: Table
    words: Table
    commands: Table


_NO_SCENE: Final[Table] = np.zeros(0, dtype=np.int32)


class Encoder:
    """Encodes readings; repeated texts are read once."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._fixed = lru_cache(maxsize=8192)(self._encode_fixed)
        self._row = lru_cache(maxsize=65536)(self._make_row)

    def encode(self, reading: Reading) -> Encoded:
        """Encode a turn."""
        fixed = self._fixed(reading.task, reading.skill, reading.scene)
        texts = (reading.held, reading.here, reading.visited, reading.latest)
        segments = [tokenise(text) for text in texts]
        once, twice = _occurrences(segments, len(_FIXED), fixed.once, fixed.twice)
        rows = [
            self._row(token, index, _match(token, index, once, twice))
            for index, tokens in enumerate(segments, start=len(_FIXED))
            for token in tokens
        ]
        words: dict[Token, int] = {}
        commands = np.full((len(reading.commands), MOST_TOKENS_OF_A_COMMAND), -1, dtype=np.int32)
        for index, command in enumerate(reading.commands):
            tokens = tokenise(command)[:MOST_TOKENS_OF_A_COMMAND]
            commands[index, : len(tokens)] = [words.setdefault(t, len(words)) for t in tokens]
        named = [
            self._row(token, COMMANDS_SEGMENT, _match(token, COMMANDS_SEGMENT, once, twice))
            for token in words
        ]
        prompt = rows[:MOST_CHANGING_TOKENS]
        return Encoded(fixed, _table(prompt), _sentences(prompt), _table(named), commands)

    def _encode_fixed(self, task: str, skill: str, scene: str) -> Fixed:
        segments = [tokenise(task), tokenise(skill), tuple(dict.fromkeys(tokenise(scene)))]
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
        # A name equals a kind only where a token has no number, and then it means the same.
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

    All prompts' tokens stand in one long row, L tokens, with `GAP` empty ones around each part, so
    that convolutions neither mix parts nor run over padding. A part that turns share stands there
    once.

    Attributes:
        tokens: Token table, ``[L, 6]``.
        sentences: How many tokens each sentence has, and each gap, in the order of ``tokens``:
            ``[sentences]``, and L in all.
        sentence_of: Its sentence per token, ``[L]``.
        scene_of: Row of ``scenes`` per token, ``[L]``; 0 is the empty scene.
        scenes: Word ids, ``[scenes, words]``, padded with 0.
        prompt: Rows of ``tokens`` that make up each turn's prompt, ``[B, T]``; 0 is padding.
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
    """Put turns into one batch."""
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
