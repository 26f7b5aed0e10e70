"""Our environments in ``skyrl_gym.make``, and skyrl-gym's environments in our engine.

Source: skyrl-gym 0.4 (NovaSky-AI/SkyRL).
"""

import asyncio
import importlib
import importlib.metadata
import logging
import math
import re
import socket
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit
from urllib.request import getproxies

from skillwright.core import DataError, EnvError, Message, did_you_mean
from skillwright.envs import StepOutput, TextEnv, spec, specs
from skillwright.rollout.prompt import SKILL_HEADING, with_other_skill

# Environments of skyrl-gym in our engine: ``env.name: skyrl_gym:gsm8k``.


INSTALL: Final = "pip install 'skillwright[skyrl]'"

_ASK: Final = [{"role": "user", "content": "How much is 3 + 4? End with the answer as #### N."}]
_ASK_AIME: Final = [{"role": "user", "content": "How much is 3 + 4? End with: Answer: N"}]
_ANSWER: Final = {"method": "rule", "ground_truth": "7"}
_EXAMPLES: Final[Mapping[str, dict[str, Any]]] = {
    "gsm8k": {"prompt": _ASK, "reward_spec": _ANSWER},
    "gsm8k_multi_turn": {"prompt": _ASK, "reward_spec": _ANSWER, "max_turns": 3},
    "aime": {"prompt": _ASK_AIME, "reward_model": _ANSWER},
    "search": {"prompt": _ASK, "reward_spec": {"ground_truth": {"target": ["7"]}}},
}
# Environments whose rewards leave [0, 1] by design: -1 for a wrong answer, or a bonus per turn.
_WIDE: Final = ("aime", "gsm8k_multi_turn")
_SEARCH: Final = "SearchToolGroup"
_CONNECT_S: Final = 2.0
# Text of the search tool instead of results if its server is unreachable. A refused request (4xx)
# is the agent's fault.
_LOST: Final = re.compile(
    r"Search error: (?!.{0,80}?API Request Error: 4\d\d)|Search request failed or timed out"
    r"|Unknown API state|Error processing search results"
)

logger = logging.getLogger(__name__)


class SkyRLGymEnv(TextEnv):
    """An environment of skyrl-gym, unchanged, for our engine.

    Its blocking calls run in threads, so that a search does not delay other episodes. Its errors
    become `EnvError`, and so does an unreachable search server, which it would report to the agent.
    The episode's reward is the sum of its rewards, clipped to [0, 1]; the metadata has the original
    ones (``gym_reward``).

    Args:
        env_config: ``env_class``, the name in skyrl-gym's registry, and ``config``, the
            environment's settings, such as ``search_url``. With a name such as
            ``skyrl_gym:search``, only the settings.
        extras: A row of its data set: ``prompt``, a list of messages or one text, and the columns
            that the environment needs, such as ``reward_spec``; optionally ``env_class``.

    Raises:
        DataError: skyrl-gym is not installed, the environment is unknown, it refuses the row or a
            setting, or its search server is not set or does not answer.
    """

    gym_name: ClassVar[str] = ""

    def __init__(
        self, env_config: object | None = None, extras: dict[str, Any] | None = None
    ) -> None:
        super().__init__(env_config, extras)
        settings = env_config if isinstance(env_config, Mapping) else {}
        row_class = "" if self.gym_name else self.extras.get("env_class")
        name = self.gym_name or row_class or settings.get("env_class")
        self._prompt = _messages(self.extras.get("prompt"))
        if not isinstance(name, str) or self._prompt is None:
            raise DataError(
                "an environment of skyrl-gym needs env_class (its name there, such as 'gsm8k') and "
                "a row with a prompt, a list of messages"
            )
        config = settings if self.gym_name else settings.get("config") or {}
        self._name = name
        self._gym_env = _make(name, config, self.extras)
        self._raw = 0.0
        self._is_closed = False

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """Return an example row for an environment that needs no data, or an empty list."""
        return [dict(_EXAMPLES[cls.gym_name])] if cls.gym_name in _EXAMPLES else []

    def init(self, prompt: Sequence[Message]) -> tuple[list[Message], dict[str, Any]]:
        """Open the episode with ``prompt`` and then the row's prompt.

        Raises:
            EnvError: The environment raised.
        """
        try:
            messages, metadata = self._gym_env.init([*prompt, *(self._prompt or ())])
        except Exception as error:
            raise self._broken("init", error) from error
        return list(messages), dict(metadata or {})

    def step(self, action: str) -> StepOutput:
        """Take one action.

        Raises:
            EnvError: The environment raised, or its search server is unreachable.
        """
        self.turns += 1
        try:
            output = self._gym_env.step(action)
            reward, done = float(output["reward"]), bool(output["done"])
            said = list(output["observations"])
        except Exception as error:
            raise self._broken("step", error) from error
        self._refuse_lost_search(said)
        truncated = not done and self.turns >= self.max_turns
        made = StepOutput(
            observations=said,
            reward=self._share(reward),
            done=done or truncated,
            metadata={
                **dict(output.get("metadata") or {}),
                "gym_reward": reward,
                "truncated": truncated,
            },
        )
        if output.get("postprocessed_action") is not None:
            made["postprocessed_action"] = str(output["postprocessed_action"])
        return made

    async def ainit(self, prompt: Sequence[Message]) -> tuple[list[Message], dict[str, Any]]:
        """Run `init` in a thread."""
        return await asyncio.to_thread(self.init, prompt)

    async def astep(self, action: str) -> StepOutput:
        """Run `step` in a thread."""
        return await asyncio.to_thread(self.step, action)

    def close(self) -> None:
        """Release what the episode holds. Closing twice is allowed."""
        if not self._is_closed:
            self._is_closed = True
            self._gym_env.close()

    def get_metrics(self) -> dict[str, float]:
        """Return the environment's numeric metrics."""
        metrics = self._gym_env.get_metrics() or {}
        return {name: float(n) for name, n in metrics.items() if isinstance(n, int | float)}

    def _share(self, reward: float) -> float:
        """Return the change of the clipped sum by a reward."""
        if not math.isfinite(reward):
            raise EnvError(f"skyrl-gym's {self._name!r} gave {reward} as a reward")
        before, self._raw = _cut(self._raw), self._raw + reward
        if not 0 <= self._raw <= 1 and self._name not in _WIDE:
            _warn_once(self._name)
        return _cut(self._raw) - before

    def _refuse_lost_search(self, said: Sequence[Message]) -> None:
        for group in _searches(self._gym_env):
            text = "\n".join(str(message.get("content", "")) for message in said)
            if _LOST.search(text):
                raise EnvError(
                    f"the search server {group.search_url} is lost: {text.strip()[:300]}"
                )

    def _broken(self, method: str, error: Exception) -> EnvError:
        why = str(error) or type(error).__name__
        return EnvError(f"skyrl-gym's {self._name!r} raised in {method}(): {why}")


@cache
def env_of(name: str) -> type[SkyRLGymEnv]:
    """Return the class behind ``skyrl_gym:<name>``."""
    gym = skyrl_gym()
    if name not in gym.registry:
        near = did_you_mean(name, gym.registry)
        raise DataError(f"skyrl-gym has no environment {name!r}. {near}")
    version = f"skyrl-gym {importlib.metadata.version('skyrl-gym')}"
    members = {"gym_name": name, "version": version, "__module__": __name__}
    return type(f"SkyRLGymEnv_{name}", (SkyRLGymEnv,), members)


def skyrl_gym() -> Any:
    """Import skyrl-gym."""
    try:
        return importlib.import_module("skyrl_gym")
    except ImportError as error:
        raise DataError(f"skyrl-gym is not installed ({error}); {INSTALL}") from error


def _make(name: str, config: Mapping[str, Any], extras: dict[str, Any]) -> Any:
    gym = skyrl_gym()
    if name not in gym.registry:
        near = did_you_mean(name, gym.registry)
        raise DataError(f"skyrl-gym has no environment {name!r}. {near}")
    if name == "search" and not config.get("search_url"):
        raise DataError(
            "skyrl_gym:search asks a retrieval server, and none is named: set "
            "env.config.search_url, such as http://127.0.0.1:8000/retrieve"
        )
    usual: dict[str, Any] = (
        {"topk": 3, "timeout": 30, "log_requests": False} if name == "search" else {}
    )
    given = {key: value for key, value in extras.items() if key not in ("prompt", "env_class")}
    # Its environments read settings as attributes, because its trainer uses OmegaConf.
    settings = importlib.import_module("omegaconf").OmegaConf.create({**usual, **config})
    try:
        made = gym.make(name, env_config=settings, extras=given)
    except Exception as error:
        why = str(error) or type(error).__name__
        raise DataError(f"skyrl-gym's {name!r} refuses its row or its settings: {why}") from error
    for group in _searches(made):
        _refuse_unreachable(name, str(group.search_url))
    return made


def _searches(gym_env: Any) -> list[Any]:
    groups = getattr(gym_env, "tool_groups", ())
    return [group for group in groups if type(group).__name__ == _SEARCH]


@cache
def _refuse_unreachable(name: str, url: str) -> None:
    """Check once that the server listens; the tool would retry every search for a minute."""
    parts = urlsplit(url)
    if getproxies() or not parts.hostname:
        return
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((parts.hostname, port), _CONNECT_S).close()
    except OSError as error:
        raise DataError(
            f"skyrl_gym:{name} asks a retrieval server at {url}, and nothing answers there "
            f"({error.strerror or error}). Start one, or name another one in env.config.search_url"
        ) from error


def _messages(prompt: Any) -> list[Message] | None:
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}]
    if isinstance(prompt, bytes | Mapping) or not isinstance(prompt, Sequence):
        return None
    return list(prompt)


def _cut(reward: float) -> float:
    return min(max(reward, 0.0), 1.0)


@cache
def _warn_once(name: str) -> None:
    logger.warning(
        "skyrl-gym's %r gives rewards whose sum leaves [0, 1]; it is cut to it, and gym_reward in "
        "the metadata has them as they came",
        name,
    )


EXTRA_INFO: Final = "extra_info"
"""Column with the task's fields and its skills, written by `task_rows`."""

TRAINER_COLUMNS: Final = (
    "ability",
    "data_source",
    "env_class",
    EXTRA_INFO,
    "prompt",
    "reward_model",
    "reward_spec",
    "uid",
)
"""Columns of SkyRL's data sets that are not passed to our environments."""

_OURS: Final = ("skillwright.envs.", "skillwright.worlds.")


def register_with_skyrl(names: Iterable[str] | None = None) -> list[str]:
    """Register our environments with ``skyrl_gym``; repeated calls change nothing.

    A trainer that runs environments in other processes calls this in each of them.

    Args:
        names: One or several of our names; ``None`` for all installed ones whose name is free in
            skyrl-gym.

    Returns:
        The registered names.

    Raises:
        DataError: skyrl-gym is not installed, a name is unknown, or skyrl-gym has another
            environment of that name.
    """
    gym = skyrl_gym()
    wanted = [names] if isinstance(names, str) else names
    ours = []
    for name in list(specs()) if wanted is None else wanted:
        spec(name)
        taken = gym.registry.get(name)
        if taken is None:
            gym.register(name, entry_point=_ENTRY_POINT, kwargs={"name": name})
        elif taken.entry_point != _ENTRY_POINT:
            if names is None:
                continue
            raise DataError(
                f"skyrl-gym has an environment {name!r} already, {taken.entry_point!r}; deregister "
                "it first (skyrl_gym.envs.deregister)"
            )
        ours.append(name)
    return ours


def make_for_skyrl(
    name: str, env_config: object | None = None, extras: dict[str, Any] | None = None
) -> Any:
    """Build one episode's environment as an instance of skyrl-gym's ``BaseTextEnv``.

    Args:
        name: Our name of the environment.
        env_config: Settings shared by all episodes; an empty one means none.
        extras: Columns of a row, as settings of this episode. SkyRL's own columns
            (`TRAINER_COLUMNS`) are dropped for built-in environments, which refuse unknown
            settings. The skills in the prompt of a row by `task_rows` are injected as in our own
            engine.

    Raises:
        DataError: skyrl-gym is not installed, or the name is unknown.
    """
    found = spec(name)
    is_empty = isinstance(env_config, Mapping) and not env_config
    config = found.env_config if env_config is None or is_empty else env_config
    ours = found.load()
    columns = dict(extras or {})
    if ours.__module__.startswith(_OURS) or is_task_row(columns):
        columns = task_columns(columns)
    made = _gym_class(ours)(config, columns)
    made.skills_in_prompt = is_task_row(extras or {})
    return made


def is_task_row(extras: Mapping[str, Any]) -> bool:
    """Tell whether a row was written by `task_rows`."""
    about = extras.get(EXTRA_INFO)
    return isinstance(about, Mapping) and "task_id" in about


def task_columns(extras: Mapping[str, Any]) -> dict[str, Any]:
    """Return the environment's own columns, without those that are ``None``.

    A table fills a column with ``None`` in rows that lack it.
    """
    return {
        name: of for name, of in extras.items() if name not in TRAINER_COLUMNS and of is not None
    }


def skill_in(prompt: Sequence[Message]) -> str:
    """Return the skills at the start of a prompt by `task_rows`, or ``""``."""
    first = prompt[0] if prompt else None
    if first is None or first["role"] != "system":
        return ""
    heading = f"{SKILL_HEADING}\n\n"
    return first["content"].removeprefix(heading) if first["content"].startswith(heading) else ""


_ENTRY_POINT: Final = f"{__name__}:{make_for_skyrl.__name__}"


def _gym_class(ours: type[TextEnv]) -> type:
    """Return a subclass of skyrl-gym's ``BaseTextEnv`` that runs our environment."""
    found = _gym_classes.get(ours)
    if found is not None:
        return found
    theirs: Any = importlib.import_module(f"{skyrl_gym().__name__}.envs.base_text_env").BaseTextEnv

    def build(self: Any, env_config: object | None, extras: dict[str, Any] | None) -> None:
        theirs.__init__(self)
        ours.__init__(self, env_config, extras)

    def init(self: Any, prompt: Sequence[Message]) -> tuple[list[Message], dict[str, Any]]:
        if not self.skills_in_prompt:
            return ours.init(self, prompt)
        opening, metadata = ours.init(self, [])
        return list(with_other_skill(opening, "", skill_in(prompt))), metadata

    members = {"__init__": build, "__module__": __name__, "init": init, "skills_in_prompt": False}
    made = type(ours.__name__, (ours, theirs), members)
    return _gym_classes.setdefault(ours, made)


_gym_classes: dict[type[TextEnv], type] = {}
