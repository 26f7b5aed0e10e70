"""Commands about models: ``models list``."""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import typer
from rich.markup import escape

from skillwright.cli.options import AsJson, print_result
from skillwright.cli.words import make_console, make_table
from skillwright.core import DataError
from skillwright.models import Backend, LocalWeights, list_backends, read_gguf, weights_at_hand
from skillwright.models.gguf import template_beside
from skillwright.models.weights import EXAMPLE

app = typer.Typer(help="Look at model backends.", no_args_is_help=True)
out = make_console()

_LOCAL = "local"
_SHOWN = ("name", "summary", "needs", "roles", "other_names", "aliases")
_WEAK = "135M parameters: enough to see that all works, too small to follow most instructions"
_ABLE = 1_000_000_000  # parameters


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List the backends for models, and the weights that ``local`` finds.

    Weights are those of installed packages, the GGUF files of this folder, and those in the cache
    of Hugging Face.
    """
    backends = list_backends()
    weights = [_described(each) for each in weights_at_hand()]
    shown = [
        {key: getattr(each, key) for key in _SHOWN}
        | ({"weights": weights} if each.name == _LOCAL else {})
        for each in backends
    ]
    print_result(as_json, shown, lambda: _show(backends, weights))


def _described(weights: LocalWeights) -> dict[str, Any]:
    said = {"name": weights.name, "path": str(weights.path.absolute()), "bytes": weights.size}
    try:
        header, template = read_gguf(weights.path), template_beside(weights.path)
    except DataError as error:
        return {**said, "problem": str(error)}
    return {
        **said,
        "model": header.name,
        "parameters": header.parameters,
        "trained_context": header.context_length,
        "problem": "" if header.chat_template or template else "it has no chat template",
    }


def _show(backends: Sequence[Backend], weights: Sequence[dict[str, Any]]) -> None:
    table = make_table("backend", "what it is", "needs", "roles")
    for backend in backends:
        cells = (backend.name, backend.summary, backend.needs, ", ".join(backend.roles))
        table.add_row(*map(escape, cells))
    out.print(table)
    _show_weights(weights)


def _show_weights(weights: Sequence[dict[str, Any]]) -> None:
    if find_spec("xllamacpp") is None:
        out.print("backend local: not installed; pip install 'skillwright[local]'", markup=False)
    if not weights:
        out.print(
            f"no weights for backend local here. Name a GGUF file, or {EXAMPLE} ({_WEAK})",
            markup=False,
        )
        return
    table = make_table("weights for local", "size", "parameters", "context", "notes")
    for each in weights:
        parameters = f"{each['parameters'] / 1e6:,.0f}M" if "parameters" in each else ""
        context = str(each.get("trained_context") or "")
        notes = [each["problem"] or each["model"]]
        if each.get("parameters", _ABLE) < _ABLE:
            notes.append("too small to follow most instructions")
        cells = (each["name"], f"{each['bytes'] / 1e6:,.0f} MB", parameters, context)
        table.add_row(*map(escape, (*cells, "; ".join(filter(None, notes)))))
    out.print(table)
