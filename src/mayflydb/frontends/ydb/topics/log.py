"""The log of a topic: messages in partitions, each with an offset, removed by age.

A topic is a container, and a batch of messages one of its records. The retention is the container's default TTL, which counts
from the write: so messages end as every record does. Offsets, numbers of producers and commits of consumers are records of a
second container, the topic's companion (`ydb topics`). Both are written in one transaction with whatever else it does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import msgspec

from mayflydb.engine.catalog import ROOT, Definition, Index, Node
from mayflydb.engine.catalog_changes import CatalogTransaction
from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.engine.reads import Reads, Steps, get_stored, walk_entries
from mayflydb.engine.transactions import WriteTransaction
from mayflydb.expiry.deadline import visible_at
from mayflydb.expiry.rules import default_rule
from mayflydb.frontends.ydb.topics.bodies import (
    RAW,
    Consumer,
    ConsumerState,
    MessageBatch,
    PartitionState,
    ProducerState,
    TopicBody,
    TopicMessage,
    decode_batch,
    decode_consumer,
    decode_partition,
    decode_producer,
    encode,
    topic_body,
)
from mayflydb.model.instant import DAY, SECOND, Instant
from mayflydb.model.order import FIRST_ORDERED, KeyRange
from mayflydb.model.record import NEVER, Entry, Record

SPACE: Final = "ydb topics"
"""The space of the containers with the states of topics."""

STATE_PARTITION: Final = b"\0" * 8

PRODUCER_TTL: Final = 14 * DAY // SECOND
"""Seconds after its last message for which a producer's numbers are kept."""

BATCH_BYTES: Final = 512 << 10
BATCH_MESSAGES: Final = 1000
"""Limits of one record: bytes of messages, unless a single one is larger, and messages."""

PAUSE_BYTES: Final = 16 << 10
"""Other tasks run after a record of more bytes was decoded."""

OFFSETS: Final = Index(FIRST_ORDERED, (), "ready", spec={"offsets": True})
"""The index of a topic: partition and last offset of each batch."""


# --- catalogue -------------------------------------------------------------------------------------------------------


def topic_definition(body: TopicBody, now: Instant) -> Definition:
    """Return the definition of a topic's node."""
    return Definition(
        msgspec.to_builtins(body),
        now,
        rules=(default_rule(body.retention),),
        indexes=(OFFSETS,),
        numbered=FIRST_ORDERED,
    )


def add_state(catalog: CatalogTransaction, topic: int, now: Instant) -> Steps[int]:
    """Create the container of a new topic's state, and return its id."""
    space = yield from catalog.find(ROOT, SPACE)
    if space is None:
        space = yield from catalog.add(ROOT, SPACE, Definition({}, now))
    # Without a default nothing in it expires but what has an own ttl: the states of producers.
    node = yield from catalog.add(space.id, str(topic), Definition({}, now, rules=(default_rule(None),)))
    return node.id


# --- keys ------------------------------------------------------------------------------------------------------------


def _place(partition: int, offset: int) -> bytes:
    return partition.to_bytes(4, "big") + offset.to_bytes(8, "big")


def identity_of(partition: int, first: int) -> tuple[bytes, bytes]:
    """Return partition and key of the record that begins with an offset."""
    return partition.to_bytes(8, "big"), first.to_bytes(8, "big")


def place_of(partition: bytes, key: bytes) -> tuple[int, int]:
    """Return the partition and the first offset of a record."""
    return int.from_bytes(partition, "big"), int.from_bytes(key, "big")


def _partition_key(partition: int) -> bytes:
    return b"p" + partition.to_bytes(4, "big")


def _producer_key(producer: str) -> bytes:
    return b"w" + producer.encode()


def _consumer_key(consumer: Consumer, partition: int) -> bytes:
    return b"c" + partition.to_bytes(4, "big") + consumer.number.to_bytes(8, "big") + consumer.name.encode()


# --- writing ---------------------------------------------------------------------------------------------------------


def append(
    transaction: WriteTransaction,
    topic: int,
    state: int,
    partition: int,
    messages: Sequence[TopicMessage],
    codec: int = RAW,
    producer: str = "",
    group: str = "",
    meta: dict[str, str] | None = None,
) -> Steps[int]:
    """Add messages to a partition, and return the offset of the first one. OwnerNotFound if the topic is gone."""
    space = yield from transaction.on(topic)
    before = yield from read_partition(transaction, state, partition)
    first, size = before.end, before.size
    for chunk in _chunks(messages):
        batch = MessageBatch(partition, first, transaction.now, tuple(chunk), codec, producer, group, meta or {}, size)
        place = (Entry(FIRST_ORDERED, _place(partition, batch.end - 1)),)
        draft = Draft(encode(batch), indexed=partial(_entries, place))
        yield from space.run(Command(Mode.CREATE, *identity_of(partition, first), draft))
        first, size = batch.end, size + len(draft.value)
    after = encode(PartitionState(first, size, transaction.now))
    yield from _put(transaction, state, _partition_key(partition), after)
    return before.end


def _entries(place: tuple[Entry, ...], indexes: Sequence[Index]) -> tuple[Entry, ...]:
    return place


def _chunks(messages: Sequence[TopicMessage]) -> Iterator[Sequence[TopicMessage]]:
    """Yield messages in groups, each for one record."""
    start = size = 0
    for number, message in enumerate(messages):
        size += message.held_bytes
        if number > start and (size > BATCH_BYTES or number - start >= BATCH_MESSAGES):
            yield messages[start:number]
            start, size = number, message.held_bytes
    if start < len(messages):
        yield messages[start:]


def read_partition(transaction: WriteTransaction, state: int, partition: int) -> Steps[PartitionState]:
    """Return the state of a partition, in a transaction."""
    space = yield from transaction.on(state)
    record = yield from space.get(STATE_PARTITION, _partition_key(partition))
    return PartitionState() if record is None else decode_partition(record.value)


def read_producer(transaction: WriteTransaction, state: int, producer: str) -> Steps[ProducerState | None]:
    """Return the state of a producer, in a transaction; None: it is not known, or was forgotten."""
    space = yield from transaction.on(state)
    record = yield from space.get(STATE_PARTITION, _producer_key(producer))
    return None if record is None else decode_producer(record.value)


def put_producer(transaction: WriteTransaction, state: int, producer: str, after: ProducerState) -> Steps[None]:
    """Write the state of a producer, which is forgotten after PRODUCER_TTL."""
    yield from _put(transaction, state, _producer_key(producer), encode(after), PRODUCER_TTL)


def read_committed(transaction: WriteTransaction, state: int, consumer: Consumer, partition: int) -> Steps[int]:
    """Return the offset up to which a consumer has committed, in a transaction; 0 if it has not."""
    space = yield from transaction.on(state)
    record = yield from space.get(STATE_PARTITION, _consumer_key(consumer, partition))
    return 0 if record is None else decode_consumer(record.value).committed


def write_committed(
    transaction: WriteTransaction, state: int, consumer: Consumer, partition: int, offset: int
) -> Steps[None]:
    """Write the offset up to which a consumer has committed."""
    yield from _put(transaction, state, _consumer_key(consumer, partition), encode(ConsumerState(offset)))


def forget_consumer(transaction: WriteTransaction, state: int, consumer: Consumer, partitions: int) -> Steps[None]:
    """Remove what a dropped consumer has committed."""
    space = yield from transaction.on(state)
    for partition in range(partitions):
        key = _consumer_key(consumer, partition)
        if (yield from space.get(STATE_PARTITION, key)) is not None:
            yield from space.run(Command(Mode.DELETE, STATE_PARTITION, key))


def _put(transaction: WriteTransaction, state: int, key: bytes, value: bytes, ttl: int = NEVER) -> Steps[None]:
    space = yield from transaction.on(state)
    yield from space.run(Command(Mode.UPSERT, STATE_PARTITION, key, Draft(value, override=ttl)))


# --- reading ---------------------------------------------------------------------------------------------------------


class TopicReads:
    """Committed messages and states of topics."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads

    async def read(self, topic: Node, partition: int, offset: int, now: Instant, limit: int) -> list[MessageBatch]:
        """Return up to `limit` batches of a partition from the one with a message at or behind an offset; fewer than `limit`
        do not mean the end. Messages older than the retention are left out.
        """
        lower, upper = _place(partition, offset), _place(partition + 1, 0)
        after: tuple[bytes, int] | None = None
        while True:
            found = await walk_entries(self._reads, topic.id, FIRST_ORDERED, KeyRange(lower, upper), after, limit)
            batches = []
            for _, record in found:
                if visible_at(record, topic.rules, now):
                    batches.append(decode_batch(record.value))
                    if len(record.value) > PAUSE_BYTES:
                        await asyncio.sleep(0)
            if batches or not found:
                return batches
            # Only hidden batches so far: visible ones may follow.
            after = (found[-1][0], found[-1][1].seq)

    async def find_written(self, topic: Node, partition: int, instant: Instant, now: Instant) -> MessageBatch | None:
        """Return the first batch of a partition that is kept and was written at an instant or later; None if none was."""
        low, high = 0, (await self.partition(topic, partition)).end
        found: MessageBatch | None = None
        # Later messages are never written at an earlier instant, so the half that has the batch is known.
        while low < high:
            batches = await self.read(topic, partition, (low + high) // 2, now, 1)
            if not batches:
                high = (low + high) // 2
            elif batches[0].written >= instant:
                found, high = batches[0], min(batches[0].first, (low + high) // 2)
            else:
                low = batches[0].end
        return found

    async def first_offset(self, topic: Node, partition: int, now: Instant) -> int:
        """Return the offset of the first message that is kept; that of the next one if none is."""
        found = await self.read(topic, partition, 0, now, 1)
        return found[0].first if found else (await self.partition(topic, partition)).end

    async def partition(self, topic: Node, partition: int) -> PartitionState:
        """Return the state of a partition."""
        record = await self._state(topic, _partition_key(partition))
        return PartitionState() if record is None else decode_partition(record.value)

    async def read_committed(self, topic: Node, consumer: Consumer, partition: int) -> int:
        """Return the offset up to which a consumer has committed; 0 if it has not."""
        record = await self._state(topic, _consumer_key(consumer, partition))
        return 0 if record is None else decode_consumer(record.value).committed

    async def producer(self, topic: Node, producer: str, now: Instant) -> ProducerState | None:
        """Return the state of a producer; None: it is not known, or was forgotten."""
        record = await self._state(topic, _producer_key(producer))
        if record is None or not visible_at(record, (default_rule(None),), now):
            return None
        return decode_producer(record.value)

    async def _state(self, topic: Node, key: bytes) -> Record | None:
        return await get_stored(self._reads, topic_body(topic).state, STATE_PARTITION, key)
