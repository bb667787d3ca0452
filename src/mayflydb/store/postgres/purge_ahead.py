"""The reads of a purge, in one statement: the locks of other nodes, and what the decision asks for after them."""

from __future__ import annotations

from typing import Final

from mayflydb.model.due import Path
from mayflydb.model.instant import Instant
from mayflydb.model.order import Identity
from mayflydb.store import interface
from mayflydb.store.postgres.holds import Holds
from mayflydb.store.postgres.reads import FIRST_DUE, Connection

_COLUMNS: Final = (*FIRST_DUE.values(), "SELECT EXISTS (SELECT 1 FROM mayfly.entry WHERE container = $1)")


class Known:
    """Facts of a container that hold under its lock, until its records change otherwise than by purges.

    `first_due`: the smallest value on a due path, without the records that are spared. A purge that begins there passes over
    what earlier purges have left in the index. `is_bare`: no record has entries.
    """

    __slots__ = ("first_due", "is_bare")

    def __init__(self) -> None:
        self.first_due: dict[tuple[Path, tuple[Identity, ...]], Instant | None] = {}
        self.is_bare = False

    async def read(
        self, connection: Connection, holds: Holds, request: interface.HeldRecords
    ) -> tuple[Identity, ...] | None:
        """Answer `HeldRecords`, and learn the rest."""
        held, (*values, has_entries) = await holds.read_held_with(connection, request, _COLUMNS)
        self.first_due.update({(path, ()): value for path, value in zip(FIRST_DUE, values, strict=True)})
        self.is_bare = not has_entries
        return held
