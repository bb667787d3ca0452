"""Messages end by the retention of their topic, on every store and at exact instants."""

from __future__ import annotations

from typing import Any

import pytest

from frontends.ydb.topics.conftest import Topic, acks, read, start, write
from mayflydb.embedded import RunningServer
from stores import STORES

pytestmark = [pytest.mark.everywhere, pytest.mark.parametrize("ydb_server", STORES, indirect=True)]

HOUR = 3600


def offsets(topic: Topic, partition: int = 0) -> tuple[int, int]:
    stats = topic.describe(include_stats=True).partitions[partition].partition_stats
    return stats.partition_offsets.start, stats.partition_offsets.end


def keep_for(topic: Topic, seconds: int) -> None:
    assert topic.call("AlterTopic", set_retention_period={"seconds": seconds}).status == 400000


@pytest.mark.parametrize(("microseconds", "first"), [(-1, 0), (0, 2), (1, 2)])
def test_messages_end_exactly_when_their_time_is_over(
    topic: Topic, ydb_server: RunningServer, microseconds: int, first: int
) -> None:
    keep_for(topic, HOUR)
    topic.put("old", "old too")
    ydb_server.clock.advance(f"{HOUR * 1_000_000 + microseconds}us")
    topic.put("new")
    assert offsets(topic) == (first, 3)
    stream = topic.reader()
    request = start(stream)
    assert (request.committed_offset, request.partition_offsets.start, request.partition_offsets.end) == (0, 0, 3)
    assert [offset for offset, _ in read(stream, 3 - first)] == list(range(first, 3))
    # A client commits over the hole, from where it stands.
    commit = {"partition_session_id": 1, "offsets": [{"start": 0, "end": first + 1}]}
    stream.ask(commit_offset_request={"commit_offsets": [commit]})
    answer = stream.get("commit_offset_response").partitions_committed_offsets
    assert [each.committed_offset for each in answer] == [first + 1]


def test_offsets_are_never_used_again(topic: Topic, ydb_server: RunningServer) -> None:
    keep_for(topic, HOUR)
    topic.put("a", "b")
    ydb_server.clock.advance(hours=2)
    assert offsets(topic) == (2, 2)
    assert topic.describe(include_stats=True).topic_stats.store_size_bytes == 0
    assert topic.put("c") == [2]
    ydb_server.clock.advance(hours=2)
    assert offsets(topic) == (3, 3)
    stream = topic.reader()
    assert start(stream).committed_offset == 0
    topic.put("d")
    assert read(stream, 1) == [(3, "d")]


def test_retention_counts_from_the_write_and_changes_at_once(topic: Topic, ydb_server: RunningServer) -> None:
    keep_for(topic, HOUR)
    topic.put("a")
    ydb_server.clock.advance(minutes=30)
    topic.put("b")
    keep_for(topic, 1801)
    assert offsets(topic) == (0, 2)
    keep_for(topic, 1800)
    assert offsets(topic) == (1, 2)
    # What has expired stays so, whether it was purged or not.
    ydb_server.clock.advance(seconds=1)
    keep_for(topic, 2 * HOUR)
    assert offsets(topic) == (1, 2)


def test_what_a_client_has_not_asked_for_expires_meanwhile(topic: Topic, ydb_server: RunningServer) -> None:
    keep_for(topic, HOUR)
    stream = topic.writer()
    write(stream, *(str(number) * 50 for number in range(8)))
    acks(stream, 8)
    reader = topic.reader(bytes_size=1)
    start(reader)
    assert read(reader, 1)[0][0] == 0
    ydb_server.clock.advance(hours=1)
    topic.put("new")
    reader.ask(read_request={"bytes_size": 1000})
    assert read(reader, 1) == [(8, "new")]


@pytest.mark.parametrize(
    ("settings", "first"),
    [
        ({"read_from": 7200}, 2), ({"read_from": 7199}, 2), ({"read_from": 7201}, 3), ({"read_from": 99999}, 3),
        ({"max_lag": 0}, 3), ({"max_lag": 3600}, 2), ({"max_lag": 3599}, 3), ({"max_lag": 10800}, 0),
    ],
)  # fmt: skip
def test_a_session_skips_what_is_older(
    topic: Topic, ydb_server: RunningServer, settings: dict[str, int], first: int
) -> None:
    began = topic.describe().self.created_at.plan_step // 1000
    for hour in range(3):
        topic.put(str(hour))
        ydb_server.clock.advance(hours=1)
    # Now is three hours after the beginning; the last message is one hour old.
    ((name, seconds),) = settings.items()
    found: dict[str, Any] = {name: {"seconds": seconds + (began if name == "read_from" else 0)}}
    stream = topic.reader(**found)
    assert start(stream).committed_offset == 0
    topic.put("3")
    assert read(stream, 4 - first) == [(offset, str(offset)) for offset in range(first, 4)]


def test_a_new_consumer_begins_where_it_is_told(topic: Topic, ydb_server: RunningServer) -> None:
    began = topic.describe().self.created_at.plan_step // 1000
    topic.put("0")
    ydb_server.clock.advance(hours=1)
    topic.put("1")
    topic.call("AlterTopic", add_consumers=[{"name": "later", "read_from": {"seconds": began + HOUR}}])
    stream = topic.reader("later")
    assert start(stream).committed_offset == 0
    assert read(stream, 1) == [(1, "1")]


@pytest.mark.parametrize(("days", "last"), [(13, 5), (14, 0)])
def test_a_producer_is_forgotten(topic: Topic, ydb_server: RunningServer, days: int, last: int) -> None:
    init = {"producer_id": "p", "message_group_id": "p"}
    stream = topic.writer(**init)
    write(stream, "a", first=5)
    acks(stream, 1)
    ydb_server.clock.advance(days=days)
    again = topic.stream("StreamWrite").ask(init_request={"path": topic.path, **init})
    assert again.get("init_response").last_seq_no == last
    write(again, "a", first=5)
    found: Any = acks(again, 1)[0]
    assert found.WhichOneof("message_write_status") == ("skipped" if last else "written")
    if not last:
        assert found.written.offset == 1


def test_bytes_of_what_is_kept_are_told(topic: Topic, ydb_server: RunningServer) -> None:
    topic.put("x" * 1000)
    one = topic.describe(include_stats=True).topic_stats
    assert 1000 <= one.store_size_bytes < 1200
    ydb_server.clock.advance(seconds=60)
    topic.put("x" * 1000)
    two = topic.describe(include_stats=True).topic_stats
    assert 2000 <= two.store_size_bytes < 2400
    assert two.bytes_written.per_hour == two.store_size_bytes
    assert two.bytes_written.per_minute == two.store_size_bytes - one.store_size_bytes
