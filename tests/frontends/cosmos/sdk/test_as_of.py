"""Reads as of a later instant, by the header x-mayfly-as-of.

A client sends the header with all of its requests. azure-cosmos 4.17 takes headers with a call too, and leaves them out of
aggregates over several partitions.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from azure.cosmos import ContainerProxy, CosmosClient

from frontends.cosmos.service import KEY, Service, T, everywhere, path_of, status_of
from mayflydb.model.instant import SECOND, to_rfc3339

AS_OF = "x-mayfly-as-of"


def headers(second: float) -> dict[str, str]:
    return {AS_OF: to_rfc3339(T * SECOND + round(second * SECOND))}


def proxy_as_of(service: Service, proxy: ContainerProxy, second: float, credential: Any = KEY) -> ContainerProxy:
    """The container as of a second after START."""
    client = CosmosClient(service.url, credential, headers=headers(second))
    _, database, _, container = proxy.container_link.split("/")
    return client.get_database_client(database).get_container_client(container)


def ids(proxy: ContainerProxy) -> set[str]:
    found = proxy.query_items("SELECT * FROM c", enable_cross_partition_query=True, max_item_count=3)
    return {each["id"] for each in found}


def reads(proxy: ContainerProxy, count: int) -> tuple[Any, ...]:
    """What each reading operation returns of `count` items."""
    return (
        ids(proxy),
        {each["id"] for each in proxy.query_items("SELECT c.id FROM c WHERE c.n > 0", partition_key="1")},
        {each["id"] for each in proxy.read_all_items(max_item_count=3)},
        {each["id"] for each in proxy.read_items([(str(n), str(n % 3)) for n in range(count)])},
        [status_of(proxy.read_item, str(n), str(n % 3)) for n in range(count)],
        list(proxy.query_items("SELECT VALUE COUNT(1) FROM c", enable_cross_partition_query=True)),
        list(proxy.query_items("SELECT VALUE SUM(c.n) FROM c", enable_cross_partition_query=True)),
    )


@everywhere
def test_a_read_as_of_an_instant_is_what_the_clock_brings(service: Service, chance: random.Random) -> None:
    proxy = service.container(50)
    lives = [None, -1, *(chance.randint(1, 99) for _ in range(8))]
    for n, life in enumerate(lives):
        proxy.create_item({"id": str(n), "pk": str(n % 3), "n": n} | ({} if life is None else {"ttl": life}))
    moments = sorted({0, *(edge for life in lives for edge in ((life or 50) - 1, life or 50) if edge >= 0)})
    told = {moment: reads(proxy_as_of(service, proxy, moment), len(lives)) for moment in moments}
    assert ids(proxy) == {str(n) for n in range(len(lives))}
    for moment in moments:
        service.at(moment)
        assert reads(proxy, len(lives)) == told[moment], moment


def test_the_default_of_the_present_counts(service: Service) -> None:
    proxy = service.container(50)
    proxy.create_item({"id": "1", "pk": "p"})
    service.set_default_ttl(proxy, 100)
    assert [ids(proxy_as_of(service, proxy, second)) for second in (99, 100)] == [{"1"}, set()]
    service.set_default_ttl(proxy, None)
    assert ids(proxy_as_of(service, proxy, 10**9)) == {"1"}


def test_the_clock_of_a_query_is_the_instant(service: Service) -> None:
    proxy = service.container()
    proxy.create_item({"id": "1", "pk": "p"})
    text = "SELECT VALUE GetCurrentTimestamp() FROM c"
    told: list[Any] = list(proxy.query_items(text, partition_key="p", headers=headers(7)))
    assert told == [(T + 7) * 1000]


REFUSED = [
    ("POST", "docs", {"id": "2", "pk": "p"}, {}, "2030-01-01T00:00:09Z", "reads, feeds and queries of items"),
    ("PUT", "docs/1", {"id": "1", "pk": "p"}, {}, "2030-01-01T00:00:09Z", "reads, feeds and queries of items"),
    ("DELETE", "docs/1", None, {}, "2030-01-01T00:00:09Z", "reads, feeds and queries of items"),
    ("GET", "docs", None, {"a-im": "Incremental Feed"}, "2030-01-01T00:00:09Z", "reads, feeds and queries of items"),
    ("GET", "docs/1", None, {}, "2029-12-31T23:59:59Z", "No states before now are kept of"),
    ("GET", "docs/1", None, {}, "9999-12-31T23:59:59-23:00", "is not a time"),
    ("GET", "docs/1", None, {}, "0001-01-01T00:00:00+23:00", "is not a time"),
    ("GET", "docs/1", None, {}, "tomorrow", "is not a time"),
    ("GET", "docs/1", None, {}, "2030-01-02", "is not a time"),
    ("GET", "docs/1", None, {}, "", "is not a time"),
]


@pytest.mark.parametrize(("method", "rest", "body", "extra", "at", "text"), REFUSED)
def test_refusals(service: Service, method: str, rest: str, body: Any, extra: Any, at: str, text: str) -> None:
    proxy = service.container(50)
    proxy.create_item({"id": "1", "pk": "p"})
    sent = {"x-ms-documentdb-partitionkey": '["p"]', AS_OF: at, **extra}
    answer = service.raw(method, path_of(proxy, *rest.split("/")), body, sent)
    assert answer.status == 400, answer
    assert text in answer.json["message"]
    assert ids(proxy) == {"1"}


def test_a_resource_token_is_valid_now(service: Service) -> None:
    proxy = service.container(-1)
    proxy.create_item({"id": "1", "pk": "p"})
    database = service.client.get_database_client(proxy.container_link.split("/")[1])
    user = database.create_user({"id": "u"})
    given = user.create_permission({"id": "r", "permissionMode": "Read", "resource": proxy.container_link})
    seen = proxy_as_of(service, proxy, 10**6, {proxy.container_link: given.properties["_token"]})
    assert seen.read_item("1", "p")["id"] == "1"
