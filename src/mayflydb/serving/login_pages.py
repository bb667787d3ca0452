"""The log-in of browsers: its pages, its cookie, and the operation that makes a link."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qs

import msgspec

from mayflydb.admin.answers import LoginLink
from mayflydb.admin.requests import LoginLinkWish
from mayflydb.http.messages import Fields, Request, Response
from mayflydb.model.errors import TooLarge
from mayflydb.model.instant import MINUTE, SECOND
from mayflydb.serving.logins import LINK_LIFE, SESSION_LIFE, Logins, Role

LOGIN: Final = b"/_explorer/login"
LOGOUT: Final = b"/_explorer/logout"
LINKS: Final = b"/_mayfly/login-links"
OPEN_PAGES: Final = (b"/", b"/_explorer/index.html")
PAGES_PREFIX: Final = b"/_explorer/"

MAX_BODY: Final = 4096
_SECRET = re.compile(r"[A-Za-z0-9_-]{43}")
_HEADERS: Final[Fields] = (
    (b"content-type", b"text/html; charset=utf-8"),
    (
        b"content-security-policy",
        b"default-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    # Under `no-referrer` browsers send `Origin: null` with the form. Other sites get no address at all.
    (b"referrer-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
_HOW: Final = (
    "<p>This server asks for a login. Its administrator prints a link, which is valid once, for 5 minutes:</p>"
    "<p><code>mayfly --url {url} token</code></p>"
    "<p>For a person who may look but change nothing:</p>"
    "<p><code>mayfly --url {url} token --role read-only</code></p>"
)


class LoginPages:
    """Answers the requests about logins. The gateway has checked Host, Origin and, for links, the bearer token."""

    def __init__(self, logins: Logins) -> None:
        self._logins = logins

    def role_of(self, request: Request) -> Role | None:
        """Return the role of the session whose cookie a request carries; None without one."""
        secret = _read_cookie(request)
        return None if secret is None else self._logins.role_of(secret)

    def invite(self, request: Request) -> Response:
        """Return the page that says how to log in."""
        # Waits of containers ask for these pages, and take no other status.
        status = 200 if request.path in OPEN_PAGES else 401
        return _page(status, "Log in", _HOW.format(url=_address(request)), ((b"www-authenticate", b"Bearer"),))

    async def answer_login(self, request: Request) -> Response:
        """Answer a link with a page with one button, and the button with a session.

        GET uses no link up: programs that look at links in mails and chats would. The button's request comes from this origin,
        so that the browser sends the strict cookie with the page that follows.
        """
        if request.method in ("GET", "HEAD"):
            link = parse_qs(request.query.decode("latin-1")).get("link", [""])[-1]
            return self._ask(link) if _SECRET.fullmatch(link) else self.invite(request)
        if request.method != "POST":
            return _page(405, "Method not allowed", "")
        origin = request.headers.get(b"origin")
        if origin is None:
            return _page(403, "Refused", "<p>A login is sent by the page of its link.</p>")
        body = await _read_small(request)
        link = parse_qs(body.decode("latin-1")).get("link", [""])[-1]
        session = self._logins.begin(link)
        if session is None:
            text = "<p>The link is unknown, was used, or is older than 5 minutes.</p>"
            return _page(403, "Not logged in", text + _HOW.format(url=_address(request)))
        # A session that was there before ends: a new one never takes over its name.
        self._end(request)
        cookie = _write_cookie(request, origin, session, SESSION_LIFE // SECOND)
        return Response(
            303, b"", ((b"location", b"/_explorer/"), (b"set-cookie", cookie), (b"cache-control", b"no-store"))
        )

    def answer_logout(self, request: Request) -> Response:
        """End the session, and let the browser forget its cookie."""
        self._end(request)
        cookie = _write_cookie(request, request.headers.get(b"origin", b""), "", 0)
        return _page(200, "Logged out", _HOW.format(url=_address(request)), ((b"set-cookie", cookie),))

    async def answer_links(self, request: Request) -> Response:
        """Make a link, for the bearer of the admin token."""
        try:
            wish = msgspec.json.decode(await _read_small(request) or b"{}", type=LoginLinkWish)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            document = {"type": "about:blank", "title": "Bad request", "status": 400, "detail": str(error)}
            return Response(400, msgspec.json.encode(document), ((b"content-type", b"application/problem+json"),))
        path = f"{LOGIN.decode()}?link={self._logins.create_link(wish.role)}"
        made = LoginLink(path, wish.role, LINK_LIFE // SECOND)
        headers = ((b"content-type", b"application/json"), (b"cache-control", b"no-store"))
        return Response(200, msgspec.json.encode(made), headers)

    def _ask(self, link: str) -> Response:
        form = (
            f'<form method="post" action="{LOGIN.decode()}"><input type="hidden" name="link" value="{link}">'
            f"<button>Log in to Mayfly</button></form><p>The link is valid once, for {LINK_LIFE // MINUTE} minutes.</p>"
        )
        return _page(200, "Log in", form)

    def _end(self, request: Request) -> None:
        secret = _read_cookie(request)
        if secret is not None:
            self._logins.end(secret)


async def _read_small(request: Request) -> bytes:
    """Return the body. Of a body that is too large, its size alone counts: no link and no JSON is that long."""
    try:
        return await request.read(MAX_BODY)
    except TooLarge:
        return b"too large"


def is_own_page(request: Request) -> bool:
    """Return whether a page of this origin, or the person at the browser, sent a request with a cookie.

    A strict cookie is sent for pages of other ports of the same host too, and for pages of http to https.
    """
    headers, origin = request.headers, request.headers.get(b"origin")
    if origin is not None:
        scheme, _, host = origin.partition(b"://")
        # Behind a proxy that ends TLS the scheme is http here, and https in the browser.
        if host.lower() != headers.get(b"host", b"").lower() or (request.scheme == "https" and scheme != b"https"):
            return False
    if request.method not in ("GET", "HEAD"):
        return origin is not None
    site = headers.get(b"sec-fetch-site", b"none")
    return site in (b"none", b"same-origin") or headers.get(b"sec-fetch-mode") == b"navigate"


def _cookie_names(request: Request) -> tuple[str, ...]:
    """Return the names that the cookie may have: browsers share cookies between ports, so the port is part of them.

    Browsers take a cookie whose name begins with `__Host-` over TLS alone, and from this host alone.
    """
    host = request.headers.get(b"host", b"").decode("latin-1")
    port = host.rpartition(":")[2]
    name = f"mayfly-session-{port}" if port.isdigit() else "mayfly-session"
    return (f"__Host-{name}",) if request.scheme == "https" else (f"__Host-{name}", name)


def _read_cookie(request: Request) -> str | None:
    """Return the secret of the session. None if there is none, or several: one of them may be planted."""
    names = _cookie_names(request)
    sent = request.headers.get(b"cookie", b"").decode("latin-1")
    pairs = [each.strip().partition("=") for each in sent.split(";")]
    found = [value for name, _, value in pairs if name in names]
    return found[0] if len(found) == 1 and _SECRET.fullmatch(found[0]) else None


def _write_cookie(request: Request, origin: bytes, secret: str, seconds: int) -> bytes:
    secure, *plain = _cookie_names(request)
    is_encrypted = not plain or origin.startswith(b"https://")
    kind = "; Secure" if is_encrypted else ""
    name = secure if is_encrypted else plain[0]
    return f"{name}={secret}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{kind}".encode("latin-1")


def _address(request: Request) -> str:
    host = request.headers.get(b"host", b"").decode("latin-1")
    # The name was accepted before, and is shown only if it needs no escapes.
    return f"{request.scheme}://{host}" if re.fullmatch(r"[\w.:\[\]-]+", host, re.ASCII) else "URL"


def _page(status: int, title: str, content: str, headers: Fields = ()) -> Response:
    text = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title} - Mayfly</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"></head><body><main><h1>{title}</h1>{content}</main></body></html>'
    )
    return Response(status, text.encode(), (*_HEADERS, *headers))
