"""Changes that are computed on a thread before their decision: updates and filters that are not cheap, and large documents.

A decision runs in the writer, on the event loop, and must not take long. It uses the prepared change of a document if the
document still has the bytes from which the change was computed. Otherwise it names the document, and the statement prepares it
again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from mayflydb.engine.catalog import Definition, Index
from mayflydb.engine.commands import Draft
from mayflydb.evaluation.statement import CHEAP_BYTES
from mayflydb.frontends.mongo.collections import Collection, Identity
from mayflydb.model.record import Dates, Entry, Record
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.filter import Filter
from mayflydb.query.mongo.update import Update
from mayflydb.query.mongo.values import Document


class PreparedInsert(msgspec.Struct, frozen=True):
    """A new document after all checks: its bytes, and its draft for the store."""

    document: Document
    raw: bytes
    draft: Draft


class PreparedChange(msgspec.Struct, frozen=True):
    """The change of a document that has the bytes `value`.

    `matches`: it matches the statement's query. `after`: the updated document; the same as `before` if nothing changes.
    `drafts`: for the store, without and with the description of the change for a history. `refusal`: the error of the update.
    """

    value: bytes
    matches: bool
    before: Document
    after: Document
    drafts: tuple[Draft, Draft] | None = None
    refusal: MqlError | None = None


PreparedChanges: TypeAlias = Mapping[Identity, PreparedChange]

_NOTHING: Final[PreparedChanges] = {}


class Changes(msgspec.Struct, frozen=True):
    """The changes of a statement: its filter, its update (None: a delete), and the prepared changes.

    `cheap`: the change of a small document is computed within the decision.
    """

    filter: Filter | None
    update: Update | None = None
    cheap: bool = True
    prepared: PreparedChanges = _NOTHING

    def find_prepared(self, identity: Identity, record: Record) -> PreparedChange | None:
        """Return the change that was prepared for the present bytes of a record, or None."""
        found = self.prepared.get(identity)
        return found if found is not None and found.value == record.value else None

    def is_computed_here(self, record: Record) -> bool:
        """Return True if a decision computes the change of a record itself."""
        return self.cheap and len(record.value) <= CHEAP_BYTES


def build_draft_ahead(collection: Collection, document: Document, raw: bytes) -> Draft:
    """Build a document as the engine stores it, with its index entries and dates, as far as indexes are known now."""
    draft, definition = collection.build_draft(document, raw), collection.node.definition
    known = {each.number: (each, collection.build_entries(document, (each,))) for each in definition.indexes}
    # The bucket of a measurement is found by the writer, and with it the dates.
    series = collection.series
    dates = collection.find_dates(document, definition) if series is None else ()

    def index_entries(indexes: Sequence[Index]) -> tuple[Entry, ...]:
        entries: list[Entry] = []
        for each in indexes:
            index, found = known.get(each.number, (None, ()))
            entries += found if index == each else collection.build_entries(document, (each,))
        return tuple(entries)

    def find_dates(present: Definition) -> Dates:
        return dates if present is definition else collection.find_dates(document, present)

    ahead = msgspec.structs.replace(draft, indexed=index_entries, dates=find_dates)
    return ahead if series is None else series.prepare(ahead, document)
