"""Prices of commands in request units, and the budgets that pay them.

A command reserves its likely price before it does anything, and pays for its actual reads and writes at its end. Joins
and views read other collections than the one that the command names; the named collection pays for those reads too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mayflydb.engine import prices
from mayflydb.engine.budgets import RequestGrant
from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.collections import Collection
from mayflydb.frontends.mongo.errors import throttled_text
from mayflydb.frontends.mongo.services import Services
from mayflydb.frontends.mongo.spending import BudgetGrant
from mayflydb.frontends.mongo.state import PricedCommand
from mayflydb.model.instant import MILLISECOND
from mayflydb.query.mongo.faults import MqlError

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
"""Commands that have a price, even if it is the minimum."""


async def try_reserve(services: Services, call: Call, collection: Collection, likely: float) -> MqlError | None:
    """Reserve a likely price; return MqlError 16500 instead while the collection's budget is used up."""
    engine = services.engine
    if engine.budgets is None:
        return None
    database = await engine.node_by_id(collection.node.parent)
    budget = None if database is None else engine.budgets.budget(collection.node, database)
    if budget is None:
        return None
    call.payer = (collection.database, collection.name)
    granted = budget.spend((0,), likely)
    if isinstance(granted, RequestGrant):
        call.grants = [*call.grants, BudgetGrant(collection.id, granted, likely)]
        return None
    call.throttled = True
    engine.meter.refuse(collection.id)
    # The wait is rounded up: a client that comes back a moment too early is refused again.
    return MqlError(16500, throttled_text(-(-granted // MILLISECOND), services.new_activity_id()))


async def reserve(services: Services, call: Call, collection: Collection, likely: float) -> None:
    """Reserve a likely price. Raise MqlError 16500 while the collection's budget is used up."""
    refusal = await try_reserve(services, call, collection, likely)
    if refusal is not None:
        raise refusal


def settle(services: Services, call: Call) -> None:
    """Meter and pay the price of a command at its end, and keep it for getLastRequestStatistics."""
    units = {} if call.spent is None else call.spent.drain()
    meter = services.engine.meter
    for container, charge in units.items():
        meter.charge(container, call.name, charge)
    total = sum(units.values())
    if not call.throttled:
        total = max(total, prices.MISS)
    call.charge = total
    call.connection.last_priced = priced = PricedCommand(
        call.name, total, services.monotonic() - call.started_monotonic
    )
    if call.session is not None:
        call.session.last_priced = priced
    if call.grants:
        _settle_grants(call.grants, units)


def _settle_grants(grants: Sequence[BudgetGrant], units: dict[int, float]) -> None:
    named = {grant.container: grant for grant in grants}
    owed = {container: units.pop(container, 0.0) for container in named}
    # Joins and views: reads of other collections are charged to the first collection that the command reserved for.
    owed[grants[0].container] += sum(units.values())
    for container, last in named.items():
        likely = sum([grant.likely for grant in grants if grant.container == container])
        # Each grant has paid its likely price already. The last one takes the whole difference to the actual price.
        last.spending.settle(last.likely + owed[container] - likely)
