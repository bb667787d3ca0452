"""The price of purging, its payer, and the number of records that can be paid for now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from mayflydb.engine import prices
from mayflydb.engine.bucket import amount
from mayflydb.engine.budgets import Budgets, ContainerBudget
from mayflydb.engine.catalog import Nodes
from mayflydb.engine.meter import Meter
from mayflydb.model.instant import Span
from mayflydb.store.interface import Change, Delete, LoadRow, Put, Store

Charge = Literal["leftover", "free", "serverless"]
"""`leftover`: a purged record costs as much as its deletion; where requests have a budget, the unused part of it pays.
`serverless`: the same price, and purging never waits. `free`: no price.
"""

PURGE = "purge"
"""The operation under which purging is metered."""

PRICE = amount(prices.DELETE)
FEWEST = 16
"""The smallest sweep, in records; fewer due records wait until so many can be paid for."""


def costs(changes: Iterable[Change]) -> Iterator[tuple[int, float]]:
    """Yield (container, request units) for each record that is written or deleted. Deletions by age are priced elsewhere."""
    for change in changes:
        if isinstance(change, Put):
            size = len(change.record.value)
            yield change.container, prices.create(size) if change.insert else prices.replace(size)
        elif isinstance(change, Delete) and change.expiry is None:
            yield change.container, prices.DELETE


class Billing:
    """Purging of all containers. Sweeps go by deadline, not by range, so each range pays by its share of unused budget."""

    def __init__(self, charge: Charge, store: Store, nodes: Nodes, budgets: Budgets | None, meter: Meter) -> None:
        """`budgets`: the budgets of requests; None: requests have none, so purging has none either."""
        self._charge = charge
        self._store = store
        self._nodes = nodes
        self._budgets = budgets if charge == "leftover" else None
        self._all_budgets = budgets
        self._meter = meter

    async def affordable(self, container: int) -> tuple[int | None, Span]:
        """Return the number of records that can be purged now (None: all); if 0, also the host time until some can."""
        budget = await self._budget_of(container)
        if budget is None:
            return None, 0
        records = budget.spare() // PRICE
        return (records, 0) if records >= FEWEST else (0, budget.wait_for_spare(FEWEST * PRICE))

    async def pay(self, container: int, records: int, from_unused: bool) -> None:
        """Charge for purged records. `from_unused`: take the price from unused budget, if the container has a budget."""
        if self._charge != "free":
            self._meter.charge(container, PURGE, records * prices.DELETE)
        if from_unused and (budget := await self._budget_of(container)) is not None:
            budget.take(records * PRICE)

    def forget_container(self, container: int) -> None:
        """Drop counts and buckets of a container that is gone."""
        self._meter.forget_container(container)
        if self._all_budgets is not None:
            self._all_budgets.forget_container(container)

    async def _budget_of(self, container: int) -> ContainerBudget | None:
        if self._budgets is None:
            return None
        row = await self._store.read(LoadRow(container))
        parent = None if row is None else await self._store.read(LoadRow(row.parent))
        if row is None or parent is None:
            return None
        return self._budgets.budget(self._nodes.of(row), self._nodes.of(parent))
