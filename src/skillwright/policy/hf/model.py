"""A causal language model as a policy needs it: loaded, adapted, measured, copied."""

import copy
import hashlib
import inspect
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import nn
from transformers import DynamicCache

from skillwright.core import ConfigError
from skillwright.policy.backend import ModelMissing, Row

Precision = Literal["auto", "float32", "bfloat16", "float64"]

REFERENCE_ADAPTER = "reference"


@dataclass(frozen=True, slots=True)
class LoraSettings:
    """Train an adapter instead of all weights (source: LoRA, arXiv:2106.09685).

    Attributes:
        rank: Of the adapter's matrices.
        alpha: Its output is scaled by ``alpha / rank``.
        targets: Names of the layers that it is put on; ``all-linear`` for every one but the head.
    """

    rank: int = 16
    alpha: int = 32
    targets: str | tuple[str, ...] = "all-linear"


@dataclass(frozen=True, slots=True)
class HfSettings:
    """How a language model is run and trained.

    Attributes:
        lora: ``None`` trains all weights.
        precision: ``auto`` is bfloat16 on a GPU and float32 elsewhere. With bfloat16, trained
            weights stay float32 (a step of 1e-6 would vanish in fewer bits) and are read as
            bfloat16.
        device: ``auto`` takes a GPU where there is one.
        max_new_tokens: Bound on an answer, in tokens.
        context_tokens: Bound on prompt and answer together; ``None`` takes the model's.
        sample_rows: Conversations that are sampled at once.
        micro_tokens: Tokens of a forward and backward pass, padding included. A longer row goes
            alone.
        restrict: Hold answers to ``admissible_commands`` where the environment lists them.
        keep_cache: Keep keys and values from turn to turn.
        gradient_checkpointing: Compute activations twice instead of keeping them.
        max_grad_norm: The gradient is scaled down to this Euclidean norm.
        weight_decay: AdamW's.
        template: Handed to the chat template by name (``enable_thinking = false``).

    Raises:
        ConfigError: A number is out of its range.
    """

    lora: LoraSettings | None = None
    precision: Precision = "auto"
    device: str = "auto"
    max_new_tokens: int = 512
    context_tokens: int | None = None
    sample_rows: int = 128
    micro_tokens: int = 16_384
    restrict: bool = True
    keep_cache: bool = True
    gradient_checkpointing: bool = False
    max_grad_norm: float = 1.0
    weight_decay: float = 0.01
    template: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("max_new_tokens", "sample_rows", "micro_tokens"):
            if getattr(self, name) < 1:
                raise ConfigError(f"policy.{name} is {getattr(self, name)}; set at least 1")
        if not self.max_grad_norm > 0:
            raise ConfigError(f"max_grad_norm is {self.max_grad_norm}; 1.0 is usual")


SAMPLING_MEMORY = ("rollout.max_concurrent", "policy.max_new_tokens", "policy.context_tokens")
TRAINING_MEMORY = ("policy.micro_tokens", "policy.max_new_tokens", "policy.context_tokens")


def load_pretrained(name: str, *, download: bool = False) -> tuple[nn.Module, Any]:
    """Load a causal language model and its tokenizer.

    Returns:
        The model in float32 on the CPU, and the tokenizer.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        # Not left unset: the library would ask at the terminal whether to run a model's own code.
        where = {"local_files_only": not download, "trust_remote_code": False}
        tokenizer = AutoTokenizer.from_pretrained(name, **where)
        model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32, **where)
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        move = (
            "check the name, and your access to it"
            if download
            else f"`hf download {name}` fetches it, or set policy.download to true, or name a "
            "folder that holds it"
        )
        raise ModelMissing(
            f"base model {name!r} is not on this machine ({reason}); {move}"
        ) from error
    return model, tokenizer


class Weights:
    """A model with what is trained of it, and its frozen reference."""

    def __init__(self, model: Any, settings: HfSettings) -> None:
        _check_cache(model)
        self.device = _device(settings.device)
        self.low = settings.precision == "bfloat16" or (
            settings.precision == "auto" and self.device.type == "cuda"
        )
        self._lora = settings.lora is not None
        # As it comes: an adapter fits its base in any precision.
        self._base = self._digest(model.named_parameters()) if self._lora else ""
        if self._lora and self.low:
            model = model.to(torch.bfloat16)
        elif settings.precision == "float64":
            model = model.to(torch.float64)
        model.requires_grad_(requires_grad=not self._lora)
        if settings.lora is not None:
            model = _adapted(model, settings.lora)
        self.model: Any = model.to(self.device)
        # Sampling and training have to see the same distribution.
        for module in self.model.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
        self.model.eval()
        if settings.gradient_checkpointing:
            _checkpoint_gradients(self.model)
        self._checkpointing = settings.gradient_checkpointing
        self._reference: nn.Module | None = None
        self._reference_kind: Literal["", "copy", "adapter", "off"] = ""

    @property
    def config(self) -> Any:
        """The model's own configuration."""
        return self.model.config

    def trained(self) -> dict[str, nn.Parameter]:
        """Return the parameters that learn, by name."""
        return {name: one for name, one in self.model.named_parameters() if one.requires_grad}

    def digest(self) -> str:
        """Return a digest of all weights that matter; those of the base are read once."""
        return self._digest(self.trained().items(), self._base)

    def autocast(self) -> Any:
        """Return the context in which a forward pass runs."""
        if not self.low:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16)

    @contextmanager
    def training(self) -> Iterator[None]:
        """Let activations be computed twice, where asked: the library does so in this mode only."""
        self.model.train(self._checkpointing)
        try:
            yield
        finally:
            self.model.eval()

    def freeze(self) -> None:
        """Make the present weights the reference."""
        self._reference, self._reference_kind = None, ""
        if not self._lora:
            frozen = copy.deepcopy(self.model).requires_grad_(requires_grad=False).eval()
            self._reference = _rounded(frozen) if self.low else frozen
            self._reference_kind = "copy"
        elif self._adapter_is_still():
            self._reference_kind = "off"
        else:
            self._copy_adapter()
            self._reference_kind = "adapter"

    @contextmanager
    def reference(self) -> Iterator[Any]:
        """Return the frozen model, for forward passes inside the context."""
        if self._reference is not None:
            yield self._reference
            return
        # While activations are computed twice, the library drops the cache of prompts.
        training = self.model.training
        self.model.eval()
        try:
            with self._without_adapter():
                yield self.model
        finally:
            self.model.train(training)

    @contextmanager
    def _without_adapter(self) -> Iterator[None]:
        """Put the reference's adapter, or none, in the place of the one that learns."""
        if self._reference_kind == "off":
            with self.model.disable_adapter():
                yield
        else:
            wanted = {name: one.requires_grad for name, one in self.model.named_parameters()}
            self.model.set_adapter(REFERENCE_ADAPTER)
            try:
                yield
            finally:
                self.model.set_adapter("default")
                for name, one in self.model.named_parameters():
                    one.requires_grad_(wanted[name])

    def state(self) -> dict[str, Any]:
        """Return trained weights and reference."""
        return {
            "base": self._base,
            "trained": _on_cpu(self.trained()),
            "reference_kind": self._reference_kind,
            "reference": _on_cpu(self._reference_tensors()),
        }

    def check(self, state: Mapping[str, Any]) -> None:
        """Refuse what `state` of another model returned."""
        if state["base"] != self._base:
            raise ValueError("it was trained on another base model")
        trained, kind = self.trained(), state["reference_kind"]
        if _shapes(state["trained"]) != _shapes(trained):
            raise ValueError("its weights have other names or shapes")
        if kind not in (("", "off", "adapter") if self._lora else ("", "copy")):
            raise ValueError(f"its reference is kept as {kind!r}, which this policy does not do")
        wanted: Mapping[str, torch.Tensor] = {}
        if kind == "copy":
            wanted = self.model.state_dict()
        elif kind == "adapter":
            marked = f".{REFERENCE_ADAPTER}."
            wanted = {name.replace(".default.", marked): one for name, one in trained.items()}
        if _shapes(state["reference"]) != _shapes(wanted):
            raise ValueError("its reference has other names or shapes")

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` returned, and `check` accepted."""
        mine = self.trained()
        kind = state["reference_kind"]
        with torch.no_grad():
            if kind:
                # Frozen once to make room for it; its values follow.
                self.freeze()
                if kind == "adapter" and self._reference_kind == "off":
                    self._copy_adapter()
            else:
                self._reference = None
            self._reference_kind = kind
            for name, weight in mine.items():
                weight.copy_(state["trained"][name])
            for name, frozen in self._reference_tensors().items():
                frozen.copy_(state["reference"][name])

    def _reference_tensors(self) -> dict[str, torch.Tensor]:
        if self._reference is not None:
            return dict(self._reference.state_dict())
        if self._reference_kind != "adapter":
            return {}
        marked = f".{REFERENCE_ADAPTER}."
        return {name: one for name, one in self.model.named_parameters() if marked in name}

    def _adapter_is_still(self) -> bool:
        ends = [one for name, one in self.trained().items() if "lora_B" in name]
        return bool(ends) and not any(bool(one.any()) for one in ends)

    def _copy_adapter(self) -> None:
        named = dict(self.model.named_parameters())
        if not any(f".{REFERENCE_ADAPTER}." in name for name in named):
            self.model.add_adapter(REFERENCE_ADAPTER, self.model.peft_config["default"])
            self.model.set_adapter("default")
            named = dict(self.model.named_parameters())
        with torch.no_grad():
            for name, one in named.items():
                if f".{REFERENCE_ADAPTER}." in name:
                    one.requires_grad_(requires_grad=False)
                    one.copy_(named[name.replace(f".{REFERENCE_ADAPTER}.", ".default.")])

    @staticmethod
    def _digest(named: Iterable[tuple[str, torch.Tensor]], begin: str = "") -> str:
        total = hashlib.sha256(begin.encode())
        for name, one in sorted(named, key=lambda pair: pair[0]):
            total.update(name.encode())
            # Bytes as they are: numpy has no bfloat16.
            total.update(one.detach().cpu().reshape(-1).view(torch.uint8).numpy().data)
        return total.hexdigest()


def _rounded(model: nn.Module) -> nn.Module:
    """Keep as bfloat16 what autocast reads as such, and no more: logits stay what they are."""
    whole = {id(one.weight) for one in model.modules() if isinstance(one, nn.Embedding)}
    for module in model.modules():
        if isinstance(module, nn.Linear) and id(module.weight) not in whole:
            module.to(torch.bfloat16)
    return model


def _on_cpu(named: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: one.detach().cpu() for name, one in named.items()}


def _shapes(named: Mapping[str, torch.Tensor]) -> dict[str, torch.Size]:
    return {name: one.shape for name, one in named.items()}


def _check_cache(model: nn.Module) -> None:
    if "past_key_values" not in inspect.signature(model.forward).parameters:
        raise ConfigError(
            f"{type(model).__name__} has no past_key_values: it keeps what it read in a way of its "
            "own, which is not supported; take a model that attends to all or to a window"
        )


def _device(name: str) -> torch.device:
    if name != "auto":
        return torch.device(name)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _adapted(model: Any, lora: LoraSettings) -> Any:
    from peft import LoraConfig, get_peft_model

    targets = lora.targets if isinstance(lora.targets, str) else list(lora.targets)
    config = LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        target_modules=targets,
        lora_dropout=0.0,
        task_type="CAUSAL_LM",
    )
    with warnings.catch_warnings():
        # peft asks transformers for what the latter calls by another name now.
        warnings.filterwarnings("ignore", "`is_gradient_checkpointing`", FutureWarning)
        return get_peft_model(model, config)


def _checkpoint_gradients(model: Any) -> None:
    settings = {"use_reentrant": False}
    if hasattr(model, "activation_checkpointing_enable"):
        model.activation_checkpointing_enable(settings)
    else:  # before transformers renamed it
        model.gradient_checkpointing_enable(settings)
    model.config.use_cache = False


# What a model thinks of tokens that are given: the forward pass of training.


Entropy = Literal["none", "watched", "trained"]

_WORTH_SHARING = 0.8  # of the tokens of a plain pass; a second pass costs something too


def micro_batches(rows: Sequence[Row], most_tokens: int) -> Iterator[list[Row]]:
    """Cut rows into parts of at most so many tokens, padding included.

    Rows of equal prompts stand together, and prompts of about equal length. A row that is longer
    than the bound goes alone. Losses are sums, so neither cuts nor order change them.
    """
    part: list[Row] = []
    longest = 0
    for row in sorted(rows, key=_place):
        longest = max(longest, _size(row))
        if part and longest * (len(part) + 1) > most_tokens:
            yield part
            part, longest = [], _size(row)
        part.append(row)
    if part:
        yield part


def token_logprobs(
    model: Any,
    rows: Sequence[Row],
    device: torch.device,
    *,
    entropy: Entropy = "none",
    share: bool = False,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return log-probabilities of the chosen tokens, as the sampler computed them.

    Padding stands behind, where a causal model never sees it; so it changes no logit. Of the
    logits, only those before chosen tokens are computed. A token that was drawn from a few is
    normalized over those few.

    Returns:
        ``[rows, tokens]`` each, 0 where a token was not chosen; entropies in nats, or ``None``.
    """
    longest = max(len(row.token_ids) for row in rows)
    begins, shared = _shared_prompts(model, rows, device) if share else ([0] * len(rows), {})
    size = max(_size(row) - begin for row, begin in zip(rows, begins, strict=True))
    ids = torch.zeros(len(rows), size, dtype=torch.long)
    places: list[tuple[int, int]] = []
    for index, (row, begin) in enumerate(zip(rows, begins, strict=True)):
        rest = (*row.context.prompt_ids[begin:], *row.token_ids)
        ids[index, : len(rest)] = torch.tensor(rest)
        places += [(index, at) for at, chosen in enumerate(row.loss_mask) if chosen]
    if shared:
        shared |= _places_behind(shared["attention_mask"], begins, size)
    # The logits behind a token are about the next one.
    before = [len(rows[i].context.prompt_ids) - begins[i] + at - 1 for i, at in places]
    columns = sorted(set(before))
    where = {column: number for number, column in enumerate(columns)}
    keep = torch.tensor(columns, dtype=torch.long, device=device)
    shared.setdefault("use_cache", False)
    logits = model(input_ids=ids.to(device), logits_to_keep=keep, **shared).logits
    row_index = torch.tensor([index for index, _ in places], device=device)
    column_index = torch.tensor([where[column] for column in before], device=device)
    chosen = [rows[index].token_ids[at] for index, at in places]
    scaled = _scaled(logits[row_index, column_index], rows, row_index)
    choices = [rows[index].context.allowed[at] for index, at in places]
    values, spread = _normalized(scaled, choices, chosen, entropy=entropy)
    place = (row_index, torch.tensor([at for _, at in places], device=device))
    blank = torch.zeros(len(rows), longest, dtype=values.dtype, device=device)
    logprobs = blank.index_put(place, values)
    return logprobs, None if spread is None else blank.index_put(place, spread)


def _shared_prompts(
    model: Any, rows: Sequence[Row], device: torch.device
) -> tuple[list[int], dict[str, Any]]:
    """Read each distinct prompt once, short of its last token, and spread what was read.

    The episodes of a group begin alike, so most of what a plain pass reads it reads G times.
    """
    prompts = list(dict.fromkeys(row.context.prompt_ids for row in rows))
    width = max(map(len, prompts)) - 1
    plain = len(rows) * max(map(_size, rows))
    answers = len(rows) * (1 + max(len(row.token_ids) for row in rows))
    if width < 1 or len(prompts) * width + answers > _WORTH_SHARING * plain:
        return [0] * len(rows), {}
    ids = torch.zeros(len(prompts), width, dtype=torch.long)
    for index, prompt in enumerate(prompts):
        ids[index, : len(prompt) - 1] = torch.tensor(prompt[:-1], dtype=torch.long)
    cache = DynamicCache()
    model(input_ids=ids.to(device), past_key_values=cache, use_cache=True, logits_to_keep=1)
    known = {prompt: index for index, prompt in enumerate(prompts)}
    sources: Any = torch.tensor([known[row.context.prompt_ids] for row in rows], device=device)
    for layer in cache.layers:
        layer.reorder_cache(sources)
    begins = [len(row.context.prompt_ids) - 1 for row in rows]
    read = torch.arange(width)[None, :] < torch.tensor(begins)[:, None]
    shared = {"past_key_values": cache, "attention_mask": read.to(device), "use_cache": True}
    return begins, shared


def _places_behind(read: torch.Tensor, begins: Sequence[int], size: int) -> dict[str, Any]:
    """Return mask and positions of tokens that follow prompts which were read before."""
    new = torch.ones(len(begins), size, dtype=torch.bool, device=read.device)
    starts = torch.tensor(begins, device=read.device)[:, None]
    positions = starts + torch.arange(size, device=read.device)[None, :]
    return {
        "attention_mask": torch.cat([read, new], dim=1).long(),
        "position_ids": positions,
    }


def _place(row: Row) -> tuple[int, tuple[int, ...], int]:
    prompt: tuple[int, ...] = row.context.prompt_ids
    return len(prompt), prompt, len(row.token_ids)


def _size(row: Row) -> int:
    return len(row.context.prompt_ids) + len(row.token_ids)


def _scaled(logits: torch.Tensor, rows: Sequence[Row], row_index: torch.Tensor) -> torch.Tensor:
    """Divide by the temperature that each row was sampled at, in single precision at least."""
    sampled_at = [row.temperature for row in rows]
    exact = logits if logits.dtype == torch.float64 else logits.float()
    if all(temperature == 1.0 for temperature in sampled_at):
        return exact
    temperatures = torch.tensor(sampled_at, dtype=exact.dtype, device=exact.device)
    return exact / temperatures[row_index, None]


def _normalized(
    scaled: torch.Tensor,
    choices: Sequence[tuple[int, ...] | None],
    chosen: Sequence[int],
    *,
    entropy: Entropy,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return log-probability (and entropy) of each chosen token among its choices."""
    device = scaled.device
    tokens = torch.tensor(chosen, dtype=torch.long, device=device)
    held = [number for number, allowed in enumerate(choices) if allowed is not None]
    if not held:
        return _of_all(scaled, tokens, entropy=entropy)
    free = [number for number, allowed in enumerate(choices) if allowed is None]
    few, at = _few(scaled, choices, chosen, held)
    values, spread = _of_all(few, at, entropy=entropy)
    if not free:
        return values, spread
    others, others_spread = _of_all(
        scaled[torch.tensor(free, device=device)],
        tokens[torch.tensor(free, device=device)],
        entropy=entropy,
    )
    back = torch.tensor(held + free, device=device).argsort()
    values = torch.cat([values, others])[back]
    if spread is None or others_spread is None:
        return values, None
    return values, torch.cat([spread, others_spread])[back]


def _few(
    scaled: torch.Tensor,
    choices: Sequence[tuple[int, ...] | None],
    chosen: Sequence[int],
    held: Sequence[int],
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gather the logits that each token was chosen from, and where among them it stands."""
    lists = [choices[number] or () for number in held]
    width = max(map(len, lists))
    index = torch.zeros(len(held), width, dtype=torch.long)
    closed = torch.ones(len(held), width, dtype=torch.bool)
    for line, allowed in enumerate(lists):
        index[line, : len(allowed)] = torch.tensor(allowed)
        closed[line, : len(allowed)] = False
    at = [allowed.index(chosen[number]) for number, allowed in zip(held, lists, strict=True)]
    device = scaled.device
    few = scaled[torch.tensor(held, device=device)].gather(1, index.to(device))
    # The least number and not minus infinity, whose product with a probability of 0 is no number.
    few = few.masked_fill(closed.to(device), torch.finfo(few.dtype).min)
    return few, torch.tensor(at, device=device)


def _of_all(
    scaled: torch.Tensor, tokens: torch.Tensor, *, entropy: Entropy
) -> tuple[torch.Tensor, torch.Tensor | None]:
    logprobs = torch.log_softmax(scaled, dim=-1)
    values = logprobs.gather(1, tokens[:, None])[:, 0]
    if entropy == "none":
        return values, None
    if entropy == "watched":
        logprobs = logprobs.detach()
    terms = logprobs.exp() * logprobs
    return values, -torch.where(logprobs.exp() > 0, terms, 0.0).sum(dim=-1)
