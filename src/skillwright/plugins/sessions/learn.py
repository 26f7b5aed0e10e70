"""Learn from session logs: requests become trajectories and tasks, proposals are tested, staged.

A session has no reward, so nothing is learned on its word. Earlier sessions are what the teacher
reads. Later ones hold what users corrected and approved by themselves; their requests are asked
again, with and without the proposed skills, and the release test over these pairs decides. A
session decides once: what later proposals are judged on decided nothing before.

Source: the idea of learning from logs in idle time is SkillOpt's Sleep; rules, splits and
test are ours.
"""

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from skillwright.bank import BankStore, Decision
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
    in_effect,
    skills_digest,
)
from skillwright.jobs.inspect import ExportedSkills, ExportOptions, export_bank
from skillwright.jobs.run import (
    Callback,
    MakeModel,
    bank_work,
    has_work,
    known_secrets,
    look_at_work,
    work_folder,
)
from skillwright.models import make_model
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
"""The events of sessions that were parted into those that teach and those that decide."""
PHASE: Final = "session"
SUBJECT: Final = "coding"
"""What a description calls the tasks."""
_ENV: Final = "table"
_TEST_SHARE: Final = 5
_LEAST_TRAIN: Final = 2
_PROMPT: Final = (
    "The user of a coding agent asks:\n\n{{ prompt }}\n\n"
    "Nothing can be run or read here. Write the commands that you would run for it."
)


@dataclass(frozen=True, slots=True)
class Round(JsonRecord):
    """Sessions, parted by time.

    Attributes:
        number: From 1, over the life of the bank.
        logged: Entries of the bank's log before it.
        train: Ids of the sessions that the teacher reads.
        val: Of those whose requests decide.
        test: Episodes left for the user's own measurement.
    """

    number: int
    logged: int
    train: tuple[str, ...]
    val: tuple[str, ...]
    test: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a command is going to do with sessions.

    Attributes:
        round: How they are parted.
        requests: All that were found.
        rows: The tasks, of all three splits.
        is_begun: An earlier command began this round, and was stopped.
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
    """What came of a command.

    Attributes:
        sessions: How many were found, by client.
        outcomes: Requests by outcome.
        checks: Requests that can be asked again, by kind of check.
        left_out: What was not read or kept, by reason.
        tasks: Tasks by split.
        because: Why nothing was adopted, or "".
        adopted: Ids of the skills that were adopted.
        version: The version of the bank now.
        distilled: Outcome of the teacher's proposals; ``None`` where it was not asked.
        verdict: What the release test said; ``None`` where it was not asked.
        staged: The folder that was written; ``None`` where none was.
        is_scripted: A scripted model took part, which must be said.
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
    """Part sessions into those that teach, decide and test; nothing is written.

    The newest half of the new sessions with a check is held out, the last fifth of it for test.
    What began before them teaches, and so does what taught or decided before. A request that
    teaches in the same words decides nothing.

    Args:
        found: The sessions.
        bank: The bank's file, which need not be there yet.
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
    """Return the rounds of a bank, and whether the last of them is over."""
    if not has_work(bank):
        return [], True
    with look_at_work(bank) as store:
        rounds = [Round.from_dict(event.payload) for event in store.events(ROUND)]
        return rounds, len(rounds) == len(store.events(OVER))


def _rows(parted: Round, requests: Sequence[Request]) -> tuple[dict[str, str], ...]:
    """Make the tasks: a request that is asked in two splits is in the one that teaches."""
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
    """Return the file with the tasks of a round."""
    return work_folder(bank) / f"sessions-{number:04d}.jsonl"


def session_config(
    config: Path, bank: Path, plan: Plan, teacher: str | None, overrides: Sequence[str]
) -> RunConfig:
    """Read who acts, teaches and decides; what is played are the requests of a plan.

    Args:
        config: A configuration without ``env``.
        bank: The bank's file.
        plan: What is asked.
        teacher: Who writes skills, in the place of the configuration's.
        overrides: ``section.key=value`` settings.

    Raises:
        ConfigError: The file or a setting is wrong, or it names an environment.
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
    """Write the tasks and the split of a round down; say why it is not worth it, or return "".

    Raises:
        BankError: Another process works on the bank, or its folder cannot be written.
    """
    gate = config.evaluation.gate
    ledger = gate.ledger(config.evaluation.alpha, 1)
    if problem := why_hopeless(gate, ledger, plan.size("val")):
        return f"no proposal could pass: {problem}. More sessions are needed"
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
    """Have a teacher read earlier sessions, test what it proposes, and stage what is proven.

    A command that was stopped is given again: what was asked, played and decided is remembered.

    Args:
        found: The sessions.
        plan: How they are parted; the round is begun.
        config: Who acts, teaches and decides (`session_config`).
        bank: The bank's file; made where it is not there.
        options: Where the folder of skills is written.
        callback: Sees what happens.
        make: Makes the models.

    Raises:
        TeacherDown: The teacher gave nothing usable.
        UsageError: Something that the configuration names is missing or wrong, or what lies in the
            place of the folder was not written by us, or was changed.
    """
    distilled, verdict = None, None
    with ExitStack() as held:
        held.enter_context(bank_work(bank))
        entries = held.enter_context(BankStore.open(bank)).log()[plan.round.logged :]
        judged = next((one.verdict for one in entries if one.verdict is not None), None)
    if judged is None:
        studied = StudiedRun(bank, tuple(_episodes(plan)), {}, success_threshold=1.0)
        study = StudySettings(
            models=StudyModels(teacher=teacher_of(config)),
            distill=config.distill,
            bank=config.bank,
            budget=config.budget,
        )
        distilled = await distill_runs([studied], bank, study, callback, make, SkillStatus.PENDING)
        if proposed := _proposed(bank):
            moved = await approve_by_gate(config, bank, proposed, callback, make)
            verdict = moved.verdict
    else:
        verdict = Verdict.from_dict(judged)
    report = replace(
        report_of(found, plan),
        distilled=distilled,
        verdict=verdict,
        is_scripted=any(llm.is_scripted for llm in (config.models.target, teacher_of(config))),
    )
    return await _end(report, plan, bank, options)


def _proposed(bank: Path) -> list[str]:
    """Return the pending skills that the latest distillation proposed, or proposed again."""
    with BankStore.open(bank, read_only=True) as store:
        now, outcomes = store.load(), store.log()[-1].outcomes
    named = dict.fromkeys(
        str(one["skill"])
        for one in outcomes
        if one["decision"] in (Decision.ADDED, Decision.MERGED)
    )
    return [one for one in named if now.get(one).status is SkillStatus.PENDING]


async def _end(report: LearnReport, plan: Plan, bank: Path, options: ExportOptions) -> LearnReport:
    """Stage what is adopted and not staged, and close the round."""
    with bank_work(bank) as store, BankStore.open(bank) as bank_store:
        Stager(store, bank_store).finish()
        now = bank_store.load()
        known = in_effect(store)
        staged = None
        if now.active and skills_digest(now) != (known[-1].skills if known else ""):
            stager = Stager(store, bank_store, _version_before(bank_store, plan))
            taken = replace(options, write=stager.write, subject=SUBJECT)
            staged = await export_bank(now, str(bank), taken)
        with store.transaction(durable=True):
            if len(store.events(OVER)) < len(store.events(ROUND)):
                store.append_event(OVER, {"number": plan.round.number})
    is_adopted = report.verdict is not None and report.verdict.accepted
    because = "" if is_adopted or staged else _why_not_adopted(report)
    adopted = tuple(one.id for one in now.active) if is_adopted or staged else ()
    return replace(report, because=because, adopted=adopted, version=now.version, staged=staged)


def _version_before(bank_store: BankStore, plan: Plan) -> int:
    """Return the version before the one that the round's verdict made, else that of its begin."""
    entries = bank_store.log()[plan.round.logged :]
    made = [one.before for one in entries if one.verdict is not None and one.version > one.before]
    return made[0] if made else entries[0].before


def _why_not_adopted(report: LearnReport) -> str:
    if report.verdict is not None:
        return report.verdict.reason
    blocked = len(report.distilled.blocked) if report.distilled else 0
    return f"the teacher proposed nothing new that passes lint ({blocked} blocked)"


def report_of(found: Found, plan: Plan, because: str = "") -> LearnReport:
    """Count what was found; nothing was asked yet."""
    return LearnReport(
        sessions=dict(Counter(one.client for one in found.sessions)),
        outcomes=dict(Counter(one.outcome.value for one in plan.requests)),
        checks=dict(Counter(one.check.kind for one in plan.requests if one.check and one.decides)),
        left_out=dict(sorted(found.left_out.counts.items())),
        tasks={split: plan.size(split) for split in ("train", "val", "test")},
        because=because,
    )


def roll_back_sessions(bank: Path, reason: str) -> Staging:
    """Take the latest adoption back: the folder, byte for byte, and the bank's active skills.

    Raises:
        DataError: Nothing is adopted, or the folder was changed by hand since.
        BankError: Another process works on the bank.
    """
    with bank_work(bank) as store, BankStore.open(bank) as bank_store:
        stager = Stager(store, bank_store)
        unfinished = stager.finish(reason)
        if unfinished is not None and unfinished.takes_back:
            return unfinished  # this command was killed, and is given again
        return stager.take_back(reason)


def settle(bank: Path) -> None:
    """Finish the change of a folder in which an earlier command was killed, where there is one."""
    if has_work(bank) and bank.is_file():
        with bank_work(bank) as store, BankStore.open(bank) as bank_store:
            Stager(store, bank_store).finish()


# Requests as episodes that a teacher reads.


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
