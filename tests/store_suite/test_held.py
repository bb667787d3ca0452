"""What transactions of other processes hold: nothing where there are none, and what those have told where they share a store."""

from __future__ import annotations

import asyncio
from typing import TypeVar

import pytest

from mayflydb.model.order import Identity
from mayflydb.store.interface import Decision, HeldRecords, Outcome, Read, StillHeld, ask
from mayflydb.store.postgres import PostgresStore
from postgres_cluster import Cluster
from store_suite.subject import Subject

T = TypeVar("T")

A: Identity = (b"p", b"a")
LONG: Identity = (b"", b"\0" * 100_000)


def asked(store: Subject, request: Read[T]) -> T:
    """The answer inside a decision."""

    def decide() -> Decision[T]:
        return Outcome((), (yield from ask(request)))

    return store.write(decide, "sweep").reply


@pytest.mark.parametrize("purging", [False, True])
def test_nothing_is_held_by_others_where_there_are_none(store: Subject, container: int, purging: bool) -> None:
    assert store.read(HeldRecords(container)) == ()
    assert asked(store, HeldRecords(container, purging)) == ()


def test_what_another_node_holds(postgres: Cluster, runner: asyncio.Runner) -> None:
    url = postgres.fresh()
    one, other = (Subject(runner.run(PostgresStore.open(url)), runner) for _ in range(2))
    assert isinstance(one.store, PostgresStore)
    here, there = one.container("here"), one.container("there")
    holds = one.store.holds
    numbers = [one.run(holds.hold(here, each)) for each in (A, LONG)]

    async def release() -> None:
        holds.release(numbers[:1])

    try:
        found = other.read(HeldRecords(here))
        assert set(found or ()) == {A, LONG}
        for purging in (False, True):
            assert asked(other, HeldRecords(here, purging)) == found
            assert (other.read(HeldRecords(there)), asked(other, HeldRecords(there, purging))) == ((), ())
            assert (one.read(HeldRecords(here)), asked(one, HeldRecords(here, purging))) == ((), ())
        assert (asked(one, StillHeld(tuple(numbers))), asked(one, StillHeld((*numbers, 99)))) == (True, False)
        one.run(release())
        while len(other.run(other.store.read(HeldRecords(here))) or ()) > 1:
            pass
        assert other.read(HeldRecords(here)) == (LONG,)
        assert (asked(one, StillHeld(tuple(numbers))), asked(one, StillHeld((numbers[1],)))) == (False, True)
    finally:
        for each in (one, other):
            runner.run(each.store.close())
