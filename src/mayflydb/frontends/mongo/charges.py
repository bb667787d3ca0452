"""What commands cost, in request units, and whether the throughput of a collection allows them.

A command pays for what it has read and written by its end. What it is likely to cost is asked for before it does anything.
What it reads besides the collection that it names, as joins and views do, that collection pays for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from mayflydb.engine import budget
from mayflydb.engine.budgets import Spending
from mayflydb.frontends.mongo.errors import throttled_text
from mayflydb.frontends.mongo.state import Priced
from mayflydb.model.instant import MILLISECOND
from mayflydb.query.mongo.faults import MqlError
from mayflydb.store.interface import Delete, Put

if TYPE_CHECKING:
    from mayflydb.engine.transactions import Transaction
    from mayflydb.frontends.mongo.calls import Call
    from mayflydb.frontends.mongo.collections import Collection
    from mayflydb.model.record import Record

PRICED: Final = frozenset(
    {
        "aggregate",
        "bulkWrite",
        "count",
        "delete",
        "distinct",
        "explain",
        "find",
        "findAndModify",
        "findandmodify",
        "getMore",
        "insert",
        "update",
    }
)
"""Commands that have a price, be it the least there is."""

QUERY: Final = budget.query(0, 0, 0)
"""What a query costs at least."""


class Spent:
    """Request units by container, since they were last asked for."""

    __slots__ = ("_units",)

    def __init__(self) -> None:
        self._units: dict[int, float] = {}

    def add(self, container: int, units: float) -> None:
        """So much more."""
        self._units[container] = self._units.get(container, 0.0) + units

    def point(self, container: int, records: Sequence[Record]) -> None:
        """The record at one place was read; none: there is none."""
        self.add(container, sum([budget.point_read(len(record.value)) for record in records]) or budget.MISS)

    def read(self, container: int, records: Sequence[Record], out: int) -> None:
        """Part of a query: these were read, and so many of them match."""
        size = sum([len(record.value) for record in records])
        self.add(container, budget.query(len(records), size, out) - QUERY)

    def wrote(self, transaction: Transaction, apart: int | None) -> None:
        """What a transaction has changed, but for what is noted in the container `apart`. Who dies of it is not paid for here."""
        for change in transaction.changes:
            if isinstance(change, Put) and change.container != apart:
                size = len(change.record.value)
                self.add(change.container, budget.create(size) if change.insert else budget.replace(size))
            elif isinstance(change, Delete) and change.expiry is None:
                self.add(change.container, budget.DELETE)

    def taken(self) -> dict[int, float]:
        """What it comes to; from now on it is nothing."""
        units, self._units = self._units, {}
        return units


class Grant(msgspec.Struct, frozen=True):
    """What a container has granted to a command that is likely to cost so much."""

    container: int
    spending: Spending
    likely: float


async def unaffordable(call: Call, collection: Collection, likely: float) -> MqlError | None:
    """16500 while the budget of a collection is used up; else what is likely to be spent is taken from it."""
    engine = call.app.engine
    if engine.budgets is None:
        return None
    database = await engine.node_by_id(collection.node.parent)
    purse = None if database is None else engine.budgets.purse(collection.node, database)
    if purse is None:
        return None
    call.payer = (collection.database, collection.name)
    granted = purse.spend((0,), likely)
    if isinstance(granted, Spending):
        call.grants = [*call.grants, Grant(collection.id, granted, likely)]
        return None
    call.throttled = True
    engine.meter.throttled[collection.id] += 1
    return MqlError(16500, throttled_text(-(-granted // MILLISECOND), call.app.activity()))


async def afford(call: Call, collection: Collection, likely: float) -> None:
    """MqlError 16500 while the budget of a collection is used up."""
    refusal = await unaffordable(call, collection, likely)
    if refusal is not None:
        raise refusal


def settle(call: Call) -> None:
    """A command is at its end: it has its price, which is metered, paid, and kept for who asks for it."""
    units = {} if call.spent is None else call.spent.taken()
    meter = call.app.engine.meter.units
    for container, charge in units.items():
        meter[container][call.name] += charge
    total = sum(units.values())
    if not call.throttled:
        total = max(total, budget.MISS)
    call.connection.last_priced = priced = Priced(call.name, total, call.app.monotonic() - call.began)
    if call.session is not None:
        call.session.last_priced = priced
    if call.grants:
        _pay(call.grants, units)


def _pay(grants: Sequence[Grant], units: dict[int, float]) -> None:
    named = {grant.container: grant for grant in grants}
    owed = {container: units.pop(container, 0.0) for container in named}
    owed[grants[0].container] += sum(units.values())
    for container, last in named.items():
        likely = sum([grant.likely for grant in grants if grant.container == container])
        last.spending.settle(last.likely + owed[container] - likely)
