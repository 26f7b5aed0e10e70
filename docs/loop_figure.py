"""Draws the loop as SVG: `python docs/loop_figure.py` writes `docs/figures/loop.svg`."""

from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

FIGURE = Path(__file__).parent / "figures" / "loop.svg"
WIDTH, HEIGHT = 900, 360
BOX_W, BOX_H = 196, 84
TITLE = "The loop: an agent tries tasks, an optimizer proposes edits, a gate decides"
STYLE = """\
.work{fill:#eef2f6;stroke:#51708c}.text{fill:#e6f2ea;stroke:#3c7a55}.gate{fill:#fdf1dc;stroke:#a36c16}
.name{font-size:15px;font-weight:600;fill:#17212b}.line{font-size:12.5px;fill:#35424f}
.arrow{stroke:#51708c;stroke-width:1.6;fill:none}.word{font-size:12.5px;font-style:italic;fill:#35424f}"""
HEAD = """\
<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" \
orient="auto"><path d="M0 0 8 4 0 8z" fill="#51708c"/></marker></defs>"""


class Box(NamedTuple):
    """A box: its corner, its kind, its name and two lines."""

    x: int
    y: int
    kind: str
    name: str
    first: str
    second: str


class Arrow(NamedTuple):
    """A path, and a word beside it at a point."""

    path: str
    word: str = ""
    x: int = 0
    y: int = 0


BOXES = (
    Box(20, 24, "work", "Agent", "plays train tasks", "with the current skill"),
    Box(352, 24, "work", "Optimizer", "reads what happened", "and proposes edits"),
    Box(684, 24, "text", "Candidate skill", "the current skill", "with the edits applied"),
    Box(684, 158, "gate", "Gate", "both skills on val tasks,", "in pairs, with equal seeds"),
    Box(20, 158, "text", "Current skill", "where training is", "(not released yet)"),
    Box(352, 228, "gate", "Release test", "all gains together, exact,", "on fresh draws"),
    Box(684, 262, "text", "best_skill.md", "only what was proven;", "scored once on sealed test"),
)
ARROWS = (
    Arrow("M216 66 L350 66", "trajectories", 283, 58),
    Arrow("M548 66 L682 66", "edits", 615, 58),
    Arrow("M782 108 L782 156"),
    Arrow(
        "M684 186 L218 186",
        "a gain is more likely than not: accept; else the edits are rejected",
        450,
        178,
    ),
    Arrow("M118 158 L118 110", "next step", 124, 138),
    Arrow("M118 242 L118 284 L350 284", "after the last step", 235, 276),
    Arrow("M548 284 L682 284", "proven better", 615, 276),
)


def figure() -> str:
    """Return the figure."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'role="img" aria-labelledby="t" font-family="system-ui, sans-serif">',
        f'<title id="t">{escape(TITLE)}</title>',
        f"<style>{STYLE}</style>",
        HEAD,
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" fill="#fff"/>',
    ]
    parts += [line for box in BOXES for line in _box(box)]
    parts += [line for arrow in ARROWS for line in _arrow(arrow)]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _box(box: Box) -> list[str]:
    size = f'width="{BOX_W}" height="{BOX_H}"'
    return [
        f'<rect class="{box.kind}" x="{box.x}" y="{box.y}" {size} rx="6"/>',
        f'<text class="name" x="{box.x + 14}" y="{box.y + 26}">{escape(box.name)}</text>',
        f'<text class="line" x="{box.x + 14}" y="{box.y + 48}">{escape(box.first)}</text>',
        f'<text class="line" x="{box.x + 14}" y="{box.y + 66}">{escape(box.second)}</text>',
    ]


def _arrow(arrow: Arrow) -> list[str]:
    line = f'<path class="arrow" marker-end="url(#tip)" d="{arrow.path}"/>'
    if not arrow.word:
        return [line]
    anchor = "start" if arrow.word == "next step" else "middle"
    word = escape(arrow.word)
    return [
        line,
        f'<text class="word" x="{arrow.x}" y="{arrow.y}" text-anchor="{anchor}">{word}</text>',
    ]


if __name__ == "__main__":
    FIGURE.write_text(figure(), encoding="utf-8")
