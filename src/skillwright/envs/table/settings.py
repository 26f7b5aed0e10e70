"""The settings of a table: the prompt about a row, and the scorer of replies."""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from skillwright.core import ConfigError, DataError
from skillwright.core.settings import Frozen
from skillwright.datasets.evals_files import ASSERTIONS
from skillwright.envs.table.prompts import render_prompt
from skillwright.envs.table.scorers import Assertions, Exact, Function, Judge, Scorer
from skillwright.envs.table.tool_server import ToolServer
from skillwright.models import ModelConfig, explain_validation_error, parse_model_config


class TableSettings(Frozen):
    """The settings in ``env.config`` for ``env.name: table``."""

    prompt: Annotated[str, Field(min_length=1)] = "{{ prompt }}"
    """The agent's prompt: a Jinja template over the columns; ``row`` is all of them."""
    answer: str | list[str] = "answer"
    """The column with the right answer; several of them are the fields of an object."""
    scorer: Scorer = Exact()
    """How a reply is scored: by name, or a mapping with ``kind`` and settings."""
    task_type: str | None = None
    """The column by which results are grouped; unset, they are not grouped."""
    on_wrong: Literal["stop", "retry"] = "stop"
    """Reaction to a wrong reply: ``retry`` lets the agent answer again, until ``env.max_turns``."""
    mcp: ToolServer | None = None
    """A server whose tools the agent may call before it answers; unset, there are none."""

    @property
    def answer_columns(self) -> list[str]:
        """The columns of the right answer."""
        if isinstance(self.scorer, Assertions):
            return [ASSERTIONS]
        return [self.answer] if isinstance(self.answer, str) else self.answer

    @property
    def may_lack_answers(self) -> bool:
        """Whether a row without a right answer can be scored."""
        return isinstance(self.scorer, Function | Judge)

    @property
    def hidden(self) -> list[str]:
        """The columns that no prompt may show; empty if no answer column was named."""
        is_meant = not self.may_lack_answers or "answer" in self.model_fields_set
        return self.answer_columns if is_meant else []

    def asked(self, row: Mapping[str, Any]) -> str:
        """Return the prompt about a row; the template gets no column of the right answer.

        Raises:
            DataError: The template is malformed, or the row lacks a column that it names.
        """
        shown = {name: value for name, value in row.items() if name not in self.hidden}
        return render_prompt(self.prompt, shown)

    def right(self, row: Mapping[str, Any]) -> Any:
        """Return the right answer of a row; ``None`` if it has none."""
        names = self.answer_columns
        if isinstance(self.answer, str) or isinstance(self.scorer, Assertions):
            return row.get(names[0])
        return {name: row.get(name) for name in names}


def read_settings(env_config: object | None) -> TableSettings:
    """Read settings from ``None`` or a mapping.

    Raises:
        DataError: A setting is unknown or wrong; the message names the nearest known one.
    """
    if isinstance(env_config, TableSettings):
        return env_config
    given = {} if env_config is None else env_config
    if not isinstance(given, Mapping):
        raise DataError(f"table env_config is a {type(given).__name__}; write a mapping")
    try:
        return _read(json.dumps(given, sort_keys=True))
    except TypeError as error:
        raise DataError(f"table env_config: {error}; write plain YAML values") from error


@lru_cache(maxsize=64)
def _read(text: str) -> TableSettings:
    try:
        settings = TableSettings.model_validate(json.loads(text))
    except ValidationError as error:
        raise DataError(explain_validation_error(error, TableSettings, "env.config")) from None
    if (asked := judge_of(settings.scorer)) is not None:
        judge_model(asked)
    return settings


def judge_of(scorer: Scorer) -> Mapping[str, Any] | None:
    """Return the settings of the model that judges; ``None`` if none does."""
    return scorer.model if isinstance(scorer, Judge | Assertions) else None


def judge_model(asked: Mapping[str, Any]) -> ModelConfig:
    """Return the model that judges.

    Raises:
        ConfigError: A setting of it is wrong, or it is a command-line program.
    """
    if "api_key" in asked:
        # Refused, because settings are stored with a run.
        raise ConfigError(
            "env.config.scorer.model holds an api_key, which would be stored; name the "
            "environment variable that holds it in api_key_env"
        )
    found = parse_model_config(asked, "env.config.scorer.model")
    if asked.get("transport") == "cli" or found.backend.endswith("_exec"):
        raise ConfigError(
            f"env.config.scorer.model is {found.backend!r}; a judge is a model behind an endpoint"
        )
    return found
