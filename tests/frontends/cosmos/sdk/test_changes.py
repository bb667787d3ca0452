"""The feed of changes, latest version: each visible item once, in the order of its last change."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

import pytest
from azure.cosmos import ContainerProxy

from frontends.cosmos.service import Async, Service, Sync, T, everywhere, path_of

pytestmark = everywhere


def changes(container: Sync | Async, **options: Any) -> list[str]:
    return [row["id"] for row in container.call("query_items_change_feed", **options)]


def token(proxy: ContainerProxy, **options: Any) -> str:
    """Read to the end, and the continuation to go on from."""
    list(proxy.query_items_change_feed(**options))
    return str(proxy.client_connection.last_response_headers["etag"])


def put(proxy: ContainerProxy, *ids: str, pk: str = "p") -> None:
    for id in ids:
        proxy.upsert_item({"id": id, "pk": pk})


def test_from_the_beginning(service: Service, flavour: str) -> None:
    proxy = service.container()
    container = service.sync(proxy) if flavour == "sync" else service.aio(proxy)
    assert changes(container, start_time="Beginning") == []
    put(proxy, "a", "b", "c")
    proxy.patch_item("a", "p", [{"op": "set", "path": "/n", "value": 1}])
    put(proxy, "b")
    proxy.delete_item("c", "p")
    assert changes(container, start_time="Beginning") == ["a", "b"]
    rows = container.call("query_items_change_feed", start_time="Beginning", max_item_count=1)
    assert rows[0]["n"] == 1
    assert rows[0]["_lsn"] < rows[1]["_lsn"]


def test_from_now(service: Service) -> None:
    proxy = service.container()
    put(proxy, "a")
    mark = token(proxy, start_time="Now")
    assert list(proxy.query_items_change_feed(start_time="Now")) == []
    put(proxy, "b", "a")
    assert [row["id"] for row in proxy.query_items_change_feed(continuation=mark)] == ["b", "a"]


def test_from_a_time(service: Service, flavour: str) -> None:
    proxy = service.container()
    container = service.sync(proxy) if flavour == "sync" else service.aio(proxy)
    for second in (0, 10, 20):
        service.at(second)
        put(proxy, f"at{second}")
    for second, expected in ((0, ["at0", "at10", "at20"]), (10, ["at10", "at20"]), (11, ["at20"]), (21, [])):
        moment = datetime.fromtimestamp(T + second, UTC)
        assert changes(container, start_time=moment) == expected


def test_going_on_from_a_continuation(service: Service) -> None:
    proxy = service.container()
    put(proxy, "a", "b")
    mark = token(proxy, start_time="Beginning")
    assert list(proxy.query_items_change_feed(continuation=mark)) == []
    put(proxy, "c", "a")
    assert [row["id"] for row in proxy.query_items_change_feed(continuation=mark)] == ["c", "a"]
    later = str(proxy.client_connection.last_response_headers["etag"])
    assert list(proxy.query_items_change_feed(continuation=later)) == []
    assert [row["id"] for row in proxy.query_items_change_feed(continuation=mark)] == ["c", "a"], (
        "the old mark still holds"
    )


FORMAT = "x-ms-cosmos-changefeed-wire-format-version"


def test_with_the_wire_format_rows_have_metadata(service: Service) -> None:
    """So Java's processor and Rust ask in this mode too, and read nothing but `current`."""
    proxy = service.container()
    put(proxy, "a", "b")
    service.at(7)
    put(proxy, "a")
    path, feed = path_of(proxy, "docs"), {"a-im": "Incremental Feed"}
    plain = service.raw("GET", path, None, feed).json["Documents"]
    rows = service.raw("GET", path, None, {**feed, FORMAT: "2021-09-15"}).json["Documents"]
    assert [row["current"]["id"] for row in rows] == ["b", "a"]
    assert [{**row["current"], "_lsn": row["metadata"]["lsn"]} for row in rows] == plain
    assert [row["metadata"] for row in rows] == [{"lsn": row["_lsn"], "crts": row["_ts"]} for row in plain]
    assert [row["metadata"]["crts"] for row in rows] == [T, T + 7]
    refused = service.raw("GET", path, None, {**feed, FORMAT: "2020-01-01"})
    assert refused.status == 400 and FORMAT in refused.json["message"]


def test_deletes_and_deaths_are_not_told(service: Service) -> None:
    proxy = service.container(10)
    put(proxy, "a", "b")
    proxy.create_item({"id": "c", "pk": "p", "ttl": -1})
    mark = token(proxy, start_time="Beginning")
    proxy.delete_item("a", "p")
    service.at(10)
    assert list(proxy.query_items_change_feed(continuation=mark)) == []
    assert [row["id"] for row in proxy.query_items_change_feed(start_time="Beginning")] == ["c"]
    service.server.purge()
    assert list(proxy.query_items_change_feed(continuation=mark)) == []


@pytest.mark.parametrize("throughput", [400, 30000])
def test_feed_of_a_key(service: Service, flavour: str, throughput: int) -> None:
    proxy = service.container(offer_throughput=throughput)
    container = service.sync(proxy) if flavour == "sync" else service.aio(proxy)
    for n in range(12):
        put(proxy, f"i{n}", pk=f"p{n % 3}")
    for n in range(3):
        assert changes(container, start_time="Beginning", partition_key=f"p{n}") == [f"i{m}" for m in range(n, 12, 3)]
    assert changes(container, start_time="Beginning", partition_key="none") == []


@pytest.mark.parametrize("throughput", [12000, 30000])
def test_feed_of_each_range(service: Service, throughput: int) -> None:
    proxy = service.container(offer_throughput=throughput)
    for n in range(30):
        put(proxy, f"i{n}", pk=f"p{n}")
    ranges = list(proxy.read_feed_ranges())
    marks, seen = [], []
    for each in ranges:
        seen += [row["id"] for row in proxy.query_items_change_feed(start_time="Beginning", feed_range=each)]
        marks.append(str(proxy.client_connection.last_response_headers["etag"]))
    assert sorted(seen) == sorted(f"i{n}" for n in range(30))
    put(proxy, "new", pk="p7")
    again = [row["id"] for mark in marks for row in proxy.query_items_change_feed(continuation=mark)]
    assert again == ["new"]


def test_exactly_once_while_others_write(service: Service) -> None:
    """Pages of a few, with writes between them: at the end every item was seen in its last version, none twice the same."""
    seed = random.SystemRandom().randrange(2**32)
    print("seed", seed)
    source = random.Random(seed)
    proxy = service.container()
    versions: dict[str, int] = {}

    def write(count: int) -> None:
        for _ in range(count):
            id = f"i{source.randrange(15)}"
            versions[id] = versions.get(id, 0) + 1
            proxy.upsert_item({"id": id, "pk": f"p{id[1:]}", "version": versions[id]})

    write(20)
    seen: list[tuple[str, int]] = []
    path, etag = path_of(proxy, "docs"), ""
    for turn in range(60):
        headers: dict[str, str | bytes | None] = {
            "a-im": "Incremental Feed",
            "x-ms-max-item-count": str(source.randrange(1, 5)),
        }
        answer = service.raw("GET", path, None, headers | ({"if-none-match": etag} if etag else {}))
        etag = answer.headers["etag"]
        if answer.status == 304:
            if turn > 30:
                break
        else:
            seen += [(row["id"], row["version"]) for row in answer.json["Documents"]]
        if turn < 30:
            write(source.randrange(3))
    else:
        pytest.fail("the feed has no end")
    assert len(seen) == len(set(seen))
    assert dict(sorted(seen, key=lambda each: each[1])) == versions


def test_feed_on_the_wire(service: Service) -> None:
    proxy = service.container()
    path, feed = path_of(proxy, "docs"), {"a-im": "Incremental Feed"}
    empty = service.raw("GET", path, None, feed)
    assert (empty.status, empty.body) == (304, b"")
    put(proxy, "a", "b", "c")
    first = service.raw("GET", path, None, feed | {"x-ms-max-item-count": "2"})
    assert (first.status, first.json["_count"], first.headers["x-ms-item-count"]) == (200, 2, "2")
    rest = service.raw("GET", path, None, feed | {"if-none-match": first.headers["etag"]})
    assert [row["id"] for row in rest.json["Documents"]] == ["c"]
    end = service.raw("GET", path, None, feed | {"if-none-match": rest.headers["etag"]})
    assert (end.status, end.headers["etag"]) == (304, rest.headers["etag"])
    both = {"if-none-match": first.headers["etag"], "if-modified-since": "Tue, 01 Jan 2030 00:00:00 GMT"}
    assert service.raw("GET", path, None, feed | both).json["_count"] == 1, "the mark is stronger than the time"


@pytest.mark.parametrize("headers", [
    {"a-im": "x"}, {"a-im": ""}, {"a-im": "Incremental Feed", "if-none-match": "x"},
    {"a-im": "Incremental Feed", "if-none-match": '"%s"' % ("9" * 19)}, {"a-im": "Incremental Feed", "if-none-match": "9" * 5000},
    {"a-im": "Incremental Feed", "if-modified-since": "yesterday"}, {"a-im": "Incremental Feed", "x-ms-max-item-count": "x"},
])  # fmt: skip
def test_refused_headers(service: Service, headers: dict[str, str | bytes | None]) -> None:
    proxy = service.container()
    answer = service.raw("GET", path_of(proxy, "docs"), None, headers)
    assert answer.status == 400
    assert answer.json["code"] == "BadRequest"
