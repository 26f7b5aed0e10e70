"""``skillwright skill``: provenance of lines, the effect of sections, and export."""

import asyncio
import dataclasses
import difflib
import json
import shlex
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from textwrap import shorten
from typing import Annotated

import typer
from rich.text import Text

from skillwright.cli import tables
from skillwright.cli.describe import describe
from skillwright.cli.faults import NO, err, exit_codes, say
from skillwright.cli.live import display
from skillwright.cli.options import (
    DEFAULT_ROOT,
    NO_OVERRIDES,
    AsJson,
    NoModel,
    Output,
    Root,
    Sign,
    SkillName,
    print_result,
)
from skillwright.cli.verify import show_taken
from skillwright.cli.versions import log, restore, show
from skillwright.cli.words import counted, make_console, make_table, print_words
from skillwright.core import UsageError, did_you_mean
from skillwright.core.jsonio import read_text, write_text
from skillwright.core.skill_file import SKILL_FILE
from skillwright.evaluation import BoundedGain, points, points_range
from skillwright.jobs.inspect import (
    MARGIN,
    Ablation,
    AblationPlan,
    AblationWork,
    BlamedLine,
    FolderExport,
    LessonReport,
    ablate,
    blame_skill,
    find_skill,
    open_lessons,
    plan_ablation,
    play_lessons,
)
from skillwright.jobs.run import money_text, priced_models
from skillwright.jobs.text import EvalPlan, has_scripted_models, open_run, preflight
from skillwright.runs.folder import STORE_NAME

app = typer.Typer(
    no_args_is_help=True, help="Versions of a trained skill document: look, compare, take away."
)
out = make_console()

_MOST = 6
_TITLE = 60
_COLORS = {"+": "green", "-": "red", "@": "cyan"}
_NUMBERS = ("bounds", "pairs", "lost")
_MEASURED = (*_NUMBERS, "answer")
_WHERE = "A file in a run's folder, RUN@VERSION, or a run for what it released"

app.command("log")(log)
app.command("show")(show)
app.command("restore")(restore)
app.command("describe")(describe)


@app.command("blame")
def blame_(
    where: Annotated[
        str, typer.Argument(metavar="SKILL[:LINE]", help=f"{_WHERE}; with a line, that one only.")
    ],
    root: Root = DEFAULT_ROOT,
    as_json: AsJson = False,
) -> None:
    """Show the version, edits and episodes behind each line."""
    with exit_codes():
        name, _, number = where.rpartition(":")
        line = int(number) if name and number.isdecimal() else None
        skill = find_skill(name if line is not None else where, root)
        lines = blame_skill(skill)
        if line is not None:
            if not 1 <= line <= len(lines):
                raise UsageError(f"the skill has lines 1 to {len(lines)}; there is no line {line}")
            lines = lines[line - 1 : line]
    if as_json:
        typer.echo(json.dumps([dataclasses.asdict(one) for one in lines]))
        return
    for one in lines:
        if one.text.strip() or line is not None:
            _show(one)
    if not lines:
        print_words(out, "the skill is empty", "dim")
        return
    seen = next((w for one in lines for w in one.witnesses), None)
    if seen is not None:
        print_words(
            out, f"read one with:  skillwright runs view {skill.run} e{seen.episode}", "dim"
        )


@app.command("diff")
def diff(
    a: Annotated[str, typer.Argument(metavar="A", help=f"{_WHERE}.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The other one.")],
    root: Root = DEFAULT_ROOT,
) -> None:
    """Compare two versions of a skill document; exit with 1 if they differ."""
    with exit_codes():
        first, second = find_skill(a, root), find_skill(b, root)
    changed = list(
        difflib.unified_diff(
            first.text.splitlines(),
            second.text.splitlines(),
            f"{first.run.name}@{first.version}",
            f"{second.run.name}@{second.version}",
            lineterm="",
        )
    )
    for line in changed:
        print_words(out, Text(line, _COLORS.get(line[:1], "")))
    if changed:
        raise typer.Exit(1)


@app.command("export")
def export_(  # noqa: PLR0913 - each is an option
    where: Annotated[
        str, typer.Argument(metavar="SKILL", help=f"{_WHERE}, or a file of your own.")
    ],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            help="claude (./.claude/skills), codex or agents (./.agents/skills), or the FOLDER of "
            "the SKILL.md that the run began with.",
        ),
    ] = "",
    output: Output = None,
    name: SkillName = "",
    no_model: NoModel = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the change of a SKILL.md; write nothing.")
    ] = False,
    sign: Sign = None,
    root: Root = DEFAULT_ROOT,
    as_json: AsJson = False,
) -> None:
    """Write a skill document as an Agent Skills folder, with its evidence.

    A run that began with a SKILL.md is written back: its frontmatter and other files stay.
    """
    from skillwright.jobs.inspect import (
        PLACES,
        ExportOptions,
        began_with_folder,
        export_document,
        folder_of,
        plan_folder_export,
    )

    with exit_codes():
        if not to and output is None:
            raise UsageError(
                "say where to: --to claude, codex or agents for the folder in which that agent "
                "looks for skills, --to FOLDER for the folder that the run began with, or "
                "--output DIR for another one"
            )
        place = output or PLACES.get(to)
        found = None if _is_of_no_run(where) else find_skill(where, root)
        if found is not None and not name and (place is None or began_with_folder(found.run)):
            folder = _target(to) if place is None else place / folder_of(found.run).resolve().name
            plan = asyncio.run(plan_folder_export(found, folder, sign))
            if not dry_run:
                plan.write()
            taken = None
        elif place is None or dry_run:
            wanted = f"--to {to}" if place is None else "--dry-run"
            raise UsageError(
                f"{wanted} is for a run that began with a SKILL.md, without --name; "
                "--to claude, codex or agents, or --output DIR writes a new folder"
            )
        else:
            options = ExportOptions(place, name, asks_model=not no_model, sign_with=sign)
            text = read_text(Path(where), "skill document") if found is None else found.text
            run, version = (None, 0) if found is None else (found.run, found.version)
            taken = asyncio.run(export_document(text, run, version, options))
    if taken is not None:
        print_result(as_json, taken.to_dict(), lambda: show_taken(out, taken))
    else:
        result = {**plan.to_dict(), "written": not dry_run}
        print_result(as_json, result, lambda: _show_change(plan, written=not dry_run))


def _target(to: str) -> Path:
    """Return the folder of the SKILL.md that ``--to`` names; a new one is never made by it."""
    folder = Path(to).parent if Path(to).name == SKILL_FILE else Path(to)
    if (folder / SKILL_FILE).is_file():
        return folder
    from skillwright.jobs.inspect import PLACES

    raise UsageError(
        f"--to {to}: there is no skill. {did_you_mean(to, PLACES)} Or name the folder of the "
        "SKILL.md that the run began with; --output DIR makes a copy in a new folder"
    )


def _show_change(plan: FolderExport, *, written: bool) -> None:
    """Show what an export changes in the folder of a SKILL.md."""
    from skillwright.bank.formats.agent_skills import EVIDENCE_FILE

    for line in plan.diff.splitlines():
        print_words(out, Text(line, _COLORS.get(line[:1], "")))
    print_words(out, plan.proof, "green" if EVIDENCE_FILE in plan.changed else "")
    if not plan.changed and not plan.is_stale:
        say(f"{plan.folder} holds this version already; nothing changes.")
    elif written:
        say(f"written: {plan.folder}; check it with:  skillwright verify {plan.folder}")
    else:
        say(f"Nothing was written. Without --dry-run this changes {plan.folder}.")


def _is_of_no_run(where: str) -> bool:
    """Tell whether a file is in no run's folder."""
    path = Path(where)
    return path.is_file() and not any(
        (one / STORE_NAME).is_file() for one in path.resolve().parents
    )


_PLAYS = EvalPlan("val", 1)  # asks the target alone


@app.command("ablate")
def ablate_(  # noqa: PLR0913 - each is an option
    skill: Annotated[str, typer.Argument(metavar="SKILL", help=f"{_WHERE}.")],
    root: Root = DEFAULT_ROOT,
    draws: Annotated[int, typer.Option(min=1, help="Draws per val task and side.")] = 2,
    margin: Annotated[
        float,
        typer.Option(
            min=0.001, max=0.999, help="Propose to delete what is proven to be worth less."
        ),
    ] = MARGIN,
    items: Annotated[
        bool, typer.Option("--items", help="Measure every list item and paragraph by itself.")
    ] = False,
    write: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Test all deletions together; write what is left."),
    ] = None,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Show only the estimated cost.")
    ] = False,
    overrides: Annotated[
        list[str],
        typer.Option("--set", metavar="KEY=VALUE", help="A larger budget: --set budget.usd=5"),
    ] = NO_OVERRIDES,
    as_json: AsJson = False,
) -> None:
    """Measure what each section of a skill is worth on val tasks, and propose deletions."""
    with exit_codes():
        if write is not None and write.exists():
            raise UsageError(f"{str(write)!r} is there already; name a new file with --write")
        found = find_skill(skill, root)
        run = open_run(found.run, root, overrides)
    options = ["--draws", str(draws), "--margin", f"{margin:g}", *(["--items"] if items else [])]
    options += [] if write is None else ["--write", str(write)]
    plan = AblationPlan(draws, margin, items, joint=write is not None)
    with ExitStack() as opened:
        with exit_codes():
            work = plan_ablation(opened.enter_context(run), found, plan)
        opened.enter_context(exit_codes(_again("ablate", skill, root, options)))
        llms = priced_models(run.config, trains=False)
        say_plan(work, money_text(asyncio.run(work.cost_usd()), llms))
        if estimate:
            return
        if work.to_play and not work.can_propose:
            raise typer.Exit(NO)
        if work.to_play:
            asyncio.run(preflight(run.config, _PLAYS))
        with display(err if as_json else out, llms) as callback:
            result = asyncio.run(ablate(work, callback))
        proven = result.joint is not None and result.joint.proposal == "delete"
        if write is not None and proven:
            write_text(write, result.shorter)
        scripted = has_scripted_models(run.config, run.store, _PLAYS)
    beside = {
        "rollouts": result.rollouts,
        "cost_usd": result.usage.cost_usd,
        "draws": draws,
        "margin": margin,
        "alpha": result.alpha,
        "joint": result.joint.to_dict() if result.joint else None,
        "written": str(write) if write is not None and proven else None,
        "scripted": scripted,
    }
    print_result(as_json, result.to_dict() | beside, lambda: show_values(result, work, scripted))
    if write is not None:
        _say_written(result, write, proven)


@app.command("test")
def lessons_(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A folder of a run, or its name.")],
    root: Root = DEFAULT_ROOT,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A configuration whose models.target is to play."),
    ] = None,
    overrides: Annotated[
        list[str],
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Change the model: --set models.target.model=NAME"
        ),
    ] = NO_OVERRIDES,
    margin: Annotated[
        float,
        typer.Option(
            min=0.001, max=0.999, help="A lesson that is proven to gain less no longer helps."
        ),
    ] = MARGIN,
    as_json: AsJson = False,
) -> None:
    """Replay the pairs behind accepted edits with another model: which lessons still help?"""
    with exit_codes():
        lessons = open_lessons(run, root, config, overrides)
    played = lessons.run
    options = [*(["--config", str(config)] if config else []), "--margin", f"{margin:g}"]
    options += [word for one in overrides for word in ("--set", one)]
    with played, exit_codes(_again("test", run, root, options)):
        llms = priced_models(played.config, trains=False)
        asyncio.run(preflight(played.config, _PLAYS))
        with display(err if as_json else out, llms) as callback:
            report = asyncio.run(play_lessons(lessons, callback, margin=margin))
        scripted = has_scripted_models(played.config, played.store, _PLAYS)
    money = money_text(report.usage.cost_usd, llms)
    result = report.to_dict() | {"scripted": scripted}
    print_result(as_json, result, lambda: _show_lessons(report, money, scripted))


def _again(command: str, what: str, root: Path, options: Sequence[str]) -> str:
    where = [] if root == DEFAULT_ROOT else ["--root", str(root)]
    return shlex.join(["skillwright", "skill", command, what, *where, *options])


def say_plan(work: AblationWork, money: str) -> None:
    """Print what an ablation will play, and warn if it cannot prove anything."""
    plan = work.plan
    say(
        f"{counted(len(work.sections), 'section')} and the whole, {work.tasks} val tasks, "
        f"{counted(plan.draws, 'draw')} of each: {counted(work.to_play, 'rollout')} to play "
        f"({work.stored:,} are stored), {money}"
    )
    if not work.can_propose:
        say(
            f"On {work.tasks} val tasks a loss of {100 * work.least_margin:.1f} points cannot be "
            "excluded for this many sections, so none can be proposed for deletion: nothing is "
            f"played. Set --margin above {work.least_margin:.3f}, or measure in a run with more "
            "val tasks.",
            style="yellow",
        )


def show_values(found: Ablation, work: AblationWork, scripted: bool) -> None:
    """Show the value of each section, and what is proposed for deletion."""
    table = make_table(
        *("lines", "section", "value", *_MEASURED),
        right=("value", *_NUMBERS),
        whole=("lines", *_MEASURED),
    )
    for one in found.sections:
        (part,) = one.sections
        style = {"delete": "red", "keep": "green"}.get(one.proposal, "")
        lines = f"{part.first_line}-{part.last_line}"
        title = Text(shorten(part.title, _TITLE, placeholder="..."))
        table.add_row(lines, title, *_measured(one.gain, -1), Text(one.proposal, style))
    out.print(table)
    if not work.plan.by_item and any(s.is_item for one in found.sections for s in one.sections):
        print_words(out, "A section with most of the text was too coarse: its items are measured.")
    for one in found.sections:
        if one.gain.problem:
            print_words(out, f"line {one.sections[0].first_line}: {one.gain.problem}", "yellow")
    print_words(
        out,
        "value: success with the section minus without, in points, between bounds that all hold "
        f"together with {1 - found.alpha:.0%} at each side. delete: worth less than "
        f"{100 * work.plan.margin:g} points; keep: worth more than 0.",
        "dim",
    )
    print_words(out, f"{counted(found.rollouts, 'rollout')} played; the others were stored.")
    tables.own_up(out, scripted)


def _say_written(found: Ablation, path: Path, proven: bool) -> None:
    """Report whether the shorter document was written; exit with 1 if not."""
    if proven:
        gone = counted(len(found.deletions), "section")
        say(f"{path}: without {gone}, which together are worth less than the margin.")
        return
    why = "nothing is proposed for deletion"
    if found.joint is not None:
        why = (
            "together the deletions are not proven to be worth less than the margin: "
            f"{points_range(found.joint.interval)} points; more --draws say more"
        )
    say(f"{path} was not written: {why}.", style="yellow")
    raise typer.Exit(NO)


def _show_lessons(report: LessonReport, money: str, scripted: bool) -> None:
    table = make_table(
        *("accepted at", "then", "now", *_MEASURED),
        right=("then", "now", *_NUMBERS),
        whole=("then", "now", *_MEASURED),
    )
    colors = {"still helps": "green", "hurts": "red"}
    for one in report.lessons:
        then = one.accepted.verdict.effect
        outcome = Text(one.outcome, colors.get(one.outcome, ""))
        known = "" if then is None else points(then)
        table.add_row(one.accepted.where, known, *_measured(one.gain), outcome)
    out.print(table)
    for one in report.lessons:
        print_words(out, f"{one.accepted.where}: {one.outcome}")
        for edit in one.accepted.edits:
            tables.print_indented(out, 2, Text(shorten(edit, 3 * _TITLE, placeholder="...")))
        if one.gain.problem:
            print_words(out, f"  {one.gain.problem}", "yellow")
    print_words(
        out,
        f"gain in points: then with {report.trained_with}, at the gate; now with {report.target}, "
        f"between bounds that all hold together with {1 - report.alpha:.0%} at each side.",
        "dim",
    )
    played = counted(report.rollouts, "rollout")
    print_words(out, f"{played} played, {money}; the others were stored.")
    print_words(out, f"read them with:  skillwright runs episodes {report.folder}", "dim")
    tables.own_up(out, scripted)


def _measured(gain: BoundedGain, sign: int = 1) -> Sequence[str]:
    """Format a gain, or a loss with ``sign`` -1, with its bounds and the number of pairs."""
    low, high = sorted(sign * one for one in gain.interval)
    shown = "-" if gain.gain is None else points(sign * gain.gain)
    return shown, points_range((low, high)), str(gain.effect.pairs), str(gain.effect.lost)


def _show(one: BlamedLine) -> None:
    print_words(out, Text(f"{one.number:>4}  {one.text}"))
    parts = [f"v{one.version}", one.origin.replace("_", " ")]
    if one.origin == "initial_skill":
        parts.append("given at the start, so no episode is behind it")
    if one.edits:
        parts.append(", ".join(one.edits[:_MOST]))
    if one.witnesses:
        shown = [
            f"e{w.episode}" + (f" (turns {', '.join(map(str, w.turns[:4]))})" if w.turns else "")
            for w in one.witnesses[:_MOST]
        ]
        rest = len(one.witnesses) - len(shown)
        parts.append("from " + ", ".join(shown) + (f" and {rest} more" if rest > 0 else ""))
    print_words(out, Text("      " + " · ".join(parts), "dim"))
