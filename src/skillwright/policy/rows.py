"""Rows of token generators: one per turn, or one per episode with the world's words masked."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from skillwright.policy.backend import Row

Choices = tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class TokenContext:
    """What the tokens of a row came after.

    Attributes:
        prompt_ids: The prompt, as the model read it.
        allowed: Per token of the row: the ids that it was drawn from, where generation was held to
            admissible actions; ``None`` for the whole vocabulary.
    """

    prompt_ids: tuple[int, ...]
    allowed: tuple[Choices, ...]


def joined(rows: Sequence[Row]) -> list[Row]:
    """Make as few rows of an episode's turns as its prompts allow.

    A turn whose prompt goes on where the last one ended (same tokens, then the environment's)
    becomes part of the same row; the environment's tokens are masked and have no advantage. A
    prompt that was rebuilt (a history of the last turns, a template that drops old reasoning)
    starts a new row: the tokens that it was sampled after are the ones that it is trained after.
    """
    whole: list[Row] = []
    for row in rows:
        if whole and (between := _between(whole[-1], row)) is not None:
            whole[-1] = _append(whole[-1], row, between)
        else:
            whole.append(row)
    return whole


def by_episode(rows: Iterable[Row]) -> list[Row]:
    """Join the turns of every episode; rows of one episode stand together."""
    return [
        row
        for _, turns in groupby(rows, key=lambda row: (row.group, row.episode))
        for row in joined(list(turns))
    ]


def _between(so_far: Row, row: Row) -> tuple[int, ...] | None:
    """Return the environment's tokens between two turns, or ``None`` where they do not join."""
    # A turn that was left out in between stays in the prompt, and so under the mask.
    alike = (so_far.temperature, so_far.weight, so_far.encoding)
    if (row.temperature, row.weight, row.encoding) != alike:
        return None
    past = (*so_far.context.prompt_ids, *so_far.token_ids)
    prompt: tuple[int, ...] = row.context.prompt_ids
    if prompt[: len(past)] != past:
        return None
    return prompt[len(past) :]


def _append(so_far: Row, row: Row, between: tuple[int, ...]) -> Row:
    gap = len(between)
    return replace(
        so_far,
        context=TokenContext(
            so_far.context.prompt_ids,
            (*so_far.context.allowed, *(None,) * gap, *row.context.allowed),
        ),
        token_ids=(*so_far.token_ids, *between, *row.token_ids),
        old_logprobs=(*so_far.old_logprobs, *(0.0,) * gap, *row.old_logprobs),
        loss_mask=(*so_far.loss_mask, *(False,) * gap, *row.loss_mask),
        advantage=(*so_far.advantages(), *(0.0,) * gap, *row.advantages()),
    )
