"""In which orders records and index entries lie, and places and ranges within them."""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

import msgspec

Identity: TypeAlias = tuple[bytes, bytes]
"""(partition, key): what a record is found by in its container."""


HASH_BYTES = 8
"""How much of a partition's bytes scans in HASHED order sort by; the rest of it only has to match their bounds."""


class Order(Enum):
    """CREATED: by seq. HASHED: by HASH_BYTES of the partition (zeros behind shorter ones), then seq. CHANGED: by lsn."""

    CREATED = "created"
    HASHED = "hashed"
    CHANGED = "changed"


class Position(msgspec.Struct, frozen=True):
    """Where a scan stands: after the record with this partition (HASHED alone looks at it) and number (seq, or lsn)."""

    partition: bytes
    number: int


FIRST_ORDERED = 16
"""Indexes from this number on are ordered: they can be sought and walked. Those below are only asked for equal entries."""

LONGEST_ORDERED = 512
"""Bytes that a key of an ordered index may have."""


class KeyRange(msgspec.Struct, frozen=True):
    """Entry keys with lower <= key < upper."""

    lower: bytes
    upper: bytes
