"""What purging costs: paid from what requests leave over; it waits where they leave nothing, and all that is dead is hidden."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from azure.cosmos import ContainerProxy, PartitionKey

from frontends.cosmos.service import BULK, START, Service, everywhere, path_of, rows
from frontends.cosmos.throughput.watch import Watch
from mayflydb.embedded import RunningServer, serve

pytestmark = everywhere

CROSS: dict[str, Any] = {"enable_cross_partition_query": True}
PRICE = 5.71


def turn(server: RunningServer) -> int:
    """One turn of the reaper's loop, which does not run by itself while the clock stands still."""
    return sum(server._home.call(server._admin.engine.reaper.sweep_as_scheduled()).values())


def metric(server: RunningServer, family: str, **labels: str) -> float:
    with urllib.request.urlopen(server.announcement.metrics or "") as answer:
        text = answer.read().decode()
    lines = re.findall(rf"^{family}\{{(.*)\}} (.*)$", text, re.MULTILINE)
    return sum(
        float(value) for shown, value in lines if all(f'{name}="{word}"' in shown for name, word in labels.items())
    )


def dying(service: Service, watch: Watch, count: int = 200, **options: Any) -> ContainerProxy:
    """Items that are dead now, beside one that lives."""
    proxy = service.container(10, **options)
    proxy.create_item({"id": "lives", "pk": "0", "ttl": -1})
    for start in range(0, count, 50):
        service.fill(proxy, [{"id": f"i{n}", "pk": str(n)} for n in range(start, min(start + 50, count))])
        watch.on(60)
    assert rows(proxy.query_items("SELECT VALUE COUNT(1) FROM c", **CROSS)) == [count + 1]
    service.at(10)
    watch.on(60)
    return proxy


def spend_all(service: Service, proxy: ContainerProxy) -> None:
    """Requests until the first that is refused."""
    big = {"id": "lives", "pk": "0", "ttl": -1, "x": "x" * 50_000}
    upsert = {"x-ms-documentdb-is-upsert": "True"}
    for _ in range(100):
        if service.raw("POST", path_of(proxy, "docs"), big, upsert, pk="0").status == 429:
            return
    raise AssertionError("nothing was refused")


def is_hidden(service: Service, proxy: ContainerProxy) -> bool:
    """Whether nothing that is dead is seen, by those requests that are answered now."""
    reads = [service.raw("GET", path_of(proxy, "docs", f"i{n}"), pk=str(n)).status for n in (0, 49)]
    feed = service.raw("GET", path_of(proxy, "docs"))
    return set(reads) <= {404, 429} and (
        feed.status == 429 or [item["id"] for item in feed.json["Documents"]] == ["lives"]
    )


def test_purging_waits_for_what_requests_leave_over(service: Service, watch: Watch) -> None:
    proxy = dying(service, watch, offer_throughput=400)
    server, where = service.server, {"db": proxy.container_link.split("/")[1], "container": "c"}
    spend_all(service, proxy)
    first = turn(server)
    assert first == int(400 / PRICE), "what was left over before that"
    removed = [first]
    for second in range(1, 6):
        watch.on(1)
        spend_all(service, proxy)
        removed.append(turn(server))
        assert is_hidden(service, proxy)
        service.at(10 + second)
    assert removed[1:] == [0] * 5, "requests took it all"
    assert metric(server, "mayfly_ttl_backlog_items", **where) == 200 - first
    assert metric(server, "mayfly_ttl_purge_lag_seconds", **where) == 5
    # Requests rest: their debt is refilled first, and then every second is worth 70 deletions.
    watch.on(20)
    for _ in range(3):
        removed.append(turn(server))
        assert is_hidden(service, proxy)
        watch.on(1)
    assert removed[-3:] == [70, 60, 0]
    assert metric(server, "mayfly_ttl_backlog_items", **where) == 0
    assert len(service.deaths()) == 200
    purged = metric(server, "mayfly_request_units_total", **where, operation="purge")
    assert purged == pytest.approx(200 * PRICE)
    assert metric(server, "mayfly_throttled_requests_total", **where) >= 6


def test_requests_do_not_wait_for_purging(service: Service, watch: Watch) -> None:
    proxy = dying(service, watch, offer_throughput=400)
    assert turn(service.server) == 70
    operations = [{"operationType": "Read", "partitionKey": '["0"]', "id": "lives"} for _ in range(100)]
    for _ in range(4):
        assert service.raw("POST", path_of(proxy, "docs"), operations, BULK).status == 200
    assert service.raw("POST", path_of(proxy, "docs"), operations, BULK).status == 207


def test_due_records_collect_until_a_sweep_is_worth_its_price(service: Service, watch: Watch) -> None:
    proxy = dying(service, watch, offer_throughput=400)
    reaper = service.server._admin.engine.reaper
    assert turn(service.server) == 70
    missing = 16 * PRICE - (400 - 70 * PRICE)
    assert reaper.rest == pytest.approx(missing / 400 * 1e6, abs=2), "instead of the second of its interval"
    watch.on(missing / 400 - 0.001)
    assert turn(service.server) == 0
    watch.on(0.001)
    assert turn(service.server) == 16
    assert is_hidden(service, proxy)
    assert service.server.purge()["purged"] == 200 - 86
    assert turn(service.server) == 0
    assert reaper.rest == 1_000_000


def test_people_are_not_held_to_the_budget(service: Service, watch: Watch) -> None:
    proxy = dying(service, watch, offer_throughput=400)
    spend_all(service, proxy)
    assert service.server.purge()["purged"] == 200
    proxy = dying_later(service, watch)
    spend_all(service, proxy)
    assert service.server.clock.advance(seconds=30)["purged"] == 50


def dying_later(service: Service, watch: Watch) -> ContainerProxy:
    proxy = service.container(20, offer_throughput=400)
    proxy.create_item({"id": "lives", "pk": "0", "ttl": -1})
    service.fill(proxy, [{"id": f"i{n}", "pk": str(n)} for n in range(50)])
    watch.on(60)
    return proxy


def test_a_container_whose_budget_is_used_up_keeps_no_other_waiting(service: Service, watch: Watch) -> None:
    busy = dying(service, watch, 50, offer_throughput=400)
    spend_all(service, busy)
    assert turn(service.server) == 50
    idle = dying_later(service, watch)
    busier = dying_later(service, watch)
    for _ in range(2):
        watch.on(1)
        spend_all(service, busier)
    turn(service.server)
    service.at(40)
    watch.on(0.5)
    spend_all(service, busier)
    assert turn(service.server) >= 50
    assert is_hidden(service, idle) and is_hidden(service, busier)


def test_containers_that_share_a_budget_share_what_is_left_over(service: Service, watch: Watch) -> None:
    database = service.client.create_database("shared", offer_throughput=400)
    for name in ("a", "b"):
        proxy = database.create_container(name, PartitionKey("/pk"), default_ttl=10)
        service.fill(proxy, [{"id": f"i{n}", "pk": str(n)} for n in range(60)])
        watch.on(60)
    service.at(10)
    spend_all(service, database.get_container_client("a"))
    assert turn(service.server) == 60, "what remains is not worth a sweep of the other"
    watch.on(20)
    assert turn(service.server) == 60


@pytest.fixture(params=["free", "serverless", "leftover"])
def charged(request: pytest.FixtureRequest) -> Iterator[tuple[str, RunningServer]]:
    options = {"throttling": request.param != "leftover", "ttl_charge": request.param}
    with serve(memory=True, port=0, clock="virtual", clock_start=START, **options) as server:
        yield request.param, server


def test_purging_that_does_not_wait(charged: tuple[str, RunningServer]) -> None:
    """`free` and `serverless` with throttling, and what is the default without it."""
    charge, server = charged
    service = Service(server, "memory")
    budgets = server._admin.engine.budgets
    assert (budgets is None) == (charge == "leftover")
    if budgets is not None:
        Watch(budgets)
    proxy = service.container(10, offer_throughput=400)
    service.fill(proxy, [{"id": f"i{n}", "pk": str(n)} for n in range(60)])
    service.at(10)
    if budgets is not None:
        spend_all(service, proxy)
    assert turn(server) == 60
    paid = metric(server, "mayfly_request_units_total", operation="purge")
    assert paid == pytest.approx(0 if charge == "free" else 60 * PRICE)
    service.close()
