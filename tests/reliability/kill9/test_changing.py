"""Killed while rows change and expire: a changefeed tells of each change once, in order, and of each expiry as one."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mayflydb.engine.catalog import Node, node_of
from mayflydb.engine.reads import row_at
from mayflydb.frontends.ydb.topics.bodies import topic_body
from mayflydb.frontends.ydb.topics.log import TopicReads
from mayflydb.model.order import Order, Position
from mayflydb.model.record import Record
from mayflydb.store.interface import Expiries, Scan
from mayflydb.store.sqlite.store import SqliteStore
from reliability.kill9 import changing
from reliability.kill9.test_archiving import run_until_killed

KILLS = 4
PAGE = 100


async def read_feed(store: SqliteStore, topic: Node) -> list[tuple[int, int, dict[str, Any]]]:
    """(partition, offset, record) of all messages."""
    reads, found = TopicReads(store), []
    for partition in range(topic_body(topic).partitions):
        offset = 0
        while batches := await reads.read(topic, partition, offset, 0, PAGE):
            for batch in batches:
                found += [(partition, batch.first + n, json.loads(each.data)) for n, each in enumerate(batch.messages)]
            offset = batches[-1].end
    return found


async def look(file: Path) -> tuple[int, int]:
    """Compare the feed with the table and its events; return how many messages it has, and how many of them are of expiries."""
    store = await SqliteStore.open(str(file))
    table = await row_at(store, "ydb", "/local", "t")
    topic = await row_at(store, "ydb", "/local", "t/f")
    assert table is not None
    assert topic is not None
    told = await read_feed(store, node_of(topic))
    events = await store.read(Expiries(table.id, 0, 10**6))
    rows: list[Record] = []
    after: Position | None = None
    while page := await store.read(Scan(table.id, b"", None, Order.CREATED, after, 1000)):
        rows += page
        after = Position(page[-1].partition, page[-1].seq)
    await store.close()

    offsets: defaultdict[int, list[int]] = defaultdict(list)
    state: dict[int, int] = {}
    expired: Counter[int] = Counter()
    for partition, offset, record in told:
        offsets[partition].append(offset)
        (key,) = record["key"]
        if "erase" in record:
            assert key in state, f"{key} is erased, and was not there"
            del state[key]
            expired[key] += record["user"] == "ttl@system"
        else:
            assert record["newImage"]["n"] == state.get(key, -1) + 1, f"a change of {key} is missing, or told twice"
            state[key] = record["newImage"]["n"]
    assert all(found == list(range(len(found))) for found in offsets.values())
    assert sum(expired.values()) == len(events)
    assert max(expired.values(), default=1) == 1
    assert len(state) == len(rows)
    return len(told), len(events)


def live(file: Path, seed: int, kills: int) -> tuple[int, int]:
    chance = random.Random(seed)
    for _ in range(kills):
        run_until_killed(changing, (file,), chance.randint(1, 8), chance.random() / 20)
    return asyncio.run(look(file))


def test_each_change_is_told_once(seed: int, tmp_path: Path, figure: Callable[[str], None]) -> None:
    told, expired = live(tmp_path / "store.db", seed, KILLS)
    assert expired >= KILLS
    figure(f"N={KILLS} kills (3/N = {3 / KILLS:.0%}), {told} messages, {expired} of them of expiries")


@pytest.mark.soak
def test_each_change_is_told_once_for_hours(
    seed: int, tmp_path: Path, soaking: Callable[[float], Iterator[int]], figure: Callable[[str], None]
) -> None:
    told = expired = 0
    for number in soaking(0.05):
        each = live(tmp_path / f"{number}.db", seed + number, 20)
        told, expired = told + each[0], expired + each[1]
        figure(f"N={(number + 1) * 20} kills, {told} messages, {expired} of them of expiries")
