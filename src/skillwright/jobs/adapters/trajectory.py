"""A conversation that an adapter saved, as the trajectory that the store and the reports know."""

from collections.abc import Iterable

from skillwright.core import Act, Trajectory, Turn
from skillwright.textopt import Transcript

_ACTS = frozenset({"action", "assistant", "agent"})


def trajectory_of(transcript: Transcript) -> Trajectory:
    """Return what happened, one turn per act of the agent; what nobody answered is not lost.

    What came before the first act is the opening; an adapter records neither prompts nor tokens.
    """
    opening: list[str] = []
    acts: list[tuple[str, list[str]]] = []  # what was done, and what was seen then
    thoughts: list[str] = []
    for line in transcript.lines:
        if line.kind == "reasoning":
            thoughts.append(line.text)
        elif line.kind in _ACTS:
            thought = _joined(thoughts)
            text = f"<think>{thought}</think><action>{line.text}</action>" if thought else line.text
            acts.append((text, []))
            thoughts = []
        else:
            (acts[-1][1] if acts else opening).append(line.text)
    # The task is stated first; adapters often repeat it as the first message.
    told = [transcript.opening] if transcript.opening not in opening else []
    return Trajectory(
        opening=_joined([*told, *opening]),
        turns=tuple(
            Turn(index, prompt=(), act=Act(text), observation=_joined(seen), reward=0.0)
            for index, (text, seen) in enumerate(acts)
        ),
    )


def _joined(texts: Iterable[str]) -> str:
    return "\n".join(text for text in texts if text)
