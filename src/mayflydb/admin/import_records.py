"""Imports records into one container, collection or table, by the requests of its front end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from mayflydb.admin import formats
from mayflydb.admin.cosmos_items import SYSTEM, CosmosItems
from mayflydb.admin.mongo_documents import from_json
from mayflydb.admin.requests import ImportRecords
from mayflydb.admin.targets import ContainerTarget, TargetResolver
from mayflydb.admin.wires import Wires
from mayflydb.engine.engine import Engine
from mayflydb.model.errors import BadRequest, MayflyError, Unsupported
from mayflydb.model.hints import Hint
from mayflydb.query.yql.key_paging import quote_name

MAX_FAILURES: Final = 100
"""Failures that are told one by one; the others are counted."""


class Imported:
    """The numbers of records that were written, and the failures by the record's place in the request."""

    def __init__(self) -> None:
        self.created = self.replaced = self.failed = 0
        self.failures: list[dict[str, Any]] = []

    def fail(self, number: int, detail: str) -> None:
        """Count a failure."""
        self.failed += 1
        if len(self.failures) < MAX_FAILURES:
            self.failures.append({"number": number, "detail": detail})


class RecordImport:
    """Writes the records of one request, in their order."""

    def __init__(self, engine: Engine, targets: TargetResolver, wires: Wires) -> None:
        self._engine = engine
        self._targets = targets
        self._wires = wires

    async def write(self, wanted: ImportRecords) -> dict[str, Any]:
        """Write the records. After a failure the rest is not written, unless `continue_on_error`; failures have their place."""
        target = await self._targets.resolve_container(wanted.target)
        done = Imported()
        write = {"cosmos": self._write_items, "mongo": self._write_documents, "ydb": self._write_rows}
        await write[target.front_end.space](target, wanted, done)
        counts = {"created": done.created, "replaced": done.replaced, "failed": done.failed}
        return {
            "now": formats.time(await self._engine.now()),
            "target": target.target,
            **counts,
            "failures": done.failures,
        }

    async def _write_items(self, target: ContainerTarget, wanted: ImportRecords, done: Imported) -> None:
        items, path = CosmosItems(self._wires.cosmos), ("dbs", target.database, "colls", target.node.name)
        _, there = await items.ask("GET", path, None)
        paths: Sequence[str] = there["partitionKey"]["paths"]
        for number, record in enumerate(wanted.records):
            item = {name: value for name, value in record.items() if name not in SYSTEM}
            try:
                is_new = await items.write(path, paths, item, wanted.mode == "upsert")
            except MayflyError as error:
                done.fail(number, error.message)
                if not wanted.continue_on_error:
                    return
            else:
                done.created += is_new
                done.replaced += not is_new

    async def _write_documents(self, target: ContainerTarget, wanted: ImportRecords, done: Imported) -> None:
        mongo = self._wires.mongo
        if mongo is None:
            raise Unsupported("MongoDB is not served here", hint=Hint("no-mongo"))
        name = target.node.name
        for number, record in enumerate(wanted.records):
            try:
                document = from_json(record)
                if wanted.mode == "insert" or "_id" not in document:
                    answer = await mongo(target.database, {"insert": name, "documents": [document]})
                    is_new = True
                else:
                    update = {"q": {"_id": document["_id"]}, "u": document, "upsert": True}
                    answer = await mongo(target.database, {"update": name, "updates": [update]})
                    is_new = bool(answer.get("upserted"))
                for failure in answer.get("writeErrors", ()):
                    raise BadRequest(str(failure.get("errmsg", "")))
            except MayflyError as error:
                done.fail(number, error.message)
                if not wanted.continue_on_error:
                    return
            else:
                done.created += is_new
                done.replaced += not is_new

    async def _write_rows(self, target: ContainerTarget, wanted: ImportRecords, done: Imported) -> None:
        ydb = self._wires.ydb
        if ydb is None:
            raise Unsupported("YDB is not served here", hint=Hint("no-ydb"))
        table = quote_name(f"{target.database}/{target.node.name}")
        shape = await ydb(target.database, f"SELECT * FROM {table} LIMIT 0")  # noqa: S608 -- the name is quoted
        types = dict(shape.results[0].columns)
        verb = "INSERT" if wanted.mode == "insert" else "UPSERT"
        for number, row in enumerate(wanted.records):
            try:
                await ydb(target.database, *_statement(verb, table, types, row))
            except MayflyError as error:
                done.fail(number, error.message)
                if not wanted.continue_on_error:
                    return
            else:
                # An UPSERT does not tell whether the row is new.
                done.created += verb == "INSERT"
                done.replaced += verb == "UPSERT"


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
