"""The items of a container: a grid that says when each of them goes, and one item with the reason."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from mayflydb.engine.engine import Scope
from mayflydb.expiry.explain import explain
from mayflydb.model.errors import BadRequest, NotFound
from mayflydb.model.instant import Instant
from mayflydb.model.record import Record
from mayflydb.portal import shapes
from mayflydb.portal.admin import Admin
from mayflydb.portal.pages import words
from mayflydb.portal.pages.container import Containers
from mayflydb.portal.pages.shell import Shell, Visit, json_page
from mayflydb.portal.targets import Place
from mayflydb.store.interface import Position

PAGE = 100


class ItemsPage:
    """The grid, and one item of it."""

    def __init__(self, admin: Admin, shell: Shell, containers: Containers) -> None:
        self._admin = admin
        self._shell = shell
        self._containers = containers

    async def show(self, visit: Visit) -> Response:
        """A page of the grid."""
        rows, following = await self._rows(visit)
        for row in rows:
            row["address"] = f"{visit.address}/item?{urlencode({'id': row['id'], 'pk': row['pk']}, errors='replace')}"
        more = f"{visit.address}/items?{urlencode({'after': following})}" if following else None
        key = ", ".join(visit.place.node.body["partitionKey"]["paths"])
        return await self._page(visit, "items.html", {"rows": rows, "more": more, "key": key})

    async def twin(self, visit: Visit) -> Response:
        """The same as JSON."""
        rows, following = await self._rows(visit)
        return json_page({"items": rows, "after": following})

    async def one(self, visit: Visit) -> Response:
        """One item and why it goes."""
        found, why = await self._one(visit)
        text = msgspec.json.format(found, indent=2).decode("utf-8", "replace")
        return await self._page(visit, "item.html", {"id": why["id"], "json": text, "why": why})

    async def one_twin(self, visit: Visit) -> Response:
        """The same as JSON."""
        found, why = await self._one(visit)
        return json_page({"item": msgspec.Raw(found), "explanation": why})

    async def _page(self, visit: Visit, template: str, content: dict[str, Any]) -> Response:
        names = {"database": visit.database, "name": visit.name, "address": visit.address}
        return await self._shell.page(visit.request, template, content | names)

    async def _one(self, visit: Visit) -> tuple[bytes, dict[str, Any]]:
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
        return item, await self._admin.outlook.explain(visit.place.target, id, pk)

    async def _rows(self, visit: Visit) -> tuple[list[dict[str, Any]], str | None]:
        """Visible items in the order of their creation, and where the next page begins."""
        after, place = visit.request.query_params.get("after"), visit.place
        now = await self._admin.engine.now()
        position = None if after is None else _position(after)
        found: list[Record] = []
        async for batch in self._admin.engine.scan(place.node, Scope(), position, now):
            found += batch.records
            if len(found) > PAGE:
                break
        following = found[PAGE - 1].seq if len(found) > PAGE else None
        return [self._row(place, record, now) for record in found[:PAGE]], None if following is None else str(following)

    def _row(self, place: Place, record: Record, now: Instant) -> dict[str, Any]:
        id, pk = place.targets.identity(place.node, record.partition, record.key)
        why = explain(record, place.node.rules, now)
        return {
            "id": id,
            "pk": msgspec.json.encode(pk).decode("utf-8", "replace"),
            "expires_in": _expires_in(why.deadline, why.reason, now),
            "deadline": shapes.time_or_none(why.deadline),
            "text": why.text,
        }


def _position(after: str) -> Position:
    if not (after.isascii() and after.isdigit() and len(after) < 19):
        raise BadRequest("after is not where a page ends")
    return Position(b"", int(after))


def _expires_in(deadline: Instant | None, reason: str, now: Instant) -> str:
    if deadline is None:
        return "TTL off" if reason == "off" else "never"
    return words.coarse(max(0, deadline - now))
