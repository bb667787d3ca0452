"""What writes do to documents, as decisions: generators that run in the writer's transaction and may be run again.

A statement first reads who may be meant, then decides about each of them inside the transaction, where it must still match.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from mayflydb.engine.commands import Command, Mode
from mayflydb.engine.workspace import Workspace
from mayflydb.frontends.mongo.capped import Room
from mayflydb.frontends.mongo.collections import Collection, Place, place_of
from mayflydb.frontends.mongo.decisions import DecisionSpace, Steps
from mayflydb.frontends.mongo.documents import LARGEST
from mayflydb.frontends.mongo.streams.notes import remember
from mayflydb.model.errors import Conflict
from mayflydb.model.record import Record
from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.faults import MqlError, bad_value
from mayflydb.query.mongo.filter import Filter
from mayflydb.query.mongo.indexes.specs import IndexSpec
from mayflydb.query.mongo.paths import find_values, split_path
from mayflydb.query.mongo.update import Update, build_upsert
from mayflydb.query.mongo.validation import check_id
from mayflydb.query.mongo.validator import failure_details
from mayflydb.query.mongo.values import MISSING, Document, Value, decode, encode, shell

RESERVED: Final = "'_ts' is a reserved field; use the 'native' profile to keep your own"


class Updated(msgspec.Struct, frozen=True):
    """What an update did. `matched` counts what it met, `modified` what is different now; `upserted`: the new document's `_id`,
    or MISSING. `before` and `after` are the last document it met, and what it is now."""

    matched: int = 0
    modified: int = 0
    upserted: Value = MISSING
    before: Document | None = None
    after: Document | None = None


class Writer:
    """Writes to one collection under one command's circumstances."""

    def __init__(self, collection: Collection, env: Env, validated: bool = True) -> None:
        """`validated`: documents must be what the collection's validator demands."""
        self._collection = collection
        self._env = env
        self._room: Room | None = None
        self._validator = collection.validator(env) if validated else None

    # --- documents ---------------------------------------------------------------------------------------------------

    def insert(self, space: DecisionSpace, document: Document, raw: bytes) -> Steps[None]:
        """MqlError 11000 for an `_id` or a unique value that is taken, 121 for a document that is not valid."""
        self._validate(document)
        room = self._room_in(space)
        if room is not None:
            room.check(len(raw))
        place = place_of(document["_id"])
        draft = self._collection.draft(document, raw)
        try:
            yield from space.run(Command(Mode.CREATE, place.partition, place.key, draft))
        except Conflict as error:
            raise duplicate(self._collection, document, error) from None
        if room is not None:
            yield from room.take(len(raw))

    def _room_in(self, space: DecisionSpace) -> Room | None:
        if not self._collection.capped:
            return None
        if not isinstance(space, Workspace):  # It stands for one that comes at the end of a transaction.
            text = f"Collection '{self._collection.namespace}' is a capped collection."
            raise MqlError(263, f"{text} Writes in transactions are not allowed on capped collections.")
        if self._room is None or self._room.space is not space:
            self._room = Room(self._collection, space)
        return self._room

    def _replace(
        self, space: DecisionSpace, record: Record, before: Document, after: Document, replaced: bool
    ) -> Steps[None]:
        if len(raw := encode(after)) > LARGEST:
            raise MqlError(10334, f"BSONObj size: {len(raw)} is invalid. Size must be between 0 and {LARGEST}")
        self._validate(after)
        # A change stream tells what changed, which only this moment knows.
        remembered = None
        if space.remembers:
            remembered = remember(before, after, replaced, self._collection.keeps_images)
        draft = self._collection.draft(after, raw, remembered)
        try:
            yield from space.run(Command(Mode.REPLACE, record.partition, record.key, draft))
        except Conflict as error:
            raise duplicate(self._collection, after, error) from None

    def _validate(self, document: Document) -> None:
        if "_ts" in document and self._collection.reserves_ts:
            raise bad_value(RESERVED)
        validator = self._validator
        if validator is None or validator.matches(document):
            return
        if self._collection.options.get("validationAction") == "warn":
            return
        details = failure_details(self._collection.options["validator"], document, self._env)
        info = {"failingDocumentId": document["_id"], "details": details}
        raise MqlError(121, "Document failed validation", errInfo=info)

    # --- statements --------------------------------------------------------------------------------------------------

    def update(
        self, space: DecisionSpace, places: Sequence[Place], filter: Filter | None, update: Update, many: bool
    ) -> Steps[Updated]:
        """Change those of the documents at these places that match now; the first one only, unless `many`."""
        matched = modified = 0
        before = after = None
        for place in places:
            found = yield from _matching(space, place, filter)
            if found is None:
                continue
            record, document = found
            position = None if filter is None else filter.position(document)
            before, after = document, update.apply(document, position, False)
            matched += 1
            # An update that changes nothing writes nothing, so it does not move the time of the last write either, although it
            # does in the original: who writes nothing lengthens no life.
            if after is not before:
                yield from self._replace(space, record, before, after, update.is_replacement)
                modified += 1
            if not many:
                break
        return Updated(matched, modified, MISSING, before, after)

    def upsert(
        self, space: DecisionSpace, query: Document, update: Update, make_id: Callable[[], Any]
    ) -> Steps[Updated]:
        """Insert what the query and the update say together."""
        document = build_upsert(query, update, self._env, make_id)
        check_id(document["_id"])
        raw = encode(document)
        if len(raw) > LARGEST:
            raise MqlError(10334, f"BSONObj size: {len(raw)} is invalid. Size must be between 0 and {LARGEST}")
        yield from self.insert(space, document, raw)
        return Updated(0, 0, document["_id"], None, document)

    def delete(
        self, space: DecisionSpace, places: Sequence[Place], filter: Filter | None, many: bool
    ) -> Steps[tuple[int, Document | None]]:
        """Remove those of the documents at these places that match now: (how many, the last one)."""
        count = 0
        last: Document | None = None
        for place in places:
            found = yield from _matching(space, place, filter)
            if found is None:
                continue
            record, document = found
            yield from space.run(Command(Mode.DELETE, record.partition, record.key))
            count, last = count + 1, document
            if not many:
                break
        return count, last


def _matching(space: DecisionSpace, place: Place, filter: Filter | None) -> Steps[tuple[Record, Document] | None]:
    """The record at a place and its document, if it is there and matches."""
    record = yield from space.get(place.partition, place.key)
    if record is None:
        return None
    document = decode(record.value)
    return (record, document) if filter is None or filter.matches(document) else None


def duplicate(collection: Collection, document: Document, error: Conflict, spec: IndexSpec | None = None) -> MqlError:
    """11000, with the index that refused and the values it already has. `spec`: that index, if it is not complete."""
    number = error.detail.get("index")
    if spec is None:
        spec = next((each.spec for each in collection.indexes if each.number == number), None)
    name, pattern = ("_id_", {"_id": 1}) if spec is None else (spec.name, dict(spec.key))
    values = {path: _only(find_values(document, split_path(path), spread=False)) for path in pattern}
    text = f"E11000 duplicate key error collection: {collection.namespace} index: {name} dup key: {shell(values)}"
    return MqlError(11000, text, keyPattern=pattern, keyValue=values)


def _only(found: list[Value]) -> Value:
    return next((value for value in found if value is not MISSING), None)
