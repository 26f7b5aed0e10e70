"""Sections that every job has: name and seed, models, how episodes are played, a budget."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    AfterValidator,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

from skillwright.config.section import Section
from skillwright.models import Prices, ScriptedConfig
from skillwright.models.validation import Share

_FOLDER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def _check_folder_name(name: str) -> str:
    if not _FOLDER_NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} cannot name a run's folder; use letters, digits, '.', '_' and '-', and "
            "begin with a letter or digit"
        )
    return name


FolderName = Annotated[str, AfterValidator(_check_folder_name)]
"""A text that can name a run's folder."""


class NamedRun(Section):
    """What the run is called, where it is kept, and the seed that everything derives from."""

    name: FolderName = "run"
    """The run's folder below ``root``; a configuration file's own name where it says nothing."""
    seed: NonNegativeInt = 42
    """Splits, batches, environments, sampling and first weights all derive from it."""
    root: Annotated[str, Field(min_length=1)] = "runs"
    """The folder that holds runs, relative to the working directory."""


class PricedModels(Section):
    """Models by role, with one table of prices."""

    prices: dict[str, Prices] = Field(default_factory=dict)
    """What models cost, by name; where a model has ``prices`` of its own, those hold."""

    # Role -> the scripted models that can have it, the usual one first.
    scripted: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    @model_validator(mode="before")
    @classmethod
    def _priced(cls, values: Any) -> Any:
        """Give each model the prices that the table has under its name."""
        table = values.get("prices") if isinstance(values, Mapping) else None
        if not isinstance(table, Mapping):
            return values
        roles = {role: values[role] for role in cls.scripted if values.get(role)}
        return {**values, **{role: _with_prices(model, table) for role, model in roles.items()}}

    @model_validator(mode="after")
    def _scripted_models_know_their_role(self) -> Self:
        for role, known in self.scripted.items():
            model = getattr(self, role)
            if isinstance(model, ScriptedConfig) and model.model not in known:
                raise ValueError(
                    f"the scripted {model.model!r} cannot be the {role}; use {known[0]!r} there"
                )
        return self


def _with_prices(model: Any, table: Mapping[str, Any]) -> Any:
    if not isinstance(model, Mapping) or model.get("backend") == "scripted":
        return model
    listed = table.get(str(model.get("model")))
    return model if listed is None or model.get("prices") else {**model, "prices": listed}


class PlayedEpisodes(Section):
    """How episodes are played."""

    max_concurrent: PositiveInt = 64
    """Episodes in flight at once."""
    retries: NonNegativeInt = 2
    """Further attempts, each in a fresh environment, for an episode that failed."""
    give_up_after: PositiveInt | None = 20
    """Failed episodes in a row that stop the run, to be resumed; unset, no number does."""
    max_failure_share: Share | None = 0.5
    """A larger share of failures among the last 40 episodes, or 20 at first, stops it as well."""
    episode_timeout_s: PositiveFloat | None = None
    """Seconds that one attempt may take (of a policy, a batch of choices); unset, no bound but the
    model's own."""
    history_turns: PositiveInt | None = None
    """Exchanges that the agent is shown after the opening; unset, all."""


class Reported(Section):
    """What decides, and what is reported."""

    alpha: Annotated[float, Field(gt=0, lt=0.5)] = 0.05
    """The chance that a run whose changes do nothing releases one, for gates that know of noise."""
    val_tasks: PositiveInt | None = None
    """Judge on the first so many val tasks only; unset, on all."""
    test: bool = True
    """Open the test split at the end."""
    test_tasks: PositiveInt | None = None
    """Report on the first so many test tasks only; unset, on all."""


# What a run may use up, as a configuration says it.


class BudgetSection(Section):
    """Bounds of the whole run, over all its resumes; what is reached first stops it, resumable.

    In a study of several seeds each seed's run has the whole budget.
    """

    usd: PositiveFloat | None = None
    """Money, in US dollars; every model needs known prices."""
    tokens: PositiveInt | None = None
    """Tokens, prompts and answers together."""
    minutes: PositiveFloat | None = None
    """Time in which processes worked on the run."""

    @property
    def is_set(self) -> bool:
        """Whether there is any bound."""
        return any(bound is not None for bound in (self.usd, self.tokens, self.minutes))
