"""A replace whose body has another id renames its item: it keeps its rid, and all else is as with any replace.

https://github.com/Azure/azure-cosmos-dotnet-v3/pull/870 found that the id may change while the partition key must not.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from azure.core import MatchConditions
from azure.cosmos.exceptions import CosmosBatchOperationError

from frontends.cosmos.service import BULK, Answer, Service, T, everywhere, ids, path_of, status_of
from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.engine.reads import record_at
from mayflydb.frontends.cosmos.commands import items
from mayflydb.frontends.cosmos.scripting import attempts, transaction

IS = MatchConditions.IfNotModified


@everywhere
def test_a_renamed_item(service: Service, flavour: str) -> None:
    proxy = service.container()
    call = (service.sync(proxy) if flavour == "sync" else service.aio(proxy)).call
    first = call("create_item", {"id": "a", "pk": "p", "n": 1})
    call("create_item", {"id": "z", "pk": "p"})
    service.at(5)
    renamed = call("replace_item", "a", {"id": "b", "pk": "p", "n": 2})
    assert (renamed["id"], renamed["n"], renamed["_ts"]) == ("b", 2, T + 5)
    assert (renamed["_rid"], renamed["_self"]) == (first["_rid"], first["_self"])
    assert renamed["_etag"] != first["_etag"]
    assert call("read_item", "b", "p") == renamed
    assert call("read_item", renamed, "p") == renamed
    assert status_of(call, "read_item", "a", "p") == 404
    assert status_of(call, "replace_item", "a", {"id": "a", "pk": "p"}) == 404
    # Its place in creation order is its own, and its old name is free.
    assert [item["id"] for item in call("query_items", "SELECT c.id FROM c", partition_key="p")] == ["b", "z"]
    assert call("create_item", {"id": "a", "pk": "p"})["_rid"] != first["_rid"]


@everywhere
def test_a_name_that_is_taken(service: Service) -> None:
    proxy = service.container()
    left = proxy.create_item({"id": "a", "pk": "p"})
    right = proxy.create_item({"id": "b", "pk": "p"})
    proxy.create_item({"id": "c", "pk": "q"})
    assert status_of(proxy.replace_item, "a", {"id": "b", "pk": "p"}) == 409
    assert (proxy.read_item("a", "p"), proxy.read_item("b", "p")) == (left, right)
    # Names are of one logical partition.
    assert proxy.replace_item("a", {"id": "c", "pk": "p"})["_rid"] == left["_rid"]
    assert status_of(proxy.replace_item, "nobody", {"id": "d", "pk": "p"}) == 404


def test_the_partition_key_stays(service: Service) -> None:
    proxy = service.container(paths="/id")
    proxy.create_item({"id": "a"})
    answer = service.raw("PUT", path_of(proxy, "docs", "a"), {"id": "b"}, pk="a")
    assert (answer.status, answer.substatus) == (400, 1001)


@pytest.mark.parametrize(("which", "status"), [("current", 200), ("stale", 412)])
def test_conditions(service: Service, which: str, status: int) -> None:
    proxy = service.container()
    stale = proxy.create_item({"id": "a", "pk": "p"})["_etag"]
    current = proxy.upsert_item({"id": "a", "pk": "p"})["_etag"]
    etag = {"current": current, "stale": stale}[which]
    assert status_of(proxy.replace_item, "a", {"id": "b", "pk": "p"}, etag=etag, match_condition=IS) == status
    assert ids(proxy.read_all_items()) == (["b"] if status == 200 else ["a"])


@everywhere
def test_a_rename_is_a_write_for_the_ttl(service: Service) -> None:
    proxy = service.container(default_ttl=60)
    proxy.create_item({"id": "a", "pk": "p", "ttl": 10})
    service.at(9)
    proxy.replace_item("a", {"id": "b", "pk": "p", "ttl": 20})
    service.at(28)
    assert ids(proxy.read_all_items()) == ["b"]
    service.at(29)
    assert ids(proxy.read_all_items()) == []
    service.server.purge()
    assert [(event.key, event.anchor // 1_000_000) for event in service.deaths()] == [(b"b", T + 9)]


@everywhere
@pytest.mark.parametrize(("second", "status"), [(9, 409), (10, 200)])
def test_a_name_is_free_at_the_deadline_of_who_had_it(service: Service, second: int, status: int) -> None:
    proxy = service.container(default_ttl=-1)
    proxy.create_item({"id": "b", "pk": "p", "ttl": 10})
    proxy.create_item({"id": "a", "pk": "p"})
    service.at(second)
    assert status_of(proxy.replace_item, "a", {"id": "b", "pk": "p"}) == status
    assert [event.key for event in service.deaths()] == ([] if status == 409 else [b"b"])
    assert len(ids(proxy.read_all_items())) == (2 if status == 409 else 1)


@everywhere
@pytest.mark.parametrize(("second", "status"), [(9, 200), (10, 404)])
def test_expired_items_are_not_renamed(service: Service, second: int, status: int) -> None:
    proxy = service.container(default_ttl=10)
    proxy.create_item({"id": "a", "pk": "p"})
    service.at(second)
    assert status_of(proxy.replace_item, "a", {"id": "b", "pk": "p"}) == status


@everywhere
def test_unique_values_go_with_it(service: Service) -> None:
    proxy = service.container(unique_key_policy={"uniqueKeys": [{"paths": ["/mail"]}]})
    proxy.create_item({"id": "a", "pk": "p", "mail": "x"})
    proxy.create_item({"id": "z", "pk": "p", "mail": "z"})
    assert status_of(proxy.replace_item, "a", {"id": "b", "pk": "p", "mail": "z"}) == 409
    proxy.replace_item("a", {"id": "b", "pk": "p", "mail": "x"})
    assert status_of(proxy.create_item, {"id": "c", "pk": "p", "mail": "x"}) == 409
    proxy.replace_item("b", {"id": "c", "pk": "p", "mail": "y"})
    assert status_of(proxy.create_item, {"id": "d", "pk": "p", "mail": "x"}) == 200
    assert status_of(proxy.create_item, {"id": "e", "pk": "p", "mail": "y"}) == 409
    proxy.delete_item("c", "p")
    assert status_of(proxy.create_item, {"id": "e", "pk": "p", "mail": "y"}) == 200


@everywhere
def test_the_feed_of_changes_has_it_once(service: Service) -> None:
    proxy = service.container()
    for id in ("a", "y"):
        proxy.create_item({"id": id, "pk": "p"})
    proxy.replace_item("a", {"id": "b", "pk": "p"})
    found = list(proxy.query_items_change_feed(start_time="Beginning"))
    assert [item["id"] for item in found] == ["y", "b"]


@everywhere
def test_renames_in_a_batch(service: Service) -> None:
    proxy = service.container(unique_key_policy={"uniqueKeys": [{"paths": ["/mail"]}]})
    first = proxy.create_item({"id": "a", "pk": "p", "mail": "x"})
    steps: list[Any] = [
        ("replace", ("a", {"id": "b", "pk": "p", "mail": "x"})), ("create", ({"id": "a", "pk": "p", "mail": "y"},)),
        ("replace", ("b", {"id": "c", "pk": "p", "mail": "x"})), ("replace", ("a", {"id": "b", "pk": "p", "mail": "z"})),
        ("read", ("c",)), ("delete", ("b",)), ("upsert", ({"id": "b", "pk": "p", "mail": "z"},)),
    ]  # fmt: skip
    results = proxy.execute_item_batch(steps, "p")
    assert [result["statusCode"] for result in results] == [200, 201, 200, 200, 200, 204, 201]
    assert results[4]["resourceBody"]["_rid"] == first["_rid"]
    assert {item["id"]: item["mail"] for item in proxy.read_all_items()} == {"b": "z", "c": "x"}
    with pytest.raises(CosmosBatchOperationError) as refused:
        proxy.execute_item_batch(
            [("replace", ("b", {"id": "d", "pk": "p"})), ("replace", ("c", {"id": "d", "pk": "p"}))], "p"
        )
    assert (refused.value.status_code, refused.value.error_index) == (409, 1)
    assert ids(proxy.read_all_items()) == ["b", "c"]


@everywhere
def test_renames_in_bulk(service: Service) -> None:
    proxy = service.container()
    proxy.create_item({"id": "a", "pk": "p"})
    renaming = {
        "operationType": "Replace", "id": "a", "partitionKey": json.dumps(["p"]), "resourceBody": {"id": "b", "pk": "p"},
    }  # fmt: skip
    answer = service.raw("POST", path_of(proxy, "docs"), [renaming], BULK)
    assert [result["statusCode"] for result in answer.json] == [200]
    assert ids(proxy.read_all_items()) == ["b"]


# --- by rid, while its name changes hands ----------------------------------------------------------------------------

TRIGGER = {"x-ms-documentdb-pre-trigger-include": "nothing"}
BY_RID: list[tuple[str, Any, dict[str, str]]] = [
    ("GET", None, {}), ("DELETE", None, {}), ("PUT", {"id": "a", "pk": "p", "n": 5}, {}),
    ("PATCH", [{"op": "set", "path": "/n", "value": 5}], {}),
    ("DELETE", None, TRIGGER), ("PUT", {"id": "a", "pk": "p", "n": 5}, TRIGGER),
]  # fmt: skip


class Overtaken:
    """An item `a`, and somebody who renames it to `b` and makes another `a` when it suits least."""

    def __init__(self, service: Service) -> None:
        self.engine = service.server._admin.engine
        self.service = service
        self.proxy = service.container()
        self.proxy.scripts.create_trigger({
            "id": "nothing", "triggerType": "Pre", "triggerOperation": "All", "body": "function () {}",
        })  # fmt: skip
        self.item = self.proxy.create_item({"id": "a", "pk": "p"})
        self.times = 0

    async def happen(self, container: int, partition: bytes) -> None:
        self.times += 1
        if self.times == 1:
            now = await self.engine.now()
            renamed = Draft(b'{"id":"b","pk":"p"}')
            await self.engine.write(container, Command(Mode.REPLACE, partition, b"a", renamed, None, b"b"), now)
            await self.engine.write(
                container, Command(Mode.CREATE, partition, b"a", Draft(b'{"id":"a","pk":"p"}')), now
            )

    def ask(self, method: str, body: Any, **headers: str) -> Answer:
        return self.service.raw(method, "/" + self.item["_self"].rstrip("/"), body, headers, pk="p")

    @property
    def left(self) -> dict[str, tuple[bool, int | None]]:
        """Ids, whether it is the item of the beginning, and `n`."""
        return {each["id"]: (each["_rid"] == self.item["_rid"], each.get("n")) for each in self.proxy.read_all_items()}


@pytest.mark.parametrize(("method", "body", "headers"), BY_RID)
def test_an_item_that_takes_the_name_is_not_written_by_rid(
    service: Service, monkeypatch: pytest.MonkeyPatch, method: str, body: Any, headers: dict[str, str]
) -> None:
    overtaken = Overtaken(service)

    async def slow(reads: Any, container: int, partition: bytes, seq: int) -> Any:
        found = await record_at(reads, container, partition, seq)
        if headers:
            service.server._home.call(overtaken.happen(container, partition))  # Scripts have threads of their own.
        else:
            await overtaken.happen(container, partition)
        return found

    monkeypatch.setattr(transaction if headers else items, "record_at", slow)
    assert overtaken.ask(method, body, **headers).status == 404
    assert overtaken.left == {"b": (True, None), "a": (False, None)}


TRIGGERED = [
    ("DELETE", None, 204, {"a": (False, None)}),
    ("PUT", {"id": "c", "pk": "p", "n": 5}, 200, {"c": (True, 5), "a": (False, None)}),
    ("PUT", {"id": "a", "pk": "p", "n": 5}, 409, {"b": (True, None), "a": (False, None)}),
]


@everywhere
@pytest.mark.parametrize(("method", "body", "status", "left"), TRIGGERED)
def test_a_transaction_that_is_overtaken_follows_it(
    service: Service, monkeypatch: pytest.MonkeyPatch, method: str, body: Any, status: int, left: Any
) -> None:
    overtaken = Overtaken(service)
    commit = attempts._commit

    async def slow(call: Any, made: Any) -> Any:
        await overtaken.happen(made.view.id, made.partition)
        return await commit(call, made)

    monkeypatch.setattr(attempts, "_commit", slow)
    answer = overtaken.ask(method, body, **TRIGGER)
    assert (answer.status, overtaken.left) == (status, left)
