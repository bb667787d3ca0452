"""Requests with tokens: every route for each role, batches by their operations, and the vendor's client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from azure.core.credentials import AccessToken
from azure.cosmos import CosmosClient
from azure.cosmos.exceptions import CosmosHttpResponseError

from frontends.cosmos.asks import ASKS, IDS, Ask
from frontends.cosmos.issuer import AUDIENCE, NAME, header, key_set, sign
from frontends.cosmos.service import KEY, START, Answer, Raw
from mayflydb.embedded import RunningServer, serve
from mayflydb.frontends.cosmos.commands import batches, table
from mayflydb.frontends.cosmos.commands.batches import MODES
from mayflydb.frontends.cosmos.entra.authorization import ACTIONS, BATCH_ACTIONS
from mayflydb.frontends.cosmos.entra.roles import DATA_CONTRIBUTOR, DATA_READER, PREFIX
from mayflydb.frontends.cosmos.paths import Resource

ITEMS: Final = PREFIX + "sqlDatabases/containers/items/"
POLICY: Final = {
    "issuers": [{"issuer": NAME, "audiences": [AUDIENCE], "keys": "keys.json"}],
    "roleDefinitions": [
        {"id": "creator", "roleName": "Creator", "type": "CustomRole", "assignableScopes": ["/dbs/shop/colls/c"],
         "permissions": [{"dataActions": [PREFIX + "readMetadata", ITEMS + "create"]}]},
    ],
    "roleAssignments": [
        {"principalId": "reader", "roleDefinitionId": DATA_READER, "scope": "/"},
        {"principalId": "contributor", "roleDefinitionId": DATA_CONTRIBUTOR, "scope": "/dbs/shop"},
        {"principalId": "group", "roleDefinitionId": DATA_CONTRIBUTOR, "scope": "/dbs/shop/colls/c"},
        {"principalId": "creator", "roleDefinitionId": "creator", "scope": "/dbs/shop/colls/c"},
        {"principalId": "elsewhere", "roleDefinitionId": DATA_CONTRIBUTOR, "scope": "/dbs/shop/colls/other"},
    ],
}  # fmt: skip
C: Final = "/dbs/shop/colls/c"
MANAGED: Final = {Resource.OFFER, Resource.USER, Resource.PERMISSION, Resource.TRIGGER, Resource.USER_DEFINED_FUNCTION}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    place = tmp_path_factory.mktemp("entra")
    (place / "keys.json").write_text(key_set("ec1"))
    (place / "entra.json").write_text(json.dumps(POLICY))
    with serve(memory=True, port=0, clock="virtual", clock_start=START, entra_file=str(place / "entra.json")) as found:
        raw = Raw(found.cosmos.url)
        raw("POST", "/dbs", {"id": "shop"})
        for name in ("c", "other"):
            key = {"paths": ["/pk"], "kind": "Hash"}
            raw("POST", "/dbs/shop/colls", {"id": name, "partitionKey": key, "defaultTtl": -1})
        raw.close()
        yield found


@pytest.fixture(scope="module")
def raw(server: RunningServer) -> Iterator[Raw]:
    found = Raw(server.cosmos.url)
    yield found
    found.close()


TOKENS: Final = {name: header(sign(oid=name)) for name in ("reader", "contributor", "creator", "elsewhere", "nobody")}
TOKENS["member"] = header(sign(oid="x", groups=["group"]))


def ask(raw: Raw, who: str, method: str, path: str, body: Any = None, **headers: str) -> Answer:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return raw(method, path, body, {**given, "authorization": TOKENS[who], "x-ms-date": None}, pk="p")


def refusal(raw: Raw, who: str, row: Ask) -> tuple[int, int]:
    """Return status and substatus of a refusal, or (0, 0)."""
    queries = row.method == "POST" and row.reads
    body: Any = None if row.method in ("GET", "HEAD", "DELETE") else {"query": "SELECT * FROM c"} if queries else {}
    answer = raw(row.method, row.path, body, {**row.headers, "authorization": TOKENS[who], "x-ms-date": None})
    return (answer.status, answer.substatus) if answer.status in (401, 403) else (0, 0)


def expected(who: str, row: Ask) -> int:
    """Return the substatus of the refusal; 0: permitted. From the method and the path alone, as the documentation says it."""
    definition = row.resource is Resource.STORED_PROCEDURE and (row.is_feed or row.method != "POST")
    management = row.resource in MANAGED or definition
    if row.resource in (Resource.DATABASE, Resource.CONTAINER) and "/operations/" not in row.path:
        management = not row.reads
    if management:
        return 5300
    metadata = row.resource in (
        Resource.ACCOUNT, Resource.ADDRESS, Resource.DATABASE, Resource.CONTAINER, Resource.RANGE
    )  # fmt: skip
    metadata = metadata and "/operations/" not in row.path
    batch = "x-ms-cosmos-is-batch-request" in row.headers
    scope = row.path if row.path.startswith(C) else row.path.removesuffix("/dbs").removesuffix("/colls") or "/"
    within = {"reader": "/", "contributor": "/dbs/shop", "member": C, "creator": C, "elsewhere": C + "other"}.get(who)
    if row.resource in (Resource.ACCOUNT, Resource.ADDRESS) or (row.method, row.path) == ("HEAD", "/dbs"):
        return 0 if within else 5301
    # A batch without operations needs no right.
    if batch:
        return 0
    if within is None or not (within == "/" or (scope + "/").startswith(within + "/")):
        return 5301 if metadata else 5302
    if metadata:
        return 0
    conflicts = row.resource is Resource.CONFLICT
    permitted = {
        "reader": row.reads and not conflicts,
        "contributor": True,
        "member": True,
        "creator": row.resource is Resource.ITEM and row.is_feed and row.method == "POST" and not row.headers,
    }[who]
    return 0 if permitted else 5302


@pytest.mark.parametrize("row", ASKS, ids=IDS)
def test_who_may_ask(raw: Raw, row: Ask) -> None:
    for who in TOKENS:
        substatus = expected(who, row)
        assert refusal(raw, who, row) == ((403, substatus) if substatus else (0, 0)), who


def test_no_command_is_left_out() -> None:
    tables = (table.ROUTES, table.QUERIES, table.UPSERTS, table.OPERATIONS, table.TRIGGERED)
    routes = {route.handler for each in tables for route in each.values()} | {
        table._PLAN.handler, table._BATCH.handler, table._CHANGES.handler
    }  # fmt: skip
    data = {handler for handler in routes if handler.__module__.rpartition(".")[2] not in _MANAGEMENT_MODULES}
    management = {databases for databases in data if databases.__name__ in ("create", "delete", "replace")} - set(
        ACTIONS
    )
    assert {each.__module__.rpartition(".")[2] for each in management} == {"databases", "containers"}
    assert data - management - {batches.execute} == set(ACTIONS)
    assert set(BATCH_ACTIONS) == set(MODES)


_MANAGEMENT_MODULES: Final = {"offers", "users", "permissions", "scripts"}


@pytest.mark.parametrize("kind", BATCH_ACTIONS)
@pytest.mark.parametrize("atomic", ["True", "False"])
def test_a_batch_needs_the_actions_of_its_operations(raw: Raw, kind: str, atomic: str) -> None:
    body = {"operations": [{"op": "set", "path": "/a", "value": 1}]} if kind == "Patch" else {"id": "b", "pk": "p"}
    wanted = {"operationType": kind, "id": "b", "resourceBody": body, "partitionKey": '["p"]'}
    operations = [{"operationType": "Create", "resourceBody": {"id": "a", "pk": "p"}, "partitionKey": '["p"]'}, wanted]
    headers = {"x_ms_cosmos_is_batch_request": "True", "x_ms_cosmos_batch_atomic": atomic}
    for who in ("reader", "creator", "elsewhere", "nobody"):
        answer = ask(raw, who, "POST", f"{C}/docs", operations, **headers)
        assert (answer.status == 403) is not (who == "creator" and kind == "Create"), who
    assert ask(raw, "contributor", "POST", f"{C}/docs", operations, **headers).status < 300
    # Nothing of a refused batch was done.
    for id in ("a", "b"):
        raw("DELETE", f"{C}/docs/{id}", pk="p")


def test_a_container_named_by_its_rid_is_the_same(raw: Raw) -> None:
    database, container = (raw("GET", path).json["_rid"] for path in ("/dbs/shop", C))
    by_rid = f"/dbs/{database}/colls/{container}/docs"
    item = {"id": "rid", "pk": "p"}
    assert ask(raw, "elsewhere", "POST", by_rid, item).substatus == 5303
    assert ask(raw, "creator", "POST", by_rid, item).status == 201
    assert ask(raw, "member", "DELETE", f"{C}/docs/rid").status == 204


def test_a_refusal_names_the_action_and_the_resource(raw: Raw) -> None:
    said = ask(raw, "creator", "GET", f"{C}/docs/1").json["message"]
    assert f"principal [creator] does not have required RBAC permissions to perform action [{ITEMS}read]" in said
    assert "on resource [dbs/shop/colls/c]" in said
    # A name that does not exist is refused alike, so a token does not find out names.
    missing = ask(raw, "creator", "GET", "/dbs/shop/colls/nosuch/docs/1")
    assert (missing.status, missing.substatus) == (403, 5302)
    assert "on any scope" in ask(raw, "nobody", "GET", "/").json["message"]


@pytest.mark.parametrize(
    "token", [sign(exp=1), sign("ec2"), "a.b.c", "", "x" * 9000], ids=["old", "key", "dots", "none", "long"]
)
def test_a_token_that_is_not_valid_is_401(raw: Raw, token: str) -> None:
    answer = raw("GET", "/", None, {"authorization": header(token), "x-ms-date": None})
    assert answer.status == 401
    assert not token or token not in answer.body.decode()


def test_keys_and_resource_tokens_go_on(raw: Raw) -> None:
    assert raw("GET", C).status == 200
    # The emulator's tokens, which carry the account's key, are for emulators: a policy ends them.
    assert raw("GET", "/", None, {"authorization": header(f"e30.e30.{KEY.rstrip('=')}")}).status == 401


class Credential:
    def get_token(self, *_: str, **__: Any) -> AccessToken:
        return AccessToken(sign(oid="contributor"), 4_102_444_800)


def test_the_vendors_client(server: RunningServer) -> None:
    with CosmosClient(server.cosmos.url.replace("http:", "https:"), Credential(), connection_verify=False) as client:
        container = client.get_database_client("shop").get_container_client("c")
        container.upsert_item({"id": "py", "pk": "p", "ttl": 10})
        assert container.read_item("py", "p")["ttl"] == 10
        found = container.query_items("SELECT VALUE c.id FROM c WHERE c.id = 'py'", enable_cross_partition_query=True)
        assert list(found) == ["py"]
        server.clock.advance("10s")
        with pytest.raises(CosmosHttpResponseError, match="Resource Not Found"):
            container.read_item("py", "p")
        with pytest.raises(CosmosHttpResponseError, match="cannot be authorized by AAD token") as refused:
            client.create_database("new")
        assert (refused.value.status_code, refused.value.sub_status) == (403, 5300)


def test_no_token_is_written_to_the_log(raw: Raw, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    caplog.set_level("DEBUG")
    token = sign(oid="reader", jti="canary")
    raw("GET", "/", None, {"authorization": header(token), "x-ms-date": None})
    raw("GET", "/", None, {"authorization": header(token[:-4]), "x-ms-date": None})
    assert not any(token[:-4] in record.getMessage() for record in caplog.records)
