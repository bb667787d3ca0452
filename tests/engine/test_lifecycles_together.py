"""Lifecycle settings that meet in one container, or along a cascade, on every store."""

from __future__ import annotations

from typing import Any

import pytest

from engine import test_archives, test_legal_holds
from engine.site import Site, create, keys_of, partition_of
from engine.test_legal_holds import Language, hold, left, release
from mayflydb.engine.building import IndexRequest
from mayflydb.engine.catalog import Definition, Index, Node
from mayflydb.engine.lifecycle import archive_ledger
from mayflydb.engine.lifecycle.references import Children, CompletesIndexes, range_of
from mayflydb.engine.lifecycle.retired_versions import decode_version
from mayflydb.expiry.lifecycle import Cascade
from mayflydb.expiry.rules import default_rule
from mayflydb.model.order import Order
from mayflydb.model.record import Record
from mayflydb.store.interface import Expiries, Scan

LIFE = 100


class Owners:
    """A record names its owner by the first word of its value."""

    async def open_index(self, indexes: CompletesIndexes, parent: Node, child: Node, path: str) -> Index:
        raise NotImplementedError

    def find_children(self, parent: Node, record: Record, child: Node, index: Index) -> Children:
        return Children(range_of(record.key), lambda each: record.key in keys_of(each, index))


class Pair:
    """Owners that live for LIFE, and what they own, which does not expire by itself."""

    def __init__(self, site: Site) -> None:
        self.site = site
        site.engine.nodes.hold_filters.use({"site": Language()})
        site.engine.reaper.refer({"site": Owners})
        test_archives.add_archives(site, "cold")
        self.owners, self.owned = (
            site.run(site.engine.definitions.create(site.home, name, Definition({}, site.now, rules=rules))).id
            for name, rules in (("owners", (default_rule(LIFE),)), ("owned", (default_rule(None),)))
        )
        (index,) = site.run(
            site.engine.indexes.define_and_build(self.owned, lambda _: [IndexRequest(spec={"field": 0})], keys_of)
        )
        self.change(self.owners, cascade=(Cascade(self.owned, "0", index.number, "site"),))
        site.write(create(b"o", b"key"), self.owners)
        for key in (b"a", b"b"):
            site.write(create(key, b"o|key|" + key), self.owned)

    def change(self, container: int, **settings: Any) -> None:
        test_archives.change(self.site, container, **settings)

    def expire(self) -> int:
        self.site.pass_seconds(LIFE)
        return test_archives.purge(self.site)

    def events(self) -> list[tuple[int, bytes, str, str]]:
        found = self.site.run(self.site.engine.store.read(Expiries(None, 0, 100)))
        return sorted((each.container, each.key, each.cause, each.how) for each in found)

    def retired(self, container: int) -> list[tuple[bytes, str | None, str]]:
        """(key, archive, cause) of the versions that are kept, by key."""
        node = self.site.run(self.site.engine.node_by_id(container))
        assert node is not None
        if node.definition.retired is None:
            return []
        page = self.site.run(
            self.site.engine.store.read(Scan(node.definition.retired, b"", None, Order.CREATED, None, 99))
        )
        found = [decode_version(each) for each in page]
        return sorted(
            (each.record.key, None, "")
            if each.bequest is None
            else (each.record.key, each.bequest.archive, each.bequest.cause)
            for each in found
        )


@pytest.fixture
def pair(site: Site) -> Pair:
    return Pair(site)


def test_children_under_a_hold_are_preserved_and_their_events_wait(site: Site, pair: Pair) -> None:
    hold(site, pair.owned, where="|a")
    assert pair.expire() == 3
    assert (site.values(pair.owners), site.values(pair.owned)) == ({}, {})
    assert left(site, pair.owned) == [("expired", b"o|key|a")]
    told = [(pair.owners, b"o", "default", "sweep"), (pair.owned, b"b", "cascade", "sweep")]
    assert pair.events() == sorted(told)
    assert release(site) == (1, 1)
    assert pair.events() == sorted([*told, (pair.owned, b"a", "cascade", "hold released")])


def test_a_held_record_is_archived_at_the_release(site: Site, pair: Pair) -> None:
    for container in (pair.owners, pair.owned):
        pair.change(container, archive="cold")
        hold(site, container, f"h{container}", where="key")
    assert pair.expire() == 3
    assert (pair.retired(pair.owners), pair.retired(pair.owned)) == ([], [])
    for container in (pair.owners, pair.owned):
        release(site, f"h{container}")
    assert pair.retired(pair.owners) == [(b"o", "cold", "default")]
    assert pair.retired(pair.owned) == [(b"a", "cold", "cascade"), (b"b", "cold", "cascade")]
    files = test_archives.Files()
    test_archives.write_all(site, files, [pair.owners, pair.owned])
    assert sorted(key for _, key, _ in files.rows()) == [b"a", b"b", b"o"]
    assert (pair.retired(pair.owners), pair.retired(pair.owned)) == ([], [])


def test_an_archive_of_the_children_that_is_full_keeps_their_owner(
    site: Site, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.change(pair.owned, archive="cold")
    monkeypatch.setattr(archive_ledger, "MOST_WAITING", 0)
    assert pair.expire() == 0
    monkeypatch.undo()
    assert test_archives.purge(site) == 3


def test_an_earlier_state_has_what_a_hold_preserves(site: Site, pair: Pair) -> None:
    pair.change(pair.owned, history=3600)
    hold(site, pair.owned, where="key")
    assert pair.expire() == 3
    assert [key for key, _, _ in pair.retired(pair.owned)] == [b"a", b"b"]
    site.pass_seconds(10)
    release(site)
    # The removal for good changes no earlier state.
    assert [key for key, _, _ in pair.retired(pair.owned)] == [b"a", b"b"]


def test_an_undelete_finds_the_children_of_what_it_brings_back(site: Site, pair: Pair) -> None:
    pair.change(pair.owners, grace=50)
    assert pair.expire() == 0
    assert sorted(site.values(pair.owned)) == [b"a", b"b"]
    site.run(site.engine.undeletes.undelete_record(pair.owners, (partition_of(b"o"), b"o"), None))
    assert list(site.values(pair.owners)) == [b"o"]
    site.pass_seconds(LIFE + 50)
    assert test_archives.purge(site) == 3


def test_a_paused_child_keeps_its_owner(site: Site, pair: Pair) -> None:
    site.run(site.engine.definitions.pause(pair.owned, "purge"))
    assert pair.expire() == 0
    site.run(site.engine.definitions.pause(pair.owned, None))
    assert test_archives.purge(site) == 3
    assert test_legal_holds.events(site, pair.owned) != []
