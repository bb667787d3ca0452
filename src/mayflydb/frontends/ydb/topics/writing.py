"""Streams that write messages into a topic: `StreamWrite`.

What has arrived while a commit was under way is appended in the next one. So a client that does not wait for its acks, as all of
them do, gets few commits for many messages, in the order in which it sent them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from hashlib import blake2b
from typing import Any, Final

import msgspec

from mayflydb.engine.reads import Steps
from mayflydb.engine.transactions import WriteTransaction
from mayflydb.frontends.ydb import wire
from mayflydb.frontends.ydb.calls import GrpcCall
from mayflydb.frontends.ydb.conversations import Received, Requests
from mayflydb.frontends.ydb.schemes.entries import TopicEntry
from mayflydb.frontends.ydb.schemes.faults import refuse_invalid
from mayflydb.frontends.ydb.schemes.paths import resolve_path
from mayflydb.frontends.ydb.services import Services
from mayflydb.frontends.ydb.topics.bodies import ProducerState, TopicBody, TopicMessage, topic_body
from mayflydb.frontends.ydb.topics.catalog import get_topic
from mayflydb.frontends.ydb.topics.definitions import check_codec, codec_name
from mayflydb.frontends.ydb.topics.faults import bad_request, missing_partition, missing_topic, unsupported
from mayflydb.frontends.ydb.topics.log import append, put_producer, read_producer
from mayflydb.frontends.ydb.topics.transactions import find_transaction
from mayflydb.model.errors import OwnerNotFound
from mayflydb.model.instant import SECOND
from mayflydb.query.yql.faults import Fault, fault

MAX_PRODUCER: Final = 2048
MAX_MESSAGE_BYTES: Final = 12 << 20
MAX_METADATA_BYTES: Final = 4096
MAX_METADATA_ITEMS: Final = 1000
MAX_META_BYTES: Final = 64 << 10
"""Bytes of the attributes of a write session, which are stored with each batch."""

COMMIT_MESSAGES: Final = 1000
COMMIT_BYTES: Final = 2 << 20
"""Limits of what one commit appends, unless a single message is larger."""

SLICE: Final = 250
"""Messages that are handled before other tasks run."""


class Portion(msgspec.Struct):
    """Messages in one codec, of one transaction if they are of any. `tx`: (session, transaction)."""

    codec: int
    tx: tuple[str, str] | None
    messages: list[TopicMessage]
    size: int = 0


Ack = tuple[int, int | None]
"""The number of a message, and its offset; None: it was written before."""


async def stream_write(services: Services, call: GrpcCall, requests: Requests) -> AsyncIterator[bytes]:
    """`StreamWrite`"""
    topics = services.topics
    topics.open_stream(requests.ring)
    try:
        session: WriteSession | None = None
        while True:
            await requests.wait()
            topics.check_running()
            taken = requests.take()
            if session is None and taken:
                session = await WriteSession.begin(services, call, taken.pop(0).request)
                requests.target = session.path
                yield await session.greet()
            elif session is None and requests.has_ended:
                raise bad_request("out of order Writes done before initialization")
            if session is not None and taken:
                async for each in session.answer(taken):
                    yield each
            if requests.has_ended:
                return
    finally:
        topics.close_stream(requests.ring)


class WriteSession:
    """One stream after its init request."""

    def __init__(self, services: Services, call: GrpcCall, entry: TopicEntry, request: Any) -> None:
        self._services = services
        self._call = call
        self._entry = entry
        self._engine = services.engine
        self._request = request
        self._codecs: tuple[int, ...] = entry.body.codecs
        self.path = entry.path
        self._producer: str = request.producer_id
        self._meta = dict(request.write_session_meta)
        self._partition = 0
        self._last_seq_no = 0
        self._id = services.topics.new_id()

    @classmethod
    async def begin(cls, services: Services, call: GrpcCall, message: Any) -> WriteSession:
        """Check the init request. Faults: it is none, or cannot be served."""
        kind = message.WhichOneof("client_message")
        if kind is None:
            raise bad_request("'client_message' is not set")
        if kind != "init_request":
            raise bad_request("out of order: the first message of a write session must be an init request")
        request = message.init_request
        _check_init(request)
        entry = await get_topic(services.schemes, resolve_path(call.database, None, request.path))
        if entry.body.table is not None:
            raise fault(f"cannot write to the topic of a changefeed: '{entry.path}'", status="BAD_REQUEST")
        return cls(services, call, entry, request)

    async def greet(self) -> bytes:
        """Return the InitResponse. Faults: the topic has no such partition."""
        now = await self._engine.now()
        known = None
        if self._producer:
            known = await self._services.topics.reads.producer(self._entry.node, self._producer, now)
        self._partition = self._choose_partition(known)
        if known is not None:
            self._last_seq_no = known.seq_no
        codecs = b"".join(map(wire.varint, self._codecs))
        response = (
            wire.int_field(1, self._last_seq_no)
            + wire.text_field(2, self._id)
            + wire.int_field(3, self._partition)
            + wire.bytes_field(4, wire.bytes_field(1, codecs) if codecs else b"")
        )
        return wire.plain_response(rest=wire.bytes_field(3, response))

    def _choose_partition(self, known: ProducerState | None) -> int:
        request, partitions = self._request, self._entry.body.partitions
        match request.WhichOneof("partitioning"):
            case "partition_id":
                chosen = request.partition_id
            case "partition_with_generation":
                chosen = request.partition_with_generation.partition_id
            case _ if known is not None:
                # A producer stays with its partition as long as its numbers are kept: its messages have one order.
                return min(known.partition, partitions - 1)
            case _:
                digest = blake2b((self._producer or self._id).encode(), digest_size=8).digest()
                return int.from_bytes(digest, "big") % partitions
        if not 0 <= chosen < partitions:
            raise missing_partition(chosen, self.path)
        return int(chosen)

    async def answer(self, taken: Sequence[Received]) -> AsyncIterator[bytes]:
        """Yield the answers to requests, acks in the order of their messages. What comes before a refused request is written."""
        group: Portion | None = None
        refusal: Fault | None = None
        # From the front on, so that what is parsed does not wait in memory beside its request.
        for each in taken:
            try:
                if each.request.WhichOneof("client_message") == "update_token_request":
                    await self._services.accounts.authenticate(
                        each.request.update_token_request.token, await self._engine.now()
                    )
                    if group is not None:
                        yield await self._write(group)
                        group = None
                    yield wire.plain_response(rest=wire.bytes_field(5, b""))
                    continue
                async for part in self._parse(each.request):
                    if group is not None and not _joins(group, part):
                        yield await self._write(group)
                        group = None
                    if group is None:
                        group = part
                    else:
                        group.messages += part.messages
                        group.size += part.size
            except Fault as error:
                refusal = error
                break
        if group is not None:
            yield await self._write(group)
        if refusal is not None:
            raise refusal

    async def _parse(self, message: Any) -> AsyncIterator[Portion]:
        """Yield the messages of a request in groups that one commit can take. Faults: the first violation."""
        kind = message.WhichOneof("client_message")
        if kind == "init_request":
            raise bad_request("got second init request")
        if kind is None:
            raise bad_request("'client_message' is not set")
        request = message.write_request
        if not request.messages:
            raise bad_request("messages meta repeated field is empty, write request contains no messages")
        self._check_codec(request.codec)
        tx = (request.tx.session, request.tx.id) if request.HasField("tx") else None
        last = 0
        for number, part in enumerate(_slices(request.messages)):
            if number:
                await asyncio.sleep(0)
            group = Portion(request.codec, tx, [])
            for each in part:
                if each.seq_no <= last:
                    raise bad_request(
                        "bad write request - 'sequence_numbers' items must be positive and strictly ascending, "
                        f"value {each.seq_no} is not greater than previous value {last}"
                    )
                last = each.seq_no
                checked = self._check_message(each)
                group.messages.append(checked)
                group.size += checked.held_bytes
            yield group

    def _check_codec(self, codec: int) -> None:
        with refuse_invalid("BAD_REQUEST"):
            check_codec(codec)
        if self._codecs and codec not in self._codecs:
            raise bad_request(
                f"bad write request - codec {codec_name(codec)} is not in the topic's list of supported codecs"
            )

    def _check_message(self, given: Any) -> TopicMessage:
        metadata: tuple[tuple[str, bytes], ...] = ()
        if given.metadata_items:
            if len(given.metadata_items) > MAX_METADATA_ITEMS:
                raise bad_request(
                    f"Too many metadata items: {len(given.metadata_items)}, limit is {MAX_METADATA_ITEMS}"
                )
            metadata = tuple([(each.key, each.value) for each in given.metadata_items])
            size = sum([len(key.encode()) + len(value) for key, value in metadata])
            if size > MAX_METADATA_BYTES:
                raise bad_request(f"Metadata size {size} is bigger than limit {MAX_METADATA_BYTES}")
        if given.WhichOneof("partitioning") is not None:
            self._check_place(given)
        data: bytes = given.data
        if len(data) > MAX_MESSAGE_BYTES:
            raise bad_request(f"Too big message: {len(data)} bytes, limit is {MAX_MESSAGE_BYTES}")
        created = given.created_at
        return TopicMessage(
            data, given.seq_no, created.seconds * SECOND + created.nanos // 1000, given.uncompressed_size, metadata
        )

    def _check_place(self, given: Any) -> None:
        """Check that a message names the partition of its session, if it names any."""
        match given.WhichOneof("partitioning"):
            case "message_group_id":
                same = given.message_group_id == self._producer
            case "partition_id":
                same = given.partition_id == self._partition
            case _:
                same = given.partition_with_generation.partition_id == self._partition
        if not same:
            raise unsupported("A message for another partition than that of its write session")

    async def _write(self, group: Portion) -> bytes:
        """Append messages, and return their acks. Faults: the topic is gone, or cannot take them any more."""
        now = await self._engine.now()
        if group.tx is not None:
            await self._write_later(group, *group.tx)
            acks = [wire.bytes_field(1, wire.int_field(1, each.seq_no) + _IN_TX) for each in group.messages]
        else:

            def body(transaction: WriteTransaction) -> Steps[list[Ack]]:
                return self._append(transaction, group)

            try:
                acks = list(map(_ack, await self._engine.transact(body, now, size=1 + group.size // COMMIT_BYTES)))
            except OwnerNotFound:
                raise missing_topic(self.path) from None
        self._last_seq_no = group.messages[-1].seq_no
        # Durations of 0: nothing waits for a quota here.
        response = b"".join(acks) + wire.int_field(2, self._partition) + _STATISTICS
        return wire.plain_response(rest=wire.bytes_field(4, response))

    async def _write_later(self, group: Portion, session: str, id: str) -> None:
        """Have messages appended at the commit of a transaction of tables."""
        transaction = await find_transaction(self._services, self._call, session, id)

        def body(later: WriteTransaction) -> Steps[None]:
            yield from self._append(later, group)

        transaction.add_body(body, group.size)

    def _append(self, transaction: WriteTransaction, group: Portion) -> Steps[list[Ack]]:
        topic = (yield from transaction.on(self._entry.node.id)).node
        body = topic_body(topic)
        self._check_topic(body, group.codec)
        producer = self._producer
        known = (yield from read_producer(transaction, body.state, producer)) if producer else None
        least = 0 if known is None else known.seq_no
        messages = group.messages
        if least >= messages[0].seq_no:
            messages = [each for each in messages if each.seq_no > least]
        offset = 0
        if messages:
            offset = yield from append(
                transaction,
                topic.id,
                body.state,
                self._partition,
                messages,
                group.codec,
                producer,
                producer,
                self._meta,
            )
            if producer:
                yield from put_producer(
                    transaction, body.state, producer, ProducerState(self._partition, messages[-1].seq_no)
                )
        skipped: list[Ack] = [(each.seq_no, None) for each in group.messages[: len(group.messages) - len(messages)]]
        return skipped + [(each.seq_no, offset + place) for place, each in enumerate(messages)]

    def _check_topic(self, body: TopicBody, codec: int) -> None:
        """Check that the topic still takes these messages: it may have been altered since the stream began."""
        if body.codecs and codec not in body.codecs:
            raise bad_request(
                f"bad write request - codec {codec_name(codec)} is not in the topic's list of supported codecs"
            )


def _check_init(request: Any) -> None:
    if not request.path:
        raise bad_request("no topic in init request")
    producer, chosen = request.producer_id, request.WhichOneof("partitioning")
    if len(producer.encode()) > MAX_PRODUCER:
        raise bad_request(f"producer_id is too long: {len(producer.encode())} bytes, limit is {MAX_PRODUCER}")
    in_group = chosen == "message_group_id" and request.message_group_id == producer
    if not (in_group or chosen in ("partition_id", "partition_with_generation") or (chosen is None and not producer)):
        raise bad_request("unsupported producer_id / message_group_id / partition_id settings in init request")
    size = sum(len(key.encode()) + len(value.encode()) for key, value in request.write_session_meta.items())
    if size > MAX_META_BYTES:
        raise bad_request(f"write_session_meta is too large: {size} bytes, limit is {MAX_META_BYTES}")


def _joins(group: Portion, part: Portion) -> bool:
    return (
        group.codec == part.codec
        and group.tx == part.tx
        and len(group.messages) + len(part.messages) <= COMMIT_MESSAGES
        and group.size + part.size <= COMMIT_BYTES
        and group.messages[-1].seq_no < part.messages[0].seq_no
    )


def _slices(messages: Any) -> Iterator[list[Any]]:
    """Yield messages in groups of limited count, size and metadata."""
    part: list[Any] = []
    size = items = 0
    for each in messages:
        length, described = len(each.data), len(each.metadata_items)
        if part and (len(part) >= SLICE or size + length > COMMIT_BYTES or items + described > MAX_METADATA_ITEMS):
            yield part
            part, size, items = [], 0, 0
        part.append(each)
        size += length
        items += described
    yield part


_IN_TX: Final = wire.bytes_field(4, b"")
_SKIPPED: Final = wire.bytes_field(3, wire.int_field(1, 1))
_STATISTICS: Final = wire.bytes_field(3, b"".join(wire.bytes_field(field, b"") for field in range(1, 6)))


def _ack(ack: Ack) -> bytes:
    seq_no, offset = ack
    how = _SKIPPED if offset is None else wire.bytes_field(2, wire.int_field(1, offset))
    return wire.bytes_field(1, wire.int_field(1, seq_no) + how)
