"""StreamRead, message by message: partitions, flow control, commits, and the balance between sessions."""

from __future__ import annotations

from typing import Any

import pytest

from frontends.ydb.topics.conftest import Topic, acks, read, start, texts, write

BAD_REQUEST, SCHEME_ERROR, UNSUPPORTED = 400010, 400070, 400180
DOUBLE = "offsets range [{}, {}) has already committed offsets, double committing is forbiden or incorrect"


def commit(stream: Any, session: int, *ranges: tuple[int, int]) -> None:
    offsets = [{"start": first, "end": end} for first, end in ranges]
    stream.ask(commit_offset_request={"commit_offsets": [{"partition_session_id": session, "offsets": offsets}]})


def committed(stream: Any) -> list[tuple[int, int]]:
    answer = stream.get("commit_offset_response")
    return [(each.partition_session_id, each.committed_offset) for each in answer.partitions_committed_offsets]


def spread(topic: Topic, partitions: int) -> None:
    assert (
        topic.call("AlterTopic", alter_partitioning_settings={"set_min_active_partitions": partitions}).status == 400000
    )


# --- init ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("init", "status", "text"),
    [
        ({"consumer": "c"}, BAD_REQUEST, "no topics in init request"),
        ({"consumer": "c", "topics_read_settings": [{}]}, BAD_REQUEST, "empty topic in init request"),
        (
            {"consumer": "c", "topics_read_settings": [{"path": "T"}, {"path": "T"}]},
            BAD_REQUEST,
            "topic 'T' is named twice in init request",
        ),
        (
            {"consumer": "c", "topics_read_settings": [{"path": "topics/none"}]},
            SCHEME_ERROR,
            "no path '/local/topics/none', Marker# PQ15",
        ),
        (
            {"consumer": "c", "topics_read_settings": [{"path": "T"}, {"path": "topics/none"}]},
            SCHEME_ERROR,
            "Discovery for all topics failed. The last error was: no path '/local/topics/none', Marker# PQ15",
        ),
        (
            {"consumer": "c", "topics_read_settings": [{"path": "topics"}]},
            SCHEME_ERROR,
            "item '/local/topics' is not a topic, Marker# PQ13",
        ),
        (
            {"consumer": "d", "topics_read_settings": [{"path": "T"}]},
            BAD_REQUEST,
            "no read rule provided for consumer 'd' in topic '/local/T' in current cluster ''",
        ),
        (
            {"topics_read_settings": [{"path": "T"}]},
            BAD_REQUEST,
            "explicitly specify the partitions when reading without a consumer",
        ),
        (
            {"consumer": "c", "topics_read_settings": [{"path": "T", "partition_ids": [-1]}]},
            BAD_REQUEST,
            "partition id must be nonnegative number",
        ),
        (
            {"consumer": "c", "topics_read_settings": [{"path": "T", "partition_ids": [0, 1]}]},
            BAD_REQUEST,
            "no partition 1 in topic /local/T",
        ),
        (
            {"consumer": "c", "topics_read_settings": [{"path": "T"}], "direct_read": True},
            UNSUPPORTED,
            "direct_read is not supported",
        ),
    ],
)
def test_init_requests_that_are_refused(topic: Topic, init: dict[str, Any], status: int, text: str) -> None:
    settings = [
        {name: topic.path if value == "T" else value for name, value in each.items()}
        for each in init.get("topics_read_settings", [])
    ]
    request = {**init, **({"topics_read_settings": settings} if settings else {})}
    found = topic.stream("StreamRead").ask(init_request=request).refusal()
    assert found[:2] == (status, text.replace("/T", f"/{topic.path}").replace("'T'", f"'{topic.path}'"))


def test_what_stands_before_and_after_the_init_request(topic: Topic) -> None:
    assert topic.stream("StreamRead").ask().refusal()[1] == "'client_message' is not set"
    assert topic.stream("StreamRead").ask(read_request={"bytes_size": 1}).refusal()[0] == BAD_REQUEST
    stream = topic.reader()
    start(stream)
    settings = [{"path": topic.path}]
    stream.ask(init_request={"consumer": "c", "topics_read_settings": settings})
    assert stream.refusal() == (BAD_REQUEST, "got second init request", 500003)


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        ({}, "'client_message' is not set"),
        ({"direct_read_ack": {"partition_session_id": 1}}, "unsupported request"),
        ({"read_request": {"bytes_size": 0}}, "bytes_size must be positive in read request"),
        ({"read_request": {"bytes_size": -1}}, "bytes_size must be positive in read request"),
        ({"commit_offset_request": {}}, "can't commit without offsets"),
        ({"commit_offset_request": {"commit_offsets": [{"partition_session_id": 1}]}}, "can't commit without offsets"),
        ({"partition_session_status_request": {"partition_session_id": 2}}, "no partition session with id 2"),
        (
            {"start_partition_session_response": {"partition_session_id": 1}},
            "partition session 1 has been started already",
        ),
        ({"stop_partition_session_response": {"partition_session_id": 1}}, "partition session 1 was not asked to stop"),
        ({"stop_partition_session_response": {"partition_session_id": 9}}, "no partition session with id 9"),
    ],
)
def test_requests_that_end_a_session(topic: Topic, request_: dict[str, Any], text: str) -> None:
    stream = topic.reader()
    start(stream)
    stream.ask(**request_)
    status, found, _ = stream.refusal()
    assert (status, found) == (BAD_REQUEST, text)


# --- messages --------------------------------------------------------------------------------------------------------


def test_messages_come_after_the_answer_to_the_start(topic: Topic) -> None:
    topic.put("a", "b")
    stream = topic.reader()
    request = stream.get("start_partition_session_request")
    assert (request.partition_session.path, request.partition_session.partition_id) == (topic.path, 0)
    assert (request.partition_session.partition_session_id, request.committed_offset) == (1, 0)
    assert (request.partition_offsets.start, request.partition_offsets.end) == (0, 2)
    # A status is answered; messages are not sent yet.
    stream.ask(partition_session_status_request={"partition_session_id": 1})
    assert stream.get("partition_session_status_response").partition_offsets.end == 2
    stream.ask(start_partition_session_response={"partition_session_id": 1})
    assert read(stream, 2) == [(0, "a"), (1, "b")]
    topic.put("c")
    assert read(stream, 1) == [(2, "c")]
    stream.ask(partition_session_status_request={"partition_session_id": 1})
    status = stream.get("partition_session_status_response")
    assert (status.read_offset, status.committed_offset, status.partition_offsets.end) == (3, 0, 3)
    assert status.write_time_high_watermark.seconds > 0


@pytest.mark.parametrize(
    ("fields", "first"),
    [({}, 2), ({"read_offset": 2}, 2), ({"read_offset": 4}, 4), ({"commit_offset": 3}, 3),
     ({"read_offset": 4, "commit_offset": 3}, 4)],
)  # fmt: skip
def test_where_a_partition_is_read_from(topic: Topic, fields: dict[str, int], first: int) -> None:
    topic.put("0", "1", "2", "3", "4")
    topic.call("CommitOffset", partition_id=0, consumer="c", offset=2)
    stream = topic.reader()
    request = start(stream, **fields)
    assert (request.committed_offset, request.partition_offsets.start, request.partition_offsets.end) == (2, 2, 5)
    assert read(stream, 5 - first)[0] == (first, str(first))
    stats = topic.describe_consumer().partitions[0].partition_consumer_stats
    assert stats.committed_offset == fields.get("commit_offset", 2)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"read_offset": 1}, "trying to read from offset that is less than committed: 1 < 2"),
        ({"commit_offset": 1}, "trying to commit offset that is less than committed: 1 < 2"),
        ({"read_offset": 3, "commit_offset": 4}, "trying to commit offset that is greater than read offset"),
        ({"commit_offset": 6}, "can't commit to future. Offset 6, EndOffset 5"),
    ],
)
def test_where_it_is_not(topic: Topic, fields: dict[str, int], text: str) -> None:
    topic.put("0", "1", "2", "3", "4")
    topic.call("CommitOffset", partition_id=0, consumer="c", offset=2)
    stream = topic.reader()
    start(stream, **fields)
    assert stream.refusal()[:2] == (BAD_REQUEST, text)


def test_bytes_are_sent_as_they_are_asked_for(topic: Topic) -> None:
    for number in range(4):
        topic.put(str(number) * 100)
    stream = topic.reader(bytes_size=1)
    start(stream)
    # The first message overdraws, and nothing is sent before its bytes are asked for again.
    first = stream.get("read_response")
    assert [offset for offset, _ in texts(first)] == [0]
    stream.ask(read_request={"bytes_size": first.bytes_size - 1})
    stream.ask(partition_session_status_request={"partition_session_id": 1})
    assert stream.get("partition_session_status_response").read_offset == 1
    stream.ask(read_request={"bytes_size": 1})
    assert [offset for offset, _ in texts(stream.get("read_response"))] == [1]
    stream.ask(read_request={"bytes_size": 1 << 20})
    assert [offset for offset, _ in read(stream, 2)] == [2, 3]


def test_a_request_in_many_messages_is_read_whole(topic: Topic) -> None:
    stream = topic.writer()
    write(stream, *[str(number) for number in range(2500)])
    acks(stream, 2500)
    reader = topic.reader(bytes_size=64 << 20)
    start(reader)
    assert read(reader, 2500) == [(number, str(number)) for number in range(2500)]


def test_several_topics_and_partitions_in_one_session(topic: Topic) -> None:
    spread(topic, 2)
    other = Topic(topic.raw, topic.path + "b")
    other.call("CreateTopic", consumers=[{"name": "c"}])
    topic.put("a0"), topic.put("a1", partition=1), other.put("b0")
    stream = topic.stream("StreamRead")
    settings = [{"path": topic.path}, {"path": "/local/" + other.path}]
    stream.ask(init_request={"consumer": "c", "topics_read_settings": settings}).get("init_response")
    given = [stream.get("start_partition_session_request").partition_session for _ in range(3)]
    assert [(each.partition_session_id, each.path, each.partition_id) for each in given] == [
        (1, topic.path, 0), (2, topic.path, 1), (3, "/local/" + other.path, 0),
    ]  # fmt: skip
    for each in given:
        stream.ask(start_partition_session_response={"partition_session_id": each.partition_session_id})
    stream.ask(read_request={"bytes_size": 1000})
    assert sorted(text for _, text in read(stream, 3)) == ["a0", "a1", "b0"]
    other.close()


def test_reading_without_a_consumer(topic: Topic) -> None:
    topic.put("a", "b")
    stream = topic.reader(consumer="", partition_ids=[0])
    assert start(stream).committed_offset == 0
    assert read(stream, 2) == [(0, "a"), (1, "b")]
    commit(stream, 1, (0, 1))
    assert stream.refusal()[:2] == (BAD_REQUEST, "can't commit when reading without a consumer")
    stream = topic.reader(consumer="", partition_ids=[0])
    start(stream, read_offset=1)
    assert read(stream, 1) == [(1, "b")]
    # Such a session takes nothing away from a consumer.
    assert start(topic.reader()).committed_offset == 0


def test_growth_gives_more_partitions(topic: Topic) -> None:
    stream = topic.reader()
    start(stream)
    spread(topic, 3)
    assert [start(stream).partition_session.partition_id for _ in range(2)] == [1, 2]
    topic.put("later", partition=2)
    assert read(stream, 1) == [(0, "later")]


def test_sessions_end_with_their_topic_or_consumer(topic: Topic) -> None:
    topic.call("AlterTopic", add_consumers=[{"name": "d"}])
    stream, other = topic.reader("d"), topic.reader("c")
    start(stream), start(other)
    topic.call("AlterTopic", drop_consumers=["d"])
    assert stream.refusal()[:2] == (
        BAD_REQUEST, f"no read rule provided for consumer 'd' in topic '/local/{topic.path}' in current cluster ''",
    )  # fmt: skip
    topic.call("DropTopic")
    assert other.refusal()[0] == SCHEME_ERROR


# --- commits ---------------------------------------------------------------------------------------------------------


def test_commits_move_over_what_is_whole(topic: Topic) -> None:
    topic.put("0", "1", "2", "3", "4", "5", "6")
    stream = topic.reader()
    start(stream)
    read(stream, 7)
    commit(stream, 1, (2, 3))
    commit(stream, 1, (4, 6), (1, 2))
    commit(stream, 1, (0, 1))
    assert committed(stream) == [(1, 3)]
    commit(stream, 1, (3, 4))
    assert committed(stream) == [(1, 6)]
    assert topic.describe_consumer().partitions[0].partition_consumer_stats.committed_offset == 6
    # The next session begins there.
    stream.close()
    stream = topic.reader()
    assert start(stream).committed_offset == 6
    assert read(stream, 1) == [(6, "6")]


@pytest.mark.parametrize(
    ("ranges", "text"),
    [
        ([(1, 1)], DOUBLE.format(1, 1)),
        ([(2, 1)], DOUBLE.format(2, 1)),
        ([(0, 1)], DOUBLE.format(0, 1)),
        ([(3, 5), (4, 5)], DOUBLE.format(4, 5)),
        ([(3, 4), (2, 4)], DOUBLE.format(2, 4)),
        ([(3, 5), (3, 4)], DOUBLE.format(3, 4)),
        ([(1, 8)], "can't commit to future. Offset 8, EndOffset 7"),
    ],
)
def test_commits_that_end_a_session(topic: Topic, ranges: list[tuple[int, int]], text: str) -> None:
    topic.put("0", "1", "2", "3", "4", "5", "6")
    stream = topic.reader()
    start(stream)
    commit(stream, 1, (0, 1))
    read(stream, 7)
    assert committed(stream) == [(1, 1)]
    commit(stream, 1, *ranges)
    assert stream.refusal()[:2] == (BAD_REQUEST, text)


@pytest.mark.parametrize(("offset", "taken"), [(0, True), (2, True), (3, True), (4, False), (-1, False)])
def test_an_offset_is_committed_directly(topic: Topic, offset: int, taken: bool) -> None:
    topic.put("0", "1", "2")
    topic.call("CommitOffset", partition_id=0, consumer="c", offset=1)
    found = topic.call("CommitOffset", partition_id=0, consumer="c", offset=offset)
    assert (found.status == 400000) == taken
    stats = topic.describe_consumer().partitions[0].partition_consumer_stats
    assert stats.committed_offset == (offset if taken else 1)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"consumer": "d"}, "no read rule provided for consumer 'd'"),
        ({"consumer": "c", "partition_id": 1}, "no partition 1 in topic"),
        ({"consumer": "c", "read_session_id": "x"}, "session 'x' does not read partition 0"),
    ],
)
def test_direct_commits_that_are_refused(topic: Topic, fields: dict[str, Any], text: str) -> None:
    found = topic.call("CommitOffset", offset=0, **fields)
    assert found.status == BAD_REQUEST
    assert found.issues[0].message.startswith(text)


def test_a_direct_commit_takes_the_partition_away_and_gives_it_anew(topic: Topic) -> None:
    topic.put("0", "1", "2")
    stream = topic.reader()
    start(stream)
    read(stream, 3)
    commit(stream, 1, (0, 3))
    assert committed(stream) == [(1, 3)]
    session = topic.describe_consumer().partitions[0].partition_consumer_stats.read_session_id
    # By the session itself nothing is disturbed.
    named = topic.call("CommitOffset", partition_id=0, consumer="c", offset=3, read_session_id=session)
    assert named.status == 400000
    # Forwards nothing is disturbed either, whoever commits.
    topic.call("CommitOffset", partition_id=0, consumer="c", offset=3)
    topic.call("CommitOffset", partition_id=0, consumer="c", offset=1)
    stop = stream.get("stop_partition_session_request")
    assert (stop.partition_session_id, stop.graceful) == (1, False)
    # What comes late for the lost session is ignored.
    commit(stream, 1, (3, 4))
    request = start(stream)
    assert (request.partition_session.partition_session_id, request.committed_offset) == (2, 1)
    assert read(stream, 2) == [(1, "1"), (2, "2")]


# --- several sessions ------------------------------------------------------------------------------------------------


def test_partitions_are_shared_among_sessions(topic: Topic) -> None:
    spread(topic, 4)
    first = topic.reader()
    held = [start(first).partition_session for _ in range(4)]
    second = topic.reader()
    stops = [first.get("stop_partition_session_request") for _ in range(2)]
    assert all(each.graceful for each in stops)
    # A commit is still taken, and no messages come any more.
    stopped = [each for each in held if each.partition_session_id in {stop.partition_session_id for stop in stops}]
    topic.put("x", partition=stopped[0].partition_id)
    commit(first, stopped[0].partition_session_id, (0, 1))
    assert committed(first) == [(stopped[0].partition_session_id, 1)]
    for each in stopped:
        first.ask(stop_partition_session_response={"partition_session_id": each.partition_session_id})
        given = start(second)
        assert given.partition_session.partition_id == each.partition_id
        assert given.committed_offset == (1 if each is stopped[0] else 0)
    stats = [each.partition_consumer_stats.read_session_id for each in topic.describe_consumer().partitions]
    assert sorted(stats.count(each) for each in set(stats)) == [2, 2]
    # When a session leaves, the other one has all again.
    second.close()
    assert {start(first).partition_session.partition_id for _ in range(2)} == {each.partition_id for each in stopped}


def test_a_session_that_names_its_partitions_gets_just_those(topic: Topic) -> None:
    spread(topic, 3)
    every = topic.reader()
    held = {start(every).partition_session.partition_id for _ in range(3)}
    assert held == {0, 1, 2}
    named = topic.reader(partition_ids=[1])
    stop = every.get("stop_partition_session_request")
    assert stop.partition_session_id == 2
    every.ask(stop_partition_session_response={"partition_session_id": 2})
    assert start(named).partition_session.partition_id == 1
    named.close()
    assert start(every).partition_session.partition_id == 1


def test_more_sessions_than_partitions(topic: Topic) -> None:
    topic.put("a")
    first = topic.reader()
    start(first)
    assert read(first, 1) == [(0, "a")]
    second = topic.reader()
    second.ask(update_token_request={"token": "t"}).get("update_token_response")
    first.close()
    start(second)
    assert read(second, 1) == [(0, "a")]


def test_consumers_are_independent(topic: Topic) -> None:
    topic.call("AlterTopic", add_consumers=[{"name": "d"}])
    topic.put("a", "b")
    one, two = topic.reader("c"), topic.reader("d")
    start(one), start(two)
    assert read(one, 2) == read(two, 2) == [(0, "a"), (1, "b")]
    commit(one, 1, (0, 2))
    assert committed(one) == [(1, 2)]
    assert topic.describe_consumer("d").partitions[0].partition_consumer_stats.committed_offset == 0
    # One that is dropped and added again begins anew.
    topic.call("AlterTopic", drop_consumers=["c"])
    topic.call("AlterTopic", add_consumers=[{"name": "c"}])
    assert start(topic.reader("c")).committed_offset == 0


def test_what_is_told_of_a_session(topic: Topic) -> None:
    topic.put("a", "b")
    stream = topic.stream("StreamRead")
    settings = [{"path": topic.path}]
    stream.ask(init_request={"consumer": "c", "reader_name": "r", "topics_read_settings": settings})
    id = stream.get("init_response").session_id
    assert id.startswith("c_1_")
    assert id.endswith("_v1")
    start(stream)
    stream.ask(read_request={"bytes_size": 1000})
    read(stream, 2)
    stats = topic.describe_consumer().partitions[0].partition_consumer_stats
    assert (stats.read_session_id, stats.reader_name, stats.last_read_offset) == (id, "r", 2)
