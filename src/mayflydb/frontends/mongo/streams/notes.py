"""What histories of collections say beside their documents: how an update is remembered, and what became of the collection."""

from __future__ import annotations

from typing import Final

import msgspec

from mayflydb.query.mongo.update import difference
from mayflydb.query.mongo.values import Document, decode, encode

_MARK: Final = b"\0\0\0\0"
"""No document begins so: it would have no bytes."""


class StoredVersion(msgspec.Struct, frozen=True, gc=False):
    """A version of a document. `change`: what an update did to the one before; None: it was put in its place.

    `before`: the one before, where the collection keeps such images.
    """

    document: Document
    change: Document | None = None
    before: Document | None = None


def encode_change(before: Document, after: Document, replaced: bool, image: bool) -> bytes:
    """A changed document as its history keeps it. `image`: with the one before."""
    kept: Document = {"document": after}
    if not replaced:
        kept["change"] = difference(before, after)
    if image:
        kept["before"] = before
    return _MARK + encode(kept)


def decode_value(value: bytes) -> StoredVersion:
    """It again."""
    if not value.startswith(_MARK):
        return StoredVersion(decode(value))
    kept = decode(value[len(_MARK) :])
    return StoredVersion(kept["document"], kept.get("change"), kept.get("before"))


def expanded_event(operation: str, description: Document) -> bytes:
    """Something that only expanded events tell."""
    return encode({"op": operation, "description": description})


def drop_event(view: bool) -> bytes:
    """A collection was dropped."""
    return encode({"op": "dropView" if view else "drop"})


def drop_database_event() -> bytes:
    """A database was dropped."""
    return encode({"op": "dropDatabase"})


def rename_event(database: str, name: str, target: bytes | None) -> bytes:
    """A collection got this name. `target`: the UUID of the collection that had it."""
    return encode({"op": "rename", "to": {"db": database, "coll": name}, "dropTarget": target})


def replacement_event(database: str, name: str, target: bytes) -> bytes:
    """Another collection, which was called this, took its place. `target`: its own UUID."""
    return encode({"op": "replaced", "from": {"db": database, "coll": name}, "dropTarget": target})
