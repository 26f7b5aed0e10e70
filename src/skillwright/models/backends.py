"""Model backends: built-in ones, and those of packages, named by an entry point.

[project.entry-points."skillwright.backends"]
echo = "my_package:ECHO"
"""

import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol, Self

from pydantic import SecretStr, field_validator

from skillwright.core import ChatModel, Completion, ConfigError, DataError, Message, did_you_mean
from skillwright.entry_points import entry_points
from skillwright.models.open_union import OpenUnion
from skillwright.models.prices import Prices
from skillwright.models.validation import VARIABLE

GROUP: Final = "skillwright.backends"


class ModelConfig(OpenUnion):
    """Settings of a model; ``backend`` chooses the class. A backend overrides the properties."""

    backend: str
    model: str

    tag: ClassVar[str] = "backend"

    @classmethod
    def member(cls, name: str) -> type[OpenUnion]:
        """Return the settings class of a backend."""
        return find_backend(name).config

    @classmethod
    def members(cls) -> Mapping[str, type[OpenUnion]]:
        """Return the settings classes of all backends."""
        return {each.name: each.config for each in list_backends()}

    @property
    def is_scripted(self) -> bool:
        """Whether it is a scripted model; results say so."""
        return False

    @property
    def takes_seeds(self) -> bool:
        """Whether calls pass their seeds on to the model."""
        return False

    @property
    def calls_tools(self) -> bool:
        """Whether it can call tools natively."""
        return True

    @property
    def address(self) -> str:
        """The endpoint's address; "" without one."""
        return ""

    @property
    def known_prices(self) -> Prices | None:
        """Prices per token; ``None`` where they are unknown."""
        prices: Prices | None = getattr(self, "prices", None)
        return prices

    @property
    def is_free(self) -> bool:
        """Whether its tokens cost nothing."""
        return self.is_scripted

    @property
    def reports_cost(self) -> bool:
        """Whether its answers report their cost."""
        return False

    @property
    def why_here_only(self) -> str:
        """Why it cannot run on other machines; "" if it can."""
        return ""

    def secrets(self) -> list[str]:
        """Return the keys in the settings and in the environment variables they name."""
        return []

    def fenced(self, folder: Path, hidden: Sequence[Path]) -> Self:
        """Return settings that hide files from programs and store the output of failed ones."""
        return self

    def for_worker(self) -> Self:
        """Return the settings for a worker on another machine."""
        return self


class Keyed(ModelConfig):
    """Settings of a model that needs a key."""

    # In addition to the key, whose field is excluded anyway.
    no_answer_depends_on: ClassVar[frozenset[str]] = frozenset()

    @field_validator("api_key_env", check_fields=False)
    @classmethod
    def _check_variable_name(cls, name: str) -> str:
        if not re.fullmatch(VARIABLE, name):
            raise ValueError(
                "this names an environment variable and does not hold the key itself; "
                f"write, for example, {cls.model_fields['api_key_env'].default}"
            )
        return name

    @property
    def given_key(self) -> str:
        """The key in the settings, or ``""``."""
        key: SecretStr | None = getattr(self, "api_key", None)
        return key.get_secret_value().strip() if key else ""

    def secrets(self) -> list[str]:
        """Return the key in the settings and the one in the variable that they name."""
        key: SecretStr | None = getattr(self, "api_key", None)
        given = key.get_secret_value() if key else ""
        return [given, os.environ.get(getattr(self, "api_key_env", ""), "")]

    def what_matters(self) -> dict[str, Any]:
        """Return the settings that can change an answer, without secrets."""
        return self.model_dump(mode="json", exclude=set(self.no_answer_depends_on))


class MakeModel(Protocol):
    """Makes a model from settings, without sending anything."""

    def __call__(
        self,
        config: Any,
        client: Any,
        *,
        sleep: Callable[[float], Awaitable[None]],
        clock: Callable[[], float],
    ) -> ChatModel:
        """Make the model.

        Args:
            config: Settings of the backend's class.
            client: The run's `skillwright.models.HttpClient`.
            sleep: Waits between attempts.
            clock: Monotonic clock, in seconds.
        """


class ModelServer(Protocol):
    """A server process for a model on this machine, which ends with its HTTP client."""

    key: str
    """Bearer token of its requests."""

    def address(self, timeout_s: float) -> str:
        """Return the server's address; start the server if it does not run."""


class FolderAgent(Protocol):
    """A model that can work on the files of a folder."""

    async def work(
        self, messages: Sequence[Message], folder: Path, *, keeps_edits: bool
    ) -> Completion:
        """Work on a copy of a folder; ``keeps_edits`` copies the changes back."""


@dataclass(frozen=True, slots=True)
class Backend:
    """A way to reach a model.

    Attributes:
        name: Value of the key ``backend``.
        summary: What it talks to.
        needs: Prerequisites, as a phrase.
        config: Settings class.
        make: Makes a model from settings; ``None`` for an endpoint, whose model uses `dialect`.
        dialect: For an endpoint, makes its `skillwright.models.Dialect`.
        serve: Starts a server for a file of weights, given slots and an HTTP client.
        roles: ``agent`` acts in environments; ``optimizer`` reflects, merges and ranks.
        other_names: Names in other systems; the error message suggests ``name``.
        aliases: Names that a configuration may use instead of ``name``.
        requires: Required package, such as ``xllamacpp>=2026.10``.
        install: Package to install for it; "" is the required package.
    """

    name: str
    summary: str
    needs: str
    config: type[ModelConfig]
    make: MakeModel | None = None
    dialect: Callable[[Any], Any] | None = None
    serve: Callable[[str, int, Any], ModelServer] | None = None
    roles: tuple[str, ...] = ("agent", "optimizer")
    other_names: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    requires: str = ""
    install: str = ""

    def check_package(self) -> None:
        """Raise a `ConfigError` if the required package is missing or too old."""
        package, _, least = self.requires.partition(">=")
        if package and _numbers(_installed(package)) < (_numbers(least) or [0]):
            raise ConfigError(
                f"backend {self.name!r} needs the package {self.requires}: "
                f"pip install '{self.install or self.requires}'"
            )


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _numbers(release: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", release)]


_BUILT_IN: dict[str, Backend] = {}
_NEVER = frozenset(
    {
        *("copilot_chat", "copilot", "copilot_cli", "github_copilot", "copilot_exec"),
        *("cursor_exec", "cursor", "cursor_agent"),
    }
)


def register_backend(backend: Backend) -> None:
    """Add a backend for this process; a package uses an entry point instead."""
    _BUILT_IN[backend.name] = backend


def list_backends() -> tuple[Backend, ...]:
    """Load all backends, built-in ones first; skip those that fail to load."""
    found = dict(_BUILT_IN)
    for name in entry_points(GROUP):
        with suppress(DataError):
            found.setdefault(name, _load(name))
    return tuple(found.values())


def find_backend(name: str) -> Backend:
    """Find a backend by its name or an alias, or raise a `DataError` with a suggestion."""
    if name in _BUILT_IN:
        return _BUILT_IN[name]
    if name in entry_points(GROUP):
        return _load(name)
    if name in _NEVER:
        raise DataError(
            f"backend {name!r} is not supported; use 'openai_chat' or 'claude_chat' for a model "
            "behind an endpoint, or 'codex_exec' or 'claude_code_exec' for an agent at a command "
            "line"
        )
    known = list_backends()
    for each in known:
        if name in each.aliases:
            return each
        if name in each.other_names:
            raise DataError(f"backend {name!r} is called {each.name!r} here; write that")
    raise DataError(f"no backend {name!r}. {did_you_mean(name, [one.name for one in known])}")


def true_name(name: str) -> str:
    """Resolve an alias of a backend; return other names unchanged."""
    try:
        return find_backend(name).name
    except DataError:
        return name


def why_unusable(name: str) -> str:
    """Return why a backend name is unusable, with a suggestion, or ""."""
    try:
        find_backend(name)
    except DataError as error:
        return str(error)
    return ""


def _load(name: str) -> Backend:
    point = entry_points(GROUP)[name]
    found = point.load()
    if not isinstance(found, Backend) or found.name != name:
        raise DataError(
            f"{point.value!r} of the package {point.package!r} is no skillwright.models.Backend "
            f"with the name {name!r}"
        )
    return found
