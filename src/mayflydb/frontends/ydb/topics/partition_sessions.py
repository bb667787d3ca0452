"""A partition as one read session has it."""

from __future__ import annotations

from typing import Final, Literal

from mayflydb.frontends.ydb import wire
from mayflydb.frontends.ydb.topics.bodies import MessageBatch, TopicMessage
from mayflydb.frontends.ydb.topics.commits import Commits
from mayflydb.frontends.ydb.topics.topics_read import TopicRead
from mayflydb.model.instant import SECOND, Instant

Phase = Literal["new", "starting", "active", "stopping"]

RESPONSE_BYTES: Final = 256 << 10
RESPONSE_MESSAGES: Final = 300
"""Limits of one ReadResponse, unless a single message is larger."""


class PartitionSession:
    """One partition session. `offset`: that of the next message to send. `end`: the partition's, as far as it is known.

    `new`: nothing was sent; `starting`: the client has not answered; `stopping`: the client is to let go of it.
    """

    __slots__ = (
        "batch_limit", "commits", "end", "id", "last_read", "offset", "partition", "phase", "read", "since",
    )  # fmt: skip

    def __init__(self, id: int, read: TopicRead, partition: int, since: Instant) -> None:
        self.id = id
        self.read = read
        self.partition = partition
        self.since = since
        self.phase: Phase = "new"
        self.commits = Commits(0)
        self.offset = 0
        self.end = 0
        self.last_read: Instant = 0
        self.batch_limit = 1

    def pack(self, batches: list[MessageBatch], budget: int) -> bytes:
        """Return the content of a ReadResponse with the messages from `offset` on that it can take, and note the next offset.
        `budget`: bytes after which no further message is added. What is left over is to be read again: it may expire until then.
        """
        packed: list[bytes] = []
        count = size = 0
        for batch in batches:
            content: list[bytes] = []
            place = max(0, self.offset - batch.first)
            while place < len(batch.messages) and count < RESPONSE_MESSAGES and size < min(budget, RESPONSE_BYTES):
                message = pack_message(batch, place)
                content.append(message)
                size += len(message)
                count += 1
                place += 1
            if content:
                self.offset = batch.first + place
                packed.append(wire.bytes_field(2, b"".join(content) + pack_batch_fields(batch)))
            if place < len(batch.messages):
                break
        return b"".join((wire.int_field(1, self.id), *packed))


def pack_message(batch: MessageBatch, place: int) -> bytes:
    """Encode a MessageData, as a field of its batch."""
    message: TopicMessage = batch.messages[place]
    content = [
        wire.int_field(1, batch.first + place),
        wire.int_field(2, message.seq_no),
        wire.bytes_field(3, timestamp(message.created)),
        wire.bytes_field(5, message.data),
        wire.int_field(6, message.size),
        wire.text_field(7, batch.group),
    ]
    for key, value in message.metadata:
        content.append(wire.bytes_field(8, wire.text_field(1, key) + wire.bytes_field(2, value)))
    return wire.bytes_field(1, b"".join(content))


def pack_batch_fields(batch: MessageBatch) -> bytes:
    """Encode the fields of a batch behind its messages."""
    meta = [
        wire.bytes_field(3, wire.text_field(1, key) + wire.text_field(2, value)) for key, value in batch.meta.items()
    ]
    return b"".join(
        (
            wire.text_field(2, batch.producer),
            *meta,
            wire.int_field(4, batch.codec),
            wire.bytes_field(5, timestamp(batch.written)),
        )
    )


def timestamp(instant: Instant) -> bytes:
    """Encode the content of a Timestamp."""
    return wire.int_field(1, instant // SECOND) + wire.int_field(2, instant % SECOND * 1000)
