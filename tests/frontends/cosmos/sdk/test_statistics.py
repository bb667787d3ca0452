"""What a container holds, by partition key range: asked for with the read of the container."""

from __future__ import annotations

from typing import Any

import pytest
from azure.cosmos import ContainerProxy

from frontends.cosmos.service import Service, everywhere

pytestmark = everywhere


def statistics(proxy: ContainerProxy, flavour: str, service: Service) -> list[dict[str, Any]]:
    call = (service.sync(proxy) if flavour == "sync" else service.aio(proxy)).call
    found: list[dict[str, Any]] = call("read", populate_partition_key_range_statistics=True)["statistics"]
    return found


def test_statistics_are_sent_on_request_only(service: Service, flavour: str) -> None:
    proxy = service.container()
    assert "statistics" not in proxy.read()
    assert statistics(proxy, flavour, service) == [
        {"id": "0", "sizeInKB": 0, "documentCount": 0, "sampledDistinctPartitionKeyCount": 0, "partitionKeys": []}
    ]


def test_counts_of_each_range(service: Service) -> None:
    proxy = service.container(offer_throughput=11000)
    service.fill(proxy, [{"id": f"{n}", "pk": f"k{n % 40}", "text": "x" * 100} for n in range(120)])
    ranges = statistics(proxy, "sync", service)
    assert [each["id"] for each in ranges] == ["0", "1"]
    assert sum(each["documentCount"] for each in ranges) == 120
    keys = [key["partitionKey"][0] for each in ranges for key in each["partitionKeys"]]
    assert sorted(keys) == sorted({f"k{n}" for n in range(40)})
    assert [len(each["partitionKeys"]) for each in ranges] == [
        each["sampledDistinctPartitionKeyCount"] for each in ranges
    ]
    for each, feed in zip(ranges, proxy.read_feed_ranges(), strict=True):
        found = list(proxy.query_items("SELECT c.id FROM c", feed_range=feed))
        assert each["documentCount"] == len(found) > 0
        assert each["sizeInKB"] > 0


def test_large_keys_come_first_and_small_ones_not(service: Service) -> None:
    proxy = service.container()
    large = [{"id": f"l{n}", "pk": n, "text": "x" * 20_000 * (3 - n)} for n in range(3)]
    service.fill(proxy, [*large, *({"id": f"s{n}", "pk": f"s{n}"} for n in range(150))])
    (only,) = statistics(proxy, "sync", service)
    assert (only["documentCount"], only["sampledDistinctPartitionKeyCount"]) == (153, 153)
    assert only["partitionKeys"] == [
        {"partitionKey": [0], "sizeInKB": 59}, {"partitionKey": [1], "sizeInKB": 40}, {"partitionKey": [2], "sizeInKB": 20},
    ]  # fmt: skip


def test_hierarchical_keys_are_told_apart(service: Service) -> None:
    proxy = service.container(paths=["/a", "/b"])
    for n in range(6):
        proxy.create_item({"id": f"{n}", "a": "same", "b": n % 3})
    (only,) = statistics(proxy, "sync", service)
    assert sorted(key["partitionKey"] for key in only["partitionKeys"]) == [["same", 0], ["same", 1], ["same", 2]]
    assert only["sampledDistinctPartitionKeyCount"] == 3


@pytest.mark.parametrize(("second", "count"), [(9, 2), (10, 1)])
def test_expired_items_do_not_count(service: Service, second: int, count: int) -> None:
    proxy = service.container(default_ttl=-1)
    proxy.create_item({"id": "1", "pk": "p", "ttl": 10})
    proxy.create_item({"id": "2", "pk": "q"})
    service.at(second)
    (only,) = statistics(proxy, "sync", service)
    assert (only["documentCount"], only["sampledDistinctPartitionKeyCount"]) == (count, count)
