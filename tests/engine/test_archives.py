"""What waits for archives: each version that expired is in exactly one file, whatever step fails when, on every store."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import msgspec
import pytest

from engine.site import Site, create, partition_of, upsert
from mayflydb.engine.catalog import Definition, Node
from mayflydb.engine.commands import Command, Mode
from mayflydb.engine.housekeeping import INTERVAL
from mayflydb.engine.lifecycle import archive_backlog, archive_ledger
from mayflydb.engine.lifecycle.archive_backlog import ArchiveBacklog, Batch, Home
from mayflydb.expiry.rules import default_rule
from mayflydb.expiry.sweep import PurgeRequest
from mayflydb.model.errors import NotFound, OutOfSpace
from mayflydb.store.interface import Count, Expiries

LIFE = 100


def add_archives(site: Site, *names: str) -> None:
    home = site.run(site.engine.definitions.space(archive_ledger.SPACE, site.now))
    for name in names:
        site.run(site.engine.definitions.create(home.id, name, Definition({}, site.now)))


def container_of(site: Site, name: str = "kept", **settings: Any) -> int:
    rules = (default_rule(LIFE),)
    id = site.run(site.engine.definitions.create(site.home, name, Definition({}, site.now, rules=rules))).id
    change(site, id, **settings)
    return id


def change(site: Site, container: int, **settings: Any) -> Node:
    return site.run(
        site.engine.definitions.change_lifecycle(
            container, lambda lifecycle: msgspec.structs.replace(lifecycle, **settings), site.now
        )
    )


def purge(site: Site, within_budget: bool = False) -> int:
    request = PurgeRequest(site.now, site.now, "sweep", within_budget=within_budget)
    return site.run(site.engine.reaper.sweep_due(request)).total()


def backlog(site: Site) -> ArchiveBacklog:
    return site.engine.archive_backlog


def home_of(site: Site, container: int) -> Home:
    home = site.run(backlog(site).home_of(container))
    assert home is not None
    return home


class Files:
    """Files by name, as an archive has them: a file with a name that is there takes its place."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str, int, int, int], list[tuple[bytes, int]]] = {}

    def write(self, home: Home, batch: Batch) -> None:
        lsns = [version.until for version in batch.versions]
        assert lsns == sorted(lsns)
        name = (batch.archive, batch.target, home.owner.id, lsns[0], lsns[-1])
        content = [(version.record.key, version.until) for version in batch.versions]
        assert self.found.get(name, content) == content, "a repeat has the same content"
        self.found[name] = content

    def rows(self) -> Counter[tuple[int, bytes, int]]:
        """(container, key, lsn of the purge) of all rows."""
        return Counter((name[2], key, lsn) for name, rows in self.found.items() for key, lsn in rows)


def write_all(site: Site, files: Files, containers: list[int]) -> None:
    for container in containers:
        home = home_of(site, container)
        while batch := site.run(backlog(site).next_batch(home, f"target {container}")):
            files.write(home, batch)
            site.run(backlog(site).finish(home, batch))


def test_an_archive_that_does_not_exist_is_refused(site: Site) -> None:
    container = container_of(site)
    with pytest.raises(NotFound):
        change(site, container, archive="cold")
    add_archives(site, "cold")
    with pytest.raises(NotFound):
        change(site, container, archive="warm")
    assert change(site, container, archive="cold").definition.lifecycle.archive == "cold"


@pytest.mark.parametrize("how", ["sweep", "replaced"])
def test_what_expires_waits_and_what_clients_remove_does_not(site: Site, how: str) -> None:
    add_archives(site, "cold")
    container = container_of(site, archive="cold")
    before = site.write(create(b"a", b"v"), container).record
    site.write(create(b"b", b"v"), container)
    site.write(upsert(b"b", b"w"), container)
    site.write(Command(Mode.DELETE, partition_of(b"b"), b"b"), container)
    site.pass_seconds(LIFE)
    if how == "sweep":
        assert purge(site) == 1
    else:
        site.write(create(b"a", b"w"), container)
    batch = site.run(backlog(site).next_batch(home_of(site, container), "the target"))
    assert batch is not None
    (version,) = batch.versions
    (event,) = site.run(site.engine.store.read(Expiries(container, 0, 9)))
    assert (version.record, version.until, version.ended) == (before, event.lsn, event.purged)
    left = version.bequest
    assert left is not None
    assert (left.archive, left.cause, left.rule_version, left.deadline) == (
        "cold",
        event.cause,
        event.rule_version,
        event.deadline,
    )


def test_versions_are_let_go_when_they_are_archived_and_their_time_is_over(site: Site) -> None:
    add_archives(site, "cold")
    container = container_of(site, archive="cold", last_image=50)
    for n in range(5):
        site.write(create(b"%d" % n, b"v"), container)
    site.pass_seconds(LIFE)
    assert purge(site) == 5

    def stored(seconds: int) -> int:
        site.pass_seconds(seconds)
        site.engine.reaper._housekeeping._forgotten_at = -INTERVAL
        while site.run(site.engine.reaper._housekeeping.forget_old(site.now)):
            pass
        return site.run(site.engine.store.read(Count(home_of(site, container).row.id))).records

    # Longer than the last image is kept: they wait for the archive.
    assert stored(60) == 5
    write_all(site, files := Files(), [container])
    assert (stored(0), len(files.rows())) == (0, 5)
    # Archived at once: they stay for readers of their events.
    site.write(create(b"new", b"v"), container)
    site.pass_seconds(LIFE)
    purge(site)
    write_all(site, files, [container])
    assert (stored(49), stored(1), len(files.rows())) == (1, 0, 6)


def test_without_a_last_image_they_go_with_their_file(site: Site) -> None:
    add_archives(site, "cold")
    container = container_of(site, archive="cold")
    for n in range(600):
        site.write(create(b"%d" % n, b"v"), container)
    site.pass_seconds(LIFE)
    purge(site)
    home = home_of(site, container)
    assert site.run(site.engine.store.read(Count(home.row.id))).records == 600
    write_all(site, Files(), [container])
    assert site.run(site.engine.store.read(Count(home.row.id))).records == 0
    assert (site.run(backlog(site).measure(home)).waiting, site.run(backlog(site).homes())) == (0, [])


def test_purging_waits_beyond_the_limit_and_goes_on_by_itself(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(archive_ledger, "MOST_WAITING", 10)
    add_archives(site, "cold")
    container, other = container_of(site, archive="cold"), container_of(site, "other")
    for n in range(25):
        site.write(create(b"%d" % n, b"v"), container)
        site.write(create(b"%d" % n, b"v"), other)
    site.pass_seconds(LIFE)
    assert purge(site) == 10 + 25
    assert (purge(site), site.values(container), site.run(backlog(site).measure(home_of(site, container))).full) == (
        0,
        {},
        True,
    )
    assert len([each for each in caplog.records if "waits until its archive accepts" in each.message]) == 1
    files = Files()
    for left in (10, 5, 0):
        write_all(site, files, [container])
        assert purge(site) == left
    assert len(files.rows()) == 25


def test_a_purge_on_demand_has_the_archive_make_room(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_ledger, "MOST_WAITING", 10)
    add_archives(site, "cold")
    container = container_of(site, archive="cold")
    for n in range(25):
        site.write(create(b"%d" % n, b"v"), container)
    site.pass_seconds(LIFE)
    files = Files()

    async def make_room(full: int) -> bool:
        home = await backlog(site).home_of(full)
        assert home is not None
        batch = await backlog(site).next_batch(home, "target")
        if batch is None:
            return False
        files.write(home, batch)
        return await backlog(site).finish(home, batch)

    site.engine.reaper.let_archives_accept(make_room)
    # The background waits for the writer; a person who moves the clock gets all purges.
    assert purge(site, within_budget=True) == 10
    assert purge(site) == 15


def test_a_write_over_an_expired_record_is_refused_far_beyond_the_limit(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_ledger, "MOST_WAITING", 2)
    monkeypatch.setattr(archive_ledger, "MOST_FORCED", 3)
    add_archives(site, "cold")
    container = container_of(site, archive="cold")
    for n in range(6):
        site.write(create(b"%d" % n, b"v"), container)
    site.pass_seconds(LIFE)
    for n in range(5):
        site.write(create(b"%d" % n, b"w"), container)
    with pytest.raises(OutOfSpace, match="the archive cold does not accept"):
        site.write(create(b"5", b"w"), container)
    site.write(create(b"6", b"w"), container)
    write_all(site, files := Files(), [container])
    site.write(create(b"5", b"w"), container)
    assert len(files.rows()) == 5


def test_versions_go_to_the_archive_that_was_set_when_they_expired(site: Site) -> None:
    add_archives(site, "cold", "warm")
    container = container_of(site, last_image=1000)
    for archive in (None, "cold", "warm", None, "cold"):
        change(site, container, archive=archive)
        for n in range(3):
            site.write(create(b"%d" % n, b"v"), container)
        site.pass_seconds(LIFE)
        purge(site)
    write_all(site, files := Files(), [container])
    assert [(name[0], len(rows)) for name, rows in files.found.items()] == [("cold", 3), ("warm", 3), ("cold", 3)]


def test_a_dropped_container_leaves_what_waits_until_it_is_archived(site: Site) -> None:
    add_archives(site, "cold")
    containers = [container_of(site, name, archive="cold") for name in ("waits", "done")]
    for container in containers:
        site.write(create(b"a", b"v"), container)
    site.pass_seconds(LIFE)
    assert purge(site) == 2
    files, gone = Files(), home_of(site, containers[1]).row.id
    write_all(site, files, containers[1:])
    for container in containers:
        site.run(site.engine.definitions.drop(container))
    assert site.run(site.engine.node_by_id(gone)) is None
    (home,) = site.run(backlog(site).homes())
    assert (home.dropped, home.path, home.owner.name) == (True, ("site", "waits"), "waits")
    site.run(backlog(site).clear(home))
    batch = site.run(backlog(site).next_batch(home, "target"))
    assert batch is not None
    files.write(home, batch)
    site.run(backlog(site).finish(home, batch))
    site.run(backlog(site).clear(home))
    assert site.run(site.engine.node_by_id(home.row.id)) is None
    assert sorted(key for _, key, _ in files.rows()) == [b"a", b"a"]


def test_a_file_ends_at_its_limits(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_backlog, "PAGE", 4)
    add_archives(site, "cold")
    container = container_of(site, archive="cold")
    for records, size, sizes in ((10, 1 << 20, [10, 10, 3]), (1000, 50, [5, 5, 5, 5, 3])):
        monkeypatch.setattr(archive_backlog, "FILE_RECORDS", records)
        monkeypatch.setattr(archive_backlog, "FILE_BYTES", size)
        for n in range(23):
            site.write(create(b"%d" % n, b"0123456789"), container)
        site.pass_seconds(LIFE)
        purge(site)
        write_all(site, files := Files(), [container])
        assert [len(rows) for rows in files.found.values()] == sizes


class Fault(Exception):
    """Ends a writer between two steps."""


class World:
    """Containers with archives that change, a writer that ends at any step, and what must be in its files."""

    def __init__(self, site: Site, chance: random.Random) -> None:
        self.site, self.chance = site, chance
        self.files, self.expected = Files(), set[tuple[int, bytes, int]]()
        self.containers = [container_of(site, f"c{n}", archive="cold", last_image=150 * n) for n in range(2)]
        self.archived = set(self.containers)
        self.writer = backlog(site)
        self.seen = 0

    def act(self) -> None:
        """Do one thing of all that clients, people and the reaper do."""
        container = self.chance.choice(self.containers)
        self.chance.choice(
            [*[self.write] * 5, self.wait, self.wait, self.purge, *[self.write_files] * 3, self.change, self.drop]
        )(container)
        self.note_events()

    def write(self, container: int) -> None:
        key = b"%d" % self.chance.randrange(20)
        is_removed = self.chance.random() < 0.2 and key in self.site.values(container)
        command = Command(Mode.DELETE, partition_of(key), key) if is_removed else upsert(key, b"v")
        self.site.write(command, container)

    def wait(self, _: int) -> None:
        self.site.pass_seconds(self.chance.choice((20, 50, 100)))

    def purge(self, _: int) -> None:
        purge(self.site, within_budget=True)

    def change(self, container: int) -> None:
        """Give a container another archive, or none, for what expires from here on."""
        self.note_events()
        name = self.chance.choice(("cold", "warm", None))
        change(self.site, container, archive=name)
        (self.archived.discard if name is None else self.archived.add)(container)

    def drop(self, container: int) -> None:
        self.note_events()
        self.site.run(self.site.engine.definitions.drop(container))
        self.containers.remove(container)
        self.containers.append(container_of(self.site, f"d{container}", archive="cold"))
        self.archived.add(self.containers[-1])

    def note_events(self) -> None:
        """Note what has expired since the last time in containers that had an archive then."""
        for event in self.site.run(self.site.engine.store.read(Expiries(None, self.seen, 10_000))):
            self.seen = event.id
            if event.container in self.archived:
                self.expected.add((event.container, event.key, event.lsn))

    def write_files(self, _: int = 0, faults: int = 4) -> None:
        """Write a file of each container, unless the writer ends before; another one takes its place then."""
        fault = self.chance.randrange(8) if faults else 8
        try:
            for home in self.site.run(self.writer.homes()):
                self._write_file(home, fault)
        except Fault:
            self.writer = self._new_writer()

    def _write_file(self, home: Home, fault: int) -> None:
        site = self.site
        name = self.chance.choice(("a name", "another name"))
        batch = site.run(self.writer.next_batch(home, name)) if site.run(self.writer.measure(home)).waiting else None
        if batch is None:
            site.run(self.writer.clear(home))
            return
        if fault == 0:
            raise Fault("before the file")
        self.files.write(home, batch)
        if fault == 1:
            raise Fault("behind the file")
        if fault == 2:
            # Another node writes the same file, and is first to let the versions go.
            other = self._new_writer()
            again = site.run(other.next_batch(home, "third name"))
            assert again is not None
            self.files.write(home, again)
            assert site.run(other.finish(home, again))
        assert site.run(self.writer.finish(home, batch)) == (fault != 2)
        if fault == 3:
            raise Fault("behind the place")

    def _new_writer(self) -> ArchiveBacklog:
        return ArchiveBacklog(self.site.engine.store, self.site.engine.nodes, self.site.engine.time)


def test_whatever_fails_when_each_expired_record_is_in_exactly_one_file(
    site: Site, monkeypatch: pytest.MonkeyPatch, chance: random.Random
) -> None:
    monkeypatch.setattr(archive_backlog, "FILE_RECORDS", 5)
    monkeypatch.setattr(archive_backlog, "PAGE", 3)
    monkeypatch.setattr(archive_ledger, "MOST_WAITING", 12)
    add_archives(site, "cold", "warm")
    world = World(site, chance)
    for _ in range(150):
        world.act()
    site.pass_seconds(LIFE)
    while purge(site) or site.run(world.writer.homes()):
        world.note_events()
        world.write_files(faults=0)
    assert world.files.rows() == Counter(world.expected)
    assert world.expected
