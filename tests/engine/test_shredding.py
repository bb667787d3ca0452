"""Crypto-shredding: when the last record of a day has expired, no copy of the file opens with the keys that are there."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import shutil
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from mayflydb.clock import VirtualClock
from mayflydb.engine.catalog import Definition, Node
from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.engine.engine import Engine
from mayflydb.engine.lifecycle.shredding import ShredState
from mayflydb.engine.open import open_engine
from mayflydb.engine.scans import Scope
from mayflydb.expiry.lifecycle import Lifecycle, Shred
from mayflydb.expiry.rules import Rule
from mayflydb.expiry.sweep import PurgeRequest
from mayflydb.model.errors import Conflict, Corrupt, InUse, OutOfSpace, Unavailable, Unsupported
from mayflydb.model.instant import DAY, HOUR, SECOND
from mayflydb.model.order import Order
from mayflydb.model.record import Record
from mayflydb.moving.copy import copy
from mayflydb.moving.source import StoreSource
from mayflydb.serving.stores import examine_file, repair_file
from mayflydb.store.interface import KeySegments, Scan
from mayflydb.store.segments import KeySegment
from mayflydb.store.sqlite.key_file import SLOT_BYTES, KeyFile
from mayflydb.store.sqlite.page_checksums import VFS
from mayflydb.store.sqlite.snapshots import SqliteSnapshots
from mayflydb.store.sqlite.store import SqliteStore, exit_process

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
        self.halt: Callable[[str], None] = exit_process

    async def open(self) -> Site:
        return await self.assemble(await SqliteStore.open(str(self.path), halt=self.halt))

    async def assemble(self, store: SqliteStore) -> Site:
        """Open an engine over a store, with the container if it is not there."""
        self.store = store
        self.engine = await open_engine(self.store, self.clock)
        self.snapshots = self.store.snapshots()
        self.engine.snapshots = self.snapshots
        self.engine.reaper.shredding.keys = self.store.keys(self.snapshots)
        if not self.it:
            space = await self.engine.definitions.space("site", self.clock.now())
            definition = Definition({}, self.clock.now(), rules=RULES)
            self.it = (await self.engine.definitions.create(space.id, "it", definition)).id
        return self

    async def reopen(self, it: int) -> Site:
        """Open a file that has the container already."""
        self.it = it
        return await self.open()

    async def shred(self, shred: Shred = "day") -> None:
        self.engine.reaper.shredding.check()

        def change(_: Lifecycle) -> Lifecycle:
            return Lifecycle(shred=shred)

        await self.engine.definitions.change_lifecycle(self.it, change, self.clock.now())

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

    async def segments(self) -> list[KeySegment]:
        return await self.store.read(KeySegments(None))

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
        return keys_of(self.path)


def keys_of(path: Path) -> list[bytes]:
    """The 32 bytes at each place of a key in the file of keys beside a file."""
    content = Path(f"{path}-keys").read_bytes()
    return [content[at + 24 : at + 56] for at in range(SLOT_BYTES, len(content), SLOT_BYTES)]


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


def stored(path: Path) -> list[tuple[int, Record]]:
    """The records of a copy of the file as they are stored, with their container."""
    connection = apsw.Connection(f"file:{path}?mode=ro", apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI, VFS)
    rows: list[Any] = connection.execute(
        "SELECT container, partition, key, value, written, lsn, id FROM record"
    ).fetchall()
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


def test_a_day_with_a_record_keeps_its_key_between_days_that_end(tmp_path: Path) -> None:
    async def main() -> None:
        site = await Site(tmp_path / "store.db").open()
        await site.shred()
        for day, life in enumerate([None, 3600, None, 3600, 3600]):
            site.clock.set(START + day * DAY)
            await site.put(b"k%d" % day, b"day %d" % day, life)
        assert await site.pass_time(2 * HOUR) == 3
        assert [each.number for each in await site.segments()] == [20_000, 20_002, 20_004]
        site.store._transaction.recent.clear()
        assert await site.read() == {b"k0": b"day 0", b"k2": b"day 2"}
        await site.store.close()

    run(main())


@pytest.mark.parametrize("turn", range(3))
def test_random_days_are_those_of_the_model(tmp_path: Path, seed: int, turn: int) -> None:
    """A version can be opened, in any copy, as long as a record of its day is stored; and no longer."""
    chance = random.Random(seed + turn)

    async def main() -> None:
        site = await Site(tmp_path / "store.db").open()
        await site.shred()
        living: dict[bytes, tuple[int, int, bytes]] = {}  # key -> day of its write, deadline, value
        written: dict[int, set[bytes]] = {}  # day -> values in copies
        snapshot = tmp_path / "store.db-snapshots" / "copy.snapshot"
        for step in range(40):
            now = site.clock.now()
            day = now // DAY
            for _ in range(chance.randrange(4)):
                key, value = b"k%d" % chance.randrange(9), b"value %d %d" % (step, chance.randrange(10**9))
                if chance.random() < 0.2 and key in living:
                    await site.engine.write(site.it, Command(Mode.DELETE, b"p%08d" % (len(key) % 3), key), now)
                    del living[key]
                else:
                    life = chance.choice([600, 7200, 90_000, 200_000])
                    await site.put(key, value, life)
                    living[key] = day, now + life * SECOND, value
            await site.snapshots.save("copy", _nothing)
            written |= {day: written.get(day, set()) | {each[2] for each in living.values() if each[0] == day}}
            if chance.random() < 0.2:
                await site.store.close()
                await site.reopen(site.it)
            await site.pass_time(chance.choice([HOUR, 5 * HOUR, DAY, 2 * DAY]))
            now = site.clock.now()
            living = {key: each for key, each in living.items() if each[1] > now}
            needed = {each[0] for each in living.values()}
            assert {each.number for each in await site.segments()} - {now // DAY} <= needed, step
            site.store._transaction.recent.clear()
            assert await site.read() == {key: each[2] for key, each in living.items()}, step
            readable = set().union(*(written.get(day, set()) for day in needed | {now // DAY}))
            # All that lives was there when the copy was made.
            assert {each[2] for each in living.values()} <= revealed(snapshot, site.keys), step
            assert revealed(snapshot, site.keys) <= readable, step
        await site.store.close()

    run(main())


def test_a_restore_leaves_out_what_was_shredded(tmp_path: Path) -> None:
    async def main() -> None:
        site = await Site(tmp_path / "store.db").open()
        await site.put(b"plain", b"written before", None)
        await site.shred()
        for n in range(300):
            await site.put(b"short%d" % n, b"dies", 3600)
        site.clock.set(START + DAY)
        await site.put(b"long", b"lives", 30 * 86_400)
        await site.snapshots.save("before", _nothing)
        assert await site.pass_time(HOUR) == 300
        await site.put(b"new", b"undone", None)
        assert await site.engine.restore("before", False, lambda: None) == 300
        assert await site.read() == {b"plain": b"written before", b"long": b"lives"}
        await site.put(b"after", b"works", None)
        await site.store.close()
        site = await Site(tmp_path / "store.db", site.clock).reopen(site.it)
        assert set(await site.read()) == {b"plain", b"long", b"after"}
        assert await site.engine.restore("before", False, lambda: None) == 300
        await site.store.close()

    run(main())


def test_a_restore_keeps_the_keys_of_what_it_undoes_while_a_snapshot_needs_them(tmp_path: Path) -> None:
    async def main() -> None:
        site = await Site(tmp_path / "store.db").open()
        await site.shred()
        await site.put(b"a", b"first", None)
        await site.snapshots.save("first", _nothing)
        site.clock.set(START + DAY)
        await site.put(b"b", b"second", None)
        await site.snapshots.save("second", _nothing)
        for name, kept in (("first", {b"a"}), ("second", {b"a", b"b"}), ("first", {b"a"})):
            assert await site.engine.restore(name, False, lambda: None) == 0
            assert set(await site.read()) == kept
            await site.pass_time(SECOND)
        assert {each.state for each in await site.segments()} == {"live", "undone"}
        await site.snapshots.delete("second")
        await site.pass_time(SECOND)
        assert {each.state for each in await site.segments()} == {"live"}
        assert sum(any(key) for key in site.keys) == 1
        await site.store.close()

    run(main())


def test_a_copy_of_the_file_is_served_without_what_was_shredded(tmp_path: Path) -> None:
    async def main() -> None:
        site = await Site(tmp_path / "store.db").open()
        await site.shred()
        await site.put(b"short", b"dies", 3600)
        site.clock.set(START + DAY)
        await site.put(b"long", b"lives", None)
        await site.store.close()
        beside = tmp_path / "copy.db"
        shutil.copy(site.path, beside)
        await site.reopen(site.it)
        assert await site.pass_time(HOUR) == 1
        await site.store.close()
        shutil.copy(f"{site.path}-keys", f"{beside}-keys")
        other = await Site(beside, site.clock).reopen(site.it)
        assert await other.read() == {b"long": b"lives"}
        await other.put(b"short", b"again", None)
        await other.store.close()
        again = await Site(beside, site.clock).reopen(site.it)
        assert await again.read() == {b"long": b"lives", b"short": b"again"}
        await again.store.close()

    run(main())


def _overwrite(path: Path, at: int, content: bytes) -> None:
    before = path.read_bytes()
    path.write_bytes(before[:at] + content + before[at + len(content) :])


def _of_another(path: Path) -> None:
    path.unlink()
    keys = KeyFile.create(path)
    keys.add()
    keys.flush()
    keys.close()


def _with_other_key(path: Path) -> None:
    before = KeyFile.open(path, None)
    before.close()
    path.unlink()
    keys = KeyFile(path, before.id, 0, None)
    keys.add()
    keys.flush()
    keys.close()


WRONG_KEYS = [
    ("missing", lambda path: path.unlink(), "cannot be read"),
    ("older", lambda path: os.truncate(path, 64), "older copy"),
    ("zeros", lambda path: _overwrite(path, 64, bytes(64)), "older copy"),
    ("flipped", lambda path: _overwrite(path, 64 + 30, b"??"), "damaged"),
    ("header", lambda path: _overwrite(path, 3, b"?"), "no file of keys"),
    ("another", _of_another, "another data file"),
    ("other key", _with_other_key, "another copy"),
]


@pytest.mark.parametrize(("name", "spoil", "reason"), WRONG_KEYS, ids=[row[0] for row in WRONG_KEYS])
def test_a_file_is_not_served_without_its_keys(
    tmp_path: Path, name: str, spoil: Callable[[Path], None], reason: str
) -> None:
    async def main() -> None:
        site = await Site(tmp_path / "store.db").open()
        await site.shred()
        await site.put(b"a", b"value", None)
        await site.store.close()
        keys = Path(f"{site.path}-keys")
        right = keys.read_bytes()
        assert keys.stat().st_mode & 0o777 == 0o600
        spoil(keys)
        with pytest.raises(Unavailable, match=reason) as caught:
            await SqliteStore.open(str(site.path))
        assert "--storage-key-file" in str(caught.value.detail["hint"])
        keys.write_bytes(right)
        await site.reopen(site.it)
        assert await site.read() == {b"a": b"value"}
        await site.store.close()

    run(main())


def test_two_servers_do_not_share_a_file_of_keys(tmp_path: Path) -> None:
    async def main() -> None:
        keys = tmp_path / "both.keys"
        first = await SqliteStore.open(str(tmp_path / "first.db"), keys=keys)
        second = await SqliteStore.open(str(tmp_path / "second.db"), keys=keys)
        sites = [Site(tmp_path / "first.db"), Site(tmp_path / "second.db")]
        for site, store in zip(sites, (first, second), strict=True):
            await site.assemble(store)
        await sites[0].shred()
        await sites[0].put(b"a", b"value", None)
        with pytest.raises(InUse, match="in use by another Mayfly"):
            await sites[1].shred()
        await second.close()
        # Replaced while it is served: no key is written where no start would find it.
        content = keys.read_bytes()
        keys.unlink()
        keys.write_bytes(content)
        sites[0].clock.set(START + DAY)
        with pytest.raises(Unavailable, match="replaced while it was served"):
            await sites[0].put(b"b", b"value", None)
        assert await sites[0].read() == {b"a": b"value"}
        await first.close()
        again = await SqliteStore.open(str(tmp_path / "first.db"), keys=keys)
        with pytest.raises(InUse, match="in use by another Mayfly"):
            KeyFile.open(keys, None)
        await again.close()

    run(main())


def test_new_versions_belong_to_the_day_of_their_write(tmp_path: Path) -> None:
    """An old record that is written again lets the key of its first day go, and stays readable; so do undelete and touch."""

    async def main() -> None:
        site = await Site(tmp_path / "store.db").open()
        await site.shred()
        await site.put(b"old", b"one", None)
        await site.put(b"other", b"short", 3600)
        site.clock.set(START + DAY)
        await site.put(b"old", b"two", None)
        assert [each.number for each in await site.segments()] == [20_000, 20_001]
        assert await site.pass_time(SECOND) == 1
        assert [each.number for each in await site.segments()] == [20_001]
        site.store._transaction.recent.clear()
        assert await site.read() == {b"old": b"two"}
        await site.store.close()

    run(main())


def test_an_idle_container_lets_its_last_key_go(tmp_path: Path) -> None:
    async def main() -> None:
        site = await Site(tmp_path / "store.db").open()
        await site.shred()
        await site.put(b"a", b"dies", 3600)
        assert await site.pass_time(2 * HOUR) == 1
        # The day is not over: more may be written under its key.
        assert [each.number for each in await site.segments()] == [20_000]
        used = site.keys[0]
        await site.pass_time(DAY)
        assert [each.number for each in await site.segments()] == [20_001]
        assert used not in site.keys
        for _ in range(3):
            await site.pass_time(DAY)
        # No key is made day after day for nothing.
        assert [each.number for each in await site.segments()] == [20_004]
        assert sum(any(key) for key in site.keys) == 1
        await site.put(b"a", b"again", None)
        assert await site.read() == {b"a": b"again"}
        await site.store.close()

    run(main())


def test_one_key_for_a_container_goes_with_it(tmp_path: Path) -> None:
    async def main() -> None:
        site = await Site(tmp_path / "store.db").open()
        await site.shred("container")
        await site.put(b"a", b"one", None)
        await site.pass_time(9 * DAY)
        await site.put(b"b", b"two", None)
        await site.snapshots.save("before", _nothing)
        snapshot = tmp_path / "store.db-snapshots" / "before.snapshot"
        assert revealed(snapshot, site.keys) == {b"one", b"two"}
        await site.engine.definitions.drop(site.it)
        await site.engine.reaper.shredding.run()
        assert revealed(snapshot, site.keys) == {b"one", b"two"}
        await site.engine.reaper._housekeeping.clear_dropped()
        await site.engine.reaper.shredding.run()
        assert await site.segments() == []
        assert revealed(snapshot, site.keys) == set()
        await site.store.close()

    run(main())


def test_a_reset_destroys_all_keys(tmp_path: Path) -> None:
    async def main() -> None:
        site = await Site(tmp_path / "store.db").open()
        await site.shred()
        await site.put(b"a", b"value", None)
        await site.engine.reset()
        await site.engine.reaper.shredding.run()
        assert await site.segments() == []
        assert not any(map(any, site.keys))
        await site.store.close()

    run(main())


def test_old_records_stay_plain_until_they_are_written(tmp_path: Path) -> None:
    async def main() -> None:
        site = await Site(tmp_path / "store.db").open()
        for key in (b"a", b"b", b"c"):
            await site.put(key, b"value of " + key, None)
        await site.shred()
        shredding = site.engine.reaper.shredding
        assert await shredding.state(site.it) == ShredState(1, 3)
        await site.put(b"b", b"value of b, sealed", None)
        assert await shredding.state(site.it) == ShredState(1, 2)
        await site.shred("off")
        await site.put(b"c", b"value of c, plain", None)
        assert await shredding.state(site.it) == ShredState(1, 2)
        site.store._transaction.recent.clear()
        assert sorted((await site.read()).values()) == [b"value of a", b"value of b, sealed", b"value of c, plain"]
        content = site.path.read_bytes() + Path(f"{site.path}-wal").read_bytes()
        assert b"value of c, plain" in content
        assert b"value of b, sealed" not in content
        await site.store.close()

    run(main())


def test_the_doctor_needs_no_keys_and_repairs_what_is_sealed(tmp_path: Path) -> None:
    async def main() -> None:
        site = await Site(tmp_path / "store.db").open()
        await site.put(b"plain", b"value of plain", None)
        await site.shred()
        for n in range(99):
            await site.put(b"k%d" % n, b"value %d" % n, None)
        expected = await site.read()
        await site.store.close()
        mended = tmp_path / "mended.db"
        keys = Path(f"{site.path}-keys")
        keys.rename(tmp_path / "away")
        assert examine_file(site.path, lambda *_: None).sound
        (tmp_path / "away").rename(keys)
        assert repair_file(site.path, mended, lambda *_: None).records == 100
        assert b"value 7" not in mended.read_bytes()
        other = await Site(mended, site.clock).reopen(site.it)
        assert await other.read() == expected
        assert Path(f"{mended}-keys").stat().st_mode & 0o777 == 0o600
        await other.store.close()

    run(main())


def test_a_snapshot_of_before_the_segments_can_be_restored(tmp_path: Path) -> None:
    """Of format 5, as earlier versions saved them: without the table of segments."""

    async def main() -> None:
        site = await Site(tmp_path / "store.db").open()
        await site.put(b"old", b"plain", None)
        await site.snapshots.save("old", _nothing)
        place = tmp_path / "store.db-snapshots" / "old.snapshot"
        connection = apsw.Connection(str(place), vfs=VFS)
        connection.execute("DROP TABLE sealing; PRAGMA user_version = 5")
        connection.close()
        await site.shred()
        await site.put(b"new", b"sealed", None)
        assert await site.engine.restore("old", False, lambda: None) == 0
        assert await site.read() == {b"old": b"plain"}
        await site.pass_time(SECOND)
        # No snapshot needs the key of what was undone.
        assert await site.segments() == []
        assert not any(map(any, site.keys))
        await site.store.close()

    run(main())


def test_a_snapshot_that_is_sealed_elsewhere_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        site = await Site(tmp_path / "store.db").open()
        await site.shred()
        await site.put(b"a", b"value", None)
        await site.snapshots.save("taken", _nothing)
        taken = tmp_path / "store.db-snapshots" / "taken.snapshot"
        (tmp_path / "other").mkdir()
        other = await Site(tmp_path / "other" / "store.db").open()

        async def parts() -> AsyncIterator[bytes]:
            yield taken.read_bytes()

        for shred in (False, True):
            if shred:
                await other.shred()
            with pytest.raises(Conflict, match="keys of another store"):
                await other.snapshots.receive("taken", parts(), 0, lambda *_: None)
            place = tmp_path / "other" / "store.db-snapshots" / "copied.snapshot"
            shutil.copy(taken, place)
            with pytest.raises(Conflict, match="keys of another store"):
                await other.engine.restore("copied", False, lambda: None)
            assert len(await other.read()) == shred
            await other.put(b"b%d" % shred, b"works", None)
        await site.store.close()
        await other.store.close()

    run(main())


def test_a_copy_into_a_store_without_keys_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        site = await Site(tmp_path / "store.db").open()
        await site.shred()
        await site.put(b"a", b"value", None)
        memory = await SqliteStore.open(None)
        with pytest.raises(Unsupported, match="'it' shreds its records, which memory cannot"):
            await copy(await StoreSource.open(site.store), memory, lambda *_: None)
        await memory.close()
        await site.shred("off")
        await site.engine.reaper.shredding.run()
        memory = await SqliteStore.open(None)
        await copy(await StoreSource.open(site.store), memory, lambda *_: None)
        assert [each.value for each in await memory.read(Scan(site.it, b"", None, Order.CREATED, None, 9))] == [
            b"value"
        ]
        await memory.close()
        await site.store.close()

    run(main())


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_no_record_is_acknowledged_whose_key_is_not_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    ended: list[str] = []

    async def main() -> None:
        site = Site(tmp_path / "store.db")
        site.halt = ended.append
        await site.open()
        await site.shred()
        site.clock.set(START + DAY)

        def fail(*_: object) -> None:
            raise OSError(error, "no")

        with monkeypatch.context() as patched:
            patched.setattr(KeyFile, "_write", fail)
            with pytest.raises(OutOfSpace if error == errno.ENOSPC else Unavailable, match="could not write"):
                await site.put(b"a", b"lost", None)
        # A failed sync ends the process; a full disk does not.
        assert bool(ended) is (error == errno.EIO)
        assert await site.read() == {}
        assert [each.number for each in await site.segments()] == [20_000]
        await site.put(b"a", b"works", None)
        assert [each.number for each in await site.segments()] == [20_000, 20_001]
        await site.store.close()
        await site.reopen(site.it)
        assert await site.read() == {b"a": b"works"}
        await site.store.close()

    run(main())


def test_a_value_in_another_place_does_not_open(tmp_path: Path) -> None:
    async def main() -> None:
        site = await Site(tmp_path / "store.db").open()
        await site.shred()
        await site.put(b"a", b"of a", None)
        await site.put(b"b", b"of b", None)
        connection = site.store._transaction.connection
        rows: list[Any] = connection.execute(
            "SELECT lsn, value FROM record WHERE container = ? ORDER BY lsn", (site.it,)
        ).fetchall()
        cipher = site.store._transaction.sealing._ranges[site.it].ciphers[-1]
        assert cipher is not None
        (lsn, value), (other, _) = rows
        record = Record(b"p%08d" % 1, b"a", value, 0, None, None, lsn, 1)
        assert cipher.open(site.it, record).value == b"of a"
        for wrong in (
            msgspec.structs.replace(record, lsn=other), msgspec.structs.replace(record, key=b"b"),
            msgspec.structs.replace(record, partition=b"p"), msgspec.structs.replace(record, value=value[:-1] + b"?"),
            msgspec.structs.replace(record, value=b"short"),
        ):  # fmt: skip
            with pytest.raises(Corrupt, match="not opened by its key"):
                cipher.open(site.it, wrong)
        with pytest.raises(Corrupt):
            cipher.open(site.it + 1, record)
        await site.store.close()

    run(main())


STEPS = ("before the key", "after the key", "after the commit", "marked", "overwritten", "forgotten")


@pytest.mark.parametrize("step", STEPS)
def test_a_kill_at_any_step_loses_no_record_and_no_destruction(tmp_path: Path, step: str) -> None:
    """The files are copied at each step, as a kill would leave them, and served again."""

    async def main() -> None:
        path = tmp_path / "store.db"
        site = await Site(path).open()
        await site.shred()
        await site.put(b"old", b"dies", 3600)
        site.clock.set(START + DAY)
        there = tmp_path / "killed"

        def note(at: str) -> None:
            if at == step and not there.exists():
                there.mkdir()
                for each in tmp_path.glob("store.db*"):
                    if each.is_file():
                        shutil.copy(each, there / each.name)

        _watch(site.store, note)
        await site.put(b"new", b"lives", None)
        note("after the commit")
        await site.pass_time(HOUR)
        note("forgotten")
        await site.store.close()
        frozen = shutil.copytree(there, tmp_path / "frozen") / "store.db"
        assert len(stored(frozen)) == {"before the key": 1, "after the key": 1, "after the commit": 2}.get(step, 1)
        killed = await Site(there / "store.db", site.clock).reopen(site.it)
        await killed.pass_time(SECOND)
        expected = {} if step in STEPS[:2] else {b"new": b"lives"}
        assert await killed.read() == expected
        assert 20_000 not in [each.number for each in await killed.segments()]
        await killed.put(b"newer", b"works", None)
        assert await killed.read() == expected | {b"newer": b"works"}
        # The key was made and its commit was not: nothing is sealed with it.
        assert revealed(frozen, killed.keys) == set(expected.values())
        await killed.store.close()

    run(main())


def _watch(store: SqliteStore, note: Callable[[str], None]) -> None:
    sealing = store._transaction.sealing
    flush, destroy = sealing.flush, sealing.destroy

    def watched_flush() -> None:
        note("before the key")
        flush()
        note("after the key")

    def watched_destroy() -> list[KeySegment]:
        note("marked")
        gone = destroy()
        note("overwritten")
        return gone

    sealing.flush = watched_flush  # type: ignore[method-assign]
    sealing.destroy = watched_destroy  # type: ignore[method-assign]
