"""Which records of a container a feed or query is about, from its headers."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec

from mayflydb.engine.budgets import Spending
from mayflydb.engine.engine import Scope
from mayflydb.frontends.cosmos import partition_key
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
    """The logical partition that the key header names; BadRequest without one. Throttled over its budget.

    `price`, of the rest: what the request will cost, as far as can be said before it is done.
    """
    partition = view.parse_partition(call.request.headers.get(PARTITION_KEY))
    if view.purse is not None:
        call.spending = admit(call, view, Scope.of_partition(partition), price(*of, **named))
    return partition


def admit(call: CosmosCall, view: ContainerView, scope: Scope, likely: float) -> Spending | None:
    """What the budget of these records grants; None where there is none. Throttled, with nothing done, when it is used up."""
    if view.purse is None:
        return None
    granted = view.purse.spend(view.range_positions(scope), likely)
    if isinstance(granted, Spending):
        return granted
    call.engine.meter.throttled[view.id] += 1
    raise Throttled(THROTTLED, retry_after_ms=-(-granted // 1000))


def named_range(call: CosmosCall) -> str | None:
    """The id of the range that the headers name."""
    text = call.request.text(PARTITION_KEY_RANGE_ID)
    return None if text is None else text.rpartition(",")[2]


def scope_of(call: CosmosCall, view: ContainerView, whole: Scope | None) -> tuple[Scope, bool]:
    """The scope that the headers name, first match: key, range id and/or hash range; else `whole` or everything.

    The second value tells whether a header named it. A range that was split is Gone, but a query that had begun in it may be
    finished there: told of the split, some of the vendor's clients would begin it anew and repeat rows.
    """
    key = call.request.headers.get(PARTITION_KEY)
    if key is not None and (values := partition_key.parse_header(key)) != ():
        return view.scope_of_key(values), True
    range_id = named_range(call)
    find = view.range_or_ancestor if CONTINUATION in call.request.headers else view.range_by_id
    within = None if range_id is None else find(range_id)
    start = call.request.text(START_EPK)
    if start is not None:
        return _hash_scope(call, view, start, within.lower if within else b""), True
    if within is not None:
        return view.scope_of_range(within), True
    return whole or Scope(), False


def _hash_scope(call: CosmosCall, view: ContainerView, start: str, floor: bytes) -> Scope:
    lower, upper = view.key.parse_client_range(start, call.request.text(END_EPK) or "FF")
    if not lower and upper in (b"\xff", b""):
        return Scope()
    for each in view.ranges:
        if lower == each.lower and (upper == each.upper or (each.upper is None and upper == b"\xff")):
            return view.scope_of_range(each)
    return Scope(max(lower, floor), None if upper == b"\xff" else upper, Order.HASHED)
