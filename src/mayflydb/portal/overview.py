"""The first page: all databases and containers, their counts, the forecast of expiries, and the latest of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from mayflydb.admin.operations import Admin
from mayflydb.admin.requests import DueList, Forecast
from mayflydb.admin.targets import ContainerTarget
from mayflydb.admin.wires import Wires
from mayflydb.engine.meter import MinuteUse
from mayflydb.model.instant import SECOND, Span
from mayflydb.model.record import Expiry
from mayflydb.portal import words
from mayflydb.portal.events import describe_expiries, read_latest
from mayflydb.portal.forecast import HORIZONS, check_horizon, plot_forecast
from mayflydb.portal.lifecycle_settings import list_titles
from mayflydb.portal.records import count_visible_own
from mayflydb.portal.shell import Shell, build_branch, json_response
from mayflydb.portal.usage import describe_usage, plot_usage

JUST_EXPIRED: Final = 10
"""Lines of the list of the latest expiries."""

PENDING: Final = 5
"""Lines of it that records may take which have expired and are not yet purged."""

COUNTED: Final = 1000
"""The latest expiries that are counted by cause."""

MAX_DUE: Final = 200
"""Records on the page of what is due within a span."""


class OverviewPage:
    """Totals, the forecast, and a line for each container."""

    def __init__(self, admin: Admin, shell: Shell, wires: Wires) -> None:
        self._admin = admin
        self._shell = shell
        self._wires = wires

    async def show(self, request: Request) -> Response:
        """Show the page. `horizon` of the address: the span of the forecast."""
        horizon = check_horizon(request.query_params.get("horizon", "1h"))
        return await self._shell.page(request, "overview.html", await self._content(horizon), large=True)

    async def show_json(self, request: Request) -> Response:
        """Return the same as JSON, in the admin API's form."""
        horizon = check_horizon(request.query_params.get("horizon", "1h"))
        listing = await self._admin.reports.list_containers()
        usage = describe_usage(await self._read_usage())
        return json_response(listing | {"forecast": await self._forecast(horizon), "last_60_minutes": usage})

    async def show_due(self, request: Request) -> Response:
        """Show the records that are due after `from` and up to `to` of the address."""
        listing = await self._list_due(request)
        rows = [row | {"deadline": words.deadline(row["deadline"])} for row in listing["records"]]
        since, to = (request.query_params.get(name) for name in ("from", "to"))
        span = " ".join(f"{word} {words.readable(when)}" for word, when in (("after", since), ("up to", to)) if when)
        content = {"rows": rows, "span": span, "most": MAX_DUE}
        return await self._shell.page(request, "due.html", content, large=True)

    async def show_due_json(self, request: Request) -> Response:
        """Return the same as JSON."""
        return json_response(await self._list_due(request))

    async def _list_due(self, request: Request) -> dict[str, Any]:
        query = request.query_params
        return await self._admin.reports.list_due(
            DueList(query.get("target") or None, query.get("from"), query.get("to"), MAX_DUE)
        )

    async def _forecast(self, horizon: str) -> dict[str, Any]:
        return await self._admin.reports.forecast(Forecast(horizon=horizon, buckets=HORIZONS[horizon][0]))

    async def _read_usage(self) -> Sequence[MinuteUse]:
        containers = await self._admin.targets.list_containers()
        return self._admin.engine.meter.recent([container.node.id for container in containers])

    async def _content(self, horizon: str) -> dict[str, Any]:
        names = {node.id: node.name for _, node in await self._admin.targets.list_databases()}
        listing = await self._admin.reports.list_containers()
        listed_rows = {row["target"]: row for row in listing["targets"]}
        rows = []
        containers = await self._admin.targets.list_containers()
        for container in containers:
            row, database = listed_rows.get(container.target), names.get(container.node.parent)
            # Each list is read by itself, so a container may have been created or dropped between two of them.
            if row is not None and database is not None:
                way, own = build_branch(container), await count_visible_own(self._admin, container, row)
                shown = {"database": database, "way": way, "ttl": _time_to_live(row), "own": own}
                rows.append({**row, **shown, "beyond": list_titles(container.node.definition.lifecycle)})
        forecast = await self._forecast(horizon)
        soon = forecast if horizon == "1h" else await self._forecast("1h")
        pending = (await self._admin.reports.list_due(DueList(to=listing["now"], limit=PENDING)))["records"]
        kept = {each.target for each in containers if each.node.definition.lifecycle.grace}
        due = {row["target"] for row in rows if row["due"]}
        lags = [await self._measure_lag(each) for each in containers if each.target in due]
        lag = max([each for each in lags if each is not None], default=None)
        exact = all(row["exact"] for row in rows)
        figures = {
            "Live items": words.count(sum(row["records"] for row in rows), exact),
            "Expire in the next hour": words.count(soon["in_horizon"], soon["exact"]),
            "Expired, not yet purged": words.count(sum(row["due"] for row in rows), exact),
            "Purge lag of the oldest": "none" if lag is None else words.short_span(lag),
        }
        # Others are of dropped containers, and of the self-test at the start.
        listed = {container.node.id for container in containers}
        latest = [event for event in await read_latest(self._admin, COUNTED) if event.container in listed]
        gone = await describe_expiries(self._admin, latest[: JUST_EXPIRED - len(pending)])
        return {
            "rows": rows,
            "figures": figures,
            "others": self._new_pages(),
            "empty": [name for name in names.values() if not _has(rows, name)],
            "usage": plot_usage(await self._read_usage()),
            "plot": plot_forecast(horizon, forecast),
            "expired": [_pending_line(row, row["target"] in kept) for row in reversed(pending)] + gone,
            "causes": _count_causes(latest),
            "counted": len(latest),
        }

    async def _measure_lag(self, container: ContainerTarget) -> Span | None:
        """Return the time since the end of the oldest record and its grace; None: there is none."""
        engine, node = self._admin.engine, container.node
        oldest = await engine.next_deadline(node.id)
        grace = node.definition.lifecycle.grace * SECOND
        ended = None if oldest is None else await engine.now() - grace - oldest
        return None if ended is None or ended < 0 else ended

    def _new_pages(self) -> list[tuple[str, str]]:
        """Return (label, path) of the pages that make something in MongoDB and YDB, where they are served."""
        pages = []
        if self._wires.mongo is not None:
            pages.append(("New Collection", "/_explorer/new-collection"))
        if self._wires.ydb is not None:
            pages.append(("New Table", f"/_explorer/ydb{quote(self._admin.info(None)['ydb']['database'])}/new-table"))
        return pages


def _pending_line(row: Mapping[str, Any], is_kept: bool) -> dict[str, Any]:
    return {**row, "due": words.deadline(row["deadline"]), "purged": "kept by its grace" if is_kept else "pending"}


def _count_causes(latest: Sequence[Expiry]) -> list[tuple[str, int, float]]:
    """Return each cause, its number of deaths, and its part of them in percent; the most frequent first."""
    counts = Counter(event.cause for event in latest).most_common()
    return [(words.CAUSES.get(cause, cause), count, round(100 * count / len(latest), 1)) for cause, count in counts]


def _time_to_live(row: Mapping[str, Any]) -> str:
    """Return the default TTL of a container as text, or the TTL indexes of a collection."""
    if "indexes" not in row:
        return words.time_to_live(row["default_ttl"])
    return ", ".join(words.ttl_index(index) for index in row["indexes"]) or "Off"


def _has(rows: list[dict[str, Any]], database: str) -> bool:
    return any(row["database"] == database for row in rows)
