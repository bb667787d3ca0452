"""A server with a virtual clock per store, emptied before each test, and one browser for all of them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.cosmos import DatabaseProxy
from playwright.sync_api import Page, expect, sync_playwright

import stores
from mayflydb.embedded import RunningServer, serve
from portal.browsing import Lent, Watched
from portal.visitor import Visitor
from served import START, port_of

PATIENCE = 20_000
"""Milliseconds that something may take to appear, on a machine with other work."""

CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
"""The shell draws nothing for a screen: a page takes a fourth of the processor time that it takes in the whole browser."""


@pytest.fixture(scope="session", params=stores.STORES)
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    directory = tmp_path_factory.mktemp(f"pages-{request.param}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(directory))
        # Over plain HTTP, as the client without a certificate and the browser without its authority need it.
        place = stores.place(request.param, request, directory) | {"scheme": "http"}
        with serve(**place, port=0, clock="virtual", clock_start=START, erasure_log=True) as running:
            yield running


@pytest.fixture
def server(store: RunningServer) -> RunningServer:
    store.start_at(START)
    return store


@pytest.fixture
def visitor(server: RunningServer) -> Visitor:
    return Visitor(port_of(server))


@pytest.fixture(scope="session")
def clients() -> Iterator[dict[str, Any]]:
    """By address: making one costs some requests."""
    made: dict[str, Any] = {}
    yield made
    for client in made.values():
        client.__exit__(None, None, None)


@pytest.fixture
def shop(server: RunningServer, clients: dict[str, Any]) -> DatabaseProxy:
    """A new database, through the vendor's client."""
    url = server.cosmos.url
    if url not in clients:
        clients[url] = server.cosmos.client()
    made: DatabaseProxy = clients[url].create_database("shop")
    return made


@pytest.fixture(scope="session")
def lent() -> Iterator[Lent]:
    """The one browser, which a test borrows."""
    if CHROMIUM is None:
        pytest.skip("Chromium is missing: tools/system-packages.sh says why")
    with sync_playwright() as playwright:
        playwright.selectors.set_test_id_attribute("data-test")
        # Root may not have a sandbox, and what is shown is ours.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        lent = Lent(browser)
        expect.set_options(timeout=PATIENCE)
        yield lent
        with lent.borrowed():
            browser.close()
        lent.take_back()


@pytest.fixture
def watched(lent: Lent, server: RunningServer) -> Iterator[Watched]:
    """Pages of this server, each watched: what it complains of, or asks of others, fails the test."""
    with lent.borrowed() as browser:
        watching = Watched(browser, f"http://127.0.0.1:{port_of(server)}")
        yield watching
        watching.close()
    assert watching.complaints == []
    assert watching.strangers == []


@pytest.fixture
def page(watched: Watched) -> Page:
    return watched.page()


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe, which tools/javascript.sh installs."""
    place = Path(__file__).parents[1] / "javascript" / "node_modules" / "axe-core" / "axe.min.js"
    if not place.exists():
        pytest.skip("axe-core is missing: tools/javascript.sh says why")
    return place.read_text(encoding="utf-8")
