"""Commands about models: ``models list``."""

from collections.abc import Sequence
from dataclasses import asdict

import typer
from rich.table import Table

from skillwright.cli.options import AsJson, print_result
from skillwright.cli.words import make_console
from skillwright.models import Backend, list_backends

app = typer.Typer(help="Look at model backends.", no_args_is_help=True)
out = make_console()


@app.command("list")
def list_(
    as_json: AsJson = False,
) -> None:
    """List the backends that ``models.target`` and ``models.optimizer`` may name."""
    backends = list_backends()
    print_result(as_json, [asdict(backend) for backend in backends], lambda: _show(backends))


def _show(backends: Sequence[Backend]) -> None:
    table = Table("backend", "what it is", "needs", "roles")
    for backend in backends:
        if backend.implemented:
            table.add_row(backend.name, backend.summary, backend.needs, ", ".join(backend.roles))
    out.print(table)
    planned = [backend.name for backend in backends if not backend.implemented]
    if planned:
        out.print(f"not yet: {', '.join(planned)}", style="dim")
