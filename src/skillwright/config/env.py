"""The environment and its tasks, as a configuration names them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
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
from skillwright.datasets import USUAL_RATIO, parse_ratio
from skillwright.envs import spec

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


def _or_usual(given: Any) -> Any:
    return USUAL_RATIO if given in ("", None) else given


class SeededData(Settings):
    """Tasks that are generated from a seed."""

    train: PositiveInt = 40
    """Training tasks."""
    val: PositiveInt = 40
    """Tasks for the gate."""
    test: PositiveInt = 60
    """Tasks for the final test."""
    seed: NonNegativeInt = 0
    """Seed of the tasks."""


class LimitedData(Settings):
    """Tasks that are read from data."""

    train: PositiveInt | None = None
    """Maximum number of tasks; unset, all."""
    val: PositiveInt | None = None
    """Maximum number of tasks; unset, all."""
    test: PositiveInt | None = None
    """Maximum number of tasks; unset, all."""


class GeneratedData(SeededData):
    """Houses of our own: seeded, solvable, and never the same in two splits."""

    kind: Literal["generated"] = "generated"
    household: NonNegativeInt | None = None
    """Household that all games share; unset, each game has its own."""


class HouseholdsData(SeededData):
    """Houses of homes whose habits only a skill can tell, with too few turns to search them all."""

    kind: Literal["households"] = "households"
    train: PositiveInt = 300
    val: PositiveInt = 60
    test: PositiveInt = 120
    homes: PositiveInt = 20
    """Households of the training games; six consecutive games share one."""
    new_homes: NonNegativeInt = 0
    """Separate households for val and test; 0 uses those of train."""
    survey: NonNegativeInt = 0
    """Training games in the new households, for the bank only, not for weights."""

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
    """Folder ``json_2.1.1`` or its parent; unset, ``$ALFWORLD_DATA``."""


class SplitDirData(Settings):
    """Items that are split already: a folder with ``train``, ``val`` and ``test``."""

    kind: Literal["split_dir"] = "split_dir"
    path: Annotated[str, Field(min_length=1)]
    """Folder with the three splits."""


class RatioData(Settings):
    """Items in one file, shuffled and cut into three splits."""

    kind: Literal["ratio"] = "ratio"
    path: Annotated[str, Field(min_length=1)]
    """JSON, JSONL, CSV, TSV or Parquet file, or a folder with one JSON or JSONL file."""
    ratio: Annotated[str, BeforeValidator(_or_usual), AfterValidator(_check_ratio)] = USUAL_RATIO
    """Shares of train, val and test."""
    seed: NonNegativeInt = 42
    """Seed of the shuffle."""


class AdapterData(Settings):
    """Tasks that an `EnvAdapter` brings itself."""

    kind: Literal["adapter"] = "adapter"
    train: PositiveInt | None = None
    """Episodes per epoch; unset, the size in the adapter's data loader."""
    val: NonNegativeInt = 0
    """Episodes for the gate; 0 means the whole split."""
    test: NonNegativeInt = 0
    """Episodes for the final test; 0 means the whole split."""


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
    """Human instructions, or a synthetic goal per choice of options."""
    train: PositiveInt = 60
    """Training tasks."""
    val: PositiveInt = 60
    """Tasks for the gate."""
    test: PositiveInt = 100
    """Tasks for the final test."""


class VerifiersData(LimitedData):
    """The data set of an environment of verifiers; its eval set is test, where it has one."""

    kind: Literal["verifiers"] = "verifiers"
    ratio: Annotated[str, AfterValidator(_check_ratio)] = "1:1:1"
    """Shares of train, val and test; with an eval set, only the first two count."""
    seed: NonNegativeInt = 0
    """Seed of the split."""


class TableData(LimitedData):
    """The rows of a file: CSV, TSV, JSON, JSON Lines or Parquet."""

    kind: Literal["table"] = "table"
    path: Annotated[str, Field(min_length=1)]
    """File, or folder with ``train.csv``, ``val.csv`` and ``test.csv``."""
    ratio: Annotated[str, AfterValidator(_check_ratio)] | None = None
    """Shares of train, val and test, stratified by task type and answer; unset, 1:1:1."""
    split_column: str | None = None
    """Column with ``train``, ``val`` or ``test``, instead of a ratio."""
    encoding: str | None = None
    """Text encoding such as ``cp1252``; unset, UTF-8 or the byte-order mark."""
    seed: NonNegativeInt = 0
    """Seed of the split."""
    train: PositiveInt | None = None
    """Maximum number of tasks; unset, all."""
    val: PositiveInt | None = None
    """Maximum number of tasks; unset, all."""
    test: PositiveInt | None = None
    """Maximum number of tasks; unset, all."""

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
    """Registered name, ``package.module:Class``, ``path/to/file.py:Class``, ``verifiers:NAME`` or
    ``skyrl_gym:NAME``."""
    compat: Literal["skillopt"] | None = None
    """``skillopt`` for an adapter that imports from `skillopt`."""
    config: dict[str, Any] = Field(default_factory=dict)
    """Settings of the environment, which validates them."""
    max_turns: PositiveInt = 50
    """Maximum actions per episode; unset, 30 for ``tau_bench``, 15 for ``webshop``, 1 for ``qa``
    (4 with ``passages``) and ``table`` (3 with ``on_wrong: retry``, 20 with ``mcp``), or the
    adapter's default."""
    success_threshold: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Minimum reward of a success."""
    data: DataConfig = GeneratedData()
    """Source of the tasks."""

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
        if self.given_turns is None:  # read back, it would look like a given number
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
