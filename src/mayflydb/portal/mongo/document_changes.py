"""Documents are made, edited, deleted, uploaded and exported, each by the commands that a client would send."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
from starlette.responses import RedirectResponse, Response

from mayflydb.admin.operations import Admin
from mayflydb.admin.record_files import FileRecord
from mayflydb.admin.wires import Mongo
from mayflydb.model.errors import BadRequest, MayflyError, NotFound, TooLarge
from mayflydb.model.instant import Instant
from mayflydb.portal import exports, words
from mayflydb.portal.as_of import read_as_of
from mayflydb.portal.editing import Editor, Upload
from mayflydb.portal.forms import describe_error, read_form, read_parts
from mayflydb.portal.mongo.collection import (
    CollectionDocuments,
    check_document,
    digest,
    id_of,
    id_text,
    name_id,
    parse_id,
    parse_text,
    with_id,
)
from mayflydb.portal.mongo.query import require_mongo
from mayflydb.portal.presence import EXPORTS, FILE_SECONDS, ClientLeft, run_while_present
from mayflydb.portal.querying import EXPORT_BYTES, EXPORT_ROWS
from mayflydb.portal.shell import HEADERS, Shell, Visit, json_response, keep_message
from mayflydb.portal.uploads import read_records
from mayflydb.query.mongo.extended_json import format_document, is_exact, parse_json
from mayflydb.query.mongo.faults import MqlError

MAX_PICKED: Final = 100
MAX_REFUSALS: Final = 10
BATCH_COUNT: Final = 500
BATCH_BYTES: Final = 1024 * 1024
NEW: Final = '{\n  "ttl": 3600\n}'
NOT_EXACT: Final = (
    "This document holds bytes that no text gives back, such as invalid UTF-8 or a name of Extended JSON, "
    "so it is shown and not saved."
)


class DocumentChanges:
    """The forms that change documents, and the files."""

    def __init__(self, admin: Admin, shell: Shell, mongo: Mongo | None) -> None:
        self._admin, self._shell, self._mongo = admin, shell, mongo
        self._exporting = asyncio.Semaphore(EXPORTS)

    def _collection(self, visit: Visit, at: Instant | None = None) -> CollectionDocuments:
        return CollectionDocuments(require_mongo(self._mongo), visit, at)

    # --- one document --------------------------------------------------------------------------------------------------

    async def show(self, visit: Visit) -> Response:
        """Show one document in its editor, its deadline and the reason."""
        name = visit.request.query_params.get("id", "")
        stored = await self._collection(visit).read(parse_id(name))
        text, exact = await asyncio.to_thread(_write, stored)
        return await self._render(visit, name, text, digest(stored), "" if exact else NOT_EXACT, exact=exact)

    async def show_json(self, visit: Visit) -> Response:
        """The same as JSON."""
        name = visit.request.query_params.get("id", "")
        text, _ = await asyncio.to_thread(_write, await self._collection(visit).read(parse_id(name)))
        return json_response({"document": msgspec.Raw(text.encode()), "explanation": await self._explain(visit, name)})

    async def submit(self, visit: Visit) -> Response:
        """Save or delete a document. A deletion is asked about once."""
        sent, collection = await read_form(visit.request), self._collection(visit)
        name, seen, text = (sent.get(each, "") for each in ("id", "seen", "document"))
        id = parse_id(name)
        shown = id_text(id)
        if sent.get("action") == "delete":
            asks = f"Document {shown} is deleted at once, and cannot be brought back. Nothing is deleted yet."
            return await self._render(visit, name, text, seen, asks=asks)
        try:
            if sent.get("action") == "delete-for-good":
                await collection.delete(id, seen)
                return keep_message(RedirectResponse(f"{visit.address}/documents", 303), f"Deleted document {shown}")
            document = await asyncio.to_thread(parse_text, text)
            if not (await asyncio.to_thread(_write, await collection.read(id)))[1]:
                raise BadRequest(NOT_EXACT)
            await collection.replace(id, seen, document)
        except MayflyError as error:
            return await self._render(visit, name, text, seen, *describe_error(error))
        there = f"{visit.address}/document?{urlencode({'id': name}, errors='replace')}"
        return keep_message(RedirectResponse(there, 303), f"Saved document {shown}")

    async def show_new(self, visit: Visit) -> Response:
        """Show a new document."""
        return await self._render_new(visit, NEW)

    async def submit_new(self, visit: Visit) -> Response:
        """Insert a document."""
        text = (await read_form(visit.request)).get("document", "")
        try:
            document = with_id(await asyncio.to_thread(parse_text, text), await self._admin.engine.now())
            for _, reason in await self._collection(visit).insert([document]):
                raise BadRequest(reason)
        except MayflyError as error:
            return await self._render_new(visit, text, *describe_error(error))
        id = id_of(document)
        there = f"{visit.address}/document?{urlencode({'id': name_id(id)}, errors='replace')}"
        return keep_message(RedirectResponse(there, 303), f"Created document {id_text(id)}")

    async def _render_new(self, visit: Visit, text: str, error: str = "", status: int = 200) -> Response:
        editor = Editor(
            "New Document", f"{visit.address}/new-document", _crumbs(visit), text, f"{visit.address}/documents",
            "Extended JSON", errors=[error] if error else (), deletable=False, is_new=True,
        )  # fmt: skip
        return await self._shell.page(visit.request, "editor.html", {"editor": editor, "why": None}, status, error)

    async def _render(
        self, visit: Visit, name: str, text: str, seen: str, error: str = "", status: int = 200, asks: str = "",
        exact: bool = True,
    ) -> Response:  # fmt: skip
        here = f"{visit.address}/document"
        editor = Editor(
            id_text(parse_id(name)), here, _crumbs(visit), text,
            f"{here}?{urlencode({'id': name}, errors='replace')}", "Extended JSON",
            hidden={"id": name, "seen": seen}, errors=[error] if error else (), asks=asks, read_only=not exact,
        )  # fmt: skip
        content = {"editor": editor, "why": await self._explain(visit, name)}
        return await self._shell.page(visit.request, "editor.html", content, status, error, large=True)

    async def _explain(self, visit: Visit, name: str) -> dict[str, Any] | None:
        try:
            return await self._admin.reports.explain(visit.container.target, name, None)
        except NotFound:
            return None

    # --- many documents ------------------------------------------------------------------------------------------------

    async def choose(self, visit: Visit) -> Response:
        """Delete the picked documents. It is asked about once."""
        parts = await read_parts(visit.request)
        picked = [(part.text, parse_id(part.text)) for part in parts if part.name == "pick"]
        if not picked or len(picked) > MAX_PICKED:
            raise BadRequest(f"Pick 1 to {MAX_PICKED} documents.")
        error, status = "", 200
        if any(part.name == "action" and part.text == "delete-for-good" for part in parts):
            try:
                done = await self._collection(visit).delete_all([id for _, id in picked])
                said = f"Deleted {_count(done)}"
                return keep_message(RedirectResponse(f"{visit.address}/documents", 303), said)
            except MayflyError as refusal:
                error, status = describe_error(refusal)
        content = {
            "picked": [(name, id_text(id)) for name, id in picked], "count": _count(len(picked)), "error": error,
            "address": visit.address, "crumbs": _crumbs(visit),
        }  # fmt: skip
        return await self._shell.page(visit.request, "mongo/picked.html", content, status, error)

    async def show_upload(self, visit: Visit) -> Response:
        """Show the form of an upload."""
        return await self._render_upload(visit, Upload("", "", (), ""))

    async def submit_upload(self, visit: Visit) -> Response:
        """Insert, or replace, each document of a file."""
        parts = {part.name: part for part in await read_parts(visit.request)}
        file, pasted = parts.get("file"), parts["records"].text if "records" in parts else ""
        replaces = "replace" in parts
        try:
            text, name = (file.text, file.file) if file and file.text else (pasted, "")
            records = await asyncio.to_thread(read_records, text, name)
            work = self._store(visit, records, replaces)
            refusals = await run_while_present(visit.request, work, FILE_SECONDS, "The upload")
        except ClientLeft:
            return Response(status_code=204)
        except MayflyError as error:
            said, status = describe_error(error)
            shown = Upload("", "", (), "", pasted, errors=[said], replaces=replaces)
            return await self._render_upload(visit, shown, status)
        outcome = f"{_count(len(records) - len(refusals))} stored"
        outcome += f", {_count(len(refusals))} refused" if refusals else ""
        shown = Upload("", "", (), "", outcome=outcome, refusals=refusals[:MAX_REFUSALS], replaces=replaces)
        return await self._render_upload(visit, shown)

    async def _store(self, visit: Visit, records: list[FileRecord], replaces: bool) -> list[tuple[str, str]]:
        """Store records in batches. Return (place, reason) of each that was refused."""
        collection, now = self._collection(visit), await self._admin.engine.now()
        refusals: list[tuple[str, str]] = []
        places: list[str] = []
        documents: list[bytes] = []

        async def flush() -> None:
            if documents:
                refused = await (collection.put if replaces else collection.insert)(documents)
                refusals.extend((places[at], reason) for at, reason in refused)
            places.clear()
            documents.clear()

        for number, record in enumerate(records):
            try:
                document = with_id(_encode(record), now)
            except MayflyError as error:
                refusals.append((record.place, error.message))
                continue
            places.append(record.place)
            documents.append(document)
            if len(documents) == BATCH_COUNT or sum(map(len, documents)) > BATCH_BYTES:
                await flush()
            elif number % 50 == 49:
                await asyncio.sleep(0)
        await flush()
        return refusals

    async def _render_upload(self, visit: Visit, upload: Upload, status: int = 200) -> Response:
        upload = msgspec.structs.replace(
            upload, title="Upload Documents", address=f"{visit.address}/upload", crumbs=_crumbs(visit),
            back=f"{visit.address}/documents",
        )  # fmt: skip
        said = upload.outcome or " ".join(upload.errors)
        return await self._shell.page(visit.request, "upload.html", {"upload": upload}, status, said)

    async def export(self, visit: Visit) -> Response:
        """Send the documents, or those that the filter leaves, as a file."""
        query = visit.request.query_params
        form = exports.FORMS.get(f"export-{query.get('form', 'jsonl')}")
        if form is None:
            raise BadRequest("form is jsonl or csv")
        collection = self._collection(visit, read_as_of(visit.request))
        work = self._make_file(collection, form, query.get("filter", ""), query.get("sort", ""))
        try:
            content = await run_while_present(visit.request, work, FILE_SECONDS, "The export")
        except ClientLeft:
            return Response(status_code=204)
        headers = HEADERS | exports.disposition(f"{visit.name}.{form.suffix}")
        return Response(content, headers=headers, media_type=form.kind)

    async def _make_file(
        self, collection: CollectionDocuments, form: exports.FileForm, filter: str, sort: str
    ) -> bytes:
        async with self._exporting:
            try:
                found = await collection.find(filter, sort, 0, EXPORT_ROWS + 1, batch=1000)
            except TooLarge:
                found = []
                size = EXPORT_BYTES + 1
            else:
                size = sum(map(len, found))
            if len(found) > EXPORT_ROWS or size > EXPORT_BYTES:
                raise TooLarge(
                    f"There are more than {EXPORT_ROWS:,} documents or {EXPORT_BYTES // 2**20} MiB to export.",
                    hint="Filter them, or export all data by `mayfly data export`.",
                )
            rows = await asyncio.to_thread(lambda: [json.loads(format_document(each)) for each in found])
            return await asyncio.to_thread(form.encode, rows, ())


def _write(stored: bytes) -> tuple[str, bool]:
    """Return a document as Extended JSON, and whether the text gives back the same bytes."""
    text = format_document(stored, indent=True)
    return text, is_exact(stored, text)


def _encode(record: FileRecord) -> bytes:
    try:
        found = parse_json(msgspec.json.encode(record.value).decode())
    except MqlError as error:
        raise BadRequest(error.message) from None
    return check_document(found, record.place.capitalize())


def _count(number: int) -> str:
    return f"{words.number(number)} {'document' if number == 1 else 'documents'}"


def _crumbs(visit: Visit) -> list[tuple[str, str]]:
    return [(visit.database, ""), (visit.name, ""), ("Documents", f"{visit.address}/documents")]
