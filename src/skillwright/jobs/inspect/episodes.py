"""Find episodes of a run, and read one turn by turn."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Self

from skillwright.core import EpisodeResult, Message, RunError, Turn, Usage, did_you_mean
from skillwright.core.jsonio import encode
from skillwright.jobs.bank.distill import threshold_of
from skillwright.jobs.kinds import Kind
from skillwright.jobs.run import find_run, work_folder
from skillwright.rollout.transcript import Line, split_thought, spoken
from skillwright.runs import EpisodeSummary, RunStore
from skillwright.runs.folder import CONFIG_NAME, STORE_NAME


@dataclass(frozen=True, slots=True)
class EpisodeQuery:
    """Conditions on the episodes of a run; those that are not set do not apply.

    Attributes:
        faults: Episodes that a fault ended, without a reward.
        unsolved: Episodes with a reward below success. With ``faults``: both kinds.
        task_type: The task type; blanks may stand for underscores.
        grep: A text in the task, an observation, an answer or a call; case is ignored.
        phase: ``train``, ``gate``, ``test``, ...
        step: The training step or iteration.
    """

    faults: bool = False
    unsolved: bool = False
    task_type: str | None = None
    grep: str | None = None
    split: str | None = None
    phase: str | None = None
    step: int | None = None
    task: str | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """What was asked and answered in an episode.

    Attributes:
        question: The task, as the data set describes it.
        expected: The right answer; "" if the environment reports none.
        answer: The scored answer; "" if the environment reports none.
    """

    question: str = ""
    expected: str = ""
    answer: str = ""

    @classmethod
    def read(cls, store: RunStore, number: int, turns: int) -> Self:
        """Read the last turn of an episode with ``turns`` turns."""
        episode = store.load_window(number, max(turns - 1, 0), 1)
        facts = {
            key: fact for turn in episode.trajectory.turns for key, fact in turn.metadata.items()
        }
        said = (str(facts.get(key, "")) for key in ("expected", "answer"))
        return cls(episode.spec.task.description, *said)


@dataclass(frozen=True, slots=True)
class FoundEpisode:
    """An episode in a list.

    Attributes:
        solved: Whether its score counts as solved; ``None`` for a failure.
        document: The injected version of the run's skill document, if it is one.
        tested: The name of another text in the final test, such as ``placebo``, or "".
        match: The shortened line with the ``grep`` text, or "".
        reply: What was asked and answered; empty if it was not read.
    """

    summary: EpisodeSummary
    solved: bool | None
    document: int | None = None
    tested: str = ""
    match: str = ""
    reply: Reply = Reply()

    @property
    def name(self) -> str:
        """The name for the command line: ``e12``."""
        return f"e{self.summary.id}"

    @property
    def where(self) -> str:
        """The phase and step: ``gate 3``."""
        step = self.summary.step
        return self.summary.phase + ("" if step is None else f" {step}")

    def to_dict(self) -> dict[str, Any]:
        """Return the row as a JSON object."""
        one = self.summary
        return {
            "episode": self.name,
            **{column: getattr(one, column) for column in _COLUMNS},
            "skill_document": self.document,
            "skill_ids": list(one.skill_ids),
            "reward": one.reward,
            "hard": one.hard,
            "solved": self.solved,
            "failure": one.failure.to_dict() if one.failure else None,
            "stop_reason": one.stop_reason.value,
            "attempts": one.attempts,
            "turns": one.turns,
            "usage": one.usage.to_dict(),
            "metrics": dict(one.metrics),
            **{column: getattr(one, column) for column in ("wall_s", "started_at", "ended_at")},
            "match": self.match,
            **encode(self.reply),
        }


@dataclass(frozen=True, slots=True)
class EpisodeList:
    """Episodes of a run, the latest first.

    Attributes:
        threshold: The score from which an episode counts as solved.
        total: Number of all episodes of the run.
    """

    run: str
    path: Path
    threshold: float
    total: int
    episodes: tuple[FoundEpisode, ...]


def list_episodes(
    run: str | Path,
    root: str | Path = "runs",
    query: EpisodeQuery | None = None,
    *,
    replies: int | None = 0,
) -> EpisodeList:
    """List episodes of a run, the latest first; it may be running.

    Args:
        run: A run's folder or name, ``latest``, a bank's file, or the work folder next to it.
        root: The folder that holds runs.
        query: The conditions; all episodes by default.
        replies: Number of episodes, from the latest, whose reply is read; ``None`` for all.

    Raises:
        RunError: There is no such run, or it has no episode of such a type, phase, split or task.
    """
    query = query or EpisodeQuery()
    path = find_folder(run, root)
    threshold = run_threshold(path)
    with RunStore.open(path / STORE_NAME, read_only=True) as store:
        every = store.episodes()
        refuse_unknown(path.name, query, every)
        wanted = [one for one in every if fits(one, query, threshold)]
        wanted.sort(key=lambda one: one.id, reverse=True)
        texts = texts_of(store)

        def place(one: EpisodeSummary) -> str | None:
            return "" if query.grep is None else excerpt_of(store.load_episode(one.id), query.grep)

        found = tuple(
            described(one, threshold, texts, match)
            for one in wanted
            if (match := place(one)) is not None
        )
        read = found[:replies]
        found = (
            *(
                replace(one, reply=Reply.read(store, one.summary.id, one.summary.turns))
                for one in read
            ),
            *found[len(read) :],
        )
    return EpisodeList(path.name, path, threshold, len(every), found)


@dataclass(frozen=True, slots=True)
class TurnView:
    """A turn as displayed; ``index`` is from 0, as in the evidence of edits."""

    index: int
    lines: tuple[Line, ...]
    reward: float
    usage: Usage
    finish_reason: str

    def to_dict(self) -> dict[str, Any]:
        """Return the turn as a JSON object."""
        return {
            "turn": self.index,
            "lines": [{"kind": line.kind, "text": line.text} for line in self.lines],
            "reward": self.reward,
            "usage": self.usage.to_dict(),
            "finish_reason": self.finish_reason,
        }


@dataclass(frozen=True, slots=True)
class EpisodeView:
    """An episode as displayed.

    Attributes:
        description: The task, as the data set describes it.
        skill: The injected skill: a version of the run's document, or ids with scores.
        skill_text: The text, if it is not part of the prompt.
        prompt: The messages of the first turn, or the environment's opening.
        turns: All turns, or a window of them.
        row: Extra values that an adapter returned.
    """

    run: str
    found: FoundEpisode
    description: str
    skill: str
    skill_text: str
    prompt: tuple[Message, ...]
    turns: tuple[TurnView, ...]
    row: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as a JSON object."""
        return {
            "run": self.run,
            **self.found.to_dict(),
            "description": self.description,
            "skill": self.skill,
            "skill_text": self.skill_text,
            "prompt": [dict(message) for message in self.prompt],
            "turns": [turn.to_dict() for turn in self.turns],
            "row": dict(self.row),
        }


def read_episode(
    run: str | Path,
    episode: str,
    root: str | Path = "runs",
    *,
    first: int = 0,
    most: int | None = None,
) -> EpisodeView:
    """Read one episode of a run.

    Args:
        run: As for `list_episodes`.
        episode: Its name in a list (``e12``), the id of a task that was attempted once, or the
            beginning of its key.
        root: The folder that holds runs.
        first: The first turn, from 0.
        most: The number of turns; ``None`` for all.

    Raises:
        RunError: There is no such run or episode, or the name fits several.
    """
    path = find_folder(run, root)
    with RunStore.open(path / STORE_NAME, read_only=True) as store:
        summary = find_episode(store, path.name, episode)
        if most is None:
            result = store.load_episode(summary.id)
        else:
            result = store.load_window(summary.id, first, most)
        texts = texts_of(store)
        found = described(summary, run_threshold(path), texts)
        return EpisodeView(
            run=path.name,
            found=replace(found, reply=Reply.read(store, summary.id, summary.turns)),
            description=result.spec.task.description,
            skill=_skill(result, texts),
            skill_text=store.injected_skill(summary.id) or "",
            prompt=_opening(result),
            turns=tuple(_view(turn) for turn in result.trajectory.turns),
            row=result.row or {},
        )


_NUMBER: Final = re.compile(r"e(\d{1,15})")
_BARE_NUMBER: Final = re.compile(r"\d{1,15}")
_KEY: Final = re.compile(r"[0-9a-f]{4,64}")
_MOST_NAMED: Final = 8
_COLUMNS: Final = (
    "key",
    "phase",
    "step",
    "split",
    "env",
    "task_id",
    "task_type",
    "draw",
    "seed",
    "agent",
    "skill_version",
)
_AROUND: Final = 20  # characters on either side of a match


def find_folder(run: str | Path, root: str | Path) -> Path:
    """Return a folder with a store: a run's, or the one next to a bank."""
    for path in (Path(run), Path(root) / run):
        folder = work_folder(path) if path.is_file() else path
        if (folder / STORE_NAME).is_file():
            return folder
    return find_run(run, root)


def run_threshold(path: Path) -> float:
    """Return the minimum score of a solved episode of a run."""
    return threshold_of(path) if (path / CONFIG_NAME).is_file() else 1.0


Texts = Mapping[str, int | str]
"""The names of skill texts by hash: the document's version, or the name in the final test."""


def texts_of(store: RunStore) -> Texts:
    """Return a name for each skill text of a run; equal texts are named by the first version."""
    tested = [event.payload["skills"] for event in store.events(Kind.TEST_OPENED)]
    named = {digest: name for skills in tested for name, digest in skills.items()}
    return named | {one.hash: one.version for one in reversed(store.skills())}


def _solved(one: EpisodeSummary, threshold: float) -> bool | None:
    score = one.reward if one.hard is None else one.hard
    return None if score is None else score >= threshold


def described(one: EpisodeSummary, threshold: float, texts: Texts, match: str = "") -> FoundEpisode:
    """Return an episode as lists show it."""
    text = None if one.skill_ids else texts.get(one.skill_version)
    document = text if isinstance(text, int) else None
    tested = text if isinstance(text, str) else ""
    return FoundEpisode(one, _solved(one, threshold), document, tested, match)


def _plain(task_type: str) -> str:
    return task_type.replace("_", " ").casefold()


def refuse_unknown(run: str, query: EpisodeQuery, every: Sequence[EpisodeSummary]) -> None:
    """Refuse conditions that fit no episode."""
    asked: dict[str, tuple[Any, set[Any]]] = {
        "phase": (query.phase, {one.phase for one in every}),
        "split": (query.split, {one.split for one in every}),
        "step": (query.step, {one.step for one in every if one.step is not None}),
        "task": (query.task, {one.task_id for one in every}),
    }
    for what, (wanted, known) in asked.items():
        if wanted is not None and wanted not in known:
            raise RunError(
                f"run {run!r} has no episode of {what} {wanted!r}. "
                + did_you_mean(str(wanted), map(str, known))
            )
    types = {one.task_type for one in every}
    if query.task_type is not None and _plain(query.task_type) not in map(_plain, types):
        raise RunError(
            f"run {run!r} has no episode of task type {query.task_type!r}. "
            + did_you_mean(query.task_type, types)
        )


def fits(one: EpisodeSummary, query: EpisodeQuery, threshold: float) -> bool:
    """Tell whether an episode meets the conditions, except for its text."""
    solved = _solved(one, threshold)
    wanted = [
        outcome for asked, outcome in ((query.faults, None), (query.unsolved, False)) if asked
    ]
    return (
        (not wanted or solved in wanted)
        and query.phase in (None, one.phase)
        and query.split in (None, one.split)
        and query.step in (None, one.step)
        and query.task in (None, one.task_id)
        and (query.task_type is None or _plain(query.task_type) == _plain(one.task_type))
    )


def excerpt_of(result: EpisodeResult, text: str) -> str | None:
    """Return the first match of a text in an episode, with some context, or ``None``.

    Case is ignored. Task id and description, prompt, conversation, the agent's reasoning and the
    failure's message are searched, in this order.
    """
    pattern = re.compile(re.escape(text), re.IGNORECASE)
    for said in _said(result):
        if found := pattern.search(said):
            before = said[max(found.start() - _AROUND, 0) : found.start()]
            behind = said[found.end() : found.end() + _AROUND]
            if found.start() > _AROUND and " " in before:
                before = before.partition(" ")[2]
            if found.end() + _AROUND < len(said) and " " in behind:
                behind = behind.rpartition(" ")[0]
            return " ".join(f"{before}{found[0]}{behind}".split()) or text
    return None


def _said(result: EpisodeResult) -> Iterator[str]:
    yield from (result.task_id, result.spec.task.description, result.trajectory.opening)
    yield from (line.text for line in spoken(result.trajectory.turns))
    yield from (_thoughts(turn) for turn in result.trajectory.turns)
    if result.failure is not None:
        yield result.failure.message


def find_episode(store: RunStore, run: str, wanted: str) -> EpisodeSummary:
    """Find an episode by its number, its task or its key, in this order."""
    number = _NUMBER.fullmatch(wanted)
    if number and (found := store.episode(int(number[1]))):
        return found
    every = store.episodes()
    named = [one for one in every if one.task_id == wanted]
    named = named or [one for one in every if _is_called(one, wanted)]
    if not named:
        raise RunError(_no_episode(run, wanted, every))
    if len(named) > 1:
        raise RunError(_several(run, wanted, named, texts_of(store)))
    return named[0]


def _is_called(one: EpisodeSummary, wanted: str) -> bool:
    if _BARE_NUMBER.fullmatch(wanted) and one.id == int(wanted):
        return True
    return _KEY.fullmatch(wanted) is not None and one.key.startswith(wanted)


def _no_episode(run: str, wanted: str, every: Sequence[EpisodeSummary]) -> str:
    if not every:
        return f"run {run!r} has no episodes yet, so none is called {wanted!r}"
    if _NUMBER.fullmatch(wanted):
        last = max(one.id for one in every)
        return f"run {run!r} has no episode {wanted!r}; the last one is 'e{last}'"
    known = {one.task_id for one in every}
    return (
        f"run {run!r} has no episode {wanted!r}: no task and no key is called so. "
        f"{did_you_mean(wanted, known)} `skillwright runs episodes {run}` lists them."
    )


def _several(run: str, wanted: str, named: Sequence[EpisodeSummary], texts: Texts) -> str:
    newest = sorted(named, key=lambda one: one.id, reverse=True)
    listed = [_in_words(described(one, 1.0, texts)) for one in newest[:_MOST_NAMED]]
    more = f", and {len(newest) - _MOST_NAMED} more" if len(newest) > _MOST_NAMED else ""
    return (
        f"{len(named)} episodes of run {run!r} are called {wanted!r}; name one of them, the "
        f"latest first: {', '.join(listed)}{more}"
    )


def _in_words(found: FoundEpisode) -> str:
    reward, version = found.summary.reward, found.document
    outcome = "fault" if reward is None else f"reward {reward:g}"
    skill = "" if version is None else f"skill v{version}"
    return f"{found.name} ({', '.join(filter(None, (found.where, skill, outcome)))})"


def _skill(result: EpisodeResult, texts: Texts) -> str:
    """Name the injected skill."""
    if result.skill_ids:
        scores: Sequence[float | None] = result.skill_scores or [None] * len(result.skill_ids)
        parts = [
            one if score is None else f"{one} ({score:.2f})"
            for one, score in zip(result.skill_ids, scores, strict=False)
        ]
        return ", ".join(parts)
    if not result.skill_version:
        return ""
    text = texts.get(result.skill_version)
    if isinstance(text, int):
        return f"v{text} of this run's document"
    return f"{text or result.skill_version}, no version of this run's document"


def _opening(result: EpisodeResult) -> tuple[Message, ...]:
    turns, opening = result.trajectory.turns, result.trajectory.opening
    if turns and turns[0].prompt:
        return turns[0].prompt
    return ({"role": "user", "content": opening},) if opening else ()


def _view(turn: Turn) -> TurnView:
    lines = list(_lines(turn))
    thought = _thoughts(turn)
    if thought:
        lines.insert(0, Line(turn.index, "reasoning", thought))
    shown = tuple(line for line in lines if line.text)
    return TurnView(turn.index, shown, turn.reward, turn.act.usage, turn.act.finish_reason)


def _lines(turn: Turn) -> Iterator[Line]:
    """Yield the lines of a turn; an unanswered native call is shown as one."""
    if not turn.act.tool_calls or turn.metadata.get("tool_call") is not None:
        yield from spoken([turn])
        return
    thought, beside = split_thought(turn.act.text)
    yield Line(turn.index, "reasoning", thought)
    yield Line(turn.index, "text beside the call", beside)
    for call in turn.act.tool_calls:
        yield Line(turn.index, "tool call", f"{call.name} {call.arguments}")
    yield Line(turn.index, "result", turn.observation)


def _thoughts(turn: Turn) -> str:
    """Return the reasoning in a vendor's own message, without the text."""
    content = (turn.act.native or {}).get("content")
    if isinstance(content, Mapping):
        return "\n".join(text for text in content.values() if isinstance(text, str))
    if not isinstance(content, list):
        return ""
    blocks = [block for block in content if isinstance(block, Mapping)]
    texts = [block.get("thinking") for block in blocks]
    for block in blocks:
        summary = block.get("summary")
        if isinstance(summary, list):
            texts += [part.get("text") for part in summary if isinstance(part, Mapping)]
    return "\n".join(text for text in texts if isinstance(text, str))
