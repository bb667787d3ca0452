"""Documents at the edge: checks and changes before storage, and replies assembled from documents that stay encoded."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from bson import Binary, Int64, ObjectId, Timestamp

from mayflydb.model.instant import Instant, to_seconds
from mayflydb.model.record import IGNORED, NEVER
from mayflydb.query.mongo.faults import bad_value
from mayflydb.query.mongo.raw import check_depth, elements
from mayflydb.query.mongo.validation import check_id
from mayflydb.query.mongo.values import INT32_MAX, Document, decode, encode, timestamp_at

MAX_DOCUMENT_BYTES: Final = 16 * 1024 * 1024
"""Maximum bytes of a document, and of a batch: https://www.mongodb.com/docs/manual/reference/limits/"""

_INT32 = struct.Struct("<i")
_TTL_NAME = b"ttl\x00"
_ID_NAME = b"_id\x00"
_EMPTY_TIMESTAMP = b"\x00" * 8
_ID_ELEMENT = re.compile(rb"[\x01-\x13\x7f\xff]_id\x00")


class ObjectIdGenerator:
    """Makes ObjectIdGenerator from the clock's seconds, five bytes of this process, and a counter."""

    def __init__(self, process: bytes, first: int) -> None:
        """`process`: five random bytes. `first`: a random number of 24 bits."""
        self._process = process
        self._next = first

    @property
    def machine(self) -> int:
        """The first three bytes of the process's part, as a number."""
        return int.from_bytes(self._process[:3], "big")

    def generate(self, now: Instant) -> ObjectId:
        """The next ObjectId."""
        self._next = (self._next + 1) & 0xFFFFFF
        # 4 bytes of seconds, 5 of the process, 3 of the counter, all big-endian: ids sort by time.
        seconds = (to_seconds(now) & 0xFFFFFFFF).to_bytes(4, "big")
        return ObjectId(seconds + self._process + self._next.to_bytes(3, "big"))


def to_milliseconds(now: Instant) -> int:
    """An instant in milliseconds, the unit of Date and `$$NOW`."""
    return now // 1000


def ttl_override(document: Document) -> int | None:
    """The override in the root field `ttl`: 1..2147483647 or -1 in any whole number type; IGNORED for other values, None
    without."""
    if "ttl" not in document:
        return None
    value = document["ttl"]
    # Only int32, int64 and double can hold an override. NaN (unequal to itself) and the infinities are ignored, too:
    # the index's seconds then count.
    if type(value) not in (int, Int64, float) or value != value or value in (float("inf"), float("-inf")):
        return IGNORED
    if value != int(value):
        return IGNORED
    seconds = int(value)
    if seconds == -1:
        return NEVER
    # Both ends are inclusive. The service's documents are silent on 0, and to ignore it deletes nothing.
    return seconds if 1 <= seconds <= INT32_MAX else IGNORED


def prepare_insert(raw: bytes, ids: ObjectIdGenerator, now: Instant) -> tuple[Document, bytes]:
    """Prepare a document for insertion. Return it decoded, and as the bytes to store.

    `_id` comes first, and is made if it is missing. Empty timestamps at the top level get the current time. Raise
    MqlError 22 for bytes that are no document or are nested too deep, 2 for a document that is too large or has two
    ids, 52 and 53 for an invalid `_id`.
    """
    if len(raw) > MAX_DOCUMENT_BYTES:
        raise bad_value(f"object to insert too large. size in bytes: {len(raw)}, max size: {MAX_DOCUMENT_BYTES}")
    check_depth(raw)
    document = decode(raw)
    # The pattern may match inside of a value, so elements are counted where it matches twice.
    if (
        raw.count(_ID_NAME) > 1
        and len(_ID_ELEMENT.findall(raw)) > 1
        and sum(each.name == b"_id" for each in elements(raw)) > 1
    ):
        raise bad_value("can't have multiple _id fields in one document")
    kept = document
    if "_id" not in document:
        kept = {"_id": ids.generate(now), **document}
    elif next(iter(document)) != "_id":
        kept = {"_id": document["_id"], **document}
    for name, value in document.items() if _EMPTY_TIMESTAMP in raw else ():
        # MongoDB replaces an empty timestamp, too: https://www.mongodb.com/docs/manual/reference/bson-types/
        if type(value) is Timestamp and value.time == 0 and value.inc == 0 and name != "_id":
            kept = dict(kept) if kept is document else kept
            kept[name] = timestamp_at(to_seconds(now))
    check_id(kept["_id"])
    return kept, raw if kept is document else encode(kept)


def may_have_ttl(raw: bytes) -> bool:
    """Return False only if a document certainly has no field `ttl`. The bytes may also be part of a value."""
    return _TTL_NAME in raw


# --- replies ---------------------------------------------------------------------------------------------------------

_HEADS = [b"\x03%d\x00" % n for n in range(1024)]
"""The type and the name of array elements, made once, since each batch of a cursor needs them."""


def build_array(documents: Sequence[bytes]) -> bytes:
    """Build a BSON array of encoded documents."""
    heads = _HEADS if len(documents) <= len(_HEADS) else [b"\x03%d\x00" % n for n in range(len(documents))]
    body = b"".join([part for pair in zip(heads, documents, strict=False) for part in pair])
    return _INT32.pack(len(body) + 5) + body + b"\x00"


def build_document(fields: Sequence[tuple[str, bytes, int]], rest: dict[str, Any]) -> bytes:
    """Build a document of encoded fields (name, bytes, BSON type), followed by the fields of `rest`."""
    # The encoded rest gives the final NUL.
    body = b"".join([b"%c%s\x00%s" % (kind, name.encode(), raw) for name, raw, kind in fields]) + encode(rest)[4:]
    return _INT32.pack(len(body) + 4) + body


def cursor_reply(
    namespace: str, cursor: int, batch: Sequence[bytes], first: bool, cursor_fields: Document | None = None, **rest: Any
) -> bytes:
    """Build the reply with a batch. `cursor_fields`: further fields of `cursor`. `rest`: further fields of the reply."""
    array = build_array(batch)
    if not cursor_fields and not rest:
        return _build_plain_reply(_FIRST_BATCH if first else _NEXT_BATCH, array, _name_cursor(namespace, cursor))
    inner = build_document(
        (("firstBatch" if first else "nextBatch", array, 4),),
        {"id": Int64(cursor), "ns": namespace, **(cursor_fields or {})},
    )
    return build_document((("cursor", inner, 3),), {**rest, "ok": 1.0})


_FIRST_BATCH: Final = b"\x04firstBatch\x00"
_NEXT_BATCH: Final = b"\x04nextBatch\x00"
_CURSOR: Final = b"\x03cursor\x00"
_OK: Final = encode({"ok": 1.0})[4:]


@lru_cache(maxsize=256)
def _name_cursor(namespace: str, cursor: int) -> bytes:
    return encode({"id": Int64(cursor), "ns": namespace})[4:]


def _build_plain_reply(name: bytes, array: bytes, identity: bytes) -> bytes:
    inner = 4 + len(name) + len(array) + len(identity)
    whole = 4 + len(_CURSOR) + inner + len(_OK)
    return b"".join((_INT32.pack(whole), _CURSOR, _INT32.pack(inner), name, array, identity, _OK))


def binary_uuid(data: bytes) -> Binary:
    """Sixteen bytes as a BSON UUID."""
    return Binary(data, 4)
