"""Writes to documents as decisions: generators that run in the writer's transaction, and possibly more than once.

A statement first reads the identities that may match. Its decision then checks each document within the transaction,
where it must still match.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final

import msgspec

from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.engine.workspace import Workspace
from mayflydb.frontends.mongo.capped import CapEnforcer
from mayflydb.frontends.mongo.collections import Collection, Identity, identity_of
from mayflydb.frontends.mongo.decisions import DecisionWorkspace, Steps
from mayflydb.frontends.mongo.documents import MAX_DOCUMENT_BYTES
from mayflydb.frontends.mongo.preparing import Changes, PreparedChange, PreparedInsert, build_draft_ahead
from mayflydb.frontends.mongo.streams.notes import encode_change
from mayflydb.frontends.mongo.time_series.measurements import MeasurementWriter
from mayflydb.frontends.mongo.time_series.series import Series
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
from mayflydb.query.mongo.values import MISSING, Document, Value, decode, encode_computed, format_value

RESERVED_TS_TEXT: Final = "'_ts' is a reserved field; use the 'native' profile to keep your own"


class UpdateResult(msgspec.Struct, frozen=True):
    """The result of an update.

    `matched`: documents that matched. `modified`: those that changed. `upserted`: the `_id` of the new document, or
    MISSING. `before`, `after`: the last document that matched. `unprepared`: documents that must be prepared first.
    `needs_insert`: the new document of an upsert must be.
    """

    matched: int = 0
    modified: int = 0
    upserted: Value = MISSING
    before: Document | None = None
    after: Document | None = None
    unprepared: Sequence[Identity] = ()
    needs_insert: bool = False


class DeleteResult(msgspec.Struct, frozen=True):
    """The number of deleted documents, and the last of them, if it is wanted. `unprepared`: as in UpdateResult."""

    count: int = 0
    last: Document | None = None
    unprepared: Sequence[Identity] = ()


class DocumentWriter:
    """Writes to one collection under the settings of one command."""

    def __init__(self, collection: Collection, env: Env, validates: bool = True) -> None:
        """`validates`: documents must match the collection's validator."""
        self._collection = collection
        self._env = env
        self._cap: CapEnforcer | None = None
        self._measurements: MeasurementWriter | None = None
        self._validates = validates and bool(collection.options.get("validator"))

    @property
    def is_cheap(self) -> bool:
        """True if the check of a small document is cheap."""
        return not self._validates or self._collection.has_cheap_validator

    @cached_property
    def _validator(self) -> Filter | None:
        # Compiled where documents are checked: on a thread if that is not cheap.
        return self._collection.compile_validator(self._env) if self._validates else None

    # --- documents ---------------------------------------------------------------------------------------------------

    def insert(
        self, workspace: DecisionWorkspace, document: Document, raw: bytes, draft: Draft | None = None
    ) -> Steps[None]:
        """Insert a document. Raise MqlError 11000 for an `_id` or unique value that is taken, 121 for an invalid document.

        `draft`: what is stored, if the document was prepared.
        """
        if draft is None:
            self._validate(document)
            draft = self._collection.build_draft(document, raw)
        if self._collection.series is not None:
            yield from self._measurement_writer(workspace, self._collection.series).insert(document, draft)
            return
        cap = self._cap_enforcer(workspace)
        if cap is not None:
            cap.check_size(len(raw))
        identity = identity_of(document["_id"])
        try:
            yield from workspace.run(Command(Mode.CREATE, identity.partition, identity.key, draft))
        except Conflict as error:
            raise duplicate_key_error(self._collection, document, error) from None
        if cap is not None:
            yield from cap.make_room(len(raw))

    def _measurement_writer(self, workspace: DecisionWorkspace, series: Series) -> MeasurementWriter:
        # As below: the buckets that an earlier run has opened are void.
        if self._measurements is None or self._measurements.workspace is not workspace:
            self._measurements = MeasurementWriter(self._collection, series, workspace)
        return self._measurements

    def _cap_enforcer(self, workspace: DecisionWorkspace) -> CapEnforcer | None:
        if not self._collection.capped:
            return None
        if not isinstance(
            workspace, Workspace
        ):  # A snapshot's workspace, whose decision the writer repeats at the commit.
            text = f"Collection '{self._collection.namespace}' is a capped collection."
            raise MqlError(263, f"{text} Writes in transactions are not allowed on capped collections.")
        # The writer may run a decision again, in another workspace: counts of the first run are void then.
        if self._cap is None or self._cap.workspace is not workspace:
            self._cap = CapEnforcer(self._collection, workspace)
        return self._cap

    def _build_drafts(self, before: Document, after: Document, update: Update) -> tuple[Draft, Draft]:
        """Check an updated document, and return what is stored, without and with the description of the change."""
        raw = _encode_within_limit(after)
        self._validate(after)
        plain = build_draft_ahead(self._collection, after, raw)
        change = encode_change(before, after, update.is_replacement, self._collection.keeps_images)
        return plain, msgspec.structs.replace(plain, remembered=change)

    def _replace(
        self, workspace: DecisionWorkspace, record: Record, before: Document, after: Document, replaced: bool
    ) -> Steps[None]:
        raw = _encode_within_limit(after)
        self._validate(after)
        # The description of the change can be computed only here, where both versions are known.
        remembered = None
        if workspace.remembers:
            remembered = encode_change(before, after, replaced, self._collection.keeps_images)
        yield from self._store(workspace, record, after, self._collection.build_draft(after, raw, remembered))

    def replace(self, workspace: DecisionWorkspace, record: Record, before: Document, after: Document) -> Steps[None]:
        """Replace a stored document. Errors: those of an update."""
        yield from self._replace(workspace, record, before, after, False)

    def _store(self, workspace: DecisionWorkspace, record: Record, after: Document, draft: Draft) -> Steps[None]:
        series = self._collection.series
        if series is not None:
            draft = series.place(draft, after, record.partition, series.start_of(record))
        try:
            yield from workspace.run(Command(Mode.REPLACE, record.partition, record.key, draft))
        except Conflict as error:
            raise duplicate_key_error(self._collection, after, error) from None

    def _validate(self, document: Document) -> None:
        if "_ts" in document and self._collection.reserves_ts:
            raise bad_value(RESERVED_TS_TEXT)
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
        self, workspace: DecisionWorkspace, identities: Sequence[Identity], changes: Changes, many: bool
    ) -> Steps[UpdateResult]:
        """Update the documents of these identities that still match: all of them, or the first unless `many`."""
        matched = modified = 0
        before = after = None
        unprepared: list[Identity] = []
        filter, update = changes.filter, changes.update
        assert update is not None
        for identity in identities:
            record = yield from workspace.get(identity.partition, identity.key)
            if record is None:
                continue
            prepared = changes.find_prepared(identity, record) if changes.prepared else None
            if prepared is None and not changes.is_computed_here(record):
                unprepared.append(identity)
                if many:
                    continue
                break
            if prepared is not None:
                if not prepared.matches:
                    continue
                changed = yield from self._apply_prepared(workspace, record, prepared)
                before, after = prepared.before, prepared.after
            else:
                document = decode(record.value)
                if filter is not None and not filter.matches(document):
                    continue
                position = None if filter is None else filter.find_position(document)
                before, after = document, update.apply(document, position, False)
                # An update without changes writes nothing, and therefore does not move the time of the last write.
                # MongoDB differs here.
                changed = after is not before
                if changed:
                    yield from self._replace(workspace, record, before, after, update.is_replacement)
            matched += 1
            modified += changed
            if not many:
                break
        return UpdateResult(matched, modified, MISSING, before, after, unprepared)

    def _apply_prepared(self, workspace: DecisionWorkspace, record: Record, prepared: PreparedChange) -> Steps[bool]:
        if prepared.refusal is not None:
            raise prepared.refusal
        if prepared.drafts is None:
            return False
        yield from self._store(workspace, record, prepared.after, prepared.drafts[workspace.remembers])
        return True

    def upsert(
        self, workspace: DecisionWorkspace, query: Document, update: Update, make_id: Callable[[], Any]
    ) -> Steps[UpdateResult]:
        """Insert the document that the query and the update define together."""
        document, raw = self._build_new(query, update, make_id)
        yield from self.insert(workspace, document, raw)
        return UpdateResult(0, 0, document["_id"], None, document)

    def _build_new(self, query: Document, update: Update, make_id: Callable[[], Any]) -> tuple[Document, bytes]:
        document = build_upsert(query, update, self._env, make_id)
        check_id(document["_id"])
        return document, _encode_within_limit(document)

    def delete(
        self,
        workspace: DecisionWorkspace,
        identities: Sequence[Identity],
        changes: Changes,
        many: bool,
        wants_document: bool = False,
    ) -> Steps[DeleteResult]:
        """Delete the documents of these identities that still match: all of them, or the first unless `many`."""
        count = 0
        last: Document | None = None
        unprepared: list[Identity] = []
        filter = changes.filter
        for identity in identities:
            record = yield from workspace.get(identity.partition, identity.key)
            if record is None:
                continue
            if filter is not None or wants_document:
                prepared = changes.find_prepared(identity, record) if changes.prepared else None
                if prepared is None and not changes.is_computed_here(record):
                    unprepared.append(identity)
                    if many:
                        continue
                    break
                document = decode(record.value) if prepared is None else prepared.before
                if not (prepared.matches if prepared is not None else filter is None or filter.matches(document)):
                    continue
                last = document
            yield from workspace.run(Command(Mode.DELETE, record.partition, record.key))
            count += 1
            if not many:
                break
        return DeleteResult(count, last, unprepared)

    # --- ahead of decisions, on a thread -----------------------------------------------------------------------------

    def prepare_insert(self, document: Document, raw: bytes) -> PreparedInsert:
        """Check a document as `insert` does."""
        self._validate(document)
        return PreparedInsert(document, raw, build_draft_ahead(self._collection, document, raw))

    def prepare_upsert(self, query: Document, update: Update, make_id: Callable[[], Any]) -> PreparedInsert:
        """Build the document of `upsert`, and check it."""
        return self.prepare_insert(*self._build_new(query, update, make_id))

    def prepare_changes(
        self, changes: Changes, records: Sequence[tuple[Identity, Record]]
    ) -> dict[Identity, PreparedChange]:
        """Compute the changes of records."""
        return {identity: self._prepare_change(changes, record) for identity, record in records}

    def _prepare_change(self, changes: Changes, record: Record) -> PreparedChange:
        value, before = record.value, decode(record.value)
        filter, update = changes.filter, changes.update
        if filter is not None and not filter.matches(before):
            return PreparedChange(value, False, before, before)
        if update is None:
            return PreparedChange(value, True, before, before)
        try:
            position = None if filter is None else filter.find_position(before)
            after = update.apply(before, position, False)
            drafts = None if after is before else self._build_drafts(before, after, update)
        except MqlError as refusal:
            return PreparedChange(value, True, before, before, refusal=refusal)
        return PreparedChange(value, True, before, after, drafts)


def _encode_within_limit(document: Document) -> bytes:
    """Encode a document. Raise MqlError 10334 if it is too large."""
    if len(raw := encode_computed(document)) > MAX_DOCUMENT_BYTES:
        raise MqlError(10334, f"BSONObj size: {len(raw)} is invalid. Size must be between 0 and {MAX_DOCUMENT_BYTES}")
    return raw


def duplicate_key_error(
    collection: Collection, document: Document, error: Conflict, spec: IndexSpec | None = None
) -> MqlError:
    """The error 11000, with the refusing index and the values that are taken. `spec`: the index, if it is not complete yet."""
    # An error without an index is about the identity, that is, about `_id`.
    number = error.detail.get("index")
    if spec is None:
        spec = next((each.spec for each in collection.indexes if each.number == number), None)
    name, pattern = ("_id_", {"_id": 1}) if spec is None else (spec.name, dict(spec.key))
    values = {path: _first_present(find_values(document, split_path(path), spread=False)) for path in pattern}
    text = (
        f"E11000 duplicate key error collection: {collection.namespace} index: {name} dup key: {format_value(values)}"
    )
    return MqlError(11000, text, keyPattern=pattern, keyValue=values)


def _first_present(found: list[Value]) -> Value:
    return next((value for value in found if value is not MISSING), None)
