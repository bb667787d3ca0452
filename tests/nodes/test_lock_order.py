"""Nodes take locks in one order: none waits for one that waits for it."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator, Set
from functools import partial
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.model.errors import NotFound, OwnerNotFound
from mayflydb.model.instant import SECOND
from mayflydb.store.interface import Allocate, Decision, Get, LoadRow, Outcome, Put, SetNumber, ask
from mayflydb.store.postgres.transaction import Transaction
from nodes.crew import Member, admin, container, crew, set_ttl, together
from postgres_cluster import Cluster

CONTAINERS, KEYS, CLIENTS = 6, 20, 12
PARTITION = b"p"
LIFE = 30
"""Seconds; some records are older when they are written, so writes and sweeps number events."""

REQUESTS, SOAKED = 1_000, 400_000
"""Of all clients together: some seconds, some ten minutes."""


def touch(ids: list[int], key: bytes) -> Decision[int]:
    """Write a record of each of these containers, in the order given; the number of those that were there."""
    changes: list[Any] = []
    for id in ids:
        yield from ask(LoadRow(id))
        record = yield from ask(Get(id, PARTITION, key))
        if record is not None:
            lsn, _ = yield from ask(Allocate(id, seq=False))
            changes.append(Put(id, msgspec.structs.replace(record, lsn=lsn), False))
    return Outcome((SetNumber("touched", len(changes)), *changes), len(changes))


class Mixture:
    """Clients of several nodes: writes of one container and of three, changes of rules, containers that come and go."""

    def __init__(self, members: list[Member], ids: list[int], seed: int, requests: int) -> None:
        self.members = members
        self.ids = ids
        self.left = requests
        self.draw = random.Random(seed)
        self.tally: Counter[str] = Counter()
        self.numbers = iter(range(1_000_000))

    async def client(self) -> None:
        while self.left:
            self.left -= 1
            what = self.draw.choices([self.write, self.touch, self.alter, self.replace], [60, 30, 5, 5])[0]
            await what(self.draw.choice(self.members))
            self.tally[what.__name__] += 1

    async def write(self, member: Member) -> None:
        now = await member.engine.now()
        draft = Draft(b"v", anchor=now - self.draw.choice([0, 2 * LIFE]) * SECOND)
        command = Command(Mode.UPSERT, PARTITION, self.key(), draft)
        await member.engine.write(self.draw.choice(self.ids), command, now)

    async def touch(self, member: Member) -> None:
        await member.store.write(partial(touch, self.draw.sample(self.ids, 3), self.key()))

    async def alter(self, member: Member) -> None:
        await set_ttl(member, self.draw.choice(self.ids), LIFE)

    async def replace(self, member: Member) -> None:
        id = await container(member, LIFE, name=f"n{next(self.numbers)}")
        try:
            await member.engine.definitions.drop(id)
        except (NotFound, OwnerNotFound):
            self.tally["gone"] += 1

    def key(self) -> bytes:
        return b"%d" % self.draw.randrange(KEYS)


def loaded(postgres: Cluster, seed: int, requests: int) -> str:
    """Two nodes answer so many requests; the account of it. No deadlock may have been found."""
    again: list[Set[int]] = []
    lock_first = Transaction.lock_first

    async def note(self: Transaction, locks: Set[int]) -> None:
        again.append(locks)
        await lock_first(self, locks)

    async def check() -> str:
        url = postgres.fresh()
        async with admin(postgres, url) as watch:
            # Found sooner, and so more often.
            await watch.value(f"ALTER DATABASE {url.rpartition('/')[2]} SET deadlock_timeout = '10ms'")
            async with crew(url, 2) as members:
                ids = [await container(members[0], LIFE, name=f"c{n}") for n in range(CONTAINERS)]
                mixture = Mixture(members, ids, seed, requests)
                for member in members:
                    member.reap()

                with patch.object(Transaction, "lock_first", note):
                    await together(*(mixture.client() for _ in range(CLIENTS)), seconds=30 + requests / 50)
            found = await watch.value("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
        assert found == 0
        assert again, "no group ran again"
        return f"{dict(mixture.tally)}, {len(again)} groups ran again, no deadlock"

    return asyncio.run(check())


def test_two_nodes_do_not_wait_for_each_other(seed: int, postgres: Cluster, figure: Callable[[str], None]) -> None:
    figure(loaded(postgres, seed, REQUESTS))


@pytest.mark.soak
def test_for_long(
    seed: int, postgres: Cluster, soaking: Callable[[float], Iterator[int]], figure: Callable[[str], None]
) -> None:
    for number in soaking(0.1):
        figure(loaded(postgres, seed + number, SOAKED))
