"""Sends a real request to each listening socket, in its own protocol, before the server reports that it is ready."""

from __future__ import annotations

import asyncio
import json
import ssl
import struct
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Literal, NamedTuple

from mayflydb.serving.trust import Trust

CHECK_SECONDS = 10.0
"""Seconds that each listener has to answer. The first connection may import a front end, seconds on a busy machine."""

MAX_ANSWER_BYTES: Final = 1 << 20
"""Bytes of an answer that are read."""

# OP_MSG, little-endian: length, request id, response to, opcode (2013), flag bits; then one section: kind 0 and a document.
_MESSAGE = struct.Struct("<iiiiIB")
_LIST_ENDPOINTS = "/Ydb.Discovery.V1.DiscoveryService/ListEndpoints"

Part = Literal["cosmos", "mongo", "ydb"]


class CheckFailed(Exception):
    """A listener gave an answer that its protocol does not allow."""


class ListenAddress(NamedTuple):
    """The address of a listening socket. `trusted`: set if the connection is to use TLS."""

    host: str
    port: int
    trusted: Trust | None = None

    @property
    def address(self) -> str:
        """`127.0.0.1:8081`"""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ListenerCheck(NamedTuple):
    """One listener: the part of the readiness that it belongs to, its setting, its name (`HTTPS on 127.0.0.1:8081`)."""

    part: Part
    setting: str
    name: str
    ask: Callable[[], Awaitable[None]]

    async def failure(self) -> str | None:
        """Return the reason why the listener is not ready; None: it is."""
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                await self.ask()
        except TimeoutError:
            return f"{self.name} did not answer within {CHECK_SECONDS:g} seconds"
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError, CheckFailed) as error:
            return f"{self.name} does not answer as it should: {str(error) or type(error).__name__}"
        return None


async def ask_http(place: ListenAddress, fields: Mapping[str, str]) -> None:
    """Read the account over HTTP.

    The body is sent after `100 Continue`, so that the server has to wait and to resume. Otherwise a listener would pass whose
    event loop answers only complete requests.
    """
    body = b"{}"
    own = {"host": place.address, "expect": "100-continue", "content-length": str(len(body)), "connection": "close"}
    head = "\r\n".join(["GET / HTTP/1.1", *(f"{name}: {value}" for name, value in {**own, **fields}.items()), "", ""])
    async with _connect(place) as (reader, writer):
        writer.write(head.encode("latin-1"))
        _expect(await _head(reader), b"100")
        writer.write(body)
        answer = await _head(reader)
        _expect(answer, b"200")
        length = int(answer.lower().partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0])
        account = json.loads(await reader.readexactly(min(length, MAX_ANSWER_BYTES)))
    if "writableLocations" not in account:
        raise CheckFailed("it gave another document than the account")


async def ask_listener(place: ListenAddress) -> None:
    """Connect and end the connection before its first byte, which the listener has to notice.

    For a front end that its first client loads. What it loads is asked when it is there.
    """
    async with _connect(place._replace(trusted=None)) as (reader, writer):
        writer.write_eof()
        if await reader.read(1):
            raise CheckFailed("it spoke before it was asked")


async def ask_mongo(place: ListenAddress) -> None:
    """Send `hello`, which needs no login."""
    from bson import decode, encode

    command = encode({"hello": 1, "$db": "admin"})
    async with _connect(place) as (reader, writer):
        writer.write(_MESSAGE.pack(_MESSAGE.size + len(command), 1, 0, 2013, 0, 0) + command)
        length, _, request, opcode, _, kind = _MESSAGE.unpack(await reader.readexactly(_MESSAGE.size))
        if (request, opcode, kind) != (1, 2013, 0) or not _MESSAGE.size < length < MAX_ANSWER_BYTES:
            raise CheckFailed("it gave another message than the answer")
        reply = decode(await reader.readexactly(length - _MESSAGE.size))
    if reply.get("ok") != 1 or not reply.get("isWritablePrimary"):
        raise CheckFailed(f"hello was refused: {reply.get('errmsg', 'no reason given')}")


async def ask_ydb(place: ListenAddress, database: str, enforced: bool) -> None:
    """Call `ListEndpoints`. `enforced`: clients must log in, so UNAUTHENTICATED is a right answer too."""
    import grpc
    import grpc.aio

    from mayflydb.frontends.ydb.descriptors import message

    request = message("Ydb.Discovery.ListEndpointsRequest")(database=database).SerializeToString()
    # No proxy from the environment, and no connection that another channel of this process has opened already.
    options: list[tuple[str, Any]] = [("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1)]
    if place.trusted is None:
        channel = grpc.aio.insecure_channel(place.address, options)
    else:
        options.append(("grpc.ssl_target_name_override", place.trusted.name))
        channel = grpc.aio.secure_channel(place.address, grpc.ssl_channel_credentials(place.trusted.pem), options)
    async with channel:
        try:
            answer = await channel.unary_unary(_LIST_ENDPOINTS)(request)
        except grpc.aio.AioRpcError as error:
            if enforced and error.code() == grpc.StatusCode.UNAUTHENTICATED:
                return
            raise CheckFailed(error.details() or error.code().name) from None
    operation = message("Ydb.Discovery.ListEndpointsResponse").FromString(answer).operation
    if not operation.ready or operation.status != message("Ydb.StatusIds").SUCCESS:
        raise CheckFailed(f"ListEndpoints came to status {operation.status}")


def _expect(head: bytes, status: bytes) -> None:
    line = head.partition(b"\r\n")[0]
    if line.split(b" ")[:2] != [b"HTTP/1.1", status]:
        raise CheckFailed(line[:100].decode("latin-1"))


async def _head(reader: StreamReader) -> bytes:
    return await reader.readuntil(b"\r\n\r\n")


@asynccontextmanager
async def _connect(place: ListenAddress) -> AsyncIterator[tuple[StreamReader, StreamWriter]]:
    context = None
    if place.trusted is not None:
        context = ssl.create_default_context(cadata=place.trusted.pem.decode("ascii"))
        # The server's certificate itself is trusted, also where its signer is not known here.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    name = None if place.trusted is None else place.trusted.name
    reader, writer = await asyncio.open_connection(place.host, place.port, ssl=context, server_hostname=name)
    try:
        yield reader, writer
    finally:
        # Aborted and not closed: closing TLS waits for the other side's close_notify, which may never come.
        writer.transport.abort()
