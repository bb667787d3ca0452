"""The feed of all versions and deletes: each create, replace, delete and purge by age, once, in the order of changes."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from azure.cosmos import ContainerProxy, PartitionKey
from azure.cosmos.exceptions import CosmosBatchOperationError, CosmosHttpResponseError

from frontends.cosmos.service import BULK, Answer, Async, Service, Sync, T, everywhere, path_of

MINUTES = 10
KEPT: dict[str, Any] = {"change_feed_policy": {"retentionDuration": MINUTES}}
FEED: dict[str, str | bytes | None] = {
    "a-im": "Full-Fidelity Feed",
    "x-ms-cosmos-changefeed-wire-format-version": "2021-09-15",
}
Row = tuple[Any, ...]


def read(service: Service, proxy: ContainerProxy, etag: str = "*", **other: str | bytes | None) -> Answer:
    headers = {name.replace("_", "-"): value for name, value in other.items()}
    return service.raw("GET", path_of(proxy, "docs"), None, FEED | {"if-none-match": etag} | headers)


def told(answer: Answer) -> list[Row]:
    """(what, id, version it made or ended) of each row, by its metadata alone."""
    if answer.status == 304:
        return []
    assert answer.status == 200, answer
    return [brief(row) for row in answer.json["Documents"]]


def brief(row: dict[str, Any]) -> Row:
    metadata, current = row["metadata"], row["current"]
    if metadata["operationType"] == "delete":
        assert current == {}
        what = "expire" if metadata.get("timeToLiveExpired") else "delete"
        return what, metadata["id"], metadata["crts"] - T
    assert metadata.keys() <= {"operationType", "lsn", "crts", "previousImageLSN"}
    assert current["_ts"] == metadata["crts"]
    return metadata["operationType"], current["id"], metadata["crts"] - T


def begun(service: Service, default_ttl: int | None = None, **options: Any) -> tuple[ContainerProxy, str]:
    proxy = service.container(default_ttl, **KEPT, **options)
    answer = read(service, proxy)
    assert answer.status == 304
    return proxy, answer.headers["etag"]


@everywhere
def test_every_kind_of_write(service: Service) -> None:
    proxy, mark = begun(service)
    a = proxy.create_item({"id": "a", "pk": "p", "n": 1})
    service.at(1)
    proxy.upsert_item({"id": "b", "pk": "p"})
    b = proxy.upsert_item({"id": "b", "pk": "p", "n": 2})
    service.at(2)
    proxy.replace_item("a", {"id": "a", "pk": "p", "n": 3})
    patched = proxy.patch_item("a", "p", [{"op": "incr", "path": "/n", "value": 4}])
    service.at(3)
    proxy.delete_item("b", "p")
    proxy.execute_item_batch([("create", ({"id": "c", "pk": "p"},)), ("delete", ("a",))], "p")
    answer = read(service, proxy, mark)
    assert told(answer) == [
        ("create", "a", 0), ("create", "b", 1), ("replace", "b", 1), ("replace", "a", 2), ("replace", "a", 2),
        ("delete", "b", 3), ("create", "c", 3), ("delete", "a", 3),
    ]  # fmt: skip
    rows = answer.json["Documents"]
    assert [row["current"] for row in rows[:5:2]] == [a, b, patched]
    lsns = [row["metadata"]["lsn"] for row in rows]
    assert all(before < after for before, after in pairwise(lsns))
    before = [row["metadata"].get("previousImageLSN") for row in rows]
    assert before == [None, None, lsns[1], lsns[0], lsns[3], lsns[2], None, lsns[4]]
    assert rows[7]["metadata"] == {
        "operationType": "delete", "lsn": lsns[7], "crts": T + 3, "previousImageLSN": lsns[4], "id": "a",
        "partitionKey": {"pk": "p"},
    }  # fmt: skip
    assert answer.headers["x-ms-item-count"] == "8"


@everywhere
def test_refused_and_failed_writes_are_not_in_the_feed(service: Service) -> None:
    proxy, mark = begun(service, 10)
    proxy.create_item({"id": "a", "pk": "p"})
    for call in (
        lambda: proxy.create_item({"id": "a", "pk": "p"}),
        lambda: proxy.delete_item("none", "p"),
        lambda: proxy.upsert_item({"id": "b", "pk": "p", "ttl": 0}),
        lambda: proxy.execute_item_batch([("create", ({"id": "c", "pk": "p"},)), ("delete", ("none",))], "p"),
    ):
        with pytest.raises((CosmosHttpResponseError, CosmosBatchOperationError)):
            call()
    assert told(read(service, proxy, mark)) == [("create", "a", 0)]


@everywhere
def test_a_death_is_told_at_its_purge(service: Service) -> None:
    proxy, mark = begun(service, 10)
    proxy.create_item({"id": "a", "pk": "p"})
    proxy.create_item({"id": "own", "pk": "q", "ttl": 5})
    proxy.create_item({"id": "alive", "pk": "p", "ttl": -1})
    created = read(service, proxy, mark)
    mark = created.headers["etag"]
    service.at(20)
    assert read(service, proxy, mark).status == 304, "dead, and not purged"
    service.at(30)
    service.server.purge()
    answer = read(service, proxy, mark)
    assert sorted(told(answer)) == [("expire", "a", 30), ("expire", "own", 30)]
    last = next(row["metadata"] for row in answer.json["Documents"] if row["metadata"]["id"] == "a")
    first = created.json["Documents"][0]["metadata"]
    assert last == {
        "operationType": "delete", "lsn": last["lsn"], "crts": T + 30, "previousImageLSN": first["lsn"],
        "timeToLiveExpired": True, "id": "a", "partitionKey": {"pk": "p"},
    }  # fmt: skip
    service.server.purge()
    assert read(service, proxy, answer.headers["etag"]).status == 304, "once"


@everywhere
@pytest.mark.parametrize("write", ["create_item", "upsert_item"])
def test_a_write_over_the_dead(service: Service, write: str) -> None:
    proxy, mark = begun(service, 10)
    proxy.create_item({"id": "a", "pk": "p"})
    service.at(10)
    getattr(proxy, write)({"id": "a", "pk": "p"})
    service.server.purge()
    answer = read(service, proxy, mark)
    assert told(answer) == [("create", "a", 0), ("expire", "a", 10), ("create", "a", 10)]
    first, end, second = (row["metadata"] for row in answer.json["Documents"])
    assert (end["previousImageLSN"], "previousImageLSN" in second) == (first["lsn"], False)


@everywhere
def test_a_unique_key_over_the_dead(service: Service) -> None:
    proxy, mark = begun(service, 10, unique_key_policy={"uniqueKeys": [{"paths": ["/u"]}]})
    proxy.create_item({"id": "a", "pk": "p", "u": 1})
    service.at(10)
    proxy.create_item({"id": "b", "pk": "p", "u": 1})
    assert told(read(service, proxy, mark)) == [("create", "a", 0), ("expire", "a", 10), ("create", "b", 10)]


@everywhere
def test_a_delete_of_the_dead_is_left_to_the_purge(service: Service) -> None:
    proxy, mark = begun(service, 10)
    proxy.create_item({"id": "a", "pk": "p"})
    service.at(10)
    with pytest.raises(CosmosHttpResponseError):
        proxy.delete_item("a", "p")
    assert told(read(service, proxy, mark)) == [("create", "a", 0)]
    service.at(11)
    service.server.purge()
    assert told(read(service, proxy, mark)) == [("create", "a", 0), ("expire", "a", 11)]


@everywhere
@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_pages(service: Service, size: int) -> None:
    proxy, mark = begun(service, 10)
    service.fill(proxy, [{"id": f"i{n}", "pk": f"p{n}"} for n in range(7)])
    service.at(10)
    service.server.purge()
    rows: list[Row] = []
    lsns: list[int] = []
    while (answer := read(service, proxy, mark, x_ms_max_item_count=str(size))).status == 200:
        assert 0 < answer.json["_count"] <= size
        rows += told(answer)
        lsns += [row["metadata"]["lsn"] for row in answer.json["Documents"]]
        mark = answer.headers["etag"]
    assert (answer.status, answer.headers["etag"], answer.body) == (304, mark, b"")
    assert [what for what, _, _ in rows] == ["create"] * 7 + ["expire"] * 7
    assert sorted(rows[7:]) == sorted(("expire", id, 10) for _, id, _ in rows[:7])
    assert lsns == sorted(set(lsns))


@everywhere
def test_a_large_history(service: Service) -> None:
    proxy, mark = begun(service)
    service.fill(proxy, [{"id": f"i{n}", "pk": f"p{n % 5}"} for n in range(600)])
    whole = told(read(service, proxy, mark, x_ms_max_item_count="-1"))
    assert [id for _, id, _ in whole] == [f"i{n}" for n in range(600)]
    one = told(read(service, proxy, mark, x_ms_max_item_count="-1", x_ms_documentdb_partitionkey='["p3"]'))
    assert [id for _, id, _ in one] == [f"i{n}" for n in range(3, 600, 5)]


PATHS: list[tuple[list[str] | str, dict[str, Any], dict[str, Any]]] = [
    ("/pk", {"pk": "é\x07¿😀\x07é"}, {"pk": "é\x07¿😀\x07é"}),
    ("/pk", {"pk": 5}, {"pk": 5}),
    ("/pk", {"pk": 0.5}, {"pk": 0.5}),
    ("/pk", {"pk": True}, {"pk": True}),
    ("/pk", {"pk": None}, {"pk": None}),
    ("/pk", {}, {}),
    ("/id", {}, {"id": "x"}),
    ("/a/b", {"a": {"b": "v"}}, {"a/b": "v"}),
    (["/a", "/b"], {"a": "v", "b": 1}, {"a": "v", "b": 1}),
    (["/a", "/b", "/c"], {"a": "v", "b": None}, {"a": "v", "b": None}),
]


# Hierarchical keys have one version.
KEYS = [(*row, version) for row in PATHS for version in (1, 2) if version == 2 or isinstance(row[0], str)]


@pytest.mark.parametrize(("paths", "item", "wanted", "version"), KEYS)
def test_the_key_of_what_is_gone(
    service: Service, paths: list[str] | str, item: dict[str, Any], wanted: dict[str, Any], version: int
) -> None:
    proxy, mark = begun(service, 10, paths=paths, version=version)
    values = {"/pk": [item.get("pk", {})], "/id": ["x"], "/a/b": ["v"]}
    key = values[paths] if isinstance(paths, str) else [item.get(path[1:], {}) for path in paths]
    answer = service.raw("POST", path_of(proxy, "docs"), {"id": "x"} | item, pk=key)
    assert answer.status == 201, answer
    service.at(10)
    service.server.purge()
    _, gone = read(service, proxy, mark).json["Documents"]
    assert (gone["metadata"]["id"], gone["metadata"]["partitionKey"]) == ("x", wanted)


@everywhere
@pytest.mark.parametrize("throughput", [400, 30000])
def test_the_clients_read_it(service: Service, flavour: str, throughput: int) -> None:
    proxy = service.container(10, offer_throughput=throughput, **KEPT)
    container: Sync | Async = service.sync(proxy) if flavour == "sync" else service.aio(proxy)

    def changes(**options: Any) -> list[Row]:
        return [
            brief(row) for row in container.call("query_items_change_feed", mode="AllVersionsAndDeletes", **options)
        ]

    def mark() -> str:
        return str(container.proxy.client_connection.last_response_headers["etag"])

    assert changes() == []
    start = mark()
    for n in range(9):
        proxy.create_item({"id": f"i{n}", "pk": f"p{n % 3}"})
    assert changes() == [], "from now"
    created = [("create", f"i{n}", 0) for n in range(9)]
    assert sorted(changes(continuation=start)) == created
    service.at(4)
    proxy.delete_item("i0", "p0")
    service.at(10)
    service.server.purge()
    ended = [("delete", "i0", 4), *(("expire", f"i{n}", 10) for n in range(1, 9))]
    assert sorted(changes(continuation=start)) == created + ended
    assert changes(partition_key="p1") == []
    of_one = mark()
    service.fill(proxy, [{"id": "x", "pk": "p1"}, {"id": "y", "pk": "p2"}])
    assert changes(continuation=of_one) == [("create", "x", 10)]
    ranges = list(proxy.read_feed_ranges())
    assert len(ranges) == (1 if throughput == 400 else 5)
    marks = []
    for each in ranges:
        assert changes(feed_range=each) == []
        marks.append(mark())
    proxy.create_item({"id": "z", "pk": "p0"})
    assert [row for each in marks for row in changes(continuation=each)] == [("create", "z", 10)]


@everywhere
def test_scopes(service: Service) -> None:
    proxy, mark = begun(service, offer_throughput=12000)
    service.fill(proxy, [{"id": f"i{n}", "pk": f"p{n}"} for n in range(20)])
    halves = [
        told(read(service, proxy, mark, x_ms_documentdb_partitionkeyrangeid=id, x_ms_max_item_count="-1"))
        for id in ("0", "1")
    ]
    assert all(halves)
    assert sorted(halves[0] + halves[1]) == sorted(("create", f"i{n}", 0) for n in range(20))
    epk = "062B23DEC15212F01B9A85F4E93A940C"  # Of "p1".
    one = read(
        service, proxy, mark, x_ms_documentdb_partitionkeyrangeid="0", x_ms_start_epk=epk, x_ms_end_epk=epk[:-1] + "D",
        x_ms_read_key_type="EffectivePartitionKeyRange",
    )  # fmt: skip
    assert told(one) == [("create", "i1", 0)]
    nothing = read(service, proxy, mark, x_ms_documentdb_partitionkey='["none"]')
    assert nothing.status == 304
    assert nothing.headers["etag"] == read(service, proxy, mark).headers["etag"], "seen to the end all the same"


STARTS: dict[str, dict[str, str | bytes | None]] = {
    "the beginning": {"if-none-match": None},
    "a time": {"if-none-match": None, "if-modified-since": "Tue, 01 Jan 2030 00:00:00 GMT"},
    "no etag of ours": {"if-none-match": "x"},
    "no wire format": {"x-ms-cosmos-changefeed-wire-format-version": None},
    "another wire format": {"x-ms-cosmos-changefeed-wire-format-version": "2020-01-01"},
}


@pytest.mark.parametrize("start", STARTS)
def test_refused_starts(service: Service, start: str) -> None:
    proxy, mark = begun(service)
    answer = service.raw("GET", path_of(proxy, "docs"), None, FEED | {"if-none-match": mark} | STARTS[start])
    assert (answer.status, answer.json["code"]) == (400, "BadRequest")
    assert "enabled" not in answer.json["message"]


@pytest.mark.parametrize("policy", [None, {"retentionDuration": 0}])
def test_the_container_must_keep_versions(service: Service, policy: dict[str, int] | None) -> None:
    proxy = service.container(change_feed_policy=policy)
    answer = read(service, proxy)
    assert answer.status == 400
    assert "All Versions and Deletes" in answer.json["message"]
    assert "must be enabled" in answer.json["message"]


def set_policy(service: Service, proxy: ContainerProxy, minutes: int | None) -> None:
    body = dict(proxy.read())
    body.pop("changeFeedPolicy", None)
    if minutes is not None:
        body["changeFeedPolicy"] = {"retentionDuration": minutes}
    assert service.raw("PUT", path_of(proxy), body).status == 200


@everywhere
def test_the_policy_changes(service: Service) -> None:
    proxy = service.container(100)
    proxy.create_item({"id": "a", "pk": "p"})
    set_policy(service, proxy, 5)
    mark = read(service, proxy).headers["etag"]
    proxy.upsert_item({"id": "a", "pk": "p"})
    assert told(read(service, proxy, mark)) == [("replace", "a", 0)], "its history begins here"
    assert read(service, proxy, "1").status == 400, "the first create was before"
    set_policy(service, proxy, None)
    assert read(service, proxy, mark).status == 400
    proxy.upsert_item({"id": "b", "pk": "p"})
    set_policy(service, proxy, 5)
    again = read(service, proxy).headers["etag"]
    proxy.upsert_item({"id": "c", "pk": "p"})
    assert told(read(service, proxy, again)) == [("create", "c", 0)]
    part = read(service, proxy, mark)
    assert told(part) == [("replace", "a", 0)]
    assert read(service, proxy, part.headers["etag"]).status == 400, "nobody is led over a gap"


@everywhere
def test_longer_does_not_bring_back_what_was_forgotten(service: Service) -> None:
    proxy = service.container(change_feed_policy={"retentionDuration": 1})
    mark = read(service, proxy).headers["etag"]
    proxy.create_item({"id": "a", "pk": "p"})
    service.at(60)
    forget(service, until=60)
    set_policy(service, proxy, 10)
    assert read(service, proxy, mark).status == 400


def forget(service: Service, until: int) -> None:
    """Wait for the reaper to have removed what is too old at that second."""
    server = service.server

    async def done() -> None:
        housekeeping = server._admin.engine.reaper._housekeeping
        housekeeping._forgotten_at = -(10**15)
        await housekeeping.forget_old((T + until) * 1_000_000)

    server._home.call(done())


@everywhere
@pytest.mark.parametrize("tidy", [False, True])
def test_retention(service: Service, tidy: bool) -> None:
    """What is too old is refused in the same second, whether it has been removed or not."""
    proxy, start = begun(service)
    proxy.create_item({"id": "a", "pk": "p"})
    first = read(service, proxy, start).headers["etag"]
    service.at(30)
    proxy.create_item({"id": "b", "pk": "q"})
    second = read(service, proxy, first).headers["etag"]
    for second_now, marks in (
        (599, {start: 2, first: 1, second: 0}), (600, {start: None, first: 1, second: 0}),
        (629, {start: None, first: 1, second: 0}), (630, {start: None, first: None, second: 0}),
        (10_000, {start: None, first: None, second: 0}),
    ):  # fmt: skip
        service.at(second_now)
        if tidy:
            forget(service, second_now)
        for mark, count in marks.items():
            answer = read(service, proxy, mark)
            if count is None:
                assert answer.status == 400, (second_now, mark)
                assert "retentionDuration" in answer.json["message"]
            else:
                assert len(told(answer)) == count, (second_now, mark)
        other = read(service, proxy, start, x_ms_documentdb_partitionkey='["none"]')
        assert (other.status == 400) == (marks[start] is None), "the same for every scope"


@everywhere
def test_a_dropped_container_takes_it_along(service: Service) -> None:
    proxy, _ = begun(service)
    service.fill(proxy, [{"id": f"i{n}", "pk": "p"} for n in range(3)])
    name = proxy.container_link.split("/")[1]
    database = service.client.get_database_client(name)
    database.delete_container("c")
    again = database.create_container("c", PartitionKey("/pk"), **KEPT)
    assert read(service, again, "0").status == 304


@everywhere
def test_bulk(service: Service) -> None:
    proxy, mark = begun(service)
    operations = [
        {"operationType": "Create", "partitionKey": '["p"]', "resourceBody": {"id": "a", "pk": "p"}},
        {"operationType": "Create", "partitionKey": '["p"]', "resourceBody": {"id": "a", "pk": "p"}},
        {"operationType": "Upsert", "partitionKey": '["p"]', "resourceBody": {"id": "a", "pk": "p"}},
        {"operationType": "Delete", "partitionKey": '["p"]', "id": "a"},
    ]
    answer = service.raw("POST", path_of(proxy, "docs"), operations, BULK)
    assert [result["statusCode"] for result in answer.json] == [201, 409, 200, 204]
    assert told(read(service, proxy, mark)) == [("create", "a", 0), ("replace", "a", 0), ("delete", "a", 0)]


def test_a_time_is_refused_by_the_client_and_by_the_server(service: Service) -> None:
    proxy, _ = begun(service)
    with pytest.raises(ValueError, match="start_time"):
        proxy.query_items_change_feed(mode="AllVersionsAndDeletes", start_time=datetime.fromtimestamp(T, UTC))
