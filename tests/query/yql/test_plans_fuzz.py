"""Random trees: binding and running them gives rows or a Fault, and no other error."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from mayflydb.query.yql import statements as st
from mayflydb.query.yql import syntax as s
from mayflydb.query.yql.faults import Fault
from mayflydb.query.yql.plans import bind, execute, explain
from mayflydb.query.yql.schemas import Run
from query.yql.memory_tables import NOW
from query.yql.test_plans_random import tables
from query.yql.trees import AT, Trees


class Likely(Trees):
    """Makes trees of existing names, so that more of them can be bound."""

    def word(self) -> str:
        return self.chance.choice("abcd")

    def column(self) -> s.Expression:
        return s.Name(AT, self.word())

    def parameter(self) -> s.Expression:
        return self.literal()

    def table(self) -> s.TableRef:
        return s.TableRef(AT, self.chance.choice("tu"))

    def call(self, depth: int) -> s.Expression:
        found = super().call(depth)
        return self.literal() if isinstance(found, s.FunctionCall) and found.name == "DateTime::Format" else found

    def target(self) -> s.TableRef:
        return self.table()


@pytest.mark.parametrize("run", range(400))
def test_random_trees_raise_only_faults(run: int, chance: Random) -> None:
    trees, made = Likely(chance), tables(chance)
    source = s.From(AT, s.Source(AT, s.TableRef(AT, "t")))
    for _ in range(10):
        tree: st.Statement
        match chance.randrange(4):
            case 0:
                tree = s.Select(AT, (s.Item(AT, trees.expression(3)),), source, trees.expression(2))
            case 1:
                tree = trees.query(3)
            case 2:
                tree = chance.choice((trees.write, trees.update, trees.delete))(2)
            case _:
                items = tuple(s.Item(AT, trees.expression(1), name) for name in "xy")
                tree = s.Select(AT, items, source, order=trees.order(1), group=trees.group(1))
        try:
            plan = bind(st.Script((tree,)), made.schemas, "/local", {})
            explain(plan)

            async def rows() -> None:
                run = Run(NOW, {}, chance, computed={}, cache={})
                async for part in execute(plan, run, made):  # noqa: B023  # Called at once.
                    assert all(len(row) == len(plan.results[part.index]) for row in part.rows)  # noqa: B023

            asyncio.run(rows())
        except Fault:
            continue
