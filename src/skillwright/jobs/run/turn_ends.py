"""How the answers of an agent and its episodes ended, and what failed most."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from skillwright.core import EpisodeResult, Lapse, StopReason
from skillwright.core.errors import NotMeasured as NotMeasured
from skillwright.core.fence import one_line
from skillwright.runs import EpisodeSummary, RunStore

# How the answers of an agent ended: shares of turns that do not measure the agent.


MOST: Final = 0.5
"""An evaluation with a larger share of such turns has no score."""


_SAID: Final[Mapping[Lapse, str]] = {
    Lapse.CUT: "cut at max_tokens",
    Lapse.NATIVE_CALLS: "native tool calls",
    Lapse.UNREAD_CALLS: "tool calls in the text that cannot be read",
    Lapse.WRITTEN_CALLS: "tool calls in the text that were read",
    Lapse.MARKS_CUT: "with template marks that were cut",
    Lapse.MARKS_LEFT: "with template marks that were left",
    Lapse.REASONING: "reasoning without text",
    Lapse.EMPTY: "empty",
}
_MOVES: Final[Mapping[Lapse, str]] = {
    Lapse.CUT: (
        "Cut answers: raise models.target.max_tokens (of a policy, max_new_tokens), or bound the "
        "thinking."
    ),
    Lapse.NATIVE_CALLS: (
        "Native tool calls: the environment reads text, so start the server without a parser for "
        "tool calls, or let the skill ask for the written form; tau_bench takes native ones with "
        "env.config.tools: native."
    ),
    Lapse.UNREAD_CALLS: (
        "Tool calls in the text that cannot be read: tools are called natively here, so start the "
        "server with the parser for the tool calls of this model (vLLM: --enable-auto-tool-choice "
        "--tool-call-parser hermes), or set env.config.tools: tags."
    ),
    Lapse.WRITTEN_CALLS: (
        "Tool calls in the text that were read: the server has no parser for the tool calls of "
        "this model, or another model's."
    ),
    Lapse.MARKS_CUT: (
        "Template marks that were cut, such as <|im_end|>, </s> or <|channel|>: the server's chat "
        "template or stop tokens are not those of this model."
    ),
    Lapse.MARKS_LEFT: (
        "Template marks that were left, such as <think> or </s>: they may be part of the answer. "
        "If they are not, the server's chat template or reasoning parser is not this model's."
    ),
    Lapse.REASONING: (
        "Reasoning without text: start the server with the reasoning parser of this model, or "
        "switch its thinking off."
    ),
    Lapse.EMPTY: "Empty answers: check the chat template and the stop texts of the model.",
}


@dataclass(frozen=True, slots=True)
class TurnEnds:
    """The number of turns of scored episodes, and how many of them ended in each `Lapse`.

    A turn that was not read (`Lapse.is_read`) is played as an invalid move. If most turns are like
    that, the score measures the settings rather than the agent.
    """

    turns: int
    lapses: Mapping[Lapse, int] = field(default_factory=dict)

    @classmethod
    def of(cls, results: Sequence[EpisodeResult]) -> Self:
        """Count the turns of episodes that have a reward."""
        scored = [result for result in results if result.reward is not None]
        return cls.read(
            Counter(turn.act.finish_reason for one in scored for turn in one.trajectory.turns)
        )

    @classmethod
    def read(cls, counts: Mapping[str, int]) -> Self:
        """Read the counts by finish reason of `skillwright.runs.RunStore.turn_ends`."""
        return cls(sum(counts.values()), {one: counts.get(one, 0) for one in Lapse})

    def __add__(self, other: "TurnEnds") -> "TurnEnds":
        counts = {one: self.lapses.get(one, 0) + other.lapses.get(one, 0) for one in Lapse}
        return TurnEnds(self.turns + other.turns, counts)

    @property
    def share(self) -> float:
        """The share of turns that were not read."""
        unread = (count for one, count in self.lapses.items() if not one.is_read)
        return sum(unread) / self.turns if self.turns else 0.0

    def lines(self) -> Iterator[str]:
        """Yield the shares, with advice; nothing without a turn."""
        if not self.turns:
            return
        counts = (
            f"{count / self.turns:.1%} {_SAID[one]}"
            for one, count in self.lapses.items()
            if count or not (one.is_read or one is Lapse.UNREAD_CALLS)  # which few runs know
        )
        yield f"answers in {self.turns:,} turns: {', '.join(counts)}"
        yield from self._moves()

    def refuse_mostly_lapsed(self) -> None:
        """Refuse to score an agent whose answers were mostly not read.

        Raises:
            NotMeasured: More than `MOST` of the turns lapsed; the message says what to change.
        """
        if self.share > MOST:
            said, *moves = self.lines()
            raise NotMeasured(
                f"{self.share:.0%} of the answers say nothing about the agent, so there is no "
                f"score ({said}). {' '.join(moves)} Then start a new evaluation."
            )

    def _moves(self) -> Iterator[str]:
        return (_MOVES[one] for one, count in self.lapses.items() if count)

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as a JSON object."""
        named = {one.name.lower(): count for one, count in self.lapses.items()}
        return {"turns": self.turns, **named}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read what `to_dict` wrote."""
        return cls(data["turns"], {one: data.get(one.name.lower(), 0) for one in Lapse})


# The most frequent causes why episodes did not succeed, each with an example.


MOST_CAUSES: Final = 3
_LONGEST_REASON: Final = 160
_ENDINGS: Final = {
    StopReason.DONE: "ended without success",
    StopReason.MAX_TURNS: "turn limit",
    StopReason.TIMEOUT: "time limit",
    StopReason.CONTEXT: "context full",
}


@dataclass(frozen=True, slots=True)
class Cause:
    """Episodes of one task type that ended alike, without success.

    Attributes:
        ending: A fault's cause, a limit, or the scorer's feedback, if any.
        count: Number of episodes.
        episode: One of them, as ``runs view`` names it.
    """

    task_type: str
    ending: str
    count: int
    episode: str

    @property
    def line(self) -> str:
        """Write it for people."""
        about = f"{self.task_type.replace('_', ' ')}: " if self.task_type else ""
        return f"{about}{self.ending}, {self.count} (such as {self.episode})"


def top_causes(
    store: RunStore, threshold: float, is_meant: Callable[[EpisodeSummary], bool] = lambda one: True
) -> list[Cause]:
    """Group the episodes that did not succeed by task type and ending, the most frequent first.

    Args:
        store: The run's episodes; of repeated attempts, the last counts.
        threshold: The score from which an episode is a success.
        is_meant: Selects the episodes to count.
    """
    latest = {one.key: one for one in store.episodes() if is_meant(one)}
    groups: dict[tuple[str, str], list[EpisodeSummary]] = {}
    for one in latest.values():
        score = one.reward if one.hard is None else one.hard
        if score is None or score < threshold:
            groups.setdefault((one.task_type, _ending(store, one)), []).append(one)
    causes = [
        Cause(task_type, ending, len(found), f"e{found[0].id}")
        for (task_type, ending), found in groups.items()
    ]
    return sorted(causes, key=lambda cause: (-cause.count, cause.task_type))[:MOST_CAUSES]


def _ending(store: RunStore, one: EpisodeSummary) -> str:
    if one.failure is not None:
        return f"fault ({one.failure.cause.value.replace('_', ' ')})"
    if one.stop_reason is StopReason.DONE and one.turns:
        (last,) = store.load_window(one.id, one.turns - 1, 1).trajectory.turns
        if reason := last.metadata.get("reason"):
            return one_line(str(reason), _LONGEST_REASON)
    return _ENDINGS.get(one.stop_reason, one.stop_reason.value.replace("_", " "))
