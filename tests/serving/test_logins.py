"""Logins of browsers, as an attacker tries them: links, sessions, origins, roles, and paths that look alike."""

from __future__ import annotations

import http.client
import json
import logging
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from azure.cosmos import PartitionKey
from click.testing import CliRunner

from mayflydb.announcement import StartFailed
from mayflydb.cli.main import mayfly
from mayflydb.embedded import RunningServer, serve
from mayflydb.model.instant import HOUR, MINUTE
from mayflydb.serving import logins
from mayflydb.serving.logins import Logins
from served import Answer, port_of

SECURE: dict[str, Any] = {"memory": True, "port": 0, "secure": True, "generate_key": True, "clock": "virtual"}
FORM = "application/x-www-form-urlencoded"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server on loopback that asks for logins, on http and https."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("secured")))
        with serve(**SECURE) as server:
            yield server


class Browser:
    """Sends requests over http or https, with the headers that are given."""

    def __init__(self, server: RunningServer, scheme: str = "http") -> None:
        self.host = f"127.0.0.1:{port_of(server)}"
        self.origin = f"{scheme}://{self.host}"
        self._directory = server.cosmos.ca_file.parent
        self._scheme = scheme
        self.cookie = ""

    def __call__(self, method: str, path: str, body: bytes | None = None, **headers: str | None) -> Answer:
        given: dict[str, str | None] = {"accept": "text/html", "cookie": self.cookie or None}
        if method == "POST":
            given |= {"origin": self.origin, "content-type": FORM}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        address = self.host
        connection = http.client.HTTPConnection(address, timeout=60)
        if self._scheme == "https":
            context = ssl.create_default_context(cafile=str(self._directory / "ca.pem"))
            connection = http.client.HTTPSConnection(address, timeout=60, context=context)
        sent = {name: value for name, value in given.items() if value is not None}
        connection.request(method, path, body, sent)
        answer = connection.getresponse()
        found = {name.lower(): value for name, value in answer.getheaders()}
        done = Answer(answer.status, found, answer.read())
        connection.close()
        return done

    def bearer(self) -> str:
        return f"Bearer {(self._directory / 'admin.token').read_text().strip()}"

    def link(self, role: str = "admin") -> str:
        """The secret of a new link."""
        body = json.dumps({"role": role}).encode()
        answer = self("POST", "/_mayfly/login-links", body, authorization=self.bearer(), origin=None)
        assert answer.status == 200, answer
        return str(answer.json["path"]).partition("?link=")[2]

    def use(self, link: str, **headers: str | None) -> Answer:
        return self("POST", "/_explorer/login", urlencode({"link": link}).encode(), **headers)

    def login(self, role: str = "admin") -> str:
        """Log in; return the cookie's attributes."""
        answer = self.use(self.link(role))
        assert (answer.status, answer.headers["location"]) == (303, "/_explorer/"), answer
        self.cookie, _, attributes = answer.headers["set-cookie"].partition("; ")
        return attributes


@pytest.fixture
def browser(secured: RunningServer) -> Browser:
    return Browser(secured)


def test_the_command_prints_a_link_that_logs_in_once(secured: RunningServer, browser: Browser) -> None:
    place = secured.cosmos.ca_file.parent / "admin.token"
    arguments = ["--url", browser.origin, "--token-file", str(place), "token", "--role", "read-only", "-o", "json"]
    made = CliRunner().invoke(mayfly, arguments)
    told = json.loads(made.output)
    assert (told["role"], told["valid_seconds"]) == ("read-only", 300)
    path = told["link"].removeprefix(browser.origin)
    for _ in range(2):
        page = browser("GET", path)
        assert page.status == 200 and b"Log in to Mayfly" in page.body and "set-cookie" not in page.headers
    link = path.partition("=")[2]
    assert browser.use(link).status == 303
    used = browser.use(link)
    assert used.status == 403 and b"was used" in used.body and "set-cookie" not in used.headers


def test_a_browser_without_a_session_is_told_how_to_log_in(browser: Browser) -> None:
    for path in ("/", "/_explorer/", "/_explorer/index.html", "/_explorer/login", "/_explorer/login?link=%22%3E"):
        page = browser("GET", path)
        wanted = 200 if path in ("/", "/_explorer/index.html") else 401
        assert page.status == wanted and b"mayfly --url" in page.body and b"%22" not in page.body
    # Probes and programs get what they got.
    assert browser("GET", "/", accept="*/*").status == 200
    assert browser("GET", "/_explorer/x.json", accept="*/*").headers["content-type"] == "application/problem+json"


def test_a_session_opens_pages_until_the_log_out(browser: Browser) -> None:
    attributes = browser.login()
    assert attributes == "Path=/; HttpOnly; SameSite=Strict; Max-Age=43200"
    page = browser("GET", "/_explorer/")
    assert page.status == 200 and b"mf-logout" in page.body and b"mf-advance:+1 h" in page.body
    assert browser("POST", "/_explorer/clock", b"by=%2B1+min&back=/_explorer/").status == 303
    out = browser("POST", "/_explorer/logout", b"")
    assert out.status == 200 and "Max-Age=0" in out.headers["set-cookie"]
    assert browser("GET", "/_explorer/").status == 401


def test_over_tls_the_cookie_is_bound_to_the_host(secured: RunningServer) -> None:
    browser = Browser(secured, "https")
    assert browser.login().endswith("; Secure") and browser.cookie.startswith("__Host-")
    assert browser("GET", "/_explorer/").status == 200
    # A page of http at the same host could have been forged on the way.
    plain = browser.origin.replace("https", "http")
    assert browser("POST", "/_explorer/clock", b"by=next", origin=plain).status == 403


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("POST", {"origin": None}),
        ("POST", {"origin": "null"}),
        ("POST", {"origin": "http://127.0.0.1:1"}),
        ("POST", {"origin": "http://evil.example"}),
        ("GET", {"origin": "http://127.0.0.1:1"}),
        ("GET", {"sec_fetch_site": "same-site", "sec_fetch_mode": "cors"}),
        ("GET", {"sec_fetch_site": "cross-site", "sec_fetch_mode": "no-cors"}),
    ],
)
def test_a_session_serves_no_other_origin(browser: Browser, method: str, headers: dict[str, Any]) -> None:
    browser.login()
    body = b"by=next" if method == "POST" else None
    assert browser(method, "/_explorer/clock" if body else "/_explorer/", body, **headers).status == 403
    if method == "POST":
        assert browser("POST", "/_explorer/logout", b"", **headers).status == 403
        assert browser.use(browser.link(), **headers).status == 403
    assert browser("GET", "/_explorer/").status == 200


def test_a_read_only_session_changes_nothing(browser: Browser) -> None:
    browser.login("read-only")
    page = browser("GET", "/_explorer/")
    assert page.status == 200 and b"mf-logout" in page.body and b"mf-advance" not in page.body
    for path in ("/_explorer/clock", "/_explorer/new-container", "/_explorer/nothing", "/"):
        for method in ("POST", "PUT", "DELETE"):
            answer = browser(method, path, b"", origin=browser.origin)
            assert answer.status == 403 and "read-only" in answer.json["message"], (method, path)
    assert browser("POST", "/_explorer/logout", b"").status == 200


def test_a_read_only_session_sees_records_and_no_form(secured: RunningServer, browser: Browser) -> None:
    with secured.cosmos.client() as client:
        items = client.create_database("shop").create_container("c", partition_key=PartitionKey("/id"))
        items.create_item({"id": "a<form method=b"})
    browser.login("read-only")
    for page in ("items", "settings"):
        shown = browser("GET", f"/_explorer/cosmos/shop/c/{page}").body.decode()
        assert shown.count('method="post"') == 1 and 'action="/_explorer/logout"' in shown
        assert "<button disabled" in shown and "<button name=" not in shown
        assert page == "settings" or "a&lt;form method=b" in shown
    browser.login()
    assert "<button disabled" not in browser("GET", "/_explorer/cosmos/shop/c/items").body.decode()


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/_mayfly/info"),
        ("GET", "/metrics"),
        ("POST", "/_mayfly/reset"),
        ("POST", "/_mayfly/login-links"),
        ("POST", "/_mayfly/events"),
        ("GET", "/_mayfly/events/expired"),
        ("GET", "/_explorer"),
        ("GET", "/_explorer%2f"),
        ("GET", "/_explorer%2f..%2f_mayfly/info"),
    ],
)
def test_a_session_does_not_open_the_admin_api(browser: Browser, method: str, path: str) -> None:
    browser.login()
    assert browser(method, path, b"{}" if method == "POST" else None).status == 401
    # Below the pages such a path names no operation.
    confused = "/_explorer/.." + path
    assert browser(method, confused, b"{}" if method == "POST" else None).status == 404
    assert browser(method, confused.replace("..", "%2e%2e"), b"{}" if method == "POST" else None).status == 404


def test_pages_of_a_session_follow_events(browser: Browser) -> None:
    asked = "/_mayfly/events?nothing=1"
    assert browser("GET", asked, accept="*/*").status == 401
    browser.login("read-only")
    assert browser("GET", asked, accept="*/*").status == 400
    assert browser("GET", asked, accept="*/*", sec_fetch_site="same-site").status == 403


def test_a_planted_cookie_is_no_session(browser: Browser) -> None:
    name = f"mayfly-session-{browser.host.rpartition(':')[2]}"
    planted = f"{name}={'A' * 43}"
    browser.cookie = planted
    assert browser("GET", "/_explorer/").status == 401
    browser.login()
    own = browser.cookie
    assert own != planted
    assert browser("GET", "/_explorer/", cookie=planted).status == 401
    for both in (f"{planted}; {own}", f"{own}; {planted}"):
        assert browser("GET", "/_explorer/", cookie=both).status == 401
    # A second login ends the first session.
    browser.login()
    assert browser("GET", "/_explorer/", cookie=own).status == 401


def test_guesses_neither_use_up_nor_lock_a_link(browser: Browser) -> None:
    link = browser.link()
    for guess in (*(f"{n:043}" for n in range(20)), link[:-1], link + "A", link.swapcase(), "", "\udcff" * 3):
        assert browser("POST", "/_explorer/login", urlencode({"link": guess}, errors="replace").encode()).status == 403
    assert browser("POST", "/_explorer/login", b"link=" + b"A" * 10_000).status == 403
    assert browser.use(link).status == 303


def test_a_link_needs_the_bearer_token_and_a_role(browser: Browser) -> None:
    for wrong in (None, "Bearer wrong"):
        assert browser("POST", "/_mayfly/login-links", b"{}", authorization=wrong).status == 401
    for body in (b'{"role":"root"}', b'{"rights":1}', b"[", b"\xff", b" " * 10_000):
        assert browser("POST", "/_mayfly/login-links", body, authorization=browser.bearer()).status == 400


def test_neither_log_nor_status_has_a_secret(browser: Browser, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    link = browser.link()
    browser("GET", f"/_explorer/login?link={link}")
    answer = browser.use(link)
    session = answer.headers["set-cookie"].partition("=")[2].partition(";")[0]
    browser.cookie = answer.headers["set-cookie"].partition(";")[0]
    shown = [browser("GET", "/_explorer/").body.decode()]
    told = [browser("GET", f"/{path}", authorization=browser.bearer()) for path in ("_mayfly/info", "metrics")]
    shown += [each.body.decode() for each in told]
    for secret in (link, session):
        assert all(secret not in text for text in (*shown, caplog.text))


class Ticks:
    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


def test_links_and_sessions_end() -> None:
    ticks = Ticks()
    kept = Logins(ticks)
    old, young = kept.create_link("admin"), kept.create_link("read-only")
    ticks.now = 5 * MINUTE - 1
    session = kept.begin(young)
    assert session is not None and kept.role_of(session) == "read-only"
    ticks.now = 5 * MINUTE
    assert kept.begin(old) is None
    began = 5 * MINUTE - 1
    for hour in range(12):
        ticks.now = began + (hour + 1) * HOUR - 1 - hour
        assert kept.role_of(session) == "read-only", hour
    ticks.now = began + 12 * HOUR
    assert kept.role_of(session) is None
    idle = kept.begin(kept.create_link("admin"))
    assert idle is not None
    ticks.now += HOUR
    assert kept.role_of(idle) is None


def test_links_and_sessions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "MOST_LINKS", 3)
    monkeypatch.setattr(logins, "MOST_SESSIONS", 2)
    ticks = Ticks()
    kept = Logins(ticks)
    links = [kept.create_link("admin") for _ in range(4)]
    sessions: list[str] = []
    assert kept.begin(links[0]) is None
    for link in links[1:]:
        ticks.now += 1
        if sessions:
            assert kept.role_of(sessions[0]) == "admin"
        session = kept.begin(link)
        assert session is not None
        sessions.append(session)
    # The one that was used least recently gives way.
    assert [kept.role_of(each) for each in sessions] == ["admin", None, "admin"]


@pytest.mark.parametrize(
    ("settings", "setting", "code"),
    [
        ({"generate_key": False}, "server.secure", 4),
        ({"mongo_auth": False}, "mongo.auth", 4),
        ({"ydb_auth": False}, "ydb.auth", 4),
        ({"check_date": False}, "cosmos.check_date", 4),
        ({"drop_in": True}, "server.secure", 2),
    ],
)
def test_half_a_security_is_refused(settings: dict[str, Any], setting: str, code: int) -> None:
    with pytest.raises(StartFailed) as caught, serve(**SECURE | settings):
        pass
    assert (caught.value.setting, caught.value.exit_code) == (setting, code)


def test_secure_asks_for_logins_of_every_protocol(secured: RunningServer) -> None:
    told = secured.announcement
    assert told.key_path is not None and told.mongo_password_path is not None and told.ydb_password_path is not None
    assert Path(told.mongo_password_path).stat().st_mode & 0o077 == 0


def test_a_read_only_session_gets_no_copy_of_everything(browser: Browser) -> None:
    """A snapshot holds the credentials of users."""
    path = "/_explorer/snapshots/nosuch.snapshot"
    browser.login("read-only")
    assert browser("GET", path).status == 403
    browser.login("admin")
    assert browser("GET", path).status == 404
