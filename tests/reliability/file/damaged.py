"""A store file with single bits flipped, in pages of indexes and of records, and what reading it answers."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import apsw

from mayflydb.model.errors import Corrupt, MayflyError
from mayflydb.model.record import Entry, Record
from mayflydb.store.interface import (
    Allocate,
    CatalogRow,
    Change,
    Decision,
    Get,
    NewId,
    Outcome,
    Put,
    PutRow,
    Read,
    SetNumber,
    ask,
)
from mayflydb.store.sqlite.page_checksums import VFS, load_checksums
from mayflydb.store.sqlite.store import SqliteStore

RECORDS = 240
VALUE = b"v" * 150
PAGE = 4096


def identity(number: int) -> tuple[bytes, bytes]:
    return b"p%d" % (number % 7), b"k%d" % number


async def fill(path: Path) -> int:
    """A new file with a container of RECORDS records, half of them with a life of their own; returns the container."""
    store = await SqliteStore.open(str(path))

    def decide() -> Decision[int]:
        id = yield from ask(NewId())
        return Outcome((PutRow(CatalogRow(id, 0, "c", b'{"body":{},"written":1}')),), id)

    container = (await store.write(decide)).reply

    def put() -> Decision[None]:
        changes: list[Change] = [SetNumber("clock_mark", 10)]
        for number in range(RECORDS):
            lsn, seq = yield from ask(Allocate(container, True))
            record = Record(*identity(number), VALUE, 1, 1, 60 if number % 2 else None, lsn, seq)
            changes.append(Put(container, record, True, (Entry(20, b"e%d" % number),)))
        return Outcome(tuple(changes), None)

    await store.write(put)
    await store.close()
    return container


def pages_of(path: Path) -> dict[str, list[int]]:
    """Table or index -> its pages."""
    load_checksums()
    found: dict[str, list[int]] = {}
    connection = apsw.Connection(str(path), vfs=VFS)
    for name, page in connection.execute("SELECT name, pageno FROM dbstat"):
        found.setdefault(name, []).append(page)
    connection.close()
    return found


def flip(path: Path, page: int, seed: random.Random) -> None:
    """Flip one bit of a page."""
    with path.open("r+b") as file:
        file.seek((page - 1) * PAGE + seed.randrange(PAGE))
        (byte,) = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte ^ 1 << seed.randrange(8)]))


def spoil(path: Path, kind: str, seed: random.Random) -> None:
    """Damage a file at random: some bytes, or a page that is zeroed, filled, exchanged for another one, or cut off."""
    content = bytearray(path.read_bytes())
    last = len(content) // PAGE
    here, there = (slice((page - 1) * PAGE, page * PAGE) for page in seed.sample(range(4, last + 1), 2))
    match kind:
        case "bytes":
            for _ in range(seed.choice([1, 2, 5, 20])):
                content[seed.randrange(PAGE, len(content))] ^= seed.randrange(1, 256)
        case "zeros":
            content[here] = bytes(PAGE)
        case "garbage":
            content[here] = seed.randbytes(PAGE)
        case "exchanged":
            content[here], content[there] = content[there], content[here]
        case "cut off":
            del content[here.start :]
    path.write_bytes(content)


def copies(original: Path, seed: random.Random, names: list[str], number: int) -> Iterator[tuple[str, Path]]:
    """(name, file) of copies with one bit flipped in a page of these tables and indexes; a copy is removed after its turn."""
    pages = pages_of(original)
    copy = original.with_name("copy.db")
    for turn in range(number):
        name = names[turn % len(names)]
        shutil.copyfile(original, copy)
        flip(copy, seed.choice(pages[name]), seed)
        yield name, copy
        for each in original.parent.glob("copy.db*"):
            each.unlink()


async def answers(path: Path, container: int) -> Counter[str]:
    """What a store says of each of the records: right, wrong, missing, error; or `refused` as a whole."""
    found: Counter[str] = Counter()
    try:
        store = await SqliteStore.open(str(path))
    except MayflyError:
        return Counter(refused=1)
    for number in range(RECORDS):
        found[await answer(store, Get(container, *identity(number)))] += 1
    await store.close()
    return found


async def answer(store: SqliteStore, read: Read[Record | None]) -> str:
    try:
        record = await store.read(read)
    except Corrupt:
        return "error"
    return "missing" if record is None else "right" if record.value == VALUE else "wrong"
