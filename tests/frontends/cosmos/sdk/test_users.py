"""Users and permissions, and what a resource token opens: by the vendor's client, and as plain HTTP."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias
from urllib.parse import quote

import msgspec
import pytest
from azure.cosmos import ContainerProxy, CosmosClient, DatabaseProxy, PartitionKey
from azure.cosmos.aio import CosmosClient as AsyncCosmosClient
from azure.cosmos.exceptions import CosmosHttpResponseError
from azure.cosmos.user import UserProxy

from frontends.cosmos.service import KEY as ACCOUNT_KEY
from frontends.cosmos.service import Answer, Service, T, everywhere, ids, in_memory, path_of, rows, status_of
from mayflydb.engine.catalog import Definition, catalogue, node_of
from mayflydb.frontends.cosmos.auth import Keys
from mayflydb.frontends.cosmos.calls import USERS
from mayflydb.store.interface import CatalogRow

KEY = PartitionKey("/pk")
Headers: TypeAlias = dict[str, str | bytes | None]
QUERY: Headers = {"content-type": "application/query+json", "x-ms-documentdb-isquery": "True"}
UPSERT: Headers = {"x-ms-documentdb-is-upsert": "True"}
EXPIRY = "x-ms-documentdb-expiry-seconds"
OTHER = "b3RoZXIga2V5IG90aGVyIGtleSBvdGhlciBrZXkgb3RoZXIga2V5IG90aGVyIGtleSBvdGhlciBrZXkgb3RoZXI="
TOKEN = re.compile(r"type=resource&ver=1&sig=[A-Za-z0-9+/=]+;[A-Za-z0-9+/=]+;")


@pytest.fixture
def database(service: Service) -> DatabaseProxy:
    return service.client.create_database("shop")


@pytest.fixture
def user(database: DatabaseProxy) -> UserProxy:
    return database.create_user({"id": "ann"})


def grant(user: UserProxy, resource: str, mode: str = "Read", key: Any = None, **options: Any) -> str:
    """A token of a new permission."""
    body = {"id": quote(f"{mode} {resource} {key}", safe=""), "permissionMode": mode, "resource": resource}
    body |= {} if key is None else {"resourcePartitionKey": key}
    token = user.upsert_permission(body, **options).properties["_token"]
    assert isinstance(token, str)
    return token


def bearer(token: str) -> Headers:
    return {"authorization": quote(token, safe="-_.!~*'()")}


def raw_bytes(rid: str) -> bytes:
    return base64.b64decode(rid.replace("-", "/"))


# --- users -----------------------------------------------------------------------------------------------------------


@everywhere
def test_user(service: Service, database: DatabaseProxy) -> None:
    service.at(7.5)
    created = database.create_user({"id": "ann"}).read()
    rid, owner = created["_rid"], database.read()["_rid"]
    assert len(raw_bytes(rid)) == 8
    assert raw_bytes(rid)[:4] == raw_bytes(owner)
    assert not raw_bytes(rid)[4] & 0x80
    assert created == {
        "id": "ann", "_rid": rid, "_self": f"dbs/{owner}/users/{rid}/", "_etag": created["_etag"],
        "_permissions": "permissions/", "_ts": T + 7,
    }  # fmt: skip
    assert status_of(database.create_user, {"id": "ann"}) == 409
    assert status_of(database.get_user_client("Ann").read) == 404
    for link in (f"/dbs/shop/users/{rid}", f"/{created['_self']}"):
        assert service.raw("GET", link).json == created
    answer = service.raw("GET", "/dbs/shop/users/ann")
    assert answer.headers["etag"] == created["_etag"]
    database.delete_user("ann")
    assert status_of(database.get_user_client("ann").read) == 404
    assert status_of(database.delete_user, "ann") == 404
    assert database.create_user({"id": "ann"}).read()["_rid"] != rid


@everywhere
def test_users_are_listed_and_queried_page_by_page(database: DatabaseProxy) -> None:
    assert list(database.list_users()) == []
    for n in range(7):
        database.create_user({"id": f"u{n}"})
    pages = [[row["id"] for row in page] for page in database.list_users(max_item_count=3).by_page()]
    assert pages == [["u0", "u1", "u2"], ["u3", "u4", "u5"], ["u6"]]
    found = database.query_users("SELECT * FROM r WHERE r.id = @id", parameters=[{"name": "@id", "value": "u4"}])
    assert ids(found) == ["u4"]
    assert rows(database.query_users("SELECT VALUE r.id FROM r WHERE r.id > 'u4' ORDER BY r.id DESC")) == ["u6", "u5"]


@everywhere
def test_a_user_may_be_renamed_and_upserted(service: Service, database: DatabaseProxy) -> None:
    user = database.create_user({"id": "ann"})
    user.create_permission({"id": "p", "permissionMode": "Read", "resource": "dbs/shop/colls/c"})
    before = user.read()
    renamed = database.replace_user("ann", {**before, "id": "beth"})
    assert status_of(user.read) == 404
    after = renamed.read()
    assert (after["id"], after["_rid"]) == ("beth", before["_rid"])
    assert after["_etag"] != before["_etag"]
    assert ids(renamed.list_permissions()) == ["p"]
    database.create_user({"id": "ann"})
    assert status_of(database.replace_user, "beth", {"id": "ann"}) == 409
    assert status_of(database.replace_user, "none", {"id": "x"}) == 404
    for name, status in (("ann", 200), ("carl", 201)):
        assert service.raw("POST", "/dbs/shop/users", {"id": name}, UPSERT).status == status
    assert ids(database.list_users()) == ["ann", "beth", "carl"]


@everywhere
def test_a_stale_etag_of_a_user(service: Service, database: DatabaseProxy) -> None:
    stale = database.create_user({"id": "ann"}).read()["_etag"]
    fresh = database.replace_user("ann", {"id": "ann"}).read()["_etag"]
    for method, path, headers in (
        ("PUT", "/dbs/shop/users/ann", {}), ("POST", "/dbs/shop/users", UPSERT), ("DELETE", "/dbs/shop/users/ann", {}),
    ):  # fmt: skip
        refused = service.raw(method, path, {"id": "ann"}, {"if-match": stale, **headers})
        assert (refused.status, refused.json["code"]) == (412, "PreconditionFailed")
    assert service.raw("DELETE", "/dbs/shop/users/ann", None, {"if-match": fresh}).status == 204


@everywhere
def test_a_user_and_a_container_of_one_name(service: Service, database: DatabaseProxy) -> None:
    """Users are no containers: neither meets the other, wherever containers are listed."""
    database.create_container("same", KEY)
    database.create_user({"id": "same"}).create_permission(
        {"id": "same", "permissionMode": "All", "resource": "dbs/shop/colls/same"}
    )
    assert ids(database.list_containers()) == ["same"]
    assert ids(database.list_users()) == ["same"]
    assert len(service.raw("GET", "/offers").json["Offers"]) == 1
    assert ids(service.client.list_databases()) == ["shop"]
    rid = database.get_user_client("same").read()["_rid"]
    number = base64.b64encode(raw_bytes(rid)[4:]).decode().replace("/", "-")
    assert service.raw("GET", f"/dbs/{number}").status == 404  # A database by that number is none.
    database.delete_container("same")
    assert ids(database.list_users()) == ["same"]


@in_memory
@pytest.mark.parametrize("body", [
    {}, {"id": None}, {"id": 5}, {"id": ""}, {"id": "x" * 256}, {"id": "a/b"}, {"id": "a?b"}, {"id": "a", "name": "x"},
    [], "x",
])  # fmt: skip
def test_users_that_are_refused(service: Service, database: DatabaseProxy, body: Any) -> None:
    database.create_user({"id": "ann"})
    for method, path in (("POST", "/dbs/shop/users"), ("PUT", "/dbs/shop/users/ann")):
        answer = service.raw(method, path, body)
        assert (answer.status, answer.json["code"]) == (400, "BadRequest")
    assert ids(database.list_users()) == ["ann"]


@pytest.mark.parametrize(("path", "substatus"), [
    ("/dbs/none/users", 1003), ("/dbs/none/users/u", 1003), ("/dbs/shop/users/none", 0),
    ("/dbs/none/users/u/permissions", 1003), ("/dbs/shop/users/none/permissions", 1003),
    ("/dbs/shop/users/none/permissions/p", 1003), ("/dbs/shop/users/ann/permissions/none", 0),
])  # fmt: skip
def test_missing_users_and_permissions(service: Service, user: UserProxy, path: str, substatus: int) -> None:
    answer = service.raw("GET", path)
    assert (answer.status, answer.substatus, answer.json["code"]) == (404, substatus, "NotFound")
    if path.endswith(("users", "permissions")):
        body = {"id": "x"} | ({} if path.endswith("users") else {"permissionMode": "Read", "resource": "dbs/d/colls/c"})
        for headers in ({}, UPSERT):
            answer = service.raw("POST", path, body, headers)
            assert (answer.status, answer.substatus) == (404, substatus)


@everywhere
def test_many_create_the_first_user(service: Service, database: DatabaseProxy) -> None:
    """At once: there is one place for all of them, and one of those of the same name."""
    server = service.server

    async def work() -> tuple[set[int], list[Any]]:
        engine = server._admin.engine
        now = await engine.now()
        owner = await engine.node("cosmos", "shop")
        assert owner is not None
        homes = await asyncio.gather(*(engine.companions.home(USERS, owner.id, now) for _ in range(5)))
        works = [engine.companions.create(homes[0].id, f"u{n % 2}", lambda _: Definition({}, now)) for n in range(6)]
        return {home.id for home in homes}, await asyncio.gather(*works, return_exceptions=True)

    homes, made = server._home.call(work())
    assert len(homes) == 1
    assert sorted(type(each).__name__ for each in made) == ["Conflict"] * 4 + ["Node"] * 2
    assert ids(database.list_users()) == ["u0", "u1"]


def stored(service: Service) -> list[CatalogRow]:
    server = service.server
    return server._home.call(catalogue(server._admin.engine.store))


@everywhere
def test_dropping_a_database_drops_its_users(service: Service, user: UserProxy) -> None:
    grant(user, "dbs/shop/colls/c")
    other = service.client.create_database("other")
    other.create_user({"id": "ann"})
    before = len(stored(service))
    service.client.delete_database("shop")
    # The database, what its users hang on, the user, the permission.
    assert len(stored(service)) == before - 4
    assert ids(service.client.create_database("shop").list_users()) == []
    assert ids(other.list_users()) == ["ann"]


@everywhere
def test_dropping_a_user_drops_its_permissions(service: Service, database: DatabaseProxy, user: UserProxy) -> None:
    before = len(stored(service))
    grant(user, "dbs/shop/colls/c")
    grant(user, "dbs/shop/colls/d")
    database.delete_user("ann")
    assert len(stored(service)) == before - 1
    assert list(database.create_user({"id": "ann"}).list_permissions()) == []


@everywhere
def test_a_copy_has_them_too(service: Service, user: UserProxy) -> None:
    user.create_permission({"id": "p", "permissionMode": "Read", "resource": "dbs/shop/colls/c"})
    copied = service.copied()
    assert copied == stored(service)
    assert {"shop", "ann", "p"} <= {row.name for row in copied}
    (permission,) = (node_of(row) for row in copied if row.name == "p")
    assert permission.body == {"permissionMode": "Read", "resource": "dbs/shop/colls/c"}


# --- permissions -----------------------------------------------------------------------------------------------------


@everywhere
def test_permission(service: Service, user: UserProxy) -> None:
    service.at(9)
    body = {"id": "p", "permissionMode": "Read", "resource": "dbs/shop/colls/c", "resourcePartitionKey": ["v", 1]}
    created = user.create_permission(body).properties
    link, rid = user.read()["_self"], created["_rid"]
    assert len(raw_bytes(rid)) == 16
    assert raw_bytes(rid)[:8] == raw_bytes(user.read()["_rid"])
    assert created == body | {
        "_rid": rid, "_self": f"{link}permissions/{rid}/", "_etag": created["_etag"], "_token": created["_token"],
        "_ts": T + 9,
    }  # fmt: skip
    assert TOKEN.fullmatch(created["_token"])
    assert status_of(user.create_permission, body) == 409
    assert status_of(user.create_permission, {**body, "id": "another name for the same"}) == 409
    for path in ("/dbs/shop/users/ann/permissions/p", f"/dbs/shop/users/ann/permissions/{rid}", f"/{created['_self']}"):
        answer = service.raw("GET", path)
        assert answer.json | {"_token": ""} == {**created, "_token": ""}
        assert answer.headers["etag"] == created["_etag"]
    user.delete_permission("p")
    assert status_of(user.get_permission, "p") == status_of(user.delete_permission, "p") == 404
    assert list(user.list_permissions()) == []


def test_every_answer_has_a_token_of_its_own(user: UserProxy) -> None:
    tokens = {grant(user, "dbs/shop/colls/c"), grant(user, "dbs/shop/colls/c")}
    (name,) = ids(user.list_permissions())
    for _ in range(2):
        tokens.add(user.get_permission(name).properties["_token"])
        tokens |= {row["_token"] for row in user.list_permissions()}
        tokens |= {row["_token"] for row in user.query_permissions("SELECT * FROM r")}
    assert len(tokens) == 8


@everywhere
def test_permissions_are_replaced_and_upserted(service: Service, user: UserProxy) -> None:
    path = "/dbs/shop/users/ann/permissions"
    first = {"id": "p", "permissionMode": "Read", "resource": "dbs/shop/colls/c"}
    created = service.raw("POST", path, first, UPSERT)
    assert created.status == 201
    again = service.raw("POST", path, {**first, "permissionMode": "All"}, UPSERT)
    assert (again.status, again.json["permissionMode"], again.json["_rid"]) == (200, "All", created.json["_rid"])
    assert again.json["_etag"] != created.json["_etag"]
    renamed = user.replace_permission("p", {**again.json, "id": "q", "resource": "dbs/shop/colls/d"})
    assert (renamed.id, renamed.resource_link) == ("q", "dbs/shop/colls/d")
    assert renamed.properties["_rid"] == created.json["_rid"]
    assert status_of(user.get_permission, "p") == 404
    user.create_permission(first)
    for clash in ({"id": "p"}, {"resource": "dbs/shop/colls/c"}):
        assert status_of(user.replace_permission, "q", {**renamed.properties, **clash}) == 409
    assert status_of(user.upsert_permission, {**first, "id": "r"}) == 409
    assert service.raw("POST", path, {**first, "id": "r", "resourcePartitionKey": ["v"]}, UPSERT).status == 201
    assert ids(user.list_permissions()) == ["p", "q", "r"]
    stale = service.raw("PUT", f"{path}/q", {**first, "id": "q"}, {"if-match": created.json["_etag"]})
    assert (stale.status, stale.json["code"]) == (412, "PreconditionFailed")
    found = user.query_permissions("SELECT VALUE r.resource FROM r WHERE r.id = @id", [{"name": "@id", "value": "q"}])
    assert rows(found) == ["dbs/shop/colls/d"]


GOOD: dict[str, Any] = {"id": "p", "permissionMode": "Read", "resource": "dbs/shop/colls/c"}


@in_memory
@pytest.mark.parametrize(("change", "named"), [
    ({"id": None}, "id"), ({"id": "a/b"}, "id"), ({"id": "x" * 256}, "id"),
    ({"permissionMode": ...}, "permissionMode"), ({"permissionMode": "Write"}, "permissionMode"),
    ({"permissionMode": 1}, "permissionMode"), ({"resource": ...}, "resource"), ({"resource": 5}, "resource"),
    ({"resource": ""}, "resource"), ({"resource": "/"}, "resource"), ({"resource": "dbs"}, "resource"),
    ({"resource": "dbs/shop/colls"}, "resource"), ({"resource": "dbs/shop/users/ann"}, "resource"),
    ({"resource": "dbs/shop/users/ann/permissions/p"}, "resource"), ({"resource": "offers/abcd"}, "resource"),
    ({"resource": "shop/c"}, "shop/c"), ({"resource": "dbs/shop/colls/c/docs"}, "resource"),
    ({"resource": "dbs/shop/colls/c/operations/partitionkeydelete"}, "resource"),
    ({"resource": "dbs/shop/colls/c/sprocs/s"}, "sprocs are not supported by Mayfly"),
    ({"resourcePartitionKey": []}, "resourcePartitionKey"), ({"resourcePartitionKey": "v"}, "resourcePartitionKey"),
    ({"resourcePartitionKey": [[1]]}, "resourcePartitionKey"),
    ({"resourcePartitionKey": [1, 2, 3, 4]}, "resourcePartitionKey"),
    ({"resource": "dbs/shop", "resourcePartitionKey": [1]}, "resourcePartitionKey"), ({"unknown": 1}, "unknown"),
])  # fmt: skip
def test_permissions_that_are_refused(service: Service, user: UserProxy, change: dict[str, Any], named: str) -> None:
    body = {name: value for name, value in (GOOD | change).items() if value is not ...}
    path = "/dbs/shop/users/ann/permissions"
    user.create_permission(GOOD | {"id": "before"})
    for method, end, headers in (("POST", "", {}), ("POST", "", UPSERT), ("PUT", "/before", {})):
        answer = service.raw(method, path + end, body, headers)
        assert (answer.status, answer.json["code"]) == (400, "BadRequest")
        assert named in answer.json["message"]
    assert ids(user.list_permissions()) == ["before"]


@in_memory
@pytest.mark.parametrize("mode", ["Read", "All", "read", "all"])
def test_modes_as_clients_write_them(user: UserProxy, mode: str) -> None:
    assert user.create_permission(GOOD | {"permissionMode": mode}).permission_mode == mode


# --- the life of a token ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("asked", "lives"), [(None, 3600), (600, 600), (86400, 86400)])
def test_a_token_dies_at_its_second(service: Service, asked: int | None, lives: int) -> None:
    container = service.container()
    name = container.container_link.split("/")[1]
    user = service.client.get_database_client(name).create_user({"id": "ann"})
    container.create_item({"id": "1", "pk": "p"})
    service.at(10.25)
    headers: Headers = {} if asked is None else {EXPIRY: str(asked)}
    body = GOOD | {"resource": container.container_link}
    token = service.raw("POST", f"/{user.user_link}/permissions", body, headers).json["_token"]
    paths = ("/", path_of(container), path_of(container, "docs", "1"))

    def statuses() -> set[int]:
        return {service.raw("GET", path, None, bearer(token), pk="p").status for path in paths}

    service.at(10 + lives - 0.001)
    assert statuses() == {200}
    service.at(10 + lives)
    assert statuses() == {403}
    answer = service.raw("GET", paths[-1], None, bearer(token), pk="p")
    assert (answer.json["code"], answer.substatus) == ("Forbidden", 0)
    assert answer.json["message"].startswith("The authorization token is not valid at the current time.")
    token = user.get_permission("p").properties["_token"]
    assert statuses() == {200}


@in_memory
@pytest.mark.parametrize("seconds", ["599", "86401", "0", "-1", "1e3", "x", "999999999999999999999"])
def test_lives_that_are_refused(service: Service, user: UserProxy, seconds: str) -> None:
    path = "/dbs/shop/users/ann/permissions"
    user.create_permission(GOOD)
    for method, end, body, headers in (
        ("GET", "/p", None, {}), ("GET", "", None, {}), ("POST", "", GOOD | {"id": "q"}, {}), ("PUT", "/p", GOOD, {}),
        ("POST", "", {"query": "SELECT * FROM r"}, QUERY),
    ):  # fmt: skip
        answer = service.raw(method, path + end, body, {EXPIRY: seconds, **headers})
        assert answer.status == 400
        assert EXPIRY in answer.json["message"]
    assert ids(user.list_permissions()) == ["p"]


# --- what a token opens ----------------------------------------------------------------------------------------------


class Place:
    """A container with two items, another one, and a user."""

    def __init__(self, service: Service, database: DatabaseProxy) -> None:
        self.service = service
        self.database = database
        self.container = database.create_container("c", KEY)
        self.other = database.create_container("other", KEY)
        for proxy in (self.container, self.other):
            for key in ("p", "q"):
                proxy.create_item({"id": "1", "pk": key})
        self.user = database.create_user({"id": "ann"})

    def asks(self, token: str, method: str, path: str, body: Any = None, pk: Any = "p", **headers: Any) -> Answer:
        given = bearer(token) | {name.replace("_", "-"): value for name, value in headers.items()}
        return self.service.raw(method, path, body, given, **({} if pk is None else {"pk": pk}))


@pytest.fixture
def place(service: Service, database: DatabaseProxy) -> Place:
    return Place(service, database)


C = "/dbs/shop/colls/c"
SELECT = {"query": "SELECT * FROM c"}
IS_QUERY = {"content_type": "application/query+json"}
BATCH = {"x_ms_cosmos_is_batch_request": "True", "x_ms_cosmos_batch_atomic": "True"}
BULK = {"x_ms_cosmos_is_batch_request": "True", "x_ms_cosmos_batch_atomic": "False"}
POLICY = {"id": "c", "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2}}
PATCH = {"operations": [{"op": "set", "path": "/n", "value": 1}]}
ITEM_IN_P = {"id": "1", "pk": "p"}
OF_P = [{"operationType": "Upsert", "partitionKey": '["p"]', "resourceBody": ITEM_IN_P}]

Ask: TypeAlias = tuple[str, str, Any, dict[str, Any]]
META: list[Ask] = [("GET", "/", None, {}), ("GET", C, None, {}), ("GET", f"{C}/pkranges", None, {})]
READ_ITEM: list[Ask] = [("GET", f"{C}/docs/1", None, {})]
READ_KEY: list[Ask] = [
    ("GET", f"{C}/docs", None, {}), ("POST", f"{C}/docs", SELECT, IS_QUERY),
    ("GET", f"{C}/docs", None, {"a_im": "Incremental Feed"}),
    ("POST", f"{C}/docs", SELECT, {"x_ms_cosmos_is_query_plan_request": "True"}),
]  # fmt: skip
READ_ALL: list[Ask] = [
    ("GET", f"{C}/docs", None, {"pk": None}), ("GET", f"{C}/docs", None, {"pk": []}),
    ("POST", f"{C}/docs", SELECT, {"pk": None, "x_ms_documentdb_query_enablecrosspartition": "True", **IS_QUERY}),
    ("POST", f"{C}/docs", {"query": "SELECT * FROM c WHERE c.pk = 'p'"}, {"pk": None, **IS_QUERY}),
    ("GET", f"{C}/docs", None, {"pk": None, "x_ms_cosmos_is_query_plan_request": "True"}),
    ("GET", f"{C}/docs/1", None, {"pk": "q"}), ("GET", f"{C}/docs", None, {"pk": "q"}), ("GET", f"{C}/sprocs", None, {}),
    ("GET", C, None, {"x_ms_documentdb_populatepartitionstatistics": "True"}),
]  # fmt: skip
WRITE_ITEM: list[Ask] = [
    ("PUT", f"{C}/docs/1", ITEM_IN_P, {}), ("PATCH", f"{C}/docs/1", PATCH, {}), ("DELETE", f"{C}/docs/1", None, {}),
]  # fmt: skip
WRITE_KEY: list[Ask] = [
    ("POST", f"{C}/docs", {"id": "2", "pk": "p"}, {}),
    ("POST", f"{C}/docs", ITEM_IN_P, {"x_ms_documentdb_is_upsert": "True"}),
    ("POST", f"{C}/docs", [{"operationType": "Upsert", "resourceBody": ITEM_IN_P}], BATCH),
]  # fmt: skip
WRITE_ALL: list[Ask] = [
    ("POST", f"{C}/docs", OF_P, {**BULK, "pk": None}), ("POST", f"{C}/docs", OF_P, BULK), ("PUT", C, POLICY, {}),
    ("PUT", f"{C}/docs/1", {"id": "1", "pk": "q"}, {"pk": "q"}), ("DELETE", C, None, {}),
]  # fmt: skip
IN_DATABASE: list[Ask] = [
    ("GET", "/dbs/shop", None, {}), ("GET", "/dbs/shop/colls", None, {}), ("GET", "/dbs/shop/colls/other", None, {}),
    ("POST", "/dbs/shop/colls", SELECT, IS_QUERY), ("GET", "/dbs/shop/colls/other/docs/1", None, {}),
]  # fmt: skip
BEYOND: list[Ask] = [
    ("GET", "/dbs", None, {}), ("POST", "/dbs", {"id": "x"}, {}), ("GET", "/offers", None, {}),
    ("POST", "/offers", SELECT, IS_QUERY), ("GET", "/dbs/shop/users", None, {}), ("GET", "/dbs/shop/users/ann", None, {}),
    ("POST", "/dbs/shop/users", {"id": "x"}, {}), ("GET", "/dbs/shop/users/ann/permissions", None, {}),
    ("POST", "/dbs/shop/users/ann/permissions", GOOD, {}), ("DELETE", "/dbs/shop/users/ann", None, {}),
    ("GET", "/dbs/none", None, {}), ("GET", "/dbs/none/colls/c", None, {}),
]  # fmt: skip
MISSING: list[Ask] = [("GET", "/dbs/shop/colls/none", None, {}), ("GET", "/dbs/shop/colls/none/docs/1", None, {})]
EVERYTHING = (
    META + READ_ITEM + READ_KEY + READ_ALL + WRITE_ITEM + WRITE_KEY + WRITE_ALL + IN_DATABASE + BEYOND + MISSING
)


@pytest.mark.parametrize(("resource", "mode", "key", "opens"), [
    ("dbs/shop/colls/c", "Read", None, META + READ_ITEM + READ_KEY + READ_ALL),
    ("dbs/shop/colls/c", "All", None, META + READ_ITEM + READ_KEY + READ_ALL + WRITE_ITEM + WRITE_KEY + WRITE_ALL),
    ("dbs/shop/colls/c", "Read", ["p"], META + READ_ITEM + READ_KEY),
    ("dbs/shop/colls/c", "All", ["p"], META + READ_ITEM + READ_KEY + WRITE_ITEM + WRITE_KEY),
    ("dbs/shop/colls/c", "All", ["other key"], META + READ_KEY[3:]),
    ("dbs/shop/colls/c/docs/1", "Read", None, META + READ_ITEM + [READ_ALL[5]]),
    ("dbs/shop/colls/c/docs/1", "Read", ["p"], META + READ_ITEM),
    ("dbs/shop/colls/c/docs/1", "All", ["p"], META + READ_ITEM + WRITE_ITEM),
    ("dbs/shop/colls/c/docs/2", "All", None, META),
    ("dbs/shop", "Read", None, META + READ_ITEM + READ_KEY + READ_ALL + IN_DATABASE + MISSING),
    ("dbs/shop/colls/other", "All", None, [META[0], IN_DATABASE[2], IN_DATABASE[4]]),
    ("dbs/shop/colls/not there", "All", None, META[:1]),
])  # fmt: skip
def test_a_token_opens_what_it_names(
    place: Place, resource: str, mode: str, key: list[Any] | None, opens: list[Ask]
) -> None:
    token = grant(place.user, resource, mode, key)
    for method, path, body, headers in EVERYTHING:
        if (method, path, body, headers) not in opens:
            answer = place.asks(token, method, path, body, **headers)
            assert (answer.status, answer.substatus, answer.json["code"]) == (403, 0, "Forbidden"), (
                method,
                path,
                headers,
            )
            assert answer.json["message"].startswith("Insufficient permissions provided in the authorization header")
    for method, path, body, headers in opens:
        answer = place.asks(token, method, path, body, **headers)
        wanted = (404,) if "none" in path else (204,) if method == "DELETE" else (200, 201)
        assert answer.status in wanted, (method, path, answer)
        if method == "DELETE" and path != C:
            place.container.create_item({"id": "1", "pk": "p"})


@pytest.mark.parametrize(
    ("resource", "key", "status"),
    [("dbs/shop/colls/c/docs/1", None, 403), ("dbs/shop/colls/c", ["p"], 200), ("dbs/shop/colls/c", None, 200)],
)
def test_a_token_for_an_item_does_not_rename_it(
    place: Place, resource: str, key: list[Any] | None, status: int
) -> None:
    token = grant(place.user, resource, "All", key)
    assert place.asks(token, "PUT", f"{C}/docs/1", {"id": "2", "pk": "p"}).status == status
    found = place.container.query_items("SELECT c.id FROM c", partition_key="p")
    assert ids(found) == (["1"] if status == 403 else ["2"])
    if status == 403:
        assert place.asks(token, "PUT", f"{C}/docs/1", b"{").status == 400
        assert place.asks(token, "PUT", f"{C}/docs/1", ITEM_IN_P).status == 200


def test_a_key_restricts_what_is_read(place: Place) -> None:
    token = grant(place.user, "dbs/shop/colls/c", "All", ["p"])
    for method, path, body, headers in READ_KEY[:3]:
        found = place.asks(token, method, path, body, **headers).json["Documents"]
        assert [(item["id"], item["pk"]) for item in found] == [("1", "p")]
    wrong = place.asks(token, "POST", f"{C}/docs", {"id": "2", "pk": "q"})
    assert (wrong.status, wrong.substatus) == (400, 1001)  # The header says p, the item q.
    assert ids(place.container.read_all_items()) == ["1", "1"]


@pytest.mark.parametrize(("resource", "mode", "key", "status"), [
    ("dbs/shop/colls/c", "All", None, 200), ("dbs/shop/colls/c", "All", ["p"], 200), ("dbs/shop", "All", None, 200),
    ("dbs/shop/colls/c", "All", ["q"], 403), ("dbs/shop/colls/c", "Read", ["p"], 403),
    ("dbs/shop/colls/c/docs/1", "All", ["p"], 403), ("dbs/shop/colls/c/docs/c", "All", None, 403),
])  # fmt: skip
def test_deleting_a_partition(place: Place, resource: str, mode: str, key: list[Any] | None, status: int) -> None:
    token = grant(place.user, resource, mode, key)
    assert place.asks(token, "POST", f"{C}/operations/partitionkeydelete").status == status
    assert len(list(place.container.read_all_items())) == (1 if status == 200 else 2)


def test_part_of_a_hierarchical_key(place: Place) -> None:
    key: Any = PartitionKey(["/tenant", "/user"], kind="MultiHash")
    proxy = place.database.create_container("tree", key)
    for tenant, name in (("a", "x"), ("a", "y"), ("b", "x")):
        proxy.create_item({"id": "1", "tenant": tenant, "user": name})
    path = path_of(proxy, "docs")
    token = grant(place.user, proxy.container_link, "Read", ["a"])
    for pk, status in ((["a", "x"], 200), (["a", "y"], 200), (["b", "x"], 403)):
        assert place.asks(token, "GET", f"{path}/1", pk=pk).status == status
    for pk, count in ((["a"], 2), (["a", "x"], 1)):
        assert place.asks(token, "GET", path, pk=pk).json["_count"] == count
    narrow = grant(place.user, proxy.container_link, "Read", ["a", "x"])
    assert place.asks(narrow, "GET", path, pk=["a", "x"]).json["_count"] == 1
    for other in (["a"], ["a", "y"], [], None):
        assert place.asks(narrow, "GET", path, pk=other).status == 403


@pytest.mark.parametrize("named", ["rid", "name"])
@pytest.mark.parametrize("asked", ["rid", "name"])
def test_names_and_rids_are_the_same(place: Place, named: str, asked: str) -> None:
    link = place.container.read()["_self"]
    token = grant(place.user, link if named == "rid" else "dbs/shop/colls/c")
    path = f"/{link}docs/1" if asked == "rid" else f"{C}/docs/1"
    assert place.asks(token, "GET", path).status == 200
    assert place.asks(token, "DELETE", path).status == 403


@pytest.mark.parametrize("name", ["with space", "50%", "a%20b", "naïve"])
@pytest.mark.parametrize("encoded", [False, True])
def test_odd_names(place: Place, name: str, encoded: bool) -> None:
    proxy = place.database.create_container(name, KEY)
    path = f"/dbs/shop/colls/{quote(name, safe='')}"
    token = grant(place.user, path if encoded else proxy.container_link)
    assert place.asks(token, "GET", f"{path}/docs").status == 200
    assert place.asks(token, "GET", f"{C}/docs").status == 403


@in_memory
@pytest.mark.parametrize("name", ["%ff", "100%", "%", "%2F", "\x00", "\u2028"])
def test_a_link_to_what_cannot_be(place: Place, name: str) -> None:
    """It opens nothing, but the permission stays readable."""
    token = grant(place.user, f"dbs/shop/colls/{name}")
    assert place.asks(token, "GET", C).status == 403
    (permission,) = place.user.list_permissions()
    assert permission["resource"] == f"dbs/shop/colls/{name}"


@everywhere
def test_a_container_made_anew_is_another_one(place: Place) -> None:
    token = grant(place.user, "dbs/shop/colls/c", "All")
    place.database.delete_container("c")
    for path, substatus in ((C, 0), (f"{C}/docs/1", 1003), (f"{C}/docs", 1003)):
        answer = place.asks(token, "GET", path)
        assert (answer.status, answer.substatus) == (404, substatus)
    place.database.create_container("c", KEY)
    assert place.asks(token, "GET", f"{C}/docs").status == 403
    (permission,) = place.user.list_permissions()
    assert place.asks(permission["_token"], "GET", f"{C}/docs").json["Documents"] == []


def test_a_token_of_another_database(place: Place) -> None:
    other = place.service.client.create_database("twin")
    twin = other.create_container("c", KEY)
    token = grant(other.create_user({"id": "ann"}), "dbs/twin")
    assert place.asks(token, "GET", path_of(twin, "docs")).status == 200
    for path in (C, f"{C}/docs", "/dbs/shop"):
        assert place.asks(token, "GET", path).status == 403


def _deleted(place: Place, rights: dict[str, Any]) -> None:
    place.user.delete_permission("p")


def _deleted_and_made_anew(place: Place, rights: dict[str, Any]) -> None:
    place.user.delete_permission("p")
    place.user.create_permission(rights)


def _user_deleted(place: Place, rights: dict[str, Any]) -> None:
    place.container.client_connection.DeleteUser("dbs/shop/users/ann")


def _changed(**rights: Any) -> Callable[[Place, dict[str, Any]], None]:
    return lambda place, before: _ignore(place.user.replace_permission("p", before | rights))


def _ignore(_: object) -> None:
    """Nothing is asked of the answer."""


@pytest.mark.parametrize(
    ("change", "ends"),
    [
        (_deleted, True),
        (_deleted_and_made_anew, True),
        (_user_deleted, True),
        (_changed(permissionMode="Read"), True),
        (_changed(resource="dbs/shop/colls/other"), True),
        (_changed(resourcePartitionKey=["q"]), True),
        (_changed(), False),
        (_changed(id="renamed"), False),
    ],
)
def test_a_token_ends_with_its_permission(
    place: Place, change: Callable[[Place, dict[str, Any]], None], ends: bool
) -> None:
    rights = {"id": "p", "permissionMode": "All", "resource": "dbs/shop/colls/c"}
    token = place.user.create_permission(rights).properties["_token"]
    assert place.asks(token, "GET", f"{C}/docs").status == 200
    change(place, rights)
    for method, path, body in (("GET", f"{C}/docs", None), ("GET", C, None), ("GET", "/", None)):
        answer = place.asks(token, method, path, body)
        assert answer.status == (403 if ends else 200)
        assert not ends or "permission of this resource token was deleted or changed" in answer.json["message"]


@in_memory
def test_tokens_that_nobody_signed(place: Place) -> None:
    token = grant(place.user, "dbs/shop/colls/c", "Read")
    place_of_mac = token.index("sig=") + 6
    changed = token[:place_of_mac] + ("A" if token[place_of_mac] != "A" else "B") + token[place_of_mac + 1 :]
    for wrong in (changed, token[:-1], token + "x", "type=resource&ver=1&sig=", "type=resource&ver=1&sig=a;b;"):
        answer = place.asks(wrong, "GET", C)
        assert (answer.status, answer.json["code"]) == (401, "Unauthorized")
    assert place.service.raw("GET", C, None, {"authorization": token}).status == 200  # It may come raw.


# --- through the clients ---------------------------------------------------------------------------------------------


@pytest.fixture
def clients() -> Iterator[list[CosmosClient]]:
    made: list[CosmosClient] = []
    yield made
    for client in made:
        client.__exit__()  # type: ignore[no-untyped-call]


def opened(place: Place, clients: list[CosmosClient], tokens: dict[str, str]) -> dict[str, ContainerProxy]:
    """The containers by name, for a client that has nothing but these tokens."""
    client = CosmosClient(place.service.url, tokens)
    clients.append(client)
    return {name: client.get_database_client("shop").get_container_client(name) for name in ("c", "other")}


def test_a_client_with_two_permissions(place: Place, clients: list[CosmosClient]) -> None:
    tokens = {
        "dbs/shop/colls/c": grant(place.user, "dbs/shop/colls/c", "All", ["p"]),
        "dbs/shop/colls/other": grant(place.user, "dbs/shop/colls/other", "Read"),
    }
    found = opened(place, clients, tokens)
    created = found["c"].create_item({"id": "new", "pk": "p"})
    assert found["c"].read_item("new", "p") == created
    assert ids(found["c"].query_items("SELECT * FROM c", partition_key="p")) == ["1", "new"]
    assert status_of(found["c"].create_item, {"id": "new", "pk": "q"}) == 403
    assert status_of(lambda: rows(found["c"].read_all_items())) == 403
    found["c"].delete_item("new", "p")
    assert ids(found["other"].read_all_items()) == ["1", "1"]
    assert rows(found["other"].query_items("SELECT VALUE COUNT(1) FROM c", enable_cross_partition_query=True)) == [2]
    for work in (
        lambda: found["other"].create_item({"id": "2", "pk": "p"}), lambda: found["other"].delete_item("1", "p"),
        lambda: clients[0].get_database_client("shop").delete_container("other"),
        lambda: list(clients[0].list_databases()),
    ):  # fmt: skip
        assert status_of(work) in (401, 403)  # 401 where the client itself has no token to send.
    assert status_of(place.container.read) == 200


def test_a_client_with_one_item(place: Place, clients: list[CosmosClient]) -> None:
    link = "dbs/shop/colls/c/docs/1"
    found = opened(place, clients, {link: grant(place.user, link, "All")})
    assert found["c"].read_item("1", "p")["id"] == "1"
    found["c"].delete_item("1", "p")
    assert status_of(place.container.read_item, "1", "p") == 404
    assert status_of(place.container.read_item, "1", "q") == 200


def test_a_client_of_the_asynchronous_kind(place: Place) -> None:
    token = grant(place.user, "dbs/shop/colls/c", "Read")

    async def work() -> tuple[list[Any], int]:
        async with AsyncCosmosClient(place.service.url, {"dbs/shop/colls/c": token}) as client:
            container = client.get_database_client("shop").get_container_client("c")
            found = [item async for item in container.read_all_items()]
            try:
                await container.delete_item("1", "p")
            except CosmosHttpResponseError as refused:
                return found, int(refused.status_code or 0)
            return found, 204

    found, status = place.service.run(work())
    assert (ids(found), status) == (["1", "1"], 403)


def test_a_feed_of_permissions_lets_a_client_in(place: Place, clients: list[CosmosClient]) -> None:
    grant(place.user, "dbs/shop/colls/c")
    feed: Any = list(place.user.list_permissions())  # Which the client takes, whatever it declares.
    clients.append(CosmosClient(place.service.url, feed))
    assert status_of(clients[0].get_database_account) == 200


def test_a_client_with_an_expired_token(place: Place, clients: list[CosmosClient]) -> None:
    found = opened(place, clients, {"dbs/shop/colls/c": grant(place.user, "dbs/shop/colls/c", "Read")})["c"]
    assert found.read_item("1", "p")["id"] == "1"
    place.service.at(3600)
    with pytest.raises(CosmosHttpResponseError) as refused:
        found.read_item("1", "p")
    assert refused.value.status_code == 403
    assert "not valid at the current time" in str(refused.value)


# --- keys that only read ---------------------------------------------------------------------------------------------


def test_a_read_only_key_reads_users_but_no_tokens(service: Service, user: UserProxy) -> None:
    """One that could read a permission of mode All would have a token that writes."""
    user.create_permission(GOOD | {"permissionMode": "All"})
    cosmos = service.cosmos_app()
    before = cosmos._account
    cosmos._account = msgspec.structs.replace(before, keys=Keys.from_base64(ACCOUNT_KEY, None, OTHER))
    try:
        for path, status in (("", 200), ("/ann", 200), ("/ann/permissions", 403), ("/ann/permissions/p", 403)):
            assert service.raw("GET", f"/dbs/shop/users{path}", key=OTHER).status == status
        query = {"query": "SELECT * FROM r"}
        assert service.raw("POST", "/dbs/shop/users/ann/permissions", query, QUERY, key=OTHER).status == 403
        assert service.raw("POST", "/dbs/shop/users", {"id": "x"}, key=OTHER).status == 403
    finally:
        cosmos._account = before
