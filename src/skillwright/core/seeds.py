"""Derive seeds from names, so that equal names always give equal seeds."""

import hashlib

SEED_BITS = 31


def derive_seed(*parts: str | int) -> int:
    """Derive a seed in ``[0, 2**31)`` from an ordered tuple of names.

    Equal parts give equal seeds in every process and on every platform; a changed part gives an
    unrelated one. Strings and numbers do not collide (``derive_seed(1) != derive_seed("1")``).
    """
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> (64 - SEED_BITS)


def evaluation_seed(seed: int, task_id: str, draw: int) -> int:
    """Derive the seed of one evaluation draw.

    Incumbent and candidate get the same seeds, so that their draws are paired, and stored draws
    can be reused.
    """
    return derive_seed("evaluation", seed, task_id, draw)


def training_seed(seed: int, epoch: int, step: int, task_id: str, draw: int = 0) -> int:
    """Derive the seed of one training rollout, which differs by epoch and step."""
    return derive_seed("training", seed, epoch, step, task_id, draw)
