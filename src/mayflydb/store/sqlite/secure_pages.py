"""Pages without remains: for secure erase, a VFS that clears the unused middle of each page before it is written into the file.

`secure_delete` overwrites what is deleted. But when SQLite splits or joins pages of a tree, it moves cells and leaves their old
bytes in the gap between the array of cell pointers and the content of the page (https://sqlite.org/fileformat2.html#b_tree_pages).
A record that moves and is deleted later would stay there. Of 1,300 records with a random index key, about 4 did.

Pages reach the file by checkpoints alone, which copy them out of the log, so that the log is to be cut as well.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import apsw

from mayflydb.store.sqlite.page_checksums import PAGE_SIZE, RESERVED_BYTES
from mayflydb.store.sqlite.page_checksums import VFS as CHECKSUMS

_HEADERS: Final = {2: 12, 5: 12, 10: 8, 13: 8}
"""The length of a page's header by its first byte: interior and leaf pages of indexes and tables."""

_FILE_HEADER: Final = 100
_POINTER_MAP_ENTRY: Final = 5
_LOCKED_PAGE: Final = (1 << 30) // PAGE_SIZE + 1
"""The page that SQLite never uses, since it locks its bytes."""


def clear_gap(number: int, page: bytes, reserved: int) -> bytes:
    """Return a page, whose last `reserved` bytes are none of its content, with zeros between its cell pointers and its cells.

    Pages that are not of a tree stay as they are.
    """
    usable = len(page) - reserved
    start = _FILE_HEADER if number == 1 else 0
    header = _HEADERS.get(page[start])
    # The first byte of the other kinds of pages is that of a page number: zero in files of less than 64 GiB.
    if header is None or _is_pointer_map(number, usable):
        return page
    cells = int.from_bytes(page[start + 3 : start + 5])
    content = int.from_bytes(page[start + 5 : start + 7])
    gap = start + header + 2 * cells
    if not gap < content <= usable or not _are_cells(page[start + header : gap], content, usable):
        return page
    length = content - gap
    return page if page.count(0, gap, content) == length else page[:gap] + bytes(length) + page[content:]


def _are_cells(pointers: bytes, content: int, usable: int) -> bool:
    """Return whether all pointers lead into the content of their page."""
    places = memoryview(pointers)
    return all(content <= int.from_bytes(places[n : n + 2]) < usable for n in range(0, len(pointers), 2))


def _is_pointer_map(number: int, usable: int) -> bool:
    """Return whether a page of a file with auto_vacuum tells the parents of those behind it."""
    span = usable // _POINTER_MAP_ENTRY + 1
    first = (number - 2) // span * span + 2
    return number == first + (first == _LOCKED_PAGE)


class _File(apsw.VFSFile):
    """The data file of a store."""

    def __init__(self, base: str, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__(base, name, flags)
        self._reserved = RESERVED_BYTES if base == CHECKSUMS else 0

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 -- the name is the interface's.
        """Write a page, or anything else that SQLite writes."""
        if len(data) == PAGE_SIZE and offset % PAGE_SIZE == 0:
            data = clear_gap(offset // PAGE_SIZE + 1, bytes(data), self._reserved)
        super().xWrite(data, offset)


class _Secure(apsw.VFS):
    def __init__(self, name: str, base: str) -> None:
        super().__init__(name, base)
        self._base = base

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 -- as above.
        """Open a file of SQLite. The data file alone has pages."""
        if flags[0] & apsw.SQLITE_OPEN_MAIN_DB:
            return _File(self._base, name, flags)
        return apsw.VFSFile(self._base, name, flags)


@cache
def _register(base: str) -> _Secure:
    return _Secure(f"mayfly-secure-{base}", base)


def secure_vfs(base: str | None) -> str:
    """Return the VFS over a base (None: the usual one), registered once in a process."""
    base = apsw.vfs_names()[0] if base is None else base
    _register(base)
    return f"mayfly-secure-{base}"
