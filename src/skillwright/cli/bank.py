"""``skillwright bank``: inspect and change a skill bank."""

import asyncio
import shlex
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from skillwright.bank import BankStore, calibrate, seed_pairs
from skillwright.cli import bank_tables
from skillwright.cli.faults import NO, err, exit_codes
from skillwright.cli.live import display
from skillwright.cli.options import (
    DEFAULT_ROOT,
    NO_OVERRIDES,
    AsJson,
    BankFile,
    BankOverrides,
    BankPath,
    ConfigFile,
    NoModel,
    Output,
    Root,
    Sign,
    SkillName,
    Teacher,
    To,
    existing_file,
    print_result,
    writable_file,
)
from skillwright.cli.verify import show_taken
from skillwright.cli.words import make_console
from skillwright.config import load_config
from skillwright.config.bank_settings import load_with_teacher, search_settings, study_settings
from skillwright.core import ConfigError
from skillwright.envs import spec
from skillwright.jobs.bank import (
    SUFFIXES,
    DistillOutcome,
    EvolveReport,
    Format,
    approve_by_gate,
    approve_without_gate,
    bank_statistics,
    check_bank_job,
    distill_config,
    distill_runs,
    evolve_bank,
    evolve_on_rollouts,
    export_bank_file,
    find_task,
    history_of,
    import_into,
    let_in,
    lint_bank,
    named_or_pending,
    roll_back,
    search_bank,
    study_memories,
    study_run,
    task_of_text,
)
from skillwright.jobs.inspect import PLACES, Client, ExportOptions, export_bank
from skillwright.jobs.run import (
    Callback,
    find_run,
    has_work,
    look_at_work,
    opened_embedder,
    read_bank,
)
from skillwright.runs.folder import CONFIG_NAME

DEFAULT = "bank.sqlite"
FILE = Path(DEFAULT)
_YAML = (".yaml", ".yml")
_NO_TEACHER = "scripted:household_teacher"

WithoutGate = Annotated[
    str | None,
    typer.Option("--without-gate", metavar="REASON", help="Skip the gate, for this reason."),
]

app = typer.Typer(help="Skill banks: distill, look into, evolve, move.", no_args_is_help=True)
out = make_console()


@app.command()
def distill(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN... | CONFIG | MEMORIES.json...",
            help="Runs, a configuration, or SkillRL's generated memories.",
        ),
    ],
    bank: BankFile = FILE,
    teacher: Teacher = None,
    root: Root = DEFAULT_ROOT,
    env: Annotated[
        str, typer.Option("--env", help="The environment of memories, in place of their own word.")
    ] = "",
    overrides: BankOverrides = NO_OVERRIDES,
    as_json: AsJson = False,
) -> None:
    """Write skills with a teacher, from stored runs or from episodes played for it."""
    with exit_codes():
        writable_file(bank)
        work: Callable[[Callback], Coroutine[Any, Any, DistillOutcome]]
        if len(sources) == 1 and Path(sources[0]).suffix in _YAML:
            played = load_with_teacher(Path(sources[0]), teacher, overrides)
            asyncio.run(check_bank_job(played))
            work = partial(distill_config, played, bank)
        elif all(Path(source).suffix.lower() == ".json" for source in sources):
            settings = study_settings(teacher, None, overrides)
            found = [study_memories(Path(file), env) for file in sources]
            work = partial(distill_runs, found, bank, settings)
        else:
            settings = study_settings(teacher, find_run(sources[0], root) / CONFIG_NAME, overrides)
            found = [study_run(run, root) for run in sources]
            work = partial(distill_runs, found, bank, settings)
    with exit_codes(partial(again, bank)), display(err if as_json else out) as callback:
        outcome = asyncio.run(work(callback))
    print_result(as_json, outcome.to_dict(), lambda: bank_tables.show_distilled(out, outcome))


@app.command()
def evolve(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="CONFIG | ROLLOUTS.jsonl...",
            help="What is played by whom, or what SkyRL's trainer played.",
        ),
    ],
    bank: BankFile = FILE,
    teacher: Teacher = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; they share evaluation.alpha.")] = 1,
    without_gate: WithoutGate = None,
    overrides: BankOverrides = NO_OVERRIDES,
    as_json: AsJson = False,
) -> None:
    """Play tasks, update the bank from failures with a teacher, and judge the update."""
    with exit_codes():
        existing_file(bank)
        work: Callable[[Callback], Coroutine[Any, Any, EvolveReport]]
        if all(source.suffix.lower() == ".jsonl" for source in sources):
            if not without_gate or rounds > 1:
                raise ConfigError(
                    "with rollouts alone no agent can play for a gate: say --without-gate 'why', "
                    "and ask for one round; or give a CONFIG, whose agent plays"
                )
            settings = study_settings(teacher, None, overrides)
            work = partial(evolve_on_rollouts, sources, bank, settings, without_gate)
        else:
            if len(sources) > 1 or without_gate is not None:
                raise ConfigError(
                    "with a configuration a gate decides: give one CONFIG without --without-gate, "
                    "or rollouts that end in .jsonl"
                )
            played = load_with_teacher(sources[0], teacher, overrides)
            asyncio.run(check_bank_job(played))
            work = partial(evolve_bank, played, bank, rounds)
    with exit_codes(partial(again, bank)), display(err if as_json else out) as callback:
        report = asyncio.run(work(callback))
    print_result(as_json, report.to_dict(), lambda: bank_tables.show_evolution(out, report))


@app.command("import")
def import_(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="A file or folder of skills, or seed:alfworld.")
    ],
    bank: BankFile = FILE,
    as_json: AsJson = False,
) -> None:
    """Import skills as pending; they are injected only after approval."""
    with exit_codes():
        report = import_into(writable_file(bank), source)
    print_result(as_json, report.to_dict(), lambda: bank_tables.show_import(out, report, str(bank)))


@app.command()
def approve(
    skills: Annotated[
        list[str] | None, typer.Argument(metavar="[SKILL]...", help="Ids; none means all.")
    ] = None,
    bank: BankFile = FILE,
    config: ConfigFile = None,
    without_gate: WithoutGate = None,
    overrides: BankOverrides = NO_OVERRIDES,
    as_json: AsJson = False,
) -> None:
    """Activate pending skills that pass lint and the gate."""
    with exit_codes():
        existing_file(bank)
        if (config is None) == (without_gate is None):
            raise ConfigError(
                "a gate decides which pending skills become active: give --config CONFIG, which "
                "says what is played by whom, or --without-gate 'why not'"
            )
        if config is None:
            report = approve_without_gate(bank, skills or [], without_gate or "")
        else:
            named_or_pending(read_bank(str(bank), "--bank"), skills or [])
            # The gate asks no teacher, and a configuration need not name one.
            settings = load_with_teacher(config, _NO_TEACHER, overrides)
            asyncio.run(check_bank_job(settings))
    if config is not None:
        with exit_codes(partial(again, bank)), display(err if as_json else out) as callback:
            report = asyncio.run(approve_by_gate(settings, bank, skills or [], callback))
    print_result(as_json, report.to_dict(), lambda: bank_tables.show_approval(out, report))
    if not let_in(report.report) or report.refused:
        raise typer.Exit(NO)


@app.command()
def export(  # noqa: PLR0913 - each is an option
    path: Annotated[
        Path | None,
        typer.Argument(metavar="[PATH]", help="A file, or with folders of skills the folder."),
    ] = None,
    bank: BankPath = DEFAULT,
    to: To = None,
    output: Output = None,
    form: Annotated[
        Format | None,
        typer.Option("--format", help="By default what the name says: .json, .md, else a folder."),
    ] = None,
    version: Annotated[int | None, typer.Option(help="A version; else the newest.")] = None,
    name: SkillName = "",
    no_model: NoModel = False,
    sign: Sign = None,
    as_json: AsJson = False,
) -> None:
    """Write a bank as an Agent Skills folder (--to), JSON, SkillRL's layout, or Markdown."""
    with exit_codes():
        place = _place(path, to, output)
        chosen = form or ("agent-skills" if to else SUFFIXES.get(place.suffix.lower()))
        if to is not None and chosen != "agent-skills":
            raise ConfigError(f"--to {to} writes folders of skills; leave --format {form} out")
        if sign is not None and chosen not in (None, "agent-skills"):
            raise ConfigError("--sign signs the evidence in a folder of skills; write one")
        if version is None:
            found = read_bank(bank, "--bank")
        else:
            with BankStore.open(existing_file(bank), read_only=True) as store:
                found = store.load(version)
        if chosen is not None and chosen != "agent-skills":
            export_bank_file(found, place, chosen)
            written: dict[str, Any] = {"format": chosen, "files": 1, "left_out": {}}
        else:
            options = ExportOptions(place, name, asks_model=not no_model, sign_with=sign)
            taken = asyncio.run(export_bank(found, bank, options))
            written = {"format": "agent-skills", **taken.to_dict()}
    print_result(
        as_json,
        {"to": str(place), "bank_version": found.version, **written},
        lambda: (
            show_taken(out, taken)
            if written["format"] == "agent-skills"
            else bank_tables.show_export(out, found, place, written)
        ),
    )


def _place(path: Path | None, to: Client | None, output: Path | None) -> Path:
    if path is not None and output is not None:
        raise ConfigError(f"give {str(path)!r} or --output {output}, not both")
    named = path or output or (PLACES[to] if to else None)
    if named is None:
        raise ConfigError(
            "say where to: --to claude, codex or agents for the folder in which that agent looks "
            "for skills, --output DIR for another one, or the name of a .json or .md file"
        )
    return named


@app.command()
def rollback(
    version: Annotated[int, typer.Argument(metavar="VERSION", help="Version to restore.")],
    reason: Annotated[str, typer.Option(help="Reason, for the log.")],
    bank: BankFile = FILE,
    as_json: AsJson = False,
) -> None:
    """Create a new version that equals an old one."""
    with exit_codes():
        now = roll_back(existing_file(bank), version, reason)
    print_result(
        as_json,
        {"version": now.version, "equals": version},
        lambda: out.print(f"version {now.version} of the bank equals version {version}"),
    )


def again(bank: Path) -> str:
    """Return the command to repeat, if it has stored work that is not paid again."""
    if not has_work(bank):
        return ""
    with look_at_work(bank) as work:
        answered = any(used.calls for used in work.usage_by_purpose().values())
        kept = answered or work.counts()["episodes"]
    return f"skillwright {shlex.join(sys.argv[1:])}" if kept else ""


@app.command("search")
def search(
    query: Annotated[str, typer.Argument(metavar="TASK", help="A goal in words, or a task's id.")],
    bank: BankPath = DEFAULT,
    env: Annotated[
        str, typer.Option("--env", help="The environment, which knows a task's category.")
    ] = "",
    config: ConfigFile = None,
    overrides: BankOverrides = NO_OVERRIDES,
    as_json: AsJson = False,
) -> None:
    """Show the skills that would be injected for a task, with similarities."""
    with exit_codes():
        if config is not None:
            settings = load_config(config, overrides)
            task = find_task(settings.env, query)
            section = settings.bank
        else:
            if env:
                spec(env)
            section, task = search_settings(overrides).bank, task_of_text(query, env)
        answer = search_bank(read_bank(bank, "--bank"), task, section)
    print_result(as_json, answer.to_dict(), lambda: bank_tables.show_answer(out, answer))


@app.command("show")
def show(
    skill: Annotated[str, typer.Argument(metavar="SKILL", help="A skill's id, such as t014.")],
    bank: BankPath = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Show a skill with its evidence, results and history."""
    with exit_codes():
        found = history_of(bank, skill)
    print_result(
        as_json, bank_tables.history_json(found), lambda: bank_tables.show_history(out, found)
    )


@app.command("stats")
def stats(
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RUN]...", help="Runs whose episodes skills were learned from."),
    ] = None,
    bank: BankPath = DEFAULT,
    root: Root = DEFAULT_ROOT,
    overrides: BankOverrides = NO_OVERRIDES,
    as_json: AsJson = False,
) -> None:
    """Count skills, show their growth, and compare their length with trajectories."""
    with exit_codes():
        settings = search_settings(overrides).bank
        found = bank_statistics(bank, runs or [], root, settings)
    print_result(as_json, found.to_dict(), lambda: bank_tables.show_statistics(out, found))


@app.command("lint")
def lint_command(
    source: Annotated[
        str | None,
        typer.Argument(metavar="[SOURCE]", help="A file or folder of skills, before its import."),
    ] = None,
    bank: BankPath = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Explain what is not allowed in a skill; exit with 1 if a finding blocks."""
    with exit_codes():
        found = lint_bank(bank, source)
    print_result(
        as_json,
        [bank_tables.findings_json(*one) for one in found],
        lambda: bank_tables.show_findings(out, found),
    )
    if any(finding.blocks for _, findings in found for finding in findings):
        raise typer.Exit(NO)


@app.command("log")
def log(bank: BankPath = DEFAULT, as_json: AsJson = False) -> None:
    """List the changes of a bank with reasons and verdicts, oldest first."""
    with exit_codes(), BankStore.open(existing_file(bank), read_only=True) as store:
        entries = store.log()
    print_result(
        as_json,
        [bank_tables.entry_json(one) for one in entries],
        lambda: bank_tables.show_log(out, entries),
    )


@app.command("diff")
def diff(
    before: Annotated[int, typer.Argument(metavar="BEFORE", help="A version; 0 is empty.")],
    after: Annotated[
        int | None, typer.Argument(metavar="[AFTER]", help="Another; else the newest.")
    ] = None,
    bank: BankPath = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Compare two versions of a bank."""
    with exit_codes(), BankStore.open(existing_file(bank), read_only=True) as store:
        found = store.diff(before, after)
    print_result(as_json, bank_tables.diff_json(found), lambda: bank_tables.show_diff(out, found))


@app.command("calibrate")
def calibrate_command(
    embedder: Annotated[
        str, typer.Option(help="lexical, a sentence-transformers model, or URL#model.")
    ] = "lexical",
    tasks: Annotated[int, typer.Option(min=1, help="Train tasks of each environment.")] = 120,
    as_json: AsJson = False,
) -> None:
    """Show precision and recall of an embedder's similarity, by delta."""
    with exit_codes(), opened_embedder(embedder) as made:
        found = calibrate(made, seed_pairs(tasks))
    print_result(
        as_json,
        bank_tables.calibration_json(found),
        lambda: bank_tables.show_calibration(out, found),
    )
