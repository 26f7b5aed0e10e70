"""The settings of qa: how an answer is scored, and whether passages are given or searched for."""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Final, Literal

from pydantic import Field, ValidationError, model_validator

from skillwright.core import DataError
from skillwright.core.settings import Frozen
from skillwright.models.validation import explain_validation_error

GENERATED: Final = "generated"
"""The collection of our own, which no file holds."""
BM25: Final = "bm25"

Count = Annotated[int, Field(strict=True, ge=1)]


class QaSettings(Frozen):
    """What ``env.config`` says where ``env.name`` is ``qa``."""

    metric: Literal["em", "f1"] = "em"
    """The reward: exact match, or F1 of words."""
    max_context_chars: Count = 6000
    """How much of the passages is shown, or of what one search found."""
    passages: Annotated[str, Field(min_length=1)] | None = None
    """A file of passages that the agent searches, or ``generated``; unset, a question brings its
    own and has one turn."""
    retriever: Annotated[str, Field(min_length=1)] = BM25
    """What finds passages: ``bm25``, or a sentence-transformers model."""
    top_k: Count = 3
    """Passages that a search shows."""
    max_searches: Count | None = None
    """Searches in an episode; unset, every turn may be one."""
    calls: Literal["tags", "native"] = "tags"
    """``native`` offers the search as a tool; then a reply without a call is the answer."""

    @property
    def one_turn(self) -> dict[str, object]:
        """Those of a question that brings its passages."""
        return {"metric": self.metric, "max_context_chars": self.max_context_chars}

    @model_validator(mode="after")
    def _search_has_passages(self) -> "QaSettings":
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
        DataError: One is unknown or wrong; the message names the nearest right one.
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
