"""Pages of a server that asks for logins: without a session, with a link, and for a person who may only look."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import ydb
from playwright.sync_api import Page, expect

from mayflydb.embedded import RunningServer, serve
from portal.browsing import WIDE, Lent, Watched, faults
from portal.page_table import COSMOS, MONGO, PAGES, YDB, fill
from served import Http, port_of

FORM = re.compile(r'<form\b[^>]*method="post"[^>]*>')


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server on loopback that asks for logins, with records of every protocol."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("secured")))
        with serve(memory=True, port=0, secure=True, generate_key=True, clock="virtual") as server:
            with server.cosmos.client() as client:
                password = (server.cosmos.ca_file.parent / "ydb.password").read_text().strip()
                credentials = ydb.StaticCredentials.from_user_password("root", password)
                fill(client.create_database("shop"), server, credentials=credentials)
            yield server


@pytest.fixture
def browsing(lent: Lent, secured: RunningServer) -> Iterator[Watched]:
    with lent.borrowed() as browser:
        watching = Watched(browser, f"http://127.0.0.1:{port_of(secured)}")
        yield watching
        watching.close()
    assert (watching.complaints, watching.strangers) == ([], [])


def log_in(server: RunningServer, page: Page, role: str) -> None:
    page.goto(make_link(server, role))
    page.get_by_role("button", name="Log in to Mayfly").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/_explorer/")


def make_link(server: RunningServer, role: str) -> str:
    token = (server.cosmos.ca_file.parent / "admin.token").read_text().strip()
    answer = Http(port_of(server))("POST", "/_mayfly/login-links", {"role": role}, authorization=f"Bearer {token}")
    return str(answer.json["path"])


def test_the_pages_of_the_login(secured: RunningServer, browsing: Watched, axe: str) -> None:
    browsing.expected = "Failed to load resource"
    page = browsing.page(viewport=WIDE)
    found = {}
    for address in ("/", "/_explorer/clock", make_link(secured, "admin")):
        page.goto(address)
        found[address] = faults(page, axe)
    link = page.url
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**/_explorer/")
    page.get_by_test_id("mf-logout").click()
    expect(page.get_by_role("heading", name="Logged out")).to_be_visible()
    found["logged out"] = faults(page, axe)
    page.goto(link)
    page.get_by_role("button").click()
    expect(page.get_by_role("heading", name="Not logged in")).to_be_visible()
    found["used"] = faults(page, axe)
    assert {name: what for name, what in found.items() if what} == {}


def test_the_pages_of_a_person_who_may_only_look(secured: RunningServer, browsing: Watched, axe: str) -> None:
    page = browsing.page(viewport=WIDE)
    log_in(secured, page, "read-only")
    found = {}
    for route, address in PAGES.items():
        answer = page.request.get(address)
        assert answer.status == 200, route
        assert [form for form in FORM.findall(answer.text()) if "/_explorer/logout" not in form] == [], route
    for address in ("/_explorer/snapshots", "/_explorer/clock", f"{COSMOS}/items", f"{COSMOS}/settings", f"{COSMOS}/query",
                    "/_explorer/webhooks", f"{COSMOS}/lifecycle", f"{COSMOS}/items?as_of=2100-01-01T00:00",
                    f"{MONGO}/indexes", f"{YDB}/rows", f"{YDB}/new"):  # fmt: skip
        page.goto(address)
        found[address] = faults(page, axe)
    assert {name: what for name, what in found.items() if what} == {}
