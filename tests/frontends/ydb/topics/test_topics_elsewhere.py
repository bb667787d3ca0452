"""Topics beside their protocol: TTL reports, events, lifecycle settings, the portal, measurements, copies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from click.testing import CliRunner

from frontends.ydb.conftest import START
from frontends.ydb.topics.conftest import Topic, acks, read, start, write
from mayflydb.cli.main import mayfly
from mayflydb.embedded import RunningServer, serve
from mayflydb.model.errors import MayflyError
from ydb_raw import connected

TARGET = "ydb:/local/deep/t"
HOUR = 3600


@pytest.fixture
def server() -> Iterator[RunningServer]:
    options: dict[str, Any] = {"clock": "virtual", "clock_start": START, "scheme": "http"}
    with serve(memory=True, port=0, mongo_port=-1, ydb_tls_port=0, **options) as found:
        yield found


@pytest.fixture
def topic(server: RunningServer) -> Iterator[Topic]:
    with connected(server.ydb.endpoint) as raw:
        found = Topic(raw, "deep/t")
        found.call("CreateTopic", consumers=[{"name": "c"}], retention_period={"seconds": HOUR})
        yield found
        found.close()


def get(server: RunningServer, path: str) -> str:
    with urlopen(server.admin_url.removesuffix("/_mayfly") + path) as answer:
        text: str = answer.read().decode()
        return text


def test_a_topic_has_its_retention_as_default_ttl(server: RunningServer, topic: Topic) -> None:
    topic.put("a", "b")
    topic.put("c")
    (row,) = server.ttl.list()["targets"]
    assert (row["target"], row["default_ttl"], row["partitions"], row["records"]) == (TARGET, HOUR, 1, 2)
    assert row["next_expiry"] == "2030-01-01T01:00:00Z"
    found = server.ttl.explain(TARGET, "0/2")
    assert (found["state"], found["deadline"]) == ("alive", "2030-01-01T01:00:00Z")
    with pytest.raises(MayflyError, match="is no batch of deep/t"):
        server.ttl.explain(TARGET, "x")
    due = server.ttl.due()["records"]
    assert [(each["target"], each["id"]) for each in due] == [(TARGET, "0/0"), (TARGET, "0/2")]


def test_another_retention_is_previewed_and_set(server: RunningServer, topic: Topic) -> None:
    topic.put("a")
    server.clock.advance(minutes=30)
    before = server.ttl.preview(TARGET, expire_after_seconds=1800)
    assert tuple(before["statements"]) == (
        'ALTER TOPIC `deep/t` SET (retention_period = Interval("PT30M"));',
        "ydb -d /local topic alter --retention-period 1800s deep/t",
    )
    assert (before["current"], before["expire_now"], before["sample"]) == (HOUR, 1, ["0/0"])
    server.ttl.set(TARGET, expire_after_seconds=1801)
    assert topic.describe().retention_period.seconds == 1801
    assert topic.describe(include_stats=True).partitions[0].partition_stats.partition_offsets.start == 0
    for seconds in (None, 0, 1 << 31):
        with pytest.raises(MayflyError, match="the retention of a topic is from 1 to 2147483647 seconds"):
            server.ttl.set(TARGET, expire_after_seconds=seconds)
    with pytest.raises(MayflyError, match="a topic has a retention, and no TTL columns"):
        server.ttl.set(TARGET, expire_after_seconds=5, field="at")


def test_expired_batches_are_events_with_their_place(server: RunningServer, topic: Topic) -> None:
    topic.put("a", "b")
    topic.put("c")
    assert server.clock.next_expiry() is not None
    moved = server.clock.advance_to_next_expiry()
    assert (moved["now"], moved["purged"]) == ("2030-01-01T01:00:00Z", 2)
    events = json.loads(get(server, "/_mayfly/events/expired"))["events"]
    assert [(each["target"], each["id"], each["reason"]) for each in events] == [
        (TARGET, "0/0", "default"), (TARGET, "0/2", "default"),
    ]  # fmt: skip


@pytest.mark.parametrize("settings", [{"grace": "1h"}, {"touch": "1h"}, {"history": "1h"}, {"guard": "off"}])
def test_a_topic_takes_no_lifecycle_settings(server: RunningServer, topic: Topic, settings: dict[str, Any]) -> None:
    with pytest.raises(MayflyError, match="a topic takes retention alone"):
        server.set_lifecycle(TARGET, **settings)


def test_what_is_done_with_rows_is_refused_by_name(server: RunningServer, topic: Topic) -> None:
    topic.put("a")
    with pytest.raises(MayflyError, match="a topic takes retention alone"):
        server.add_hold(TARGET, "h", why="w", by="b")
    sent = json.dumps({"target": TARGET, "records": [{"a": 1}]}).encode()
    for request in (
        Request(f"{server.admin_url}/data/export?target={TARGET}"),
        Request(f"{server.admin_url}/data/import", sent, {"Content-Type": "application/json"}),
    ):
        with pytest.raises(HTTPError) as found:
            urlopen(request)
        assert "a topic takes retention alone" in json.loads(found.value.read())["detail"]


def test_a_pause_keeps_messages_in_the_store(server: RunningServer, topic: Topic) -> None:
    topic.put("a")
    request = Request(f"{server.admin_url}/ttl/pause", b"{}", {"Content-Type": "application/json"})
    urlopen(request).close()
    server.clock.advance(hours=2)
    (row,) = server.ttl.list()["targets"]
    assert (row["records"] + row["hidden"], row["due"]) == (1, 1)
    assert topic.describe(include_stats=True).partitions[0].partition_stats.partition_offsets.start == 1


def test_the_portal_shows_a_topic(server: RunningServer, topic: Topic) -> None:
    topic.put("a", "b")
    page = get(server, "/_explorer/ydb/local/deep/t/topic")
    assert "Messages are kept for 1 h" in page
    assert "<code>c</code>" in page
    (batch,) = json.loads(get(server, "/_explorer/ydb/local/deep/t/topic.json"))["batches"]
    assert (batch["id"], batch["messages"], batch["ends"]) == ("0/0", 2, "2030-01-01 01:00:00Z")
    # Addresses that are made for tables lead there too.
    assert "Messages are kept for 1 h" in get(server, "/_explorer/ydb/local/deep/t/rows")
    for path in ("/", "/_explorer/due", "/_explorer/events", "/_explorer/find?q=0/0", "/_explorer/advice"):
        assert get(server, path)
    found = get(server, "/metrics")
    assert 'mayfly_ttl_default_seconds{protocol="ydb",db="/local",container="deep/t"} 3600' in found


def test_webhooks_and_the_command_line_name_batches(server: RunningServer, topic: Topic) -> None:
    topic.put("a")
    result = CliRunner().invoke(mayfly, ["--url", server.admin_url, "ttl", "list"])
    assert result.exit_code == 0
    assert TARGET in result.output


def test_a_copy_of_a_store_has_its_topics(tmp_path: Path) -> None:
    options: dict[str, Any] = {"port": 0, "mongo_port": -1, "ydb_tls_port": 0, "clock": "virtual"}
    places = [f"sqlite:///{tmp_path}/{name}.db" for name in ("a", "b")]
    with (
        serve(storage=places[0], **options, clock_start=START) as server,
        connected(server.ydb.endpoint) as raw,
    ):
        topic = Topic(raw, "t")
        topic.call("CreateTopic", consumers=[{"name": "c"}], retention_period={"seconds": HOUR})
        stream = topic.writer(producer_id="p", message_group_id="p")
        write(stream, "a", "b", "c", first=5)
        acks(stream, 3)
        topic.call("CommitOffset", partition_id=0, consumer="c", offset=1)
        server.clock.advance(minutes=59)
        topic.close()
    copied = CliRunner().invoke(mayfly, ["copy", *places])
    assert copied.exit_code == 0, copied.output
    with serve(storage=places[1], **options) as server, connected(server.ydb.endpoint) as raw:
        topic = Topic(raw, "t")
        reader = topic.reader()
        assert start(reader).committed_offset == 1
        assert read(reader, 2) == [(1, "b"), (2, "c")]
        again = topic.stream("StreamWrite")
        again.ask(init_request={"path": "t", "producer_id": "p", "message_group_id": "p"})
        assert again.get("init_response").last_seq_no == 7
        server.clock.advance(minutes=1)
        assert topic.put("d") == [3]
        offsets = topic.describe(include_stats=True).partitions[0].partition_stats.partition_offsets
        assert (offsets.start, offsets.end) == (3, 4)
        topic.close()
