"""The first page: all databases and containers, their counts, and the number of records that expire soon."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from mayflydb.admin.operations import Admin
from mayflydb.admin.requests import Forecast
from mayflydb.portal import words
from mayflydb.portal.shell import Shell, build_branch, json_response


class OverviewPage:
    """Totals, and a line for each container."""

    def __init__(self, admin: Admin, shell: Shell) -> None:
        self._admin = admin
        self._shell = shell

    async def show(self, request: Request) -> Response:
        """Show the page."""
        return await self._shell.page(request, "overview.html", await self._content())

    async def show_json(self) -> Response:
        """Return the same as JSON, in the admin API's form."""
        listing = await self._admin.reports.list_containers()
        return json_response(listing | {"forecast": await self._forecast()})

    async def _forecast(self) -> dict[str, Any]:
        return await self._admin.reports.forecast(Forecast(horizon="1h", buckets=1))

    async def _content(self) -> dict[str, Any]:
        names = {node.id: node.name for _, node in await self._admin.targets.list_databases()}
        shown = {row["target"]: row for row in (await self._admin.reports.list_containers())["targets"]}
        rows = []
        for container in await self._admin.targets.list_containers():
            row, database = shown.get(container.target), names.get(container.node.parent)
            # Each list is read by itself, so a container may have been created or dropped between two of them.
            if row is not None and database is not None:
                rows.append({**row, "database": database, "way": build_branch(container), "ttl": _time_to_live(row)})
        figures = {
            "Live items": sum(row["records"] for row in rows),
            "Expire in the next hour": (await self._forecast())["in_horizon"],
            "Expired, not yet purged": sum(row["due"] for row in rows),
        }
        return {"rows": rows, "figures": figures, "empty": [name for name in names.values() if not _has(rows, name)]}


def _time_to_live(row: Mapping[str, Any]) -> str:
    """Return the default TTL of a container as text, or the TTL indexes of a collection."""
    if "indexes" not in row:
        return words.time_to_live(row["default_ttl"])
    return ", ".join(words.ttl_index(index) for index in row["indexes"]) or "Off"


def _has(rows: list[dict[str, Any]], database: str) -> bool:
    return any(row["database"] == database for row in rows)
