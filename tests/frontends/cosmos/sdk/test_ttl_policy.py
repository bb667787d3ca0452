"""Another `defaultTtl` counts from its commit on, for every item, and rewrites none of them."""

from __future__ import annotations

from typing import Any

import pytest

from frontends.cosmos.service import Service, everywhere, status_of

pytestmark = everywhere

OFF = None
NOW = 600
"""Seconds after the items were written; nothing is purged in between."""

# id, default before, default after, own ttl (... absent), there at NOW before the change, there after it,
# then the second at which it dies (None: never)
CHANGES: list[tuple[str, int | None, int | None, Any, bool, bool, int | None]] = [
    ("P1", 1000, 500, ..., True, False, 500),
    ("P2", 500, 1000, ..., False, True, 1000),
    ("P3", 500, OFF, ..., False, True, None),
    ("P3-own", 500, OFF, 20, False, True, None),
    ("P4", 500, -1, ..., False, True, None),
    ("P4-own", 500, -1, 20, False, False, 20),
    ("P5-500", OFF, 500, ..., True, False, 500),
    ("P5-1000", OFF, 1000, ..., True, True, 1000),
    ("P6", OFF, -1, 20, True, False, 20),
    ("P6-text", OFF, -1, "x", True, True, None),
    ("off-on-ignored", OFF, 500, "x", True, False, 500),
    ("own outlives", 1000, 500, 700, True, True, 700),
    ("own is never", 1000, 500, -1, True, True, None),
    ("off, never", OFF, 500, -1, True, True, None),
]


@pytest.mark.parametrize(
    ("name", "before", "after", "own", "there", "still", "dies"), CHANGES, ids=[row[0] for row in CHANGES]
)
def test_changes(
    service: Service,
    name: str,
    before: int | None,
    after: int | None,
    own: Any,
    there: bool,
    still: bool,
    dies: int | None,
) -> None:
    proxy = service.container(before)
    item = proxy.create_item({"id": "1", "pk": "p"} | ({} if own is ... else {"ttl": own}))
    service.at(NOW)

    def visible() -> bool:
        found = list(proxy.query_items("SELECT * FROM c", partition_key="p"))
        assert status_of(proxy.read_item, "1", "p") == (200 if found else 404)
        assert found in ([], [item]), "no change of the container touches an item"
        return bool(found)

    assert visible() == there
    service.set_default_ttl(proxy, after)
    assert visible() == still
    if still:
        for second in (max(NOW, 999), 1000) if dies is None else (dies - 1, dies):
            service.at(second)
            assert visible() == (dies is None or second < dies)


def test_the_old_rule_back_again(service: Service) -> None:
    """Nobody purged, so what a rule hid comes back with the rule before."""
    proxy = service.container(1000)
    item = proxy.create_item({"id": "1", "pk": "p"})
    service.at(NOW)
    seen = []
    for default in (500, 1000, OFF, 500, -1):
        service.set_default_ttl(proxy, default)
        seen.append(list(proxy.read_all_items()))
    assert seen == [[], [item], [item], [], [item]]


def test_purged_items_do_not_come_back(service: Service) -> None:
    proxy = service.container(500)
    proxy.create_item({"id": "1", "pk": "p"})
    service.at(NOW)
    service.server.purge()
    for default in (1000, OFF, -1):
        service.set_default_ttl(proxy, default)
        assert list(proxy.read_all_items()) == []


def test_ttl_off_purges_nothing(service: Service) -> None:
    proxy = service.container(500)
    proxy.create_item({"id": "1", "pk": "p", "ttl": 10})
    service.set_default_ttl(proxy, OFF)
    service.server.clock.advance(seconds=NOW)
    assert service.server.purge()["purged"] == 0
    assert status_of(proxy.read_item, "1", "p") == 200


def test_a_new_rule_purges_the_overdue(service: Service) -> None:
    proxy = service.container(OFF)
    for n in range(30):
        proxy.create_item({"id": str(n), "pk": str(n % 3)})
    service.at(NOW)
    service.set_default_ttl(proxy, 500)
    assert service.server.purge()["purged"] == 30
    assert len(service.server.events.expired) == 30


def test_a_patch_meets_the_rule_of_its_own_time(service: Service) -> None:
    """An invalid ttl was stored while ttl was off: a write after it came on must correct it, others may not keep it."""
    proxy = service.container(OFF)
    proxy.create_item({"id": "1", "pk": "p", "ttl": "x"})
    service.set_default_ttl(proxy, 1000)
    assert status_of(proxy.patch_item, "1", "p", [{"op": "set", "path": "/n", "value": 1}]) == 400
    assert status_of(proxy.patch_item, "1", "p", [{"op": "set", "path": "/ttl", "value": 5}]) == 200
    service.at(5)
    assert status_of(proxy.read_item, "1", "p") == 404
