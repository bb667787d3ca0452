"""The change feed of all versions and deletes: each create, replace, delete and purge by age, in the order of changes.

An expired item appears once, when it is purged, with the time of the purge:
https://learn.microsoft.com/azure/cosmos-db/nosql/change-feed-modes
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from mayflydb.engine.history import HistoryLost
from mayflydb.engine.scans import Scope
from mayflydb.frontends.cosmos.calls import CosmosCall
from mayflydb.frontends.cosmos.commands.metadata import page_size
from mayflydb.frontends.cosmos.headers import CHANGE_FEED_WIRE_FORMAT
from mayflydb.frontends.cosmos.page_rows import PAGE_BYTES
from mayflydb.frontends.cosmos.resources import item_body
from mayflydb.frontends.cosmos.targets import decode_partition, key_value_to_json
from mayflydb.frontends.cosmos.views import ContainerView
from mayflydb.model.errors import BadRequest
from mayflydb.model.instant import SECOND, Instant
from mayflydb.model.record import Kind, Record, Version

WIRE_FORMAT = "2021-09-15"
_FORMAT_HEADER = CHANGE_FEED_WIRE_FORMAT.decode()
HISTORY_LOST = (
    "The change feed cannot go on from this etag: what followed it is not kept any more. It is older than the"
    " 'retentionDuration' of the container's 'changeFeedPolicy', or than the policy."
)
_REMOVALS = {Kind.DELETE, Kind.EXPIRE}


async def read_page(
    call: CosmosCall, view: ContainerView, scope: Scope, start: int | None, lsn: int
) -> tuple[list[bytes], int]:
    """Return the rows after `start`, and the lsn up to which the feed was read: at least `lsn` unless the page is full.

    BadRequest if the container keeps no versions or no longer those after `start`, or if this mode cannot begin at `start`.
    """
    start = _check_start(call, view, start)
    limit = page_size(call)
    rows: list[bytes] = []
    size = 0
    while True:
        try:
            versions = await call.engine.versions(view.node, start, call.now)
        except HistoryLost:
            # The rows before the gap are answered. The next request begins at the gap and is refused.
            if rows:
                return rows, start
            raise BadRequest(HISTORY_LOST) from None
        if not versions:
            # The history is read up to `lsn`: the next request need not search it again for this scope.
            return rows, max(start, lsn)
        for version in versions:
            start = version.lsn
            if scope.lower <= version.partition and (scope.upper is None or version.partition < scope.upper):
                rows.append(_row(view, version))
                size += len(rows[-1])
                if len(rows) >= limit or size > PAGE_BYTES:
                    return rows, start
        # A narrow scope may skip many versions of others: other requests get their turn.
        await asyncio.sleep(0)


def wants_metadata(call: CosmosCall) -> bool:
    """Return True if the client asks for rows of items and metadata; BadRequest for an unknown format."""
    asked = call.request.text(_FORMAT_HEADER.encode())
    if asked not in (None, WIRE_FORMAT):
        raise BadRequest(f"The header {_FORMAT_HEADER} must be '{WIRE_FORMAT}', the one format that Mayfly knows.")
    return asked is not None


def crts(written: Instant) -> int:
    """Return the `crts` of a change: its instant in seconds since 1970. Clients refuse 0, so it is at least 1."""
    return max(1, written // SECOND)


def _check_start(call: CosmosCall, view: ContainerView, start: int | None) -> int:
    if not view.node.definition.history:
        raise BadRequest(
            "The change feed mode 'All Versions and Deletes' must be enabled for the container before it is read:"
            " its 'changeFeedPolicy' needs a 'retentionDuration' of at least one minute."
        )
    if not wants_metadata(call):
        raise BadRequest(f"The header {_FORMAT_HEADER} must be '{WIRE_FORMAT}' in the mode 'All Versions and Deletes'.")
    if start is None:
        raise BadRequest(
            "The change feed mode 'All Versions and Deletes' starts from now (If-None-Match: *) or goes on from the etag"
            " of an earlier answer; it does not start from the beginning or from a time."
        )
    return start


def _row(view: ContainerView, version: Version) -> bytes:
    ended = version.kind in _REMOVALS
    metadata: dict[str, Any] = {
        "operationType": "delete" if ended else version.kind.value,
        "lsn": version.lsn,
        "crts": crts(version.written),
    }
    if version.previous:
        metadata["previousImageLSN"] = version.previous
    if version.kind is Kind.EXPIRE:
        metadata["timeToLiveExpired"] = True
    if ended:
        metadata["id"] = version.key.decode("utf-8", "surrogatepass")
        metadata["partitionKey"] = _partition_key(view, version.partition)
    text = json.dumps(metadata, separators=(",", ":")).encode()
    return b'{"current":%s,"metadata":%s}' % (b"{}" if ended else _item(view, version), text)


def _item(view: ContainerView, version: Version) -> bytes:
    columns = (version.partition, version.key, version.value, version.written)
    return item_body(view.links, Record(*columns, None, None, version.lsn, version.seq))


def _partition_key(view: ContainerView, partition: bytes) -> dict[str, Any]:
    """Return the key values by path, without the properties that the item did not have."""
    values = zip(view.key.paths, map(key_value_to_json, decode_partition(view.key, partition)), strict=True)
    return {path.removeprefix("/"): value for path, value in values if value != {}}
