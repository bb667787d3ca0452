"""The command validate: whether documents and indexes of a collection are what they should be.

Every document is read, and with it the checksum of its record; decoded, and matched with the validator. Every entry of an index
is compared with the keys of its document, and the number of entries with the number of keys. Nothing is written.

Reply: https://www.mongodb.com/docs/manual/reference/command/validate/
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Final

from mayflydb.engine.catalog import Index
from mayflydb.engine.scans import SCAN_BATCH, Scope
from mayflydb.frontends.mongo import arguments
from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.collections import Collection
from mayflydb.frontends.mongo.documents import binary_uuid, to_milliseconds
from mayflydb.frontends.mongo.services import CommandEntry, Services
from mayflydb.model.errors import Corrupt
from mayflydb.model.order import KeyRange
from mayflydb.model.record import Record
from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.filter import Filter
from mayflydb.query.mongo.indexes.keys import keys_of
from mayflydb.query.mongo.indexes.specs import IndexSpec
from mayflydb.query.mongo.values import Document, decode, is_truthy

MAX_NAMED: Final = 20
"""Documents and entries that a reply names; all are counted."""

ALL: Final = KeyRange(b"", b"\xff")

EXCLUSIVE: Final[dict[str, frozenset[str]]] = {
    "metadata": frozenset({"full", "background", "repair", "checkBSONConformance"}),
    "background": frozenset({"full", "repair", "enforceFastCount"}),
    "checkBSONConformance": frozenset({"repair"}),
}
"""Options that exclude each other."""

UNSUPPORTED: Final = ("repair", "fixMultikey", "collHash", "hashPrefixes", "unhash", "revealHashedIds")
"""Options that would write, or ask for hashes of the server's own storage."""


class Findings:
    """The findings of a validation so far."""

    def __init__(self) -> None:
        self.documents = self.invalid = self.deviating = 0
        self.errors: list[str] = []
        self.warnings: list[str] = []
        self.broken: set[str] = set()
        self.keys: dict[str, int] = {}

    def add_error(self, text: str) -> None:
        """Note an error; beyond MAX_NAMED they are counted by their effects alone."""
        if len(self.errors) < MAX_NAMED:
            self.errors.append(text)


async def validate(services: Services, call: Call) -> Document:
    """Check a collection. Raise MqlError 26, 72, 166, and 238 for options that are not supported."""
    name = arguments.collection_name(call.body, call.name)
    # Any value counts as a flag here, as for the server.
    flags = {each for each, value in call.body.items() if each != call.name and is_truthy(value)}
    for one, others in EXCLUSIVE.items():
        if one in flags and (both := others & flags):
            text = f"Running the validate command with both {{ {one}: true }} and {{ {min(both)}: true }} is not supported."
            raise MqlError(72, text)
    for option in UNSUPPORTED:
        if option in flags:
            raise MqlError(238, f"validate with '{option}' is not supported: `mayfly doctor` repairs a store")
    collection = await services.collections.get(call.database, name)
    if collection.view_on is not None:
        raise MqlError(166, f"Cannot validate a view: {collection.namespace}")
    findings = Findings()
    if "metadata" in flags:
        return _reply(collection, findings)
    await _Validation(services, call, collection, findings).run()
    counts = {
        "nInvalidDocuments": findings.invalid,
        "nNonCompliantDocuments": findings.deviating,
        "nrecords": findings.documents,
        "keysPerIndex": findings.keys,
    }
    return {**_reply(collection, findings), **counts}


def _reply(collection: Collection, findings: Findings) -> Document:
    details = {
        spec.name: {"valid": spec.name not in findings.broken, "spec": spec.to_document()}
        for spec in collection.listed_specs
    }
    return {
        "ns": collection.namespace,
        "uuid": binary_uuid(collection.uuid),
        "nIndexes": len(collection.listed_specs),
        "indexDetails": details,
        "valid": not findings.errors and not findings.invalid,
        "repaired": False,
        "repairMode": "None",
        "warnings": findings.warnings,
        "errors": findings.errors,
        "extraIndexEntries": [],
        "missingIndexEntries": [],
        "corruptRecords": [],
        "ok": 1.0,
    }


class _Validation:
    def __init__(self, services: Services, call: Call, collection: Collection, findings: Findings) -> None:
        self._engine = services.engine
        self._evaluation = services.evaluation_of(call)
        self._call = call
        self._collection = collection
        self._found = findings
        self._filter: Filter | None = collection.compile_validator(Env(to_milliseconds(call.now)))
        numbers = {collection.number_of(each.spec): each.spec for each in collection.indexes}
        self._indexes = [
            (index, numbers[index.number])
            for index in collection.node.definition.indexes
            if index.number in numbers and index.state == "ready"
        ]
        self._expected = dict.fromkeys((index.number for index, _ in self._indexes), 0)

    async def run(self) -> None:
        """Check documents, then the entries of each index."""
        before = await self._engine.lsn(self._collection.id)
        await self._read(self._check_documents())
        if self._collection.series is None:
            # Documents are found by identity: their index on `_id` is the table of records itself.
            self._found.keys[self._collection.listed_specs[0].name] = self._found.documents
        for index, spec in self._indexes:
            await self._read(self._check_entries(index, spec))
            if await self._engine.lsn(self._collection.id) == before:
                self._compare_counts(index, spec.name)
            else:
                self._found.warnings.append(
                    f"{spec.name}: the collection was written meanwhile; its keys were not counted"
                )

    async def _read(self, checks: AsyncIterator[None]) -> None:
        """Go through checks. Damage that the store finds is an error of the collection."""
        try:
            async for _ in checks:
                await self._evaluation.take_turn()
        except Corrupt as damage:
            self._found.add_error(damage.message)

    async def _check_documents(self) -> AsyncIterator[None]:
        async for batch in self._engine.scan(self._collection.node, Scope(), None, self._call.now):
            # Documents may be large, and validators slow.
            await self._evaluation.compute(False, 0, self._check_batch, batch.records)
            yield

    def _check_batch(self, records: Sequence[Record]) -> None:
        for record in records:
            self._check_document(record)

    def _check_document(self, record: Record) -> None:
        found = self._found
        found.documents += 1
        try:
            document = decode(record.value)
        except MqlError as error:
            found.invalid += 1
            found.add_error(f"a document is no BSON: {error}")
            return
        if self._filter is not None and not self._filter.matches(document):
            found.deviating += 1
            if found.deviating == 1:
                found.warnings.append("Detected one or more documents not compliant with the collection's schema.")
        for index, spec in self._indexes:
            self._expected[index.number] += len(keys_of(spec, document))

    async def _check_entries(self, index: Index, spec: IndexSpec) -> AsyncIterator[None]:
        self._found.keys[spec.name] = 0
        walk = self._engine.indexes.walk(self._collection.node, index, ALL, False, self._call.now, SCAN_BATCH)
        last: bytes | None = None
        async for pairs in walk:
            await self._evaluation.compute(False, 0, self._check_page, spec, pairs, last)
            last = pairs[-1][0] if pairs else last
            yield

    def _check_page(self, spec: IndexSpec, pairs: Sequence[tuple[bytes, Record]], last: bytes | None) -> None:
        found = self._found
        for key, record in pairs:
            found.keys[spec.name] += 1
            try:
                keys = keys_of(spec, decode(record.value))
            except MqlError:
                continue  # The document is among the invalid ones already.
            if key not in keys:
                self._note_invalid(spec.name, f"an entry of {spec.name} is no key of its document")
            if spec.unique and key == last:
                self._note_invalid(spec.name, f"two documents have one key of the unique index {spec.name}")
            last = key

    def _compare_counts(self, index: Index, name: str) -> None:
        expected, there = self._expected[index.number], self._found.keys[name]
        if expected != there:
            self._note_invalid(name, f"{name} has {there} entries, and the documents have {expected} keys")

    def _note_invalid(self, name: str, text: str) -> None:
        self._found.broken.add(name)
        self._found.add_error(text)


HANDLERS = {
    "validate": CommandEntry(validate, "read", help="checks documents and indexes of a collection"),
}
