"""Every way to read agrees on who is alive, one second before the deadline, at it, and one second after."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from azure.cosmos.exceptions import CosmosBatchOperationError

from frontends.cosmos.service import Async, Service, Sync, everywhere, path_of, status_of

pytestmark = everywhere

DEADLINE = 10
CROSS = {"enable_cross_partition_query": True}

Call = Callable[..., Any]
Way = Callable[[Call], Any]

ITEMS: list[dict[str, Any]] = [
    {"id": "a", "pk": "p", "n": 4, "g": "x", "tags": ["t", "u"], "ttl": DEADLINE},
    {"id": "b", "pk": "p", "n": 2, "g": "y", "tags": ["t"]},
    {"id": "c", "pk": "p", "n": 3, "g": "y", "tags": [], "ttl": 1000},
    {"id": "d", "pk": "q", "n": 9, "g": "x", "tags": ["u"], "ttl": DEADLINE},
]


def point(call: Call) -> list[str]:
    return [item["id"] for item in ITEMS if status_of(call, "read_item", item["id"], item["pk"]) == 200]


def batch(call: Call) -> list[str]:
    found, other = [], []
    for id in ("a", "b", "c"):
        try:
            call("execute_item_batch", [("read", (id,))], partition_key="p")
            found.append(id)
        except CosmosBatchOperationError as error:
            other += [int(answer["statusCode"]) for answer in error.operation_responses]
    assert set(other) <= {404}
    return found


def ids_of(method: str, *args: Any, **options: Any) -> Way:
    return lambda call: sorted(item["id"] for item in call(method, *args, **options))


def query(text: str, sort: bool = False, **options: Any) -> Way:
    def ask(call: Call) -> Any:
        rows = call("query_items", text, **(options or {"partition_key": "p"}))
        return sorted(rows) if sort else rows

    return ask


# name -> how, what it gives while everybody lives, what it gives from the deadline on
WAYS: dict[str, tuple[Way, Any, Any]] = {
    "read": (point, ["a", "b", "c", "d"], ["b", "c"]),
    "batch read": (batch, ["a", "b", "c"], ["b", "c"]),
    "readMany": (
        ids_of("read_items", [(item["id"], item["pk"]) for item in ITEMS]), ["a", "b", "c", "d"], ["b", "c"],
    ),
    "feed": (ids_of("read_all_items"), ["a", "b", "c", "d"], ["b", "c"]),
    "feed, small pages": (ids_of("read_all_items", max_item_count=1), ["a", "b", "c", "d"], ["b", "c"]),
    "query all": (query("SELECT VALUE c.id FROM c", True, **CROSS), ["a", "b", "c", "d"], ["b", "c"]),
    "query partition": (query("SELECT VALUE c.id FROM c"), ["a", "b", "c"], ["b", "c"]),
    "query by id": (query("SELECT VALUE c.id FROM c WHERE c.id = 'a'"), ["a"], []),
    "query by key in WHERE": (query("SELECT VALUE c.id FROM c WHERE c.pk = 'q'", **CROSS), ["d"], []),
    "query by member": (query("SELECT VALUE c.id FROM c WHERE c.n = 4"), ["a"], []),
    "ordered": (query("SELECT VALUE c.id FROM c ORDER BY c.n"), ["b", "c", "a"], ["b", "c"]),
    "ordered, all": (query("SELECT VALUE c.id FROM c ORDER BY c.n DESC", **CROSS), ["d", "a", "c", "b"], ["c", "b"]),
    "TOP": (query("SELECT TOP 1 VALUE c.id FROM c ORDER BY c.n DESC"), ["a"], ["c"]),
    "TOP, all": (query("SELECT TOP 2 VALUE c.id FROM c ORDER BY c.n DESC", **CROSS), ["d", "a"], ["c", "b"]),
    "OFFSET": (query("SELECT VALUE c.id FROM c ORDER BY c.n OFFSET 1 LIMIT 5"), ["c", "a"], ["c"]),
    "DISTINCT": (query("SELECT DISTINCT VALUE c.g FROM c", True), ["x", "y"], ["y"]),
    "DISTINCT, all": (query("SELECT DISTINCT VALUE c.g FROM c", True, **CROSS), ["x", "y"], ["y"]),
    "COUNT": (query("SELECT VALUE COUNT(1) FROM c"), [3], [2]),
    "COUNT, all": (query("SELECT VALUE COUNT(1) FROM c", **CROSS), [4], [2]),
    "SUM": (query("SELECT VALUE SUM(c.n) FROM c"), [9], [5]),
    "SUM, all": (query("SELECT VALUE SUM(c.n) FROM c", **CROSS), [18], [5]),
    "MIN": (query("SELECT VALUE MIN(c.n) FROM c"), [2], [2]),
    "MAX": (query("SELECT VALUE MAX(c.n) FROM c"), [4], [3]),
    "MAX, all": (query("SELECT VALUE MAX(c.n) FROM c", **CROSS), [9], [3]),
    "AVG": (query("SELECT VALUE AVG(c.n) FROM c"), [3], [2.5]),
    "AVG, all": (query("SELECT VALUE AVG(c.n) FROM c", **CROSS), [4.5], [2.5]),
    "GROUP BY": (
        query("SELECT c.g, COUNT(1) AS k FROM c GROUP BY c.g"),
        [{"g": "x", "k": 1}, {"g": "y", "k": 2}], [{"g": "y", "k": 2}],
    ),
    "JOIN": (query("SELECT VALUE t FROM c JOIN t IN c.tags", True), ["t", "t", "u"], ["t"]),
    "EXISTS": (query("SELECT VALUE c.id FROM c WHERE EXISTS(SELECT VALUE t FROM t IN c.tags)"), ["a", "b"], ["b"]),
    "changes": (
        ids_of("query_items_change_feed", start_time="Beginning"), ["a", "b", "c", "d"], ["b", "c"],
    ),
    "changes of a key": (
        ids_of("query_items_change_feed", start_time="Beginning", partition_key="q"), ["d"], [],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("client", "swept"), [("sync", False), ("sync", True), ("aio", False)])
@pytest.mark.parametrize("name", WAYS)
def test_ways(service: Service, name: str, client: str, swept: bool) -> None:
    way, before, after = WAYS[name]
    proxy = service.container(-1)
    service.fill(proxy, ITEMS)
    container: Sync | Async = service.sync(proxy) if client == "sync" else service.aio(proxy)
    for second, expected in ((DEADLINE - 1, before), (DEADLINE, after), (DEADLINE + 1, after)):
        service.at(second)
        if swept:
            service.server.purge()
        assert way(container.call) == expected, f"at {second} s"


def test_not_modified_is_for_the_living(service: Service) -> None:
    proxy = service.container(DEADLINE)
    etag = proxy.create_item({"id": "1", "pk": "p"})["_etag"]
    for second, expected in ((DEADLINE - 1, 304), (DEADLINE, 404)):
        service.at(second)
        answer = service.raw("GET", path_of(proxy, "docs", "1"), None, {"if-none-match": etag}, pk="p")
        assert answer.status == expected


def test_counts_of_the_container(service: Service) -> None:
    proxy = service.container(-1)
    service.fill(proxy, ITEMS)
    target = f"cosmos:{'/'.join(proxy.container_link.split('/')[1::2])}"
    for second, visible, hidden in ((DEADLINE - 1, 4, 0), (DEADLINE, 2, 2), (DEADLINE + 1, 2, 2)):
        service.at(second)
        answer = service.raw("GET", path_of(proxy), None, {"x-ms-documentdb-populatequotainfo": "true"})
        assert f"documentsCount={visible};" in answer.headers["x-ms-resource-usage"]
        counts = service.server.stats()["targets"][target]
        assert (counts["records"], counts["hidden"]) == (visible, hidden)


def test_the_feed_of_changes_tells_nothing_of_a_death(service: Service) -> None:
    proxy = service.container(DEADLINE)
    proxy.create_item({"id": "1", "pk": "p"})
    list(proxy.query_items_change_feed(start_time="Beginning"))
    continuation = proxy.client_connection.last_response_headers["etag"]
    service.at(DEADLINE)
    assert list(proxy.query_items_change_feed(continuation=continuation)) == []
    service.server.purge()
    assert list(proxy.query_items_change_feed(continuation=continuation)) == []
    proxy.create_item({"id": "2", "pk": "p"})
    assert [item["id"] for item in proxy.query_items_change_feed(continuation=continuation)] == ["2"]
