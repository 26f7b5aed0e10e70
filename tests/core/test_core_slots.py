"""Slots are given first come, first served."""

import asyncio

from skillwright.core.slots import Slots


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

    def begin(self, name):
        return asyncio.create_task(self.visit(name))


async def test_places_are_given_in_order_of_arrival():
    room = Room(Slots(1))
    tasks = [room.begin("first"), room.begin("second"), room.begin("third")]
    await settle()
    for name in ("first", "second", "third"):
        assert room.entered[-1] == name
        room.doors[name].set()
        await settle()
    await asyncio.wait(tasks)
    assert room.places.in_flight == 0


async def test_who_is_cancelled_in_the_queue_takes_no_place():
    room = Room(Slots(1))
    first = room.begin("first")
    await settle()
    second, third = room.begin("second"), room.begin("third")
    await settle()
    second.cancel()
    room.doors["first"].set()
    await settle()
    assert room.entered == ["first", "third"]
    room.doors["third"].set()
    await asyncio.wait([first, second, third])
    assert room.places.in_flight == 0
