"""Looks into a bank: what it injects for a task, where a skill is from, how the bank grew."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from skillwright.bank import (
    Bank,
    BankStore,
    Compression,
    Finding,
    LogEntry,
    Rendered,
    Retrieved,
    SkillStats,
    category_of,
    compression,
    count_skills,
    import_skills,
    lint,
    render,
    utilities,
)
from skillwright.bank.measure import active_by_category
from skillwright.bank.source import Named, classify
from skillwright.config.bank import BankSection
from skillwright.config.env import EnvSection
from skillwright.core import (
    BankSkill,
    DataError,
    EpisodeResult,
    Message,
    SkillStatus,
    Task,
    did_you_mean,
)
from skillwright.jobs.bank.distill import evidence_of
from skillwright.jobs.run import bank_source, find_tasks, opened_embedder, read_bank


@dataclass(frozen=True, slots=True)
class Answer:
    """The skills that would be injected for a task.

    Attributes:
        retrieved: The skills, with their scores.
        rendered: The text, and the skills that did not fit.
        category_by: How the category was found; see `skillwright.bank.source.Named`.
    """

    task: Task
    retrieved: Retrieved
    rendered: Rendered
    category_by: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        found = self.retrieved
        return {
            "task": self.task.description or self.task.id,
            "category": found.category,
            "category_by": self.category_by,
            "scope": found.scope,
            "delta": found.delta,
            "embedder": found.embedder,
            "bank_version": found.bank_version,
            "skills": [
                {"id": one.skill.id, "kind": str(one.skill.kind), "score": one.score}
                for one in self.rendered.injected
            ],
            "dropped": [one.skill.id for one in self.rendered.dropped],
            "tokens": self.rendered.tokens,
            "text": self.rendered.text,
        }


def search_bank(bank: Bank, task: Task, settings: BankSection) -> Answer:
    """Return the skills that a bank would inject for a task.

    Raises:
        ConfigError: There is no such embedder.
        ModelError: The embedder's endpoint failed.
    """
    named = Named(category_of(task), "rules") if task.env else Named()
    if not named.category:
        named = classify(task.description or task.id, bank, task.env)
    with opened_embedder(settings.embedder) as embedder:
        source = bank_source(bank, settings, embedder)
        source = replace(source, categorize=lambda one: named.category)
        if not task.env:
            source = replace(source, scope=lambda one: "")
        (found,) = source.retrieve([task])
    return Answer(task, found, render(found, settings.budget), named.by)


def find_task(env: EnvSection, task_id: str) -> Task:
    """Find a train or val task by its id; test stays sealed.

    Raises:
        DataError: There is none.
    """
    train, val, _ = find_tasks(env)
    known = {task.id: task for task in (*train, *val)}
    if task_id not in known:
        raise DataError(
            f"no train or val task {task_id!r}. {did_you_mean(task_id, known)} Test tasks stay "
            "sealed."
        )
    return known[task_id]


def task_of_text(text: str, env: str) -> Task:
    """Make a task of a goal in words, as an environment names its own; ``""`` for none."""
    return Task(id="query", env=env, description=text)


@dataclass(frozen=True, slots=True)
class SkillHistory:
    """A skill and its history.

    Attributes:
        stats: Outcomes of the episodes that it was injected into.
        utility: How much better these episodes end than all episodes.
        wordings: (bank version, skill) for each change of its text or status, the first one first.
        entries: (log entry, its line about the skill).
    """

    skill: BankSkill
    stats: SkillStats
    utility: float
    wordings: tuple[tuple[int, BankSkill], ...] = ()
    entries: tuple[tuple[LogEntry, Mapping[str, Any]], ...] = ()


def history_of(where: str, skill_id: str) -> SkillHistory:
    """Return a skill with its history.

    Args:
        where: The bank: a file, an export, or ``seed:NAME``; only a file has a history.
        skill_id: The skill's id.

    Raises:
        UsageError: There is no such bank or skill.
    """
    bank = read_bank(where, "--bank")
    skill = bank.get(skill_id)
    if not has_history(where):
        return SkillHistory(skill, bank.stats_of(skill_id), utilities(bank).get(skill_id, 0.0))
    with BankStore.open(Path(where), read_only=True) as store:
        wordings: list[tuple[int, BankSkill]] = []
        for version in store.versions():
            then = store.load(version)
            if skill_id not in then:
                continue
            now = then.get(skill_id)
            if not wordings or _looks(wordings[-1][1]) != _looks(now):
                wordings.append((version, now))
        entries = [
            (entry, outcome)
            for entry in store.log()
            for outcome in entry.outcomes
            if outcome["skill"] == skill_id
        ]
        stats = store.totals().get(skill_id, SkillStats())
    utility = utilities(bank).get(skill_id, 0.0)
    return SkillHistory(skill, stats, utility, tuple(wordings), tuple(entries))


def _looks(skill: BankSkill) -> tuple[str, str]:
    return skill.content_digest, str(skill.status)


def has_history(where: str) -> bool:
    """Tell whether a bank is a file with versions, and no export or seed bank."""
    return not where.startswith("seed:") and Path(where).suffix.lower() != ".json"


@dataclass(frozen=True, slots=True)
class BankStatistics:
    """Measurements of a bank.

    Attributes:
        where: The bank's file or name.
        headline: Counts of its skills, as SkillRL counts.
        by_category: (task-specific skills, lessons) by category; ``""`` for general ones.
        growth: (version, active skills by category), the first version first.
        kinds: (version, general, task-specific, lessons), likewise.
        used: Statistics of injected skills, by id.
        compression: Length of the skills relative to the trajectories.
    """

    where: str
    version: int
    headline: str
    by_category: Mapping[str, tuple[int, int]]
    retired: int
    pending: int
    growth: tuple[tuple[int, Mapping[str, int]], ...]
    kinds: tuple[tuple[int, int, int, int], ...]
    used: Mapping[str, SkillStats]
    compression: Compression

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        shorter = self.compression
        return {
            "bank": self.where,
            "version": self.version,
            "skills": self.headline,
            "by_category": {name: list(pair) for name, pair in self.by_category.items()},
            "retired": self.retired,
            "pending": self.pending,
            "growth": [{"version": v, "by_category": dict(c)} for v, c in self.growth],
            "kinds": [
                dict(zip(("version", "general", "task_specific", "lessons"), one, strict=True))
                for one in self.kinds
            ],
            "used": {key: asdict(one) for key, one in self.used.items()},
            "compression": {
                **asdict(shorter),
                "raw_ratio": shorter.raw_ratio,
                "summary_ratio": shorter.summary_ratio,
                "prompt_ratio": shorter.prompt_ratio,
            },
        }


def bank_statistics(
    where: str, runs: Sequence[str], root: Path | str, settings: BankSection
) -> BankStatistics:
    """Measure a bank.

    Args:
        where: The bank: a file, an export, or ``seed:NAME``.
        runs: Runs that may hold the episodes that skills were learned from.
        root: The folder that holds runs.
        settings: The retrieval, which decides the length of prompts.

    Raises:
        UsageError: There is no such bank or run, or it cannot be read.
    """
    bank = read_bank(where, "--bank")
    keys = sorted({key for skill in bank.active for key in skill.provenance.episodes})
    found = evidence_of(Path(where), keys, runs, root)
    prompts = _prompts(bank, list(found.values()), settings)
    counts = count_skills(bank)
    growth, kinds, used = (
        [(bank.version, active_by_category(bank))],
        [_kinds(bank)],
        dict(bank.stats),
    )
    if has_history(where):
        with BankStore.open(Path(where), read_only=True) as store:
            versions = [store.load(version) for version in store.versions()]
            growth = [(one.version, active_by_category(one)) for one in versions]
            kinds = [_kinds(one) for one in versions]
            used = store.totals()
    return BankStatistics(
        where=where,
        version=bank.version,
        headline=counts.headline,
        by_category=counts.by_category,
        retired=counts.retired,
        pending=counts.pending,
        growth=tuple(growth),
        kinds=tuple(kinds),
        used={key: one for key, one in used.items() if one.retrieved},
        compression=compression(bank, {key: one.trajectory for key, one in found.items()}, prompts),
    )


def _kinds(bank: Bank) -> tuple[int, int, int, int]:
    counts = count_skills(bank)
    return bank.version, counts.general, counts.task_specific, counts.lessons


def _prompts(
    bank: Bank, episodes: Sequence[EpisodeResult], settings: BankSection
) -> list[tuple[Sequence[Message], str]]:
    """Return the first prompt of each episode as it would be with the bank, and what it adds."""
    played = [one for one in episodes if one.trajectory.turns]
    if not played:
        return []
    with opened_embedder(settings.embedder) as embedder:
        contexts = bank_source(bank, settings, embedder).contexts([one.spec.task for one in played])
    prompts: list[tuple[Sequence[Message], str]] = []
    for one, context in zip(played, contexts, strict=True):
        shown: list[Message] = list(one.trajectory.turns[0].prompt)
        if not any(context.text in message["content"] for message in shown):
            shown.append({"role": "user", "content": context.text})
        prompts.append((shown, context.text))
    return prompts


def lint_bank(where: str, source: str | None = None) -> list[tuple[BankSkill, tuple[Finding, ...]]]:
    """Return the findings of lint for each skill of a bank, or of a ``source`` to import.

    Raises:
        UsageError: It cannot be read.
    """
    if source is None:
        skills = read_bank(where, "--bank").skills
    else:
        path = Path(source)
        if not path.exists():
            raise DataError(f"there is nothing at {source!r} to lint")
        skills = import_skills(Bank(), path)[0].skills
    open_ones = [skill for skill in skills if skill.status is not SkillStatus.RETIRED]
    return [(skill, found) for skill in open_ones if (found := lint(skill))]
