"""Mayfly: a database in which every record knows when it dies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mayflydb.version import __version__

if TYPE_CHECKING:
    from mayflydb.embedded import serve
    from mayflydb.embedded.databases import open_database as open  # noqa: A004 - as gzip.open and shelve.open

__all__ = ["__version__", "open", "serve"]


def __getattr__(name: str) -> object:
    # Loaded when it is asked for: the command line and the pytest plugin import this package and need nothing of it.
    if name == "serve":
        from mayflydb.embedded import serve

        return serve
    if name == "open":
        from mayflydb.embedded.databases import open_database

        return open_database
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
