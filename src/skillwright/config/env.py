"""The schema of the environment and its tasks in a configuration."""

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
"""SkillOpt's benchmarks and their adapters. We also have an environment ``alfworld``."""


def skillopt_hint(name: str) -> str:
    """Say how to run a SkillOpt benchmark with its own adapter; ``""`` for other names."""
    if name not in BENCHMARKS:
        return ""
    adapter = f"skillopt.envs.{name}.adapter:{BENCHMARKS[name]}"
    return (
        f" It is a benchmark of SkillOpt's: install its package, and add --adapter {adapter}"
        " --compat skillopt."
    )


def _check_ratio(text: str) -> str:
    parse_ratio(text)
    return text


def _check_shares(text: str) -> str:
    parse_ratio(text, least=0)
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
    """Generated ALFWorld games: solvable, and different in every split."""

    kind: Literal["generated"] = "generated"
    household: NonNegativeInt | None = None
    """Number of the household that all games share; unset, each game has its own."""


class HouseholdsData(SeededData):
    """Generated games in households with habits that only a skill can teach within the turns."""

    kind: Literal["households"] = "households"
    train: PositiveInt = 300
    val: PositiveInt = 60
    test: PositiveInt = 120
    homes: PositiveInt = 20
    """Households of the training games, six consecutive games each."""
    new_homes: NonNegativeInt = 0
    """Separate households for val and test; 0 uses those of train."""
    survey: NonNegativeInt = 0
    """Training games in the new households, for the bank only, not for the weights."""

    @model_validator(mode="after")
    def _check_new_homes(self) -> "HouseholdsData":
        if bool(self.survey) != bool(self.new_homes):
            raise ValueError(
                f"new_homes is {self.new_homes} and survey {self.survey}; a bank learns about new "
                "homes from the games of the survey: set both, or neither"
            )
        return self


class AlfworldData(LimitedData):
    """The official ALFWorld games: ``train``, ``valid_seen`` as val, ``valid_unseen`` as test."""

    kind: Literal["alfworld_data"] = "alfworld_data"
    root: str | None = None
    """Folder ``json_2.1.1`` or its parent; unset, ``$ALFWORLD_DATA``."""


class SplitDirData(Settings):
    """Items in a folder with the splits ``train``, ``val`` and ``test``."""

    kind: Literal["split_dir"] = "split_dir"
    path: Annotated[str, Field(min_length=1)]
    """Folder with the three splits."""


class RatioData(Settings):
    """Items in one file, shuffled and split by shares."""

    kind: Literal["ratio"] = "ratio"
    path: Annotated[str, Field(min_length=1)]
    """JSON, JSONL, CSV, TSV or Parquet file, or a folder with one JSON or JSONL file."""
    ratio: Annotated[str, BeforeValidator(_or_usual), AfterValidator(_check_ratio)] = USUAL_RATIO
    """Shares of train, val and test."""
    seed: NonNegativeInt = 42
    """Seed of the shuffle."""


class AdapterData(Settings):
    """Tasks that an `EnvAdapter` provides."""

    kind: Literal["adapter"] = "adapter"
    train: PositiveInt | None = None
    """Episodes per epoch; unset, the size in the adapter's data loader."""
    val: NonNegativeInt = 0
    """Episodes for the gate; 0 means the whole split."""
    test: NonNegativeInt = 0
    """Episodes for the final test; 0 means the whole split."""


class TauBenchData(LimitedData):
    """Tasks of tau-bench, of the domain that ``env.config.domain`` names.

    The airline data has only a test split: ``train`` and ``val`` are the numbers of tasks taken
    from it; unset, there are no training tasks. tau3 has no val split: a quarter of train is val.
    """

    kind: Literal["tau_bench"] = "tau_bench"
    test_split: Annotated[str, Field(min_length=1)] | None = None
    """Split of the data for the final test, such as ``base``: tau3's whole set; unset, ``test``."""


class QaData(SeededData):
    """Generated questions over passages, about different things in every split."""

    kind: Literal["qa"] = "qa"
    val: PositiveInt = 60


class WebShopData(SeededData):
    """WebShop goals for the catalogue ``env.config.catalogue``, by default the built-in one.

    The seed determines prices and splits, and the products of the built-in catalogue.
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
    """The data set of a verifiers environment; its eval set, if any, is the test split."""

    kind: Literal["verifiers"] = "verifiers"
    ratio: Annotated[str, AfterValidator(_check_ratio)] = "1:1:1"
    """Shares of train, val and test; with an eval set, only the first two count."""
    seed: NonNegativeInt = 0
    """Seed of the split."""


class TableData(LimitedData):
    """The rows of a file: CSV, TSV, JSON, JSON Lines, Parquet, or the evals of a skill."""

    kind: Literal["table"] = "table"
    path: Annotated[str, Field(min_length=1)]
    """File, folder with ``train.csv``, ``val.csv`` and ``test.csv``, or folder of a skill."""
    ratio: Annotated[str, AfterValidator(_check_shares)] | None = None
    """Shares of train, val and test, stratified by task type and answer; unset, 1:1:1.
    ``0:0:1``: all rows are for `skillwright eval`."""
    split_column: str | None = None
    """Column with ``train``, ``val`` or ``test``, instead of a ratio."""
    cluster_column: str | None = None
    """Column whose equal values mark rows that tests count once, such as a document; unset, near
    copies are found by their texts. A column of unique values turns that off."""
    encoding: str | None = None
    """Text encoding such as ``cp1252``; unset, UTF-8 or the byte-order mark."""
    max_cell_chars: PositiveInt = 1_000_000
    """Longest cell, in characters."""
    max_file_mb: PositiveInt = 4000
    """Largest file, unpacked."""
    seed: NonNegativeInt = 0
    """Seed of the split."""
    train: PositiveInt | None = None
    """Maximum number of tasks; unset, all."""
    val: PositiveInt | None = None
    """Maximum number of tasks; unset, all."""
    test: PositiveInt | None = None
    """Maximum number of tasks; unset, all."""

    @model_validator(mode="after")
    def _check_split(self) -> "TableData":
        ways = [name for name in ("ratio", "split_column") if getattr(self, name) is not None]
        if len(ways) > 1:
            raise ValueError(f"{' and '.join(ways)} both define the splits; give one")
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

# Kind of data -> the only environment for it, and what its tasks are.
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


def _refuse_unknown(name: str) -> None:
    file = name.rpartition(":")[0]
    if file.endswith(".py") and not Path(file).is_file():
        raise ValueError(f"env.name is {name!r}, and there is no file {file!r}")
    try:
        spec(name)
    except DataError as error:
        raise ValueError(f"{error}{skillopt_hint(name)}") from error


# Environment -> default turn limit (30 in tau-bench's runs, 15 in WebShop's; scores depend on it),
# and default kind of data.
_OWN_DEFAULTS = {
    "tau_bench": (30, "tau_bench"),
    "qa": (1, "qa"),
    "webshop": (15, "webshop"),
    "table": (1, "table"),
    "verifiers:NAME": (50, "verifiers"),
}
_TRIES = 3


def _table_key(name: str) -> str:
    """Return an environment's key in the two tables above."""
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
    def _with_defaults_of_environment(cls, values: Any) -> Any:
        named = _table_key(str(values.get("name"))) if isinstance(values, Mapping) else ""
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
    def _with_data_of_adapter(cls, values: Any) -> Any:
        if not isinstance(values, Mapping) or not values.get("compat") or "data" in values:
            return values
        return {**values, "data": {"kind": "adapter"}}

    @property
    def given_turns(self) -> int | None:
        """`max_turns`, or ``None`` where the adapter's own default applies."""
        is_adapter = self.compat is not None or self.data.kind == "adapter"
        unset = is_adapter and "max_turns" not in self.model_fields_set
        return None if unset else self.max_turns

    @model_serializer(mode="wrap")
    def _without_unset_turns(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        found: dict[str, Any] = write(self)
        if self.given_turns is None:  # otherwise it would be a given number when read back
            found.pop("max_turns", None)
        return found

    @model_validator(mode="after")
    def _check_data(self) -> "EnvSection":
        owner, what = _OWN_DATA.get(self.data.kind, (self.name, ""))
        if owner not in (self.name, _table_key(self.name)):
            _refuse_unknown(self.name)  # a misspelled name is the likelier mistake
            raise ValueError(
                f"data.kind {self.data.kind!r} gives {what} of {owner!r}, and the environment is "
                f"{self.name!r}; use data.kind 'split_dir' or 'ratio', or 'adapter' for an "
                "EnvAdapter that provides its own tasks"
            )
        return self
