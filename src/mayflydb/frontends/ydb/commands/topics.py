"""The topic service: definitions, descriptions and offsets. Its streams are in `topics`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mayflydb.engine.reads import Steps
from mayflydb.engine.transactions import WriteTransaction
from mayflydb.frontends.ydb import wire
from mayflydb.frontends.ydb.calls import GrpcCall
from mayflydb.frontends.ydb.schemes.entries import TopicEntry
from mayflydb.frontends.ydb.schemes.paths import resolve_path
from mayflydb.frontends.ydb.services import Handler, Services
from mayflydb.frontends.ydb.topics.bodies import Consumer
from mayflydb.frontends.ydb.topics.catalog import alter_topic, create_topic, drop_topic, get_topic
from mayflydb.frontends.ydb.topics.describing import describe_consumer, describe_topic, read_all_facts
from mayflydb.frontends.ydb.topics.faults import (
    bad_request,
    commit_to_future,
    missing_consumer,
    missing_partition,
    missing_topic,
)
from mayflydb.frontends.ydb.topics.log import read_partition, write_committed
from mayflydb.frontends.ydb.topics.offsets import update_offsets
from mayflydb.frontends.ydb.topics.reading import ReadSession, stream_read
from mayflydb.frontends.ydb.topics.writing import stream_write
from mayflydb.model.errors import OwnerNotFound


async def create(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`CreateTopic`"""
    path = _path(call, request.path)
    await create_topic(services.schemes, path, request, call.now, call.user)
    return wire.operation_response()


async def alter(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`AlterTopic`: all changes at once."""
    await alter_topic(services.schemes, _path(call, request.path), request, call.now)
    return wire.operation_response()


async def drop(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`DropTopic`"""
    await drop_topic(services.schemes, _path(call, request.path))
    return wire.operation_response()


async def describe(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`DescribeTopic`"""
    entry = await get_topic(services.schemes, _path(call, request.path))
    facts = await read_all_facts(services.topics.reads, entry, call.now) if request.include_stats else {}
    result = describe_topic(entry, facts, request.include_location)
    return wire.operation_response(result=result.SerializeToString(), type_name="Ydb.Topic.DescribeTopicResult")


async def describe_one_consumer(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`DescribeConsumer`"""
    entry = await get_topic(services.schemes, _path(call, request.path))
    consumer = entry.body.consumer(request.consumer)
    if consumer is None:
        raise missing_consumer(request.consumer, entry.path, "SCHEME_ERROR")
    facts, committed, readings = {}, {}, {}
    if request.include_stats:
        facts = await read_all_facts(services.topics.reads, entry, call.now)
        group = services.topics.known_group(entry.node.id, consumer.name, consumer.number)
        for partition in range(entry.body.partitions):
            committed[partition] = await services.topics.reads.read_committed(entry.node, consumer, partition)
            member = None if group is None else group.owner(partition)
            reading = member.reading(entry.node.id, partition) if isinstance(member, ReadSession) else None
            if reading is not None:
                readings[partition] = reading
    result = describe_consumer(entry, consumer, committed, facts, readings, request.include_location)
    return wire.operation_response(result=result.SerializeToString(), type_name="Ydb.Topic.DescribeConsumerResult")


async def commit_offset(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`CommitOffset`: sets the offset, forwards or backwards.

    A session that has the partition goes on where it is. If the offset goes back, the session loses the partition, unless the
    request names it, so that the messages come again.
    """
    entry, consumer = await _find_partition(services, call, request)
    if request.offset < 0:
        raise bad_request("offset must be nonnegative number")
    topic, partition = entry.node.id, request.partition_id

    def body(transaction: WriteTransaction) -> Steps[None]:
        yield from transaction.on(topic)
        state = yield from read_partition(transaction, entry.body.state, partition)
        if request.offset > state.end:
            raise commit_to_future(request.offset, state.end)
        yield from write_committed(transaction, entry.body.state, consumer, partition, request.offset)

    group = services.topics.known_group(topic, consumer.name, consumer.number)
    owner = None if group is None else group.owner(partition)
    named = bool(request.read_session_id)
    if named and (not isinstance(owner, ReadSession) or owner.id != request.read_session_id):
        raise bad_request(f"session '{request.read_session_id}' does not read partition {partition}")
    try:
        await services.engine.transact(body, call.now)
    except OwnerNotFound:
        raise missing_topic(entry.path) from None
    if isinstance(owner, ReadSession) and not named and request.offset < owner.committed_offset(topic, partition):
        owner.lose(topic, partition)
    return wire.operation_response(type_name="Ydb.Topic.CommitOffsetResult")


async def _find_partition(services: Services, call: GrpcCall, request: Any) -> tuple[TopicEntry, Consumer]:
    entry = await get_topic(services.schemes, _path(call, request.path))
    consumer = entry.body.consumer(request.consumer)
    if consumer is None:
        raise missing_consumer(request.consumer, entry.path)
    if not 0 <= request.partition_id < entry.body.partitions:
        raise missing_partition(request.partition_id, entry.path)
    return entry, consumer


async def update_offsets_in_transaction(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`UpdateOffsetsInTransaction`: the ranges are committed with the transaction."""
    await update_offsets(services, call, request)
    return wire.operation_response(type_name="Ydb.Topic.UpdateOffsetsInTransactionResult")


def _path(call: GrpcCall, path: str) -> str:
    if not path:
        raise bad_request("path is empty")
    return resolve_path(call.database, None, path)


_SERVICE: Final = "Ydb.Topic.V1.TopicService"

COMMANDS: Final[Mapping[str, Handler]] = {
    f"{_SERVICE}/CreateTopic": create,
    f"{_SERVICE}/AlterTopic": alter,
    f"{_SERVICE}/DropTopic": drop,
    f"{_SERVICE}/DescribeTopic": describe,
    f"{_SERVICE}/DescribeConsumer": describe_one_consumer,
    f"{_SERVICE}/CommitOffset": commit_offset,
    f"{_SERVICE}/UpdateOffsetsInTransaction": update_offsets_in_transaction,
    f"{_SERVICE}/StreamWrite": stream_write,
    f"{_SERVICE}/StreamRead": stream_read,
}
