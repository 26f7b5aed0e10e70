"""Distil a bank: of the episodes of runs, or of base trajectories that are played for it."""

from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from skillwright.bank import (
    BankStore,
    DistilSettings,
    Teacher,
    category_of,
    compression,
    count_skills,
    distil,
    scope_of,
)
from skillwright.bank.near import IsNear, nearness
from skillwright.config.bank_settings import StudySettings, teacher_of
from skillwright.config.run import RunConfig
from skillwright.core import EpisodeResult, EpisodeSpec, PlainSkill
from skillwright.core.seeds import derive_seed
from skillwright.jobs.bank.arena import bank_arena, make_teacher
from skillwright.jobs.bank.evidence import StudiedRun
from skillwright.jobs.launch.runs import known_secrets, model_secrets
from skillwright.jobs.parts.bank_source import opened_embedder
from skillwright.jobs.parts.bank_work import bank_work
from skillwright.jobs.parts.memory import StoredCalls
from skillwright.jobs.parts.money import Budget
from skillwright.jobs.parts.opened import MakeModel, opened_mind
from skillwright.jobs.parts.progress import StageStarted, Watcher
from skillwright.models import HttpClient, is_stand_in, make_model
from skillwright.rollout import refuse_no_score

BASE = "base"
"""The phase of base trajectories."""


@dataclass(frozen=True, slots=True)
class DistilOutcome:
    """What a distillation came to.

    Attributes:
        bank: The bank's file.
        before: Its version before.
        version: Its version now; the same where nothing new was learnt.
        skills: What it holds now, as SkillRL counts, with the split.
        episodes: Episodes that were given to the teacher.
        won: Those of them that were won.
        read: Those that it could read.
        kept_out: Episodes that may not be studied, by split.
        requests: Questions to the teacher.
        decisions: What became of its drafts: how many were added, merged, refused.
        blocked: Drafts that lint kept out: (name, why).
        compression: How much shorter the skills are than these trajectories.
        notes: What was put right in replies, and requests that failed.
        is_scripted: A scripted mind took part, which must be said.
    """

    bank: str
    before: int
    version: int
    skills: str
    episodes: int
    won: int
    read: int
    requests: int
    decisions: dict[str, int]
    kept_out: dict[str, int] = field(default_factory=dict)
    blocked: tuple[tuple[str, str], ...] = ()
    compression: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    is_scripted: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        names = self.__dataclass_fields__
        return {name: getattr(self, name) for name in names if name != "blocked"} | {
            "blocked": [{"name": name, "why": why} for name, why in self.blocked],
            "notes": list(self.notes),
        }


async def distil_runs(
    runs: Sequence[StudiedRun],
    bank: Path,
    settings: StudySettings,
    watcher: Watcher,
    make: MakeModel = make_model,
) -> DistilOutcome:
    """Distil the stored episodes of runs into a bank; the same question is paid for once.

    Args:
        runs: What may be read of each.
        bank: The bank's file; made where it is not there.
        settings: Who writes, and how much.
        watcher: Sees what happens.
        make: Makes the teacher.

    Raises:
        TeacherDown: The teacher gave nothing usable.
        BankError: The file cannot be written, or another process works on it.
    """
    mind = settings.models.teacher
    episodes = [one for run in runs for one in run.episodes]
    threshold = runs[0].success_threshold
    async with HttpClient() as client, AsyncExitStack() as held:
        store = held.enter_context(bank_work(bank, model_secrets([mind])))
        _, latest = store.usage_since()
        budget = Budget(settings.budget, store, after=latest)
        seen = [run.path for run in runs]
        model = held.enter_context(opened_mind(mind, client, make, store, None, *seen))
        calls = StoredCalls(model, store, watcher, permit=partial(budget.permit, "call"))
        is_near = nearness(held.enter_context(opened_embedder(settings.bank.embedder)))
        with store.transaction():
            for one in episodes:
                # Kept beside the bank, so that what a skill rests on is found without the run. What
                # an agent was told there came out of another bank, where the ids mean others.
                store.record_episode(replace(one, skill_ids=(), skill_scores=()), usage={})
        teacher = make_teacher(calls, mind, 0, "distil")
        asked = settings.distil.settings(threshold)
        named = ", ".join(run.path.name for run in runs)
        outcome = await _distil(episodes, bank, teacher, asked, watcher, named, is_near)
    kept_out = dict(sum((Counter(run.kept_out) for run in runs), Counter[str]()))
    return replace(outcome, kept_out=kept_out, is_scripted=is_stand_in(mind))


async def distil_config(
    config: RunConfig, bank: Path, watcher: Watcher, make: MakeModel = make_model
) -> DistilOutcome:
    """Play base trajectories on train tasks outside of the evolution split, and distil them.

    The agent is told the document of ``skill.init`` and no bank. What is stored is not played
    again, so that a command that was stopped is simply given again.

    Raises:
        EngineDown: No episode has a reward.
        TeacherDown: The teacher gave nothing usable.
        UsageError: Something that the configuration names is missing or wrong.
    """
    async with AsyncExitStack() as held:
        store = held.enter_context(bank_work(bank, known_secrets(config)))
        arena = await held.enter_async_context(bank_arena(config, store, watcher, make))
        seed = config.run.seed
        specs = [
            EpisodeSpec(task, derive_seed(BASE, seed, task.id, draw), draw, BASE)
            for task in arena.evolution.practice.tasks[: config.distil.tasks]
            for draw in range(config.distil.episodes)
        ]
        watcher.see(arena.started(bank, len(specs)))
        watcher.see(StageStarted(BASE, episodes=len(specs)))
        episodes = await arena.bench.engine.run(specs, PlainSkill(arena.document))
        refuse_no_score(episodes)
        threshold = config.env.success_threshold
        outcome = await _distil(
            episodes,
            bank,
            arena.teacher("distil"),
            config.distil.settings(threshold),
            watcher,
            f"{config.env.name}, played with {config.run.name}",
            nearness(arena.embedder),
        )
    minds = (config.models.target, teacher_of(config))
    return replace(outcome, is_scripted=any(map(is_stand_in, minds)))


async def _distil(
    episodes: Sequence[EpisodeResult],
    bank: Path,
    teacher: Teacher,
    settings: DistilSettings,
    watcher: Watcher,
    named: str,
    is_near: IsNear,
) -> DistilOutcome:
    watcher.see(StageStarted("distil"))
    found = await distil(episodes, teacher, settings, category_of, scope_of)
    found.refuse_gaps()
    with BankStore.open(bank) as store:
        before = store.newest
        reason = f"distilled from {found.report.read} episodes ({named})"
        store.commit(found.changes, reason=reason, is_near=is_near)
        decisions = dict(Counter(outcome["decision"] for outcome in store.log()[-1].outcomes))
        now = store.load()
    won = sum(one.is_success(settings.success_threshold) for one in episodes)
    trajectories = {one.key: one.trajectory for one in episodes if one.reward is not None}
    shorter = compression(now, trajectories)
    return DistilOutcome(
        bank=str(bank),
        before=before,
        version=now.version,
        skills=count_skills(now).headline,
        episodes=len(episodes),
        won=won,
        read=found.report.read,
        requests=len(found.calls),
        decisions=decisions,
        blocked=tuple(
            (one.draft.name, "; ".join(map(str, one.findings))) for one in found.report.blocked
        ),
        compression={"raw": shorter.raw_ratio, "summaries": shorter.summary_ratio},
        notes=(
            *found.report.notes,
            *(f"{fault.call} failed: {fault.failure.message}" for fault in found.failures),
        ),
    )
