"""Connections that are cut and databases that crash: what was acknowledged stays, what was refused never was."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from itertools import count
from math import inf
from time import monotonic
from unittest.mock import patch

import pytest

from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.model.errors import Conflict, OutcomeUnknown, Unavailable
from mayflydb.model.order import Order
from mayflydb.model.record import Record
from mayflydb.store.interface import Scan
from mayflydb.store.postgres import writer
from mayflydb.store.postgres.connection import connect
from mayflydb.store.postgres.reads import Connection
from mayflydb.store.postgres.transaction import Transaction
from nodes.crew import PATIENCE, Member, admin, container, crew, since, together, until
from nodes.linear import Op, linearizable
from postgres_cluster import Cluster

CLIENTS, REGISTERS = 8, 5
CUTS, PER_CUT = 20, 25
"""How often all connections are cut, and how many writes are acknowledged in between."""

CRASHES, PER_CRASH = 4, 60
ANSWERED = 25.0
"""Seconds in which a node whose database is down answers: before a commit that nobody answers is given up."""

TRIES = 6
KEPT = 20
"""More signatures than two nodes need at a time."""

PARTITION = b"p"
TWINS = (b"a", b"b")


class Load:
    """Clients of several nodes who set both twins of a register in one transaction, and read one of them."""

    def __init__(self, members: list[Member], id: int, seed: int) -> None:
        self.members = members
        self.id = id
        self.random = random.Random(seed)
        self.moments = count(1)
        self.history: dict[bytes, list[Op]] = defaultdict(list)
        self.tally: Counter[str] = Counter()
        self.longest: dict[str, float] = defaultdict(float)
        self.done = False

    async def client(self) -> None:
        """Until the load is done. Nothing but Unavailable and OutcomeUnknown is raised."""
        while not self.done:
            register = b"%d" % self.random.randrange(REGISTERS)
            member = self.random.choice(self.members)
            began = monotonic()
            outcome = await (self._write if self.random.random() < 0.6 else self._read)(member, register)
            self.tally[outcome] += 1
            self.longest[outcome] = max(self.longest[outcome], since(began))

    async def _write(self, member: Member, register: bytes) -> str:
        sent = next(self.moments)
        value = b"%d" % sent
        twins = [Command(Mode.UPSERT, PARTITION + register, twin + register, Draft(value)) for twin in TWINS]
        try:
            await member.engine.write_all(self.id, twins, await member.engine.now())
        except Unavailable:
            return "refused"  # So nobody may ever read it.
        except OutcomeUnknown:
            self.history[register].append(Op(sent, inf, "write", value))
            return "unknown"
        self.history[register].append(Op(sent, next(self.moments), "write", value))
        return "written"

    async def _read(self, member: Member, register: bytes) -> str:
        sent = next(self.moments)
        try:
            record = await member.get(self.id, PARTITION + register, self.random.choice(TWINS) + register)
        except Unavailable:
            return "unread"
        value = None if record is None else record.value
        self.history[register].append(Op(sent, next(self.moments), "read", value))
        return "read"

    async def settled(self, member: Member) -> bool:
        """Whether a node answers again. Twins are one: what was under way happened as a whole, or not."""
        sent = next(self.moments)
        try:
            records = await member.store.read(Scan(self.id, b"", None, Order.CREATED, None, 100))
            await member.engine.write(self.id, Command(Mode.UPSERT, PARTITION, b"z", Draft(b"v")), 0)
        except Unavailable:
            return False
        values = {record.key: record.value for record in records}
        for register in {key[1:] for key in values if key[:1] in TWINS}:
            first, second = (values.get(twin + register) for twin in TWINS)
            assert first == second, f"half of a transaction: {first!r} and {second!r}"
            self.history[register].append(Op(sent, next(self.moments), "read", first))
        return True

    async def check(self) -> None:
        """All nodes answer, and the answers of all times have an order: none that was acknowledged is missing in it."""
        for member in self.members:
            await until(lambda member=member: self.settled(member))  # type: ignore[misc]
        refuted = [register for register, history in self.history.items() if not linearizable(history)]
        assert refuted == [], {register: self.history[register] for register in refuted}

    def report(self) -> str:
        longest = ", ".join(f"{outcome} {seconds:.1f} s" for outcome, seconds in self.longest.items())
        return f"{dict(self.tally)}; at most {longest}"


async def loaded(load: Load, trouble: Callable[[], Awaitable[None]]) -> None:
    """Clients at work while there is trouble, and the check behind it."""

    async def disturb() -> None:
        try:
            await trouble()
        finally:
            load.done = True

    await together(disturb(), *(load.client() for _ in range(CLIENTS)))
    await load.check()


async def more(load: Load, writes: int) -> None:
    """So many more writes are acknowledged."""
    wanted = load.tally["written"] + writes

    async def enough() -> bool:
        return load.tally["written"] >= wanted

    await until(enough)


def test_nothing_is_lost_with_the_connections(seed: int, postgres: Cluster, figure: Callable[[str], None]) -> None:
    async def check() -> None:
        url = postgres.fresh()
        async with crew(url, 2) as members, admin(postgres, url) as watch:
            load = Load(members, await container(members[0]), seed)

            async def cut() -> None:
                for _ in range(CUTS):
                    await more(load, PER_CUT)
                    assert await watch.cut_all()

            await loaded(load, cut)
            assert load.tally["written"] >= CUTS * PER_CUT and watch.cut >= CUTS
            figure(f"{CUTS} times {watch.cut} connections cut: {load.report()}")

    asyncio.run(check())


async def crash(cluster: Cluster, load: Load | None = None) -> None:
    """The database ends at once and comes back. `load`: while it is away every node says so, to writers and to readers."""
    await asyncio.to_thread(cluster.kill)
    if load is not None:
        asked = [ask(member, b"0") for member in load.members for ask in (load._write, load._read)]
        async with asyncio.timeout(ANSWERED):
            assert set(await asyncio.gather(*asked)) == {"refused", "unread"}
    await asyncio.to_thread(cluster.start)


@pytest.fixture(scope="module")
def fragile() -> Iterator[Cluster]:
    """A database that these tests alone use, and crash."""
    with Cluster() as cluster:
        yield cluster


def test_nothing_is_lost_in_a_crash(seed: int, fragile: Cluster, figure: Callable[[str], None]) -> None:
    async def check() -> None:
        async with crew(fragile.fresh(), 2) as members:
            load = Load(members, await container(members[0]), seed)

            async def crashes() -> None:
                for n in range(CRASHES):
                    await more(load, PER_CRASH)
                    await crash(fragile, load if n == 0 else None)

            await loaded(load, crashes)
            assert load.tally["written"] >= CRASHES * PER_CRASH and load.tally["refused"]
            figure(f"{CRASHES} crashes: {load.report()}")

    asyncio.run(check())


# --- a COMMIT that is not answered -----------------------------------------------------------------------------------


async def create(member: Member, id: int, key: bytes) -> str:
    """What a client is told of a new record."""
    try:
        written = await member.engine.write(id, Command(Mode.CREATE, PARTITION, key, Draft(b"v")), 0)
    except (Unavailable, OutcomeUnknown, Conflict) as error:
        return type(error).__name__
    return "created" if written.created else "changed"


async def there(member: Member, id: int, key: bytes) -> bool:
    """Whether the record is there, once the node answers."""
    found: list[Record | None] = []

    async def asked() -> bool:
        try:
            found.append(await member.get(id, PARTITION, key))
        except Unavailable:
            return False
        return True

    await until(asked)
    return found[-1] is not None


@contextmanager
def at_commit(member: Member, trouble: Callable[[Connection], Awaitable[None]]) -> Iterator[None]:
    """Trouble comes right before the node's next COMMIT is sent, once."""
    writer = member.store._writer
    commit, left = writer._commit, [trouble]

    async def troubled(connection: Connection, transaction: Transaction) -> None:
        if left:
            await left.pop()(connection)
        await commit(connection, transaction)

    with patch.object(writer, "_commit", troubled):
        yield


@pytest.mark.parametrize("sent", [False, True], ids=["before it was sent", "after it was done"])
def test_a_connection_that_ends_in_the_only_statement_is_no_error(sent: bool, postgres: Cluster) -> None:
    """A group of known containers makes its changes and commits in one statement."""

    async def check() -> None:
        async with crew(postgres.fresh(), 2) as (first, second):
            id = await container(first)
            for key in (b"a", b"b", b"c"):
                await create(first, id, key)
            writer = first.store._writer
            commit, left = writer._commit, [True]

            async def cut(connection: Connection, transaction: Transaction) -> None:
                if left:
                    assert left.pop()
                    assert not transaction.is_begun
                    if sent:
                        await commit(connection, transaction)
                    connection.terminate()
                    raise OSError("cut off")
                await commit(connection, transaction)

            with patch.object(writer, "_commit", cut):
                assert await create(first, id, b"k") == "created"
            record = await second.get(id, PARTITION, b"k")
            assert record is not None and record.lsn == record.seq == 4

    asyncio.run(check())


@pytest.mark.parametrize("sent", [False, True], ids=["before it was sent", "after it was done"])
def test_a_connection_that_ends_at_commit_is_no_error(sent: bool, postgres: Cluster) -> None:
    """Committed already, or tried again: the record is made once, and whoever asked is told so."""

    async def end(connection: Connection) -> None:
        if sent:
            await connection.execute("COMMIT")
        connection.terminate()

    async def check() -> None:
        async with crew(postgres.fresh(), 2) as (first, second):
            id = await container(first)
            with at_commit(first, end):
                assert await create(first, id, b"k") == "created"
            record = await second.get(id, PARTITION, b"k")
            assert record is not None and record.lsn == record.seq == 1

    asyncio.run(check())


def test_a_commit_without_an_answer_keeps_nobody_else_waiting(fragile: Cluster, figure: Callable[[str], None]) -> None:
    async def check() -> None:
        async with crew(fragile.fresh(), 2) as members:
            id = await container(members[0])
            down = asyncio.Event()

            async def crash(connection: Connection) -> None:
                await asyncio.to_thread(fragile.kill)
                down.set()

            with at_commit(members[0], crash):
                outcome = asyncio.create_task(create(members[0], id, b"k"))
                await down.wait()
                began = monotonic()
                load = Load(members, id, 0)
                asked = [ask(member, b"0") for member in members for ask in (load._write, load._read)]
                try:
                    async with asyncio.timeout(ANSWERED):
                        assert set(await asyncio.gather(*asked)) == {"refused", "unread"}
                finally:
                    await asyncio.to_thread(fragile.start)
                figure(f"others were answered within {since(began):.1f} s")
            told = await asyncio.wait_for(outcome, 2 * PATIENCE)
            found = await there(members[1], id, b"k")
            assert (told, found) in {("created", True), ("Unavailable", False), ("OutcomeUnknown", False)}

    asyncio.run(check())


def test_an_outcome_that_nobody_can_tell_is_called_unknown(fragile: Cluster) -> None:
    async def crash(connection: Connection) -> None:
        await connection.execute("COMMIT")
        connection.terminate()
        await asyncio.to_thread(fragile.kill)

    async def check() -> None:
        async with crew(fragile.fresh(), 2) as (first, second):
            id = await container(first)
            try:
                with at_commit(first, crash), patch.object(writer, "RESOLVE_SECONDS", 0.5):
                    assert await create(first, id, b"k") == "OutcomeUnknown"
            finally:
                await asyncio.to_thread(fragile.start)
            assert await there(second, id, b"k")
            for n in range(KEPT):
                await create(first, id, b"%d" % n)
            async with first.store._pool.acquire() as connection:
                kept = await connection.fetchval("SELECT count(*) FROM mayfly.outcome")
            assert kept < KEPT, "what nobody asks for any more is kept for ever"

    asyncio.run(check())


def test_a_transaction_number_used_again_after_a_crash_proves_nothing(fragile: Cluster) -> None:
    """A crash at COMMIT may take a transaction with all its traces; then another one has its number, and commits."""

    async def given_out() -> int:
        """A number of a transaction that commits."""
        try:
            connection = await connect(fragile.url)
        except Unavailable:
            return 0
        try:
            async with connection.transaction():
                return int(await connection.fetchval("SELECT pg_current_xact_id()::text"))
        finally:
            await connection.close()

    async def crash(connection: Connection) -> None:
        number = int(await connection.fetchval("SELECT pg_current_xact_id()::text"))
        await asyncio.to_thread(fragile.kill)
        await asyncio.to_thread(fragile.start)
        reused.append(await until(given_out) <= number)
        while await given_out() < number:
            pass

    async def check() -> None:
        async with crew(fragile.fresh(), 2) as (first, second):
            id = await container(first)
            for n in range(TRIES):
                key = b"%d" % n
                with at_commit(first, crash):
                    told = await create(first, id, key)
                assert (told == "created") == await there(second, id, key), f"the client was told: {told}"
                if any(reused):
                    break

    reused: list[bool] = []
    # The log of what is not committed stays in memory, unless a node's beat takes it along.
    fragile.sql("ALTER SYSTEM SET wal_writer_delay = '10s'")
    fragile.sql("SELECT pg_reload_conf()")
    try:
        asyncio.run(asyncio.wait_for(check(), 2 * PATIENCE))
    finally:
        fragile.sql("ALTER SYSTEM RESET wal_writer_delay")
    assert any(reused), "the crashes came too late to show anything"
