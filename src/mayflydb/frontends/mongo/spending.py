"""Request units that a command has spent, by container, and what budgets have granted it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from mayflydb.engine import budget
from mayflydb.engine.billing import costs
from mayflydb.engine.budgets import Spending
from mayflydb.engine.transactions import Transaction
from mayflydb.model.record import Record

QUERY_PRICE: Final = budget.query(0, 0, 0)
"""The least price of a query."""


class SpentUnits:
    """Request units by container, since they were last asked for."""

    __slots__ = ("_units",)

    def __init__(self) -> None:
        self._units: dict[int, float] = {}

    def add(self, container: int, units: float) -> None:
        """Add request units."""
        self._units[container] = self._units.get(container, 0.0) + units

    def add_point_read(self, container: int, records: Sequence[Record]) -> None:
        """A record was read at its place; none: the place is empty."""
        self.add(container, sum([budget.point_read(len(record.value)) for record in records]) or budget.MISS)

    def add_query_read(self, container: int, records: Sequence[Record], out: int) -> None:
        """Records were read for a query; `out` of them match."""
        size = sum([len(record.value) for record in records])
        self.add(container, budget.query(len(records), size, out) - QUERY_PRICE)

    def add_writes(self, transaction: Transaction, apart: int | None) -> None:
        """A transaction was committed. Its notes in the container `apart`, and records that it purged, cost nothing here."""
        for container, units in costs(transaction.changes):
            if container != apart:
                self.add(container, units)

    def drain(self) -> dict[int, float]:
        """The units by container; the count starts anew."""
        units, self._units = self._units, {}
        return units


class BudgetGrant(msgspec.Struct, frozen=True):
    """Units that the budget of a container has granted to a command, and its likely price."""

    container: int
    spending: Spending
    likely: float
