"""An engine under test, called without awaiting, and a protocol of its own: a value is fields of words, `a,b|c`.

Index number n of a container is over one field, which its `spec` names; a record owns an entry for each word of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Generator, Sequence
from typing import Any, TypeVar

from mayflydb.clock import VirtualClock
from mayflydb.engine.building import IndexRequest, entry
from mayflydb.engine.catalog import Definition, Index, Node
from mayflydb.engine.commands import Command, Draft, Mode, Written
from mayflydb.engine.open import open_engine
from mayflydb.engine.scans import Scope
from mayflydb.expiry.rules import Rule
from mayflydb.model.instant import SECOND
from mayflydb.model.order import KeyRange
from mayflydb.model.record import Entry, Record
from mayflydb.store.interface import Read, SeekIndex, Store

T = TypeVar("T")

RULES = (Rule("default", None, overrides=True, hides=True),)
"""A record with an own ttl is hidden when it is over."""

PARTITIONS = (b"p" * 9, b"q" * 9)
LAST = KeyRange(b"", b"\xff")


def words(value: bytes, index: Index) -> tuple[bytes, ...]:
    """The keys of a value in an index."""
    fields = value.split(b"|")
    field = (index.spec or {})["field"]
    return tuple(sorted({word for word in fields[field].split(b",") if word})) if field < len(fields) else ()


def keys_of(record: Record, index: Index) -> Sequence[bytes]:
    return words(record.value, index)


def partition_of(key: bytes) -> bytes:
    """Where a record lies: keys alternate, so that what is unique is so over partitions."""
    return PARTITIONS[key[-1] % 2]


def draft(key: bytes, value: bytes, life: int | None = None, remembered: bytes | None = None) -> Draft:
    def indexed(indexes: Sequence[Index]) -> tuple[Entry, ...]:
        return tuple(entry(each, word, partition_of(key)) for each in indexes for word in words(value, each))

    return Draft(value, life, indexed=indexed, remembered=remembered)


def command(mode: Mode, key: bytes, value: bytes = b"", life: int | None = None) -> Command:
    """`life`: seconds."""
    wanted = None if mode in (Mode.DELETE, Mode.READ) else draft(key, value, life)
    return Command(mode, partition_of(key), key, wanted)


def create(key: bytes, value: bytes, life: int | None = None) -> Command:
    return command(Mode.CREATE, key, value, life)


def upsert(key: bytes, value: bytes, life: int | None = None) -> Command:
    return command(Mode.UPSERT, key, value, life)


def replace(key: bytes, value: bytes) -> Command:
    return command(Mode.REPLACE, key, value)


def delete(key: bytes) -> Command:
    return command(Mode.DELETE, key)


class Site:
    """One engine with a container, `it`."""

    def __init__(self, runner: asyncio.Runner, store: Store) -> None:
        self.run = runner.run
        self.clock = VirtualClock(1_000 * SECOND)
        self.engine = self.run(open_engine(store, self.clock))
        self.home = self.run(self.engine.definitions.space("site", self.now)).id
        self.it = self.container("it")

    @property
    def now(self) -> int:
        return self.clock.now()

    def close(self) -> None:
        self.engine.evaluators.close()
        self.run(self.engine.indexes.close())
        self.run(self.engine.store.close())

    def container(self, name: str, history: int | None = None) -> int:
        definition = Definition({}, self.now, rules=RULES, history=history)
        return self.run(self.engine.definitions.create(self.home, name, definition)).id

    def node(self, container: int | None = None) -> Node:
        node = self.run(self.engine.node_by_id(container or self.it))
        assert node is not None
        return node

    def write(self, wanted: Command, container: int | None = None) -> Written:
        return self.run(self.engine.write(container or self.it, wanted, self.now))

    def pass_seconds(self, seconds: int) -> None:
        self.clock.set(self.now + seconds * SECOND)

    def build(self, *wanted: IndexRequest) -> tuple[Index, ...]:
        return self.run(self.engine.indexes.define_and_build(self.it, lambda _: wanted, keys_of))

    def drop(self, numbers: Collection[int]) -> None:
        self.run(self.engine.indexes.drop(self.it, numbers))
        self.settle()

    def settle(self) -> None:
        """Wait until what is dropped is removed."""
        self.run(self.engine.indexes.wait_for(self.it))

    def values(self, container: int | None = None) -> dict[bytes, bytes]:
        """What is visible, by key."""

        async def read() -> dict[bytes, bytes]:
            node = await self.engine.node_by_id(container or self.it)
            assert node is not None
            batches = self.engine.scan(node, Scope(), None, self.now)
            return {record.key: record.value async for batch in batches for record in batch.records}

        return self.run(read())

    def linked(self, index: Index) -> dict[bytes, list[bytes]]:
        """The keys of the visible records, as the index has them: word -> keys."""

        async def read() -> dict[bytes, list[bytes]]:
            found: dict[bytes, list[bytes]] = {}
            node = await self.engine.node_by_id(self.it)
            assert node is not None
            async for stretch in self.engine.indexes.walk(node, index, LAST, False, self.now, 7):
                for word, record in stretch:
                    found.setdefault(word, []).append(record.key)
            return {word: sorted(keys) for word, keys in found.items()}

        return self.run(read())

    def entries(self, number: int) -> tuple[int, ...] | None:
        """The seqs that own entries of an index, be it dropped."""
        return self.run(self.engine.store.read(SeekIndex(self.it, number, (LAST,), 10_000)))


def expected(values: dict[bytes, bytes], index: Index) -> dict[bytes, list[bytes]]:
    """What an index has to hold over these."""
    found: dict[bytes, list[bytes]] = {}
    for key, value in values.items():
        for word in words(value, index):
            found.setdefault(word, []).append(key)
    return {word: sorted(keys) for word, keys in found.items()}


Steps = Generator[Read[Any], Any, T]
