"""The settings of the environment ``qa``."""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Final, Literal

from pydantic import Field, ValidationError, model_validator

from skillwright.core import DataError
from skillwright.core.settings import Frozen
from skillwright.models.validation import explain_validation_error

GENERATED: Final = "generated"
"""Name of the generated collection."""
BM25: Final = "bm25"

Count = Annotated[int, Field(strict=True, ge=1)]


class QaSettings(Frozen):
    """``env.config`` of the environment ``qa``."""

    metric: Literal["em", "f1"] = "em"
    """The reward: exact match, or F1 of words."""
    max_context_chars: Count = 6000
    """Maximum characters of the passages in the prompt, or of a search result."""
    passages: Annotated[str, Field(min_length=1)] | None = None
    """File of passages to search, or ``generated``; unset, questions have their own passages and
    one turn."""
    retriever: Annotated[str, Field(min_length=1)] = BM25
    """Retriever: ``bm25``, or a sentence-transformers model."""
    top_k: Count = 3
    """Passages per search."""
    max_searches: Count | None = None
    """Maximum searches per episode; unset, no limit."""
    calls: Literal["tags", "native"] = "tags"
    """``native`` offers the search as a tool, and a reply without a call is the answer."""

    @property
    def one_turn(self) -> dict[str, object]:
        """The settings of `QaEnv`."""
        return {"metric": self.metric, "max_context_chars": self.max_context_chars}

    @model_validator(mode="after")
    def _check_passages(self) -> "QaSettings":
        about = {"retriever", "top_k", "max_searches", "calls"} & self.model_fields_set
        if about and self.passages is None:
            raise ValueError(
                f"{min(about)} is about a search, and there is nothing to search: set passages to "
                f"a file of them, or to {GENERATED!r}"
            )
        if "://" in self.retriever or self.retriever == "lexical":
            raise ValueError(
                f"retriever is {self.retriever!r}; use {BM25!r}, or the folder or name of a "
                "sentence-transformers model that runs here"
            )
        return self


def read_settings(env_config: object | None) -> QaSettings:
    """Read settings from ``None`` or a mapping.

    Raises:
        DataError: A setting is unknown or wrong; the message names the nearest right one.
    """
    given = {} if env_config is None else env_config
    if not isinstance(given, Mapping):
        raise DataError(f"qa env_config is a {type(given).__name__}; write a mapping")
    try:
        return _read(json.dumps({str(name): value for name, value in given.items()}))
    except TypeError as error:
        raise DataError(f"qa env_config: {error}; write plain YAML values") from error


@lru_cache(maxsize=64)
def _read(text: str) -> QaSettings:
    try:
        return QaSettings.model_validate(json.loads(text))
    except ValidationError as error:
        raise DataError(explain_validation_error(error, QaSettings, "env.config")) from None
