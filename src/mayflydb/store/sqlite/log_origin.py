"""Checks that the write-ahead log beside a file belongs to the file, before SQLite applies the log.

SQLite applies any log of that name whose own checksums hold: the log of another database, or that of a later state of this one,
turns the file into a mixture. The table `meta` lies on one page, and every commit changes it, so that both the file and the first
transaction of the log carry

    commit_seq      the number of the commit
    era, before     a random number of the time since the file was last opened, and that of the time before

A log belongs to a file if it begins in the file's era and not behind the commit after the file's, and if it does not end before
the file's. Opening a file begins an era, so that two copies of one file part with it. Formats of pages and logs:
https://sqlite.org/fileformat2.html.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

PAGE: Final = 4096
META_PAGE: Final = 3
"""The page of the table `meta`, the first that is made: behind the header and the map of pages."""

_LEAF: Final = 0x0A
_LOG_HEADER, _FRAME_HEADER = Struct(">8I"), Struct(">6I")
_MAGIC: Final = 0x377F0682
"""The lowest bit says whether the words of checksums are big-endian."""

_SIZES = (0, 1, 2, 3, 4, 6, 8)
"""Bytes of an integer by its serial type; types 8 and 9 are the constants 0 and 1."""

_MAX_FRAMES: Final = 1024
"""Frames that are searched for the first page of `meta`. A log whose first transaction is longer counts as the file's own."""


class Origin(NamedTuple):
    """The numbers of one state of a database. `era` None: it was written before there were eras."""

    commit_seq: int
    era: int | None
    before: int | None


def origin_of_file(descriptor: int) -> Origin | None:
    """Read the origin of a file itself, without its log; None if it has no tables yet, or another page in the place of `meta`."""
    return read_meta(os.pread(descriptor, PAGE, (META_PAGE - 1) * PAGE))


def origin_of_log(path: str) -> Origin | None:
    """Read the origin of the first transaction of a log; None if there is no log that SQLite would apply."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        for number, page in _frames(descriptor):
            if number == META_PAGE:
                return read_meta(page)
    finally:
        os.close(descriptor)
    return None


def read_meta(page: bytes) -> Origin | None:
    """Read the rows of `meta` from its page; None if it is another page."""
    if len(page) != PAGE or page[0] != _LEAF:
        return None
    found: dict[bytes, int] = {}
    try:
        for at in range(8, 8 + 2 * int.from_bytes(page[3:5]), 2):
            name, value = _read_row(page, int.from_bytes(page[at : at + 2]))
            found[name] = value
    except (IndexError, ValueError):
        return None
    if b"commit_seq" not in found:
        return None
    return Origin(found[b"commit_seq"], found.get(b"era"), found.get(b"before"))


def _read_row(page: bytes, cell: int) -> tuple[bytes, int]:
    """Read (name, value) of a cell: its size, the size of the header, two types, two values; each number is one byte here."""
    _, _, text, integer = page[cell : cell + 4]
    start = cell + 4
    name = page[start : start + (text - 13) // 2]
    if integer in (8, 9):
        return name, integer - 8
    value = page[start + len(name) : start + len(name) + _SIZES[integer]]
    return name, int.from_bytes(value, signed=True)


def _frames(descriptor: int) -> Iterator[tuple[int, bytes]]:
    """Yield (page number, page) of the frames of a log that are whole, from its beginning."""
    header = os.pread(descriptor, _LOG_HEADER.size, 0)
    if len(header) < _LOG_HEADER.size:
        return
    magic, _, size, _, *salts, first, second = _LOG_HEADER.unpack(header)
    words = Struct(f"{'>' if magic & 1 else '<'}{PAGE // 4}I")
    head = Struct(f"{words.format[0]}6I")
    sums = _add_up(head.unpack(header[:24]), (0, 0))
    if magic & ~1 != _MAGIC or size != PAGE or sums != (first, second):
        return
    for frame in range(_MAX_FRAMES):
        at = _LOG_HEADER.size + frame * (_FRAME_HEADER.size + PAGE)
        read = os.pread(descriptor, _FRAME_HEADER.size + PAGE, at)
        if len(read) < _FRAME_HEADER.size + PAGE:
            return
        number, _, *own, first, second = _FRAME_HEADER.unpack_from(read)
        page = read[_FRAME_HEADER.size :]
        sums = _add_up(words.unpack(page), _add_up(head.unpack_from(read)[:2], sums))
        if own != salts or sums != (first, second):
            return
        yield number, page


def _add_up(words: tuple[int, ...], sums: tuple[int, int]) -> tuple[int, int]:
    """Continue the checksum of a log over an even number of words."""
    one, two = sums
    for at in range(0, len(words), 2):
        one = one + words[at] + two & 0xFFFFFFFF
        two = two + words[at + 1] + one & 0xFFFFFFFF
    return one, two


def find_mismatch(file: Origin | None, log: Origin | None) -> str | None:
    """Return the reason for which a log does not belong to a file; None if it does, or if there is no log.

    Both are origins from before SQLite opens the file.
    """
    if log is None:
        return None
    if file is None:
        # Until its first checkpoint a new file has nothing but its header: its log begins with the making of the tables.
        return "the log continues a database that is not in the file" if log.commit_seq > 0 else None
    continues = log.era == file.era or (log.before == file.era and log.commit_seq == file.commit_seq + 1)
    if not continues:
        return "the log is that of another database, or of another copy of this one"
    if log.commit_seq > file.commit_seq + 1:
        return f"the file ends with commit {file.commit_seq}, and the log begins with commit {log.commit_seq}"
    return None
