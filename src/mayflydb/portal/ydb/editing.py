"""The pages of one row, of a new row, of an upload, of an export, and of a table's drop."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from typing import Any
from urllib.parse import urlencode

import msgspec
from starlette.responses import RedirectResponse, Response

from mayflydb.admin.operations import Admin
from mayflydb.admin.wires import Ydb
from mayflydb.model.errors import BadRequest, MayflyError, TooLarge, Unsupported
from mayflydb.model.instant import Instant
from mayflydb.portal import exports, words
from mayflydb.portal.as_of import read_as_of
from mayflydb.portal.editing import Drop, Editor, Upload
from mayflydb.portal.forms import describe_error, read_form, read_parts
from mayflydb.portal.presence import EXPORTS, FILE_SECONDS, ClientLeft, run_while_present
from mayflydb.portal.querying import EXPORT_BYTES, EXPORT_ROWS
from mayflydb.portal.results import format_json
from mayflydb.portal.shell import HEADERS, Shell, Visit, json_response, keep_message
from mayflydb.portal.uploads import read_records
from mayflydb.portal.ydb.querying import describe_fault
from mayflydb.portal.ydb.table import MAX_REFUSALS, RowTable
from mayflydb.query.yql.faults import Fault
from mayflydb.query.yql.key_paging import quote_name

CHANGED = "This row was changed after this page was loaded, so nothing was saved. Discard shows it as it is now."


class RowPages:
    """Pages that change rows, through YDB's front end."""

    def __init__(self, admin: Admin, shell: Shell, ydb: Ydb | None) -> None:
        self._admin = admin
        self._shell = shell
        self._exporting = asyncio.Semaphore(EXPORTS)
        self._ydb = ydb

    def table(self, visit: Visit, at: Instant | None = None) -> RowTable:
        """Return the table of a page, for reads as of an instant. Unsupported where YDB is not served."""
        return RowTable(self.caller(), visit.container, at)

    def caller(self) -> Ydb:
        """Return the caller of the front end. Unsupported where YDB is not served."""
        if self._ydb is None:
            raise Unsupported("YDB is not served here", hint="serve with --ydb-port")
        return self._ydb

    # --- one row -------------------------------------------------------------------------------------------------------

    async def show(self, visit: Visit) -> Response:
        """Show one row in an editor, with its deadline."""
        table, key = self.table(visit), visit.request.query_params.get("key", "")
        row = await table.read(key)
        return await self._editor(visit, key, format_json(row), _digest(row))

    async def show_json(self, visit: Visit) -> Response:
        """The same as JSON."""
        table, key = self.table(visit), visit.request.query_params.get("key", "")
        return json_response({"row": await table.read(key), "explanation": await self._explain(visit, key)})

    async def save(self, visit: Visit) -> Response:
        """Save or delete the row of the form."""
        sent, table = await read_form(visit.request), self.table(visit)
        key, seen, text = sent.get("key", ""), sent.get("seen", ""), sent.get("document", "")
        if sent.get("action") == "delete":
            asks = "Deleting erases this row for good. Press the button again if that is what you want."
            return await self._editor(visit, key, text, seen, asks=asks)
        if sent.get("action") == "delete-for-good":
            await table.delete([key])
            return keep_message(RedirectResponse(f"{visit.address}/rows", 303), "1 row deleted")
        try:
            row = _parse_row(text)
            if _digest(await table.read(key)) != seen:
                return await self._editor(visit, key, text, seen, CHANGED, 412)
            if table.key_of({name: row.get(name) for name in table.key}) != key:
                raise BadRequest("The key of a row stays as it is: delete the row, and make a new one.")
            await table.write("REPLACE", [row])
        except MayflyError as error:
            return await self._editor(visit, key, text, seen, *describe_error(error))
        return keep_message(RedirectResponse(f"{visit.address}/row?{urlencode({'key': key})}", 303), "Row saved")

    async def show_new(self, visit: Visit) -> Response:
        """Show an editor with a row of NULLs."""
        return await self._new(visit, format_json(dict.fromkeys(self.table(visit).types)))

    async def save_new(self, visit: Visit) -> Response:
        """Insert the row of the form."""
        sent, table = await read_form(visit.request), self.table(visit)
        text = sent.get("document", "")
        try:
            row = _parse_row(text)
            await table.write("INSERT", [row])
        except MayflyError as error:
            return await self._new(visit, text, *describe_error(error))
        key = table.key_of(row)
        return keep_message(RedirectResponse(f"{visit.address}/row?{urlencode({'key': key})}", 303), "Row saved")

    async def _new(self, visit: Visit, text: str, error: str = "", status: int = 200) -> Response:
        editor = Editor(
            "New Row", f"{visit.address}/new", _crumbs(visit), text, f"{visit.address}/rows", "Row as JSON",
            errors=[error] if error else (), deletable=False, is_new=True,
        )  # fmt: skip
        return await self._shell.page(visit.request, "editor.html", {"editor": editor, "why": None}, status, error)

    async def _editor(
        self, visit: Visit, key: str, text: str, seen: str, error: str = "", status: int = 200, asks: str = ""
    ) -> Response:
        here = f"{visit.address}/row"
        editor = Editor(
            f"Row {key}", here, _crumbs(visit), text, f"{here}?{urlencode({'key': key})}", "Row as JSON",
            hidden={"key": key, "seen": seen}, errors=[error] if error else (), asks=asks,
        )  # fmt: skip
        content = {"editor": editor, "why": await self._explain(visit, key)}
        return await self._shell.page(visit.request, "editor.html", content, status, error)

    async def _explain(self, visit: Visit, key: str) -> dict[str, Any] | None:
        try:
            return await self._admin.reports.explain(visit.container.target, key_text(key), None)
        except MayflyError:
            return None

    # --- many rows -----------------------------------------------------------------------------------------------------

    async def delete_picked(self, visit: Visit) -> Response:
        """Delete the rows that were picked in the grid."""
        picked = [part.text for part in await read_parts(visit.request) if part.name == "pick"]
        if picked:
            await self.table(visit).delete(picked)
        said = f"{words.number(len(picked))} {'row' if len(picked) == 1 else 'rows'} deleted"
        return keep_message(RedirectResponse(f"{visit.address}/rows", 303), said)

    async def show_upload(self, visit: Visit) -> Response:
        """Show the form for a file."""
        return await self._upload(visit, Upload("Upload rows", f"{visit.address}/upload", _crumbs(visit), _rows(visit)))

    async def upload(self, visit: Visit) -> Response:
        """Store the rows of a file or a text."""
        parts = {part.name: part for part in await read_parts(visit.request)}
        file, pasted = parts.get("file"), parts.get("records")
        chosen = file if file is not None and file.text.strip() else pasted
        page = Upload(
            "Upload rows", f"{visit.address}/upload", _crumbs(visit), _rows(visit), replaces="replace" in parts
        )
        page = msgspec.structs.replace(page, text="" if pasted is None else pasted.text)
        try:
            text, name = ("", "") if chosen is None else (chosen.text, chosen.file)
            records = await asyncio.to_thread(read_records, text, name)
            work = self.table(visit).upload(records, "replace" in parts)
            done, refusals = await run_while_present(visit.request, work, FILE_SECONDS, "The upload")
        except ClientLeft:
            return Response(status_code=204)
        except MayflyError as error:
            text, status = describe_error(error)
            return await self._upload(visit, msgspec.structs.replace(page, errors=[text]), status)
        said = f"{words.number(done)} of {words.number(len(records))} rows were stored"
        shown = msgspec.structs.replace(page, outcome=f"{said}.", refusals=refusals[:MAX_REFUSALS], text="")
        return await self._upload(visit, shown, said=said)

    async def _upload(self, visit: Visit, upload: Upload, status: int = 200, said: str = "") -> Response:
        return await self._shell.page(visit.request, "upload.html", {"upload": upload}, status, said)

    async def export(self, visit: Visit) -> Response:
        """Send the rows of the table, or those that the filter leaves, as a file."""
        query, table = visit.request.query_params, self.table(visit, read_as_of(visit.request))
        form = exports.FORMS.get(f"export-{query.get('form', 'jsonl')}")
        if form is None:
            raise BadRequest("form is jsonl or csv")
        work = self._make_file(table, form, query.get("filter", ""))
        try:
            content = await run_while_present(visit.request, work, FILE_SECONDS, "The export")
        except ClientLeft:
            return Response(status_code=204)
        name = f"{visit.name.rpartition('/')[2]}.{form.suffix}"
        return Response(content, headers=HEADERS | exports.disposition(name), media_type=form.kind)

    async def _make_file(self, table: RowTable, form: exports.FileForm, filter: str) -> bytes:
        rows: list[dict[str, Any]] = []
        size, after = 0, None  # type: int, str | None
        async with self._exporting:
            while page := await table.page(filter, after=after, limit=1000):
                rows += page
                size += await asyncio.to_thread(exports.measure, page)
                if len(rows) > EXPORT_ROWS or size > EXPORT_BYTES:
                    raise TooLarge(
                        f"The table has more than {EXPORT_ROWS:,} rows or {EXPORT_BYTES // 2**20} MiB to export."
                    )
                after = table.key_of(page[-1])
            return await asyncio.to_thread(form.encode, rows, list(table.types))

    # --- the table -----------------------------------------------------------------------------------------------------

    async def show_drop(self, visit: Visit) -> Response:
        """Ask for the name of the table."""
        return await self._drop(visit)

    async def drop(self, visit: Visit) -> Response:
        """Drop the table whose name was typed."""
        if (await read_form(visit.request)).get("confirm") != visit.name:
            return await self._drop(visit, "Type the name of the table as it is written above.", 400)
        try:
            await self.caller()(visit.database, f"DROP TABLE {quote_name(visit.name)}")
        except Fault as error:
            return await self._drop(visit, *describe_error(describe_fault(error)))
        return keep_message(RedirectResponse("/_explorer/", 303), f"Table {visit.name} dropped")

    async def _drop(self, visit: Visit, error: str = "", status: int = 200) -> Response:
        drop = Drop(
            "Delete Table", f"{visit.address}/drop", _crumbs(visit), visit.name,
            "Type the name of the table to drop it:", "The table is dropped with all of its rows.",
            _rows(visit), "DeleteCollectionConfirmationPane", errors=[error] if error else (),
        )  # fmt: skip
        return await self._shell.page(visit.request, "drop.html", {"drop": drop}, status, error)


def key_text(key: str) -> str:
    """Return a key, a JSON list, as the admin API writes keys: all parts are texts."""
    parts = msgspec.json.decode(key, type=list[Any])
    texts = [each if each is None or isinstance(each, str) else msgspec.json.encode(each).decode() for each in parts]
    return msgspec.json.encode(texts).decode()


def _rows(visit: Visit) -> str:
    return f"{visit.address}/rows"


def _crumbs(visit: Visit) -> tuple[tuple[str, str], ...]:
    return ((visit.database, ""), (visit.name, _rows(visit)))


def _digest(row: dict[str, Any]) -> str:
    return sha256(msgspec.json.encode(row)).hexdigest()


def _parse_row(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeEncodeError, RecursionError) as error:
        raise BadRequest(f"A row is a JSON object: {error}.") from None
