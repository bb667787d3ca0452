"""The statements of a node's writer: how many a group takes, and that what is read ahead is never out of date."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec
import pytest

from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.engine.open import DATABASE_LIMITS
from mayflydb.expiry.sweep import PurgeRequest
from mayflydb.model.due import DuePath
from mayflydb.model.errors import Conflict, Unavailable
from mayflydb.model.instant import HOUR, Instant
from mayflydb.model.order import FIRST_ORDERED, Identity
from mayflydb.model.record import Entry, Record
from mayflydb.store.interface import (
    Allocate,
    Decision,
    Entries,
    EntryOwners,
    Get,
    HeldRecords,
    NextDue,
    Outcome,
    Purge,
    Put,
    ReplaceEntries,
    ask,
)
from nodes.crew import Member, container, crew, until
from nodes.test_cuts import at_commit
from postgres_cluster import Cluster
from stores import Databases

PARTITION = b"p"
ENTRY = Entry(1, b"e")
TTL = 1_000
"""Seconds: records from an hour ago are due, others are not while a test runs."""

Work = Callable[[Member, int], Awaitable[None]]


def alone(databases: Databases, work: Work) -> None:
    """Do this on the only node of a database."""

    async def whole() -> None:
        async with crew(databases.fresh(), 1) as (member,):
            await work(member, await container(member, TTL))

    asyncio.run(whole())


@contextmanager
def heard(member: Member) -> Iterator[list[str]]:
    """The first words of all statements of the writer."""
    found: list[str] = []

    def note(query: Any) -> None:
        # Plans are dropped now and then.
        if query.query != "DISCARD PLANS":
            found.append(query.query.split()[0])

    connection = member.store._writer._connection
    assert connection is not None
    connection.add_query_logger(note)
    yield found
    connection.remove_query_logger(note)


def put(container: int, key: bytes, anchor: Instant, entries: tuple[Entry, ...] | None = None) -> Decision[None]:
    lsn, seq = yield from ask(Allocate(container, True))
    record = Record(PARTITION, key, b"v", anchor, anchor, None, lsn, seq)
    return Outcome((Put(container, record, True, entries),), None)


async def upsert(member: Member, container: int, key: bytes, times: int = 1) -> None:
    for _ in range(times):
        await member.engine.write(container, Command(Mode.UPSERT, PARTITION, key, Draft(b"v")), 0)


def purge(container: int, limit: int, spared: tuple[Identity, ...] = ()) -> Decision[Instant | None]:
    """Purge as sweeps do, and return the first value that was due."""
    yield from ask(HeldRecords(container, purging=True))
    first = yield from ask(NextDue(container, DuePath.ANCHOR, None, spared))
    purge = Purge(container, DuePath.ANCHOR, 100, limit, 0, None, "default", 1, 100, "test", spared=spared)
    return Outcome((purge,), first)


async def purged(member: Member, container: int, limit: int = 10, *spared: bytes) -> tuple[Instant | None, int]:
    """The first value that was due, and the number of purged records."""
    identities = tuple((PARTITION, key) for key in spared)
    done = await member.store.write(lambda: purge(container, limit, identities), "sweep")
    return done.reply, done.purged[0].records


# --- numbers ---------------------------------------------------------------------------------------------------------


def test_a_sweep_takes_three_statements_in_a_transaction(postgres: Cluster) -> None:
    async def work(member: Member, c: int) -> None:
        engine = member.engine
        for _ in range(2):
            now = await engine.now()
            for key in (b"a", b"b"):
                draft = Draft(b"v", None, now - HOUR)
                await engine.write(c, Command(Mode.CREATE, PARTITION, key, draft), now)
            request = PurgeRequest(engine.time.horizon(), now, "run now")
            with heard(member) as statements:
                assert (await engine.reaper.sweep_due(request))[c] == 2
                assert statements == ["BEGIN", "WITH", "WITH", "WITH", "COMMIT"]

    alone(postgres, work)


def test_a_sweep_is_worth_its_round_trips(postgres: Cluster) -> None:
    """However busy the machine is, it has no fewer records than take as long as its statements."""
    count = DATABASE_LIMITS.first + DATABASE_LIMITS.fewest

    def fill(container: int, anchor: Instant) -> Decision[None]:
        changes: list[Any] = []
        for n in range(count):
            changes += (yield from put(container, b"%d" % n, anchor)).changes
        return Outcome(tuple(changes), None)

    async def work(member: Member, c: int) -> None:
        engine = member.engine
        now = await engine.now()
        await member.store.write(partial(fill, c, now - HOUR))
        engine.reaper.invalidate(c)
        with heard(member) as statements:
            done = await engine.reaper.sweep_due(PurgeRequest(engine.time.horizon(), now, "run now"))
            assert done[c] == count
            assert statements.count("COMMIT") == 2

    alone(postgres, work)


def test_a_group_of_known_containers_takes_two_statements(postgres: Cluster) -> None:
    async def work(member: Member, c: int) -> None:
        # A row is locked before it is guessed.
        await upsert(member, c, b"k", 3)
        with heard(member) as statements:
            await asyncio.gather(*(upsert(member, c, key) for key in (b"k", b"l")))
            assert statements == ["SELECT", "WITH"]
        with pytest.raises(Conflict):
            await member.engine.write(c, Command(Mode.CREATE, PARTITION, b"l", Draft(b"v")), 0)

    alone(postgres, work)


# --- what is read ahead ----------------------------------------------------------------------------------------------


def test_a_purge_finds_what_was_written_behind_the_last_one(databases: Databases) -> None:
    async def work(member: Member, c: int) -> None:
        for anchor in (50, 10, 101):
            await member.store.write(partial(put, c, b"%d" % anchor, anchor))
            assert await purged(member, c) == (anchor, anchor <= 100)

    alone(databases, work)


def test_a_purge_removes_entries_that_were_written_before_it(databases: Databases) -> None:
    async def work(member: Member, c: int) -> None:
        assert await purged(member, c) == (None, 0)
        for key in (b"a", b"b"):
            await member.store.write(partial(put, c, key, 1, (ENTRY,)))
            assert await purged(member, c) == (1, 1)
            # Without the record, but an entry that is left would be found for another one with its number.
            assert await entries(member, c) == 0

    async def entries(member: Member, container: int) -> int:
        async with member.store._pool.acquire() as connection:
            statement = "SELECT count(*) FROM mayfly.entry WHERE container = $1"
            return int(await connection.fetchval(statement, container))

    alone(databases, work)


def test_a_purge_passes_over_records_that_it_spares(databases: Databases) -> None:
    async def work(member: Member, c: int) -> None:
        for n in (1, 2, 3):
            await member.store.write(partial(put, c, b"%d" % n, n))
        assert await purged(member, c, 1, b"1") == (2, 1)
        assert await purged(member, c, 1) == (1, 1)
        assert await purged(member, c, 1) == (3, 1)

    alone(databases, work)


def test_decisions_of_one_group_see_each_others_records(databases: Databases) -> None:
    async def work(member: Member, c: int) -> None:
        store = member.store
        assert await purged(member, c) == (None, 0)
        for n in (1, 2):
            await store.write(partial(put, c, b"%d" % n, n))
        oldest = partial(purge, c, 1)
        decides = (oldest, oldest, partial(put, c, b"0", 0, (ENTRY,)), oldest, oldest)
        done = await asyncio.gather(*(store.write(decide) for decide in decides))
        assert len({each.commit_seq for each in done}) == 1
        assert [each.reply for each in done] == [1, 2, None, 0, None]
        assert [sum(purged.records for purged in each.purged) for each in done] == [1, 1, 0, 1, 0]
        assert await store.read(EntryOwners(c, (ENTRY,))) == []
        async with store._pool.acquire() as connection:
            rows = await connection.fetch("SELECT key, lsn FROM mayfly.expiry WHERE container = $1 ORDER BY id", c)
            last = await connection.fetchval("SELECT lsn FROM mayfly.catalog WHERE id = $1", c)
        assert [row["key"] for row in rows] == [b"1", b"2", b"0"]
        assert [row["lsn"] for row in rows] == [3, 4, last]

    alone(databases, work)


# --- guesses ---------------------------------------------------------------------------------------------------------


def replace(container: int, key: bytes, entries: tuple[Entry, ...], seq: int | None = None) -> Decision[None]:
    """Replace a record and its entries. `seq`: as another record that is not there, too."""
    record = yield from ask(Get(container, PARTITION, key))
    assert record is not None
    lsn, _ = yield from ask(Allocate(container, False))
    record = msgspec.structs.replace(record, lsn=lsn, value=b"replaced")
    missing = () if seq is None else (Put(container, msgspec.structs.replace(record, seq=seq, key=b"-"), False),)
    return Outcome((Put(container, record, False, entries), *missing), None)


def index(container: int, key: bytes) -> Decision[None]:
    """Give a record another entry, as the build of an index does."""
    record = yield from ask(Get(container, PARTITION, key))
    assert record is not None
    return Outcome((ReplaceEntries(container, FIRST_ORDERED, ((record, (b"built",)),)),), None)


def test_a_guess_does_not_hold_where_another_node_builds_an_index(postgres: Cluster) -> None:
    """The statement that makes the changes may have begun before the other node's COMMIT."""

    async def check() -> None:
        async with crew(postgres.fresh(), 2) as (one, other):
            c = await container(one)
            await upsert(one, c, b"k", 3)
            entry = Entry(FIRST_ORDERED, b"own")
            tasks: list[asyncio.Task[Any]] = []

            async def waits() -> bool:
                async with one.store._pool.acquire() as connection:
                    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
                    return bool(await connection.fetchval(waiting))

            async def write(connection: object) -> None:
                tasks.append(asyncio.create_task(one.store.write(partial(replace, c, b"k", (entry,)))))
                await until(waits)

            with at_commit(other, write):
                await other.store.write(partial(index, c, b"k"))
            await tasks[0]
            assert await one.store.read(Entries(c, 0, 10)) == [(1, (entry,))]

    asyncio.run(check())


def test_a_statement_that_cannot_make_all_changes_makes_none(postgres: Cluster) -> None:
    async def work(member: Member, c: int) -> None:
        await upsert(member, c, b"k", 3)
        with pytest.raises(Unavailable):
            await member.store.write(partial(replace, c, b"k", (ENTRY,), seq=99))
        record = await member.get(c, PARTITION, b"k")
        assert record is not None
        assert record.value == b"v"
        assert await member.store.read(Entries(c, 0, 10)) == []

    alone(postgres, work)
