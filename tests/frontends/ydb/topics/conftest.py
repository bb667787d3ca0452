"""Topics of one server per module, as bytes go over the wire."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from mayflydb.embedded import RunningServer
from ydb_raw import Conversation, Raw, connected

SERVICE = "Ydb.Topic.V1.TopicService"
_names = count(1)


class Topic:
    """A topic of the test's own, with the consumer `c`."""

    def __init__(self, raw: Raw, path: str) -> None:
        self.raw = raw
        self.path = path
        self._streams: list[Conversation] = []

    def call(self, method: str, **fields: Any) -> Any:
        """The operation of an answer."""
        return self.raw.ask(f"{SERVICE}/{method}", path=self.path, **fields).operation

    def describe(self, **fields: Any) -> Any:
        return self.raw.result(f"{SERVICE}/DescribeTopic", "Ydb.Topic.DescribeTopicResult", path=self.path, **fields)

    def describe_consumer(self, consumer: str = "c") -> Any:
        return self.raw.result(
            f"{SERVICE}/DescribeConsumer",
            "Ydb.Topic.DescribeConsumerResult",
            path=self.path,
            consumer=consumer,
            include_stats=True,
        )

    def stream(self, method: str) -> Conversation:
        found = self.raw.converse(f"{SERVICE}/{method}")
        self._streams.append(found)
        return found

    def writer(self, **init: Any) -> Conversation:
        """A write session that has been greeted; by default without a producer, for partition 0."""
        stream = self.stream("StreamWrite").ask(init_request={"path": self.path, **(init or {"partition_id": 0})})
        stream.get("init_response")
        return stream

    def put(self, *texts: str, partition: int = 0) -> list[int]:
        """Write messages, and return their offsets."""
        stream = self.writer(partition_id=partition)
        write(stream, *texts)
        offsets = acks(stream, len(texts))
        stream.end()
        return [each.written.offset for each in offsets]

    def reader(self, consumer: str = "c", bytes_size: int = 1 << 20, **settings: Any) -> Conversation:
        """A read session that has been greeted and asks for bytes."""
        stream = self.stream("StreamRead")
        stream.ask(init_request={"consumer": consumer, "topics_read_settings": [{"path": self.path, **settings}]})
        stream.get("init_response")
        if bytes_size:
            stream.ask(read_request={"bytes_size": bytes_size})
        return stream

    def close(self) -> None:
        for each in self._streams:
            each.close()


def write(stream: Conversation, *texts: str, first: int = 1, codec: int = 1, **fields: Any) -> None:
    """Send one write request with messages numbered from `first`."""
    messages = [{"seq_no": first + place, "data": text.encode()} for place, text in enumerate(texts)]
    stream.ask(write_request={"codec": codec, "messages": messages, **fields})


def acks(stream: Conversation, count: int) -> list[Any]:
    """The next acks, from as many responses as they take."""
    found: list[Any] = []
    while len(found) < count:
        found += stream.get("write_response").acks
    return found


def start(stream: Conversation, **fields: Any) -> Any:
    """Take the next partition, and return the request that gave it."""
    request = stream.get("start_partition_session_request")
    id = request.partition_session.partition_session_id
    stream.ask(start_partition_session_response={"partition_session_id": id, **fields})
    return request


def texts(response: Any) -> list[tuple[int, str]]:
    """(offset, text) of the messages in a read response."""
    return [
        (each.offset, each.data.decode())
        for data in response.partition_data
        for batch in data.batches
        for each in batch.message_data
    ]


def read(stream: Conversation, count: int) -> list[tuple[int, str]]:
    """The next messages, from as many responses as they take."""
    found: list[tuple[int, str]] = []
    while len(found) < count:
        found += texts(stream.get("read_response"))
    return found


@pytest.fixture(scope="module")
def raw(ydb_server: RunningServer) -> Iterator[Raw]:
    with connected(ydb_server.ydb.endpoint) as channel:
        yield channel


@pytest.fixture
def topic(raw: Raw) -> Iterator[Topic]:
    found = Topic(raw, f"topics/t{next(_names)}")
    made = found.call("CreateTopic", consumers=[{"name": "c"}])
    assert made.status == 400000, made
    yield found
    found.close()
