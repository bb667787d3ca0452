"""The wrappers themselves: every broken promise is noticed, by Contract on one store and by Mirror between two."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
import pytest

from mayflydb.model.due import DuePath
from mayflydb.model.errors import Conflict, OutcomeUnknown, Unavailable
from mayflydb.model.instant import SECOND
from mayflydb.model.order import KeyRange, Order, Position
from mayflydb.model.record import Entry, Expiry, Record, Totals
from mayflydb.store.interface import (
    Allocate,
    CatalogRow,
    Change,
    ChildRows,
    ClearDropped,
    Committed,
    Count,
    CountDue,
    Decision,
    Delete,
    DroppedContainers,
    Due,
    Entries,
    EntryOwners,
    Expiries,
    Fetch,
    FetchRange,
    FindRow,
    Get,
    LoadRow,
    NamedNumber,
    NewId,
    NextDue,
    Outcome,
    Purge,
    Purged,
    Put,
    PutRow,
    Read,
    RemoveEntries,
    ReplaceEntries,
    Scan,
    ScanIndex,
    SeekIndex,
    SetNumber,
    TrimEvents,
    Urgency,
    ask,
)
from store_suite.contract import Contract, Mirror
from store_suite.reference import ReferenceStore
from store_suite.subject import Subject

T = TypeVar("T")
Lie = Callable[[Any], Any]


class Liar(ReferenceStore):
    """A store that alters its answers, once told how."""

    def __init__(self) -> None:
        super().__init__()
        self.lie: Lie = lambda answer: answer
        self.lie_about_commits: Lie = lambda committed: committed

    async def read(self, request: Read[T]) -> T:
        answer: T = self.lie(await super().read(request))
        return answer

    async def write(self, decide: Callable[[], Decision[T]], urgency: Urgency = "user") -> Committed[T]:
        committed: Committed[T] = self.lie_about_commits(await super().write(decide, urgency))
        return committed


@pytest.fixture
def liar() -> Liar:
    return Liar()


@pytest.fixture
def checked(liar: Liar, runner: asyncio.Runner) -> Subject:
    """Container 1 in Contract(liar): four records, an event, two rows."""
    subject = Subject(Contract(liar), runner)
    container = subject.container()
    for n, (anchor, override) in enumerate([(-9, None), (5, None), (3, None), (1, 2), (None, None)]):
        subject.put(container, b"%d" % n, partition=b"p%d" % n, anchor=anchor, override=override, entries=OWNED)
    subject.purge(container, -9)
    subject.change(SetNumber("mark", 5))
    subject.new_row("other")
    return subject


X = Entry(1, b"x")
OWNED = (X, Entry(16, b"x"))
ALL = KeyRange(b"", b"\xff")
NOTHING = Record(b"", b"", b"", 0, None, None, 1, 1)


def reverse(answer: Any) -> Any:
    return answer[::-1]


def twice(answer: Any) -> Any:
    return [answer[0], *answer]


def corrupt(answer: Any) -> Any:
    return [msgspec.structs.replace(answer[0], value=b"rotten"), *answer[1:]]


LIES: list[tuple[Read[Any], Lie]] = [
    (Get(1, b"p1", b"1"), lambda record: msgspec.structs.replace(record, value=b"rotten")),
    (Get(1, b"p1", b"1"), lambda record: msgspec.structs.replace(record, anchor=6)),
    (Get(1, b"p1", b"1"), lambda record: msgspec.structs.replace(record, key=b"2")),
    (Get(1, b"p9", b"1"), lambda _: NOTHING),
    *[(Scan(1, b"", None, order, None, 9), lie) for order in Order for lie in (reverse, twice, corrupt)],
    (Scan(1, b"", None, Order.CREATED, None, 2), lambda answer: [*answer, msgspec.structs.replace(answer[-1], seq=99)]),
    (Scan(1, b"p2", None, Order.CREATED, None, 9), lambda answer: [NOTHING, *answer]),
    (Scan(1, b"", b"p2", Order.CREATED, None, 9), lambda answer: [msgspec.structs.replace(answer[0], partition=b"p2")]),
    (
        Scan(1, b"", None, Order.HASHED, Position(b"p2", 3), 9),
        lambda answer: [msgspec.structs.replace(answer[0], partition=b"p2", seq=3), *answer],
    ),
    (
        Scan(1, b"", None, Order.CREATED, None, 9),
        lambda answer: [msgspec.structs.replace(record, value=bytes(1 << 20), lsn=50) for record in answer],
    ),
    (EntryOwners(1, (X,)), reverse),
    (EntryOwners(1, (X,)), corrupt),
    (EntryOwners(1, ()), lambda _: [NOTHING]),
    (Entries(1, 0, 9), reverse),
    (Entries(1, 0, 9), twice),
    (Entries(1, 0, 1), lambda answer: [*answer, (answer[0][0] + 1, (X,))]),
    (Entries(1, 2, 9), lambda answer: [(2, (X,)), *answer]),
    (Entries(1, 0, 9), lambda answer: [(answer[0][0], ()), *answer[1:]]),
    (Entries(1, 0, 9), lambda answer: [(answer[0][0], (Entry(2, b""), X)), *answer[1:]]),
    (SeekIndex(1, 16, (ALL,), 9), reverse),
    (SeekIndex(1, 16, (ALL,), 9), lambda answer: (*answer, answer[-1])),
    (SeekIndex(1, 16, (ALL,), 4), lambda answer: (*answer, 98, 99)),
    (Fetch(1, (2, 3, 4)), reverse),
    (Fetch(1, (2, 3, 4)), corrupt),
    (Fetch(1, (2, 3)), lambda answer: [*answer, msgspec.structs.replace(answer[0], seq=99)]),
    (FetchRange(1, 16, ALL, 9), reverse),
    (FetchRange(1, 16, ALL, 9), twice),
    (
        FetchRange(1, 16, ALL, 9),
        lambda answer: [*answer[:-1], msgspec.structs.replace(answer[-1], value=bytes(1 << 21))],
    ),
    (ScanIndex(1, 16, ALL, False, None, 9), reverse),
    (ScanIndex(1, 16, ALL, True, None, 9), reverse),
    (ScanIndex(1, 16, ALL, False, None, 9), twice),
    (ScanIndex(1, 16, ALL, False, None, 2), lambda answer: [*answer, (b"z", answer[0][1])]),
    (ScanIndex(1, 16, ALL, False, (b"y", 1), 9), lambda answer: [(b"x", NOTHING), *answer]),
    (ScanIndex(1, 16, KeyRange(b"", b"y"), False, None, 9), lambda answer: [*answer, (b"y", NOTHING)]),
    (Due(1, DuePath.ANCHOR, 9, None, 9), reverse),
    (Due(1, DuePath.ANCHOR, 9, None, 9), twice),
    (Due(1, DuePath.ANCHOR, 9, None, 9), corrupt),
    (Due(1, DuePath.ANCHOR, 9, (1, 1), 1), lambda answer: [*answer, msgspec.structs.replace(answer[0], anchor=7)]),
    (Due(1, DuePath.ANCHOR, 4, None, 9), lambda answer: [*answer, msgspec.structs.replace(answer[0], anchor=5)]),
    (Due(1, DuePath.ANCHOR, 9, (3, 3), 9), lambda answer: [msgspec.structs.replace(answer[0], anchor=3, seq=3)]),
    (Due(1, DuePath.DEADLINE, 9 * SECOND, None, 9), lambda _: [NOTHING]),
    (NextDue(1, DuePath.ANCHOR, 3), lambda _: 3),
    (CountDue(1, DuePath.ANCHOR, (1, 2)), lambda _: (1,)),
    (CountDue(1, DuePath.ANCHOR, (1, 2)), lambda _: (2, 1)),
    (CountDue(1, DuePath.ANCHOR, (1, 2)), lambda _: (-1, 1)),
    (Count(1), lambda _: Totals(4, 1, 0, 1, 5)),
    (Count(1), lambda _: Totals(4, 3, 0, 2, 0)),
    (Count(1), lambda _: Totals(4, -1, 0, 2, 0)),
    (FindRow(0, "other"), lambda row: msgspec.structs.replace(row, name="sessions")),
    (LoadRow(1), lambda row: msgspec.structs.replace(row, id=2)),
    (ChildRows(0), reverse),
    (ChildRows(0), lambda rows: [msgspec.structs.replace(row, name="same") for row in rows]),
    (ChildRows(0), lambda rows: [msgspec.structs.replace(row, parent=1) for row in rows]),
    (DroppedContainers(), lambda _: [1, 1]),
    (Expiries(None, 0, 9), twice),
    (Expiries(None, 0, 9), lambda events: [msgspec.structs.replace(events[0], id=0)]),
    (Expiries(2, 0, 9), lambda _: [_event(container=1)]),
    (NamedNumber("mark"), str),
]


def _event(**changed: Any) -> Expiry:
    event = Expiry(7, 1, b"p1", b"1", 2, 90, 5, None, "default", 1, 15, 16, "replaced")
    return msgspec.structs.replace(event, **changed)


@pytest.mark.parametrize("number", range(len(LIES)))
def test_contract_notices_answers(checked: Subject, liar: Liar, number: int) -> None:
    request, lie = LIES[number]
    checked.read(request)
    liar.lie = lie
    with pytest.raises(AssertionError):
        checked.read(request)


@pytest.mark.parametrize(
    "request_",
    [
        Allocate(1, True),
        NewId(),
        Scan(1, b"b", b"a", Order.CREATED, None, 9),
        Scan(1, b"", None, Order.CREATED, None, 0),
        Scan(1, b"", None, Order.CREATED, Position(b"", -1), 9),
        Due(1, DuePath.ANCHOR, 9, None, 0),
        CountDue(1, DuePath.ANCHOR, (2, 1)),
        EntryOwners(1, (Entry(-1, b""),)),
        Entries(1, 0, 0),
        Entries(1, -1, 9),
        SeekIndex(1, 15, (ALL,), 9),
        SeekIndex(1, 16, (), 9),
        SeekIndex(1, 16, (ALL,), 0),
        Fetch(1, (3, 2)),
        ScanIndex(1, 15, ALL, False, None, 9),
        ScanIndex(1, 16, ALL, False, None, 0),
        Expiries(None, 0, 0),
        Expiries(None, -1, 9),
    ],
)
def test_contract_refuses_requests(checked: Subject, request_: Read[Any]) -> None:
    with pytest.raises(AssertionError):
        checked.read(request_)


@pytest.mark.parametrize("inside", [True, False])
def test_contract_notices_the_dead(checked: Subject, liar: Liar, inside: bool) -> None:
    """What was deleted or replaced before a read began may not be in its answer."""
    request = Scan(1, b"", None, Order.CREATED, None, 9)
    before = checked.read(request)
    if inside:
        checked.delete(1, before[0])
    else:
        checked.put(1, b"1", partition=b"p1", value=b"new")
    liar.lie = lambda _: before
    with pytest.raises(AssertionError, match="replaced or deleted"):
        checked.read(request)


def _again(record: Record, **changed: Any) -> Record:
    return msgspec.structs.replace(record, **{"lsn": 80, **changed})


def _dying(changed: dict[str, Any]) -> Callable[[Record], tuple[Change, ...]]:
    return lambda old: (Delete(1, old, _event(**changed)),)


CHANGES: list[Callable[[Record], tuple[Change, ...]]] = [
    lambda old: (Put(1, _again(old), insert=True),),
    lambda old: (Put(1, _again(old, key=b"new"), insert=False),),
    lambda old: (Put(1, _again(old, seq=50), insert=False),),
    lambda old: (Put(1, old, insert=False),),
    lambda old: (Put(1, _again(old, lsn=0), insert=False),),
    lambda old: (Put(1, _again(old, seq=0), insert=False),),
    lambda old: (Put(1, _again(old, override=-2), insert=False),),
    lambda old: (Put(1, _again(old), insert=False, entries=(X, X)),),
    lambda old: (Put(1, _again(old), insert=False, entries=(Entry(16, b"x" * 513),)),),
    lambda old: (ReplaceEntries(1, 15, ((old, (b"x",)),)),),
    lambda old: (ReplaceEntries(1, 16, ((old, (b"x" * 513,)),)),),
    lambda old: (ReplaceEntries(1, 16, ((_again(old), (b"x",)),)),),
    lambda old: (ReplaceEntries(1, 16, ((old, (b"x", b"x")),)),),
    lambda old: (RemoveEntries(1, 16, 0),),
    lambda old: (Delete(1, _again(old)),),
    lambda old: (Delete(1, _again(old, key=b"new")),),
    *[
        _dying(changed)
        for changed in (
            {"container": 2},
            {"key": b"x"},
            {"partition": b"x"},
            {"version": 99},
            {"anchor": 6},
            {"override": 1},
            {"lsn": 1},
        )
    ],
    lambda old: (Purge(1, DuePath.ANCHOR, 9, 0, 1, None, "default", 1, 9, "sweep"),),
    lambda old: (Purge(1, DuePath.ANCHOR, 9, 1, None, None, "default", 1, 9, "sweep"),),
    lambda old: (Purge(1, DuePath.DEADLINE, 9, 1, 1, None, "default", 1, 9, "sweep"),),
    lambda old: (Purge(1, DuePath.ANCHOR, 9, 1, -1, None, "default", 1, 9, "sweep"),),
    lambda old: (ClearDropped(1, 5),),
    lambda old: (ClearDropped(99, 0),),
    lambda old: (PutRow(CatalogRow(99, 0, "sessions", b"")),),
    lambda old: (SetNumber("mark", 2**63),),
    lambda old: (TrimEvents(5, 0),),
    lambda old: (old,),  # type: ignore[list-item, return-value]
]


@pytest.mark.parametrize("number", range(len(CHANGES)))
def test_contract_refuses_changes(checked: Subject, number: int) -> None:
    """A change that no decision may make stops its decision, and nothing is done."""
    request = Scan(1, b"", None, Order.CREATED, None, 9)
    before = checked.read(request)
    (old,) = [record for record in before if record.key == b"1"]
    with pytest.raises(AssertionError):
        checked.change(SetNumber("mark", 6), *CHANGES[number](old))
    assert checked.read(request) == before
    assert checked.read(NamedNumber("mark")) == 5


@pytest.mark.parametrize(
    "lie",
    [
        lambda committed: msgspec.structs.replace(committed, commit_seq=1),
        lambda committed: msgspec.structs.replace(committed, purged=()),
        lambda committed: msgspec.structs.replace(committed, purged=(Purged(2, 0),)),
        lambda committed: msgspec.structs.replace(committed, purged=(Purged(0, 5),)),
        lambda committed: msgspec.structs.replace(committed, purged=(Purged(-1, 0),)),
    ],
)
def test_contract_notices_commits(checked: Subject, liar: Liar, lie: Lie) -> None:
    liar.lie_about_commits = lie
    with pytest.raises(AssertionError):
        checked.purge(1, -20, limit=1)


def test_contract_notices_catalog(checked: Subject, liar: Liar, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Liar, "catalog_version", 5)
    checked.change(PutRow(CatalogRow(1, 0, "sessions", b"")))
    for row in (
        CatalogRow(1, 0, "sessions", b"new"),
        CatalogRow(1, 0, "renamed", b"new"),
        CatalogRow(9, 0, "another", b""),
    ):
        with pytest.raises(AssertionError, match="still version 5"):
            checked.change(PutRow(row))


def test_contract_notices_numbers(checked: Subject, liar: Liar) -> None:
    def allocate() -> Decision[None]:
        yield Allocate(1, True)
        yield NewId()
        return Outcome((), None)

    checked.write(allocate)
    liar._rows[1] = msgspec.structs.replace(liar._rows[1], lsn=0)
    with pytest.raises(AssertionError, match="again"):
        checked.write(allocate)
    liar._rows[1] = msgspec.structs.replace(liar._rows[1], lsn=900, seq=0)
    with pytest.raises(AssertionError, match="again"):
        checked.write(allocate)
    liar._rows[1] = msgspec.structs.replace(liar._rows[1], lsn=990, seq=900)
    liar._last_id = 0
    with pytest.raises(AssertionError, match="catalogue id"):
        checked.write(allocate)


def _raising(error: Exception) -> Lie:
    def raise_it(_: Any) -> Any:
        raise error

    return raise_it


@pytest.mark.parametrize(
    ("error", "on_read", "on_write"),
    [
        (Unavailable("closing"), Unavailable, Unavailable),
        (OutcomeUnknown("midway"), AssertionError, OutcomeUnknown),
        (Conflict("policy"), AssertionError, AssertionError),
        (KeyError("bug"), AssertionError, AssertionError),
    ],
)
def test_contract_error_kinds(
    checked: Subject, liar: Liar, error: Exception, on_read: type[Exception], on_write: type[Exception]
) -> None:
    liar.lie = liar.lie_about_commits = _raising(error)
    with pytest.raises(on_read):
        checked.read(NamedNumber("mark"))
    with pytest.raises(on_write):
        checked.change()


def test_contract_passes_refusals(checked: Subject) -> None:
    def decide() -> Decision[None]:
        raise Conflict("taken")

    with pytest.raises(Conflict):
        checked.write(decide)


@pytest.mark.parametrize("number", range(len(LIES)))
def test_mirror_notices_answers(runner: asyncio.Runner, liar: Liar, number: int) -> None:
    subject = Subject(Mirror(ReferenceStore(), liar), runner)
    container = subject.container()
    for n, (anchor, override) in enumerate([(-9, None), (5, None), (3, None), (1, 2), (None, None)]):
        subject.put(container, b"%d" % n, partition=b"p%d" % n, anchor=anchor, override=override, entries=OWNED)
    subject.purge(container, -9)
    subject.change(SetNumber("mark", 5))
    subject.new_row("other")
    request, lie = LIES[number]
    subject.read(request)
    liar.lie = lie
    with pytest.raises(AssertionError, match="the left store says"):
        subject.read(request)


def test_mirror_notices_writes(runner: asyncio.Runner) -> None:
    """What decisions read, reply, purge or raise must be the same on both sides."""
    left, right = ReferenceStore(), ReferenceStore()
    subject = Subject(Mirror(left, right), runner)
    container = subject.container()
    record = subject.put(container, b"a", anchor=0)
    runner.run(_delete(right, container, record))

    def read() -> Decision[None]:
        yield Get(container, b"p", b"a")
        return Outcome((), None)

    def reply() -> Decision[bool]:
        return Outcome((), (yield from ask(Get(container, b"p", b"a"))) is None)

    def refuse() -> Decision[None]:
        if (yield from ask(Get(container, b"p", b"a"))):
            raise Conflict("taken")
        return Outcome((), None)

    decides: tuple[Callable[[], Decision[Any]], ...] = (read, reply, refuse)
    for decide in decides:
        with pytest.raises(AssertionError, match="the left store says"):
            subject.write(decide)
    with pytest.raises(AssertionError, match="purges"):
        subject.purge(container, 5)


async def _delete(store: ReferenceStore, container: int, record: Record) -> None:
    def decide() -> Decision[None]:
        return Outcome((Delete(container, record),), None)
        yield

    await store.write(decide)
