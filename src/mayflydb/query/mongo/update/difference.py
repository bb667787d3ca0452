"""The difference of a document before and after an update, as change streams report it."""

from __future__ import annotations

from typing import Any

import msgspec

from mayflydb.query.mongo.update.identical import identical
from mayflydb.query.mongo.values import Document, Value, encode


class _Changes(msgspec.Struct):
    updated: Document = {}
    removed: list[str] = []
    truncated: list[Document] = []

    def merge(self, other: _Changes) -> None:
        self.updated.update(other.updated)
        self.removed.extend(other.removed)
        self.truncated.extend(other.truncated)

    def size(self) -> int:
        return len(encode({"u": self.updated, "r": self.removed, "t": self.truncated}))


def difference(before: Document, after: Document) -> Document:
    """Return `{updatedFields: {path: value}, removedFields: [path], truncatedArrays: [{field, newSize}]}`.

    Paths are dotted and lead to the fields and array elements that differ. An array is reported as a whole if that is not
    longer. Fields that only moved within their document are reported as updated.
    """
    changes = _compare_documents(before, after, "")
    return {
        "updatedFields": changes.updated,
        "removedFields": changes.removed,
        "truncatedArrays": changes.truncated,
    }


def _compare_documents(before: Document, after: Document, prefix: str) -> _Changes:
    changes = _Changes()
    changes.removed.extend(f"{prefix}{name}" for name in before if name not in after)
    places = {name: place for place, name in enumerate(before)}
    last = -1
    for name, value in after.items():
        place = places.get(name, -1)
        # A new field, or one that stood before the field preceding it now: a change stream reports both as set.
        if place <= last:
            changes.updated[f"{prefix}{name}"] = value
            continue
        last = place
        changes.merge(_compare_values(before[name], value, f"{prefix}{name}"))
    return changes


def _compare_values(before: Value, after: Value, path: str) -> _Changes:
    if identical(before, after):
        return _Changes()
    if type(before) is dict and type(after) is dict:
        return _compare_documents(before, after, f"{path}.")
    if type(before) is list and type(after) is list:
        return _compare_arrays(before, after, path)
    return _Changes(updated={path: after})


def _compare_arrays(before: list[Any], after: list[Any], path: str) -> _Changes:
    changes = _Changes()
    whole = _Changes(updated={path: after})
    if len(after) < len(before):
        changes.truncated.append({"field": path, "newSize": len(after)})
    for place, value in enumerate(after):
        if place < len(before):
            changes.merge(_compare_values(before[place], value, f"{path}.{place}"))
        else:
            changes.updated[f"{path}.{place}"] = value
    # The shorter form is reported: many changed elements, each with its path, can be longer than the array.
    return whole if whole.size() <= changes.size() else changes
