"""The contents of a collection's catalogue row as values: documents, indexes, and date slots."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import msgspec

from mayflydb.engine.catalog import Definition, Index
from mayflydb.model.instant import Instant
from mayflydb.query.mongo.indexes.keys import compile_keys
from mayflydb.query.mongo.indexes.specs import IndexSpec
from mayflydb.query.mongo.values import Document, decode, encode


def pack_document(document: Mapping[str, Any]) -> str:
    """Encode a document as a string, which the catalogue can store."""
    return base64.b64encode(encode(document)).decode()


def unpack_document(text: str) -> Document:
    """Decode a document that `pack_document` encoded."""
    return decode(base64.b64decode(text))


def slots_of(definition: Definition) -> dict[int, int]:
    """The date slots of TTL indexes: index number -> slot."""
    return {int(number): slot for number, slot in definition.body.get("slots", {}).items()}


def ts_index_of(definition: Definition) -> IndexSpec | None:
    """The TTL index on `_ts` under Cosmos DB's semantics; None: there is none."""
    text = definition.body.get("ts")
    return None if text is None else IndexSpec.from_document(unpack_document(text))


class ReadyIndex(msgspec.Struct, frozen=True):
    """An index whose build is complete.

    `number`: the engine's. `slot`: the date slot of a TTL index. `accepts_numbers`: numbers count as dates, as on a custom
    path of profile `cosmos`. `is_multikey`: a document has had several keys in the index.
    """

    number: int
    spec: IndexSpec
    slot: int | None = None
    accepts_numbers: bool = False
    is_multikey: bool = False

    def find_date(self, document: Document) -> Instant | None:
        """The earliest date in a document at the path of this TTL index; None: there is none, so the document never expires."""
        return compile_keys(self.spec).earliest_date(document, self.accepts_numbers)


def parse_index(index: Index, slot: int | None = None) -> ReadyIndex:
    """Parse the catalogue's row of an index."""
    assert index.spec is not None
    accepts_numbers = index.spec.get("numbers", False)
    spec = IndexSpec.from_document(unpack_document(index.spec["document"]))
    return ReadyIndex(index.number, spec, slot, accepts_numbers, index.several)
