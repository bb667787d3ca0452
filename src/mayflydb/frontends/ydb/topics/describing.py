"""Descriptions of topics and consumers as messages of YDB."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from mayflydb.frontends.ydb.descriptors import message
from mayflydb.frontends.ydb.schemes.describing import entry_message
from mayflydb.frontends.ydb.schemes.entries import TopicEntry
from mayflydb.frontends.ydb.schemes.statistics import NODE_ID
from mayflydb.frontends.ydb.topics.bodies import Consumer
from mayflydb.frontends.ydb.topics.log import TopicReads
from mayflydb.model.instant import DAY, HOUR, MINUTE, SECOND, Instant

_WINDOWS: Final = (("per_minute", MINUTE), ("per_hour", HOUR), ("per_day", DAY))


class PartitionFacts(msgspec.Struct, frozen=True):
    """The facts that are told of a partition: offsets [first, end), bytes kept, the last write, bytes written by window."""

    first: int
    end: int
    stored: int
    written: Instant
    recently: tuple[int, ...]


class Reading(msgspec.Struct, frozen=True):
    """A session that reads a partition: its id, the reader's name, since when, and the next offset that it is sent."""

    session: str
    reader: str
    since: Instant
    offset: int
    last_read: Instant


async def read_facts(reads: TopicReads, entry: TopicEntry, partition: int, now: Instant) -> PartitionFacts:
    """Return what is told of a partition. Bytes by window are those of messages that are kept."""
    state = await reads.partition(entry.node, partition)
    found = await reads.read(entry.node, partition, 0, now, 1)
    if not found:
        return PartitionFacts(state.end, state.end, 0, state.written, (0, 0, 0))
    recently = []
    for _, window in _WINDOWS:
        batch = await reads.find_written(entry.node, partition, now - window + 1, now)
        recently.append(0 if batch is None else state.size - batch.before)
    return PartitionFacts(found[0].first, state.end, state.size - found[0].before, state.written, tuple(recently))


def describe_topic(entry: TopicEntry, facts: Mapping[int, PartitionFacts], located: bool) -> Any:
    """Return a DescribeTopicResult. `facts`: by partition; empty: without statistics. `located`: with the node's id."""
    body = entry.body
    result = message("Ydb.Topic.DescribeTopicResult")()
    result.self.CopyFrom(entry_message(entry))
    settings = result.partitioning_settings
    settings.min_active_partitions, settings.max_active_partitions = body.partitions, body.max_partitions
    settings.auto_partitioning_settings.strategy = 1
    for number in range(body.partitions):
        _describe_partition(result.partitions.add(), number, facts.get(number), located)
    result.retention_period.seconds = body.retention
    if body.codecs:
        result.supported_codecs.codecs.extend(body.codecs)
    result.partition_write_speed_bytes_per_second = body.write_speed
    result.partition_write_burst_bytes = body.write_burst
    result.attributes.update(body.attributes)
    for consumer in body.consumers:
        _describe_consumer(consumer, result.consumers.add())
    result.metering_mode = body.metering
    if facts:
        _describe_all(result.topic_stats, list(facts.values()))
    return result


def describe_consumer(
    entry: TopicEntry,
    consumer: Consumer,
    committed: Mapping[int, int],
    facts: Mapping[int, PartitionFacts],
    readings: Mapping[int, Reading],
    located: bool,
) -> Any:
    """Return a DescribeConsumerResult. `committed`: offsets by partition. Others as in `describe_topic`."""
    result = message("Ydb.Topic.DescribeConsumerResult")()
    result.self.CopyFrom(entry_message(entry))
    result.self.name = f"{result.self.name}/{consumer.name}"
    _describe_consumer(consumer, result.consumer)
    for number in range(entry.body.partitions):
        into = result.partitions.add()
        _describe_partition(into, number, facts.get(number), located)
        if number in facts:
            _describe_reading(into.partition_consumer_stats, committed.get(number, 0), readings.get(number))
    return result


def _describe_consumer(consumer: Consumer, into: Any) -> None:
    into.name = consumer.name
    if consumer.read_from:
        fill_timestamp(into.read_from, consumer.read_from)
    if consumer.codecs:
        into.supported_codecs.codecs.extend(consumer.codecs)
    into.attributes.update(consumer.attributes)


def _describe_partition(into: Any, number: int, facts: PartitionFacts | None, located: bool) -> None:
    into.partition_id, into.active = number, True
    if facts is not None:
        stats = into.partition_stats
        stats.partition_offsets.start, stats.partition_offsets.end = facts.first, facts.end
        stats.store_size_bytes = facts.stored
        if facts.written:
            fill_timestamp(stats.last_write_time, facts.written)
        _fill_windows(stats.bytes_written, [facts])
        stats.partition_node_id = NODE_ID
    if located:
        into.partition_location.node_id, into.partition_location.generation = NODE_ID, 1


def _describe_all(into: Any, facts: list[PartitionFacts]) -> None:
    into.store_size_bytes = sum(each.stored for each in facts)
    if written := [each.written for each in facts if each.written]:
        fill_timestamp(into.min_last_write_time, min(written))
    _fill_windows(into.bytes_written, facts)


def _describe_reading(into: Any, committed: int, reading: Reading | None) -> None:
    into.committed_offset = committed
    into.last_read_offset = committed
    if reading is None:
        return
    into.last_read_offset = reading.offset
    into.read_session_id, into.reader_name = reading.session, reading.reader
    fill_timestamp(into.partition_read_session_create_time, reading.since)
    if reading.last_read:
        fill_timestamp(into.last_read_time, reading.last_read)
    into.connection_node_id = NODE_ID


def _fill_windows(into: Any, facts: Iterable[PartitionFacts]) -> None:
    for place, (name, _) in enumerate(_WINDOWS):
        setattr(into, name, sum(each.recently[place] for each in facts))


def fill_timestamp(into: Any, instant: Instant) -> None:
    """Fill in a Timestamp, or a Duration."""
    into.seconds, into.nanos = instant // SECOND, instant % SECOND * 1000


async def read_all_facts(reads: TopicReads, entry: TopicEntry, now: Instant) -> dict[int, PartitionFacts]:
    """Return what is told of all partitions of a topic."""
    facts: dict[int, PartitionFacts] = {}
    for partition in range(entry.body.partitions):
        facts[partition] = await read_facts(reads, entry, partition, now)
        await asyncio.sleep(0)
    return facts
