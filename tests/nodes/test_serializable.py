"""Serializable transactions on several nodes: what another node has done since is found at the end, if not before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from mayflydb.engine.building import entry
from mayflydb.engine.catalog import Definition, Index
from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.engine.snapshot import Snapshot
from mayflydb.model.errors import WriteConflict
from mayflydb.model.order import FIRST_ORDERED, KeyRange
from mayflydb.model.record import Entry, Record
from nodes.crew import Member, crew, together
from stores import Databases

PARTITION = b"p" * 8
ALL = KeyRange(b"", b"\xff")
ROUNDS = 12


def keys_of(record: Record, index: Index) -> tuple[bytes, ...]:
    """Each record has an entry by its value."""
    return (record.value,)


def put(mode: Mode, key: bytes, value: bytes) -> Command:
    def indexed(indexes: Any) -> tuple[Entry, ...]:
        return tuple(entry(each, value, PARTITION) for each in indexes)

    return Command(mode, PARTITION, key, Draft(value, indexed=indexed))


class Table:
    """A container that all members of a crew know."""

    def __init__(self, id: int, home: int) -> None:
        self.id = id
        self.home = home
        self.index = Index(FIRST_ORDERED, (), "ready")

    @classmethod
    async def make(cls, member: Member) -> Table:
        engine, now = member.engine, await member.engine.now()
        space = await engine.definitions.space("ydb", now)
        home = await engine.definitions.create(space.id, "local", Definition({}, now))
        definition = Definition({}, now, indexes=(Index(FIRST_ORDERED, (), "ready"),))
        table = cls((await engine.definitions.create(home.id, "t", definition)).id, home.id)
        for key in (b"a", b"b", b"c"):
            await engine.write(table.id, put(Mode.CREATE, key, key), now)
        return table

    async def begin(self, member: Member) -> Snapshot:
        return await Snapshot.begin(member.engine, await member.engine.now(), [self.home], serializable=True)

    async def walk(self, snapshot: Snapshot, within: KeyRange = ALL) -> list[tuple[bytes, bytes]]:
        walk = snapshot.walk(self.id, self.index, within, False, keys_of, 2)
        return [(value, record.key) async for stretch in walk for value, record in stretch]


Read = Callable[[Table, Snapshot], Coroutine[Any, Any, object]]

# What another node does meanwhile, what is read before that, and whether that is a conflict.
MEETINGS: list[tuple[Command, Read, bool]] = [
    (put(Mode.CREATE, b"n", b"bb"), lambda t, s: t.walk(s), True),
    (put(Mode.CREATE, b"n", b"bb"), lambda t, s: t.walk(s, KeyRange(b"a", b"b")), False),
    (put(Mode.REPLACE, b"b", b"x"), lambda t, s: t.walk(s, KeyRange(b"b", b"c")), True),
    (put(Mode.REPLACE, b"b", b"x"), lambda t, s: t.walk(s, KeyRange(b"c", b"d")), False),
    (Command(Mode.DELETE, PARTITION, b"b"), lambda t, s: t.walk(s), True),
    (Command(Mode.DELETE, PARTITION, b"b"), lambda t, s: s.get(t.id, PARTITION, b"b"), True),
    (put(Mode.CREATE, b"n", b"bb"), lambda t, s: s.get(t.id, PARTITION, b"n"), True),
    (put(Mode.REPLACE, b"b", b"x"), lambda t, s: s.get(t.id, PARTITION, b"a"), False),
]


def test_what_another_node_has_done_is_found(databases: Databases) -> None:
    async def work() -> None:
        async with crew(databases.fresh(), 2) as (one, other):
            for number, (theirs, read, conflicts) in enumerate(MEETINGS):
                table = await Table.make(one)
                snapshot = await table.begin(one)
                await read(table, snapshot)
                await other.engine.write(table.id, theirs, await other.engine.now())
                await snapshot.run(table.id, put(Mode.UPSERT, b"h", b"z"), blind=True)
                now = await one.engine.now()
                if conflicts:
                    with pytest.raises(WriteConflict):
                        await snapshot.commit(now)
                else:
                    assert len(await snapshot.commit(now)) == 1, number
                snapshot.close()
                await one.engine.definitions.drop(table.home)

    asyncio.run(work())


def test_counting_on_several_nodes_loses_nothing(databases: Databases) -> None:
    """Each round adds a record that says how many there were: no two say the same."""

    async def work() -> None:
        async with crew(databases.fresh(), 3) as members:
            table = await Table.make(members[0])

            async def count(member: Member, name: bytes) -> None:
                done = 0
                while done < ROUNDS:
                    snapshot = await table.begin(member)
                    try:
                        many = len(await table.walk(snapshot))
                        await snapshot.run(table.id, put(Mode.CREATE, name + b"%d" % done, b"%06d" % many))
                        await snapshot.commit(await member.engine.now())
                        done += 1
                    except WriteConflict:
                        pass
                    finally:
                        snapshot.close()

            await together(*(count(member, b"%d." % n) for n, member in enumerate(members)))
            found = await table.walk(await table.begin(members[0]))
            assert [value for value, _ in found] == [*(b"%06d" % n for n in range(3, 3 + 3 * ROUNDS)), b"a", b"b", b"c"]

    asyncio.run(work())
