"""Stored procedures, triggers and user-defined functions as resources: made, listed, changed and dropped, on every store."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from azure.cosmos import ContainerProxy, PartitionKey
from azure.cosmos.exceptions import CosmosHttpResponseError

from frontends.cosmos.service import START, Service, T, everywhere, ids, in_memory, path_of, status_of
from mayflydb.embedded import serve
from mayflydb.engine.catalog import catalogue
from mayflydb.store.interface import CatalogRow

TEXT = "function () { return 1; }"
TRIGGER = {"triggerType": "Pre", "triggerOperation": "All"}
KINDS = [
    ("sprocs", "stored_procedure", {}, "StoredProcedures"),
    ("triggers", "trigger", TRIGGER, "Triggers"),
    ("udfs", "user_defined_function", {}, "UserDefinedFunctions"),
]
kinds = pytest.mark.parametrize(("word", "name", "more", "feed"), KINDS)


def stored(service: Service) -> list[CatalogRow]:
    server = service.server
    return server._home.call(catalogue(server._admin.engine.store))


@everywhere
@kinds
def test_create_read_replace_delete(service: Service, word: str, name: str, more: dict[str, str], feed: str) -> None:
    proxy = service.container()
    scripts: Any = proxy.scripts

    def call(verb: str, *args: Any, **options: Any) -> Any:
        found = getattr(scripts, f"{verb}_{name}{'s' if verb in ('list', 'query') else ''}")(*args, **options)
        return list(found) if verb in ("list", "query") else found

    assert call("list") == []
    made = call("create", {"id": "one", "body": TEXT} | more)
    assert {key: made[key] for key in ("id", "body", *more)} == {"id": "one", "body": TEXT} | more
    container = proxy.read()
    assert made["_self"] == f"{container['_self']}{word}/{made['_rid']}/" and len(made["_rid"]) == 24
    assert made["_ts"] == T and made["_etag"].startswith('"')
    with pytest.raises(CosmosHttpResponseError) as taken:
        call("create", {"id": "one", "body": TEXT} | more)
    assert taken.value.status_code == 409
    assert call("get", "one") == made == call("get", made)
    call("create", {"id": "two", "body": TEXT} | more)
    assert ids(call("list")) == ["one", "two"]
    assert ids(call("query", query="SELECT * FROM c WHERE c.id = 'two'")) == ["two"]
    service.at(10)
    changed = call("replace", "one", {"id": "uno", "body": "() => 2"} | more)
    assert (changed["id"], changed["body"], changed["_rid"]) == ("uno", "() => 2", made["_rid"])
    assert changed["_ts"] == T + 10 and changed["_etag"] != made["_etag"]
    assert status_of(call, "get", "one") == 404
    assert status_of(call, "replace", "uno", {"id": "two", "body": TEXT} | more) == 409
    call("delete", "uno")
    assert status_of(call, "delete", "uno") == 404
    assert ids(call("list")) == ["two"]
    answer = service.raw("GET", path_of(proxy, word))
    assert (answer.json["_count"], ids(answer.json[feed])) == (1, ["two"])


@kinds
def test_preconditions_and_upsert(service: Service, word: str, name: str, more: dict[str, str], feed: str) -> None:
    proxy = service.container()
    upsert = {"x-ms-documentdb-is-upsert": "true"}
    body = {"id": "one", "body": TEXT} | more
    made = service.raw("POST", path_of(proxy, word), body, upsert)
    again = service.raw("POST", path_of(proxy, word), body, upsert)
    assert (made.status, again.status) == (201, 200)
    stale = {"if-match": made.json["_etag"]}
    path = path_of(proxy, word, "one")
    assert [service.raw(method, path, body, stale).status for method in ("PUT", "DELETE")] == [412, 412]
    assert service.raw("DELETE", path, None, {"if-match": again.json["_etag"]}).status == 204


@everywhere
def test_one_id_may_be_that_of_one_of_each_kind(service: Service) -> None:
    proxy = service.container()
    for word, _, more, _ in KINDS:
        assert service.raw("POST", path_of(proxy, word), {"id": "x", "body": TEXT} | more).status == 201
    assert service.raw("DELETE", path_of(proxy, "triggers", "x")).status == 204
    assert [service.raw("GET", path_of(proxy, word, "x")).status for word, *_ in KINDS] == [200, 404, 200]


REFUSED = [
    ("sprocs", {"body": TEXT}, 400, "'id'"),
    ("sprocs", {"id": "a/b", "body": TEXT}, 400, "characters"),
    ("sprocs", {"id": "a"}, 400, "'body'"),
    ("sprocs", {"id": "a", "body": 5}, 400, "'body'"),
    ("sprocs", {"id": "a", "body": TEXT, "colour": 1}, 400, "'colour'"),
    ("sprocs", {"id": "a", "body": TEXT} | TRIGGER, 400, "'triggerType'"),
    ("sprocs", {"id": "a", "body": "function () { }" + " " * 300_000}, 413, "longer than"),
    ("triggers", {"id": "a", "body": TEXT}, 400, "'triggerType'"),
    ("triggers", {"id": "a", "body": TEXT, "triggerType": "Between", "triggerOperation": "All"}, 400, "Pre, Post"),
    ("triggers", {"id": "a", "body": TEXT, "triggerType": "Pre", "triggerOperation": 9}, 400, "'triggerOperation'"),
]


@in_memory
@pytest.mark.parametrize(("word", "body", "status", "text"), REFUSED)
def test_refused_definitions(service: Service, word: str, body: dict[str, Any], status: int, text: str) -> None:
    proxy = service.container()
    answer = service.raw("POST", path_of(proxy, word), body)
    assert answer.status == status and text in answer.json["message"]
    assert service.raw("GET", path_of(proxy, word)).json["_count"] == 0


@in_memory
@pytest.mark.parametrize(("kind", "on"), [("pre", "all"), ("Post", "Create"), ("Pre", "Update"), (0, 4), (1, 3)])
def test_types_of_triggers_are_shown_as_they_were_sent(service: Service, kind: Any, on: Any) -> None:
    proxy = service.container()
    body = {"id": "t", "body": TEXT, "triggerType": kind, "triggerOperation": on}
    assert service.raw("POST", path_of(proxy, "triggers"), body).json.items() >= body.items()


@in_memory
def test_missing_scripts(service: Service) -> None:
    proxy = service.container()
    missing = service.raw("GET", path_of(proxy, "sprocs", "x"))
    assert missing.status == 404
    for path in ("/dbs/none/colls/c/sprocs", path_of(proxy)[:-1] + "none/udfs"):
        assert service.raw("GET", path).substatus == 1003


@everywhere
def test_scripts_are_dropped_with_their_container_and_database(service: Service) -> None:
    database = service.client.create_database("shop")

    def fill(name: str) -> ContainerProxy:
        proxy: ContainerProxy = database.create_container(name, PartitionKey("/pk"))
        for word, _, more, _ in KINDS:
            assert service.raw("POST", path_of(proxy, word), {"id": "x", "body": TEXT} | more).status == 201
        return proxy

    fill("a")
    before = len(stored(service))
    fill("b")
    assert len(stored(service)) == before + 5  # The container, what its scripts hang on, the scripts.
    database.delete_container("b")
    assert len(stored(service)) == before
    fill("b")
    service.server.reset("cosmos:shop/b")
    assert len(stored(service)) == before
    fill("b")
    assert service.raw("GET", "/dbs/shop/colls/b/sprocs").json["_count"] == 1
    service.client.delete_database("shop")
    assert not [row.name for row in stored(service) if row.name.endswith("/x")]


@everywhere
def test_a_copy_has_them_too(service: Service) -> None:
    proxy = service.container()
    proxy.scripts.create_stored_procedure({"id": "p", "body": TEXT})
    copied = service.copied()
    assert copied == stored(service)
    (row,) = (row for row in copied if row.name == "sprocs/p")
    assert msgspec.json.decode(row.data)["body"]["body"] == TEXT


def test_scripts_survive_a_restart(tmp_path: Any) -> None:
    place: dict[str, Any] = {"path": tmp_path / "mayfly.db", "port": 0, "clock": "virtual", "clock_start": START}
    with serve(**place) as server:
        service = Service(server, "file")
        proxy = service.container()
        proxy.scripts.create_stored_procedure({"id": "p", "body": "(n) => __.response.setBody(n + 1)"})
        path = path_of(proxy, "sprocs", "p")
        service.close()
    with serve(**place) as server:
        service = Service(server, "file")
        assert service.raw("POST", path, [1], pk="k").json == 2
        service.close()
