"""Patches whose condition or item is too much for the writer: computed on a thread, for the item as it is when it is written."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from azure.cosmos import ContainerProxy
from azure.cosmos.exceptions import CosmosBatchOperationError, CosmosHttpResponseError

from frontends.cosmos.service import BULK, Service, in_memory, path_of
from mayflydb.frontends.cosmos.patching import ItemChange
from mayflydb.model.record import Record

JOINED = "from c where exists(select value 1 from a in c.a join b in c.a where a + b = {})"
ATOMIC = {**BULK, "x-ms-cosmos-batch-atomic": "True"}
LONG = "from c where " + " or ".join(f"c.n = {number}" for number in range(1, 500))
SET: list[dict[str, Any]] = [{"op": "set", "path": "/done", "value": True}]
ITEM: dict[str, Any] = {"id": "1", "pk": "p", "n": 5, "a": [1, 2, 3]}
LARGE = {**ITEM, "text": "x" * 100_000}

Threads = list[threading.Thread]


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Threads:
    """The threads on which patches were applied."""
    found: Threads = []
    apply = ItemChange._apply

    def note(change: ItemChange, current: Record) -> Any:
        found.append(threading.current_thread())
        return apply(change, current)

    monkeypatch.setattr(ItemChange, "_apply", note)
    return found


def disturb_once(monkeypatch: pytest.MonkeyPatch, act: Callable[[], Any]) -> None:
    """Have something happen after the change of an item was computed for the first time."""
    compute, left = ItemChange._compute, [act]

    def computed(change: ItemChange, current: Record) -> Any:
        result = compute(change, current)
        if left:
            left.pop()()
        return result

    monkeypatch.setattr(ItemChange, "_compute", computed)


def patch(proxy: ContainerProxy, condition: str | None) -> int:
    try:
        proxy.patch_item("1", "p", SET, filter_predicate=condition)
    except CosmosHttpResponseError as refusal:
        return refusal.status_code or 0
    return 200


@in_memory
@pytest.mark.parametrize(
    ("item", "condition", "status"),
    [
        (ITEM, JOINED.format(6), 200), (ITEM, JOINED.format(7), 412),
        (ITEM, LONG, 200), ({**ITEM, "n": -1}, LONG, 412),
        (LARGE, None, 200), (LARGE, "from c where c.n = 4", 412),
    ],
)  # fmt: skip
def test_what_takes_long_is_computed_on_a_thread(
    service: Service, threads: Threads, item: dict[str, Any], condition: str | None, status: int
) -> None:
    proxy = service.container()
    proxy.create_item(item)
    assert patch(proxy, condition) == status
    assert [thread.name for thread in threads] == ["evaluation"]
    assert ("done" in proxy.read_item("1", "p")) is (status == 200)


@in_memory
def test_what_is_cheap_is_computed_within_the_decision(service: Service, threads: Threads) -> None:
    proxy = service.container()
    proxy.create_item(ITEM)
    assert patch(proxy, "from c where c.n = 5") == 200
    assert [thread.name for thread in threads] != ["evaluation"]
    assert len(threads) == 1


@in_memory
@pytest.mark.parametrize(("a", "status"), [([3, 3], 200), ([1, 2], 412)])
def test_an_item_that_is_written_meanwhile_is_judged_again(
    service: Service, monkeypatch: pytest.MonkeyPatch, threads: Threads, a: list[int], status: int
) -> None:
    proxy = service.container()
    proxy.create_item(ITEM)
    after = {**ITEM, "a": a, "n": 8}
    disturb_once(monkeypatch, lambda: service.raw("PUT", path_of(proxy, "docs", "1"), after, pk="p"))
    assert patch(proxy, JOINED.format(6)) == status
    assert len(threads) == 2
    found = proxy.read_item("1", "p")
    assert (found["n"], found["a"], found.get("done", False)) == (8, a, status == 200)


@in_memory
def test_in_batches(service: Service, threads: Threads) -> None:
    proxy = service.container()
    proxy.create_item(ITEM)
    long = {"filter_predicate": JOINED.format(6)}
    other = ("create", ({"id": "2", "pk": "p", "a": [3]},))
    done = proxy.execute_item_batch([other, ("patch", ("1", SET), long)], "p")
    assert [each["statusCode"] for each in done] == [201, 200]
    assert done[1]["resourceBody"]["done"]
    with pytest.raises(CosmosBatchOperationError) as refused:
        proxy.execute_item_batch(
            [("patch", ("1", SET)), ("patch", ("1", SET), {"filter_predicate": JOINED.format(9)})], "p"
        )
    assert [each["statusCode"] for each in refused.value.operation_responses] == [424, 412]
    operations = [
        {
            "operationType": "Patch",
            "id": "1",
            "partitionKey": '["p"]',
            "resourceBody": {"operations": SET, "condition": each},
        }
        for each in (JOINED.format(6), JOINED.format(9), "from c where c.n = 5")
    ]
    answer = service.raw("POST", path_of(proxy, "docs"), operations, BULK)
    assert [each["statusCode"] for each in answer.json] == [200, 412, 200]


@in_memory
def test_a_batch_patches_a_large_item_that_it_has_written(service: Service, threads: Threads) -> None:
    proxy = service.container()
    done = proxy.execute_item_batch([("create", (LARGE,)), ("patch", ("1", SET))], "p")
    assert [each["statusCode"] for each in done] == [201, 200]


@in_memory
@pytest.mark.parametrize(
    ("item", "condition", "status"),
    [
        (ITEM, "from c where c._ts > 1", 200), (ITEM, "from c where c._ts < 1", 412), (LARGE, "from c where c._ts > 1", 400),
        (LARGE, JOINED.format(6), 200), (LARGE, JOINED.format(7), 412),
    ],
)  # fmt: skip
def test_conditions_on_an_item_that_the_batch_has_written(
    service: Service, item: dict[str, Any], condition: str, status: int
) -> None:
    proxy = service.container()
    operations = [
        {"operationType": "Create", "resourceBody": item},
        {"operationType": "Patch", "id": "1", "resourceBody": {"operations": SET, "condition": condition}},
    ]
    answer = service.raw("POST", path_of(proxy, "docs"), operations, ATOMIC, pk="p")
    assert answer.json[1]["statusCode"] == status


@in_memory
def test_a_decision_patches_a_few_items_at_a_time(service: Service, threads: Threads) -> None:
    proxy = service.container()
    proxy.create_item({**ITEM, "text": "x" * 30_000})
    steps = [("patch", ("1", [{"op": "add", "path": "/a/-", "value": number}])) for number in range(6)]
    done = proxy.execute_item_batch(steps, "p")
    assert [len(each["resourceBody"]["a"]) for each in done] == [4, 5, 6, 7, 8, 9]
    # Two fit into a decision, and the third is computed ahead of the next.
    assert [thread.name == "evaluation" for thread in threads] == [False, False, True, False, False, True]


@in_memory
@pytest.mark.parametrize("kind", ["Read", "Patch"])
@pytest.mark.parametrize("options", [ATOMIC, BULK])
def test_results_of_a_batch_are_limited(service: Service, kind: str, options: dict[str, Any]) -> None:
    proxy = service.container()
    proxy.create_item({**ITEM, "text": "x" * 1_500_000})
    body = {} if kind == "Read" else {"resourceBody": {"operations": [{"op": "incr", "path": "/n", "value": 1}]}}
    operations = [{"operationType": kind, "id": "1", "partitionKey": '["p"]', **body}] * 20
    results = service.raw(
        "POST", path_of(proxy, "docs"), operations, options, pk="p" if options is ATOMIC else None
    ).json
    refused = [each for each in results if each["statusCode"] == 413]
    assert refused[0]["subStatusCode"] == 3402
    done = [each["statusCode"] for each in results].count(200)
    if options is ATOMIC:
        assert (len(refused), done) == (1, 0)
    else:
        assert len(refused) + done == 20
        assert 3 <= done <= 10
    assert proxy.read_item("1", "p")["n"] == ITEM["n"] + (done if kind == "Patch" else 0)
