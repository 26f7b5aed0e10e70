"""``skillwright view`` serves pages over runs; ``skillwright report`` writes one run as a file."""

import webbrowser
from enum import StrEnum
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

from skillwright.cli.faults import exit_codes, say
from skillwright.cli.words import make_console, print_words
from skillwright.core import RunError
from skillwright.core.loopback import HOST, bound_socket
from skillwright.dashboard import html_report, is_bank, make_app, markdown_report, new_token
from skillwright.jobs.run import find_run
from skillwright.runs.folder import CONFIG_NAME

_MOST_BYTES = 1_500_000

out = make_console()

Root = Annotated[Path, typer.Option(help="The folder that holds runs.")]
DEFAULT_ROOT = Path("runs")


_MD_ENDINGS = (".md", ".markdown")


class Format(StrEnum):
    """The format of a report."""

    HTML = "html"
    MD = "md"


def view(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN|BANK...", help="Runs and banks to show in addition to those of --root."
        ),
    ] = None,
    root: Root = DEFAULT_ROOT,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 0,
    browser: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the address in a browser.")
    ] = False,
) -> None:
    """Show runs in a browser: tasks, verdicts, skills, episodes, costs; local."""
    import uvicorn

    with exit_codes():
        paths = [_shown(run, root) for run in runs or []]
        if not paths and not root.is_dir():
            raise RunError(f"there is no folder {str(root)!r}; name a run, or --root FOLDER")
        bound = bound_socket(port)
        token = new_token()
        app = make_app(root, paths, token=token)
        first = ""
        if paths:
            kind = "banks/{}" if is_bank(paths[0]) else "runs/{}/"
            first = kind.format(quote(paths[0].resolve().name))
        address = f"http://{HOST}:{bound.getsockname()[1]}/{first}?token={token}"
        out.print(address, soft_wrap=True, highlight=False, markup=False)
        say("Ctrl-C ends it. The address holds a token: keep it secret.")
        if browser:
            webbrowser.open(address)
        settings = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
        uvicorn.Server(settings).run([bound])


def report(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's folder or name, or latest.")],
    root: Root = DEFAULT_ROOT,
    to: Annotated[
        Path | None, typer.Option("--out", "-o", help="The file; report.html or report.md.")
    ] = None,
    form: Annotated[
        Format | None, typer.Option("--format", help="html to mail (default), md to paste.")
    ] = None,
) -> None:
    """Write a run as one HTML file, or as Markdown."""
    with exit_codes():
        form = form or (Format.MD if to and to.suffix.lower() in _MD_ENDINGS else Format.HTML)
        folder = find_run(run, root)
        text = html_report(folder) if form is Format.HTML else markdown_report(folder)
        if to is None and form is Format.MD:
            out.print(text, soft_wrap=True, highlight=False, markup=False, end="")
            return
        path = to or folder / "report.html"
        path.write_text(text, encoding="utf-8", errors="replace")
        size = path.stat().st_size
        print_words(out, f"{path} ({size / 1000:,.0f} kB)")
        if size > _MOST_BYTES:
            say("It is larger than a mail usually takes; `skillwright view` shows the same.")


def _shown(named: str, root: Path) -> Path:
    """Return a run's folder, or a bank's file, given by its path or by its folder.

    Raises:
        RunError: There is neither.
    """
    path = Path(named)
    if path.is_file():
        if not is_bank(path):
            raise RunError(f"{named} is no bank; name a run, or a bank's file")
        return path
    banks = [] if (path / CONFIG_NAME).is_file() else sorted(filter(is_bank, path.glob("*.sqlite")))
    return banks[0] if len(banks) == 1 else find_run(named, root)
