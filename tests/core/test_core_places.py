"""Places are given first come, first served; what is played ahead takes those nobody wants."""

import asyncio

import pytest

from skillwright.core.paths import Ahead, Places, gives_way, played_ahead


async def settle():
    for _ in range(20):
        await asyncio.sleep(0)


class Room:
    """People in places, who leave when they are asked to."""

    def __init__(self, places):
        self.places = places
        self.entered = []
        self.doors = {}

    async def visit(self, name):
        self.doors[name] = asyncio.Event()
        async with self.places.slot():
            self.entered.append(name)
            await self.doors[name].wait()

    def begin(self, name, work=None):
        if work is None:
            return asyncio.create_task(self.visit(name))
        with played_ahead(work):
            return asyncio.create_task(self.visit(name))


async def test_what_is_played_ahead_comes_last_and_keeps_its_place():
    room, work = Room(Places(1)), Ahead()
    tasks = [room.begin("first ahead", work)]
    await settle()
    tasks += [room.begin("later ahead", work), room.begin("a"), room.begin("b")]
    await settle()
    for name in ("first ahead", "a", "b", "later ahead"):
        assert room.entered[-1] == name
        room.doors[name].set()
        await settle()
    await asyncio.wait(tasks)
    assert room.places.in_flight == 0


async def test_once_it_is_needed_it_queues_like_anybody():
    room, work = Room(Places(1)), Ahead()
    tasks = [room.begin("now")]
    await settle()
    work.is_needed = True
    tasks += [room.begin("needed", work), room.begin("a")]
    await settle()
    for name in ("now", "needed", "a"):
        assert room.entered[-1] == name
        room.doors[name].set()
        await settle()
    await asyncio.wait(tasks)


@pytest.mark.parametrize("ahead", [True, False])
async def test_who_is_cancelled_in_the_queue_takes_no_place(ahead):
    room, work = Room(Places(1)), Ahead() if ahead else None
    first = room.begin("first")
    await settle()
    second, third = room.begin("second", work), room.begin("third", work)
    await settle()
    second.cancel()
    room.doors["first"].set()
    await settle()
    assert room.entered == ["first", "third"]
    room.doors["third"].set()
    await asyncio.wait([first, second, third])
    assert room.places.in_flight == 0


def test_outside_of_such_work_nothing_gives_way():
    assert not gives_way()
    with played_ahead(Ahead()):
        assert gives_way()
    assert not gives_way()
