"""Vector search and full-text predicates through the client, which merges the nearest of several ranges itself."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from azure.cosmos import ContainerProxy
from azure.cosmos.exceptions import CosmosHttpResponseError

from frontends.cosmos.service import Async, Service, Sync, everywhere, ids, path_of, rows, status_of

CROSS: Any = {"enable_cross_partition_query": True}
DISTANCES = ("cosine", "dotproduct", "euclidean")
SIZE = 8
QUERY = [1.0, 0.5, -0.25, 0.0, 2.0, -1.0, 0.75, 0.125]


def vectors() -> list[dict[str, Any]]:
    """Sixty items in six partitions, the last three of them without a vector that could be compared."""
    source = random.Random(5)
    found = [
        {"id": f"i{n:02}", "pk": f"p{n % 6}", "n": n, "v": [source.uniform(-1, 1) for _ in range(SIZE)]}
        for n in range(57)
    ]
    odd: list[Any] = [None, "vector", [1.0] * (SIZE + 1)]
    return found + [{"id": f"o{n}", "pk": f"p{n}", "n": 100 + n, "v": value} for n, value in enumerate(odd)]


ROWS = vectors()


def score(distance: str, vector: list[float]) -> float:
    dot = math.fsum(a * b for a, b in zip(vector, QUERY, strict=True))
    match distance:
        case "dotproduct":
            return dot
        case "cosine":
            return dot / math.hypot(*vector) / math.hypot(*QUERY)
    return math.dist(vector, QUERY)


def nearest(distance: str, kept: list[dict[str, Any]]) -> list[str]:
    found = [(score(distance, row["v"]), row["id"]) for row in kept if row["id"].startswith("i")]
    return [name for _, name in sorted(found, reverse=distance != "euclidean")]


def policies(distance: str, index: str = "quantizedFlat") -> dict[str, Any]:
    return {
        "vector_embedding_policy": {"vectorEmbeddings": [
            {"path": "/v", "dataType": "float32", "dimensions": SIZE, "distanceFunction": distance}]},
        "indexing_policy": {"vectorIndexes": [{"path": "/v", "type": index}]},
    }  # fmt: skip


def filled(service: Service, distance: str, throughput: int = 400) -> ContainerProxy:
    proxy = service.container(offer_throughput=throughput, **policies(distance))
    service.fill(proxy, ROWS)
    return proxy


def of(service: Service, proxy: ContainerProxy, flavour: str) -> Sync | Async:
    return service.sync(proxy) if flavour == "sync" else service.aio(proxy)


@pytest.mark.parametrize(
    ("declared", "flavour", "throughput"),
    [*((declared, "sync", 30000) for declared in DISTANCES), ("cosine", "sync", 400), ("euclidean", "aio", 30000)],
)
def test_the_nearest_of_all_partitions(service: Service, declared: str, flavour: str, throughput: int) -> None:
    """By the distance that the container declares, and by the one that the query names instead."""
    client = of(service, filled(service, declared, throughput), flavour)
    for asked in (None, *DISTANCES):
        options = "" if asked is None else f", false, {{'distanceFunction': '{asked}'}}"
        call = f"VectorDistance(c.v, @q{options})"
        order = nearest(asked or declared, ROWS)
        given = [{"name": "@q", "value": QUERY}]
        for size in (None, 3):
            limits = CROSS | ({} if size is None else {"max_item_count": size})
            text = f"SELECT TOP 10 c.id, {call} AS score FROM c ORDER BY {call}"
            found = client.call("query_items", text, parameters=given, **limits)
            assert [row["id"] for row in found] == order[:10]
            by_id = {row["id"]: row["v"] for row in ROWS}
            for row in found:
                assert math.isclose(row["score"], score(asked or declared, by_id[row["id"]]), rel_tol=1e-9)
            text = f"SELECT VALUE c.id FROM c WHERE c.n < 40 ORDER BY {call} OFFSET 4 LIMIT 7"
            wanted = nearest(asked or declared, [row for row in ROWS if row["n"] < 40])[4:11]
            assert client.call("query_items", text, parameters=given, **limits) == wanted
            text = f"SELECT DISTINCT c.id FROM c ORDER BY {call} OFFSET 0 LIMIT 200"
            # Items without a distance are no candidates.
            assert [row["id"] for row in client.call("query_items", text, parameters=given, **limits)] == order


@everywhere
@pytest.mark.parametrize("distance", DISTANCES)
def test_the_nearest_of_one_partition(service: Service, flavour: str, distance: str) -> None:
    client = of(service, filled(service, distance, 30000), flavour)
    wanted = nearest(distance, [row for row in ROWS if row["pk"] == "p1"])
    given = [{"name": "@q", "value": QUERY}]
    for size in (None, 2):
        options: dict[str, Any] = {"partition_key": "p1"} | ({} if size is None else {"max_item_count": size})
        text = "SELECT VALUE c.id FROM c ORDER BY VectorDistance(c.v, @q)"
        assert client.call("query_items", text, parameters=given, **options) == wanted
        text = "SELECT TOP 3 VALUE c.id FROM c ORDER BY VectorDistance(c[@p], @q, true)"
        found = client.call("query_items", text, parameters=[*given, {"name": "@p", "value": "v"}], **options)
        assert found == wanted[:3]
        text = "SELECT VALUE c.id FROM c WHERE c.pk = 'p1' ORDER BY VectorDistance(c.v, @q) OFFSET 1 LIMIT 4"
        assert client.call("query_items", text, parameters=given, **options) == wanted[1:5]


def test_the_client_asks_for_a_limit(service: Service) -> None:
    """It does so because the plan says that the order is made by reading everything."""
    proxy = filled(service, "cosine", 12000)
    with pytest.raises(ValueError, match="TOP or LIMIT"):
        rows(proxy.query_items("SELECT c.id FROM c ORDER BY VectorDistance(c.v, [1])", **CROSS))
    with pytest.raises(CosmosHttpResponseError, match="Specifying a sorting order"):
        rows(proxy.query_items("SELECT TOP 1 c.id FROM c ORDER BY VectorDistance(c.v, [1]) ASC", **CROSS))


def test_a_plan_needs_a_client_that_sorts(service: Service) -> None:
    proxy = service.container(**policies("euclidean"))
    query = {"query": "SELECT TOP 2 * FROM c ORDER BY VectorDistance(c.v, [1])"}
    headers: dict[str, str | bytes | None] = {
        "x-ms-cosmos-is-query-plan-request": "True", "x-ms-cosmos-supported-query-features": "OrderBy,Top"
    }  # fmt: skip
    refused = service.raw("POST", path_of(proxy, "docs"), query, headers)
    assert refused.status == 400
    assert "contained NonStreamingOrderBy," in refused.json["message"]
    headers["x-ms-cosmos-supported-query-features"] = "OrderBy,Top,NonStreamingOrderBy"
    info = service.raw("POST", path_of(proxy, "docs"), query, headers).json["queryInfo"]
    assert (info["hasNonStreamingOrderBy"], info["orderBy"], info["top"]) == (True, ["Ascending"], 2)


@everywhere
def test_expired_items_are_not_found(service: Service) -> None:
    proxy = service.container(60, **policies("euclidean"))
    proxy.create_item({"id": "long", "pk": "p", "v": [2.0] * SIZE})
    proxy.create_item({"id": "short", "pk": "p", "v": [1.0] * SIZE, "ttl": 5})
    text = f"SELECT TOP 1 VALUE c.id FROM c ORDER BY VectorDistance(c.v, {[1.0] * SIZE})"
    assert rows(proxy.query_items(text, **CROSS)) == ["short"]
    service.at(5)
    assert rows(proxy.query_items(text, **CROSS)) == ["long"]
    service.at(60)
    assert rows(proxy.query_items(text, **CROSS)) == []


def test_a_patch_goes_by_the_declared_distance(service: Service) -> None:
    proxy = service.container(**policies("euclidean"))
    proxy.create_item({"id": "1", "pk": "p", "v": [1.0] * SIZE})
    steps = [{"op": "set", "path": "/n", "value": 1}]
    near = f"from c where VectorDistance(c.v, {[1.0] * SIZE}) = 0"
    assert proxy.patch_item("1", "p", steps, filter_predicate=near)["n"] == 1
    far = f"from c where VectorDistance(c.v, {[2.0] * SIZE}) <= 1"
    assert status_of(proxy.patch_item, "1", "p", steps, filter_predicate=far) == 412


def test_containers_show_what_they_declare(service: Service) -> None:
    texts = {"defaultLanguage": "en-US", "fullTextPaths": [{"path": "/t", "language": "en-US"}]}
    sent = policies("dotproduct", "diskANN")
    sent["indexing_policy"]["fullTextIndexes"] = [{"path": "/t"}]
    proxy = service.container(full_text_policy=texts, **sent)
    shown = proxy.read()
    assert shown["vectorEmbeddingPolicy"] == sent["vector_embedding_policy"]
    assert shown["fullTextPolicy"] == texts
    assert shown["indexingPolicy"]["vectorIndexes"] == [{"path": "/v", "type": "diskANN"}]
    assert shown["indexingPolicy"]["fullTextIndexes"] == [{"path": "/t"}]
    _, database, _, _ = proxy.container_link.split("/")
    replace: Any = service.client.get_database_client(database).replace_container
    key = shown["partitionKey"]
    kept = replace(proxy, key, default_ttl=5, full_text_policy=texts, **sent).read()
    assert (kept["defaultTtl"], kept["vectorEmbeddingPolicy"]) == (5, sent["vector_embedding_policy"])
    for changed, says in (
        (sent | {"vector_embedding_policy": None}, "not matching in Embedding's path"),
        (policies("cosine", "diskANN"), "Paths in existing embedding policy cannot be modified in Collection Replace"),
        (policies("dotproduct"), "Paths in existing vector indexing policy cannot be modified in Collection Replace"),
    ):
        with pytest.raises(CosmosHttpResponseError, match=says):
            replace(proxy, key, full_text_policy=texts, **changed)
    assert proxy.read() == kept


TEXTS = [
    ("a", "p1", "The quick brown fox"),
    ("b", "p2", "A fox that is brown, and QUICK"),
    ("c", "p3", "Foxes are quick"),
    ("d", "p1", None),
]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("FullTextContains(c.t, 'FOX')", "abc"), ("FullTextContains(c.t, @word)", "abc"),
        ("FullTextContains(c.t, 'quick brown')", "a"), ("FullTextContainsAll(c.t, 'brown', 'foxes')", "ab"),
        ("FullTextContainsAny(c.t, 'dogs', 'brown and quick')", "b"), ("NOT FullTextContains(c.t, 'brown')", "c"),
        ("c.pk = 'p1' AND FullTextContains(c.t, 'fox')", "a"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("throughput", [400, 30000])
def test_full_text(service: Service, flavour: str, where: str, expected: str, throughput: int) -> None:
    policy = {"defaultLanguage": "en-US", "fullTextPaths": [{"path": "/t"}]}
    proxy = service.container(
        offer_throughput=throughput, full_text_policy=policy, indexing_policy={"fullTextIndexes": [{"path": "/t"}]}
    )
    service.fill(proxy, [{"id": name, "pk": pk, "t": text} for name, pk, text in TEXTS])
    given = [{"name": "@word", "value": "quick"}]
    found = of(service, proxy, flavour).call("query_items", f"SELECT * FROM c WHERE {where}", parameters=given, **CROSS)
    assert ids(found) == list(expected)
