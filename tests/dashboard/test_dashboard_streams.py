"""Pages that follow a run: a bounded number, and none after its client left."""

import asyncio
import shutil

import pytest

from paged import TOKEN
from skillwright.dashboard import app as dashboard
from skillwright.dashboard import make_app
from skillwright.dashboard.app import COOKIE
from skillwright.runs import RunStore


class Page:
    """A page that follows a run; the client leaves when it is told to."""

    def __init__(self, app, run="trained"):
        self.status, self.body = asyncio.get_running_loop().create_future(), b""
        self.leaves = asyncio.Event()
        headers = [(b"host", b"127.0.0.1:80"), (b"cookie", f"{COOKIE}={TOKEN}".encode())]
        headers = [(name, value.replace(b"{port}", b"80")) for name, value in headers]
        path = f"/runs/{run}/live"
        scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode()}
        scope |= {"query_string": b"", "headers": headers, "asgi": {"spec_version": "2.3"}}
        self.task = asyncio.create_task(app(scope, self.receive, self.send))

    async def receive(self):
        await self.leaves.wait()
        return {"type": "http.disconnect"}

    async def send(self, message):
        if message["type"] == "http.response.start":
            self.status.set_result(message["status"])
        self.body += message.get("body", b"")


@pytest.fixture
def app(root, monkeypatch):
    monkeypatch.setattr(dashboard, "_POLL_S", 0.01)
    return make_app(root, token=TOKEN)


async def test_only_so_many_pages_follow_runs_and_leaving_makes_room(app):
    pages = [Page(app) for _ in range(40)]
    codes = [await page.status for page in pages]
    assert sorted(codes) == [200] * 32 + [503] * 8
    for page in pages:
        page.leaves.set()
    await asyncio.wait_for(asyncio.wait({page.task for page in pages}), 30)
    again = Page(app)
    assert await again.status == 200
    again.leaves.set()
    await again.task


async def test_a_stream_ends_with_its_run_and_without_a_fault(app, root, tmp_path):
    shutil.copytree(root / "trained", root / "gone")
    page = Page(app, "gone")
    assert await page.status == 200
    with RunStore.open(root / "gone" / "run.sqlite") as store, store.transaction():
        store.append_event("noted", {})
    async with asyncio.timeout(30):
        while b"event: changed" not in page.body:  # noqa: ASYNC110 - a thread looks at the run
            await asyncio.sleep(0)
    shutil.rmtree(root / "gone")
    await asyncio.wait_for(page.task, 30)
