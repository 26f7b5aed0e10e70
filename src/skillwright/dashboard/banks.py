"""The view of a bank: its growth, a search, and skills that are never retrieved."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from starlette.requests import Request

from skillwright.bank import (
    SEED_BANKS,
    Bank,
    BankStore,
    Encoder,
    LexicalEmbedder,
    LogEntry,
    RetrievalSettings,
    SkillStats,
    count_skills,
    load_bank,
    render,
    retrieve,
)
from skillwright.bank.retrieve import BankIndex
from skillwright.bank.source import Named, classify, query_of
from skillwright.config.bank import BankSection
from skillwright.config.load import load_config, load_rl_config
from skillwright.core import BankSkill, SkillKind, Task
from skillwright.dashboard import charts
from skillwright.dashboard.reading import reading
from skillwright.dashboard.site import Site

_ROWS = 100
"""Skills per page."""
_VERSIONS = 60
"""Maximum versions of the growth chart; more are thinned evenly."""
_COMPARED = 2_000
"""Maximum number of skills that are compared for near-duplicates."""
_NEARLY = 0.7
_LONGEST = 2_000
_FOUND = 40
"""Skills per kind in a search result."""


@dataclass(frozen=True, slots=True)
class Shown:
    """Contents of a bank's page.

    Attributes:
        growth: Counts per version, in ascending order.
        totals: Number of retrievals per skill id.
        near: Near-duplicate pairs with their share of common words.
    """

    bank: Bank
    growth: tuple[Any, ...]
    log: tuple[LogEntry, ...]
    totals: Mapping[str, SkillStats]
    near: tuple[tuple[BankSkill, BankSkill, float], ...]

    @property
    def never(self) -> list[BankSkill]:
        """Active skills that were never injected."""
        return [one for one in self.bank.active if one.id not in self.totals]


def bank(site: Site, request: Request) -> tuple[str, dict[str, Any]]:
    """Show a bank: growth, search, never-retrieved skills, near-duplicates and its log."""
    run = request.path_params.get("run", "")
    path = site.bank_of(run) if run else site.bank(request.path_params["bank"])
    if path is None:
        return "bank.html", {"bank": None, "name": run}
    shown = site.once(path, "bank", lambda: _read(path))
    if not shown.growth:  # a copy has no counts, but the run's store has them
        shown = replace(shown, totals=site.once(path, "use", lambda: _injected(path.parent)))
    settings, env = BankSection(), ""
    if run:
        config = site.folder(run) / "config.yaml"
        settings, env = site.once(config, "bank", lambda: _settings(config.parent))
    asked = request.query_params
    first = max(int(asked["from"]), 0) if asked.get("from", "").isdecimal() else 0
    active, query = shown.bank.active, asked.get("q", "").strip()[:_LONGEST]
    scopes = sorted({one.scope for one in active if one.scope})
    scope = asked.get("scope", "") if asked.get("scope") in scopes else ""
    found = None
    if query:
        index = site.once(path, "index", lambda: BankIndex(shown.bank, Encoder(LexicalEmbedder())))
        found = _search(index, query, settings, env, scope)
    return "bank.html", {
        "bank": shown.bank,
        "name": path.name,
        "counts": count_skills(shown.bank),
        "shown": shown,
        "chart": _growth(shown),
        "rounds": _rounds(site, run),
        "categories": _by_category(shown),
        "page": active[first : first + _ROWS],
        "first": first,
        "most": _ROWS,
        "query": query,
        "scopes": scopes,
        "scope": scope,
        "found": found,
        "embedder": settings.embedder,
    }


def _read(path: Path) -> Shown:
    if path.suffix == ".json":
        kept = load_bank(path)
        return Shown(kept, (), (), {}, _near(kept.active))
    with BankStore.open(path, read_only=True) as store:
        versions = store.versions()
        step = max(1, -(-len(versions) // _VERSIONS))
        some = sorted({*versions[::step], *versions[-1:]})
        growth = [(one, count_skills(store.load(one))) for one in some]
        log, totals, newest = store.log(), store.totals(), store.load()
    used = {key: one for key, one in totals.items() if one.retrieved}
    return Shown(newest, tuple(growth), tuple(log[::-1]), used, _near(newest.active))


def _injected(folder: Path) -> dict[str, SkillStats]:
    with reading(folder) as reader:
        return {key: SkillStats(*counts) for key, counts in reader.injected().items()}


def _settings(folder: Path) -> tuple[BankSection, str]:
    """Return a run's bank settings, and its environment if it is built in.

    Viewing must not execute the code of a user's environment.
    """
    with reading(folder) as reader:
        is_rl = reader.trains_weights
    config: Any = (load_rl_config if is_rl else load_config)(folder / "config.yaml")
    return config.bank, config.env.name if config.env.name in SEED_BANKS else ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A skill in a search result.

    Attributes:
        outcome: ``injected``, or the reason against it.
    """

    skill: BankSkill
    score: float
    outcome: str


@dataclass(frozen=True, slots=True)
class Search:
    """The result of a query.

    Attributes:
        named: Category of the query, and its source.
        delta: Similarity threshold (exclusive).
        general: Number of general skills, always injected.
    """

    named: Named
    delta: float
    above: tuple[Candidate, ...]
    below: tuple[Candidate, ...]
    general: int
    tokens: int


def _search(index: BankIndex, query: str, settings: BankSection, env: str, scope: str) -> Search:
    """Find the skills that would be injected for a query, and the nearest others."""
    named = classify(query, index.bank, env, index.encoder)
    embedder = index.encoder.embedder
    own = settings.embedder == "lexical"
    delta = settings.delta if own and settings.delta is not None else embedder.delta
    terms = RetrievalSettings(k_task=settings.k_task, delta=delta, k_lessons=settings.k_lessons)
    text = query_of(Task("query", "", description=query), named.category)
    vector = index.encoder.queries([text])[text]
    real = retrieve(index, vector, category=named.category, scope=scope, settings=terms)
    rendered = render(real, settings.budget)
    injected = {one.skill.id for one in rendered.injected}
    retrieved = {one.skill.id for one in real.all}
    wide = retrieve(
        index,
        vector,
        scope=scope,
        settings=RetrievalSettings(k_task=_FOUND, delta=-1, k_lessons=_FOUND),
    )
    scored = {one.skill.id: one for one in (*wide.task_specific, *wide.lessons)}
    scored |= {one.skill.id: one for one in (*real.task_specific, *real.lessons)}

    def outcome(skill: BankSkill, score: float) -> str:
        """Return whether a skill is injected, or why not."""
        if skill.id in injected:
            return "injected"
        if skill.id in retrieved:
            return "no room in the prompt"
        if skill.kind is SkillKind.TASK_SPECIFIC and skill.category not in ("", named.category):
            return "another category" if named.category else "not among the best"
        return "not among the best" if score > delta else "below delta"

    ranked = sorted(scored.values(), key=lambda one: (-one.score, one.skill.id))
    every = [Candidate(one.skill, one.score, outcome(one.skill, one.score)) for one in ranked]
    return Search(
        named=named,
        delta=delta,
        above=tuple(one for one in every if one.score > delta),
        below=tuple(one for one in every if one.score <= delta),
        general=sum(one.skill.id in injected for one in real.general),
        tokens=rendered.tokens,
    )


def _growth(shown: Shown) -> Any:
    if len(shown.growth) < 2:
        return ""
    lines = {
        name: [(version, getattr(counts, key)) for version, counts in shown.growth]
        for name, key in (
            ("general", "general"),
            ("task-specific", "task_specific"),
            ("lessons", "lessons"),
            ("all active", "total"),
        )
    }
    return charts.lines("Active skills by version", lines)


def _rounds(site: Site, run: str) -> list[dict[str, Any]]:
    """Return the outcome of each bank update of a weights training."""
    if not run:
        return []
    with reading(site.folder(run)) as reader:
        return reader.payloads("evolution")


def _near(skills: tuple[BankSkill, ...]) -> tuple[tuple[BankSkill, BankSkill, float], ...]:
    """List pairs of skills that share most of their words, at most 20."""
    some = skills[:_COMPARED]
    if not some:
        return ()
    words = [set(one.text.casefold().split()) for one in some]
    place = {word: at for at, word in enumerate(sorted(set().union(*words)))}
    has = np.zeros((len(some), len(place)), dtype=np.float32)
    for row, one in enumerate(words):
        has[row, [place[word] for word in one]] = 1
    both = has @ has.T
    sizes = np.diag(both)
    union = np.maximum(sizes[:, None] + sizes[None, :] - both, 1)
    # Facts about two households may share most words.
    kinds = np.unique([f"{one.kind} {one.scope}" for one in some], return_inverse=True)[1]
    share = np.triu(both / union * (kinds[:, None] == kinds[None, :]), k=1)
    pairs = np.argwhere(share >= _NEARLY)
    found = [(some[a], some[b], float(share[a, b])) for a, b in pairs.tolist()]
    return tuple(sorted(found, key=lambda pair: -pair[2])[:20])


def _by_category(shown: Shown) -> list[tuple[str, int, int]]:
    """List (category, active skills, never retrieved ones)."""
    every = Counter(one.category for one in shown.bank.active)
    never = Counter(one.category for one in shown.never)
    return [(name, every[name], never[name]) for name in sorted(every)]
