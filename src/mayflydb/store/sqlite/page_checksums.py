"""Page checksums: SQLite's `cksumvfs`, which apsw brings along, ends each page of the file in a checksum and verifies it.

SQLite itself believes each page that parses: a key of an index that was changed on the disk is a record that is not found. With
the checksum, the read of such a page fails. A page is verified when it is read from the file, not when it is found in the cache
or in the write-ahead log (the log has checksums of its own, which a recovery verifies).

The size of the reserved space stands in the file's header, so that files from before are served as they are, without checksums.
"""

from __future__ import annotations

import ctypes

import apsw

VFS = "cksmvfs"
RESERVED = 8
"""The bytes at the end of each page that the checksum takes: no other number switches it on."""

RESERVED_AT = 20
"""Where a file's header has the number of reserved bytes (https://sqlite.org/fileformat2.html)."""


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
    # It makes itself the default, which belongs to the program that Mayfly may be a part of.
    apsw.set_default_vfs(usual)
    return True


def reserve(connection: apsw.Connection) -> None:
    """Reserve the space of checksums in a file that is still empty."""
    size = ctypes.c_int(RESERVED)
    connection.file_control("main", apsw.SQLITE_FCNTL_RESERVE_BYTES, ctypes.addressof(size))


def is_verified(connection: apsw.Connection) -> bool:
    """Return whether reads over this connection are verified."""
    return connection.pragma("checksum_verification") in (1, "1")
