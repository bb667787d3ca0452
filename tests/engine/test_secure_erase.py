"""Secure erase: what expired is in no file of the store afterwards; without it, some is."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import apsw
import pytest

from mayflydb.clock import VirtualClock
from mayflydb.engine.catalog import Definition
from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.engine.engine import Engine
from mayflydb.engine.lifecycle.erasure_log import ErasureLog
from mayflydb.engine.lifecycle.scrubbing import PATIENCE, Scrubber
from mayflydb.engine.open import open_engine
from mayflydb.engine.scans import Scope
from mayflydb.expiry.erasure_chain import Verifier
from mayflydb.expiry.rules import Rule
from mayflydb.expiry.sweep import PurgeRequest
from mayflydb.model.instant import SECOND
from mayflydb.model.record import Entry
from mayflydb.store.sqlite.page_checksums import PAGE_SIZE
from mayflydb.store.sqlite.secure_pages import clear_gap
from mayflydb.store.sqlite.store import SqliteStore

RULES = (Rule("default", None, overrides=True, hides=True),)
SECRETS = 1_000


class Planted:
    """An engine over a file, in which records with secrets live among others; their values and index keys have any size."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.living: dict[bytes, bytes] = {}
        self.clock = VirtualClock(1_000 * SECOND)
        self.engine: Engine
        self.store: SqliteStore

    async def open(self, path: Path, secure: bool) -> None:
        self.store = await SqliteStore.open(str(path), secure=secure)
        self.engine = await open_engine(self.store, self.clock)
        space = await self.engine.definitions.space("site", self.clock.now())
        definition = Definition({}, self.clock.now(), rules=RULES)
        self.it = (await self.engine.definitions.create(space.id, "it", definition)).id

    def draft(self, n: int, dies: bool) -> Draft:
        word = b"%s %d %d;" % (b"secret" if dies else b"living", n, self.chance.randrange(10**12))
        value = word * self.chance.choice([1, 1, 2, 3, 5, 8, 20, 50, 400])
        if not dies:
            self.living[b"k%d" % n] = value
        entry = Entry(1, b"%d" % self.chance.randrange(10**9) + value[:60])
        return Draft(value, 5 if dies else None, entries=(entry,))

    async def plant(self) -> None:
        """In any order, a third of them twice."""
        names = list(range(3 * SECRETS))
        self.chance.shuffle(names)
        names += self.chance.sample(names, SECRETS)
        for start in range(0, len(names), 100):
            commands = [
                Command(Mode.UPSERT, b"p%08d" % (n % 7), b"k%d" % n, self.draft(n, n % 3 == 0))
                for n in names[start : start + 100]
            ]
            await self.engine.write_all(self.it, commands, self.clock.now())

    async def expire(self) -> int:
        self.clock.set(self.clock.now() + 10 * SECOND)
        request = PurgeRequest(self.clock.now(), self.clock.now(), "sweep")
        return (await self.engine.reaper.sweep_due(request)).total()

    async def read(self) -> dict[bytes, bytes]:
        node = await self.engine.node_by_id(self.it)
        assert node is not None
        batches = self.engine.scan(node, Scope(), None, self.clock.now())
        return {record.key: record.value async for batch in batches for record in batch.records}

    def found(self, directory: Path) -> dict[str, int]:
        """How often each file of a directory has a piece of a secret."""
        return {path.name: path.read_bytes().count(b"secret ") for path in directory.iterdir()}


@pytest.mark.parametrize("secure", [True, False])
def test_no_file_has_a_secret_that_expired(tmp_path: Path, secure: bool, seed: int) -> None:
    planted = Planted(random.Random(seed))

    async def main() -> None:
        await planted.open(tmp_path / "store.db", secure)
        await planted.plant()
        assert await planted.expire() == SECRETS
        assert sum(planted.found(tmp_path).values()) > 0
        if secure:
            scrubber = Scrubber(
                planted.store, planted.engine.reaper.notifier, planted.engine.erasure_log, planted.store.scrub
            )
            assert await scrubber.scrub_now()
            assert set(planted.found(tmp_path).values()) == {0}
        else:
            assert await planted.store.scrub(False)
            assert sum(planted.found(tmp_path).values()) > 0
        assert await planted.read() == planted.living
        await planted.store.close()

    asyncio.run(main())
    if secure:
        assert set(planted.found(tmp_path).values()) == {0}
    assert apsw.Connection(str(tmp_path / "store.db")).pragma("integrity_check") == "ok"


def test_a_read_that_is_in_the_way_is_told_to_end_in_time() -> None:
    told = []

    async def scrub(insist: bool) -> bool:
        told.append(insist)
        return insist

    async def main() -> None:
        store = await SqliteStore.open(None)
        engine = await open_engine(store, VirtualClock(SECOND))
        log = ErasureLog(store, engine.time, engine.nodes, engine.reaper.notifier)
        scrubber = Scrubber(store, engine.reaper.notifier, log, scrub)
        while not await scrubber.scrub_now():
            assert scrubber.scrubbed == -1
        assert told == [False] * PATIENCE + [True]
        assert scrubber.scrubbed == 0
        # Nothing has expired since.
        assert await scrubber.scrub_now()
        assert len(told) == PATIENCE + 1
        await store.close()

    asyncio.run(main())


def test_the_log_tells_what_is_overwritten(tmp_path: Path) -> None:
    planted = Planted(random.Random(1))

    async def main() -> list[bytes]:
        await planted.open(tmp_path / "store.db", secure=True)
        log = planted.engine.erasure_log
        log.turn_on(bytes)
        scrubber = Scrubber(planted.store, planted.engine.reaper.notifier, log, planted.store.scrub)
        for n in (3, 6):
            await planted.engine.write(
                planted.it, Command(Mode.CREATE, b"p", b"%d" % n, planted.draft(n, True)), planted.clock.now()
            )
            await planted.expire()
            await log.catch_up()
            await scrubber.scrub_now()
            await log.catch_up()
        lines = [line for segment in await log.segments(0) for line in segment.lines]
        last = (await log.segments(0))[-1].place
        lines += [line for segment in await log.segments(last) for line in segment.lines]
        await planted.store.close()
        return lines

    verifier = Verifier()
    found = [(line.kind, line.event) for line in map(verifier.add, asyncio.run(main()))]
    assert found == [("start", 0), ("erased", 1), ("scrubbed", 1), ("erased", 2), ("scrubbed", 2)]


def test_only_the_unused_part_of_a_page_is_cleared(tmp_path: Path, seed: int) -> None:
    """A database of every kind of page, with each page cleared: it is whole, and holds the same."""
    chance, path = random.Random(seed), tmp_path / "pages.db"
    connection = apsw.Connection(str(path))
    connection.pragma("page_size", PAGE_SIZE)
    connection.pragma("auto_vacuum", "INCREMENTAL")
    connection.execute("CREATE TABLE a(x, y); CREATE INDEX i ON a(y); CREATE TABLE b(x PRIMARY KEY, y) WITHOUT ROWID")
    with connection:
        for n in range(3_000):
            data = chance.randbytes(chance.choice([9, 90, 900, 9000]))
            connection.execute("INSERT INTO a VALUES(?, ?)", (n, data))
            connection.execute("INSERT INTO b VALUES(?, ?)", (data[:9], data))
    connection.execute("DELETE FROM a WHERE x % 3 = 0")
    before = connection.execute("SELECT * FROM a ORDER BY x").fetchall()
    assert connection.pragma("freelist_count") and connection.pragma("page_count") > 2 * 820
    connection.close()
    data = path.read_bytes()
    pages = [data[start : start + PAGE_SIZE] for start in range(0, len(data), PAGE_SIZE)]
    cleared = [clear_gap(number, page, 0) for number, page in enumerate(pages, 1)]
    assert any(page != other for page, other in zip(pages, cleared, strict=True))
    assert [clear_gap(number, page, 0) for number, page in enumerate(cleared, 1)] == cleared
    path.write_bytes(b"".join(cleared))
    connection = apsw.Connection(str(path))
    assert connection.pragma("integrity_check") == "ok"
    assert connection.execute("SELECT * FROM a ORDER BY x").fetchall() == before
    connection.close()
