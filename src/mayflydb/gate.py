"""The one door for HTTP: who may come in, and which application answers. Nothing of Starlette is loaded before it is needed."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from ipaddress import ip_address
from typing import Any, TypeAlias

import msgspec

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Mapping[str, Any], Receive, Send], Awaitable[None]]

OURS = (b"/_mayfly", b"/_explorer", b"/metrics")
"""Prefixes of paths that are never Cosmos paths."""

LIVE, READY = b"/_mayfly/live", b"/_mayfly/ready"
CERTIFICATES = (b"/_mayfly/cert", b"/_explorer/emulator.pem")
PAGES = (b"/", b"/_explorer/index.html")
ALWAYS_KNOWN = ("localhost", "host.docker.internal")
MOST_REMEMBERED = 1024

_JSON = b"application/json"
_PROBLEM = b"application/problem+json"
_HTML = b"text/html; charset=utf-8"
_PAGE_HEADERS = (
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
)


class Hosts:
    """Names that requests may give in `Host`: against DNS rebinding, where a page names a host of its own."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = {name.lower() for name in (*ALWAYS_KNOWN, *names)}
        self._remembered: set[bytes] = set()

    def know(self, header: bytes) -> bool:
        """IP addresses, names without a dot, and the names given."""
        if header in self._remembered:
            return True
        name = _host_name(header.decode("latin-1"))
        known = name in self._names or _plain(name)
        if known and len(self._remembered) < MOST_REMEMBERED:
            self._remembered.add(header)
        return known


def _host_name(header: str) -> str:
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    return header.partition(":")[0].lower()


def _plain(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return bool(name) and "." not in name
    return True


class Readiness(msgspec.Struct):
    """What the start has come to; each part is `ok`, `off`, or what it is doing or suffering from."""

    clock: str
    cosmos: str = "starting"
    store: str = "opening"
    seed: str = "waiting"

    def document(self) -> tuple[bool, dict[str, Any]]:
        """Whether everything is ready, and the document that says so."""
        ready = (self.cosmos, self.store, self.seed) == ("ok", "ok", "ok")
        protocols = {"cosmos": self.cosmos, "mongo": "off", "ydb": "off"}
        parts = {"protocols": protocols, "store": self.store, "seed": self.seed, "clock": self.clock}
        return ready, {"ready": ready, **parts}


class Gate:
    """The ASGI application that the listener serves. `open` it when the applications behind it can answer."""

    def __init__(self, hosts: Hosts, readiness: Readiness, token: bytes | None = None) -> None:
        """`token`: what the admin API asks for as a bearer token; None: nothing, as on loopback."""
        self._hosts = hosts
        self._readiness = readiness
        self._token = token
        self._cosmos: Application | None = None
        self._portal: Callable[[], Application] | None = None
        self._health: Callable[[], Awaitable[dict[str, str]]] | None = None
        self._page = b""

    def open(
        self,
        cosmos: Application,
        portal: Callable[[], Application],
        health: Callable[[], Awaitable[dict[str, str]]],
        page: str,
    ) -> None:
        """Let requests through: `portal` gives the portal's application, `health` what has become of parts of Readiness."""
        self._cosmos, self._portal, self._health, self._page = cosmos, portal, health, page.encode()

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        host, origin, authorization = headers.get(b"host"), headers.get(b"origin"), headers.get(b"authorization")
        path: bytes = scope["raw_path"]
        ours = path.startswith(OURS) or (path == b"/" and authorization is None)
        if host is None or not self._hosts.know(host):
            await self._answer_stranger(scope, receive, send, path, host, authorization)
        elif not ours:
            if self._cosmos is None:
                await _starting(send)
            else:
                await self._cosmos(scope, receive, send)
        elif origin is not None and scope["method"] not in ("GET", "HEAD") and not _same(origin, host):
            await _refuse(send, 403, "Refused", f"a page of {origin.decode('latin-1')} may not change anything here")
        else:
            await self._answer(scope, receive, send, path, authorization)

    async def _answer(
        self, scope: Mapping[str, Any], receive: Receive, send: Send, path: bytes, authorization: bytes | None
    ) -> None:
        if path == LIVE:
            await _send(send, 200, b'{"live":true}')
        elif path == READY:
            await self._ready(send)
        elif self._portal is None:
            await _starting(send)
        elif path in PAGES:
            await _send(send, 200, b"" if scope["method"] == "HEAD" else self._page, _HTML, _PAGE_HEADERS)
        elif path not in CERTIFICATES and not self._admitted(authorization):
            hint = "send the token that the server's log tells the place of: Authorization: Bearer ..."
            challenge = ((b"www-authenticate", b"Bearer"),)
            await _refuse(send, 401, "Not authenticated", "this server asks for a token", hint, challenge)
        else:
            await self._portal()(scope, receive, send)

    async def _ready(self, send: Send) -> None:
        readiness = self._readiness
        if self._health is not None:
            readiness = msgspec.structs.replace(readiness, **await self._health())
        ready, document = readiness.document()
        if ready:
            await _send(send, 200, msgspec.json.encode(document))
        else:
            await _send(send, 503, msgspec.json.encode(document), headers=((b"retry-after", b"1"),))

    async def _answer_stranger(
        self,
        scope: Mapping[str, Any],
        receive: Receive,
        send: Send,
        path: bytes,
        host: bytes | None,
        authorization: bytes | None,
    ) -> None:
        """A host we do not know gets what container waits look for, without data, and is told about the flag otherwise."""
        harmless = path in (LIVE, READY, *CERTIFICATES, *PAGES) and authorization is None
        if harmless and scope["method"] in ("GET", "HEAD"):
            await self._answer(scope, receive, send, path, None)
            return
        name = "no host" if host is None else _host_name(host.decode("latin-1"))
        hint = f"serve with --allow-host {name}" if host else "send a Host header"
        await _refuse(send, 403, "Refused", f"requests to {name} are not answered here", hint)

    def _admitted(self, authorization: bytes | None) -> bool:
        if self._token is None:
            return True
        scheme, _, token = (authorization or b"").partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._token)


def _same(origin: bytes, host: bytes) -> bool:
    """Whether a page of that origin came from here; either scheme is this same port."""
    return origin.partition(b"://")[2].lower() == host.lower()


async def _starting(send: Send) -> None:
    body = {"code": "ServiceUnavailable", "message": "Mayfly is starting.", "title": "Starting", "status": 503}
    await _send(send, 503, msgspec.json.encode(body), headers=((b"retry-after", b"1"),))


async def _refuse(
    send: Send, status: int, title: str, detail: str, hint: str = "", headers: tuple[tuple[bytes, bytes], ...] = ()
) -> None:
    """A problem document that also has what Cosmos clients look for."""
    body = {
        "type": "about:blank",
        "title": title,
        "status": status,
        "detail": detail,
        "hint": hint,
        "code": "Forbidden" if status == 403 else "Unauthorized",
        "message": f"{detail}; {hint}" if hint else detail,
    }
    await _send(send, status, msgspec.json.encode(body), _PROBLEM, headers)


async def _send(
    send: Send, status: int, body: bytes, kind: bytes = _JSON, headers: tuple[tuple[bytes, bytes], ...] = ()
) -> None:
    common = ((b"content-type", kind), (b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": status, "headers": [*common, *headers]})
    await send({"type": "http.response.body", "body": body})
