"""Optional class methods of environments for running, pricing, reporting and replaying."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from skillwright.core import DataError, EpisodeResult, Task

if TYPE_CHECKING:  # an environment without models need not import the network stack
    from skillwright.models import ModelConfig

TaskSplits = tuple[list[Task], list[Task], list[Task]]
"""The tasks for train, val and test."""

SURVEY = "survey"
"""`Task.split` of train tasks for the bank only, not for weights."""


@dataclass(frozen=True, slots=True)
class Judging:
    """A judge model, which is called ``votes`` times per reply."""

    model: "ModelConfig"
    votes: int = 1


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The settings of a split's evaluation.

    Attributes:
        split: ``train``, ``val`` or ``test``.
        trials: Attempts per task.
        max_turns: Maximum number of actions in an episode.
        history_turns: Turns in the agent's prompt; ``None`` for all.
        success_threshold: Minimum reward of a success.
    """

    split: str
    trials: int
    max_turns: int
    history_turns: int | None
    success_threshold: float


@dataclass(frozen=True, slots=True)
class EnvReport:
    """Additions to an evaluation's success rate.

    Attributes:
        facts: A JSON object, which is stored; `AboutEnv.report_lines` formats it.
        subsets: Ids of the tasks with a separate score, by name.
    """

    facts: Mapping[str, Any]
    subsets: Mapping[str, frozenset[str]] = field(default_factory=dict)


class AboutEnv:
    """The class methods by which an environment describes itself; ``env_config`` is its settings.

    Each raises `DataError` if a setting is wrong, or data is missing or damaged.

    Attributes:
        outside_metrics: Names of metrics that may differ between equal episodes, such as a
            simulated user's calls and seconds.
    """

    outside_metrics: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def find_tasks(cls, data: Mapping[str, Any], env_config: object | None = None) -> TaskSplits:
        """Return the tasks of a ``data`` section of the environment's own kind."""
        raise DataError(f"{cls.__name__} has no tasks of kind {data.get('kind')!r}")

    @classmethod
    def sample_tasks(cls, count: int) -> list[Task]:
        """Return up to ``count`` train tasks of built-in data, to calibrate an embedder on."""
        raise DataError(f"{cls.__name__} has no tasks without settings")

    @classmethod
    def identity(cls, env_config: object | None = None) -> dict[str, Any]:
        """Return facts that an episode depends on besides the settings, such as data checksums."""
        return {}

    @classmethod
    def refuse_unasked_data(cls, env_config: object | None = None) -> None:
        """Refuse to start a run on built-in data that the settings do not name."""

    @classmethod
    def user_model(cls, env_config: object | None = None) -> "ModelConfig | None":
        """Return the model of the simulated user, or ``None``.

        Raises:
            ConfigError: A setting of the model is wrong.
        """
        return None

    @classmethod
    def judging(cls, env_config: object | None = None) -> "Judging | None":
        """Return the model that scores episodes, or ``None``.

        Raises:
            ConfigError: A setting of the model is wrong.
        """
        return None

    @classmethod
    def quiet_config(cls, env_config: object | None = None) -> Any:
        """Return settings with which an episode opens without a model or a person."""
        return env_config

    @classmethod
    def report(
        cls, env_config: object | None, results: Sequence[EpisodeResult], played: Evaluation
    ) -> EnvReport | None:
        """Return the report on an evaluation's episodes, or ``None``."""
        return None

    @classmethod
    def report_lines(cls, facts: Mapping[str, Any], scores: Mapping[str, str]) -> Iterator[str]:
        """Format a report's facts and the scores of its subsets as lines of rich's markup."""
        return iter(())
