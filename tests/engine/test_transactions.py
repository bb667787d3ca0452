"""One transaction over several containers: all of it or nothing, each command seeing those before it."""

from __future__ import annotations

import pytest

from engine.site import Site, Steps, create, delete, draft, partition_of, replace, upsert
from mayflydb.engine.building import IndexRequest
from mayflydb.engine.commands import ANY_VERSION, Command, Draft, Mode
from mayflydb.engine.history import versions
from mayflydb.engine.transactions import WriteTransaction
from mayflydb.expiry.sweep import PurgeRequest
from mayflydb.model.errors import Conflict, MayflyError, NotFound, OwnerNotFound, PreconditionFailed
from mayflydb.model.instant import SECOND

UNIQUE = IndexRequest(unique=True, spec={"field": 0})


def test_containers_change_together(site: Site) -> None:
    other = site.container("other")
    site.write(create(b"a", b"1"))

    def body(transaction: WriteTransaction) -> Steps[tuple[bytes, int, int]]:
        here = yield from transaction.on(site.it)
        there = yield from transaction.on(other)
        moved = yield from here.get(partition_of(b"a"), b"a")
        assert moved is not None
        written = yield from there.run(create(b"a", moved.value + b"!"))
        yield from here.run(delete(b"a"))
        again = yield from transaction.on(site.it)
        assert again is here
        assert (yield from here.get(partition_of(b"a"), b"a")) is None
        return written.record.value, written.now, transaction.now

    value, written, now = site.run(site.engine.transact(body, site.now))
    assert (value, written) == (b"1!", now)
    assert site.values() == {}
    assert site.values(other) == {b"a": b"1!"}


@pytest.mark.parametrize("gone", [True, False])
def test_what_it_raises_undoes_all_of_it(site: Site, gone: bool) -> None:
    def body(transaction: WriteTransaction) -> Steps[None]:
        here = yield from transaction.on(site.it)
        yield from here.run(create(b"a", b"1"))
        if not gone:
            raise Conflict("no")
        yield from transaction.on(site.it + 99)

    with pytest.raises(OwnerNotFound if gone else Conflict):
        site.run(site.engine.transact(body, site.now))
    assert site.values() == {}


def test_a_body_reads_what_it_has_written(site: Site) -> None:
    site.write(create(b"b", b"old"))
    site.write(create(b"d", b"1", life=5))
    site.pass_seconds(6)

    def body(transaction: WriteTransaction) -> Steps[list[bytes | None]]:
        space = yield from transaction.on(site.it)
        yield from space.run(create(b"a", b"1"))
        yield from space.run(replace(b"a", b"2"))
        yield from space.run(upsert(b"b", b"new"))
        seen = []
        for key in (b"a", b"b", b"c", b"d"):
            record = yield from space.get(partition_of(key), key)
            seen.append(None if record is None else record.value)
        return seen

    assert site.run(site.engine.transact(body, site.now)) == [b"2", b"new", None, None]


REFUSED: list[tuple[Command, type[MayflyError]]] = [
    (create(b"a", b"9"), Conflict),
    (create(b"n", b"x"), Conflict),
    (create(b"n", b"y,w"), Conflict),
    (upsert(b"a", b"y"), Conflict),
    (replace(b"n", b"1"), NotFound),
    (delete(b"n"), NotFound),
    (Command(Mode.DELETE, partition_of(b"a"), b"a", if_match=99), PreconditionFailed),
    (Command(Mode.DELETE, partition_of(b"n"), b"n", if_match=ANY_VERSION), NotFound),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_a_refusal_that_is_caught_leaves_nothing(site: Site, number: int) -> None:
    """`a` was there, `b` is of this transaction, `h` is hidden and shares the word `w` with one of the refused."""
    refused, error = REFUSED[number]
    site.build(UNIQUE)
    site.write(create(b"a", b"x"))
    site.write(create(b"h", b"w", life=5))
    site.pass_seconds(6)

    def body(transaction: WriteTransaction) -> Steps[int]:
        space = yield from transaction.on(site.it)
        yield from space.run(create(b"b", b"y"))
        before = len(space.changes), list(space.written_records)
        with pytest.raises(error):
            yield from space.run(refused)
        assert (len(space.changes), space.written_records) == before
        written = yield from space.run(create(b"c", b"z"))
        return written.record.seq

    site.run(site.engine.transact(body, site.now))
    assert site.values() == {b"a": b"x", b"b": b"y", b"c": b"z"}


def test_a_draft_that_fails_to_be_indexed_buries_nobody(site: Site) -> None:
    site.write(create(b"h", b"x", life=5))
    site.pass_seconds(6)
    site.build(UNIQUE)

    def failing(*_: object) -> tuple[()]:
        raise Conflict("cannot be indexed")

    wanted = Draft(b"x", indexed=failing)
    bad = Command(Mode.CREATE, partition_of(b"h"), b"h", wanted)

    def body(transaction: WriteTransaction) -> Steps[int]:
        space = yield from transaction.on(site.it)
        with pytest.raises(Conflict):
            yield from space.run(bad)
        return len(space.changes)

    assert site.run(site.engine.transact(body, site.now)) == 0


def test_the_reaper_hears_of_the_earliest_deadline(site: Site) -> None:
    other = site.container("other")
    reaper = site.engine.reaper
    site.run(reaper.sweep_due(PurgeRequest(site.now, site.now, "sweep")))

    def body(transaction: WriteTransaction) -> Steps[None]:
        here = yield from transaction.on(site.it)
        there = yield from transaction.on(other)
        yield from there.run(create(b"a", b"1", life=50))
        yield from here.run(create(b"a", b"1", life=40))
        yield from here.run(create(b"b", b"1", life=20))
        yield from here.run(create(b"c", b"1"))

    site.run(site.engine.transact(body, site.now))
    assert site.run(reaper.next_deadline()) == 1_020 * SECOND


@pytest.mark.parametrize(("remembered", "kept"), [(None, b"1"), (b"{}", b"{}")])
def test_a_history_keeps_what_a_draft_says(site: Site, remembered: bytes | None, kept: bytes) -> None:
    told = site.container("told", history=1_000)
    wanted = Command(Mode.CREATE, partition_of(b"a"), b"a", draft(b"a", b"1", remembered=remembered))
    written = site.write(wanted, told)
    assert written.record.value == b"1"
    lines = site.run(versions(site.engine.store, site.node(told), 0, site.now, 9))
    assert [line.value for line in lines if line.lsn == written.record.lsn] == [kept]
