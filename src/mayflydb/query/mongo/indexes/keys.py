"""The keys of a document in an index, and the date that a TTL index reads from it.

A key is the concatenation of its fields' encodings; descending fields are complemented. An array gives one key for each of its
elements. Several paths of one index may lead through the same array, not through two arrays. A hashed field is stored as a
digest. A wildcard index stores the path before the value, a text index the word before its other fields.

A key that is too long for an index is stored as its first bytes and a digest of the whole key. Different keys remain different.
Only keys with equal first bytes may lie in another order than their values; `truncated_prefix` identifies them.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Final, NamedTuple

import msgspec
from bson import DatetimeMS, Int64

from mayflydb.model.instant import MILLISECOND, Instant
from mayflydb.query.mongo.collation import SIMPLE, Collation
from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.filter import Filter, compile_filter
from mayflydb.query.mongo.indexes.key_bytes import (
    EMPTY_ARRAY,
    NULL,
    NUMBER,
    encode_descending,
    encode_text,
    encode_value,
)
from mayflydb.query.mongo.indexes.specs import IndexSpec
from mayflydb.query.mongo.languages import terms_of
from mayflydb.query.mongo.paths import array_index, fields_of, split_path
from mayflydb.query.mongo.text import TextIndex, texts_of
from mayflydb.query.mongo.values import MISSING, Document, Value, format_value, is_truthy

MAX_KEY_SIZE: Final = 504
"""The maximum size of a key in bytes: the limit of an ordered index, less the bytes that order its entries by partition."""

_DIGEST_SIZE: Final = 16
KEY_PREFIX_SIZE: Final = MAX_KEY_SIZE - _DIGEST_SIZE
"""A longer key is stored as this many bytes and a digest."""

_HASH_SIZE: Final = 8

EARLIEST: Final[Instant] = -(1 << 62)
LATEST: Final[Instant] = 1 << 62
"""Dates outside EARLIEST and LATEST are replaced by these, so that adding a span cannot exceed 64 bits. They are
146,000 years away.
"""


class IndexKeys(msgspec.Struct, frozen=True):
    """Computes the keys and the date of documents for one index; built by `compile_keys`."""

    spec: IndexSpec
    collation: Collation
    filter: Filter | None
    text: TextIndex | None

    def document_keys(self, document: Document) -> list[bytes]:
        """Return the distinct keys of a document, ascending. A document with several keys makes the index a multikey index.

        MqlError 171 for arrays at two paths, 16746 for a field name that is also an index of the array, 16766 for an array in
        a hashed field.
        """
        if self.filter is not None and not self.filter.matches(document):
            return []
        return sorted({shorten_key(key) for key in self._full_keys(document)})

    def _full_keys(self, document: Document) -> list[bytes]:
        spec, collation = self.spec, self.collation
        if spec.kind == "wildcard":
            return [
                encode_text(path) + _encode_field(value, collation) for path, value in _wildcard_leaves(spec, document)
            ]
        fields = [(path, direction) for path, direction in spec.key if direction != "text"]
        rows = _rows_at_paths(fields, document)
        if spec.sparse and fields:
            # A sparse index leaves out a document only if it has none of the fields.
            rows = [row for row in rows if any(value is not MISSING for value in row)]
        keys = [_encode_row(fields, row, collation) for row in rows]
        return (
            keys
            if self.text is None
            else [encode_text(word) + key for word in _index_words(self.text, document) for key in keys]
        )

    def earliest_date(self, document: Document, numbers: bool = False) -> Instant | None:
        """Return the earliest date that a TTL index finds in a document.

        None if there is none or the partial filter excludes the document. The date is limited to EARLIEST and LATEST.
        `numbers`: numbers count as dates, in milliseconds since 1970.
        """
        spec = self.spec
        if spec.expire_after is None or spec.kind != "ordered":
            return None
        if self.filter is not None and not self.filter.matches(document):
            return None
        dates = [_date_milliseconds(value, numbers) for (value,) in _rows_at_paths(spec.key, document)]
        found = [each for each in dates if each is not None]
        return max(EARLIEST, min(LATEST, min(found) * MILLISECOND)) if found else None


def compile_keys(spec: IndexSpec) -> IndexKeys:
    """Compile the key generator of an index."""
    collation = spec.collator
    within = None if spec.partial is None else compile_filter(spec.partial, Env(0, collation=collation))
    return IndexKeys(spec, collation, within, spec.text)


def keys_of(spec: IndexSpec, document: Document) -> list[bytes]:
    """Return the keys of a single document (`IndexKeys.document_keys`)."""
    return compile_keys(spec).document_keys(document)


def _index_words(index: TextIndex, document: Document) -> set[str]:
    return {term for each, _, language in texts_of(document, index) for term in terms_of(each, language)}


class _Empty(Enum):
    EMPTY = "an array without elements"


class _PathCursor(NamedTuple):
    """A position on a path: the value reached, the parts, and the number of parts done. `whole`: an array here counts
    as a value.
    """

    value: Value
    parts: tuple[str, ...]
    at: int
    whole: bool = False


def shorten_key(key: bytes) -> bytes:
    """Return a key as an index stores it."""
    return (
        key
        # | first 488 bytes | BLAKE2b of the whole key, 16 bytes |
        if len(key) <= KEY_PREFIX_SIZE
        else key[:KEY_PREFIX_SIZE] + hashlib.blake2b(key, digest_size=_DIGEST_SIZE).digest()
    )


def truncated_prefix(key: bytes) -> bytes | None:
    """Return the stored first bytes of a key that is too long; None for a key that is stored whole and lies in order."""
    return key[:KEY_PREFIX_SIZE] if len(key) > KEY_PREFIX_SIZE else None


def hash_value(value: Value, collation: Collation = SIMPLE) -> bytes:
    """Return the digest that a hashed field stores for a value. A missing value counts as null."""
    # A hash has the tag of a number, because to the server it is a long. Its body is not decoded.
    return NUMBER + hashlib.blake2b(_encode_field(value, collation), digest_size=_HASH_SIZE).digest()


def _encode_row(fields: Sequence[tuple[str, int | str]], row: Sequence[Value], collation: Collation) -> bytes:
    parts = []
    for (_, direction), value in zip(fields, row, strict=True):
        if direction == "hashed":
            parts.append(hash_value(value, collation))
        else:
            encoded = _encode_field(value, collation)
            parts.append(encode_descending(encoded) if direction == -1 else encoded)
    return b"".join(parts)


def _encode_field(value: Value, collation: Collation) -> bytes:
    if value is MISSING:
        return NULL
    return EMPTY_ARRAY if value is _Empty.EMPTY else encode_value(value, collation)


# --- paths through arrays ------------------------------------------------------------------------------------------------


def _rows_at_paths(fields: Sequence[tuple[str, int | str]], document: Document) -> list[tuple[Value, ...]]:
    """Return the values at an index's paths: one row for each element of the array that the paths lead through."""
    paths = [_PathCursor(document, split_path(path), 0) for path, _ in fields]
    directions = [direction for _, direction in fields]
    return list(_spread_arrays(paths, directions))


def _spread_arrays(fields: list[_PathCursor], directions: Sequence[int | str]) -> Iterator[tuple[Value, ...]]:
    fields = [_follow_path(field) for field in fields]
    stopped = [n for n, field in enumerate(fields) if type(field.value) is list and not field.whole]
    if not stopped:
        yield tuple(field.value for field in fields)
        return
    paths = [".".join(fields[n].parts[: fields[n].at]) for n in stopped]
    for n, path in zip(stopped, paths, strict=True):
        if directions[n] == "hashed":
            raise MqlError(16766, f"hashed indexes do not currently support array values. Found array at path: {path}")
        # Two arrays would need a key for each pair of their elements.
        if path != paths[0]:
            last = paths[0].rpartition(".")[2]
            raise MqlError(171, f"cannot index parallel arrays [{path.rpartition('.')[2]}] [{last}]")
    for element in fields[stopped[0]].value or [_Empty.EMPTY]:
        entered = list(fields)
        for n in stopped:
            entered[n] = _enter_element(fields[n], element)
        yield from _spread_arrays(entered, directions)


def _follow_path(field: _PathCursor) -> _PathCursor:
    """Follow a path to its end, or to the next array."""
    value, parts, at, whole = field
    while at < len(parts):
        if type(value) is list and not whole:
            index = _index_in_array(value, parts[at])
            if index is None:
                break
            value, at = value[index], at + 1
            continue
        fields = fields_of(value)
        if fields is None:
            return _PathCursor(MISSING, parts, len(parts))
        value, at, whole = fields.get(parts[at], MISSING), at + 1, False
    return _PathCursor(value, parts, at, whole)


def _index_in_array(array: Sequence[Value], part: str) -> int | None:
    """Return the index of the element that a part of a path names by its number. MqlError 16746 if a field has that
    name too.
    """
    index = array_index(part)
    if index is None or index >= len(array):
        return None
    if any(part in (fields_of(each) or ()) for each in array):
        raise MqlError(
            16746,
            "Ambiguous field name found in array (do not use numeric field names in embedded elements in an array), "
            f"field: '{part}' for array: {format_value(list(array))}",
        )
    return index


def _enter_element(field: _PathCursor, element: Value) -> _PathCursor:
    """Continue a path in an element of the array where it stopped. An array directly within an array is a value and
    is not entered.
    """
    if field.at == len(field.parts):
        return _PathCursor(element, field.parts, field.at, True)
    inner = element if fields_of(element) is not None else MISSING
    return _PathCursor(inner, field.parts, field.at)


# --- wildcards -----------------------------------------------------------------------------------------------------------


def _wildcard_leaves(spec: IndexSpec, document: Document) -> Iterator[tuple[str, Value]]:
    """Yield (path, value) of the entries of a wildcard index: scalars, elements of arrays, empty documents and arrays."""
    for path, value in _walk_leaves("", document):
        if covers_path(spec, path):
            yield path, value


def _walk_leaves(path: str, value: Value) -> Iterator[tuple[str, Value]]:
    fields = fields_of(value)
    if type(value) is list:
        for each in value or [_Empty.EMPTY]:
            if type(each) is list:
                yield path, each
            else:
                yield from _walk_leaves(path, each)
    elif fields:
        for name, each in fields.items():
            yield from _walk_leaves(f"{path}.{name}" if path else name, each)
    elif path:
        yield path, value


def covers_path(spec: IndexSpec, path: str) -> bool:
    """Return whether a wildcard index covers a path."""
    root = spec.key[0][0].removesuffix("$**").removesuffix(".")
    if root:
        return _is_at_or_below(path, root)
    projection = spec.projection or {}
    # A wildcard index leaves out `_id` unless its projection includes it.
    if _is_at_or_below(path, "_id"):
        return is_truthy(projection.get("_id", False))
    named = {each: is_truthy(value) for each, value in projection.items() if each != "_id"}
    if not named:
        return not is_truthy(projection.get("_id", False))
    including = next(iter(named.values()))
    return including is any(_is_at_or_below(path, each) for each in named)


def _is_at_or_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root + ".")


# --- dates ---------------------------------------------------------------------------------------------------------------


def _date_milliseconds(value: Value, numbers: bool) -> int | None:
    kind = type(value)
    if kind is DatetimeMS or (numbers and kind in (int, Int64)):
        return int(value)
    if numbers and kind is float and not math.isnan(value):
        # int() of an infinity raises. The caller limits the date further.
        return int(max(-1e18, min(1e18, value)) // 1)
    return None
