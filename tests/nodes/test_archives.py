"""Archives on several nodes at once: each record that expired is in one file, whichever node writes it."""

from __future__ import annotations

import asyncio
from collections import Counter

import msgspec

from mayflydb.engine.catalog import Definition
from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.engine.lifecycle.archive_ledger import SPACE
from mayflydb.expiry.lifecycle import Lifecycle
from mayflydb.expiry.sweep import PurgeRequest
from mayflydb.model.instant import SECOND
from mayflydb.store.interface import Expiries
from nodes.crew import Member, container, crew, together
from stores import Databases

ROUNDS, RECORDS = 4, 8


def with_archive(lifecycle: Lifecycle) -> Lifecycle:
    return msgspec.structs.replace(lifecycle, archive="cold")


def test_nodes_that_write_at_once_archive_each_record_once(databases: Databases) -> None:
    files: dict[tuple[str, int, int], list[int]] = {}

    async def expire(member: Member, it: int, turn: int) -> None:
        now = await member.engine.now()
        for n in range(RECORDS):
            name = b"%d %d %d" % (member.number, turn, n)
            draft = Draft(b"v", anchor=now - 10 * SECOND)
            await member.engine.write(it, Command(Mode.CREATE, b"p", name, draft), now)
        await member.engine.reaper.sweep_due(PurgeRequest(now, now, "run now", override="all"))

    async def write_files(member: Member, it: int) -> None:
        backlog = member.engine.archive_backlog
        home = await backlog.home_of(it)
        assert home is not None
        for _ in range(RECORDS):
            batch = await backlog.next_batch(home, f"name of node {member.number}")
            if batch is None:
                break
            # As a writer does before it writes.
            if await backlog.place(home) != batch.after:
                continue
            lsns = [version.until for version in batch.versions]
            assert files.setdefault((batch.target, lsns[0], lsns[-1]), lsns) == lsns
            await backlog.finish(home, batch)

    async def check() -> None:
        async with crew(databases.fresh(), 2) as members:
            first, it = members[0], await container(members[0], ttl=1)
            now = await first.engine.now()
            home = await first.engine.definitions.space(SPACE, now)
            await first.engine.definitions.create(home.id, "cold", Definition({}, now))
            await first.engine.definitions.change_lifecycle(it, with_archive, now)
            for turn in range(ROUNDS):
                await together(
                    *(expire(member, it, turn) for member in members),
                    *(write_files(member, it) for member in members),
                )
            await together(*(write_files(member, it) for member in members))
            events = await first.store.read(Expiries(it, 0, 1_000))
            assert len(events) == 2 * ROUNDS * RECORDS
            assert Counter(lsn for rows in files.values() for lsn in rows) == Counter(event.lsn for event in events)

    asyncio.run(check())
