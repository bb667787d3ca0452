"""The scope of a request in its container, from the headers, and the budget of that scope."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec

from mayflydb.engine.budgets import RequestGrant
from mayflydb.engine.scans import Scope
from mayflydb.frontends.cosmos.calls import CosmosCall
from mayflydb.frontends.cosmos.headers import CONTINUATION, END_EPK, PARTITION_KEY, PARTITION_KEY_RANGE_ID, START_EPK
from mayflydb.frontends.cosmos.views import ContainerView
from mayflydb.model.errors import Throttled
from mayflydb.model.order import Order

P = ParamSpec("P")

THROTTLED = (
    "Request rate is large. More Request Units may be needed, so no changes were made. Please retry this request later. "
    "Learn more: http://aka.ms/cosmosdb-error-429"
)


def admit_partition(
    call: CosmosCall, view: ContainerView, price: Callable[P, float], *of: P.args, **named: P.kwargs
) -> bytes:
    """Return the logical partition that the key header names, once its budget admits the request.

    `price`, called with the other arguments: the likely cost of the request in request units.
    BadRequest without a key header, Throttled over the budget.
    """
    partition = view.parse_partition(call.request.headers.get(PARTITION_KEY))
    if view.budget is not None:
        call.spending = admit(call, view, Scope.of_partition(partition), price(*of, **named))
    return partition


def admit(call: CosmosCall, view: ContainerView, scope: Scope, likely: float) -> RequestGrant | None:
    """Admit a request of a likely price to a scope; return the grant, or None where nothing has a budget.

    Throttled, before anything is done, if the budget is used up.
    """
    if view.budget is None:
        return None
    granted = view.budget.spend(view.range_positions(scope), likely)
    if isinstance(granted, RequestGrant):
        return granted
    call.engine.meter.refuse(view.id)
    # Microseconds, rounded up: a client that came back earlier would be refused again.
    raise Throttled(THROTTLED, retry_after_ms=-(-granted // 1000))


def named_range(call: CosmosCall) -> str | None:
    """Return the id of the range that the headers name, or None."""
    text = call.request.text(PARTITION_KEY_RANGE_ID)
    # Some clients write the rid of the container and a comma before the id.
    return None if text is None else text.rpartition(",")[2]


def resolve_scope(call: CosmosCall, view: ContainerView, whole: Scope | None) -> tuple[Scope, bool]:
    """Return the scope that the headers name, and True if they name one.

    The first match counts: a partition key; a hash range, a range id or both; else `whole` or the whole container.

    A range that was split is Gone, except for a query that began in it: on Gone some of the vendor's clients would begin the
    query again and repeat rows.
    """
    key = call.request.headers.get(PARTITION_KEY)
    if key is not None and (values := view.key.parse_values(key)) != ():
        return view.scope_of_key(values), True
    range_id = named_range(call)
    find = view.range_or_ancestor if CONTINUATION in call.request.headers else view.range_by_id
    within = None if range_id is None else find(range_id)
    start = call.request.text(START_EPK)
    if start is not None:
        return _parse_hash_scope(call, view, start, within.lower if within else b""), True
    if within is not None:
        return view.scope_of_range(within), True
    return whole or Scope(), False


def _parse_hash_scope(call: CosmosCall, view: ContainerView, start: str, floor: bytes) -> Scope:
    lower, upper = view.key.parse_client_range(start, call.request.text(END_EPK) or "FF")
    if not lower and upper in (b"\xff", b""):
        return Scope()
    # The bounds of one whole range are read in creation order, as if the range were named.
    for each in view.ranges:
        if lower == each.lower and (upper == each.upper or (each.upper is None and upper == b"\xff")):
            return view.scope_of_range(each)
    # With a range id, the part begins no lower than the range.
    return Scope(max(lower, floor), None if upper == b"\xff" else upper, Order.HASHED)
