"""Brings a database that was just opened to the present format, and begins its next era."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import apsw

from mayflydb.model.errors import Unavailable
from mayflydb.store.sqlite.data_file import DataFile, foreign_log
from mayflydb.store.sqlite.page_checksums import is_verified
from mayflydb.store.sqlite.schema import FORMAT, MIGRATIONS, TABLES
from mayflydb.store.sqlite.transaction import Transaction

log = logging.getLogger(__name__)


def prepare(connection: apsw.Connection, file: DataFile | None = None, keys: Path | None = None) -> Transaction:
    """Recover the log; create the tables of a new database, or migrate older ones; begin the next era of a file, and watch it.

    `keys`: the path of its file of keys. Unavailable for a newer format, for a log that ends before its file, a header that is
    damaged, or a file of keys that is not that of the file.
    """
    version = connection.pragma("user_version")
    if version > FORMAT:
        raise Unavailable(f"the file has format {version}; this version of Mayfly reads formats up to {FORMAT}")
    if version == 0:
        with connection:
            for statement in TABLES.split(";\n"):
                connection.execute(statement)
            rows = [("next_id", 0), ("commit_seq", 0), ("page_checksums", int(is_verified(connection)))]
            connection.executemany("INSERT INTO meta(name, value) VALUES(?, ?)", rows)
            connection.pragma("user_version", FORMAT)
    else:
        _check_meta(connection, file)
        _migrate(connection, version)
    # The recovered log goes into the file before the first write, so that the log starts empty.
    if connection.pragma("journal_mode") == "wal":
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    if file is not None:
        file.watch(_begin_era(connection))
    transaction = Transaction(connection, keys)
    try:
        dropped = transaction.drop_unreadable()
    except BaseException:
        transaction.sealing.close()
        raise
    if dropped:
        log.warning("%d records are left out: their keys were destroyed after this copy of the file was made", dropped)
    return transaction


def _migrate(connection: apsw.Connection, version: int) -> None:
    if version < FORMAT:
        with connection:
            for step in range(version, FORMAT):
                connection.execute(MIGRATIONS[step])
            connection.pragma("user_version", FORMAT)


def _check_meta(connection: apsw.Connection, file: DataFile | None) -> None:
    origin = None if file is None else file.origin
    if file is not None and origin is not None and (_meta(connection, "commit_seq") or 0) < origin.commit_seq:
        raise foreign_log(f"{file.path}-wal", f"it ends before commit {origin.commit_seq}, which the file holds")
    if _meta(connection, "page_checksums") and not is_verified(connection):
        # The number of reserved bytes stands in the header: damaged, it would switch the checksums off.
        raise Unavailable("the header of the file is damaged: its pages have checksums, and the header says otherwise")


def _begin_era(connection: apsw.Connection) -> frozenset[int | None]:
    """Give the file a new era, by which its log is told apart, and return the eras that it may be in from now on."""
    before, era = _meta(connection, "era"), int.from_bytes(os.urandom(7))
    try:
        with connection:
            if before is not None:
                connection.execute("INSERT OR REPLACE INTO meta(name, value) VALUES('before', ?)", (before,))
            connection.execute("INSERT OR REPLACE INTO meta(name, value) VALUES('era', ?)", (era,))
            connection.execute("UPDATE meta SET value = value + 1 WHERE name = 'commit_seq'")
        # Until this checkpoint the file itself is in the era before.
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    except apsw.FullError:
        # A full disk is no reason not to serve: the era goes on, and only copies made meanwhile are not told apart.
        return frozenset({before, _meta(connection, "era")})
    except apsw.BusyError:
        return frozenset({before, era})
    return frozenset({era})


def _meta(connection: apsw.Connection, name: str) -> int | None:
    for (value,) in connection.execute("SELECT value FROM meta WHERE name = ?", (name,)):
        return int(value)
    return None
