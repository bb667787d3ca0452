"""The grid of a table's rows: chosen columns, a WHERE clause, a sort, pages by primary key, and each row's deadline."""

from __future__ import annotations

from typing import Any, Literal
from urllib.parse import urlencode

from mayflydb.admin.operations import Admin
from mayflydb.admin.wires import Ydb
from mayflydb.model.errors import MayflyError
from mayflydb.model.instant import Instant
from mayflydb.model.record import Record
from mayflydb.portal.as_of import FIELD, read_as_of
from mayflydb.portal.forms import describe_error, parse_whole_number
from mayflydb.portal.grid import PAGE, GridActions, GridColumn, GridFilter, GridRow, GridView, Trail, describe_life
from mayflydb.portal.results import format_cell
from mayflydb.portal.shell import Visit
from mayflydb.portal.ydb.editing import key_text
from mayflydb.portal.ydb.table import RowTable

SHOWN = 6
"""Columns behind the key's that are shown until a person chooses others."""


async def read_grid(admin: Admin, ydb: Ydb, visit: Visit) -> tuple[GridView, int]:
    """Read the page that an address asks for, and its status. What is refused is shown with its refusal and no rows."""
    query, trail = visit.request.query_params, Trail.of(visit.request)
    where, sort = query.get("filter", ""), query.get("sort", "")
    table = RowTable(ydb, visit.container)
    others = [name for name in table.types if name not in table.key]
    picked = query.getlist("column") or list(filter(None, query.get("columns", "").split(",")))
    chosen = [name for name in others if name in picked] or others[:SHOWN]
    rows: list[dict[str, Any]] = []
    at, following, problem, status = None, None, "", 200  # type: Instant | None, str | None, str, int
    try:
        at = read_as_of(visit.request)
        rows, following = await _read_rows(RowTable(ydb, visit.container, at), where, sort, trail.here)
    except MayflyError as error:
        problem, status = describe_error(error)
    kept = {"filter": where, "sort": sort, "columns": ",".join(chosen) if picked else "", FIELD: query.get(FIELD, "")}
    kept = {name: value for name, value in kept.items() if value.strip()}
    now, address = await admin.engine.now() if at is None else at, f"{visit.address}/rows"
    columns = [*table.key, *chosen]
    view = GridView(
        address,
        "DocumentsTab",
        "Rows",
        "Rows in the order of the " + (f"column {sort.removeprefix('-')}" if sort else "primary key"),
        [_column(name, sort, address, kept) for name in columns],
        [await _line(admin, table, visit, row, columns, now) for row in rows],
        trail.paging(address, kept, following),
        GridActions(f"{visit.address}/delete"),
        GridFilter(where, "Filter", f"{table.key[0]} IS NOT NULL", "WHERE", problem),
        kept,
        [(name, name in chosen) for name in others],
    )
    return view, status


async def read_records(admin: Admin, table: RowTable, visit: Visit) -> tuple[list[Record], str | None]:
    """Return the records of the page that an address asks for, and where the next page begins."""
    query = visit.request.query_params
    here = query.get("after", Trail.of(visit.request).here)
    rows, following = await _read_rows(table, query.get("filter", ""), query.get("sort", ""), here)
    records = [await _find_record(admin, visit, table.key_of(row)) for row in rows]
    # A row that was deleted since the query has no record.
    return [record for record in records if record is not None], following


async def read_lives(admin: Admin, ydb: Ydb, visit: Visit, at: Instant) -> dict[str, Any]:
    """Return the keys and lives of the page that an address asks for as of an instant, and where the next page begins."""
    query, table = visit.request.query_params, RowTable(ydb, visit.container, at)
    here = query.get("after", Trail.of(visit.request).here)
    rows, following = await _read_rows(table, query.get("filter", ""), query.get("sort", ""), here)
    lives = [
        {"id": key_text(key), "pk": "null", **describe_life(visit.container, await _find_record(admin, visit, key), at)}
        for key in map(table.key_of, rows)
    ]
    return {"documents": lives, "after": following}


async def _read_rows(
    table: RowTable, where: str, sort: str, here: str | None
) -> tuple[list[dict[str, Any]], str | None]:
    """Return a page of rows. It begins behind a key, or, where it is sorted, behind a number of rows."""
    rows = await table.page(where, sort.removeprefix("-"), sort.startswith("-"), here, PAGE + 1)
    if len(rows) <= PAGE:
        return rows, None
    return rows[:PAGE], str(parse_whole_number(here or "") + PAGE) if sort else table.key_of(rows[PAGE - 1])


async def _find_record(admin: Admin, visit: Visit, key: str) -> Record | None:
    container = visit.container
    for place in container.front_end.find_identities(container.node, key_text(key), None):
        record = await admin.engine.get_stored(container.node.id, *place)
        if record is not None:
            return record
    return None


def _column(name: str, sort: str, address: str, kept: dict[str, str]) -> GridColumn:
    order: Literal["", "ascending", "descending"] = ""
    if sort.removeprefix("-") == name:
        order = "descending" if sort.startswith("-") else "ascending"
    wanted = f"-{name}" if order == "ascending" else name
    return GridColumn(name, f"{address}?{urlencode(kept | {'sort': wanted})}", order)


async def _line(
    admin: Admin, table: RowTable, visit: Visit, row: dict[str, Any], columns: list[str], now: Instant
) -> GridRow:
    key = table.key_of(row)
    shown = describe_life(visit.container, await _find_record(admin, visit, key), now)
    cells = [format_cell(row, name) for name in columns]
    address = f"{visit.address}/row?{urlencode({'key': key})}"
    return GridRow(key, address, cells, shown["expires_in"], shown["deadline"], shown["text"])
