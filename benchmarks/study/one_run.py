"""Plays one ablation with one seed to its end, or resumes it, and writes its result down."""

import asyncio
import fcntl
import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from measuring.books import note_opening
from skillwright.bank import Bank, BankStore, GrowthCaps
from skillwright.config import RlConfig, load_rl_config
from skillwright.core import BankSkill, ConfigError, EpisodeResult, SkillKind
from skillwright.core.jsonio import digest, write_text
from skillwright.envs.about import SURVEY
from skillwright.jobs.run import StageStarted, find_tasks
from skillwright.jobs.weights import (
    RlReport,
    RlRun,
    RlState,
    Validated,
    is_rl_run,
    open_rl,
    run_rl,
    start_rl,
)
from skillwright.jobs.weights.bank import base_episodes, make_first_bank
from skillwright.jobs.weights.wiring import rl_parts
from skillwright.runs import provenance
from skillwright.worlds.alfworld import household
from skillwright.worlds.alfworld.households import habit_skills
from study.ablations import (
    ABLATIONS,
    EXAMPLE,
    GROWTH,
    MAIN,
    READING,
    Ablation,
    differing,
    run_name,
    settings_of,
)
from study.exam import Silent, examine, lengths
from study.growth import grow
from study.memory import Memory, remember, run_with_memories

_ONCE = (
    "Search the receptacles one after another, and do not go back to one that you have already "
    "searched."
)
_LOOK = "When you arrive at a closed receptacle, open it and look inside."

# What the teacher would add first to a bank without it: the only gap is to be that of a task type.
GENERAL = (
    ("Search each place once", _ONCE, "while an object is still to be found"),
    ("Open what is closed", _LOOK, "when a place that you search is closed"),
    (
        "Take it on sight",
        "Take the wanted object as soon as you see it.",
        "when you see the object that the goal names",
    ),
    (
        "Open the destination",
        "Open the destination before you put the object in.",
        "when the place that the goal names is closed",
    ),
)


class CpuCallback:
    """Adds up the CPU seconds of each stage, over all sessions, and prints a line per validation.

    Args:
        label: Begins each line.
        path: Where the seconds are kept, as a session may be killed.
    """

    def __init__(self, label: str, path: Path) -> None:
        self._label, self._path = label, path
        self.seconds = Counter(json.loads(path.read_text()) if path.exists() else {})
        self._stage, self._since = "start", time.process_time()

    def on_event(self, event: object) -> None:
        """Take note of one event."""
        if isinstance(event, StageStarted):
            self._turn_to(event.stage)
        elif isinstance(event, Validated):
            self.keep()
            success, spent = event.score.success_rate or 0.0, sum(self.seconds.values())
            line = f"{self._label}: iteration {event.iteration}, val {success:.2f}"
            print(f"{line}, {spent:.0f} CPU-s", flush=True)

    def keep(self) -> None:
        """Write down what was spent until now."""
        self._turn_to(self._stage)

    def _turn_to(self, stage: str) -> None:
        now = time.process_time()
        self.seconds[self._stage] += now - self._since
        self._stage, self._since = stage, now
        write_text(self._path, json.dumps(self.seconds))


def write_habits(config: RlConfig, lacks: str = "") -> None:
    """Write the bank that an ablation begins with, if any: habits by home and task type.

    Args:
        config: The run's; its data says which homes.
        lacks: The task type without habits of the new homes, or "".

    Raises:
        ConfigError: There is one of other homes.
    """
    path, data = Path(config.bank.start), config.env.data
    if data.kind != "households":
        return
    # Six games of each home are enough to hear of all homes.
    few = {"train": 6 * data.homes, "survey": 6 * data.new_homes, "val": 1, "test": 1}
    train, _, _ = find_tasks(config.env.model_copy(update={"data": data.model_copy(update=few)}))
    homes = {task.extras["generated"]["household"]: task.split == SURVEY for task in train}
    skills = [
        skill
        for home, is_new in sorted(homes.items())
        for skill in habit_skills(household(home))
        if not is_new or skill.category != lacks
    ]
    skills += [
        BankSkill(f"g{number:03}", name, principle, when, SkillKind.GENERAL)
        for number, (name, principle, when) in enumerate(GENERAL, start=1)
    ]
    bank = Bank(1, tuple(skills))
    if path.exists():
        with BankStore.open(path, read_only=True) as known:
            if known.load().digest != bank.digest:
                raise ConfigError(
                    f"{path} has the habits of other homes. Name another folder with --root, or "
                    "move it away"
                )
        return
    # Runs of a seed may go side by side: each writes a file of its own and puts it there whole.
    draft = path.with_name(f"{config.run.name}.{path.name}")
    draft.unlink(missing_ok=True)
    with BankStore.open(draft) as store:
        store.adopt(bank, reason="the habits of the homes, by task type", step=0)
    draft.replace(path)


def write_distilled(config: RlConfig) -> None:
    """Write the bank that the ablations of a seed begin with, unless it is there.

    Base episodes are played and distilled as the example says, in a run that ends there.

    Args:
        config: Of a run that begins with that bank.
    """
    path, folder = Path(config.bank.start), _distilling(config)
    if path.exists():
        if load_rl_config(folder / "config.yaml").env != config.env:
            raise ConfigError(
                f"{path} is of other homes or games. Name another folder with --root, or move it "
                f"and {folder} away"
            )
        return
    sections = {
        "run": config.run.model_copy(update={"name": folder.name}),
        "bank": config.bank.model_copy(update={"start": "empty", "inject": "skills"}),
        "distill": load_rl_config(EXAMPLE).distill,
    }
    own = config.model_copy(update=sections)
    with open_rl(folder) if folder.exists() else start_rl(own) as opened:
        bank = asyncio.run(_distilled(opened))
    draft = path.with_suffix(".draft")
    draft.unlink(missing_ok=True)
    with BankStore.open(draft) as store:
        store.adopt(bank, reason="distilled once for the ablations of a seed", step=0)
    draft.replace(path)


def _distilling(config: RlConfig) -> Path:
    """Return the folder of the run that distilled the bank that a run begins with."""
    path = Path(config.bank.start)
    return path.with_name(f"{path.stem}-run")


def read_memories(config: RlConfig) -> tuple[list[Memory], dict[str, int]]:
    """Return the memories of the episodes that a run's bank was distilled from.

    They are written next to these episodes, in the folder of the run that played them. Also returns
    how many statements were added, updated and unchanged.
    """
    path = _distilling(config) / "memories.json"
    if not path.exists():
        with open_rl(path.parent) as opened:
            known, counts = remember(asyncio.run(_base(opened)))
        kept = {"counts": counts, "memories": [one.to_dict() for one in known]}
        write_text(path, json.dumps(kept, indent=1))
    found = json.loads(path.read_text(encoding="utf-8"))
    return [Memory.from_dict(one) for one in found["memories"]], found["counts"]


async def _base(opened: RlRun) -> list[EpisodeResult]:
    async with rl_parts(opened.config, opened.store, Silent()) as run:
        return await base_episodes(run)


async def _distilled(opened: RlRun) -> Bank:
    async with rl_parts(opened.config, opened.store, Silent()) as run:
        await make_first_bank(run, opened.state)
        return run.bank_store.load()


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Let one process after the other do something."""
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def settings_kept(config: RlConfig) -> dict[str, Any]:
    """Return everything that a result may depend on; where anything is kept is not."""
    values = config.model_dump(mode="json")
    start = Path(config.bank.start).name
    bank = {**values["bank"], "start": start}
    if start.startswith("distilled"):  # by the run before, as the example says
        values |= {"distill": load_rl_config(EXAMPLE).model_dump(mode="json")["distill"]}
    recipe = config.recipe  # what `grpo` leaves unset, it sets
    grpo = {**values["grpo"], "kl_weight": recipe.kl_weight, "clip_high": recipe.clip_high}
    return {**values, "run": {"seed": config.run.seed}, "bank": bank, "grpo": grpo}


def settings_digest(config: RlConfig) -> str:
    """Return the digest of `settings_kept`."""
    return digest(settings_kept(config))


def made_by() -> dict[str, Any]:
    """Return what a result was made by, without the folders of the machine that made it."""
    return {name: value for name, value in provenance().items() if name != "command"}


def result_of(path: Path, config: RlConfig) -> dict[str, Any] | None:
    """Return a result that was written down, or ``None``.

    Raises:
        ConfigError: It was measured with other settings.
    """
    if not path.exists():
        return None
    result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    kept = result.get("config")  # the digest also knows of keys that came after the result
    same = settings_digest(config) == result["settings"] or (
        kept is not None and not list(differing(kept, settings_kept(config)))
    )
    if not same:
        raise ConfigError(
            f"{path} was measured with other settings than those of now. Name another folder with "
            "--root, or move the old results away"
        )
    return result


def play(
    ablation: str, seed: int, games: int, folders: tuple[Path, Path], overrides: tuple[str, ...]
) -> dict[str, Any]:
    """Return the result of an ablation and a seed; what is finished is not run again.

    Args:
        ablation: Its name.
        seed: From 0.
        games: Test games.
        folders: Where runs are kept, and where results are.
        overrides: Laid over the settings.

    Raises:
        ConfigError: Its folder, or its result, was made with other settings.
        SkillwrightError: As `skillwright.jobs.weights.run_rl`; call again to resume.
    """
    torch.set_num_threads(1)
    root, results = folders
    name, one = run_name(ablation, seed), ABLATIONS[ablation]
    main = one if ablation != GROWTH else ABLATIONS[MAIN]
    config = settings_of(main, seed, games, root, overrides)
    path, folder = results / f"{name}.json", root / run_name(main.name, seed)
    if (known := result_of(path, config)) is not None:
        return known
    root.mkdir(parents=True, exist_ok=True)
    results.mkdir(parents=True, exist_ok=True)
    callback = CpuCallback(name, root / f"{name}.cpu")
    try:
        if ablation == GROWTH:
            if not is_finished(folder):
                _refuse_other_weights(results / f"{run_name(main.name, seed)}.json", folder)
                _run(main, config, folder, callback)
                note_opening(results, run_name(main.name, seed), made_by())  # it ends with its test
            callback.on_event(StageStarted(GROWTH))
            found = {"growth": asyncio.run(grow(folder))}
        else:
            report = _run(one, config, folder, callback)
            callback.on_event(StageStarted("exam"))
            memories, counts = read_memories(config) if one.remembers else (None, {})
            exam = asyncio.run(examine(folder, _seen(one), memories))
            found = {**_facts(report, folder, config), "exam": exam}
            if memories is not None:
                tokens = asyncio.run(lengths(folder, memories))
                found |= {"memories": counts, "tokens": tokens}
    finally:
        callback.keep()
    facts = {"arm": ablation, "seed": seed, "games": games, "settings": settings_digest(config)}
    made = {"made_by": made_by(), "cpu_s": dict(callback.seconds)}
    result = {**facts, **found, **made, "config": settings_kept(config)}
    note_opening(results, name, made["made_by"])
    write_text(path, json.dumps(result, indent=1))
    return result


def _run(ablation: Ablation, config: RlConfig, folder: Path, callback: CpuCallback) -> RlReport:
    memories: list[Memory] = []
    if not ablation.distills:
        with _alone(Path(f"{config.bank.start}.lock")):
            if ablation.has_habits:
                write_habits(config, ablation.lacks)
            else:
                write_distilled(config)
            if ablation.remembers:
                memories, _ = read_memories(config)
    with open_rl(folder) if folder.exists() else start_rl(config) as run:
        if settings_digest(run.config) != settings_digest(config):
            raise ConfigError(
                f"{folder} was begun with other settings than those of now. Name another folder "
                "with --root, or move it away"
            )
        if ablation.remembers:
            return asyncio.run(run_with_memories(run, callback, memories))
        return asyncio.run(run_rl(run, callback))


def _seen(ablation: Ablation) -> tuple[str, ...]:
    """Return the artifacts that are played elsewhere too: of rows about what the policy reads."""
    if ablation.name == MAIN:
        return ("cold_start", "final")
    return ("final",) if READING in ablation.tables else ()


def is_finished(folder: Path) -> bool:
    """Return whether a run has come to its end."""
    return is_rl_run(folder) and open_rl_state(folder).finished


def _refuse_other_weights(result: Path, folder: Path) -> None:
    """Refuse to train again for growth where the weights of a kept result are gone."""
    if result.exists():
        raise ConfigError(
            f"{folder} is no finished run, and {result} is the result of one, whose weights the "
            "bank is to grow under. Move the result away to measure both again"
        )


def open_rl_state(folder: Path) -> RlState:
    """Return where a run stands."""
    with open_rl(folder) as run:
        return run.state


def _facts(report: RlReport, folder: Path, config: RlConfig) -> dict[str, Any]:
    whole = report.to_dict()
    first = report.state.first_version
    with BankStore.open(folder / "bank" / "bank.sqlite", read_only=True) as store:
        active = store.load(first).active
    caps = GrowthCaps(config.evolve.per_checkpoint) if config.evolve else None
    covered = whole["cold_start"].get("coverage", {})
    wins, rows = (covered.get(name, 0) for name in ("wins", "rows"))
    return {
        "selected_iteration": report.iteration,
        "bank_version": report.state.version_after(report.iteration),
        "iterations": config.grpo.iterations,
        "caps": {"update": caps.per_checkpoint, "category": caps.per_category} if caps else None,
        "extra": caps.weakest_extra if caps else 0,
        "first_growth": dict(Counter(skill.category for skill in active)),
        "training": [
            {name: one[name] for name in ("iteration", "success", "zero_variance", "kl")}
            for one in whole["iterations"]
        ],
        "validations": whole["validations"],
        "evolutions": [
            {name: value for name, value in one.items() if name != "earlier"}
            for one in whole["evolutions"]
        ],
        "demonstrations": {"wins": wins, "rows": rows},
        "test": whole["test"],
    }
