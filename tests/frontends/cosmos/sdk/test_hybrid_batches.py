"""Batches in HybridRow on the wire, as the .NET client sends them in gateway mode: they do what the same batches in JSON do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from frontends.cosmos import hybrid
from frontends.cosmos.service import BULK, Answer, Service, everywhere, in_memory, path_of
from mayflydb.frontends.cosmos.partition_key import PartitionKeyDefinition

ATOMIC: dict[str, str | bytes | None] = {
    "x-ms-cosmos-is-batch-request": "True",
    "x-ms-cosmos-batch-atomic": "True",
    "x-ms-cosmos-batch-ordered": "True",
}
ITEM = {"id": "1", "pk": "p", "n": 1}
Operation = dict[str, Any]


def body(**members: Any) -> bytes:
    return json.dumps({"pk": "p"} | members).encode()


def send(
    service: Service,
    proxy: Any,
    operations: Sequence[Operation],
    headers: dict[str, str | bytes | None],
    form: str = "hybrid",
) -> tuple[Answer, list[dict[str, Any]]]:
    """`form`: "json" sends and reads the same operations as the Java client does."""
    pk: Any = "p" if headers.get("x-ms-cosmos-batch-atomic") == "True" else ...
    if form == "hybrid":
        answer = service.raw("POST", path_of(proxy, "docs"), hybrid.batch(operations), headers, pk=pk)
        found = hybrid.results(answer.body) if answer.body.startswith(b"\x81") else []
        for result in found:
            if "resourceBody" in result:
                result["resourceBody"] = json.loads(result["resourceBody"])
        return answer, found
    steps = [dict(each) for each in operations]
    for step in steps:
        if "resourceBody" in step:
            step["resourceBody"] = json.loads(step["resourceBody"])
    answer = service.raw("POST", path_of(proxy, "docs"), steps, headers, pk=pk)
    return answer, answer.json


def statuses(results: list[dict[str, Any]]) -> list[int]:
    return [result["statusCode"] for result in results]


def six_operations(**options: Any) -> list[Operation]:
    operations: list[Operation] = [
        {"operationType": "Create", "resourceBody": body(id="2")},
        {"operationType": "Upsert", "resourceBody": body(id="1", n=2)},
        {"operationType": "Replace", "id": "2", "resourceBody": body(id="2", n=1)},
        {
            "operationType": "Patch",
            "id": "2",
            "resourceBody": b'{"operations":[{"op":"incr","path":"/n","value":1}]}',
        },
        {"operationType": "Read", "id": "2"},
        {"operationType": "Delete", "id": "1"},
    ]
    return [each | options for each in operations]


@everywhere
def test_a_transaction(service: Service) -> None:
    proxy = service.container()
    proxy.create_item(dict(ITEM))
    answer, results = send(service, proxy, six_operations(), ATOMIC)
    assert (answer.status, statuses(results)) == (200, [201, 200, 200, 200, 200, 204])
    assert [result.get("resourceBody", {}).get("id") for result in results] == ["2", "1", "2", "2", "2", None]
    assert results[4]["resourceBody"]["n"] == 2
    assert results[4]["eTag"] == results[3]["eTag"] == results[4]["resourceBody"]["_etag"]
    assert "eTag" not in results[5]
    charge = sum(result["requestCharge"] for result in results)
    assert float(answer.headers["x-ms-request-charge"]) == pytest.approx(charge, abs=0.01)
    assert [item["id"] for item in proxy.read_all_items()] == ["2"]


@everywhere
def test_a_transaction_that_fails_changes_nothing(service: Service) -> None:
    proxy = service.container()
    proxy.create_item(dict(ITEM))
    operations = six_operations()
    operations[2]["ifMatch"] = '"other"'
    answer, results = send(service, proxy, operations, ATOMIC)
    assert (answer.status, statuses(results)) == (207, [424, 424, 412, 424, 424, 424])
    # The client takes the first failure's body for the message of the whole batch.
    assert "precondition" in results[2]["resourceBody"]["Errors"][0]
    assert all("resourceBody" not in result for place, result in enumerate(results) if place != 2)
    assert [item["n"] for item in proxy.read_all_items()] == [1]


@everywhere
def test_bulk_operations_are_independent(service: Service) -> None:
    proxy = service.container()
    operations: list[Operation] = [
        {"operationType": "Create", "partitionKey": '["p"]', "resourceBody": body(id="1")},
        {"operationType": "Create", "partitionKey": '["q"]', "resourceBody": body(id="1", pk="q")},
        {"operationType": "Create", "partitionKey": '["p"]', "resourceBody": body(id="2", pk="q")},
        {"operationType": "Read", "partitionKey": '["p"]', "id": "none"},
        {"operationType": "Create", "resourceBody": body(id="3")},
        {"operationType": 3, "partitionKey": '["p"]', "id": "1"},
        {"operationType": "Create", "partitionKey": '["p"]'},
        {"operationType": "Delete", "partitionKey": '["p"]'},
    ]
    answer, results = send(service, proxy, operations, BULK)
    assert (answer.status, statuses(results)) == (207, [201, 201, 400, 404, 400, 400, 400, 400])
    assert [result["subStatusCode"] for result in results] == [0, 0, 1001, 0, 0, 0, 0, 0]
    assert "'3' is not known" in results[5]["resourceBody"]["Errors"][0]
    assert sorted((item["pk"], item["id"]) for item in proxy.read_all_items()) == [("p", "1"), ("q", "1")]


@in_memory
@pytest.mark.parametrize("atomic", [True, False])
@pytest.mark.parametrize("wish", ["header", "operation", "none", "no"])
def test_answers_without_the_items_written(service: Service, atomic: bool, wish: str) -> None:
    """test_items has the same in JSON."""
    proxy = service.container()
    proxy.create_item(dict(ITEM))
    options = {"operation": {"minimalReturnPreference": True}, "no": {"minimalReturnPreference": False}}.get(wish, {})
    headers = (ATOMIC if atomic else BULK) | ({"prefer": "return=minimal"} if wish == "header" else {})
    operations = six_operations(partitionKey='["p"]', **options)
    # Operations of a bulk are in no order, so each goes by itself.
    groups = [operations] if atomic else [[each] for each in operations]
    results = [result for each in groups for result in send(service, proxy, each, headers)[1]]
    assert statuses(results) == [201, 200, 200, 200, 200, 204]
    bodies = [result.get("resourceBody", {}).get("id") for result in results]
    assert bodies == [None] * 4 + ["2", None] if wish in ("header", "operation") else ["2", "1", "2", "2", "2", None]
    assert ["eTag" in result for result in results] == [True] * 5 + [False]


@in_memory
@pytest.mark.parametrize("form", ["json", "hybrid"])
@pytest.mark.parametrize("headers", [ATOMIC, BULK], ids=["transaction", "bulk"])
def test_a_read_of_a_known_version_is_not_modified(
    service: Service, form: str, headers: dict[str, str | bytes | None]
) -> None:
    """A read takes ifMatch as it takes ifNoneMatch; it is no failure, so what else a transaction does is committed."""
    proxy = service.container()
    etag = proxy.create_item(dict(ITEM))["_etag"]
    read = {"operationType": "Read", "id": "1", "partitionKey": '["p"]'}
    operations: list[Operation] = [
        {"operationType": "Create", "partitionKey": '["p"]', "resourceBody": body(id="2")},
        read | {"ifNoneMatch": etag},
        read | {"ifMatch": etag},
        read | {"ifNoneMatch": "*"},
        read | {"ifNoneMatch": '"other"'},
        read | {"ifMatch": '"other"'},
    ]
    answer, results = send(service, proxy, operations, headers, form)
    assert (answer.status, statuses(results)) == (207, [201, 304, 304, 304, 200, 200])
    assert ["resourceBody" in result for result in results] == [True, False, False, False, True, True]
    assert {result["eTag"] for result in results[1:]} == {etag}
    assert proxy.read_item("2", "p")["id"] == "2"


@in_memory
@pytest.mark.parametrize(
    ("option", "said"),
    [
        ({"timeToLiveInSeconds": 5}, "timeToLiveInSeconds of a batch operation is not supported by Mayfly"),
        ({"indexingDirective": "Exclude"}, "indexing directive 'Exclude' is not supported by Mayfly"),
        ({"binaryId": b"1"}, "binaryId of a batch operation is not supported by Mayfly"),
        ({"partitionKey": '["q"]'}, "doesn't match the one specified"),
        ({"effectivePartitionKey": b"1"}, "doesn't match the one specified"),
    ],
)
def test_options_are_refused_by_name(service: Service, option: Operation, said: str) -> None:
    proxy = service.container()
    created = {"operationType": "Create", "resourceBody": body(id="1"), "indexingDirective": "Include"}
    answer, results = send(service, proxy, [created, created | option], ATOMIC)
    assert (answer.status, statuses(results)) == (207, [424, 400])
    assert said in results[1]["resourceBody"]["Errors"][0]
    assert list(proxy.read_all_items()) == []


@in_memory
@pytest.mark.parametrize("version", [1, 2])
def test_effective_partition_keys_are_compared(service: Service, version: int) -> None:
    proxy = service.container(version=version)
    definition = PartitionKeyDefinition.from_json({"paths": ["/pk"], "version": version})
    right, other = definition.effective_key(("p",)), definition.effective_key(("q",))
    key = {"partitionKey": '["p"]', "effectivePartitionKey": right}
    operations: list[Operation] = [
        key | {"operationType": "Upsert", "resourceBody": body(id="1")},
        key | {"operationType": "Upsert", "resourceBody": body(id="1"), "effectivePartitionKey": other},
        {"operationType": "Upsert", "resourceBody": body(id="1"), "effectivePartitionKey": right},
    ]
    _, results = send(service, proxy, operations, BULK)
    assert [(each["statusCode"], each["subStatusCode"]) for each in results] == [(201, 0), (400, 1001), (400, 0)]
    assert "effectivePartitionKey and no partitionKey is not supported" in results[2]["resourceBody"]["Errors"][0]
    del operations[0]["partitionKey"]
    _, results = send(service, proxy, operations[:1], ATOMIC)
    assert statuses(results) == [200]


@in_memory
def test_bodies_may_be_binary_json(service: Service) -> None:
    proxy = service.container()
    item = bytes.fromhex("80 ed 08 02 2c 8131 82 706b 8170")
    answer, results = send(service, proxy, [{"operationType": "Create", "resourceBody": item}], ATOMIC)
    assert (answer.status, statuses(results)) == (200, [201])
    assert proxy.read_item("1", "p")["pk"] == "p"
    answer, results = send(service, proxy, [{"operationType": "Upsert", "resourceBody": item[:-1]}], ATOMIC)
    assert (answer.status, results) == (400, []) and "invalid binary JSON" in answer.json["message"]


@in_memory
@pytest.mark.parametrize("headers", [ATOMIC, BULK], ids=["transaction", "bulk"])
def test_a_batch_that_is_no_batch_is_refused_in_json(service: Service, headers: dict[str, str | bytes | None]) -> None:
    proxy = service.container()
    damaged = hybrid.batch([{"operationType": "Create", "resourceBody": body(id="1")}])[:-1] + b"?"
    for sent, said in (
        (damaged, "checksum"),
        (hybrid.SEGMENT, "no operations"),
        (hybrid.batch([{"operationType": "Read", "id": "1"}] * 101), "At most 100"),
    ):
        answer = service.raw("POST", path_of(proxy, "docs"), sent, headers, pk="p")
        assert (answer.status, answer.json["code"]) == (400, "BadRequest") and said in answer.json["message"]
    assert list(proxy.read_all_items()) == []


@in_memory
def test_items_expire_as_others_do(service: Service) -> None:
    proxy = service.container(default_ttl=-1)
    operations: list[Operation] = [{"operationType": "Create", "resourceBody": body(id="1", ttl=10)}]
    assert statuses(send(service, proxy, operations, ATOMIC)[1]) == [201]
    service.at(9)
    assert statuses(send(service, proxy, [{"operationType": "Read", "id": "1"}], ATOMIC)[1]) == [200]
    service.at(10)
    assert statuses(send(service, proxy, [{"operationType": "Read", "id": "1"}], ATOMIC)[1]) == [404]


@in_memory
def test_a_batch_may_be_as_large_as_the_client_makes_it(service: Service) -> None:
    proxy = service.container()
    operations: list[Operation] = [
        {"operationType": "Create", "partitionKey": '["p"]', "resourceBody": body(id=str(n), x="x" * 730_000)}
        for n in range(3)
    ]
    size = len(hybrid.batch(operations))
    operations[0]["resourceBody"] = body(id="0", x="x" * (730_000 + 2_202_010 - size))
    assert len(hybrid.batch(operations)) == 2_202_010
    assert statuses(send(service, proxy, operations, BULK)[1]) == [201] * 3
