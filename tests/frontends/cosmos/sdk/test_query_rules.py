"""Queries that the service refuses: through the vendor's client, where they are refused and where they are run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from azure.cosmos import ContainerProxy, CosmosClient, PartitionKey
from azure.cosmos.exceptions import CosmosHttpResponseError

from frontends.cosmos.service import Service, in_memory
from mayflydb.embedded import RunningServer, serve

ITEMS: list[dict[str, Any]] = [
    {"id": "a", "pk": "p", "n": 2, "s": "b", "value": 1, "kids": [{"g": 3}, {"g": 1}]},
    {"id": "b", "pk": "p", "n": 1, "s": "A", "value": 2, "kids": [{"g": 2}]},
]
ROWS = [
    ("SELECT VALUE c.value FROM c", '"code":"SC1001".*near \'value\'', [1, 2]),
    ("SELECT c.n AS order FROM c WHERE c.id = 'a'", '"code":"SC1001".*near \'order\'', [{"order": 2}]),
    ("SELECT c.n AS 'a b' FROM c WHERE c.id = 'a'", '"code":"SC1001"', [{"a b": 2}]),
    ("SELECT VALUE 1 BETWEEN 2 AND 3 BETWEEN 4 AND 5", '"code":"SC1001".*near \'BETWEEN\'', []),
    ("SELECT VALUE c.id FROM c ORDER BY LOWER(c.s)", '"severity":"Error","code":2206', ["b", "a"]),
    ("SELECT VALUE k.g FROM c JOIN k IN c.kids ORDER BY k.g", "Order-by over correlated collections", [1, 2, 3]),
    ("SELECT VALUE ARRAY(SELECT TOP 1 VALUE k.g FROM k IN c.kids) FROM c", '"code":"SC2203"', [[3], [2]]),
    ("SELECT VALUE r FROM (SELECT VALUE c.n FROM c ORDER BY c.n) AS r", '"code":"SC2202"', [1, 2]),
    ("SELECT VALUE r FROM (SELECT VALUE c.n FROM c OFFSET 1 LIMIT 1) AS r", '"code":"SC2204"', [1]),
    ("SELECT VALUE (SELECT VALUE k.g FROM k IN c.kids WHERE k.g = 3) FROM c", "cardinality of a scalar subquery", [3]),
    ("SELECT VALUE [1, 2, 3][c.n] FROM c", '"code":"SC2990"', [3, 2]),
    (
        (
            "SELECT VALUE VectorDistance([1], [c.n], true, {'searchListSizeMultiplier': -1, 'distanceFunction': 'dotproduct'}) "
            "FROM c"
        ),
        '"code":"SC2213"',
        [2, 1],
    ),
]


@pytest.fixture(scope="module")
def lenient() -> Iterator[RunningServer]:
    with serve(memory=True, port=0, query_rules="lenient") as server:
        yield server


@pytest.fixture(scope="module")
def theirs(lenient: RunningServer) -> Iterator[ContainerProxy]:
    with CosmosClient(lenient.cosmos.url, lenient.cosmos.key) as client:
        proxy = client.create_database("d").create_container("c", PartitionKey("/pk"))
        for item in ITEMS:
            proxy.create_item(item)
        yield proxy


@in_memory
@pytest.mark.parametrize(("text", "reason", "rows"), ROWS)
@pytest.mark.parametrize(
    "where", [{"partition_key": "p"}, {"enable_cross_partition_query": True}], ids=["key", "cross"]
)
def test_in_both_modes(
    service: Service, theirs: ContainerProxy, text: str, reason: str, rows: list[Any], where: dict[str, Any]
) -> None:
    proxy = service.container()
    service.fill(proxy, ITEMS)
    with pytest.raises(CosmosHttpResponseError, match=reason) as refused:
        list(proxy.query_items(text, **where))
    assert refused.value.status_code == 400
    assert list(theirs.query_items(text, **where)) == rows


@in_memory
def test_conditions_of_patches_and_lists(service: Service, theirs: ContainerProxy) -> None:
    proxy = service.container()
    service.fill(proxy, ITEMS)
    change = [{"op": "set", "path": "/done", "value": True}]
    for each, accepted in ((proxy, False), (theirs, True)):
        for condition in (
            "from c where c.value = 1",
            "from c where (SELECT VALUE k.g FROM k IN c.kids WHERE k.g = 3) = 3",
        ):
            options: dict[str, Any] = {"patch_operations": change, "filter_predicate": condition}
            if accepted:
                assert each.patch_item("a", "p", **options)["done"]
            else:
                with pytest.raises(CosmosHttpResponseError) as refused:
                    each.patch_item("a", "p", **options)
                assert refused.value.status_code == 400
    with pytest.raises(CosmosHttpResponseError, match="SC1001"):
        list(service.client.query_databases("SELECT VALUE d.end FROM d"))
