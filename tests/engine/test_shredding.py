"""Crypto-shredding: when the last record of a day has expired, no copy of the file opens with the keys that are there."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import apsw
import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from mayflydb.clock import VirtualClock
from mayflydb.engine.catalog import Definition, Node
from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.engine.engine import Engine, Scope
from mayflydb.engine.open import open_engine
from mayflydb.engine.segments import switch
from mayflydb.expiry.lifecycle import Lifecycle, Shred
from mayflydb.expiry.rules import Rule
from mayflydb.expiry.sweep import PurgeRequest
from mayflydb.model.instant import DAY, HOUR, SECOND
from mayflydb.model.record import Entry, Record
from mayflydb.store.interface import Segment, Segments
from mayflydb.store.sqlite.key_file import SLOT_BYTES
from mayflydb.store.sqlite.page_checksums import VFS
from mayflydb.store.sqlite.snapshots import SqliteSnapshots
from mayflydb.store.sqlite.store import SqliteStore

RULES = (Rule("default", None, overrides=True, hides=True),)
START = 20_000 * DAY
SECRETS = 200


class Site:
    """An engine over a file with one container, `it`, whose records have lives of their own."""

    def __init__(self, path: Path, clock: VirtualClock | None = None) -> None:
        self.path = path
        self.clock = clock or VirtualClock(START)
        self.engine: Engine
        self.store: SqliteStore
        self.snapshots: SqliteSnapshots
        self.it = 0

    async def open(self) -> Site:
        self.store = await SqliteStore.open(str(self.path))
        self.engine = await open_engine(self.store, self.clock)
        self.snapshots = self.store.snapshots()
        self.engine.snapshots = self.snapshots
        self.engine.reaper.shredding.keys = self.store.keys(self.snapshots)
        space = await self.engine.definitions.space("site", self.clock.now())
        found = await self.engine.node_at("site", "it") if self.it else None
        if found is None and not self.it:
            definition = Definition({}, self.clock.now(), rules=RULES)
            self.it = (await self.engine.definitions.create(space.id, "it", definition)).id
        return self

    async def shred(self, shred: Shred = "day") -> None:
        self.engine.reaper.shredding.check()

        def change(definition: Definition) -> Definition:
            import msgspec

            return msgspec.structs.replace(definition, lifecycle=Lifecycle(shred=shred))

        now = self.clock.now()
        await self.engine.definitions.adjust(
            self.it, change, lambda before, after: switch(before, after.lifecycle.shred, now)
        )

    async def put(self, key: bytes, value: bytes, life: int | None = None, mode: Mode = Mode.UPSERT) -> None:
        await self.engine.write(
            self.it, Command(mode, b"p%08d" % (len(key) % 3), key, Draft(value, life)), self.clock.now()
        )

    async def plant(self, chance: random.Random, word: bytes, life: int) -> None:
        for n in range(SECRETS):
            value = b"%s %d %d;" % (word, n, chance.randrange(10**9)) * chance.choice([1, 2, 5, 30, 400])
            await self.put(b"%s%d" % (word, n), value, life)

    async def pass_time(self, span: int) -> int:
        self.clock.set(self.clock.now() + span)
        now = self.clock.now()
        purged = (await self.engine.reaper.sweep_due(PurgeRequest(now, now, "sweep"))).total()
        await self.engine.reaper.shredding.run()
        return purged

    async def segments(self) -> list[Segment]:
        return await self.store.read(Segments(None))

    async def read(self) -> dict[bytes, bytes]:
        node = await self.node()
        batches = self.engine.scan(node, Scope(), None, self.clock.now())
        return {record.key: record.value async for batch in batches for record in batch.records}

    async def node(self) -> Node:
        node = await self.engine.node_by_id(self.it)
        assert node is not None
        return node

    @property
    def keys(self) -> list[bytes]:
        """All 32 bytes at the places of keys in the file of keys."""
        content = Path(f"{self.path}-keys").read_bytes()
        return [content[at + 24 : at + 56] for at in range(SLOT_BYTES, len(content), SLOT_BYTES)]


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


def stored(path: Path) -> list[tuple[int, Record]]:
    """The records of a copy of the file as they are stored, with their container."""
    connection = apsw.Connection(f"file:{path}?mode=ro", apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI, VFS)
    rows = connection.execute("SELECT container, partition, key, value, written, lsn, id FROM record").fetchall()
    connection.close()
    return [(row[0], Record(row[1], row[2], row[3], row[4], None, None, row[5], row[6])) for row in rows]


def revealed(path: Path, keys: list[bytes]) -> set[bytes]:
    """The values of a copy that one of these keys opens, under the identity that the row says."""
    found = set()
    for container, record in stored(path):
        place = b"".join(n.to_bytes(8, "little") for n in (container, record.lsn, len(record.partition)))
        for key in keys:
            try:
                found.add(
                    AESGCM(key).decrypt(record.value[:12], record.value[12:], place + record.partition + record.key)
                )
            except InvalidTag:
                continue
    return found


def test_copies_of_what_has_expired_are_noise(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)

    async def main() -> None:
        site = await Site(tmp_path / "store.db").open()
        await site.shred()
        await site.plant(chance, b"secret", 3600)
        site.clock.set(START + DAY)
        await site.plant(chance, b"living", 10 * 86_400)
        await site.snapshots.save("before", _nothing)
        snapshot = tmp_path / "store.db-snapshots" / "before.snapshot"
        before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
        assert sum(content.count(b"secret ") for content in before.values()) == 0
        assert sum(value.startswith(b"secret ") for value in revealed(snapshot, site.keys)) == SECRETS
        assert await site.pass_time(2 * HOUR) == SECRETS
        assert [each.number for each in await site.segments()] == [20_001]
        opened = revealed(snapshot, site.keys)
        assert len(opened) == SECRETS
        assert all(value.startswith(b"living ") for value in opened)
        assert set((await site.read()).values()) == opened
        await site.store.close()

    run(main())


async def _nothing() -> bytes:
    return b"{}"
