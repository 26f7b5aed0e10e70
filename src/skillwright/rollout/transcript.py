"""Text of an episode for analysts, from our episodes or an adapter's rows and conversations.

Source: SkillOpt (microsoft/SkillOpt), the conversation files of its rollouts.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from skillwright.core import ContractError, EpisodeResult, RolloutResult, Trajectory, Turn
from skillwright.core.agent import ACTION_TAG
from skillwright.core.fence import attribute, defuse
from skillwright.core.jsonio import dumps, text_digest, write_text
from skillwright.core.result import USER_TURN
from skillwright.rollout.foreign_rows import as_json

NAMES_FILE = "names.json"

_SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}(?<!\.)")
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?|names\.json", re.IGNORECASE)
_READABLE_CHARS = 60


def folder_name(episode_id: str) -> str:
    """Return an episode's folder name: its id, or an escaped name if that is not a safe one.

    An escaped name starts with ``@``, which no safe id does, and ends with a digest of the id.
    """
    if _SAFE.fullmatch(episode_id) and not _RESERVED.fullmatch(episode_id):
        return episode_id
    readable = re.sub(r"[^A-Za-z0-9_-]+", "_", episode_id)[:_READABLE_CHARS]
    return f"@{readable}-{text_digest(episode_id)[:16]}"


def conversation(trajectory: Trajectory) -> list[dict[str, Any]]:
    """Return the conversation for the default reflect: the opening, then one item per turn."""
    opening = {"role": "user", "content": trajectory.opening}
    steps = (
        {
            "step": turn.index,
            "action": turn.act.written,
            "env_feedback": turn.observation,
            "reasoning": "",
        }
        for turn in trajectory.turns
    )
    return [opening, *steps]


def write_predictions(folder: Path, trajectories: Mapping[str, Trajectory]) -> None:
    """Write the conversations of a rollout, by episode id."""
    for episode_id, trajectory in trajectories.items():
        write_json(folder / folder_name(episode_id) / "conversation.json", conversation(trajectory))
    names = {folder_name(episode_id): episode_id for episode_id in trajectories}
    escaped = {name: episode_id for name, episode_id in names.items() if name != episode_id}
    if escaped:
        write_json(folder / NAMES_FILE, escaped)


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file; half a surrogate pair becomes its JSON escape."""
    write_text(path, dumps(value, indent=1).encode("utf-8", "backslashreplace").decode("utf-8"))


_THOUGHT = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)
_THINK_TAG = re.compile(r"</?think(?:ing)?>", re.IGNORECASE)
_NUMBERS = ("id", "hard", "soft", "n_turns")
_ROW_FACTS = (
    ("fail_reason", "why it failed"),
    ("reference_text", "reference, hidden from the agent"),
    ("target_system_prompt", "system prompt"),
    ("target_user_prompt", "user prompt"),
    ("spreadsheet_preview", "spreadsheet preview"),
)


class Line(NamedTuple):
    """One message, action or result.

    Attributes:
        turn: Turn number from 0, cited by evidence.
        kind: ``action``, ``result``, ``reasoning``, ``verification``, or the speaker's role. With
            tools and a user: ``tool call``, ``tool result``, ``agent to user``, ``user``,
            ``tool call of the user`` with ``its result``, and ``text beside the call``, which only
            the agent reads.
        text: Untrusted.
    """

    turn: int
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Transcript:
    """One scored episode.

    Attributes:
        id: Unique name in prompts and evidence: the task id, with ``#n`` from a second attempt on.
        task_type: Its task type, or ``""``.
        reward: The episode's reward, or the benchmark's ``hard`` score.
        stop: Reason for the end, or ``""`` if unknown.
        turns: Number of turns.
        opening: The task, as the environment stated it.
        fail_reason: The adapter's reason for the failure.
        lines: The conversation; empty if it cannot be shown: then the transcript keeps its place in
            its minibatch and is reported as skipped.
        facts: Further facts for an analyst, as (name, text).
        key: The content address of the episode, or ``""``.
    """

    id: str
    task_id: str
    task_type: str
    reward: float
    stop: str
    turns: int
    opening: str
    fail_reason: str = ""
    lines: tuple[Line, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    key: str = ""

    def is_success(self, threshold: float) -> bool:
        """Tell whether the reward reaches ``threshold``."""
        return self.reward >= threshold


@dataclass(frozen=True, slots=True)
class Skipped:
    """A row that no analyst sees, and the reason."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Transcripts:
    """The transcripts of a batch.

    Attributes:
        rows: Everything with a reward, in input order.
        skipped: Failures, invalid rows and missing conversations.
    """

    rows: tuple[Transcript, ...]
    skipped: tuple[Skipped, ...]


def read_episodes(results: Sequence[EpisodeResult]) -> Transcripts:
    """Read our engine's results; Failures are left out and reported."""
    rows: list[Transcript] = []
    skipped: list[Skipped] = []
    taken: set[str] = set()
    for result in results:
        name = _free_name(result.task_id, result.spec.draw, taken)
        if result.reward is None:
            cause = result.failure.cause if result.failure else "failure"
            skipped.append(Skipped(name, f"it ended in a fault ({cause}) and has no reward"))
            continue
        transcript = Transcript(
            id=name,
            task_id=result.task_id,
            task_type=result.task_type,
            reward=result.reward if result.hard is None else result.hard,
            stop=result.stop_reason.value,
            turns=len(result.trajectory.turns),
            opening=result.trajectory.opening,
            lines=tuple(spoken(result.trajectory.turns)),
            key=result.key,
        )
        rows.append(transcript)
        if not transcript.lines:
            skipped.append(Skipped(name, "it ended before its first turn"))
    return Transcripts(tuple(rows), tuple(skipped))


def read_rows(rows: Sequence[Mapping[str, Any]], prediction_dir: Path) -> Transcripts:
    """Read an adapter's rows and ``<prediction_dir>/<id>/conversation.json`` of each.

    A row without a numeric score is left out; one without a readable conversation keeps its place
    in its minibatch but is not shown. Both are reported. Values that JSON cannot hold (bytes, an
    exception, NaN) are read as if they came from a store.
    """
    read: list[Transcript] = []
    skipped: list[Skipped] = []
    taken: set[str] = set()
    for given in rows:
        name = _free_name(str(given.get("id", "")), 0, taken)
        row = {**as_json(given), **{key: given[key] for key in _NUMBERS if key in given}}
        try:
            result = RolloutResult.from_dict(row)
        except ContractError as error:
            skipped.append(Skipped(name, str(error)))
            continue
        try:
            folder = _folder(prediction_dir, result.id)
            facts = tuple(_facts(row, folder))
            lines = tuple(_recorded(_conversation(folder)))
        except (OSError, ValueError, RecursionError) as error:
            lines, facts = (), ()
            said = f"no conversation can be read: {error}; write one, or a `reflect` of your own"
            skipped.append(Skipped(name, said))
        read.append(
            Transcript(
                id=name,
                task_id=result.id,
                task_type=result.task_type or str(row.get("instruction_type") or ""),
                reward=result.hard,
                stop=str(row.get("stop_reason") or ""),
                turns=result.n_turns or len({line.turn for line in lines}),
                opening=result.task_description
                or str(row.get("instruction") or "")
                or result.question,
                fail_reason=result.fail_reason,
                lines=lines,
                facts=facts,
            )
        )
    return Transcripts(tuple(read), tuple(skipped))


def _free_name(task_id: str, draw: int, taken: set[str]) -> str:
    """Return a trajectory's unique name: its task id, numbered for further attempts."""
    plain = attribute(task_id)
    name = plain if draw == 0 else f"{plain}#{draw}"
    while name in taken:
        draw += 1
        name = f"{plain}#{draw}"
    taken.add(name)
    return name


def spoken(turns: Sequence[Turn]) -> Iterator[Line]:
    """Yield the lines of turns, in order, for failed episodes too."""
    for turn in turns:
        thought, action = split_act(turn.act.written)
        call, source = turn.metadata.get("tool_call"), turn.metadata.get("source")
        if call is not None or source is not None:
            # Environments with a simulated user distinguish its messages from tool results.
            yield from _conversed(turn, call, source)
            continue
        if thought:
            yield Line(turn.index, "reasoning", thought)
        yield Line(turn.index, "action", action)
        yield Line(turn.index, "result", turn.observation)
    breakdown = turns[-1].metadata.get("reward_breakdown") if turns else None
    if breakdown is not None:
        yield Line(turns[-1].index, "verification", _text(breakdown))


def _conversed(turn: Turn, call: Any, source: Any) -> Iterator[Line]:
    """Render a turn between an agent, its tools and its user."""
    thought, visible = split_thought(turn.act.written)
    if thought:
        yield Line(turn.index, "reasoning", thought)
    if call is not None:
        if turn.act.tool_calls and (beside := split_thought(turn.act.text)[1]):
            yield Line(turn.index, "text beside the call", beside)
        name, arguments = (call.get(key, "") for key in ("name", "arguments"))
        yield Line(turn.index, "tool call", f"{_text(name)} {_text(arguments)}")
        yield Line(turn.index, "tool result", turn.observation)
    else:
        yield Line(turn.index, "agent to user", visible)
        by_user = turn.metadata.get(USER_TURN)
        for one in (by_user.get("tool_calls") or ()) if isinstance(by_user, Mapping) else ():
            yield Line(turn.index, "tool call of the user", _text(one.get("said")))
            yield Line(turn.index, "its result", _text(one.get("result")))
        yield Line(
            turn.index, "user" if source == "user" else attribute(_text(source)), turn.observation
        )


def split_thought(text: str) -> tuple[str, str]:
    """Split what an agent wrote into its ``<think>`` blocks and the rest."""
    thoughts = [_THINK_TAG.sub("", found).strip() for found in _THOUGHT.findall(text)]
    return "\n".join(filter(None, thoughts)), _THOUGHT.sub("", text).strip()


def split_act(text: str) -> tuple[str, str]:
    """Split what an agent wrote into its reasoning and its command.

    The command is in the last ``<action>`` tag; without a tag the whole text is the command.
    """
    found = list(ACTION_TAG.finditer(text))
    if not found:
        return "", text.strip()
    last = found[-1]
    thought = _THINK_TAG.sub("", text[: last.start()] + text[last.end() :])
    return thought.strip(), last.group(1).strip()


def _folder(prediction_dir: Path, row_id: str) -> Path:
    if not row_id:
        raise ValueError("the row has no id")
    # An id such as "../../x" must not leave the folder. Adapters use the id as it is, such as
    # "202602:12", which is not a name that we would write.
    ours, theirs = prediction_dir / folder_name(row_id), prediction_dir / row_id
    is_one_name = theirs.parent == prediction_dir and theirs.name == row_id != ".."
    if is_one_name and not ours.exists() and theirs.is_dir() and not theirs.is_symlink():
        return theirs
    return ours


def _conversation(folder: Path) -> list[Any]:
    path = folder / "conversation.json"
    items = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(items, list) or not items:
        raise ValueError(f"{str(path)!r} holds no list of turns")
    return items


def _recorded(items: Sequence[Any]) -> Iterable[Line]:
    for position, item in enumerate(items):
        if not isinstance(item, Mapping):
            yield Line(position, "agent", _text(item))
            continue
        step = item.get("step")
        turn = step if isinstance(step, int) and not isinstance(step, bool) else position
        for kind, value in _said(item):
            if value not in (None, ""):
                yield Line(turn, kind, _text(value))


def _said(item: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    if item.get("type") == "tool_call":
        return ("action", item.get("cmd")), ("result", item.get("obs"))
    if "action" in item or "env_feedback" in item:
        return (
            ("reasoning", item.get("reasoning")),
            ("action", item.get("action")),
            ("result", item.get("env_feedback")),
        )
    role = str(item.get("role") or "note")
    kind = "verification" if role == "system" else attribute(role)
    return ((kind, item.get("content", None if "role" in item else dict(item))),)


def _facts(row: Mapping[str, Any], folder: Path) -> Iterable[tuple[str, str]]:
    for key, name in _ROW_FACTS:
        text = row.get(key)
        saved = folder / f"{key}.txt"
        if not text and key.startswith("target_") and saved.is_file():
            text = _saved_text(saved)
        if text:
            yield name, _text(text)


def _saved_text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:  # a missing fact must not hide the episode
        return f"({file.name} cannot be read: {error.strerror})"


def _text(value: Any) -> str:
    # Python reads NaN from JSON files; it must not cost a turn.
    return value if isinstance(value, str) else dumps(as_json(value))


CHARS_PER_TOKEN = 4
_SHORTEST_CLIP = 200
_GAP_LINE = len("[... 1000000 turns left out ...]\n")


@dataclass(frozen=True, slots=True)
class Cut:
    """The cut in one trajectory of a prompt.

    Attributes:
        turns: Number of whole turns left out of its middle.
        characters: Number of characters removed in all.
    """

    id: str
    turns: int
    characters: int


@dataclass(frozen=True, slots=True)
class Rendering:
    """Trajectories as an analyst reads them, and the cuts that made them fit."""

    text: str
    cuts: tuple[Cut, ...] = ()


def estimate_tokens(text: str) -> int:
    """Estimate a text's tokens at four characters each, rounded up."""
    return -(-len(text) // CHARS_PER_TOKEN)


def render_trajectories(
    transcripts: Sequence[Transcript], outcome: str, max_tokens: int
) -> Rendering:
    """Render trajectories one below the other.

    If they do not fit, the long ones share the remaining space evenly: first long texts are
    clipped, then turns are left out of the middle. The heading, the start and end of the task, and
    a mark at every gap always stay.
    """
    whole = [_render(transcript, outcome) for transcript in transcripts]
    room = max_tokens * CHARS_PER_TOKEN - len(whole)  # one line break after each
    shares = _fair_shares([len(text) for text in whole], room)
    shown: list[str] = []
    cuts: list[Cut] = []
    for transcript, text, share in zip(transcripts, whole, shares, strict=True):
        left_out = 0
        if len(text) > share:
            short, left_out = _fit(transcript, outcome, share)
            cuts.append(Cut(transcript.id, left_out, len(text) - len(short)))
            text = short
        shown.append(text)
    return Rendering("\n".join(shown), tuple(cuts))


def _render(transcript: Transcript, outcome: str, clip: Callable[[str], str] = str) -> str:
    head, turns, tail = _parts(transcript, outcome, clip)
    return head + "".join(turns) + tail


def _fit(transcript: Transcript, outcome: str, room: int) -> tuple[str, int]:
    """Return a rendering of about ``room`` characters, and the number of turns left out."""
    longest = max(room // 8, _SHORTEST_CLIP)
    head, turns, tail = _parts(transcript, outcome, lambda text: _clip(text, longest))
    room -= len(head) + len(tail)
    if sum(map(len, turns)) <= room:
        return head + "".join(turns) + tail, 0
    first, last = _both_ends(turns, room - _GAP_LINE)
    left_out = last - first
    gap = f"[... {left_out} turns left out ...]\n"
    return head + "".join(turns[:first]) + gap + "".join(turns[last:]) + tail, left_out


def _both_ends(turns: Sequence[str], room: int) -> tuple[int, int]:
    """Take turns alternately from the end and the start; return the range left out."""
    first, last = 0, len(turns)
    while first < last:
        take_last = len(turns) - last <= first  # the end first: it shows the outcome
        room -= len(turns[last - 1] if take_last else turns[first])
        if room < 0:
            break
        first, last = (first, last - 1) if take_last else (first + 1, last)
    return first, last


def _parts(
    transcript: Transcript, outcome: str, clip: Callable[[str], str]
) -> tuple[str, list[str], str]:
    """Return the heading with the task, one text per turn, and the closing tag."""
    names = {
        "id": transcript.id,
        "family": transcript.task_type,  # prompt text
        "outcome": outcome,
        "reward": f"{transcript.reward:.2f}",
        "turns": str(transcript.turns),
        "stop": transcript.stop,
    }
    attributes = " ".join(f'{name}="{attribute(text)}"' for name, text in names.items())
    head = [f"<trajectory {attributes}>", f"<task>{clip(defuse(transcript.opening))}</task>"]
    head += [f"[fact] {name}: {clip(_indented(text))}" for name, text in transcript.facts]
    by_turn = groupby(transcript.lines, key=lambda line: line.turn)
    turns = ["".join(_line(line, clip) for line in lines) for _, lines in by_turn]
    return "\n".join(head) + "\n", turns, "</trajectory>"


def _line(line: Line, clip: Callable[[str], str]) -> str:
    return f"[{line.turn}] {line.kind}: {clip(_indented(line.text))}\n"


def _indented(text: str) -> str:
    """Indent every line but the first, so that no text can imitate one of our tags."""
    return defuse(text).strip().replace("\n", "\n    ")


def _clip(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    mark = f" [... {len(text) - longest} characters left out ...] "
    keep = max(longest - len(mark), 2) // 2
    return text[:keep] + mark + text[-keep:]


def _fair_shares(sizes: Sequence[int], room: int) -> list[int]:
    """Divide ``room`` evenly, giving no part more than its size."""
    shares = [0] * len(sizes)
    by_size = sorted(range(len(sizes)), key=sizes.__getitem__)
    for served, index in enumerate(by_size):
        shares[index] = min(sizes[index], max(room, 0) // (len(sizes) - served))
        room -= shares[index]
    return shares
