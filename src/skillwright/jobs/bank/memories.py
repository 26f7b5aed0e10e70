"""SkillRL's refined memories (``generated_memories_*.json``), as episodes that a teacher reads."""

from dataclasses import replace
from pathlib import Path

from skillwright.bank import SEED_BANKS, Bank, RefinedMemory, read_memories, seed_bank
from skillwright.bank.classify import classify
from skillwright.core import (
    Act,
    ConfigError,
    DataError,
    EpisodeResult,
    EpisodeSpec,
    Task,
    Trajectory,
    Turn,
)
from skillwright.core.jsonio import digest, read_text
from skillwright.envs import specs
from skillwright.jobs.bank.evidence import StudiedRun

PHASE = "memory"
# What stands for a thing that a memory does not name: "{object}", "[target]", "<tool>".
_BRACKETS = str.maketrans("", "", "{}[]<>")


def study_memories(file: Path, env: str = "") -> StudiedRun:
    """Read refined memories as episodes that a teacher may read: they are of train tasks.

    Args:
        file: A JSON file: one record, or a list of them.
        env: The environment whose categories they have; ``""`` takes the one that each names.

    Raises:
        DataError: It cannot be read, or holds no memory.
        ConfigError: An environment is not known here.
    """
    memories = read_memories(read_text(file, "memories"), str(file))
    if not memories:
        raise DataError(f"{str(file)!r} holds no memory")
    episodes = tuple(
        _episode(replace(one, id=one.id or f"memory-{number}"), env or _known(one, file))
        for number, one in enumerate(memories)
    )
    return StudiedRun(file, episodes, {}, success_threshold=1.0)


def _known(memory: RefinedMemory, file: Path) -> str:
    name = memory.environment.strip().casefold()
    if name in specs():
        return name
    raise ConfigError(
        f"{str(file)!r}: memory {memory.id!r} is of environment {memory.environment!r}, which is "
        "not known here. Say by --env whose categories the memories have; known: "
        f"{', '.join(sorted(specs()))}"
    )


def _episode(memory: RefinedMemory, env: str) -> EpisodeResult:
    about = memory.goal or memory.description
    bank = seed_bank(env) if env in SEED_BANKS else Bank()
    category = classify(about.translate(_BRACKETS), bank, env).category
    task = Task(memory.id, env, task_type=category, description=about, split="train")
    told = (memory.id, env, memory.outcome, *_opening(memory), *map(repr, memory.steps))
    return EpisodeResult(
        EpisodeSpec(task, seed=0, phase=PHASE),
        reward=float(memory.won),
        trajectory=Trajectory("\n".join(_opening(memory)), _turns(memory)),
        key=f"{PHASE}:{digest(list(told))}",
    )


def _opening(memory: RefinedMemory) -> list[str]:
    """Return what is known of an episode beside its steps."""
    lines = [memory.goal and f"Goal: {memory.goal}", memory.description]
    lines.append(memory.plan and f"Plan: {memory.plan}")
    lines += [f"To avoid: {action}, when {trigger}" for trigger, action in memory.mistakes]
    return [line for line in lines if line]


def _turns(memory: RefinedMemory) -> tuple[Turn, ...]:
    said = [
        (f"<think>{one.reasoning}</think><action>{one.action}</action>", one.observation)
        for one in memory.steps
    ] or [("(no step is recorded)", memory.description)]
    return tuple(
        Turn(index, (), Act(text), observation, 0.0)
        for index, (text, observation) in enumerate(said)
    )
