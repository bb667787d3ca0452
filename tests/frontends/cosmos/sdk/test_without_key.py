"""Containers that were made without a partition key, by an earlier version of the protocol, and later clients of them.

Sources: the tests of migrated containers in https://github.com/Azure/azure-cosmos-dotnet-v3.
"""

from __future__ import annotations

from typing import Any

import pytest
from azure.cosmos import ContainerProxy
from azure.cosmos.partition_key import NonePartitionKeyValue

from frontends.cosmos.service import Service, everywhere, ids, rows

EARLIER: dict[str, str | bytes | None] = {"x-ms-version": "2018-06-18"}
QUERY: dict[str, str | bytes | None] = {"content-type": "application/query+json"}
SHOWN = {"paths": ["/_partitionKey"], "kind": "Hash", "systemKey": True}
NONE: Any = NonePartitionKeyValue


@pytest.fixture
def fixed(service: Service) -> ContainerProxy:
    database = service.client.create_database("shop")
    answer = service.raw("POST", "/dbs/shop/colls", {"id": "fixed", "defaultTtl": 10}, EARLIER)
    assert (answer.status, "partitionKey" in answer.json) == (201, False)
    return database.get_container_client("fixed")


@everywhere
def test_an_earlier_client_needs_no_key(service: Service, fixed: ContainerProxy) -> None:
    docs = "/dbs/shop/colls/fixed/docs"
    assert "partitionKey" not in service.raw("GET", "/dbs/shop/colls/fixed", None, EARLIER).json
    assert service.raw("POST", docs, {"id": "a", "n": 1}, EARLIER).status == 201
    assert service.raw("POST", docs, {"id": "a", "n": 1}, EARLIER).status == 409
    assert service.raw("PUT", f"{docs}/a", {"id": "a", "n": 2}, EARLIER).status == 200
    assert service.raw("GET", f"{docs}/a", None, EARLIER).json["n"] == 2
    for text, found in (("SELECT VALUE c.n FROM c", [2]), ("SELECT VALUE COUNT(1) FROM c ORDER BY c.n", [1])):
        answer = service.raw("POST", docs, {"query": text}, {**EARLIER, **QUERY})
        assert (answer.status, answer.json["Documents"]) == (200, found)
    assert ids(service.raw("GET", docs, None, EARLIER).json["Documents"]) == ["a"]
    replaced = service.raw("PUT", "/dbs/shop/colls/fixed", {"id": "fixed", "defaultTtl": 20}, EARLIER)
    assert (replaced.status, replaced.json["defaultTtl"], "partitionKey" in replaced.json) == (200, 20, False)
    assert service.raw("DELETE", f"{docs}/a", None, EARLIER).status == 204
    # A later client names a key, and sees one.
    assert service.raw("GET", f"{docs}/a").status == 400
    assert service.raw("GET", "/dbs/shop/colls/fixed").json["partitionKey"] == SHOWN


def test_a_later_client_has_items_with_and_without_a_key(service: Service, fixed: ContainerProxy) -> None:
    service.raw("POST", "/dbs/shop/colls/fixed/docs", {"id": "old"}, EARLIER)
    assert fixed.read()["partitionKey"] == SHOWN
    assert fixed.read_item("old", NONE)["id"] == "old"
    fixed.create_item({"id": "new"})
    fixed.upsert_item({"id": "new", "n": 1})
    fixed.replace_item("new", {"id": "new", "n": 2})
    fixed.create_item({"id": "keyed", "_partitionKey": "k"})
    assert fixed.read_item("keyed", "k")["_partitionKey"] == "k"
    everything = "SELECT * FROM c"
    assert sorted(ids(fixed.query_items(everything, enable_cross_partition_query=True))) == ["keyed", "new", "old"]
    assert sorted(ids(fixed.query_items(everything, partition_key=NONE))) == ["new", "old"]
    assert ids(fixed.query_items(everything, partition_key="k")) == ["keyed"]
    assert rows(fixed.query_items("SELECT VALUE COUNT(1) FROM c", enable_cross_partition_query=True)) == [3]
    assert sorted(ids(fixed.query_items_change_feed(start_time="Beginning"))) == ["keyed", "new", "old"]
    batch: Any = [("create", ({"id": "b"},)), ("delete", ("new",))]
    assert [one["statusCode"] for one in fixed.execute_item_batch(batch, NONE)] == [201, 204]
    # To move an item to a key, it is made there and removed here.
    fixed.create_item({"id": "old", "_partitionKey": "k"})
    fixed.delete_item("old", NONE)
    assert sorted(ids(fixed.query_items(everything, partition_key="k"))) == ["keyed", "old"]
    service.at(10)
    assert rows(fixed.query_items("SELECT VALUE COUNT(1) FROM c", enable_cross_partition_query=True)) == [0]


KEYLESS = [
    ({}, {"id": "c"}),
    ({"x-ms-version": "2020-07-15"}, {"id": "c"}),
    ({"x-ms-version": "2018-12-31"}, {"id": "c", "partitionKey": None}),
]


@pytest.mark.parametrize(("headers", "body"), KEYLESS)
def test_later_containers_need_a_key(service: Service, headers: dict[str, Any], body: dict[str, Any]) -> None:
    service.client.create_database("shop")
    assert service.raw("POST", "/dbs/shop/colls", body, headers).status == 400


@pytest.mark.parametrize("system_key", [True, False])
def test_the_system_key_of_another_path_has_no_effect(service: Service, system_key: bool) -> None:
    service.client.create_database("shop")
    body = {"id": "c", "partitionKey": {"paths": ["/test"], "kind": "Hash", "systemKey": system_key}}
    answer = service.raw("POST", "/dbs/shop/colls", body, EARLIER)
    assert (answer.status, answer.json["partitionKey"]) == (201, {"paths": ["/test"], "kind": "Hash"})
    assert service.raw("POST", "/dbs/shop/colls/c/docs", {"id": "1", "test": "x"}, EARLIER).status == 400
