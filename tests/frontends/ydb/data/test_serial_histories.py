"""Transactions of several clients at random, statement by statement: what committed is as if one had come after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from random import Random
from typing import Any, TypeAlias
from unittest.mock import AsyncMock, patch

import pytest

import planted
from mayflydb.engine.container_snapshot import ContainerSnapshot
from mayflydb.engine.version_cache import VersionCache
from mayflydb.frontends.ydb.transactions import TransactionControl, TransactionMode
from mayflydb.frontends.ydb.writing import TableWriter
from mayflydb.query.yql.faults import Fault

TABLE = """CREATE TABLE t (id Int64, a Int64, b Int64, c Utf8, PRIMARY KEY (id),
    INDEX by_a GLOBAL ON (a) COVER (b), INDEX by_b GLOBAL UNIQUE ON (b))"""
PATHS = ("t", "t VIEW by_a", "t VIEW by_b")
IDS, VALUES = range(8), range(6)
STEPS = 500

Cells: TypeAlias = tuple[int | None, int | None]
"""(a, b)"""
Rows: TypeAlias = dict[int, Cells]


class Refused(AssertionError):
    """A constraint is violated."""


def put(rows: Rows, id: int, cells: Cells) -> None:
    """Errors: Refused."""
    if cells[1] is not None and any(key != id and other[1] == cells[1] for key, other in rows.items()):
        raise Refused
    rows[id] = cells


class Step:
    """A statement, and what it does with rows: what it gives, in any order unless `ordered`."""

    def __init__(self, text: str, do: Callable[[Rows], list[Any]], ordered: bool = False) -> None:
        self.text = text
        self._do = do
        self._ordered = ordered

    def of(self, rows: Rows) -> list[Any]:
        return self.told(self._do(rows))

    def told(self, found: Iterable[Any]) -> list[Any]:
        return list(found) if self._ordered else sorted(found, key=repr)


def literal(value: int | None) -> str:
    return "NULL" if value is None else str(value)


def value_of(chance: Random) -> int | None:
    return None if chance.random() < 0.2 else chance.choice(VALUES)


def reads(chance: Random) -> Step:
    id, low, high, most = chance.choice(IDS), *sorted(chance.sample(IDS, 2)), chance.randrange(1, 4)
    x = chance.choice(VALUES)

    def by_a(rows: Rows) -> list[Any]:
        return sorted((a, id) for id, (a, _) in rows.items() if a is not None and a >= x)

    found: list[Step] = [
        Step(f"SELECT id, a, b FROM t WHERE id = {id}", lambda rows: [(id, *rows[id])] if id in rows else []),
        Step(
            f"SELECT id, a FROM t WHERE id >= {low} AND id < {high}",
            lambda rows: [(id, rows[id][0]) for id in rows if low <= id < high],
        ),
        Step(
            f"SELECT id FROM t WHERE id > {low} ORDER BY id DESC LIMIT {most}",
            lambda rows: [(id,) for id in sorted(rows, reverse=True) if id > low][:most],
            ordered=True,
        ),
        Step(
            f"SELECT a, id FROM t VIEW by_a WHERE a >= {x} ORDER BY a, id LIMIT {most}",
            lambda rows: by_a(rows)[:most],
            ordered=True,
        ),
        Step(
            f"SELECT id, b FROM t VIEW by_a WHERE a = {x}",
            lambda rows: [(id, b) for id, (a, b) in rows.items() if a == x],
        ),
        Step(f"SELECT id FROM t VIEW by_b WHERE b = {x}", lambda rows: [(i,) for i, r in rows.items() if r[1] == x]),
        Step("SELECT COUNT(*), SUM(a) FROM t VIEW by_a", counted),
    ]
    return chance.choice(found)


def counted(rows: Rows) -> list[Any]:
    some = [a for a, _ in rows.values() if a is not None]
    return [(len(rows), sum(some) if some else None)]


def writes(chance: Random) -> Step:
    id, other, x = chance.choice(IDS), chance.choice(IDS), chance.choice(VALUES)
    a, b = value_of(chance), value_of(chance)

    def upsert_a(rows: Rows) -> list[Any]:
        put(rows, id, (a, rows.get(id, (None, None))[1]))
        return []

    def upsert_b(rows: Rows) -> list[Any]:
        put(rows, id, (rows.get(id, (None, None))[0], b))
        return []

    def replace(rows: Rows) -> list[Any]:
        put(rows, id, (a, None))
        return []

    def insert(rows: Rows) -> list[Any]:
        if id in rows:
            raise Refused
        put(rows, id, (a, None))
        return []

    def add(rows: Rows) -> list[Any]:
        done = [(id, a + 1) for id, (a, _) in rows.items() if a == x]
        rows.update({id: (more, rows[id][1]) for id, more in done})
        return done

    def copy(rows: Rows) -> list[Any]:
        before = dict(rows)
        rows.update({id + 1: (x, before.get(id + 1, (x, None))[1]) for id, (a, _) in before.items() if a == x})
        return []

    def remove(rows: Rows) -> list[Any]:
        gone = [id for id, r in rows.items() if r[0] == x]
        return [(id, *rows.pop(id)) for id in gone]

    def remove_two(rows: Rows) -> list[Any]:
        for each in (id, other):
            rows.pop(each, None)
        return []

    return chance.choice(
        [
            Step(f"UPSERT INTO t (id, a) VALUES ({id}, {literal(a)})", upsert_a),
            Step(f"UPSERT INTO t (id, b) VALUES ({id}, {literal(b)})", upsert_b),
            Step(f"REPLACE INTO t (id, a) VALUES ({id}, {literal(a)})", replace),
            Step(f"INSERT INTO t (id, a) VALUES ({id}, {literal(a)})", insert),
            Step(f"UPDATE t SET a = a + 1 WHERE a = {x} RETURNING id, a", add),
            Step(f"UPSERT INTO t SELECT id + 1 AS id, a FROM t VIEW by_a WHERE a = {x}", copy),
            Step(f"DELETE FROM t WHERE a = {x} RETURNING id, a, b", remove),
            Step(f"DELETE FROM t ON (id) VALUES ({id}), ({other})", remove_two),
        ]
    )


class History:
    """Clients, what each has seen, and the rows as those that committed have left them."""

    def __init__(self, place: Any, chance: Random, modes: list[TransactionMode]) -> None:
        self.place = place
        self.chance = chance
        self.modes = modes
        self.rows: Rows = {}
        self.versions: dict[int, int] = {}
        self.open: list[Client] = []
        self.committed = self.aborted = 0

    def step(self) -> None:
        if len(self.open) < 4 and self.chance.random() < 0.4:
            self.open.append(Client(self, self.chance.choice(self.modes)))
        elif self.open:
            client = self.chance.choice(self.open)
            if self.chance.random() < 0.25 or not client.step():
                self.open.remove(client)
                client.end()

    def read(self, path: str) -> Rows:
        """The rows that are there, by one of PATHS."""
        return {id: (a, b) for id, a, b in self.place.rows(f"SELECT id, a, b FROM {path}")}

    def check(self) -> None:
        for path in PATHS:
            assert self.read(path) == self.rows, path


def result_or_fault(work: Callable[[], Any]) -> Any:
    """Return the result of `work`, or its fault."""
    try:
        return work()
    except Fault as fault:
        return fault


class Client:
    """One transaction."""

    def __init__(self, history: History, mode: TransactionMode) -> None:
        self.history = history
        self.mode = mode
        self.id = ""
        self.over = False
        self.log: list[tuple[Step, list[Any]]] = []

    def step(self) -> bool:
        """One statement; whether it is still open."""
        history = self.history
        step = (reads if history.chance.random() < 0.5 or self.mode == "snapshot_read_only" else writes)(history.chance)
        if not self.log:
            self.began, self.seen = dict(history.versions), dict(history.rows)
            self.start = dict(history.rows)
        control = TransactionControl(id=self.id) if self.id else TransactionControl(begin=self.mode)
        parts = refused = result_or_fault(lambda: history.place.parts(step.text, control=control))
        if isinstance(refused, Fault):
            self.over = True
            if refused.status == "ABORTED":
                assert self.mode != "snapshot_read_only"
                history.aborted += 1
            else:
                assert refused.status == "PRECONDITION_FAILED", refused
                with pytest.raises(Refused):
                    step.of(dict(self.seen))
            return False
        self.id = parts[-1].tx_id
        told = step.told([row for part in parts for row in part.rows])
        # Until it ends it is alone with what was there when it began.
        assert told == step.of(self.seen), step.text
        self.log.append((step, told))
        return True

    def end(self) -> None:
        history = self.history
        if self.over or not self.log:
            return
        changed = {id for id in {*self.seen, *self.start} if self.seen.get(id) != self.start.get(id)}
        snapshot = history.place.session.transactions[self.id].snapshot
        writes = bool(snapshot._done)
        refused = result_or_fault(lambda: history.place.commit(self.id))
        if refused is not None:
            assert refused.status == "ABORTED", refused
            assert self.mode != "snapshot_read_only"
            history.aborted += 1
            history.check()
            return
        history.committed += 1
        if self.mode == "serializable_read_write" and writes:
            self.check_answers()
        else:
            # Of two snapshots that have written one row one has failed. A row that came and went meanwhile was never there.
            met = {id for id in changed if history.versions.get(id) != self.began.get(id)}
            assert not met & {*self.start, *history.rows}
            for id in changed:
                history.rows.pop(id, None)
            history.rows |= {id: self.seen[id] for id in changed if id in self.seen}
        for id in IDS:
            if id in changed:
                history.versions[id] = history.versions.get(id, 0) + 1
        history.check()

    def check_answers(self) -> None:
        """Check that the transaction, run as a whole now, would get the same answers."""
        for step, told in self.log:
            assert told == step.of(self.history.rows), f"{step.text} in {[step.text for step, _ in self.log]}"


def run_history(place: Any, chance: Random, modes: list[TransactionMode]) -> History:
    """STEPS statements of up to four clients. AssertionError where an answer, or the rows after a commit, are not the model's."""
    place.parts(TABLE)
    history = History(place, chance, modes)
    for _ in range(STEPS):
        history.step()
    for client in history.open:
        client.end()
    return history


MODES: dict[str, list[TransactionMode]] = {
    "serializable": ["serializable_read_write"],
    "and snapshots that read": ["serializable_read_write", "serializable_read_write", "snapshot_read_only"],
    "snapshots": ["snapshot_read_write"],
}


@pytest.mark.parametrize("modes", MODES)
def test_histories(place: Any, chance: Random, modes: str) -> None:
    history = run_history(place, chance, MODES[modes])
    assert {path: history.read(path) for path in PATHS} == dict.fromkeys(PATHS, history.rows)
    assert history.committed > 10
    assert history.aborted > 0


def nothing(self: ContainerSnapshot, *known: object) -> Any:
    yield from ()


BUGS: dict[str, tuple[str, Callable[[], AbstractContextManager[object]]]] = {
    "ranges are not checked": (
        "serializable",
        lambda: patch.object(ContainerSnapshot, "_ranges_read", lambda self: iter(())),
    ),
    "reads are not checked": ("serializable", lambda: patch.object(ContainerSnapshot, "check_reads", nothing)),
    "writes are not checked": ("snapshots", lambda: patch.object(ContainerSnapshot, "check_writes", nothing)),
    "unique values are those that are stored": (
        "snapshots",
        lambda: patch.object(TableWriter, "_check_unique", AsyncMock()),
    ),
    "the replaced are forgotten": (
        "snapshots",
        lambda: patch.object(VersionCache, "replaced_since", lambda self, id, after: ([], after)),
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(place: Any, bug: str) -> None:
    modes, plant = BUGS[bug]

    def check(seed: int) -> None:
        place.parts("DROP TABLE IF EXISTS t")
        run_history(place, Random(seed), MODES[modes])

    with plant():
        assert planted.found(check), f"{bug}: nothing was found"
