"""The base of all settings of models."""

import re
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"
"""The name of an environment variable."""

Share = Annotated[float, Field(ge=0, le=1)]
"""A number in [0, 1]."""


class Frozen(BaseModel):
    """Settings that are read once. Unknown keys are refused, and no error shows a value."""

    # Inputs are hidden because pydantic would print them, and one of them may be a key.
    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, use_attribute_docstrings=True
    )


class Keyed(Frozen):
    """Settings of a model that is reached with a key."""

    # Beside the key, whose field says itself that it is never written.
    no_answer_depends_on: ClassVar[frozenset[str]] = frozenset()

    @field_validator("api_key_env", check_fields=False)
    @classmethod
    def _names_a_variable(cls, name: str) -> str:
        if not re.fullmatch(VARIABLE, name):
            raise ValueError(
                "this names an environment variable and does not hold the key itself; "
                f"write, for example, {cls.model_fields['api_key_env'].default}"
            )
        return name

    @property
    def given_key(self) -> str:
        """The key that stands in the settings, or ``""``."""
        key: SecretStr | None = getattr(self, "api_key", None)
        return key.get_secret_value().strip() if key else ""

    def what_matters(self) -> dict[str, Any]:
        """Return the settings that can change an answer, and nothing secret."""
        return self.model_dump(mode="json", exclude=set(self.no_answer_depends_on))
