"""Documents on their way in and out: what a stored one must be, and replies put together from bytes that nobody decodes."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Sequence
from typing import Any, Final

from bson import Binary, Int64, ObjectId, Timestamp

from mayflydb.model.instant import Instant, to_seconds
from mayflydb.model.record import IGNORED, NEVER
from mayflydb.query.mongo.faults import bad_value
from mayflydb.query.mongo.raw import check_depth, elements
from mayflydb.query.mongo.validation import check_id
from mayflydb.query.mongo.values import INT32_MAX, Document, decode, encode, timestamp_at

MAX_DOCUMENT_BYTES: Final = 16 * 1024 * 1024
"""Bytes of a document, and of a batch: https://www.mongodb.com/docs/manual/reference/limits/"""

_INT32 = struct.Struct("<i")
_TTL = b"ttl\x00"
_ID = re.compile(rb"[\x01-\x13\x7f\xff]_id\x00")


class ObjectIds:
    """Makes ids whose time is the clock's: seconds, five bytes of this process, a counter."""

    def __init__(self, process: bytes, first: int) -> None:
        """`process`: five random bytes; `first`: a random number of 24 bits."""
        self._process = process
        self._next = first

    def make(self, now: Instant) -> ObjectId:
        """The next one."""
        self._next = (self._next + 1) & 0xFFFFFF
        seconds = (to_seconds(now) & 0xFFFFFFFF).to_bytes(4, "big")
        return ObjectId(seconds + self._process + self._next.to_bytes(3, "big"))


def milliseconds(now: Instant) -> int:
    """An instant as Date and `$$NOW` have it."""
    return now // 1000


def own_ttl(document: Document) -> int | None:
    """The root `ttl` as the override it is: 1..2147483647 or -1 in any whole number type, else present and ignored."""
    if "ttl" not in document:
        return None
    value = document["ttl"]
    if type(value) not in (int, Int64, float) or value != value or value in (float("inf"), float("-inf")):
        return IGNORED
    if value != int(value):
        return IGNORED
    seconds = int(value)
    if seconds == -1:
        return NEVER
    return seconds if 1 <= seconds <= INT32_MAX else IGNORED


def prepare_insert(raw: bytes, ids: ObjectIds, now: Instant) -> tuple[Document, bytes]:
    """A document that is to be inserted, decoded and as the bytes to keep: `_id` first, made if it is missing, and empty
    timestamps at the top level filled in.

    MqlError 22 for bytes that are no document or nest too deep, 2 for a document that is too large or has two ids, 52 and 53 for
    an `_id` that may be none.
    """
    if len(raw) > MAX_DOCUMENT_BYTES:
        raise bad_value(f"object to insert too large. size in bytes: {len(raw)}, max size: {MAX_DOCUMENT_BYTES}")
    check_depth(raw)
    document = decode(raw)
    if len(_ID.findall(raw)) > 1 and sum(each.name == b"_id" for each in elements(raw)) > 1:
        raise bad_value("can't have multiple _id fields in one document")
    kept = document
    if "_id" not in document:
        kept = {"_id": ids.make(now), **document}
    elif next(iter(document)) != "_id":
        kept = {"_id": document["_id"], **document}
    for name, value in document.items():
        if type(value) is Timestamp and value.time == 0 and value.inc == 0 and name != "_id":
            kept = dict(kept) if kept is document else kept
            kept[name] = timestamp_at(to_seconds(now))
    check_id(kept["_id"])
    return kept, raw if kept is document else encode(kept)


def has_ttl(raw: bytes) -> bool:
    """Whether a document may have a field `ttl`: False is certain."""
    return _TTL in raw


# --- replies ---------------------------------------------------------------------------------------------------------

_NAMES = [b"%d\x00" % n for n in range(1024)]


def _array_key(index: int) -> bytes:
    return _NAMES[index] if index < len(_NAMES) else b"%d\x00" % index


def build_array(documents: Iterable[bytes]) -> bytes:
    """A BSON array of documents that are bytes already."""
    parts = [part for n, raw in enumerate(documents) for part in (b"\x03", _array_key(n), raw)]
    body = b"".join(parts)
    return _INT32.pack(len(body) + 5) + body + b"\x00"


def build_document(fields: Sequence[tuple[str, bytes, int]], rest: dict[str, Any]) -> bytes:
    """A document of fields that are bytes already (name, bytes, BSON type), and behind them those that are not."""
    body = b"".join([b"%c%s\x00%s" % (kind, name.encode(), raw) for name, raw, kind in fields]) + encode(rest)[4:]
    return _INT32.pack(len(body) + 4) + body


def cursor_reply(
    namespace: str, cursor: int, batch: Sequence[bytes], first: bool, inside: Document | None = None, **rest: Any
) -> bytes:
    """The reply that hands out a batch. `inside`: what else `cursor` says, `rest` what the reply does."""
    inner = build_document(
        (("firstBatch" if first else "nextBatch", build_array(batch), 4),),
        {"id": Int64(cursor), "ns": namespace, **(inside or {})},
    )
    return build_document((("cursor", inner, 3),), {**rest, "ok": 1.0})


def binary_uuid(data: bytes) -> Binary:
    """Sixteen bytes as a UUID is sent."""
    return Binary(data, 4)
