"""Text form of UUIDs. A value is 16 bytes in the order of a GUID on the wire: the first three groups are little-endian."""

from __future__ import annotations

import re
from typing import Final

_GRAMMAR: Final = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}", re.ASCII)


def parse(text: str) -> bytes | None:
    """Parse `f9d5cc3f-f1dc-4d9c-b97e-766e57ca4ccb` into 16 bytes; None for a text of another form."""
    return _swap_groups(bytes.fromhex(text.replace("-", ""))) if _GRAMMAR.fullmatch(text) else None


def to_text(value: bytes) -> str:
    """Format in lower case, with hyphens."""
    digits = _swap_groups(value).hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _swap_groups(value: bytes) -> bytes:
    """Reverse the bytes of each of the first three groups."""
    return value[3::-1] + value[5:3:-1] + value[7:5:-1] + value[8:]
