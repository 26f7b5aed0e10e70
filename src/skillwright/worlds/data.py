"""Commands about official data: ``data tau-bench``, ``data webshop`` and ``data list``."""

import dataclasses
import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from skillwright.cli.faults import exit_codes, say
from skillwright.cli.options import AsJson
from skillwright.cli.words import make_console, make_table
from skillwright.core import DataError
from skillwright.worlds.tau_bench import DOMAINS, DataSource, data_dir, open_store
from skillwright.worlds.tau_bench.tau_core import fetched_dir
from skillwright.worlds.tau_bench.upstream import fetch_tau_bench
from skillwright.worlds.webshop import import_webshop, imported_path, index_with_tantivy
from skillwright.worlds.webshop.search import import_tantivy

app = typer.Typer(help="Fetch official data, and see what is there.", no_args_is_help=True)
out = make_console()

TAU_BENCH = "tau-bench"
WEBSHOP = "webshop"


class Edition(StrEnum):
    """Whose tasks of tau-bench."""

    ORIGINAL = "original"
    TAU3 = "tau3"


@app.command(TAU_BENCH)
def tau_bench(
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="A checkout, an archive of one (.tar.gz), the address of an archive, or for tau3 "
            "inspect-evals, the installed package. By default the pinned commit's archive; for "
            "banking, inspect-evals.",
        ),
    ] = None,
    to: Annotated[
        Path | None, typer.Option(help="Where it goes; by default a folder that is found again.")
    ] = None,
    any_version: Annotated[
        bool,
        typer.Option(
            "--any-version", help="Take other data than that of the pinned commit; needs --to."
        ),
    ] = False,
    domain: Annotated[
        str, typer.Option(help="Whose data: retail or airline; of tau3 also telecom and banking.")
    ] = "retail",
    tasks: Annotated[
        Edition, typer.Option(help="tau-bench's own, or tau2-bench 1.0.1's.")
    ] = Edition.ORIGINAL,
    as_json: AsJson = False,
) -> None:
    """Fetch the data of a tau-bench domain, or convert a copy of its repository."""
    with exit_codes():
        if any_version and to is None:
            raise DataError(
                "--any-version needs --to FOLDER: only the pinned data may stand where it is found "
                "without being named"
            )
        if tasks is Edition.TAU3 and not domain.startswith("tau3_"):
            domain = f"tau3_{domain}"
        elif domain not in DOMAINS and f"tau3_{domain}" in DOMAINS:
            raise DataError(f"{domain} is a domain of tau3 only; add --tasks tau3")
        fetched = fetch_tau_bench(
            to or fetched_dir(domain), source, domain=domain, any_version=any_version
        )
    if as_json:
        typer.echo(json.dumps(dataclasses.asdict(fetched)))
        return
    found = ", ".join(f"{count} {split}" for split, count in fetched.tasks.items())
    done = "is there already" if fetched.was_there else "was put"
    data = fetched.checksum[:12]
    say(f"tau-bench {domain} {done} in {fetched.folder}: tasks {found}; data {data}")
    if tasks is Edition.TAU3:
        say(f"Play it with env.config.domain: {domain}")
    if to is not None:
        variable = DOMAINS[domain].data_variable
        say(f"Use it with env_config.data_dir, or {variable}={fetched.folder}")
    if not fetched.is_pinned:
        say("This is not the pinned commit's data; scores over it compare with no others.")


@app.command(WEBSHOP)
def webshop(
    source: Annotated[
        Path, typer.Option("--from", help="The folder with the original's JSON files.")
    ],
    to: Annotated[
        Path | None, typer.Option(help="The catalogue's file; by default one that is found again.")
    ] = None,
    small: Annotated[
        bool, typer.Option("--small", help="Take the files with 1,000 products.")
    ] = False,
    tantivy: Annotated[
        bool, typer.Option("--tantivy", help="Make an index for engine tantivy too.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Import WebShop's products, which are not part of the package, into a catalogue."""
    with exit_codes():
        if tantivy:
            import_tantivy()  # fail before the import, which takes long
        made = import_webshop(source, to or imported_path(), small=small)
        if tantivy:
            index_with_tantivy(Path(made.path))
    if as_json:
        typer.echo(json.dumps(dataclasses.asdict(made)))
        return
    say(
        f"{made.products:,} products ({made.skipped:,} skipped) with {made.human_goals:,} human "
        f"and {made.synthetic_goals:,} synthetic goals are in {made.path}; data {made.digest[:12]}"
    )
    say(f"Use it with env.config.catalogue: {'imported' if to is None else made.path}")


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List the data of environments, with its location."""
    with exit_codes():
        rows = {TAU_BENCH: _used(data_dir(), "retail")}
        for domain in [*DOMAINS][1:]:
            try:
                source = data_dir(domain=domain)
            except DataError:
                continue  # not fetched; there is no built-in data
            rows[f"{TAU_BENCH} {domain}"] = _used(source, domain)
    if as_json:
        typer.echo(json.dumps(rows))
        return
    table = make_table("data", "origin", "splits", "path")
    for name, row in rows.items():
        table.add_row(name, escape(row["origin"]), ", ".join(row["splits"]), escape(row["path"]))
    out.print(table)


def _used(source: DataSource, domain: str) -> dict[str, Any]:
    """Describe data that was found.

    Raises:
        DataError: It is damaged.
    """
    store = open_store(source.path, domain)
    splits = store.splits
    try:
        # Compare all files with their checksums.
        _ = store.checksum
        damage = "" if splits else "it has no tasks"
    except DataError as error:
        damage = str(error)
    if damage:
        raise DataError(f"the data of tau-bench {domain} ({source.origin}) is damaged: {damage}")
    return {"origin": source.origin, "splits": list(splits), "path": source.path}
