"""What an open transaction of one node has written, no other node purges."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import UTC, datetime
from typing import Any
from unittest.mock import AsyncMock, patch

import pytest

import planted
from mayflydb.embedded import serve
from mayflydb.engine import reaper as reaping
from mayflydb.engine.catalog import Definition
from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.engine.locks import LockHolder
from mayflydb.engine.snapshot import Snapshot
from mayflydb.expiry.rules import Rule
from mayflydb.expiry.sweep import PurgeRequest
from mayflydb.frontends.ydb.transactions import TransactionControl
from mayflydb.model.errors import NotFound, WriteConflict
from mayflydb.model.instant import HOUR, MILLISECOND, SECOND, Instant, Span
from mayflydb.store.interface import Count, HeldRecords
from mayflydb.store.postgres import changes, holds, membership
from mayflydb.store.postgres.connection import pause
from mayflydb.store.postgres.holds import Holds
from mayflydb.store.postgres.membership import Membership
from nodes.crew import Member, crew, until
from nodes.test_yql import Node
from postgres_cluster import Cluster
from stores import Databases

Work = Callable[[Member, Member, int], Awaitable[None]]

P = b"p"
A, B = b"a", b"b"
TTL = 1
"""Seconds from the anchor of a record to its death."""

LEASE: Span = SECOND
LONG_AGO: Span = HOUR
POLLS = 1_000


async def container(member: Member, hides: bool = False) -> int:
    """The id of a new container, whose records show until they are purged unless it `hides` them."""
    engine, now = member.engine, await member.engine.now()
    space = await engine.definitions.space("holds", now)
    rules = (Rule("default", TTL, hides=hides),)
    return (await engine.definitions.create(space.id, "c", Definition({}, now, rules=rules))).id


def write(key: bytes, anchor: Instant, mode: Mode = Mode.UPSERT) -> Command:
    return Command(mode, P, key, Draft(b"v", anchor=anchor))


async def due(member: Member, container: int, *keys: bytes) -> None:
    """Store records that are due."""
    now = await member.engine.now()
    for key in keys:
        await member.engine.write(container, write(key, now - LONG_AGO), now)


async def saved(member: Member, container: int, key: bytes, exclusive: bool = True, blind: bool = False) -> Snapshot:
    """An open transaction that has prolonged the life of a record."""
    now = await member.engine.now()
    snapshot = await Snapshot.begin(member.engine, now, exclusive=exclusive)
    mode = Mode.UPSERT if blind else Mode.REPLACE
    await snapshot.run(container, write(key, now + LONG_AGO, mode), blind)
    return snapshot


async def commit(member: Member, snapshot: Snapshot) -> None:
    try:
        await snapshot.commit(await member.engine.now())
    finally:
        snapshot.close()


async def sweep(member: Member) -> int:
    """How many records a sweep of a node has removed."""
    engine = member.engine
    await engine.reaper.survey()
    return (await engine.reaper.sweep_due(PurgeRequest(engine.time.horizon(), await engine.now(), "run now"))).total()


async def left(member: Member, container: int) -> int:
    return (await member.store.read(Count(container))).records


async def told(member: Member, container: int) -> int:
    """How many records other nodes hold, as a node knows."""
    held = await member.store.read(HeldRecords(container))
    return len(held or ())


def on_two(databases: Databases, work: Work, hides: bool = False) -> None:
    async def whole() -> None:
        async with crew(databases.fresh(), 2) as (one, other):
            await work(one, other, await container(one, hides))

    asyncio.run(whole())


# --- what is left alone ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize("exclusive", [True, False], ids=["exclusive", "shared"])
def test_another_node_does_not_purge_what_is_saved(databases: Databases, exclusive: bool, commits: bool) -> None:
    async def work(one: Member, other: Member, c: int) -> None:
        await due(one, c, A, B)
        snapshot = await saved(one, c, A, exclusive)
        assert (await sweep(other), await sweep(one), await left(one, c)) == (1, 0, 1)
        if not commits:
            snapshot.close()
            await until(lambda: gone(other, c))
            return
        await commit(one, snapshot)
        await until(lambda: released(other, c))
        assert (await sweep(other), await sweep(one), await left(one, c)) == (0, 0, 1)
        await due(other, c, A)
        assert (await sweep(other), await left(one, c)) == (1, 0)

    on_two(databases, work)


async def gone(member: Member, container: int) -> bool:
    await sweep(member)
    return not await left(member, container)


async def released(member: Member, container: int) -> bool:
    return not await told(member, container)


def test_another_nodes_loop_comes_back_for_it(databases: Databases) -> None:
    async def work(one: Member, other: Member, c: int) -> None:
        await due(one, c, A, B)
        snapshot = await saved(one, c, A)
        other.reap()

        async def one_is_left() -> bool:
            return await left(one, c) == 1

        await until(one_is_left)
        snapshot.close()

        async def none_is_left() -> bool:
            return not await left(one, c)

        await until(none_is_left)
        assert other.engine.reaper.purge_counts[c] == 2

    with patch.object(reaping, "LOOK", 100 * MILLISECOND):
        on_two(databases, work)


YQL = [
    # What a transaction does with a row that is due, whether the row is there after its commit, and then its columns.
    ("UPSERT INTO t (id, at) VALUES (1, Timestamp('2100-01-01T00:00:00Z'))", [(1, 10)]),
    ("UPDATE t SET at = Timestamp('2100-01-01T00:00:00Z') WHERE id = 1", [(1, 10)]),
    ("UPSERT INTO t (id, at) VALUES (1, NULL)", [(1, 10)]),
    ("DELETE FROM t WHERE id = 1", []),
    ("UPSERT INTO t (id, a) VALUES (1, 11)", None),
]


def test_a_run_of_another_node_leaves_rows_that_are_saved(databases: Databases) -> None:
    """An UPSERT keeps the columns that it does not name: the row that it has met is still there at the commit."""

    async def work(one: Node, other: Node) -> None:
        ttl = "CREATE TABLE t (id Int64, a Int64, at Timestamp, PRIMARY KEY (id)) WITH (TTL = Interval('PT0S') ON at)"
        await one.run(ttl)
        table = await one.engine.node("ydb", "/local", "t")
        assert table is not None
        for text, expected in YQL:
            for n in (1, 2):
                past = f"UPSERT INTO t (id, a, at) VALUES ({n}, {n}0, Timestamp('2001-01-01T00:00:00Z'))"
                await one.run(past)
            id = await one.begin(text)
            assert (await run(other, table.id), await run(one, table.id)) == (1, 0)
            await one.run("SELECT 1", TransactionControl(id=id, commit=True))
            await until(lambda: released(other.member, table.id))
            purged = await run(other, table.id)
            assert await other.run("SELECT id, a FROM t") == (expected or []), text
            assert purged == (expected is None), text
            await one.run("DELETE FROM t")

    async def run(node: Node, table: int) -> int:
        return (await node.engine.reaper.run_now(table, await node.engine.now())).erased

    async def whole() -> None:
        async with crew(databases.fresh(), 2) as members:
            nodes = [Node(member) for member in members]
            try:
                await work(*nodes)
            finally:
                for node in nodes:
                    await node.close()

    asyncio.run(whole())


def test_an_insert_of_another_node_does_not_bury_what_is_saved(databases: Databases) -> None:
    async def work(one: Member, other: Member, c: int) -> None:
        await due(one, c, A)
        now = await one.engine.now()
        holder = LockHolder(now, exclusive=False)
        await one.engine.locks.hold(holder, c, (P, A), False)
        creating = asyncio.create_task(other.engine.write(c, write(A, now, Mode.CREATE), now))
        conflicts = other.engine.locks.conflicts

        async def met() -> bool:
            return other.engine.locks.conflicts > conflicts + 1

        await until(met)
        assert not creating.done()
        one.engine.locks.release(holder)
        assert (await creating).created

    on_two(databases, work, hides=True)


def test_nothing_is_purged_where_too_much_is_locked(databases: Databases) -> None:
    async def work(one: Member, other: Member, c: int) -> None:
        await due(one, c, *(b"%d" % n for n in range(5)))
        snapshots = [await saved(one, c, b"%d" % n) for n in range(4)]
        assert (await other.store.read(HeldRecords(c)), await sweep(other), await left(one, c)) == (None, 0, 5)
        snapshots.pop().close()
        await until(lambda: spared(other, c))
        assert (await sweep(other), await left(one, c)) == (2, 3)
        for snapshot in snapshots:
            snapshot.close()

    async def spared(member: Member, container: int) -> bool:
        return await member.store.read(HeldRecords(container)) is not None

    for name, most in (("MAX_HELD", 3), ("MAX_HELD_BYTES", 6)):
        with patch.object(holds, name, most):
            on_two(databases, work)


FUTURE, PAST = datetime(2100, 1, 1, tzinfo=UTC), datetime(2001, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "abort"])
def test_documents_of_pymongos_transactions_on_two_servers(databases: Databases, commits: bool) -> None:
    """One server's client moves a date ahead, the other server purges what is due."""
    with ExitStack() as stack:
        url = databases.fresh()
        options: dict[str, Any] = {"storage": url, "port": 0, "mongo_port": 0, "mongo_sweep_interval": "1h"}
        one, other = (stack.enter_context(serve(**options)) for _ in range(2))
        clients = [stack.enter_context(server.mongo.client()) for server in (one, other)]
        things, elsewhere = (client["d"]["things"] for client in clients)
        things.create_index("t", expireAfterSeconds=0)
        things.insert_many([{"_id": n, "t": PAST} for n in (1, 2)])
        session = stack.enter_context(clients[0].start_session())
        session.start_transaction()
        things.update_one({"_id": 1}, {"$set": {"t": FUTURE}}, session=session)
        other.purge()
        assert [each["_id"] for each in elsewhere.find()] == [1]
        if commits:
            session.commit_transaction()
            other.purge()
            assert elsewhere.find_one() == {"_id": 1, "t": FUTURE.replace(tzinfo=None)}
            elsewhere.update_one({"_id": 1}, {"$set": {"t": PAST}})
        else:
            session.abort_transaction()
        for _ in range(POLLS):
            other.purge()
            if not elsewhere.count_documents({}):
                break
        assert things.find_one() is None


# --- who comes first -------------------------------------------------------------------------------------------------


def test_a_lock_waits_for_a_purge_under_way_elsewhere(databases: Databases) -> None:
    async def work(one: Member, other: Member, c: int) -> None:
        await due(one, c, A)
        came, goes_on = asyncio.Event(), asyncio.Event()
        purge = changes.purge

        async def slow(*asked: Any) -> Any:
            came.set()
            await goes_on.wait()
            return await purge(*asked)

        with patch.object(changes, "purge", slow):
            sweeping = asyncio.create_task(sweep(other))
            await came.wait()
            saving = asyncio.create_task(saved(one, c, A))

            async def waits() -> bool:
                async with one.store._pool.acquire() as connection:
                    waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
                    return bool(await connection.fetchval(waiting))

            async def gets_no_further() -> bool:
                return saving.done() or await waits()

            await until(gets_no_further)
            goes_on.set()
            assert await sweeping == 1
        with pytest.raises(NotFound):
            await saving

    on_two(databases, work)


# --- who comes, and who goes -----------------------------------------------------------------------------------------


def test_a_node_that_is_alone_keeps_to_itself_what_others_are_told_when_they_come(postgres: Cluster) -> None:
    async def work() -> None:
        url = postgres.fresh()
        one = await Member.open(url)
        c = await container(one)
        await due(one, c, A, B)
        snapshot = await saved(one, c, A)
        assert await rows(one) == 0
        other = await Member.open(url)
        try:
            assert (await sweep(other), await left(one, c)) == (1, 1)
            assert await rows(one) == 1
            await commit(one, snapshot)
            await until(lambda: released(other, c))
            # What it locks from now on it tells.
            await due(one, c, B)
            snapshot = await saved(one, c, B)
            assert (await sweep(other), await left(one, c), await rows(one)) == (0, 2, 1)
            await other.close()
            snapshot.close()

            async def is_alone() -> bool:
                return not one.store._membership.has_others

            await until(is_alone)
            snapshot = await saved(one, c, B)
            assert await rows(one) == 0
            snapshot.close()
        finally:
            await other.close()
            await one.close()

    asyncio.run(work())


def test_a_node_that_comes_does_not_purge_before_it_has_been_told(postgres: Cluster) -> None:
    async def work() -> None:
        url = postgres.fresh()
        one = await Member.open(url)
        c = await container(one)
        await due(one, c, A, B)
        snapshot = await saved(one, c, A)
        came, goes_on = asyncio.Event(), asyncio.Event()
        tell = one.store._membership.tell

        async def slow() -> bool:
            came.set()
            await goes_on.wait()
            return await tell()

        one.store._membership.tell = slow
        other = await Member.open(url)
        try:
            with patch.object(membership, "pause", AsyncMock(wraps=pause)) as pauses:
                sweeping = asyncio.create_task(sweep(other))
                await came.wait()

                async def gets_no_further() -> bool:
                    return sweeping.done() or pauses.await_count > 2

                await until(gets_no_further)
                goes_on.set()
                assert (await sweeping, await left(one, c)) == (1, 1)
        finally:
            snapshot.close()
            await other.close()
            await one.close()

    asyncio.run(work())


async def rows(member: Member) -> int:
    """How many locks are in the database, once those that were released have left it."""
    if (cleaning := member.store.holds._cleaning) is not None:
        await cleaning
    async with member.store._pool.acquire() as connection:
        return int(await connection.fetchval("SELECT count(*) FROM mayfly.held"))


@contextmanager
def short_lives() -> Iterator[None]:
    """Nodes are taken for dead within a second."""
    with patch.multiple(membership, LEASE=LEASE, TRUSTED=LEASE * 4 // 5, BEAT=0.1):
        yield


def test_a_dead_node_holds_nothing(databases: Databases) -> None:
    async def work(one: Member, other: Member, c: int) -> None:
        await due(one, c, A, B)
        await saved(one, c, A)
        await one.die()
        assert (await sweep(other), await left(other, c)) == (1, 1)
        await until(lambda: gone(other, c))

    with short_lives():
        on_two(databases, work)


@pytest.mark.parametrize("alone", [True, False], ids=["before the other came", "told"])
def test_what_a_forgotten_node_held_it_does_not_commit(postgres: Cluster, alone: bool) -> None:
    """Blind writes look at nothing, and would make of the record that was purged another one."""

    async def work() -> None:
        url = postgres.fresh()
        one = await Member.open(url)
        others = [] if alone else [await Member.open(url)]
        c = await container(one)
        await due(one, c, A)
        snapshot = await saved(one, c, A, exclusive=False, blind=True)
        await one.deafen()
        try:
            others = others or [await Member.open(url)]
            await until(lambda: gone(others[0], c))
            with pytest.raises(WriteConflict):
                await commit(one, snapshot)
            assert await left(others[0], c) == 0
        finally:
            for each in (one, *others):
                await each.close()

    with short_lives():
        asyncio.run(work())


def test_locks_that_could_not_be_told_leave_nothing_behind(postgres: Cluster) -> None:
    """The statement may have been carried out although its answer was lost."""

    async def work() -> None:
        async with crew(postgres.fresh(), 2) as (one, other):
            c = await container(one)
            await due(one, c, A)
            tell = Holds._write

            async def lost(self: Holds, *asked: Any) -> None:
                await tell(self, *asked)
                raise OSError("cut off")

            with patch.object(Holds, "_write", lost), pytest.raises(OSError, match="cut off"):
                await saved(one, c, A)
            await until(lambda: gone(other, c))

    with patch.object(holds, "SETTLE_SECONDS", 0.05):
        asyncio.run(work())


# --- planted bugs ----------------------------------------------------------------------------------------------------


def told_to_nobody() -> AbstractContextManager[object]:
    """A node keeps to itself what it locks, whoever is there."""

    async def keep(self: Holds, *asked: Any) -> None:
        pass

    return patch.object(Holds, "_write", keep)


def no_purge_asks() -> AbstractContextManager[object]:
    """A purge takes what other nodes hold."""

    read = Holds.read_held_with

    async def nothing(self: Holds, *asked: Any) -> tuple[tuple[()], Any]:
        return (), (await read(self, *asked))[1]

    return patch.object(Holds, "read_held_with", nothing)


def no_lock_waits() -> AbstractContextManager[object]:
    """A transaction reads while a purge that does not know of its lock is under way."""
    lock = "pg_advisory_xact_lock($2)"
    statements = {name: getattr(holds, name) for name in ("_BLOCK_NEW_HOLDS", "_LOCK_AND_BLOCK")}
    waitless: Any = {name: statement.replace(lock, "$2::bigint") for name, statement in statements.items()}
    stack: AbstractContextManager[object] = patch.multiple(holds, **waitless)
    return stack


def newcomers_are_not_told() -> AbstractContextManager[object]:
    """A node that comes is told nothing of what is locked already."""

    async def nothing(self: Membership, latest: int | None) -> None:
        self.has_others = latest is not None
        self._knows = latest or 0

    return patch.object(Membership, "_announce_to_others", nothing)


def newcomers_purge_at_once() -> AbstractContextManager[object]:
    """A node that comes purges before the others know of it."""

    async def known(self: Membership, pool: Any) -> None:
        self._known = self._node

    return patch.object(Membership, "wait_for_acknowledgements", known)


def the_forgotten_commit() -> AbstractContextManager[object]:
    """A node commits although others have forgotten what it held."""

    async def stand(self: Holds, *asked: Any) -> bool:
        return True

    return patch.object(Holds, "stand", stand)


BUGS: dict[str, tuple[Callable[[], AbstractContextManager[object]], Callable[[Cluster], object]]] = {
    "told to nobody": (told_to_nobody, lambda on: test_another_node_does_not_purge_what_is_saved(on, True, True)),
    "no purge asks": (no_purge_asks, test_a_run_of_another_node_leaves_rows_that_are_saved),
    "no lock waits": (no_lock_waits, test_a_lock_waits_for_a_purge_under_way_elsewhere),
    "newcomers are not told": (
        newcomers_are_not_told,
        test_a_node_that_is_alone_keeps_to_itself_what_others_are_told_when_they_come,
    ),
    "newcomers purge at once": (
        newcomers_purge_at_once,
        test_a_node_that_comes_does_not_purge_before_it_has_been_told,
    ),
    "the forgotten commit": (
        the_forgotten_commit,
        lambda on: test_what_a_forgotten_node_held_it_does_not_commit(on, True),
    ),
}


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_caught(postgres: Cluster, name: str) -> None:
    plant, check = BUGS[name]
    with plant():
        assert planted.found(lambda seed: check(postgres), [0]), f"{name} is not caught"
