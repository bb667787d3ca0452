"""UUIDs as text. A value is 16 bytes in the order of a GUID on the wire: the first three groups are little-endian."""

from __future__ import annotations

import re
import uuid
from typing import Final

_GRAMMAR: Final = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}", re.ASCII)


def parse(text: str) -> bytes | None:
    """The 16 bytes; None unless the text is of the form `f9d5cc3f-f1dc-4d9c-b97e-766e57ca4ccb`."""
    return uuid.UUID(text).bytes_le if _GRAMMAR.fullmatch(text) else None


def to_text(value: bytes) -> str:
    """In lower case, with hyphens."""
    return str(uuid.UUID(bytes_le=value))
