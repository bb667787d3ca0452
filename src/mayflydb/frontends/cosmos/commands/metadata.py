"""Feeds and queries over databases, containers and other resources that are few: their bodies, one page at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from mayflydb.engine import budget
from mayflydb.frontends.cosmos import continuation, queries
from mayflydb.frontends.cosmos.calls import Call
from mayflydb.frontends.cosmos.resources import feed_body
from mayflydb.frontends.cosmos.wire import Response

PAGE = 100


def page_size(call: Call, cap: int = 1000) -> int:
    """How many rows the client wants: -1 means as many as a page may have."""
    wanted = call.request.number(b"x-ms-max-item-count")
    if wanted is None:
        return PAGE
    return cap if wanted < 1 else min(wanted, cap)


def feed(call: Call, name: str, rid: str, bodies: Sequence[dict[str, Any]]) -> Response:
    """One page of resource bodies, in the order given, which must not change between pages."""
    return _page(call, name, rid, bodies, ("", None))


def query(call: Call, name: str, rid: str, bodies: Sequence[dict[str, Any]]) -> Response:
    """One page of a query over resource bodies."""
    text, parameters = queries.parse_body(call.request.body, call.account.limits)
    rows = queries.over_documents(text, parameters, bodies, call.now)
    return _page(call, name, rid, rows, (text, parameters))


def _page(call: Call, name: str, rid: str, rows: Sequence[Any], asked: tuple[str, Any]) -> Response:
    bound = continuation.binding(0, asked[0], asked[1], call.request.path.decode("latin-1"))
    token = call.request.text(b"x-ms-continuation")
    start = 0
    if token:
        (position,) = continuation.unseal(call.account.secret, bound, token)
        start = position if isinstance(position, int) else 0
    size = page_size(call)
    page = rows[start : start + size]
    headers = [(b"x-ms-item-count", b"%d" % len(page))]
    if start + size < len(rows):
        headers.append((b"x-ms-continuation", continuation.seal(call.account.secret, bound, (start + size,)).encode()))
    body = feed_body(rid, name, [msgspec.json.encode(row) for row in page])
    return Response(200, body, headers, budget.METADATA)
