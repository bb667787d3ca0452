"""Decisions: what they see, what they leave, and what a commit says."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from mayflydb.model.errors import Conflict, NotFound, Unavailable
from mayflydb.model.order import Order
from mayflydb.model.record import Entry, Record
from mayflydb.store.interface import (
    Allocate,
    CatalogRow,
    ChildRows,
    Committed,
    Count,
    Decision,
    Delete,
    DropRow,
    EntryOwners,
    FindRow,
    Get,
    LoadRow,
    NamedNumber,
    NewId,
    Outcome,
    Put,
    PutRow,
    Read,
    Scan,
    SetNumber,
    ask,
)
from store_suite.subject import Subject, keys


def reads(*requests: Read[Any]) -> Any:
    """A decision that replies with the answers to these."""

    def decide() -> Decision[list[Any]]:
        answers = [None] * len(requests)
        for n, request in enumerate(requests):
            answers[n] = yield from ask(request)
        return Outcome((), answers)

    return decide


def inserting(container: int, key: bytes, entries: tuple[Entry, ...] = ()) -> Any:
    """A decision that inserts a record, or refuses if its key is taken."""

    def decide() -> Decision[Record]:
        if (yield from ask(Get(container, b"p", key))):
            raise Conflict("taken")
        lsn, seq = yield from ask(Allocate(container, True))
        record = Record(b"p", key, b"v", lsn, lsn, None, lsn, seq)
        return Outcome((Put(container, record, True, entries),), record)

    return decide


def counting(name: str) -> Any:
    """A decision that adds one to a setting and replies with what it was."""

    def decide() -> Decision[int]:
        before = (yield from ask(NamedNumber(name))) or 0
        return Outcome((SetNumber(name, before + 1),), before)

    return decide


def test_reply_comes_back(store: Subject) -> None:
    reply = object()

    def decide() -> Decision[object]:
        return Outcome((), reply)
        yield

    committed = store.write(decide)
    assert isinstance(committed, Committed)
    assert committed.reply is reply
    assert committed.purged == ()


def test_commits_grow(store: Subject) -> None:
    numbers = [store.write(counting("n")).commit_seq for _ in range(5)]
    numbers.append(store.change().commit_seq)
    assert numbers == sorted(set(numbers))


@pytest.mark.parametrize("error", [Conflict("taken"), ValueError("bug"), NotFound("gone")])
@pytest.mark.parametrize("moment", ["at once", "after a read", "after numbers"])
def test_raising_leaves_no_trace(store: Subject, container: int, error: Exception, moment: str) -> None:
    record = store.put(container, b"a")
    before = everything(store, container)

    def decide() -> Decision[None]:
        if moment != "at once":
            yield Get(container, b"p", b"a")
        if moment == "after numbers":
            yield Allocate(container, True)
            yield NewId()
        raise error

    with pytest.raises(type(error)) as caught:
        store.write(decide)
    assert caught.value is error
    assert everything(store, container) == before
    later = store.put(container, b"b")
    assert later.lsn > record.lsn
    assert later.seq > record.seq


def everything(store: Subject, container: int) -> list[Any]:
    """All that a decision could have changed. Numbers may be lost by one that fails, so rows count without theirs."""
    scan = Scan(container, b"", None, Order.CREATED, None, 100)
    rows = [(row.id, row.name, row.data) for row in store.read(ChildRows(0))]
    return [store.read(scan), store.read(Count(container, True)), store.read(NamedNumber("mark")), rows]


def test_factory_raises(store: Subject) -> None:
    def decide() -> Decision[None]:
        raise Conflict("before it began")

    with pytest.raises(Conflict):
        store.write(decide)
    store.change(SetNumber("still", 1))


def test_numbers_grow(store: Subject, container: int) -> None:
    first = store.write(reads(Allocate(container, True), Allocate(container, False), Allocate(container, True))).reply
    second = store.write(reads(Allocate(container, True))).reply
    lsns = [lsn for lsn, _ in first + second]
    assert lsns == sorted(set(lsns))
    assert first[1][1] == 0
    assert first[0][1] < first[2][1] < second[0][1]
    row = store.read(LoadRow(container))
    assert row is not None
    assert (row.lsn, row.seq) == second[0]


def test_numbers_by_container(store: Subject) -> None:
    left, right = store.container("left"), store.container("right")
    store.write(reads(Allocate(left, True), Allocate(left, True)))
    assert store.write(reads(Allocate(right, True))).reply == [(1, 1)]


def test_row_shows_numbers(store: Subject, container: int) -> None:
    """A row read inside a decision counts the numbers given out before, its own and its group's."""

    def decide() -> Decision[tuple[int, int, int]]:
        lsn, seq = yield from ask(Allocate(container, True))
        row = yield from ask(LoadRow(container))
        found = yield from ask(FindRow(0, "sessions"))
        (child,) = yield from ask(ChildRows(0))
        assert row is not None
        assert row == found == child
        return Outcome((), (lsn - row.lsn, seq - row.seq, lsn))

    replies = [committed.reply for committed in store.together(decide, decide, decide)]
    assert replies == [(0, 0, 1), (0, 0, 2), (0, 0, 3)]


@pytest.mark.parametrize("request_", [Allocate(1, True), NewId()])
def test_numbers_in_decisions_only(store: Subject, request_: Read[Any]) -> None:
    with pytest.raises((TypeError, AssertionError)):
        store.read(request_)


def test_numbers_without_container(store: Subject, container: int) -> None:
    store.change(DropRow(container))
    for absent in (container, container + 100):
        with pytest.raises(NotFound):
            store.write(inserting(absent, b"a"))
    store.change(SetNumber("still", 1))


def test_own_changes_unseen(store: Subject, container: int) -> None:
    """Changes happen after the decision, so nothing it reads shows them."""
    store.put(container, b"a")
    assert store.write(inserting(container, b"b")).reply.seq == 2
    assert keys(store.read(Scan(container, b"", None, Order.CREATED, None, 9))) == [b"a", b"b"]


def test_group_sees_earlier(store: Subject) -> None:
    committed = store.together(*[counting("n")] * 20)
    assert [done.reply for done in committed] == list(range(20))
    assert store.read(NamedNumber("n")) == 20


def test_group_key_race(store: Subject, container: int) -> None:
    """Of many that insert one key the first wins; each loser alone is refused."""
    won, *lost = store.together(*[inserting(container, b"a")] * 5)
    assert isinstance(won, Committed)
    assert [type(error) for error in lost] == [Conflict] * 4
    assert store.read(Scan(container, b"", None, Order.CREATED, None, 9)) == [won.reply]


def test_group_refusal_between(store: Subject, container: int) -> None:
    def refuse() -> Decision[None]:
        yield Allocate(container, True)
        raise Conflict("no")

    first, refused, last = store.together(inserting(container, b"a"), refuse, inserting(container, b"b"))
    assert isinstance(refused, Conflict)
    assert first.commit_seq <= last.commit_seq
    assert keys(store.read(Scan(container, b"", None, Order.CREATED, None, 9))) == [b"a", b"b"]
    assert last.reply.lsn > first.reply.lsn


def test_group_entries(store: Subject, container: int) -> None:
    """An index entry is seen by the next decision: uniqueness holds within a group."""
    unique = Entry(1, b"mail")

    def decide() -> Decision[None]:
        if (yield from ask(EntryOwners(container, (unique,)))):
            raise Conflict("taken")
        lsn, seq = yield from ask(Allocate(container, True))
        record = Record(b"p", b"%d" % seq, b"", 0, None, None, lsn, seq)
        return Outcome((Put(container, record, True, (unique,)),), None)

    won, *lost = store.together(decide, decide, decide)
    assert isinstance(won, Committed)
    assert [type(error) for error in lost] == [Conflict, Conflict]


def test_group_catalog(store: Subject) -> None:
    """Create, rename, drop and create again in one group; names are looked up as they are by then."""
    shop = store.new_row("shop")

    def rename() -> Decision[CatalogRow | None]:
        return Outcome((PutRow(msgspec.structs.replace(shop, name="mall")),), (yield from ask(FindRow(0, "shop"))))

    def create() -> Decision[list[CatalogRow | None]]:
        seen = [(yield from ask(FindRow(0, "shop"))), (yield from ask(FindRow(0, "mall")))]
        return Outcome((PutRow(CatalogRow((yield from ask(NewId())), 0, "shop", b"new")),), seen)

    def drop() -> Decision[list[str]]:
        rows = yield from ask(ChildRows(0))
        return Outcome((DropRow(shop.id),), [row.name for row in rows])

    mall = msgspec.structs.replace(shop, name="mall")
    after = reads(LoadRow(shop.id), FindRow(0, "mall"), ChildRows(0))
    replies = [done.reply for done in store.together(rename, create, drop, after)]
    assert replies[:3] == [shop, [None, mall], ["mall", "shop"]]
    gone, unnamed, children = replies[3]
    assert (gone, unnamed, [row.name for row in children]) == (None, None, ["shop"])
    assert store.read(ChildRows(0)) == children


def test_group_delete_insert(store: Subject, container: int) -> None:
    old = store.put(container, b"a")

    def delete() -> Decision[None]:
        record = yield from ask(Get(container, b"p", b"a"))
        assert record is not None
        return Outcome((Delete(container, record),), None)

    refused, _, created = store.together(inserting(container, b"a"), delete, inserting(container, b"a"))
    assert isinstance(refused, Conflict)
    assert created.reply.seq > old.seq
    assert store.read(Get(container, b"p", b"a")) == created.reply


def test_group_replace(store: Subject, container: int) -> None:
    """What a decision has replaced is what the next ones read, count, delete and replace, however many they are."""
    store.put(container, b"a")
    store.put(container, b"b")

    def replace(key: bytes, value: bytes) -> Any:
        def decide() -> Decision[Record]:
            before = yield from ask(Get(container, b"p", key))
            assert before is not None
            lsn, _ = yield from ask(Allocate(container, False))
            after = msgspec.structs.replace(before, value=value, lsn=lsn)
            return Outcome((Put(container, after, False),), after)

        return decide

    def delete() -> Decision[None]:
        record = yield from ask(Get(container, b"p", b"a"))
        assert record is not None
        return Outcome((Delete(container, record),), None)

    everything = reads(Scan(container, b"", None, Order.CHANGED, None, 9), Count(container, with_bytes=True))
    many = [replace(b"b", b"%d" % number) for number in range(200)]
    first, second, seen, *_, gone, last = store.together(
        replace(b"a", b"1"), replace(b"b", b"22"), everything, *many, replace(b"a", b"x"), delete, everything, many[7]
    )
    assert seen.reply[0] == [first.reply, second.reply]
    assert (seen.reply[1].records, seen.reply[1].value_bytes) == (2, 3)
    assert [record.value for record in gone.reply[0]] == [b"199"]
    assert store.read(Scan(container, b"", None, Order.CREATED, None, 9)) == [last.reply]


def test_group_drop(store: Subject, container: int) -> None:
    """Nothing is inserted into a container that the decision before has dropped."""

    def drop() -> Decision[None]:
        return Outcome((DropRow(container),), None)
        yield

    _, _, refused = store.together(inserting(container, b"a"), drop, inserting(container, b"b"))
    assert isinstance(refused, NotFound)
    assert store.read(Count(container)).records == 1


def test_large_group(store: Subject, container: int) -> None:
    committed = store.together(*[inserting(container, b"%d" % n) for n in range(600)])
    assert [done.reply.seq for done in committed] == list(range(1, 601))
    numbers = [done.commit_seq for done in committed]
    assert numbers == sorted(numbers)
    assert store.read(Count(container)).records == 600


def test_closed_store(store: Subject) -> None:
    """What was queued before the close is finished, what comes later is refused."""

    async def close() -> list[Any]:
        queued = asyncio.create_task(store.store.write(counting("n")))
        # The task runs first, up to where it waits for its commit.
        await asyncio.sleep(0)
        await store.store.close()
        store.closed = True
        results = [(await queued).reply]
        for refused in (store.store.write(counting("n")), store.store.read(NamedNumber("n"))):
            with pytest.raises(Unavailable):
                await refused
        return results

    assert store.run(close()) == [0]
