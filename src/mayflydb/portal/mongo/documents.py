"""A collection: its documents as a grid with their deadlines, and its TTL indexes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from mayflydb.admin.operations import Admin
from mayflydb.admin.wires import Mongo
from mayflydb.engine.scans import Scope
from mayflydb.model.errors import MayflyError
from mayflydb.model.instant import Instant
from mayflydb.model.record import IGNORED, Record
from mayflydb.portal.as_of import FIELD, read_as_of, render_as_of
from mayflydb.portal.forms import describe_error, parse_whole_number
from mayflydb.portal.grid import (
    PAGE,
    GridActions,
    GridColumn,
    GridFilter,
    GridRow,
    GridView,
    Trail,
    describe_life,
    parse_position,
)
from mayflydb.portal.mongo.collection import CollectionDocuments, id_of, id_text, name_id
from mayflydb.portal.mongo.query import require_mongo
from mayflydb.portal.records import NOTHING, RecordsPage, count_visible_own
from mayflydb.portal.results import shorten
from mayflydb.portal.shell import Shell, Visit, json_response
from mayflydb.query.mongo.extended_json import TEXT, Encoded, fields_of, format_value
from mayflydb.query.mongo.raw import ARRAY, EMBEDDED

SHOWN: Final = 4
"""Fields that are columns until a person chooses others."""

MAX_NAMES: Final = 60
"""Fields of one document that are read for the grid, and that are offered as columns."""

LARGE: Final = 64 * 1024
"""Bytes of a nested value of which the grid shows the size alone."""


Found: TypeAlias = tuple[bytes, Record | None]
"""A document, and its stored record; None: there is none any more."""


class Line(msgspec.Struct, frozen=True):
    """A document of the grid. `cells`: the text of each field, without `_id`."""

    id: Encoded
    cells: Mapping[str, str]
    about: Mapping[str, Any]
    fault: str


class DocumentsPage(RecordsPage):
    """The page of a collection."""

    def __init__(self, admin: Admin, shell: Shell, mongo: Mongo | None) -> None:
        super().__init__(admin, shell, "documents")
        self._mongo = mongo

    async def show(self, visit: Visit) -> Response:
        """Show a page of the grid, the TTL indexes, and the documents whose ttl is ignored."""
        if self._mongo is not None and visit.request.query_params.get(FIELD, "").strip():
            then, refusal, code = await self._view(visit, self._mongo)
            return await render_as_of(self._shell, visit, then, f"{visit.address}/export", refusal, code)
        content = self._content(visit, await self._read_page(visit, None if self._mongo is None else NOTHING))
        view, problem, status = None, "", 200
        if self._mongo is not None:
            view, problem, status = await self._view(visit, self._mongo)
        query = visit.request.query_params
        kept = {name: query[name] for name in ("filter", "sort") if query.get(name)}
        content |= {"view": view, "export": urlencode(kept, errors="replace")}
        content["own"] = await count_visible_own(self._admin, visit.container, content["collection"])
        return await self._shell.page(visit.request, self._template, content, status, problem, large=True)

    async def show_json(self, visit: Visit) -> Response:
        """The same as JSON. A page that is filtered or sorted goes on behind a number of documents."""
        query = visit.request.query_params
        filter, sort, at = query.get("filter", ""), query.get("sort", ""), read_as_of(visit.request)
        if not (filter.strip() or sort or at is not None):
            return await super().show_json(visit)
        here = query.get("after", Trail.of(visit.request).here)
        collection = CollectionDocuments(require_mongo(self._mongo), visit, at)
        found, following = await self._find(visit, collection, filter, sort, here, at)
        if at is None:
            records = [record for _, record in found if record is not None]
            return json_response(await self._read_page(visit, (records, following)))
        rows = [
            {"id": id_text(id_of(value)), "pk": "null", **describe_life(visit.container, record, at)}
            for value, record in found
        ]
        return json_response({"documents": rows, "after": following})

    async def _view(self, visit: Visit, mongo: Mongo) -> tuple[GridView, str, int]:
        query, trail = visit.request.query_params, Trail.of(visit.request)
        kept = {name: query[name] for name in ("filter", "sort", "columns", FIELD) if query.get(name, "").strip()}
        if query.getlist("column"):
            kept["columns"] = ",".join(query.getlist("column"))
        filter, sort = kept.get("filter", ""), kept.get("sort", "")
        found: list[Found] = []
        at, following, problem, status = None, None, "", 200  # type: Instant | None, str | None, str, int
        try:
            at = read_as_of(visit.request)
            if filter.strip() or sort or at is not None:
                collection = CollectionDocuments(mongo, visit, at)
                found, following = await self._find(visit, collection, filter, sort, trail.here, at)
            else:
                found, following = await self._scan(visit, trail.here)
        except MayflyError as error:
            problem, status = describe_error(error)
        lines = await self._describe(visit, found, at)
        names = list(dict.fromkeys(name for line in lines for name in line.cells))
        chosen = [name for name in kept.get("columns", "").split(",") if name]
        chosen = (chosen or names[:SHOWN])[:MAX_NAMES]
        address = f"{visit.address}/documents"
        order = "sorted by " + sort.removeprefix("-") if sort else "in the order of their creation"
        view = GridView(
            address, "DocumentsTab", "Documents", f"Documents {order}",
            [_column(name, sort, address, kept) for name in ("_id", *chosen)],
            [_row(visit, line, chosen) for line in lines],
            trail.paging(address, kept, following), GridActions(address),
            GridFilter(filter, "Filter", '{ttl: {$gt: 60}, at: {$lt: ISODate("2030-01-01")}}', "find", problem), kept,
            [(name, name in chosen) for name in dict.fromkeys([*chosen, *names])][:MAX_NAMES],
        )  # fmt: skip
        return view, problem, status

    async def _describe(self, visit: Visit, found: Sequence[Found], at: Instant | None) -> list[Line]:
        """Return the lines of documents, with their lives as of an instant; None: the present."""
        now = await self._admin.engine.now() if at is None else at
        abouts = [describe_life(visit.container, record, now) for _, record in found]
        faults = [
            self._ignored_row(visit, record)["why"] if record is not None and record.override == IGNORED else ""
            for _, record in found
        ]
        return await asyncio.to_thread(_read_lines, [value for value, _ in found], abouts, faults)

    async def _find(
        self,
        visit: Visit,
        collection: CollectionDocuments,
        filter: str,
        sort: str,
        here: str | None,
        at: Instant | None,
    ) -> tuple[list[Found], str | None]:
        """Return a page of a find. A page begins behind a number of documents."""
        skip = parse_whole_number(here or "")
        # Of the present, the documents are those that are stored.
        shares_ids = "series" in visit.container.node.body
        documents = await collection.find(filter, sort, skip, PAGE + 1, ids=at is None and not shares_ids)
        found: list[Found] = []
        for document in documents[:PAGE]:
            record = await self._find_record(visit, name_id(id_of(document)), document if shares_ids else None)
            if at is not None or shares_ids:
                found.append((document, record))
            # A document that was deleted since the find has no line.
            elif record is not None:
                found.append((record.value, record))
        return found, str(skip + PAGE) if len(documents) > PAGE else None

    async def _find_record(self, visit: Visit, id: str, document: bytes | None) -> Record | None:
        """Return the record of an id. `document`: its bytes, where other documents may have the same id, as in a time series."""
        node, engine = visit.container.node, self._admin.engine
        for partition, key in visit.container.front_end.find_identities(node, id, None):
            record = await engine.get_stored(node.id, partition, key)
            if record is not None and document in (None, record.value):
                return record
            if document is not None:
                # Of documents with one id only some are looked at. The page tells no deadline of the others.
                async for batch in engine.scan(node, Scope.of_partition(partition), None, await engine.now()):
                    return next((each for each in batch.records if each.value == document), None)
        return None

    async def _scan(self, visit: Visit, here: str | None) -> tuple[list[Found], str | None]:
        """Return a page of all documents. A page begins behind a sequence number."""
        position = None if here is None else parse_position(here)
        found: list[Record] = []
        async for batch in self._admin.engine.scan(
            visit.container.node, Scope(), position, await self._admin.engine.now()
        ):
            found += batch.records
            # One more than a page: only then is there a next page.
            if len(found) > PAGE:
                break
        page: list[Found] = [(record.value, record) for record in found[:PAGE]]
        return page, str(found[PAGE - 1].seq) if len(found) > PAGE else None


def _read_lines(values: Sequence[bytes], abouts: Sequence[Mapping[str, Any]], faults: Sequence[str]) -> list[Line]:
    lines = []
    for value, about, fault in zip(values, abouts, faults, strict=True):
        fields = fields_of(value)
        cells = {name: _cell(fields[name]) for name in list(fields)[:MAX_NAMES] if name != "_id"}
        lines.append(Line(fields["_id"], cells, about, fault))
    return lines


def _cell(value: Encoded) -> str:
    if value.kind in (EMBEDDED, ARRAY) and len(value.data) > LARGE:
        return f"{'an array' if value.kind == ARRAY else 'a document'} of {len(value.data):,} bytes"
    if value.kind == TEXT:
        return shorten(value.data[4:-1].decode("utf-8", "replace"))
    return shorten(format_value(value))


def _column(name: str, sort: str, address: str, kept: Mapping[str, str]) -> GridColumn:
    order: Literal["", "ascending", "descending"] = ""
    if sort.removeprefix("-") == name:
        order = "descending" if sort.startswith("-") else "ascending"
    wanted = f"-{name}" if order == "ascending" else name
    # A find cannot sort by a name with a dollar, and a minus says descending here.
    if not name or name.startswith(("$", "-")):
        return GridColumn(name)
    return GridColumn(name, f"{address}?{urlencode({**kept, 'sort': wanted}, errors='replace')}", order)


def _row(visit: Visit, line: Line, chosen: Sequence[str]) -> GridRow:
    name = name_id(line.id)
    return GridRow(
        name, f"{visit.address}/document?{urlencode({'id': name}, errors='replace')}",
        [shorten(id_text(line.id)), *(line.cells.get(each, "") for each in chosen)],
        line.about["expires_in"], line.about["deadline"], line.about["text"], line.fault,
    )  # fmt: skip
