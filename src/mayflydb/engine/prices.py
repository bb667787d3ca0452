"""Prices of requests in request units: one table for reads, writes and queries.

Anchors are the documented ones (a point read of 1 KB is 1 RU, a write of 1 KB about 5); the rest grows with bytes and rows.
"""

from __future__ import annotations

from mayflydb.engine.commands import Mode, Written

_READ, _DELETE = Mode.READ, Mode.DELETE

KILOBYTE = 1024
MISS = 1.0
METADATA = 2.0
DELETE = 5.71
_READ_PER_KB = 0.05
_CREATE, _CREATE_PER_KB = 5.24, 0.95
_REPLACE, _REPLACE_PER_KB = 9.52, 1.14
_QUERY, _PER_ROW_READ, _PER_KB_READ, _PER_ROW_OUT = 2.3, 0.025, 0.03, 0.01
_PER_ENTRY = 0.19


def _kilobytes(size: int) -> int:
    return (size + KILOBYTE - 1) // KILOBYTE or 1


def point_read(size: int) -> float:
    """Return the price of reading one record of `size` bytes by its key."""
    return 1.0 if size <= KILOBYTE else 1.0 + (_kilobytes(size) - 1) * _READ_PER_KB


def create(size: int, entries: int = 0) -> float:
    """Return the price of storing a new record."""
    return _CREATE + _kilobytes(size) * _CREATE_PER_KB + entries * _PER_ENTRY


def replace(size: int, entries: int = 0) -> float:
    """Return the price of storing another version of a record; patches cost the same."""
    return _REPLACE + _kilobytes(size) * _REPLACE_PER_KB + entries * _PER_ENTRY


def query(rows_read: int, bytes_read: int, rows_out: int) -> float:
    """Return the price of one page of a query or feed."""
    return _QUERY + rows_read * _PER_ROW_READ + bytes_read / KILOBYTE * _PER_KB_READ + rows_out * _PER_ROW_OUT


def likely(mode: Mode, size: int) -> float:
    """Estimate the price of a command with a body of `size` bytes before it runs."""
    if mode is Mode.DELETE:
        return DELETE
    if mode is Mode.READ:
        return MISS
    return create(size) if mode is Mode.CREATE else replace(size)


def charge(written: Written) -> float:
    """Return the price of a command that ran."""
    mode, size = written.mode, len(written.record.value)
    if mode is _DELETE:
        return DELETE
    if mode is _READ:
        return point_read(size)
    return create(size) if written.created else replace(size)
