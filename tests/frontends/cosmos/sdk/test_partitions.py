"""Partition keys of all kinds, and containers of several ranges."""

from __future__ import annotations

import json
from typing import Any

import pytest
from azure.cosmos import ContainerProxy
from azure.cosmos.partition_key import NonePartitionKeyValue, NullPartitionKeyValue

from frontends.cosmos.service import Service, everywhere, ids, path_of, rows, status_of
from mayflydb.engine.prices import DELETE
from mayflydb.frontends.cosmos.commands import partitions
from mayflydb.model.errors import Unavailable
from mayflydb.model.record import Record

CROSS: Any = {"enable_cross_partition_query": True}
TEXT = "SELECT VALUE c.id FROM c"

# A key's value, and how the client is told of it (... where it is the value itself).
KEYS: list[tuple[str, Any, Any]] = [
    ("text", "p", ...), ("empty", "", ...), ("unicode", "é😀日本", ...), ("quote", 'a"b\\c', ...), ("zero byte", "a\x00b", ...),
    ("space", " ", ...), ("digits", "5", ...), ("word", "true", ...),
    ("integer", 5, ...), ("zero", 0, ...), ("negative", -1, ...), ("fraction", 1.5, ...), ("large", 2**32, ...),
    ("larger", 2**53, ...), ("small", 5e-324, ...),
    ("true", True, ...), ("false", False, ...), ("null", None, NullPartitionKeyValue),
    ("long", "x" * 101, ...),
]  # fmt: skip


def read_key(value: Any, told: Any) -> Any:
    return value if told is ... else told


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(("name", "value", "told"), KEYS, ids=[row[0] for row in KEYS])
def test_values(service: Service, name: str, value: Any, told: Any, version: int) -> None:
    """Each value is a partition of its own, for points, queries, the feed of changes and filters alike."""
    proxy = service.container(version=version)
    others = [{"id": str(number), "pk": other} for number, (kind, other, _) in enumerate(KEYS) if kind != name]
    service.fill(proxy, others)
    item = proxy.create_item({"id": "it", "pk": value, "n": 1})
    key = read_key(value, told)
    assert proxy.read_item("it", key) == item
    assert list(proxy.query_items("SELECT * FROM c", partition_key=key)) == [item]
    assert rows(proxy.query_items("SELECT VALUE COUNT(1) FROM c", partition_key=key)) == [1]
    assert list(proxy.read_items([("it", value)])) == [item]
    where = [{"name": "@pk", "value": value}]
    assert list(proxy.query_items("SELECT * FROM c WHERE c.pk = @pk", where, **CROSS)) == [item]
    if value:
        # The client takes a key that is falsy for no key.
        changes = proxy.query_items_change_feed(start_time="Beginning", partition_key=key)
        assert [row["id"] for row in changes] == ["it"]
    changes = service.raw("GET", path_of(proxy, "docs"), None, {"a-im": "Incremental Feed"}, pk=value).json["Documents"]
    assert [row["id"] for row in changes] == ["it"]
    assert proxy.upsert_item({"id": "it", "pk": value, "n": 2})["n"] == 2
    proxy.delete_item("it", key)
    assert list(proxy.query_items("SELECT * FROM c", partition_key=key)) == []
    assert len(list(proxy.read_all_items())) == len(KEYS) - 1


@everywhere
@pytest.mark.parametrize("version", [1, 2])
def test_the_same_id_in_many_partitions(service: Service, version: int) -> None:
    proxy = service.container(version=version)
    service.fill(proxy, [{"id": "same", "pk": value} for _, value, _ in KEYS])
    proxy.create_item({"id": "same"})
    assert len(list(proxy.read_all_items())) == len(KEYS) + 1
    assert status_of(proxy.create_item, {"id": "same", "pk": 5}) == 409


def test_numbers_that_are_equal_are_one_key(service: Service) -> None:
    proxy = service.container()
    proxy.create_item({"id": "1", "pk": 5})
    assert status_of(proxy.create_item, {"id": "1", "pk": 5.0}) == 409
    assert (
        service.raw("GET", path_of(proxy, "docs", "1"), None, {"x-ms-documentdb-partitionkey": "[5e0]"}).status == 200
    )
    assert status_of(proxy.read_item, "1", "5") == 404


@everywhere
@pytest.mark.parametrize("version", [1, 2])
def test_zero_and_minus_zero_are_two_keys(service: Service, version: int) -> None:
    """As the .NET client's test of hashes has it. In JSON, -0 is the integer 0."""
    proxy = service.container(version=version, offer_throughput=12_000)
    proxy.create_item({"id": "1", "pk": 0})
    proxy.create_item({"id": "1", "pk": -0.0})
    assert status_of(proxy.create_item, {"id": "1", "pk": 0.0}) == 409
    for header, own in (("[0]", "0"), ("[-0.0]", "-0.0"), ("[-0]", "0"), ("[0.0]", "0")):
        answer = service.raw("GET", path_of(proxy, "docs", "1"), None, {"x-ms-documentdb-partitionkey": header})
        assert (answer.status, json.dumps(answer.json["pk"])) == (200, own)
    if version == 2:
        # In version 1 the bounds of a range do not tell the two apart.
        within = proxy.feed_range_from_partition_key(-0.0)
        changes = proxy.query_items_change_feed(start_time="Beginning", feed_range=within)
        assert [json.dumps(row["pk"]) for row in changes] == ["-0.0"]
    assert rows(proxy.query_items("SELECT VALUE c.id FROM c WHERE ABS(c.pk) = 0", **CROSS)) == ["1", "1"]


def test_undefined_and_null_are_two(service: Service) -> None:
    proxy = service.container()
    proxy.create_item({"id": "1"})
    proxy.create_item({"id": "1", "pk": None})
    undefined = service.raw("GET", path_of(proxy, "docs", "1"), pk={})
    null = service.raw("GET", path_of(proxy, "docs", "1"), pk=None)
    assert "pk" not in undefined.json
    assert null.json["pk"] is None
    assert proxy.read_item("1", NonePartitionKeyValue) == undefined.json
    assert proxy.read_item("1", NullPartitionKeyValue) == null.json
    proxy.delete_item("1", NonePartitionKeyValue)
    assert list(proxy.read_all_items()) == [null.json]


@pytest.mark.parametrize(
    ("header", "substatus"),
    [(None, 0), ('["q"]', 1001), ('["p","q"]', 1001), ("[5]", 1001), ("[{}]", 1001), ("[null]", 1001)],
)
def test_the_header_is_the_key_of_the_body(service: Service, header: str | None, substatus: int) -> None:
    proxy = service.container()
    answer = service.raw(
        "POST", path_of(proxy, "docs"), {"id": "1", "pk": "p"}, {"x-ms-documentdb-partitionkey": header}
    )
    assert (answer.status, answer.substatus) == (400, substatus)
    if header is None:
        assert "PartitionKey value must be supplied for this operation." in answer.json["message"]
    else:
        fits = header != '["p","q"]'
        said = "PartitionKey extracted from document doesn't match the one" if fits else "Partition key provided either"
        assert said in answer.json["message"]
    assert list(proxy.read_all_items()) == []


@pytest.mark.parametrize("value", ["x", "[", "5", '"p"', "[[]]", '[{"a":1}]', "[undefined]", "{}", ""])
def test_key_headers_that_are_no_key(service: Service, value: str) -> None:
    proxy = service.container()
    answer = service.raw("GET", path_of(proxy, "docs", "1"), None, {"x-ms-documentdb-partitionkey": value})
    assert answer.status == 400, answer


@pytest.mark.parametrize(("length", "status"), [(2047, 201), (2048, 201), (2049, 400)])
def test_length_of_a_key(service: Service, length: int, status: int) -> None:
    proxy = service.container()
    answer = service.raw("POST", path_of(proxy, "docs"), {"id": "1", "pk": "k" * length}, pk="k" * length)
    assert answer.status == status, answer


def test_nested_key_path(service: Service) -> None:
    proxy = service.container(paths="/a/b c/d")
    item = proxy.create_item({"id": "1", "a": {"b c": {"d": "k"}}})
    assert proxy.read_item("1", "k") == item
    proxy.create_item({"id": "2", "a": {"b c": 5}})
    assert ids(proxy.query_items("SELECT * FROM c", partition_key="k")) == ["1"]


# --- hierarchical ----------------------------------------------------------------------------------------------------

PLACES = [
    ("1", "de", "berlin", 10115), ("2", "de", "berlin", 10117), ("3", "de", "köln", 50667), ("4", "fr", "paris", 75001),
    ("5", "fr", "berlin", 10115), ("6", "", "", 0), ("7", "de", None, True),
]  # fmt: skip


@pytest.fixture
def places(service: Service) -> ContainerProxy:
    proxy = service.container(paths=["/country", "/city", "/zip"])
    for id, country, city, code in PLACES:
        proxy.create_item({"id": id, "country": country, "city": city, "zip": code})
    bare = service.raw("POST", path_of(proxy, "docs"), {"id": "8", "country": "de"}, pk=["de", {}, {}])
    assert bare.status == 201
    return proxy


def test_points_below_a_hierarchy(places: ContainerProxy) -> None:
    for id, *key in PLACES:
        assert places.read_item(id, key)["id"] == id
    assert status_of(places.read_item, "1", ["de", "berlin", 10117]) == 404
    places.delete_item("1", ["de", "berlin", 10115])
    assert status_of(places.read_item, "1", ["de", "berlin", 10115]) == 404


@everywhere
@pytest.mark.parametrize(
    ("prefix", "expected"),
    [(["de"], ["1", "2", "3", "7", "8"]), (["de", "berlin"], ["1", "2"]), (["de", "berlin", 10115], ["1"]),
     (["fr"], ["4", "5"]), ([""], ["6"]), (["es"], []), (["de", None], ["7"]), (["fr", "berlin"], ["5"])],
)  # fmt: skip
def test_prefixes(service: Service, places: ContainerProxy, prefix: list[Any], expected: list[str]) -> None:
    assert sorted(rows(places.query_items(TEXT, partition_key=prefix))) == expected
    ordered = rows(places.query_items(f"{TEXT} ORDER BY c.id DESC", partition_key=prefix))
    assert ordered == sorted(expected, reverse=True)
    assert rows(places.query_items("SELECT VALUE COUNT(1) FROM c", partition_key=prefix)) == [len(expected)]
    raw = service.raw(
        "POST", path_of(places, "docs"), {"query": TEXT},
        {"content-type": "application/query+json", "x-ms-documentdb-isquery": "True"}, pk=prefix,
    )  # fmt: skip
    assert sorted(raw.json["Documents"]) == expected


def test_the_client_says_null_for_what_is_missing(places: ContainerProxy) -> None:
    assert status_of(places.create_item, {"id": "9", "country": "de"}) == 400


def test_filters_on_a_hierarchy(places: ContainerProxy) -> None:
    assert sorted(rows(places.query_items(f"{TEXT} WHERE c.country = 'de' AND c.city = 'berlin'", **CROSS))) == [
        "1",
        "2",
    ]
    full = f"{TEXT} WHERE c.country = 'de' AND c.city = 'berlin' AND c.zip = 10117"
    assert rows(places.query_items(full, **CROSS)) == ["2"]
    assert sorted(rows(places.query_items(f"{TEXT} WHERE c.country IN ('fr', '')", **CROSS))) == ["4", "5", "6"]


@pytest.mark.parametrize("key", [["de"], ["de", "berlin"], ["de", "berlin", 10115, "x"], "de"])
def test_points_need_the_whole_key(service: Service, places: ContainerProxy, key: Any) -> None:
    answer = service.raw("GET", path_of(places, "docs", "1"), pk=key)
    assert answer.status == 400


# --- several ranges --------------------------------------------------------------------------------------------------

RANGES = [(400, 1), (6000, 1), (12000, 2), (30000, 5)]


def spread(service: Service, throughput: int, version: int = 2, count: int = 60) -> ContainerProxy:
    proxy = service.container(version=version, offer_throughput=throughput)
    service.fill(proxy, [{"id": f"i{n:02}", "pk": f"p{n % 20}", "n": n, "g": n % 3} for n in range(count)])
    return proxy


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(("throughput", "count"), RANGES)
def test_ranges(service: Service, throughput: int, count: int, version: int) -> None:
    proxy = service.container(version=version, offer_throughput=throughput)
    answer = service.raw("GET", path_of(proxy, "pkranges"))
    rows = answer.json["PartitionKeyRanges"]
    assert [row["id"] for row in rows] == [str(n) for n in range(count)]
    edges = [row["minInclusive"] for row in rows] + [rows[-1]["maxExclusive"]]
    assert edges[0] == "" and edges[-1] == "FF" and edges == sorted(edges)
    assert [row["maxExclusive"] for row in rows] == edges[1:]
    again = service.raw("GET", path_of(proxy, "pkranges"), None, {"if-none-match": answer.headers["etag"]})
    assert (again.status, again.body, again.headers["etag"]) == (304, b"", answer.headers["etag"])
    assert len(list(proxy.read_feed_ranges())) == count


def test_a_query_over_ranges(service: Service) -> None:
    proxy = service.container(offer_throughput=12000)
    query = {
        "query": "SELECT VALUE r.id FROM r WHERE r.minInclusive > @from",
        "parameters": [{"name": "@from", "value": "1"}],
    }
    answer = service.raw("POST", path_of(proxy, "pkranges"), query, {"content-type": "application/query+json"})
    assert (answer.status, answer.json["PartitionKeyRanges"]) == (200, ["1"])
    missing = service.raw("POST", "/dbs/none/colls/c/pkranges", query, {"content-type": "application/query+json"})
    assert (missing.status, missing.substatus) == (404, 1003)


@everywhere
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("throughput", [12000, 30000])
def test_items_over_ranges(service: Service, throughput: int, version: int, flavour: str) -> None:
    proxy = spread(service, throughput, version)
    client = service.sync(proxy) if flavour == "sync" else service.aio(proxy)
    everything = [f"i{n:02}" for n in range(60)]

    def ask(text: str, **options: Any) -> Any:
        return client.call("query_items", text, **(options or CROSS))

    assert sorted(ask(TEXT)) == everything
    assert sorted(ask(TEXT, max_item_count=7, **CROSS)) == everything
    assert sorted(item["id"] for item in client.call("read_all_items", max_item_count=11)) == everything
    assert ask(f"{TEXT} ORDER BY c.n", max_item_count=7, **CROSS) == everything
    assert ask(f"{TEXT} ORDER BY c.n DESC") == everything[::-1]
    assert ask(f"{TEXT} ORDER BY c.n OFFSET 5 LIMIT 3") == everything[5:8]
    assert ask("SELECT TOP 4 VALUE c.n FROM c ORDER BY c.n DESC") == [59, 58, 57, 56]
    assert ask("SELECT VALUE COUNT(1) FROM c") == [60]
    assert ask("SELECT VALUE SUM(c.n) FROM c") == [1770]
    assert ask("SELECT VALUE AVG(c.n) FROM c") == [29.5]
    assert ask("SELECT VALUE MIN(c.n) FROM c") == [0]
    assert ask("SELECT VALUE MAX(c.n) FROM c") == [59]
    assert sorted(ask("SELECT DISTINCT VALUE c.g FROM c")) == [0, 1, 2]
    assert sorted(ask(TEXT, partition_key="p3")) == ["i03", "i23", "i43"]
    assert sorted(ask(f"{TEXT} WHERE c.pk = 'p3'")) == ["i03", "i23", "i43"]
    assert sorted(ask(f"{TEXT} WHERE c.pk IN ('p3', 'p4')")) == ["i03", "i04", "i23", "i24", "i43", "i44"]
    many = [(f"i{n:02}", f"p{n % 20}") for n in range(0, 60, 7)]
    assert ids(client.call("read_items", many)) == [id for id, _ in many]


@everywhere
@pytest.mark.parametrize("throughput", [12000, 30000])
def test_each_range_has_its_own_items(service: Service, throughput: int) -> None:
    proxy = spread(service, throughput)
    ranges = list(proxy.read_feed_ranges())
    found = [ids(proxy.query_items("SELECT * FROM c", feed_range=each)) for each in ranges]
    changed = [ids(proxy.query_items_change_feed(start_time="Beginning", feed_range=each)) for each in ranges]
    assert sorted(id for part in found for id in part) == [f"i{n:02}" for n in range(60)]
    assert found == changed
    assert all(found), "twenty keys leave no range empty"
    raw = [
        service.raw("GET", path_of(proxy, "docs"), None, {"x-ms-documentdb-partitionkeyrangeid": str(n)})
        for n in range(len(ranges))
    ]
    assert [ids(answer.json["Documents"]) for answer in raw] == found


@everywhere
@pytest.mark.parametrize("query", [None, TEXT, "SELECT VALUE c.id FROM c WHERE c.n < 0"])
def test_a_page_over_the_container_is_of_one_range(service: Service, query: str | None) -> None:
    proxy = spread(service, 30000)
    of_range = [ids(proxy.query_items("SELECT * FROM c", feed_range=each)) for each in proxy.read_feed_ranges()]
    expected = [[part[:7], part[7:14], part[14:]] for part in of_range]
    headers: dict[str, str | bytes | None] = {"x-ms-max-item-count": "7", "x-ms-session-token": ""}
    if query is not None:
        headers |= {"content-type": "application/query+json", "x-ms-documentdb-query-enablecrosspartition": "true"}
    found: dict[str, list[list[str]]] = {}
    while True:
        body = None if query is None else {"query": query}
        answer = service.raw("GET" if query is None else "POST", path_of(proxy, "docs"), body, headers)
        page = [row["id"] if isinstance(row, dict) else row for row in answer.json["Documents"]]
        (range_id, _, _) = answer.headers["x-ms-session-token"].partition(":")
        found.setdefault(range_id, []).append(page)
        if "x-ms-continuation" not in answer.headers:
            break
        headers["x-ms-continuation"] = answer.headers["x-ms-continuation"]
    assert list(found) == ["0", "1", "2", "3", "4"]
    wanted = [[page for page in pages if page] for pages in expected]
    if query is not None and "WHERE" in query:
        wanted = [[[]]] * 5
    assert list(found.values()) == wanted
    assert sorted(rows(proxy.query_items(TEXT, max_item_count=7, **CROSS))) == [f"i{n:02}" for n in range(60)]


def test_a_range_that_is_not_there(service: Service) -> None:
    proxy = service.container()
    answer = service.raw("GET", path_of(proxy, "docs"), None, {"x-ms-documentdb-partitionkeyrangeid": "7"})
    assert (answer.status, answer.substatus, answer.json["code"]) == (410, 1002, "Gone")


@everywhere
def test_a_hierarchy_over_ranges(service: Service) -> None:
    proxy = service.container(paths=["/a", "/b"], offer_throughput=30000)
    for n in range(40):
        proxy.create_item({"id": f"i{n:02}", "a": f"a{n % 4}", "b": n})
    assert sorted(rows(proxy.query_items(TEXT, partition_key=["a1"]))) == [f"i{n:02}" for n in range(1, 40, 4)]
    assert rows(proxy.query_items(f"{TEXT} ORDER BY c.b", partition_key=["a1"])) == [
        f"i{n:02}" for n in range(1, 40, 4)
    ]
    assert rows(proxy.query_items(TEXT, partition_key=["a1", 5])) == ["i05"]
    assert rows(proxy.query_items("SELECT VALUE COUNT(1) FROM c", **CROSS)) == [40]
    assert ids(proxy.query_items_change_feed(start_time="Beginning", partition_key=["a1", 5])) == ["i05"]


@everywhere
def test_a_deadline_over_ranges(service: Service) -> None:
    proxy = service.container(10, offer_throughput=30000)
    for n in range(30):
        proxy.create_item({"id": str(n), "pk": str(n)} | ({"ttl": -1} if n % 3 == 0 else {}))
    for second, count in ((9, 30), (10, 10)):
        service.at(second)
        assert rows(proxy.query_items("SELECT VALUE COUNT(1) FROM c", **CROSS)) == [count]
        per_range = [list(proxy.query_items(TEXT, feed_range=each)) for each in proxy.read_feed_ranges()]
        assert sum(map(len, per_range)) == count
    assert service.server.purge()["purged"] == 20


@pytest.mark.parametrize("throughput", [400, 30000])
def test_the_client_reads_the_ranges_once(service: Service, throughput: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers name their range; without that the client takes it for a new one, and reads all ranges before each request."""
    proxy = spread(service, throughput)
    reads: list[str] = []
    connection = proxy.client_connection
    read = connection._ReadPartitionKeyRanges

    def counted(link: str, *args: Any, **options: Any) -> Any:
        reads.append(link)
        return read(link, *args, **options)

    monkeypatch.setattr(connection, "_ReadPartitionKeyRanges", counted)
    for n in range(20):
        proxy.read_item(f"i{n:02}", f"p{n}")
        proxy.upsert_item({"id": f"i{n:02}", "pk": f"p{n}", "n": n})
        list(proxy.query_items(TEXT, partition_key=f"p{n}"))
    list(proxy.query_items(f"{TEXT} ORDER BY c.n", max_item_count=10, **CROSS))
    list(proxy.query_items_change_feed(start_time="Beginning", max_item_count=10))
    assert len(reads) <= 4


# --- a whole partition -----------------------------------------------------------------------------------------------


@everywhere
@pytest.mark.parametrize("name", ["text", "unicode", "integer", "true", "null", "long"])
def test_deleting_a_partition_leaves_the_others(service: Service, name: str) -> None:
    proxy = service.container()
    service.fill(proxy, [{"id": str(n), "pk": value} for n, (_, value, _) in enumerate(KEYS)])
    service.fill(
        proxy, [{"id": f"more{n}", "pk": value} for n in range(150) for kind, value, _ in KEYS if kind == name]
    )
    told = next(read_key(value, told) for kind, value, told in KEYS if kind == name)
    proxy.delete_all_items_by_partition_key(told)
    left = {item["id"] for item in proxy.read_all_items()}
    assert left == {str(n) for n, (kind, _, _) in enumerate(KEYS) if kind != name}
    # Again, and of what never was.
    proxy.delete_all_items_by_partition_key(told)
    proxy.delete_all_items_by_partition_key("nobody")
    assert proxy.create_item({"id": "0", "pk": "new"})["id"] == "0"


@everywhere
def test_deleting_a_partition_fails_midway(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is deleted stays so, and is charged."""
    proxy = service.container()
    service.fill(proxy, [{"id": str(n), "pk": "p"} for n in range(5)])
    delete = partitions._delete

    async def failing(call: Any, view: Any, record: Record) -> bool:
        if record.key == b"1":
            raise Unavailable("the disk is full")
        return await delete(call, view, record)

    monkeypatch.setattr(partitions, "_delete", failing)
    answer = service.raw("POST", path_of(proxy, "operations", "partitionkeydelete"), pk="p")
    assert (answer.status, answer.headers["x-ms-request-charge"]) == (503, f"{4 * DELETE:.2f}")
    assert ids(proxy.read_all_items()) == ["1"]


def test_deleting_a_partition_needs_a_whole_key(service: Service) -> None:
    proxy = service.container(paths=["/a", "/b"])
    proxy.create_item({"id": "1", "a": "x", "b": "y"})
    path = path_of(proxy, "operations", "partitionkeydelete")
    assert service.raw("POST", path).status == 400
    assert service.raw("POST", path, headers={"x-ms-documentdb-partitionkey": '["x"]'}).status == 400
    for method in ("GET", "PUT", "DELETE"):
        assert service.raw(method, path, headers={"x-ms-documentdb-partitionkey": '["x","y"]'}).status == 400
    assert len(list(proxy.read_all_items())) == 1
    missing = path.replace("/colls/c/", "/colls/missing/")
    assert service.raw("POST", missing, headers={"x-ms-documentdb-partitionkey": '["x","y"]'}).status == 404
    answer = service.raw("POST", path, headers={"x-ms-documentdb-partitionkey": '["x","y"]'})
    assert (answer.status, answer.body) == (200, b"")
    assert list(proxy.read_all_items()) == []
