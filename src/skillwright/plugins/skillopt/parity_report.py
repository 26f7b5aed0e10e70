"""What a run says of its mode: ours or SkillOpt's, and where it differs from the original."""

from textwrap import wrap
from typing import Any, NamedTuple

from skillwright.config.parity import DIFFERENCES, KEPT_OUT, Difference
from skillwright.config.run import RunConfig

_WIDTH = 74  # fits a small terminal, with what stands before it there


class ParitySetting(NamedTuple):
    """The value of a setting that differs from SkillOpt by default."""

    difference: Difference
    value: Any

    @property
    def is_original(self) -> bool:
        """Whether it does as SkillOpt does."""
        return bool(self.value == self.difference.original)


def parity_settings(config: RunConfig) -> list[ParitySetting]:
    """Return the value of every such setting that means something in a configuration."""
    found = []
    for row in DIFFERENCES:
        section: Any = config
        *sections, leaf = row.key.split(".")
        for name in sections:
            section = getattr(section, name, None)
        is_meant = row.kind in ("", getattr(section, "kind", ""))
        if section is not None and hasattr(section, leaf) and is_meant:
            found.append(ParitySetting(row, getattr(section, leaf)))
    return found


def mode_line(config: RunConfig) -> str:
    """Say in a line in which mode a configuration runs, and where the list of differences is."""
    where = "" if config.run.parity else "; `skillwright doctor CONFIG --parity` lists them"
    return _mode(config) + where


def _mode(config: RunConfig) -> str:
    found = parity_settings(config)
    ours = sum(not one.is_original for one in found)
    if config.run.parity:
        return (
            f"parity mode: SkillOpt's defaults ({len(found)} settings); {len(KEPT_OUT)} deliberate "
            f"differences remain, {ours} overridden"
        )
    same = f", {len(found) - ours} set as there" if ours < len(found) else ""
    return f"default mode: {ours} settings differ from SkillOpt's{same}"


def say_mode(config: RunConfig) -> tuple[str, ...]:
    """Say in which mode a configuration runs, in a line, and list what differs in lines below."""
    ours = [one for one in parity_settings(config) if not one.is_original]
    listed = wrap(_list(ours), _WIDTH, break_long_words=False, break_on_hyphens=False)
    return (_mode(config), *(f"  {part}" for part in listed))


def mode_facts(config: RunConfig) -> dict[str, Any]:
    """Return the mode and what differs from SkillOpt in it, as a JSON object."""
    return {
        "mode": "parity" if config.run.parity else "default",
        "differs_from_skillopt": {
            one.difference.key: {"value": one.value, "original": one.difference.original}
            for one in parity_settings(config)
            if not one.is_original
        },
        "kept_out": [row.there for row in KEPT_OUT],
    }


def shown(value: Any) -> str:
    """Write a key's value as a configuration file has it."""
    if isinstance(value, bool):
        return str(value).lower()
    return "unset" if value is None else str(value)


def _list(ours: list[ParitySetting]) -> str:
    return ", ".join(
        f"{one.difference.key} {shown(one.value)} (there {shown(one.difference.original)})"
        for one in ours
    )
