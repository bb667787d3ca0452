"""Signed requests of the Cosmos DB REST API."""

from __future__ import annotations

import base64
import hmac
import http.client
import json
from collections.abc import Iterable
from email.utils import formatdate
from typing import Any
from urllib.parse import quote

from mayflydb.clock import wall_us
from mayflydb.frontends.cosmos.auth import WELL_KNOWN_KEY

DATABASE, CONTAINER, PARTITION = "d", "c", "p1"
COLLECTION = f"dbs/{DATABASE}/colls/{CONTAINER}"
ITEM_BYTES = 1024
IDS = 500

_KEY = base64.b64decode(WELL_KNOWN_KEY)
_DATE = formatdate(wall_us() / 1e6, usegmt=True)
"""All requests of a run carry the date of its start: signing is no part of what is measured."""


def headers(method: str, kind: str, link: str) -> dict[str, str]:
    """What an SDK sends with a request on this resource."""
    text = f"{method.lower()}\n{kind}\n{link}\n{_DATE.lower()}\n\n"
    signature = base64.b64encode(hmac.digest(_KEY, text.encode(), "sha256")).decode()
    return {
        "Accept": "application/json",
        "Cache-Control": "no-cache",
        "User-Agent": "azsdk-python-cosmos/4.17",
        "x-ms-version": "2020-07-15",
        "x-ms-date": _DATE,
        "x-ms-consistency-level": "Session",
        "x-ms-documentdb-partitionkey": json.dumps([PARTITION]),
        "authorization": quote(f"type=master&ver=1.0&sig={signature}", safe=""),
    }


def item(id: str, size: int = ITEM_BYTES, **members: Any) -> bytes:
    """An item that is `size` bytes long."""
    bare = json.dumps({"id": id, "pk": PARTITION, **members, "pad": ""}, separators=(",", ":"))
    return (bare[:-2] + "x" * (size - len(bare)) + '"}').encode()


class Caller:
    """One keep-alive connection."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def send(
        self, method: str, path: str, kind: str, link: str, body: bytes | None = None, **more: str
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        """Status, headers and body. `more`: headers with _ for -."""
        fields = headers(method, kind, link) | {name.replace("_", "-"): value for name, value in more.items()}
        self._connection.request(method, path, body, fields)
        answer = self._connection.getresponse()
        return answer.status, answer.headers, answer.read()

    def expect(self, status: int, method: str, path: str, kind: str, link: str, body: Any = None, **more: str) -> Any:
        """The decoded answer; RuntimeError for another status."""
        payload = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        code, _, text = self.send(method, path, kind, link, payload, **more)
        if code != status:
            raise RuntimeError(f"{method} {path} answered {code}: {text[:300]!r}")
        return json.loads(text) if text else None

    def make(self, container: str = CONTAINER, **properties: Any) -> None:
        """A container, in a database that is made with the first one."""
        self.send("POST", "/dbs", "dbs", "", json.dumps({"id": DATABASE}).encode())
        body = {"id": container, "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2}, **properties}
        self.expect(201, "POST", f"/dbs/{DATABASE}/colls", "colls", f"dbs/{DATABASE}", body)

    def store(self, ids: Iterable[str]) -> None:
        """Items of the usual size with these ids."""
        for id in ids:
            self.expect(
                201, "POST", f"/{COLLECTION}/docs", "docs", COLLECTION, item(id), Content_Type="application/json"
            )

    def set_default_ttl(self, seconds: int | None, container: str = CONTAINER) -> None:
        """Replace a container by one that has only another default (None: off)."""
        link = f"dbs/{DATABASE}/colls/{container}"
        body = {"id": container, "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2}}
        ttl = {} if seconds is None else {"defaultTtl": seconds}
        self.expect(200, "PUT", f"/{link}", "colls", link, body | ttl)

    def close(self) -> None:
        self._connection.close()
