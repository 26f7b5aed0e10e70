"""What tests of the display share: consoles as wide as a small terminal, and things to show."""

import io

from rich.console import Console

from fakes import make_episode
from skillwright.cli.words import PlainConsole
from skillwright.evaluation import Decision, Verdict

WIDTH = 80
TASK_TYPE = "pick_clean_then_place_in_recep"
REASON = "Accepted: 9 of 24 tasks went better [and 1 worse]; mean 0.125 -> 0.458."


def verdict(decision=Decision.ACCEPT, reason=REASON):
    return Verdict(
        decision,
        reason,
        effect=0.3,
        interval=(0.1, 0.5),
        p_value=0.01,
        alpha=0.02,
        incumbent_score=0.125,
        candidate_score=0.425,
    )


def episodes(wins, losses, failures=0, family=TASK_TYPE):
    rewards = [1.0] * wins + [0.0] * losses + [None] * failures
    return [make_episode(f"t{n}", r, task_type=family) for n, r in enumerate(rewards)]


def terminal(width=WIDTH, height=25):
    return PlainConsole(
        file=io.StringIO(),
        record=True,
        width=width,
        height=height,
        force_terminal=True,
        legacy_windows=False,
    )


def screen(width):
    """A terminal without colors: what it shows is what is in its file."""
    return PlainConsole(file=io.StringIO(), width=width, force_terminal=True, color_system=None)


def pipe():
    return Console(file=io.StringIO(), width=WIDTH)
