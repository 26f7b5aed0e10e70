"""``skillwright init``: from a file of rows to a configuration that trains as it is."""

import json
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer
from rich.markup import escape

from skillwright.bank.formats.agent_skills import skill_name
from skillwright.cli.faults import exit_codes
from skillwright.cli.init_skill import (
    SCRIPTED,
    UNLEARNABLE,
    Llms,
    find_evals,
    init_skill,
    show_skill,
    why_too_few,
    write_measured,
)
from skillwright.cli.options import AsJson
from skillwright.cli.words import make_console, make_table, print_words
from skillwright.config import RunConfig, load_config
from skillwright.core import ConfigError, DataError, SkillwrightError, did_you_mean
from skillwright.core.jsonio import write_text
from skillwright.datasets import Splits
from skillwright.datasets.clusters import clusters_of
from skillwright.envs.table import Table as Rows
from skillwright.envs.table.draft import (
    SCORERS,
    Look,
    draft,
    look_at,
    most_tasks,
    refuse_missing_header,
    written,
)
from skillwright.jobs.run import make_splits

out = make_console()
err = make_console(stderr=True)

# The more rows decide, the less do few rows prove nothing; the first that can prove anything.
_RATIOS = ("1:1:1", "1:2:1", "1:4:1")
_HOSTED = {
    "OPENAI_API_KEY": ("openai_chat", "gpt-5.4-mini", "gpt-5.5"),
    "ANTHROPIC_API_KEY": ("claude_chat", "claude-haiku-5-5", "claude-opus-5-5"),
}
"""Key -> backend, a small model that acts, and a large one that proposes."""
_FEW = 30
_NO_TYPE = "-"
_BUDGET = "budget: {usd: 5}  # stops the run there; `skillwright resume` continues"
_READS = "gradient: {minibatch_size: 40}  # rows that the optimizer reads at once"


def init(  # noqa: PLR0913 - each is an option
    file: Annotated[
        Path,
        typer.Argument(
            help="The rows (CSV, TSV, JSON, JSON Lines, Parquet), or a skill's folder with evals."
        ),
    ],
    answer: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="The column with the right answer; A,B for fields of JSON."
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="The columns that the agent reads; by default the rest."),
    ] = None,
    scorer: Annotated[
        str | None, typer.Option(help=f"How a reply is scored: {', '.join(SCORERS)}.")
    ] = None,
    task_type: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The column by which results are shown; - for none."),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Model for target and optimizer, such as gpt-5.5.")
    ] = None,
    base_url: Annotated[
        str | None, typer.Option("--base-url", help="URL of that model's endpoint.")
    ] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Scripted models, also where a key is set.")
    ] = False,
    encoding: Annotated[
        str | None, typer.Option(help="Encoding of the file, such as cp1252.")
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(help="The configuration that is written; by default named as the file is."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write the configuration for a file of rows, or for a skill's folder with evals."""
    with exit_codes():
        evals = find_evals(file, encoding)
        if evals is not None:
            _refuse_row_options(answer, columns, scorer)
            llms = _llms(model, base_url, offline=offline) or (None if offline else _NEEDS_KEY)
            facts = init_skill(evals, llms, _free(to or Path(f"{skill_name(evals.name)}.yaml")))
    if evals is not None:
        if as_json:
            typer.echo(json.dumps(facts))
        else:
            show_skill(evals, llms, facts)
        return
    with exit_codes():
        to = _free(to or Path(f"{skill_name(file.stem)}.yaml"))
        look = look_at(Rows(file, encoding))
        if answer is None:
            refuse_missing_header(look)
        asks = sys.stdin.isatty() and not (yes or as_json)
        if not as_json:
            _show(look)
        config = _decided(look, answer, columns, scorer, task_type, asks=asks)
        made = _write(look, config, _models(model, base_url, offline=offline), to)
    if as_json:
        typer.echo(json.dumps({"path": str(to), **made}))
        return
    sizes = made["tasks"]
    out.print(f"wrote {to}", markup=False, style="bold")
    print_words(out, f"{sizes['train']} train, {sizes['val']} val, {sizes['test']} test rows")
    print_words(out, f"What can be proven: {made['proof']}.")
    if sizes["val"] < _FEW:
        print_words(out, "With so few rows only a large gain can be proven; more rows find more.")
    if made["unlearnable"]:
        print_words(out, UNLEARNABLE, "yellow")
    print_words(out, f"Next:  skillwright train {shlex.quote(str(to))}")


def _refuse_row_options(*options: str | None) -> None:
    if given := [one for one in options if one is not None]:
        raise ConfigError(
            f"{given[0]!r}: --answer, --columns and --scorer are for rows; the evals of a skill "
            "are scored by their assertions"
        )


def _decided(
    look: Look,
    answer: str | None,
    columns: str | None,
    scorer: str | None,
    task_type: str | None,
    *,
    asks: bool,
) -> dict[str, Any]:
    """Ask the four questions, or take what the file suggests."""
    answer = _asked("Which column holds the right answer?", answer, look.answer, asks)
    answers = _columns(look, answer)
    if columns is None:
        _show_left_out(look, answers)
    columns = _asked(
        "Which columns does the agent read?", columns, ",".join(look.shown(answers)), asks
    )
    shown = _columns(look, columns)
    if set(answers) & set(shown) or not shown:
        raise DataError(
            f"the agent would read {columns!r}, which must be columns other than the answer "
            f"{answer!r}"
        )
    question = f"How is a reply scored ({', '.join(SCORERS)})?"
    fits = look.scorer(answer) if len(answers) == 1 else "json"
    scorer = _asked(question, scorer, fits, asks)
    if scorer not in SCORERS and ":" not in scorer:
        raise DataError(f"there is no scorer {scorer!r}. {did_you_mean(scorer, SCORERS)}")
    question = f"By which column are results shown ({_NO_TYPE}: by none)?"
    suggested = look.task_type(answers[0], look_further=asks) or _NO_TYPE
    task_type = _asked(question, task_type, suggested, asks)
    if task_type != _NO_TYPE:
        look.column(task_type)
    return draft(look, answers, shown, scorer, "" if task_type == _NO_TYPE else task_type)


def _show_left_out(look: Look, answers: Sequence[str]) -> None:
    telling = [one.name for one in look.columns if one.name not in answers]
    left_out = [name for name in telling if look.tells(name, answers)]
    if left_out and set(left_out).isdisjoint(look.shown(answers)):
        said = (
            f"Not read by the agent, because it says the answer: {', '.join(map(repr, left_out))}."
            " To have it read, name it in --columns."
        )
        print_words(err, said, "yellow")


def _columns(look: Look, text: str) -> list[str]:
    """Return the columns that a text names, separated by commas; a name may hold commas.

    Raises:
        DataError: There is no such column.
    """
    known = [one.name for one in look.columns]
    names = [text] if text in known else [one.strip() for one in text.split(",") if one.strip()]
    return [look.column(name).name for name in names]


def _asked(question: str, given: str | None, suggested: str, asks: bool) -> str:
    if given is not None:
        return given
    return str(typer.prompt(question, default=suggested)).strip() if asks else suggested


def _write(look: Look, config: dict[str, Any], models: list[str], to: Path) -> dict[str, Any]:
    """Write the first configuration that could prove something; none where nothing could."""
    table = look.table
    encoding = {} if table.encoding is None else {"encoding": table.encoding}
    column = look.split_column
    splits = [{"split_column": column}] if column else [{"ratio": ratio} for ratio in _RATIOS]
    why = f"by column {column}" if column else "shares of train, val (decides) and test rows"
    problem = ""
    for split in splits:
        data = {"path": str(table.path), **split, **most_tasks(look), **encoding}
        write_text(to, written(config, data, models, why))
        try:
            found = load_config(to)
            made = make_splits(found)
        except SkillwrightError:
            to.unlink()
            raise
        if not (problem := why_too_few(found, made)):
            return _facts(found, made, look)
    to.unlink()
    raise DataError(f"{str(table.path)!r} has {look.rows} rows, and {problem}; add rows")


def _facts(config: RunConfig, splits: Splits, look: Look) -> dict[str, Any]:
    train, val = splits.train.tasks, splits.val.tasks
    tasks = {"train": len(train), "val": len(val), "test": len(splits.test)}
    is_scripted = config.models.target.backend == "scripted"
    asked = config.env.config
    is_learnable = asked["scorer"] != "json" and look.repeats(asked["answer"])
    return {
        "rows": look.rows,
        "tasks": tasks,
        "proof": config.power(len(train), len(val), clusters_of(val)),
        "unlearnable": is_scripted and not is_learnable,
    }


@contextmanager
def written_for(config: Path | None, skill: Path | None) -> Iterator[Path]:
    """Yield a configuration: the given one, or a temporary one for the evals of a skill.

    Raises:
        ConfigError: Neither is given.
        DataError: The skill has no evals, or they cannot be read.
    """
    if config is not None:
        yield config
        return
    if skill is None or (evals := find_evals(skill)) is None:
        raise ConfigError(
            "name a configuration, or a skill's folder with evals: skillwright eval --skill FOLDER"
        )
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"{skill_name(evals.name)}.yaml"
        write_measured(evals, _llms(None, None, offline=False) or _NEEDS_KEY, path)
        yield path


def _free(to: Path) -> Path:
    if to.exists():
        raise ConfigError(f"{str(to)!r} is there already; name another file with --to")
    return to


def _llms(model: str | None, base_url: str | None, *, offline: bool) -> Llms | None:
    """Return the models that are named, or whose key is set; ``None`` for scripted ones."""
    if base_url is not None and model is None:
        raise ConfigError("--base-url needs --model, the name of the model there")
    if model is not None:
        where = "" if base_url is None else f", base_url: {json.dumps(base_url)}"
        llm = f"{{backend: openai_chat, model: {json.dumps(model)}{where}}}"
        return Llms(llm, llm)
    for key, (backend, small, large) in _HOSTED.items():
        if os.environ.get(key, "").strip() and not offline:
            return Llms(_llm(backend, small), _llm(backend, large), f"{key} is set")
    return None


def _llm(backend: str, model: str) -> str:
    return f"{{backend: {backend}, model: {model}}}"


_NEEDS_KEY = Llms(
    _llm("openai_chat", _HOSTED["OPENAI_API_KEY"][1]),
    _llm("openai_chat", _HOSTED["OPENAI_API_KEY"][2]),
    "set OPENAI_API_KEY, or begin again with --model NAME --base-url URL",
)


def _models(model: str | None, base_url: str | None, *, offline: bool) -> list[str]:
    if (llms := _llms(model, base_url, offline=offline)) is not None:
        return [*llms.lines, _READS, *([_BUDGET] if llms.remark else [])]
    return [*SCRIPTED, _READS]


def _show(look: Look) -> None:
    print_words(out, f"{look.table.path}: {look.rows:,} rows")
    table = make_table("column", "kind", "values", "blank", "example", right=("values", "blank"))
    for one in look.columns:
        example = " ".join(one.example.split())[:80]
        counts = (f"{one.distinct:,}", str(one.blank or ""))
        table.add_row(escape(one.name), one.kind, *counts, escape(example))
    out.print(table)
