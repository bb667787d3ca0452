"""What Microsoft's guide "Configure time to live in Azure Cosmos DB" does in C#, step by step in Python.

pytestmark = pytest.mark.short

https://learn.microsoft.com/azure/cosmos-db/nosql/how-to-time-to-live: what it does is done here with both clients, and what it
says of lives is looked at one second before each deadline and at it, by point read, query, COUNT and change feed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from azure.cosmos import PartitionKey

from frontends.cosmos.service import Async, Service, Sync, T, everywhere, status_of

DAY = 24 * 60 * 60
KEY = "customer"


class Flow:
    """A container of one of the clients, through everything that the guide does with it."""

    def __init__(self, service: Service, flavour: str, **options: Any) -> None:
        """`options`: those of `create_container`."""
        self._service = service
        self._flavour = flavour
        client: Any = service.client if flavour == "sync" else service.async_client
        self._database = self._done(client.create_database("database"))
        key = PartitionKey(path="/customerId")
        proxy: Any = self._done(self._database.create_container("container", key, **options))
        self._proxy = proxy
        self.call = (Sync(proxy) if flavour == "sync" else Async(proxy, service.run)).call

    def _done(self, work: Any) -> Any:
        return work if self._flavour == "sync" else self._service.run(work)

    @property
    def default_ttl(self) -> int | None:
        found: int | None = self._done(self._proxy.read()).get("defaultTtl")
        return found

    def set_default(self, seconds: int | None) -> None:
        """Replace the container with another `defaultTtl`; None: with none."""
        key = PartitionKey(path="/customerId")
        self._done(self._database.replace_container(self._proxy, key, default_ttl=seconds))

    def create(self, id: str, **members: Any) -> dict[str, Any]:
        item: dict[str, Any] = self.call("create_item", {"id": id, "customerId": KEY, **members})
        return item

    def read(self, id: str) -> dict[str, Any]:
        item: dict[str, Any] = self.call("read_item", id, KEY)
        return item

    def rewrite(self, item: dict[str, Any]) -> dict[str, Any]:
        written: dict[str, Any] = self.call("replace_item", item["id"], item)
        return written

    def lives(self, *alive: str) -> None:
        """These and no others are there, whichever way one looks; each of them is asked for by name."""
        for id in {"1", "2", "3", *alive}:
            assert status_of(self.call, "read_item", id, KEY) == (200 if id in alive else 404), id
        wanted = sorted(alive)
        assert sorted(self.call("query_items", "SELECT VALUE c.id FROM c", partition_key=KEY)) == wanted
        assert self.call("query_items", "SELECT VALUE COUNT(1) FROM c", partition_key=KEY) == [len(wanted)]
        changed = self.call("query_items_change_feed", start_time="Beginning")
        assert sorted(item["id"] for item in changed) == wanted

    def dies(self, id: str, second: int, *others: str) -> None:
        """Of `id` and these others, it is gone from this second after START on, and not before."""
        self._service.at(second - 1)
        self.lives(id, *others)
        self._service.at(second)
        self.lives(*others)


Start = Callable[..., Flow]


@pytest.fixture
def start(service: Service, flavour: str) -> Start:
    """Makes the container, from the options of `create_container`."""
    return partial(Flow, service, flavour)


def test_enable_ttl_on_a_container_with_no_expiration(service: Service, start: Start) -> None:
    """DefaultTimeToLive = -1: nothing expires but what says so itself."""
    flow = start(default_ttl=-1)
    assert flow.default_ttl == -1
    flow.create("1")
    flow.create("2", ttl=60)
    flow.dies("2", 60, "1")
    service.at(20 * 365 * DAY)
    flow.lives("1")


@everywhere
def test_enable_ttl_on_a_container_that_exists(service: Service, start: Start) -> None:
    """It had none, and items were written long ago: those count from their own last write."""
    flow = start()
    assert flow.default_ttl is None
    flow.create("1")
    flow.create("2", ttl=30)
    service.at(50)
    flow.lives("1", "2")
    flow.create("3")
    flow.set_default(-1)
    flow.lives("1", "3")
    flow.set_default(100)
    flow.dies("1", 100, "3")
    flow.dies("3", 150)


def test_set_ttl_on_a_container(service: Service, start: Start) -> None:
    """Expire everything after 90 days; an item may say 30, or never."""
    flow = start(default_ttl=90 * DAY)
    assert flow.default_ttl == 90 * DAY
    flow.create("1")
    flow.create("2", ttl=30 * DAY)
    flow.create("3", ttl=-1)
    assert (flow.read("1").get("ttl"), flow.read("2")["ttl"], flow.read("3")["ttl"]) == (None, 30 * DAY, -1)
    flow.dies("2", 30 * DAY, "1", "3")
    flow.dies("1", 90 * DAY, "3")
    service.at(20 * 365 * DAY)
    flow.lives("3")


@pytest.mark.parametrize("touch", ["rewrite", "patch"])
def test_reset_time_to_live(service: Service, start: Start, touch: str) -> None:
    """Any write starts the clock again, though it changes nothing."""
    flow = start(default_ttl=90 * DAY)
    flow.create("1")
    flow.create("2", ttl=30 * DAY)
    service.at(29 * DAY)
    flow.read("1")
    if touch == "rewrite":
        written = flow.rewrite(flow.read("2"))
    else:
        written = flow.call("patch_item", "2", KEY, [{"op": "set", "path": "/customerId2", "value": 1}])
    assert (written["_ts"], written["ttl"]) == (T + 29 * DAY, 30 * DAY)
    flow.dies("2", 59 * DAY, "1")
    # A read has started nothing.
    flow.dies("1", 90 * DAY)


def test_change_the_ttl_of_an_item(service: Service, start: Start) -> None:
    """Read it, give it another ttl, replace it: longer, and shorter."""
    flow = start(default_ttl=90 * DAY)
    for id in ("1", "2"):
        flow.create(id, ttl=30 * DAY)
    service.at(10 * DAY)
    flow.rewrite(flow.read("1") | {"ttl": 60 * DAY})
    flow.rewrite(flow.read("2") | {"ttl": 5 * DAY})
    flow.dies("2", 15 * DAY, "1")
    flow.dies("1", 70 * DAY)


def test_remove_the_ttl_of_an_item(service: Service, start: Start) -> None:
    """Without one it goes by the container again, from that write on."""
    flow = start(default_ttl=90 * DAY)
    flow.create("1", ttl=30 * DAY)
    service.at(20 * DAY)
    item = flow.read("1")
    del item["ttl"]
    assert "ttl" not in flow.rewrite(item)
    flow.dies("1", 110 * DAY)


def test_an_item_that_is_to_stay(service: Service, start: Start) -> None:
    """ttl = -1 keeps it, whatever the container says, until it gets another."""
    flow = start(default_ttl=90 * DAY)
    flow.create("1", ttl=30 * DAY)
    service.at(20 * DAY)
    flow.rewrite(flow.read("1") | {"ttl": -1})
    service.at(20 * 365 * DAY)
    flow.lives("1")
    flow.set_default(1)
    flow.lives("1")
    flow.rewrite(flow.read("1") | {"ttl": 7})
    flow.dies("1", 20 * 365 * DAY + 7)


@everywhere
def test_disable_ttl_on_a_container_and_enable_it_again(service: Service, start: Start) -> None:
    """Off, items keep what they say and nobody obeys it; on again, it counts from their last write."""
    flow = start(default_ttl=90 * DAY)
    flow.create("1")
    flow.create("2", ttl=30 * DAY)
    flow.create("3", ttl=-1)
    flow.set_default(None)
    assert flow.default_ttl is None
    service.at(90 * DAY)
    assert service.server.purge()["purged"] == 0
    flow.lives("1", "2", "3")
    assert flow.read("2")["ttl"] == 30 * DAY
    flow.set_default(-1)
    flow.lives("1", "3")
    flow.set_default(90 * DAY + 10)
    flow.dies("1", 90 * DAY + 10, "3")
    service.server.purge()
    assert sorted(event.key for event in service.deaths()) == [b"1", b"2"]
