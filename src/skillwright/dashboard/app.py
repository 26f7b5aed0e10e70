"""The web app: for this machine only, with a token; read-only but for notes on episodes.

Every response forbids scripts and styles that are not ours, so that no script in a transcript can
run. A request must name this machine as its host and have the token, so that no other web page can
read a run through the browser.
"""

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote

from jinja2 import Environment
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from skillwright.core import SkillwrightError
from skillwright.core.loopback import port_named, same_token
from skillwright.dashboard import banks, pages
from skillwright.dashboard.reading import reading
from skillwright.dashboard.site import DAMAGE, Site, damaged, templates
from skillwright.jobs.inspect import Note, read_episode, write_note

logger = logging.getLogger(__name__)

COOKIE = "skillwright_token_{port}"
"""Its name has the port: browsers send a cookie to every port of a machine."""
NOTE_PATH = "/runs/{run}/episodes/{episode:int}/note"
_NOTE = re.compile(r"/runs/[^/]+/episodes/[0-9]{1,15}/note")
_LONGEST_FORM = 200_000  # bytes
_POLL_S = 1.0
_MOST_STREAMS = 32
_TOO_MANY = "Too many pages follow runs; close some. This page is current, and stays as it is.\n"
_HEADERS = (
    (b"content-security-policy", b"default-src 'none'; script-src 'self'; style-src 'self'; "
     b"img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; "
     b"frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
)  # fmt: skip
_PAGES: tuple[tuple[str, pages.Page], ...] = (
    ("/", pages.runs),
    ("/compare", pages.compare),
    ("/runs/{run}/", pages.overview),
    ("/runs/{run}/tasks", pages.tasks),
    ("/runs/{run}/side-by-side", pages.side_by_side),
    ("/runs/{run}/skill", pages.skill),
    ("/runs/{run}/edits", pages.edits),
    ("/runs/{run}/episodes", pages.episodes),
    ("/runs/{run}/episodes/{episode}", pages.episode),
    ("/runs/{run}/costs", pages.costs),
    ("/runs/{run}/training", pages.training),
    ("/runs/{run}/bank", banks.bank),
    ("/side-by-side", pages.between_runs),
    ("/banks/{bank}", banks.bank),
)


def make_app(root: Path, paths: Sequence[Path] = (), *, token: str) -> ASGIApp:
    """Make the app.

    Args:
        root: Folder that holds runs.
        paths: Further runs and banks to show.
        token: Token of every request, as ``?token=`` or a cookie.
    """
    site = Site(root, tuple(paths), time.time)
    filled = templates()
    filled.globals["form_key"] = form_key(token)
    routes: list[Any] = [Route(path, _answer(site, page, filled)) for path, page in _PAGES]
    routes.insert(0, Route("/runs/{run}/episodes.csv", _csv(site)))
    routes.append(Route(NOTE_PATH, _note(site, token), methods=["POST"]))
    routes.append(Route("/runs/{run}/live", _live(site)))
    static = Path(__file__).parent / "static"
    routes.append(Mount("/static", StaticFiles(directory=static), name="static"))
    # The guard is outermost, so that error responses have its headers too.
    return _Guard(Starlette(routes=routes), token)


def _answer(site: Site, page: pages.Page, filled: Environment) -> Any:
    async def answer(request: Request) -> Response:
        try:
            name, values = await run_in_threadpool(page, site, request)
            status = 200
            text = _filled(filled, site, request, name, values)
        except SkillwrightError as error:
            status = 404
            text = _filled(filled, site, request, "problem.html", {"problem": str(error)})
        except DAMAGE as error:
            # A damaged row may contain anything; other pages of the run may still work.
            logger.exception("%s cannot be shown", request.url.path)
            status, said = 500, {"problem": damaged(error)}
            text = _filled(filled, site, request, "problem.html", said)
        # Model output may hold lone surrogates, which cannot be encoded.
        return HTMLResponse(text.encode("utf-8", "replace"), status)

    return answer


def _csv(site: Site) -> Any:
    """Send a run's episodes as a file."""

    async def answer(request: Request) -> Response:
        try:
            text = await run_in_threadpool(pages.episodes_csv, site, request)
        except (SkillwrightError, *DAMAGE) as error:
            return PlainTextResponse(str(error), 404)
        name = quote(f"{request.path_params['run']}-episodes.csv")
        headers = {"content-disposition": f"attachment; filename*=UTF-8''{name}"}
        return Response(text.encode("utf-8", "replace"), headers=headers, media_type="text/csv")

    return answer


def _note(site: Site, token: str) -> Any:
    """Keep a person's mark and note on an episode: the only thing that can be changed here."""

    async def answer(request: Request) -> Response:
        if int(request.headers.get("content-length", _LONGEST_FORM + 1)) > _LONGEST_FORM:
            return PlainTextResponse("The note is too long.\n", 413)
        body = (await request.body()).decode("utf-8", "replace")
        asked = {key: values[-1] for key, values in parse_qs(body).items()}
        if not same_token(asked.get("key", ""), form_key(token)):
            return PlainTextResponse("Open the page again: its key is too old.\n", 403)
        run, number = request.path_params["run"], request.path_params["episode"]
        note = Note("mark" in asked, asked.get("text", "").replace("\r\n", "\n").strip())
        try:
            folder = site.folder(run)
            await run_in_threadpool(read_episode, folder, f"e{number}", most=1)
            await run_in_threadpool(write_note, folder, number, note)
        except SkillwrightError as error:
            return PlainTextResponse(f"{error}\n", 409)
        return RedirectResponse(f"/runs/{quote(run)}/episodes/{number}", 303)

    return answer


def form_key(token: str) -> str:
    """Return what a form of ours holds, so that another site's form is refused."""
    return sha256(f"form {token}".encode()).hexdigest()


def _filled(
    templates_: Environment, site: Site, request: Request, name: str, values: dict[str, Any]
) -> str:
    run = values.setdefault("run", request.path_params.get("run", ""))
    has_bank = site.bank_of(run) is not None
    found = templates_.get_template(name)
    return found.render(**values, path=request.url.path, has_bank=has_bank)


def _live(site: Site) -> Any:
    """Send an event whenever a run's store changes, to a bounded number of pages."""
    listening: set[_EventStream] = set()

    async def moments(request: Request, path: Path, seen: str) -> AsyncIterator[str]:
        # A run that was removed ends its streams.
        with suppress(SkillwrightError, *DAMAGE):
            while not await request.is_disconnected():
                await asyncio.sleep(_POLL_S)
                now = await run_in_threadpool(_moment, path)
                if now != seen:
                    yield f"event: changed\ndata: {now}\n\n"
                seen = now

    async def live(request: Request) -> Response:
        try:
            path = site.folder(request.path_params["run"])
            seen = await run_in_threadpool(_moment, path)
        except SkillwrightError as error:
            return PlainTextResponse(str(error), 404)
        if len(listening) >= _MOST_STREAMS:
            return PlainTextResponse(_TOO_MANY, 503, {"Retry-After": "10"})
        return _EventStream(moments(request, path, seen), listening)

    return live


class _EventStream(StreamingResponse):
    """A stream of events, which is counted until its client disconnects."""

    def __init__(self, events: AsyncIterator[str], listening: "set[_EventStream]") -> None:
        super().__init__(events, media_type="text/event-stream")
        self._listening = listening
        listening.add(self)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._listening.discard(self)


def _moment(path: Path) -> str:
    with reading(path) as reader:
        return reader.moment()


class _Guard:
    """Refuses other hosts and requests without the token; adds the headers that forbid scripts."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        refusal = self._refusal(request)

        async def guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *_HEADERS]}
            await send(message)

        await (refusal or self._app)(scope, receive, guarded)

    def _refusal(self, request: Request) -> Response | None:
        port = port_named(request.headers.get("host", ""))
        if port is None:
            return PlainTextResponse("This server answers only as 127.0.0.1.\n", 403)
        is_note = request.method == "POST" and _NOTE.fullmatch(request.url.path)
        if request.method not in ("GET", "HEAD") and not is_note:
            return PlainTextResponse("Nothing can be changed here.\n", 405)
        name = COOKIE.format(port=port)
        given = request.query_params.get("token")
        if given is not None and same_token(given, self._token):
            answer = RedirectResponse(str(request.url.remove_query_params("token")), 303)
            answer.set_cookie(name, self._token, httponly=True, samesite="lax")
            return answer
        if not same_token(request.cookies.get(name, ""), self._token):
            return PlainTextResponse(
                "The token is missing: open the address that `skillwright view` printed.\n", 403
            )
        return None
