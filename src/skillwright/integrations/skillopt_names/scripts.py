"""`scripts.train` and `scripts.eval_only`: the registry that SkillOpt's guide tells to append to.

Source: SkillOpt (microsoft/SkillOpt).
"""

from collections.abc import Mapping
from typing import Any, Final

from skillwright.envs.registry import deregister, register, specs


class EnvRegistry(dict[str, Any]):
    """Adapter classes by name; one that is put in can be named in ``env.name``."""

    def __setitem__(self, name: str, adapter: Any) -> None:
        """Register an adapter class; the latest of a name counts, as in a dictionary."""
        if name in self:
            deregister(name)
        if isinstance(adapter, type):
            register(name, f"{adapter.__module__}:{adapter.__qualname__}")
        super().__setitem__(name, adapter)

    def __missing__(self, name: str) -> Any:
        """Return the class that is registered here, or with an installed package."""
        found = specs().get(name)
        if found is None:
            raise KeyError(name)
        return found.find()


_REGISTRY: Final = EnvRegistry()


def _register_builtins() -> None:
    """Do nothing: what is installed is known, and is imported when it is named."""


SCRIPT_NAMES: Final[Mapping[str, Any]] = {
    "_ENV_REGISTRY": _REGISTRY,
    "_register_builtins": _register_builtins,
}
"""The names of `scripts.train` and of `scripts.eval_only`."""
