"""Writes to documents as decisions: generators that run in the writer's transaction, and possibly more than once.

A statement first reads the identities that may match. Its decision then checks each document within the transaction,
where it must still match.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from mayflydb.engine.commands import Command, Mode
from mayflydb.engine.workspace import Workspace
from mayflydb.frontends.mongo.capped import CapEnforcer
from mayflydb.frontends.mongo.collections import Collection, Identity, identity_of
from mayflydb.frontends.mongo.decisions import DecisionWorkspace, Steps
from mayflydb.frontends.mongo.documents import MAX_DOCUMENT_BYTES
from mayflydb.frontends.mongo.streams.notes import encode_change
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
from mayflydb.query.mongo.values import MISSING, Document, Value, decode, encode, format_value

RESERVED_TS_TEXT: Final = "'_ts' is a reserved field; use the 'native' profile to keep your own"


class UpdateResult(msgspec.Struct, frozen=True):
    """The result of an update.

    `matched`: documents that matched. `modified`: those that changed. `upserted`: the `_id` of the new document, or
    MISSING. `before`, `after`: the last document that matched.
    """

    matched: int = 0
    modified: int = 0
    upserted: Value = MISSING
    before: Document | None = None
    after: Document | None = None


class DocumentWriter:
    """Writes to one collection under the settings of one command."""

    def __init__(self, collection: Collection, env: Env, validates: bool = True) -> None:
        """`validates`: documents must match the collection's validator."""
        self._collection = collection
        self._env = env
        self._cap: CapEnforcer | None = None
        self._validator = collection.compile_validator(env) if validates else None

    # --- documents ---------------------------------------------------------------------------------------------------

    def insert(self, workspace: DecisionWorkspace, document: Document, raw: bytes) -> Steps[None]:
        """Insert a document. Raise MqlError 11000 for an `_id` or unique value that is taken, 121 for an invalid document."""
        self._validate(document)
        cap = self._cap_enforcer(workspace)
        if cap is not None:
            cap.check_size(len(raw))
        identity = identity_of(document["_id"])
        draft = self._collection.build_draft(document, raw)
        try:
            yield from workspace.run(Command(Mode.CREATE, identity.partition, identity.key, draft))
        except Conflict as error:
            raise duplicate_key_error(self._collection, document, error) from None
        if cap is not None:
            yield from cap.make_room(len(raw))

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

    def _replace(
        self, workspace: DecisionWorkspace, record: Record, before: Document, after: Document, replaced: bool
    ) -> Steps[None]:
        if len(raw := encode(after)) > MAX_DOCUMENT_BYTES:
            raise MqlError(
                10334, f"BSONObj size: {len(raw)} is invalid. Size must be between 0 and {MAX_DOCUMENT_BYTES}"
            )
        self._validate(after)
        # The description of the change can be computed only here, where both versions are known.
        remembered = None
        if workspace.remembers:
            remembered = encode_change(before, after, replaced, self._collection.keeps_images)
        draft = self._collection.build_draft(after, raw, remembered)
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
        self,
        workspace: DecisionWorkspace,
        identities: Sequence[Identity],
        filter: Filter | None,
        update: Update,
        many: bool,
    ) -> Steps[UpdateResult]:
        """Update the documents of these identities that still match: all of them, or the first unless `many`."""
        matched = modified = 0
        before = after = None
        for identity in identities:
            found = yield from _find_matching(workspace, identity, filter)
            if found is None:
                continue
            record, document = found
            position = None if filter is None else filter.find_position(document)
            before, after = document, update.apply(document, position, False)
            matched += 1
            # An update without changes writes nothing, and therefore does not move the time of the last write. MongoDB
            # differs here.
            if after is not before:
                yield from self._replace(workspace, record, before, after, update.is_replacement)
                modified += 1
            if not many:
                break
        return UpdateResult(matched, modified, MISSING, before, after)

    def upsert(
        self, workspace: DecisionWorkspace, query: Document, update: Update, make_id: Callable[[], Any]
    ) -> Steps[UpdateResult]:
        """Insert the document that the query and the update define together."""
        document = build_upsert(query, update, self._env, make_id)
        check_id(document["_id"])
        raw = encode(document)
        if len(raw) > MAX_DOCUMENT_BYTES:
            raise MqlError(
                10334, f"BSONObj size: {len(raw)} is invalid. Size must be between 0 and {MAX_DOCUMENT_BYTES}"
            )
        yield from self.insert(workspace, document, raw)
        return UpdateResult(0, 0, document["_id"], None, document)

    def delete(
        self, workspace: DecisionWorkspace, identities: Sequence[Identity], filter: Filter | None, many: bool
    ) -> Steps[tuple[int, Document | None]]:
        """Delete the documents of these identities that still match. Return (number, the last one)."""
        count = 0
        last: Document | None = None
        for identity in identities:
            found = yield from _find_matching(workspace, identity, filter)
            if found is None:
                continue
            record, document = found
            yield from workspace.run(Command(Mode.DELETE, record.partition, record.key))
            count, last = count + 1, document
            if not many:
                break
        return count, last


def _find_matching(
    workspace: DecisionWorkspace, identity: Identity, filter: Filter | None
) -> Steps[tuple[Record, Document] | None]:
    """The record of an identity and its document; None: it is gone or does not match."""
    record = yield from workspace.get(identity.partition, identity.key)
    if record is None:
        return None
    document = decode(record.value)
    return (record, document) if filter is None or filter.matches(document) else None


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
