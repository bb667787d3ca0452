"""The items of a container: a grid with each deadline, and a page of one item with the reason for its deadline."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from mayflydb.admin import formats
from mayflydb.admin.operations import Admin
from mayflydb.admin.requests import Preview
from mayflydb.admin.targets import ContainerTarget
from mayflydb.admin.wires import Cosmos
from mayflydb.engine.proposals import Change
from mayflydb.engine.scans import Scope
from mayflydb.model.errors import BadRequest, NotFound
from mayflydb.model.instant import Instant
from mayflydb.model.record import Record
from mayflydb.portal import words
from mayflydb.portal.as_of import FIELD, read_as_of, render_as_of
from mayflydb.portal.cosmos.containers import Containers
from mayflydb.portal.cosmos.item_changes import ItemChanges
from mayflydb.portal.cosmos.query import ItemQueries, partition_key
from mayflydb.portal.grid import (
    PAGE,
    GridActions,
    GridColumn,
    GridFilter,
    GridRow,
    GridView,
    Paging,
    Trail,
    describe_life,
    grid_row,
    parse_position,
)
from mayflydb.portal.querying import QueryRequest
from mayflydb.portal.results import columns_of, format_cell
from mayflydb.portal.shell import Shell, Visit, json_response

SELECT_ALL = "SELECT * FROM c"
ASKED = ("filter", "sort")
"""Parameters of an address that make a query."""

MAX_NAMES = 60
"""Properties that are offered as columns."""

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

MAX_EXPIRING = 1000
"""Items that are listed of those that another default would expire."""


class ItemsPage:
    """The grid of items, and the page of one item."""

    def __init__(self, admin: Admin, shell: Shell, containers: Containers, cosmos: Cosmos) -> None:
        self._admin = admin
        self._shell = shell
        self._containers = containers
        self._cosmos = cosmos
        self._changes = ItemChanges(admin, shell, cosmos)

    async def show(self, visit: Visit) -> Response:
        """Show a page of the grid; with `would`, the items that this default would expire."""
        query = visit.request.query_params
        asked = {name: query[name] for name in (*ASKED, FIELD) if query.get(name, "").strip()}
        chosen = query.getlist("column") or [name for name in query.get("columns", "").split(",") if name]
        if chosen:
            asked["columns"] = ",".join(chosen)
        wanted, problem, status, complete = query.get("would"), "", 200, True
        trail, names, cells = Trail.of(visit.request), [], []  # type: tuple[Trail, list[str], list[list[str]]]
        if asked and wanted is None:
            try:
                at = read_as_of(visit.request)
                rows, following, names, cells = await self._query(visit, asked, chosen, trail.here, at)
            except BadRequest as error:
                rows, following, problem, status = [], None, error.message, 400
        elif wanted is not None:
            (rows, complete), following = await self._find_expiring(visit, wanted), None
        else:
            rows, following = await self._rows(visit, trail.here)
        paging = trail.paging(f"{visit.address}/items", asked, following)
        view = self._view(visit, rows, paging, asked, chosen, names, cells, problem)
        if FIELD in asked and wanted is None:
            return await render_as_of(self._shell, visit, view, f"{visit.address}/export", problem, status)
        would = None if wanted is None else words.time_to_live(_parse_default(wanted))
        if would:
            listed = f"{'' if complete else 'The first '}{words.items(len(rows))}"
            caption = f"{listed} that would expire at once with Time to Live {would}"
            view = msgspec.structs.replace(view, caption=caption, filter=None)
        kept: dict[str, str] = {name: asked[name] for name in ASKED if name in asked}
        content = {"view": view, "would": would, "complete": complete, "next": await self.next_sweep(visit)}
        content |= {"export": urlencode(kept, errors="replace")}
        return await self._page(visit, "cosmos/items.html", content, status, problem)

    def _view(
        self, visit: Visit, rows: Sequence[Mapping[str, Any]], paging: Paging, asked: Mapping[str, str],
        chosen: Sequence[str], names: Sequence[str], cells: Sequence[Sequence[str]], problem: str,
    ) -> GridView:  # fmt: skip
        address, sort = f"{visit.address}/items", asked.get("sort", "")
        paths = ", ".join(visit.container.node.body["partitionKey"]["paths"])

        def column(label: str, name: str) -> GridColumn:
            order: Any = "ascending" if sort == name else "descending" if sort == f"-{name}" else ""
            following = f"-{name}" if sort == name else name
            there = f"{address}?{urlencode({**asked, 'sort': following})}" if _PLAIN_NAME.fullmatch(name) else ""
            return GridColumn(label, there, order)

        lines = [
            GridRow(
                msgspec.json.encode((row["id"], msgspec.json.decode(row["pk"]))).decode("utf-8", "replace"),
                f"{visit.address}/item?{urlencode({'id': row['id'], 'pk': row['pk']}, errors='replace')}",
                [row["id"], row["pk"], *(cells[at] if cells else ())], row["expires_in"], row["deadline"], row["text"],
            )
            for at, row in enumerate(rows)
        ]  # fmt: skip
        columns = [column("id", "id"), GridColumn(paths), *(column(name, name) for name in chosen)]
        hint = "WHERE c.ttl > 60 ORDER BY c._ts DESC"
        known = list(dict.fromkeys([*chosen, *names]))
        return GridView(
            address, "DocumentsTab", "Items", f"Items{'' if asked else ' in the order of their creation'}", columns, lines,
            paging, GridActions(address, (("delete", "Delete"), ("patch", "Patch…"))),
            GridFilter(asked.get("filter", ""), "Filter", hint, SELECT_ALL, problem), asked,
            [(name, name in chosen) for name in known if name != "id"][:MAX_NAMES],
        )  # fmt: skip

    async def _query(
        self,
        visit: Visit,
        asked: Mapping[str, str],
        chosen: Sequence[str],
        token: str | None,
        at: Instant | None,
    ) -> tuple[list[dict[str, Any]], str | None, list[str], list[list[str]]]:
        """Return the lines of a page that a query gives, the next page's token, and the names and values of properties."""
        text = query_text(asked)
        answer = await ItemQueries(self._cosmos, visit, at).run(QueryRequest(text, {}, token or "", PAGE))
        now = await self._admin.engine.now() if at is None else at
        paths, rows, cells = visit.container.node.body["partitionKey"]["paths"], [], []
        for item in answer.rows:
            key = msgspec.json.encode(partition_key(item, paths)).decode("utf-8", "replace")
            record = await self._find_record(visit.container, item["id"], key)
            # An item that was deleted since the query has no line.
            if record is not None or at is not None:
                rows.append({"id": item["id"], "pk": key, **describe_life(visit.container, record, now)})
                cells.append([format_cell(item, name) for name in chosen])
        return rows, answer.continuation or None, columns_of(answer.rows), cells

    async def _find_record(self, container: ContainerTarget, id: str, pk: str) -> Record | None:
        for place in container.front_end.find_identities(container.node, id, pk):
            record = await self._admin.engine.get_stored(container.node.id, *place)
            if record is not None:
                return record
        return None

    async def show_json(self, visit: Visit) -> Response:
        """The same as JSON. `complete`: False where more items would expire, or may."""
        query = visit.request.query_params
        if (wanted := query.get("would")) is not None:
            rows, complete = await self._find_expiring(visit, wanted)
            return json_response({"items": rows, "after": None, "complete": complete})
        here = query.get("after", Trail.of(visit.request).here)
        at = read_as_of(visit.request)
        asked = {name: query[name] for name in ASKED if query.get(name)}
        if asked or at is not None:
            rows, following, _, _ = await self._query(visit, asked, (), here, at)
        else:
            rows, following = await self._rows(visit, here)
        return json_response({"items": rows, "after": following, "next_sweep": await self.next_sweep(visit)})

    async def next_sweep(self, visit: Visit) -> str | None:
        """Return the time at which items are purged next: that of the next expiry. None: none expires, or purging is paused."""
        node, engine = visit.container.node, self._admin.engine
        if node.definition.paused:
            return None
        return formats.time_or_none(await engine.next_deadline(node.id, await engine.now()))

    async def show_item(self, visit: Visit) -> Response:
        """Show one item in its editor, its deadline and the reason."""
        query = visit.request.query_params
        found, _ = await self._read_item(visit)
        text = msgspec.json.format(found, indent=2).decode("utf-8", "replace")
        etag = msgspec.json.decode(found)["_etag"]
        return await self._changes.render_item(visit, query.get("id", ""), query.get("pk", "null"), text, etag)

    async def show_item_json(self, visit: Visit) -> Response:
        """The same as JSON."""
        found, why = await self._read_item(visit)
        return json_response({"item": msgspec.Raw(found), "explanation": why})

    async def _page(
        self, visit: Visit, template: str, content: dict[str, Any], status: int = 200, said: str = ""
    ) -> Response:
        names = {"database": visit.database, "name": visit.name, "address": visit.address}
        return await self._shell.page(visit.request, template, content | names, status, said, large=True)

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

    async def _rows(self, visit: Visit, after: str | None) -> tuple[list[dict[str, Any]], str | None]:
        """Return a page of visible items in the order of their creation, and the `after` of the next page (None: no more)."""
        container = visit.container
        after = visit.request.query_params.get("after", after)
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

    async def _find_expiring(self, visit: Visit, wanted: str) -> tuple[list[dict[str, Any]], bool]:
        """Return items that would expire at once under another default, with the reasons, and whether these are all."""
        container, now = visit.container, await self._admin.engine.now()
        counts = self._admin.engine.expiry_counts
        rules = container.front_end.propose(container.database, container.node, Change(_parse_default(wanted))).rules
        found = await counts.find_expiring_now(container.node, rules, now, MAX_EXPIRING, counts.allow())
        return [grid_row(container, record, rules, now) for record in found.records], found.complete


def query_text(asked: Mapping[str, str]) -> str:
    """Return the query that an address asks for by its `filter` and `sort`."""
    text = " ".join((SELECT_ALL, asked.get("filter", ""))).rstrip()
    if sort := asked.get("sort", ""):
        name = sort.removeprefix("-")
        if not _PLAIN_NAME.fullmatch(name):
            raise BadRequest("Items are sorted by a property of letters, digits and underscores.")
        text += f" ORDER BY c.{name}{' DESC' if sort != name else ''}"
    return text


def _parse_default(wanted: str) -> int | None:
    """Parse the default in an address: off, or a number."""
    try:
        return Preview("", None if wanted == "off" else int(wanted)).default()
    except ValueError:
        raise BadRequest("would is off, -1, or a number of seconds") from None
