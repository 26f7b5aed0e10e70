"""A conversation that an adapter saved, as the trajectory that the store and the reports know."""

from collections.abc import Iterable

from skillwright.core import Act, Trajectory, Turn
from skillwright.textopt import Line, Transcript

_ACTS = frozenset({"action", "assistant", "agent"})


def trajectory_of(transcript: Transcript) -> Trajectory:
    """Return what happened, one turn per act of the agent; what nobody answered is not lost.

    What came before the first act is the opening; an adapter records neither prompts nor tokens.
    """
    opening: list[str] = []
    turns: list[_Turn] = []
    thoughts: list[str] = []
    for line in transcript.lines:
        if line.kind == "reasoning":
            thoughts.append(line.text)
        elif line.kind in _ACTS:
            turns.append(_Turn(line, thoughts))
            thoughts = []
        elif turns:
            turns[-1].seen.append(line.text)
        else:
            opening.append(line.text)
    # The task is stated first; adapters often repeat it as the first message.
    told = [transcript.opening] if transcript.opening not in opening else []
    return Trajectory(
        opening=_joined([*told, *opening]),
        turns=tuple(turn.as_turn(index) for index, turn in enumerate(turns)),
    )


class _Turn:
    def __init__(self, act: Line, thoughts: list[str]) -> None:
        self.act = act.text
        self.thoughts = thoughts
        self.seen: list[str] = []

    def as_turn(self, index: int) -> Turn:
        thought = _joined(self.thoughts)
        text = f"<think>{thought}</think><action>{self.act}</action>" if thought else self.act
        return Turn(index, prompt=(), act=Act(text), observation=_joined(self.seen), reward=0.0)


def _joined(texts: Iterable[str]) -> str:
    return "\n".join(text for text in texts if text)
