"""Concurrent clients that append to lists, and the check that their answers agree with some serial order.

A row's `v` lists the transactions that appended to it; `a`, which has an index, is their number. A transaction that has read
a list comes after the last transaction in it, and before the next one that appended.
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


class Answers:
    """The answers that one transaction got: the lists it read, and (key, length) of lists that are shorter than `length`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lists: list[tuple[int, list[str]]] = []
        self.shorter: list[tuple[int, int]] = []
        self.appended: set[int] = set()


class Appends:
    """The history of all clients. `holds`: the answers of the committed transactions."""

    def __init__(self) -> None:
        self.holds: list[Answers] = []
        self.aborted = 0
        self._names = 0

    async def client(self, run: Run, chance: Random, count: int) -> None:
        for _ in range(count):
            self._names += 1
            answers = Answers(f"t{self._names}")
            try:
                await self._transaction(run, chance, answers)
            except Fault as fault:
                if fault.status != "ABORTED":
                    raise
                self.aborted += 1
            else:
                self.holds.append(answers)

    async def _transaction(self, run: Run, chance: Random, answers: Answers) -> None:
        control = TransactionControl(begin="serializable_read_write")
        for _ in range(chance.randrange(1, 5)):
            kind = chance.random()
            if kind < 0.35:
                rows, id = await self._append(run, chance.choice(KEYS), control, answers)
            elif kind < 0.7:
                low, high = sorted(chance.sample(KEYS, 2))
                rows, id = await run(f"SELECT id, v FROM lists WHERE id >= {low} AND id < {high}", control)
                self._read(answers, rows, range(low, high))
            else:
                least = chance.randrange(1, 12)
                rows, id = await run(f"SELECT id, v FROM lists VIEW by_a WHERE a >= {least}", control)
                found = {key for key, _ in rows}
                self._read(answers, rows, sorted(found))
                answers.shorter += [(key, least) for key in KEYS if key not in found]
            control = TransactionControl(id=id)
            await asyncio.sleep(0)
        await run("SELECT 1", TransactionControl(id=control.id, commit=True))

    async def _append(self, run: Run, key: int, control: TransactionControl, answers: Answers) -> tuple[list[Any], str]:
        rows, id = await run(f"SELECT id, v FROM lists WHERE id = {key}", control)
        self._read(answers, rows, [key])
        before = answers.lists[-1][1]
        if answers.name in before:
            return rows, id
        answers.appended.add(key)
        after = ",".join([*before, answers.name])
        text = f"UPSERT INTO lists (id, a, v) VALUES ({key}, {len(before) + 1}, '{after}'u)"
        return await run(text, TransactionControl(id=id))

    def _read(self, answers: Answers, rows: list[Any], keys: Any) -> None:
        found = dict(rows)
        answers.lists += [(key, found[key].split(",") if key in found else []) for key in keys]

    def check(self, final: dict[int, list[str]]) -> None:
        """Raise AssertionError unless all answers agree with one serial order."""
        names = {answers.name for answers in self.holds}
        assert {name for each in final.values() for name in each} <= names
        order: TopologicalSorter[str] = TopologicalSorter()
        for each in final.values():
            for first, then in pairwise(each):
                order.add(then, first)
        for answers in self.holds:
            assert all(answers.name in final[key] for key in answers.appended), f"{answers.name} is lost"
            for key, seen in answers.lists:
                theirs = [name for name in seen if name != answers.name]
                assert final.get(key, [])[: len(theirs)] == theirs, f"{answers.name} read {seen} of {key}"
                self._add(order, answers, final.get(key, []), len(theirs))
            for key, least in answers.shorter:
                if len(now := final.get(key, [])) >= least and now[least - 1] != answers.name:
                    order.add(now[least - 1], answers.name)
        try:
            order.prepare()
        except CycleError as cycle:
            raise AssertionError(f"no order: {cycle.args[1]}") from cycle

    def _add(self, order: TopologicalSorter[str], answers: Answers, final: list[str], seen: int) -> None:
        """Add the order of one read: after the last append that it saw, and before the next one."""
        if seen:
            order.add(answers.name, final[seen - 1])
        if len(final) > seen and final[seen] != answers.name:
            order.add(final[seen], answers.name)


async def run_appends(runs: list[Run], chance: Random, count: int) -> Appends:
    """Run all clients at once, each with `count` transactions, and check their answers."""
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
