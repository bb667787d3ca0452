"""The pictures of the documentation: `MAYFLY_PICTURES=docs/pictures` writes them there, another run into its own directory."""

from __future__ import annotations

import os
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from azure.cosmos import DatabaseProxy, PartitionKey
from playwright.sync_api import Page

from mayflydb.embedded import RunningServer
from portal.browsing import Watched

ydb: Any = pytest.importorskip("ydb")

DOCS = Path(__file__).parents[2] / "docs"
SESSIONS = "/_explorer/cosmos/shop/sessions"
WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 390, "height": 800}


@pytest.fixture
def week(shop: DatabaseProxy, server: RunningServer) -> None:
    """A shop with sessions, one-time codes and carts, some of which die soon."""
    sessions = shop.create_container("sessions", PartitionKey("/user"), default_ttl=7200)
    for number in range(24):
        own = {} if number % 3 else {"ttl": 300 * (number + 1)}
        sessions.create_item({"id": f"s{number}", "user": ("ada", "ben", "cleo")[number % 3], "visits": number, **own})
    now = server.clock.now()
    with server.mongo.client() as client:
        client.app.codes.create_index("until", expireAfterSeconds=0, name="until")
        client.app.codes.create_index("user")
        client.app.codes.insert_many(
            [{"_id": n, "user": f"u{n}", "until": now + timedelta(minutes=7 * n)} for n in range(1, 20)]
        )
    with server.ydb.driver() as driver, ydb.QuerySessionPool(driver) as pool:
        pool.execute_with_retries("DROP TABLE IF EXISTS carts")
        pool.execute_with_retries(
            "CREATE TABLE carts (id Uint64 NOT NULL, owner Utf8, until Timestamp, PRIMARY KEY (id))"
            ' WITH (TTL = Interval("PT1H") ON until)'
        )
        rows = ", ".join(f"({n}, 'u{n}', CurrentUtcTimestamp() + Interval('PT{n}M'))" for n in range(1, 20))
        pool.execute_with_retries(f"UPSERT INTO carts (id, owner, until) VALUES {rows}")
    server.set_lifecycle("cosmos:shop/sessions", grace="7d")
    server.clock.advance(minutes=12)


def run_query(page: Page, text: str) -> None:
    page.get_by_test_id("QueryTab").locator("textarea").first.fill(text)
    page.get_by_role("button", name="Execute Query").click()


@pytest.mark.parametrize("store", ["memory"], indirect=True, scope="session")
def test_each_picture_of_the_documentation(week: None, watched: Watched, tmp_path: Path) -> None:
    directory = Path(os.environ.get("MAYFLY_PICTURES", tmp_path))
    taken: set[str] = set()

    def take(page: Page, name: str) -> None:
        # The fonts and the plots of a page are drawn with the next frames.
        page.wait_for_load_state("networkidle")
        page.screenshot(path=directory / f"portal-{name}.png")
        taken.add(f"portal-{name}.png")

    page = watched.page(viewport=WIDE, color_scheme="light")
    for name, address in {
        "overview": "/_explorer/",
        "items": f"{SESSIONS}/items",
        "item": f"{SESSIONS}/item?id=s9&pk=%22ada%22",
        "indexes": "/_explorer/mongo/app/codes/indexes",
        "rows": "/_explorer/ydb/local/carts/rows",
        "as-of": f"{SESSIONS}/items?as_of=2030-01-01T01:00:00",
        "lifecycle": f"{SESSIONS}/lifecycle",
    }.items():
        page.goto(address)
        take(page, name)
    page.goto(f"{SESSIONS}/settings")
    page.get_by_test_id("ttl-input").fill("600")
    page.get_by_test_id("mf-ttl-preview").filter(has_text="would expire now").wait_for()
    take(page, "settings")
    dark = watched.page(viewport=WIDE, color_scheme="dark")
    dark.goto("/_explorer/")
    take(dark, "dark")
    phone = watched.page(viewport=NARROW, color_scheme="light")
    phone.goto(f"{SESSIONS}/items")
    take(phone, "phone")
    shown = set(re.findall(r"pictures/(portal-[\w-]+\.png)", (DOCS / "portal.md").read_text(encoding="utf-8")))
    assert shown == taken
    assert [name for name in taken if not (DOCS / "pictures" / name).exists()] == []
