"""Legal holds on several nodes: each sees those of the others, and a release that a killed node leaves is ended by another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.expiry.legal_hold import LegalHold
from mayflydb.expiry.sweep import PurgeRequest
from mayflydb.model.instant import SECOND
from mayflydb.model.record import Record
from mayflydb.store.interface import Expiries
from nodes.crew import Member, container, crew, until
from stores import Databases

PARTITION = b"p"
RECORDS = 40


class Words:
    """Filters by a word of the value."""

    def record_reader(self, container: object) -> Callable[[Record], Any]:
        return lambda record: record.value

    def compile_condition(self, container: object, text: str) -> Callable[[Any], bool]:
        return lambda value: text.encode() in value


async def add(member: Member, id: int) -> None:
    wanted = LegalHold(0, "h", "cosmos", "a case", "Ada", await member.engine.now(), "key")
    await member.engine.holds.add(id, "cosmos:d/c", wanted)


async def purge(member: Member) -> int:
    now = await member.engine.now()
    return (await member.engine.reaper.sweep_due(PurgeRequest(now, now, "run now", override="all"))).total()


async def count(member: Member, id: int) -> tuple[int, int]:
    """(preserved versions, expiry events)."""
    preserved = await member.engine.holds.count_preserved(await member.node(id))
    events = await member.store.read(Expiries(id, 0, 1000))
    return preserved, len(events)


def test_a_killed_nodes_release_is_ended_by_another(databases: Databases) -> None:
    async def work() -> None:
        async with crew(databases.fresh(), 3) as (first, second, third):
            for member in (first, second, third):
                member.engine.nodes.hold_filters.use({"cosmos": Words()})
            id = await container(first, 1)
            now = await first.engine.now()
            for number in range(RECORDS):
                draft = Draft(b"key" if number % 2 else b"other", None, now - 5 * SECOND)
                await second.engine.write(id, Command(Mode.CREATE, PARTITION, b"%d" % number, draft), now)
            await add(first, id)
            assert await purge(second) == RECORDS
            assert await count(third, id) == (RECORDS // 2, RECORDS // 2)
            releases = first.engine.holds.releases
            releases._batch = 3
            await first.engine.holds.release("h", "cosmos:d/c", "over", "Bob", await first.engine.now())

            async def is_begun() -> bool:
                return (await count(third, id))[0] <= RECORDS // 2 - 6

            await until(is_begun)
            await first.die()
            # Two nodes go on with it at once.
            for member in (second, third):
                member.engine.holds.releases._batch = 2
                await member.engine.holds.releases.resume()
            for member in (second, third):
                await member.engine.holds.releases.wait("h", None)
            assert await count(third, id) == (0, RECORDS)
            events = await third.store.read(Expiries(id, 0, 1000))
            assert len({event.key for event in events}) == RECORDS
            assert (await third.node(id)).definition.holds == ()
            await releases.close()

    asyncio.run(work())
