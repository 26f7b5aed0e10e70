"""``skillwright serve``: a policy, an endpoint with skills, or skills over MCP."""

import asyncio
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from skillwright.cli.faults import exit_codes, say
from skillwright.cli.options import DEFAULT_ROOT, NO_OVERRIDES, BankOverrides, Root
from skillwright.cli.words import counted, make_console
from skillwright.config.bank_settings import search_settings
from skillwright.core import UsageError
from skillwright.core.loopback import HOST, bound_socket, new_token

if TYPE_CHECKING:
    from skillwright.config.bank import BankSection
    from skillwright.plugins.serve.opened import Settings
    from skillwright.plugins.serve.skills_mcp import SkillsServer

out = make_console()

NOT_WITH_MCP = (
    *("--upstream", "--upstream-key-env", "--bank", "--skill"),
    *("--record", "--no-record", "--max-concurrent"),
)
"""Options that are about model clients."""


def serve(  # noqa: PLR0913 - each is an option
    policy: Annotated[
        str,
        typer.Argument(
            metavar="[POLICY]",
            help="A run, a folder of weights, a GGUF file, or its package; with --mcp, a folder "
            "of skills, a run, or a bank.",
        ),
    ] = "",
    upstream: Annotated[
        str, typer.Option(metavar="URL", help="An endpoint to put skills before.")
    ] = "",
    mcp: Annotated[
        bool, typer.Option("--mcp", help="Offer skills to MCP clients; with --port, by HTTP.")
    ] = False,
    bank: Annotated[
        str, typer.Option(metavar="BANK", help="Inject skills of this bank: a file, or seed:NAME.")
    ] = "",
    skill: Annotated[
        str, typer.Option(metavar="FILE", help="Inject this document, or a folder's SKILL.md.")
    ] = "",
    env: Annotated[
        str, typer.Option("--env", help="The environment whose rules name categories of tasks.")
    ] = "",
    record: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The run that conversations are stored in: served."),
    ] = None,
    no_record: Annotated[bool, typer.Option("--no-record", help="Store nothing.")] = False,
    root: Root = DEFAULT_ROOT,
    host: Annotated[str, typer.Option(help="Where to listen.")] = HOST,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="The port; by default, or as 0, a free one."),
    ] = None,
    key_env: Annotated[
        str, typer.Option(metavar="NAME", help="The variable that holds its key; else a new one.")
    ] = "",
    upstream_key_env: Annotated[
        str,
        typer.Option(metavar="NAME", help="The variable with the endpoint's key; else clients'."),
    ] = "",
    max_concurrent: Annotated[
        int | None,
        typer.Option(min=1, help="Maximum concurrent requests; four times this number may wait."),
    ] = None,
    silent_s: Annotated[
        float, typer.Option(min=0.1, help="Seconds without data before a connection is closed.")
    ] = 600.0,
    overrides: BankOverrides = NO_OVERRIDES,
) -> None:
    """Serve a policy or an endpoint with skills to model clients, or skills over MCP."""
    replies = sys.stdout.buffer
    with exit_codes():
        if mcp:
            others = (upstream, upstream_key_env, bank, skill, record, no_record, max_concurrent)
            _refuse_mcp_with(policy, dict(zip(NOT_WITH_MCP, others, strict=True)))
            place, search = _place_of(host, port, key_env), search_settings(overrides).bank
            with _offered(policy, root, env, search) as server:
                _serve_skills(server, replies, place, key_env, silent_s)
            return
        _refuse_without_answerer(policy, upstream)
        from skillwright.plugins.serve.opened import Settings

        settings = Settings(
            policy=policy,
            upstream=upstream,
            key=_key(key_env) or new_token(),
            upstream_key=_key(upstream_key_env),
            bank=bank,
            skill=skill,
            env=env,
            search=search_settings(overrides).bank,
            record="" if no_record else record or "served",
            root=root,
            in_flight=max_concurrent,
            silent_s=silent_s,
            connections=_connections(),
        )
        asyncio.run(_serve(settings, host, port or 0, shows_key=not key_env))


def _refuse_mcp_with(policy: str, given: Mapping[str, object]) -> None:
    if not policy:
        raise UsageError(
            "with --mcp name what is offered: `skillwright serve --mcp SKILLS`, a folder of "
            "skills, a run, or a bank"
        )
    if wrong := [name for name, value in given.items() if value]:
        raise UsageError(
            f"with --mcp leave {' and '.join(wrong)} out: skills are offered as files, and no "
            "model is asked"
        )


def _place_of(host: str, port: int | None, key_env: str) -> tuple[str, int] | None:
    if port is None and (host != HOST or key_env):
        raise UsageError("--host and --key-env are for HTTP; add --port, such as --port 0")
    return None if port is None else (host, port)


def _refuse_without_answerer(policy: str, upstream: str) -> None:
    if bool(policy) == bool(upstream):
        raise UsageError(
            "name what answers: POLICY (a run, a folder, a GGUF file), or --upstream URL"
        )
    if upstream and not upstream.startswith(("http://", "https://")):
        raise UsageError(f"--upstream is {upstream!r}; an address begins with http:// or https://")


@contextmanager
def _offered(where: str, root: Path, env: str, search: "BankSection") -> Iterator["SkillsServer"]:
    """Open the skills that MCP clients get, and say which they are."""
    from skillwright.plugins.serve.skill_catalog import catalog_of
    from skillwright.plugins.serve.skills_mcp import SkillsServer

    with catalog_of(where, root, env, search) as (found, rules):
        count = len(asyncio.run(found.skills()))
        for place, why in found.left_out.items():
            say(f"left out: {place}: {why}")
        say(f"{counted(count, 'skill')} of {where} for MCP clients. Ctrl-C ends it.")
        yield SkillsServer(found, rules)


def _serve_skills(
    server: "SkillsServer",
    replies: BinaryIO,
    place: tuple[str, int] | None,
    key_env: str,
    silent_s: float,
) -> None:
    """Serve skills by HTTP at ``place``; without one, over standard input and output."""
    from skillwright.plugins.serve.mcp_transport import serve_lines

    if place is None:
        if sys.stdin.isatty():
            say(
                "An MCP client starts this command itself: `claude mcp add skills -- skillwright "
                "serve --mcp SKILLS`, with an absolute path. --port 0 serves by HTTP instead."
            )
        serve_lines(server, sys.stdin.buffer, replies)
    else:
        asyncio.run(_serve_mcp(server, place, key_env, silent_s))


async def _serve_mcp(
    server: "SkillsServer", place: tuple[str, int], key_env: str, silent_s: float
) -> None:
    """Serve skills by HTTP until the process is stopped."""
    from skillwright.plugins.serve.mcp_transport import PATH, serving_http

    host, port = place
    key = _key(key_env) or new_token()
    with bound_socket(port, host) as bound:
        async with serving_http(server, bound, key, silent_s, _connections()):
            lines = [f"SKILLWRIGHT_MCP_URL=http://{host}:{bound.getsockname()[1]}{PATH}"]
            if not key_env:
                lines.append(f"SKILLWRIGHT_SERVE_KEY={key}")
            _show_exports(lines)
            await asyncio.get_running_loop().create_future()


def _show_exports(lines: list[str]) -> None:
    for line in lines:
        out.print(f"export {line}", soft_wrap=True, highlight=False, markup=False)


async def _serve(settings: "Settings", host: str, port: int, *, shows_key: bool) -> None:
    """Serve until the process is stopped."""
    from skillwright.plugins.serve.opened import serving

    with bound_socket(port, host) as bound:
        async with serving(settings, bound) as served:
            address = f"http://{host}:{bound.getsockname()[1]}"
            lines = [f"OPENAI_BASE_URL={address}/v1"]
            if settings.upstream:
                lines.append(f"ANTHROPIC_BASE_URL={address}")
            if shows_key:
                name = "SKILLWRIGHT_SERVE_KEY" if served.brings_keys else "OPENAI_API_KEY"
                lines.append(f"{name}={settings.key}")
            _show_exports(lines)
            say(f"{served.named} answers. Ctrl-C ends it.")
            if served.brings_keys:
                say("Clients send the endpoint's key; only /v1/feedback takes this one.")
            if served.run is not None:
                say(
                    f"What is said is stored in {served.run}, keys left out; --no-record ends that."
                )
            await asyncio.get_running_loop().create_future()


def _connections() -> int:
    """Return the maximum number of connections; each needs a second one to the endpoint."""
    wanted, other = 1_024, 64
    if sys.platform == "win32":
        return wanted
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < 2 * wanted + other:
        soft = (
            2 * wanted + other if hard == resource.RLIM_INFINITY else min(hard, 2 * wanted + other)
        )
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return wanted if soft == resource.RLIM_INFINITY else max(8, min(wanted, (soft - other) // 2))


def _key(variable: str) -> str:
    if not variable:
        return ""
    value = os.environ.get(variable, "").strip()
    if not value:
        raise UsageError(f"the environment variable {variable} holds no key; set it")
    return value
