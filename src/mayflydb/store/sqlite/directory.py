"""The directory: leads from the identity of a record, and from the hash of its partition, to its row.

It is a tree of its own, in the order of these numbers, where the records of one sweep are far apart: each would cost a page. So a
large sweep leaves the places of its records in the directory, and notes their ids in `purged`. `directory_rounds` removes the
places later, in the order of the tree. Until then a place without a record is stale, and reads step over it.
"""

from __future__ import annotations

from typing import Any

import apsw

from mayflydb.model.errors import Corrupt
from mayflydb.store.rows import hash_number, identity_number
from mayflydb.store.sqlite.schema import HASH, IDENTITY, row_id

FEWEST_STALE = 256
"""The fewest records of a sweep that leaves their places: a smaller one removes them itself."""

ADD = f"INSERT INTO directory(container, kind, number, record) VALUES(?1, {IDENTITY}, ?2, ?4), (?1, {HASH}, ?3, ?4)"
"""Add the places of a record: (container, identity, hash, id)."""

_REMOVE = "DELETE FROM directory WHERE container = ? AND kind = ? AND number = ? AND record = ?"

# One statement for each kind: for a compound of both, SQLite would walk over the whole directory.
_REMOVE_CHOSEN = tuple(
    "DELETE FROM main.directory WHERE (container, kind, number, record) IN"
    f" (SELECT container, {kind}, {number}, id FROM temp.chosen JOIN main.record USING (id))"
    for kind, number in ((IDENTITY, "identity"), (HASH, "hash"))
)
_COVERING = "SELECT first, last FROM purged WHERE first <= ? ORDER BY first DESC LIMIT 1"


def places_of(row: tuple[Any, ...]) -> tuple[int, int, int, int]:
    """The bindings of ADD for a row of `record`, which begins with (id, container, hash, identity)."""
    id, container, hash, identity, *_ = row
    return container, identity, hash, id


def remove_places(connection: apsw.Connection, container: int, seq: int, partition: bytes, key: bytes) -> None:
    """Remove the places of one record."""
    id = row_id(container, seq)
    places = [
        (container, IDENTITY, identity_number(partition, key), id),
        (container, HASH, hash_number(partition), id),
    ]
    connection.executemany(_REMOVE, places)


def leave_places(connection: apsw.Connection, number: int, first: int, last: int) -> None:
    """Remove the places of the `number` chosen records, whose rows still exist, or note that they are stale."""
    if number < FEWEST_STALE:
        for statement in _REMOVE_CHOSEN:
            connection.execute(statement)
    elif is_run(number, first, last):
        connection.execute("INSERT INTO main.purged(first, last) VALUES(?, ?)", (first, last))
    else:
        connection.execute("INSERT INTO main.purged(first, last) SELECT id, id FROM temp.chosen")


def is_run(number: int, first: int, last: int) -> bool:
    """Return True if `number` ids from `first` to `last` are all ids between them."""
    return last - first + 1 == number


class StalePlaces:
    """Tells stale places from damage, during one read."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._first, self._last = 0, -1

    def check(self, id: int) -> None:
        """Raise Corrupt if a place without a record is not stale. A statement must be open, so that both are of one snapshot."""
        if self._first <= id <= self._last:
            return
        for first, last in self._connection.execute(_COVERING, (id,)):
            if id <= last:
                self._first, self._last = first, last
                return
        raise Corrupt(f"record {id} is not there, and the directory names it")
