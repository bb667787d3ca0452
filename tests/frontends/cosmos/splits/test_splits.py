"""More throughput than the ranges carry splits them, while clients read: nothing is lost, nothing is told twice."""

from __future__ import annotations

from typing import Any

import pytest
from azure.cosmos import ContainerProxy, CosmosClient, PartitionKey, ThroughputProperties
from azure.cosmos.exceptions import CosmosHttpResponseError

from frontends.cosmos.service import BULK, Answer, Service, everywhere, ids, path_of

pytestmark = everywhere

CROSS: dict[str, Any] = {"enable_cross_partition_query": True}
COUNT = 60
EVERYTHING = [f"i{n:02}" for n in range(COUNT)]
RANGE = "x-ms-documentdb-partitionkeyrangeid"
QUERY: dict[str, str | bytes | None] = {"content-type": "application/query+json"}


def filled(service: Service, throughput: int = 400, version: int = 2) -> ContainerProxy:
    proxy = service.container(version=version, offer_throughput=throughput)
    service.fill(
        proxy, [{"id": id, "pk": f"p{n % 20}", "n": n, "g": n % 3, "l": [1]} for n, id in enumerate(EVERYTHING)]
    )
    return proxy


def ranges(service: Service, proxy: ContainerProxy, headers: dict[str, str | bytes | None] | None = None) -> Answer:
    return service.raw("GET", path_of(proxy, "pkranges"), None, headers)


def family(service: Service, proxy: ContainerProxy) -> list[tuple[str, list[str]]]:
    return [(row["id"], row["parents"]) for row in ranges(service, proxy).json["PartitionKeyRanges"]]


def test_more_throughput_splits_ranges(service: Service) -> None:
    """A range carries 10 000 RU/s; children have new ids, name all they come from, and are never merged."""
    proxy = filled(service)
    steps: list[tuple[int, list[tuple[str, list[str]]]]] = [
        (10_000, [("0", [])]),
        (10_100, [("1", ["0"]), ("2", ["0"])]),
        (400, [("1", ["0"]), ("2", ["0"])]),
        (20_000, [("1", ["0"]), ("2", ["0"])]),
        (30_000, [("1", ["0"]), ("3", ["0", "2"]), ("4", ["0", "2"])]),
        (40_000, [("5", ["0", "1"]), ("6", ["0", "1"]), ("3", ["0", "2"]), ("4", ["0", "2"])]),
    ]
    for throughput, expected in steps:
        before = ranges(service, proxy)
        proxy.replace_throughput(throughput)
        after = ranges(service, proxy, {"if-none-match": before.headers["etag"]})
        assert family(service, proxy) == expected
        assert after.status == (304 if before.json["_count"] == len(expected) else 200)
        rows = ranges(service, proxy).json["PartitionKeyRanges"]
        edges = [row["minInclusive"] for row in rows] + [rows[-1]["maxExclusive"]]
        assert (edges[0], edges[-1]) == ("", "FF") and edges == sorted(set(edges))
        assert sum(row["throughputFraction"] for row in rows) == pytest.approx(1)
        found = [service.raw("GET", path_of(proxy, "docs"), None, {RANGE: row["id"]}).json["Documents"] for row in rows]
        assert sorted(item["id"] for part in found for item in part) == EVERYTHING


@pytest.mark.parametrize("version", [1, 2])
def test_autoscale_grows_by_its_maximum(service: Service, version: int) -> None:
    proxy = service.container(version=version, offer_throughput=ThroughputProperties(auto_scale_max_throughput=4000))
    proxy.replace_throughput(ThroughputProperties(auto_scale_max_throughput=25_000))
    assert family(service, proxy) == [("1", ["0"]), ("2", ["0"]), ("3", ["0"])]
    assert proxy.get_throughput().auto_scale_max_throughput == 25_000
    (offer,) = service.raw("GET", "/offers").json["Offers"]
    answer = service.raw("GET", "/" + offer["_self"].strip("/"))
    assert answer.headers["x-ms-offer-replace-pending"] == "false"


def test_shared_throughput_splits_nothing(service: Service) -> None:
    database = service.client.create_database("shop", offer_throughput=400)
    proxy = database.create_container("c", PartitionKey("/pk"))
    database.replace_throughput(50_000)
    assert family(service, proxy) == [("0", [])]


def test_the_old_range_is_gone(service: Service) -> None:
    proxy = filled(service)
    docs, parent = path_of(proxy, "docs"), {RANGE: "0"}
    read = {"operationType": "Read", "partitionKey": '["p0"]', "id": "i00"}
    assert service.raw("POST", docs, [read], BULK | parent).status == 200
    proxy.replace_throughput(11_000)
    query = {"query": "SELECT * FROM c"}
    for answer in (
        service.raw("GET", docs, None, parent), service.raw("POST", docs, query, QUERY | parent),
        service.raw("GET", docs, None, {"a-im": "Incremental Feed"} | parent), service.raw("POST", docs, [read], BULK | parent),
    ):  # fmt: skip
        assert (answer.status, answer.substatus, answer.json["code"]) == (410, 1002, "Gone")
    # Who names a key needs no range: it is answered from the one that has the key now.
    for old in ("0", "junk"):
        answer = service.raw("GET", docs, None, {RANGE: old}, pk="p0")
        assert (answer.status, answer.headers[RANGE] in ("1", "2")) == (200, True)
    # In bulk a key of another range is as good as gone; one that is no key is its own operation's fault.
    there = [service.raw("POST", docs, [read], BULK | {RANGE: id}).status for id in ("1", "2")]
    assert sorted(there) == [200, 410]
    faulty = service.raw("POST", docs, [read | {"partitionKey": "x"}], BULK | {RANGE: "1"})
    assert [result["statusCode"] for result in faulty.json] == [400]


def test_a_session_goes_on_in_the_children(service: Service) -> None:
    proxy = filled(service)
    written = service.raw("POST", path_of(proxy, "docs"), {"id": "new", "pk": "p1"}, pk="p1")
    token = written.headers["x-ms-session-token"]
    proxy.replace_throughput(11_000)
    seen = service.raw("GET", path_of(proxy, "docs", "new"), None, {"x-ms-session-token": token}, pk="p1")
    assert seen.status == 200
    range_id, _, rest = seen.headers["x-ms-session-token"].partition(":")
    assert range_id in ("1", "2") and int(rest.partition("#")[2]) >= int(token.partition("#")[2])
    # The parent's lsn, and one that was never reached.
    ahead = token.rpartition("#")[0] + "#100000"
    answer = service.raw("GET", path_of(proxy, "docs", "new"), None, {"x-ms-session-token": ahead}, pk="p1")
    assert (answer.status, answer.substatus) == (404, 1002)
    assert proxy.read_item("new", "p1")["id"] == "new"


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    "text", ["SELECT * FROM c", "SELECT c.id FROM c ORDER BY c.n DESC", "SELECT TOP 50 c.id FROM c"]
)
def test_a_token_of_the_parent_goes_on_in_its_children(service: Service, version: int, text: str) -> None:
    """Each child has what is left of the parent's rows in its part; what was told is not told again."""
    proxy = filled(service, version=version)
    docs, query = path_of(proxy, "docs"), {"query": text}
    first = service.raw("POST", docs, query, QUERY | {RANGE: "0", "x-ms-max-item-count": "25"})
    found = [row["id"] for row in first.json["Documents"]]
    proxy.replace_throughput(21_000)
    for range_id in ("1", "2", "3"):
        token = first.headers.get("x-ms-continuation")
        while token is not None:
            more = {RANGE: range_id, "x-ms-max-item-count": "7", "x-ms-continuation": token}
            answer = service.raw("POST", docs, query, QUERY | more)
            assert answer.status == 200, answer
            found += [row["id"] for row in answer.json["Documents"]]
            token = answer.headers.get("x-ms-continuation")
    assert sorted(found) == EVERYTHING or "TOP" in text
    assert len(set(found)) == len(found) >= 50


def test_a_query_is_finished_where_it_began(service: Service) -> None:
    """The old range answers who goes on in it, and is told as the one that answered."""
    proxy = filled(service)
    docs, page = path_of(proxy, "docs"), {RANGE: "0", "x-ms-max-item-count": "25"}
    answer = service.raw("GET", docs, None, page)
    found = [row["id"] for row in answer.json["Documents"]]
    proxy.replace_throughput(35_000)
    while "x-ms-continuation" in answer.headers:
        answer = service.raw("GET", docs, None, page | {"x-ms-continuation": answer.headers["x-ms-continuation"]})
        assert (answer.status, answer.headers[RANGE]) == (200, "0")
        assert answer.headers["x-ms-session-token"].startswith("0:")
        found += [row["id"] for row in answer.json["Documents"]]
    assert found == EVERYTHING
    gone = page | {RANGE: "7", "x-ms-continuation": "x"}
    assert service.raw("GET", docs, None, gone).substatus == 1002


def test_pages_over_the_container_go_on_in_the_children(service: Service) -> None:
    """A range that is split between two pages is read to its end, and the following ones after it."""
    for throughput, more in ((400, 30_000), (12_000, 40_000)):
        proxy = filled(service, throughput)
        found: list[str] = []
        headers: dict[str, str | bytes | None] = {"x-ms-max-item-count": "9"}
        for number in range(100):
            answer = service.raw("GET", path_of(proxy, "docs"), None, headers)
            found += ids(answer.json["Documents"])
            if "x-ms-continuation" not in answer.headers:
                break
            headers["x-ms-continuation"] = answer.headers["x-ms-continuation"]
            if number == 1:
                proxy.replace_throughput(more)
        assert sorted(found) == EVERYTHING


def test_a_token_of_a_child_is_not_one_of_its_parent(service: Service) -> None:
    proxy = filled(service, 12_000)
    docs = path_of(proxy, "docs")
    page: dict[str, str | bytes | None] = {"x-ms-max-item-count": "2"}
    token = service.raw("GET", docs, None, page | {RANGE: "1"}).headers["x-ms-continuation"]
    for wrong in ({}, {RANGE: "0"}):
        assert service.raw("GET", docs, None, page | wrong | {"x-ms-continuation": token}).status == 400


def test_a_token_that_counts_rows_ends_with_its_range(service: Service) -> None:
    proxy = filled(service)
    docs, query = path_of(proxy, "docs"), {"query": "SELECT DISTINCT c.pk FROM c"}
    page: dict[str, str | bytes | None] = QUERY | {"x-ms-max-item-count": "5"}
    token = service.raw("POST", docs, query, page | {RANGE: "0"}).headers["x-ms-continuation"]
    assert service.raw("POST", docs, query, page | {RANGE: "0", "x-ms-continuation": token}).status == 200
    proxy.replace_throughput(11_000)
    answer = service.raw("POST", docs, query, page | {RANGE: "1", "x-ms-continuation": token})
    assert answer.status == 400 and "split" in answer.json["message"]


# --- the vendor's clients --------------------------------------------------------------------------------------------


def client_of(service: Service, proxy: ContainerProxy, flavour: str) -> Any:
    return service.sync(proxy) if flavour == "sync" else service.aio(proxy)


TEXTS = {
    "plain": "SELECT * FROM c", "ordered": "SELECT * FROM c ORDER BY c.n", "projected": "SELECT c.id FROM c WHERE c.n >= 0",
    "joined": "SELECT c.id, x FROM c JOIN x IN c.l", "top": "SELECT TOP 60 * FROM c ORDER BY c.n DESC",
}  # fmt: skip


@pytest.mark.parametrize("page", [1, 3])
@pytest.mark.parametrize("name", TEXTS)
def test_a_query_in_progress(service: Service, name: str, page: int) -> None:
    proxy = filled(service, 12_000)
    rows = iter(proxy.query_items(TEXTS[name], max_item_count=7, **CROSS))
    found = [next(rows)["id"] for _ in range(page * 7)]
    proxy.replace_throughput(35_000)
    found += [row["id"] for row in rows]
    assert sorted(found) == EVERYTHING
    if "ORDER" in TEXTS[name]:
        assert found in (EVERYTHING, EVERYTHING[::-1])


@pytest.mark.parametrize("page", [1, 3])
def test_a_query_of_a_feed_range_in_progress(service: Service, page: int) -> None:
    proxy = filled(service, 12_000)
    for each in list(proxy.read_feed_ranges()):
        expected = ids(proxy.query_items("SELECT * FROM c", feed_range=each))
        rows = iter(proxy.query_items("SELECT * FROM c", feed_range=each, max_item_count=4))
        found = [next(rows)["id"] for _ in range(page * 4)]
        proxy.replace_throughput(35_000)
        assert sorted(found + [row["id"] for row in rows]) == expected


def test_change_feeds_in_progress(service: Service, flavour: str) -> None:
    """Of the whole container and of a range: from their own checkpoint on, in the children."""
    proxy = filled(service, 12_000)
    client = client_of(service, proxy, flavour)
    scopes = [{}, *({"feed_range": each} for each in proxy.read_feed_ranges())]
    checkpoints = []
    for scope in scopes:
        seen: list[str] = []
        client.proxy.client_connection.last_response_headers = {}
        first = ids(client.call("query_items_change_feed", start_time="Beginning", **scope))
        seen += first
        checkpoints.append((scope, seen, client.proxy.client_connection.last_response_headers["etag"]))
    proxy.replace_throughput(35_000)
    service.fill(proxy, [{"id": f"new{n}", "pk": f"p{n}"} for n in range(20)])
    told: list[str] = []
    for scope, seen, checkpoint in checkpoints:
        more = ids(client.call("query_items_change_feed", continuation=checkpoint))
        assert set(more).isdisjoint(seen) and len(set(more)) == len(more)
        if scope:
            told += more
        else:
            assert more == sorted(f"new{n}" for n in range(20))
    assert sorted(told) == sorted(f"new{n}" for n in range(20))


def test_points_and_writes_after_a_split(service: Service, flavour: str) -> None:
    proxy = filled(service)
    client = client_of(service, proxy, flavour)
    assert client.call("read_item", "i01", "p1")["n"] == 1
    proxy.replace_throughput(35_000)
    assert client.call("upsert_item", {"id": "i01", "pk": "p1", "n": 100})["n"] == 100
    assert client.call("read_item", "i01", "p1")["n"] == 100
    assert len(client.call("read_items", [(id, f"p{n % 20}") for n, id in enumerate(EVERYTHING)])) == COUNT
    assert client.call("query_items", "SELECT VALUE COUNT(1) FROM c", **CROSS) == [COUNT]
    assert len(list(proxy.read_feed_ranges(force_refresh=True))) == 4


def test_another_client_that_knew_the_parent(service: Service) -> None:
    """Who has not heard of the split is told by a 410, and goes on."""
    proxy = filled(service)
    other = CosmosClient(service.url, service.server.cosmos.key)
    _, database, _, name = proxy.container_link.split("/")
    theirs = other.get_database_client(database).get_container_client(name)
    assert len(list(theirs.query_items("SELECT * FROM c ORDER BY c.n", **CROSS))) == COUNT
    proxy.replace_throughput(35_000)
    for text in TEXTS.values():
        assert ids(theirs.query_items(text, **CROSS)) == EVERYTHING
    other.__exit__()  # type: ignore[no-untyped-call]


ROWS = [
    ("SELECT VALUE COUNT(1)", [1]),
    ("SELECT VALUE SUM(2)", [2]),
    ("SELECT TOP 2 5", [{"$1": 5}]),
    ("SELECT DISTINCT VALUE 5", [5]),
    ("SELECT VALUE 5", [5]),
    ("SELECT 1 AS a, 2 AS b OFFSET 0 LIMIT 3", [{"a": 1, "b": 2}]),
    ("SELECT VALUE ARRAY(SELECT VALUE 1)", [[1]]),
    ("SELECT VALUE COUNT(1) FROM c", [COUNT]),
    ('SELECT VALUE COUNT(1) FROM c WHERE c.pk = "p1" AND c.pk = "p2"', [0]),
]


@pytest.mark.parametrize(("text", "rows"), ROWS)
def test_a_query_without_from_runs_once(service: Service, flavour: str, text: str, rows: list[Any]) -> None:
    proxy = filled(service, 30_000)
    assert len(family(service, proxy)) == 5
    assert client_of(service, proxy, flavour).call("query_items", text, **CROSS) == rows


NESTED = "SELECT VALUE r1 FROM (SELECT VALUE r0.n FROM (SELECT DISTINCT VALUE root FROM root) AS r0) AS r1"
WHOLE = "SELECT VALUE SUM(s.g) FROM (SELECT DISTINCT c.g FROM c) AS s"
DISTINCT_COUNT = "SELECT VALUE COUNT(1) FROM (SELECT DISTINCT c.g FROM c)"


def test_distinct_in_the_first_subquery(service: Service, flavour: str) -> None:
    """Documents are distinct, wherever they lie. What else is distinct nothing but one range, or one key, can tell."""
    proxy = filled(service)
    client = client_of(service, proxy, flavour)
    for text, rows in ((NESTED, list(range(COUNT))), (WHOLE, [3])):
        assert sorted(client.call("query_items", text, **CROSS)) == rows
    for text, rows in ((WHOLE, [3]), (DISTINCT_COUNT, [3]), (NESTED, [1, 21, 41])):
        assert client.call("query_items", text, partition_key="p1") == rows
    proxy.replace_throughput(50_000)
    assert sorted(client.call("query_items", NESTED, **CROSS)) == list(range(COUNT))
    assert client.call("query_items", DISTINCT_COUNT, partition_key="p1") == [3]
    for text, reason in (
        (WHOLE, "over several partition key ranges is not supported by Mayfly"),
        (DISTINCT_COUNT, "DCount"),
    ):
        with pytest.raises(CosmosHttpResponseError, match=reason) as refused:
            client.call("query_items", text, **CROSS)
        assert refused.value.status_code == 400


def test_distinct_values_are_counted_by_clients_that_can(service: Service) -> None:
    """As .NET and Java do: the plan's text is asked of each range, and distinct rows of all of them are counted."""
    proxy = filled(service, 50_000)
    docs, asked = path_of(proxy, "docs"), {"query": DISTINCT_COUNT}
    features: dict[str, str | bytes | None] = {
        "x-ms-cosmos-is-query-plan-request": "True", "x-ms-cosmos-supported-query-features": "Distinct, DCount",
    }  # fmt: skip
    info = service.raw("POST", docs, asked, QUERY | features).json["queryInfo"]
    assert (info["distinctType"], info["dCountInfo"]) == ("Unordered", {"dCountAlias": ""})
    found = []
    for range_id, _ in family(service, proxy):
        answer = service.raw("POST", docs, {"query": info["rewrittenQuery"]}, QUERY | {RANGE: range_id})
        found += [row["g"] for row in answer.json["Documents"]]
        # A client that asks each range for the whole of it would add up what is not its own.
        assert service.raw("POST", docs, {"query": WHOLE}, QUERY | {RANGE: range_id}).status == 400
    assert len(found) > 3 and set(found) == {0, 1, 2}
