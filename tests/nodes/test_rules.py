"""What one node changes in the catalogue, every node goes by as soon as the change is acknowledged."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from time import monotonic
from typing import TypeVar
from unittest.mock import patch

import pytest

from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.frontends.cosmos.calls import NameResolver
from mayflydb.frontends.cosmos.views import ContainerView
from mayflydb.model.errors import Conflict, NotFound, OwnerNotFound, Unavailable
from mayflydb.model.instant import SECOND
from mayflydb.model.record import Record
from mayflydb.store.interface import Decision, FindRow, Get, LoadRow, Outcome, PutRow, Read, ask
from mayflydb.store.postgres import membership
from nodes.crew import PATIENCE, Member, container, crew, set_ttl, since, together
from stores import Databases

T = TypeVar("T")
ALTERNATIONS = 100
READERS = 2
AGE = 100
"""Seconds since the anchor of the record that is alive under LONG and dead under SHORT."""

LONG, SHORT = 1000, 10
PARTITION, KEY = b"p", b"k"


class Reader:
    """A client of one node, through the names and views that its front end keeps."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.names = NameResolver(member.engine)

    async def container(self, name: str = "c") -> ContainerView:
        return await self.names.get_container("d", name)

    async def get(self, name: str = "c") -> Record | None:
        """The record, as the front end reads it."""
        node = (await self.container(name)).node
        return await self.member.engine.get(node, PARTITION, KEY, await self.member.engine.now())

    async def put(self, id: int, age: int = AGE) -> None:
        now = await self.member.engine.now()
        await self.member.engine.write(
            id, Command(Mode.UPSERT, PARTITION, KEY, Draft(b"v", anchor=now - age * SECOND)), now
        )


def test_the_next_read_goes_by_the_new_rule(seed: int, databases: Databases, figure: Callable[[str], None]) -> None:
    draw = random.Random(seed)
    told: list[float] = []

    async def alternate(readers: list[Reader], id: int) -> None:
        for n in range(ALTERNATIONS):
            by, then = draw.sample(readers, 2)
            began = monotonic()
            await set_ttl(by.member, id, SHORT if n % 2 == 0 else LONG)
            told.append(since(began))
            for reader in (then, *readers):
                assert (await reader.get() is None) == (n % 2 == 0), f"change {n} was not obeyed"

    async def read_on(reader: Reader, done: asyncio.Event) -> None:
        while not done.is_set():
            await reader.get()

    async def check() -> None:
        async with crew(databases.fresh(), 3) as members:
            readers = [Reader(member) for member in members]
            id = await container(members[0], LONG)
            await readers[0].put(id)
            done = asyncio.Event()

            async def changes() -> None:
                await alternate(readers, id)
                done.set()

            await together(changes(), *(read_on(reader, done) for reader in readers for _ in range(READERS)))

    asyncio.run(check())
    told.sort()
    figure(
        f"{len(told)} changes on 3 nodes, acknowledged in {told[len(told) // 2] * 1e3:.1f} ms, at most {told[-1]:.2f} s"
    )
    assert told[len(told) // 2] < 0.5, "nodes learn of a change by being told, not by looking"


def test_a_write_goes_by_the_new_rule(databases: Databases) -> None:
    """A record that another node's change has killed makes way for a new one, and is revived by none."""

    async def check() -> None:
        async with crew(databases.fresh(), 2) as (first, second):
            id = await container(first, LONG)
            for n in range(10):
                await Reader(second).put(id)
                await set_ttl(first, id, SHORT)
                with pytest.raises(NotFound):
                    await second.engine.write(id, Command(Mode.DELETE, PARTITION, KEY), await second.engine.now())
                command = Command(Mode.CREATE, PARTITION, KEY, Draft(b"%d" % n))
                assert (await second.engine.write(id, command, await second.engine.now())).created
                await set_ttl(first, id, LONG)

    asyncio.run(check())


def test_containers_come_and_go_everywhere(databases: Databases) -> None:
    async def check() -> None:
        async with crew(databases.fresh(), 2) as members:
            first, second = (Reader(member) for member in members)
            ids: list[int] = []
            for _ in range(15):
                ids.append(await container(first.member, None))
                assert (await second.container()).id == ids[-1]
                assert await second.get() is None
                await second.put(ids[-1])
                assert await first.get() is not None
                await first.member.engine.definitions.drop(ids[-1])
                with pytest.raises(NotFound):
                    await second.container()
                with pytest.raises(OwnerNotFound):
                    await second.put(ids[-1])
                first, second = second, first
            assert ids == sorted(set(ids)), "an id was used again"

    asyncio.run(check())


def test_two_nodes_do_not_make_one_name_twice(databases: Databases) -> None:
    async def make(member: Member, made: list[int]) -> None:
        with suppress(Conflict):
            made.append(await container(member))

    async def check() -> None:
        async with crew(databases.fresh(), 3) as members:
            await container(members[0], name="other")  # The database is there.
            made: list[int] = []
            await together(*(make(member, made) for member in members for _ in range(4)))
            assert len(made) == 1
            assert {(await Reader(member).container()).id for member in members} == set(made)

    asyncio.run(check())


def test_an_old_answer_that_comes_late_is_not_kept(databases: Databases) -> None:
    """A look-up of a container is under way while its rule is changed: whoever asks later goes by the new one."""

    async def check() -> None:
        async with crew(databases.fresh(), 2) as members:
            first, second = (Reader(member) for member in members)
            id = await container(first.member, LONG)
            await first.put(id)
            found, deliver = asyncio.Event(), asyncio.Event()
            read = second.member.store.read

            async def late(request: Read[T]) -> T:
                answer = await read(request)
                if isinstance(request, FindRow) and request.name == "c" and not found.is_set():
                    found.set()
                    await deliver.wait()
                return answer

            with patch.object(second.member.store, "read", late):
                early = asyncio.create_task(second.get())
                await found.wait()
                await set_ttl(first.member, id, SHORT)
                assert await second.get() is None
                deliver.set()
                await early
                assert await second.get() is None

    asyncio.run(asyncio.wait_for(check(), PATIENCE))


def test_a_node_that_hears_nothing_stops_answering_first(databases: Databases, figure: Callable[[str], None]) -> None:
    """It still reaches the tables. A change waits until it no longer trusts itself; meanwhile others write."""
    answers: list[tuple[float, bool | None]] = []
    writes: list[float] = []
    told: list[float] = []

    async def change(reader: Reader, id: int) -> None:
        await set_ttl(reader.member, id, SHORT)
        told.append(monotonic())

    async def read_on(reader: Reader) -> None:
        while not answers or answers[-1][1] is not None:
            asked = monotonic()
            try:
                answers.append((asked, await reader.get() is not None))
            except Unavailable:
                answers.append((asked, None))

    async def write_on(reader: Reader, id: int) -> None:
        while not told:
            await reader.put(id)
            writes.append(monotonic())

    async def check() -> float:
        async with crew(databases.fresh(), 2) as members:
            first, second = (Reader(member) for member in members)
            id = await container(first.member, LONG)
            await first.put(id)
            assert await second.get() is not None
            await second.member.deafen()
            began = monotonic()
            await together(change(first, id), read_on(second), write_on(first, id))
            await second.member.die()
            return began

    began = asyncio.run(check())
    assert answers[0][1] and answers[-1][0] < told[0], "the change was acknowledged before the other node stopped"
    assert told[0] - began < membership.LEASE / SECOND + 2
    assert max(later - before for before, later in pairwise(writes)) < 1, "writes stood still"
    figure(f"the change waited {told[0] - began:.1f} s; {len(writes)} writes and {len(answers)} reads meanwhile")


def test_a_dead_node_keeps_a_change_no_longer_than_its_lease(databases: Databases) -> None:
    async def check() -> float:
        async with crew(databases.fresh(), 3) as (first, second, third):
            id = await container(first, LONG)
            await Reader(first).put(id)
            await third.die()
            began = monotonic()
            await set_ttl(first, id, SHORT)
            assert await Reader(second).get() is None
            return since(began)

    lease = 2 * SECOND
    with patch.object(membership, "LEASE", lease):
        assert asyncio.run(check()) < lease / SECOND + 1


def test_a_row_is_not_put_back_to_a_name_that_another_node_has_changed(databases: Databases) -> None:
    """A new name moves no number: who has guessed the row, as nobody else wrote there, must not take it for the old one."""

    async def work() -> None:
        async with crew(databases.fresh(), 2) as (here, there):
            id = await container(here)
            for _ in range(3):
                await Reader(there).put(id)

            def mark() -> Decision[None]:
                row = yield from ask(LoadRow(id))
                yield from ask(Get(id, PARTITION, KEY))
                assert row is not None
                return Outcome((PutRow(row),), None)

            node = await here.node(id)
            await here.engine.definitions.move(id, node.parent, "renamed")
            await there.store.write(mark)
            assert [(await member.node(id)).name for member in (here, there)] == ["renamed"] * 2

    asyncio.run(work())
