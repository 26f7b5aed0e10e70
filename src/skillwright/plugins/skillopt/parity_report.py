"""The mode of a run, ours or parity, and its differences from SkillOpt."""

from textwrap import wrap
from typing import Any, NamedTuple

from rich.markup import escape
from rich.table import Table

from skillwright.cli.words import make_table
from skillwright.config.readers import Mode
from skillwright.config.run import RunConfig
from skillwright.plugins.skillopt.parity import DIFFERENCES, KEPT_OUT, Difference

_WIDTH = 74  # fits a small terminal, with its prefix


class ParitySetting(NamedTuple):
    """The value of a setting that differs from SkillOpt by default."""

    difference: Difference
    value: Any

    @property
    def is_original(self) -> bool:
        """Whether it equals SkillOpt's behavior."""
        return bool(self.value == self.difference.original)


def parity_settings(config: RunConfig) -> list[ParitySetting]:
    """Return the values of these settings that apply to a configuration."""
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


def mode(config: RunConfig) -> Mode:
    """Return the mode of a run, and the settings that differ from SkillOpt's in it."""
    ours = [one for one in parity_settings(config) if not one.is_original]
    listed = wrap(_list(ours), _WIDTH, break_long_words=False, break_on_hyphens=False)
    facts = {
        "mode": "parity" if config.run.parity else "default",
        "differs_from_skillopt": {
            one.difference.key: {"value": one.value, "original": one.difference.original}
            for one in ours
        },
        "kept_out": [row.there for row in KEPT_OUT],
    }
    return Mode((_mode(config), *(f"  {part}" for part in listed)), facts)


def shown(value: Any) -> str:
    """Format a value as in a configuration file."""
    if isinstance(value, bool):
        return str(value).lower()
    return "unset" if value is None else str(value)


def _list(ours: list[ParitySetting]) -> str:
    return ", ".join(
        f"{one.difference.key} {shown(one.value)} (there {shown(one.difference.original)})"
        for one in ours
    )


def tables(config: RunConfig) -> tuple[Table, Table]:
    """Return the tables of differing defaults, and of behavior that no mode reproduces."""
    title = "\nDefaults that differ from SkillOpt's (--parity takes theirs)"
    table = make_table("key", "here", "there", "why ours differs", whole=("key",), title=title)
    for row, value in parity_settings(config):
        style = "" if value != row.original else "dim"
        cells = (row.key, shown(value), shown(row.original), row.why)
        table.add_row(*map(escape, cells), style=style)
    kept_out = make_table("there", "here", title="\nKept out on purpose, in parity too")
    for kept in KEPT_OUT:
        kept_out.add_row(escape(kept.there), escape(kept.here))
    return table, kept_out
