"""Several things awaited at once, and an error that comes out as itself."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar, cast

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")


async def together(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Await all at once and return their results in the order of ``works``.

    The first that raises cancels the others, and its error comes out as it is: callers, and the
    command line, know faults by their type, which a group around them would hide.
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
    # Out here, so that the group does not take the place of the error's own context.
    raise error


async def both(first: Coroutine[Any, Any, A], second: Coroutine[Any, Any, B]) -> tuple[A, B]:
    """Await two at once, as `together` does, where their results are of different types."""
    results = await together((first, second))
    return cast("A", results[0]), cast("B", results[1])
