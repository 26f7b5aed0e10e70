"""``skillwright policy``: take trained weights out of a run."""

import json
from pathlib import Path
from typing import Annotated, Literal, get_args

import typer
from rich.text import Text

from skillwright.cli.faults import exit_codes
from skillwright.cli.options import DEFAULT_ROOT, AsJson, Root
from skillwright.cli.words import make_console, print_words
from skillwright.core import UsageError
from skillwright.core.jsonio import encode
from skillwright.core.waits import waiting
from skillwright.jobs.weights import refuse_without_torch
from skillwright.jobs.weights.state import Form, Which

app = typer.Typer(no_args_is_help=True, help="Take trained weights out of a run.")
out = make_console()


@app.callback()
def policy() -> None:
    """Take trained weights out of a run."""


@app.command()
def save(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run: folder, name, or 'latest'.")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that is not there yet.")],
    root: Root = DEFAULT_ROOT,
    artifact: Annotated[
        Which,
        typer.Option(help=f"Which of its weights: {', '.join(get_args(Which))}.", metavar="NAME"),
    ] = "released",
    adapter: Annotated[
        bool, typer.Option("--adapter", help="The LoRA adapter alone; else it is merged.")
    ] = False,
    gguf: Annotated[
        Literal["q8_0", "f16", "f32"] | None,
        typer.Option(help="A GGUF file for llama.cpp: q8_0, f16 or f32.", metavar="KIND"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Save the policy of a run: safetensors, tokenizer and model card, or GGUF."""
    with exit_codes():
        if gguf and adapter:
            raise UsageError("a GGUF file holds all weights; give --adapter or --gguf, not both")
        refuse_without_torch()
        with waiting("loading torch", "the policy is built and saved"):
            # Imported here, because it imports torch.
            from skillwright.jobs.weights.saving import save_run_policy

        form: Form = gguf or ("adapter" if adapter else "merged")
        saved = save_run_policy(run, folder, root=root, which=artifact, form=form)
    if as_json:
        typer.echo(json.dumps(encode(saved)))
        return
    said = f"{saved.weights} of run {saved.run}, {saved.size / 1e6:,.1f} MB"
    print_words(out, Text.assemble((str(saved.path), "bold"), f": {said} ({saved.identity})"))
