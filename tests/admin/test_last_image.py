"""The last image of an expired record in the events about it, for all three protocols."""

from __future__ import annotations

import http.client
import json
from typing import Any

from admin.three_protocols import TARGETS, Site

IMAGES = {
    "cosmos": {"id": "1", "text": "äö" * 10},
    "mongo": {"_id": 1, "at": {"$date": "2030-01-01T00:00:00Z"}},
    "ydb": {"id": 1, "until": "2030-01-01T00:00:00Z"},
}


def read_events(site: Site, after: int, number: int) -> list[dict[str, Any]]:
    """The data of so many expiries behind a number, as the stream has them."""
    connection = http.client.HTTPConnection("127.0.0.1", site.http.port, timeout=60)
    found: list[dict[str, Any]] = []
    try:
        connection.request("GET", f"/_mayfly/events?types=expired&after={after}")
        answer = connection.getresponse()
        while len(found) < number:
            line = answer.readline()
            if line.startswith(b"data: "):
                found.append(json.loads(line[6:]))
    finally:
        connection.close()
    return found


def test_events_have_the_last_image_where_the_container_keeps_it(site: Site) -> None:
    for target in TARGETS.values():
        assert site.http.post("lifecycle", target=target, last_image="1d")["last_image"] == 86400
    site.server.clock.advance(hours=2)
    images = {(event["target"], event["id"]): event["image"] for event in read_events(site, 0, 9)}
    assert {name: images[target, "1"] for name, target in TARGETS.items()} == IMAGES


def test_without_the_setting_an_event_has_no_image(site: Site) -> None:
    site.server.clock.advance(hours=2)
    assert all("image" not in event for event in read_events(site, 0, 9))


def test_an_image_that_is_no_longer_kept_is_null(site: Site) -> None:
    site.server.clock.advance(hours=2)
    for target in TARGETS.values():
        site.http.post("lifecycle", target=target, last_image="1d")
    assert [event["image"] for event in read_events(site, 0, 9)] == [None] * 9
