"""Commands that look into a run: ``runs episodes`` lists episodes, ``runs view`` shows one."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from skillwright.cli.faults import exit_codes
from skillwright.cli.options import DEFAULT_ROOT, AsJson, Root
from skillwright.cli.words import (
    counted,
    make_console,
    make_table,
    print_words,
    short_count,
    show_paged,
)
from skillwright.core import StopReason, Usage
from skillwright.jobs.inspect import (
    EpisodeList,
    EpisodeQuery,
    EpisodeView,
    ExportFormat,
    ExportRows,
    FlipList,
    FlipSide,
    FoundEpisode,
    TurnView,
    export_run,
    list_episodes,
    list_flips,
    read_episode,
)

_SHOWN = 40  # episodes of a list that are shown without --limit
_LEAST_ROOM = 20  # minimum columns of a text on a narrow terminal
_NARROW = re.compile("[\\x20-\\x7e\\xa1-\\xac\\xae-\\u02ff\\u2010-\\u2027]*")
"""Characters that are one column wide."""
_LABEL = re.compile(r"[\w -]+: ")
_NORMAL_END = "stop"
_STYLES = {"reasoning": "dim italic", "verification": "yellow"}
_ACTIONS = ("action", "tool call", "agent to user")

out = make_console()

Run = Annotated[
    str,
    typer.Argument(
        metavar="RUN", help="A run's folder or name, latest, or a bank's file: what it played."
    ),
]


def episodes(  # noqa: PLR0913 - each is an option
    run: Run,
    unsolved: Annotated[
        bool, typer.Option("--unsolved", help="Only episodes below the success threshold.")
    ] = False,
    faults: Annotated[
        bool, typer.Option("--faults", help="Only episodes that a fault ended, without a reward.")
    ] = False,
    flipped: Annotated[
        bool,
        typer.Option(
            "--flipped",
            help="Tasks that one of the first and the released version solved, both sides.",
        ),
    ] = False,
    task_type: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help="Only of this task type.")
    ] = None,
    grep: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="Only those with this text in what was observed, said or called."
        ),
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Only of this split: train, val or test.")
    ] = None,
    phase: Annotated[
        str | None, typer.Option(help="Only of this phase: train, gate, test, ...")
    ] = None,
    step: Annotated[int | None, typer.Option(help="Only of this step or iteration.")] = None,
    task: Annotated[str | None, typer.Option(metavar="ID", help="Only of this task.")] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help=f"Show at most N; {_SHOWN} by default, all with --json."
        ),
    ] = None,
    root: Root = DEFAULT_ROOT,
    as_json: AsJson = False,
) -> None:
    """List episodes of a run with question, answer and score, the latest first."""
    query = EpisodeQuery(faults, unsolved, task_type, grep, split, phase, step, task)
    with exit_codes():
        flips = list_flips(run, root, query) if flipped else None
        read = limit or (None if as_json else _SHOWN)
        found = list_episodes(run, root, query, replies=read) if flips is None else None
    if flips is not None:
        if as_json:
            typer.echo(json.dumps([one.to_dict() for one in flips.flips[:limit]]))
        else:
            _show_flips(flips, limit or _SHOWN)
    elif found is not None and as_json:
        typer.echo(json.dumps([one.to_dict() for one in found.episodes[:limit]]))
    elif found is not None:
        _show_list(found, found.episodes[: limit or _SHOWN])


def view(
    run: Run,
    episode: Annotated[
        str,
        typer.Argument(
            metavar="EPISODE",
            help="As `runs episodes` names it, a task's id, or the beginning of a key.",
        ),
    ],
    root: Root = DEFAULT_ROOT,
    as_json: AsJson = False,
) -> None:
    """Show an episode turn by turn: prompt with skills, observations, actions, calls, reward."""
    with exit_codes():
        found = read_episode(run, episode, root)
    if as_json:
        typer.echo(json.dumps(found.to_dict()))
        return
    show_paged(out, lambda: _show_episode(found))


def export(
    run: Run,
    to: Annotated[
        Path | None, typer.Option("--out", "-o", help="The file; RUN-episodes.jsonl and so on.")
    ] = None,
    form: Annotated[
        ExportFormat | None,
        typer.Option("--format", help="By default the file's ending; otel: OTLP spans in JSON."),
    ] = None,
    rows: Annotated[
        ExportRows, typer.Option(help="A row per episode, or per call to a model.")
    ] = ExportRows.EPISODES,
    root: Root = DEFAULT_ROOT,
) -> None:
    """Write a run's episodes or calls into a file: JSON lines, Parquet, OpenTelemetry."""
    with exit_codes():
        by_name = to is not None and to.suffix.lower() == ".parquet"
        form = form or (ExportFormat.PARQUET if by_name else ExportFormat.JSONL)
        ending = "otlp.jsonl" if form is ExportFormat.OTEL else form.value
        what = "spans" if form is ExportFormat.OTEL else rows.value
        path = to or Path(f"{Path(run).name}-{what}.{ending}")
        count = export_run(run, path, form, rows, root)
    print_words(out, f"{path}: {count:,} {'requests' if form is ExportFormat.OTEL else 'rows'}")


def _show_list(found: EpisodeList, shown: tuple[FoundEpisode, ...]) -> None:
    print_words(out, Text.assemble((found.run, "bold"), f"  {_count(found)}"))
    if not shown:
        return
    out.print(_table(shown, by_skill=_has_several_skills(found.episodes)))
    if len(shown) < len(found.episodes):
        more = len(found.episodes) - len(shown)
        print_words(out, f"{more:,} more; --limit {len(found.episodes)} shows all", "dim")
    print_words(out, f"read one with:  skillwright runs view {found.run} {shown[0].name}", "dim")


def _show_flips(found: FlipList, most: int) -> None:
    """List flipped tasks with both sides: + is solved now, - no longer."""
    shown = found.flips[:most]
    gained = sum(one.is_gain for one in found.flips)
    said = (
        f"  {counted(len(found.flips), 'task')} of {found.tasks:,} flipped on {found.split} from "
        f"{found.before} to {found.after}: +{gained} solved now, -{len(found.flips) - gained} no "
        "longer"
    )
    print_words(out, Text.assemble((found.run, "bold"), said))
    if not shown:
        return
    sides = (found.before, found.after)
    texts = ["text"] if any(one.match for one in shown) else []
    table = make_table("task", "+/-", "task type", *sides, *texts, whole=sides)
    for one in shown:
        mark = Text("+", "green") if one.is_gain else Text("-", "red")
        task_type = Text(one.task.task_type.replace("_", " "))
        cells = (mark, task_type, _side(one.before), _side(one.after))
        table.add_row(Text(one.task.task_id), *cells, *[Text(one.match) for _ in texts])
    out.print(table)
    if len(shown) < len(found.flips):
        more = len(found.flips) - len(shown)
        print_words(out, f"{more:,} more; --limit {len(found.flips)} shows all", "dim")
    name = shown[0].after.episode.name
    print_words(out, f"read one with:  skillwright runs view {found.run} {name}", "dim")


def _side(side: FlipSide) -> Text:
    """Format the episode and its reward, or solved draws of several."""
    reward = _reward(side.episode)
    drawn = f" ({side.solved}/{side.draws} draws)" if side.draws > 1 else ""
    return Text.assemble(side.episode.name, " ", reward, drawn)


def _count(found: EpisodeList) -> str:
    whole = counted(found.total, "episode")
    listed = found.episodes
    if len(listed) < found.total:
        whole = f"{len(listed):,} of {whole}"
    solved, faults = (sum(one.solved is outcome for one in listed) for outcome in (True, None))
    unsolved = len(listed) - solved - faults
    return f"{whole}: {solved:,} solved, {unsolved:,} unsolved, {counted(faults, 'fault')}"


def _table(shown: tuple[FoundEpisode, ...], *, by_skill: bool) -> Table:
    """Return a table of episodes.

    A search shows the matching text, and a task with a right answer what was asked and answered.
    """
    texts = any(one.match for one in shown)
    replies = not texts and any(one.reply.expected or one.reply.answer for one in shown)
    facts = not texts and not replies
    questions = _without_label([_flat(one.reply.question) for one in shown])
    columns = {
        "id": [Text(one.name, "bold") for one in shown],
        "phase": [Text(one.where.replace("_", " ")) for one in shown],
        "skill": [_document(one) for one in shown] if by_skill else [],
        "task": [Text(one.summary.task_id) for one in shown],
        "task type": [Text(_type_of(one)) for one in shown] if facts else [],
        "question": [Text(one) for one in questions] if replies else [],
        "expected": [Text(_flat(one.reply.expected)) for one in shown] if replies else [],
        "answer": [Text(_flat(one.reply.answer)) for one in shown] if replies else [],
        "score": [_reward(one) for one in shown],
        "turns": [Text(f"{one.summary.turns:,}") for one in shown] if facts else [],
        "tokens": [Text(_tokens(one.summary.usage)) for one in shown] if facts else [],
        "remark": [_remark(one) for one in shown] if not texts else [],
        "text": [Text(one.match) for one in shown] if texts else [],
    }
    kept = {name: cells for name, cells in columns.items() if any(cell.plain for cell in cells)}
    _fit(kept)
    table = Table(box=SIMPLE_HEAD, padding=(0, 0), pad_edge=False)
    for name in kept:
        table.add_column(
            name,
            justify="right" if name in ("score", "turns", "tokens") else "left",
            no_wrap=name not in ("task", "text"),
            overflow="fold",
        )
    for cells in zip(*kept.values(), strict=True):
        table.add_row(*cells)
    return table


_SHORTENED = {"task type": 12, "question": 16, "answer": 12, "expected": 12}
"""Columns whose texts are cut so that the others fit, and their minimum widths."""


def _fit(columns: dict[str, list[Text]]) -> None:
    """Cut long texts, those of the widest column first, so that all columns fit."""
    widths = {name: max(len(name), *map(len, cells)) for name, cells in columns.items()}
    while sum(widths.values()) + len(columns) + 1 > out.width:
        wide = [name for name, least in _SHORTENED.items() if widths.get(name, 0) > least]
        if not wide:  # then each episode takes several lines, with its whole texts
            return
        widths[max(wide, key=lambda name: widths[name])] -= 1
    for name in set(_SHORTENED) & set(columns):
        columns[name] = [Text(_short(cell.plain, widths[name])) for cell in columns[name]]


def _has_several_skills(found: Iterable[FoundEpisode]) -> bool:
    return len({(one.document, one.tested) for one in found}) > 1


def _flat(text: str) -> str:
    return " ".join(text.split())


def _without_label(questions: list[str]) -> list[str]:
    """Leave out a label that all questions begin with, such as ``message: ``."""
    label = _LABEL.match(questions[0]) if len(questions) > 1 else None
    if label is None or not all(one.startswith(label[0]) for one in questions):
        return questions
    return [one.removeprefix(label[0]) for one in questions]


def _document(one: FoundEpisode) -> Text:
    return Text(one.tested or "other" if one.document is None else f"v{one.document}")


def _type_of(one: FoundEpisode) -> str:
    return one.summary.task_type.replace("_", " ")


def _short(text: str, most: int) -> str:
    """Cut a text between words."""
    if len(text) <= most:
        return text
    words = text[: most - 1].rpartition(" ")[0] if " " in text[: most - 1] else text[: most - 1]
    return f"{words.rstrip()}\N{HORIZONTAL ELLIPSIS}"


def _remark(one: FoundEpisode) -> Text:
    """Explain a missing reward or an early end."""
    summary = one.summary
    if summary.failure is not None:
        return Text(summary.failure.cause.value.replace("_", " "), "red")
    done = summary.stop_reason is StopReason.DONE
    return Text("" if done else _ending(summary.stop_reason))


def _ending(reason: StopReason) -> str:
    return {
        StopReason.MAX_TURNS: "turn limit",
        StopReason.TIMEOUT: "time limit",
        StopReason.CONTEXT: "context full",
    }.get(reason, reason.value)


def _reward(one: FoundEpisode) -> Text:
    score = one.summary.reward
    if score is None:
        return Text("-", "red")
    return Text(f"{score:.3g}", "green" if one.solved else "")


def _tokens(usage: Usage) -> str:
    return short_count(usage.input_tokens + usage.output_tokens) or "0"


def _show_episode(found: EpisodeView) -> None:
    _show_head(found)
    if found.skill_text:
        _heading("skill")
        _put(Text(found.skill_text), indent=2)
    if found.prompt:
        _heading("prompt of the first turn")
        _put_all([Said(message["role"], str(message["content"])) for message in found.prompt])
    for turn in found.turns:
        _show_turn(turn)
    if found.row:
        _heading("what the adapter returned")
        rows = found.row.items()
        _put_all([Said(k, v if isinstance(v, str) else json.dumps(v)) for k, v in rows])
    _show_end(found)


def _show_head(found: EpisodeView) -> None:
    one = found.found.summary
    name = Text.assemble((found.found.name, "bold"), "  ", (one.task_id, "bold"))
    _put(Text.assemble(name, f"  in run {found.run}"))
    played = (
        found.found.where.replace("_", " "),
        one.split and f"{one.split} split",
        f"draw {one.draw}, seed {one.seed}, {one.env}",
    )
    facts = {
        "task": ", ".join(filter(None, (_type_of(found.found), found.description))),
        "played": ", ".join(filter(None, played)),
        "agent": one.agent,
        "skill": found.skill,
        "key": one.key,
    }
    for label, value in facts.items():
        if value:
            _put(Text(value), Text(f"{label:<9}", "cyan"), indent=2)
    _put(_outcome(found.found), Text(f"{'outcome':<9}", "cyan"), indent=2)


def _outcome(found: FoundEpisode) -> Text:
    one = found.summary
    if one.failure is not None:
        cause = one.failure.cause.value.replace("_", " ")
        return Text(f"fault ({cause}): {one.failure.message}", "red")
    hard = "" if one.hard is None else f", hard {one.hard:g}"
    ending = "" if one.stop_reason is StopReason.DONE else f", {_ending(one.stop_reason)}"
    said = f"{'solved' if found.solved else 'unsolved'}: reward {one.reward:.3g}{hard}{ending}"
    return Text(said, "green" if found.solved else "yellow")


def _show_turn(turn: TurnView) -> None:
    facts = [f"{turn.usage.input_tokens:,} + {turn.usage.output_tokens:,} tokens"]
    if turn.reward:
        facts.append(f"reward {turn.reward:.3g}")
    if turn.finish_reason != _NORMAL_END:
        facts.append(f"answer ended: {turn.finish_reason.replace('_', ' ')}")
    _heading(f"turn {turn.index}", ", ".join(facts))
    _put_all([Said(line.kind, line.text) for line in turn.lines])


def _show_end(found: EpisodeView) -> None:
    one = found.found.summary
    _heading("end")
    _put(_outcome(found.found), indent=2)
    tried = "" if one.attempts == 1 else f", attempt {one.attempts}"
    spent = (
        f"{counted(one.turns, 'turn')}, {one.usage.input_tokens:,} + {one.usage.output_tokens:,} "
        f"tokens in {counted(one.usage.calls, 'call')}, {one.wall_s:.1f} s{tried}"
    )
    _put(Text(spent), indent=2)
    if one.metrics:
        numbers = ", ".join(f"{name} {value:g}" for name, value in one.metrics.items())
        _put(Text(numbers), Text("metrics  ", "cyan"), indent=2)


def _heading(title: str, facts: str = "") -> None:
    out.print()
    line = Text.assemble((title, "bold"), "  " if facts else "", (facts, "dim"))
    if out.is_terminal:
        line.append(f" {'-' * (out.width - len(line) - 1)}", "dim")
    _put(line)


class Said(NamedTuple):
    """A text with its speaker."""

    kind: str
    text: str


def _put_all(said: list[Said]) -> None:
    """Print a transcript, with short texts next to their labels, long ones below."""
    texts = [one._replace(text=one.text.strip("\n")) for one in said]
    column = max((len(one.kind) for one in texts if "\n" not in one.text), default=0) + 2
    for kind, text in texts:
        label = Text(kind, "bold cyan" if kind in _ACTIONS else "cyan")
        shown = Text(text, _STYLES.get(kind, ""))
        if "\n" in text:
            _put(label, indent=2)
            _put(shown, indent=4)
        else:
            label.pad_right(column - len(kind))
            _put(shown, label, indent=2)


def _put(text: Text, label: Text | None = None, indent: int = 0) -> None:
    """Print an indented text, broken between words on a terminal only."""
    first = Text.assemble(" " * indent, label or Text())
    room, margin = max(out.width - len(first), _LEAST_ROOM), " " * len(first)
    if text.spans:  # one line of several styles
        parts = text.wrap(out, room) if out.is_terminal else [text]
        out.print(first + Text(f"\n{margin}").join(parts), soft_wrap=True)
        return
    lines = text.plain.split("\n")
    if out.is_terminal:
        lines = [part for line in lines for part in _wrapped(line, room)]
    if not lines[0].strip():
        first.rstrip()
    rest = [margin + line.rstrip() if line.strip() else "" for line in lines[1:]]
    first.append("\n".join([lines[0].rstrip(), *rest]), text.style)
    # All at once: rich takes a minute for the single lines of a long episode.
    out.print(first, soft_wrap=True)


def _wrapped(line: str, room: int) -> Iterable[str]:
    """Break a line between words where it can be; rich counts the columns of wide characters."""
    if not _NARROW.fullmatch(line):
        return (part.plain for part in Text(line).wrap(out, room))
    line, parts, start = line.rstrip(), [], 0
    while len(line) - start > room:
        end = line.rfind(" ", start, start + room + 1)
        end = start + room if end <= start else end
        parts.append(line[start:end])
        start = end + (line[end] == " ")
    return [*parts, line[start:]]
