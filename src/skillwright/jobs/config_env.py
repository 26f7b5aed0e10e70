"""The environment and its tasks, as a configuration names them."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, NonNegativeInt, PositiveInt, model_validator

from skillwright.core import DataError
from skillwright.datasets import parse_ratio
from skillwright.envs import spec
from skillwright.jobs.config_section import Section, kind_unless_given


def _check_ratio(text: str) -> str:
    parse_ratio(text)
    return text


class GeneratedData(Section):
    """Houses of our own: seeded, winnable, and never the same in two splits."""

    kind: Literal["generated"] = "generated"
    train: PositiveInt = 40
    """Games to practise on."""
    val: PositiveInt = 40
    """Games that the gate decides on."""
    test: PositiveInt = 60
    """Games that are opened once, at the end."""
    seed: NonNegativeInt = 0
    """Another seed gives other games."""
    household: NonNegativeInt | None = None
    """The home that all games share, with habits to be learnt; unset, every game has its own."""


class AlfworldData(Section):
    """The official ALFWorld games: ``train``, ``valid_seen`` as val, ``valid_unseen`` as test."""

    kind: Literal["alfworld_data"] = "alfworld_data"
    root: str | None = None
    """The folder ``json_2.1.1`` or one that holds it; unset, ``$ALFWORLD_DATA``."""
    train: PositiveInt | None = None
    """At most so many games, the first in order of their ids; unset, all."""
    val: PositiveInt | None = None
    """At most so many games; unset, all."""
    test: PositiveInt | None = None
    """At most so many games; unset, all."""


class SplitDirData(Section):
    """Items that are split already: a folder with ``train``, ``val`` and ``test``."""

    kind: Literal["split_dir"] = "split_dir"
    path: Annotated[str, Field(min_length=1)]
    """The folder that holds the three."""


class RatioData(Section):
    """Items in one file, shuffled and cut into three splits."""

    kind: Literal["ratio"] = "ratio"
    path: Annotated[str, Field(min_length=1)]
    """A JSON or JSONL file, or a folder that holds exactly one."""
    ratio: Annotated[str, AfterValidator(_check_ratio)] = "2:1:7"
    """Shares of train, val and test."""
    seed: NonNegativeInt = 42
    """Shuffles the items before they are cut."""


class AdapterData(Section):
    """Tasks that an `EnvAdapter` brings itself."""

    kind: Literal["adapter"] = "adapter"
    train: PositiveInt | None = None
    """Episodes in an epoch; unset, what the adapter's data loader says."""
    val: NonNegativeInt = 0
    """Episodes that the gate decides on; 0 is the adapter's whole split."""
    test: NonNegativeInt = 0
    """Episodes that are played once, at the end; 0 is the adapter's whole split."""


class TauBenchData(Section):
    """Customers of the retail store of tau-bench; ``env.config.data_dir`` says which store."""

    kind: Literal["tau_bench"] = "tau_bench"
    train_split: Annotated[str, Field(min_length=1)] = "train"
    """The split of the data to practise on."""
    val_split: str | None = None
    """The split that the gate decides on; unset, ``val``, or ``dev`` where there is none."""
    test_split: Annotated[str, Field(min_length=1)] = "test"
    """The split that is played once, at the end."""
    train: PositiveInt | None = None
    """At most so many tasks, the first in the split's order; unset, all."""
    val: PositiveInt | None = None
    """At most so many tasks; unset, all."""
    test: PositiveInt | None = None
    """At most so many tasks; unset, all."""


DataConfig = Annotated[
    GeneratedData | AlfworldData | SplitDirData | RatioData | TauBenchData | AdapterData,
    Field(discriminator="kind"),
    kind_unless_given("generated"),
]

_OWN_DATA = {"generated": "alfworld", "alfworld_data": "alfworld", "tau_bench": "tau_bench"}


def _refuse_unknown(name: str) -> None:
    """Speak of a misspelt name before of data that do not fit it."""
    try:
        spec(name)
    except DataError as error:
        raise ValueError(str(error)) from error


_TAU_TURNS = 30  # of tau-bench's own runs; another number is another score


class EnvSection(Section):
    """The environment and its tasks."""

    name: Annotated[str, Field(min_length=1)] = "alfworld"
    """A registered name, ``package.module:Class``, or ``path/to/file.py:Class``."""
    config: dict[str, Any] = Field(default_factory=dict)
    """Settings of the environment, which checks them itself."""
    max_turns: PositiveInt = 50
    """Most actions in an episode; 30 for ``tau_bench`` where it is not given."""
    success_threshold: Annotated[float, Field(gt=0, le=1)] = 1.0
    """The reward from which an episode is a success."""
    data: DataConfig = GeneratedData()
    """Where the tasks come from."""

    @model_validator(mode="before")
    @classmethod
    def _tau_bench_has_defaults_of_its_own(cls, values: Any) -> Any:
        if not isinstance(values, Mapping) or values.get("name") != "tau_bench":
            return values
        data = values.get("data", {})
        if isinstance(data, Mapping):
            data = {"kind": "tau_bench", **data}
        return {"max_turns": _TAU_TURNS, **values, "data": data}

    @model_validator(mode="after")
    def _data_fits(self) -> "EnvSection":
        owner = _OWN_DATA.get(self.data.kind, self.name)
        if owner != self.name:
            _refuse_unknown(self.name)
            what = "customers" if owner == "tau_bench" else "games"
            raise ValueError(
                f"data.kind {self.data.kind!r} gives {what} of {owner!r}, and the environment is "
                f"{self.name!r}; use data.kind 'split_dir' or 'ratio', or 'adapter' for an "
                "EnvAdapter that brings its own tasks"
            )
        return self
