"""The embedded store: SQLite through apsw, one writer, group commit, bounded log."""

from mayflydb.store.sqlite.space import SpaceLimits
from mayflydb.store.sqlite.store import SqliteStore

__all__ = ["SpaceLimits", "SqliteStore"]
