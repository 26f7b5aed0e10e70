"""Episodes as a teacher reads them: whole, fenced, and within a budget of tokens."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from skillwright.core import EpisodeResult, Task
from skillwright.rollout.transcript import Skipped, Transcript, read_episodes
from skillwright.rollout.transcript_text import Cut, render_trajectories

TaskName = Callable[[Task], str]
"""Names a task's category or its scope; ``""`` where it has none."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A scored episode that a teacher may read.

    Attributes:
        id: Names it in prompts; unique among those read together.
        key: Names it in provenance: the content address of the episode, else the id.
        category: The category of its task, or ``""``.
        scope: The one place that its task is set in, or ``""``.
        succeeded: Whether it was won.
        transcript: What happened.
    """

    id: str
    key: str
    category: str
    scope: str
    succeeded: bool
    transcript: Transcript


@dataclass(frozen=True, slots=True)
class Told:
    """Trajectories as text.

    Attributes:
        text: The sections of a prompt that hold them.
        cuts: What was left out to fit the budget.
    """

    text: str
    cuts: tuple[Cut, ...]


def read_evidence(
    episodes: Sequence[EpisodeResult], categorise: TaskName, scope: TaskName, threshold: float
) -> tuple[list[Evidence], tuple[Skipped, ...]]:
    """Read the episodes that have a reward; a fault says nothing about any skill.

    Args:
        episodes: Finished attempts, in the order in which they are to be read.
        categorise: Names the category of a task.
        scope: Names the one place that a task is set in.
        threshold: The reward from which an episode counts as won.

    Returns:
        What can be read, in input order, and what cannot, with the reason.
    """
    read = read_episodes(episodes)
    scored = (result for result in episodes if result.reward is not None)
    found = []
    for result, transcript in zip(scored, read.rows, strict=True):
        if not transcript.lines:
            continue
        task, place = result.spec.task, scope(result.spec.task)
        facts = (*transcript.facts, *((("place", place),) if place else ()))
        found.append(
            Evidence(
                id=transcript.id,
                key=transcript.key or transcript.id,
                category=categorise(task),
                scope=place,
                succeeded=result.is_success(threshold),
                transcript=replace(transcript, task_type=categorise(task), facts=facts),
            )
        )
    return found, read.skipped


def untrusted_texts(evidence: Iterable[Evidence]) -> list[str]:
    """List what environments, tools, users and the agent wrote, each text once."""
    texts: dict[str, None] = {}
    for one in evidence:
        texts[one.transcript.opening] = None
        texts |= {line.text: None for line in one.transcript.lines}
    return list(texts)


def tell(evidence: Sequence[Evidence], max_tokens: int) -> Told:
    """Render episodes, those that succeeded and those that failed under a heading each.

    Over the budget, the middle is left out; never the task, and never the end.

    Args:
        evidence: What to show.
        max_tokens: The budget of all of it; each group gets the share that its length asks for.
    """
    groups = [
        (heading, outcome, [one.transcript for one in evidence if one.succeeded == succeeded])
        for heading, outcome, succeeded in (
            ("Trajectories that succeeded", "success", True),
            ("Trajectories that failed", "failure", False),
        )
    ]
    groups = [group for group in groups if group[2]]
    sizes = [_size(transcripts) for _, _, transcripts in groups]
    texts: list[str] = []
    cuts: list[Cut] = []
    for (heading, outcome, transcripts), size in zip(groups, sizes, strict=True):
        shown = render_trajectories(transcripts, outcome, max_tokens * size // max(sum(sizes), 1))
        texts.append(f"## {heading}\n{shown.text}")
        cuts += shown.cuts
    return Told("\n\n".join(texts), tuple(cuts))


def _size(transcripts: Iterable[Transcript]) -> int:
    return sum(
        len(one.opening) + sum(len(line.text) + len(line.kind) for line in one.lines)
        for one in transcripts
    )


def round_robin(groups: Iterable[Sequence[Evidence]], count: int) -> list[Evidence]:
    """Take one of each group in turn, until ``count`` are taken or none is left."""
    queues = [list(group) for group in groups]
    taken: list[Evidence] = []
    while any(queues) and len(taken) < count:
        for queue in queues:
            if queue and len(taken) < count:
                taken.append(queue.pop(0))
    return taken
