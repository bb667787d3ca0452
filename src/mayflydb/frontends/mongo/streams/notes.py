"""Notes and changes in the histories of collections: updates with their descriptions, and events of collections."""

from __future__ import annotations

from typing import Final

import msgspec

from mayflydb.query.mongo.update import difference
from mayflydb.query.mongo.values import Document, decode, encode

# A value of a history, behind its stamp: the document as it is, or _MARK and {document, change, before}, the last two
# optional.
_MARK: Final = b"\0\0\0\0"
"""The prefix of a described change. No document begins with these bytes: they would be a size of 0."""


class StoredVersion(msgspec.Struct, frozen=True, gc=False):
    """A version of a document.

    `change`: the description of the update; None: the document was inserted or replaced. `before`: the previous
    version, where the collection keeps pre-images.
    """

    document: Document
    change: Document | None = None
    before: Document | None = None


def encode_change(before: Document, after: Document, replaced: bool, image: bool) -> bytes:
    """Encode a changed document for its history. `image`: with the previous version."""
    kept: Document = {"document": after}
    if not replaced:
        kept["change"] = difference(before, after)
    if image:
        kept["before"] = before
    return _MARK + encode(kept)


def decode_value(value: bytes) -> StoredVersion:
    """Decode a value of a history."""
    if not value.startswith(_MARK):
        return StoredVersion(decode(value))
    kept = decode(value[len(_MARK) :])
    return StoredVersion(kept["document"], kept.get("change"), kept.get("before"))


def encode_expanded_event(operation: str, description: Document) -> bytes:
    """Encode an event that only `showExpandedEvents` shows."""
    return encode({"op": operation, "description": description})


def encode_drop_event(view: bool) -> bytes:
    """Encode the drop of a collection or view."""
    return encode({"op": "dropView" if view else "drop"})


def encode_drop_database_event() -> bytes:
    """Encode the drop of a database."""
    return encode({"op": "dropDatabase"})


def encode_rename_event(database: str, name: str, target: bytes | None) -> bytes:
    """Encode a rename, in the renamed collection. `target`: the UUID of the collection that it replaced; None: none."""
    return encode({"op": "rename", "to": {"db": database, "coll": name}, "dropTarget": target})


def encode_replacement_event(database: str, name: str, target: bytes) -> bytes:
    """Encode a rename, in the collection that was replaced. `target`: its own UUID."""
    return encode({"op": "replaced", "from": {"db": database, "coll": name}, "dropTarget": target})
