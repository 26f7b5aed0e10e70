"""A policy as bytes: a backend looks whether every part fits before it takes anything over."""

import io
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import Any

import torch

from skillwright.policy.errors import CheckpointDamaged

_LONGEST_REASON = 200
_MOMENTS = ("exp_avg", "exp_avg_sq")


def packed(state: Mapping[str, Any]) -> bytes:
    """Return tensors and plain values as bytes."""
    file = io.BytesIO()
    torch.save(dict(state), file)
    return file.getvalue()


def unpacked(state: bytes) -> Mapping[str, Any]:
    """Read what `packed` wrote, with its tensors on the CPU."""
    try:
        _refuse_packed(state)
        # Tensors and plain values alone: a checkpoint runs no code.
        kept = torch.load(io.BytesIO(state), map_location="cpu", weights_only=True)
    except MemoryError:
        raise
    except Exception as error:  # a changed byte may lead the reader anywhere
        raise CheckpointDamaged(
            f"these {len(state):,} bytes are no snapshot of this policy (they are cut or changed); "
            "start again from the checkpoint before it"
        ) from error
    if not isinstance(kept, Mapping):
        raise CheckpointDamaged(
            f"these {len(state):,} bytes are no snapshot of this policy (they hold a "
            f"{type(kept).__name__}); start again from the checkpoint before it"
        )
    return kept


def _refuse_packed(state: bytes) -> None:
    """Refuse what would take more memory than it has bytes: torch writes all parts uncompressed."""
    with zipfile.ZipFile(io.BytesIO(state)) as archive:
        parts = archive.infolist()
    if any(part.compress_type != zipfile.ZIP_STORED for part in parts):
        raise ValueError("a part of it is compressed")


@contextmanager
def fitting(same: str) -> Iterator[None]:
    """Turn whatever does not fit in a snapshot into one error that says what."""
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError, RuntimeError) as error:
        raise CheckpointDamaged(
            f"this is no snapshot of this policy: {_reason(error)} Load it into a policy of the "
            f"same {same}, or start again from the checkpoint before it"
        ) from error


def fill_optimiser(optimiser: torch.optim.Optimizer, state: Mapping[str, Any]) -> None:
    """Take over what an AdamW's ``state_dict`` returned.

    torch itself looks at the number of parameters alone, and fails at the next step, or begins
    anew. Here it is checked that each moment belongs to a parameter, is there and has its shape,
    and that each setting is there; values of settings are not judged.
    """
    optimiser.load_state_dict(dict(state))
    mine = [group["params"] for group in optimiser.state_dict()["param_groups"]]
    told = [group["params"] for group in state["param_groups"]]
    if told != mine or not state["state"].keys() <= set(chain.from_iterable(mine)):
        raise ValueError("its optimiser is of other weights")
    for group in optimiser.param_groups:
        if missing := sorted(optimiser.defaults.keys() - group.keys()):
            raise ValueError(f"its optimiser does not say {', '.join(missing)}")
        for number, weight in enumerate(group["params"]):
            kept = optimiser.state.get(weight)
            if not kept:  # no step has moved it yet
                continue
            shapes = [getattr(kept.get(name), "shape", None) for name in _MOMENTS]
            if "step" not in kept or shapes != [weight.shape] * len(_MOMENTS):
                raise ValueError(
                    f"its optimiser remembers weight {number} of a group in another shape, or in "
                    "part"
                )


def _reason(error: Exception) -> str:
    """Return what went wrong in one short sentence."""
    if isinstance(error, KeyError):
        return f"it has no {error}."
    said = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    if len(said) <= _LONGEST_REASON:
        return f"{said}."
    return f"{said[:_LONGEST_REASON].rstrip(' .,')}..."
