"""Index keys and dates are computed outside of the writer, a page at a time, and only what still holds is written."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pytest

from engine.site import Site, create, delete, expected, keys_of, upsert
from mayflydb.engine import preparing
from mayflydb.engine.building import Build, IndexRequest
from mayflydb.engine.catalog import Index
from mayflydb.engine.dates import DateIndexes, with_slot
from mayflydb.engine.preparing import Pages
from mayflydb.evaluation.stops import EvaluationStopped, StopReason, TooManyEvaluations
from mayflydb.model.errors import Unavailable
from mayflydb.model.instant import SECOND
from mayflydb.model.order import Position
from mayflydb.model.record import Record

T = TypeVar("T")

FIRST = IndexRequest(spec={"field": 0})


class Disturbed:
    """Computes at once; the first time, something else happens before the caller goes on."""

    deadline: None = None

    def __init__(self, *disturb: Callable[[], Any]) -> None:
        self._disturb = [*disturb]

    async def call(self, size: int, function: Callable[..., T], *given: Any) -> T:
        result = function(*given)
        if self._disturb:
            await self._disturb.pop()()
        return result

    async def take_turn(self) -> None:
        pass


def fill(site: Site, *values: bytes) -> None:
    for n, value in enumerate(values):
        site.write(create(b"%d" % n, value))


def test_keys_are_computed_on_a_thread(site: Site) -> None:
    threads = set()

    def noting(record: Record, index: Index) -> Sequence[bytes]:
        threads.add(threading.get_ident())
        return keys_of(record, index)

    fill(site, b"a", b"b,c")
    (index,) = site.run(site.engine.indexes.define_and_build(site.it, lambda _: [FIRST], noting))
    assert threads
    assert threading.get_ident() not in threads
    assert site.linked(index) == expected(site.values(), index)


def test_a_decision_writes_few_entries(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most as many as are allowed, or one record; the rest of the page is not computed again."""
    monkeypatch.setattr(preparing, "MOST_ENTRIES", 3)
    computed: list[bytes] = []

    def noting(record: Record, index: Index) -> Sequence[bytes]:
        computed.append(record.key)
        return keys_of(record, index)

    fill(site, b"a", b"b,c", b"d", b"e,f,g,h,i", b"j")
    build = Build(site.engine.store, site.engine.nodes, site.it, noting)
    site.run(build.define(lambda _: [FIRST]))
    after: Position | None = None
    linked: list[int] = []  # records of each step
    while True:
        before = len(site.entries(build.indexes[0].number) or ())
        after = site.run(build.step(after, site.now))
        if after is None:
            break
        linked.append(len(site.entries(build.indexes[0].number) or ()) - before)
    assert linked == [2, 1, 1, 1]
    assert computed == [b"0", b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize("changed", [0, 1, 2])
@pytest.mark.parametrize("lives", [True, False])
def test_what_is_written_meanwhile_is_linked_as_it_is_then(site: Site, changed: int, lives: bool) -> None:
    fill(site, b"a", b"b", b"c")
    key = b"%d" % changed

    async def disturb() -> None:
        await site.engine.write(site.it, upsert(key, b"x,y") if lives else delete(key), site.now)
        await site.engine.write(site.it, upsert(b"9", b"z"), site.now)

    build = Build(site.engine.store, site.engine.nodes, site.it, keys_of, computing=Disturbed(disturb))
    site.run(build.define(lambda _: [FIRST]))
    after: Position | None = None
    while (after := site.run(build.step(after, site.now))) is not None:
        pass
    (index,) = site.node().definition.indexes
    assert index.state == "ready"
    assert site.linked(index) == expected(site.values(), index)


@pytest.mark.parametrize("stop", [EvaluationStopped(StopReason.MEMORY), TooManyEvaluations()])
def test_a_computation_that_is_stopped_ends_the_build(
    site: Site, monkeypatch: pytest.MonkeyPatch, stop: Exception
) -> None:
    fill(site, b"a")

    async def refuse() -> None:
        raise stop

    monkeypatch.setattr(site.engine.indexes, "_begin_computing", lambda container: Disturbed(refuse))
    with pytest.raises(Unavailable):
        site.build(FIRST)
    site.settle()
    assert site.node().definition.indexes == ()


def test_dates_of_records_that_are_written_meanwhile(site: Site) -> None:
    """The dates that the records have in the end are those of their last values."""
    fill(site, b"5", b"6", b"7")
    node = site.run(site.engine.definitions.replace(site.it, lambda node: with_slot(node.definition)[0], site.now))
    slot = node.definition.slots[0].number

    async def disturb() -> None:
        await site.engine.write(site.it, upsert(b"1", b"8"), site.now)

    dates = DateIndexes(
        site.engine.store, site.engine.nodes, lambda container: None, lambda container: Disturbed(disturb)
    )
    assert site.run(dates.build(site.it, slot, lambda record: int(record.value) * SECOND))
    pages: Pages[int] = Pages(site.engine.store, site.it, Disturbed(), lambda record: 1, lambda value: value)
    found = site.run(pages.take(None, 9))
    assert {record.key: dict(record.dates)[slot] // SECOND for record, _ in found} == {b"0": 5, b"1": 8, b"2": 7}
