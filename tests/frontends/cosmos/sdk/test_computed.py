"""Computed properties, through the vendor's clients: as other properties in every clause, and in no stored item."""

from __future__ import annotations

from typing import Any

import pytest
from azure.cosmos import ContainerProxy

from frontends.cosmos.service import Service, everywhere, rows, status_of

PROPERTIES = [
    {"name": "lowName", "query": "SELECT VALUE LOWER(c.name) FROM c"},
    {"name": "price20", "query": "SELECT VALUE x.price * 0.8 FROM x"},
    {"name": "all", "query": "SELECT VALUE ARRAY_CONCAT(c.tags, ['more']) FROM c"},
    {"name": "size", "query": "SELECT VALUE {w: c.w, h: c.h} FROM root c"},
    {"name": "hidden", "query": "SELECT VALUE 'computed' FROM c"},
]
ITEMS: list[dict[str, Any]] = [
    {
        "id": "1",
        "pk": "p",
        "name": "Ann",
        "price": 10,
        "tags": ["a"],
        "w": 1,
        "h": 2,
        "hidden": "stored",
        "list": [{"lowName": 5}],
    },
    {"id": "2", "pk": "q", "name": "BOB", "price": 20, "tags": [], "w": 3},
    {"id": "3", "pk": "r", "price": "free"},
]


@pytest.fixture
def proxy(service: Service) -> ContainerProxy:
    made = service.container(offer_throughput=24_000, computed_properties=PROPERTIES)
    service.fill(made, ITEMS)
    return made


ROWS: list[tuple[str, list[Any]]] = [
    ("SELECT VALUE c.lowName FROM c ORDER BY c.id", ["ann", "bob"]),
    ("SELECT c.id, c.lowName FROM c ORDER BY c.id", [{"id": "1", "lowName": "ann"}, {"id": "2", "lowName": "bob"}, {"id": "3"}]),
    ("SELECT VALUE c.id FROM c WHERE c.lowName = 'bob'", ["2"]),
    ("SELECT VALUE c['id'] FROM c WHERE c['lowName'] = 'bob'", ["2"]),
    ("SELECT VALUE r.id FROM r WHERE IS_DEFINED(r.price20) ORDER BY r.price20 DESC", ["2", "1"]),
    ("SELECT VALUE c.price20 FROM c ORDER BY c.price20", [8, 16]),
    ("SELECT VALUE SUM(c.price20) FROM c WHERE IS_NUMBER(c.price)", [24]),
    ("SELECT DISTINCT VALUE c.lowName FROM c WHERE c.id = '1'", ["ann"]),
    ("SELECT VALUE t FROM c JOIN t IN c.all WHERE c.id = '1'", ["a", "more"]),
    ("SELECT VALUE c.all[0] FROM c WHERE c.id = '1'", ["a"]),
    ("SELECT VALUE c.size.w FROM c ORDER BY c.id", [1, 3]),
    ("SELECT VALUE c.size FROM c WHERE c.id = '2'", [{"w": 3}]),
    ("SELECT VALUE c.hidden FROM c WHERE c.id = '1'", ["computed"]),
    ("SELECT VALUE (SELECT VALUE c.lowName) FROM c WHERE c.id = '1'", ["ann"]),
    ("SELECT VALUE c.id FROM c WHERE EXISTS(SELECT 1 FROM t IN c.all WHERE t = 'more') ORDER BY c.id", ["1", "2"]),
    # Of the document alone: not of what else has such a name.
    ("SELECT VALUE s.lowName FROM (SELECT c.id FROM c) AS s", []),
    ("SELECT VALUE t.lowName FROM c JOIN t IN c.list", [5]),
    ("SELECT TOP 1 VALUE c.lowName FROM c ORDER BY c.lowName DESC", ["bob"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "wanted"), ROWS, ids=[text for text, _ in ROWS])
def test_queries(proxy: ContainerProxy, text: str, wanted: list[Any]) -> None:
    assert rows(proxy.query_items(text, enable_cross_partition_query=True)) == wanted


def test_groups(proxy: ContainerProxy) -> None:
    text = "SELECT c.lowName, COUNT(1) AS n FROM c GROUP BY c.lowName"
    assert list(proxy.query_items(text, partition_key="p")) == [{"lowName": "ann", "n": 1}]


def test_items_do_not_show_computed_properties(proxy: ContainerProxy) -> None:
    assert proxy.read()["computedProperties"] == PROPERTIES
    item = next(iter(proxy.query_items("SELECT * FROM c WHERE c.lowName = 'ann'", enable_cross_partition_query=True)))
    assert item == proxy.read_item("1", "p")
    assert {name for name in item if not name.startswith("_")} == ITEMS[0].keys()
    assert item["hidden"] == "stored"


@everywhere
def test_computed_properties_may_be_changed(service: Service, proxy: ContainerProxy) -> None:
    database = service.client.get_database_client(proxy.container_link.split("/")[1])
    key = proxy.read()["partitionKey"]
    database.replace_container(
        "c", key, computed_properties=[{"name": "lowName", "query": "SELECT VALUE UPPER(c.name) FROM c"}]
    )
    text = "SELECT VALUE c.lowName FROM c ORDER BY c.id"
    assert rows(proxy.query_items(text, enable_cross_partition_query=True)) == ["ANN", "BOB"]
    database.replace_container("c", key)
    assert rows(proxy.query_items(text, enable_cross_partition_query=True)) == []


def test_a_patch_may_go_by_one(proxy: ContainerProxy) -> None:
    steps: Any = [{"op": "set", "path": "/n", "value": 1}]
    assert proxy.patch_item("1", "p", steps, filter_predicate="FROM c WHERE c.lowName = 'ann'")["n"] == 1
    assert status_of(proxy.patch_item, "1", "p", steps, filter_predicate="FROM c WHERE c.lowName = 'Ann'") == 412
