"""Offsets that are committed with a transaction of tables."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec

from mayflydb.engine.reads import Steps
from mayflydb.engine.transactions import WriteTransaction
from mayflydb.frontends.ydb.calls import GrpcCall
from mayflydb.frontends.ydb.schemes.entries import TopicEntry
from mayflydb.frontends.ydb.schemes.paths import resolve_path
from mayflydb.frontends.ydb.services import Services
from mayflydb.frontends.ydb.topics.bodies import Consumer, topic_body
from mayflydb.frontends.ydb.topics.catalog import get_topic
from mayflydb.frontends.ydb.topics.faults import (
    GAP_CODE,
    bad_request,
    commit_to_future,
    missing_consumer,
    missing_partition,
)
from mayflydb.frontends.ydb.topics.log import read_committed, read_partition, write_committed
from mayflydb.frontends.ydb.topics.transactions import find_transaction
from mayflydb.model.errors import WriteConflict
from mayflydb.query.yql.faults import fault

MAX_RANGES: Final = 10_000
"""Ranges in one request."""

RANGE_BYTES: Final = 64


class ReadRange(msgspec.Struct, frozen=True):
    """The offsets [start, end) of a partition, which a consumer has handled in a transaction."""

    entry: TopicEntry
    consumer: Consumer
    partition: int
    start: int
    end: int


async def update_offsets(services: Services, call: GrpcCall, request: Any) -> None:
    """Have the ranges of an UpdateOffsetsInTransactionRequest committed with its transaction. Faults: the first violation."""
    progress = await _parse(services, call, request)
    snapshot = await find_transaction(services, call, request.tx.session, request.tx.id)

    def body(transaction: WriteTransaction) -> Steps[None]:
        for each in progress:
            yield from _commit(transaction, each)

    snapshot.add_body(body, RANGE_BYTES * len(progress))


def _commit(transaction: WriteTransaction, each: ReadRange) -> Steps[None]:
    topic = (yield from transaction.on(each.entry.node.id)).node
    body = topic_body(topic)
    consumer = body.consumer(each.consumer.name)
    if consumer is None or consumer.number != each.consumer.number:
        raise WriteConflict(f"the consumer {each.consumer.name} was dropped", container=topic.id)
    end = (yield from read_partition(transaction, body.state, each.partition)).end
    if each.end > end:
        raise commit_to_future(each.end, end)
    committed = yield from read_committed(transaction, body.state, consumer, each.partition)
    # Another reader has committed these messages, or set the offset back: what was done with them is not to count twice.
    if committed != each.start:
        raise WriteConflict("the offset of the consumer has moved", container=topic.id)
    yield from write_committed(transaction, body.state, consumer, each.partition, each.end)


async def _parse(services: Services, call: GrpcCall, request: Any) -> list[ReadRange]:
    if not request.tx.id or not request.tx.session:
        raise bad_request("tx is empty")
    if not request.topics:
        raise bad_request("topics is empty")
    _check_count(request)
    found: list[ReadRange] = []
    for given in request.topics:
        entry = await get_topic(services.schemes, resolve_path(call.database, None, given.path))
        consumer = entry.body.consumer(request.consumer)
        if consumer is None:
            raise missing_consumer(request.consumer, entry.path)
        for partition in given.partitions:
            if not 0 <= partition.partition_id < entry.body.partitions:
                raise missing_partition(partition.partition_id, entry.path)
            ranges = sorted((each.start, each.end) for each in partition.partition_offsets)
            start, end = _join(ranges, entry.path)
            found.append(ReadRange(entry, consumer, partition.partition_id, start, end))
        # Others run between the topics.
        await asyncio.sleep(0)
    return found


def _check_count(request: Any) -> None:
    if len(request.topics) + sum(len(each.partitions) for each in request.topics) > MAX_RANGES:
        raise bad_request(f"more than {MAX_RANGES} partitions in one request")
    if sum(len(each.partition_offsets) for topic in request.topics for each in topic.partitions) > MAX_RANGES:
        raise bad_request(f"more than {MAX_RANGES} ranges in one request")


def _join(ranges: list[tuple[int, int]], path: str) -> tuple[int, int]:
    """Return the one range that sorted ranges make. Faults: they have a hole, or are none."""
    if not ranges:
        raise bad_request("can't commit without offsets")
    first, behind = ranges[0][0], ranges[0][0]
    for start, end in ranges:
        if start >= end or start < 0:
            raise bad_request(f"offsets range [{start}, {end}) is empty")
        if start != behind:
            raise fault(f"Gap of offsets in topic {path}: {behind} to {start}", status="BAD_REQUEST", code=GAP_CODE)
        behind = end
    return first, behind
