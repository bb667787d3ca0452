"""A small HTTP client that signs as the account key demands: one keep-alive connection, one request at a time."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
from typing import Any, NamedTuple
from urllib.parse import quote

from mayflydb.frontends.cosmos.auth import WELL_KNOWN_KEY

KEY = base64.b64decode(WELL_KNOWN_KEY)
DATE = "Thu, 01 Jan 2026 00:00:00 GMT"


class Answer(NamedTuple):
    status: int
    headers: dict[bytes, bytes]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Gone(Exception):
    """The connection ended before the answer came."""


def signature(verb: str, kind: str, link: str) -> str:
    text = f"{verb.lower()}\n{kind}\n{link}\n{DATE.lower()}\n\n"
    return quote(
        "type=master&ver=1.0&sig=" + base64.b64encode(hmac.digest(KEY, text.encode(), "sha256")).decode(), safe=""
    )


class Connection:
    """Made by `open`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, port: int) -> Connection:
        try:
            return cls(*await asyncio.open_connection("127.0.0.1", port))
        except OSError as error:
            raise Gone from error

    async def ask(self, verb: str, kind: str, path: str, body: Any = None, **headers: str) -> Answer:
        """One request. `path` without the leading slash; the signed link is its resource, or the parent of a feed."""
        parent, _, last = path.rpartition("/")
        link = parent if last == kind else path
        payload = b"" if body is None else json.dumps(body).encode()
        lines = [
            f"{verb} /{path} HTTP/1.1",
            "host: localhost",
            f"authorization: {signature(verb, kind, link)}",
            f"x-ms-date: {DATE}",
            "x-ms-version: 2018-12-31",
            f"content-length: {len(payload)}",
            *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items()),
        ]
        try:
            self._writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + payload)
            return await self._answer()
        except (OSError, asyncio.IncompleteReadError) as error:
            raise Gone from error

    async def _answer(self) -> Answer:
        head = await self._reader.readuntil(b"\r\n\r\n")
        first, *lines = head[:-4].split(b"\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
        body = await self._reader.readexactly(int(headers.get(b"content-length", b"0")))
        return Answer(int(first.split(b" ")[1]), headers, body)

    def close(self) -> None:
        self._writer.close()
