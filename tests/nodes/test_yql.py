"""YQL on two nodes of one database: tables that both know, and transactions that meet."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import msgspec
import pytest

from mayflydb.engine.catalog import Definition, Run
from mayflydb.engine.catalog import Node as CatalogNode
from mayflydb.engine.open import open_engine
from mayflydb.expiry.passes import Schedule
from mayflydb.frontends.ydb.calls import GrpcCall
from mayflydb.frontends.ydb.options import Options
from mayflydb.frontends.ydb.schemes.catalog import Schemes
from mayflydb.frontends.ydb.schemes.staging import HIDDEN_SPACE
from mayflydb.frontends.ydb.transactions import TransactionControl, TransactionMode
from mayflydb.model.instant import HOUR, MILLISECOND, Span
from mayflydb.query.yql.faults import Fault
from mayflydb.query.yql.schemas import Row
from mayflydb.store.interface import Expiries
from nodes.crew import Member, crew, together, until
from stores import Databases
from ydb_queries import executor_of
from yql_appends import run_appends

ROUNDS = 10
COPY = "UPSERT INTO t (id, a) SELECT a + 100l, a FROM t WHERE id = 1"


class Node:
    """What runs queries on one of them; it keeps the transactions of one session."""

    def __init__(self, member: Member) -> None:
        self.transactions: dict[str, Any] = {}
        self.contended: tuple[Any, ...] = ()
        self.temporary: Any = None
        self.member, self.engine = member, member.engine
        self.schemes = Schemes(member.engine, Options())
        self.executor = executor_of(member.engine, self.schemes, member.number)

    async def run(self, text: str, control: TransactionControl | None = None) -> list[Row]:
        """Its rows. Errors: Fault."""
        return (await self.told(text, control))[0]

    async def told(self, text: str, control: TransactionControl | None) -> tuple[list[Row], str]:
        """Its rows, and the transaction that is open afterwards. Errors: Fault."""
        call = GrpcCall("/local", await self.engine.now())
        parts = [part async for part in self.executor.execute(call, self, text, {}, control)]
        return [row for part in parts for row in part.rows], parts[-1].tx_id

    async def refusal(self, text: str, control: TransactionControl | None = None) -> Fault | None:
        """What a query is refused with."""
        try:
            await self.run(text, control)
        except Fault as fault:
            return fault
        return None

    async def begin(self, text: str, mode: TransactionMode = "serializable_read_write") -> str:
        """The id of a transaction that has run this."""
        await self.run(text, TransactionControl(begin=mode))
        return next(reversed(self.transactions))

    async def close(self) -> None:
        await self.schemes.close()


def on_two(databases: Databases, work: Callable[..., Awaitable[None]]) -> None:
    async def whole() -> None:
        async with crew(databases.fresh(), 2) as members:
            nodes = [Node(member) for member in members]
            try:
                await work(*nodes)
            finally:
                for node in nodes:
                    await node.close()

    asyncio.run(whole())


TABLE = "CREATE TABLE t (id Int64, a Int64, PRIMARY KEY (id), INDEX by_a GLOBAL ON (a))"
LOST = "Transaction locks invalidated. Table: `/local/t`"
WRITE = "UPSERT INTO other (id) VALUES ({})"

# What one node reads, what the other does then, what the first one writes (None: nothing), and whether that is a conflict.
MEETINGS: list[tuple[str, str, str | None, bool]] = [
    ("SELECT a FROM t WHERE id = 1", "UPSERT INTO t (id, a) VALUES (1, 0)", WRITE, True),
    ("SELECT a FROM t WHERE id = 1", "UPSERT INTO t (id, a) VALUES (2, 0)", WRITE, False),
    ("SELECT a FROM t WHERE id = 1", "DELETE FROM t WHERE id = 1", WRITE, True),
    ("SELECT a FROM t WHERE id = 9", "INSERT INTO t (id, a) VALUES (9, 0)", WRITE, True),
    ("SELECT id FROM t WHERE id > 5", "INSERT INTO t (id, a) VALUES (9, 0)", WRITE, True),
    ("SELECT id FROM t WHERE id < 5", "INSERT INTO t (id, a) VALUES (9, 0)", WRITE, False),
    ("SELECT id FROM t VIEW by_a WHERE a = 15", "UPSERT INTO t (id, a) VALUES (2, 15)", WRITE, True),
    ("SELECT id FROM t VIEW by_a WHERE a = 10", "UPSERT INTO t (id, a) VALUES (2, 15)", WRITE, False),
    ("SELECT COUNT(*) FROM t", "DELETE FROM t", WRITE, True),
    ("SELECT id FROM other", "UPSERT INTO t (id, a) VALUES (1, 5)", "UPSERT INTO t (id, a) VALUES (1, 6)", False),
    ("SELECT id FROM other", "INSERT INTO t (id, a) VALUES (9, 5)", "INSERT INTO t (id, a) VALUES (9, 6)", True),
    ("UPDATE t SET a = a + 1 WHERE id = 1", "UPDATE t SET a = a + 1 WHERE id = 1", "SELECT 1", True),
    ("SELECT a FROM t WHERE id = 1", "DELETE FROM t", None, False),
]


def test_what_another_node_has_done_is_found(databases: Databases) -> None:
    async def work(one: Node, other: Node) -> None:
        await one.run("CREATE TABLE other (id Int64, PRIMARY KEY (id))")
        for number, (reads, meanwhile, writes, conflicts) in enumerate(MEETINGS):
            await one.run(TABLE)
            await other.run("UPSERT INTO t (id, a) VALUES (1, 10), (2, 20)")
            id = await one.begin(reads)
            await other.run(meanwhile)
            refused = await one.refusal((writes or "SELECT 1").format(number), TransactionControl(id=id, commit=True))
            assert (refused is not None) == conflicts, MEETINGS[number]
            if refused is not None:
                assert (refused.status, refused.message) == ("ABORTED", LOST)
            await other.run("DROP TABLE t")

    on_two(databases, work)


SCHEMES = [
    # What one node does with a table that both know, what the other then runs, and what comes of it.
    ("ALTER TABLE t ADD COLUMN n Int64", "UPSERT INTO t (id, n) VALUES (3, 30)", []),
    ("SELECT 1", "SELECT n FROM t WHERE id = 3", [(30,)]),
    ("ALTER TABLE t DROP COLUMN n", "SELECT * FROM t WHERE id = 1", [(10, 1)]),
    ("ALTER TABLE t ADD INDEX by_id GLOBAL ON (a, id)", "SELECT id FROM t VIEW by_id WHERE a = 10", [(1,)]),
    ("ALTER TABLE t RENAME TO u", "SELECT a FROM u WHERE id = 1", [(10,)]),
    ("UPSERT INTO u (id, a) VALUES (1, 11)", "SELECT a FROM u WHERE id = 1", [(11,)]),
    ("ALTER TABLE u DROP INDEX by_a", "UPDATE u SET a = 12 WHERE a = 11 RETURNING id", [(1,)]),
    ("DROP TABLE u", "CREATE TABLE u (id Utf8, PRIMARY KEY (id))", []),
    ("UPSERT INTO u (id) VALUES ('x'u)", "SELECT id FROM u", [("x",)]),
]


def test_a_start_drops_the_temporary_tables_of_nodes_that_are_gone(databases: Databases) -> None:
    async def hidden(node: Node) -> list[str]:
        space = await node.engine.node(HIDDEN_SPACE)
        return [] if space is None else [each.name for each in await node.engine.children(space.id)]

    async def work(one: Node, other: Node) -> None:
        await one.run("CREATE TEMPORARY TABLE t (id Int64, PRIMARY KEY (id))")
        await other.run("CREATE TEMPORARY TABLE t (id Int64, PRIMARY KEY (id))")
        await one.run("UPSERT INTO t (id) VALUES (1)")
        # A new start of the second node: what it had itself is of an earlier start.
        await Schemes(other.engine, Options()).hidden.drop_unfinished()
        assert await hidden(one) == ["0 0"]
        assert (await one.run("SELECT id FROM t"), await other.refusal("SELECT id FROM t") is None) == ([(1,)], False)
        await one.member.close()
        await other.schemes.hidden.drop_unfinished()
        assert await hidden(other) == []

    on_two(databases, work)


def test_a_scheme_that_one_node_changes_is_that_of_the_other(databases: Databases) -> None:
    async def work(one: Node, other: Node) -> None:
        await one.run(TABLE)
        await one.run("UPSERT INTO t (id, a) VALUES (1, 10), (2, 20)")
        assert await other.run("SELECT id FROM t VIEW by_a WHERE a = 10") == [(1,)]
        for number, (change, then, expected) in enumerate(SCHEMES):
            await one.run(change)
            assert await other.run(then) == expected, SCHEMES[number]

    on_two(databases, work)


def test_a_transaction_over_a_change_of_the_scheme_elsewhere(databases: Databases) -> None:
    async def work(one: Node, other: Node) -> None:
        await one.run(TABLE)
        id = await other.begin("UPSERT INTO t (id, a) VALUES (1, 10)")
        await one.run("ALTER TABLE t ADD COLUMN n Int64")
        with pytest.raises(Fault) as raised:
            await other.run("SELECT 1", TransactionControl(id=id, commit=True))
        assert (raised.value.status, raised.value.issues[0].code) == ("ABORTED", 2028)
        assert await one.run("SELECT id FROM t") == []

    on_two(databases, work)


def test_a_snapshot_has_no_past_of_other_nodes(databases: Databases) -> None:
    """It tells rather than read what is newer. What a request reads that nobody saw anything of yet is read again."""

    async def work(one: Node, other: Node) -> None:
        await one.run(TABLE)
        await one.run("UPSERT INTO t (id, a) VALUES (1, 10), (2, 20), (4, 40)")
        id = await one.begin("SELECT a FROM t WHERE id = 2", "snapshot_read_only")
        await other.run("UPSERT INTO t (id, a) VALUES (1, 11), (3, 30)")
        await other.run("DELETE FROM t WHERE id = 4")
        assert await one.run("SELECT a FROM t WHERE id = 2", TransactionControl(id=id)) == [(20,)]
        assert await one.run("SELECT a FROM t WHERE id = 3", TransactionControl(id=id)) == []
        # Nothing is left that would tell of the deletion.
        assert await one.run("SELECT a FROM t WHERE id = 4", TransactionControl(id=id)) == []
        with pytest.raises(Fault, match="Transaction locks invalidated"):
            await one.run("SELECT a FROM t WHERE id = 1", TransactionControl(id=id))
        assert await one.run("SELECT id, a FROM t", TransactionControl(begin="snapshot_read_only", commit=True)) == [
            (1, 11),
            (2, 20),
            (3, 30),
        ]

    on_two(databases, work)


def test_counting_on_two_nodes_loses_nothing(databases: Databases) -> None:
    """Statements of their own, which are repeated for their client a few times; so is the rest, by the client."""

    async def work(*nodes: Node) -> None:
        await nodes[0].run(TABLE)
        await nodes[0].run("UPSERT INTO t (id, a) VALUES (1, 0)")

        async def count(node: Node) -> None:
            done = 0
            while done < ROUNDS:
                refused = await node.refusal(f"UPDATE t SET a = a + 1 WHERE id = 1; {COPY}")
                assert refused is None or refused.status == "ABORTED"
                done += refused is None

        await together(*map(count, nodes))
        last = 2 * ROUNDS
        for path in ("t", "t VIEW by_a"):
            assert sorted(await nodes[0].run(f"SELECT id, a FROM {path}")) == [
                (1, last),
                *((100 + n, n) for n in range(1, last + 1)),
            ]

    on_two(databases, work)


def test_transactions_at_random_have_an_order(databases: Databases, chance: Random) -> None:
    async def work(*nodes: Node) -> None:
        appends = await run_appends([node.told for node in nodes for _ in range(2)], chance, 20)
        assert len(appends.holds) > 5

    on_two(databases, work)


PAST = (
    "UPSERT INTO t (id, at) VALUES ({0}, Timestamp('2001-01-01T00:00:00Z')), ({1}, Timestamp('2001-01-01T00:00:00Z'))"
)
SOON: Span = 300 * MILLISECOND
EVERY: Span = HOUR


def test_a_tables_run_is_made_once(databases: Databases) -> None:
    """Both nodes purge by themselves: one run, one event for each death; what is written since waits, whoever looks."""

    async def work(one: Node, other: Node) -> None:
        await one.run("CREATE TABLE t (id Int64, at Timestamp, PRIMARY KEY (id)) WITH (TTL = Interval('PT0S') ON at)")
        for id in range(0, 40, 4):
            await one.run(PAST.format(id, id + 1))
            await other.run(PAST.format(id + 2, id + 3))
        await other.run("UPSERT INTO t (id) VALUES (100), (101)")
        table = await one.engine.node("ydb", "/local", "t")
        assert table is not None
        due = await one.engine.now() + SOON

        def soon(node: CatalogNode) -> Definition:
            return msgspec.structs.replace(node.definition, schedule=Schedule(due - EVERY, EVERY))

        await one.engine.definitions.replace(table.id, soon, due)
        for node in (one, other):
            node.member.reap()

        async def accounted() -> Run | None:
            return (await other.member.node(table.id)).definition.run

        assert await until(accounted) == Run(due, 42, 40)
        await other.run(PAST.format(50, 51))
        # As the loop does that has just got the lease; also that of a process which knows of nothing but the account.
        begun = await open_engine(other.member.store, other.engine.time.clock)
        for engine in (one.engine, other.engine, begun):
            await engine.reaper.survey()
            assert await engine.reaper.sweep_as_scheduled() == {}
        assert await one.run("SELECT id FROM t") == [(50,), (51,), (100,), (101,)]
        assert await accounted() == Run(due, 42, 40)
        events = await one.member.store.read(Expiries(None, 0, 1000))
        assert len({(event.key, event.version) for event in events}) == len(events) == 40
        assert {(event.container, event.how) for event in events} == {(table.id, "sweep")}
        assert all(event.purged >= due for event in events)

    on_two(databases, work)


def test_no_number_of_a_sequence_is_given_on_both(databases: Databases) -> None:
    async def work(one: Node, two: Node) -> None:
        await one.run("CREATE TABLE s (id Serial, n Int64, PRIMARY KEY (id))")
        insert = "INSERT INTO s (n) VALUES (1), (2) RETURNING id"
        found = await asyncio.gather(*(node.run(insert) for _ in range(ROUNDS) for node in (one, two)))
        numbers = sorted(id for rows in found for (id,) in rows)
        assert len(set(numbers)) == 4 * ROUNDS
        assert await two.run("SELECT COUNT(*) FROM s") == [(4 * ROUNDS,)]
        await two.run("ALTER SEQUENCE `/local/s/_serial_column_id` RESTART WITH 1000")
        assert await one.run("INSERT INTO s (n) VALUES (3) RETURNING id") == [(1000,)]

    on_two(databases, work)
