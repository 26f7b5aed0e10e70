"""The base of all settings of models."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Share = Annotated[float, Field(ge=0, le=1)]
"""A number in [0, 1]."""


class Frozen(BaseModel):
    """Settings that are read once. Unknown keys are refused, and no error shows a value."""

    # Inputs are hidden because pydantic would print them, and one of them may be a key.
    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, use_attribute_docstrings=True
    )
