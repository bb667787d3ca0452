"""Whether what a transaction has read still holds when it is committed: each way in which it may not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from mayflydb.engine.read_set import ReadSet
from mayflydb.expiry.rules import Rule
from mayflydb.model.errors import WriteConflict
from mayflydb.model.instant import SECOND
from mayflydb.model.order import Order
from mayflydb.model.record import Record
from mayflydb.store.interface import Get, Read, Scan

NOW = 1000 * SECOND
RULES = (Rule("default", None, overrides=True, hides=True),)
P = b"p"


def record(key: str, lsn: int, ttl: int | None = None) -> Record:
    return Record(P, key.encode(), b"{}", NOW, NOW, ttl, lsn, lsn)


A, B, DYING = record("a", 1), record("b", 2), record("dying", 3, 60)
MANY = [record(f"m{number}", number) for number in range(1, 40)]


def answer(request: Read[Any], stored: Sequence[Record]) -> Any:
    if isinstance(request, Get):
        return next((each for each in stored if (each.partition, each.key) == (request.partition, request.key)), None)
    assert isinstance(request, Scan) and request.lower == P
    after = request.after.number if request.after else 0

    def number(each: Record) -> int:
        return each.lsn if request.order is Order.CHANGED else each.seq

    return sorted((each for each in stored if number(each) > after), key=number)[: request.limit]


def holds(read_set: ReadSet, stored: Sequence[Record], lsn: int, now: int = NOW, rules: Any = RULES) -> bool:
    check = read_set.check(lsn, rules, now)
    try:
        request = next(check)
        while True:
            request = check.send(answer(request, stored))
    except StopIteration:
        return True
    except WriteConflict:
        return False


def again(of: Record, lsn: int) -> Record:
    return msgspec.structs.replace(of, lsn=lsn)


READ = [
    ("nothing happened", [A, B], 10, True),
    ("something else was written", [A, B, record("c", 11)], 11, True),
    ("it was replaced", [again(A, 11), B], 11, False),
    ("it was deleted", [B], 11, False),
    ("what was missing was made", [A, B, record("none", 11)], 11, False),
]


@pytest.mark.parametrize(("what", "stored", "lsn", "expected"), READ)
def test_records_that_were_read(what: str, stored: list[Record], lsn: int, expected: bool) -> None:
    read_set = ReadSet(1, 10, RULES, NOW)
    read_set.note_read(P, b"a", A)
    read_set.note_read(P, b"none", None)
    assert holds(read_set, stored, lsn) is expected, what


SCANNED = [
    ("nothing happened", MANY, 40, True),
    ("another partition was written", MANY, 41, True),
    ("one was added", [*MANY, record("new", 41)], 41, False),
    ("one was replaced", [*MANY[1:], again(MANY[0], 41)], 41, False),
    ("one was deleted", MANY[1:], 41, False),
]


@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize(("what", "stored", "lsn", "expected"), SCANNED)
def test_partitions_that_were_scanned(what: str, stored: list[Record], lsn: int, expected: bool, few: bool) -> None:
    before = MANY[:5] if few else MANY
    stored = [each for each in stored if each in before or each.lsn > 40 or not few]
    read_set = ReadSet(1, 40, RULES, NOW)
    read_set.note_scan(P)
    for each in before:
        read_set.note_read(P, each.key, each)
    assert holds(read_set, stored, lsn) is expected, what


def test_time_passes() -> None:
    read_set = ReadSet(1, 10, RULES, NOW)
    read_set.note_read(P, DYING.key, DYING)
    assert holds(read_set, [DYING], 10, NOW + 60 * SECOND - 1)
    assert not holds(read_set, [DYING], 10, NOW + 60 * SECOND)


def test_an_item_expired_before_may_be_purged() -> None:
    read_set = ReadSet(1, 10, RULES, NOW + 60 * SECOND)
    read_set.note_read(P, DYING.key, DYING)
    assert holds(read_set, [DYING], 11, NOW + 61 * SECOND)
    assert holds(read_set, [], 11, NOW + 61 * SECOND)


def test_rules_change() -> None:
    read_set = ReadSet(1, 10, RULES, NOW)
    read_set.note_read(P, A.key, A)
    assert not holds(read_set, [A], 10, rules=())


def test_the_first_version_counts() -> None:
    read_set = ReadSet(1, 10, RULES, NOW)
    read_set.note_read(P, A.key, A)
    read_set.note_read(P, A.key, again(A, 11))
    assert not holds(read_set, [again(A, 11)], 11)
    assert not read_set.is_empty and ReadSet(1, 10, RULES, NOW).is_empty
