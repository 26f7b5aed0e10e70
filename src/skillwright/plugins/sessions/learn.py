"""Learn from session logs: requests become trajectories and tasks; proven proposals are staged.

Sessions have no reward. The teacher reads the earlier ones. The later ones contain the users' own
corrections and approvals: their requests are repeated with and without the proposed skills, and a
release test over these pairs decides. Each session decides only once.

Source: learning from logs in idle time is SkillOpt's Sleep; rules, splits and test are ours.
"""

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from skillwright.bank import BankStore, Decision, LogEntry, LogEvent
from skillwright.config.bank_settings import (
    StudyModels,
    StudySettings,
    load_with_teacher,
    teacher_of,
)
from skillwright.config.run import RunConfig
from skillwright.config.yaml_files import merge_layers, read_layers
from skillwright.core import (
    Act,
    ConfigError,
    EpisodeResult,
    EpisodeSpec,
    SkillStatus,
    Task,
    Trajectory,
    Turn,
)
from skillwright.core.jsonio import JsonRecord, digest, dumps, write_text
from skillwright.evaluation import Verdict, why_hopeless
from skillwright.jobs.bank import (
    DistillOutcome,
    Stager,
    Staging,
    StudiedRun,
    approve_by_gate,
    distill_runs,
    error_budget,
    in_effect,
    skills_digest,
)
from skillwright.jobs.inspect import ExportedSkills, ExportOptions, export_bank
from skillwright.jobs.run import (
    Callback,
    MakeModel,
    StoredCalls,
    bank_work,
    has_work,
    known_secrets,
    look_at_work,
    work_folder,
)
from skillwright.models import HttpClient, ModelConfig, make_model
from skillwright.plugins.sessions.logs import Found, Outcome, Request, requests_of

__all__ = [
    "LearnReport",
    "begin_round",
    "learn_from_sessions",
    "plan_round",
    "roll_back_sessions",
    "session_config",
]

ROUND: Final = "sessions_round"
OVER: Final = "sessions_over"
"""Log events of rounds: sessions split into training and held-out ones."""
PHASE: Final = "session"
SUBJECT: Final = "coding"
"""Name of the tasks in a description."""
_ENV: Final = "table"
_TEST_SHARE: Final = 5
_LEAST_TRAIN: Final = 2
_PROMPT: Final = (
    "The user of a coding agent asks:\n\n{{ prompt }}\n\n"
    "Nothing can be run or read here. Write the commands that you would run for it."
)


@dataclass(frozen=True, slots=True)
class Round(JsonRecord):
    """Sessions, split by time.

    Attributes:
        number: From 1, over the life of the bank.
        logged: Entries of the bank's log before it.
        train: Ids of the sessions for the teacher.
        val: Ids of the sessions whose requests decide.
        test: Ids left for the user's own measurement.
    """

    number: int
    logged: int
    train: tuple[str, ...]
    val: tuple[str, ...]
    test: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """The tasks of a command.

    Attributes:
        round: Split of the sessions.
        requests: All requests found.
        rows: Tasks of all three splits.
        is_begun: Whether an interrupted command began this round.
        why_not: Why there is nothing to do, or "".
    """

    round: Round
    requests: tuple[Request, ...]
    rows: tuple[dict[str, str], ...]
    is_begun: bool = False
    why_not: str = ""

    def size(self, split: str) -> int:
        """Count the tasks of a split."""
        return sum(row["split"] == split for row in self.rows)


@dataclass(frozen=True, slots=True)
class LearnReport:
    """The outcome of a command.

    Attributes:
        sessions: Number found, by client.
        outcomes: Requests by outcome.
        checks: Requests that can be repeated, by kind of check.
        left_out: Omissions by reason.
        tasks: Tasks by split.
        because: Why nothing was adopted, or "".
        adopted: Ids of adopted skills.
        version: Current version of the bank.
        distilled: Outcome of the teacher's proposals, or ``None``.
        verdict: Verdict of the release test, or ``None``.
        staged: Staged folder, or ``None``.
        is_scripted: Whether a scripted model took part.
    """

    sessions: dict[str, int]
    outcomes: dict[str, int]
    checks: dict[str, int]
    left_out: dict[str, int]
    tasks: dict[str, int]
    because: str = ""
    adopted: tuple[str, ...] = ()
    version: int = 0
    distilled: DistillOutcome | None = None
    verdict: Verdict | None = None
    staged: ExportedSkills | None = None
    is_scripted: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        plain = ("sessions", "outcomes", "checks", "left_out", "tasks", "because", "version")
        return {
            **{name: getattr(self, name) for name in plain},
            "adopted": list(self.adopted),
            "distilled": self.distilled.to_dict() if self.distilled else None,
            "verdict": self.verdict.to_dict() if self.verdict else None,
            "staged": self.staged.to_dict() if self.staged else None,
            "scripted": self.is_scripted,
        }


def plan_round(found: Found, bank: Path) -> Plan:
    """Split sessions into training, validation and test; nothing is written.

    The newest half of the new sessions with a check is held out, and the last fifth of it for
    test. Earlier sessions and those of previous rounds are for training. Held-out requests with
    the words of a training request are dropped. The bank's file need not exist.
    """
    rounds, is_over = _rounds(bank)
    requests = tuple(one for session in found.sessions for one in requests_of(session))
    if rounds and not is_over:
        return Plan(rounds[-1], requests, _rows(rounds[-1], requests), is_begun=True)
    known = {one for earlier in rounds for one in (*earlier.train, *earlier.val)}
    deciding = {one.session for one in requests if one.decides}
    fresh = [one.id for one in found.sessions if one.id in deciding and one.id not in known]
    held = fresh[len(fresh) // 2 :]
    tests = held[-max(1, len(held) // _TEST_SHARE) :] if len(held) > 1 else []
    val = held[: len(held) - len(tests)]
    train = list(known)
    for session in found.sessions:
        if session.id in held:
            break
        train.append(session.id)
    logged = 0
    if bank.is_file():
        with BankStore.open(bank, read_only=True) as store:
            logged = len(store.log())
    begun = Round(len(rounds) + 1, logged, tuple(sorted(set(train))), tuple(val), tuple(tests))
    plan = Plan(begun, requests, _rows(begun, requests))
    return replace(plan, why_not=_why_nothing(plan))


def _rounds(bank: Path) -> tuple[list[Round], bool]:
    """Return the rounds of a bank, and whether the last one is complete."""
    if not has_work(bank):
        return [], True
    with look_at_work(bank) as store:
        rounds = [Round.from_dict(event.payload) for event in store.events(ROUND)]
        return rounds, len(rounds) == len(store.events(OVER))


def _rows(parted: Round, requests: Sequence[Request]) -> tuple[dict[str, str], ...]:
    """Make the tasks; a request in two splits belongs to training."""
    rows: dict[str, dict[str, str]] = {}
    read = {_plain(one.prompt) for one in requests if one.session in parted.train}
    for split in ("train", "val", "test"):
        chosen = [one for one in requests if one.session in getattr(parted, split) and one.decides]
        for one in chosen:
            words = _plain(one.prompt)
            if one.check is None or words in rows or (split != "train" and words in read):
                continue
            rows[words] = {
                "id": f"{one.session}-{one.number}",
                "split": split,
                "prompt": one.prompt,
                "answer": one.check.pattern,
            }
    return tuple(rows.values())


def _plain(prompt: str) -> str:
    return " ".join(prompt.casefold().split()).rstrip(".!?")


def _why_nothing(plan: Plan) -> str:
    known = [one for one in plan.requests if one.session in plan.round.train]
    if not any(one.decides for one in plan.requests):
        return (
            "no request has a check: no user corrected one thing by another, and no command of one "
            "that went well is known. Without a check nothing can be proven"
        )
    if not plan.round.val:
        return "no new session has a check; those there are decided before, or are too few"
    if not any(one.outcome is not Outcome.UNKNOWN for one in known):
        return "no earlier session says how a request went, so there is nothing to learn from"
    if plan.size("train") < _LEAST_TRAIN or not plan.size("test") or not plan.size("val"):
        sizes = ", ".join(f"{plan.size(split)} {split}" for split in ("train", "val", "test"))
        return f"too few requests with a check are left after repeats: {sizes}"
    return ""


def table_of(bank: Path, number: int) -> Path:
    """Return the file of a round's tasks."""
    return work_folder(bank) / f"sessions-{number:04d}.jsonl"


def session_config(
    config: Path, bank: Path, plan: Plan, teacher: str | None, overrides: Sequence[str]
) -> RunConfig:
    """Read the models and gates from a configuration without ``env``; the tasks are a plan's.

    ``teacher`` replaces the configuration's teacher; ``overrides`` are ``section.key=value``.
    """
    values = merge_layers(read_layers(config))
    if "env" in values:
        raise ConfigError(
            f"{str(config)!r} names an environment, and the tasks here are the requests of the "
            "sessions; take 'env' out, or give a file with 'models' alone"
        )
    table = str(table_of(bank, plan.round.number))
    ours = [
        f"env.name={_ENV}",
        f"env.config={dumps({'prompt': _PROMPT, 'scorer': 'regex'})}",
        f"env.data={dumps({'kind': 'table', 'path': table, 'split_column': 'split'})}",
    ]
    return load_with_teacher(config, teacher, [*ours, *overrides])


def begin_round(plan: Plan, config: RunConfig, bank: Path) -> str:
    """Write a round's tasks and split; return why that is not worthwhile, or ""."""
    gate, log = config.evaluation.gate, []
    if bank.is_file():
        with BankStore.open(bank, read_only=True) as bank_store:
            log = bank_store.log()
    budget = error_budget(config, log)
    if problem := why_hopeless(gate, gate.ledger(budget.level, 1), plan.size("val")):
        return f"no proposal could pass: {problem}. It would be {budget}. More sessions are needed"
    with bank_work(bank, known_secrets(config)) as store:
        if not plan.is_begun:
            lines = "".join(f"{dumps(row)}\n" for row in plan.rows)
            write_text(table_of(bank, plan.round.number), lines)
            with store.transaction(durable=True):
                store.append_event(ROUND, plan.round.to_dict())
    return ""


async def learn_from_sessions(
    found: Found,
    plan: Plan,
    config: RunConfig,
    bank: Path,
    options: ExportOptions,
    callback: Callback,
    make: MakeModel = make_model,
) -> LearnReport:
    """Distill earlier sessions, test the proposals, and stage the proven skills.

    An interrupted command can be repeated: finished work is remembered.

    Args:
        found: The sessions.
        plan: Their split, of a round that has begun.
        config: Models and gates (`session_config`).
        bank: File of the bank; created if missing.
        options: Target folder of the skills.
        callback: Observer.
        make: Makes the models.

    Raises:
        TeacherDown: The teacher returned nothing usable.
        UsageError: Something in the configuration is missing or wrong, or the target folder was
            written or changed by others.
    """
    distilled, verdict = None, None
    with ExitStack() as held:
        held.enter_context(bank_work(bank))
        entries = held.enter_context(BankStore.open(bank)).log()[plan.round.logged :]
        judged = next((one.verdict for one in entries if one.verdict is not None), None)
    proposed = _proposed(entries)
    if judged is None and proposed is None:
        studied = StudiedRun(bank, tuple(_episodes(plan)), {}, success_threshold=1.0)
        study = StudySettings(
            models=StudyModels(teacher=teacher_of(config)),
            distill=config.distill,
            bank=config.bank,
            budget=config.budget,
        )
        distilled = await distill_runs([studied], bank, study, callback, make, SkillStatus.PENDING)
        with BankStore.open(bank, read_only=True) as bank_store:
            proposed = _proposed(bank_store.log()[plan.round.logged :])
    if judged is not None:
        verdict = Verdict.from_dict(judged)
    elif pending := _pending(bank, proposed or []):
        moved = await approve_by_gate(config, bank, pending, callback, make)
        verdict = moved.verdict
    report = replace(
        report_of(found, plan),
        distilled=distilled,
        verdict=verdict,
        is_scripted=any(llm.is_scripted for llm in (config.models.target, teacher_of(config))),
    )
    return await _end(report, plan, bank, options, callback)


def _proposed(entries: Sequence[LogEntry]) -> list[str] | None:
    """Return the skills that a round's distillation added; ``None`` if it has not ended."""
    kinds = (LogEvent.CHANGED, LogEvent.UNCHANGED)
    ended = next((one for one in entries if one.event in kinds and one.verdict is None), None)
    if ended is None:
        return None
    named = dict.fromkeys(
        str(one["skill"])
        for one in ended.outcomes
        if one["decision"] in (Decision.ADDED, Decision.MERGED)
    )
    return list(named)


def _pending(bank: Path, ids: Sequence[str]) -> list[str]:
    with BankStore.open(bank, read_only=True) as store:
        now = store.load()
    return [one for one in ids if now.get(one).status is SkillStatus.PENDING]


async def _end(
    report: LearnReport, plan: Plan, bank: Path, options: ExportOptions, callback: Callback
) -> LearnReport:
    """Stage adopted skills that are not staged, and close the round."""
    with bank_work(bank) as store, BankStore.open(bank) as bank_store:
        Stager(store, bank_store).finish()
        now = bank_store.load()
        known = in_effect(store)
        staged = None
        if now.active and skills_digest(now) != (known[-1].skills if known else ""):
            stager = Stager(store, bank_store, _version_before(bank_store, plan))

            def remembered(llm: ModelConfig, client: HttpClient) -> StoredCalls:
                return StoredCalls(options.make(llm, client), store, callback)

            taken = replace(options, write=stager.write, subject=SUBJECT, make=remembered)
            staged = await export_bank(now, str(bank), taken)
        with store.transaction(durable=True):
            if len(store.events(OVER)) < len(store.events(ROUND)):
                store.append_event(OVER, {"number": plan.round.number})
    is_adopted = report.verdict is not None and report.verdict.accepted
    because = "" if is_adopted or staged else _why_not_adopted(report)
    adopted = tuple(one.id for one in now.active) if is_adopted or staged else ()
    return replace(report, because=because, adopted=adopted, version=now.version, staged=staged)


def _version_before(bank_store: BankStore, plan: Plan) -> int:
    """Return the version before the round's verdict, else the one at its start."""
    entries = bank_store.log()[plan.round.logged :]
    made = [one.before for one in entries if one.verdict is not None and one.version > one.before]
    return made[0] if made else entries[0].before


def _why_not_adopted(report: LearnReport) -> str:
    if report.verdict is not None:
        return report.verdict.reason
    blocked = len(report.distilled.blocked) if report.distilled else 0
    return f"the teacher proposed nothing new that passes lint ({blocked} blocked)"


def report_of(found: Found, plan: Plan, because: str = "") -> LearnReport:
    """Count the sessions and requests before any model call."""
    return LearnReport(
        sessions=dict(Counter(one.client for one in found.sessions)),
        outcomes=dict(Counter(one.outcome.value for one in plan.requests)),
        checks=dict(Counter(one.check.kind for one in plan.requests if one.check and one.decides)),
        left_out=dict(sorted(found.left_out.counts.items())),
        tasks={split: plan.size(split) for split in ("train", "val", "test")},
        because=because,
    )


def roll_back_sessions(bank: Path, reason: str) -> Staging:
    """Undo the latest adoption: restore the folder and the bank's active skills.

    A missing adoption or a folder changed by hand is a `DataError`.
    """
    with bank_work(bank) as store, BankStore.open(bank) as bank_store:
        stager = Stager(store, bank_store)
        unfinished = stager.finish(reason)
        if unfinished is not None and unfinished.takes_back:
            return unfinished  # an interrupted command is repeated
        return stager.take_back(reason)


def settle(bank: Path) -> None:
    """Finish the folder change of an interrupted command, if there is one."""
    if has_work(bank) and bank.is_file():
        with bank_work(bank) as store, BankStore.open(bank) as bank_store:
            Stager(store, bank_store).finish()


def _episodes(plan: Plan) -> list[EpisodeResult]:
    """Return the requests of the train sessions with a known outcome as episodes."""
    return [
        _episode(one)
        for one in plan.requests
        if one.session in plan.round.train and one.outcome is not Outcome.UNKNOWN and one.prompt
    ]


def _episode(request: Request) -> EpisodeResult:
    name = f"{request.session}-{request.number}"
    task = Task(name, _ENV, description=request.prompt, split="train")
    content = [name, request.prompt, request.answer, *(map(repr, request.attempts))]
    reward = float(request.outcome is Outcome.SUCCESS)
    return EpisodeResult(
        EpisodeSpec(task, seed=0, phase=PHASE),
        reward=reward,
        trajectory=Trajectory(f"The user asks: {request.prompt}", tuple(_turns(request))),
        key=f"{PHASE}:{digest(content)}",
    )


def _turns(request: Request) -> list[Turn]:
    done = [
        (
            f"ran: {one.command}" if one.command else "ran a command",
            "" if one.code is None else f"exit code {one.code}",
        )
        for one in request.attempts
    ] or [("answered", "")]
    last, observed = done[-1]
    said = f"The user says: {request.answer}" if request.answer else request.because
    done[-1] = (last, "\n".join(filter(None, (observed, said))))
    return [Turn(index, (), Act(text), seen, 0.0) for index, (text, seen) in enumerate(done)]
