"""Page checksums: SQLite's `cksumvfs`, which is part of apsw, ends each page of the file in a checksum and verifies it.

SQLite itself accepts each page that parses: if the key of an index entry changes on the disk, the record is not found. With
the checksum, the read of such a page fails. A page is verified when it is read from the file, not when it is found in the cache
or in the write-ahead log (the log has checksums of its own, which a recovery verifies).

The size of the reserved space stands in the file's header, so that files of earlier versions are served without checksums.
"""

from __future__ import annotations

import ctypes

import apsw

PAGE_SIZE = 4096

VFS = "cksmvfs"
RESERVED_BYTES = 8
"""The bytes of the checksum at the end of each page. The VFS verifies files with this number of reserved bytes alone."""

RESERVED_OFFSET = 20
"""The offset in a file's header of the number of reserved bytes (https://sqlite.org/fileformat2.html)."""


def load_checksums() -> bool:
    """Load the VFS, once in a process. False if this build of apsw does not have it."""
    if VFS in apsw.vfs_names():
        return True
    from apsw import sqlite_extra

    if sqlite_extra.has("cksumvfs") != "extension":
        return False
    usual = apsw.vfs_names()[0]
    carrier = apsw.Connection(":memory:")
    try:
        sqlite_extra.load(carrier, "cksumvfs")
    finally:
        carrier.close()
    # The VFS makes itself the default. The default belongs to the program in which Mayfly may be embedded.
    apsw.set_default_vfs(usual)
    return True


def reserve(connection: apsw.Connection) -> None:
    """Reserve the space of checksums in a file that is still empty."""
    size = ctypes.c_int(RESERVED_BYTES)
    connection.file_control("main", apsw.SQLITE_FCNTL_RESERVE_BYTES, ctypes.addressof(size))


def is_verified(connection: apsw.Connection) -> bool:
    """Return whether reads over this connection are verified."""
    return connection.pragma("checksum_verification") in (1, "1")
