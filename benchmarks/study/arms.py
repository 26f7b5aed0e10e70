"""The arms of the study: the recipe of the example, and what each arm changes in it."""

from dataclasses import dataclass
from pathlib import Path

from skillwright.config import RlConfig, load_rl_config

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "rl" / "alfworld.yaml"

FAMILY = "heat"
"""The family whose habits the incomplete bank begins without, in the homes of val and test."""

FIRST_STREAM = 601
"""Homes and games of a seed are those of stream 601 + seed; nothing was chosen on these. The tests
of streams 201 to 205, 401 and 402 were opened before, with other networks (docs/log.md)."""

HABITS_STREAM = 301
"""The same for arms that begin with a bank of habits. The test of stream 201 was opened for two of
them once, with a shorter cold start; what was changed then was chosen on val of other streams."""


@dataclass(frozen=True)
class Arm:
    """One way to run the recipe."""

    name: str  # its name on the command line and in files
    says: str  # what it is, for tables
    changes: tuple[str, ...] = ()  # Settings, laid over those of the example
    lacks: str = ""  # the family that its bank of habits tells nothing of the new homes, or ""


# The teacher's own facts of a home hold for every family, so nothing of one could be left out: this
# bank tells each family its habits apart. The gap is in homes that weights do not practise in.
# Where they do, no expert wins without habits, so that no demonstration shows what the family's
# tasks ask for, and no group has a win to learn from: such a policy loses them whatever it is told,
# and no gate can see what a habit is worth. Many val games, as a part of one family has to show.
APART = (
    "distil=null",
    "cold_start.tasks=630",
    "cold_start.steps=100",
    "grpo.iterations=40",
    "env.data.homes=16",
    "env.data.train=720",
    "env.data.new_homes=8",
    "env.data.survey=1920",
    "env.data.val=300",
)
# Of every eighth game, four in five are in the new homes. What wins in the others hides a gap that
# is half mended, so the trigger lies above it.
OFTEN = (
    "evolve.every=10",
    "evolve.nth=8",
    "evolve.max_failures=40",
    "evolve.trigger_accuracy=0.6",
)
NO_EVOLUTION = ("evolve=null",)

ARMS = {
    arm.name: arm
    for arm in (
        Arm("main", "the whole recipe"),
        Arm("never_told", "no skills, from the start", ("bank.told=nothing", *NO_EVOLUTION)),
        Arm("trajectories", "raw trajectories instead", ("bank.told=trajectories", *NO_EVOLUTION)),
        Arm("no_sft", "no cold start", ("cold_start=null",)),
        Arm("flat", "no hierarchy", ("bank.hierarchy=false",)),
        Arm("complete", "bank of habits, complete", APART + OFTEN),
        Arm("recovery", f"bank without {FAMILY}, evolving", APART + OFTEN, FAMILY),
        Arm("no_evolution", f"bank without {FAMILY}, no evolution", APART + NO_EVOLUTION, FAMILY),
    )
}

# Ten validations or so make a curve; one thread each lets a seed end with the same numbers.
ALWAYS = ("evaluation.val_every=10", "policy.threads=1")

SHORT = (
    "env.data.seed=1",
    "env.data.train=96",
    "env.data.val=12",
    "env.data.homes=2",
    "env.data.new_homes=8",
    "env.data.survey=96",
    "cold_start.tasks=60",
    "cold_start.steps=30",
    "grpo.iterations=4",
    "grpo.tasks_per_iteration=3",
    "grpo.group_size=3",
    "grpo.checkpoint_every=1",
    "evolve.every=2",
    "evolve.nth=4",
    "evaluation.val_every=2",
    "evaluation.gate.kind=strict",
)
"""Small numbers: every stage is passed through, and no score means anything. The stream is one that
settings were chosen on, so that nothing is opened that the study is judged by."""


def run_name(arm: str, seed: int) -> str:
    """Return the name of a run's folder and, with ``.json``, of its result."""
    return f"{arm}-s{seed}"


def habits_path(root: Path, seed: int, lacks: str = "") -> Path:
    """Return where the bank is kept that tells each family but one its habits apart."""
    gap = f"-without-{lacks}" if lacks else ""
    return root / f"habits{gap}-s{seed}.sqlite"


def settings_of(
    arm: Arm, seed: int, games: int, root: Path, overrides: tuple[str, ...] = ()
) -> RlConfig:
    """Return the configuration of a run.

    Args:
        arm: What it changes.
        seed: From 0; gives weights and luck, and homes and games of its own, which arms with as
            many homes share.
        games: Test games.
        root: The folder of all runs.
        overrides: Laid over all of it, except where the arm leaves a stage out.
    """
    # A stage that the arm leaves out has no settings, and naming one would bring it back.
    absent = tuple(c.partition("=")[0] for c in arm.changes if c.endswith("=null"))
    kept = [one for one in overrides if not one.startswith(tuple(f"{name}." for name in absent))]
    has_habits = "distil=null" in arm.changes
    first = HABITS_STREAM if has_habits else FIRST_STREAM
    fixed = [
        f"run.name={run_name(arm.name, seed)}",
        f"run.root={root}",
        f"run.seed={seed}",
        f"env.data.seed={first + seed}",
        f"env.data.test={games}",
    ]
    if has_habits:
        fixed.append(f"bank.start={habits_path(root, seed, arm.lacks)}")
    return load_rl_config(EXAMPLE, [*ALWAYS, *fixed, *arm.changes, *kept])
