"""What purging costs, who pays for it, and how much of it can be paid now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from mayflydb.engine import budget
from mayflydb.engine.bucket import amount
from mayflydb.engine.budgets import Budgets, Meter, Purse
from mayflydb.engine.catalog import Nodes
from mayflydb.model.instant import Span
from mayflydb.store.interface import Change, Delete, Load, Put, Store

Charge = Literal["leftover", "free", "serverless"]
"""`leftover`: each record costs what its deletion would, and where requests are held to a budget, it is paid from what they left
over. `serverless`: it costs the same and never waits. `free`: it costs nothing."""

PURGE = "purge"
"""The operation it is metered as."""

PRICE = amount(budget.DELETE)
FEWEST = 16
"""Records that are worth a sweep; fewer wait until so many can be paid."""


def costs(changes: Iterable[Change]) -> Iterator[tuple[int, float]]:
    """(container, request units) of each record that is written or deleted; deaths of age cost nothing here."""
    for change in changes:
        if isinstance(change, Put):
            size = len(change.record.value)
            yield change.container, budget.create(size) if change.insert else budget.replace(size)
        elif isinstance(change, Delete) and change.expiry is None:
            yield change.container, budget.DELETE


class Billing:
    """Purging of all containers. Sweeps go by deadline, not by range: so they take from all ranges, from each by what it has."""

    def __init__(self, charge: Charge, store: Store, nodes: Nodes, budgets: Budgets | None, meter: Meter) -> None:
        """`budgets`: what requests are held to; None: to nothing, and then purging is not either."""
        self._charge = charge
        self._store = store
        self._nodes = nodes
        self._budgets = budgets if charge == "leftover" else None
        self._meter = meter

    async def affordable(self, container: int) -> tuple[int | None, Span]:
        """How many records may be purged now (None: all), and, if that is none, how long until some may be, in host time."""
        purse = await self._purse(container)
        if purse is None:
            return None, 0
        records = purse.spare() // PRICE
        return (records, 0) if records >= FEWEST else (0, purse.wait_for_spare(FEWEST * PRICE))

    async def pay(self, container: int, records: int, held: bool) -> None:
        """For what was purged. `held`: out of what was left over, as far as there is a budget."""
        if self._charge != "free":
            self._meter.units[container][PURGE] += records * budget.DELETE
        if held and (purse := await self._purse(container)) is not None:
            purse.take(records * PRICE)

    async def _purse(self, container: int) -> Purse | None:
        if self._budgets is None:
            return None
        row = await self._store.read(Load(container))
        parent = None if row is None else await self._store.read(Load(row.parent))
        if row is None or parent is None:
            return None
        return self._budgets.purse(self._nodes.of(row), self._nodes.of(parent))
