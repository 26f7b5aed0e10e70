"""The commands that change a bank: distil, evolve, import, admit, export, rollback."""

import asyncio
import shlex
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from skillwright.bank import BankStore
from skillwright.cli import bank_reports
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
    Root,
    Teacher,
    existing_file,
    print_result,
    writable_file,
)
from skillwright.cli.words import make_console
from skillwright.config.bank_settings import load_with_teacher, study_settings
from skillwright.core import ConfigError
from skillwright.jobs import Watcher, find_run
from skillwright.jobs.bank.arena import check_bank_job
from skillwright.jobs.bank.distil import DistilOutcome, distil_config, distil_runs
from skillwright.jobs.bank.evidence import study_run
from skillwright.jobs.bank.evolve import evolve_bank
from skillwright.jobs.bank.memories import study_memories
from skillwright.jobs.bank.moves import (
    Format,
    admit_judged,
    admit_unjudged,
    export_bank,
    import_into,
    let_in,
    quarantined,
    roll_back,
)
from skillwright.jobs.parts.bank_source import read_bank
from skillwright.jobs.parts.bank_work import has_work, look_at_work

DEFAULT = "bank.sqlite"
FILE = Path(DEFAULT)
_YAML = (".yaml", ".yml")
_NOBODY = "scripted:household_teacher"

Distil = Callable[[Watcher], Coroutine[Any, Any, DistilOutcome]]

out = make_console()


def add_to(app: typer.Typer) -> None:
    """Put the commands on an application."""
    for command in (distil, evolve, admit, export, rollback):
        app.command(command.__name__)(command)
    app.command("import")(import_)


def distil(
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
    """Have a teacher write skills out of what was played: of runs, or of games played for it."""
    with exit_codes():
        writable_file(bank)
        if len(sources) == 1 and Path(sources[0]).suffix in _YAML:
            work = _games(Path(sources[0]), bank, teacher, overrides)
        elif all(Path(source).suffix.lower() == ".json" for source in sources):
            work = _memories(sources, bank, teacher, env, overrides)
        else:
            work = _studies(sources, bank, teacher, root, overrides)
    with exit_codes(partial(again, bank)), display(err if as_json else out) as watcher:
        outcome = asyncio.run(work(watcher))
    print_result(as_json, outcome.to_dict(), lambda: bank_reports.show_distilled(out, outcome))


def _games(config: Path, bank: Path, teacher: str | None, overrides: list[str]) -> Distil:
    settings = load_with_teacher(config, teacher, overrides)
    asyncio.run(check_bank_job(settings))
    return partial(distil_config, settings, bank)


def _studies(
    runs: list[str], bank: Path, teacher: str | None, root: Path, overrides: list[str]
) -> Distil:
    settings = study_settings(teacher, find_run(runs[0], root) / "config.yaml", overrides)
    return partial(distil_runs, [study_run(run, root) for run in runs], bank, settings)


def _memories(
    files: list[str], bank: Path, teacher: str | None, env: str, overrides: list[str]
) -> Distil:
    settings = study_settings(teacher, None, overrides)
    found = [study_memories(Path(file), env) for file in files]
    return partial(distil_runs, found, bank, settings)


def evolve(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="What is played by whom.")],
    bank: BankFile = FILE,
    teacher: Teacher = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; they share evaluation.alpha.")] = 1,
    overrides: BankOverrides = NO_OVERRIDES,
    as_json: AsJson = False,
) -> None:
    """Play, have a teacher change the bank where it still fails, and let the gate decide."""
    with exit_codes():
        existing_file(bank)
        settings = load_with_teacher(config, teacher, overrides)
        asyncio.run(check_bank_job(settings))
    with exit_codes(partial(again, bank)), display(err if as_json else out) as watcher:
        report = asyncio.run(evolve_bank(settings, bank, rounds, watcher))
    print_result(as_json, report.to_dict(), lambda: bank_reports.show_evolution(out, report))


def import_(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="A file or folder of skills, or seed:alfworld.")
    ],
    bank: BankFile = FILE,
    as_json: AsJson = False,
) -> None:
    """Bring skills in, into quarantine: no agent is told one before it is admitted."""
    with exit_codes():
        report = import_into(writable_file(bank), source)
    print_result(
        as_json, report.to_dict(), lambda: bank_reports.show_import(out, report, str(bank))
    )


def admit(
    skills: Annotated[
        list[str] | None, typer.Argument(metavar="[SKILL]...", help="Ids; none means all.")
    ] = None,
    bank: BankFile = FILE,
    config: ConfigFile = None,
    without_gate: Annotated[
        str | None,
        typer.Option("--without-gate", metavar="REASON", help="Ask no gate; the log says why."),
    ] = None,
    overrides: BankOverrides = NO_OVERRIDES,
    as_json: AsJson = False,
) -> None:
    """Let skills out of quarantine that pass lint, and a gate: with them games must go better."""
    with exit_codes():
        existing_file(bank)
        if (config is None) == (without_gate is None):
            raise ConfigError(
                "a gate decides who leaves quarantine: give --config CONFIG, which says what is "
                "played by whom, or --without-gate 'why not'"
            )
        if config is None:
            report = admit_unjudged(bank, skills or [], without_gate or "")
        else:
            quarantined(read_bank(str(bank), "--bank"), skills or [])
            # The gate asks no teacher, and a configuration need not name one.
            settings = load_with_teacher(config, _NOBODY, overrides)
            asyncio.run(check_bank_job(settings))
    if config is not None:
        with exit_codes(partial(again, bank)), display(err if as_json else out) as watcher:
            report = asyncio.run(admit_judged(settings, bank, skills or [], watcher))
    print_result(as_json, report.to_dict(), lambda: bank_reports.show_admission(out, report))
    if not let_in(report.report) or report.refused:
        raise typer.Exit(NO)


def export(
    to: Annotated[Path, typer.Argument(metavar="TO", help="A file, or a folder.")],
    bank: BankPath = DEFAULT,
    form: Annotated[
        Format | None,
        typer.Option("--format", help="By default what the name says: .json, .md, else a folder."),
    ] = None,
    version: Annotated[int | None, typer.Option(help="A version; else the newest.")] = None,
    name: Annotated[str, typer.Option(help="Names the folders of Agent Skills.")] = "",
    as_json: AsJson = False,
) -> None:
    """Write a bank as JSON, in SkillRL's layout, as Agent Skills folders, or as Markdown."""
    with exit_codes():
        if version is None:
            found = read_bank(bank, "--bank")
        else:
            with BankStore.open(existing_file(bank), read_only=True) as store:
                found = store.load(version)
        stem = bank.partition(":")[2] if bank.startswith("seed:") else Path(bank).stem
        written = export_bank(found, to, form, name or stem)
    print_result(
        as_json,
        {"to": str(to), "version": found.version, **written},
        lambda: bank_reports.show_export(out, found, to, written),
    )


def rollback(
    version: Annotated[int, typer.Argument(metavar="VERSION", help="What to go back to.")],
    reason: Annotated[str, typer.Option(help="Why; it stands in the log.")],
    bank: BankFile = FILE,
    as_json: AsJson = False,
) -> None:
    """Make a new version that equals an old one; nothing is lost, and no id comes again."""
    with exit_codes():
        now = roll_back(existing_file(bank), version, reason)
    print_result(
        as_json,
        {"version": now.version, "equals": version},
        lambda: out.print(f"version {now.version} of the bank equals version {version}"),
    )


def again(bank: Path) -> str:
    """Return the command itself where something was played or answered, which is not paid again."""
    if not has_work(bank):
        return ""
    with look_at_work(bank) as work:
        answered = any(used.calls for used in work.usage_by_purpose().values())
        kept = answered or work.counts()["episodes"]
    return f"skillwright {shlex.join(sys.argv[1:])}" if kept else ""
