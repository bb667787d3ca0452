"""Examines a store file: read-only, in bounded memory, also while a server serves it."""

from __future__ import annotations

import os
from pathlib import Path

import apsw

from mayflydb.model.errors import Unavailable
from mayflydb.store.findings import Expected, Report, ReportProgress, Tally
from mayflydb.store.sqlite.connection import check_library
from mayflydb.store.sqlite.doctor.contents import Contents
from mayflydb.store.sqlite.doctor.pages import check_pages, check_trees
from mayflydb.store.sqlite.doctor.source import ReadOnlyFile
from mayflydb.store.sqlite.page_checksums import PAGE_SIZE
from mayflydb.store.sqlite.schema import FORMAT


def examine(path: Path, expected: Expected, report: ReportProgress) -> Report:
    """Examine a file and return the report. Unavailable if the file is missing, or cannot be examined."""
    check_library()
    try:
        source = ReadOnlyFile(path)
    except apsw.Error as error:
        raise Unavailable(f"{path} cannot be opened: {error}") from error
    try:
        return _examine(source, expected, report)
    finally:
        source.close()


def _examine(source: ReadOnlyFile, expected: Expected, report: ReportProgress) -> Report:
    tally = Tally()
    if source.foreign is not None:
        tally.add(
            "log", f"the log does not belong to the file: {source.foreign}; only the file is examined", mending="none"
        )
    version = format_of(source)
    check_pages(source, tally, report)
    check_trees(source, tally, report)
    connection = source.connect(verified=False)
    try:
        # One snapshot for all checks: a server may write meanwhile.
        connection.execute("BEGIN")
        contents = Contents(connection, expected, tally, report)
        contents.check()
        free = connection.pragma("freelist_count") * PAGE_SIZE
    finally:
        connection.close()
    disk = os.statvfs(source.path)
    return Report(
        str(source.path),
        version,
        source.verified,
        source.pages * PAGE_SIZE,
        source.log_bytes,
        free,
        disk.f_bavail * disk.f_frsize,
        contents.records,
        contents.entries,
        contents.events,
        contents.versions,
        tally.findings(),
    )


def format_of(source: ReadOnlyFile) -> int:
    """Read the format. Unavailable if this version cannot read it without a migration."""
    connection = source.connect(verified=False)
    try:
        version = int(connection.pragma("user_version"))
    except apsw.Error as error:
        raise Unavailable(f"{source.path} cannot be read: {error}") from error
    finally:
        connection.close()
    if not 3 <= version <= FORMAT:
        raise Unavailable(f"{source.path} has format {version}; formats 3 to {FORMAT} can be examined")
    return version
