"""Models on this machine: finding weights, and serving them by a process of one's own."""

from skillwright.plugins.local.gguf import GgufHeader, read_gguf
from skillwright.plugins.local.weights import (
    EXAMPLE,
    LocalWeights,
    find_weights,
    installed_weights,
    weights_at_hand,
)

__all__ = [
    "EXAMPLE",
    "GgufHeader",
    "LocalWeights",
    "find_weights",
    "installed_weights",
    "read_gguf",
    "weights_at_hand",
]
