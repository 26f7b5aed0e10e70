"""The environment and its tasks, as a configuration names them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    Field,
    NonNegativeInt,
    PositiveInt,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from skillwright.config.yaml_files import kind_unless_given
from skillwright.core import DataError
from skillwright.core.settings import Settings
from skillwright.datasets import parse_ratio
from skillwright.envs import spec

# SkillOpt's own benchmarks by name, and how each is played by its own adapter.


BENCHMARKS: Final = {
    "alfworld": "ALFWorldAdapter",
    "docvqa": "DocVQAAdapter",
    "livemathematicianbench": "LiveMathematicianBenchAdapter",
    "officeqa": "OfficeQAAdapter",
    "searchqa": "SearchQAAdapter",
    "spreadsheetbench": "SpreadsheetBenchAdapter",
}
"""SkillOpt's name of a benchmark -> its adapter. By the first of them there is one of ours, too."""


def how_to_play(name: str) -> str:
    """Say how a benchmark of SkillOpt's is played by its own adapter; ``""`` for other names."""
    if name not in BENCHMARKS:
        return ""
    adapter = f"skillopt.envs.{name}.adapter:{BENCHMARKS[name]}"
    return (
        f" It is a benchmark of SkillOpt's: where its package is installed, say --adapter {adapter}"
        " --compat skillopt."
    )


def _check_ratio(text: str) -> str:
    parse_ratio(text)
    return text


class SeededData(Settings):
    """Tasks that are generated from a seed."""

    train: PositiveInt = 40
    """Tasks to train on."""
    val: PositiveInt = 40
    """Tasks that the gate decides on."""
    test: PositiveInt = 60
    """Tasks that are opened once, at the end."""
    seed: NonNegativeInt = 0
    """Another seed gives other tasks."""


class LimitedData(Settings):
    """Tasks that are read from data."""

    train: PositiveInt | None = None
    """At most so many tasks, the first in order; unset, all."""
    val: PositiveInt | None = None
    """At most so many tasks; unset, all."""
    test: PositiveInt | None = None
    """At most so many tasks; unset, all."""


class GeneratedData(SeededData):
    """Houses of our own: seeded, solvable, and never the same in two splits."""

    kind: Literal["generated"] = "generated"
    household: NonNegativeInt | None = None
    """The home that all games share, with habits to be learned; unset, every game has its own."""


class HouseholdsData(SeededData):
    """Houses of homes whose habits only a skill can tell, with too few turns to search them all."""

    kind: Literal["households"] = "households"
    train: PositiveInt = 300
    val: PositiveInt = 60
    test: PositiveInt = 120
    homes: PositiveInt = 20
    """Homes that the games to train on are set in, six games in a row in the same."""
    new_homes: NonNegativeInt = 0
    """Homes of their own for val and test; 0 sets them in the homes of train, in other games."""
    survey: NonNegativeInt = 0
    """Train games in the new homes: a bank may learn from them, and no weights do."""

    @model_validator(mode="after")
    def _new_homes_can_be_known(self) -> "HouseholdsData":
        if bool(self.survey) != bool(self.new_homes):
            raise ValueError(
                f"new_homes is {self.new_homes} and survey {self.survey}; a bank knows the new "
                "homes from the games of the survey: set both, or neither"
            )
        return self


class AlfworldData(LimitedData):
    """The official ALFWorld games: ``train``, ``valid_seen`` as val, ``valid_unseen`` as test."""

    kind: Literal["alfworld_data"] = "alfworld_data"
    root: str | None = None
    """The folder ``json_2.1.1`` or one that holds it; unset, ``$ALFWORLD_DATA``."""


class SplitDirData(Settings):
    """Items that are split already: a folder with ``train``, ``val`` and ``test``."""

    kind: Literal["split_dir"] = "split_dir"
    path: Annotated[str, Field(min_length=1)]
    """The folder that holds the three."""


class RatioData(Settings):
    """Items in one file, shuffled and cut into three splits."""

    kind: Literal["ratio"] = "ratio"
    path: Annotated[str, Field(min_length=1)]
    """A JSON or JSONL file, or a folder that holds exactly one; a CSV, TSV or Parquet file."""
    ratio: Annotated[str, AfterValidator(_check_ratio)] = "2:1:7"
    """Shares of train, val and test."""
    seed: NonNegativeInt = 42
    """Shuffles the items before they are cut."""


class AdapterData(Settings):
    """Tasks that an `EnvAdapter` brings itself."""

    kind: Literal["adapter"] = "adapter"
    train: PositiveInt | None = None
    """Episodes in an epoch; unset, what the adapter's data loader says."""
    val: NonNegativeInt = 0
    """Episodes that the gate decides on; 0 is the adapter's whole split."""
    test: NonNegativeInt = 0
    """Episodes that are played once, at the end; 0 is the adapter's whole split."""


class TauBenchData(LimitedData):
    """Customers of tau-bench: of its retail store or its airline, as ``env.config.domain`` says.

    Where the data has a test split and no other, as the airline's, ``train`` and ``val`` say how
    many tasks are cut off it; unset, there is nothing to train on.
    """

    kind: Literal["tau_bench"] = "tau_bench"


class QaData(SeededData):
    """Questions of our own over passages: seeded, and about other things in every split."""

    kind: Literal["qa"] = "qa"
    val: PositiveInt = 60


class WebShopData(SeededData):
    """Customers of a shop; ``env.config.catalogue`` says which, the built-in one by default.

    Another seed gives other prices and splits, and other products of the built-in shop.
    """

    kind: Literal["webshop"] = "webshop"
    goals: Literal["human", "synthetic"] = "human"
    """What people asked for, or one goal for every way to choose a product's options."""
    train: PositiveInt = 60
    """At most so many goals to train on."""
    val: PositiveInt = 60
    """At most so many goals that the gate decides on."""
    test: PositiveInt = 100
    """At most so many goals that are opened once, at the end."""


class VerifiersData(LimitedData):
    """The data set of an environment of verifiers; its eval set is test, where it has one."""

    kind: Literal["verifiers"] = "verifiers"
    ratio: Annotated[str, AfterValidator(_check_ratio)] = "1:1:1"
    """Shares of train, val and test; where there is an eval set, only the first two count."""
    seed: NonNegativeInt = 0
    """Another seed deals the rows out in another way."""


class TableData(LimitedData):
    """The rows of a file: CSV, TSV, JSON, JSON Lines or Parquet."""

    kind: Literal["table"] = "table"
    path: Annotated[str, Field(min_length=1)]
    """The file; or a folder with a file per split: ``train.csv``, ``val.csv``, ``test.csv``."""
    ratio: Annotated[str, AfterValidator(_check_ratio)] | None = None
    """Shares of train, val and test, dealt out evenly over task types and answers; unset, 1:1:1."""
    split_column: str | None = None
    """The column that says ``train``, ``val`` or ``test``, in the place of a ratio."""
    encoding: str | None = None
    """What texts are written in, such as ``cp1252``; unset, UTF-8, or what their mark says."""
    seed: NonNegativeInt = 0
    """Another seed deals the rows out in another way."""
    train: PositiveInt | None = None
    """At most so many rows, evenly over task types and answers; unset, all."""
    val: PositiveInt | None = None
    """At most so many rows; unset, all."""
    test: PositiveInt | None = None
    """At most so many rows; unset, all."""

    @model_validator(mode="after")
    def _one_way_to_split(self) -> "TableData":
        ways = [name for name in ("ratio", "split_column") if getattr(self, name) is not None]
        if len(ways) > 1:
            raise ValueError(f"{' and '.join(ways)} both say which rows are for train; give one")
        return self


DataConfig = Annotated[
    GeneratedData
    | HouseholdsData
    | AlfworldData
    | SplitDirData
    | RatioData
    | TauBenchData
    | QaData
    | WebShopData
    | TableData
    | VerifiersData
    | AdapterData,
    Field(discriminator="kind"),
    kind_unless_given("generated"),
]

_OWN_DATA = {
    "generated": ("alfworld", "games"),
    "households": ("alfworld", "games"),
    "alfworld_data": ("alfworld", "games"),
    "tau_bench": ("tau_bench", "customers"),
    "qa": ("qa", "questions"),
    "webshop": ("webshop", "customers"),
    "table": ("table", "rows of a file"),
    "verifiers": ("verifiers:NAME", "rows of an environment's own data set"),
}
"""Kind of data -> the only environment that plays it, and what it gives."""


def _refuse_unknown(name: str) -> None:
    """Speak of a misspelled name or file before of data that do not fit it."""
    file = name.rpartition(":")[0]
    if file.endswith(".py") and not Path(file).is_file():
        raise ValueError(f"env.name is {name!r}, and there is no file {file!r}")
    try:
        spec(name)
    except DataError as error:
        raise ValueError(f"{error}{how_to_play(name)}") from error


# Environment -> the turns of its own (30 are those of tau-bench's runs, 15 those of WebShop's, and
# another number is another score), and its own kind of data.
_OWN_DEFAULTS = {
    "tau_bench": (30, "tau_bench"),
    "qa": (1, "qa"),
    "webshop": (15, "webshop"),
    "table": (1, "table"),
    "verifiers:NAME": (50, "verifiers"),
}
_TRIES = 3


def _owner(name: str) -> str:
    """Return under which name defaults and data of an environment are found."""
    return "verifiers:NAME" if name.startswith("verifiers:") else name


_TURNS_WITH_TOOLS = 20
_TURNS_WITH_SEARCHES = 4  # those of SkillRL's search agents


class EnvSection(Settings):
    """The environment and its tasks."""

    name: Annotated[str, Field(min_length=1)] = "alfworld"
    """A registered name, ``package.module:Class``, ``path/to/file.py:Class``, or ``verifiers:NAME``
    and ``skyrl_gym:NAME`` for what is installed of theirs."""
    compat: Literal["skillopt"] | None = None
    """``skillopt`` for an adapter that imports from `skillopt`: it finds our code there."""
    config: dict[str, Any] = Field(default_factory=dict)
    """Settings of the environment, which checks them itself."""
    max_turns: PositiveInt = 50
    """Most actions in an episode; unset, 30 for ``tau_bench``, 15 for ``webshop``, 1 for ``qa`` (4
    with ``passages``) and ``table`` (3 with ``on_wrong: retry``, 20 with ``mcp``), and what an
    adapter says itself."""
    success_threshold: Annotated[float, Field(gt=0, le=1)] = 1.0
    """The reward from which an episode is a success."""
    data: DataConfig = GeneratedData()
    """Where the tasks come from."""

    @model_validator(mode="before")
    @classmethod
    def _some_have_defaults_of_their_own(cls, values: Any) -> Any:
        named = _owner(str(values.get("name"))) if isinstance(values, Mapping) else ""
        own = _OWN_DEFAULTS.get(named)
        if own is None:
            return values
        most_turns, kind = own
        settings = values.get("config")
        if isinstance(settings, Mapping) and settings.get("on_wrong") == "retry":
            most_turns = _TRIES
        if isinstance(settings, Mapping) and settings.get("mcp"):
            most_turns = _TURNS_WITH_TOOLS
        if isinstance(settings, Mapping) and settings.get("passages"):
            most_turns = _TURNS_WITH_SEARCHES
        data = values.get("data", {})
        if isinstance(data, Mapping):
            data = {"kind": kind, **data}
        return {"max_turns": most_turns, **values, "data": data}

    @model_validator(mode="before")
    @classmethod
    def _adapters_bring_their_data(cls, values: Any) -> Any:
        if not isinstance(values, Mapping) or not values.get("compat") or "data" in values:
            return values
        return {**values, "data": {"kind": "adapter"}}

    @property
    def given_turns(self) -> int | None:
        """`max_turns`, or ``None`` where an adapter's own default holds."""
        brings_its_own = self.compat is not None or self.data.kind == "adapter"
        unset = brings_its_own and "max_turns" not in self.model_fields_set
        return None if unset else self.max_turns

    @model_serializer(mode="wrap")
    def _leave_turns_to_the_adapter(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        found: dict[str, Any] = write(self)
        if self.given_turns is None:  # read back, it would be a number that somebody gave
            found.pop("max_turns", None)
        return found

    @model_validator(mode="after")
    def _data_fits(self) -> "EnvSection":
        owner, what = _OWN_DATA.get(self.data.kind, (self.name, ""))
        if owner not in (self.name, _owner(self.name)):
            _refuse_unknown(self.name)
            raise ValueError(
                f"data.kind {self.data.kind!r} gives {what} of {owner!r}, and the environment is "
                f"{self.name!r}; use data.kind 'split_dir' or 'ratio', or 'adapter' for an "
                "EnvAdapter that brings its own tasks"
            )
        return self
