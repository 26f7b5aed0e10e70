"""The scoring policy: a `PolicyBackend` that chooses among the listed commands."""

import copy
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import Any, Final, Self

import numpy as np
import torch
from numpy.typing import NDArray

from skillwright.core import Act, ConfigError, ContractError, TurnContext, Usage
from skillwright.core.jsonio import digest
from skillwright.policy.backend import (
    Loss,
    LossReport,
    NotFinite,
    Row,
    Sampled,
    StepGuard,
    StepReport,
    TargetRefused,
    TokenBatch,
    check_encoding,
    check_reference,
    clipped_step,
    refuse_not_finite,
)
from skillwright.policy.checkpoint import fitting
from skillwright.policy.optimizer import check_optimizer, fill_optimizer
from skillwright.policy.scorer.encoding import Encoded, Encoder, Vocabulary, collate, read_turn
from skillwright.policy.scorer.network import Architecture, CommandScorer

TEMPLATE_VERSION: Final = 2
"""Increases when the encoding of equal turns changes."""

DOUBT: Final = 1e-5
"""Margin below which a choice is repeated with the turn alone.

Matrix products round differently in batches of different sizes (measured: up to 3e-7 in a
log-probability), so without this one decision in a million would depend on the batch.
"""

_FORMAT: Final = "skillwright-scorer-1"
_NOT_A_NUMBER: Final = (
    "a score that the network gives a command is not a number, so its weights are broken: go back "
    "to the last checkpoint, and lower the learning rate"
)


@dataclass(frozen=True, slots=True)
class ScorerSettings:
    """How a scoring policy is built and trained.

    Attributes:
        architecture: The network.
        seed: Of the first weights.
        most_rows: Turns in one forward pass; only memory depends on it.
        max_grad_norm: Longer gradients are scaled down to this Euclidean norm.
        weight_decay: Of AdamW, for matrices.
        betas: Of AdamW.

    Raises:
        ConfigError: A number is out of its range.
    """

    architecture: Architecture = field(default_factory=Architecture)
    seed: int = 0
    most_rows: int = 64
    max_grad_norm: float = 1.0
    weight_decay: float = 0.01
    betas: tuple[float, float] = (0.9, 0.98)

    def __post_init__(self) -> None:
        if self.most_rows < 1:
            raise ConfigError(f"most_rows is {self.most_rows}; set at least 1")
        if not self.max_grad_norm > 0:
            raise ConfigError(f"max_grad_norm is {self.max_grad_norm}; 1.0 is usual")


class ScorerPolicy:
    """A network, trained from scratch, that scores the admissible commands of a text game.

    A row has one token: the position of the chosen command in the turn's list. Implements
    `skillwright.policy.backend.PolicyBackend`.
    """

    def __init__(self, vocabulary: Vocabulary, settings: ScorerSettings | None = None) -> None:
        self.settings = settings or ScorerSettings()
        self.vocabulary = vocabulary
        shape = self.settings.architecture
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.settings.seed)
            self._network = CommandScorer(shape, vocabulary)
        self._reference: CommandScorer | None = None
        self._reference_digest = ""
        self._encoder = Encoder(vocabulary)
        self._optimizer = self._new_optimizer(self._network)
        self._identity = ""
        self._guard = StepGuard()
        self.encoding = digest(
            {"vocabulary": vocabulary.digest, "template": f"scorer-{TEMPLATE_VERSION}"}
        )

    @classmethod
    def for_turns(
        cls, contexts: Sequence[TurnContext], settings: ScorerSettings | None = None
    ) -> Self:
        """Build an untrained policy with the vocabulary of given turns."""
        readings = [read_turn(context) for context in contexts]
        texts = {
            sentence
            for one in readings
            for text in (one.task, one.skill, one.scene, one.held, one.here, *one.commands)
            for sentence in text.split("\n")
        }
        return cls(Vocabulary.of(texts), settings)

    @property
    def identity(self) -> str:
        """Architecture and digest of the weights."""
        if not self._identity:
            shape = digest(asdict(self.settings.architecture))[:8]
            self._identity = f"scorer:{shape}:{_weights_digest(self._network)}"
        return self._identity

    @property
    def reference(self) -> str:
        """Digest of the weights of the KL reference; "" if none is frozen."""
        return self._reference_digest

    def sample(self, contexts: Sequence[TurnContext], *, temperature: float) -> list[Sampled]:
        """Choose one command per context; see `PolicyBackend.sample`.

        Raises:
            ContractError: The environment does not list its commands, or a score is not finite.
        """
        readings = [read_turn(context) for context in contexts]
        turns = [self._encoder.encode(reading) for reading in readings]
        sampled: dict[int, Sampled] = {}
        order = sorted(range(len(turns)), key=lambda index: _size(turns[index]))
        with torch.inference_mode():
            for first in range(0, len(turns), self.settings.most_rows):
                part = order[first : first + self.settings.most_rows]
                logits = self._network(collate([turns[index] for index in part])).numpy()
                for index, row in zip(part, logits, strict=True):
                    turn, commands = turns[index], readings[index].commands
                    scores = row[: len(commands)]
                    sampled[index] = self._choose(
                        contexts[index], turn, commands, scores, temperature
                    )
        return [sampled[index] for index in range(len(turns))]

    def forget(self) -> None:
        """Do nothing: sampling has no caches that affect a choice."""

    def target(self, context: TurnContext, text: str) -> Row:
        """Return the row that teaches the command ``text``.

        Raises:
            TargetRefused: The command is not listed there.
        """
        reading = read_turn(context)
        if text not in reading.commands:
            raise TargetRefused(
                f"a demonstration gives the command {text!r}, which is not on offer at that turn; "
                "a scoring policy learns from admissible commands only"
            )
        return self._row(self._encoder.encode(reading), reading.commands.index(text), 0.0, 1.0)

    def forward_backward(self, rows: Sequence[Row], loss: Loss) -> LossReport:
        """Add the gradient of the loss over these rows; see `PolicyBackend.forward_backward`."""
        check_encoding(rows, self.encoding)
        if loss.needs_reference:
            check_reference(self)
        report = LossReport()
        self._guard.learned(rows)
        # Sorted by length, so that batches hold little padding.
        rows = sorted(rows, key=lambda row: _size(row.context))
        try:
            for first in range(0, len(rows), self.settings.most_rows):
                report += self._learn(rows[first : first + self.settings.most_rows], loss)
        except NotFinite:
            self._optimizer.zero_grad()
            raise
        return report

    def optim_step(self, learning_rate: float) -> StepReport:
        """Clip the gradient, step, and drop it; see `PolicyBackend.optim_step`."""
        trained = [each for each in self._network.parameters() if each.requires_grad]
        most = self.settings.max_grad_norm
        report = clipped_step(self._optimizer, trained, most, learning_rate)
        if not report.skipped:
            self._identity = ""
        self._guard.stepped(report)
        return report

    def freeze_reference(self) -> str:
        """Make the current weights the KL reference and return their digest."""
        self._reference = CommandScorer(self.settings.architecture, self.vocabulary)
        self._reference.load_state_dict(self._network.state_dict())
        self._reference.requires_grad_(requires_grad=False)
        self._reference_digest = _weights_digest(self._reference)
        return self._reference_digest

    def begin_from(self, state: Mapping[str, Any]) -> None:
        """Load only weights; see `PolicyBackend.begin_from`."""
        with fitting("vocabulary and architecture"):
            network = self._network_of(state)
        self._network, self._optimizer = network, self._new_optimizer(network)
        self._reference, self._reference_digest = None, ""
        self._identity, self._guard = "", StepGuard()

    def state(self) -> dict[str, Any]:
        """Return weights, optimizer and reference; sampling has no state."""
        return {
            **self._facts,
            "network": self._network.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "reference": None if self._reference is None else self._reference.state_dict(),
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore a state; a refused one leaves the policy unchanged.

        Raises:
            CheckpointDamaged: It is invalid, or of another architecture or vocabulary.
        """
        with fitting("vocabulary and architecture"):
            network = self._network_of(state)
            optimizer = self._new_optimizer(network)
            check_optimizer(optimizer, state["optimizer"])
            fill_optimizer(optimizer, state["optimizer"])
            reference = None
            if state["reference"] is not None:
                reference = copy.deepcopy(network).requires_grad_(requires_grad=False)
                reference.load_state_dict(state["reference"])
        self._network, self._optimizer, self._reference = network, optimizer, reference
        self._reference_digest = "" if reference is None else _weights_digest(reference)
        self._identity = ""
        self._guard = StepGuard()

    def _network_of(self, state: Mapping[str, Any]) -> CommandScorer:
        for name, mine in self._facts.items():
            if state[name] != mine:
                raise ValueError(_difference(name, state[name], mine))
        network = copy.deepcopy(self._network)
        network.load_state_dict(state["network"])
        return network

    @property
    def _facts(self) -> dict[str, Any]:
        """The settings that a snapshot and the policy that loads it must share."""
        return {
            "format": _FORMAT,
            "architecture": asdict(self.settings.architecture),
            "encoding": self.encoding,
        }

    def _new_optimizer(self, network: CommandScorer) -> torch.optim.AdamW:
        """Return AdamW over the trainable parameters; only matrices have weight decay."""
        trained = [each for each in network.parameters() if each.requires_grad]
        matrices: dict[str, Any] = {"params": [each for each in trained if each.dim() > 1]}
        vectors: dict[str, Any] = {"params": [each for each in trained if each.dim() < 2]}
        return torch.optim.AdamW(
            [matrices, {**vectors, "weight_decay": 0.0}],
            betas=self.settings.betas,
            weight_decay=self.settings.weight_decay,
            fused=True,
        )

    def _choose(
        self,
        context: TurnContext,
        turn: Encoded,
        commands: Sequence[str],
        scores: NDArray[np.float32],
        temperature: float,
    ) -> Sampled:
        if not np.isfinite(scores).all():
            raise ContractError(_NOT_A_NUMBER)
        drawn_at = temperature if temperature > 0 else 1.0
        draw = random.Random(context.seed).random() if temperature > 0 else None
        logprobs = _log_softmax(scores.astype(np.float64) / drawn_at)
        chosen, margin = _pick(logprobs, draw)
        if margin < DOUBT:
            # A turn alone does not depend on a batch.
            alone = self._network(collate([turn])).numpy()[0, : len(commands)]
            logprobs = _log_softmax(alone.astype(np.float64) / drawn_at)
            chosen, _ = _pick(logprobs, draw)
        logprob = float(logprobs[chosen])
        usage = Usage(calls=1, input_tokens=len(turn.fixed.prompt) + len(turn.prompt))
        act = Act(commands[chosen], usage, token_ids=(chosen,), logprobs=(logprob,))
        return Sampled(act, self._row(turn, chosen, logprob, drawn_at))

    def _row(self, turn: Encoded, chosen: int, logprob: float, temperature: float) -> Row:
        return Row(turn, (chosen,), (logprob,), (True,), self.encoding, temperature=temperature)

    def _learn(self, rows: Sequence[Row], loss: Loss) -> LossReport:
        batch = collate([row.context for row in rows])
        chosen = torch.tensor([row.token_ids for row in rows])
        temperatures = torch.tensor([row.temperature for row in rows]).unsqueeze(1)
        everything = (self._network(batch) / temperatures).log_softmax(dim=-1)
        logprobs = everything.gather(1, chosen)
        reference = entropy = None
        if loss.needs_reference and self._reference is not None:
            with torch.no_grad():
                before = (self._reference(batch) / temperatures).log_softmax(dim=-1)
                reference = before.gather(1, chosen)
        if loss.needs_entropy:
            with torch.set_grad_enabled(loss.entropy_gradient):
                entropy = -(everything.exp() * everything).sum(dim=-1, keepdim=True)
        value, report = loss(TokenBatch.of(rows, logprobs, reference, entropy))
        refuse_not_finite(rows, report.loss)
        value.backward()  # type: ignore[no-untyped-call]  # torch does not say what it returns
        return report


def _difference(name: str, theirs: Any, mine: Any) -> str:
    """Describe how a fact of a snapshot differs; of settings, only those that differ."""
    if isinstance(theirs, dict) and isinstance(mine, dict) and theirs.keys() == mine.keys():
        unlike = (key for key in mine if theirs[key] != mine[key])
        return ", ".join(_difference(key, theirs[key], mine[key]) for key in unlike)
    return f"its {name} is {theirs!r}, and the policy's {mine!r}"


def _size(turn: Encoded) -> tuple[int, str]:
    """Return a sort key that keeps turns of one episode, and of one task, together."""
    return len(turn.fixed.prompt), turn.fixed.name


def _pick(logprobs: NDArray[np.float64], draw: float | None) -> tuple[int, float]:
    """Choose by a draw from [0, 1), or the most likely; return the choice and its margin."""
    if draw is None:
        chosen = int(np.argmax(logprobs))
        others = np.delete(logprobs, chosen)
        return chosen, float(logprobs[chosen] - others.max()) if len(others) else math.inf
    bounds = np.cumsum(np.exp(logprobs))
    chosen = min(int(np.searchsorted(bounds, draw, side="right")), len(bounds) - 1)
    return chosen, float(np.abs(bounds[:-1] - draw).min()) if len(bounds) > 1 else math.inf


def _log_softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    shifted = scores - scores.max()
    logprobs: NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum())
    return logprobs


def _weights_digest(network: torch.nn.Module) -> str:
    hashed = sha256()
    state: dict[str, Any] = network.state_dict()
    for name in sorted(state):
        hashed.update(name.encode())
        hashed.update(state[name].detach().cpu().numpy().tobytes())
    return hashed.hexdigest()[:16]
