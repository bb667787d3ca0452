"""The page that makes a table: a form, and the equal YQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from mayflydb.admin.wires import Ydb
from mayflydb.model.durations import format_iso, parse_span
from mayflydb.model.errors import BadRequest, MayflyError
from mayflydb.portal.forms import describe_error, read_form
from mayflydb.portal.shell import Shell, container_address, keep_message
from mayflydb.portal.ydb.querying import describe_fault
from mayflydb.query.yql.faults import Fault
from mayflydb.query.yql.key_paging import quote_name

_START = {"name": "", "columns": "id Uint64 NOT NULL\ncreated_at Timestamp", "key": "id", "column": "", "lifetime": ""}


class CreatePage:
    """The page of a database. `caller` returns the caller of the front end."""

    def __init__(self, shell: Shell, caller: Callable[[], Ydb]) -> None:
        self._shell = shell
        self._caller = caller

    async def show(self, request: Request) -> Response:
        """Show the form."""
        return await self._render(request, _START, "")

    async def submit(self, request: Request) -> Response:
        """Make the table, or show the YQL that makes it."""
        sent = _START | await read_form(request)
        database = f"/{request.path_params['database']}"
        text = ""
        try:
            text = build_statement(sent)
            if sent.get("action") == "preview":
                return await self._render(request, sent, text)
            await self._caller()(database, text)
        except Fault as error:
            return await self._render(request, sent, text, *describe_error(describe_fault(error)))
        except MayflyError as error:
            return await self._render(request, sent, text, *describe_error(error))
        address = container_address("ydb", database, sent["name"])
        return keep_message(RedirectResponse(f"{address}/rows", 303), f"Table {sent['name']} created")

    async def _render(
        self, request: Request, fields: Mapping[str, str], text: str, error: str = "", status: int = 200
    ) -> Response:
        content = {"database": request.path_params["database"], "fields": fields, "text": text, "error": error}
        return await self._shell.page(request, "ydb/new_table.html", content, status, error)


def build_statement(fields: Mapping[str, str]) -> str:
    """Return CREATE TABLE as the form asks for it. BadRequest names the field that is wrong."""
    name = fields["name"].strip()
    columns = [line.strip().rstrip(",") for line in fields["columns"].splitlines() if line.strip()]
    key = [each.strip() for each in fields["key"].split(",") if each.strip()]
    if not name:
        raise BadRequest("Table: a name is missing.")
    if not columns:
        raise BadRequest("Columns: one a line, such as id Uint64 NOT NULL.")
    if not key:
        raise BadRequest("Primary key: name at least one column.")
    lines = [*columns, f"PRIMARY KEY ({', '.join(map(quote_name, key))})"]
    ttl = ""
    if fields["column"].strip():
        try:
            span = format_iso(parse_span(fields["lifetime"]))
        except ValueError as error:
            raise BadRequest(f"Lifetime: {error}") from None
        ttl = f' WITH (TTL = Interval("{span}") ON {quote_name(fields["column"].strip())})'
    body = ",\n    ".join(lines)
    return f"CREATE TABLE {quote_name(name)} (\n    {body}\n){ttl};"
