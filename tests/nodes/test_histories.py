"""Histories on several nodes: whoever writes, purges or reads, all are told the same, every version and every death once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from mayflydb.engine.commands import Written
from mayflydb.model.instant import HOUR
from mayflydb.model.record import Kind, Version
from nodes.crew import Member, container, crew, together, until
from nodes.test_purges import TTL, Graves
from stores import Databases

WRITERS, WRITES = 4, 240


class Chronicle(Graves):
    """Every version that was acknowledged, too."""

    def __init__(self, members: list[Member], containers: list[int], seed: int) -> None:
        super().__init__(members, containers, seed)
        self.versions: Counter[int] = Counter()

    def _took_place(self, place: tuple[int, bytes], before: Written | None, written: Written) -> None:
        self.versions[written.record.lsn] += 1
        super()._took_place(place, before, written)


class Follower:
    """Reads the history of a container through one node, while others write."""

    def __init__(self, member: Member, container: int) -> None:
        self._member = member
        self._container = container
        self.told: list[Version] = []

    async def look(self) -> int:
        """How much is new."""
        engine = self._member.engine
        node = await self._member.node(self._container)
        after = self.told[-1].lsn if self.told else 0
        new = await engine.versions(node, after, await engine.now())
        self.told += new
        return len(new)

    async def follow(self, done: asyncio.Event) -> None:
        while not done.is_set():
            await self.look()

    async def rest(self) -> None:
        while await self.look():
            pass


def test_all_nodes_are_told_the_same(seed: int, databases: Databases, figure: Callable[[str], None]) -> None:
    async def check() -> None:
        async with crew(databases.fresh(), 2) as members:
            id = await container(members[0], TTL, history=HOUR)
            graves = Chronicle(members, [id], seed)
            followers = [Follower(member, id) for member in members]
            members[0].reap()
            done = asyncio.Event()

            async def write() -> None:
                await together(*(graves.write(writer, WRITES // WRITERS) for writer in range(WRITERS)))
                done.set()

            purging = (graves.purge(member, done) for member in members)
            await together(write(), *purging, *(follower.follow(done) for follower in followers))
            await until(graves.buried)
            for follower in followers:
                await follower.rest()
            first, second = (follower.told for follower in followers)
            assert first == second
            lsns = [version.lsn for version in first]
            assert lsns == sorted(set(lsns))
            made = Counter(version.lsn for version in first if version.kind is not Kind.EXPIRE)
            assert made == graves.versions
            died = Counter(version.previous for version in first if version.kind is Kind.EXPIRE)
            assert died == Counter(lsn for _, lsn in graves.expected())
            figure(f"{len(made)} versions and {len(died)} deaths, told by two nodes")

    asyncio.run(check())
