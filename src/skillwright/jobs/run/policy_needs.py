"""Estimate the memory of a language model's training from its ``config.json``.

No weights are loaded. The memory of weights is exact; activations are counted per tensor for
Llama-like decoders (RMS norms, rotary positions, grouped heads, a gated MLP), as in the packed
forward pass. `tests/jobs/test_policy_needs.py` compares the sum with a real step.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Self

from skillwright.core import ConfigError, SkillwrightError
from skillwright.models import find_weights, read_gguf

TRUSTED: Final = 1.3
"""Maximum factor between an estimate and the measured memory, in both directions."""

_ARCHITECTURES: Final = ("llama", "mistral", "qwen2", "qwen3", "smollm3")
_ON_GPU: Final = 8  # times as much of the next two: a GPU is given more at once
_LOGITS: Final = 3 * 2**24 * 4  # bytes: three blocks of logits, as the last layer is read in parts
_STEPPED: Final = 10 * 2**22 * 4  # bytes that the lean optimizer holds in float32 at once
_CUDA: Final = 1_500_000_000  # bytes: context, kernels and what the allocator cannot fill


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a decoder.

    Attributes:
        architecture: ``model_type`` of its configuration.
        width: Hidden size.
        layers: Number of layers.
        queries: Width of all query heads together.
        keys: Width of all key heads together, equal to that of values.
        inner: Width of the MLP.
        vocabulary: Number of tokens.
        tied: Whether the last layer has the weights of the first.
        head: Width of one head.
        biased: Whether queries, keys and values have biases.
        source: Where the sizes are from.
    """

    architecture: str
    width: int
    layers: int
    queries: int
    keys: int
    inner: int
    vocabulary: int
    tied: bool
    head: int
    biased: bool = False
    source: str = ""

    @classmethod
    def of(cls, config: Mapping[str, Any], source: str) -> Self:
        """Read a ``config.json``.

        Raises:
            ConfigError: The architecture is not supported, or a size is missing.
        """
        architecture = str(config.get("model_type", ""))
        if architecture not in _ARCHITECTURES:
            raise ConfigError(
                f"{source} is of the kind {architecture or 'it does not say'}, whose memory is "
                f"not estimated; known are {', '.join(_ARCHITECTURES)}"
            )
        try:
            heads = int(config["num_attention_heads"])
            head = int(config.get("head_dim") or config["hidden_size"] // heads)
            return cls(
                architecture=architecture,
                width=int(config["hidden_size"]),
                layers=int(config["num_hidden_layers"]),
                queries=heads * head,
                keys=int(config.get("num_key_value_heads") or heads) * head,
                inner=int(config["intermediate_size"]),
                vocabulary=int(config["vocab_size"]),
                tied=bool(config.get("tie_word_embeddings", False)),
                head=head,
                biased=architecture == "qwen2" or bool(config.get("attention_bias", False)),
                source=source,
            )
        except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
            raise ConfigError(f"{source} lacks a size, or has one that is none: {error}") from error

    @property
    def embedding(self) -> int:
        """Weights of the first layer, and of the last."""
        return self.vocabulary * self.width

    @property
    def weights(self) -> int:
        """All weights, tied ones once."""
        return self.embedding * (1 if self.tied else 2) + self.layers * self._layer + self.width

    @property
    def _layer(self) -> int:
        attention = self.width * (2 * self.queries + 2 * self.keys)
        biases = self.queries + 2 * self.keys if self.biased else 0
        norms = 2 * self.width + (2 * self.head if self.architecture == "qwen3" else 0)
        return attention + biases + 3 * self.width * self.inner + norms

    def adapter(self, rank: int) -> int:
        """Weights of an adapter on every linear layer but the last."""
        attention = 2 * (self.width + self.queries) + 2 * (self.width + self.keys)
        return self.layers * rank * (attention + 3 * (self.width + self.inner))


def _known(layers: int, width: int, heads: int, keys: int, inner: int, vocabulary: int) -> Shape:
    # Source: config.json of Qwen/Qwen2.5-*; the smaller ones tie their last layer to the first.
    return Shape(
        architecture="qwen2",
        width=width,
        layers=layers,
        queries=width,
        keys=keys * (width // heads),
        inner=inner,
        vocabulary=vocabulary,
        tied=width < 3000,
        head=width // heads,
        biased=True,
    )


KNOWN: Final[Mapping[str, Shape]] = {
    "Qwen2.5-0.5B": _known(24, 896, 14, 2, 4864, 151_936),
    "Qwen2.5-1.5B": _known(28, 1536, 12, 2, 8960, 151_936),
    "Qwen2.5-3B": _known(36, 2048, 16, 2, 11_008, 151_936),
    "Qwen2.5-7B": _known(28, 3584, 28, 4, 18_944, 152_064),
}
"""Known shapes by the prefix of the model's name."""


def find_shape(model: str) -> Shape:
    """Return the shape of a model by folder, GGUF file, package, or name on the hub.

    Raises:
        ConfigError: The shape is unknown, or of an unsupported architecture.
    """
    for path in (Path(model).expanduser() / "config.json", _cached(model)):
        if path is not None and path.is_file():
            try:
                return Shape.of(json.loads(path.read_text("utf-8")), str(path))
            except (OSError, ValueError) as error:
                raise ConfigError(f"{path} cannot be read: {error}") from error
    try:
        weights = find_weights(model)
    except SkillwrightError:
        name = model.rstrip("/").rpartition("/")[2]
        known = [one for one in KNOWN if f"{name}-".startswith(f"{one}-")]
        if known:
            return KNOWN[known[0]]
        raise ConfigError(
            f"how large {model!r} is, is not known here: there is no config.json of it on this "
            f"machine, and it is none of {', '.join(KNOWN)}"
        ) from None
    return _shape_of_gguf(weights)


def _cached(model: str) -> Path | None:
    """Return the ``config.json`` of a model that was fetched from the hub before."""
    if find_spec("huggingface_hub") is None or model.count("/") != 1:
        return None
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = try_to_load_from_cache(model, "config.json")
    except HFValidationError:
        return None
    return Path(found) if isinstance(found, str) else None


def _shape_of_gguf(path: Path) -> Shape:
    said = read_gguf(path).metadata
    kind = str(said.get("general.architecture", ""))
    names = {
        "hidden_size": "embedding_length",
        "num_hidden_layers": "block_count",
        "num_attention_heads": "attention.head_count",
        "num_key_value_heads": "attention.head_count_kv",
        "head_dim": "attention.key_length",
        "intermediate_size": "feed_forward_length",
        "vocab_size": "vocab_size",
    }
    config = {ours: said.get(f"{kind}.{theirs}") for ours, theirs in names.items()}
    listed = said.get("tokenizer.ggml.tokens")
    if config["vocab_size"] is None and isinstance(listed, dict):
        config["vocab_size"] = listed.get("length")
    loose = Shape.of({**config, "model_type": kind}, str(path))
    tied = Shape.of({**config, "model_type": kind, "tie_word_embeddings": True}, str(path))
    held = read_gguf(path).parameters
    return min((tied, loose), key=lambda one: abs(one.weights - held))


@dataclass(frozen=True, slots=True)
class Demand:
    """How a model is trained and sampled.

    Attributes:
        low: Whether it is in bfloat16.
        rank: Rank of an adapter; ``None`` trains all weights.
        lean: Whether optimizer moments have 8 bits.
        checkpointing: Whether gradient checkpointing is on.
        reference: Whether a frozen copy is kept.
        tokens: Tokens of a forward and backward pass.
        chosen: Trained tokens among them.
        passes: Passes per optimizer step, at least 1.
        sampled: Conversations that are sampled at once.
        context: Cached tokens of each.
        read: Prompt tokens that are read at once.
        cuda: Whether it runs on a GPU.
    """

    low: bool
    rank: int | None
    lean: bool
    checkpointing: bool
    reference: bool
    tokens: int
    chosen: int
    passes: int
    sampled: int
    context: int
    read: int
    cuda: bool


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes of memory.

    Attributes:
        weights: Weights in the precision of the model.
        master: Additional float32 weights.
        moments: Optimizer moments.
        reference: The frozen copy.
        activations: Activations kept for a backward pass.
        logits: Blocks of logits, and the gradient of the last layer.
        stepping: Additional memory of an optimizer step.
        cache: Keys and values while sampling.
        reading: Additional memory for reading prompts.
        fixed: The fixed part of a GPU.
        grows: Whether gradients and activations are in memory together.
    """

    weights: int
    master: int
    moments: int
    reference: int
    gradients: int
    activations: int
    logits: int
    stepping: int
    cache: int
    reading: int
    fixed: int
    grows: bool

    @property
    def lasting(self) -> int:
        """Bytes that are always in use."""
        return self.weights + self.master + self.moments + self.reference + self.fixed

    @property
    def training(self) -> int:
        """Peak bytes of a training step."""
        passing = self.activations + self.logits
        learning = passing + self.gradients if self.grows else max(passing, self.gradients)
        return self.lasting + max(learning, self.gradients + self.stepping)

    @property
    def sampling(self) -> int:
        """Peak bytes of sampling."""
        return self.lasting + self.cache + self.reading

    @property
    def peak(self) -> int:
        """Peak bytes of training and sampling."""
        return max(self.training, self.sampling)


def needed(shape: Shape, demand: Demand) -> Need:
    """Count the bytes of a training."""
    size = 2 if demand.low else 4
    whole = demand.rank is None
    trained = shape.weights if demand.rank is None else shape.adapter(demand.rank)
    # Of bfloat16 weights the optimizer keeps the other half; adapters are float32.
    width = size if whole else 4
    kept = 0 if demand.lean else 4
    moments = trained * (2 * kept or 2 + 8 / 256)
    activations, layer = _activations(shape, demand, size)
    return Need(
        weights=shape.weights * size + (0 if whole else trained * 4),
        master=trained * 2 if whole and demand.low else 0,
        moments=round(moments),
        reference=(trained * width) if demand.reference else 0,
        gradients=trained * width,
        activations=activations,
        logits=_logits(shape, demand) + (shape.embedding * width if whole else 0),
        stepping=_stepping(shape, demand, trained),
        cache=demand.sampled * demand.context * 2 * shape.keys * shape.layers * size,
        reading=demand.read * (4 * shape.inner + 6 * shape.width + 2 * shape.queries) * size,
        fixed=_CUDA if demand.cuda else 0,
        grows=demand.passes > 1 or (demand.checkpointing and layer > 0),
    )


def _activations(shape: Shape, demand: Demand, size: int) -> tuple[int, int]:
    """Return the bytes that a forward pass keeps, and those of one layer."""
    residual = 2 * shape.width
    norms = 4 * shape.width  # each keeps what it normalized and what it gave
    attention = 3 * shape.queries + 2 * shape.keys  # queries, answers twice, keys, values
    gated = 4 * shape.inner  # gate, its activation, the other branch, their product
    token = (residual + norms + attention + gated) * size
    if demand.low:
        token += 2 * 4 * shape.width  # norms are computed in float32
        if demand.rank is not None:
            token += 3 * shape.width * size  # each adapter keeps its own copy of its input
    layer = demand.tokens * token
    outside = demand.tokens * 4 * shape.width * size
    if not demand.checkpointing:
        return shape.layers * layer + outside, layer
    gradients = demand.tokens * (3 * shape.inner + 4 * shape.width) * size
    inputs = demand.tokens * shape.layers * shape.width * size
    return inputs + layer + gradients + outside, layer


def _logits(shape: Shape, demand: Demand) -> int:
    most = _LOGITS * (_ON_GPU if demand.cuda else 1)
    return min(most, 3 * demand.chosen * shape.vocabulary * 4)


def _stepping(shape: Shape, demand: Demand, trained: int) -> int:
    largest = shape.embedding if demand.rank is None else trained
    if demand.lean or (demand.low and demand.rank is None):
        return min(_STEPPED * (_ON_GPU if demand.cuda else 1), 10 * largest * 4)
    return trained * 4 if demand.cuda else 2 * largest * 4
