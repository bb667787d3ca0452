"""Items are made, edited, deleted, patched and uploaded: each by the request that a client would send."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
from starlette.responses import RedirectResponse, Response

from mayflydb.admin.operations import Admin
from mayflydb.admin.record_files import FileRecord
from mayflydb.admin.wires import Cosmos
from mayflydb.http.messages import check_status, read_json
from mayflydb.model.errors import BadRequest, MayflyError, NotFound, PreconditionFailed, TimedOut
from mayflydb.portal import words
from mayflydb.portal.cosmos.query import item_address, partition_key
from mayflydb.portal.editing import Editor, Upload
from mayflydb.portal.forms import describe_error, read_form, read_parts
from mayflydb.portal.presence import FILE_SECONDS, ClientLeft, run_while_present
from mayflydb.portal.results import format_json
from mayflydb.portal.shell import Shell, Visit, keep_message
from mayflydb.portal.uploads import read_records

CHANGED_MEANWHILE: Final = (
    "This item was changed after this page was loaded, so nothing was saved. Discard shows it as it is now."
)
MAX_PICKED: Final = 100
MAX_REFUSALS: Final = 10
NEW_ITEM: Final = {"id": "replace_with_new_document_id"}
START_OF_PATCH: Final = '[\n  {"op": "set", "path": "/ttl", "value": 3600}\n]'


class ItemChanges:
    """The forms that change items."""

    def __init__(self, admin: Admin, shell: Shell, cosmos: Cosmos) -> None:
        self._admin, self._shell, self._cosmos = admin, shell, cosmos

    async def show_new(self, visit: Visit) -> Response:
        """Show a new item."""
        start = dict(NEW_ITEM)
        for path in visit.container.node.body["partitionKey"]["paths"]:
            if path != "/id" and "/" not in path[1:]:
                start[path[1:]] = ""
        return await self._render_new(visit, format_json(start))

    async def submit_new(self, visit: Visit) -> Response:
        """Create an item."""
        text = (await read_form(visit.request)).get("document", "")
        try:
            item = _parse_item(text)
            made = read_json(await self._create(visit, item, text.encode()))
        except MayflyError as error:
            return await self._render_new(visit, text, error)
        there = item_address(visit.address, made, _paths(visit))
        return keep_message(RedirectResponse(there, 303), f"Created item {made['id']}")

    async def _render_new(self, visit: Visit, text: str, error: MayflyError | None = None) -> Response:
        place = f"{visit.address}/new-item"
        said, status = ("", 200) if error is None else describe_error(error)
        editor = Editor(
            "New Item", place, _crumbs(visit), text, f"{visit.address}/items", errors=[said] if said else (),
            deletable=False, is_new=True,
        )  # fmt: skip
        return await self._shell.page(visit.request, "editor.html", {"editor": editor, "why": None}, status, said)

    async def submit(self, visit: Visit) -> Response:
        """Save or delete an item. A deletion is asked about once."""
        sent = await read_form(visit.request)
        id, pk, text, etag = (sent.get(name, "") for name in ("id", "pk", "document", "etag"))
        key, asks = _parse_key(pk), ""
        try:
            if sent.get("action") == "delete-for-good":
                check_status(await self._item("DELETE", visit, id, key, headers={"if-match": etag}))
                return keep_message(RedirectResponse(f"{visit.address}/items", 303), f"Deleted item {id}")
            if sent.get("action") == "delete":
                asks = f"Item {id} is deleted at once, and cannot be brought back. Nothing is deleted yet."
                return await self.render_item(visit, id, pk, text, etag, asks=asks)
            _parse_item(text)
            saved = read_json(await self._item("PUT", visit, id, key, text.encode(), {"if-match": etag}))
        except MayflyError as error:
            said, status = describe_error(error)
            if isinstance(error, PreconditionFailed):
                said = CHANGED_MEANWHILE
            return await self.render_item(visit, id, pk, text, etag, [said], status)
        there = item_address(visit.address, saved, _paths(visit))
        return keep_message(RedirectResponse(there, 303), f"Saved item {saved['id']}")

    async def render_item(
        self, visit: Visit, id: str, pk: str, text: str, etag: str, errors: Sequence[str] = (), status: int = 200,
        asks: str = "",
    ) -> Response:  # fmt: skip
        """Show an item in its editor."""
        editor = Editor(
            id, f"{visit.address}/item", _crumbs(visit), text, item_address_of(visit, id, pk), errors=errors, asks=asks,
            hidden={"id": id, "pk": pk, "etag": etag},
        )  # fmt: skip
        try:
            why = await self._admin.reports.explain(visit.container.target, id, pk)
        except NotFound:
            why = None
        content = {"editor": editor, "why": why}
        return await self._shell.page(visit.request, "editor.html", content, status, " ".join(errors), large=True)

    async def choose(self, visit: Visit) -> Response:
        """Delete or patch the picked items. Both are asked about once."""
        parts = await read_parts(visit.request)
        sent = {part.name: part.text for part in parts}
        picked = [part.text for part in parts if part.name == "pick"]
        if not picked or len(picked) > MAX_PICKED:
            raise BadRequest(f"Pick 1 to {MAX_PICKED} items.")
        action, text = sent.get("action", ""), sent.get("operations", START_OF_PATCH)
        if action not in ("delete-for-good", "patch-now"):
            return await self._ask(visit, "delete" if action == "delete" else "patch", picked, text)
        try:
            operations = b"" if action == "delete-for-good" else _parse_operations(text)
        except BadRequest as error:
            return await self._ask(visit, "patch", picked, text, [error.message], 400)
        done = 0
        refusals: list[str] = []
        for each in picked:
            id, key = _parse_pick(each)
            try:
                if action == "delete-for-good":
                    check_status(await self._item("DELETE", visit, id, key))
                else:
                    kind = {"content-type": "application/json_patch+json"}
                    check_status(await self._item("PATCH", visit, id, key, operations, kind))
                done += 1
            except MayflyError as error:
                refusals.append(f"{id}: {error.message}")
        verb = "Deleted" if action == "delete-for-good" else "Patched"
        said = f"{verb} {words.items(done)}"
        if refusals:
            errors = [f"{said}; {len(refusals)} refused.", *refusals[:MAX_REFUSALS]]
            return await self._ask(visit, "delete" if verb == "Deleted" else "patch", picked, text, errors, 409)
        return keep_message(RedirectResponse(f"{visit.address}/items", 303), said)

    async def _ask(
        self, visit: Visit, action: str, picked: Sequence[str], text: str, errors: Sequence[str] = (), status: int = 200
    ) -> Response:
        content = {
            "action": action, "picked": [(each, _parse_pick(each)[0]) for each in picked], "operations": text,
            "errors": errors, "address": visit.address, "database": visit.database, "name": visit.name,
        }  # fmt: skip
        return await self._shell.page(visit.request, "cosmos/picked.html", content, status, " ".join(errors))

    async def show_upload(self, visit: Visit) -> Response:
        """Show the form of an upload."""
        return await self._render_upload(visit, Upload("", "", (), ""))

    async def submit_upload(self, visit: Visit) -> Response:
        """Create, or replace, each item of a file."""
        parts = {part.name: part for part in await read_parts(visit.request)}
        file = parts.get("file")
        pasted = parts["records"].text if "records" in parts else ""
        replaces = "replace" in parts
        try:
            text, name = (file.text, file.file) if file and file.text else (pasted, "")
            records = await asyncio.to_thread(read_records, text, name)
            work = self._store(visit, records, replaces)
            stored, refused, refusals = await run_while_present(visit.request, work, FILE_SECONDS, "The upload")
        except ClientLeft:
            return Response(status_code=204)
        except (BadRequest, TimedOut) as error:
            shown = Upload("", "", (), "", pasted, errors=[error.message])
            return await self._render_upload(visit, shown, describe_error(error)[1])
        outcome = f"{words.items(stored)} stored" + (f", {words.items(refused)} refused" if refused else "")
        shown = Upload("", "", (), "", outcome=outcome, refusals=refusals, replaces=replaces)
        return await self._render_upload(visit, shown)

    async def _store(
        self, visit: Visit, records: Sequence[FileRecord], replaces: bool
    ) -> tuple[int, int, list[tuple[str, str]]]:
        """Store records. Return how many were stored, how many refused, and (place, reason) of the first refused ones."""
        stored = refused = 0
        refusals: list[tuple[str, str]] = []
        for record in records:
            try:
                check_status(await self._create(visit, record.value, msgspec.json.encode(record.value), replaces))
                stored += 1
            except MayflyError as error:
                refused += 1
                if len(refusals) < MAX_REFUSALS:
                    refusals.append((record.place, error.message))
        return stored, refused, refusals

    async def _render_upload(self, visit: Visit, upload: Upload, status: int = 200) -> Response:
        upload = msgspec.structs.replace(
            upload, title="Upload Items", address=f"{visit.address}/upload", crumbs=_crumbs(visit),
            back=f"{visit.address}/items",
        )  # fmt: skip
        said = upload.outcome or " ".join(upload.errors)
        return await self._shell.page(visit.request, "upload.html", {"upload": upload}, status, said)

    async def _create(self, visit: Visit, item: Mapping[str, Any], body: bytes, replaces: bool = False) -> Any:
        key = partition_key(item, _paths(visit))
        headers = {"x-ms-documentdb-partitionkey": _key_header(key)}
        if replaces:
            headers["x-ms-documentdb-is-upsert"] = "true"
        return await self._cosmos("POST", ("dbs", visit.database, "colls", visit.name, "docs"), body, headers)

    async def _item(
        self, method: str, visit: Visit, id: str, key: Any, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Any:
        given = {"x-ms-documentdb-partitionkey": _key_header(key), **(headers or {})}
        path = ("dbs", visit.database, "colls", visit.name, "docs", id)
        return await self._cosmos(method, path, body, {name: value for name, value in given.items() if value})


def item_address_of(visit: Visit, id: str, pk: str) -> str:
    """Return the address of the page of an item by its id and key."""
    return f"{visit.address}/item?{urlencode({'id': id, 'pk': pk}, errors='replace')}"


def _key_header(key: Any) -> str:
    # json escapes all that is not ASCII; a header may hold nothing else.
    return json.dumps(key if isinstance(key, list) else [key])


def _paths(visit: Visit) -> Sequence[str]:
    paths: Sequence[str] = visit.container.node.body["partitionKey"]["paths"]
    return paths


def _crumbs(visit: Visit) -> list[tuple[str, str]]:
    return [(visit.database, ""), (visit.name, ""), ("Items", f"{visit.address}/items")]


def _parse_item(text: str) -> dict[str, Any]:
    try:
        item = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise BadRequest(f"The item is not JSON: {error}.") from None
    if not isinstance(item, dict):
        raise BadRequest("An item is a JSON object.")
    return item


def _parse_operations(text: str) -> bytes:
    try:
        return msgspec.json.encode({"operations": msgspec.json.decode(text, type=list[dict[str, Any]])})
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeEncodeError, RecursionError) as error:
        raise BadRequest(f"The operations are a JSON array of objects: {error}.") from None


def _parse_key(pk: str) -> Any:
    try:
        return msgspec.json.decode(pk)
    except (msgspec.DecodeError, RecursionError):
        raise BadRequest("pk must be JSON") from None


def _parse_pick(pick: str) -> tuple[str, Any]:
    """Parse the value of a box: the id and the key, as a JSON array."""
    try:
        id, key = msgspec.json.decode(pick, type=tuple[str, Any])
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError):
        raise BadRequest("A pick names an item by its id and key.") from None
    return id, key
