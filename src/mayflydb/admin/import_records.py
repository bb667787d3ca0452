"""Imports records into one container, collection or table, by the requests of its front end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from mayflydb.admin import formats
from mayflydb.admin.cosmos_items import CosmosItems, content_of
from mayflydb.admin.mongo_documents import from_json
from mayflydb.admin.record_files import CsvLines, JsonLines, LineCutter, LineReader, check_object, decode_json
from mayflydb.admin.requests import ImportFile, ImportRecords
from mayflydb.admin.targets import ContainerTarget, TargetResolver
from mayflydb.admin.wires import Wires
from mayflydb.engine.engine import Engine
from mayflydb.model.errors import BadRequest, MayflyError, Unsupported
from mayflydb.query.yql.key_paging import quote_name

MAX_FAILURES: Final = 100
"""Failures that are told one by one; the others are counted."""

TURN_RECORDS: Final = 2
"""Records after which others run: writing one takes about half a millisecond."""

LARGE: Final = 64 * 1024
"""Bytes of a record that is decoded on a thread."""

JSON_LINES: Final = "application/x-ndjson"
CSV: Final = "text/csv"
FORMS: Final = (JSON_LINES, CSV)
"""The types of files of records."""


class Imported:
    """The numbers of records that were written and that were not, and the failures by the record's place in the request."""

    def __init__(self) -> None:
        self.created = self.replaced = self.expired = self.failed = 0
        self.failures: list[dict[str, Any]] = []

    def fail(self, number: int, place: str, detail: str) -> None:
        """Count a failure."""
        self.failed += 1
        if len(self.failures) < MAX_FAILURES:
            self.failures.append({"number": number, **({"place": place} if place else {}), "detail": detail})


class Incoming(msgspec.Struct, frozen=True):
    """A record of a request. `place`: its line in a file. `fault`: why it cannot be read; None: it was read."""

    number: int
    place: str
    value: dict[str, Any]
    fault: str | None = None


class RecordImport:
    """Writes the records of one request, in their order."""

    def __init__(self, engine: Engine, targets: TargetResolver, wires: Wires) -> None:
        self._engine = engine
        self._targets = targets
        self._wires = wires

    async def write(self, wanted: ImportRecords) -> dict[str, Any]:
        """Write the records. After a failure the rest is not written, unless `continue_on_error`; failures have their place."""
        return await self._write(wanted, _decode_each(wanted.records))

    async def write_file(self, wanted: ImportFile, form: str, parts: AsyncIterator[bytes]) -> dict[str, Any]:
        """Write the records of a file as it arrives, as `write` does. `form`: JSON_LINES or CSV."""
        return await self._write(wanted, _read_each(JsonLines() if form == JSON_LINES else CsvLines(), parts))

    async def _write(self, wanted: ImportRecords | ImportFile, records: AsyncIterator[Incoming]) -> dict[str, Any]:
        target = await self._targets.resolve_container(wanted.target)
        target.front_end.check_lifecycle(target.node)
        prepare = {"cosmos": self._prepare_items, "mongo": self._prepare_documents, "ydb": self._prepare_rows}
        write = await prepare[target.front_end.space](target, wanted.mode)
        done = Imported()
        async for each in records:
            try:
                if each.fault is not None:
                    raise BadRequest(each.fault)
                record = await self._shorten_life(target, each.value) if wanted.keep_life else each.value
                is_new = None if record is None else await write(record)
            except MayflyError as error:
                done.fail(each.number, each.place, error.message)
                if not wanted.continue_on_error:
                    break
            else:
                done.created += is_new is True
                done.replaced += is_new is False
                done.expired += is_new is None
        counts = {name: getattr(done, name) for name in ("created", "replaced", "expired", "failed")}
        return {
            "now": formats.time(await self._engine.now()),
            "target": target.target,
            **counts,
            "failures": done.failures,
        }

    async def _shorten_life(self, target: ContainerTarget, record: dict[str, Any]) -> Mapping[str, Any] | None:
        return target.front_end.shorten_life(target.node, record, await self._engine.now())

    async def _prepare_items(self, target: ContainerTarget, mode: str) -> Write:
        items, path = CosmosItems(self._wires.cosmos), ("dbs", target.database, "colls", target.node.name)
        _, there = await items.ask("GET", path, None)
        paths: Sequence[str] = there["partitionKey"]["paths"]

        async def write(record: Mapping[str, Any]) -> bool:
            return await items.write(path, paths, content_of(record), mode == "upsert")

        return write

    async def _prepare_documents(self, target: ContainerTarget, mode: str) -> Write:
        mongo, name = self._wires.mongo, target.node.name
        if mongo is None:
            raise Unsupported("MongoDB is not served here", hint="serve with --mongo-port")

        async def write(record: Mapping[str, Any]) -> bool:
            document = from_json(record)
            if mode == "insert" or "_id" not in document:
                answer = await mongo(target.database, {"insert": name, "documents": [document]})
                is_new = True
            else:
                update = {"q": {"_id": document["_id"]}, "u": document, "upsert": True}
                answer = await mongo(target.database, {"update": name, "updates": [update]})
                is_new = bool(answer.get("upserted"))
            for failure in answer.get("writeErrors", ()):
                raise BadRequest(str(failure.get("errmsg", "")))
            return is_new

        return write

    async def _prepare_rows(self, target: ContainerTarget, mode: str) -> Write:
        ydb = self._wires.ydb
        if ydb is None:
            raise Unsupported("YDB is not served here", hint="serve with --ydb-port")
        table = quote_name(f"{target.database}/{target.node.name}")
        shape = await ydb(target.database, f"SELECT * FROM {table} LIMIT 0")  # noqa: S608 -- the name is quoted
        types = dict(shape.results[0].columns)
        verb = "INSERT" if mode == "insert" else "UPSERT"

        async def write(record: Mapping[str, Any]) -> bool:
            await ydb(target.database, *_statement(verb, table, types, record))
            # An UPSERT does not tell whether the row is new.
            return verb == "INSERT"

        return write


Write = Callable[[Mapping[str, Any]], Awaitable[bool]]
"""Writes one record. True: it is new; False: it replaced one, or it is not known."""


async def _decode_each(records: Sequence[msgspec.Raw]) -> AsyncIterator[Incoming]:
    """Decode records one by one: all at once would hold the event loop for their whole size."""
    for number, raw in enumerate(records):
        if number % TURN_RECORDS == 0:
            await asyncio.sleep(0)
        try:
            yield Incoming(number, "", check_object(await _decode(bytes(raw))))
        except BadRequest as error:
            yield Incoming(number, "", {}, error.message)


async def _decode(text: bytes) -> Any:
    return decode_json(text) if len(text) <= LARGE else await asyncio.to_thread(decode_json, text)


async def _read_each(reader: LineReader, parts: AsyncIterator[bytes]) -> AsyncIterator[Incoming]:
    """Read the records of a file. After a line that is no record the next one is read."""
    lines, number = LineCutter(), -1
    async for part in parts:
        for at, line in enumerate(lines.cut(part)):
            if at % TURN_RECORDS == 0:
                await asyncio.sleep(0)
            if (found := await _read_line(reader, line, number + 1)) is not None:
                number += 1
                yield found
    if (rest := lines.end()) and (found := await _read_line(reader, rest, number + 1)) is not None:
        number += 1
        yield found
    try:
        reader.end()
    except BadRequest as error:
        yield Incoming(number + 1, reader.place, {}, error.message)


async def _read_line(reader: LineReader, line: bytes, number: int) -> Incoming | None:
    try:
        found = reader.read(line) if len(line) <= LARGE else await asyncio.to_thread(reader.read, line)
    except BadRequest as error:
        return Incoming(number, reader.place, {}, error.message)
    return None if found is None else Incoming(number, found.place, found.value)


def _statement(
    verb: str, table: str, types: Mapping[str, str], row: Mapping[str, Any]
) -> tuple[str, dict[str, tuple[str, Any]]]:
    """Return the statement that writes one row, and its parameters."""
    unknown = row.keys() - types.keys()
    if unknown or not row:
        raise BadRequest(f"there is no column {min(unknown)}" if unknown else "a row without columns")
    names = list(row)
    columns = ", ".join(map(quote_name, names))
    parameters = {f"v{number}": (types[name], row[name]) for number, name in enumerate(names)}
    values = ", ".join(f"$v{number}" for number in range(len(names)))
    return f"{verb} INTO {table} ({columns}) VALUES ({values})", parameters
