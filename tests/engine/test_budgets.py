"""The budgets of containers: whose buckets they are, and what ranges pay together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from mayflydb.engine.bucket import amount
from mayflydb.engine.budgets import Budgets, ContainerBudget, RequestGrant
from mayflydb.engine.catalog import Definition, Node, PartitionRange

MS = 1000
DATABASE = Node(1, 0, "d", Definition({}, 0))
SHARING = Node(1, 0, "d", Definition({}, 0, offer={"ru": 400}))


def container(units: int | None, ranges: int = 1, id: int = 7) -> Node:
    offer = None if units is None else {"ru": units}
    definition = Definition({}, 0, ranges=tuple(PartitionRange(str(n), "", "FF") for n in range(ranges)), offer=offer)
    return Node(id, 1, "c", definition)


class World:
    """Budgets over a stopwatch that is moved by hand."""

    def __init__(self) -> None:
        self.now = 0
        self.budgets = Budgets(self.ceiling, lambda: self.now)

    @staticmethod
    def ceiling(offer: Mapping[str, Any]) -> int:
        return int(offer["ru"])

    def budget(self, node: Node, database: Node = DATABASE) -> ContainerBudget:
        budget = self.budgets.budget(node, database)
        assert budget is not None
        return budget


def spent(budget: ContainerBudget, ranges: list[int], units: float) -> bool:
    """Whether so much was granted."""
    return isinstance(budget.spend(ranges, units), RequestGrant)


def test_nothing_provisioned_is_no_budget() -> None:
    assert World().budgets.budget(container(None), DATABASE) is None


@pytest.mark.parametrize(("mine", "others", "separate"), [
    (container(400), container(400, id=8), True), (container(None), container(None, id=8), False),
    (container(400), container(None, id=8), True), (container(400), container(400), False),
])  # fmt: skip
def test_whose_budget_it_is(mine: Node, others: Node, separate: bool) -> None:
    """One's own where there is an offer, else that of all who share their database's; kept while definitions change."""
    world = World()
    assert spent(world.budget(mine, SHARING), [0], 400)
    assert spent(world.budget(others, SHARING), [0], 1) is separate


def test_each_range_has_its_share() -> None:
    budget = World().budget(container(900, 3))
    assert spent(budget, [0], 299) and spent(budget, [0], 2)
    assert budget.spend([0], 1) == budget.spend([0, 1], 1) == budget.spend([2, 0], 1) == 3334
    assert spent(budget, [1, 2], 600)
    assert budget.spend([1], 1) == budget.spend([2], 1) == 1


def test_what_was_too_much_is_given_back() -> None:
    budget = World().budget(container(400))
    granted = budget.spend([0], 500)
    assert isinstance(granted, RequestGrant)
    assert not spent(budget, [0], 1)
    granted.settle(399.5)
    assert spent(budget, [0], 1)


def test_ranges_give_what_they_have_left_over() -> None:
    world = World()
    budget = world.budget(container(900, 3))
    assert spent(budget, [0], 600)
    world.now = 500 * MS
    assert spent(budget, [1], 0.01) and budget.spare() == amount(300)
    budget.take(amount(200))
    assert budget.spare() == amount(100)
    assert budget.spend([0], 1) == 500 * MS + 1, "who left nothing gives nothing"
    world.now += 1500 * MS
    assert budget.spare() == amount(600), "one second each, at most"
