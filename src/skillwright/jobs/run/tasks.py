"""Find the tasks and the adapter of a configuration."""

import inspect
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final, Self

from skillwright.bank import scope_of
from skillwright.config.env import AdapterData, EnvSection, RatioData, SplitDirData, skillopt_hint
from skillwright.config.run import RunConfig
from skillwright.core import ConfigError, DataError, EpisodeResult, SkillwrightError, Task
from skillwright.core.jsonio import JsonRecord
from skillwright.core.waits import waiting
from skillwright.datasets import (
    EvolutionTasks,
    Split,
    SplitDataLoader,
    Splits,
    parse_ratio,
    split_items,
)
from skillwright.datasets.on_disk import read_raw_items
from skillwright.datasets.split import StudyTasks, check_items, near_copies, refuse_empty
from skillwright.envs import AboutEnv, Check, ContractReport, EnvAdapter, Evaluation, TextEnv, spec
from skillwright.envs.text_env import with_config
from skillwright.evaluation import Score
from skillwright.models import ModelConfig
from skillwright.rollout.compat import compat
from skillwright.rollout.foreign import Around, ForeignAdapter, build_adapter, load_adapter

# Tasks of our own environments.


def make_splits(config: RunConfig) -> Splits:
    """Find the tasks of a configuration, and seal the test split."""
    with waiting(f"reading the tasks of {config.env.name}"):
        train, val, test = find_tasks(config.env)
        # Find missing or damaged data before the run starts, and build indexes, which takes too
        # long for an episode.
        environment_of(config.env).identity(config.env.config)
    limits = config.evaluation
    judged, kept = val[: limits.val_tasks], limits.confirm_tasks
    if kept and kept >= len(judged):
        raise ConfigError(
            f"evaluation.confirm_tasks = {kept} keeps all of {len(judged)} val tasks from the gate "
            "and leaves none to decide on; lower it, or add val tasks"
        )
    at = len(judged) - kept
    return Splits.of(train, judged[:at], test[: limits.test_tasks], judged[at:])


def refuse_untrainable(train_tasks: int, val_tasks: int) -> None:
    """Refuse a training without train tasks or val tasks."""
    if not (train_tasks and val_tasks):
        raise ConfigError(
            f"env.data gives {train_tasks} train and {val_tasks} val tasks, and a training needs "
            "both: set env.data.ratio (1:1:1), or env.data.train and env.data.val, or use data "
            "with those splits. An evaluation of the test split needs neither (skillwright eval)"
        )


def tasks_to_look_at(env: EnvSection, splits: Splits) -> Sequence[Task]:
    """Return tasks to open before a run: of val, else of train, else of test."""
    return splits.val.tasks or splits.train.tasks or find_tasks(env)[2]


def tasks_in_file(env: str, path: Path, config: object | None = None) -> list[Task]:
    """Read the tasks of a file like the data kinds ``split_dir`` and ``ratio``."""
    items = _tidied(env, read_raw_items(path), str(path), config)
    check_items(items, repr(str(path)))
    return [_task(env, "", item) for item in items]


def find_tasks(env: EnvSection) -> tuple[list[Task], list[Task], list[Task]]:
    """Return the tasks of an environment for train, val and test."""
    match env.data:
        case SplitDirData() as data:
            train, val, test = _items(env.name, _read(env, data), data.path)
        case RatioData() as data:
            train, val, test = _items(env.name, _cut(env, data), data.path)
        case AdapterData():
            raise ConfigError(
                f"env.data.kind 'adapter' gives the tasks of an EnvAdapter, and {env.name!r} is "
                "none; use data.kind 'split_dir' or 'ratio'"
            )
        case data:
            found = spec(env.name).load().find_tasks(data.model_dump(), env.config)
            train, val, test = found
    return train, val, test


class _TidyLoader(SplitDataLoader):
    """Reads a folder with splits, and lets the environment normalize the items."""

    def __init__(self, env: EnvSection, path: str) -> None:
        super().__init__(path, split_mode="split_dir")
        self._env = env

    def load_split_items(self, split_path: str) -> list[Any]:
        """Read one split's folder."""
        items = super().load_split_items(split_path)
        return _tidied(self._env.name, items, split_path, self._env.config)


def _read(env: EnvSection, data: SplitDirData) -> Split:
    loader = _TidyLoader(env, data.path)
    loader.setup({})
    return Split(loader.train_items, loader.val_items, loader.test_items)


def _cut(env: EnvSection, data: RatioData) -> Split:
    """Split a data set like `SplitDataLoader`, but without writing files."""
    items = _tidied(env.name, read_raw_items(Path(data.path)), data.path, env.config)
    check_items(items, repr(data.path))
    split = split_items(items, parse_ratio(data.ratio), data.seed)
    refuse_empty(split, f"{data.path!r}, {len(items)} items at {data.ratio}")
    return split


def _tidied(env: str, items: list[Any], path: str, config: object | None) -> list[Any]:
    env_class = spec(env).load()
    if not issubclass(env_class, TextEnv):  # environments of SkyRL-Gym do not normalize items
        return items
    try:
        return with_config(env_class.tidied_items, config)(items)
    except DataError as error:
        raise DataError(f"{path!r}: {error}") from error


def _items(env: str, split: Split, path: str) -> list[list[Task]]:
    contents = {
        name: {str(item["id"]): _content(item) for item in items} for name, items in split.named()
    }
    if copies := near_copies(contents):
        _warn_once(f"{path}: {copies}")
    return [[_task(env, name, item) for item in items] for name, items in split.named()]


def _content(item: Mapping[str, Any]) -> str:
    """Return the values of an item, or of its row, without its id."""
    row = item.get("row")
    values = row if isinstance(row, Mapping) else item
    return " ".join(str(value) for key, value in values.items() if key != "id")


@lru_cache(maxsize=16)
def _warn_once(text: str) -> None:
    """Log a warning, though tasks are read several times before a run."""
    _log.warning("%s", text)


def _task(env: str, split: str, item: dict[str, Any]) -> Task:
    """Make a task of an item; all keys but those of a task are the environment's extras."""
    about = {"id", "task_type", "description"}
    return Task(
        id=str(item["id"]),
        env=env,
        extras={key: value for key, value in item.items() if key not in about},
        task_type=str(item.get("task_type", "")),
        description=str(item.get("description", "")),
        split=split,
    )


_log = logging.getLogger(__name__)


def find_adapter(env: EnvSection) -> type[EnvAdapter] | None:
    """Find the adapter class ``env.name``; ``None`` for a text environment."""
    try:
        with _missing_names(env) as missed, around(env)():
            found = load_adapter(_import_name(env))
    except DataError as error:
        if skillopt_hint(env.name):
            raise DataError(f"{error}{skillopt_hint(env.name)}") from error
        missing = getattr(error.__cause__, "name", None) or ""
        if env.compat is None and missing.partition(".")[0] == "skillopt":
            raise DataError(
                f"{env.name!r} imports from 'skillopt'. To run it over our code, set env.compat: "
                "skillopt, or say --compat skillopt"
            ) from error
        raise
    if found is None and env.compat is not None:
        raise ConfigError(
            f"{env.name!r} is an environment of ours, and env.compat lends modules to an adapter: "
            f"leave it out, or name an adapter.{skillopt_hint(env.name)}"
        )
    for said in missed:  # a fallback for an older release, or the cause of later zero scores
        _log.warning("%s was loaded without something that it looked for: %s", env.name, said)
    return found


def is_adapter(env: EnvSection) -> bool:
    """Tell whether ``env.name`` is an adapter; raises the errors of `find_adapter`."""
    return find_adapter(env) is not None


def around(env: EnvSection) -> Around:
    """Return the context manager inside which the adapter's imports work."""
    return partial(compat(env.compat).modules, _file(env)) if env.compat else nullcontext


def _missing_names(env: EnvSection) -> AbstractContextManager[list[str]]:
    return compat(env.compat).missing_names() if env.compat else nullcontext([])


async def make_adapter(env: EnvSection, settings: Mapping[str, Any]) -> ForeignAdapter:
    """Build the adapter ``env.name`` from a flat configuration."""
    found = find_adapter(env)
    if found is None:
        raise ConfigError(f"{env.name!r} is no EnvAdapter, so it has no splits of its own")
    return await build_adapter(found, settings, env.name, around(env))


def _import_name(env: EnvSection) -> str:
    """Return the import name: ``skillopt.envs.<name>...`` for a file with such a path."""
    file = _file(env)
    inside = compat(env.compat).module_of(file) if file is not None and env.compat else ""
    return f"{inside}:{env.name.rpartition(':')[2]}" if inside else env.name


def _file(env: EnvSection) -> Path | None:
    module = env.name.rpartition(":")[0]
    return Path(module) if module.endswith(".py") else None


# The checks of an adapter without its data, for `skillwright env check`.


_SETTINGS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_GIVEN = {
    "build_train_env": ("batch_size", "seed"),
    "build_eval_env": ("env_num", "split", "seed"),
    "rollout": ("env_manager", "skill_content", "out_dir"),
    "reflect": ("results", "skill_content", "out_dir"),
}


def check_adapter_class(name: str, compat: str | None = None) -> ContractReport:
    """Check an adapter class against the contract, without data and models."""
    env = EnvSection.model_validate(
        {"name": name, "compat": compat, "data": AdapterData().model_dump()}
    )
    try:
        found = find_adapter(env)
        if found is None:
            raise ConfigError(f"{name!r} is no EnvAdapter")
    except SkillwrightError as error:
        return ContractReport(name, (Check("is an adapter", False, str(error)),))
    checks = [Check("is an adapter", True, f"{found.__module__}:{found.__qualname__}")]
    for asked, examine in _ASKED.items():
        try:
            checks.append(Check(asked, True, examine(found)))
        except ConfigError as error:
            checks.append(Check(asked, False, str(error)))
    return ContractReport(name, tuple(checks))


def _takes_what_it_is_given(adapter: type[EnvAdapter]) -> str:
    for method, names in _GIVEN.items():
        parameters = [
            one
            for one in inspect.signature(getattr(adapter, method)).parameters.values()
            if one.name != "self"
        ]
        takes_any = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters)
        known = {one.name for one in parameters}
        missing = [] if takes_any else [one for one in names[-2:] if one not in known]
        if missing and method.startswith("build"):
            raise ConfigError(f"{method}() does not take {', '.join(missing)}, which it is given")
        if not takes_any:
            return f"{method}() has no **kwargs; what it does not name, it is not given"
    return "with **kwargs, as documented"


def _names_its_settings(adapter: type[EnvAdapter]) -> str:
    parameters = [
        one for one in inspect.signature(adapter).parameters.values() if one.kind in _SETTINGS
    ]
    needed = [one.name for one in parameters if one.default is inspect.Parameter.empty]
    if not parameters:
        return "its constructor takes none"
    more = f"; env.config must have {', '.join(needed)}" if needed else ""
    return f"{', '.join(one.name for one in parameters)}{more}"


def _reflects(adapter: type[EnvAdapter]) -> str:
    own = adapter.reflect is not EnvAdapter.reflect
    return "by analysts of its own" if own else "by our analysts, who read predictions/<id>"


_ASKED: Mapping[str, Callable[[type[EnvAdapter]], str]] = {
    "takes what it is given": _takes_what_it_is_given,
    "settings": _names_its_settings,
    "reflects": _reflects,
}


# The evolution split of the train tasks.


def evolution_split(train: StudyTasks, nth: int) -> EvolutionTasks:
    """Take every nth train task of each task type and place, the last of each ``nth``."""
    if len(train.tasks) < 2:
        raise ConfigError(
            f"{len(train.tasks)} train tasks cannot be parted into tasks that a bank evolves on "
            "and others; add train tasks"
        )
    return EvolutionTasks(train, _every(train.tasks, nth))


def _every(train: Sequence[Task], nth: int) -> tuple[str, ...]:
    met: Counter[tuple[str, str]] = Counter()
    ids = []
    for task in train:
        key = (task.task_type, scope_of(task))
        met[key] += 1
        if met[key] % nth == 0:
            ids.append(task.id)
    if ids:
        return tuple(ids)
    # With few tasks per type and place, every nth of all.
    return tuple(task.id for task in train[nth - 1 :: nth]) or (train[-1].id,)


# Facts from the environment; see `skillwright.envs.AboutEnv`.


_FORMER_NAME: Final = "tau_bench"
"""Reports used to have the section of this one environment, under its name."""
_FORMER_SCORES: Final = ("no_op", "without_free")


@dataclass(frozen=True, slots=True)
class EnvFindings(JsonRecord):
    """Results of an environment besides the success rate.

    Attributes:
        facts: The environment's JSON object; see `skillwright.envs.EnvReport`.
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
        """Format as lines of rich's markup, with the formatted scores."""
        return environment_named(self.name).report_lines(self.facts, scores)


def environment_of(env: EnvSection) -> type[AboutEnv]:
    """Return the environment's class; for an adapter, `TextEnv` with its defaults."""
    return TextEnv if env.compat is not None else environment_named(env.name)


def environment_named(name: str) -> type[AboutEnv]:
    """Return the environment's class by name; `TextEnv` if it is unknown."""
    try:
        found = spec(name).find()
    except DataError:  # reported when it is built
        return TextEnv
    return found if isinstance(found, type) and issubclass(found, AboutEnv) else TextEnv


def user_model(env: EnvSection) -> ModelConfig | None:
    """Return the model of simulated users, or ``None``.

    Raises:
        UsageError: A setting is wrong.
    """
    return environment_of(env).user_model(env.config)


def side_models(env: EnvSection) -> dict[str, ModelConfig]:
    """Return the models that an environment calls, by role: ``user`` and ``judge``.

    Raises:
        UsageError: A setting is wrong.
    """
    judging = environment_of(env).judging(env.config)
    found = {"user": user_model(env), "judge": None if judging is None else judging.model}
    return {role: llm for role, llm in found.items() if llm is not None}


def refuse_unasked_data(env: EnvSection) -> None:
    """Refuse built-in data that the settings do not name; a resumed run is not checked.

    Raises:
        DataError: Only built-in data was found, and the settings do not name it.
    """
    environment_of(env).refuse_unasked_data(env.config)


def env_findings(
    config: RunConfig, split: str, trials: int, results: Sequence[EpisodeResult]
) -> EnvFindings | None:
    """Return the environment's report on an evaluation's episodes, or ``None``.

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
