"""Reads as of an earlier instant on several nodes: each reads what all of them have written."""

from __future__ import annotations

import asyncio
import random

import msgspec

from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.engine.lifecycle.past_engine import engine_as_of
from mayflydb.engine.scans import Scope
from mayflydb.model.errors import MayflyError
from mayflydb.model.instant import Instant
from nodes.crew import Member, container, crew, until
from stores import Databases

STEPS = 60


async def write(member: Member, id: int, draw: random.Random, state: dict[bytes, bytes]) -> None:
    key, value = b"%d" % draw.randrange(8), b"%d" % draw.randrange(10**6)
    mode = draw.choice([Mode.UPSERT, Mode.UPSERT, Mode.DELETE])
    draft = None if mode is Mode.DELETE else Draft(value)
    try:
        await member.engine.write(id, Command(mode, key, key, draft), await member.engine.now())
    except MayflyError:
        assert key not in state
        return
    if mode is Mode.DELETE:
        del state[key]
    else:
        state[key] = value


async def read(member: Member, id: int, at: Instant) -> tuple[dict[bytes, bytes], dict[bytes, bytes]]:
    """What is read by key, and by a scan."""
    past = engine_as_of(member.engine, at, lambda node: lambda record, index: ())
    node = await past.node_by_id(id)
    assert node is not None
    gets = [await past.get(node, b"%d" % n, b"%d" % n, at) for n in range(8)]
    batches = past.scan(node, Scope(), None, at, 3)
    scanned = {record.key: record.value async for batch in batches for record in batch.records}
    return {record.key: record.value for record in gets if record is not None}, scanned


def test_all_nodes_read_one_past(databases: Databases, seed: int) -> None:
    draw = random.Random(seed)

    async def check() -> None:
        async with crew(databases.fresh(), 2) as members:
            id = await container(members[0])
            now = await members[0].engine.now()
            await members[0].engine.definitions.change_lifecycle(
                id, lambda lifecycle: msgspec.structs.replace(lifecycle, history=3600), now
            )
            state: dict[bytes, bytes] = {}
            told: list[tuple[Instant, dict[bytes, bytes]]] = []
            for _ in range(STEPS):
                await write(draw.choice(members), id, draw, state)
                at = max([await member.engine.now() for member in members])
                told.append((at, dict(state)))
                for member in members:

                    async def passed(member: Member = member, at: Instant = at) -> bool:
                        return await member.engine.now() > at

                    await until(passed)
            for at, then in draw.sample(told, 20):
                for member in members:
                    assert await read(member, id, at) == (then, then)

    asyncio.run(check())
