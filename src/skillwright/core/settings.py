"""The base classes of settings: what a learner declares, a configuration embeds."""

from typing import Any, Self

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """Settings that are read once. Unknown keys are refused, and no error shows a value."""

    # Inputs are hidden because pydantic would print them, and one of them may be a key.
    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, use_attribute_docstrings=True
    )


class Settings(Frozen):
    """A mapping of a configuration: frozen, and closed to unknown keys."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    @classmethod
    def of(cls, *sections: "Settings", **facts: Any) -> Self:
        """Take the fields that sections have too, and add facts of the run."""
        shared = {
            name: getattr(section, name)
            for section in sections
            for name in cls.model_fields.keys() & type(section).model_fields.keys()
        }
        return cls(**{**shared, **facts})
