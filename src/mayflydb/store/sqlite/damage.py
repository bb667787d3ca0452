"""Remembers the damage that was found in the file.

A failed check shows that the file has changed, and not how much of it. So from then on "not found" is an error: the record may
exist, and its index may be damaged.
"""

from __future__ import annotations

import logging
import struct

import apsw

from mayflydb.model.errors import Corrupt

log = logging.getLogger(__name__)

_KINDS = (apsw.CorruptError, apsw.NotADBError)
_CODES = frozenset({apsw.SQLITE_IOERR_DATA, apsw.SQLITE_IOERR_CORRUPTFS})
"""Extended codes of I/O errors: a page does not match its checksum; the file system found damage of its own."""
UNREADABLE = (TypeError, ValueError, OverflowError, struct.error)
"""Errors of Python about a row whose columns do not have the types that were written: its page was read in part, or changed."""
READ_ERRORS = (apsw.Error, Corrupt, *UNREADABLE)
"""Errors of a read that `is_damage` tells apart."""


class Damage:
    """The first damage since the store was opened. `found`: its description; None: no damage was found."""

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
    if isinstance(error, UNREADABLE):
        return f"a row is not as it was written: {error}"
    checked = getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_DATA
    return "a page does not match its checksum" if checked else str(error)


def is_damage(error: BaseException) -> bool:
    """Return True if an error of a read or a write means that the file is damaged."""
    return isinstance(error, (*_KINDS, Corrupt, *UNREADABLE)) or getattr(error, "extendedresult", 0) in _CODES
