"""The lifecycle page of containers of all three protocols: settings by a form, and records that come back."""

from __future__ import annotations

import asyncio
import html
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
import ydb
from azure.cosmos import DatabaseProxy, PartitionKey
from msgspec import UNSET, structs

from mayflydb.embedded import RunningServer
from mayflydb.engine.lifecycle.undeletes import Undeletes
from mayflydb.expiry.lifecycle import Lifecycle
from mayflydb.expiry.undelete import Undelete
from mayflydb.model.errors import BadRequest
from mayflydb.portal.lifecycle_settings import SETTINGS, find_changes, list_titles, read_texts, write_texts
from portal.browsing import WIDE, Watched, faults
from portal.page_table import COSMOS, MONGO, YDB
from portal.test_walk import missed_stops
from portal.visitor import Page, Visitor
from served import START, Http, port_of

NOW = datetime.fromisoformat(START)
PLACES = {
    "cosmos": ("cosmos:shop/sessions", f"{COSMOS}/lifecycle"),
    "mongo": ("mongo:app.otps", f"{MONGO}/lifecycle"),
    "ydb": ("ydb:/local/carts", f"{YDB}/lifecycle"),
}
USUAL: dict[str, Any] = {
    name: list(value) if isinstance(value, tuple) else value for name, value in structs.asdict(Lifecycle()).items()
}
"""The settings of a container that has none of its own, as the admin API has them."""

protocols = pytest.mark.parametrize("protocol", list(PLACES))
in_memory = pytest.mark.parametrize("store", ["memory"], indirect=True, scope="session")


class Site:
    """A container of each protocol with a grace of an hour, and three records: one lives for 200 s, two for 100 s.

    Cosmos DB's have a default and a ttl of their own, MongoDB's and YDB's a date from which 100 s count.
    """

    def __init__(self, server: RunningServer, shop: DatabaseProxy) -> None:
        self.server, self.http, self.visitor = server, Http(port_of(server)), Visitor(port_of(server))
        self.sessions = shop.create_container("sessions", PartitionKey("/id"), default_ttl=100)
        self.client = server.mongo.client()
        self.otps = self.client["app"]["otps"]
        self.otps.create_index("at", expireAfterSeconds=100)
        self.driver = server.ydb.driver()
        self.query("DROP TABLE IF EXISTS carts")
        self.query(
            'CREATE TABLE carts (id Int64, until Timestamp, PRIMARY KEY (id)) WITH (TTL = Interval("PT100S") ON until)'
        )
        for n, life in enumerate((200, 100, 100)):
            self.sessions.create_item({"id": str(n)} | ({"ttl": 200} if life == 200 else {}))
            at = NOW + timedelta(seconds=life - 100)
            self.otps.insert_one({"_id": n, "at": at})
            self.query(f"UPSERT INTO carts (id, until) VALUES ({n}, CAST('{at:%Y-%m-%dT%H:%M:%SZ}' AS Timestamp))")
        for target, _ in PLACES.values():
            server.set_lifecycle(target, grace="1h")

    def query(self, text: str) -> list[Any]:
        with ydb.QuerySessionPool(self.driver) as pool:
            return list(pool.execute_with_retries(text))

    def ids(self, protocol: str) -> list[int]:
        """The records that the client of a protocol sees."""
        if protocol == "cosmos":
            items = self.sessions.query_items("SELECT VALUE c.id FROM c", enable_cross_partition_query=True)
            return sorted(int(str(id)) for id in items)
        if protocol == "mongo":
            return sorted(each["_id"] for each in self.otps.find())
        return [row.id for row in self.query("SELECT id FROM carts ORDER BY id")[0].rows]

    def settings(self, protocol: str) -> dict[str, Any]:
        (found,) = self.http.get(f"lifecycle?target={PLACES[protocol][0]}")["targets"]
        return {name: found[name] for name in USUAL}

    def undelete(self, protocol: str, action: str = "undelete", **fields: str) -> Page:
        return self.visitor.post(PLACES[protocol][1], {"action": action, **fields})


@pytest.fixture
def site(server: RunningServer, shop: DatabaseProxy) -> Iterator[Site]:
    made = Site(server, shop)
    yield made
    made.client.close()
    made.driver.stop()


def said(page: Page) -> str:
    return page.text("notification-console/header-status")


def save(site: Site, protocol: str, **fields: str) -> Page:
    """The form as it is shown, with other texts in some fields."""
    address = PLACES[protocol][1]
    shown = site.visitor.get(address)
    names = ("seen", "agreed", *read_texts({}))
    given = {name: shown.fields[name] for name in names if name in shown.fields}
    return site.visitor.post(address, {"action": "save", "guard": "server", **given, **fields})


# --- the table of settings ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ({}, {}),
        ({"last_image": 86_400}, {"last_image": "1d"}),
        ({"history": 3600}, {"history": "1h"}),
        ({"archive": "cold"}, {"archive": "cold"}),
        ({"roll_up": {"into": "mongo:a.b", "count": "n"}}, {"roll_up": '{"into":"mongo:a.b","count":"n"}'}),
        ({"cascade": [{"to": "mongo:a.b", "path": "c.d", "indexed": True}]}, {"cascade": "mongo:a.b=c.d"}),
        ({"cascade": [{"to": "t", "path": "/p"}, {"to": "u", "path": "/q"}]}, {"cascade": "t=/p, u=/q"}),
        ({"guard": "off"}, {"guard": "off"}),
        ({"guard": {"records": 5, "percent": 0}}, {"guard": "own", "guard_records": "5", "guard_percent": "0"}),
        ({"grace": 604_800, "touch": 300}, {"grace": "7d", "touch": "5m"}),
        ({"grace": 5400}, {"grace": "1h30m"}),
    ],
)
def test_texts_and_values(values: dict[str, Any], texts: dict[str, str]) -> None:
    written = write_texts(USUAL | values)
    assert written == write_texts(USUAL) | texts
    assert find_changes("t", USUAL | values, written) is None
    # From the usual settings, the form asks for exactly what differs.
    wanted = find_changes("t", USUAL, written)
    given = {} if wanted is None else structs.asdict(wanted)
    assert {name for name, value in given.items() if value is not UNSET} - {"target"} == values.keys()


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        ({"grace": "soon"}, "is not a duration"),
        ({"touch": "1500ms"}, "no whole number of seconds"),
        ({"grace": "1 month"}, "whose length varies"),
        ({"guard": "own", "guard_records": "5", "guard_percent": "x"}, "Guard, percent: a whole number is needed."),
        ({"guard": "own", "guard_records": "", "guard_percent": "5"}, "Guard, records: a whole number is needed."),
        ({"guard": "own", "guard_records": "0", "guard_percent": "5"}, "a guard has at least 1 record"),
        ({"guard": "own", "guard_records": "5", "guard_percent": "101"}, "0 to 100 percent"),
        ({"guard": "both"}, "Guard: the server's limits"),
        ({"roll_up": "{"}, "Roll-up: that is no JSON"),
        ({"cascade": "cosmos:shop/lines"}, "Cascades: a container, ="),
        ({"cascade": "a=b, =c"}, "Cascades: a container, ="),
    ],
)
def test_texts_that_are_no_values(texts: dict[str, str], reason: str) -> None:
    def ask() -> None:
        wanted = find_changes("t", USUAL, write_texts(USUAL) | texts)
        assert wanted is not None
        wanted.settings()

    with pytest.raises(BadRequest) as refused:
        ask()
    assert reason in refused.value.message and "`$" not in refused.value.message


def test_every_setting_is_a_row() -> None:
    assert sorted(each.name for each in SETTINGS) == sorted(Lifecycle.__struct_fields__)
    names = [field.name for each in SETTINGS for field in each.fields]
    assert len(names) == len(set(names)) and read_texts({}).keys() == set(names)
    assert list_titles(Lifecycle()) == []
    assert list_titles(Lifecycle(guard="off", touch=5)) == ["Guard", "Sliding expiry"]


# --- the form ----------------------------------------------------------------------------------------------------------


@protocols
def test_settings_are_saved_and_shown(site: Site, protocol: str) -> None:
    shown = site.visitor.get(PLACES[protocol][1])
    assert (shown.fields["grace"], shown.fields["touch"]) == ("1h", "")
    page = save(site, protocol, grace="7d", touch="5m", guard="own", guard_records="1000", guard_percent="10")
    assert "settings of" in said(page) and said(page).endswith("saved")
    assert site.settings(protocol) == USUAL | {
        "guard": {"records": 1000, "percent": 10},
        "grace": 604_800,
        "touch": 300,
    }
    assert (page.fields["grace"], page.fields["touch"], page.fields["guard_records"]) == ("7d", "5m", "1000")
    # What is not changed is not sent, and an empty field switches off.
    assert said(save(site, protocol, guard="own")) == "There was nothing to save"
    save(site, protocol, touch="", guard="off")
    assert site.settings(protocol) == USUAL | {"guard": "off", "grace": 604_800}
    overview = site.visitor.get("/_explorer/").source
    assert f'<a class="tag calm" href="{PLACES[protocol][1]}">guard</a>' in overview


@protocols
def test_settings_that_are_refused_are_shown_again(site: Site, protocol: str) -> None:
    page = save(site, protocol, grace="soon", touch="5m")
    assert (page.status, page.fields["grace"], page.fields["touch"]) == (400, "soon", "5m")
    assert "'soon' is not a duration" in page.alert_text
    assert site.settings(protocol) == USUAL | {"grace": 3600}
    # The settings were changed after the page was loaded.
    stale = site.visitor.get(PLACES[protocol][1]).fields["seen"]
    site.server.set_lifecycle(PLACES[protocol][0], touch="9s")
    page = save(site, protocol, seen=stale, grace="2h")
    assert (page.status, "changed after this page was loaded" in page.alert_text) == (412, True)
    assert site.settings(protocol) == USUAL | {"grace": 3600, "touch": 9}


@protocols
def test_a_shorter_grace_that_purges_takes_a_second_click(site: Site, protocol: str) -> None:
    site.server.clock.advance(seconds=300)
    page = save(site, protocol, grace="150s")
    assert page.status == 200 and "Saving purges 2 expired" in page.source
    assert site.settings(protocol)["grace"] == 3600
    # A grace that purges none is saved at once.
    assert said(save(site, protocol, grace="250s")).endswith("saved")
    page = save(site, protocol, grace="150s")
    agreed = page.fields["agreed"]
    # The question is about this setting alone.
    assert "Saving purges 3 expired" in save(site, protocol, grace="0s", agreed=agreed).source
    assert said(save(site, protocol, grace="150s", agreed=agreed)).endswith("saved")
    site.server.purge()
    assert site.visitor.json(f"{PLACES[protocol][1]}.json")["hidden"] == 1


# --- undelete ----------------------------------------------------------------------------------------------------------


@protocols
def test_all_expired_records_come_back(site: Site, protocol: str) -> None:
    none = site.visitor.get(PLACES[protocol][1])
    assert "that could come back" in none.text("mf-hidden") and "undelete-one" not in none.source
    site.server.clock.advance(seconds=300)
    assert site.ids(protocol) == []
    shown = site.visitor.get(PLACES[protocol][1])
    assert shown.text("mf-hidden").startswith("3 expired")
    (due,) = [part.partition('"')[0] for part in shown.source.split('href="')[1:] if part.startswith("/_explorer/due?")]
    assert "3 by deadline" in site.visitor.get(html.unescape(due)).text("mf-due")
    overview = site.visitor.get("/").source
    assert overview.count("kept by its grace") == 5 and "<dt>Purge lag of the oldest</dt><dd>none</dd>" in overview
    assert f'href="{PLACES[protocol][1]}" aria-label="3 not yet purged: undelete"' in overview
    page = site.undelete(protocol)
    assert said(page) in ("3 items came back", "3 documents came back", "3 rows came back")
    assert page.text("mf-undelete-progress").startswith("The last undelete brought 3")
    assert site.ids(protocol) == [0, 1, 2]
    twin = site.visitor.json(f"{PLACES[protocol][1]}.json")
    assert (twin["hidden"], twin["undelete"]["undeleted"], twin["undelete"]["done"]) == (0, 3, True)
    assert twin["settings"]["grace"] == 3600


@protocols
@pytest.mark.parametrize(
    ("fields", "back"),
    [
        ({"from": "2030-01-01T00:01:40"}, [0]),
        ({"from": "2030-01-01T00:01:39"}, [0, 1, 2]),
        ({"to": "2030-01-01T00:01:40"}, [1, 2]),
        ({"to": "2030-01-01T00:01:39"}, []),
        ({"from": "2030-01-01T00:03:20", "to": "2030-01-01T00:03:21"}, []),
        ({"from": "2030-01-01T00:03:19", "to": "2030-01-01T00:03:20"}, [0]),
    ],
)
def test_records_come_back_by_deadline(site: Site, protocol: str, fields: dict[str, str], back: list[int]) -> None:
    site.server.clock.advance(seconds=300)
    assert said(site.undelete(protocol, **fields)).startswith(f"{len(back)} ")
    assert site.ids(protocol) == back


def test_records_come_back_by_cause(site: Site) -> None:
    site.server.clock.advance(seconds=300)
    shown = {name: site.visitor.get(place).source for name, (_, place) in PLACES.items()}
    causes = {name: [each for each in ("default", "item", "index", "column") if f'value="{each}"' in page]
              for name, page in shown.items()}  # fmt: skip
    assert causes == {"cosmos": ["default", "item"], "mongo": ["index"], "ydb": ["column"]}
    assert said(site.undelete("cosmos", cause="item")) == "1 item came back"
    assert site.ids("cosmos") == [0]
    assert said(site.undelete("ydb", cause="column")) == "3 rows came back"


@protocols
def test_one_record_comes_back(site: Site, protocol: str) -> None:
    site.server.clock.advance(seconds=300)
    pk = {"pk": "1"} if protocol == "cosmos" else {}
    assert said(site.undelete(protocol, "undelete-one", id="1", **pk)).startswith("1 ")
    assert site.ids(protocol) == [1]
    again = site.undelete(protocol, "undelete-one", id="1", **pk)
    assert (again.status, "nothing to undelete" in again.alert_text) == (409, True)
    missing = site.undelete(protocol, "undelete-one", id="7", **({"pk": "7"} if pk else {}))
    assert (missing.status, missing.fields["id"]) == (404, "7")
    unnamed = site.undelete(protocol, "undelete-one")
    assert (unnamed.status, "Name the record" in unnamed.alert_text) == (400, True)


def test_records_that_expire_at_their_date_need_a_life(site: Site) -> None:
    site.query('ALTER TABLE carts SET (TTL = Interval("PT0S") ON until)')
    site.server.clock.advance(seconds=300)
    shown = {name: site.visitor.get(place).source for name, (_, place) in PLACES.items()}
    assert {name: 'name="life"' in page for name, page in shown.items()} == {
        "cosmos": False,
        "mongo": True,
        "ydb": True,
    }
    assert "of their TTL" in shown["mongo"] and "of their TTL" not in shown["ydb"]
    refused = site.undelete("ydb")
    assert (refused.status, "say how long they live" in refused.alert_text) == (400, True)
    short = site.undelete("ydb", life="0s", **{"from": "2030-01-01T00:00"})
    assert (short.status, short.fields["from"]) == (400, "2030-01-01T00:00")
    assert said(site.undelete("ydb", life="1m")) == "3 rows came back"
    site.server.clock.advance(seconds=59)
    assert site.ids("ydb") == [0, 1, 2]
    site.server.clock.advance(seconds=1)
    assert site.ids("ydb") == []


@in_memory
def test_an_undelete_that_goes_on_is_shown(site: Site, watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    site.server.clock.advance(seconds=300)
    run, may_begin = Undeletes._run, threading.Event()

    async def run_later(undeletes: Undeletes, container: int, wanted: Undelete) -> None:
        assert await asyncio.to_thread(may_begin.wait, 60)
        await run(undeletes, container, wanted)

    monkeypatch.setattr(Undeletes, "_run", run_later)
    assert said(site.undelete("cosmos")) == "The undelete goes on: 0 items came back so far"
    busy = site.undelete("cosmos")
    assert (busy.status, "under way" in busy.alert_text) == (409, True)
    page = watched.page(viewport=WIDE)
    page.goto(PLACES["cosmos"][1])
    page.get_by_text("An undelete is under way: 0 items came back so far.").wait_for()
    may_begin.set()
    page.get_by_text("The last undelete brought 3 items back.").wait_for()
    assert site.ids("cosmos") == [0, 1, 2]


@in_memory
def test_the_forms_are_for_everybody(site: Site, watched: Watched, axe: str) -> None:
    site.server.clock.advance(seconds=300)
    page, found = watched.page(viewport=WIDE), {}
    for protocol, (_, place) in PLACES.items():
        page.goto(place)
        found[protocol] = missed_stops(page, "content") + faults(page, axe)
    page.goto(PLACES["cosmos"][1])
    page.get_by_label("Keep for").fill("")
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_role("button", name="Save and purge 3").wait_for()
    found["a question"] = faults(page, axe)
    assert {name: what for name, what in found.items() if what} == {}
