"""The cold start: supervised training on episodes that a teacher solved in the environment.

Only verified wins become rows, with the skills that the policy will get. (SkillRL's published data
was written by a model that did not act.)
"""

import itertools
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from skillwright.core import ConfigError, EpisodeResult, SkillSource, TurnContext
from skillwright.core.policy_settings import SftSettings
from skillwright.core.seeds import derive_seed
from skillwright.policy.backend import LossReport, PolicyBackend, Row, StepReport, TargetRefused
from skillwright.policy.update import SftLoss, UpdateReport, by_episode, dealt

_SKILL_ID = re.compile(r"\[([a-z]{1,8}_?\d{1,6})\]")


@dataclass(frozen=True, slots=True)
class Coverage:
    """Contents of demonstrations.

    Attributes:
        wins: Verified wins; their turns became rows.
        failures: Episodes with an infrastructure failure.
        refused: Turns without a row because the policy cannot take their action.
        forced: Turns without a row because only one action was possible.
        by_type: Wins per task type.
        actions: Count of each first word of an action.
        skill_blocks: Distinct skill texts of the rows.
        skills_shown: Wins with the skill injected, by skill id.
        skills_cited: Answers that cite the injected skill, by skill id.
        cited_unseen: Answers that cite a skill that was not injected.
    """

    episodes: int = 0
    wins: int = 0
    failures: int = 0
    rows: int = 0
    refused: int = 0
    forced: int = 0
    by_type: Mapping[str, int] = field(default_factory=dict)
    actions: Mapping[str, int] = field(default_factory=dict)
    skill_blocks: int = 0
    skills_shown: Mapping[str, int] = field(default_factory=dict)
    skills_cited: Mapping[str, int] = field(default_factory=dict)
    cited_unseen: int = 0

    @property
    def citation_rate(self) -> float:
        """Citations of injected skills per row; may exceed 1."""
        return sum(self.skills_cited.values()) / self.rows if self.rows else 0.0


def demonstrations(
    backend: PolicyBackend,
    results: Iterable[EpisodeResult],
    skills: SkillSource,
    *,
    threshold: float = 1.0,
) -> tuple[list[Row], Coverage]:
    """Turn verified wins into rows, and count their coverage.

    Args:
        backend: The policy that will learn.
        results: A teacher's episodes in the real environment, including lost and failed ones.
        skills: The skills of the episodes; retrieval and renderer as in training.
        threshold: Minimum reward of a win.

    Returns:
        One row per turn of a win, and the counts. Turns that the policy cannot imitate are skipped
        and counted.
    """
    rows: list[Row] = []
    count: Counter[str] = Counter()
    types, actions, shown, cited = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    blocks: set[str] = set()
    for result in results:
        count["episodes"] += 1
        count["failures"] += result.failure is not None
        if not result.is_success(threshold):
            continue
        count["wins"] += 1
        types[result.task_type] += 1
        text = skills.context(result.spec.task).text
        blocks.add(text)
        injected = set(_SKILL_ID.findall(text))
        shown.update(sorted(injected))  # sets are ordered differently in every process
        for index, context in enumerate(contexts_of(result, text)):
            answer = result.trajectory.turns[index].act.text
            row = _row(backend, context, answer, count)
            if row is None:
                continue
            name = f"{result.task_id}#{result.spec.seed}"
            rows.append(replace(row, group=result.task_id, episode=name, turn=index))
            actions.update(answer.split()[:1])
            named = set(_SKILL_ID.findall(answer))
            cited.update(sorted(named & injected))
            count["unseen"] += bool(named - injected)
    return rows, Coverage(
        episodes=count["episodes"],
        wins=count["wins"],
        failures=count["failures"],
        rows=len(rows),
        refused=count["refused"],
        forced=count["forced"],
        by_type=dict(types),
        actions=dict(actions),
        skill_blocks=len(blocks),
        skills_shown=dict(shown),
        skills_cited=dict(cited),
        cited_unseen=count["unseen"],
    )


def contexts_of(result: EpisodeResult, skill_text: str) -> list[TurnContext]:
    """Return the agent's context before each turn of an episode."""
    trajectory = result.trajectory
    before: list[Mapping[str, Any]] = [
        trajectory.metadata,
        *(turn.metadata for turn in trajectory.turns),
    ]
    return [
        TurnContext(turn.prompt, turn.seed, offered, skill_text)
        for turn, offered in zip(trajectory.turns, before, strict=False)
    ]


def train(
    backend: PolicyBackend,
    rows: Sequence[Row],
    settings: SftSettings,
    *,
    seed: int,
    on_step: Callable[[int, LossReport, StepReport], None] | None = None,
) -> UpdateReport:
    """Train on demonstrations for a fixed number of steps.

    Raises:
        ConfigError: There are no rows.
    """
    useful = [row for row in rows if row.counts]
    if not useful:
        raise ConfigError(
            "there is no demonstration to learn from: the teacher solved no episode. Give it "
            "more tasks, more turns, or better skills"
        )
    whole = by_episode(useful) if settings.rows == "trajectories" else useful
    losses: list[LossReport] = []
    steps: list[StepReport] = []
    for number, batch in enumerate(
        itertools.islice(_batches(whole, settings, seed), settings.steps)
    ):
        loss = backend.forward_backward(batch, SftLoss.over(batch))
        rate = settings.schedule.rate(settings.learning_rate, number, settings.steps)
        step = backend.optim_step(rate)
        losses.append(loss)
        steps.append(step)
        if on_step is not None:
            on_step(number, loss, step)
    return UpdateReport(tuple(losses), tuple(steps))


def _batches(rows: Sequence[Row], settings: SftSettings, seed: int) -> Iterator[list[Row]]:
    """Repeat the rows, in a new order each epoch."""
    for epoch in itertools.count():
        order = derive_seed("sft", seed, epoch)
        if settings.rows == "episodes":
            yield from _dealt_by_episode(rows, settings.batch_rows, order)
        else:
            yield from dealt(rows, settings.batch_rows, order)


def _dealt_by_episode(rows: Sequence[Row], size: int, seed: int) -> Iterator[list[Row]]:
    """Shuffle the episodes; split their rows into batches of about ``size`` rows, all but equal."""
    episodes: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        episodes.setdefault((row.group, row.episode), []).append(row)
    shuffled = list(episodes.values())
    random.Random(seed).shuffle(shuffled)
    order = [row for episode in shuffled for row in episode]
    batches = max(1, round(len(order) / size))
    for number in range(batches):
        first, after = (len(order) * at // batches for at in (number, number + 1))
        yield order[first:after]


def _row(
    backend: PolicyBackend, context: TurnContext, answer: str, count: Counter[str]
) -> Row | None:
    try:
        row = backend.target(context, answer)
    except TargetRefused:
        count["refused"] += 1
        return None
    if not row.chosen:
        count["forced"] += 1
        return None
    return row
