"""Request units that a command has spent, by container, and grants of budgets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from mayflydb.engine import prices
from mayflydb.engine.billing import costs
from mayflydb.engine.budgets import RequestGrant
from mayflydb.engine.transactions import WriteTransaction
from mayflydb.model.record import Record

QUERY_PRICE: Final = prices.query(0, 0, 0)
"""The minimum price of a query."""


class SpentUnits:
    """Request units by container, since the last `drain`."""

    __slots__ = ("_units",)

    def __init__(self) -> None:
        self._units: dict[int, float] = {}

    def add(self, container: int, units: float) -> None:
        """Add request units."""
        self._units[container] = self._units.get(container, 0.0) + units

    def add_point_read(self, container: int, records: Sequence[Record]) -> None:
        """Add the price of point reads; without records, that of a miss."""
        self.add(container, sum([prices.point_read(len(record.value)) for record in records]) or prices.MISS)

    def add_query_read(self, container: int, records: Sequence[Record], out: int) -> None:
        """Add the price of a query's reads. `out`: the number of records that match."""
        size = sum([len(record.value) for record in records])
        self.add(container, prices.query(len(records), size, out) - QUERY_PRICE)

    def add_writes(self, transaction: WriteTransaction, except_container: int | None) -> None:
        """Add the price of a committed transaction. Purged records, and writes to the container `except_container`, are free."""
        for container, units in costs(transaction.changes):
            if container != except_container:
                self.add(container, units)

    @property
    def total(self) -> float:
        """The units of all containers."""
        return sum(self._units.values())

    def drain(self) -> dict[int, float]:
        """Return the units by container, and start at zero again."""
        units, self._units = self._units, {}
        return units


class BudgetGrant(msgspec.Struct, frozen=True):
    """Units that a container's budget has granted to a command, and the likely price of the command."""

    container: int
    spending: RequestGrant
    likely: float
