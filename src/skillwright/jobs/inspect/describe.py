"""Train the description of a skill's folder on requests that should and should not open it.

Half of the requests are read to write candidates, and the other half, held out, is drawn by the
paired gate: old and new description, the same requests. A model chooses among the skills where
there is one, else the lexical retriever (`lexical_choice`).
"""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import yaml

from skillwright.asking import AskFault
from skillwright.bank import Teacher
from skillwright.bank.formats.agent_skills import (
    EVIDENCE_FILE,
    exported_files,
    is_ours,
    read_frontmatter,
    sealed,
    skill_files,
)
from skillwright.bank.formats.description import with_description
from skillwright.bank.teaching.describe import ask_for_description, ask_which_opens
from skillwright.bank.triggers import (
    DESCRIPTION_LIMIT,
    Described,
    TaskWords,
    describe,
    lexical_choice,
    neighbors,
    plain_prose,
    typical_words,
    unfit_for_description,
)
from skillwright.config.run import RunConfig
from skillwright.core import (
    DataError,
    EpisodeResult,
    EpisodeSpec,
    Failure,
    ModelError,
    Pair,
    Task,
    UsageError,
)
from skillwright.core.concurrency import together
from skillwright.core.jsonio import JsonRecord, read_text, text_digest
from skillwright.core.skill_file import SKILL_FILE
from skillwright.datasets.clusters import near_clusters
from skillwright.datasets.evals_files import LISTS, OPENS, PROMPTS
from skillwright.evaluation import AlphaLedger, PairedGate, Terms, Verdict, tasks_needed
from skillwright.jobs.inspect.evidence import Evidence, files_of
from skillwright.jobs.inspect.export_skills import about, name_of, teacher_of
from skillwright.jobs.inspect.write_back import write_files
from skillwright.jobs.run import MakeModel, make_splits
from skillwright.models import HttpClient, ModelConfig, make_model

ALPHA: Final = 0.05
_ROUNDS: Final = 3  # candidates that a model writes
_DRAWS: Final = 2  # per held-out request and side, of a model
_AT_ONCE: Final = 8
_MOST_HEADINGS: Final = 12
_MOST_TASKS: Final = 40  # of a configuration, per split
_MOST_RIVALS: Final = 30  # that a model sees
_LISTS: Final = (*LISTS, "triggers", "trigger_evals", "queries")
_FILES: Final = ("evals/*.json", "evals/*.y*ml", "evals.json", "tests/eval.y*ml", "*trigger*.json")


@dataclass(frozen=True, slots=True)
class Request(JsonRecord):
    """A request of a user, and whether it should open the skill."""

    text: str
    opens: bool


@dataclass(frozen=True, slots=True)
class DescribePlan:
    """What a description is trained with.

    Attributes:
        folder: The folder of the skill.
        queries: Files with requests, apart from those in the folder.
        config: A configuration whose tasks should open the skill.
        writer: The model that writes candidates; ``None`` composes them of the requests' words.
        chooser: The model that chooses a skill; ``None`` for the lexical test.
    """

    folder: Path
    queries: Sequence[Path] = ()
    config: RunConfig | None = None
    writer: ModelConfig | None = None
    chooser: ModelConfig | None = None
    make: MakeModel = make_model


@dataclass(frozen=True, slots=True)
class NewDescription(JsonRecord):
    """The outcome; shares are of held-out requests that were decided rightly.

    Attributes:
        new: The best candidate; equal to ``old`` if none was better on the requests that were read.
        decided_by: The model that chose, or ``the lexical test``.
        written_by: The model that wrote the candidates, or ``words``.
        opening: Requests that should open the skill.
        others: Requests that should not.
        rivals: Skills that compete with it.
        held_out: Requests that the gate drew.
        verdict: The gate's; ``None`` if nothing better was found.
        content: SKILL.md with the new description, if it is proven better.
        notes: Notes for people.
    """

    folder: str
    old: str
    new: str
    decided_by: str
    written_by: str
    opening: int
    others: int
    rivals: int
    held_out: int
    verdict: Verdict | None = None
    content: str = ""
    notes: tuple[str, ...] = ()

    @property
    def is_proven(self) -> bool:
        """Whether the new description is proven better."""
        return self.verdict is not None and self.verdict.accepted


async def train_description(plan: DescribePlan) -> NewDescription:
    """Find a better description, and judge it on held-out requests; nothing is written.

    Raises:
        DataError: The folder or a file cannot be read, or no request should open the skill.
        UsageError: There are too few requests to prove anything.
        ModelError: The model that chooses decided no request.
    """
    file = plan.folder / SKILL_FILE
    text = _raw(file)
    old = _described(file)
    with_description(text, old.description or "A skill.", str(file))  # refuses before any call
    headings = about(read_frontmatter(text, str(file))[1])[:_MOST_HEADINGS]
    near = [_described(one) for one in _neighbors(plan.folder)]
    notes: list[str] = []
    read, held = _halves(_requests(plan, notes), near, notes)
    rivals = [one for one in (*near, *neighbors()) if one.name != old.name]
    async with HttpClient() as client:
        writer, model = (
            None if one is None else (teacher_of(one, plan.make, client), name_of(one))
            for one in (plan.writer, plan.chooser)
        )
        chooser = _Chooser(old.name, rivals, *(model or (None, "the lexical test")))
        best, right = await _best(old, headings, chooser, writer, read, notes)
        found = NewDescription(
            str(plan.folder),
            old.description,
            best,
            chooser.by,
            "words" if writer is None else writer[1],
            sum(one.opens for one in (*read, *held)),
            sum(not one.opens for one in (*read, *held)),
            len(near),
            len(held),
            notes=tuple(dict.fromkeys(notes)),
        )
        if best == old.description:
            said = f"no candidate decides more of the {len(read)} requests that were read rightly"
            return replace(found, notes=(*found.notes, f"{said} than {right:.0%}"))
        duel = _Descriptions(chooser, held, (old.description, best))
        gate = PairedGate(draws=1 if plan.chooser is None else _DRAWS, metric="soft")
        verdict = await gate.judge(duel, AlphaLedger(ALPHA, 1), Terms(clusters=duel.clusters))
    content = with_description(text, best, str(file)) if verdict.accepted else ""
    return replace(found, verdict=verdict, content=content)


def write_description(found: NewDescription) -> list[str]:
    """Write a proven description; return notes on what else had to follow.

    The content hash of an export and the evidence follow, if they were right before.

    Raises:
        UsageError: The folder cannot be written.
    """
    folder, notes = Path(found.folder), list[str]()
    changed = {SKILL_FILE: found.content}
    if (evidence := _evidence_of(folder)) is not None:
        files = files_of(folder)
        tested = evidence.tested_text(files)
        after = evidence.for_files({**files, SKILL_FILE: found.content.encode()}, tested)
        changed[EVIDENCE_FILE] = after.as_file
        if evidence.signature is not None:
            notes.append("its signature is gone: it was over the old description; sign it again")
    fields, _ = read_frontmatter(found.content, SKILL_FILE)
    if is_ours(fields):
        listed, _ = exported_files(folder, fields["metadata"])
        whole = {one: read_text(folder / one, "file") for one in listed} | changed
        changed[SKILL_FILE] = sealed(whole)[SKILL_FILE]
    try:
        write_files(folder, changed)
    except OSError as error:
        raise UsageError(f"{str(folder)!r} cannot be written: {error}") from error
    return notes


def _evidence_of(folder: Path) -> Evidence | None:
    """Return the evidence of a folder if it is the evidence of these files."""
    file = folder / EVIDENCE_FILE
    if not file.is_file():
        return None
    try:
        found = Evidence.read(read_text(file, "evidence"), EVIDENCE_FILE)
        return None if found.why_not_of(files_of(folder)) else found
    except DataError:
        return None


def _raw(file: Path) -> str:
    """Read a SKILL.md with its line ends.

    Raises:
        DataError: There is none.
    """
    if not file.is_file():
        inner = next((one.parent for one in skill_files(file.parent)), None)
        hint = f"name one of the skills in it, such as {str(inner)!r}" if inner else "name another"
        raise DataError(f"{str(file.parent)!r} is a folder without a {SKILL_FILE}; {hint}")
    return read_text(file, "skill file")


def _described(file: Path) -> Described:
    fields, _ = read_frontmatter(read_text(file, "skill file"), str(file))
    name, said = fields.get("name"), fields.get("description")
    own = (one.text for one in _own_requests(file.parent) if one.opens)
    return Described(str(name or file.parent.name), " ".join(str(said or "").split()), tuple(own))


def _neighbors(folder: Path) -> Iterator[Path]:
    """Yield the SKILL.md of the readable skills next to a folder."""
    here = folder.resolve()
    for one in sorted(here.parent.iterdir()) if here.parent != here else ():
        file = one / SKILL_FILE
        if one != here and file.is_file():
            try:
                _described(file)
            except DataError:
                continue
            yield file


def _requests(plan: DescribePlan, notes: list[str]) -> list[Request]:
    """Return the requests of the folder, of further files, and of a configuration's tasks."""
    found = list(_own_requests(plan.folder))
    for path in plan.queries:
        found += requests_in(path)
    if plan.config is not None:
        splits = make_splits(plan.config)
        tasks = [*splits.train.tasks[:_MOST_TASKS], *splits.val.tasks[:_MOST_TASKS]]
        found += [
            Request(one.description.strip(), True) for one in tasks if one.description.strip()
        ]
    both = {one.text for one in found if one.opens} & {one.text for one in found if not one.opens}
    if both:
        notes.append(f"{len(both)} requests are said to open it and not to; they are left out")
    return list({one.text: one for one in found if one.text not in both}.values())


def _own_requests(folder: Path) -> Iterator[Request]:
    for pattern in _FILES:
        for path in sorted(folder.glob(pattern)):
            yield from requests_in(path)


def requests_in(path: Path) -> list[Request]:
    """Read requests from a file of evals or triggers, in JSON or YAML.

    A case is an object with a text (``query``, ``prompt``, ...). It should open the skill, unless
    ``should_trigger`` says otherwise.

    Raises:
        DataError: It cannot be read, or a case has another form.
    """
    text = read_text(path, "file of requests").removeprefix("\ufeff")
    try:
        data = yaml.safe_load(text) if path.suffix in (".yaml", ".yml") else json.loads(text)
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise DataError(f"{str(path)!r} cannot be read: {error}") from error
    if isinstance(data, Mapping):
        data = next((data[key] for key in _LISTS if isinstance(data.get(key), list)), None)
    if not isinstance(data, list):
        raise DataError(
            f"{str(path)!r} holds no list of requests; write "
            '[{"query": "...", "should_trigger": true}, ...]'
        )
    return [_request(one, f"{str(path)!r}, case {at}") for at, one in enumerate(data, start=1)]


def _request(case: Any, where: str) -> Request:
    if isinstance(case, str):
        return Request(case.strip(), True)
    text = next((case[key] for key in PROMPTS if key in case), "") if isinstance(case, dict) else ""
    if not isinstance(text, str) or not text.strip():
        raise DataError(f"{where} has no text; write it under 'query'")
    opens = next((case[key] for key in OPENS if key in case), True)
    if isinstance(opens, str) and opens.strip().lower() in ("true", "false", "yes", "no"):
        opens = opens.strip().lower() in ("true", "yes")
    if not isinstance(opens, bool):
        raise DataError(f"{where}: should_trigger is {opens!r}; it is true or false")
    return Request(text.strip(), opens)


def _halves(
    given: Sequence[Request], near: Sequence[Described], notes: list[str]
) -> tuple[list[Request], list[Request]]:
    """Divide requests into those that are read and those that are held out, evenly by kind.

    Raises:
        UsageError: None should open the skill, or too few are left to prove anything.
    """
    opening = [one for one in given if one.opens]
    if not opening:
        raise UsageError(
            "no request is known that should open the skill; write some into "
            'evals/triggers.json, as [{"query": "...", "should_trigger": true}, ...], or name a '
            "configuration of its tasks with --config"
        )
    others = [one for one in given if not one.opens]
    others += [Request(text, False) for one in near for text in one.tasks]
    if len(others) < len(opening):
        more = [text for one in neighbors() for text in one.tasks]
        more.sort(key=text_digest)
        added = more[: len(opening) - len(others)]
        others += [Request(text, False) for text in added]
        notes.append(f"{len(added)} requests that should not open it are of built-in other skills")
    read, held = list[Request](), list[Request]()
    for kind in (opening, others):
        ordered = sorted(
            {one.text: one for one in kind}.values(), key=lambda one: text_digest(one.text)
        )
        held += ordered[::2]
        read += ordered[1::2]
    needed = tasks_needed(ALPHA)
    if len(held) < needed:
        raise UsageError(
            f"{len(given)} requests are too few: of {len(held)} that are held out nothing can be "
            f"proven, and {needed} are needed; write {2 * (needed - len(held))} more into "
            "evals/triggers.json"
        )
    return read, held


@dataclass(frozen=True, slots=True)
class _Chooser:
    """Decides which requests open a skill among its rivals; without a model, by their words.

    Attributes:
        skill: The skill's name.
        by: Who decides, for people.
    """

    skill: str
    rivals: Sequence[Described]
    model: Teacher | None
    by: str

    async def decide(
        self, description: str, requests: Sequence[Request], draw: int = 0
    ) -> list[float | Failure]:
        """Return for each request 1.0 if it is decided rightly, 0.0 if not, or a failure."""
        own = Described(self.skill, description)
        if self.model is None:
            choice = lexical_choice([own, *self.rivals])
            return [float((choice(one.text) == 0) == one.opens) for one in requests]
        skills = sorted((own, *self.rivals[:_MOST_RIVALS]), key=lambda one: one.name)
        model, slots = self.model, asyncio.Semaphore(_AT_ONCE)

        async def one(request: Request) -> float | Failure:
            async with slots:
                chosen = await ask_which_opens(model, skills, request.text, draw)
            if isinstance(chosen, AskFault):
                return chosen.failure
            return float((chosen == self.skill) == request.opens)

        return await together(one(request) for request in requests)


class _Descriptions:
    """A duel of two descriptions on held-out requests."""

    def __init__(self, chooser: _Chooser, held: Sequence[Request], sides: tuple[str, str]) -> None:
        self._chooser, self._sides = chooser, sides
        self._held = {f"r{at:03}": one for at, one in enumerate(held)}
        self._drawn = 0

    @property
    def task_ids(self) -> Sequence[str]:
        return tuple(self._held)

    @property
    def clusters(self) -> dict[str, str]:
        """Near copies among the requests."""
        texts = {key: one.text for key, one in self._held.items()}
        return near_clusters(texts, {key: str(one.opens) for key, one in self._held.items()})

    async def draw(self, task_ids: Sequence[str], n: int) -> list[Pair]:
        pairs: list[Pair] = []
        asked = [self._held[one] for one in task_ids]
        for _ in range(n):
            old, new = await together(
                self._chooser.decide(side, asked, self._drawn) for side in self._sides
            )
            specs = [EpisodeSpec(Task(one, ""), 0, self._drawn) for one in task_ids]
            pairs += [
                Pair(_result(spec, one), _result(spec, other))
                for spec, one, other in zip(specs, old, new, strict=True)
            ]
            self._drawn += 1
        return pairs


def _result(spec: EpisodeSpec, found: float | Failure) -> EpisodeResult:
    if isinstance(found, Failure):
        return EpisodeResult(spec, failure=found)
    return EpisodeResult(spec, reward=found)


def _of_words(old: Described, headings: Sequence[str], read: Sequence[Request]) -> Iterator[str]:
    """Yield candidates of the words of the requests, the closest to the old one first."""
    opening = [one.text for one in read if one.opens]
    others = [one.text for one in read if not one.opens]
    words = typical_words(opening, others).split(", ")
    for most in (6, 12, len(words)):
        more = f" Use when the request is about: {', '.join(words[:most])}."
        start = plain_prose(old.description, DESCRIPTION_LIMIT - len(more))
        yield plain_prose(f"{start}{more}")
    subject = plain_prose(old.name.replace("-", " "), 100)
    yield describe(TaskWords(subject, headings, opening, others=others))


async def _best(
    old: Described,
    headings: Sequence[str],
    chooser: _Chooser,
    writer: tuple[Teacher, str] | None,
    read: Sequence[Request],
    notes: list[str],
) -> tuple[str, float]:
    """Return the description that decides most of the requests rightly, and its share.

    A writer, with its name, is asked with the requests that were decided wrongly first.
    """
    best, decided = old.description, await chooser.decide(old.description, read)
    faults = [one for one in decided if isinstance(one, Failure)]
    if len(faults) == len(read):
        raise ModelError(f"{chooser.by} decided no request: {faults[0].message}")
    if faults:
        notes.append(f"{len(faults)} of {len(read)} requests were not decided: {faults[0].message}")
    subject = plain_prose(old.name.replace("-", " "), 100)
    given = [""] * _ROUNDS if writer is not None else _of_words(old, headings, read)
    for number, of_words in enumerate(given):
        candidate = of_words
        if writer is not None:
            ranked = sorted(zip(map(bool, decided), read, strict=True), key=lambda one: one[0])
            opening = [one.text for _, one in ranked if one.opens]
            others = [one.text for _, one in ranked if not one.opens]
            words = TaskWords(subject, headings, opening, others=others)
            written = await ask_for_description(writer[0], words, best, number)
            if isinstance(written, AskFault):
                notes.append(f"{writer[1]} wrote no candidate: {written.failure.message}")
                continue
            candidate = written
        candidate = candidate.replace("---", "-")
        if not unfit_for_description(candidate):
            scores = await chooser.decide(candidate, read)
            if _share(scores) > _share(decided):
                best, decided = candidate, scores
    return best, _share(decided)


def _share(scores: Sequence[float | Failure]) -> float:
    right = [one for one in scores if not isinstance(one, Failure)]
    return fmean(right) if right else 0.0
