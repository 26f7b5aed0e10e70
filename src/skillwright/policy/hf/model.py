"""The weights of a causal language model: precision, adapter, digest and frozen reference."""

import copy
import hashlib
import inspect
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Literal

import torch
from pydantic import PositiveFloat, PositiveInt
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from skillwright.core import ConfigError, did_you_mean
from skillwright.core.policy_settings import LanguageModelTerms, Lora

REFERENCE_ADAPTER = "reference"

_KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


class HfSettings(LanguageModelTerms):
    """How a language model is run and trained.

    With bfloat16, the optimizer keeps the other half of every trained weight's float32 (a step of
    1e-6 would vanish in fewer bits); an adapter's weights stay float32 and are read as bfloat16.
    Of ``micro_tokens``, padding counts, where a model needs any. A longer row goes alone.
    """

    sample_rows: PositiveInt = 128
    """Conversations that are sampled at once."""
    keep_cache: bool = True
    """Keep keys and values from turn to turn."""
    max_grad_norm: PositiveFloat = 1.0
    """The gradient is scaled down to this Euclidean norm."""
    weight_decay: float = 0.01
    """AdamW's."""


SAMPLING_MEMORY = ("rollout.max_concurrent", "policy.max_new_tokens", "policy.context_tokens")
TRAINING_MEMORY = ("policy.micro_tokens", "policy.max_new_tokens", "policy.context_tokens")


class Weights:
    """A model with its trained parameters and its frozen reference."""

    def __init__(self, model: Any, settings: HfSettings) -> None:
        _check_cache(model)
        self.device = _device(settings.device)
        self.low = settings.precision == "bfloat16" or (
            settings.precision == "auto" and self.device.type == "cuda"
        )
        self._lora = settings.lora is not None
        self._alpha = None if settings.lora is None else settings.lora.alpha
        # Before rounding: an adapter fits its base in any precision.
        self._base = self._digest(model.named_parameters()) if self._lora else ""
        if self.low:
            _round(model)
        elif settings.precision == "float64":
            model = model.to(torch.float64)
        model.requires_grad_(requires_grad=not self._lora)
        if settings.lora is not None:
            model = _adapted(model, settings.lora)
        self.model: Any = model.to(self.device)
        # Sampling and training must see the same distribution.
        for module in self.model.modules():
            _drop_nothing(module)
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
        """Return the trained parameters by name."""
        return {name: one for name, one in self.model.named_parameters() if one.requires_grad}

    def digest(self) -> str:
        """Return a digest of all relevant weights; those of the base are hashed once."""
        return self._digest(self.trained().items(), self._base)

    @contextmanager
    def autocast(self, *, keep: bool = True) -> Iterator[None]:
        """Enter the precision and the kernels of a forward pass.

        Args:
            keep: Cache an adapter's rounded weights within the context (autocast's weight cache).
        """
        with self.kernels():
            if not self.low:
                yield
                return
            kind = self.device.type
            with torch.autocast(kind, dtype=torch.bfloat16, cache_enabled=keep):
                yield

    def kernels(self) -> Any:
        """Return the context of attention kernels, forward and backward.

        On a GPU it excludes cuDNN's kernels: they plan anew for every shape, which takes as long as
        a token, and shapes rarely repeat here.
        """
        if self.device.type != "cuda":
            return nullcontext()
        return sdpa_kernel(_KERNELS)

    @contextmanager
    def training(self) -> Iterator[None]:
        """Enable gradient checkpointing, if configured; the library needs training mode for it."""
        self.model.train(self._checkpointing)
        try:
            with self.kernels():  # recomputation in the backward pass uses them too
                yield
        finally:
            self.model.eval()

    def freeze(self) -> None:
        """Make the current weights the reference."""
        self.forget_reference()
        if not self._lora:
            frozen = copy.deepcopy(self.model)
            self._reference = frozen.requires_grad_(requires_grad=False).eval()
            self._reference_kind = "copy"
        elif self._adapter_is_still():
            self._reference_kind = "off"
        else:
            self._copy_adapter()
            self._reference_kind = "adapter"

    def forget_reference(self) -> None:
        """Drop the reference."""
        self._reference, self._reference_kind = None, ""

    @contextmanager
    def reference(self) -> Iterator[Any]:
        """Return the frozen model, for forward passes inside the context."""
        if self._reference is not None:
            yield self._reference
            return
        # With checkpointing, the library would drop the cache of prompts.
        training = self.model.training
        self.model.eval()
        try:
            with self._without_adapter():
                yield self.model
        finally:
            self.model.train(training)

    @contextmanager
    def _without_adapter(self) -> Iterator[None]:
        """Replace the trained adapter by the reference's, or disable it."""
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
        """Return trained weights and reference without copying."""
        return {
            "base": self._base,
            "alpha": self._alpha,
            "trained": {name: one.detach() for name, one in self.trained().items()},
            "reference_kind": self._reference_kind,
            "reference": self._reference_tensors(),
        }

    def check(self, state: Mapping[str, Any]) -> None:
        """Refuse the `state` of another model."""
        if state["base"] != self._base:
            raise ValueError("it was trained on another base model")
        # No shape shows alpha, and an adapter's output is scaled by it.
        if state["alpha"] != self._alpha:
            raise ValueError(
                f"its adapter has alpha {state['alpha']}, and policy.lora has {self._alpha}"
            )
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
        """Load a `state` that passed `check`."""
        mine = self.trained()
        kind = state["reference_kind"]
        with torch.no_grad():
            if kind:
                # Freezing allocates the reference; its values follow.
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
            # Raw bytes: numpy has no bfloat16.
            total.update(one.detach().cpu().reshape(-1).view(torch.uint8).numpy().data)
        return total.hexdigest()


def _drop_nothing(module: nn.Module) -> None:
    """Disable a module's dropout for good, since checkpointing uses training mode."""
    if isinstance(module, nn.Dropout):
        module.p = 0.0
    # Some models keep the rate as an attribute and call the function: OPT, and attention in
    # general.
    for name, value in vars(module).items():
        if "drop" in name and isinstance(value, float):
            setattr(module, name, 0.0)


def _round(model: nn.Module) -> None:
    """Convert all weights to bfloat16, but no buffers: rotary frequencies stay float32."""
    for weight in model.parameters():
        weight.data = weight.data.to(torch.bfloat16)


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


def _adapted(model: Any, lora: Lora) -> Any:
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        target_modules=_targets(model, lora.targets) or "all-linear",
        lora_dropout=0.0,
        task_type="CAUSAL_LM",
    )
    with warnings.catch_warnings():
        # peft uses a name that transformers has deprecated.
        warnings.filterwarnings("ignore", "`is_gradient_checkpointing`", FutureWarning)
        return get_peft_model(model, config)


def _targets(model: nn.Module, names: Sequence[str]) -> list[str]:
    """Return the names of adapted layers; refuse one that the model has no linear layer of."""
    linear = {one.rpartition(".")[2] for one, part in model.named_modules() if _is_linear(part)}
    for name in names:
        if name.rpartition(".")[2] not in linear:
            raise ConfigError(
                f"policy.lora.targets names {name!r}, and {type(model).__name__} has no linear "
                f"layer of that name. {did_you_mean(name, linear)}"
            )
    return list(names)


def _is_linear(part: nn.Module) -> bool:
    # Some models (GPT-2) write their linear layers as convolutions.
    return isinstance(part, nn.Linear) or type(part).__name__ == "Conv1D"


def _checkpoint_gradients(model: Any) -> None:
    settings = {"use_reentrant": False}
    if hasattr(model, "activation_checkpointing_enable"):
        model.activation_checkpointing_enable(settings)
    else:  # before transformers renamed it
        model.gradient_checkpointing_enable(settings)
    model.config.use_cache = False
