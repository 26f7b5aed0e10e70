"""A run that goes on keeps the settings that it began with; only its budget may change."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from skillwright.config.removed import refuse_to_go_on
from skillwright.config.yaml_files import merge_layers, read_layers
from skillwright.core import ConfigError
from skillwright.core.jsonio import digest, dumps
from skillwright.core.secrets import REDACTED
from skillwright.runs import RunStore
from skillwright.runs.folder import CONFIG_NAME

_BUDGET = "budget"
# Left out of what is stored, so nothing can be compared with it.
_NEVER_KEPT = ("api_key",)
_LONGEST = 80


def settings_facts(folder: Path) -> dict[str, Any]:
    """Return what the first event of a run keeps of its settings, as they stand in its folder."""
    values = _values(folder)
    return {"settings": {"digest": digest(values), "values": values}}


def refuse_other_settings(folder: Path, store: RunStore, made: str) -> None:
    """Refuse to go on where the configuration in a run's folder was edited.

    Raises:
        ConfigError: Something else than the budget is not what it was, or it began with a setting
            that is no more; one line per key.
    """
    refuse_to_go_on(_values(folder), str(folder / CONFIG_NAME))
    begun = next((event.payload for event in store.events(made)), {}).get("settings")
    now = _values(folder)
    if begun is None or begun["digest"] == digest(now):
        return
    then, now = dict(_leaves(begun["values"])), dict(_leaves(now))
    changed = [
        _say(key, then, now)
        for key in sorted(then.keys() | now.keys())
        if _differs(key, then.get(key), now.get(key))
    ]
    if changed:
        raise ConfigError(
            f"{str(folder / CONFIG_NAME)!r} was edited after the run began, and its decisions "
            "would not be those of one run. Undo this, or start a new run; only the budget may "
            "change:\n" + "\n".join(changed)
        )


def refuse_all_but_budget(overrides: Sequence[str]) -> None:
    """Refuse to change anything of a run that goes on but what it may use up."""
    others = [one for one in overrides if not one.startswith(f"{_BUDGET}.")]
    if others:
        raise ConfigError(
            f"{others[0]!r} cannot change in a run that was begun: its decisions would not be "
            "those of one run. Only budget.usd, budget.tokens and budget.minutes can; start a new "
            "run for anything else"
        )


def _values(folder: Path) -> dict[str, Any]:
    values = merge_layers(read_layers(folder / CONFIG_NAME))
    return {section: value for section, value in values.items() if section != _BUDGET}


def _leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _differs(key: str, then: Any, now: Any) -> bool:
    # A secret is not stored with a run; whoever resumes puts it back.
    is_secret = key.rpartition(".")[2] in _NEVER_KEPT or REDACTED in dumps(then)
    return then != now and not is_secret


def _say(key: str, then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    said = [f"was {_short(then[key])}" if key in then else "was not there"]
    said.append(f"is {_short(now[key])} now" if key in now else "is not there now")
    return f"{key} {', and '.join(said)}"


def _short(value: Any) -> str:
    text = dumps(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
