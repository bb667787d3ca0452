"""One write transaction over several containers: decided inside the writer, at one instant, committed as a whole."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeAlias, TypeVar

from mayflydb.engine.catalog import OWNER_MISSING, Nodes
from mayflydb.engine.locks import LockHolder, Locks
from mayflydb.engine.version_cache import Replaced
from mayflydb.engine.workspace import Workspace
from mayflydb.expiry.passes import Schedule
from mayflydb.expiry.rules import Rule
from mayflydb.model.errors import OwnerNotFound
from mayflydb.model.instant import Instant
from mayflydb.model.record import Record
from mayflydb.store.interface import CatalogRow, Change, LoadRow, Read

T = TypeVar("T")

ExpirableRecords: TypeAlias = tuple[int, tuple[Rule, ...], Schedule | None, tuple[Record, ...]]
"""(container, its rules, its own schedule, records that may expire)."""


class WriteTransaction:
    """The workspaces of the containers that a body uses; all of them decide by the same `now`."""

    __slots__ = ("_holder", "_locks", "_lsns", "_nodes", "_spaces", "_stamps", "now")

    def __init__(
        self, nodes: Nodes, now: Instant, locks: Locks | None = None, holder: LockHolder | None = None
    ) -> None:
        """`locks`, `holder`: as in Workspace."""
        self.now = now
        self._nodes = nodes
        self._locks = locks
        self._holder = holder
        self._spaces: dict[int, Workspace] = {}
        self._lsns: dict[int, int] = {}
        self._stamps: dict[int, bytes] = {}

    def on(self, container: int) -> Generator[Read[Any], Any, Workspace]:
        """Return the workspace of a container, under its definition in this transaction. OwnerNotFound if the container is
        gone.
        """
        space = self._spaces.get(container)
        if space is None:
            row: CatalogRow | None = yield LoadRow(container)
            if row is None:
                raise OwnerNotFound(OWNER_MISSING)
            space = self._spaces[container] = Workspace(
                self._nodes.of(row), self.now, self._stamps, self._locks, self._holder
            )
            # Before the first allocation here: read sets are checked against the commits of others alone.
            self._lsns[container] = row.lsn
        return space

    def lsn(self, container: int) -> int:
        """Return the last lsn that was allocated in a container before this transaction used it."""
        return self._lsns[container]

    @property
    def shreds(self) -> bool:
        """True if a container of this transaction seals its records, to shred them."""
        return any(space.shreds for space in self._spaces.values())

    @property
    def changes(self) -> tuple[Change, ...]:
        """The changes of all containers."""
        return tuple([change for space in self._spaces.values() for change in space.changes])

    @property
    def expirables(self) -> tuple[ExpirableRecords, ...]:
        """The records that were written in containers with rules."""
        spaces = self._spaces.items()
        return tuple(
            [(id, space.rules, space.schedule, tuple(space.written_records)) for id, space in spaces if space.rules]
        )

    def replaced_versions(self) -> list[tuple[int, list[Replaced]]]:
        """Return the versions that end with this transaction, by container."""
        return [(container, space.replaced) for container, space in self._spaces.items() if space.replaced]


Body: TypeAlias = Callable[[WriteTransaction], Generator[Read[Any], Any, T]]
"""The work of a transaction: pure, since it may run again. It yields the reads of a decision; reads outside of a workspace
see stored data without the writes of this transaction. An exception undoes everything; a refusal of `Workspace.run` that the
body catches has changed nothing.
"""
