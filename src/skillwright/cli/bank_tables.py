"""Output of the commands about banks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from skillwright.bank import (
    AtDelta,
    Bank,
    BankDiff,
    Calibration,
    Compression,
    Decision,
    Finding,
    LogEntry,
    Scored,
    Severity,
    count_skills,
    skill_line,
)
from skillwright.cli.tables import own_up, print_indented
from skillwright.cli.words import counted, make_table, print_words
from skillwright.core import BankSkill
from skillwright.core.fence import without_controls
from skillwright.core.jsonio import encode_fields
from skillwright.jobs.bank import (
    Answer,
    BankStatistics,
    DistillOutcome,
    EvolutionRound,
    EvolveReport,
    MoveReport,
    SkillHistory,
    let_in,
)

_BARS = "▁▂▃▄▅▆▇█"
_EVERY = "every category"
_MOST_USED = 10
_MOST_POINTS = 40


def words(category: str) -> str:
    """Write a category as words."""
    return escape(category.replace("_", " ")) if category else _EVERY


def show_answer(console: Console, answer: Answer) -> None:
    """Show what would be injected for a task."""
    found = answer.retrieved
    own = "lessons of the category, " if found.category else ""
    about = found.category.replace("_", " ") or "unknown, so all are searched"
    print_words(
        console, f"[bold]{escape(answer.task.description or answer.task.id)}[/]", markup=True
    )
    print_words(
        console,
        f"category {escape(about)}"
        + (" (by similarity)" if answer.category_by == "similarity" else "")
        + (f", in {escape(found.scope)}" if found.scope else "")
        + f"; injected: general skills, {own}others with "
        f"a similarity above {found.delta:g} ({escape(found.embedder)}); "
        f"bank version {found.bank_version}",
        markup=True,
    )
    table = make_table("id", "score", "skill", right=("score",), whole=("id",))
    for title, skills in (
        ("general", found.general),
        (_title(found.category), found.task_specific),
        ("lessons", found.lessons),
    ):
        kept = [one for one in skills if one in answer.rendered.injected]
        if kept:
            table.add_section()
            table.add_row("", "", f"[bold]{title}[/]")
        for one in kept:
            table.add_row(one.skill.id, f"{one.score:.3f}", _line(one))
    if table.row_count:
        console.print(table)
    else:
        console.print("no skill of the bank is about this task")
    dropped, injected = answer.rendered.dropped, answer.rendered.injected
    print_words(
        console,
        f"{counted(len(injected), 'skill')}, about {answer.rendered.tokens:,} tokens"
        + (
            f"; {len(dropped)} did not fit: {', '.join(o.skill.id for o in dropped)}"
            * bool(dropped)
        ),
    )


def _title(category: str) -> str:
    return f"for {words(category)} tasks" if category else "for this task"


def _line(one: Scored) -> str:
    return escape(skill_line(one.skill).partition("] ")[2])


def show_history(console: Console, found: SkillHistory) -> None:
    """Show a skill and its history."""
    skill, said = found.skill, found.skill.counterfactual
    console.print(f"[bold]{skill.id}  {escape(skill.name)}[/]")
    where = f", only in {skill.scope}" if skill.scope else ""
    kind = str(skill.kind).replace("_", " ")
    console.print(
        f"{kind}, {skill.status}, version {skill.version}, for {words(skill.category)}"
        + escape(where)
    )
    details = f"\n{skill.details}" * bool(skill.details)
    lines = [("when", skill.applicability), ("do", skill.principle), ("details", details)]
    if said is not None:
        lines += [
            ("failed at", said.failure_point),
            ("because of", said.flawed_reasoning),
            ("instead", said.corrective_action * (said.corrective_action != skill.principle)),
        ]
    for name, text in lines:
        if text:
            print_indented(console, 2, Text.assemble((f"{name}: ", "bold"), text))
    _show_evidence(console, skill)
    stats = found.stats
    console.print(
        f"\ninjected {counted(stats.retrieved, 'time')}; {stats.wins} of "
        f"{counted(stats.episodes, 'episode')} solved; utility {found.utility:+.3f}"
    )
    if len(found.wordings) > 1:
        console.print("\n[bold]Earlier words[/]")
        for version, old in found.wordings[:-1]:
            line = f"bank version {version}, {old.status}: {skill_line(old)[2:]}"
            print_indented(console, 2, Text(line, style="dim"))
    if found.entries:
        console.print("\n[bold]History[/]")
    for entry, outcome in found.entries:
        if outcome["decision"] == Decision.MERGED:
            continue
        why = outcome.get("because") or entry.reason
        line = f"version {entry.version}: {outcome['decision']} ({entry.reason}). {why}"
        print_indented(console, 2, Text(line))
    merged = sum(one["decision"] == Decision.MERGED for _, one in found.entries)
    if merged:
        print_indented(console, 2, Text(f"{counted(merged, 'draft')} said the same and joined it"))


def _show_evidence(console: Console, skill: BankSkill) -> None:
    source = skill.provenance
    parts = [f"origin {source.origin}"]
    if source.model:
        parts.append(f"written by {source.model}")
    if source.step is not None:
        parts.append(f"step {source.step}")
    if source.prompt_digest:
        parts.append(f"prompt {source.prompt_digest[:12]}")
    print_words(console, f"\n{', '.join(parts)}")
    for key in source.episodes:
        turns = ", ".join(str(turn) for one, turn in source.turns if one == key)
        line = f"episode {key[:16]}" + (f", turns {turns}" if turns else "")
        print_indented(console, 2, Text(line, style="dim"))


def history_json(found: SkillHistory) -> dict[str, Any]:
    """Return a skill with its history as a JSON object."""
    return {
        "skill": asdict(found.skill),
        "stats": asdict(found.stats),
        "utility": found.utility,
        "wordings": [{"version": v, "skill": asdict(one)} for v, one in found.wordings],
        "history": [
            {"version": entry.version, "reason": entry.reason, **outcome}
            for entry, outcome in found.entries
        ],
    }


def show_statistics(console: Console, found: BankStatistics) -> None:
    """Show a bank's statistics and growth."""
    headline = f"[bold]{escape(found.where)}[/], version {found.version}: {found.headline}"
    print_words(console, headline, markup=True)
    console.print(f"{found.pending} pending, {found.retired} retired")
    table = make_table(
        "category", "skills", "lessons", "growth", right=("skills", "lessons"), whole=("growth",)
    )
    for category, (skills, lessons) in found.by_category.items():
        series = [counts.get(category, 0) for _, counts in found.growth]
        table.add_row(words(category), str(skills), str(lessons), sparkline(series))
    if found.by_category:
        console.print(table)
    _show_kinds(console, found)
    _show_compression(console, found.compression)
    if found.used:
        _show_use(console, found)


def _show_kinds(console: Console, found: BankStatistics) -> None:
    if len(found.kinds) < 2:
        return
    names = ("general", "task-specific", "lessons")
    console.print(f"Growth over versions {found.kinds[0][0]} to {found.kinds[-1][0]}")
    totals = [sum(one[1:]) for one in found.kinds]
    rows = [(name, [one[at] for one in found.kinds]) for at, name in enumerate(names, start=1)]
    for name, series in [*rows, ("all", totals)]:
        console.print(f"  {name:<13} {series[0]:>4} {sparkline(series)} {series[-1]}")


def _show_compression(console: Console, shorter: Compression) -> None:
    if not shorter.episodes:
        console.print(
            "No episode that the skills were learned from was found; name its run to measure how "
            "much shorter they are."
        )
        return
    console.print(
        f"{counted(shorter.skills, 'skill')} learned from {counted(shorter.episodes, 'episode')}"
        + (f" ({shorter.missing} more not found)" if shorter.missing else "")
    )
    ratios = (
        ("raw trajectories over skills", shorter.raw_ratio, "SkillRL: 10 to 20"),
        ("their summaries over skills", shorter.summary_ratio, ""),
        ("first prompt with the bank over without", shorter.prompt_ratio, ""),
    )
    for name, ratio, claim in ratios:
        if ratio is not None:
            note = f"  ({claim})" if claim else ""
            console.print(f"  {name:<40} [bold]{ratio:.2f}[/]{note}")


def _show_use(console: Console, found: BankStatistics) -> None:
    numbers = ("injected", "episodes", "solved")
    table = make_table("id", *numbers, right=numbers, whole=("id",))
    most = sorted(found.used.items(), key=lambda pair: (-pair[1].retrieved, pair[0]))
    for key, one in most[:_MOST_USED]:
        share = f"{one.wins / one.episodes:.0%}" if one.episodes else "-"
        table.add_row(key, str(one.retrieved), str(one.episodes), share)
    table.caption = (
        f"the {min(len(most), _MOST_USED)} injected most often, of {len(most)}; train tasks only"
    )
    console.print(table)


def sparkline(series: Sequence[int]) -> str:
    """Draw the last numbers of a series as bars."""
    shown = series[-_MOST_POINTS:]
    top = max(shown, default=0) or 1
    return "".join(_BARS[round(value / top * (len(_BARS) - 1))] for value in shown)


def show_findings(console: Console, found: Sequence[tuple[BankSkill, tuple[Finding, ...]]]) -> None:
    """Print each finding with its reason and its fix."""
    if not found:
        console.print("lint finds nothing")
    for skill, findings in found:
        console.print(f"[bold]{escape(skill.id)}  {escape(skill.name)}[/]")
        for one in findings:
            blocks = one.severity is Severity.BLOCKS
            head = Text.assemble(
                ("blocks" if blocks else "warns", "red" if blocks else "yellow"),
                f" {one.rule} in {one.field}: {one.span!r}",
            )
            print_indented(console, 2, head)
            print_indented(console, 4, Text(f"{one.why} {one.fix}", style="dim"))


def findings_json(skill: BankSkill, findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the lint findings of a skill as a JSON object."""
    return {
        "skill": skill.id,
        "name": skill.name,
        "findings": [asdict(one) | {"blocks": one.blocks} for one in findings],
    }


def show_log(console: Console, entries: Sequence[LogEntry]) -> None:
    """List the log's entries."""
    for one in entries:
        when = datetime.fromtimestamp(one.time, UTC).strftime("%Y-%m-%d %H:%M")
        event = str(one.event).replace("_", " ")
        moved = f"{one.before} -> {one.version}" if one.version != one.before else f"{one.version}"
        said = f"[bold]{moved}[/]  {event}  [dim]{when} UTC[/]  {escape(one.reason)}"
        print_words(console, said, markup=True)
        if one.verdict is not None and one.verdict.get("reason") != one.reason:
            print_indented(console, 2, Text(f"gate: {one.verdict.get('reason', '')}"))
        for line in _outcomes(one):
            print_indented(console, 2, Text(line, style="dim"))
    if not entries:
        console.print("nothing has happened to this bank yet")


def _outcomes(entry: LogEntry) -> Iterator[str]:
    merged = 0
    for one in entry.outcomes:
        if one["decision"] == Decision.MERGED:
            merged += 1
            continue
        name = one.get("draft", {}).get("title") or one["skill"] or one.get("id", "")
        yield f"{one['op']} {name}: {one['decision']}. {one['because']}"
    if merged:
        yield f"{counted(merged, 'draft')} said what another skill says, and joined it"


def entry_json(entry: LogEntry) -> dict[str, Any]:
    """Return an entry of the log as a JSON object."""
    return encode_fields(entry)


def show_diff(console: Console, found: BankDiff) -> None:
    """Show the differences between two versions."""
    if found.is_empty:
        console.print(f"versions {found.before} and {found.after} say the same")
    for sign, style, skills in _groups(found):
        for skill in skills:
            console.print(Text(f"{sign} {skill_line(skill)[2:]}", style=style))
    for one in found.refined:
        console.print(Text(f"~ {one.after.id} (version {one.after.version})", style="yellow"))
        for field, (old, new) in one.fields.items():
            print_indented(console, 4, Text(f"{field}: {old}", style="red"))
            print_indented(console, 4, Text(f"{field}: {new}", style="green"))


def _groups(found: BankDiff) -> tuple[tuple[str, str, tuple[BankSkill, ...]], ...]:
    return (
        ("+", "green", found.added),
        ("approved", "green", found.approved),
        ("restored", "green", found.restored),
        ("retired", "red", found.retired),
        ("-", "red", found.removed),
    )


def diff_json(found: BankDiff) -> dict[str, Any]:
    """Return the differences as a JSON object."""
    named = ("added", "retired", "approved", "restored", "removed")
    return {
        "before": found.before,
        "after": found.after,
        **{name: [asdict(one) for one in getattr(found, name)] for name in named},
        "refined": [
            {"id": one.after.id, "fields": {k: list(pair) for k, pair in one.fields.items()}}
            for one in found.refined
        ],
    }


_ACTIONS = {
    "accept": "accepted by the gate",
    "reject": "rejected by the gate",
    "undecided": "undecided, so the bank stays",
    "none_weak": "nothing to learn from",
    "no_proposal": "the teacher proposed nothing that may enter",
    "without_gate": "changed, and no gate was asked",
    "nothing_new": "everything that was proposed is there already, or over the limits",
}


def show_distilled(console: Console, outcome: DistillOutcome) -> None:
    """Show the outcome of a distillation."""
    new = outcome.version != outcome.before
    moved = f"version {outcome.before} -> {outcome.version}" if new else "nothing new was learned"
    console.print(f"[bold]{escape(outcome.bank)}[/], {moved}: {outcome.skills}")
    console.print(
        f"{counted(outcome.episodes, 'episode')} ({outcome.solved} solved), {outcome.read} read; "
        f"{counted(outcome.requests, 'question')} to the teacher"
    )
    if outcome.kept_out:
        left = ", ".join(f"{count} of {name}" for name, count in outcome.kept_out.items())
        console.print(f"kept from the teacher: {left}")
    fates = ", ".join(f"{count} {name}" for name, count in sorted(outcome.decisions.items()))
    console.print(f"drafts: {fates or 'none'}")
    raw = outcome.compression.get("raw")
    if raw is not None:
        console.print(
            f"these trajectories are {raw:.1f} times as long as the skills learned from them"
        )
    for name, why in outcome.blocked:
        print_indented(console, 2, Text(f"kept out: {name}: {why}", style="yellow"))
    for note in outcome.notes:
        print_indented(console, 2, Text(note, style="dim"))
    own_up(console, outcome.is_scripted)


def show_evolution(console: Console, report: EvolveReport) -> None:
    """Show each round: success by category, proposals, verdict, growth."""
    for one in report.rounds:
        _show_round(console, one)
    categories = sorted({name for one in report.rounds for name in one.growth})
    if categories:
        table = make_table("category", "active", "growth", right=("active",), whole=("growth",))
        for name in categories:
            series = [one.growth.get(name, 0) for one in report.rounds]
            table.add_row(words(name), str(series[-1]), sparkline(series))
        console.print(table)
    if report.release is not None:
        stays = "" if report.release.accepted else "; the bank stays as it was"
        reason = report.release.reason.removesuffix(".")
        console.print(f"[bold]release test[/]: {escape(reason)}{stays}.")
    console.print(f"[bold]{escape(report.bank)}[/]: {report.skills}")
    own_up(console, report.is_scripted)


def _show_round(console: Console, one: EvolutionRound) -> None:
    style = "green" if one.action == "accept" else "yellow"
    moved = f" -> {one.version}" if one.version != one.before else ""
    console.print(
        f"\n[bold]Round {one.number}[/], version {one.before}{moved}: "
        f"[{style}]{_ACTIONS.get(one.action, one.action)}[/]"
    )
    numbers = ("solved", "episodes", "share")
    table = make_table("category", *numbers, right=numbers)
    for name, (wins, episodes) in one.success.items():
        mark = " (weakest)" if name == one.weakest and wins < episodes else ""
        share = f"{wins / episodes:.0%}"
        table.add_row(words(name) + mark, str(wins), str(episodes), share)
    console.print(table)
    for change in one.changes:
        print_indented(console, 2, Text(change))
    if one.blocked:
        print_indented(console, 2, Text(f"{one.blocked} more kept out by lint", style="yellow"))
    if one.verdict is not None:
        print_indented(console, 2, Text(f"gate: {one.verdict.reason}", style="bold"))
    for note in one.notes:
        print_indented(console, 2, Text(note, style="dim"))


def show_import(console: Console, report: MoveReport, bank: str) -> None:
    """Show the outcome of an import."""
    skills = count_skills(report.bank).headline
    at = f"[bold]{escape(bank)}[/] is at version {report.bank.version}"
    console.print(f"{at}: {skills}")
    for note in report.report.notes:
        print_indented(console, 2, Text(without_controls(note)))
    added = [one for one in report.report.outcomes if one.decision is Decision.ADDED]
    for one in report.report.outcomes:
        if one.decision is not Decision.ADDED:
            print_indented(console, 2, Text(f"{one.decision}: {one.reason}", style="yellow"))
    if added:
        console.print(
            f"{counted(len(added), 'skill')} pending ({', '.join(o.id for o in added)}); none "
            "is injected yet"
        )
        move = "look at them:  skillwright bank lint --bank " + bank
        print_words(console, f"{move}\napprove them:  skillwright bank approve --bank {bank} "
                    "--config CONFIG")  # fmt: skip


def show_approval(console: Console, report: MoveReport) -> None:
    """Show approved and refused skills with reasons."""
    if report.verdict is not None:
        print_words(console, f"gate: {report.verdict.reason}")
    if report.refused:
        console.print("[yellow]none was approved[/]; the bank stays as it was")
    else:
        ids = let_in(report.report)
        count = counted(len(ids), "skill")
        console.print(f"version {report.bank.version}: {count} approved: {', '.join(ids)}")
    for one in report.report.outcomes:
        if one.decision is Decision.REFUSED:
            print_indented(
                console, 2, Text(f"{one.id} stays pending: {one.reason}", style="yellow")
            )


def show_export(console: Console, bank: Bank, to: Path, written: Mapping[str, Any]) -> None:
    """Show the written files."""
    print_words(
        console,
        f"version {bank.version} was written to {to} as {written['format']} "
        f"({counted(written['files'], 'file')})",
    )
    for skill, why in written["left_out"].items():
        line = f"{skill} was left out: {'; '.join(why)}"
        print_indented(console, 2, Text(line, style="yellow"))


def show_calibration(console: Console, found: Calibration) -> None:
    """Show precision and recall over delta."""
    print_words(console, Text(found.embedder, style="bold"))
    for name, spread in (("matching", found.matching), ("other", found.other)):
        low, _, _, middle, _, _, high = spread.quantiles
        console.print(
            f"  {name:<9} {spread.count:>7,} pairs, from {low:.2f} to {high:.2f}, "
            f"half below {middle:.2f}"
        )
    console.print(f"  a matching pair scores higher in {found.separation:.1%} of all comparisons")
    numbers = ("delta", "precision", "recall", "tasks without skills")
    table = make_table(*numbers, "", right=numbers, whole=("",))
    every = max(1, len(found.curve) // 20)
    shown = {one.delta: one for one in found.curve[::every]}
    shown |= {one.delta: one for one in (found.default, found.suggested, found.best_f1)}
    for delta in sorted(shown):
        table.add_row(*_point(shown[delta]), ", ".join(_marks(found, delta)))
    console.print(table)


def _point(one: AtDelta) -> tuple[str, ...]:
    precision = "-" if one.precision is None else f"{one.precision:.1%}"
    return f"{one.delta:.2f}", precision, f"{one.recall:.1%}", f"{one.nothing:.1%}"


def _marks(found: Calibration, delta: float) -> list[str]:
    marks = {
        "the embedder's own": found.default,
        "suggested": found.suggested,
        "best F1": found.best_f1,
    }
    return [name for name, one in marks.items() if one.delta == delta]


def calibration_json(found: Calibration) -> dict[str, Any]:
    """Return a calibration as a JSON object."""
    return asdict(found)
