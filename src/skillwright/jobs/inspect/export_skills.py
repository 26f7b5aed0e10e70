"""Export a bank or a document as folders of skills for coding agents, with its evidence."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Final, Literal

from pydantic import ValidationError

from skillwright.asking import AskFault
from skillwright.bank import (
    Bank,
    BankStore,
    SkillFolder,
    Teacher,
    document_folder,
    lint,
    load_bank,
    to_agent_skills,
    write_agent_skills,
)
from skillwright.bank.formats.agent_skills import (
    EVIDENCE_FILE,
    check_name,
    names_of,
    skill_name,
    why_live,
    words_of_skills,
)
from skillwright.bank.teaching.describe import ask_for_description
from skillwright.bank.triggers import (
    Described,
    TaskWords,
    TriggerScore,
    describe,
    plain_prose,
    trigger_test,
)
from skillwright.config import RunConfig, load_config
from skillwright.core import (
    BankSkill,
    ModelError,
    PlainSkill,
    Sampling,
    SkillKind,
    SkillwrightError,
    UsageError,
    skill_hash,
)
from skillwright.core.jsonio import encode
from skillwright.jobs.bank.evolve import SETTINGS
from skillwright.jobs.inspect.evidence import Evidence, NoEvidence
from skillwright.jobs.inspect.pairs import (
    Decided,
    decision_on_bank,
    decision_on_document,
    evidence_facts,
    find_evidence,
    gate_facts,
    val_tasks,
)
from skillwright.jobs.inspect.signatures import read_private_key, sign
from skillwright.jobs.run.bank_source import (
    KEPT_BANK,
    DocumentAndBank,
    bank_source,
    opened_embedder,
    work_folder,
)
from skillwright.jobs.run.launch import read_initial_skill
from skillwright.jobs.run.resources import MakeModel
from skillwright.jobs.run.tasks import make_splits
from skillwright.jobs.text.state import restore
from skillwright.models import HttpClient, ModelConfig, make_model
from skillwright.runs import RunStore
from skillwright.runs.folder import CONFIG_NAME, STORE_NAME


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """How skills are exported.

    Attributes:
        place: The folder that holds folders of skills.
        name: The folder's name; "" derives one.
        asks_model: Whether the optimizer's model may write the description.
        subject: The name of the tasks in a bank's description; "" for their environment's name.
        sign_with: File of an Ed25519 key that signs the evidence.
    """

    place: Path
    name: str = ""
    asks_model: bool = True
    make: MakeModel = make_model
    write: Callable[[SkillFolder, Path], Path] = write_agent_skills
    subject: str = ""
    sign_with: Path | None = None


@dataclass(frozen=True, slots=True)
class ExportedSkills:
    """A folder that was written.

    Attributes:
        description: The description that agents see.
        described_by: The model that wrote the description, or ``words``.
        files: Number of files.
        facts: The metadata.
        trigger: Scores of the description as a trigger; ``None`` without held-out tasks.
        notes: Notes for users of the export.
        left_out: Reasons of lint to leave skills out, by id.
    """

    folder: Path
    description: str
    described_by: str
    files: int
    facts: dict[str, str]
    trigger: TriggerScore | None
    notes: tuple[str, ...]
    left_out: dict[str, list[str]]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return {
            **{name: encode(getattr(self, name)) for name in self.__slots__},
            "folder": str(self.folder),
        }


async def export_document(
    text: str, run: Path | None, version: int, options: ExportOptions
) -> ExportedSkills:
    """Write a skill document as a folder of Agent Skills.

    Args:
        text: The document.
        run: The folder of its run; ``None`` for a separate file.
        version: Its version in that run.
        options: The folder and the description.

    Raises:
        UsageError: The folder cannot be written, or the document is empty.
    """
    tasks, facts, notes = KnownTasks(), {"proven": "no"}, list[str]()
    found: Evidence | str = ""
    llm: ModelConfig | None = None
    stem = ""
    if run is not None and not text.strip():
        raise UsageError(
            f"{run.name}@{version} is empty, so there is nothing to export. {_other(run)}"
        )
    if run is None:
        notes.append("it is of no run, so nothing proves it and no task is known")
    else:
        config, stem = load_config(run / CONFIG_NAME), run.name
        llm = config.models.optimizer
        with RunStore.open(run / STORE_NAME, read_only=True) as store:
            tasks = known_tasks(store)
            found, said = await document_evidence(config, store, run, version)
            facts = _proof(found, said, notes) | _caveats(config, store, version, notes)
        facts |= {"run": run.name, "skill-version": str(version)}
    facts["skill-hash"] = skill_hash(text)
    name = check_name(options.name or skill_name(env_words(tasks.env), stem))
    words = _words(tasks, about(text), text)
    notes += _warnings(text)
    written, by = await _describe(words, llm, options, notes)
    folder = document_folder(text, name, written)
    return _write(folder, tasks, facts, (by, notes, (found, text)), options)


async def export_bank(bank: Bank, where: str, options: ExportOptions) -> ExportedSkills:
    """Write the active skills of a bank as a folder of Agent Skills.

    Args:
        bank: The bank, at the version to export.
        where: The bank as it was named: a file, an export, or ``seed:NAME``.
        options: The folder and the description.

    Raises:
        UsageError: The folder cannot be written, or there is no skill to export.
    """
    path, is_seed = Path(where), where.startswith("seed:")
    stem = where.partition(":")[2] if is_seed else path.stem
    tasks, facts, notes = KnownTasks(), {"proven": "no"}, list[str]()
    found: Evidence | str = ""
    llm: ModelConfig | None = None
    if played := _played_for(path):
        with RunStore.open(played, read_only=True) as store:
            tasks, config = known_tasks(store), _settings(store, played.parent)
            llm = config.models.teacher or config.models.optimizer if config else None
            found, said = await _bank_evidence(config, store, path, bank.version)
            facts = _proof(found, said, notes)
    else:
        notes.append("nothing was played for it here, so nothing proves it and no task is known")
    subject = options.subject or env_words(tasks.env)
    title = " ".join(dict.fromkeys([*subject.split(), *stem.split("_")]))
    name = check_name(options.name or skill_name(title))
    skills = bank.active
    words = words_of_skills(skills, title)
    if tasks.goals:
        words = _words(replace(tasks, env=subject), names_of(skills))
    written, by = await _describe(words, llm, options, notes)
    folder = replace(to_agent_skills(bank, options.name or title, written), name=name)
    facts |= {"bank-hash": bank.digest, "skills": str(len(skills) - len(folder.left_out))}
    return _write(folder, tasks, facts, (by, notes, (found, "")), options)


def _other(run: Path) -> str:
    """Say which version of a run to export in the place of an empty one."""
    with RunStore.open(run / STORE_NAME, read_only=True) as store:
        proven = restore(load_config(run / CONFIG_NAME), store).proven_version
    if proven:
        return (
            f"{run.name}@{proven} was proven better: name it, or release it with `skill restore`."
        )
    return (
        f"`skillwright runs show {run.name}` says why no later version was proven better; "
        f"name one all the same, as {run.name}@1, and the folder says that it is not proven."
    )


Client = Literal["claude", "codex", "agents"]
PLACES: Final[dict[str, Path]] = {
    "claude": Path(".claude/skills"),
    "codex": Path(".agents/skills"),
    "agents": Path(".agents/skills"),
}
"""The folder of each client for the skills of a project."""
_MOST_TASKS = 200
_MOST_TYPES = 8
_ANSWER_TOKENS = 2_048
_CAVEAT_CHARS = 300
_FORM_OF_DOCUMENTS = frozenset({"too_long", "line_break"})
_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class KnownTasks:
    """Tasks with episodes in a store.

    Attributes:
        goals: One line per train task.
        prompts: Prompts of train tasks.
        held_out: Other prompts, of val tasks.
    """

    env: str = ""
    agent: str = ""
    types: tuple[str, ...] = ()
    goals: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()
    held_out: tuple[str, ...] = ()


def known_tasks(store: RunStore) -> KnownTasks:
    """Read the prompts of train and val tasks from a store."""
    first: dict[tuple[str, str], int] = {}
    env = agent = ""
    types: dict[str, None] = {}
    for one in store.episodes():
        env, agent = one.env, one.agent or agent
        if one.reward is not None and one.split in ("train", "val"):
            first.setdefault((one.split, one.task_id), one.id)
            types[one.task_type] = None
    found: dict[str, list[tuple[str, str]]] = {"train": [], "val": []}
    for (split, _), episode in sorted(first.items()):
        if len(found[split]) < _MOST_TASKS:
            result = store.load_window(episode, 0, 0)
            goal = result.spec.task.description.strip()
            prompt = result.trajectory.opening.strip() or goal
            if prompt:
                found[split].append((goal or prompt, prompt))
    goals, prompts = (tuple(dict.fromkeys(one[at] for one in found["train"])) for at in (0, 1))
    held_out = dict.fromkeys(prompt for _, prompt in found["val"] if prompt not in prompts)
    return KnownTasks(env, agent, tuple(filter(None, types)), goals, prompts, tuple(held_out))


def env_words(env: str) -> str:
    """Return an environment's name as words: of ``a.py:MyEnv`` only ``My Env``."""
    short = env.rpartition(":")[2].rpartition("/")[2].removesuffix(".py")
    return " ".join(re.sub(r"(?<=[a-z])(?=[A-Z])|[_-]", " ", short).split())


def _words(tasks: KnownTasks, about: Sequence[str], text: str = "") -> TaskWords:
    env = env_words(tasks.env) or "these"
    types = [one.replace("_", " ") for one in tasks.types[:_MOST_TYPES]]
    subject = plain_prose(f"{env} tasks{': ' + ', '.join(types) if types else ''}", 200)
    if tasks.prompts:
        return TaskWords(subject, about, (*tasks.goals, *tasks.prompts), tasks.goals)
    lines = [line.strip("-*#> ").strip() for line in text.splitlines()]
    said = [one for one in lines if one]
    return TaskWords("the tasks that it names", about, said, are_quoted=False)


def about(text: str) -> list[str]:
    """Return a document's headings, else its first lines."""
    headings = [plain_prose(one, 80) for one in _HEADING.findall(text)]
    lines = [plain_prose(line.strip("-*> "), 80) for line in text.splitlines() if line.strip()]
    return [one for one in headings or lines[:3] if one]


def _warnings(text: str) -> list[str]:
    """Return lint's findings in a document, which is exported unchanged."""
    notes = []
    if live := why_live(text):
        notes.append(
            f"a client could act on {live[:40]!r}, so the text lies in references/skill.md"
        )
    for number, line in enumerate(text.splitlines(), start=1):
        drafted = BankSkill("", "A line", line.strip("#> \t") or "-", "", SkillKind.GENERAL)
        found = [one for one in lint(drafted) if one.blocks and one.rule not in _FORM_OF_DOCUMENTS]
        notes += [f"line {number}, {one.rule}: {one.span!r}. {one.why}" for one in found]
    return notes


async def _describe(
    words: TaskWords, llm: ModelConfig | None, options: ExportOptions, notes: list[str]
) -> tuple[str, str]:
    """Return a description and its author: a model, or ``words`` of the tasks without one."""
    from_words = describe(words)
    if llm is None or not options.asks_model or llm.is_scripted or not words.prompts:
        return from_words, "words"
    name = name_of(llm)
    try:
        written = await _asked(llm, options.make, words)
    except (ModelError, UsageError) as problem:
        written, why = None, str(problem)
    else:
        why = written.failure.message if isinstance(written, AskFault) else ""
    if isinstance(written, str):
        return written, name
    notes.append(f"{name} wrote no description ({why}), so it is made of the tasks' words")
    return from_words, "words"


async def _asked(llm: ModelConfig, make: MakeModel, words: TaskWords) -> str | AskFault:
    async with HttpClient() as client:
        shown = replace(words, prompts=words.examples or words.prompts)
        return await ask_for_description(teacher_of(llm, make, client), shown)


def teacher_of(llm: ModelConfig, make: MakeModel, client: HttpClient) -> Teacher:
    """Return a model that is asked about descriptions."""
    most = getattr(llm, "max_tokens", None) or _ANSWER_TOKENS
    return Teacher(make(llm, client), sampling=Sampling(max_tokens=most), seed=None)


def name_of(llm: ModelConfig) -> str:
    """Return a model's name for people."""
    return f"{llm.backend}:{getattr(llm, 'model', '')}"


async def document_evidence(
    config: RunConfig, store: RunStore, run: Path, version: int
) -> tuple[Evidence | str, Any]:
    """Return the evidence, or the reason why there is none; and the verdict if known."""
    verdict: Any = None
    try:
        with ExitStack() as held:
            source: Any = PlainSkill
            if config.skill.bank:
                embedder = held.enter_context(opened_embedder(config.bank.embedder))
                kept = load_bank(run / KEPT_BANK)
                skills = bank_source(kept, config.bank, embedder)
                source = partial(DocumentAndBank, bank=skills)
            decided = decision_on_document(config, store, version, source)
            verdict = decided.verdict
            return await _found(decided, config, store), verdict
    except SkillwrightError as problem:
        return str(problem), verdict


async def _bank_evidence(
    config: RunConfig | None, store: RunStore, path: Path, version: int
) -> tuple[Evidence | str, Any]:
    verdict: Any = None
    try:
        with ExitStack() as held:
            banks = held.enter_context(BankStore.open(path, read_only=True))
            moved = [one for one in banks.log() if one.version > one.before and one.verdict]
            entry = next((one for one in reversed(moved) if one.version == version), None)
            if entry is None:
                raise NoEvidence(f"no gate let version {version} of the bank through")
            verdict = entry.verdict
            if config is None:
                raise NoEvidence("what it was proven with is not stored next to the bank")
            embedder = held.enter_context(opened_embedder(config.bank.embedder))
            document = read_initial_skill(config)

            def source(one: Bank) -> DocumentAndBank:
                return DocumentAndBank(document, bank_source(one, config.bank, embedder))

            decided = decision_on_bank(config, store, banks, entry, source)
            return await _found(decided, config, store), verdict
    except SkillwrightError as problem:
        return str(problem), verdict


async def _found(decided: Decided, config: RunConfig, store: RunStore) -> Evidence:
    """Find evidence, with the val tasks in the order of the split if known."""
    try:
        tasks = list(make_splits(config).val.tasks)
    except SkillwrightError:
        tasks = val_tasks(store)
    return await find_evidence(decided, config, store, tasks)


def _proof(found: Evidence | str, verdict: Any, notes: list[str]) -> dict[str, str]:
    """Return metadata; a note says why pairs are missing."""
    facts = gate_facts(encode(verdict) if verdict is not None else {})
    if not isinstance(found, str):
        return {**facts, **evidence_facts(found)}
    notes.append(f"the paired scores behind it are left out: {found}")
    return facts


def _caveats(config: RunConfig, store: RunStore, version: int, notes: list[str]) -> dict[str, str]:
    """Return metadata about what speaks against a released version, and note it."""
    facts = restore(config, store).caveats_of(version)
    notes += facts.values()
    return {key: plain_prose(one, _CAVEAT_CHARS) for key, one in facts.items()}


def evidence_text(
    found: Evidence, files: Mapping[str, bytes], text: str, sign_with: Path | None
) -> str:
    """Return the file with the evidence of a folder.

    Args:
        found: The evidence of a decision.
        files: The other files of the folder, by path.
        text: The text that was tested; "" for a bank.
        sign_with: File of the key that signs it.

    Raises:
        UsageError: The key cannot be read.
    """
    placed = found.for_files(files, text)
    signed = placed if sign_with is None else sign(placed, read_private_key(sign_with))
    return signed.as_file


def with_evidence(
    folder: SkillFolder, found: Evidence, text: str, sign_with: Path | None = None
) -> SkillFolder:
    """Return a folder with its evidence; see `evidence_text`."""
    blank = replace(folder, references={**folder.references, EVIDENCE_FILE: ""})
    files = {name: body.encode() for name, body in blank.files.items() if name != EVIDENCE_FILE}
    proof = evidence_text(found, files, text, sign_with)
    return replace(blank, references={**folder.references, EVIDENCE_FILE: proof})


def _played_for(bank: Path) -> Path | None:
    """Return the folder of a bank's episodes: next to its file, or the run that it lies in."""
    places = (work_folder(bank) / STORE_NAME, bank.parent.parent / STORE_NAME)
    return next((one for one in places if bank.is_file() and one.is_file()), None)


def _settings(store: RunStore, folder: Path) -> RunConfig | None:
    """Return the configuration of the last command that evolved a bank."""
    stored = [one.payload for one in store.events(SETTINGS)]
    if not stored:
        return None
    try:
        return RunConfig.model_validate(stored[-1])
    except (ValidationError, UsageError):
        return None


def _write(
    folder: SkillFolder,
    tasks: KnownTasks,
    facts: dict[str, str],
    made: tuple[str, list[str], tuple[Evidence | str, str]],
    options: ExportOptions,
) -> ExportedSkills:
    by, notes, (evidence, text) = made
    if isinstance(evidence, str) and options.sign_with is not None:
        raise UsageError(f"there is no evidence to sign: {evidence or 'nothing proves it'}")
    score = None
    if tasks.held_out:
        described = Described(folder.name, folder.description, tasks.held_out)
        score = trigger_test([described])[0]
        facts |= {
            "trigger-f1": f"{score.f1:.3f}",
            "trigger-precision": f"{score.precision:.3f}",
            "trigger-recall": f"{score.recall:.3f}",
            "trigger-tasks": f"{score.own} own, {score.others} of {score.neighbors} other skills",
        }
    facts = {"described-by": by, **folder.metadata, **facts}
    if tasks.env:
        facts = {"env": PurePosixPath(tasks.env).name, "agent": tasks.agent, **facts}
        facts |= {"scripted": "yes"} if tasks.agent.startswith("scripted:") else {}
    facts = {key: plain_prose(value, 200) for key, value in facts.items()}
    whole = replace(folder, metadata=facts)
    if not isinstance(evidence, str):
        whole = with_evidence(whole, evidence, text, options.sign_with)
    path = options.write(whole, options.place)
    left_out = {key: [str(one) for one in found] for key, found in folder.left_out.items()}
    return ExportedSkills(
        path, folder.description, by, len(whole.files), facts, score, tuple(notes), left_out
    )
