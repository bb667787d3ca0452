"""The change feed in the mode of latest versions: the newest state of each visible item, in the order of last changes.

A row is the item with its `_lsn`, or `{"current": item, "metadata": {"lsn", "crts"}}` if the client asks for the wire format of
`all_versions`, as Java's change feed processor and the Rust client do (`PartitionProcessorHelper` of
https://github.com/Azure/azure-sdk-for-java, azure-cosmos). The other mode, all versions and deletes, is in `all_versions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from email.utils import parsedate_to_datetime

from mayflydb.engine import prices
from mayflydb.engine.scans import Scope
from mayflydb.frontends.cosmos.calls import CosmosCall
from mayflydb.frontends.cosmos.commands import all_versions
from mayflydb.frontends.cosmos.commands.metadata import page_size
from mayflydb.frontends.cosmos.headers import A_IM, ETAG, IF_MODIFIED_SINCE, IF_NONE_MATCH, ITEM_COUNT
from mayflydb.frontends.cosmos.page_rows import PAGE_BYTES
from mayflydb.frontends.cosmos.resources import feed_body, item_bodies
from mayflydb.frontends.cosmos.scopes import admit, resolve_scope
from mayflydb.frontends.cosmos.views import ContainerView
from mayflydb.frontends.cosmos.wire import Response
from mayflydb.model.errors import BadRequest
from mayflydb.model.instant import Instant, from_datetime
from mayflydb.model.order import Order, Position
from mayflydb.model.record import Record

_LSN_DIGITS = 18
RESTORED = (
    "The change feed cannot go on from this etag: the account was restored since, so that changes before it were undone."
    " Start from the beginning or from now."
)


async def read_feed(call: CosmosCall) -> Response:
    """GET …/docs with A-IM. The etag of the answer is the checkpoint for the next request; 304 if nothing is new."""
    mode = (call.request.text(A_IM) or "").lower()
    if mode not in ("incremental feed", "full-fidelity feed"):
        raise BadRequest(f"The header A-IM must be 'Incremental Feed' or 'Full-Fidelity Feed', not '{mode[:100]}'.")
    view = await call.get_owning_container()
    lsn = await call.read_session_lsn(view)
    origin = call.engine.restores
    start = _parse_start(call.request.text(IF_NONE_MATCH), lsn, origin)
    scope, _ = resolve_scope(call, view, None)
    scope = Scope(scope.lower, scope.upper, Order.CHANGED)
    call.spending = admit(call, view, scope, prices.MISS)
    if mode == "full-fidelity feed":
        rows, reached = await all_versions.read_page(call, view, scope, start, lsn)
    else:
        since = None if start is not None else _parse_since(call.request.text(IF_MODIFIED_SINCE))
        rows, reached = await _read_page(call, view, scope, start or 0, since, lsn)
    headers = [*view.scope_headers(scope, lsn), (ETAG, _format_etag(reached, origin))]
    if not rows:
        return Response(304, b"", headers, prices.MISS)
    headers.append((ITEM_COUNT, b"%d" % len(rows)))
    size = sum(map(len, rows))
    return Response(
        200, feed_body(view.links.rid, "Documents", rows), headers, prices.query(len(rows), size, len(rows))
    )


async def _read_page(
    call: CosmosCall, view: ContainerView, scope: Scope, start: int, since: Instant | None, lsn: int
) -> tuple[list[bytes], int]:
    """Return rows, and the lsn up to which the feed was read.

    The lsn is at least `lsn`, the newest when the request began, unless the page is full.
    """
    limit = page_size(call)
    build = _rows_with_metadata if all_versions.wants_metadata(call) else _rows_with_lsn
    reached = max(lsn, start)
    rows: list[bytes] = []
    size = 0
    async for batch in call.engine.scan(view.node, scope, Position(b"", start), call.now, min(limit, 256)):
        records = batch.records
        if since is not None:
            records = [record for record in records if record.written >= since]
        records = records[: limit - len(rows)]
        for row, record in zip(build(view, records), records, strict=True):
            rows.append(row)
            size += len(row)
            if len(rows) >= limit or size > PAGE_BYTES:
                # The page is full, so the checkpoint is its last row.
                return rows, record.lsn
        # The position is behind hidden records, too: the next request does not read them again.
        reached = max(reached, batch.position.number)
    return rows, reached


def _rows_with_lsn(view: ContainerView, records: Sequence[Record]) -> list[bytes]:
    return item_bodies(view.links, records, with_lsn=True)


def _rows_with_metadata(view: ContainerView, records: Sequence[Record]) -> list[bytes]:
    return [
        b'{"current":%s,"metadata":{"lsn":%d,"crts":%d}}' % (body, record.lsn, all_versions.crts(record.written))
        for body, record in zip(item_bodies(view.links, records), records, strict=True)
    ]


def _parse_start(header: str | None, lsn: int, origin: int) -> int | None:
    """Parse `If-None-Match` to an lsn: `*` is the newest, an etag its own, absent (None) the beginning.

    `origin`: the number of restores. An account that the service restores is a new one, in which no etag of before is valid.
    """
    if header is None:
        return None
    text = header.strip().strip('"')
    if text == "*":
        return lsn
    number, dot, given = text.partition(".")
    for part in (number, given) if dot else (number,):
        if not part.isascii() or not part.isdigit() or len(part) > _LSN_DIGITS:
            raise BadRequest("The header If-None-Match of a change feed must be '*' or the etag of an earlier answer.")
    if int(given or 0) != origin:
        raise BadRequest(RESTORED)
    return int(number)


def _format_etag(lsn: int, origin: int) -> bytes:
    return b'"%d.%d"' % (lsn, origin) if origin else b'"%d"' % lsn


def _parse_since(header: str | None) -> Instant | None:
    if header is None:
        return None
    try:
        return from_datetime(parsedate_to_datetime(header))
    except (ValueError, TypeError):
        raise BadRequest("The header If-Modified-Since must be a date like 'Tue, 01 Jan 2030 00:00:00 GMT'.") from None
