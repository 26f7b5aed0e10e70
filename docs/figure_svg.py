"""The pieces of SVG that the figures of the studies share."""

from collections.abc import Sequence
from xml.sax.saxutils import escape

WIDTH, INK = 760, "#808080"


def svg(title: str, height: float, parts: Sequence[str]) -> str:
    """Return a figure of its parts."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" '
        f'font-family="sans-serif" font-size="12" role="img">\n<title>{escape(title)}</title>\n'
    )
    heading = f'<text x="10" y="20" font-size="14" fill="{INK}">{escape(title)}</text>'
    return head + "\n".join([heading, *parts]) + "\n</svg>\n"


def text(x: float, y: float, words: str, anchor: str) -> str:
    """Return a line of text."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{INK}">{escape(words)}</text>'
    )


def rule(x: float, y: float, to_x: float, to_y: float, thick: float = 0.4) -> str:
    """Return a straight line."""
    return (
        f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}" stroke="{INK}" '
        f'stroke-width="{thick}"/>'
    )
