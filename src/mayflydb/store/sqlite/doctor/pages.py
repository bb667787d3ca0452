"""Checks of pages and of trees: the checksum of each page, and SQLite's own integrity check."""

from __future__ import annotations

import re
from collections.abc import Iterator

import apsw

from mayflydb.store.findings import ReportProgress, Tally
from mayflydb.store.sqlite.doctor.source import UNREADABLE, ReadOnlyFile

_STEP = 4096
"""Pages between two reports of progress."""

_TRIES = 5
"""The number of failed readings after which a page counts as damaged."""

_OPCODES = 100_000
"""Steps of SQLite between two reports of progress."""

_MESSAGES = 10_000
"""The most lines of SQLite's check that are read. Further lines are of the same kinds."""

_INDEX_MISSES = re.compile(
    r"row \d+ missing from index (\w+)|wrong # of entries in index (\w+)|non-unique entry in index (\w+)"
)


def check_pages(source: ReadOnlyFile, tally: Tally, report: ReportProgress) -> None:
    """Verify that the file is whole, and the checksum of each page. A file without checksums has nothing to verify."""
    if source.missing_pages:
        tally.add("page", "pages are cut off from the end of the file", count=source.missing_pages)
    if not source.verified:
        return
    damaged = list(_damaged_pages(source, report))
    if damaged:
        owners = _owners(source, frozenset(damaged))
        for page in damaged:
            tally.add("page", f"pages of {owners.get(page, 'the file')} do not match their checksums", f"page {page}")


def _damaged_pages(source: ReadOnlyFile, report: ReportProgress) -> Iterator[int]:
    calculator = apsw.Connection(":memory:")
    total = source.pages
    for number in range(1, total + 1):
        if not number % _STEP:
            report("pages", number, total)
        # Read again if it fails: a server may be writing it.
        tries = (calculator.execute("SELECT verify_checksum(?)", (source.page(number),)).get for _ in range(_TRIES))
        if 1 not in tries:
            yield number
    report("pages", total, total)


def _owners(source: ReadOnlyFile, wanted: frozenset[int]) -> dict[int, str]:
    """The table or index of each of these pages, as far as the trees can be read."""
    connection = source.connect(verified=False)
    owners: dict[int, str] = {}
    try:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE rootpage > 0")]
        for name in names:
            try:
                pages = connection.execute("SELECT pageno FROM dbstat WHERE name = ?", (name,))
                owners |= {page: name for (page,) in pages if page in wanted}
            except UNREADABLE:
                continue
    except UNREADABLE:
        return owners
    finally:
        connection.close()
    return owners


def check_trees(source: ReadOnlyFile, tally: Tally, report: ReportProgress) -> None:
    """Run SQLite's integrity check: the form of every page, and each index against its table, both ways."""

    def go_on() -> bool:
        report("trees and indexes", 0, 0)
        return False

    # Unverified: a verified check would end at the first page that does not match its checksum, and those are known already.
    connection = source.connect(verified=False)
    connection.set_progress_handler(go_on, _OPCODES)
    try:
        for line in _lines(connection.execute(f"PRAGMA integrity_check({_MESSAGES})")):
            if line == "ok":
                break
            found = _INDEX_MISSES.search(line)
            if found is None:
                tally.add("structure", "pages cannot be read, or contradict each other", line.splitlines()[-1])
            else:
                name = next(filter(None, found.groups()))
                tally.add("structure", f"the index {name} and its table contradict each other", line)
    except apsw.Error as error:
        tally.add("structure", "SQLite's check broke off", str(error))
    finally:
        connection.close()


def _lines(cursor: apsw.Cursor) -> Iterator[str]:
    """Yield the lines of SQLite's check. They quote names from the file, and a damaged name may be no UTF-8."""
    while True:
        try:
            for (line,) in cursor:
                yield line
            return
        except UnicodeDecodeError as error:
            # The cursor stands behind this line.
            yield error.object.decode(errors="replace")
