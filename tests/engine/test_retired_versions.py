"""Retired versions: what has left a container is kept for as long as its lifecycle says, on every store."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from engine.site import Site, create, draft, partition_of, upsert
from mayflydb.engine.catalog import Definition, Node
from mayflydb.engine.commands import Command, Mode
from mayflydb.engine.housekeeping import INTERVAL
from mayflydb.engine.lifecycle.retired_versions import RetiredVersion, decode_version, find_version
from mayflydb.engine.snapshot import Snapshot
from mayflydb.expiry.rules import Rule, column_rule, default_rule, index_rule
from mayflydb.expiry.sweep import PurgeRequest
from mayflydb.model.instant import SECOND
from mayflydb.model.order import Order
from mayflydb.store.interface import Expiries, Scan

SLOT = 20
DEFAULT = default_rule(100)


def container_of(site: Site, *rules: Rule, history: int | None = None, **settings: Any) -> int:
    definition = Definition({}, site.now, rules=rules, history=history)
    id = site.run(site.engine.definitions.create(site.home, "kept", definition)).id
    change(site, id, **settings)
    return id


def change(site: Site, container: int, **settings: Any) -> Node:
    return site.run(
        site.engine.definitions.change_lifecycle(
            container, lambda lifecycle: msgspec.structs.replace(lifecycle, **settings), site.now
        )
    )


def purge(site: Site) -> int:
    request = PurgeRequest(site.now, site.now, "run now", override="all")
    return site.run(site.engine.reaper.sweep_due(request)).total()


def node(site: Site, container: int) -> Node:
    found = site.run(site.engine.node_by_id(container))
    assert found is not None
    return found


def retired(site: Site, container: int) -> list[RetiredVersion]:
    home = node(site, container).definition.retired
    if home is None:
        return []
    page = site.run(site.engine.store.read(Scan(home, b"", None, Order.CREATED, None, 1000)))
    return [decode_version(each) for each in page]


def dated(key: bytes, at: int) -> Command:
    new = msgspec.structs.replace(draft(key, b"v"), dates=((SLOT, at * SECOND),))
    return Command(Mode.UPSERT, partition_of(key), key, new)


def events(site: Site, container: int) -> list[Any]:
    return site.run(site.engine.store.read(Expiries(container, 0, 100)))


def test_without_a_setting_nothing_is_kept(site: Site) -> None:
    container = container_of(site, DEFAULT)
    site.write(create(b"a", b"v"), container)
    site.pass_seconds(100)
    assert (purge(site), node(site, container).definition.retired, len(events(site, container))) == (1, None, 1)


@pytest.mark.parametrize("history", [None, 3600 * SECOND])
@pytest.mark.parametrize("how", ["sweep", "replaced"])
def test_the_last_image_of_an_expired_record_is_the_record(site: Site, how: str, history: int | None) -> None:
    container = container_of(site, DEFAULT, history=history, last_image=50)
    before = site.write(create(b"a", b"first", 60), container).record
    site.pass_seconds(60)
    if how == "sweep":
        assert purge(site) == 1
    else:
        site.write(create(b"a", b"second"), container)
    (event,) = events(site, container)
    found = site.run(find_version(site.engine.store, node(site, container), (before.partition, b"a"), event.lsn))
    assert found == RetiredVersion(before, "expired", site.now, event.lsn, None, 1)
    assert event.version == before.lsn


@pytest.mark.parametrize("anchor", [0, (1 << 62) + 1, (1 << 80), -(1 << 70)])
def test_every_anchor_and_date_comes_back_as_it_was(site: Site, anchor: int) -> None:
    container = container_of(site, index_rule(0, SLOT, True), last_image=50)
    new = msgspec.structs.replace(draft(b"a", b"v"), dates=((SLOT, site.now),), anchor=anchor)
    before = site.write(Command(Mode.UPSERT, partition_of(b"a"), b"a", new), container).record
    assert purge(site) == 1
    assert [each.record for each in retired(site, container)] == [before]


def test_deletes_and_replaces_by_clients_leave_no_image(site: Site) -> None:
    container = container_of(site, DEFAULT, last_image=50)
    site.write(create(b"a", b"v"), container)
    site.write(upsert(b"a", b"w"), container)
    site.write(Command(Mode.DELETE, partition_of(b"a"), b"a"), container)
    assert retired(site, container) == []


def test_an_image_goes_when_its_time_is_over(site: Site) -> None:
    container = container_of(site, DEFAULT, last_image=300)
    for number in range(600):
        site.write(create(b"%d" % number, b"v"), container)
    site.pass_seconds(100)
    assert purge(site) == 600
    for seconds, left in ((299, 600), (1, 0)):
        site.pass_seconds(seconds)
        site.engine.reaper._housekeeping._forgotten_at = -INTERVAL
        while site.run(site.engine.reaper._housekeeping.forget_old(site.now)):
            pass
        assert len(retired(site, container)) == left


def test_a_dropped_container_takes_its_images_along(site: Site) -> None:
    container = container_of(site, DEFAULT, last_image=300)
    site.write(create(b"a", b"v"), container)
    site.pass_seconds(100)
    purge(site)
    home = node(site, container).definition.retired
    assert home is not None
    site.run(site.engine.definitions.drop(container))
    assert site.run(site.engine.node_by_id(home)) is None


def test_a_container_that_another_one_replaces_takes_its_images_along(site: Site) -> None:
    replaced, other = container_of(site, DEFAULT, last_image=300), site.container("other")
    site.write(create(b"a", b"v"), replaced)
    site.pass_seconds(100)
    purge(site)
    home = node(site, replaced).definition.retired
    assert home is not None
    site.run(site.engine.definitions.move(other, site.home, "kept", replacing=replaced))
    assert site.run(site.engine.node_by_id(home)) is None


def test_a_purge_record_by_record_is_the_same_purge(site: Site) -> None:
    """Events, order and rules do not depend on images."""
    rules = (DEFAULT, index_rule(50, SLOT, True), column_rule(70, SLOT + 1, True))
    told = []
    for settings in ({}, {"last_image": 50}):
        container = container_of(site, *rules, history=3600 * SECOND, **settings)
        second = site.now // SECOND
        for key, own, dates in [
            (b"a", None, ()), (b"b", 30, ()), (b"c", -1, ()), (b"d", None, ((SLOT, second + 10),)),
            (b"e", 200, ((SLOT, second), (SLOT + 1, second - 20))), (b"f", 200, ((SLOT + 1, second - 21),)),
            (b"g", None, ((SLOT, second + 50),)), (b"h", None, ((SLOT, second + 51),)),
        ]:  # fmt: skip
            new = msgspec.structs.replace(draft(key, b"v", own), dates=tuple((s, d * SECOND) for s, d in dates))
            site.write(Command(Mode.UPSERT, partition_of(key), key, new), container)
        site.pass_seconds(100)
        purge(site)
        found = [
            (e.key, e.cause, e.rule_version, e.deadline - second * SECOND, e.purged - second * SECOND, e.anchor - second * SECOND)
            for e in events(site, container)
        ]  # fmt: skip
        versions = [(v.kind, v.key) for v in site.run(site.engine.history(container, 0, 100))]
        told.append((sorted(found), sorted(versions, key=str), sorted(site.values(container))))
        site.run(site.engine.definitions.drop(container))
    assert told[0] == told[1]
    assert len(told[0][0]) == 7


def test_a_snapshot_still_reads_what_is_purged_with_an_image(site: Site) -> None:
    container = container_of(site, DEFAULT, last_image=50)
    before = site.write(create(b"a", b"v"), container).record
    snapshot = site.run(Snapshot.begin(site.engine, site.now, [site.home]))
    site.pass_seconds(100)
    assert purge(site) == 1
    assert site.run(snapshot.get(container, before.partition, b"a")) == before
