"""A running server as tests use it: the vendor's clients in both flavours, plain signed HTTP, and the clock."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import http.client
import json
import ssl
from collections.abc import AsyncIterable, Callable, Coroutine, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

import pytest
from azure.cosmos import ContainerProxy, CosmosClient, PartitionKey
from azure.cosmos.aio import ContainerProxy as AsyncContainerProxy
from azure.cosmos.aio import CosmosClient as AsyncCosmosClient
from azure.cosmos.exceptions import CosmosHttpResponseError

from mayflydb.embedded import RunningServer
from mayflydb.engine.catalog import catalogue
from mayflydb.frontends.cosmos.app import CosmosApp
from mayflydb.model.record import Expiry
from mayflydb.moving.copy import copy
from mayflydb.moving.source import StoreSource
from mayflydb.store.interface import CatalogRow, Expiries
from store_suite.reference import ReferenceStore

START = "2030-01-01T00:00:00Z"
T = 1893456000
"""START in seconds since 1970."""

KEY = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="
DATE = "Tue, 01 Jan 2030 00:00:00 GMT"
API_VERSION = "2020-07-15"
GONE = 404
in_memory = pytest.mark.parametrize("session_service", ["memory"], indirect=True, scope="session")
"""Marks what the front end decides before a store is asked: one of them is enough."""
everywhere = pytest.mark.everywhere
"""Marks what a store has a part in (transactions, expiry, indexes, feeds, uniqueness, ranges): stores.first says how."""
BULK: dict[str, str | bytes | None] = {
    "x-ms-cosmos-is-batch-request": "True",
    "x-ms-cosmos-batch-atomic": "False",
    "x-ms-cosmos-batch-continue-on-error": "True",
}


class Answer(NamedTuple):
    """One HTTP response; header names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def substatus(self) -> int:
        return int(self.headers.get("x-ms-substatus", "0"))


def signature(key: str, method: str, path: str, date: str = DATE) -> str:
    """The `authorization` header of a request, as the protocol's documentation tells to make it."""
    segments = [unquote(segment) for segment in path.partition("?")[0].strip("/").split("/")]
    if segments[-2:-1] == ["operations"]:
        # An operation is signed as its container.
        segments = segments[:-2]
    if segments[0] == "":
        kind, link = "", ""
    elif segments == ["addresses"]:
        kind, link = "dbs", ""
    elif len(segments) % 2:
        kind, link = segments[-1], "/".join(segments[:-1])
    else:
        kind, link = segments[-2], "/".join(segments)
    if segments[0] == "offers" and len(segments) == 2:
        link = segments[1].lower()
    text = f"{method.lower()}\n{kind.lower()}\n{link}\n{date.lower()}\n\n"
    mac = hmac.digest(base64.b64decode(key), text.encode("utf-8", "surrogatepass"), hashlib.sha256)
    return quote(f"type=master&ver=1.0&sig={base64.b64encode(mac).decode()}", safe="-_.!~*'()")


class Raw:
    """Signed requests over one connection, or unsigned ones; nothing is retried, nothing is interpreted."""

    def __init__(self, url: str, key: str = KEY) -> None:
        parts = urlsplit(url)
        self.scheme, self.host, self.port = parts.scheme, parts.hostname or "", parts.port or 0
        self.key = key
        self._connection: http.client.HTTPConnection | None = None

    def _connect(self) -> http.client.HTTPConnection:
        if self.scheme == "http":
            return http.client.HTTPConnection(self.host, self.port, timeout=60)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return http.client.HTTPSConnection(self.host, self.port, timeout=60, context=context)

    def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str | bytes | None] | None = None,
        *,
        pk: Any = ...,
        key: str | None = None,
    ) -> Answer:
        """`body`: bytes as they are, anything else as JSON. `pk`: a value, or a list of them; a header None is left out."""
        payload = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        given: dict[str, str | bytes | None] = {
            "authorization": signature(key or self.key, method, path),
            "x-ms-date": DATE,
            "x-ms-version": API_VERSION,
        }
        if pk is not ...:
            given["x-ms-documentdb-partitionkey"] = json.dumps(pk if isinstance(pk, list) else [pk])
        given |= headers or {}
        return self.send(method, path, payload, {name: value for name, value in given.items() if value is not None})

    def send(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str | bytes]) -> Answer:
        """Exactly this request; over a new connection if the last one was closed."""
        connection = self._connection or self._connect()
        self._connection = None
        try:
            connection.request(method, path, body, dict(headers))
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            got = Answer(answer.status, found, answer.read())
        except BaseException:
            connection.close()
            raise
        if answer.will_close:
            connection.close()
        else:
            self._connection = connection
        return got

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class Sync:
    """A container of the vendor's synchronous client."""

    flavour = "sync"

    def __init__(self, proxy: ContainerProxy) -> None:
        self.proxy = proxy

    def call(self, method: str, *args: Any, **options: Any) -> Any:
        """A method of the container; feeds and queries come as lists."""
        found = getattr(self.proxy, method)(*args, **options)
        # Items are dictionaries, pages are not.
        return list(found) if isinstance(found, Iterable) and not isinstance(found, dict | list | str) else found


class Async:
    """The same container, of the vendor's asynchronous client."""

    flavour = "aio"

    def __init__(self, proxy: AsyncContainerProxy, run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self.proxy = proxy
        self._run = run

    def call(self, method: str, *args: Any, **options: Any) -> Any:
        """A method of the container; feeds and queries come as lists."""
        options.pop("enable_cross_partition_query", None)  # Always on in this client, which has no such parameter.

        async def work() -> Any:
            found = getattr(self.proxy, method)(*args, **options)
            if isinstance(found, AsyncIterable):
                return [each async for each in found]
            return await found

        return self._run(work())


class Service:
    """One server for all tests of a process; `begin` makes it as good as new."""

    def __init__(self, server: RunningServer, store: str) -> None:
        self.server = server
        self.store = store
        self.url = server.cosmos.url
        self.raw = Raw(self.url)
        self.client: CosmosClient = server.cosmos.client()
        self._loop = asyncio.new_event_loop()
        self._async_client: AsyncCosmosClient | None = None
        self._names = count(1)
        self.generation = 0

    def begin(self) -> None:
        """Nothing is stored, and it is START."""
        self.generation += 1
        self.server.start_at(START)
        self.raw.close()

    def close(self) -> None:
        self.raw.close()
        self.client.__exit__()  # type: ignore[no-untyped-call]
        if self._async_client is not None:
            self.run(self._async_client.close())
        self.run(_end_tasks())
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """On the loop that the asynchronous client belongs to."""
        return self._loop.run_until_complete(work)

    def container(
        self, default_ttl: int | None = None, paths: str | list[str] = "/pk", version: int = 2, **options: Any
    ) -> ContainerProxy:
        """A new container in a database of its own."""
        if isinstance(paths, list):
            key = PartitionKey(path=paths, kind="MultiHash", version=version)
        else:
            key = PartitionKey(path=paths, kind="Hash", version=version)
        database = self.client.create_database(f"d{next(self._names)}")
        made: ContainerProxy = database.create_container("c", key, default_ttl=default_ttl, **options)
        return made

    def fill(self, proxy: ContainerProxy, rows: Iterable[Mapping[str, Any]]) -> None:
        """Create items, by their `pk`, with few requests: in bulk, as other clients of the vendor send it."""
        operations = [
            {"operationType": "Create", "partitionKey": json.dumps([row["pk"]]), "resourceBody": row} for row in rows
        ]
        for start in range(0, len(operations), 100):
            some = operations[start : start + 100]
            answer = self.raw("POST", path_of(proxy, "docs"), some, BULK)
            assert answer.status == 200, answer
            assert [result["statusCode"] for result in answer.json] == [201] * len(some)

    def cosmos_app(self) -> CosmosApp:
        """The application behind the listener, for what no setting reaches."""
        port: Any = self.server._server._http
        app = port._listener._work.handler._cosmos
        assert isinstance(app, CosmosApp)
        return app

    def sync(self, proxy: ContainerProxy) -> Sync:
        return Sync(proxy)

    @property
    def async_client(self) -> AsyncCosmosClient:
        """The vendor's asynchronous client, which `run` waits for."""
        if self._async_client is None:
            self._async_client = AsyncCosmosClient(self.url, KEY)
            self.run(self._async_client.__aenter__())
        return self._async_client

    def aio(self, proxy: ContainerProxy) -> Async:
        """The same container for the asynchronous client."""
        _, database, _, container = proxy.container_link.split("/")
        return Async(self.async_client.get_database_client(database).get_container_client(container), self.run)

    def deaths(self) -> list[Expiry]:
        """The events of records that age removed, oldest first."""
        server = self.server
        return server._home.call(server._admin.engine.store.read(Expiries(None, 0, 1000)))

    def copied(self) -> list[CatalogRow]:
        """The rows of the catalogue of a copy of everything."""

        async def work() -> list[CatalogRow]:
            target = ReferenceStore()
            await copy(await StoreSource.open(self.server._admin.engine.store), target, lambda done, total: None)
            return await catalogue(target)

        return self.server._home.call(work())

    def set_default_ttl(self, proxy: ContainerProxy, default: int | None) -> None:
        """Replace the container's `defaultTtl` as the client does; None: off."""
        _, database, _, _ = proxy.container_link.split("/")
        key: Any = proxy.read()["partitionKey"]
        self.client.get_database_client(database).replace_container(proxy, key, default_ttl=default)

    def at(self, second: float) -> None:
        """Move the clock to `second` after START, purging nothing."""
        step = datetime.fromtimestamp(T, UTC) + timedelta(seconds=second) - self.server.clock.now()
        assert step >= timedelta(), f"it is already {self.server.clock.now()}"
        self.server.clock.advance(step, sweep="none")


async def _end_tasks() -> None:
    """End what the client left in the background, and wait until its connections are closed.

    A transport of TLS closes its socket only after an exchange with the server. One that is left open is a warning in any
    later test.
    """
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    loop: Any = asyncio.get_running_loop()
    async with asyncio.timeout(60):
        # There is no event for the end of a transport that another library has made.
        while any(transport._sock is not None for transport in list(loop._transports.values())):  # noqa: ASYNC110
            await asyncio.sleep(0)


def path_of(proxy: ContainerProxy, *segments: str) -> str:
    """The URL path of a container, or of something in it."""
    return "/" + "/".join([proxy.container_link, *(quote(segment, safe="") for segment in segments)])


def rid_number(rid: str) -> int:
    """The number in the rid of a container's child, its kind included, as clients compare it."""
    return int.from_bytes(base64.b64decode(rid.replace("-", "/"), validate=True)[8:], "little")


def older_rid(rid: str) -> str:
    """The same child in the form of earlier versions: kind in the first 4 bits, then the number, most significant byte first."""
    value, owner = rid_number(rid), base64.b64decode(rid.replace("-", "/"))[:8]
    kind, number = value >> 60, (value & (1 << 60) - 1) >> 1
    return base64.b64encode(owner + (kind << 60 | number).to_bytes(8, "big")).decode().replace("/", "-")


def status_of(work: Callable[..., Any], *args: Any, **options: Any) -> int:
    """The HTTP status that a call of the vendor's client ended with; 200 for every success."""
    try:
        work(*args, **options)
    except CosmosHttpResponseError as error:
        return int(error.status_code or 0)
    return 200


def rows(found: Iterable[Any]) -> list[Any]:
    """The rows of a query, which are of any type, whatever the client declares."""
    return list(found)


def ids(items: Iterable[Mapping[str, Any]]) -> list[str]:
    """The ids of items, sorted."""
    return sorted(str(item["id"]) for item in items)
