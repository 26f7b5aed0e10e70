"""Write the result of a check for CI: JUnit XML, and Markdown for a comment on a pull request."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from skillwright.core import ConfigError
from skillwright.core.fence import without_controls
from skillwright.core.jsonio import write_text
from skillwright.evaluation import gain_text
from skillwright.jobs.text.check import CheckedTask, CheckReport, SideCost

SUITE: Final = "skillwright check"
MARK: Final = "<!-- skillwright check -->"
"""The first line of a comment, by which a later one can find and replace it."""
_MOST_TASKS = 20
_LONGEST_ID = 80


def refuse_other_file(path: Path | None) -> None:
    """Refuse to overwrite a file that no check wrote.

    Raises:
        ConfigError: The file is another one, or a folder.
    """
    if path is None or not path.exists():
        return
    begins = path.read_bytes()[:400] if path.is_file() else b""
    if path.is_dir() or (begins and MARK.encode() not in begins and SUITE.encode() not in begins):
        raise ConfigError(f"{str(path)!r} is there already and no check wrote it; name a new file")


def write_junit(path: Path, report: CheckReport | None, error: str = "") -> None:
    """Write a result as JUnit XML: one suite with two cases, the noise and the answer.

    Args:
        path: The file, which is replaced.
        report: The result; ``None`` if the check could not be made.
        error: Why not.
    """
    suite = ElementTree.Element("testsuite", name=SUITE)
    if report is None:
        case = _case(suite, "check")
        _outcome(case, "error", "error", error)
    else:
        noise = _case(suite, "the old skill against itself")
        if report.noise.is_odd:
            _outcome(noise, "failure", "noise", noise_text(report))
        else:
            _output(noise, noise_text(report))
        case = _case(suite, f"{report.plan.new} against {report.plan.old}")
        said = "\n".join([report.verdict.sentence, *cost_lines(report), *report.plan.notes])
        if report.is_fine:
            _output(case, said)
        else:
            _outcome(case, "failure", report.verdict.answer, said)
    for outcome in ("failure", "error"):
        suite.set(f"{outcome}s", str(len(suite.findall(f"testcase/{outcome}"))))
    suite.set("tests", str(len(suite)))
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    text = ElementTree.tostring(suites, encoding="unicode", xml_declaration=False)
    write_text(path, f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n')


def _case(suite: ElementTree.Element, name: str) -> ElementTree.Element:
    return ElementTree.SubElement(
        suite, "testcase", classname="skillwright.check", name=_plain(name)
    )


def _outcome(case: ElementTree.Element, tag: str, kind: str, said: str) -> None:
    first = _plain(said.splitlines()[0] if said else kind)
    ElementTree.SubElement(case, tag, type=kind, message=first).text = _plain(said)


def _output(case: ElementTree.Element, said: str) -> None:
    ElementTree.SubElement(case, "system-out").text = _plain(said)


def _plain(text: str) -> str:
    """Return a text without characters that XML cannot hold."""
    return re.sub(r"[^\n\t\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", " ", text)


def write_markdown(path: Path, report: CheckReport | None, error: str = "") -> None:
    """Write a result as Markdown, for a comment; arguments as for `write_junit`."""
    write_text(path, markdown_of(report, error))


def markdown_of(report: CheckReport | None, error: str = "") -> str:
    """Return a result as Markdown."""
    if report is None:
        return f"{MARK}\n### Skill check: not made\n\n{_said(error)}\n"
    verdict, effect = report.verdict, report.verdict.effect
    sign = "✅" if report.is_fine else "❌"
    same = ["The skill did not change: it was compared with itself.", ""] * report.is_same
    lines = [MARK, f"### {sign} Skill check: {verdict.answer}", "", *same]
    lines += [_said(verdict.sentence), ""]
    lines += ["| | old | new |", "|---|---|---|"]
    lines.append(f"| skill | {_code(report.plan.old)} | {_code(report.plan.new)} |")
    if effect.incumbent is not None and effect.candidate is not None:
        style = ".1%" if verdict.metric == "hard" else ".3f"
        name = "solved" if verdict.metric == "hard" else "mean reward"
        lines.append(f"| {name} | {effect.incumbent:{style}} | {effect.candidate:{style}} |")
    lines += _cost_rows(report)
    lines += ["", _said(noise_text(report))]
    lines += [f"- {_said(note)}" for note in report.plan.notes]
    if report.is_scripted:
        lines.append("- A scripted model took part: a program, not a language model.")
    for title, tasks in (("Worse", report.worse), ("Better", report.better)):
        lines += _details(title, tasks)
    return "\n".join(lines) + "\n"


def _cost_rows(report: CheckReport) -> list[str]:
    old, new = (report.costs.get(name) for name in ("old", "new"))
    if old is None or new is None or not (_tokens(old) and _tokens(new)):
        return []
    rows = [f"| tokens per episode | {_tokens(old):,.0f} | {_tokens(new):,.0f} |"]
    if old.cost_usd is not None and new.cost_usd is not None:
        rows.append(f"| USD per 1,000 episodes | {_per_thousand(old)} | {_per_thousand(new)} |")
    return rows


def _tokens(cost: SideCost) -> float:
    return cost.input_tokens + cost.output_tokens


def _per_thousand(cost: SideCost) -> str:
    return "unknown" if cost.cost_usd is None else f"{1000 * cost.cost_usd:.2f}"


def cost_lines(report: CheckReport) -> list[str]:
    """Describe what an episode consumes with both skills, and what the check cost."""
    lines = []
    old, new = (report.costs.get(name) for name in ("old", "new"))
    # An adapter does not say what it consumes.
    if old is not None and new is not None and _tokens(old) and _tokens(new):
        before, after = _tokens(old), _tokens(new)
        share = f", {after / before - 1:+.0%}"
        line = f"tokens per episode: {before:,.0f} -> {after:,.0f} ({after - before:+,.0f}{share})"
        if old.cost_usd is not None and new.cost_usd is not None and new.cost_usd + old.cost_usd:
            line += f"; USD per 1,000 episodes: {_per_thousand(old)} -> {_per_thousand(new)}"
        lines.append(line)
    spent = "cost unknown" if report.cost_usd is None else f"${report.cost_usd:.2f}"
    lines.append(f"this check: {report.rollouts:,} episodes, {spent}")
    return lines


def noise_text(report: CheckReport) -> str:
    """Describe how much the old skill differs from itself."""
    noise = report.noise
    if not noise.tasks:
        return "Noise: no task was scored twice with the old skill."
    said = (
        f"Noise: measured twice, the old skill scored differently on {noise.varying} of "
        f"{noise.tasks} tasks ({gain_text(noise.difference)})."
    )
    if noise.is_odd:
        said += (
            " That is more than chance: something besides the skill changes between measurements, "
            "so do not trust the answer."
        )
    return said


def _details(title: str, tasks: Sequence[CheckedTask]) -> list[str]:
    if not tasks:
        return []
    count = f"{title}: {len(tasks)} task{'s' * (len(tasks) != 1)}"
    rows = [
        f"| {_code(one.id)} | {_code(one.task_type) if one.task_type else ''} | {one.old:.2f} | "
        f"{one.new:.2f} |"
        for one in tasks[:_MOST_TASKS]
    ]
    more = [f"\nand {len(tasks) - _MOST_TASKS} more"] if len(tasks) > _MOST_TASKS else []
    head = ["| task | type | old | new |", "|---|---|---|---|"]
    return ["", f"<details><summary>{count}</summary>", "", *head, *rows, *more, "", "</details>"]


def _code(text: str) -> str:
    """Return a name as code, in which nothing is a link, a mention or HTML."""
    plain = " ".join(without_controls(text).split()).replace("`", "'").replace("|", "/")
    return f"`{plain[:_LONGEST_ID]}`" if plain else ""


def _said(text: str) -> str:
    """Return a sentence in which nothing of a model or a file is HTML, a mention or a link."""
    plain = " ".join(without_controls(text).split())
    return re.sub(r"([<>&@\[\]`*#|\\])", lambda found: f"&#{ord(found[0])};", plain)
