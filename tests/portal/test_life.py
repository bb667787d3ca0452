"""The life of a record as a line: where its moments lie, and what the page says of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from azure.cosmos import DatabaseProxy, PartitionKey

from mayflydb.embedded import RunningServer
from mayflydb.portal.life import draw_life
from portal.visitor import Visitor

NOON = "2030-01-01T12:00:00Z"


@pytest.mark.parametrize(
    ("written", "deadline", "purge", "places", "alive_to", "waits_to", "left"),
    [
        (
            "11:00",
            "13:00",
            "13:00",
            [("written", 3), ("now", 50), ("expiry", 97), ("purge", 97)],
            97.0,
            97.0,
            "1 h",
        ),
        (
            "10:00",
            "11:00",
            "12:00",
            [("written", 3), ("expiry", 50), ("purge", 97), ("now", 97)],
            50.0,
            97.0,
            "",
        ),
        ("11:00", None, None, [("written", 3), ("now", 73)], 100.0, 100.0, ""),
        # A date before the write: the record was due when it was written.
        ("12:00", "10:00", "12:00", [("expiry", 3), ("written", 97), ("purge", 97), ("now", 97)], 3.0, 97.0, ""),
        ("12:00", None, None, [("written", 3), ("now", 3)], 100.0, 100.0, ""),
    ],
)
def test_moments_lie_by_their_times(
    written: str,
    deadline: str | None,
    purge: str | None,
    places: list[tuple[str, int]],
    alive_to: float,
    waits_to: float,
    left: str,
) -> None:
    def at(time: str | None) -> str | None:
        return None if time is None else f"2030-01-01T{time}:00Z"

    state = "alive" if deadline is None or deadline > "12:00" else "due"
    explained = {"now": NOON, "written": at(written), "deadline": at(deadline), "purge_from": at(purge), "state": state}
    line = draw_life(explained)
    assert [(each.kind, round(each.x)) for each in line.moments] == places
    assert (line.alive_to, line.waits_to, line.left) == (alive_to, waits_to, left)


@pytest.mark.parametrize("store", ["memory"], indirect=True, scope="session")
def test_the_line_on_the_pages(shop: DatabaseProxy, server: RunningServer, visitor: Visitor) -> None:
    sessions = shop.create_container("sessions", PartitionKey("/pk"), default_ttl=3600)
    sessions.create_item({"id": "s1", "pk": "a"})
    sessions.create_item({"id": "s2", "pk": "a", "ttl": -1})
    with server.mongo.client() as client:
        client.app.otps.create_index("at", expireAfterSeconds=615)
        now = server.clock.now()
        client.app.otps.insert_many([{"_id": "o1", "at": now}, {"_id": "o2", "at": now + timedelta(minutes=30)}])
    server.clock.advance("10m30s", sweep="none")
    item = "/_explorer/cosmos/shop/sessions/item?pk=%22a%22&id="
    text = visitor.get(f"{item}s1").text("mf-life")
    assert text == (
        "Written 2030-01-01 00:00:00Z Now 2030-01-01 00:10:30Z Expires 2030-01-01 01:00:00Z in 49 min 30 s"
        " Purge 2030-01-01 01:00:00Z"
    )
    assert visitor.get(f"{item}s2").text("mf-life") == "Written 2030-01-01 00:00:00Z Now 2030-01-01 00:10:30Z"
    shown = visitor.get("/_explorer/mongo/app/otps/document?id=%22o1%22")
    assert shown.text("mf-life") == (
        "Written 2030-01-01 00:00:00Z Expired 2030-01-01 00:10:15Z Now 2030-01-01 00:10:30Z Purge 2030-01-01 00:11:00Z"
    )
    explained: dict[str, Any] = visitor.json("/_explorer/mongo/app/otps/document.json?id=%22o2%22")["explanation"]
    server.clock.advance("1h")
    purged = {event.id: event.purged_at.isoformat() for event in server.events.expired}
    assert purged["o2"] == explained["purge_from"].replace("Z", "+00:00")
