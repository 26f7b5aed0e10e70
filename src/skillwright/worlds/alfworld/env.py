"""The episode environment: one household game in text."""

import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path, PurePath
from typing import Any, Final

from skillwright.core import DataError, EnvError, Message, Task, did_you_mean
from skillwright.core.agent import action_in
from skillwright.core.jsonio import canonical
from skillwright.envs.about import SURVEY, TaskSplits
from skillwright.envs.text_env import StepOutput, TextEnv
from skillwright.worlds.alfworld.generate import (
    GENERATOR_VERSION,
    generate_problem,
    generated_tasks,
    household_tasks,
)
from skillwright.worlds.alfworld.official import game_item, load_game, official_tasks
from skillwright.worlds.alfworld.state import REJECTED, World
from skillwright.worlds.alfworld.tables import ALL_TASK_TYPES, CATEGORIES

_NEW_HOMES: Final = 100_000
"""More homes than any seed has for training."""


def find_tasks(data: Mapping[str, Any]) -> TaskSplits:
    """Return the games for train, val and test.

    Raises:
        DataError: There are too few homes, or the official games are missing.
    """
    if data["kind"] == "households":
        return _households(data)
    if data["kind"] == "alfworld_data":
        root = data["root"]
        return (
            official_tasks("train", root)[: data["train"]],
            official_tasks("valid_seen", root)[: data["val"]],
            official_tasks("valid_unseen", root)[: data["test"]],
        )
    train, val, test = (
        generated_tasks(split, data[split], seed=data["seed"], household=data["household"])
        for split in ("train", "val", "test")
    )
    return train, val, test


def _households(data: Mapping[str, Any]) -> TaskSplits:
    seed, count, new_count = data["seed"], data["homes"], data["new_homes"]
    homes = range(seed * count, (seed + 1) * count)
    later = _NEW_HOMES + seed * new_count
    new = range(later, later + new_count) or homes
    try:
        train = household_tasks("train", data["train"], homes=homes, seed=seed)
        survey = household_tasks("train", data["survey"], homes=new, seed=seed)
        val = household_tasks("val", data["val"], homes=new, seed=seed)
        test = household_tasks("test", data["test"], homes=new, seed=seed)
    except DataError as error:
        counts = f"env.data.homes = {count} and new_homes = {new_count}"
        raise DataError(f"{counts} are too few: {error}") from error
    return [*train, *(replace(task, split=SURVEY) for task in survey)], val, test


_ANNOUNCED: Final = re.compile(r"^your task is to:\s*", re.IGNORECASE)


def _pattern(template: str) -> re.Pattern[str]:
    """Compile a template with one word per slot: "hot egg" does not match ``{obj}``."""
    return re.compile(
        re.sub(r"\\\{\w+\\\}", r"\\w+", re.escape(template.rstrip(" ."))), re.IGNORECASE
    )


_GOALS: Final = tuple(
    (_pattern(template), one.category) for one in ALL_TASK_TYPES for template in one.templates
)


def category_of(task: Task) -> str:
    """Return the category of a game, one of `CATEGORIES`' values, or ``""``.

    It is read from the task type, else from the game, else from a goal in an official wording.
    """
    named = (task.task_type, _generated_type(task.extras), _folder_type(task.extras))
    for task_type in named:
        if task_type in CATEGORIES:
            return CATEGORIES[task_type]
    if task.task_type in CATEGORIES.values():
        return task.task_type
    return category_of_goal(task.description)


def category_of_goal(goal: str) -> str:
    """Return the category of a goal in an official wording, or ``""``."""
    text = _ANNOUNCED.sub("", goal.strip()).rstrip(" .")
    return next((category for wording, category in _GOALS if wording.fullmatch(text)), "")


def scope_of(task: Task) -> str:
    """Return the household of a generated game, such as ``household 3``, or ``""``."""
    home = _generated(task.extras).get("household")
    return "" if home is None else f"household {home}"


def _generated(extras: Mapping[str, Any]) -> Mapping[str, Any]:
    generated = extras.get("generated")
    return generated if isinstance(generated, Mapping) else {}


def _generated_type(extras: Mapping[str, Any]) -> str:
    index = _generated(extras).get("index")
    return ALL_TASK_TYPES[index % len(ALL_TASK_TYPES)].name if isinstance(index, int) else ""


def _folder_type(extras: Mapping[str, Any]) -> str:
    """Read the type in a folder such as ``pick_heat_then_place_in_recep-Egg-None-.../t1``."""
    folder = PurePath(str(extras.get("game_file", ""))).parent.parent.name
    return folder.partition("-")[0]


# Every task has ``seed``; a household draws nothing, so it has no effect here.
_EXTRAS: Final = ("game_file", "generated", "max_turns", "seed")
_CONFIG: Final = ("show_admissible",)
_GENERATOR: Final = inspect.signature(generate_problem)
_WORLDS_KEPT: Final = 512

_INSTRUCTIONS: Final = """\
You are in a household and have a task to carry out there. You act through text commands, \
one per turn, and read what comes of each.

Write the command inside <action> and </action>, for example <action>go to cabinet 1</action>. \
A bare command works too. {choice} Anything else does nothing and costs a turn.

You have {max_turns} turns."""
_FROM_LIST: Final = "Copy it exactly from the list of admissible commands."
_FROM_MEMORY: Final = (
    "Commands look like these, with things named exactly as you read them: go to cabinet 1, "
    "open cabinet 1, close cabinet 1, take mug 1 from cabinet 1, {move}, clean mug 1 with "
    "sinkbasin 1, heat mug 1 with microwave 1, cool mug 1 with fridge 1, use desklamp 1, "
    "slice apple 1 with knife 1, examine mug 1, look, inventory."
)


class AlfworldEnv(TextEnv):
    """One ALFWorld game.

    Args:
        env_config: ``{"show_admissible": bool}`` (default true): whether messages end with the
            list of admissible commands. The metadata always has the list.
        extras: The game: ``{"game_file": PATH}`` for an official one, or
            ``{"generated": {"split": ..., "index": ...}}`` with the arguments of
            `generate_problem`; and ``max_turns`` (default 50).

    Raises:
        DataError: A setting is unknown or has the wrong type, there is no such game file, or both
            or none of the two sources is given.

    The reward is 1.0 on the step that solves the game, else 0.0. The metadata of `init` and `step`
    has ``observation`` (raw text), ``admissible_commands`` (sorted), ``won`` and ``truncated``.
    """

    version = f"1.{GENERATOR_VERSION}"

    def __init__(
        self, env_config: object | None = None, extras: dict[str, Any] | None = None
    ) -> None:
        super().__init__(env_config, extras)
        self._show_admissible = _show_admissible(env_config)
        _refuse_unknown(self.extras, _EXTRAS, "extras")
        if self.max_turns < 1:
            raise DataError(f"max_turns is {self.max_turns}; an episode needs at least 1")
        self._untouched_world = _opener(self.extras)
        self._world: World | None = None
        self._invalid_actions = 0

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """Return one generated game of each task type."""
        return [{"generated": {"split": "train", "index": index}} for index in range(6)]

    @classmethod
    def tidied_items(cls, items: Sequence[Any]) -> list[Any]:
        """Read rows with a ``gamefile``, as in SkillOpt's split files; others stay as they are.

        Raises:
            DataError: There is no such game.
        """
        return [
            game_item(item) if isinstance(item, Mapping) and "gamefile" in item else item
            for item in items
        ]

    @classmethod
    def category(cls, task: Task) -> str:
        """Return one of the six categories of `CATEGORIES`, or ``""`` for any other goal."""
        return category_of(task)

    @classmethod
    def scope(cls, task: Task) -> str:
        """Return the household of a generated game, such as ``household 3``, or ``""``."""
        return scope_of(task)

    @classmethod
    def sample_tasks(cls, count: int) -> list[Task]:
        """Return the first train tasks of the built-in data."""
        return generated_tasks("train", count)

    @classmethod
    def find_tasks(cls, data: Mapping[str, Any], env_config: object | None = None) -> TaskSplits:
        """Return generated games, games of households, or the official ones."""
        return find_tasks(data)

    @classmethod
    def gold_actions(cls, extras: Mapping[str, Any]) -> list[str]:
        """Return commands that solve a game; empty if an official file has no walkthrough."""
        return list(_opener(extras)().problem.walkthrough)

    def init(self, prompt: Sequence[Message]) -> tuple[list[Message], dict[str, Any]]:
        """Open the game: our instructions, then observation and task.

        Raises:
            DataError: The game cannot be read or generated.
        """
        self._world = self._untouched_world().copy()
        self.turns = self._invalid_actions = 0
        observation, admissible = self._world.intro(), self._world.admissible()
        messages: list[Message] = [
            *prompt,
            {"role": "system", "content": self._instructions(self._world)},
            {"role": "user", "content": self._shown(observation, admissible)},
        ]
        return messages, self._metadata(self._world, observation, admissible, truncated=False)

    def step(self, action: str) -> StepOutput:
        """Execute one command, given bare or in the last complete ``<action>`` tag.

        Raises:
            EnvError: `init` was not called.
        """
        if self._world is None:
            raise EnvError("step() came before init(); open the episode first")
        world, command = self._world, action_in(action)
        self.turns += 1
        observation = world.act(command)
        self._invalid_actions += observation == REJECTED
        truncated = not world.solved and self.turns >= self.max_turns
        done, admissible = world.solved or truncated, world.admissible()
        shown = observation if done else self._shown(observation, admissible)
        return StepOutput(
            observations=[{"role": "user", "content": shown}],
            reward=float(world.solved),
            done=done,
            metadata=self._metadata(world, observation, admissible, truncated=truncated),
            postprocessed_action=command,
        )

    def get_metrics(self) -> dict[str, float]:
        """Return ``won`` (0 or 1), ``steps``, and ``invalid_actions`` among them."""
        return {
            "won": float(self._world is not None and self._world.solved),
            "steps": float(self.turns),
            "invalid_actions": float(self._invalid_actions),
        }

    def _instructions(self, world: World) -> str:
        move = (
            "move mug 1 to shelf 1" if world.problem.dialect == "0.4" else "put mug 1 in/on shelf 1"
        )
        choice = _FROM_LIST if self._show_admissible else _FROM_MEMORY.format(move=move)
        return _INSTRUCTIONS.format(choice=choice, max_turns=self.max_turns)

    def _shown(self, observation: str, admissible: list[str]) -> str:
        if not self._show_admissible:
            return observation
        return f"{observation}\n\nAdmissible commands: {', '.join(admissible)}"

    @staticmethod
    def _metadata(
        world: World, observation: str, admissible: list[str], *, truncated: bool
    ) -> dict[str, Any]:
        return {
            "observation": observation,
            "admissible_commands": admissible,
            "won": world.solved,
            "truncated": truncated,
        }


def _show_admissible(env_config: object | None) -> bool:
    config = {} if env_config is None else env_config
    if not isinstance(config, Mapping):
        raise DataError(f"env_config must be a mapping, not {type(config).__name__}")
    _refuse_unknown(config, _CONFIG, "env_config")
    shown = config.get("show_admissible", True)
    if not isinstance(shown, bool):
        raise DataError(f"env_config: show_admissible is {shown!r}; use true or false")
    return shown


def _refuse_unknown(given: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for name in given:
        if name not in known:
            raise DataError(f"alfworld {where}: no setting {name!r}. {did_you_mean(name, known)}")


def _opener(extras: Mapping[str, Any]) -> Callable[[], World]:
    """Choose the game's source without reading or generating it yet."""
    if ("game_file" in extras) == ("generated" in extras):
        raise DataError(
            "alfworld extras: give either 'game_file' (the path of a game.tw-pddl file) or "
            "'generated' (such as {'split': 'test', 'index': 7})"
        )
    if "generated" in extras:
        return partial(_generated_world, _generator_arguments(extras["generated"]))
    if not isinstance(extras["game_file"], str | Path):
        raise DataError(f"alfworld extras: 'game_file' is {extras['game_file']!r}; name a path")
    path = Path(extras["game_file"])
    try:
        found = path.stat()
    except OSError as error:
        raise DataError(f"game file {str(path)!r} cannot be read: {error.strerror}") from error
    return partial(_world_of_file, path, found.st_mtime_ns, found.st_size)


def _generator_arguments(generated: Any) -> str:
    if not isinstance(generated, Mapping):
        raise DataError(f"alfworld extras: 'generated' is {generated!r}; use a mapping")
    parameters = _GENERATOR.parameters
    _refuse_unknown(generated, tuple(parameters), "extras.generated")
    try:
        _GENERATOR.bind(**generated)
    except TypeError as error:
        raise DataError(f"alfworld extras.generated: {error}") from error
    for name, value in generated.items():
        wanted = parameters[name].annotation
        if isinstance(value, bool) or not isinstance(value, wanted):
            kind = getattr(wanted, "__name__", str(wanted))
            raise DataError(f"alfworld extras.generated: {name!r} is {value!r}; it must be {kind}")
    return canonical(dict(generated))


# Reading or generating a game costs a thousand times more than copying an initial world.


@lru_cache(maxsize=_WORLDS_KEPT)
def _world_of_file(path: Path, mtime_ns: int, size: int) -> World:
    del mtime_ns, size  # a file that changes while the process runs is another game
    return World(load_game(path))


@lru_cache(maxsize=_WORLDS_KEPT)
def _generated_world(arguments: str) -> World:
    return World(generate_problem(**json.loads(arguments)))
