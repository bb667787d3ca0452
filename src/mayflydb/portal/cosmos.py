"""The caller by which pages send requests to the server's Cosmos DB front end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from mayflydb.http.messages import Response


class Cosmos(Protocol):
    """Sends an authorized request to the front end in this process."""

    async def __call__(
        self, method: str, path: Sequence[str], body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Response:
        """`path`: its segments, as they are (`dbs`, `shop`). An error is a response too."""
        ...
