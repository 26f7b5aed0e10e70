"""What a model thinks of tokens that are given: the forward pass of training."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import torch
from transformers import DynamicCache

from skillwright.policy.backend import Row

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
    normalised over those few.

    Returns:
        ``[rows, tokens]`` each, 0 where a token was not chosen; entropies in nats, or ``None``.
    """
    longest = max(len(row.token_ids) for row in rows)
    begins, told = _shared_prompts(model, rows, device) if share else ([0] * len(rows), {})
    size = max(_size(row) - begin for row, begin in zip(rows, begins, strict=True))
    ids = torch.zeros(len(rows), size, dtype=torch.long)
    places: list[tuple[int, int]] = []
    for index, (row, begin) in enumerate(zip(rows, begins, strict=True)):
        rest = (*row.context.prompt_ids[begin:], *row.token_ids)
        ids[index, : len(rest)] = torch.tensor(rest)
        places += [(index, at) for at, chosen in enumerate(row.loss_mask) if chosen]
    if told:
        told |= _places_behind(told["attention_mask"], begins, size)
    # The logits behind a token are about the next one.
    before = [len(rows[i].context.prompt_ids) - begins[i] + at - 1 for i, at in places]
    columns = sorted(set(before))
    where = {column: number for number, column in enumerate(columns)}
    keep = torch.tensor(columns, dtype=torch.long, device=device)
    told.setdefault("use_cache", False)
    logits = model(input_ids=ids.to(device), logits_to_keep=keep, **told).logits
    row_index = torch.tensor([index for index, _ in places], device=device)
    column_index = torch.tensor([where[column] for column in before], device=device)
    chosen = [rows[index].token_ids[at] for index, at in places]
    scaled = _scaled(logits[row_index, column_index], rows, row_index)
    choices = [rows[index].context.allowed[at] for index, at in places]
    values, spread = _normalised(scaled, choices, chosen, entropy=entropy)
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
    told = {"past_key_values": cache, "attention_mask": read.to(device), "use_cache": True}
    return begins, told


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
    told = [row.temperature for row in rows]
    exact = logits if logits.dtype == torch.float64 else logits.float()
    if all(temperature == 1.0 for temperature in told):
        return exact
    temperatures = torch.tensor(told, dtype=exact.dtype, device=exact.device)
    return exact / temperatures[row_index, None]


def _normalised(
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
