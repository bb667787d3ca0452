"""The interface of the snapshots of a store."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from typing import Final, Protocol

from mayflydb.model.snapshots import SavedSnapshot
from mayflydb.store.interface import CatalogRow

RESTORES: Final = "restores"
"""The named number of restores of a store. Each one adds to it, in its transaction: positions in a history that was undone have
a smaller one.
"""


class Snapshots(Protocol):
    """The snapshots of one store: whole copies, which outlive the process if the store does."""

    async def list_all(self) -> list[SavedSnapshot]:
        """Return all snapshots that can be read, by name."""

    async def find(self, name: str) -> SavedSnapshot:
        """Return one snapshot. NotFound, Corrupt."""

    async def save(self, name: str, describe_state: Callable[[], Awaitable[bytes]]) -> SavedSnapshot:
        """Copy the present state under a name, in the place of a snapshot that had it.

        `describe_state`: returns what is kept with it, asked once the state that is copied is fixed. BadRequest for a name that
        is none, Conflict if there are too many, OutOfSpace.
        """

    async def restore(self, name: str, kept: Sequence[str], rising: Sequence[str], swapped: Callable[[], None]) -> int:
        """Replace everything that is stored by a snapshot, in one transaction. Writes and reads wait. Return the number of
        records that are left out because their keys were destroyed.

        `kept`: the named numbers that stay as they are; `rising`: those that keep the larger value. `swapped`: called when the
        change is visible, before anything is read. Errors: NotFound, Corrupt, OutOfSpace, Unavailable; Conflict
        if it is sealed with other keys. Then nothing was done.
        """

    async def delete(self, name: str) -> None:
        """Remove a snapshot. NotFound."""

    def read(self, name: str) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of a snapshot. NotFound."""

    async def receive(
        self, name: str, parts: AsyncIterator[bytes], size: int, accept: Callable[[bytes, Sequence[CatalogRow]], None]
    ) -> SavedSnapshot:
        """Take the bytes that `read` of this or another store gave. `size`: their number, 0: not known.

        `accept`: gets what was kept with it, and its catalogue, on a thread, before it is taken. Errors: its own; BadRequest if
        they are no snapshot, Conflict if there are too many, OutOfSpace, TooLarge, Overloaded while another one is received.
        """
