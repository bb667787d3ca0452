"""Reads as of an earlier instant, by the header x-mayfly-as-of: what was read then is read again."""

from __future__ import annotations

import random
from typing import Any

from azure.cosmos import ContainerProxy

from frontends.cosmos.sdk.test_as_of import ids, proxy_as_of, reads
from frontends.cosmos.service import Service, everywhere, in_memory, status_of

ITEMS = 10
STEPS = 24


def keep(service: Service, proxy: ContainerProxy, history: str) -> None:
    _, database, _, container = proxy.container_link.split("/")
    service.server.set_lifecycle(f"cosmos:{database}/{container}", history=history)


def change(service: Service, proxy: ContainerProxy, chance: random.Random) -> None:
    """One of the changes that a container may get."""
    n, dice = chance.randrange(ITEMS), chance.random()
    item = {"id": str(n), "pk": str(n % 3), "n": chance.randrange(100)}
    if dice < 0.6:
        proxy.upsert_item(item | chance.choice([{}, {"ttl": -1}, {"ttl": chance.randint(1, 20)}]))
    elif dice < 0.8:
        status_of(proxy.delete_item, str(n), str(n % 3))
    elif dice < 0.9:
        service.set_default_ttl(proxy, chance.choice([None, -1, 5, 20]))
    else:
        service.server.purge()


@everywhere
def test_a_read_as_of_an_instant_is_what_was_read_then(service: Service, chance: random.Random) -> None:
    proxy = service.container(20)
    keep(service, proxy, "1h")
    told: dict[int, Any] = {}
    for second in range(STEPS):
        change(service, proxy, chance)
        told[second] = reads(proxy, ITEMS)
        service.at(second + 1)
    service.server.purge()
    for second, then in told.items():
        assert reads(proxy_as_of(service, proxy, second), ITEMS) == then, second


@in_memory
def test_pages_keep_their_instant(service: Service) -> None:
    proxy = service.container(20)
    keep(service, proxy, "1h")
    for n in range(ITEMS):
        proxy.create_item({"id": str(n), "pk": "p", "n": n})
    service.at(1)
    past = proxy_as_of(service, proxy, 0.5)
    pages = past.query_items("SELECT * FROM c ORDER BY c.n", partition_key="p", max_item_count=3).by_page()
    found = [each["n"] for each in next(pages)]
    for n in range(ITEMS):
        proxy.delete_item(str(n), "p")
    proxy.create_item({"id": "0", "pk": "p", "n": 99})
    found += [each["n"] for page in pages for each in page]
    assert found == list(range(ITEMS))


@in_memory
def test_functions_read_the_past(service: Service) -> None:
    proxy = service.container(20)
    keep(service, proxy, "1h")
    proxy.scripts.create_user_defined_function({"id": "twice", "body": "function (n) { return 2 * n }"})
    proxy.create_item({"id": "1", "pk": "p", "n": 1})
    service.at(1)
    proxy.upsert_item({"id": "1", "pk": "p", "n": 5})
    text = "SELECT VALUE udf.twice(c.n) FROM c"
    told: list[list[Any]] = [
        list(each.query_items(text, partition_key="p")) for each in (proxy, proxy_as_of(service, proxy, 0))
    ]
    assert told == [[10], [2]]


@in_memory
def test_only_what_is_kept_is_read(service: Service) -> None:
    proxy = service.container()
    service.at(10)
    keep(service, proxy, "60s")
    proxy.create_item({"id": "1", "pk": "p"})
    service.at(70)
    assert ids(proxy_as_of(service, proxy, 10)) == {"1"}
    assert status_of(proxy_as_of(service, proxy, 9.999).read_item, "1", "p") == 400
    service.at(80)
    assert status_of(proxy_as_of(service, proxy, 19.999).read_item, "1", "p") == 400
    assert status_of(proxy_as_of(service, proxy, 20).read_item, "1", "p") == 200
