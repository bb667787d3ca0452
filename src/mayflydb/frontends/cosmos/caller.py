"""Calls of the front end from its own process, so that the portal passes the same checks as a client."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from urllib.parse import quote

from mayflydb.clock import wall_us
from mayflydb.frontends.cosmos import auth
from mayflydb.frontends.cosmos.auth import Keys
from mayflydb.frontends.cosmos.headers import AUTHORIZATION, HOST, MS_DATE
from mayflydb.frontends.cosmos.paths import parse
from mayflydb.http.messages import Handler, Request, Response
from mayflydb.model.instant import SECOND


class Caller:
    """Sends requests that are signed with the account's first key."""

    def __init__(self, app: Handler, keys: Keys) -> None:
        self._app = app
        self._keys = keys

    async def __call__(
        self, method: str, path: Sequence[str], body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Response:
        """Send a request. `path`: its segments, not encoded (`dbs`, `shop`). Errors are responses too, as for clients.

        A caller that is cancelled leaves as a client does: what is computed for it ends.
        """
        raw = ("/" + "/".join(quote(segment, safe="", errors="surrogatepass") for segment in path)).encode()
        fields = {HOST.decode(): "localhost", **(headers or {}), **self.sign_headers(method, raw)}
        request = Request(method, raw, {name: value.encode("latin-1") for name, value in _encode_fields(fields)})
        if body:
            request.feed(body)
        request.end()
        try:
            return await self._app(request)
        except asyncio.CancelledError:
            if request.on_leave is not None:
                request.on_leave()
            raise

    def sign_headers(self, method: str, path: bytes) -> dict[str, str]:
        """Return the headers that authorize a request now. `path`: percent-encoded."""
        date = auth.rfc_1123(wall_us() / SECOND)
        return {
            AUTHORIZATION.decode(): auth.authorization_header(self._keys, method, *parse(path).signed_links[0], date),
            MS_DATE.decode(): date,
        }


def _encode_fields(fields: Mapping[str, str]) -> list[tuple[bytes, str]]:
    return [(name.encode("ascii"), value) for name, value in fields.items()]
