"""The orders of records and index entries, with positions and ranges in them."""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

import msgspec

Identity: TypeAlias = tuple[bytes, bytes]
"""(partition, key): the name of a record in its container."""


HASH_BYTES = 8
"""The number of leading bytes of a partition by which scans in HASHED order sort; the rest is only compared with the bounds."""


class Order(Enum):
    """CREATED: by seq. HASHED: by HASH_BYTES of the partition (zeros behind shorter ones), then seq. CHANGED: by lsn."""

    CREATED = "created"
    HASHED = "hashed"
    CHANGED = "changed"


class Position(msgspec.Struct, frozen=True):
    """The position of a scan: after the record with this partition (used by HASHED alone) and number (seq, or lsn)."""

    partition: bytes
    number: int


FIRST_ORDERED = 16
"""Indexes from this number on are ordered: they can be sought and walked. Lower ones only answer for equal entries."""

LONGEST_ORDERED = 512
"""The longest key of an ordered index, in bytes."""


class KeyRange(msgspec.Struct, frozen=True):
    """Entry keys with lower <= key < upper."""

    lower: bytes
    upper: bytes
