"""What a report on tau-bench says beside the success rate: what a number may be compared with."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from skillwright.config.env import EnvSection
from skillwright.config.run import RunConfig
from skillwright.core import EpisodeResult, FailureCause, StopReason
from skillwright.envs.tau_bench import (
    ORIGINAL_TURNS,
    Store,
    comparability,
    configured_store,
    departures,
    is_free,
    is_no_op,
    refuse_unasked_store,
)
from skillwright.evaluation import Score

TAU_BENCH: Final = "tau_bench"

_FORMERLY: Final[Mapping[str, str]] = {"tools": "tags", "prompt": "skillwright"}


@dataclass(frozen=True, slots=True)
class TauFindings:
    """How a split of tau-bench was played, apart from how often it was won.

    Attributes:
        settings: All that a score depends on beside the agent, as a JSON object: grader, data,
            user, protocol, turns, split, trials. Scores are comparable where these are equal.
        data_origin: How the data was found.
        no_op: The score of the tasks that want the database left as it is.
        without_free: The score of all but the free tasks.
        free_tasks: Ids of the tasks that are won by hanging up at once.
        rates: Share of the scored episodes that ran out of turns (``truncated``), had a call that
            could not be parsed (``parse_error``), or a tool that answered with an error
            (``tool_error``); and the shares of all episodes that failed because of the user
            (``user_failure``) or for any fault of the infrastructure (``failure``).
        failures_as_losses: The success rate if every failure were a loss; ``None`` for no episode.
        departures: In what it was played otherwise than tau-bench's published figures were; none:
            it is comparable with those that had the same user model. ``None``: not known.
    """

    settings: Mapping[str, Any]
    data_origin: str
    no_op: Score
    without_free: Score
    free_tasks: tuple[str, ...]
    rates: Mapping[str, float | None]
    failures_as_losses: float | None
    departures: tuple[str, ...] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return {
            "settings": dict(self.settings),
            "data_origin": self.data_origin,
            "no_op": self.no_op.to_dict(),
            "without_free": self.without_free.to_dict(),
            "free_tasks": list(self.free_tasks),
            "rates": dict(self.rates),
            "failures_as_losses": self.failures_as_losses,
            "departures": None if self.departures is None else list(self.departures),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read what `to_dict` wrote; an earlier version knew no departures."""
        departed = data.get("departures")
        return cls(
            settings=data["settings"],
            data_origin=data["data_origin"],
            no_op=Score.from_dict(data["no_op"]),
            without_free=Score.from_dict(data["without_free"]),
            free_tasks=tuple(data["free_tasks"]),
            rates=data["rates"],
            failures_as_losses=data["failures_as_losses"],
            departures=None if departed is None else tuple(departed),
        )


def env_facts(env: EnvSection) -> dict[str, Any]:
    """Return what tells an environment's episodes apart beside its settings, as a JSON object.

    Raises:
        DataError: A setting of tau-bench is wrong, or its data is missing or damaged.
    """
    if env.name != TAU_BENCH:
        return {}
    settings = _without_origin(comparability(env.config))
    # Episodes of before there was a choice are those of its defaults, under the names they have.
    protocol = {
        name: value for name, value in settings["protocol"].items() if _FORMERLY.get(name) != value
    }
    return {"comparability": {**settings, "protocol": protocol}}


def refuse_small_store(env: EnvSection) -> None:
    """Refuse to begin on tau-bench's built-in store, unless the settings ask for it.

    A run that began on it goes on; see `skillwright.envs.tau_bench.refuse_unasked_store`.

    Raises:
        DataError: Nobody asked for it, and there is no other data.
    """
    if env.name == TAU_BENCH:
        refuse_unasked_store(env.config)


def tau_findings(
    config: RunConfig, split: str, trials: int, results: Sequence[EpisodeResult]
) -> TauFindings | None:
    """Look at an evaluation's episodes; ``None`` where they are of another environment.

    Args:
        config: The run's configuration.
        split: Which tasks were played: ``train``, ``val`` or ``test``.
        trials: Attempts per task.
        results: The episodes.

    Raises:
        DataError: The data is missing or damaged.
    """
    env, threshold = config.env, config.env.success_threshold
    if env.name != TAU_BENCH:
        return None
    store, settings = configured_store(env.config), comparability(env.config)
    splits = sorted({str(result.spec.task.extras["task_split"]) for result in results})
    played = {"split": split, "data_splits": splits, "trials": trials, "max_turns": env.max_turns}
    no_op = [result for result in results if _is(is_no_op, store, result)]
    free = {result.task_id for result in results if _is(is_free, store, result)}
    return TauFindings(
        settings=_without_origin(settings) | {"played": played},
        data_origin=settings["data"]["origin"],
        no_op=Score.of(no_op, threshold),
        without_free=Score.of([one for one in results if one.task_id not in free], threshold),
        free_tasks=tuple(sorted(free)),
        rates=_rates(results),
        failures_as_losses=_share(results, lambda one: one.is_success(threshold)),
        departures=tuple(_departures(config, splits, results, store)),
    )


def _departures(
    config: RunConfig, splits: Sequence[str], results: Sequence[EpisodeResult], store: Store
) -> Iterator[str]:
    yield from departures(config.env.config)
    if config.env.max_turns != ORIGINAL_TURNS:
        yield f"max_turns is {config.env.max_turns}, and there {ORIGINAL_TURNS}"
    if config.rollout.history_turns is not None:
        yield f"history_turns is {config.rollout.history_turns}, and its agent remembers all"
    played = {result.task_id for result in results}
    if splits != ["test"]:
        yield f"the tasks are of {', '.join(splits) or 'no split'}, and there of test"
    elif len(played) != (every := len(store.tasks("test"))):
        yield f"{len(played)} of the {every} test tasks were played"


def _without_origin(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out how the data was found: the same data is the same wherever it lies."""
    data = {name: value for name, value in settings["data"].items() if name != "origin"}
    return {**settings, "data": data}


def _is(question: Callable[[Store, str, int], bool], store: Store, result: EpisodeResult) -> bool:
    extras = result.spec.task.extras
    return question(store, str(extras["task_split"]), int(extras["task_index"]))


def _rates(results: Sequence[EpisodeResult]) -> dict[str, float | None]:
    scored = [result for result in results if result.reward is not None]
    return {
        "truncated": _share(scored, lambda one: one.stop_reason is StopReason.MAX_TURNS),
        "parse_error": _share(scored, lambda one: one.metrics.get("parse_errors", 0) > 0),
        "tool_error": _share(scored, lambda one: one.metrics.get("tool_errors", 0) > 0),
        "user_failure": _share(results, _lost_its_user),
        "failure": _share(results, lambda one: one.failure is not None),
    }


def _lost_its_user(result: EpisodeResult) -> bool:
    return result.failure is not None and result.failure.cause is FailureCause.USER


def _share(
    results: Sequence[EpisodeResult], claim: Callable[[EpisodeResult], bool]
) -> float | None:
    return sum(map(claim, results)) / len(results) if results else None
