"""Skills in a bank: distilled from episodes, stored, retrieved, rendered and evolved.

A skill is a triple of name, principle and applicability (`BankSkill`). A bank grows by changes
(`apply`), within limits (`GrowthCaps`): the seed bank of ALFWorld from 55 skills to at most 100.
"""

from typing import TYPE_CHECKING, Any

from skillwright.bank.bank import (
    Bank,
    BankError,
    BankMoved,
    SkillStats,
    UnknownSkill,
    UnknownVersion,
)
from skillwright.bank.changes import (
    Add,
    Approve,
    Change,
    ChangeReport,
    Decision,
    GrowthCaps,
    Outcome,
    Refine,
    Retire,
    apply,
    near_in_meaning,
    near_in_text,
    only_equal,
)
from skillwright.bank.embedding.embedders import (
    Embedder,
    Encoder,
    LexicalEmbedder,
    SentenceTransformerEmbedder,
    Vectors,
    VectorStore,
)
from skillwright.bank.embedding.endpoint import make_embedder
from skillwright.bank.formats.agent_skills import (
    SkillFolder,
    document_folder,
    read_agent_skills,
    to_agent_skills,
    write_agent_skills,
)
from skillwright.bank.formats.imports import SEED_BANKS, seed_bank
from skillwright.bank.formats.interchange import from_json, load_bank, save_bank, to_json
from skillwright.bank.formats.markdown import from_markdown, to_markdown
from skillwright.bank.formats.skillrl import (
    MemoryStep,
    RefinedMemory,
    import_skillrl,
    is_skillrl,
    read_memories,
    read_skillrl,
    to_skillrl,
)
from skillwright.bank.lint.lint import Finding, Sources, is_clean, lint, refuse_unsafe
from skillwright.bank.lint.rules import Severity
from skillwright.bank.measure import (
    AtDelta,
    BankCounts,
    Calibration,
    Compression,
    Spread,
    calibrate,
    compression,
    count_skills,
    seed_pairs,
)
from skillwright.bank.render import (
    NOTHING,
    RenderBudget,
    Rendered,
    approximate_tokens,
    render,
    skill_line,
)
from skillwright.bank.retrieve import (
    BankIndex,
    RetrievalSettings,
    Retrieved,
    Scored,
    SkillIndex,
    retrieve,
    utilities,
)
from skillwright.bank.source import (
    BankSource,
    MakeSource,
    bank_duel,
    candidate_sources,
    category_of,
    query_of,
    scope_of,
)
from skillwright.bank.store.store import BankDiff, BankStore, Refinement, difference
from skillwright.bank.store.tables import CountedEpisode, LogEntry, LogEvent
from skillwright.bank.teaching.distill import (
    Blocked,
    DistillAmounts,
    Distillation,
    DistillReport,
    DistillSettings,
    Section,
    distill,
)
from skillwright.bank.teaching.evolve import (
    BlockedChange,
    CategorySuccess,
    Evolution,
    EvolutionResults,
    EvolveSettings,
    EvolveTrigger,
    evolve,
    sample_failures,
    shown_change,
    success_by_category,
)
from skillwright.bank.teaching.teacher import (
    Evidence,
    Teacher,
    TeacherCall,
    TeacherDown,
    TeacherFault,
)
from skillwright.bank.triggers import (
    Described,
    TaskWords,
    TriggerScore,
    describe,
    trigger_test,
)
from skillwright.core import BankSkill as BankSkill

if TYPE_CHECKING:
    from skillwright.bank.embedding.endpoint import EndpointEmbedder
from skillwright.bank.formats.imports import import_skills, load_any_bank

__all__ = [
    "NOTHING",
    "SEED_BANKS",
    "Add",
    "Approve",
    "AtDelta",
    "Bank",
    "BankCounts",
    "BankDiff",
    "BankError",
    "BankIndex",
    "BankMoved",
    "BankSource",
    "BankStore",
    "Blocked",
    "BlockedChange",
    "Calibration",
    "CategorySuccess",
    "Change",
    "ChangeReport",
    "Compression",
    "CountedEpisode",
    "Decision",
    "Described",
    "DistillAmounts",
    "DistillReport",
    "DistillSettings",
    "Distillation",
    "Embedder",
    "Encoder",
    "EndpointEmbedder",
    "Evidence",
    "Evolution",
    "EvolutionResults",
    "EvolveSettings",
    "EvolveTrigger",
    "Finding",
    "GrowthCaps",
    "LexicalEmbedder",
    "LogEntry",
    "LogEvent",
    "MakeSource",
    "MemoryStep",
    "Outcome",
    "Refine",
    "RefinedMemory",
    "Refinement",
    "RenderBudget",
    "Rendered",
    "Retire",
    "RetrievalSettings",
    "Retrieved",
    "Scored",
    "Section",
    "SentenceTransformerEmbedder",
    "Severity",
    "SkillFolder",
    "SkillIndex",
    "SkillStats",
    "Sources",
    "Spread",
    "TaskWords",
    "Teacher",
    "TeacherCall",
    "TeacherDown",
    "TeacherFault",
    "TriggerScore",
    "UnknownSkill",
    "UnknownVersion",
    "VectorStore",
    "Vectors",
    "apply",
    "approximate_tokens",
    "bank_duel",
    "calibrate",
    "candidate_sources",
    "category_of",
    "compression",
    "count_skills",
    "describe",
    "difference",
    "distill",
    "document_folder",
    "evolve",
    "from_json",
    "from_markdown",
    "import_skillrl",
    "import_skills",
    "is_clean",
    "is_skillrl",
    "lint",
    "load_any_bank",
    "load_bank",
    "make_embedder",
    "near_in_meaning",
    "near_in_text",
    "only_equal",
    "query_of",
    "read_agent_skills",
    "read_memories",
    "read_skillrl",
    "refuse_unsafe",
    "render",
    "retrieve",
    "sample_failures",
    "save_bank",
    "scope_of",
    "seed_bank",
    "seed_pairs",
    "shown_change",
    "skill_line",
    "success_by_category",
    "to_agent_skills",
    "to_json",
    "to_markdown",
    "to_skillrl",
    "trigger_test",
    "utilities",
    "write_agent_skills",
]


def __getattr__(name: str) -> Any:
    # Only who asks an endpoint waits for the network stack to be imported.
    if name != "EndpointEmbedder":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from skillwright.bank.embedding.endpoint import EndpointEmbedder

    return EndpointEmbedder
