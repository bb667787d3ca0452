"""The secondary indexes of a table: listed, created and dropped, each by the YQL that the page shows."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.responses import RedirectResponse, Response

from mayflydb.model.errors import BadRequest, MayflyError
from mayflydb.portal.forms import describe_error, read_form
from mayflydb.portal.presence import FILE_SECONDS, ClientLeft, run_while_present
from mayflydb.portal.shell import Shell, Visit, json_response, keep_message
from mayflydb.portal.ydb.editing import RowPages
from mayflydb.portal.ydb.querying import describe_fault
from mayflydb.query.yql.answers import Answer
from mayflydb.query.yql.definitions import CreateTable, IndexClause
from mayflydb.query.yql.faults import Fault
from mayflydb.query.yql.key_paging import quote_name
from mayflydb.query.yql.parser import parse

KINDS = {"sync": "GLOBAL SYNC", "async": "GLOBAL ASYNC"}
"""Kinds of an index of a table that exists. YDB makes unique ones with the table alone."""


class IndexFields(msgspec.Struct, frozen=True):
    """The fields of the form, as text. `columns` and `cover`: names, with commas between them."""

    name: str = ""
    columns: str = ""
    cover: str = ""
    kind: str = "sync"


class TableIndexes:
    """The page of a table's indexes."""

    def __init__(self, shell: Shell, rows: RowPages) -> None:
        self._shell = shell
        self._rows = rows

    async def show(self, visit: Visit) -> Response:
        """Show the indexes and the form."""
        return await self._render(visit, IndexFields())

    async def show_json(self, visit: Visit) -> Response:
        """The same as JSON."""
        return json_response({"indexes": await self._list(visit)})

    async def submit(self, visit: Visit) -> Response:
        """Create or drop an index, or show the YQL that creates it."""
        sent = await read_form(visit.request)
        wanted = msgspec.convert(
            {name: sent[name] for name in IndexFields.__struct_fields__ if name in sent}, IndexFields
        )
        action, text = sent.get("action", ""), ""
        try:
            if action == "drop":
                name = sent.get("index", "")
                text, said = f"{_alter(visit)} DROP INDEX {quote_name(name)};", f"Index {name} was dropped"
            else:
                text, said = f"{_alter(visit)} {build_clause(wanted)};", f"Index {wanted.name.strip()} was created"
            if action == "preview":
                return await self._render(visit, wanted, text)
            # A statement that adds an index ends when the index is complete.
            await run_while_present(visit.request, self._run(visit, text), FILE_SECONDS, "The statement")
        except ClientLeft:
            return Response(status_code=204)
        except MayflyError as error:
            return await self._render(visit, wanted, text, *describe_error(error))
        return keep_message(RedirectResponse(f"{visit.address}/indexes", 303), said)

    async def _run(self, visit: Visit, text: str) -> Answer:
        try:
            return await self._rows.caller()(visit.database, text)
        except Fault as error:
            raise describe_fault(error) from None

    async def _list(self, visit: Visit) -> list[dict[str, Any]]:
        answer = await self._run(visit, f"SHOW CREATE TABLE {quote_name(visit.name)};")
        (result,) = answer.results
        names = [name for name, _ in result.columns]
        created = parse(result.rows[0][names.index("CreateQuery")]).statements[0]
        assert isinstance(created, CreateTable)
        return [_describe(index) for index in created.indexes]

    async def _render(
        self, visit: Visit, fields: IndexFields, text: str = "", error: str = "", status: int = 200
    ) -> Response:
        content = {
            "indexes": await self._list(visit),
            "columns": visit.container.node.body["columns"],
            "key": visit.container.node.body["key"],
            "kinds": KINDS,
            "fields": fields,
            "text": text,
            "error": error,
            "database": visit.database,
            "name": visit.name,
            "address": visit.address,
        }
        return await self._shell.page(visit.request, "ydb/indexes.html", content, status, error)


def build_clause(wanted: IndexFields) -> str:
    """Return the part of ALTER TABLE that adds an index. BadRequest names the field that is wrong."""
    if not wanted.name.strip():
        raise BadRequest("Name: an index needs one.")
    if wanted.kind not in KINDS:
        raise BadRequest("Kind is sync or async.")
    columns, cover = _split_names(wanted.columns), _split_names(wanted.cover)
    if not columns:
        raise BadRequest("Columns: name at least one.")
    covered = f" COVER ({', '.join(map(quote_name, cover))})" if cover else ""
    listed = ", ".join(map(quote_name, columns))
    return f"ADD INDEX {quote_name(wanted.name.strip())} {KINDS[wanted.kind]} ON ({listed}){covered}"


def _split_names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _alter(visit: Visit) -> str:
    return f"ALTER TABLE {quote_name(visit.name)}"


def _describe(index: IndexClause) -> dict[str, Any]:
    kind = "unique" if index.unique else "async" if index.asynchronous else "sync"
    return {"name": index.name, "kind": kind, "columns": list(index.columns), "cover": list(index.cover)}
