"""When records are purged next, on the pages of a container: a countdown with a script, an instant without."""

from __future__ import annotations

import re

import pytest
from azure.cosmos import DatabaseProxy
from playwright.sync_api import expect

from mayflydb.embedded import RunningServer
from portal.browsing import Watched
from portal.page_table import COSMOS, MONGO, YDB, fill
from portal.visitor import Visitor
from served import Http, port_of

pytestmark = pytest.mark.parametrize("store", ["memory"], indirect=True, scope="session")
HOOK = "mf-next-run"


def test_the_next_run(shop: DatabaseProxy, server: RunningServer, visitor: Visitor) -> None:
    fill(shop, server)
    server.clock.advance(seconds=90)
    frozen = "of the clock, which is frozen."
    for address, said in (
        (f"{COSMOS}/items", "Next sweep: 2030-01-01 02:00:00Z, in 1 h 58 min"),
        (f"{MONGO}/documents", "Next pass: 2030-01-01 00:02:00Z, in 30 s"),
        (f"{MONGO}/indexes", "Next pass: 2030-01-01 00:02:00Z, in 30 s"),
    ):
        assert visitor.get(address).text(HOOK) == f"{said} {frozen}", address
    run = visitor.json(f"{YDB}/rows.json")["collection"]["next_run"].replace("T", " ")
    assert visitor.get(f"{YDB}/rows").text(HOOK).startswith(f"Next run: {run}, in ")
    assert visitor.json(f"{COSMOS}/items.json")["next_sweep"] == "2030-01-01T02:00:00Z"
    with server.mongo.client() as client:
        client.admin.command("setParameter", 1, ttlMonitorEnabled=False)
        assert HOOK not in visitor.get(f"{MONGO}/indexes").texts
        assert visitor.json(f"{MONGO}/documents.json")["collection"]["next_pass"] is None
        client.admin.command("setParameter", 1, ttlMonitorEnabled=True)
    document = visitor.get(f"{MONGO}/documents").text("DocumentsTab/DocumentsPane")
    assert " 0 s" not in document
    http = Http(port_of(server))
    http.post("ttl/pause")
    for address in (f"{COSMOS}/items", f"{MONGO}/documents", f"{YDB}/rows"):
        assert HOOK not in visitor.get(address).texts, address
    http.post("ttl/resume")


def test_it_counts_down(shop: DatabaseProxy, server: RunningServer, watched: Watched) -> None:
    fill(shop, server)
    server.clock.advance(seconds=30)
    server.clock.resume()
    page = watched.page()
    page.goto(f"{MONGO}/indexes")
    left = page.get_by_test_id(HOOK).locator("[data-deadline]")
    expect(left).to_have_text(re.compile(r"^in (2[0-8]|1\d) s$"))
    server.clock.freeze()
