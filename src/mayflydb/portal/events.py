"""The expiry stream: the latest records that age removed, as a table, as a file of lines, and live by a script."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from mayflydb.admin.events import describe_expiry
from mayflydb.admin.operations import Admin
from mayflydb.engine.history import HistoryLost
from mayflydb.http.asgi import Streamed
from mayflydb.model.record import Expiry
from mayflydb.portal import words
from mayflydb.portal.shell import HEADERS, Shell, json_response

SHOWN: Final = 100
"""Events of the table."""

READ: Final = 1000
"""The latest events among which those of a target are looked for."""

LINES: Final = 64
"""Events of one write of the file."""


class EventsPage:
    """The expiry stream."""

    def __init__(self, admin: Admin, shell: Shell) -> None:
        self._admin = admin
        self._shell = shell

    async def show(self, request: Request) -> Response:
        """Show the latest events; with `target`, those of a container or a database."""
        target = request.query_params.get("target", "")
        names = [name for name, _ in await self._admin.targets.list_databases()]
        names += [container.target for container in await self._admin.targets.list_containers()]
        last = await self._admin.engine.last_expiry()
        content = {"rows": await self._rows(target), "target": target, "targets": sorted(names), "last": last}
        return await self._shell.page(request, "events.html", content | {"shown": SHOWN, "read": READ}, large=True)

    async def show_json(self, request: Request) -> Response:
        """Return the same as JSON."""
        return json_response({"events": await self._rows(request.query_params.get("target", ""))})

    async def download(self, request: Request) -> Streamed:
        """Return all events that are kept as JSON Lines."""
        target = request.query_params.get("target") or None
        await self._admin.targets.list_containers(target)
        first = await self._admin.engine.find_first_kept_expiry(await self._admin.engine.now())
        given = HEADERS | {
            "content-type": "application/x-ndjson",
            "content-disposition": 'attachment; filename="expiries.jsonl"',
        }
        headers = tuple((name.encode(), value.encode()) for name, value in given.items())
        return Streamed(200, headers, self._lines(first, target))

    async def _lines(self, after: int, target: str | None) -> AsyncGenerator[bytes, None]:
        lines: list[bytes] = []
        async for event in self._admin.events.read(after, target):
            if event.type == "expired":
                lines.append(msgspec.json.encode(event.data) + b"\n")
            if len(lines) >= LINES:
                yield b"".join(lines)
                lines.clear()
        yield b"".join(lines)

    async def _rows(self, target: str) -> list[dict[str, Any]]:
        latest = await read_latest(self._admin, READ if target else SHOWN)
        containers = {container.node.id for container in await self._admin.targets.list_containers(target or None)}
        found = [event for event in latest if event.container in containers]
        return await describe_expiries(self._admin, found[:SHOWN])


async def read_latest(admin: Admin, most: int) -> list[Expiry]:
    """Return up to `most` of the latest expiry events, the last one first."""
    now = await admin.engine.now()
    last = await admin.engine.last_expiry()
    try:
        found = await admin.engine.expiries(max(0, last - most), most, now)
    except HistoryLost:
        # Events that came between the two reads may push out others once more; the next load shows them.
        found = await admin.engine.expiries(await admin.engine.find_first_kept_expiry(now), most, now)
    return found[::-1]


async def describe_expiries(admin: Admin, events: Sequence[Expiry]) -> list[dict[str, Any]]:
    """Put events into words for a table. Those of dropped containers are left out."""
    containers = {container.node.id: container for container in await admin.targets.list_containers()}
    rows = []
    for event in events:
        container = containers.get(event.container)
        if container is not None:
            row = describe_expiry(event, container)
            lag = max(0, event.purged - event.deadline)
            purged = f"{words.short_span(lag)} later" if lag else "at once"
            rows.append({**row, "due": words.deadline(row["due"]), "purged": purged})
    return rows
