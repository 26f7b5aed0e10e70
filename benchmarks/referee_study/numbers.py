"""The worlds by name, and worlds of the same kinds with other numbers.

`rules` has the numbers of the page; those of `rules:3` are drawn with the seed 3.
"""

from collections.abc import Callable
from random import Random
from typing import Any

from referee_study.episodes import SEALED, Clerk, Household
from referee_study.worlds import Proposals, Rates, Rules, World
from skillwright.core.seeds import derive_seed

KINDS: dict[str, Callable[..., World]] = {"rules": Rules, "rows": Clerk, "household": Household}
TRAIN = 40


def world_of(name: str, seed: int) -> World:
    """Return a world by its name and a training's seed.

    Raises:
        ValueError: There is no such world.
    """
    kind, colon, numbers = name.partition(":")
    if kind not in KINDS or (colon and not numbers.isdigit()):
        raise ValueError(f"{name!r} is none of {', '.join(KINDS)}, or one of them as rules:SEED")
    return KINDS[kind](seed, **(_drawn(kind, int(numbers)) if colon else {}))


def numbers_of(name: str) -> str:
    """Say the numbers of a world in words; "" for those of the page."""
    kind, _, numbers = name.partition(":")
    if not numbers:
        return ""
    drawn = _drawn(kind, int(numbers))
    said = [f"{drawn['sizes'][1]} val tasks"]
    if kind != "rules":
        of_what = {"rows": "answers", "household": "actions"}[kind]
        return ", ".join([f"{drawn['noise']:.0%} of {of_what} random", *said])
    rates, shares = ("/".join(f"{one:.2f}" for one in drawn[key]) for key in ("rates", "proposals"))
    said += [f"{drawn['kinds']} kinds", f"rates {rates}", f"proposals {shares}"]
    if len(drawn["powers"]) > 1:
        said.append("tasks of three difficulties")
    return ", ".join(said)


def _drawn(kind: str, number: int) -> dict[str, Any]:
    rng = Random(derive_seed("numbers", kind, number))
    val = rng.choice((20, 30, 40, 60))
    if kind == "household":
        return {"noise": round(rng.uniform(0.05, 0.3), 2), "sizes": (TRAIN, val, SEALED)}
    if kind == "rows":
        return {"noise": round(rng.uniform(0.1, 0.5), 2), "sizes": (TRAIN, val, SEALED)}
    none = rng.uniform(0.15, 0.45)
    good = none + rng.uniform(0.3, 0.5)
    half, bad = none + rng.uniform(0.3, 0.6) * (good - none), none * rng.uniform(0.2, 0.8)
    shares = [rng.uniform(*ends) for ends in ((0.15, 0.4), (0.1, 0.3), (0.15, 0.4), (0.15, 0.4))]
    return {
        "kinds": rng.randint(4, 12),
        "rates": Rates(good, half, none, bad),
        "proposals": Proposals(*(one / sum(shares) for one in shares)),
        "powers": rng.choice(((1.0,), (0.3, 1.0, 3.0))),
        "sizes": (TRAIN, val, 200),
    }
