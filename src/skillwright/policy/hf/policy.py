"""A policy over any causal language model with a chat template."""

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import torch

from skillwright.core import Act, TurnContext, Usage
from skillwright.models import ContextOverflow
from skillwright.policy.backend import (
    Loss,
    LossReport,
    NotFinite,
    OutOfMemory,
    Row,
    Sampled,
    StepGuard,
    StepReport,
    TokenBatch,
    check_encoding,
    check_reference,
    clipped_step,
    memory_watched,
    refuse_not_finite,
)
from skillwright.policy.checkpoint import fitting
from skillwright.policy.hf.forward import Batch, attention_by, forward_mode, micro_batches
from skillwright.policy.hf.head import Entropy
from skillwright.policy.hf.loading import (
    fill_adapter,
    is_adapter,
    load_pretrained,
    shapes_of,
    with_adapter,
    with_weights,
)
from skillwright.policy.hf.model import SAMPLING_MEMORY, TRAINING_MEMORY, HfSettings, Weights
from skillwright.policy.hf.sampling import (
    Answer,
    Decoding,
    Lane,
    SamplingEngine,
    answer_all,
    attends_to_all,
    new_cache,
    windowed_cache,
)
from skillwright.policy.hf.shared import SHARED
from skillwright.policy.hf.steady import STEADY, Recording, Steady
from skillwright.policy.hf.tokens import Node, Prompt, Speech
from skillwright.policy.lineage import Lineage
from skillwright.policy.optimizer import LeanAdamW, check_optimizer, fill_optimizer
from skillwright.policy.update import TokenContext


class HfPolicy:
    """A `PolicyBackend` over a causal language model of the `transformers` library.

    Samples are drawn by each context's own seed. Logits depend slightly on the width and padding of
    a batch: log-probabilities differ by up to about 1e-5 nats in float32, so a sample depends on
    its batch with a probability of that size per token; in bfloat16 by up to about 5e-2, so a long
    answer may well differ. `LossReport.drift` measures the difference between sampling and
    training.

    Attributes:
        engine: Samples unrestricted answers, if set; all others are sampled here.

    Raises:
        NoChatTemplate: The tokenizer has no chat template.
    """

    def __init__(self, model: Any, tokenizer: Any, settings: HfSettings | None = None) -> None:
        self.settings = settings or HfSettings()
        self.speech = Speech(tokenizer, _stop_ids(model), self.settings.template)
        self.weights = Weights(model, self.settings)
        self._architecture = type(model).__name__
        self._optimizer = self._new_optimizer()
        self.attends_to_all = attends_to_all(self.weights.config)
        with self.weights.autocast():
            device = self.weights.device
            self._mode = forward_mode(
                self.weights.model, device, attends_to_all=self.attends_to_all
            )
        self._lanes: dict[int, Lane] = {}
        self._recording = Recording(device.type == "cuda")
        self.engine: SamplingEngine | None = None
        shape = self.settings
        stepped = f"{shape.optimizer} {shape.weight_decay} {shape.max_grad_norm}"
        self._lineage = Lineage(self.weights.digest, stepped)
        self._reference = ""
        self._guard = StepGuard()

    @classmethod
    def load_pretrained(
        cls, name: str, settings: HfSettings | None = None, *, start: Path | None = None
    ) -> Self:
        """Load a model.

        Args:
            name: See `load_pretrained`.
            settings: How it is run and trained.
            start: A folder of weights that replace the model's: all of them, or a LoRA adapter.
                With ``settings.lora`` that adapter is trained on, else it is merged.

        Raises:
            ModelMissing: It is not on this machine.
            ModelUnfit: Weights are damaged, of other shapes, or do not match the tokenizer.
            NoChatTemplate: Its tokenizer has no chat template.
        """
        model, tokenizer = load_pretrained(name)
        lora = settings.lora if settings is not None else None
        if start is None:
            return cls(model, tokenizer, settings)
        if not is_adapter(start):
            shapes = shapes_of(model)
            del model  # two at once may not fit into memory
            return cls(with_weights(shapes, start), tokenizer, settings)
        if lora is None:
            return cls(with_adapter(model, start), tokenizer, settings)
        policy = cls(model, tokenizer, settings)
        fill_adapter(policy.weights.model, start, lora.rank, lora.alpha)
        return policy

    @property
    def identity(self) -> str:
        """Architecture, and digest of the first weights and the steps since."""
        return f"hf:{self._architecture}:{self._lineage.digest[:16]}"

    @property
    def encoding(self) -> str:
        """Digest of vocabulary and chat template."""
        return self.speech.encoding

    @property
    def reference(self) -> str:
        """Digest of the weights at `freeze_reference`; ``""`` before."""
        return self._reference

    def sample(self, contexts: Sequence[TurnContext], *, temperature: float) -> list[Sampled]:
        """Choose one answer per context; see `PolicyBackend.sample`."""
        prompts = [self.speech.prompt(context.messages) for context in contexts]
        for context, prompt in zip(contexts, prompts, strict=True):
            self._check_fits(context, prompt.ids)
        free = [self.engine is not None and not self._commands(one) for one in contexts]
        pairs = list(zip(contexts, prompts, strict=True))
        own = [pair for pair, is_free in zip(pairs, free, strict=True) if not is_free]
        sampled: list[Sampled] = []
        size = self.settings.sample_rows
        for number, first in enumerate(range(0, len(own), size)):
            sampled += self._sample(number, own[first : first + size], temperature)
        theirs = [pair for pair, is_free in zip(pairs, free, strict=True) if is_free]
        by_engine = iter(self._sample_by_engine(theirs, temperature))
        by_own = iter(sampled)
        return [next(by_engine if is_free else by_own) for is_free in free]

    def forget(self) -> None:
        """Drop cached prefixes and answers; see `PolicyBackend.forget`."""
        self._lanes.clear()
        self.speech.forget()

    def target(self, context: TurnContext, text: str) -> Row:
        """Return the row that teaches to answer ``text``; see `PolicyBackend.target`."""
        prompt = self.speech.prompt(context.messages)
        self._check_fits(context, prompt.ids)
        token_ids = self.speech.answer_ids(text)
        allowed = self.speech.walk(self._tree(context), token_ids, text)
        return self._row(prompt.ids, token_ids, (0.0,) * len(token_ids), allowed, 1.0)

    def forward_backward(self, rows: Sequence[Row], loss: Loss) -> LossReport:
        """Add the gradient of the loss over these rows; see `PolicyBackend.forward_backward`."""
        check_encoding(rows, self.encoding)
        if loss.needs_reference:
            check_reference(self)
        # Sampling caches are useless in training, and take memory.
        self._lanes.clear()
        report = LossReport()
        useful = [row for row in rows if row.counts]
        try:
            with (
                memory_watched("training", TRAINING_MEMORY),
                self.weights.training(),
                self._mode.attention(self.weights.model),
            ):
                for part in micro_batches(useful, self.settings.micro_tokens, self._mode):
                    report += self._learn(part, loss)
        except (OutOfMemory, NotFinite):
            self._optimizer.zero_grad()
            self._lineage.dropped()
            raise
        self._lineage.learned(useful, report)
        self._guard.learned(useful)
        return report

    def logprobs(self, rows: Sequence[Row]) -> list[tuple[float, ...]]:
        """Return the current log-probabilities of the tokens of rows; 0 for tokens not chosen."""
        check_encoding(rows, self.encoding)
        known: dict[int, tuple[float, ...]] = {}
        with torch.no_grad(), self.weights.autocast():
            for part in micro_batches(rows, self.settings.micro_tokens, self._mode):
                batch = Batch(part, self.weights.device, self._mode)
                values, _ = batch.logprobs(self.weights.model)
                for row, line in zip(part, values.tolist(), strict=True):
                    known[id(row)] = tuple(line[: len(row.token_ids)])
        return [known[id(row)] for row in rows]

    def optim_step(self, learning_rate: float) -> StepReport:
        """Clip, step, drop the gradient; see `PolicyBackend.optim_step`."""
        weights = self.weights.trained().values()
        most = self.settings.max_grad_norm
        self._lineage.about_to_step()
        report = clipped_step(self._optimizer, weights, most, learning_rate)
        self._lineage.stepped(report)
        if not report.skipped:
            self.forget()
        self._guard.stepped(report)
        return report

    def freeze_reference(self) -> str:
        """Make the current weights the KL reference and return their digest."""
        self.weights.freeze()
        self._reference = self._lineage.digest
        return self._reference

    def begin_from(self, state: Mapping[str, Any]) -> None:
        """Load only weights; see `PolicyBackend.begin_from`."""
        with fitting("base model, tokenizer and adapter settings"):
            alone = {**state["weights"], "reference_kind": "", "reference": {}}
            self._check_own({**state, "weights": alone})
        self.weights.restore(alone)
        self._optimizer = self._new_optimizer()
        self._reference = ""
        self._lineage.restore(state["digest"])
        self._guard = StepGuard()
        self.forget()

    def state(self) -> dict[str, Any]:
        """Return weights, optimizer, reference and random state; see `PolicyBackend.state`."""
        return {
            "architecture": self._architecture,
            "encoding": self.encoding,
            "digest": self._lineage.digest,
            "weights": self.weights.state(),
            "optimizer": self._optimizer.state_dict(),
            "reference": self._reference,
            "random": torch.get_rng_state(),
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore a state; see `PolicyBackend.load`."""
        # Checks come first, so that a refused state changes nothing.
        with fitting("base model, tokenizer, adapter settings and optimizer"):
            self._check_own(state)
            torch.Generator().set_state(state["random"])
            check_optimizer(self._optimizer, state["optimizer"])
        self._optimizer.zero_grad()
        fill_optimizer(self._optimizer, state["optimizer"])
        torch.set_rng_state(state["random"])
        self.weights.restore(state["weights"])
        self._reference = state["reference"]
        self._lineage.restore(state["digest"])
        self._guard = StepGuard()
        self.forget()

    def _new_optimizer(self) -> torch.optim.Optimizer:
        weights, decay = list(self.weights.trained().values()), self.settings.weight_decay
        lean = self.settings.optimizer == "adamw8bit"
        if lean or any(one.dtype == torch.bfloat16 for one in weights):
            return LeanAdamW(weights, weight_decay=decay, eight_bit=lean)
        return torch.optim.AdamW(weights, lr=0.0, weight_decay=decay)

    def _check_own(self, kept: Mapping[str, Any]) -> None:
        if kept["architecture"] != self._architecture:
            raise ValueError(f"it is of a {kept['architecture']}, not {self._architecture}")
        if kept["encoding"] != self.encoding:
            raise ValueError("it has another tokenizer or chat template")
        if not isinstance(kept["reference"], str) or not isinstance(kept["digest"], str):
            raise TypeError("the digest of its weights, or of its reference, is no text")
        self.weights.check(kept["weights"])

    def _sample_by_engine(
        self, pairs: Sequence[tuple[TurnContext, Prompt]], temperature: float
    ) -> list[Sampled]:
        """Sample with the engine, and compute the log-probabilities here."""
        if self.engine is None or not pairs:
            return []
        asked = [prompt.ids for _, prompt in pairs]
        seeds = [context.seed for context, _ in pairs]
        found = self.engine.answers(self._lineage.digest, asked, seeds, temperature)
        rows = [
            self._row(ids, said, (0.0,) * len(said), (None,) * len(said), temperature or 1.0)
            for ids, (said, _) in zip(asked, found, strict=True)
        ]
        sampled = []
        for (_, prompt), (said, theirs), own in zip(pairs, found, self.logprobs(rows), strict=True):
            answer = Answer(random.Random(0), None, list(said), list(own), [None] * len(said))
            one = self._sampled(prompt, answer, temperature)
            # A greedy answer has no probability of its own.
            row = replace(one.row, sampler_logprobs=theirs) if temperature else one.row
            sampled.append(Sampled(one.act, row))
        return sampled

    def _sample(
        self, number: int, pairs: Sequence[tuple[TurnContext, Prompt]], temperature: float
    ) -> list[Sampled]:
        contexts, prompts = [one for one, _ in pairs], [one for _, one in pairs]
        answers = [Answer(random.Random(context.seed), self._tree(context)) for context in contexts]
        decoding = Decoding(
            temperature,
            self.speech.stop_ids,
            self.settings.max_new_tokens,
            self.speech.end_id,
            in_step=not self.attends_to_all,
            # Low precision rounds these products too much; a fused kernel does not.
            share=self._mode.packed and not self.weights.low,
        )
        lane = self._lanes.pop(number, None)
        with self.sampling():
            lane = lane or self.new_lane()
            ids = [prompt.ids for prompt in prompts]
            lane = answer_all(lane, ids, answers, self.read, decoding, self._begin)
        if self.attends_to_all and self.settings.keep_cache:
            self._lanes[number] = lane
        return [
            self._sampled(prompt, answer, temperature)
            for prompt, answer in zip(prompts, answers, strict=True)
        ]

    def _sampled(self, prompt: Prompt, answer: Answer, temperature: float) -> Sampled:
        token_ids, logprobs = tuple(answer.token_ids), tuple(answer.logprobs)
        text = self.speech.text(token_ids) if answer.node is None else answer.node.text
        self.speech.remember(prompt, token_ids, text)
        row = self._row(prompt.ids, token_ids, logprobs, tuple(answer.allowed), temperature or 1.0)
        ended = token_ids[-1] in self.speech.stop_ids
        usage = Usage(
            calls=1,
            input_tokens=len(prompt.ids),
            output_tokens=len(token_ids),
            cached_tokens=answer.cached,
        )
        return Sampled(Act(text, usage, token_ids, logprobs, "stop" if ended else "length"), row)

    def _row(
        self,
        prompt: tuple[int, ...],
        token_ids: tuple[int, ...],
        logprobs: tuple[float, ...],
        allowed: tuple[tuple[int, ...] | None, ...],
        temperature: float,
    ) -> Row:
        return Row(
            context=TokenContext(prompt, allowed),
            token_ids=token_ids,
            old_logprobs=logprobs,
            # A single possible token is not a choice.
            loss_mask=tuple(choice is None or len(choice) > 1 for choice in allowed),
            encoding=self.encoding,
            temperature=temperature,
        )

    @contextmanager
    def sampling(self) -> Iterator[None]:
        """Enter the context of sampling: no gradients, precision, and out-of-memory errors."""
        with (
            memory_watched("sampling", SAMPLING_MEMORY),
            torch.inference_mode(),
            self.weights.autocast(),
        ):
            yield

    def _learn(self, rows: Sequence[Row], loss: Loss) -> LossReport:
        batch = Batch(rows, self.weights.device, self._mode)
        entropy: Entropy = "none"
        if loss.needs_entropy:
            entropy = "trained" if loss.entropy_gradient else "watched"
        with self.weights.autocast():
            reference = None
            if loss.needs_reference:
                with torch.no_grad(), self.weights.reference() as frozen:
                    reference, _ = batch.logprobs(frozen)
            values, spread = batch.logprobs(self.weights.model, entropy=entropy)
        total, report = loss(TokenBatch.of(rows, values, reference, spread))
        refuse_not_finite(rows, report.loss)
        total.backward()  # type: ignore[no-untyped-call]  # torch does not say what it returns
        return report

    def read(self, lane: Lane, ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Process new tokens at their positions; see `skillwright.policy.hf.sampling.Read`."""
        model = self.weights.model
        asked: dict[str, Any] = {"attention_mask": lane.mask.long()}
        attention: AbstractContextManager[None] = nullcontext()
        if lane.shared is not None:
            attention = attention_by(model, SHARED)
            asked = {"step": lane.shared.step(lane.mask, ids.shape[1])}
        with attention:
            seen = model(
                input_ids=ids,
                position_ids=positions,
                past_key_values=lane.cache,
                use_cache=True,
                logits_to_keep=1,
                **asked,
            )
        logits: torch.Tensor = seen.logits[:, -1]
        return logits

    def _begin(self, lane: Lane) -> Steady | None:
        """Return a lane's decoder by CUDA graph, or ``None`` where that is not supported."""
        if not self._recording.is_possible or not self._mode.packed or lane.shared is not None:
            return None
        return Steady(lane, self._read_steady, self._recording)

    def _read_steady(
        self, cache: Any, ids: torch.Tensor, positions: torch.Tensor, seen: torch.Tensor
    ) -> torch.Tensor:
        model = self.weights.model
        with self.weights.autocast(keep=False), attention_by(model, STEADY):
            found = model(
                input_ids=ids,
                position_ids=positions,
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=1,
                seen=seen,
            )
        logits: torch.Tensor = found.logits[:, -1]
        return logits

    def new_lane(self) -> Lane:
        """Return an empty lane."""
        cache = new_cache() if self.attends_to_all else windowed_cache(self.weights.config)
        return Lane.empty(cache, 1, self.weights.device)

    def _commands(self, context: TurnContext) -> Sequence[str]:
        """Return the commands that answers are restricted to; empty without a restriction."""
        listed = context.metadata.get("admissible_commands") if self.settings.restrict else None
        return listed or ()

    def _tree(self, context: TurnContext) -> Node | None:
        commands = self._commands(context)
        return self.speech.tree(commands) if commands else None

    @property
    def most_tokens(self) -> int | None:
        """Most tokens of a prompt and its answer; ``None`` if the model has no limit."""
        inner = self.weights.config.get_text_config(decoder=True)
        return self.settings.context_tokens or getattr(inner, "max_position_embeddings", None)

    def _check_fits(self, context: TurnContext, prompt: Sequence[int]) -> None:
        most = self.most_tokens
        lengths = [len(self.speech.answer_ids(command)) for command in self._commands(context)]
        answer = max(lengths, default=self.settings.max_new_tokens)
        if most is not None and len(prompt) + answer > most:
            raise ContextOverflow(
                f"a prompt of {len(prompt)} tokens and an answer of up to {answer} do not fit the "
                f"policy's context of {most}; shorten the skills or prompt.history_turns, or lower "
                "policy.max_new_tokens"
            )


def _stop_ids(model: Any) -> list[int]:
    """Return the end tokens of the model's generation settings."""
    found = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    if found is None:
        return []
    return list(found) if isinstance(found, list | tuple) else [found]
