"""The clock's page and the snapshots' page, by forms alone."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from azure.cosmos import DatabaseProxy, PartitionKey

from mayflydb.embedded import RunningServer, serve
from portal.visitor import Visitor
from served import START, port_of

in_memory = pytest.mark.parametrize("store", ["memory"], indirect=True, scope="session")
SAID = "notification-console/header-status"
CLOCK, SNAPSHOTS = "/_explorer/clock", "/_explorer/snapshots"


@in_memory
def test_the_clock_is_moved(shop: DatabaseProxy, visitor: Visitor) -> None:
    container = shop.create_container("sessions", PartitionKey("/pk"), default_ttl=5400)
    container.create_item({"id": "one", "pk": "a"})
    shown = visitor.get(CLOCK)
    face = shown.text("mf-face")
    assert face.startswith("Virtual clock, frozen, ") and face.endswith(" from the host's 2030-01-01 00:00:00Z")
    assert "1 h 30 min 2030-01-01 01:30:00Z cosmos:shop/sessions one" in shown.text("mf-next")
    done = visitor.post(CLOCK, {"by": "advance", "duration": "1h", "back": CLOCK})
    assert done.text(SAID) == "Advanced 1 h: 0 expired, 0 purged" and "01:00:00Z" in done.text("mf-face")
    done = visitor.post(CLOCK, {"by": "set", "to": "2030-01-01T01:30:00", "back": CLOCK})
    assert done.text(SAID) == "Advanced 30 min: 1 expired, 1 purged" and "mf-next" not in done.texts
    for fields, status, said in (
        ({"by": "advance", "duration": "soon"}, 400, "'soon' is not a duration"),
        ({"by": "set", "to": "tomorrow"}, 400, "is not a time"),
        ({"by": "set", "to": "2030-01-01T00:00"}, 409, "that is in the past"),
        ({"by": "set", "to": "2029-01-01T00:00:00"}, 409, "later than 2029-01-01"),
    ):
        refused = visitor.post(CLOCK, fields)
        assert refused.status == status and said in refused.text("alert")
    assert visitor.json(f"{CLOCK}.json")["now"] == "2030-01-01T01:30:00Z"


@in_memory
def test_fractions_of_a_deadline_are_shown(server: RunningServer, visitor: Visitor) -> None:
    with server.mongo.client() as client:
        client.app.otps.create_index("at", expireAfterSeconds=0)
        client.app.otps.insert_one({"_id": "one", "at": server.clock.now() + timedelta(milliseconds=60_500)})
    shown = visitor.get(CLOCK).text("mf-next")
    assert "1 min 2030-01-01 00:01:00.500000Z mongo:app.otps one" in shown, shown
    assert "2030-01-01 00:01:00.500000Z" in visitor.get("/_explorer/due").source


def test_a_snapshot_leads_back(tmp_path: Path) -> None:
    with serve(tmp_path / "time.db", scheme="http", port=0, clock="virtual", clock_start=START) as server:
        visitor = Visitor(port_of(server))
        _check_the_way_back(server, visitor)


def _check_the_way_back(server: RunningServer, visitor: Visitor) -> None:
    assert "There is no snapshot yet" in visitor.get(SNAPSHOTS).source
    assert visitor.post(SNAPSHOTS, {"action": "save", "name": "../up"}).status == 400
    saved = visitor.post(SNAPSHOTS, {"action": "save", "name": "monday"})
    assert saved.text(SAID) == "Saved snapshot monday of 2030-01-01 00:00:00Z"
    visitor.post(CLOCK, {"by": "advance", "duration": "1h"})
    assert "Undo by snapshot before-advance" in visitor.get(CLOCK).source
    asked = visitor.post(SNAPSHOTS, {"action": "restore", "name": "before-advance"})
    assert "is replaced by snapshot before-advance" in asked.text("mf-question")
    assert server.clock.now().hour == 1
    done = visitor.post(SNAPSHOTS, {"action": "restore-for-good", "name": "before-advance"})
    assert done.text(SAID) == "Restored snapshot before-advance: it is 2030-01-01 00:00:00Z"
    assert "mf-question" in visitor.post(SNAPSHOTS, {"action": "delete", "name": "monday"}).texts
    assert visitor.post(SNAPSHOTS, {"action": "delete-for-good", "name": "monday"}).text(SAID).startswith("Deleted")
    assert [row["name"] for row in visitor.json(f"{SNAPSHOTS}.json")["snapshots"]] == ["before-advance"]
    assert visitor.post(SNAPSHOTS, {"action": "restore-for-good", "name": "none"}).status == 404
