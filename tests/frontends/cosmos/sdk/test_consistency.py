"""The account's consistency level, and clients that prefer regions: through the vendor's client, and as bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from azure.cosmos import CosmosClient, PartitionKey
from azure.cosmos.exceptions import CosmosHttpResponseError

from frontends.cosmos.service import KEY, Raw, Service, in_memory, path_of
from mayflydb.embedded import RunningServer, serve

LEVELS = ["Strong", "BoundedStaleness", "Session", "ConsistentPrefix", "Eventual"]


@pytest.fixture(scope="module", params=LEVELS)
def account(request: pytest.FixtureRequest) -> Iterator[tuple[str, RunningServer]]:
    setting = re.sub("(?<!^)([A-Z])", r"-\1", request.param).lower()
    with serve(memory=True, port=0, consistency=setting) as server:
        yield request.param, server


def test_a_request_may_only_weaken_the_level(account: tuple[str, RunningServer]) -> None:
    level, server = account
    raw = Raw(server.cosmos.url, server.cosmos.key)
    found = raw("GET", "/").json["userConsistencyPolicy"]
    assert found["defaultConsistencyLevel"] == level
    assert ("maxStalenessPrefix" in found) == (level == "BoundedStaleness")
    for wanted in LEVELS:
        for spelt in (wanted, wanted.lower()):
            answer = raw("GET", "/dbs", None, {"x-ms-consistency-level": spelt})
            assert answer.status == (200 if LEVELS.index(wanted) >= LEVELS.index(level) else 400)
            if answer.status == 400:
                told = f"ConsistencyLevel {wanted} specified in the request is invalid when service is configured with "
                assert f"{told}consistency level {level}." in answer.json["message"]
    for wrong in ("", "None", "Strong,Eventual", "x" * 5000):
        answer = raw("GET", "/dbs", None, {"x-ms-consistency-level": wrong})
        assert answer.status == 400 and "header 'x-ms-consistency-level' is invalid" in answer.json["message"]
    raw.close()


def test_the_client_of_each_account(account: tuple[str, RunningServer]) -> None:
    level, server = account
    with CosmosClient(server.cosmos.url, server.cosmos.key) as client:
        policy = client.get_database_account().ConsistencyPolicy
        assert policy is not None and policy["defaultConsistencyLevel"] == level
        proxy = client.create_database("d").create_container("c", PartitionKey("/pk"))
        proxy.create_item({"id": "1", "pk": "p"})
        assert proxy.read_item("1", "p")["id"] == "1"
        assert len(list(proxy.query_items("SELECT * FROM c", partition_key="p"))) == 1
        client.delete_database("d")
    for wanted in LEVELS:
        with CosmosClient(server.cosmos.url, server.cosmos.key, consistency_level=wanted) as client:
            if LEVELS.index(wanted) >= LEVELS.index(level):
                assert not list(client.list_databases())
            else:
                with pytest.raises(CosmosHttpResponseError, match="not stronger than the service consistency level"):
                    list(client.list_databases())


REGIONS: list[dict[str, Any]] = [
    {"preferred_locations": ["West Europe"]},
    {"preferred_locations": ["West Europe", "Local", "nowhere at all"], "excluded_locations": ["West Europe"]},
    {"preferred_locations": ["Local"], "excluded_locations": ["Local"]},
    {"preferred_locations": ["East US", "West US"], "multiple_write_locations": True},
]


@in_memory
@pytest.mark.parametrize("regions", REGIONS)
def test_regions_of_any_name(service: Service, regions: dict[str, Any]) -> None:
    proxy = service.container(offer_throughput=12_000)
    with CosmosClient(service.url, KEY, **regions) as client:
        same = client.get_database_client(path_of(proxy).split("/")[2]).get_container_client(proxy.id)
        for n in range(4):
            same.create_item({"id": f"{n}", "pk": f"p{n}", "n": n})
        assert same.read_item("1", "p1")["n"] == 1
        text = "SELECT VALUE c.n FROM c ORDER BY c.n"
        assert list(same.query_items(text, enable_cross_partition_query=True)) == [0, 1, 2, 3]
        assert len(list(same.query_items_change_feed(start_time="Beginning"))) == 4
        same.delete_item("1", "p1")
