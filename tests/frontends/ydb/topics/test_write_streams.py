"""StreamWrite, message by message."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from frontends.ydb.topics.conftest import Topic, acks, start, write

BAD_REQUEST, SCHEME_ERROR = 400010, 400070


@pytest.mark.parametrize(
    ("init", "status", "text"),
    [
        ({}, BAD_REQUEST, "no topic in init request"),
        ({"path": "topics/none"}, SCHEME_ERROR, "no path '/local/topics/none', Marker# PQ15"),
        ({"path": "topics"}, SCHEME_ERROR, "item '/local/topics' is not a topic, Marker# PQ13"),
        ({"producer_id": "p"}, BAD_REQUEST, "unsupported producer_id / message_group_id / partition_id"),
        ({"producer_id": "p", "message_group_id": "q"}, BAD_REQUEST, "unsupported producer_id / message_group_id"),
        ({"message_group_id": "q"}, BAD_REQUEST, "unsupported producer_id / message_group_id"),
        ({"partition_id": 1}, BAD_REQUEST, "no partition 1 in topic /local/topics/"),
        ({"partition_id": -1}, BAD_REQUEST, "no partition -1 in topic /local/topics/"),
        ({"partition_with_generation": {"partition_id": 1}}, BAD_REQUEST, "no partition 1 in topic"),
        ({"producer_id": "p" * 2049, "message_group_id": "p" * 2049}, BAD_REQUEST, "producer_id is too long: 2049"),
    ],
)
def test_init_requests_that_are_refused(topic: Topic, init: dict[str, Any], status: int, text: str) -> None:
    request = init if not init or "path" in init else {"path": topic.path, **init}
    found = topic.stream("StreamWrite").ask(init_request=request).refusal()
    assert found[0] == status
    assert found[1].startswith(text)


@pytest.mark.parametrize(
    ("init", "partition"),
    [
        ({}, 0),
        ({"producer_id": "p", "message_group_id": "p"}, 0),
        ({"producer_id": "p" * 2048, "message_group_id": "p" * 2048}, 0),
        ({"producer_id": "p", "partition_id": 0}, 0),
        ({"partition_id": 0}, 0),
        ({"producer_id": "p", "partition_with_generation": {"partition_id": 0, "generation": 1}}, 0),
    ],
)
def test_init_requests_that_are_taken(topic: Topic, init: dict[str, Any], partition: int) -> None:
    stream = topic.stream("StreamWrite").ask(init_request={"path": topic.path, **init})
    greeting = stream.get("init_response")
    assert (greeting.last_seq_no, greeting.partition_id, len(greeting.session_id) > 0) == (0, partition, True)
    write(stream, "a")
    assert acks(stream, 1)[0].written.offset == 0


def test_what_stands_before_and_after_the_init_request(topic: Topic) -> None:
    stream = topic.stream("StreamWrite")
    stream.end()
    assert stream.refusal() == (BAD_REQUEST, "out of order Writes done before initialization", 500003)
    assert topic.stream("StreamWrite").ask().refusal()[1] == "'client_message' is not set"
    assert topic.stream("StreamWrite").ask(write_request={"codec": 1}).refusal()[0] == BAD_REQUEST
    stream = topic.writer().ask(init_request={"path": topic.path})
    assert stream.refusal()[1] == "got second init request"
    assert topic.writer().ask().refusal()[1] == "'client_message' is not set"


def test_acks_come_in_the_order_of_messages_and_the_stream_ends_well(topic: Topic) -> None:
    stream = topic.writer()
    for number in range(100):
        write(stream, "a", "b", first=2 * number + 1)
    stream.end()
    found: list[Any] = []
    for answer in stream.answers:
        assert answer.status == 400000
        assert answer.write_response.HasField("write_statistics")
        found += answer.write_response.acks
    assert [(each.seq_no, each.written.offset) for each in found] == [(each + 1, each) for each in range(200)]
    assert stream.answers.code() is grpc.StatusCode.OK


def test_messages_of_a_producer_are_stored_once(topic: Topic) -> None:
    init = {"producer_id": "p", "message_group_id": "p"}
    stream = topic.writer(**init)
    write(stream, "a", "b")
    write(stream, "b again", "c", first=2)
    assert [each.WhichOneof("message_write_status") for each in acks(stream, 4)] == [
        "written", "written", "skipped", "written",
    ]  # fmt: skip
    again = topic.stream("StreamWrite").ask(init_request={"path": topic.path, **init, "get_last_seq_no": True})
    assert again.get("init_response").last_seq_no == 3
    # Numbers may be left out, and are not made up for.
    write(again, "j", first=10)
    write(again, "i", first=9)
    found = acks(again, 2)
    assert (found[0].written.offset, found[1].seq_no, found[1].skipped.reason) == (3, 9, 1)
    # Another producer counts by itself, and what has no producer is never a repetition.
    other = topic.writer(producer_id="q", message_group_id="q")
    write(other, "q")
    assert acks(other, 1)[0].written.offset == 4
    assert topic.put("x") + topic.put("x") == [5, 6]


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        ({"codec": 0, "messages": [{"seq_no": 1}]}, "Unknown codec with id 0"),
        ({"codec": 5, "messages": [{"seq_no": 1}]}, "Unknown codec with id 5"),
        ({"codec": 9999, "messages": [{"seq_no": 1}]}, "Unknown codec with id 9999"),
        ({"codec": 20000, "messages": [{"seq_no": 1}]}, "Unknown codec with id 20000"),
        ({"codec": 1}, "messages meta repeated field is empty"),
        ({"codec": 1, "messages": [{"seq_no": 0}]}, "bad write request - 'sequence_numbers' items must be positive"),
        ({"codec": 1, "messages": [{"seq_no": 2}, {"seq_no": 2}]}, "bad write request - 'sequence_numbers' items must"),
        ({"codec": 1, "messages": [{"seq_no": 1, "message_group_id": "q"}]}, "A message for another partition"),
        ({"codec": 1, "messages": [{"seq_no": 1, "partition_id": 1}]}, "A message for another partition"),
        (
            {"codec": 1, "messages": [{"seq_no": 1, "metadata_items": [{"key": "k", "value": b"v" * 4096}]}]},
            "Metadata size 4097 is bigger than limit 4096",
        ),
        ({"codec": 1, "messages": [{"seq_no": 1, "metadata_items": [{}] * 1001}]}, "Too many metadata items: 1001"),
        ({"codec": 1, "messages": [{"seq_no": 1, "data": b"x" * ((12 << 20) + 1)}]}, "Too big message: 12582913"),
    ],
)
def test_write_requests_that_are_refused(topic: Topic, request_: dict[str, Any], text: str) -> None:
    stream = topic.writer()
    # What was sent before is written, and acknowledged before the refusal.
    write(stream, "before")
    stream.ask(write_request=request_)
    assert acks(stream, 1)[0].written.offset == 0
    assert stream.refusal()[1].startswith(text)
    assert topic.put("after") == [1]


def test_what_is_just_allowed(topic: Topic) -> None:
    stream = topic.writer(producer_id="p", message_group_id="p")
    items = [{"key": "k", "value": b"v" * 4095}]
    stream.ask(write_request={"codec": 1, "messages": [{"seq_no": 1, "metadata_items": items}]})
    stream.ask(write_request={"codec": 10000, "messages": [{"seq_no": 2, "metadata_items": [{}] * 1000}]})
    stream.ask(write_request={"codec": 19999, "messages": [{"seq_no": 3, "data": b"x" * (12 << 20)}]})
    stream.ask(write_request={"codec": 4, "messages": [{"seq_no": 4, "message_group_id": "p"}]})
    assert [each.written.offset for each in acks(stream, 4)] == [0, 1, 2, 3]
    reader = topic.reader(bytes_size=64 << 20)
    start(reader)
    found: list[tuple[int, int, int]] = []
    while len(found) < 4:
        for data in reader.get("read_response").partition_data:
            for batch in data.batches:
                found += [(batch.codec, len(each.data), len(each.metadata_items)) for each in batch.message_data]
    assert found == [(1, 0, 1), (10000, 0, 1000), (19999, 12 << 20, 0), (4, 0, 0)]


def test_codecs_of_the_topic(topic: Topic) -> None:
    assert topic.call("AlterTopic", set_supported_codecs={"codecs": [1, 2]}).status == 400000
    stream = topic.stream("StreamWrite").ask(init_request={"path": topic.path, "partition_id": 0})
    assert list(stream.get("init_response").supported_codecs.codecs) == [1, 2]
    write(stream, "gzip", codec=2)
    assert acks(stream, 1)[0].written.offset == 0
    write(stream, "zstd", first=2, codec=4)
    assert "codec zstd is not in the topic's list" in stream.refusal()[1]
    # The list may change while a stream is open.
    stream = topic.writer()
    write(stream, "gzip", codec=2)
    acks(stream, 1)
    topic.call("AlterTopic", set_supported_codecs={"codecs": [1]})
    write(stream, "gzip", first=2, codec=2)
    assert stream.refusal()[0] == BAD_REQUEST


def test_a_message_group_stays_with_its_partition(topic: Topic) -> None:
    topic.call("AlterTopic", alter_partitioning_settings={"set_min_active_partitions": 4})

    def partition_of(group: str) -> int:
        stream = topic.stream("StreamWrite")
        stream.ask(init_request={"path": topic.path, "producer_id": group, "message_group_id": group})
        found: int = stream.get("init_response").partition_id
        write(stream, "m", first=stream_number(group))
        acks(stream, 1)
        return found

    numbers: dict[str, int] = {}

    def stream_number(group: str) -> int:
        numbers[group] = numbers.get(group, 0) + 1
        return numbers[group]

    before = {f"g{number}": partition_of(f"g{number}") for number in range(20)}
    assert set(before.values()) == {0, 1, 2, 3}
    topic.call("AlterTopic", alter_partitioning_settings={"set_min_active_partitions": 7})
    assert {group: partition_of(group) for group in before} == before
    # One that names its partition is bound to it as well.
    stream = topic.writer(producer_id="chosen", partition_id=6)
    write(stream, "m")
    acks(stream, 1)
    assert partition_of("chosen") == 6


def test_a_dropped_topic_ends_its_writers(topic: Topic) -> None:
    stream = topic.writer()
    write(stream, "a")
    acks(stream, 1)
    topic.call("DropTopic")
    write(stream, "b", first=2)
    assert stream.refusal()[0] == SCHEME_ERROR


def test_tokens_are_renewed(topic: Topic) -> None:
    stream = topic.writer()
    write(stream, "a")
    stream.ask(update_token_request={"token": "t"})
    write(stream, "b", first=2)
    kinds = [stream.receive().WhichOneof("server_message") for _ in range(3)]
    assert kinds == ["write_response", "update_token_response", "write_response"]


def test_everything_that_was_said_of_a_message_is_read(topic: Topic) -> None:
    stream = topic.writer(producer_id="p", message_group_id="p", write_session_meta={"host": "h"})
    message = {
        "seq_no": 7,
        "created_at": {"seconds": 5, "nanos": 1000},
        "data": b"\0\xff",
        "uncompressed_size": 9,
        "metadata_items": [{"key": "k", "value": b"v"}, {"key": "k"}],
    }
    stream.ask(write_request={"codec": 2, "messages": [message]})
    acks(stream, 1)
    reader = topic.reader()
    start(reader)
    answer = reader.get("read_response")
    batch = answer.partition_data[0].batches[0]
    assert answer.bytes_size > 0
    assert (batch.codec, batch.producer_id, dict(batch.write_session_meta)) == (2, "p", {"host": "h"})
    assert batch.written_at.seconds > 1_893_456_000 - 1
    found = batch.message_data[0]
    assert (found.seq_no, found.created_at.seconds, found.created_at.nanos, found.data) == (7, 5, 1000, b"\0\xff")
    assert (found.uncompressed_size, found.message_group_id) == (9, "p")
    assert [(each.key, each.value) for each in found.metadata_items] == [("k", b"v"), ("k", b"")]


def test_requests_that_cannot_be_read(topic: Topic) -> None:
    stream = topic.writer()
    stream.send(b"\xff\xff")
    assert stream.refusal() == (BAD_REQUEST, "The request cannot be read.", 0)
