"""Transactions of several statements: they see their beginning and themselves, and the first to commit a record wins."""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec
import pytest

from engine.site import Site, command, create, delete, partition_of, replace, upsert
from engine.test_unique import KEYS, UNIQUE
from mayflydb.engine import version_cache
from mayflydb.engine.commands import Command, Mode
from mayflydb.engine.scans import Scope
from mayflydb.engine.snapshot import Snapshot
from mayflydb.model.errors import Conflict, MayflyError, NotFound, OwnerNotFound, WriteConflict
from mayflydb.store.interface import ChildRows, Get


class Client:
    """One transaction at a site."""

    def __init__(self, site: Site, snapshot: Snapshot | None = None) -> None:
        self.site = site
        self.snapshot = snapshot or site.run(Snapshot.begin(site.engine, site.now, [site.home]))

    def get(self, key: bytes, container: int | None = None) -> bytes | None:
        record = self.site.run(self.snapshot.get(container or self.site.it, partition_of(key), key))
        return None if record is None else record.value

    def run(self, wanted: Command, container: int | None = None) -> int:
        return self.site.run(self.snapshot.run(container or self.site.it, wanted)).record.lsn

    def values(self, scope: Scope | None = None, batch: int = 3) -> list[tuple[bytes, bytes]]:
        async def read() -> list[tuple[bytes, bytes]]:
            stretches = self.snapshot.scan(self.site.it, scope or Scope(), None, batch)
            return [(record.key, record.value) async for stretch in stretches for record in stretch.records]

        return self.site.run(read())

    def fetched(self, seqs: list[int]) -> list[bytes]:
        async def read() -> list[bytes]:
            stretches = self.snapshot.fetch(self.site.it, seqs, 2)
            return [record.key async for records in stretches for record in records]

        return self.site.run(read())

    def commit(self) -> list[int]:
        return [written.record.seq for written in self.site.run(self.snapshot.commit(self.site.now))]


def fill(site: Site) -> None:
    for key in (b"a", b"b", b"c"):
        site.write(create(key, key.upper()))


def test_it_sees_itself_and_nobody_else_does(site: Site) -> None:
    fill(site)
    other = site.container("other")
    client = Client(site)
    client.run(replace(b"a", b"1"))
    client.run(delete(b"b"))
    client.run(create(b"d", b"4"))
    client.run(create(b"d", b"elsewhere"), other)
    client.run(create(b"e", b"5"))
    client.run(delete(b"e"))
    client.run(create(b"b", b"again"))
    assert [client.get(key) for key in (b"a", b"b", b"c", b"d", b"e")] == [b"1", b"again", b"C", b"4", None]
    assert client.values() == [(b"a", b"1"), (b"c", b"C"), (b"d", b"4"), (b"b", b"again")]
    assert client.values(Scope.of_partition(partition_of(b"d"))) == [(b"d", b"4"), (b"b", b"again")]
    assert client.fetched([1, 2, 3]) == [b"a", b"c", b"d", b"b"]
    assert client.fetched([3]) == [b"c", b"a", b"d", b"b"]
    assert site.values() == {b"a": b"A", b"b": b"B", b"c": b"C"}
    assert client.commit()[2] < 100
    assert site.values() == {b"a": b"1", b"b": b"again", b"c": b"C", b"d": b"4"}
    assert site.values(other) == {b"d": b"elsewhere"}


REFUSED: list[tuple[Command, type[MayflyError]]] = [
    (create(b"a", b"1"), Conflict),
    (create(b"n", b"1"), Conflict),
    (create(b"m", b"A"), Conflict),
    (create(b"m", b"1"), Conflict),
    (replace(b"m", b"2"), NotFound),
    (delete(b"b"), NotFound),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_a_refusal_leaves_nothing(site: Site, number: int) -> None:
    refused, error = REFUSED[number]
    fill(site)
    site.build(UNIQUE)
    client = Client(site)
    client.run(create(b"n", b"1"))
    client.run(delete(b"b"))
    before = client.values()
    with pytest.raises(error):
        client.run(refused)
    assert client.values() == before
    client.commit()
    assert site.values() == {b"a": b"A", b"c": b"C", b"n": b"1"}


MEETINGS: list[tuple[Command, Callable[[Client], object], Callable[[Client], object] | None]] = [
    # What another one commits, after it began; what it does before that, and what meets it (None: its own commit).
    (replace(b"a", b"x"), lambda client: None, lambda client: client.run(delete(b"a"))),
    (create(b"n", b"x"), lambda client: None, lambda client: client.run(create(b"n", b"y"))),
    (create(b"n", b"x"), lambda client: None, lambda client: client.run(create(b"m", b"x"))),
    (delete(b"a"), lambda client: client.get(b"a"), lambda client: client.run(upsert(b"a", b"y"))),
    (delete(b"a"), lambda client: None, lambda client: client.run(create(b"a", b"y"))),
    (delete(b"a"), lambda client: client.values(), lambda client: client.run(delete(b"a"))),
    (replace(b"a", b"x"), lambda client: client.run(replace(b"a", b"y")), None),
    (replace(b"a", b"x"), lambda client: client.run(delete(b"a")), None),
    (delete(b"a"), lambda client: client.run(replace(b"a", b"y")), None),
    (delete(b"a"), lambda client: client.run(delete(b"a")), None),
    (create(b"n", b"x"), lambda client: client.run(create(b"n", b"y")), None),
    (create(b"n", b"x"), lambda client: client.run(create(b"m", b"x")), None),
]


@pytest.mark.parametrize("number", range(len(MEETINGS)))
def test_the_first_to_commit_wins(site: Site, number: int) -> None:
    theirs, first, then = MEETINGS[number]
    fill(site)
    site.build(UNIQUE)
    client = Client(site)
    first(client)
    site.write(theirs)
    committed = site.values()
    with pytest.raises(WriteConflict):
        then(client) if then is not None else client.commit()
    assert site.values() == committed


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("theirs", [replace(b"a", b"x"), delete(b"a"), create(b"n", b"x")])
def test_it_reads_what_was_there_when_it_began(site: Site, theirs: Command, known: bool) -> None:
    """What another process has replaced is not known: it is a conflict, unless it is gone."""
    fill(site)
    client = Client(site)
    client.get(b"b")
    site.write(theirs)
    if not known:
        site.engine.version_cache.unwatch(client.snapshot)
    if known or theirs.mode is Mode.CREATE:
        assert [client.get(key) for key in (b"a", b"b", b"n")] == [b"A", b"B", None]
        assert sorted(client.values()) == [(b"a", b"A"), (b"b", b"B"), (b"c", b"C")]
        assert sorted(client.fetched([1, 2, 3])) == [b"a", b"b", b"c"]
        assert b"a" in client.fetched([2]) or theirs.mode is Mode.CREATE
    elif theirs.mode is Mode.REPLACE:
        for read in (lambda: client.get(b"a"), client.values, lambda: client.fetched([1]), lambda: client.fetched([2])):
            with pytest.raises(WriteConflict):
                read()


def test_what_was_decided_and_not_committed_is_not_taken_for_the_past(site: Site) -> None:
    """Its numbers are given out again, and so may lie behind what became of the record in truth."""
    fill(site)
    before = Client(site)

    record = site.run(site.engine.store.read(Get(site.it, partition_of(b"a"), b"a")))
    assert record is not None
    site.engine.version_cache.note(site.it, [version_cache.Replaced(record, record.lsn + 9)])
    site.write(replace(b"a", b"1"))
    client = Client(site)
    site.write(replace(b"a", b"2"))
    assert client.get(b"a") == b"1"
    assert sorted(client.values()) == [(b"a", b"1"), (b"b", b"B"), (b"c", b"C")]
    assert before.get(b"a") == b"A"


def test_a_reset_ends_all_that_are_open(site: Site) -> None:
    fill(site)
    client = Client(site)
    site.write(replace(b"a", b"1"))
    assert client.get(b"a") == b"A"
    site.run(site.engine.reset())
    with pytest.raises(WriteConflict):
        client.get(b"a")


def test_one_that_would_have_to_remember_too_much_ends(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version_cache, "MAX_VERSIONS", 3)
    fill(site)
    old = Client(site)
    for n in range(3):
        site.write(replace(b"a", b"%d" % n))
        assert old.get(b"a") == b"A"
    site.write(delete(b"b"))
    with pytest.raises(WriteConflict):
        old.values()
    young = Client(site)
    site.write(delete(b"a"))
    assert sorted(young.values()) == [(b"a", b"2"), (b"c", b"C")]


def test_what_no_open_one_may_want_is_forgotten(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is always one open, and none for long."""
    monkeypatch.setattr(version_cache, "MAX_VERSIONS", 4)
    fill(site)
    older, before = Client(site), b"A"
    for n in range(20):
        site.write(replace(b"a", b"%d" % n))
        younger = Client(site)
        site.write(delete(b"b"))
        assert older.get(b"a") == before
        assert sorted(younger.values()) == [(b"a", b"%d" % n), (b"b", b"B"), (b"c", b"C")]
        older.snapshot.close()
        site.write(create(b"b", b"B"))
        younger.snapshot.close()
        older, before = Client(site), b"%d" % n
    older.snapshot.close()
    assert not site.engine.version_cache._notes
    assert not any(site.engine.version_cache._by_seq.values())
    assert not site.engine.version_cache._by_place


def test_only_who_has_been_open_longest_is_ended(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version_cache, "MAX_VERSIONS", 3)
    fill(site)
    old = Client(site)
    for n in range(2):
        site.write(replace(b"a", b"%d" % n))
    young = Client(site)
    for n in range(2):
        site.write(replace(b"c", b"%d" % n))
    assert sorted(young.values()) == [(b"a", b"1"), (b"b", b"B"), (b"c", b"C")]
    with pytest.raises(WriteConflict):
        old.get(b"a")


@pytest.mark.parametrize("store", ["sqlite-file"])
@pytest.mark.parametrize("theirs", [replace(b"a", b"x"), delete(b"a")])
def test_what_was_decided_before_it_began_and_committed_after_that(
    site: Site, theirs: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(site)
    clients: list[Client] = []
    keep = site.engine.version_cache.note

    def noted(container: int, replaced: list[version_cache.Replaced]) -> None:
        """Whoever begins now finds what was there before."""
        keep(container, replaced)
        begun = {row.id: row for row in rows}
        snapshot = Snapshot(site.engine, site.now, begun, frozenset([site.home]))
        clients.append(Client(site, snapshot))

    rows = site.run(site.engine.store.read(ChildRows(site.home)))
    monkeypatch.setattr(site.engine.version_cache, "note", noted)
    site.write(theirs)
    (client,) = clients
    assert client.get(b"a") == b"A"
    assert sorted(client.values()) == [(b"a", b"A"), (b"b", b"B"), (b"c", b"C")]


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (replace(b"b", b"x"), replace(b"a", b"y")),
        (create(b"n", b"x"), create(b"m", b"y")),
        (delete(b"b"), delete(b"a")),
        (delete(b"a"), create(b"m", b"A")),
    ],
)
def test_others_do_not_matter(site: Site, theirs: Command, ours: Command) -> None:
    """Nor does what was only read."""
    fill(site)
    site.build(UNIQUE)
    client = Client(site)
    assert client.get(b"b") == b"B"
    site.write(theirs)
    client.run(ours)
    client.commit()
    values = site.values()
    assert (theirs.key in values, ours.key in values) == (theirs.mode is not Mode.DELETE, ours.mode is not Mode.DELETE)


def test_what_would_have_died_meanwhile_lives(site: Site) -> None:
    site.write(create(b"a", b"1", life=5))
    client = Client(site)
    client.run(replace(b"a", b"2"))
    site.pass_seconds(6)
    assert (client.get(b"a"), site.values()) == (b"2", {})
    client.commit()
    assert site.values() == {b"a": b"2"}


def test_numbers_for_the_time_being_are_replaced(site: Site) -> None:
    client = Client(site)
    lsn = client.run(create(b"a", b"1"))
    (written,) = client.snapshot.written
    named = msgspec.structs.replace(replace(b"a", b"2"), if_match=lsn, seq=written.record.seq)
    client.run(named)
    assert client.commit() == [1, 1]
    assert site.values() == {b"a": b"2"}


def test_a_container_that_goes(site: Site) -> None:
    client = Client(site)
    client.run(create(b"a", b"1"))
    site.run(site.engine.definitions.drop(site.it))
    with pytest.raises(WriteConflict):
        client.commit()
    with pytest.raises(OwnerNotFound):
        client.get(b"a", site.it + 99)


def test_nothing_written_is_nothing_to_commit(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(site)
    client = Client(site)
    assert client.values() == [(b"a", b"A"), (b"b", b"B"), (b"c", b"C")]
    client.run(command(Mode.READ, b"a"))
    monkeypatch.setattr(site.engine.store, "write", None)
    assert client.commit() == []


# --- at random -------------------------------------------------------------------------------------------------------


class Naive:
    """What one transaction should see: the beginning, what it did, and which keys others have written since."""

    def __init__(self, values: dict[bytes, bytes]) -> None:
        self.seen = dict(values)
        self.touched: set[bytes] = set()
        self.others: set[bytes] = set()


def attempt(step: Callable[[], object]) -> type[MayflyError] | object:
    try:
        return step()
    except MayflyError as error:
        return type(error)


def test_transactions_at_random(site: Site, chance: random.Random) -> None:
    """Two at a time, and writes besides: each one that commits has changed exactly what it saw."""
    for _ in range(12):
        values = site.values()
        clients = [(Client(site), Naive(values)) for _ in range(2)]
        for _ in range(chance.randrange(2, 9)):
            if chance.random() < 0.2:
                key, value = chance.choice(KEYS), b"%d" % chance.randrange(1000)
                site.write(upsert(key, value))
                for _, naive in clients:
                    naive.others.add(key)
            else:
                one_step(*chance.choice(clients), chance)
        for client, naive in clients:
            before = site.values()
            after = attempt(client.commit)
            if naive.touched & naive.others:
                assert after is WriteConflict
                assert site.values() == before
            else:
                expected = {key: value for key, value in before.items() if key not in naive.touched}
                expected |= {key: value for key, value in naive.seen.items() if key in naive.touched}
                assert site.values() == expected
                for _, other in clients:
                    # What was made and removed in one transaction has never been there.
                    other.others |= {key for key in naive.touched if key in before or key in naive.seen}


def one_step(client: Client, naive: Naive, chance: random.Random) -> None:
    key, value = chance.choice(KEYS), b"%d" % chance.randrange(1000)
    foreign = key in naive.others and key not in naive.touched
    if chance.random() < 0.3:
        assert client.get(key) == naive.seen.get(key)
        return
    if chance.random() < 0.2:
        assert dict(client.values()) == naive.seen
        return
    mode = chance.choice([Mode.CREATE, Mode.UPSERT, Mode.REPLACE, Mode.DELETE])
    outcome = attempt(lambda: client.run(command(mode, key, value)))
    if foreign:
        assert outcome is WriteConflict
    elif mode is Mode.CREATE and key in naive.seen:
        assert outcome is Conflict
    elif mode in (Mode.REPLACE, Mode.DELETE) and key not in naive.seen:
        assert outcome is NotFound
    else:
        assert isinstance(outcome, int)
        naive.touched.add(key)
        naive.seen.pop(key, None)
        if mode is not Mode.DELETE:
            naive.seen[key] = value
