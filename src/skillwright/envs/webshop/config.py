"""The settings of the environment: names, defaults and bounds, in one place."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from skillwright.core import DataError, did_you_mean
from skillwright.envs.webshop.catalogue import BUILT_IN, CatalogueSource
from skillwright.envs.webshop.nouns import TAGGERS
from skillwright.envs.webshop.search import ENGINES

MODES: Final = ("text", "text_rich")
_NO_SERVER: Final = ("html", "url")


@dataclass(frozen=True, slots=True)
class WebShopEnvConfig:
    """Settings that all episodes share.

    Attributes:
        observation_mode: ``text`` or ``text_rich``. The original's ``html`` and ``url`` need its
            web server and are refused.
        num_prev_obs: How many earlier pages stand before the present one.
        num_prev_actions: How many earlier actions stand there.
        catalogue: ``built-in``; ``imported``, what ``skillwright data webshop`` made; or a path.
        engine: ``fts5``, or ``tantivy`` for a catalogue that was indexed with it.
        tagger: How the reward finds nouns: ``spacy``, ``rule``, or ``auto`` for spaCy where it is
            installed with its small model and the rule elsewhere.
        show_actions: Whether messages end with the list of actions.
        show_attributes: Whether an item has an Attributes page, as an option of the original.
    """

    observation_mode: str = "text"
    num_prev_obs: int = 0
    num_prev_actions: int = 0
    catalogue: str = BUILT_IN
    engine: str = "fts5"
    tagger: str = "auto"
    show_actions: bool = True
    show_attributes: bool = False

    def source(self, seed: int) -> CatalogueSource:
        """Return the catalogue of the world with this seed."""
        return CatalogueSource(self.catalogue, seed, self.engine)


_DEFAULTS: Final[Mapping[str, Any]] = dataclasses.asdict(WebShopEnvConfig())
_CHOICES: Final = {"observation_mode": MODES, "engine": ENGINES, "tagger": TAGGERS}


def read_config(env_config: object | None) -> WebShopEnvConfig:
    """Read settings from ``None``, a mapping, or a `WebShopEnvConfig`.

    A setting that is null has its default.

    Raises:
        DataError: A setting is unknown, of the wrong type, or out of bounds.
    """
    if isinstance(env_config, WebShopEnvConfig):
        env_config = dataclasses.asdict(env_config)
    given = {} if env_config is None else env_config
    if not isinstance(given, Mapping):
        raise DataError(
            f"webshop env_config is {type(env_config).__name__!r}; give a mapping of settings"
        )
    read = {str(name): _value(str(name), given[name]) for name in given}
    return WebShopEnvConfig(**{name: value for name, value in read.items() if value is not None})


def _value(name: str, value: Any) -> Any:
    if name not in _DEFAULTS:
        raise DataError(f"webshop env_config: no setting {name!r}. {did_you_mean(name, _DEFAULTS)}")
    if value is None:
        return None
    wanted = type(_DEFAULTS[name])
    if type(value) is not wanted:
        raise DataError(f"webshop env_config: {name} is {value!r}; it must be {_NAMES[wanted]}")
    if name == "observation_mode" and value in _NO_SERVER:
        raise DataError(
            f"webshop env_config: observation_mode {value!r} shows the pages of a web server, and "
            "there is none here; use 'text' or 'text_rich'"
        )
    if value not in _CHOICES.get(name, (value,)):
        raise DataError(
            f"webshop env_config: {name} is {value!r}. {did_you_mean(str(value), _CHOICES[name])}"
        )
    if wanted is int and value < 0:
        raise DataError(f"webshop env_config: {name} is {value}; it must be at least 0")
    if name == "catalogue" and not value:
        raise DataError("webshop env_config: catalogue is empty; use 'built-in' or name a file")
    return value


_NAMES: Final = {str: "a text", int: "a whole number", bool: "true or false"}
