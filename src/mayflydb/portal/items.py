"""The items of a container: a grid with each deadline, and a page of one item with the reason for its deadline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from mayflydb.admin import formats
from mayflydb.admin.operations import Admin
from mayflydb.admin.requests import Preview
from mayflydb.admin.targets import ContainerTarget
from mayflydb.engine.engine import Scope
from mayflydb.engine.proposals import Change
from mayflydb.expiry.explain import explain
from mayflydb.expiry.rules import Rule
from mayflydb.model.errors import BadRequest, NotFound
from mayflydb.model.instant import Instant
from mayflydb.model.order import Position
from mayflydb.model.record import Record
from mayflydb.portal import words
from mayflydb.portal.container import Containers
from mayflydb.portal.shell import Shell, Visit, json_response

PAGE = 100
"""Lines of one page of the grid."""

MAX_EXPIRING = 1000
"""Items that are listed of those that another default would expire."""


class ItemsPage:
    """The grid of items, and the page of one item."""

    def __init__(self, admin: Admin, shell: Shell, containers: Containers) -> None:
        self._admin = admin
        self._shell = shell
        self._containers = containers

    async def show(self, visit: Visit) -> Response:
        """Show a page of the grid; with `would`, the items that this default would expire."""
        rows, following = await self._rows(visit)
        for row in rows:
            row["address"] = f"{visit.address}/item?{urlencode({'id': row['id'], 'pk': row['pk']}, errors='replace')}"
        more = f"{visit.address}/items?{urlencode({'after': following})}" if following else None
        key = ", ".join(visit.container.node.body["partitionKey"]["paths"])
        wanted = visit.request.query_params.get("would")
        would = None if wanted is None else words.time_to_live(_parse_default(wanted))
        content = {"rows": rows, "more": more, "key": key, "would": would, "most": MAX_EXPIRING}
        return await self._page(visit, "items.html", content)

    async def show_json(self, visit: Visit) -> Response:
        """The same as JSON."""
        rows, following = await self._rows(visit)
        return json_response({"items": rows, "after": following})

    async def show_item(self, visit: Visit) -> Response:
        """Show one item, its deadline and the reason."""
        found, why = await self._read_item(visit)
        text = msgspec.json.format(found, indent=2).decode("utf-8", "replace")
        return await self._page(visit, "item.html", {"id": why["id"], "json": text, "why": why})

    async def show_item_json(self, visit: Visit) -> Response:
        """The same as JSON."""
        found, why = await self._read_item(visit)
        return json_response({"item": msgspec.Raw(found), "explanation": why})

    async def _page(self, visit: Visit, template: str, content: dict[str, Any]) -> Response:
        names = {"database": visit.database, "name": visit.name, "address": visit.address}
        return await self._shell.page(visit.request, template, content | names)

    async def _read_item(self, visit: Visit) -> tuple[bytes, dict[str, Any]]:
        query = visit.request.query_params
        id, pk = query.get("id", ""), query.get("pk", "null")
        try:
            key = msgspec.json.decode(pk)
        except (msgspec.DecodeError, RecursionError):
            raise BadRequest("pk must be JSON") from None
        try:
            item = await self._containers.item(visit.database, visit.name, id, key)
        except NotFound:
            message, hint = f"There is no item {id} in {visit.name}.", "Items that have expired are shown no more."
            raise NotFound(message, hint=hint) from None
        return item, await self._admin.reports.explain(visit.container.target, id, pk)

    async def _rows(self, visit: Visit) -> tuple[list[dict[str, Any]], str | None]:
        """Return a page of visible items in the order of their creation, and the `after` of the next page (None: no more).

        With `would` in the address: the items that another default would expire, on one page.
        """
        if (wanted := visit.request.query_params.get("would")) is not None:
            return await self._find_expiring(visit, wanted), None
        after, container = visit.request.query_params.get("after"), visit.container
        now = await self._admin.engine.now()
        position = None if after is None else parse_position(after)
        found: list[Record] = []
        async for batch in self._admin.engine.scan(container.node, Scope(), position, now):
            found += batch.records
            # One more than a page: only then is there a next page.
            if len(found) > PAGE:
                break
        following = found[PAGE - 1].seq if len(found) > PAGE else None
        return [
            grid_row(container, record, container.node.rules, now) for record in found[:PAGE]
        ], None if following is None else str(following)

    async def _find_expiring(self, visit: Visit, wanted: str) -> list[dict[str, Any]]:
        """Return the items that would expire at once under another default, with the reasons."""
        container, now = visit.container, await self._admin.engine.now()
        rules = container.front_end.propose(container.database, container.node, Change(_parse_default(wanted))).rules
        found = await self._admin.engine.expiry_counts.find_expiring_now(container.node, rules, now, MAX_EXPIRING)
        return [grid_row(container, record, rules, now) for record in found]


def grid_row(container: ContainerTarget, record: Record, rules: Sequence[Rule], now: Instant) -> dict[str, Any]:
    """Build a line of the grid."""
    id, pk = container.front_end.decode_identity(container.node, record.partition, record.key)
    why = explain(record, rules, now, container.front_end.index_names(container.node), container.front_end.causes)
    return {
        "id": id,
        "pk": msgspec.json.encode(pk).decode("utf-8", "replace"),
        "expires_in": _remaining_time(why.deadline, why.reason, now),
        "deadline": formats.time_or_none(why.deadline),
        "text": why.text,
    }


def parse_position(after: str) -> Position:
    """Parse the `after` of an address: the sequence number of the last record of the page before."""
    if not (after.isascii() and after.isdigit() and len(after) < 19):
        raise BadRequest("after is not where a page ends")
    return Position(b"", int(after))


def _parse_default(wanted: str) -> int | None:
    """Parse the default in an address: off, or a number."""
    try:
        return Preview("", None if wanted == "off" else int(wanted)).default()
    except ValueError:
        raise BadRequest("would is off, -1, or a number of seconds") from None


def _remaining_time(deadline: Instant | None, reason: str, now: Instant) -> str:
    if deadline is None:
        return "TTL off" if reason == "off" else "never"
    return words.short_span(max(0, deadline - now))
