"""Base classes of settings, which configuration sections inherit from."""

from typing import Any, Self

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """Immutable settings. Unknown keys are refused, and no error shows a value."""

    # Inputs are hidden because pydantic would print them, and one may be an API key.
    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, use_attribute_docstrings=True
    )


class Settings(Frozen):
    """A section of a configuration: immutable and strictly typed, unknown keys refused."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    @classmethod
    def of(cls, *sections: "Settings", **facts: Any) -> Self:
        """Copy the fields that sections have in common with this class, and add ``facts``."""
        shared = {
            name: getattr(section, name)
            for section in sections
            for name in cls.model_fields.keys() & type(section).model_fields.keys()
        }
        return cls(**{**shared, **facts})
