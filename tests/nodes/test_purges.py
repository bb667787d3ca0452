"""Reapers on several nodes: each death is told once, whoever purges, and whoever of them is killed while it does."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine, Iterable, Iterator
from time import monotonic
from typing import Any
from unittest.mock import patch

import pytest

from mayflydb.clock import wall_us
from mayflydb.engine import reaper as reaping
from mayflydb.engine.commands import Command, Draft, Mode, Written
from mayflydb.expiry.sweep import Limits, PurgeRequest
from mayflydb.model.instant import MILLISECOND, SECOND, Instant, Span
from mayflydb.model.record import Expiry
from mayflydb.store.interface import Count, Expiries
from nodes.crew import Admin, Member, admin, container, crew, since, together, until
from postgres_cluster import Cluster
from stores import Databases

WRITERS, KEYS, RECORDS = 6, 50, 1_200
PARTITION = b"p"
TTL = 1
"""Seconds of life by the default of the containers; records are given anchors that spread their deaths."""

SPREAD: Span = 2 * SECOND
LEASE: Span = SECOND
LOOK: Span = SECOND // 5
SKEW: Span = 50 * MILLISECOND
"""How far a node's time may be from the database's."""


@pytest.fixture(autouse=True)
def _hasty() -> Iterator[None]:
    """The lease changes hands within a second."""
    with patch.multiple(reaping, LEASE=LEASE, LOOK=LOOK):
        yield


class Graves:
    """Writers of records that soon die, and everything that must be told of them."""

    def __init__(self, members: list[Member], containers: list[int], seed: int) -> None:
        """`members`: the nodes that clients use."""
        self.members = members
        self.containers = containers
        self.random = random.Random(seed)
        self.stored: dict[tuple[int, bytes], Written] = {}
        self.died: dict[tuple[int, int], Written] = {}
        self.turns: Counter[tuple[int, bytes]] = Counter()
        self.served = 0
        self.hidden = 0

    async def write(self, writer: int, count: int) -> None:
        """Upserts of one's own keys: a version that has died meanwhile is dead for ever, another one never dies."""
        draw = self.random
        for _ in range(count):
            place = draw.choice(self.containers), b"%d %d" % (writer, draw.randrange(KEYS))
            engine = draw.choice(self.members).engine
            now = await engine.now()
            draft = Draft(b"v", draw.choice((None, None, 1, 2)), now - draw.randrange(SPREAD) + SPREAD // 2)
            self.turns[place] += 1
            written = await engine.write(place[0], Command(Mode.UPSERT, PARTITION, place[1], draft), now)
            self.turns[place] += 1
            self._took_place(place, self.stored.get(place), written)
            await self.read(draw.choice(list(self.stored)))

    def _took_place(self, place: tuple[int, bytes], before: Written | None, written: Written) -> None:
        if before is None:
            assert written.created
        elif written.created:
            assert death(before) <= written.now + SKEW, f"{before} was not dead when {written} took its place"
            self.died[place[0], before.record.lsn] = before
        else:
            assert death(before) > written.now, f"{written} changed {before}, which was dead"
        self.stored[place] = written

    async def read(self, place: tuple[int, bytes]) -> None:
        """Nobody is served after its deadline, nor missed before."""
        written, turn, asked = self.stored[place], self.turns[place], wall_us()
        record = await self.random.choice(self.members).get(place[0], PARTITION, place[1])
        if turn % 2 or turn != self.turns[place]:
            return  # It was being written.
        if record is None:
            assert death(written) < wall_us() + SKEW, f"{written} was missed"
            self.hidden += 1
        else:
            assert record == written.record
            assert death(written) > asked - SKEW, f"{written} was served at {asked}"
            self.served += 1

    async def purge(self, member: Member, done: asyncio.Event) -> None:
        """Sweeps on demand, which ask for no lease."""
        engine = member.engine
        while not done.is_set():
            await engine.reaper.sweep_due(PurgeRequest(engine.time.horizon(), await engine.now(), "run now"))
            await asyncio.sleep(0)

    async def work(self, *others: Coroutine[Any, Any, None], purging: Iterable[Member] = ()) -> None:
        """Write and read, and whatever others do meanwhile."""
        done = asyncio.Event()

        async def write() -> None:
            await together(*(self.write(writer, RECORDS // WRITERS) for writer in range(WRITERS)), *others)
            done.set()

        await together(write(), *(self.purge(member, done) for member in purging))

    def expected(self) -> dict[tuple[int, int], Written]:
        """Who has died when all that is stored has."""
        return self.died | {(place[0], written.record.lsn): written for place, written in self.stored.items()}

    async def buried(self) -> bool:
        """Whether nothing is stored any more."""
        counts = [await self.members[0].store.read(Count(id)) for id in self.containers]
        return not any(count.records for count in counts)

    async def check_events(self) -> Counter[str]:
        """Each death once, with its deadline; nobody else's."""
        events: list[Expiry] = await self.members[0].store.read(Expiries(None, 0, 100_000))
        expected = self.expected()
        assert Counter((event.container, event.version) for event in events) == Counter(expected.keys())
        for event in events:
            assert event.deadline == death(expected[event.container, event.version]) <= event.purged, event
        assert [event.id for event in events] == list(range(1, len(events) + 1))
        self._check_order(events)
        return Counter(event.how for event in events)

    def _check_order(self, events: list[Expiry]) -> None:
        lsns: dict[int, list[int]] = defaultdict(list)
        for event in events:
            lsns[event.container].append(event.lsn)
        for numbers in lsns.values():
            assert numbers == sorted(set(numbers)), "events of a container are not in the order of its lsns"


def death(written: Written) -> Instant:
    record = written.record
    assert record.anchor is not None
    return record.anchor + (record.override or TTL) * SECOND


async def holder(watch: Admin) -> int:
    """The node that may purge; 0: nobody may."""
    return int(await watch.value("SELECT coalesce(max(node), 0) FROM mayfly.lease WHERE until >= clock_timestamp()"))


async def dug(members: list[Member], clients: list[Member], seed: int) -> Graves:
    return Graves(clients, [await container(members[0], TTL, name) for name in ("a", "b")], seed)


def removed(members: list[Member]) -> list[int]:
    """How many records each node knows to have purged."""
    return [member.engine.reaper.purge_counts.total() for member in members]


def test_each_death_is_told_once(seed: int, databases: Databases, figure: Callable[[str], None]) -> None:
    """One node purges by itself, and people let both of them purge at once."""

    async def check() -> None:
        async with crew(databases.fresh(), 2) as members:
            graves = await dug(members, members, seed)
            for member in members:
                member.reap()
            await graves.work(purging=members)
            await until(graves.buried)
            how = await graves.check_events()
            assert sum(removed(members)) == how["sweep"] + how["run now"], "a record was purged twice"
            # Few deaths are `replaced`, and on a quick machine none: a purge comes before the next write of the key.
            assert how["sweep"] and how["run now"] and graves.served and graves.hidden
            figure(f"{how.total()} deaths, {dict(how)}, by node {removed(members)}")
            figure(f"{graves.served} reads of the living, {graves.hidden} of the dead")

    asyncio.run(check())


def test_another_node_takes_over_from_a_killed_one(seed: int, postgres: Cluster, figure: Callable[[str], None]) -> None:
    async def other(watch: Admin, number: int) -> bool:
        return await holder(watch) not in (0, number)

    async def take_over(victim: Member, watch: Admin) -> None:
        await until(lambda: watch.value("SELECT count(*) >= 50 FROM mayfly.expiry WHERE how = 'sweep'"))
        number = victim.number
        await victim.die()
        killed = monotonic()
        await until(lambda: other(watch, number))
        took = since(killed)
        figure(f"another node took over {took:.2f} s after the kill; its lease ends after {LEASE / SECOND:.0f} s")

    async def check() -> None:
        url = postgres.fresh()
        async with crew(url, 3) as members, admin(postgres, url) as watch:
            for member in members:
                member.reap()
            number = await until(lambda: holder(watch))
            victim = next(member for member in members if member.number == number)
            graves = await dug(members, [member for member in members if member is not victim], seed)
            await graves.work(take_over(victim, watch))
            await until(graves.buried)
            how = await graves.check_events()
            by = removed(members)
            assert removed([victim])[0] and sum(removed(graves.members))
            # A sweep of the killed node may have been committed without its knowing.
            assert 0 <= how["sweep"] - sum(by) <= Limits().most
            figure(f"{how.total()} deaths, {dict(how)}, by node {by}")

    asyncio.run(check())
