"""Requests for containers and items of Cosmos DB, by the front end of this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from mayflydb.admin.wires import Cosmos
from mayflydb.http.messages import Response
from mayflydb.model.errors import NotFound

SYSTEM: Final = ("_rid", "_self", "_etag", "_attachments", "_ts")
"""Members that the service adds to an item."""


class _Page(msgspec.Struct, frozen=True):
    Documents: list[msgspec.Raw]


_decode_page = msgspec.json.Decoder(_Page).decode


class CosmosItems:
    """Sends requests, and raises the errors that answers stand for."""

    def __init__(self, wire: Cosmos) -> None:
        self._wire = wire

    async def find(self, path: Sequence[str], headers: Mapping[str, str] | None = None) -> dict[str, Any] | None:
        """Return what is at a path, or None."""
        try:
            return (await self.ask("GET", path, None, headers))[1]
        except NotFound:
            return None

    async def ask(
        self, method: str, path: Sequence[str], body: Mapping[str, Any] | None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, dict[str, Any]]:
        """Return status and answer. Errors: those of the front end, whose messages begin with the path."""
        sent = b"" if body is None else msgspec.json.encode(body)
        response = await self._request(method, path, sent, headers)
        return response.status, msgspec.json.decode(response.body or b"{}")

    async def page(self, path: Sequence[str], headers: Mapping[str, str]) -> tuple[list[msgspec.Raw], str | None]:
        """Return a page of items as they are stored, and the token of the next one; None: there is none."""
        response = await self._request("GET", path, b"", headers)
        found = _decode_page(response.body).Documents
        return found, dict(response.headers).get(b"x-ms-continuation", b"").decode() or None

    async def query(
        self, path: Sequence[str], body: Mapping[str, Any], headers: Mapping[str, str]
    ) -> tuple[list[Any], str | None]:
        """Run a query, and return a page of its results and the token of the next one; None: there is none."""
        response = await self._request("POST", path, msgspec.json.encode(body), headers)
        found = msgspec.json.decode(response.body)["Documents"]
        return found, dict(response.headers).get(b"x-ms-continuation", b"").decode() or None

    async def write(
        self, container: Sequence[str], paths: Sequence[str], item: Mapping[str, Any], upsert: bool
    ) -> bool:
        """Write an item. Return True if it is new; Conflict for one that is there, unless it may be replaced."""
        headers = partition_header(item, paths) | ({"x-ms-documentdb-is-upsert": "True"} if upsert else {})
        status, _ = await self.ask("POST", (*container, "docs"), item, headers)
        return status == 201

    async def _request(
        self, method: str, path: Sequence[str], body: bytes, headers: Mapping[str, str] | None
    ) -> Response:
        response = await self._wire(method, path, body, headers)
        if (error := response.error) is not None:
            error.message = f"{'/'.join(path[1::2])}: {error.message}"
            raise error
        return response


def partition_header(item: Mapping[str, Any], paths: Sequence[str]) -> dict[str, str]:
    """Return the header with the partition key of an item."""
    key = [_value_at(item, path) for path in paths]
    return {"x-ms-documentdb-partitionkey": msgspec.json.encode(key).decode()}


def _value_at(item: Mapping[str, Any], path: str) -> Any:
    """Return the value at a path of a partition key; `{}`, as the protocol writes it, where there is none."""
    value: Any = item
    for name in path.strip("/").split("/"):
        if not isinstance(value, Mapping) or name not in value:
            return {}
        value = value[name]
    return value


def content_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document without what the service adds."""
    return {name: value for name, value in document.items() if name not in SYSTEM}
