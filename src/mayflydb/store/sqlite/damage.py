"""Remembers the damage that was found in the file.

A check that fails says that this file is not as it was written, and not how much of it. So from then on "not found" is no
answer: the record may be there, and its index damaged.
"""

from __future__ import annotations

import logging

import apsw

from mayflydb.model.errors import Corrupt

log = logging.getLogger(__name__)

_KINDS = (apsw.CorruptError, apsw.NotADBError)
_CODES = frozenset({apsw.SQLITE_IOERR_DATA, apsw.SQLITE_IOERR_CORRUPTFS})
"""Extended codes of I/O errors: a page does not match its checksum; the file system found damage of its own."""


class Damage:
    """The first damage that was found since the store was opened; `found` None: none."""

    def __init__(self) -> None:
        self.found: str | None = None

    def note(self, error: BaseException) -> None:
        """Remember damage, and log the first."""
        if self.found is None:
            self.found = f"the store file is damaged: {describe(error)}"
            log.critical("%s; stop the server and run `mayfly doctor`", self.found)

    def refuse_absence(self) -> None:
        """Raise Corrupt if the file is known to be damaged: a record that was not found may be there."""
        if self.found is not None:
            raise Corrupt(f"not found, which may be wrong: {self.found}")


def describe(error: BaseException) -> str:
    """Describe damage. SQLite calls a page that does not match its checksum an I/O error."""
    checked = getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_DATA
    return "a page does not match its checksum" if checked else str(error)


def is_damage(error: BaseException) -> bool:
    """Return whether an error of SQLite says that the file is not as it was written."""
    return isinstance(error, _KINDS) or getattr(error, "extendedresult", 0) in _CODES
