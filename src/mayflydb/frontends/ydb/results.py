"""Result sets in pieces that clients can take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from mayflydb.frontends.ydb import wire
from mayflydb.frontends.ydb.packing import layout_of
from mayflydb.query.yql.schemas import Row
from mayflydb.query.yql.types import Type

USUAL: Final = 1 << 20
"""Bytes of rows in one message where a client asks for nothing else."""

LARGEST: Final = 48 << 20
"""And at most: clients refuse messages of 64 MiB."""

AT_ONCE: Final = 256
"""Rows that are encoded before anybody looks how large they are."""


class Layout(Protocol):
    """How the rows of a result set become ResultSet messages."""

    def pieces(self, index: int, columns: Sequence[tuple[str, Type]], rows: Sequence[Row]) -> list[bytes]:
        """The insides of ResultSet messages: at least one, so that a set without rows has its columns."""


class Parts:
    """Values of protobuf. `limit`: bytes, 0: the usual. `once`: columns stand in the first piece of each set only."""

    def __init__(self, limit: int = 0, once: bool = False) -> None:
        self._limit = min(limit or USUAL, LARGEST)
        self._once = once
        self._begun: set[int] = set()

    def pieces(self, index: int, columns: Sequence[tuple[str, Type]], rows: Sequence[Row]) -> list[bytes]:
        """As in Layout."""
        head, encode = layout_of(tuple(columns))
        found = []
        for content in pieces_of(encode, rows, self._limit) or [b""]:
            shown = not (self._once and index in self._begun)
            self._begun.add(index)
            found.append(head + content if shown else content)
        return found


class Encode(Protocol):
    def __call__(self, rows: Sequence[Row], /) -> bytes: ...


def pieces_of(encode: Encode, rows: Sequence[Row], limit: int) -> list[bytes]:
    """Rows, encoded, in pieces of about so many bytes."""
    found: list[bytes] = []
    kept: list[bytes] = []
    size = 0
    for start in range(0, len(rows), AT_ONCE):
        for content in _halved(encode, rows[start : start + AT_ONCE], limit):
            if kept and size + len(content) > limit:
                found.append(b"".join(kept))
                size, kept = 0, []
            kept.append(content)
            size += len(content)
    if kept:
        found.append(b"".join(kept))
    return found


def _halved(encode: Encode, rows: Sequence[Row], limit: int) -> list[bytes]:
    content = encode(rows)
    if len(content) <= limit or len(rows) == 1:
        return [content]
    middle = len(rows) // 2
    return _halved(encode, rows[:middle], limit) + _halved(encode, rows[middle:], limit)


def result_set(columns: Sequence[tuple[str, Type]], rows: Sequence[Row], truncated: bool = False) -> bytes:
    """The inside of one ResultSet."""
    head, encode = layout_of(tuple(columns))
    return head + encode(rows) + wire.number(3, int(truncated))
