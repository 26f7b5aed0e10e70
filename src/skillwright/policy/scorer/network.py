"""The scorer's network: match bits, sentences, convolutions, attention from commands to prompt.

A turn's scores do not depend on padding. Source: our own measured designs; the attention is that of
arXiv:1706.03762 with a learned bias for equal words.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from skillwright.core import ConfigError
from skillwright.policy.scorer.encoding import (
    BITS,
    COMMANDS_SEGMENT,
    GAP,
    KIND,
    MATCH_BITS,
    MOST_NUMBER,
    MOST_TOKENS_OF_A_COMMAND,
    NAME,
    NUMBER,
    SEGMENT,
    SEGMENTS,
    TASK,
    WORD,
    Batch,
    Vocabulary,
)

# exp() of this, times a few hundred keys, is far below the largest float32.
_MOST_LOGIT = 30.0

# Divisor of an average over nothing.
_LEAST_WEIGHT = 1e-20

_MOST_REACH = 2 * GAP + 1

MOST_WORDS_OF_A_TASK = 64
"""The words of the task that commands are compared with, the first ones."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """The shape of the network.

    Attributes:
        width: Size of every vector; a multiple of ``heads``.
        heads: Of the attention from commands to prompt; even, as half of them look for the same
            name and the others for the same word.
        layers: Convolutions over the prompt.
        reach: Tokens that a convolution sees; odd, and at most 17, so that it never sees beyond
            the gap between two parts of a batch.
        hidden: Size of the last hidden layer.
        affinities: How many ways there are for a word to go with the scene.
        calls: How many ways there are for a command's word to be called for by those of the task,
            as a basin is by "clean". A product of two factors learns that soon; layers on top of
            sums learned it last of all.

    Raises:
        ConfigError: Width, heads or reach is out of its range.
    """

    width: int = 64
    heads: int = 2
    layers: int = 2
    reach: int = 5
    hidden: int = 128
    affinities: int = 8
    calls: int = 16

    def __post_init__(self) -> None:
        if self.heads % 2 or self.width % self.heads:
            raise ConfigError(
                f"policy.width is {self.width}, for {self.heads} heads; make width a multiple of "
                "heads, and heads even"
            )
        if self.reach % 2 == 0 or self.reach > _MOST_REACH:
            raise ConfigError(f"reach is {self.reach}; make it odd, and at most {_MOST_REACH}")


class CommandScorer(nn.Module):
    """Scores the commands of each turn of a batch."""

    def __init__(self, shape: Architecture, vocabulary: Vocabulary) -> None:
        super().__init__()
        width = shape.width
        self.shape = shape
        self.word = nn.Embedding(vocabulary.size, width)
        self.number = nn.Embedding(MOST_NUMBER + 1, width)
        self.segment = nn.Embedding(COMMANDS_SEGMENT + 1, width)
        for table, scale in ((self.word, 0.3), (self.number, 0.3), (self.segment, 0.1)):
            nn.init.normal_(table.weight, std=scale)
        self.bits = nn.Linear(MATCH_BITS, width, bias=False)
        # Larger than word and number: where a word occurs is more informative than which one it is.
        nn.init.normal_(self.bits.weight, std=0.6)
        # Informativeness of a matching word; learned, as no count of texts predicts it as well.
        self.gate = nn.Parameter(torch.ones(vocabulary.size))
        self.affinity_word = nn.Linear(width, shape.affinities, bias=False)
        self.affinity_scene = nn.Linear(width, shape.affinities, bias=False)
        self.affinity = nn.Linear(shape.affinities, width, bias=False)
        self.call_word = nn.Linear(width, shape.calls, bias=False)
        self.call_task = nn.Linear(width, shape.calls, bias=False)
        self.call = nn.Linear(shape.calls, width, bias=False)
        for factor in (self.call_word, self.call_task):
            nn.init.normal_(factor.weight, std=0.3)
        self.mention = nn.Linear(width, width, bias=False)
        self.mentioned = nn.Linear(width, width, bias=False)
        self.convolutions = nn.ModuleList(
            nn.Linear(shape.reach * width, width) for _ in range(shape.layers)
        )
        self.prompt_norm = nn.LayerNorm(width)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        # Half of the heads look for the same name, the others for the same word.
        self.sharpness = nn.Parameter(torch.full((shape.heads,), 4.0))
        half = shape.heads // 2
        self.same = nn.Parameter(torch.tensor([2.0] * half + [0.5] * half))
        self.token = nn.Sequential(nn.Linear(2 * width, width), nn.GELU(), nn.Linear(width, width))
        # The role of a word depends on its position: the object, or its source.
        self.slots = nn.Parameter(torch.eye(width).repeat(MOST_TOKENS_OF_A_COMMAND, 1, 1))
        self.prompt_pool = nn.Linear(width, 1)
        self.commands_pool = nn.Linear(width, 1)
        self.state = nn.Linear((len(SEGMENTS) + 1) * width, width)
        self.head_norm = nn.LayerNorm(3 * width)
        self.head = nn.Sequential(
            nn.Linear(3 * width, shape.hidden), nn.GELU(), nn.Linear(shape.hidden, 1)
        )

    def forward(self, batch: Batch) -> Tensor:
        """Return the logits of all commands, ``[B, commands]``; padding is -1e9."""
        encoded = self._prompt(batch)
        present = (batch.prompt > 0).unsqueeze(-1).to(encoded.dtype)
        words = self._embedded(batch.words) + self._called_for(batch)
        attended = self._attended(words, batch, encoded, present)
        there = (batch.words[..., WORD] > 0).unsqueeze(-1).to(encoded.dtype)
        tokens = self.token(torch.cat([words, attended], dim=-1)) * there
        segments = self._pooled_segments(batch, encoded, present)
        offered = _pooled(tokens, _attention(self.commands_pool(tokens)) * there)
        state = self.state(torch.cat([segments, offered], dim=1).flatten(1)).unsqueeze(1)
        commands = self._commands(tokens, batch.commands)
        features = torch.cat([commands, state.expand_as(commands), commands * state], dim=-1)
        scores: Tensor = self.head(self.head_norm(features)).squeeze(-1)
        return scores.masked_fill(batch.commands[..., 0] < 0, -1e9)

    def _embedded(self, tables: Tensor) -> Tensor:
        words = tables[..., WORD]
        places = torch.arange(MATCH_BITS, dtype=torch.int32)
        bits = (tables[..., BITS, None] >> places & 1).to(self.gate.dtype)
        gated = bits * self.gate[words].unsqueeze(-1)
        embedded: Tensor = self.word(words) + self.number(tables[..., NUMBER])
        summed: Tensor = embedded + self.segment(tables[..., SEGMENT]) + self.bits(gated)
        return summed

    def _called_for(self, batch: Batch) -> Tensor:
        """Compare the words of commands with those of the task, ``[B, W, width]``."""
        # A prompt begins with its task.
        tokens = batch.tokens[batch.prompt[:, :MOST_WORDS_OF_A_TASK]]
        ids, mine = tokens[..., WORD], (tokens[..., SEGMENT] == TASK) & (tokens[..., WORD] > 0)
        weights = (self.gate[ids] * mine).unsqueeze(1)
        task = self.call_task(weights @ self.word(ids))
        called: Tensor = self.call(self.call_word(self.word(batch.words[..., WORD])) * task)
        return called

    def _scenes(self, scenes: Tensor) -> Tensor:
        weights = self.gate[scenes] * (scenes > 0)
        sums: Tensor = weights.unsqueeze(1) @ self.word(scenes)
        return sums.squeeze(1)

    def _prompt(self, batch: Batch) -> Tensor:
        """Encode the long row of tokens, ``[L, width]``."""
        hidden = self._embedded(batch.tokens)
        if self.shape.affinities:
            fits = self.affinity_word(self.word(batch.tokens[:, WORD]))
            scenes = self.affinity_scene(self._scenes(batch.scenes))
            hidden = hidden + self.affinity(fits * functional.embedding(batch.scene_of, scenes))
        hidden = hidden + self.mentioned(self._mentions(hidden, batch))
        present = (batch.tokens[:, WORD] > 0).unsqueeze(-1)
        margin = self.shape.reach // 2
        for convolution in self.convolutions:
            padded = functional.pad(hidden * present, (0, 0, margin, margin))
            parts = [padded[k : k + len(hidden)] for k in range(self.shape.reach)]
            hidden = hidden + functional.gelu(convolution(torch.cat(parts, dim=-1)))
        normed: Tensor = self.prompt_norm(hidden)
        return normed

    def _mentions(self, hidden: Tensor, batch: Batch) -> Tensor:
        """Give each token features of all tokens of its sentence, ``[L, width]``.

        A list may be longer than the reach of a convolution.
        """
        most = torch.segment_reduce(
            self.mention(hidden), "max", lengths=batch.sentences, axis=0, unsafe=True
        )
        return functional.embedding(batch.sentence_of, most)

    def _attended(self, words: Tensor, batch: Batch, encoded: Tensor, present: Tensor) -> Tensor:
        """Attend from the commands' tokens to the prompt, ``[B, W, width]``."""
        heads = self.shape.heads
        query = functional.normalize(_split(self.query(words), heads), dim=-1)
        query = query * self.sharpness.view(-1, 1, 1)
        unit = functional.normalize(self.key(encoded).view(len(encoded), heads, -1), dim=-1)
        keys = _split(functional.embedding(batch.prompt, unit.flatten(1)), heads)
        values = _split(functional.embedding(batch.prompt, self.value(encoded)), heads)
        logits = query @ keys.transpose(2, 3)
        same = self._equal(batch).repeat_interleave(heads // 2, dim=1)
        logits = torch.addcmul(logits, same, self.same.view(-1, 1, 1))
        # No maximum is subtracted: unit vectors keep the logits small.
        weights = logits.exp()
        there = present.unsqueeze(1)
        sums = weights @ torch.cat([values * there, there.expand(-1, heads, -1, -1)], dim=-1)
        mixed = sums[..., :-1] / sums[..., -1:].clamp(min=_LEAST_WEIGHT)
        return mixed.transpose(1, 2).flatten(2)

    def _pooled_segments(self, batch: Batch, encoded: Tensor, present: Tensor) -> Tensor:
        """Pool each segment by attention, ``[B, segments, width]``."""
        segments = torch.arange(len(SEGMENTS))
        mine = (batch.tokens[:, SEGMENT, None] == segments).to(encoded.dtype)
        weights = _attention(self.prompt_pool(encoded)) * mine
        picked = functional.embedding(batch.prompt, torch.cat([encoded, weights], dim=-1))
        width = self.shape.width
        return _pooled(picked[..., :width], picked[..., width:] * present)

    def _equal(self, batch: Batch) -> Tensor:
        """Return where names and words of commands equal those of the prompt, ``[B, 2, W, T]``.

        The value is the gate of the word.
        """
        theirs = batch.tokens[batch.prompt][..., NAME : KIND + 1].transpose(1, 2)
        mine = batch.words[..., NAME : KIND + 1].transpose(1, 2)
        gate = self.gate[batch.words[..., WORD]][:, None, :, None]
        equal: Tensor = (mine.unsqueeze(3) == theirs.unsqueeze(2)) * gate
        return equal

    def _commands(self, tokens: Tensor, commands: Tensor) -> Tensor:
        """Sum a command's token vectors, each times its slot's matrix: ``[B, commands, width]``."""
        turns = torch.arange(len(commands)).view(-1, 1, 1)
        picked = tokens[turns, commands.clamp(min=0)] * (commands >= 0).unsqueeze(-1)
        return picked.flatten(2) @ self.slots.flatten(0, 1)


def _split(vectors: Tensor, heads: int) -> Tensor:
    """Reshape ``[B, T, width]`` to ``[B, heads, T, width / heads]``."""
    return vectors.view(*vectors.shape[:-1], heads, -1).transpose(1, 2)


def _attention(scores: Tensor) -> Tensor:
    return scores.clamp(-_MOST_LOGIT, _MOST_LOGIT).exp()


def _pooled(vectors: Tensor, weights: Tensor) -> Tensor:
    """Average ``[B, T, width]`` by ``[B, T, ways]``, giving ``[B, ways, width]``; none gives 0."""
    ones = torch.ones_like(vectors[..., :1])
    sums = weights.transpose(1, 2) @ torch.cat([vectors, ones], dim=-1)
    return sums[..., :-1] / sums[..., -1:].clamp(min=_LEAST_WEIGHT)
