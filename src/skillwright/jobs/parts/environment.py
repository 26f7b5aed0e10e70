"""What the environment of a run says about itself; see `skillwright.envs.AboutEnv`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from skillwright.config.env import EnvSection
from skillwright.config.run import RunConfig
from skillwright.core import DataError, EpisodeResult
from skillwright.core.jsonio import JsonRecord
from skillwright.envs import AboutEnv, Evaluation, TextEnv, spec
from skillwright.evaluation import Score
from skillwright.models import ModelConfig

_FORMER_NAME: Final = "tau_bench"
"""Reports used to have the section of this one environment, under its name."""
_FORMER_SCORES: Final = ("no_op", "without_free")


@dataclass(frozen=True, slots=True)
class EnvFindings(JsonRecord):
    """What an environment says of an evaluation beside the success rate.

    Attributes:
        name: The environment.
        facts: A JSON object of its own; see `skillwright.envs.EnvReport`.
        scores: The scores of subsets of the tasks, by name.
    """

    name: str
    facts: Mapping[str, Any]
    scores: Mapping[str, Score]

    @classmethod
    def read(cls, report: Mapping[str, Any]) -> Self | None:
        """Read the section out of a stored report, in its present or its former shape."""
        if former := report.get(_FORMER_NAME):
            scores = {name: former[name] for name in _FORMER_SCORES}
            facts = {key: value for key, value in former.items() if key not in scores}
            return cls.from_dict({"name": _FORMER_NAME, "facts": facts, "scores": scores})
        found = report.get("environment")
        return cls.from_dict(found) if found else None

    def lines(self, scores: Mapping[str, str]) -> Iterator[str]:
        """Put it into lines of rich's markup, with the scores in these words."""
        return environment_named(self.name).report_lines(self.facts, scores)


def environment_of(env: EnvSection) -> type[AboutEnv]:
    """Return the class that a configuration names; an adapter says nothing about itself here."""
    return TextEnv if env.compat is not None else environment_named(env.name)


def environment_named(name: str) -> type[AboutEnv]:
    """Return the class of this name; one that says nothing where it is no environment."""
    try:
        found = spec(name).find()
    except DataError:  # whoever builds it says so
        return TextEnv
    return found if isinstance(found, type) and issubclass(found, AboutEnv) else TextEnv


def user_model(env: EnvSection) -> ModelConfig | None:
    """Return the model that plays simulated users; ``None`` where no model does.

    Raises:
        UsageError: A setting is wrong.
    """
    return environment_of(env).user_model(env.config)


def refuse_unasked_data(env: EnvSection) -> None:
    """Refuse to begin on data that nobody asked for; a run that began on it continues.

    Raises:
        DataError: The environment has no other data, and the settings do not ask for it.
    """
    environment_of(env).refuse_unasked_data(env.config)


def env_findings(
    config: RunConfig, split: str, trials: int, results: Sequence[EpisodeResult]
) -> EnvFindings | None:
    """Let the environment look at an evaluation's episodes; ``None`` where it says nothing.

    Raises:
        DataError: Its data is missing or damaged.
    """
    env, threshold = config.env, config.env.success_threshold
    played = Evaluation(split, trials, env.max_turns, config.rollout.history_turns, threshold)
    report = environment_of(env).report(env.config, results, played)
    if report is None:
        return None
    scores = {
        name: Score.of([one for one in results if one.task_id in tasks], threshold)
        for name, tasks in report.subsets.items()
    }
    return EnvFindings(env.name, report.facts, scores)
