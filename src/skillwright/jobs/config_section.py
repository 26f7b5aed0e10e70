"""What all sections of a configuration share."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

Share = Annotated[float, Field(ge=0, le=1)]


class Section(BaseModel):
    """A mapping of a configuration: frozen, and closed to unknown keys."""

    # Inputs are hidden because pydantic would print them, and one of them may be a key.
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        hide_input_in_errors=True,
        use_attribute_docstrings=True,
    )


def kind_unless_given(kind: str) -> BeforeValidator:
    """Let the members of a union be told apart where nothing says which one is meant."""

    def fill(value: Any) -> Any:
        return {"kind": kind, **value} if isinstance(value, Mapping) else value

    return BeforeValidator(fill)
