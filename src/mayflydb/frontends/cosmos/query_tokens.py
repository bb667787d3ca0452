"""Continuation tokens of queries and feeds over items. They stay valid when their range is split.

The token of a range holds the bounds and the order of the range, so a query goes on in each child of a split range with the
child's part. The token of a partition key is bound to the key, which no split divides.
"""

from __future__ import annotations

from typing import Any

import msgspec

from mayflydb.engine.scans import Scope
from mayflydb.frontends.cosmos import continuation
from mayflydb.frontends.cosmos.page_rows import PageStart
from mayflydb.frontends.cosmos.views import ContainerView
from mayflydb.model.errors import BadRequest
from mayflydb.model.order import Order

_MAX_BOUND_BYTES = 64
"""The longest bound in a token, in bytes. Bounds of ranges are shorter; those of keys may be longer."""

FOREIGN = "The header x-ms-continuation is not a token that was issued for this request."
SPLIT_SINCE = (
    "The continuation token counts the rows of a partition key range that has been split since, and its children have other "
    "rows: begin the query anew."
)


class TokenContent(msgspec.Struct, frozen=True, array_like=True):
    """The content of a token: a scope, and the start of the next page in it."""

    lower: bytes
    upper: bytes | None
    order: str
    start: PageStart


class QueryTokens:
    """The continuation tokens of one query over one scope of a container."""

    def __init__(
        self, secret: bytes, view: ContainerView, scope: Scope, text_and_parameters: tuple[str, Any], origin: int = 0,
        *, in_turn: bool = False,
    ) -> None:  # fmt: skip
        """`origin`: the number of restores: pages of different contents are not one result.

        `in_turn`: the ranges of the container are read one after the other; `scope` is the one that is read now.
        """
        self.scope = view.scope_of_range(view.ranges[0]) if in_turn else scope
        self._in_turn = in_turn
        self._secret = secret
        self._holds_bounds = max(len(scope.lower), len(scope.upper or b"")) <= _MAX_BOUND_BYTES
        # A token holds short bounds, and is bound to long ones by the MAC: it must not grow with the key.
        bounds: Any = None if self._holds_bounds else (scope.lower.hex(), scope.upper and scope.upper.hex())
        if origin or in_turn:
            bounds = (bounds, origin, in_turn)
        self._binding = continuation.binding(view.id, text_and_parameters[0], text_and_parameters[1], bounds)

    def start(self, token: str) -> PageStart:
        """Return the page start in a token ("": the beginning), and give `scope` the order of the token.

        BadRequest for a token of another query or scope, and for a count of rows in a range that was split.
        """
        if not token:
            return PageStart()
        content = msgspec.convert(continuation.unseal(self._secret, self._binding, token), TokenContent)
        # The order of the first page holds for all pages, since positions are meant in it.
        whole, part = Scope(content.lower, content.upper, Order(content.order)), self.scope
        if self._in_turn:
            self.scope = whole
            return content.start
        if not self._holds_bounds or (whole.lower, whole.upper) == (part.lower, part.upper):
            self.scope = Scope(part.lower, part.upper, whole.order)
            return content.start
        # The scope of the request must lie in that of the token. A child of a split range does.
        if part.lower < whole.lower or (whole.upper is not None and (part.upper is None or part.upper > whole.upper)):
            raise BadRequest(FOREIGN)
        if content.start.is_counted:
            raise BadRequest(SPLIT_SINCE)
        self.scope = Scope(part.lower, part.upper, whole.order)
        return content.start

    def token(self, start: PageStart) -> str:
        """Return the token of the page that begins at `start`."""
        lower, upper = (self.scope.lower, self.scope.upper) if self._holds_bounds else (b"", None)
        content = TokenContent(lower, upper, self.scope.order.value, start)
        return continuation.seal(self._secret, self._binding, msgspec.to_builtins(content, builtin_types=(bytes,)))
