"""Topics over the life of a server: restarts, shutdown, logins, limits, clients that leave."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from frontends.ydb.conftest import START
from frontends.ydb.topics.conftest import Topic, acks, read, start, write
from mayflydb.embedded import RunningServer, serve
from ydb_raw import connected

ydb: Any = pytest.importorskip("ydb")


@contextmanager
def served(path: Path | None = None, **options: Any) -> Iterator[tuple[RunningServer, Topic]]:
    place: dict[str, Any] = {"memory": True} if path is None else {"path": path}
    virtual = {"clock": "virtual"}
    if path is None or not path.exists():
        virtual["clock_start"] = START
    with (
        serve(**place, port=0, mongo_port=-1, ydb_tls_port=0, **(virtual | options)) as server,
        connected(server.ydb.endpoint) as raw,
    ):
        topic = Topic(raw, "t")
        yield server, topic
        topic.close()


def test_a_restart_loses_nothing(tmp_path: Path) -> None:
    with served(tmp_path / "m") as (server, topic):
        topic.call("CreateTopic", consumers=[{"name": "c"}], retention_period={"seconds": 3600})
        stream = topic.writer(producer_id="p", message_group_id="p")
        write(stream, "a", "b", "c", first=5)
        acks(stream, 3)
        topic.call("CommitOffset", partition_id=0, consumer="c", offset=1)
        server.clock.advance(minutes=30)
        topic.put("d")
        described = topic.describe(include_stats=True)
    with served(tmp_path / "m") as (server, topic):
        assert topic.describe(include_stats=True) == described
        again = topic.stream("StreamWrite")
        again.ask(init_request={"path": "t", "producer_id": "p", "message_group_id": "p"})
        assert again.get("init_response").last_seq_no == 7
        reader = topic.reader()
        assert start(reader).committed_offset == 1
        assert read(reader, 3) == [(1, "b"), (2, "c"), (3, "d")]
        server.clock.advance(minutes=30)
        assert topic.put("e") == [4]
    with served(tmp_path / "m") as (server, topic):
        offsets = topic.describe(include_stats=True).partitions[0].partition_stats.partition_offsets
        assert (offsets.start, offsets.end) == (3, 5)
        server.clock.advance(hours=2)
        assert topic.put("f") == [5]


def test_a_stop_is_told_as_unavailable() -> None:
    with ExitStack() as stack:
        running = stack.enter_context(ExitStack())
        server = running.enter_context(serve(memory=True, port=0, mongo_port=-1, ydb_tls_port=0))
        topic = Topic(stack.enter_context(connected(server.ydb.endpoint)), "t")
        stack.callback(topic.close)
        topic.call("CreateTopic", consumers=[{"name": "c"}])
        writer, reader = topic.writer(), topic.reader()
        start(reader)
        running.close()
        for stream in (writer, reader):
            with pytest.raises(grpc.RpcError) as found:
                stream.receive()
            assert found.value.code() is grpc.StatusCode.UNAVAILABLE
            assert found.value.details() == "The node is shutting down"


def test_streams_need_a_login(tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("secret")
    with served(ydb_auth="on", ydb_password_file=str(password)) as (server, topic):
        for method in ("StreamRead", "StreamWrite"):
            stream = topic.stream(method).ask(init_request={})
            with pytest.raises(grpc.RpcError) as found:
                stream.receive()
            assert found.value.code() is grpc.StatusCode.UNAUTHENTICATED
        credentials = ydb.StaticCredentials.from_user_password("root", "secret")
        with ydb.Driver(endpoint=server.ydb.endpoint, database="/local", credentials=credentials) as driver:
            driver.wait(timeout=10, fail_fast=True)
            client = driver.topic_client
            client.create_topic("t", consumers=["c"])
            with client.writer("t") as writer:
                writer.write_with_ack("a")
            with client.reader("t", consumer="c") as reader:
                assert reader.receive_message(timeout=10).data == b"a"
            token = driver.credentials.get_auth_token() if hasattr(driver, "credentials") else None
        metadata = [("x-ydb-auth-ticket", token or credentials.token)]
        stream = topic.raw.converse("Ydb.Topic.V1.TopicService/StreamWrite", metadata)
        stream.ask(init_request={"path": "t", "partition_id": 0}).get("init_response")
        stream.ask(update_token_request={"token": metadata[0][1]}).get("update_token_response")
        stream.ask(update_token_request={"token": "wrong"})
        with pytest.raises(grpc.RpcError) as found:
            stream.receive()
        assert found.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_streams_count_among_the_calls_in_work() -> None:
    with served(ydb_max_calls=3) as (_, topic):
        topic.call("CreateTopic", consumers=[{"name": "c"}])
        streams = [topic.writer() for _ in range(3)]
        stream = topic.stream("StreamWrite").ask(init_request={"path": "t"})
        with pytest.raises(grpc.RpcError) as found:
            stream.receive()
        assert found.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        streams[0].end()
        assert next(streams[0].answers, None) is None
        topic.writer()


def test_a_client_that_leaves_frees_its_partitions() -> None:
    with served() as (_, topic):
        topic.call("CreateTopic", consumers=[{"name": "c"}])
        for _ in range(5):
            reader = topic.reader()
            start(reader)
            reader.close()
        start(topic.reader())


def test_a_writer_that_sends_more_than_the_server_may_hold() -> None:
    with served(bytes_in_flight=4 << 20) as (_, topic):
        topic.call("CreateTopic", consumers=[{"name": "c"}])
        stream = topic.writer()
        for number in range(20):
            write(stream, "x" * (1 << 20), first=number + 1)
            acks(stream, 1)
        assert topic.put("more") == [20]


def test_streams_are_noted_in_the_access_log(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    with served(access_log=str(log)) as (_, topic):
        topic.call("CreateTopic", consumers=[{"name": "c"}])
        stream = topic.writer()
        stream.end()
        assert next(stream.answers, None) is None
        refused = topic.stream("StreamRead").ask(
            init_request={"consumer": "x", "topics_read_settings": [{"path": "t"}]}
        )
        refused.refusal()
    lines = log.read_text().splitlines()
    assert any("StreamWrite" in line and "/local/t" in line and "SUCCESS" in line for line in lines)
    assert any("StreamRead" in line and "BAD_REQUEST" in line for line in lines)
