"""Settings of a package's parts, filled from the section of a configuration that names them."""

from dataclasses import fields
from typing import Any, TypeVar

from pydantic import BaseModel

KindT = TypeVar("KindT")


def filled(kind: type[KindT], section: BaseModel, **more: Any) -> KindT:
    """Return a dataclass whose fields are the section's keys of the same name, or are given."""
    kept: Any = kind
    names = {one.name for one in fields(kept) if one.init} - more.keys()
    known = {name: getattr(section, name) for name in names & set(type(section).model_fields)}
    return kind(**known, **more)
