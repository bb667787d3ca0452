"""A copy of everything that a store holds."""

from __future__ import annotations

import msgspec


class SavedSnapshot(msgspec.Struct, frozen=True):
    """A snapshot: its name, its size in bytes, and what was kept with it."""

    name: str
    size: int
    facts: bytes
