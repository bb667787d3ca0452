"""The erasure log on several nodes at once: each death has one line, whichever node writes it."""

from __future__ import annotations

import asyncio
from os import urandom

from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.expiry.erasure_chain import Line, Verifier
from mayflydb.expiry.sweep import PurgeRequest
from mayflydb.model.instant import SECOND
from mayflydb.store.interface import Expiries
from nodes.crew import Member, container, crew, together
from stores import Databases

ROUNDS, RECORDS = 5, 8


async def read_lines(member: Member) -> list[Line]:
    """All lines, verified."""
    log = member.engine.erasure_log
    verifier, place, found = Verifier(), 0, list[Line]()
    while segments := await log.segments(place):
        place = segments[-1].place
        found += [verifier.add(line) for segment in segments for line in segment.lines]
    verifier.finish((await log.progress()).head)
    return found


def test_nodes_that_write_at_once_write_each_line_once(databases: Databases) -> None:
    async def die(member: Member, it: int, turn: int) -> None:
        now = await member.engine.now()
        for n in range(RECORDS):
            name = b"%d %d %d" % (member.number, turn, n)
            draft = Draft(b"v", anchor=now - 10 * SECOND)
            await member.engine.write(it, Command(Mode.CREATE, b"p", name, draft), now)
        await member.engine.reaper.sweep_due(PurgeRequest(now, now, "run now", override="all"))

    async def check() -> None:
        async with crew(databases.fresh(), 2) as members:
            it = await container(members[0], ttl=1)
            for member in members:
                member.engine.erasure_log.turn_on(urandom)
            for turn in range(ROUNDS):
                await together(
                    *(die(member, it, turn) for member in members),
                    *(member.engine.erasure_log.catch_up() for member in members),
                )
            await together(*(member.engine.erasure_log.catch_up() for member in members))
            lines = await read_lines(members[0])
            assert lines == await read_lines(members[1])
            events = await members[0].store.read(Expiries(None, 0, 1_000))
            assert len(events) == 2 * ROUNDS * RECORDS
            assert [line.event for line in lines if line.kind == "erased"] == [event.id for event in events]
            assert [line.kind for line in lines].count("start") == 1

    asyncio.run(check())
