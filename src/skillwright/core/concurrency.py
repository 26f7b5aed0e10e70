"""Await several coroutines at once."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar, cast

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")


async def together(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Await all concurrently and return their results in the order of ``works``.

    The first error cancels the others and is raised itself, not in an exception group.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in works]
    except BaseExceptionGroup as faults:
        error: BaseException = faults
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
    else:
        return [task.result() for task in tasks]
    # Raised outside the handler, so that the error keeps its own context.
    raise error


async def both(first: Coroutine[Any, Any, A], second: Coroutine[Any, Any, B]) -> tuple[A, B]:
    """Await two coroutines with results of different types, as `together` does."""
    results = await together((first, second))
    return cast("A", results[0]), cast("B", results[1])
