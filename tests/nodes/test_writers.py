"""Random writers on several nodes: all their answers fit one order of events, and what is left is what that order leaves."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractContextManager
from time import monotonic
from unittest.mock import patch

import msgspec
import pytest

import planted
from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.engine.scans import Scope
from mayflydb.model.errors import Conflict, NotFound, PreconditionFailed
from mayflydb.model.order import Order, Position
from mayflydb.model.record import Entry, Record
from mayflydb.store.interface import Allocate, CatalogRow, EntryOwners, LoadRow, Scan
from mayflydb.store.postgres import reads
from mayflydb.store.postgres.reads import Connection
from mayflydb.store.postgres.transaction import Transaction
from nodes.crew import Member, container, crew, since, together
from nodes.history import History, Op, Verb
from postgres_cluster import Cluster
from stores import Databases

WRITERS, OPERATIONS, KEYS, UNIQUES, CONTAINERS = 8, 2_000, 5, 4, 2
VERBS: tuple[Verb, ...] = ("create", "upsert", "upsert", "replace", "replace", "delete", "read", "read")
PARTITION = b"p"


class Follower:
    """Reads a container's changes on one node, from where it stopped: what it has passed must not be added to later."""

    def __init__(self, member: Member, id: int) -> None:
        self._member = member
        self._id = id
        self._after: Position | None = None
        self._turn = asyncio.Lock()
        self.seen: dict[bytes, Record] = {}

    async def follow(self) -> None:
        """Everything up to now."""
        async with self._turn:
            node = await self._member.node(self._id)
            now = await self._member.engine.now()
            async for batch in self._member.engine.scan(node, Scope(order=Order.CHANGED), self._after, now, 3):
                assert self._after is None or batch.records[0].lsn > self._after.number
                self._after = batch.position
                self.seen.update({record.key: record for record in batch.records})


class Crowd:
    """Writers who know all keys and take any node."""

    def __init__(self, members: list[Member], containers: list[int], seed: int) -> None:
        self.members = members
        self.containers = containers
        self.random = random.Random(seed)
        self.history = History()
        self.known: dict[tuple[int, bytes], int] = {}
        self.followers = [Follower(member, id) for member in members for id in containers]
        self.snapshots = 0

    async def write(self, count: int) -> None:
        draw = self.random
        for n in range(count):
            await self.operation(draw.choice(self.members), draw.choice(VERBS), n)
            if draw.random() < 0.1:
                await draw.choice(self.followers).follow()
                await self.snapshot(draw.choice(self.members), draw.choice(self.containers))

    async def operation(self, member: Member, verb: Verb, n: int) -> None:
        draw, history = self.random, self.history
        place = draw.choice(self.containers), b"k%d" % draw.randrange(KEYS)
        unique = b"u%d" % draw.randrange(UNIQUES) if verb in ("create", "upsert", "replace") and n % 2 else None
        match = self.known.get(place) if verb in ("replace", "delete") and draw.random() < 0.7 else None
        now = await member.engine.now()
        op = Op(verb, place, history.moment(), unique, match)
        floor = history.floor(op)
        value = b"%s %d" % (unique or b"-", op.sent)
        try:
            if verb == "read":
                op.record = await member.get(place[0], PARTITION, place[1])
            else:
                draft = Draft(value, entries=() if unique is None else (Entry(0, unique),))
                command = Command(Mode(verb), PARTITION, place[1], None if verb == "delete" else draft, match)
                written = await member.engine.write(place[0], command, now)
                op.record, op.created = written.record, written.created
        except (Conflict, NotFound, PreconditionFailed) as error:
            op.refusal = type(error).__name__
        history.answered(op, floor)
        if op.record is not None:
            self.known[place] = op.record.lsn
        assert op.record is None or verb in ("read", "delete") or op.record.value == value

    async def snapshot(self, member: Member, id: int) -> list[Record]:
        """All records of one moment; no two of them hold one unique value."""
        records = await member.store.read(Scan(id, b"", None, Order.CREATED, None, 100))
        held = [record.value.split()[0] for record in records if not record.value.startswith(b"-")]
        assert len(held) == len(set(held)), f"two hold one value: {records}"
        self.snapshots += 1
        return records

    async def check_end(self) -> None:
        left = self.history.check()
        for member in self.members:
            for id in self.containers:
                found = {(id, record.key): record for record in await self.snapshot(member, id)}
                assert found == {place: record for place, record in left.items() if place[0] == id}
                assert await member.engine.lsn(id) >= self.history.highest[id]
                for place, record in found.items():
                    assert await member.get(id, PARTITION, place[1]) == record
        for follower in self.followers:
            await follower.follow()
            for place, record in left.items():
                assert place[0] != follower._id or follower.seen[place[1]] == record, f"{record} was passed over"


async def crowd(url: str, count: int, seed: int, operations: int = OPERATIONS) -> Crowd:
    async with crew(url, count) as members:
        containers = [await container(members[n % count], None, f"c{n}") for n in range(CONTAINERS)]
        people = Crowd(members, containers, seed)
        await together(*(people.write(operations // WRITERS) for _ in range(WRITERS)))
        await people.check_end()
        return people


@pytest.mark.parametrize("count", [2, 3])
def test_all_answers_fit_one_order(count: int, seed: int, databases: Databases, figure: Callable[[str], None]) -> None:
    began = monotonic()
    people = asyncio.run(crowd(databases.fresh(), count, seed))
    tally = Counter(op.refusal or op.verb for op in people.history.ops)
    wanted = {"create", "upsert", "replace", "delete", "read", "Conflict", "NotFound", "PreconditionFailed"}
    assert wanted <= tally.keys() and len(people.history.ops) == OPERATIONS
    figure(f"{len(people.history.ops)} operations on {count} nodes in {since(began):.1f} s, {dict(tally)}")


# --- the checks themselves -------------------------------------------------------------------------------------------


async def unlocked(connection: Connection, ids: Iterable[int], wait: bool = True) -> list[CatalogRow]:
    """Catalogue rows that other nodes may change meanwhile."""
    return [row for id in ids if (row := await reads.load(connection, LoadRow(id))) is not None]


async def forgetful(connection: Connection, request: EntryOwners) -> list[Record]:
    """Nobody holds a unique value that another node has written a moment ago."""
    return [record for record in await holders(connection, request) if record.lsn % 3]


def skipping(self: Transaction, request: Allocate) -> Awaitable[tuple[int, int]]:
    """Now and then an lsn is given twice."""
    row = self._rows.get(request.container)
    if row is not None and row.lsn % 50 == 49:
        self._rows[request.container] = msgspec.structs.replace(row, lsn=row.lsn - 1)
    return allocate(self, request)


holders, allocate = reads.entry_owners, Transaction._allocate
FAULTS: dict[str, AbstractContextManager[object]] = {
    "no lock": patch.object(reads, "lock_rows", unlocked),
    "a guess believed": patch.object(reads, "GUESS_HOLDS", "(SELECT holds OR true FROM guess)"),
    "unique values": patch.dict(reads.ANSWERS, {EntryOwners: forgetful}),
    "an lsn twice": patch.object(Transaction, "_allocate", skipping),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_checks_see(fault: str, postgres: Cluster, figure: Callable[[str], None]) -> None:
    """Nodes meet as they happen to, so that the symptom that comes first differs, and a run may pass without any."""
    with FAULTS[fault]:
        found = planted.found(lambda seed: asyncio.run(crowd(postgres.fresh(), 2, seed, OPERATIONS // 2)), range(5))
    assert found, f"{fault}: nothing was found"
    figure(f"{fault}: {found}")
