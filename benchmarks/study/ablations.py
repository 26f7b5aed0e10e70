"""The ablations of the study: the recipe of the example, and what each changes in it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skillwright.config import RlConfig, load_rl_config
from skillwright.core import ConfigError

BENCHMARKS = Path(__file__).resolve().parents[1]
EXAMPLE = BENCHMARKS.parent / "examples" / "rl" / "alfworld.yaml"

TASK_TYPE = "heat"
"""The task type whose habits the incomplete bank begins without, in the homes of val and test."""

FIRST_SEED = 701
"""Homes and games of a seed are made with 701 + seed; nothing was chosen on these, and nothing of
them was opened before. Settings were chosen on val of seed 6 (docs/log.md)."""

HABITS_SEED = 901
"""The same for ablations that begin with a bank of habits."""

DEMONSTRATIONS, READING, GAP, GROWTH = "demonstrations", "reading", "gap", "growth"


@dataclass(frozen=True)
class Ablation:
    """One way to run the recipe."""

    name: str  # its name on the command line and in files
    says: str  # what it is, for tables
    tables: tuple[str, ...]  # the tables of the page that have a row of it
    changes: tuple[str, ...] = ()  # Settings, laid over those of its tables
    lacks: str = ""  # the task type without habits of the new homes in its bank, or ""
    distills: bool = False  # it needs base episodes, so it makes the same bank itself
    remembers: bool = False  # the policy reads memories of the base episodes (`study.memory`)

    @property
    def has_habits(self) -> bool:
        """Whether it begins with a bank of habits."""
        return GAP in self.tables

    @property
    def changed(self) -> tuple[str, ...]:
        """The keys, and sections, that it changes."""
        return tuple(one.partition("=")[0] for one in self.changes)


# Val and test lie in homes that no weights were trained on; the bank learns of them from games of
# the survey. Beside them a run is measured in other games of the homes of training. The bank of a
# seed is distilled once for all.
RECIPE = (
    "evolve=null",
    "env.data.homes=48",
    "env.data.train=3072",
    "env.data.new_homes=8",
    "env.data.survey=512",
    "bank.k_task=10",
    "cold_start.tasks=null",
    "cold_start.steps=300",
    "cold_start.expert_reads=skills",
    "grpo.iterations=30",
    "evaluation.val_every=10",
    # SkillRL's for validation; the exam plays at temperature 1 as well.
    "evaluation.temperature=0.4",
    # Nothing is judged without evolution, and a release test would play val again and again.
    "evaluation.gate.kind=strict",
)

# The teacher's own facts of a home hold for every task type, so nothing of one could be left out:
# this bank has habits for each task type. The gap is in homes that weights are not trained on.
# Where they are, no expert succeeds without habits, so no demonstration shows what the task type
# asks for, and no group has a success to learn from: such a policy fails whatever is injected, and
# no gate can see what a habit is worth. Many val games, as a part of one task type has to show.
# Of every eighth game, four in five are in the new homes. Successes in the others hide a gap that
# is half mended, so the trigger lies above it; an update adds four facts of heat at most.
WITH_HABITS = (
    "distill=null",
    "env.data.homes=16",
    "env.data.train=720",
    "env.data.new_homes=8",
    "env.data.survey=1920",
    "env.data.val=300",
    "bank.k_task=10",
    "cold_start.tasks=630",
    "cold_start.steps=150",
    "grpo.iterations=30",
    "evaluation.temperature=0.4",
    "evolve.every=5",
    "evolve.nth=8",
    "evolve.max_failures=200",  # each of them: a fact is learned only from two
    "evolve.trigger_accuracy=0.8",
    "evaluation.val_every=10",
    # Fewer draws than the default: a step is judged by 300 games already.
    "evaluation.gate.draws=2",
    "evaluation.gate.release_draws=2",
)

MATCHED_STEPS = 600
"""Supervised steps that take the CPU time of the recipe's 30 iterations, about: the page shows the
seconds of both."""


def _scale(name: str, tasks: int | None, steps: int) -> tuple[Ablation, Ablation]:
    """Return SFT and GRPO, and SFT alone in the same CPU time, on so many demonstrations."""
    count = "all" if tasks is None else str(tasks)
    given = () if tasks is None else (f"cold_start.tasks={tasks}",)
    tables = (DEMONSTRATIONS, READING) if tasks is None else (DEMONSTRATIONS,)
    first = () if tasks is None else (f"cold_start.steps={steps}",)
    longer = f"cold_start.steps={steps + MATCHED_STEPS}"
    return (
        Ablation(name, f"SFT and GRPO, {count} episodes of the expert", tables, (*given, *first)),
        Ablation(
            f"sft_{name}",
            f"SFT alone in the same time, {count} episodes of the expert",
            (DEMONSTRATIONS,),
            (*given, longer, "grpo.iterations=0"),
        ),
    )


MAIN = "all"
SCALE = ("n100", "n300", "n900", MAIN)
"""The scale of demonstrations; ``sft_`` before a name is SFT alone."""

_BY_SCALE = tuple(
    one
    for name, tasks, steps in (
        (MAIN, None, 300),
        ("n900", 900, 200),
        ("n300", 300, 120),
        ("n100", 100, 60),
    )
    for one in _scale(name, tasks, steps)
)

ABLATIONS = {
    one.name: one
    for one in (
        *_BY_SCALE,
        Ablation(
            "no_sft",
            "GRPO alone, no demonstration",
            (DEMONSTRATIONS,),
            ("cold_start=null",),
            distills=True,
        ),
        Ablation("reads_nothing", "nothing", (READING,), ("bank.inject=none",)),
        Ablation("reads_principles", "principles alone", (READING,), ("bank.inject=principles",)),
        Ablation("reads_facts", "facts of the home alone", (READING,), ("bank.inject=facts",)),
        Ablation(
            "reads_unlayered", "skills without hierarchy", (READING,), ("bank.hierarchy=false",)
        ),
        Ablation(
            "reads_trajectories",
            "raw trajectories",
            (READING,),
            ("bank.inject=trajectories",),
            distills=True,
        ),
        Ablation(
            "reads_memories", "memories like Mem0's, equally long", (READING,), remembers=True
        ),
        Ablation("gap_complete", "bank of habits, complete", (GAP,)),
        Ablation("gap_evolving", f"bank without {TASK_TYPE}, evolving", (GAP,), (), TASK_TYPE),
        Ablation(
            "gap_fixed",
            f"bank without {TASK_TYPE}, no evolution",
            (GAP,),
            ("evolve=null",),
            TASK_TYPE,
        ),
        Ablation(GROWTH, "a bank that grows, weights fixed", (GROWTH,)),
    )
}

SHORT = (
    "env.data.seed=1",
    "env.data.train=96",
    "env.data.val=12",
    "env.data.homes=2",
    "env.data.new_homes=8",
    "env.data.survey=240",
    "cold_start.tasks=60",
    "cold_start.steps=30",
    "grpo.iterations=4",
    "grpo.tasks_per_iteration=3",
    "grpo.group_size=3",
    "grpo.checkpoint_every=1",
    "evolve.every=2",
    "evolve.nth=4",
    "evaluation.val_every=2",
)
"""Small numbers: every stage is passed through, and no score means anything. The seed is one that
settings were chosen on, so that nothing is opened that the study is judged by."""


def run_name(ablation: str, seed: int) -> str:
    """Return the name of a run's folder and, with ``.json``, of its result."""
    return f"{ablation}-s{seed}"


def habits_path(root: Path, seed: int, lacks: str = "") -> Path:
    """Return where the bank is kept with the habits of every task type but one."""
    gap = f"-without-{lacks}" if lacks else ""
    return root / f"habits{gap}-s{seed}.sqlite"


def distilled_path(root: Path, seed: int) -> Path:
    """Return where the bank of a seed is kept that the teacher distilled."""
    return root / f"distilled-s{seed}.sqlite"


def settings_of(
    ablation: Ablation, seed: int, games: int, root: Path, overrides: tuple[str, ...] = ()
) -> RlConfig:
    """Return the configuration of a run.

    Args:
        ablation: What it changes.
        seed: From 0; seeds weights and sampling, and gives homes and games of its own, which
            ablations with as many homes share.
        games: Test games.
        root: The folder of all runs.
        overrides: Laid over all of it, except where the ablation leaves a stage out.
    """
    base = WITH_HABITS if ablation.has_habits else RECIPE
    # A stage that is left out has no settings, and naming one would bring it back.
    left_out = [one for one in (*base, *ablation.changes) if one.endswith("=null")]
    absent = tuple(one.partition("=")[0] for one in left_out if "." not in one)
    zero = ablation.changes if "grpo.iterations=0" in ablation.changes else ()
    given = (*base, *ablation.changes, *overrides, *[one for one in zero if "iterations" in one])
    kept = [one for one in given if not one.startswith(tuple(f"{name}." for name in absent))]
    first = HABITS_SEED if ablation.has_habits else FIRST_SEED
    fixed = [
        f"run.name={run_name(ablation.name, seed)}",
        f"run.root={root}",
        f"run.seed={seed}",
        f"env.data.seed={first + seed}",
        f"env.data.test={games}",
    ]
    if ablation.has_habits:
        fixed.append(f"bank.start={habits_path(root, seed, ablation.lacks)}")
    elif not ablation.distills:
        fixed += [f"bank.start={distilled_path(root, seed)}", "distill=null"]
    return load_rl_config(EXAMPLE, [*fixed, *kept])


# Rows of one table may differ in what they are about, and in nothing else.


_OWN = frozenset({"run.name", "run.root", "run.seed", "env.data.seed", "bank.start"})


def refuse_mixed_settings(results: Sequence[Mapping[str, Any]]) -> None:
    """Check that what one table compares was run with the same settings.

    Raises:
        ConfigError: Two results of a table differ in a key that neither is about.
    """
    for table in (DEMONSTRATIONS, READING, GAP):
        rows = [one for one in results if table in ABLATIONS[one["arm"]].tables]
        for one in rows[1:]:
            _refuse_difference(table, rows[0], one)


def _refuse_difference(table: str, first: Mapping[str, Any], other: Mapping[str, Any]) -> None:
    about = (*ABLATIONS[first["arm"]].changed, *ABLATIONS[other["arm"]].changed)
    for key, mine, theirs in differing(first["config"], other["config"]):
        is_about = any(key == one or key.startswith(f"{one}.") for one in about)
        if key not in _OWN and not is_about:
            names = " and ".join(run_name(one["arm"], one["seed"]) for one in (first, other))
            raise ConfigError(
                f"{names} are rows of the table {table!r}, and their {key} is {mine!r} "
                f"and {theirs!r}. Move the older result away, and run it again"
            )


def differing(
    mine: Mapping[str, Any], theirs: Mapping[str, Any], start: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    """Yield the keys, with both values, in which two configurations differ.

    A key that only one of them has came into the schema after the other was written, and its
    default is what held before; a section that is left out is ``None``.
    """
    for name in sorted({*mine} & {*theirs}):
        one, other = mine[name], theirs[name]
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            yield from differing(one, other, f"{start}{name}.")
        elif one != other:
            yield f"{start}{name}", one, other
