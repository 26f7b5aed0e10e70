"""Skills from outside and to the outside: import, approval, export."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from skillwright.bank import (
    Approve,
    Bank,
    BankStore,
    ChangeReport,
    Decision,
    apply,
    import_skills,
    save_bank,
    seed_bank,
    to_markdown,
    to_skillrl,
)
from skillwright.config.run import RunConfig
from skillwright.core import ConfigError, SkillStatus
from skillwright.core.jsonio import write_text
from skillwright.evaluation import Draws, Verdict, release_draws
from skillwright.jobs.bank.evolve import SETTINGS, error_budget, refuse_hopeless
from skillwright.jobs.bank.session import bank_session
from skillwright.jobs.run import Callback, MakeModel, known_secrets
from skillwright.jobs.run.bank_source import SEED, bank_work, changed_at_once
from skillwright.models import make_model

Format = Literal["json", "skillrl", "agent-skills", "markdown"]
SUFFIXES: Final[dict[str, Format]] = {".json": "json", ".md": "markdown", ".markdown": "markdown"}


@dataclass(frozen=True, slots=True)
class MoveReport:
    """The outcome of an import or an approval; ``refused`` if the gate accepted nothing."""

    bank: Bank
    report: ChangeReport
    verdict: Verdict | None = None
    refused: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return {
            "version": self.bank.version,
            "refused": self.refused,
            "verdict": self.verdict.to_dict() if self.verdict else None,
            "outcomes": [
                {"skill": one.id, "decision": str(one.decision), "because": one.reason}
                for one in self.report.outcomes
            ],
            "notes": list(self.report.notes),
        }


def import_into(bank: Path, source: str) -> MoveReport:
    """Import skills into a bank; they stay pending until they are approved.

    A seed bank becomes the bank if that is empty.

    Args:
        bank: The bank's file, created if missing.
        source: A file or folder in a known format, or ``seed:NAME``.

    Raises:
        UsageError: The source cannot be read, or the file cannot be written.
    """
    if source.startswith(SEED):
        return _import_seed(bank, source.removeprefix(SEED))
    path = Path(source)
    if not path.exists():
        raise ConfigError(
            f"there is nothing at {source!r}. Name a .json file (ours or SkillRL's), a folder of "
            f"Agent Skills, a Markdown file, or {SEED}alfworld"
        )
    if not bank.exists():
        import_skills(Bank(), path)  # what cannot be read must not leave an empty bank behind
    with changed_at_once(bank) as store:
        after, report = import_skills(store.load(), path)
        reason = f"imported from {path.name}"
        return MoveReport(_adopted(store, after, report, reason), report)


def _import_seed(bank: Path, name: str) -> MoveReport:
    seed = seed_bank(name)
    with changed_at_once(bank) as store:
        if store.newest:
            raise ConfigError(
                f"{str(bank)!r} holds skills already, and a seed bank is one to begin with. Name a "
                f"new file, or export the seed bank (`skillwright bank export seed.json --bank "
                f"{SEED}{name}`) and import that"
            )
        return MoveReport(store.adopt(seed, reason=f"begun with {SEED}{name}"), ChangeReport())


def _adopted(store: BankStore, after: Bank, report: ChangeReport, reason: str) -> Bank:
    before = store.load()
    return before if after is before else store.adopt(after, report, reason=reason)


def named_or_pending(bank: Bank, ids: Sequence[str]) -> list[str]:
    """Return the skills to approve: the named ones, or all pending ones.

    Raises:
        UnknownSkill: There is no skill of a name.
        ConfigError: No skill is pending.
    """
    if ids:
        return [bank.get(one).id for one in ids]
    found = [one.id for one in bank.skills if one.status is SkillStatus.PENDING]
    if not found:
        raise ConfigError("no skill of the bank is pending; there is nothing to approve")
    return found


def approve_without_gate(bank: Path, ids: Sequence[str], reason: str) -> MoveReport:
    """Activate pending skills (all by default) that pass lint, as a person decided.

    Raises:
        UsageError: There is no such skill, or the file cannot be written.
    """
    with changed_at_once(bank) as store:
        before = store.load()
        changes = [Approve(one, reason) for one in named_or_pending(before, ids)]
        after, report = apply(before, changes)
        kept = _adopted(store, after, report, f"approved without a gate: {reason}")
        return MoveReport(kept, report)


async def approve_by_gate(
    config: RunConfig,
    bank: Path,
    ids: Sequence[str],
    callback: Callback,
    make: MakeModel = make_model,
) -> MoveReport:
    """Activate pending skills, all or none, if they raise the score on val tasks.

    Args:
        config: The models, the tasks and the gate.
        bank: The bank's file.
        ids: Ids of the skills; all pending ones by default.
        callback: Receives the events.
        make: Makes the models.

    Raises:
        UsageError: There is no such skill, or something that the configuration names is wrong.
    """
    async with AsyncExitStack() as held:
        store = held.enter_context(bank_work(bank, known_secrets(config)))
        bank_store = held.enter_context(BankStore.open(bank))
        before = bank_store.load()
        changes = [Approve(one, "passed lint and gate") for one in named_or_pending(before, ids)]
        after, report = apply(before, changes)
        if after is before:
            return MoveReport(before, report, refused=True)
        session = await held.enter_async_context(bank_session(config, store, callback, make))
        budget = error_budget(config, bank_store.log())
        refuse_hopeless(config, len(session.bench.splits.val.tasks), 1, budget)
        # Who exports the bank finds what it was proven with.
        store.append_event(SETTINGS, config.model_dump(mode="json", exclude={"budget"}))
        number = 1 + max((entry.step or 0 for entry in bank_store.log()), default=0)
        gate = config.evaluation.gate
        judge = gate.release or gate  # what is approved is released at once
        seed = config.run.seed
        draws = Draws(seed, number * gate.draws, step=number)
        if gate.release:
            draws = release_draws(seed, number, number)
        ledger = gate.ledger(budget.level, 1)
        found = await session.loop(bank_store).judge((before, after), judge, draws, ledger)
        verdict = budget.explained(found)
        said = verdict.to_dict()
        if not verdict.accepted:
            bank_store.reject(changes, reason=verdict.reason, verdict=said, step=number)
            return MoveReport(before, report, verdict, refused=True)
        kept = bank_store.adopt(
            after, report, reason="approved by the gate", verdict=said, step=number
        )
        return MoveReport(kept, report, verdict)


def roll_back(bank: Path, version: int, reason: str) -> Bank:
    """Make a new version of a bank that equals an old one, and return it.

    Raises:
        UsageError: There is no such version, or the file cannot be written.
    """
    with changed_at_once(bank) as store:
        return store.rollback(version, reason)


def let_in(report: ChangeReport) -> list[str]:
    """Return the ids of the skills that were approved."""
    return [one.id for one in report.outcomes if one.decision is Decision.APPROVED]


def export_bank_file(bank: Bank, to: Path, form: Format) -> None:
    """Write a bank into one file; `export_bank` writes folders for agents.

    Raises:
        ConfigError: There is a folder of that name.
        OSError: It cannot be written.
    """
    if to.is_dir():
        raise ConfigError(f"{str(to)!r} is a folder; give a file, or --format agent-skills")
    if form == "json":
        save_bank(bank, to)
    else:
        write_text(to, to_skillrl(bank) if form == "skillrl" else to_markdown(bank))
