"""The stored body of a topic's node, and what is encoded into the records of a topic.

Sources: `ydb_topic.proto` of https://github.com/ydb-platform/ydb-api-protos, https://ydb.tech/docs/en/concepts/topic.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from mayflydb.engine.catalog import Node
from mayflydb.model.instant import Instant

RAW: Final = 1
"""The codec of messages that are not compressed."""

CODEC_NAMES: Final = {1: "raw", 2: "gzip", 3: "lzop", 4: "zstd"}
"""Codecs by number. A topic stores messages as they came, in any codec: only clients compress. Own ones: 10000 to 19999."""

# Bodies are stored in the catalogue: fields may be added with defaults, and not renamed.


class Consumer(msgspec.Struct, frozen=True, omit_defaults=True):
    """A consumer. `read_from`: it begins at the first message written then or later. `codecs` empty: any.

    `number`: the version of the topic that has added it. A consumer that is dropped and added again has another one, and what the
    first one has committed is not found under it.
    """

    name: str
    read_from: Instant = 0
    codecs: tuple[int, ...] = ()
    attributes: dict[str, str] = {}
    number: int = 0


class TopicBody(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="topic"):
    """The body of a topic. `state`: the container of what the topic knows of partitions, producers and consumers.

    `retention`: seconds. `max_partitions`, `write_speed`, `write_burst`, `metering`: stored and described, without effect.
    `partition_count_limit`, which YDB has deprecated, is checked and not stored. `codecs` empty: any.
    `table`: the table whose changefeed writes into the topic; None: clients do.
    """

    state: int
    partitions: int = 1
    retention: int = 18 * 3600
    codecs: tuple[int, ...] = ()
    consumers: tuple[Consumer, ...] = ()
    attributes: dict[str, str] = {}
    max_partitions: int = 0
    write_speed: int = 0
    write_burst: int = 0
    metering: Literal[0, 1, 2] = 0
    table: int | None = None
    created: int = 0
    owner: str = "root@builtin"
    permissions: dict[str, tuple[str, ...]] = {}

    def consumer(self, name: str) -> Consumer | None:
        """Return the consumer of this name; None if there is none."""
        return next((each for each in self.consumers if each.name == name), None)


def topic_body(node: Node) -> TopicBody:
    """Return the body of a topic's node."""
    return msgspec.convert(node.body, TopicBody)


# --- records ---------------------------------------------------------------------------------------------------------


MESSAGE_BYTES: Final = 96
"""Bytes that a message takes beside its data and metadata, about."""

METADATA_ITEM_BYTES: Final = 32
"""Bytes that an item of metadata takes beside its key and value, about."""


class TopicMessage(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One message. `created`: the producer's own instant. `size`: of the data before compression, as the producer says."""

    data: bytes
    seq_no: int = 0
    created: Instant = 0
    size: int = 0
    metadata: tuple[tuple[str, bytes], ...] = ()

    @property
    def held_bytes(self) -> int:
        """The bytes that the message takes in memory, about."""
        size = len(self.data) + MESSAGE_BYTES
        if self.metadata:
            size += sum([len(key) + len(value) + METADATA_ITEM_BYTES for key, value in self.metadata])
        return size


class MessageBatch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Messages of one producer that were written together: the value of one record of a topic.

    The first one has the offset `first`, each other one the next. `group`: the message group. `written`: the instant of the
    write. `before`: the bytes that were written into the partition before it, in all time.
    """

    partition: int
    first: int
    written: Instant
    messages: tuple[TopicMessage, ...]
    codec: int = RAW
    producer: str = ""
    group: str = ""
    meta: dict[str, str] = {}
    before: int = 0

    @property
    def end(self) -> int:
        """The offset behind the last message."""
        return self.first + len(self.messages)


class PartitionState(msgspec.Struct, frozen=True, array_like=True):
    """The stored state of a partition. `end`: the offset of the next message. `size`: bytes written in all time.

    `written`: the instant of the last write.
    """

    end: int = 0
    size: int = 0
    written: Instant = 0


class ProducerState(msgspec.Struct, frozen=True, array_like=True):
    """The stored state of a producer: its partition, and the number of its last message."""

    partition: int
    seq_no: int


class ConsumerState(msgspec.Struct, frozen=True, array_like=True):
    """The stored state of a consumer in a partition: the offset up to which it has committed."""

    committed: int


encode = msgspec.msgpack.Encoder().encode
decode_batch = msgspec.msgpack.Decoder(MessageBatch).decode
decode_partition = msgspec.msgpack.Decoder(PartitionState).decode
decode_producer = msgspec.msgpack.Decoder(ProducerState).decode
decode_consumer = msgspec.msgpack.Decoder(ConsumerState).decode
