"""Store a prompt that several answers continue once, and attend to it once per step.

In generation, attention mostly reads keys and values, most of them of the prompt. The answers of a
group share theirs: their queries form one product with the prompt's keys, and the result is merged
with the attention to each answer's own tokens (source: Hydragen, arXiv:2402.05099).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import AttentionInterface

SHARED = "skillwright_shared"
"""Under which the library knows `attend_shared`."""


@dataclass(frozen=True, slots=True)
class SharedPrompts:
    """Keys and values of prompts, and the answers that continue them.

    Attributes:
        layers: Keys and values of each layer, ``[prompts, heads, columns, width]``.
        mask: ``[prompts, columns]``, true where a column holds a token.
        sources: The prompt of each answer, ``[answers]``.
        slots: Answers by prompt, ``[prompts, most answers]``, arbitrarily padded.
        back: Position of each answer among the slots, ``[answers]``.
    """

    layers: list[tuple[torch.Tensor, torch.Tensor]]
    mask: torch.Tensor
    sources: torch.Tensor
    slots: torch.Tensor
    back: torch.Tensor

    @classmethod
    def of(
        cls,
        layers: list[tuple[torch.Tensor, torch.Tensor]],
        mask: torch.Tensor,
        where: Sequence[int],
    ) -> "SharedPrompts":
        """Group answers by prompt; ``where`` is the prompt of each answer."""
        lists: list[list[int]] = [[] for _ in range(len(mask))]
        places = []
        for answer, prompt in enumerate(where):
            places.append((prompt, len(lists[prompt])))
            lists[prompt].append(answer)
        most = max(map(len, lists))
        device = mask.device
        return cls(
            layers,
            mask,
            torch.tensor(where, device=device),
            torch.tensor([[*one, *[0] * (most - len(one))] for one in lists], device=device),
            torch.tensor([prompt * most + place for prompt, place in places], device=device),
        )

    def step(self, mask: torch.Tensor, tokens: int) -> "Step":
        """Return the attention metadata for a given length per answer.

        Args:
            mask: ``[answers, columns]`` of the answers' own tokens, the new ones at the end.
            tokens: New columns.
        """
        width = mask.shape[1]
        seen = torch.ones(tokens, width, dtype=torch.bool, device=mask.device)
        seen = seen.tril(width - tokens) & mask[:, None, :]
        return Step(self, _closed(self.mask)[:, None, None], _closed(seen)[:, None])


@dataclass(frozen=True, slots=True)
class Step:
    """A forward pass over new tokens; masks are 0 where visible, else minus infinity."""

    prompts: SharedPrompts
    prompt_mask: torch.Tensor
    own_mask: torch.Tensor

    def attention(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
    ) -> torch.Tensor:
        """Return ``[answers, tokens, heads, width]``."""
        answers, heads, tokens, width = query.shape
        groups = heads // key.shape[1]
        # [answers, heads of keys, queries, width]: queries of heads that share keys stand together.
        asked = (query * scale).reshape(answers, -1, groups * tokens, width)
        keys, values = self.prompts.layers[layer]
        before = self._by_prompt(asked) @ keys.transpose(2, 3) + self.prompt_mask
        own = asked @ key.transpose(2, 3) + self.own_mask.repeat(1, 1, groups, 1)

        top = torch.maximum(
            self._by_answer(before.amax(dim=-1, keepdim=True)), own.amax(dim=-1, keepdim=True)
        )
        before = before.sub_(self._by_prompt(top)).exp_()
        own = own.sub_(top).exp_()
        total = self._by_answer(before.sum(dim=-1, keepdim=True)) + own.sum(dim=-1, keepdim=True)
        mixed = (self._by_answer(before @ values) + own @ value) / total
        joined: torch.Tensor = mixed.reshape(answers, heads, tokens, -1).transpose(1, 2)
        return joined.contiguous()

    def _by_prompt(self, rows: torch.Tensor) -> torch.Tensor:
        """Group the rows of answers by prompt."""
        slots = self.prompts.slots
        picked = rows.index_select(0, slots.reshape(-1)).view(*slots.shape, *rows.shape[1:])
        return picked.transpose(1, 2).flatten(2, 3)

    def _by_answer(self, lines: torch.Tensor) -> torch.Tensor:
        """Undo the grouping."""
        prompts, heads, queries, width = lines.shape
        most = self.prompts.slots.shape[1]
        parted = lines.reshape(prompts, heads, most, queries // most, width).transpose(1, 2)
        return parted.flatten(0, 1).index_select(0, self.prompts.back)


def _closed(seen: torch.Tensor) -> torch.Tensor:
    return torch.zeros(seen.shape, device=seen.device).masked_fill_(~seen, float("-inf"))


def attend_shared(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    step: Step,
    scaling: float | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Compute the library's attention; keys and values are the answers' own."""
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    return step.attention(module.layer_idx, query, key, value, scale), None


AttentionInterface.register(SHARED, attend_shared)
