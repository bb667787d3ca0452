"""One write transaction over several containers: decided inside the writer, at one instant, committed as a whole."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Any, TypeAlias, TypeVar

from mayflydb.engine.catalog import OWNER_MISSING, Node, Nodes
from mayflydb.engine.commands import Command, RecordChange, Written
from mayflydb.engine.lifecycle.access_ages import AccessAges, WriteTally
from mayflydb.engine.locks import LockHolder, Locks
from mayflydb.engine.ordered_histories import STAMP, next_stamp
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

Decided: TypeAlias = tuple[T, tuple[ExpirableRecords, ...], Callable[[Instant], None] | None, Instant]
"""The reply of a decision for the engine itself: the caller's reply, records that may expire, what takes note of the writes while
accesses are sampled, the instant of the write.
"""


class WriteTransaction:
    """The workspaces of the containers that a body uses; all of them decide by the same `now`."""

    __slots__ = (
        "_holder", "_latest", "_locks", "_lsns", "_nodes", "_sampler", "_spaces", "_stamps", "author", "now",
        "publishes", "rolls_up",
    )  # fmt: skip

    def __init__(
        self,
        nodes: Nodes,
        now: Instant,
        locks: Locks | None = None,
        holder: LockHolder | None = None,
        sampler: AccessAges | None = None,
        latest: Instant = 0,
    ) -> None:
        """`locks`, `holder`, `latest`: as in Workspace. `sampler`: takes note of what clients write."""
        self.now = now
        self._nodes = nodes
        self._locks = locks
        self._holder = holder
        self._sampler = sampler
        self._latest = latest
        self._spaces: dict[int, Workspace] = {}
        self._lsns: dict[int, int] = {}
        self._stamps: dict[int, bytes] = {}
        self.author = ""
        """The user whose writes these are, for publishers; empty: not known."""
        self.publishes = False
        """True: a container is in use whose changes are published."""
        self.rolls_up = False
        """True: a container is in use whose expired records are rolled up."""

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
                self._nodes.of(row), self.now, self._stamps, self._locks, self._holder, self._nodes.hold_filters
            )
            space.latest = self._latest
            if self._sampler is not None:
                space.tally = WriteTally()
            # Before the first allocation here: read sets are checked against the commits of others alone.
            self._lsns[container] = row.lsn
            if space.expired is not None:
                self.rolls_up = True
            if space.published is not None:
                self.publishes = True
        return space

    def find(self, container: int) -> Generator[Read[Any], Any, Workspace | None]:
        """Return the workspace of a container as `on` does; None if the container is gone."""
        if container not in self._spaces and (yield LoadRow(container)) is None:
            return None
        return (yield from self.on(container))

    def number(self, orderer: int) -> Generator[Read[Any], Any, int]:
        """Return the number of this transaction among all that a node orders; later ones have greater numbers."""
        stamp = yield from next_stamp(orderer, self._stamps)
        number: int = STAMP.unpack(stamp)[0]
        return number

    def lsn(self, container: int) -> int:
        """Return the last lsn that was allocated in a container before this transaction used it."""
        return self._lsns[container]

    def take_expired(self) -> list[tuple[Node, list[tuple[Record, Instant]]]]:
        """Return the records, with their deadlines, that have expired and are not rolled up yet, by container."""
        found = []
        for space in self._spaces.values():
            if space.expired:
                found.append((space.node, space.expired))
                space.expired = []
        return found

    def take_published(self) -> list[tuple[Node, list[RecordChange]]]:
        """Return the changes that are not published yet, by container."""
        found = []
        for space in self._spaces.values():
            if space.published:
                found.append((space.node, space.published))
                space.published = []
        return found

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

    @property
    def take_note(self) -> Callable[[Instant], None] | None:
        """The function that takes note of the writes once they have committed; None: there is none."""
        if self._sampler is None:
            return None
        tallies = [(space.node, space.tally) for space in self._spaces.values() if space.tally is not None]
        return partial(self._sampler.note_transaction, tallies)

    def replaced_versions(self) -> list[tuple[int, list[Replaced]]]:
        """Return the versions that end with this transaction, by container."""
        return [(container, space.replaced) for container, space in self._spaces.items() if space.replaced]


Body: TypeAlias = Callable[[WriteTransaction], Generator[Read[Any], Any, T]]
"""The work of a transaction: pure, since it may run again. It yields the reads of a decision; reads outside of a workspace
see stored data without the writes of this transaction. An exception undoes everything; a refusal of `Workspace.run` that the
body catches has changed nothing.
"""


def body_of(container: int, command: Command) -> Body[Written]:
    """Return the body of a transaction that runs one command."""

    def body(transaction: WriteTransaction) -> Generator[Read[Any], Any, Written]:
        space = yield from transaction.on(container)
        return (yield from space.run(command))

    return body
