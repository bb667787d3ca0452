"""The HTTP gateway checks host, origin and token, and chooses the application that answers. Starlette is loaded late."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from ipaddress import ip_address
from typing import Any

import msgspec

from mayflydb.admin.problems import hint_members
from mayflydb.clock import Stopwatch
from mayflydb.engine.access_log import EndedRequest, Observer
from mayflydb.http.messages import Fields, Handler, Request, Response
from mayflydb.model.hints import Hint
from mayflydb.serving.login_pages import LINKS, LOGIN, LOGOUT, OPEN_PAGES, PAGES_PREFIX, LoginPages, is_own_page
from mayflydb.serving.logins import Logins

OWN_PREFIXES = (b"/_mayfly", b"/_explorer", b"/metrics")
"""Prefixes of paths that are never Cosmos paths."""

LIVE, READY = b"/_mayfly/live", b"/_mayfly/ready"
EVENTS = b"/_mayfly/events"
CERTIFICATES = (b"/_mayfly/cert", b"/_explorer/emulator.pem")
ALWAYS_KNOWN = ("localhost", "host.docker.internal")
MAX_REMEMBERED_HOSTS = 1024

_JSON = b"application/json"
_PROBLEM = b"application/problem+json"
_HTML = b"text/html; charset=utf-8"
_PAGE_HEADERS = (
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
)


class Hosts:
    """The names that requests may give in `Host`.

    The check defends against DNS rebinding: a page of another site resolves its own name to this server's address, and the
    browser then sends that name.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = {name.lower() for name in (*ALWAYS_KNOWN, *names)}
        self.remembered: set[bytes] = set()
        """Headers that were accepted before."""

    def is_known(self, header: bytes) -> bool:
        """Return whether a Host header is accepted: an IP address, a name without a dot, or one of the names."""
        if header in self.remembered:
            return True
        name = _host_name(header.decode("latin-1"))
        known = name in self._names or _is_address_or_plain_name(name)
        # Only accepted names are remembered, and only so many: a client chooses the header, and must not fill the memory.
        if known and len(self.remembered) < MAX_REMEMBERED_HOSTS:
            self.remembered.add(header)
        return known


def _host_name(header: str) -> str:
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    return header.partition(":")[0].lower()


def _is_address_or_plain_name(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return bool(name) and "." not in name
    return True


class Readiness(msgspec.Struct):
    """The state of a server; each part is `ok`, `off`, or a sentence about its progress or failure.

    A server with a full disk is ready: it answers reads and deletes.
    """

    clock: str
    cosmos: str = "starting"
    store: str = "opening"
    seed: str = "waiting"
    mongo: str = "off"
    ydb: str = "off"
    disk: str = "ok"

    def document(self) -> tuple[bool, dict[str, Any]]:
        """True if all parts are ready, and the document that says so."""
        ready = (self.cosmos, self.store, self.seed) == ("ok", "ok", "ok") and {self.mongo, self.ydb} <= {"ok", "off"}
        protocols = {"cosmos": self.cosmos, "mongo": self.mongo, "ydb": self.ydb}
        parts = {"protocols": protocols, "store": self.store, "disk": self.disk, "seed": self.seed, "clock": self.clock}
        return ready, {"ready": ready, **parts}


class HttpGateway:
    """The handler that the listener serves. `open` it when the applications behind it can answer."""

    def __init__(
        self, hosts: Hosts, readiness: Readiness, token: bytes | None = None, requires_tls: bool = False
    ) -> None:
        """`token`: the admin API's bearer token; None: none is needed, as on loopback.

        `requires_tls`: without TLS, only probes of readiness are answered.
        """
        self._hosts = hosts
        self._readiness = readiness
        self._token = token
        self._logins = None if token is None else LoginPages(Logins())
        self._requires_tls = requires_tls
        self._cosmos: Handler = _answer_starting
        self._portal: Callable[[], Handler] = lambda: _answer_starting
        self._health: Callable[[], Awaitable[dict[str, str]]] | None = None
        self._page = b""
        self._observer: Observer | None = None
        self._stopwatch: Stopwatch

    def observe(self, observer: Observer | None, stopwatch: Stopwatch) -> None:
        """Have requests of the admin API and the portal noted; None: they are not."""
        self._observer, self._stopwatch = observer, stopwatch

    def open(
        self,
        cosmos: Handler,
        portal: Callable[[], Handler],
        health: Callable[[], Awaitable[dict[str, str]]],
        page: str,
    ) -> None:
        """Let requests through. `portal` returns the handler of the web application, `health` the present parts of Readiness."""
        self._cosmos, self._portal, self._health, self._page = cosmos, portal, health, page.encode()

    def __call__(self, request: Request) -> Coroutine[Any, Any, Response]:
        # Not a coroutine itself: most requests go straight to the front end.
        headers, path = request.headers, request.path
        host, authorization = headers.get(b"host"), headers.get(b"authorization")
        if self._requires_tls and request.scheme == "http":
            return self._answer_without_tls(request)
        hosts = self._hosts
        if host not in hosts.remembered and (host is None or not hosts.is_known(host)):
            return self._answer_unknown_host(request, host, authorization)
        # `/` is a page for browsers, and the account for clients. A vendor's client without a key is recognised by its version
        # header, and gets Cosmos DB's own 401.
        for_cosmos = path != b"/" or authorization is not None or b"x-ms-version" in headers
        if not path.startswith(OWN_PREFIXES) and for_cosmos:
            return self._cosmos(request)
        answer = self._answer_own_paths(request, host, authorization)
        if self._observer is None or path in (LIVE, READY):
            return answer
        return self._note(self._observer, request, answer)

    async def _note(self, observer: Observer, request: Request, answer: Coroutine[Any, Any, Response]) -> Response:
        """Answer a request of the admin API, the metrics or the portal, and note it. What its query names is left out."""
        began = self._stopwatch()
        response = await answer
        protocol = "portal" if request.path in OPEN_PAGES or request.path.startswith(PAGES_PREFIX) else "admin"
        client = "" if request.peer is None else request.peer.address
        target = request.path.decode("latin-1")
        observer.note(EndedRequest(protocol, "", request.method, target, response.status, None, began, client))
        return response

    async def _answer_own_paths(self, request: Request, host: bytes, authorization: bytes | None) -> Response:
        # Against forged requests of other sites: browsers send Origin with each request that changes something.
        origin = request.headers.get(b"origin")
        if origin is not None and request.method not in ("GET", "HEAD") and not _is_same_origin(origin, host):
            return _refusal(403, "Refused", f"a page of {origin.decode('latin-1')} may not change anything here")
        if self._logins is not None and (answer := await self._answer_browser(self._logins, request, authorization)):
            return answer
        if request.path in OPEN_PAGES and _reads_pages(request) and self._is_admitted(authorization):
            return await self._portal()(request)
        return await self._answer(request, authorization)

    async def _answer_browser(
        self, logins: LoginPages, request: Request, authorization: bytes | None
    ) -> Response | None:
        """Answer what concerns logins, and the pages of a session. None for all other requests.

        A session opens the pages, and the events that they follow. The rest of the admin API takes the bearer token: a link is
        then made by its owner, and no session outlives its 12 hours by links of its own.
        """
        path = request.path
        is_followed = path == EVENTS and request.method == "GET"
        if path == LINKS and request.method == "POST" and self._is_admitted(authorization):
            return await logins.answer_links(request)
        if path == LOGIN:
            return await logins.answer_login(request)
        if (
            not (path in OPEN_PAGES or path.startswith(PAGES_PREFIX) or is_followed)
            or authorization is not None
            or path in CERTIFICATES
        ):
            return None
        role = logins.role_of(request)
        if role is None:
            return logins.invite(request) if _reads_pages(request) and request.method in ("GET", "HEAD") else None
        if not is_own_page(request):
            return _refusal(403, "Refused", "a session is used by pages of this address alone")
        if path == LOGOUT and request.method == "POST":
            return logins.answer_logout(request)
        if role == "read-only" and request.method not in ("GET", "HEAD"):
            return _refusal(403, "Refused", "this session is read-only", "mayfly token --role admin")
        request.role = role
        return await self._portal()(request)

    async def _answer(self, request: Request, authorization: bytes | None) -> Response:
        path = request.path
        if path == LIVE:
            return _response(200, b'{"live":true}')
        if path == READY:
            return await self._ready()
        if path in OPEN_PAGES and self._page:
            return _response(200, self._page, _HTML, _PAGE_HEADERS)
        if path not in CERTIFICATES and not self._is_admitted(authorization):
            challenge = ((b"www-authenticate", b"Bearer"),)
            return _refusal(401, "Not authenticated", "this server asks for a token", Hint("token"), challenge)
        return await self._portal()(request)

    async def _ready(self) -> Response:
        readiness = self._readiness
        if self._health is not None:
            readiness = msgspec.structs.replace(readiness, **await self._health())
        ready, document = readiness.document()
        retry = () if ready else ((b"retry-after", b"1"),)
        return _response(200 if ready else 503, msgspec.json.encode(document), headers=retry)

    async def _answer_without_tls(self, request: Request) -> Response:
        if request.path in (LIVE, READY) and request.method in ("GET", "HEAD"):
            return await self._answer(request, None)
        return _refusal(403, "Refused", "this server is reached over TLS alone", Hint("tls"))

    async def _answer_unknown_host(self, request: Request, host: bytes | None, authorization: bytes | None) -> Response:
        """Answer a request with an unknown Host: probes of readiness get an answer without data, all others a refusal."""
        harmless = request.path in (LIVE, READY, *CERTIFICATES, *OPEN_PAGES) and authorization is None
        if harmless and request.method in ("GET", "HEAD"):
            return await self._answer(request, None)
        name = "no host" if host is None else _host_name(host.decode("latin-1"))
        hint = f"serve with --allow-host {name}" if host else "send a Host header"
        return _refusal(403, "Refused", f"requests to {name} are not answered here", hint)

    def _is_admitted(self, authorization: bytes | None) -> bool:
        if self._token is None:
            return True
        scheme, _, token = (authorization or b"").partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._token)


def _reads_pages(request: Request) -> bool:
    """Return True if a browser sent the request. Other clients, such as container checks, get one line of text."""
    return b"text/html" in request.headers.get(b"accept", b"")


def _is_same_origin(origin: bytes, host: bytes) -> bool:
    """Return whether a page of that origin came from this server. Schemes are not compared: both are on this port."""
    return origin.partition(b"://")[2].lower() == host.lower()


async def _answer_starting(request: Request) -> Response:
    body = {"code": "ServiceUnavailable", "message": "Mayfly is starting.", "title": "Starting", "status": 503}
    return _response(503, msgspec.json.encode(body), headers=((b"retry-after", b"1"),))


def _refusal(status: int, title: str, detail: str, hint: Hint | str = "", headers: Fields = ()) -> Response:
    """A problem document that also has the members that Cosmos DB's clients read."""
    body = {
        "type": "about:blank",
        "title": title,
        "status": status,
        "detail": detail,
        **hint_members(hint),
        "code": "Forbidden" if status == 403 else "Unauthorized",
        "message": f"{detail}; {hint}" if hint else detail,
    }
    return _response(status, msgspec.json.encode(body), _PROBLEM, headers)


def _response(status: int, body: bytes, kind: bytes = _JSON, headers: Fields = ()) -> Response:
    return Response(status, body, ((b"content-type", kind), *headers))
