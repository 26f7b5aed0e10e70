"""AdamW in fewer bytes per weight, and restoring an optimizer's state.

Bytes per weight, in addition to 2 of its gradient in bfloat16 or 4 in float32:

| weights | optimizer | weight | rest of the master weight | moments | sum |
|---|---|---|---|---|---|
| float32 | `torch.optim.AdamW` | 4 | | 8 | 12 |
| float32 | 8 bits | 4 | | 2.03 | 6.03 |
| bfloat16 | moments in float32 | 2 | 2 | 8 | 12 |
| bfloat16 | 8 bits | 2 | 2 | 2.03 | 6.03 |
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final

import torch

BLOCK: Final = 256
"""Moments that share a scale."""

SMALLEST: Final = 4096
"""Smaller weights keep full moments: biases and norms are few and important."""

_ONE: Final = 0x3F80  # the upper half of 1.0 as float32
# Weights per piece, so that few are held in float32; a GPU needs large pieces to be busy.
_PIECES: Final = {"cpu": 1 << 22, "cuda": 1 << 25}


class LeanAdamW(torch.optim.Optimizer):
    """AdamW with float32 master weights for bfloat16 parameters, and optional 8-bit moments.

    A bfloat16 number is the upper half of a float32 one. The lower half is stored separately, so
    both together are the exact master weight.

    8-bit moments are fractions of the largest of their block of 256, in a code that is finer for
    small fractions (source: 8-bit Optimizers via Block-wise Quantization, arXiv:2110.02861), with
    two differences. The *root* of the second moment is stored, which needs half the range; and it
    is rounded stochastically, so that slowly moving means do not stall. A positive root is never
    rounded to 0. The randomness depends on step and weight only, so resumed runs are equal.

    Args:
        weights: float32, float64 or bfloat16.
        weight_decay: Decoupled, as in AdamW.
        betas: Decay rates of the moments.
        eps: Added to the root.
        eight_bit: Store moments in 8 bits, except those of float64.
    """

    def __init__(
        self,
        weights: Iterable[torch.Tensor],
        *,
        weight_decay: float = 0.01,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        eight_bit: bool = False,
    ) -> None:
        super().__init__(
            weights, {"lr": 0.0, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        )
        self._eight_bit = eight_bit
        self._codes: dict[torch.device, tuple[_Code, _Code]] = {}

    def layout(self, weight: torch.Tensor) -> dict[str, tuple[torch.Size, torch.dtype]]:
        """Return shape and dtype of a weight's optimizer state, without the step count."""
        size, wide = weight.numel(), _wide(weight)
        kept: dict[str, tuple[torch.Size, torch.dtype]] = {}
        if self._eight_bit and size >= SMALLEST and wide == torch.float32:
            blocks = torch.Size([-(-size // BLOCK)])
            for name in ("exp_avg", "root"):
                kept[f"{name}_codes"] = (torch.Size([size]), torch.uint8)
                kept[f"{name}_scales"] = (blocks, torch.float32)
        else:
            kept |= dict.fromkeys(_MOMENTS, (weight.shape, wide))
        if weight.dtype == torch.bfloat16:
            kept["low"] = (weight.shape, torch.int16)
        return kept

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]  # no closure is called, so nothing is returned
        """Update every weight that has a gradient."""
        number = 0
        for group in self.param_groups:
            for weight in group["params"]:
                number += 1
                if weight.grad is not None:
                    self._step(weight, group, number)

    def _step(self, weight: torch.Tensor, group: Mapping[str, Any], number: int) -> None:
        state = self.state[weight]
        if not state:
            state["step"] = torch.zeros(())
        for name, (shape, dtype) in self.layout(weight).items():
            if name not in state:
                state[name] = torch.zeros(shape, dtype=dtype, device=weight.device)
        state["step"] += 1
        step = int(state["step"])
        chance = torch.Generator(weight.device).manual_seed(step * 1_000_003 + number)
        kept = {name: one.view(-1) for name, one in state.items() if name != "step"}
        numbers, gradient = weight.view(-1), weight.grad.reshape(-1)  # type: ignore[union-attr]  # asked for by `step`
        size = _PIECES.get(weight.device.type, _PIECES["cpu"])
        for first in range(0, weight.numel(), size):
            part = slice(first, min(first + size, weight.numel()))
            slope = gradient[part].to(_wide(weight))
            moved = self._moved(kept, part, slope, group, step, chance)
            low = kept["low"][part] if "low" in kept else None
            master = _joined(numbers[part], low)
            master.mul_(1 - group["lr"] * group["weight_decay"]).sub_(moved, alpha=group["lr"])
            _part_with(master, numbers[part], low)

    def _moved(
        self,
        kept: Mapping[str, torch.Tensor],
        part: slice,
        slope: torch.Tensor,
        group: Mapping[str, Any],
        step: int,
        chance: torch.Generator,
    ) -> torch.Tensor:
        """Update the moments and return the direction of the step."""
        first_decay, second_decay = group["betas"]
        unbiased, unbiased_root = 1 - first_decay**step, (1 - second_decay**step) ** 0.5
        if "exp_avg" in kept:
            mean = kept["exp_avg"][part].lerp_(slope, 1 - first_decay)
            square = kept["exp_avg_sq"][part].mul_(second_decay)
            root = square.addcmul_(slope, slope, value=1 - second_decay).sqrt()
        else:
            signed, unsigned = self._codes_on(slope.device)
            mean = signed.decoded(kept, "exp_avg", part).lerp_(slope, 1 - first_decay)
            root = unsigned.decoded(kept, "root", part).square_().mul_(second_decay)
            root.addcmul_(slope, slope, value=1 - second_decay).sqrt_()
            signed.encode(kept, "exp_avg", part, mean)
            unsigned.encode(kept, "root", part, root, chance)
        return mean.div(unbiased).div_(root.div_(unbiased_root).add_(group["eps"]))

    def _codes_on(self, device: torch.device) -> "tuple[_Code, _Code]":
        if device not in self._codes:
            self._codes[device] = (_Code(device, signed=True), _Code(device, signed=False))
        return self._codes[device]


def code_book(*, signed: bool) -> torch.Tensor:
    """Return the 256 ascending fractions of a byte, in [-1, 1] or [0, 1].

    Seven decades; each has twice as many numbers as the one below it. Source: dynamic tree
    quantization, arXiv:2110.02861, appendix F.2.
    """
    shares = [torch.tensor([0.0, 1.0], dtype=torch.float64)]
    for decade in range(7):
        count = 2 ** (decade if signed else decade + 1)
        edges = torch.linspace(0.1, 1.0, count + 1, dtype=torch.float64)
        inside = (edges[1:] + edges[:-1]) / 2 * 10.0 ** (decade - 6)
        shares += [inside, -inside] if signed else [inside]
    return torch.cat(shares).sort().values.float()


class _Code:
    """Encodes moments as bytes."""

    def __init__(self, device: torch.device, *, signed: bool) -> None:
        book = code_book(signed=signed)
        self._zero = int((book == 0).nonzero())
        sizes = book[self._zero :]
        # Start of the search for a size, by the upper half of its float32: two edges of the code
        # are never closer. A binary search takes eight times as long.
        halves = torch.arange(_ONE + 1, dtype=torch.int32).bitwise_left_shift(16)
        first = torch.searchsorted(sizes, halves.view(torch.float32), right=True) - 1
        self._first = first.clamp(max=len(sizes) - 2).int().to(device)
        self._book, self._sizes = book.to(device), sizes.to(device)

    def decoded(self, kept: Mapping[str, torch.Tensor], name: str, part: slice) -> torch.Tensor:
        codes, scales = kept[f"{name}_codes"][part], _scales(kept, name, part)
        spread = scales.repeat_interleave(BLOCK)[: len(codes)]
        return self._book.index_select(0, codes.int()).mul_(spread)

    def encode(
        self,
        kept: Mapping[str, torch.Tensor],
        name: str,
        part: slice,
        values: torch.Tensor,
        chance: torch.Generator | None = None,
    ) -> None:
        """Encode values to the nearest code, or stochastically."""
        count = len(values)
        filled = torch.nn.functional.pad(values.abs(), (0, -count % BLOCK)).view(-1, BLOCK)
        scales = filled.amax(dim=1)
        smallest = torch.finfo(torch.float32).tiny
        sizes = filled.div_(scales.clamp(min=smallest)[:, None]).view(-1)[:count]
        below = self._first.index_select(0, sizes.view(torch.int32).bitwise_right_shift(16))
        below += sizes >= self._sizes.index_select(0, below + 1)
        below.clamp_(max=len(self._sizes) - 2)
        lower = self._sizes.index_select(0, below)
        gap = self._sizes.index_select(0, below + 1).sub_(lower)
        share = sizes.sub(lower).div_(gap)
        if chance is None:
            below += share > 0.5
        else:
            drawn = torch.rand(count, generator=chance, device=values.device)
            below += (share > drawn) | ((lower == 0) & (sizes > 0))  # never to 0
        if self._zero:
            below = torch.where(values < 0, -below, below).add_(self._zero).clamp_(min=0)
        kept[f"{name}_codes"][part] = below.to(torch.uint8)
        _scales(kept, name, part).copy_(scales)


def _scales(kept: Mapping[str, torch.Tensor], name: str, part: slice) -> torch.Tensor:
    return kept[f"{name}_scales"][part.start // BLOCK : -(-part.stop // BLOCK)]


def _wide(weight: torch.Tensor) -> torch.dtype:
    return torch.float64 if weight.dtype == torch.float64 else torch.float32


def _joined(numbers: torch.Tensor, low: torch.Tensor | None) -> torch.Tensor:
    """Return master weights; for bfloat16, upper and lower halves combined."""
    if low is None:
        return numbers
    upper = numbers.view(torch.int16).to(torch.int32).bitwise_left_shift_(16)
    return upper.add_(low).view(torch.float32)


def _part_with(master: torch.Tensor, numbers: torch.Tensor, low: torch.Tensor | None) -> None:
    """Store master weights: the upper half rounded to the nearest, and the rest."""
    if low is None:
        return  # they were moved where they lie
    bits = master.view(torch.int32)
    upper = bits.add(1 << 15).bitwise_right_shift_(16)
    low.copy_(bits - upper.bitwise_left_shift(16))
    numbers.view(torch.int16).copy_(upper)


_MOMENTS: Final = ("exp_avg", "exp_avg_sq")


def check_optimizer(optimizer: torch.optim.Optimizer, state: Mapping[str, Any]) -> None:
    """Refuse the ``state_dict`` of an optimizer of other weights, or of another kind.

    torch checks only the number of parameters, and fails at the next step or restarts silently.
    This checks the parameter, presence and shape of each moment, and the presence of each setting.
    """
    mine = [group["params"] for group in optimizer.state_dict()["param_groups"]]
    theirs = [group["params"] for group in state["param_groups"]]
    if len(theirs) != len(mine):
        raise ValueError("its optimizer has another number of parameter groups")
    if theirs != mine or not state["state"].keys() <= set(chain.from_iterable(mine)):
        raise ValueError("its optimizer is of other weights")
    for group in state["param_groups"]:
        if missing := sorted(optimizer.defaults.keys() - group.keys()):
            raise ValueError(f"its optimizer does not say {', '.join(missing)}")
    for number, weight in _numbered(optimizer):
        kept = state["state"].get(number)
        if not kept:  # no step has moved it yet
            continue
        wanted = _layout(optimizer, weight)
        # Runs on a GPU of before there were halves have master weights in float32.
        needed = {name: shape for name, (shape, _) in wanted.items() if name != "low"}
        found = {name: getattr(kept.get(name), "shape", None) for name in needed}
        if "step" not in kept or found != needed:
            raise ValueError(
                f"its optimizer remembers weight {number} of a group in another shape, or in part"
            )


def fill_optimizer(optimizer: torch.optim.Optimizer, state: Mapping[str, Any]) -> None:
    """Load a state that `check_optimizer` accepted, without a second copy."""
    for group, theirs in zip(optimizer.param_groups, state["param_groups"], strict=True):
        group.update({name: value for name, value in theirs.items() if name != "params"})
    for number, weight in _numbered(optimizer):
        kept = state["state"].get(number)
        if not kept:
            optimizer.state.pop(weight, None)
            continue
        mine = optimizer.state[weight]
        mine["step"] = torch.as_tensor(kept["step"]).clone()
        for name, (shape, dtype) in _layout(optimizer, weight).items():
            if name not in kept:
                mine.pop(name, None)
                continue
            if name not in mine:
                mine[name] = torch.empty(shape, dtype=dtype, device=weight.device)
            mine[name].copy_(kept[name])


def _numbered(optimizer: torch.optim.Optimizer) -> Iterator[tuple[int, torch.Tensor]]:
    """Return the weights as numbered by ``state_dict``."""
    return enumerate(chain.from_iterable(group["params"] for group in optimizer.param_groups))


def _layout(
    optimizer: torch.optim.Optimizer, weight: torch.Tensor
) -> dict[str, tuple[torch.Size, torch.dtype]]:
    if isinstance(optimizer, LeanAdamW):
        return optimizer.layout(weight)
    return dict.fromkeys(_MOMENTS, (weight.shape, weight.dtype))
