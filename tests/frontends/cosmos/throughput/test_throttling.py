"""Requests over the provisioned throughput: refused before they do anything, by range, until the time that is told."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace
from typing import Any

import pytest
from azure.cosmos import ContainerProxy, PartitionKey

from frontends.cosmos import hybrid
from frontends.cosmos.service import BULK, Answer, Service, everywhere, ids, path_of
from frontends.cosmos.throughput.watch import Watch

QUERY = {"content-type": "application/query+json", "x-ms-documentdb-query-enablecrosspartition": "True"}
CHANGES = {"a-im": "Incremental Feed"}
BATCH = BULK | {"x-ms-cosmos-batch-atomic": "True", "x-ms-cosmos-batch-continue-on-error": None}
PATCH = [{"op": "set", "path": "/n", "value": 5}]
MESSAGE = "Request rate is large. More Request Units may be needed, so no changes were made."


def overdraw(service: Service, proxy: ContainerProxy, pk: str = "a") -> int:
    """Create items of 20 KB until that is refused; how many there are."""
    for n in range(1000):
        answer = service.raw("POST", path_of(proxy, "docs"), {"id": f"big{n}", "pk": pk, "x": "x" * 20_000}, pk=pk)
        if answer.status == 429:
            return n
        assert answer.status == 201
    raise AssertionError("nothing was refused")


def is_throttled(answer: Answer) -> bool:
    if answer.status != 429:
        return False
    assert (answer.substatus, answer.json["code"]) == (3200, "429")
    assert MESSAGE in answer.json["message"] and "http://aka.ms/cosmosdb-error-429" in answer.json["message"]
    assert int(answer.headers["x-ms-retry-after-ms"]) > 0
    assert answer.headers["x-ms-request-charge"] == "0.00"
    return True


def requests(proxy: ContainerProxy) -> dict[str, tuple[Any, ...]]:
    docs, item = path_of(proxy, "docs"), path_of(proxy, "docs", "a")
    new = {"id": "new", "pk": "a"}
    read = {"operationType": "Read", "id": "a"}
    return {
        "read": ("GET", item), "create": ("POST", docs, new), "replace": ("PUT", item, {"id": "a", "pk": "a", "n": 2}),
        "upsert": ("POST", docs, new, {"x-ms-documentdb-is-upsert": "True"}), "delete": ("DELETE", item),
        "patch": ("PATCH", item, PATCH), "query": ("POST", docs, {"query": "SELECT * FROM c"}, QUERY), "feed": ("GET", docs),
        "changes": ("GET", docs, None, CHANGES), "batch": ("POST", docs, [read], BATCH),
        "procedure": ("POST", path_of(proxy, "sprocs", "makes"), ["new"]),
        "trigger": ("POST", docs, new, {"x-ms-documentdb-pre-trigger-include": "nothing"}),
        "delete partition": ("POST", path_of(proxy, "operations", "partitionkeydelete"), b""),
    }  # fmt: skip


@everywhere
def test_every_operation_waits_and_does_nothing_meanwhile(service: Service, watch: Watch) -> None:
    proxy = service.container(offer_throughput=400)
    proxy.create_item({"id": "a", "pk": "a", "n": 1})
    makes = "function (id) { __.createDocument(__.getSelfLink(), {id: id, pk: 'a'}); }"
    proxy.scripts.create_stored_procedure({"id": "makes", "body": makes})
    proxy.scripts.create_trigger({
        "id": "nothing", "triggerType": "Pre", "triggerOperation": "All", "body": "function () {}",
    })  # fmt: skip
    there = overdraw(service, proxy) + 1
    for name, request in requests(proxy).items():
        assert is_throttled(service.raw(*request, pk="a")), name
    # What belongs to no budget is answered: the container, its ranges, query plans.
    assert proxy.read()["id"] == "c"
    assert service.raw("GET", path_of(proxy, "pkranges")).status == 200
    plan = QUERY | {"x-ms-cosmos-is-query-plan-request": "True"}
    assert service.raw("POST", path_of(proxy, "docs"), {"query": "SELECT * FROM c"}, plan).status == 200
    watch.on(3600)
    kept = proxy.read_item("a", "a")
    assert kept["n"] == 1
    assert len(list(proxy.read_all_items())) == there


def test_the_time_that_is_told(service: Service, watch: Watch) -> None:
    """To the millisecond: not a moment before it, and then at once."""
    proxy = service.container(offer_throughput=400)
    overdraw(service, proxy)
    refused = service.raw("GET", path_of(proxy, "docs", "big0"), pk="a")
    wait = int(refused.headers["x-ms-retry-after-ms"])
    watch.on(wait / 1000 - 0.001)
    assert is_throttled(service.raw("GET", path_of(proxy, "docs", "big0"), pk="a"))
    watch.on(0.001)
    assert service.raw("GET", path_of(proxy, "docs", "big0"), pk="a").status == 200


def read_all_there_is(service: Service, proxy: ContainerProxy, pk: str = "a") -> float:
    """Read what is not there, at 1 RU each, until that is refused; what it came to."""
    reads = [{"operationType": "Read", "partitionKey": json.dumps([pk]), "id": "absent"} for _ in range(100)]
    spent = 0.0
    for _ in range(100):
        results = service.raw("POST", path_of(proxy, "docs"), reads, BULK).json
        spent += sum(float(result["requestCharge"]) for result in results)
        if any(result["statusCode"] == 429 for result in results):
            return spent
    raise AssertionError("nothing was refused")


def test_units_granted_in_a_second(service: Service, watch: Watch) -> None:
    proxy = service.container(offer_throughput=400)
    for seconds in (0, 10, 1):
        watch.on(seconds)
        assert read_all_there_is(service, proxy) == 400
    watch.on(0.25)
    assert read_all_there_is(service, proxy) == 100
    watch.on(0.01)
    answer = service.raw("GET", path_of(proxy, "docs", "absent"), pk="a")
    assert (answer.status, answer.headers["x-ms-request-charge"]) == (404, "1.00")


def test_a_query_overdraws_and_the_next_request_pays(service: Service, watch: Watch) -> None:
    proxy = service.container(offer_throughput=400)
    for pk in "abc":
        overdraw(service, proxy, pk)
        watch.on(2)
    answers = [service.raw(*requests(proxy)["query"]) for _ in range(20)]
    charges = [float(answer.headers["x-ms-request-charge"]) for answer in answers if answer.status == 200]
    assert len(charges) < 20 and sum(charges) > 400 > sum(charges[:-1])
    wait = int(next(answer for answer in answers if answer.status == 429).headers["x-ms-retry-after-ms"])
    assert wait / 1000 == pytest.approx((sum(charges) - 400) / 400, abs=0.0015)


def test_a_refused_write_costs_little(service: Service, watch: Watch) -> None:
    """It is granted like the write that it asks for, and what was too much is given back."""
    proxy = service.container(offer_throughput=400)
    proxy.create_item({"id": "a", "pk": "a"})
    assert read_all_there_is(service, proxy) == 394
    watch.on(0.1)
    big = {"id": "a", "pk": "a", "x": "x" * 50_000}
    statuses = [service.raw("POST", path_of(proxy, "docs"), big, pk="a").status for _ in range(41)]
    assert statuses == [409] * 40 + [429]


FAILING = """function () {
    var done = 0, link = __.getSelfLink();
    (function next() {
        if (done++ === 70) throw new Error('no');
        __.createDocument(link, {id: 'n' + done, pk: 'a'}, next);
    })();
}"""


def test_a_script_that_fails_has_spent_what_it_did(service: Service, watch: Watch) -> None:
    proxy = service.container(offer_throughput=400)
    proxy.scripts.create_stored_procedure({"id": "fails", "body": FAILING})
    answer = service.raw("POST", path_of(proxy, "sprocs", "fails"), [], pk="a")
    assert (answer.status, answer.headers["x-ms-request-charge"]) == (400, "433.30")
    assert is_throttled(service.raw("GET", path_of(proxy, "docs", "x"), pk="a"))


@pytest.mark.parametrize("version", [1, 2])
def test_each_range_has_its_own_budget(service: Service, watch: Watch, version: int) -> None:
    proxy = service.container(offer_throughput=12_000, version=version)
    keys = {str(n): service.raw("GET", path_of(proxy, "docs", "x"), pk=str(n)).headers for n in range(20)}
    range_of = {key: headers["x-ms-session-token"].partition(":")[0] for key, headers in keys.items()}
    cold, hot = (next(key for key in keys if range_of[key] == id) for id in "01")
    watch.on(10)
    rows = [{"id": f"i{n}", "pk": hot, "x": "x" * 15_000} for n in range(100)]
    while overdrawn(service, proxy, rows) == 0:
        pass
    assert is_throttled(service.raw("GET", path_of(proxy, "docs", "x"), pk=hot))
    assert service.raw("GET", path_of(proxy, "docs", "x"), pk=cold).status == 404
    of_range = {"x-ms-documentdb-partitionkeyrangeid": "0"}
    assert service.raw("GET", path_of(proxy, "docs"), None, of_range).status == 200
    # What asks all of them comes to each in turn.
    first = service.raw("GET", path_of(proxy, "docs"))
    onwards = {"x-ms-continuation": first.headers["x-ms-continuation"]}
    assert first.status == 200 and is_throttled(service.raw("GET", path_of(proxy, "docs"), None, onwards))


def overdrawn(service: Service, proxy: ContainerProxy, rows: list[dict[str, Any]]) -> int:
    """Upsert all of them in bulk; how many were refused."""
    operations = [
        {"operationType": "Upsert", "partitionKey": json.dumps([row["pk"]]), "resourceBody": row} for row in rows
    ]
    answer = service.raw("POST", path_of(proxy, "docs"), operations, BULK)
    assert answer.status in (200, 207)
    return sum(result["statusCode"] == 429 for result in answer.json)


def test_bulk_is_refused_by_operation(service: Service, watch: Watch) -> None:
    proxy = service.container(offer_throughput=400)
    creates = [
        {"operationType": "Create", "partitionKey": '["a"]', "resourceBody": {"id": f"i{n}", "pk": "a"}}
        for n in range(100)
    ]
    answer = service.raw("POST", path_of(proxy, "docs"), creates, BULK)
    assert answer.status == 207
    done = [result for result in answer.json if result["statusCode"] == 201]
    refused = [result for result in answer.json if result["statusCode"] == 429]
    assert (len(done), len(refused)) == (65, 35), "at 6.19 each, the 65th overdraws"
    for result in refused:
        assert (result["subStatusCode"], result["requestCharge"]) == (3200, 0)
        assert result["retryAfterMilliseconds"] > 0
    watch.on(60)
    assert len(list(proxy.read_all_items())) == 65


def test_bulk_in_hybrid_row_is_refused_by_operation(service: Service, watch: Watch) -> None:
    proxy = service.container(offer_throughput=400)
    create = {"operationType": "Create", "partitionKey": '["a"]'}
    creates = [create | {"resourceBody": json.dumps({"id": f"i{n}", "pk": "a"}).encode()} for n in range(100)]
    answer = service.raw("POST", path_of(proxy, "docs"), hybrid.batch(creates), BULK)
    results = hybrid.results(answer.body)
    assert (answer.status, [result["statusCode"] for result in results]) == (207, [201] * 65 + [429] * 35)
    for result in results[65:]:
        assert (result["subStatusCode"], result["requestCharge"]) == (3200, 0)
        assert result["retryAfterMilliseconds"] > 0 and MESSAGE in result["resourceBody"].decode()
    watch.on(60)
    # A transaction is refused as a whole, in JSON.
    overdraw(service, proxy)
    assert is_throttled(service.raw("POST", path_of(proxy, "docs"), hybrid.batch(creates[:1]), BATCH, pk="a"))


def test_a_batch_is_refused_as_a_whole(service: Service, watch: Watch) -> None:
    proxy = service.container(offer_throughput=400)
    creates = [("create", ({"id": f"i{n}", "pk": "a"},)) for n in range(100)]
    proxy.execute_item_batch(creates, "a")
    more = [{"operationType": "Create", "resourceBody": {"id": "more", "pk": "a"}}]
    assert is_throttled(service.raw("POST", path_of(proxy, "docs"), more, BATCH, pk="a"))
    watch.on(60)
    assert len(list(proxy.read_all_items())) == 100


@everywhere
def test_containers_that_share_a_budget(service: Service, watch: Watch) -> None:
    database = service.client.create_database("shop", offer_throughput=400)
    one, other = (database.create_container(name, PartitionKey("/pk")) for name in "ab")
    own = database.create_container("c", PartitionKey("/pk"), offer_throughput=400)
    overdraw(service, one)
    assert is_throttled(service.raw("GET", path_of(other, "docs", "x"), pk="a"))
    assert service.raw("GET", path_of(own, "docs", "x"), pk="a").status == 404


def test_autoscale_goes_up_to_its_maximum_at_once(service: Service, watch: Watch) -> None:
    from azure.cosmos import ThroughputProperties

    proxy = service.container(offer_throughput=ThroughputProperties(auto_scale_max_throughput=1000))
    creates = [
        {"operationType": "Create", "partitionKey": '["a"]', "resourceBody": {"id": f"{n}", "pk": "a"}}
        for n in range(200)
    ]
    answers = [service.raw("POST", path_of(proxy, "docs"), part, BULK).json for part in (creates[:100], creates[100:])]
    spent = sum(result["requestCharge"] for answer in answers for result in answer)
    assert 1000 <= spent < 1010


def test_another_offer_is_another_budget_at_once(service: Service, watch: Watch) -> None:
    """A debt stays one, and is made up for sooner."""
    proxy = service.container(offer_throughput=400)
    overdraw(service, proxy)
    debt = int(service.raw("GET", path_of(proxy, "docs", "x"), pk="a").headers["x-ms-retry-after-ms"])
    proxy.replace_throughput(800)
    less = int(service.raw("GET", path_of(proxy, "docs", "x"), pk="a").headers["x-ms-retry-after-ms"])
    assert less == pytest.approx(debt / 2, abs=1)
    watch.on(10)
    assert read_all_there_is(service, proxy) == 800


@everywhere
def test_children_of_a_split_have_budgets_of_their_own(service: Service, watch: Watch) -> None:
    proxy = service.container(offer_throughput=400)
    overdraw(service, proxy)
    asked = [path_of(proxy, "docs", "x")] * 5
    assert all(is_throttled(service.raw("GET", path, pk="a")) for path in asked)
    proxy.replace_throughput(11_000)
    assert {service.raw("GET", path, pk="a").status for path in asked} == {404}


def test_moving_the_clock_gives_nothing(service: Service, watch: Watch) -> None:
    """Time that people move is not the time that budgets are refilled by."""
    proxy = service.container(offer_throughput=400)
    overdraw(service, proxy)
    service.server.clock.advance(days=1)
    assert is_throttled(service.raw("GET", path_of(proxy, "docs", "big0"), pk="a"))


def test_the_client_waits_as_it_is_told(
    service: Service, watch: Watch, flavour: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sleeps are the stopwatch here: so each item is stored in the end, at the pace that was provisioned."""
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        watch.on(seconds)

    async def rest(seconds: float) -> None:
        sleep(seconds)

    monkeypatch.setattr("azure.cosmos._retry_utility.time", SimpleNamespace(time=time.time, sleep=sleep))
    monkeypatch.setattr("azure.cosmos.aio._retry_utility_async.asyncio", SimpleNamespace(sleep=rest))
    proxy = service.container(offer_throughput=400)
    client = service.sync(proxy) if flavour == "sync" else service.aio(proxy)
    for n in range(100):
        client.call("create_item", {"id": f"i{n:03}", "pk": "a"})
    assert ids(client.call("read_all_items")) == [f"i{n:03}" for n in range(100)]
    assert sum(slept) == pytest.approx((100 * 6.19 - 400) / 400, abs=0.1)
