"""Nodes that share a database roll up the same records: each of them once, and without a deadlock."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import msgspec

from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.expiry.roll_up import GroupMember, RollUp
from mayflydb.expiry.sweep import PurgeRequest
from mayflydb.frontends.cosmos.roll_ups import plan_roll_up
from mayflydb.frontends.cosmos.views import decode_item
from mayflydb.model.errors import Unavailable, WriteConflict
from mayflydb.model.instant import SECOND
from mayflydb.model.order import Order
from mayflydb.store.interface import Expiries, Scan
from nodes.crew import Member, admin, container, crew, together
from postgres_cluster import Cluster

CLIENTS, REQUESTS, KEYS, LIFE = 8, 60, 15, 30


async def rolls(members: list[Member], source: int, into: int) -> None:
    roll_up = RollUp(into, ("cosmos", "d", "none"), (GroupMember("p", ("p",)),), (), "n")
    change = {"roll_up": roll_up}
    now = await members[0].engine.now()
    await members[0].engine.definitions.change_lifecycle(
        source, lambda lifecycle: msgspec.structs.replace(lifecycle, **change), now
    )


async def sweep(member: Member) -> None:
    now = await member.engine.now()
    await member.engine.reaper.survey()
    await member.engine.reaper.sweep_due(PurgeRequest(now, now, "run now", override="all"))


async def client(member: Member, ids: list[int], draw: random.Random, tally: Counter[str]) -> None:
    """Write records that are old already, over those of others, and sweep."""
    for _ in range(REQUESTS):
        now = await member.engine.now()
        with suppress(WriteConflict, Unavailable):
            if draw.random() < 0.2:
                await sweep(member)
                tally["sweeps"] += 1
            else:
                key = b"%d" % draw.randrange(KEYS)
                value = b'{"id":"%s","p":"%d"}' % (key, draw.randrange(3))
                draft = Draft(value, anchor=now - draw.choice([0, 2 * LIFE]) * SECOND)
                await member.engine.write(draw.choice(ids), Command(Mode.UPSERT, b"p", key, draft), now)
                tally["writes"] += 1


def test_each_expiry_is_counted_once(seed: int, postgres: Cluster, figure: Callable[[str], None]) -> None:
    draw, tally = random.Random(seed), Counter[str]()

    async def check() -> None:
        url = postgres.fresh()
        async with admin(postgres, url) as watch:
            await watch.value(f"ALTER DATABASE {url.rpartition('/')[2]} SET deadlock_timeout = '10ms'")
            async with crew(url, 2) as members:
                ids = [await container(members[0], LIFE if n in (1, 2) else None, name=f"c{n}") for n in range(4)]
                # The rows of containers are locked by id: one roll-up goes up, the other down.
                await rolls(members, ids[1], ids[0])
                await rolls(members, ids[2], ids[3])
                for member in members:
                    member.engine.reaper.roll_ups.planners = {"cosmos": plan_roll_up}
                    member.reap()
                clients = [client(members[n % 2], ids[1:3], draw, tally) for n in range(CLIENTS)]
                await together(*clients)
                # The reapers go on meanwhile: nothing may be left for them.
                await sweep(members[0])
                for source, into in ((ids[1], ids[0]), (ids[2], ids[3])):
                    store = members[0].store
                    events = await store.read(Expiries(source, 0, 10_000))
                    page = await store.read(Scan(into, b"", None, Order.CREATED, None, 100))
                    counted = sum(decode_item(record.value)["n"] for record in page)
                    assert counted == len(events) > 0
                    tally["expired"] += counted
            found = await watch.value("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
        assert found == 0

    asyncio.run(check())
    assert tally["sweeps"]
    figure(f"{dict(tally)}, no deadlock")
