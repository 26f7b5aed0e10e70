"""Shows trajectories to an analyst, within a budget of tokens, and says what was left out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from skillwright.core.fence import attribute, defuse
from skillwright.rollout.transcript import Line, Transcript

CHARS_PER_TOKEN = 4
_SHORTEST_CLIP = 200
_GAP_LINE = len("[... 1000000 turns left out ...]\n")


@dataclass(frozen=True, slots=True)
class Cut:
    """What a prompt leaves out of one trajectory.

    Attributes:
        id: The trajectory.
        turns: Whole turns that were left out, from its middle.
        characters: How much shorter it became in all.
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

    Where they do not fit, short ones stay whole and the long ones share what is left evenly: first
    long texts are clipped, then turns are left out of the middle. A trajectory's heading, the start
    and end of its task, and a mark at every gap always stay.
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
    """Return a rendering of about ``room`` characters, and how many turns it leaves out."""
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
    """Take turns from the end and the start by turns; return the range that is left out."""
    first, last = 0, len(turns)
    while first < last:
        take_last = len(turns) - last <= first  # the end first: it shows how things came out
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
        "family": transcript.task_type,  # stored name
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
    """Indent every line but the first, so that no text can begin a line like one of ours."""
    return defuse(text).strip().replace("\n", "\n    ")


def _clip(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    mark = f" [... {len(text) - longest} characters left out ...] "
    keep = max(longest - len(mark), 2) // 2
    return text[:keep] + mark + text[-keep:]


def _fair_shares(sizes: Sequence[int], room: int) -> list[int]:
    """Divide ``room`` so that nobody gets more than its size, and the rest is shared evenly."""
    shares = [0] * len(sizes)
    by_size = sorted(range(len(sizes)), key=sizes.__getitem__)
    for served, index in enumerate(by_size):
        shares[index] = min(sizes[index], max(room, 0) // (len(sizes) - served))
        room -= shares[index]
    return shares
