"""What a store is: ordered bytes, read by requests that are data, written by decisions that commit together.

A *read* describes what is wanted; `Store.read` answers it from committed state. A *decision* is a generator that yields
reads, is resumed with their answers inside the write transaction, and returns an `Outcome`: changes, and a reply for the
caller. Decisions are pure: no waiting, no I/O, no clock. The store takes whatever decisions are queued, runs one after
the other (each sees the changes of those before it), applies, commits once, and only then answers. An exception raised by a
decision leaves no trace and goes to its caller alone.

A store knows no policy: it never compares a time with a time, and bounds of due paths are handed to it ready-made.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

import msgspec

from mayflydb.model.due import Path
from mayflydb.model.instant import Instant, Span
from mayflydb.model.order import Identity, KeyRange, Order, Position
from mayflydb.model.record import Entry, Expiry, Record, Totals, Version

T = TypeVar("T")

PAGE_BYTES = 1 << 20
"""A scan stops after the record that takes it over this many bytes of values."""


class Read(msgspec.Struct, Generic[T], frozen=True):
    """A request whose answer is a T."""


class CatalogRow(msgspec.Struct, frozen=True):
    """A catalogue row. `data` is the engine's business; names are unique below one parent; ids are never used again.

    `lsn` and `seq` are the last numbers given out in this container.
    """

    id: int
    parent: int
    name: str
    data: bytes
    lsn: int = 0
    seq: int = 0


# --- reads -----------------------------------------------------------------------------------------------------------


class Get(Read["Record | None"], frozen=True):
    """The record with this identity."""

    container: int
    partition: bytes
    key: bytes


class Scan(Read["list[Record]"], frozen=True):
    """Records with lower <= partition < upper (upper None: no bound), in order, after a position.

    At most `limit`, and fewer when PAGE_BYTES is reached: only an empty answer is the end.
    """

    container: int
    lower: bytes
    upper: bytes | None
    order: Order
    after: Position | None
    limit: int


class EntryOwners(Read["list[Record]"], frozen=True):
    """The records that own an entry equal to one of these, each once, by seq."""

    container: int
    entries: tuple[Entry, ...]


class Entries(Read["list[tuple[int, tuple[Entry, ...]]]"], frozen=True):
    """(seq, entries) of the records with seq > `after_seq` that own entries: at most `limit` records, by seq.

    A record's entries are in order of index, then key.
    """

    container: int
    after_seq: int
    limit: int


class SeekIndex(Read["tuple[int, ...] | None"], frozen=True):
    """The seqs, ascending, each once, of the records that own entries of this index in one of the ranges.

    None: the ranges hold more than `limit` entries in all.
    """

    container: int
    index: int
    ranges: tuple[KeyRange, ...]
    limit: int


class Fetch(Read["list[Record]"], frozen=True):
    """The records with these ascending seqs, as far as they are there: a page, so only an empty answer says that none is."""

    container: int
    seqs: tuple[int, ...]


class ScanIndex(Read["list[tuple[bytes, Record]]"], frozen=True):
    """(key, record) of the entries of an index in a range, by key then seq, or exactly the other way round.

    A record that owns several of them comes as often: whoever wants it once remembers what he has seen.
    `after`: (key, seq) of the last one seen. At most `limit`, fewer when PAGE_BYTES is reached: only an empty answer is the end.
    """

    container: int
    index: int
    range: KeyRange
    descending: bool
    after: tuple[bytes, int] | None
    limit: int


class CompetingRule(msgspec.Struct, frozen=True):
    """Another rule of the container, by which a record may expire earlier: deadline = max(path value + (span, or nothing where the value is a deadline), not_before).

    `wins_tie`: the rule comes first where deadlines are equal.
    """

    path: Path
    span: Span | None
    not_before: Instant | None
    wins_tie: bool


class Due(Read["list[Record]"], frozen=True):
    """Records on a due path with value <= upto, by path value then seq. `after` = (path value, seq) of the last one seen."""

    container: int
    path: Path
    upto: Instant
    after: tuple[int, int] | None
    limit: int


class NextDue(Read["Instant | None"], frozen=True):
    """The smallest value on a due path that is greater than `after` (None: the smallest of all).

    `spared`: records that do not count.
    """

    container: int
    path: Path
    after: Instant | None
    spared: tuple[Identity, ...] = ()


class CountDue(Read["tuple[int, ...]"], frozen=True):
    """How many records on a due path lie at or below each bound. Bounds ascend."""

    container: int
    path: Path
    upto: tuple[Instant, ...]


class Count(Read[Totals], frozen=True):
    """What a container holds, hidden records included."""

    container: int
    with_bytes: bool = False


class FindRow(Read["CatalogRow | None"], frozen=True):
    """The catalogue row with this name below this parent."""

    parent: int
    name: str


class LoadRow(Read["CatalogRow | None"], frozen=True):
    """The catalogue row with this id."""

    id: int


class ChildRows(Read["list[CatalogRow]"], frozen=True):
    """The catalogue rows below a parent, by id."""

    parent: int


class DroppedContainers(Read["list[int]"], frozen=True):
    """Containers that were dropped and still have stored records."""


class Expiries(Read["list[Expiry]"], frozen=True):
    """Expiry events with id > after, by id; of one container, or of all (None)."""

    container: int | None
    after: int
    limit: int


class History(Read["list[Version]"], frozen=True):
    """The versions in a container's history with lsn > after, by lsn.

    At most `limit`, and fewer when PAGE_BYTES is reached: only an empty answer is the end.
    """

    container: int
    after: int
    limit: int


MAX_HELD = 10_000
"""Records of a container that other nodes hold and a purge can leave out; while there are more, nothing is purged in it."""


class HeldRecords(Read["tuple[Identity, ...] | None"], frozen=True):
    """The records of a container that open transactions of other nodes have locked; None: more than a purge can leave out.

    `purging`, in decisions: a node that locks a record meanwhile does not read it before this transaction has ended. Unavailable
    while other nodes may have locked what this one cannot know of.
    """

    container: int
    purging: bool = False


class StillHeld(Read[bool], frozen=True):
    """Inside decisions only: whether these records have been held since they were told (numbers of `Holds`)."""

    numbers: tuple[int, ...]


class NamedNumber(Read["int | None"], frozen=True):
    """A named whole number of the store (the clock's mark, for one)."""

    name: str


class Allocate(Read["tuple[int, int]"], frozen=True):
    """Inside decisions only: the next lsn of a container and, with `seq`, its next seq (else 0). Gaps are allowed."""

    container: int
    seq: bool


class NewId(Read[int], frozen=True):
    """Inside decisions only: a catalogue id that was never used."""


# --- changes ---------------------------------------------------------------------------------------------------------


class Put(msgspec.Struct, frozen=True):
    """Insert the record, or replace the one with its seq. `entries` None: as they are; else all its entries from now on."""

    container: int
    record: Record
    insert: bool
    entries: tuple[Entry, ...] | None = None


class Delete(msgspec.Struct, frozen=True):
    """Remove a record and its entries; its seq may be inserted again in the same outcome, under another key.

    `expiry`: the event to write if it died of age (its `id` is given by the store)."""

    container: int
    record: Record
    expiry: Expiry | None = None


class Purge(msgspec.Struct, frozen=True):
    """Remove up to `limit` records on a due path with value <= `upto`, oldest first, with their entries; write events.

    An event has deadline = max(anchor + (span, or the record's own ttl), not_before). Its anchor is that of the record, or the date
    in the slot. The answer is a `Purged` in `Committed.purged`.

    `history`: each expiry is a version in the container's history too, with the lsn of its event. Its value is empty;
    with `stamp`, these bytes followed by the record's value. `competing`: a record that expires earlier by one of these rules is left
    to that rule's purge. `spared`: records that stay, and do not count towards the limit.
    """

    container: int
    path: Path
    upto: Instant
    limit: int
    span: Span | None
    not_before: Instant | None
    cause: str
    rule_version: int
    purged: Instant
    how: str
    history: bool = False
    competing: tuple[CompetingRule, ...] = ()
    stamp: bytes | None = None
    spared: tuple[Identity, ...] = ()


class AddVersion(msgspec.Struct, frozen=True):
    """Add a line to a container's history."""

    container: int
    version: Version


class TrimHistory(msgspec.Struct, frozen=True):
    """Forget up to `limit` versions with written <= upto, oldest first. The last of them stays in its place as a GAP."""

    container: int
    upto: Instant
    limit: int


class ClearDropped(msgspec.Struct, frozen=True):
    """Remove up to `limit` records of a dropped container, without events, or up to `limit` versions if no record is left.

    Forget the container once it is empty.
    """

    container: int
    limit: int


class ReplaceEntries(msgspec.Struct, frozen=True):
    """Give each of these stored records entries of an index with these keys, each once, in place of those of it that it has.

    No keys: from now on the record owns no entry of that index.
    """

    container: int
    index: int
    entries: tuple[tuple[Record, tuple[bytes, ...]], ...]


class RemoveEntries(msgspec.Struct, frozen=True):
    """Remove up to `limit` entries of an index. The answer is a `Purged` whose `records` are entries."""

    container: int
    index: int
    limit: int


class PutRow(msgspec.Struct, frozen=True):
    """Insert or replace a catalogue row by id (`lsn` and `seq` of an existing row stay)."""

    row: CatalogRow


class DropRow(msgspec.Struct, frozen=True):
    """Remove a catalogue row; its records become unreachable at once and are cleared later."""

    id: int


class SetNumber(msgspec.Struct, frozen=True):
    """Set a named whole number; with `rising` only to a larger one than it is."""

    name: str
    value: int
    rising: bool = False


class TrimEvents(msgspec.Struct, frozen=True):
    """Forget up to `limit` expiry events with id <= upto."""

    upto: int
    limit: int


Change: TypeAlias = (
    Put
    | Delete
    | Purge
    | AddVersion
    | TrimHistory
    | ClearDropped
    | ReplaceEntries
    | RemoveEntries
    | PutRow
    | DropRow
    | SetNumber
    | TrimEvents
)


class Purged(msgspec.Struct, frozen=True):
    """What one Purge, Clear or Unlink did."""

    records: int
    value_bytes: int


# --- writing ---------------------------------------------------------------------------------------------------------


class Outcome(msgspec.Struct, Generic[T], frozen=True):
    """What a decision came to: changes to commit, and the reply to give once they are."""

    changes: tuple[Change, ...]
    reply: T


class Committed(msgspec.Struct, Generic[T], frozen=True):
    """Made by stores alone, after COMMIT returned: the only thing from which success may be answered.

    `held`: for how long a sweep kept the writer from others (0 where the store does not measure it).
    """

    reply: T
    commit_seq: int
    purged: tuple[Purged, ...] = ()
    held: Span = 0


Decision: TypeAlias = Generator[Read[Any], Any, Outcome[T]]
Urgency = Literal["user", "sweep"]


def ask(read: Read[T]) -> Generator[Read[Any], Any, T]:
    """`answer = yield from ask(read)`: a read inside a decision, typed."""
    answer: T = yield read
    return answer


class Holds(Protocol):
    """A store that other processes share: they purge nothing that this one holds."""

    async def hold(self, container: int, identity: Identity) -> int:
        """Hold a record: its number, by which it is released. A purge that does not know of it has ended then.

        Errors: Unavailable, and nothing is held.
        """

    def release(self, numbers: Iterable[int]) -> None:
        """Hold these no more. Others get to know soon."""


class Store(Protocol):
    """Errors: Unavailable (nothing was done), OutcomeUnknown (commit failed midway), Corrupt (checksum)."""

    @property
    def description(self) -> str:
        """`memory`, `sqlite:///absolute/path` or `postgresql://host/db`, without secrets."""

    @property
    def durable(self) -> bool:
        """Whether a commit survives the process."""

    @property
    def catalog_version(self) -> int:
        """Grows whenever a committed row appears, changes its definition or goes: equal numbers, equal catalogue."""

    async def read(self, request: Read[T]) -> T:
        """Answer from committed state. One request is one consistent view."""

    async def write(self, decide: Callable[[], Decision[T]], urgency: Urgency = "user") -> Committed[T]:
        """Run the decision in the next group and return after its commit.

        `sweep` decisions wait for user decisions and take at most about half of the writer's time. The factory may be called
        again if the transaction has to be run again.
        """

    async def reset(self) -> None:
        """Forget everything: rows, records, events, settings. Ids still never return."""

    async def close(self) -> None:
        """Finish what is queued, then release everything."""
