"""The vendor's clients with a token credential, as they are used with Microsoft's emulator."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from typing import Any

import pytest
from azure.core.credentials import AccessToken
from azure.cosmos import CosmosClient, PartitionKey
from azure.cosmos.aio import CosmosClient as AsyncCosmosClient
from azure.cosmos.exceptions import CosmosHttpResponseError

from frontends.cosmos.service import KEY, Async, Service, Sync, in_memory

YEAR_2100 = 4_102_444_800


def token(key: str = KEY) -> str:
    parts = "{}", json.dumps({"nbf": 0, "exp": YEAR_2100}), key
    return ".".join(urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts)


class Credential:
    """What an application has from its identity library."""

    def get_token(self, *_: str, **__: Any) -> AccessToken:
        return AccessToken(token(), YEAR_2100)


class AsyncCredential:
    async def get_token(self, *_: str, **__: Any) -> AccessToken:
        return AccessToken(token(), YEAR_2100)

    async def close(self) -> None:
        pass


def secure(service: Service) -> str:
    """Clients send such tokens over https alone."""
    return "https://" + service.url.partition("://")[2]


@pytest.fixture
def opened(service: Service, flavour: str) -> Iterator[Sync | Async]:
    """A container through a client that has no key."""
    database, container = service.container(default_ttl=10).container_link.split("/")[1::2]
    if flavour == "sync":
        with CosmosClient(secure(service), Credential()) as client:
            yield Sync(client.get_database_client(database).get_container_client(container))
        return
    other = AsyncCosmosClient(secure(service), AsyncCredential())  # type: ignore[arg-type]
    service.run(other.__aenter__())
    yield Async(other.get_database_client(database).get_container_client(container), service.run)
    service.run(other.close())


@in_memory
def test_items_are_open_to_it(service: Service, opened: Sync | Async) -> None:
    call = opened.call
    call("create_item", {"id": "1", "pk": "p"})
    call("upsert_item", {"id": "2", "pk": "p", "ttl": -1})
    assert call("read_item", "1", "p")["id"] == "1"
    found = call("query_items", "SELECT VALUE c.id FROM c ORDER BY c.id", enable_cross_partition_query=True)
    assert found == ["1", "2"]
    service.at(10)
    assert call("query_items", "SELECT VALUE c.id FROM c", partition_key="p") == ["2"]


@in_memory
def test_the_account_is_not(service: Service) -> None:
    client = CosmosClient(secure(service), Credential())
    for work in (
        lambda: client.create_database("d"),
        lambda: client.get_database_client("d").create_container("c", PartitionKey("/pk")),
        lambda: client.delete_database("d"),
    ):
        with pytest.raises(CosmosHttpResponseError, match="cannot be authorized by AAD token in data plane") as refused:
            work()
        assert (refused.value.status_code, refused.value.sub_status) == (403, 5300)


@in_memory
def test_another_key(service: Service) -> None:
    other = urlsafe_b64encode(b"another key").decode()
    answer = service.raw("GET", "/", None, {"authorization": f"type=aad&ver=1.0&sig={token(other)}"})
    assert (answer.status, answer.json["code"]) == (401, "Unauthorized")
    assert service.raw("GET", "/", None, {"authorization": f"type=aad&ver=1.0&sig={token()}"}).status == 200
