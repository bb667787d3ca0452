"""Clients that append to lists, all at once, and whether what they were told has an order.

A row's `v` is the transactions that appended to it, `a` how many there are, by which there is an index. Each list that was read
tells who came before: whoever is its last, and, since it was read by somebody who came before him, whoever appended next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from random import Random
from typing import Any

from mayflydb.frontends.ydb.transactions import TransactionControl
from mayflydb.query.yql.faults import Fault

TABLE = "CREATE TABLE lists (id Int64, a Int64, v Utf8, PRIMARY KEY (id), INDEX by_a GLOBAL ON (a))"
KEYS = range(6)

Run = Callable[[str, TransactionControl | None], Awaitable[tuple[list[Any], str]]]
"""Runs a query: its rows, and the transaction that is open afterwards. Errors: Fault."""


class Told:
    """What one transaction was told: the lists that it read, and keys whose lists it knows to be shorter than so many."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lists: list[tuple[int, list[str]]] = []
        self.shorter: list[tuple[int, int]] = []
        self.appended: set[int] = set()


class Appends:
    """`holds`: of those that committed."""

    def __init__(self) -> None:
        self.holds: list[Told] = []
        self.aborted = 0
        self._names = 0

    async def client(self, run: Run, chance: Random, count: int) -> None:
        for _ in range(count):
            self._names += 1
            told = Told(f"t{self._names}")
            try:
                await self._transaction(run, chance, told)
            except Fault as fault:
                if fault.status != "ABORTED":
                    raise
                self.aborted += 1
            else:
                self.holds.append(told)

    async def _transaction(self, run: Run, chance: Random, told: Told) -> None:
        control = TransactionControl(begin="serializable_read_write")
        for _ in range(chance.randrange(1, 5)):
            kind = chance.random()
            if kind < 0.35:
                rows, id = await self._append(run, chance.choice(KEYS), control, told)
            elif kind < 0.7:
                low, high = sorted(chance.sample(KEYS, 2))
                rows, id = await run(f"SELECT id, v FROM lists WHERE id >= {low} AND id < {high}", control)
                self._read(told, rows, range(low, high))
            else:
                least = chance.randrange(1, 12)
                rows, id = await run(f"SELECT id, v FROM lists VIEW by_a WHERE a >= {least}", control)
                found = {key for key, _ in rows}
                self._read(told, rows, sorted(found))
                told.shorter += [(key, least) for key in KEYS if key not in found]
            control = TransactionControl(id=id)
            await asyncio.sleep(0)
        await run("SELECT 1", TransactionControl(id=control.id, commit=True))

    async def _append(self, run: Run, key: int, control: TransactionControl, told: Told) -> tuple[list[Any], str]:
        rows, id = await run(f"SELECT id, v FROM lists WHERE id = {key}", control)
        self._read(told, rows, [key])
        before = told.lists[-1][1]
        if told.name in before:
            return rows, id
        told.appended.add(key)
        after = ",".join([*before, told.name])
        text = f"UPSERT INTO lists (id, a, v) VALUES ({key}, {len(before) + 1}, '{after}'u)"
        return await run(text, TransactionControl(id=id))

    def _read(self, told: Told, rows: list[Any], keys: Any) -> None:
        found = dict(rows)
        told.lists += [(key, found[key].split(",") if key in found else []) for key in keys]

    def check(self, final: dict[int, list[str]]) -> None:
        """AssertionError unless there is an order in which all were told what they were told."""
        names = {told.name for told in self.holds}
        assert {name for each in final.values() for name in each} <= names
        order: TopologicalSorter[str] = TopologicalSorter()
        for each in final.values():
            for first, then in pairwise(each):
                order.add(then, first)
        for told in self.holds:
            assert all(told.name in final[key] for key in told.appended), f"{told.name} is lost"
            for key, seen in told.lists:
                theirs = [name for name in seen if name != told.name]
                assert final.get(key, [])[: len(theirs)] == theirs, f"{told.name} read {seen} of {key}"
                self._add(order, told, final.get(key, []), len(theirs))
            for key, least in told.shorter:
                if len(now := final.get(key, [])) >= least and now[least - 1] != told.name:
                    order.add(now[least - 1], told.name)
        try:
            order.prepare()
        except CycleError as cycle:
            raise AssertionError(f"no order: {cycle.args[1]}") from cycle

    def _add(self, order: TopologicalSorter[str], told: Told, final: list[str], seen: int) -> None:
        """It came after who appended last before it looked, and before who appended next."""
        if seen:
            order.add(told.name, final[seen - 1])
        if len(final) > seen and final[seen] != told.name:
            order.add(final[seen], told.name)


async def appended(runs: list[Run], chance: Random, count: int) -> Appends:
    """All clients at once, each with so many transactions; what was told is checked."""
    await runs[0](TABLE, None)
    appends = Appends()
    async with asyncio.TaskGroup() as group:
        for run in runs:
            group.create_task(appends.client(run, Random(chance.random()), count))
    rows, _ = await runs[0]("SELECT id, v, a FROM lists", None)
    final = {id: v.split(",") for id, v, _ in rows}
    assert {id: a for id, _, a in rows} == {id: len(each) for id, each in final.items()}
    appends.check(final)
    return appends
