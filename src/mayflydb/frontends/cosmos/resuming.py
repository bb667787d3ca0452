"""Where a query or feed of items goes on: its continuation tokens, which outlive a split of the range they were issued for.

A token of a range carries its bounds and its order, so that the children go on in what they have of it. One of a key is bound to
that key, which no split divides.
"""

from __future__ import annotations

from typing import Any

import msgspec

from mayflydb.engine.engine import Scope
from mayflydb.frontends.cosmos import continuation
from mayflydb.frontends.cosmos.pages import PageStart
from mayflydb.frontends.cosmos.views import ContainerView
from mayflydb.model.errors import BadRequest
from mayflydb.model.order import Order

_LONGEST = 64
"""Bytes of a bound that is carried: those of ranges are shorter."""

FOREIGN = "The header x-ms-continuation is not a token that was issued for this request."
COUNTED = (
    "The continuation token counts the rows of a partition key range that has been split since, and its children have other "
    "rows: begin the query anew."
)


class Begun(msgspec.Struct, frozen=True, array_like=True):
    """A place in the records of a scope."""

    lower: bytes
    upper: bytes | None
    order: str
    place: PageStart


class Resuming:
    """Continuation tokens of one query, by its text and parameters, over one scope of a container."""

    def __init__(self, secret: bytes, view: ContainerView, scope: Scope, asked: tuple[str, Any]) -> None:
        self.scope = scope
        self._secret = secret
        self._carried = max(len(scope.lower), len(scope.upper or b"")) <= _LONGEST
        bounds = None if self._carried else (scope.lower.hex(), scope.upper and scope.upper.hex())
        self._bound = continuation.binding(view.id, asked[0], asked[1], bounds)

    def place(self, token: str) -> PageStart:
        """Where the token ("": none) says to go on, in `scope` from then on. BadRequest for a token of anything else."""
        if not token:
            return PageStart()
        begun = msgspec.convert(continuation.unseal(self._secret, self._bound, token), Begun)
        whole, part = Scope(begun.lower, begun.upper, Order(begun.order)), self.scope
        if not self._carried or (whole.lower, whole.upper) == (part.lower, part.upper):
            self.scope = Scope(part.lower, part.upper, whole.order)
            return begun.place
        if part.lower < whole.lower or (whole.upper is not None and (part.upper is None or part.upper > whole.upper)):
            raise BadRequest(FOREIGN)
        if begun.place.is_counted:
            raise BadRequest(COUNTED)
        self.scope = Scope(part.lower, part.upper, whole.order)
        return begun.place

    def token(self, place: PageStart) -> str:
        """For the page that begins there."""
        lower, upper = (self.scope.lower, self.scope.upper) if self._carried else (b"", None)
        begun = Begun(lower, upper, self.scope.order.value, place)
        return continuation.seal(self._secret, self._bound, msgspec.to_builtins(begun, builtin_types=(bytes,)))
