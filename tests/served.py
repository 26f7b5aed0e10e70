"""A mock endpoint for code that runs a loop of its own, such as the command line."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from mock_openai import Handler, MockOpenAI


@contextmanager
def served(handler: Handler | None = None, api_key: str | None = "sk-mock") -> Iterator[MockOpenAI]:
    """Run a `MockOpenAI` in a thread, until the block ends."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = MockOpenAI(handler, api_key)
    try:
        asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result()
        yield server
        asyncio.run_coroutine_threadsafe(server.__aexit__(), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
