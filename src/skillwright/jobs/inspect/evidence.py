"""The evidence of a skill: the scores of its release test, which anyone can judge again.

``docs/evidence.md`` describes the format, from which ``tools/check_evidence.py`` is written; the
JSON Schema is ``evidence.schema.json``.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Literal, Self

from skillwright.bank.formats.agent_skills import EVIDENCE_FILE, HASH, refuse_leaving
from skillwright.core import (
    DataError,
    EpisodeResult,
    EpisodeSpec,
    Failure,
    FailureCause,
    Pair,
    RunError,
    Task,
)
from skillwright.core.jsonio import REFUSE_UNKNOWN, JsonRecord, decode, digest, dumps, text_digest
from skillwright.core.seeds import derive_seed
from skillwright.core.skill_file import SKILL_FILE
from skillwright.evaluation import AlphaLedger, Decision, Gate, Look, ReleaseTest, Terms, Verdict

FORMAT: Final = "skillwright.evidence"
VERSION: Final = 1

Method = Literal["signs", "selection", "exact", "mean", "other"]

_CLOSE, _P_CLOSE = 1e-6, 5e-4  # tolerances: machines may sum in another order
_NOT_COVERED = frozenset({"__pycache__", "node_modules"})
_HASH_LINE = re.compile(rb'^  %s: "[^"\n]*"\r?\n' % HASH.encode(), re.MULTILINE)


class NoEvidence(RunError):
    """The pairs of a decision cannot be found; the message says why."""


@dataclass(frozen=True, slots=True)
class Named(JsonRecord):
    """A name, and the SHA-256 of what it names."""

    __pydantic_config__ = REFUSE_UNKNOWN

    name: str
    sha256: str


@dataclass(frozen=True, slots=True)
class TestedText(JsonRecord):
    """The text that was tested, without white space at its ends.

    Attributes:
        file: The file that holds it in one piece; ``None`` if the text is in parts, or is a bank.
        lines: Its first and last line there, from 1.
    """

    __test__ = False  # no test of pytest's
    __pydantic_config__ = REFUSE_UNKNOWN

    name: str
    sha256: str
    file: str | None = None
    lines: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Measured(JsonRecord):
    """What gave the scores; hashes can be compared with those of the run alone.

    Attributes:
        tasks: The val tasks, by content.
        ids: The SHA-256 of the JSON list of the task ids, in the order of ``scores``.
        model: The agent.
        settings: The version of Skillwright, and the configuration of the run, without ``env``,
            ``run.name`` and ``run.root``, so that the folders of a machine change nothing.
    """

    __pydantic_config__ = REFUSE_UNKNOWN

    environment: Named
    tasks: Named
    ids: str
    model: Named
    settings: Named


@dataclass(frozen=True, slots=True)
class Test(JsonRecord):
    """How the scores were judged.

    Attributes:
        method: ``signs``: random sign assignments, with looks; ``exact``: all assignments, once;
            ``selection``: for agents that answer alike; ``mean``: no test; ``other``: a gate of
            another package.
        alpha: The alpha that the decision could spend.
        seed: Seed of the sign assignments.
        settings: The settings of the release test, or of a gate (which has a ``kind``).
    """

    __test__ = False
    __pydantic_config__ = REFUSE_UNKNOWN

    method: Method
    alpha: float
    seed: int
    settings: dict[str, Any]
    terms: Terms


@dataclass(frozen=True, slots=True)
class TaskPairs(JsonRecord):
    """The scores of one task, draw by draw; ``None`` for a failure.

    Attributes:
        same: Whether both sides are the same episode, because their prompts are equal.
    """

    __pydantic_config__ = REFUSE_UNKNOWN

    task: str
    task_type: str
    incumbent: tuple[float | None, ...]
    candidate: tuple[float | None, ...]
    same: bool = False


@dataclass(frozen=True, slots=True)
class Result(JsonRecord):
    """The numbers of a verdict that follow from the scores; see `Verdict`."""

    __pydantic_config__ = REFUSE_UNKNOWN

    decision: Decision
    effect: float | None
    p_value: float | None
    pairs: int
    lost: int
    better: int | None
    worse: int | None
    looks: tuple[Look, ...] = ()

    @classmethod
    def of(cls, verdict: Verdict) -> Self:
        """Take the numbers out of a verdict."""
        return cls(**{name: getattr(verdict, name) for name in cls.__slots__})


@dataclass(frozen=True, slots=True)
class Signature(JsonRecord):
    """An Ed25519 signature of `Evidence.message`; key and value in hexadecimal digits."""

    __pydantic_config__ = REFUSE_UNKNOWN

    algorithm: Literal["ed25519"]
    key: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence(JsonRecord):
    """A decision, the scores behind it, and hashes of what they belong to.

    Attributes:
        files: The SHA-256 of each file of the folder by path, as `hash_files` returns it.
        compared_with: The text or bank that was released before.
        scores: The held-out tasks, in the order of the test.
        sha256: The SHA-256 of the canonical JSON of all other fields but ``signature``.
    """

    __pydantic_config__ = REFUSE_UNKNOWN

    format: Literal["skillwright.evidence"] = FORMAT
    version: Literal[1] = VERSION
    files: dict[str, str] = field(default_factory=dict)
    text: TestedText
    compared_with: Named
    measured: Measured
    test: Test
    result: Result
    scores: tuple[TaskPairs, ...]
    sha256: str = ""
    signature: Signature | None = None

    @classmethod
    def read(cls, text: str, where: str) -> Self:
        """Read a file from an untrusted source.

        Raises:
            DataError: It is cut off, of another format or version, or its parts do not belong
                together; the message says which.
        """
        data = _parsed(text, where)
        found = decode(cls, data, where)
        if _seal(data) != found.sha256:
            raise DataError(f"{where} was changed after it was written: its sha256 differs")
        numbers = [one for task in found.scores for one in (*task.incumbent, *task.candidate)]
        if any(one is not None and not 0 <= one <= 1 for one in numbers):
            raise DataError(f"{where}: a score lies outside 0 to 1")
        if any(len(task.incumbent) != len(task.candidate) for task in found.scores):
            raise DataError(f"{where}: a task's sides have different numbers of draws")
        if len({task.task for task in found.scores}) < len(found.scores):
            raise DataError(f"{where}: a task stands twice in the scores")
        if found.measured.ids != _ids(found.scores):
            raise DataError(f"{where}: the tasks of the scores are others, or in another order")
        return found

    @property
    def as_file(self) -> str:
        """The text of the file, with a field per line."""
        fields = (f"{dumps(name)}: {dumps(value)}" for name, value in self.to_dict().items())
        return "{\n" + ",\n".join(fields) + "\n}\n"

    @property
    def message(self) -> bytes:
        """What a signature signs."""
        return f"{self.format} {self.version} {self.sha256}".encode()

    def for_files(self, files: Mapping[str, bytes], text: str) -> Self:
        """Return the evidence of a folder, without a signature.

        Args:
            files: The folder's files by path, without the evidence.
            text: The text that was tested.
        """
        file, lines = _place_of(text.strip(), files)
        placed = replace(
            self,
            files=hash_files(files),
            text=replace(self.text, file=file, lines=lines),
            signature=None,
        )
        return replace(placed, sha256=_seal(placed.to_dict()))

    def why_not_of(self, files: Mapping[str, bytes]) -> str:
        """Return why this is not the evidence of a folder with these files, or ""."""
        now = hash_files(files)
        for path in sorted(now.keys() | self.files.keys()):
            if path not in now:
                return f"{path} is missing"
            if path not in self.files:
                return f"{path} is new: the evidence was written for a folder without it"
            if now[path] != self.files[path]:
                return f"{path} was changed after the evidence was written, or is another skill's"
        if self.text.file is None or text_digest(self.tested_text(files)) == self.text.sha256:
            return ""
        return f"{self.text.file} does not hold the text that was tested"

    def tested_text(self, files: Mapping[str, bytes]) -> str:
        """Return the text that was tested, from a folder's files; "" if it is in parts."""
        if self.text.file is None or self.text.lines is None:
            return ""
        first, last = self.text.lines
        lines = _lines(files.get(self.text.file, b""))[max(0, first - 1) : last]
        return "\n".join(lines).strip()


def is_evidence(text: str) -> bool:
    """Tell whether a file is evidence, of any version."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(data, dict) and data.get("format") == FORMAT


def is_same_but_signed(text: str, signed: str) -> bool:
    """Tell whether two files hold the same evidence, apart from the signature."""
    one, other = json.loads(text), json.loads(signed or "{}")
    return bool(one["sha256"] == other.get("sha256"))


def files_of(folder: Path) -> dict[str, bytes]:
    """Read the files that evidence covers: all of a skill's folder but a few.

    Left out are the evidence, ``evals/``, and names that begin with a dot or are made by tools.

    Raises:
        DataError: A file cannot be read, or is a link that leaves the folder.
    """
    found: dict[str, bytes] = {}
    for place, folders, names in os.walk(folder):
        here = Path(place)
        is_root = here == folder
        folders[:] = sorted(one for one in folders if _is_covered(one, is_root=is_root))
        for name in sorted(names):
            path = here / name
            key = path.relative_to(folder).as_posix()
            if _is_covered(name, is_root=False) and key != EVIDENCE_FILE:
                found[key] = _read(path, folder)
    return found


def _is_covered(name: str, *, is_root: bool) -> bool:
    return not (name.startswith(".") or name in _NOT_COVERED or (is_root and name == "evals"))


def _read(path: Path, folder: Path) -> bytes:
    refuse_leaving(path, folder)
    if not path.is_file():
        raise DataError(f"{str(path)!r} is a pipe, a device, or a link to nothing; take it out")
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{str(path)!r} cannot be read: {error.strerror}") from error


def hash_files(files: Mapping[str, bytes]) -> dict[str, str]:
    """Return the SHA-256 of files by path; of SKILL.md without the line of its content hash."""
    return {
        path: sha256(_HASH_LINE.sub(b"", body, count=1) if path == SKILL_FILE else body).hexdigest()
        for path, body in sorted(files.items())
    }


def new_evidence(
    test: Test,
    verdict: Verdict,
    scores: Sequence[TaskPairs],
    names: tuple[Named, Named],
    measured: Measured,
) -> Evidence:
    """Return evidence without a folder, of an incumbent and a candidate.

    The ``ids`` of what was measured are filled in.
    """
    old, new = names
    return Evidence(
        text=TestedText(new.name, new.sha256),
        compared_with=old,
        measured=replace(measured, ids=_ids(scores)),
        test=test,
        result=Result.of(verdict),
        scores=tuple(scores),
    )


def _ids(scores: Sequence[TaskPairs]) -> str:
    return digest([one.task for one in scores])


def _seal(data: Mapping[str, Any]) -> str:
    rest = {key: value for key, value in data.items() if key not in ("sha256", "signature")}
    return digest(rest)


def _parsed(text: str, where: str) -> dict[str, Any]:
    """Parse JSON, and refuse other formats and newer versions.

    Raises:
        DataError: It is not JSON, or not evidence that this version reads.
    """
    move = "export the skill again"
    try:
        data = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise DataError(f"{where} is nested too deeply to be evidence; {move}") from error
    except ValueError as error:
        raise DataError(f"{where} is cut off or no JSON ({error}); {move}") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise DataError(f"{where} is no evidence: its format is not {FORMAT!r}; {move}")
    version = data.get("version")
    if isinstance(version, int) and version > VERSION:
        raise DataError(
            f"{where} has version {version} of the format, and this skillwright reads up to "
            f"{VERSION}; update skillwright"
        )
    return data


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def _lines(body: bytes) -> list[str]:
    return body.decode("utf-8", "replace").replace("\r\n", "\n").split("\n")


def _place_of(text: str, files: Mapping[str, bytes]) -> tuple[str | None, tuple[int, int] | None]:
    """Return the file that holds a text in one piece, and its first and last line."""
    wanted = text.split("\n")
    for path, body in files.items():
        lines = _lines(body) if text and path.endswith(".md") else []
        for at in range(len(lines) - len(wanted) + 1):
            if "\n".join(lines[at : at + len(wanted)]).strip() == text:
                return path, (at + 1, at + len(wanted))
    return None, None


def method_of(settings: Mapping[str, Any], terms: Terms) -> Method:
    """Return the method of a release test, or of a gate (whose settings have a ``kind``)."""
    if "kind" in settings:
        methods: dict[str, Method] = {"paired": "exact", "strict": "mean", "open": "mean"}
        return methods.get(str(settings["kind"]), "other")
    return "signs" if not terms.judged else "selection"


def signs_seed(terms: Terms) -> int:
    """Return the seed of the sign assignments."""
    return derive_seed("signs", terms.seed)


async def judge_again(evidence: Evidence) -> Verdict:
    """Draw the stored pairs, and return the gate's new verdict; nothing is played.

    Raises:
        NoEvidence: The gate asks for a draw that is not stored.
        DataError: The settings do not belong to any gate.
    """
    return await judge_scores(evidence.test, evidence.scores)


async def judge_scores(how: Test, scores: Sequence[TaskPairs]) -> Verdict:
    """Judge stored scores; see `judge_again`."""
    settled = (method_of(how.settings, how.terms), signs_seed(how.terms))
    if (how.method, how.seed) != settled:
        raise DataError("the method or the seed of the test does not follow from its settings")
    try:
        test: Any = (
            Gate.model_validate(how.settings).model_copy(update={"metric": "soft"})
            if "kind" in how.settings
            else replace(decode(ReleaseTest, how.settings, "the release test"), metric="soft")
        )
        ledger = AlphaLedger(how.alpha, 1)
    except ValueError as error:
        raise DataError(f"the evidence names no gate of ours: {error}") from error
    duel = _StoredDuel(scores)
    verdict: Verdict = await test.judge(duel, ledger, how.terms)
    if unasked := duel.left:
        raise NoEvidence(f"task {unasked!r} has draws that the test did not ask for")
    return verdict


def differs(stored: Result, again: Verdict) -> str:
    """Return how a new verdict differs from a stored result, or ""."""
    if stored.decision is not again.decision:
        return f"the decision is {again.decision}, and {stored.decision} is stored"
    for name, close in (("effect", _CLOSE), ("p_value", _P_CLOSE)):
        one, other = getattr(stored, name), getattr(again, name)
        if (one is None) != (other is None) or abs((one or 0) - (other or 0)) > close:
            return f"{name} is {other}, and {one} is stored"
    counts = ("pairs", "lost", "better", "worse")
    wrong = [name for name in counts if getattr(stored, name) != getattr(again, name)]
    if wrong:
        return f"{', '.join(wrong)} differ"
    if len(stored.looks) != len(again.looks):
        return f"the test has {len(again.looks)} looks, and {len(stored.looks)} are stored"
    for number, (one, other) in enumerate(zip(stored.looks, again.looks, strict=True), start=1):
        far = abs((one.p_value or 0) - (other.p_value or 0)) > _P_CLOSE
        if (
            far
            or (one.draws, one.tasks) != (other.draws, other.tasks)
            or abs(one.alpha - other.alpha) > _CLOSE
        ):
            return f"look {number} differs"
    return ""


class _StoredDuel:
    """A duel that draws stored scores."""

    def __init__(self, tasks: Sequence[TaskPairs]) -> None:
        self._tasks = {one.task: one for one in tasks}
        self._drawn = dict.fromkeys(self._tasks, 0)

    @property
    def task_ids(self) -> Sequence[str]:
        return tuple(self._tasks)

    @property
    def left(self) -> str:
        """The first task with draws that were not asked for, or ""."""
        drawn = self._drawn
        return next((one for one in drawn if drawn[one] < len(self._tasks[one].candidate)), "")

    async def draw(self, task_ids: Sequence[str], n: int) -> list[Pair]:
        return [pair for task_id in task_ids for pair in self._next(task_id, n)]

    def _next(self, task_id: str, n: int) -> list[Pair]:
        stored, first = self._tasks[task_id], self._drawn[task_id]
        self._drawn[task_id] = first + n
        if first + n > len(stored.candidate):
            raise NoEvidence(
                f"the gate asks for draw {len(stored.candidate) + 1} of task {task_id!r}, which "
                "is not stored"
            )
        return [
            Pair(
                _result(stored, number, stored.incumbent[number], "same" if stored.same else "old"),
                _result(stored, number, stored.candidate[number], "same" if stored.same else "new"),
            )
            for number in range(first, first + n)
        ]


def _result(stored: TaskPairs, number: int, score: float | None, key: str) -> EpisodeResult:
    spec = EpisodeSpec(Task(stored.task, "", task_type=stored.task_type), 0, number)
    failure = Failure(FailureCause.ENVIRONMENT, "failed then") if score is None else None
    return EpisodeResult(spec, reward=score, failure=failure, key=key)
