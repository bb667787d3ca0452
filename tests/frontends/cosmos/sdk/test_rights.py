"""Every route for every kind of caller. The rows come from the tables of routes, so that a new route is asked as well.

What a route does follows here from its method and headers alone: a route that writes and says that it reads is found.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from azure.cosmos import PartitionKey

from frontends.cosmos.asks import ASKS, FEEDS, IDS, Ask
from frontends.cosmos.service import KEY, Service, in_memory
from mayflydb.frontends.cosmos.auth import Keys
from mayflydb.frontends.cosmos.commands import table
from mayflydb.frontends.cosmos.paths import Resource

READ_ONLY, UNKNOWN = (base64.b64encode(letter * 64).decode() for letter in (b"r", b"u"))


@pytest.fixture
def shop(service: Service) -> Iterator[Service]:
    """READ_ONLY is a read-only key of the account; no setting says so, so it is told here."""
    cosmos = service.cosmos_app()
    before = cosmos._account
    cosmos._account = msgspec.structs.replace(before, keys=Keys.from_base64(KEY, None, READ_ONLY))
    database = service.client.create_database("shop")
    for name in ("c", "other"):
        database.create_container(name, partition_key=PartitionKey("/pk"))
    database.create_user({"id": "ann"})
    yield service
    cosmos._account = before


def status(shop: Service, ask: Ask, key: str) -> int:
    body: Any = {"query": "SELECT * FROM c"} if ask.reads and ask.method == "POST" else {}
    return shop.raw(
        ask.method, ask.path, None if ask.method in ("GET", "HEAD", "DELETE") else body, ask.headers, key=key
    ).status


@in_memory
@pytest.mark.parametrize("ask", ASKS, ids=IDS)
def test_who_may_ask(shop: Service, ask: Ask) -> None:
    token = {"authorization": token_of(shop, "dbs/shop/colls/other")}
    unsigned: dict[str, str | bytes | None] = {"authorization": None}
    assert shop.raw(ask.method, ask.path, None, {**ask.headers, **unsigned}).status == 401
    assert status(shop, ask, UNKNOWN) == 401
    # A token of another container opens the account alone, and the addresses of its metadata, which all clients read first.
    found = shop.raw(ask.method, ask.path, None, {**ask.headers, **token}).status
    assert found == (200 if ask.resource in (Resource.ACCOUNT, Resource.ADDRESS) else 403)
    gives_tokens = ask.resource is Resource.PERMISSION
    assert (status(shop, ask, READ_ONLY) == 403) is (not ask.reads or gives_tokens)
    assert status(shop, ask, KEY) not in (401, 403)


def token_of(shop: Service, resource: str) -> str:
    body = {"id": "p", "permissionMode": "All", "resource": resource}
    headers = {"x-ms-documentdb-is-upsert": "True"}
    found = shop.raw("POST", "/dbs/shop/users/ann/permissions", body, headers)
    token = found.json["_token"]
    assert isinstance(token, str)
    return token


def test_no_route_is_left_out() -> None:
    kinds = {ask.resource for ask in ASKS}
    assert kinds == set(Resource) == set(FEEDS)
    assert set(table.TRIGGERED) <= {route.handler for route in _all_routes()}


def _all_routes() -> list[table.Route]:
    tables = (table.ROUTES, table.QUERIES, table.UPSERTS, table.OPERATIONS)
    return [route for each in tables for route in each.values()]


def test_triggers_only_stand_on_writes() -> None:
    assert all(route.writes for route in table.TRIGGERED.values())
