"""Draws the packages: `python docs/packages_figure.py` writes `docs/figures/packages.svg`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

FIGURE = Path(__file__).parent / "figures" / "packages.svg"
WIDTH, ROW, GAP, LEFT = 760, 44, 6, 20
CORE_TOP, ZONE_HEIGHT, ZONE_GAP = 224, 86, 14
TITLE = "Packages of Skillwright in three zones"
ABOUT = (
    "Worlds and plug-ins import the core; the core imports neither. Inside the core each package "
    "imports only from those below it; packages side by side do not import each other."
)
STYLE = (
    ".core{fill:#eef2f6;stroke:#51708c}.learner{fill:#e6f2ea;stroke:#3c7a55}"
    ".outer{fill:#fdf1dc;stroke:#a36c16}.name{font-size:14px;font-weight:600;fill:#17212b}"
    ".line{font-size:12px;fill:#35424f}.arrow{stroke:#51708c;stroke-width:1.5;fill:none}"
)
HEAD = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
    'orient="auto"><path d="M0 0 8 4 0 8z" fill="#51708c"/></marker></defs>'
)


REGISTERED: Final = (
    "import the core and register by entry points:",
    "envs, models, backends, gates, engines, trackers,",
    "commands, config_readers; a third party does the same",
)


class Package(NamedTuple):
    """A package or a zone: its name and what is in it, a line each."""

    name: str
    lines: tuple[str, ...]
    kind: str = "core"


WORLDS: Final = Package(
    "worlds",
    (
        "alfworld, webshop, tau_bench, search",
        "environments, tasks, import of official data,",
        "scripted agents, optimizers and teachers",
    ),
    "outer",
)
PLUGINS: Final = Package(
    "plugins",
    (
        "skillopt, executors, local, serve, sessions, ray,",
        "trackers, skyrl, trl, verifiers, mcp",
        "each with its README and its own tests",
    ),
    "outer",
)
CORE: Final = (
    (Package("api, cli", ("parse, call one job, show the result, choose an exit code",)),),
    (Package("dashboard", ("read-only pages and the report of a run",)),),
    (Package("jobs", ("the only writers of runs: inspect; text | weights | bank; run (shared)",)),),
    (Package("config", ("the schema of YAML files",)),),
    (
        Package("textopt", ("skill documents",), "learner"),
        Package("bank", ("skill banks",), "learner"),
        Package("policy", ("weights",), "learner"),
    ),
    (Package("asking", ("ask a model for JSON: repair, faults, provenance",)),),
    (Package("evaluation", ("scores, intervals, gates, the release test",)),),
    (Package("rollout", ("an agent in an environment: prompt, episode, limits, local engine",)),),
    (Package("envs", ("the contract, table, adapters, the registry",)),),
    (
        Package("models", ("HTTP client, dialects, scripted models",)),
        Package("runs", ("the store: episodes, calls, edits, events",)),
    ),
    (Package("datasets", ("splits, loaders, the sealed test",)),),
    (Package("core", ("types and protocols that every package shares",)),),
)


def figure() -> str:
    """Return the picture."""
    height = CORE_TOP + 26 + len(CORE) * (ROW + GAP) + 14
    half = (WIDTH - 2 * LEFT - ZONE_GAP) / 2
    right = LEFT + half + ZONE_GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" role="img" aria-labelledby="t d" '
        f'font-family="system-ui, sans-serif">',
        f'<title id="t">{TITLE}</title>',
        f'<desc id="d">{ABOUT}</desc>',
        f"<style>{STYLE}</style>",
        HEAD,
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#fff"/>',
        *_drawn(WORLDS, LEFT, 16, half, ZONE_HEIGHT),
        *_drawn(PLUGINS, right, 16, half, ZONE_HEIGHT),
        *_entry_points(LEFT + half / 2, right + half / 2),
        _text("name", LEFT, CORE_TOP + 14, "core zone"),
    ]
    for number, row in enumerate(CORE):
        width = (WIDTH - 2 * LEFT - GAP * (len(row) - 1)) / len(row)
        y = CORE_TOP + 26 + number * (ROW + GAP)
        for place, package in enumerate(row):
            parts.extend(_drawn(package, LEFT + place * (width + GAP), y, width, ROW))
    return "\n".join([*parts, "</svg>\n"])


def _drawn(package: Package, x: float, y: float, width: float, height: float) -> Iterator[str]:
    yield (
        f'<rect class="{package.kind}" x="{x:g}" y="{y:g}" width="{width:.0f}" '
        f'height="{height:g}" rx="5"/>'
    )
    yield _text("name", x + 10, y + 18, package.name)
    for number, line in enumerate(package.lines):
        yield _text("line", x + 10, y + 36 + 17 * number, line)


def _entry_points(first: float, second: float) -> Iterator[str]:
    """Draw how both zones reach the core."""
    for x in (first, second):
        yield f'<path class="arrow" marker-end="url(#tip)" d="M{x:g} 102 L{x:g} 218"/>'
    for number, line in enumerate(REGISTERED):
        yield _text("line", first + 12, 138 + 18 * number, line)


def _text(kind: str, x: float, y: float, words: str) -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{escape(words)}</text>'


if __name__ == "__main__":
    FIGURE.write_text(figure(), encoding="utf-8")
