"""The check of an index that is to become unique: which documents share a key."""

from __future__ import annotations

import asyncio
from typing import Final

from mayflydb.engine.catalog import Index
from mayflydb.engine.engine import Engine
from mayflydb.engine.scans import SCAN_BATCH
from mayflydb.frontends.mongo.collections import Collection
from mayflydb.model.instant import Instant
from mayflydb.model.order import KeyRange
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.raw import elements
from mayflydb.query.mongo.values import Document, Value, decode

MAX_VIOLATIONS: Final = 1_000
"""Keys with several documents that a refusal of uniqueness names."""

MAX_VIOLATION_BYTES: Final = 4 * 1024 * 1024
"""Bytes of the ids that a refusal of uniqueness names."""

ALL: Final = KeyRange(b"", b"\xff")


async def check_unique(engine: Engine, collection: Collection, index: Index, now: Instant) -> None:
    """Raise MqlError 359 with the ids of documents that share a key of an index; of many, the first ones.

    `prepareUnique` lets no new ones in, so what was found to be unique stays so.
    """
    violations: list[Document] = []
    last, ids, size = b"", [b""], 0
    async for pairs in engine.indexes.walk(collection.node, index, ALL, False, now, SCAN_BATCH):
        for key, record in pairs:
            encoded = _encoded_id(record.value)
            if key != last:
                last, ids = key, [encoded]
                continue
            if len(ids) == 1:
                violations.append({"ids": [_decode_id(ids[0])]})
                size += len(ids[0])
            ids.append(encoded)
            violations[-1]["ids"].append(_decode_id(encoded))
            size += len(encoded)
            if len(violations) >= MAX_VIOLATIONS or size >= MAX_VIOLATION_BYTES:
                raise _violations_error(violations)
        await asyncio.sleep(0)
    if violations:
        raise _violations_error(violations)


def _encoded_id(document: bytes) -> bytes:
    # Stored documents begin with their `_id`. Only this field is decoded, however large the document is.
    first = next(elements(document))
    return document[first.start : first.end]


def _decode_id(element: bytes) -> Value:
    return decode((len(element) + 5).to_bytes(4, "little") + element + b"\0")["_id"]


def _violations_error(violations: list[Document]) -> MqlError:
    text = "Cannot convert the index to unique. Please resolve conflicting documents before running collMod again."
    return MqlError(359, text, violations=violations)
