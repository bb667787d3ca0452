"""The interface of a store: ordered bytes, read by requests that are data, written by decisions that commit together.

A *read* is a struct that describes a request; `Store.read` answers it from committed state. A *decision* is a generator that
yields reads, is resumed with their answers inside the write transaction, and returns an `Outcome`: changes, and a reply for the
caller. Decisions are pure: they neither wait nor do I/O nor read a clock, so a store may run one again. The store takes the
decisions that are queued and runs one after the other; each sees the changes of those before it. The store applies the changes,
commits once, and only then answers. An exception that a decision raises leaves no trace and goes to the caller of that decision
alone.

A store knows no policy: it never compares a time with a time, and is given the bounds of due paths.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

import msgspec

from mayflydb.model.due import Path
from mayflydb.model.instant import Instant, Span
from mayflydb.model.order import Identity, KeyRange, Order, Position
from mayflydb.model.record import Entry, Expiry, Record, Totals, Version
from mayflydb.store.segments import BeginSegment, ForgetSegments, KeySegment, ShredEmpty, ShredUndone

T = TypeVar("T")

PAGE_BYTES = 1 << 20
"""A scan stops after the record that takes it over this many bytes of values."""


class Read(msgspec.Struct, Generic[T], frozen=True):
    """A request whose answer is a T."""


class CatalogRow(msgspec.Struct, frozen=True):
    """A row of the catalogue. Names are unique below one parent, and ids are never used again; `data` is encoded by the engine.

    `lsn` and `seq` are the last numbers that were allocated in this container.
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
    """Records with lower <= partition < upper (`upper` None: no bound), in order, after a position.

    The answer is a page of at most `limit` records, fewer when PAGE_BYTES is reached. Only an empty page is the end.
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

    The entries of a record are in order of index, then key.
    """

    container: int
    after_seq: int
    limit: int


class SeekIndex(Read["tuple[int, ...] | None"], frozen=True):
    """The seqs of the records that own entries of this index in one of the ranges: ascending, each once.

    None if the ranges hold more than `limit` entries in all.
    """

    container: int
    index: int
    ranges: tuple[KeyRange, ...]
    limit: int


class Fetch(Read["list[Record]"], frozen=True):
    """The records with these ascending seqs, without those that are missing: a page, so only an empty answer says that none is
    left.
    """

    container: int
    seqs: tuple[int, ...]


class FetchRange(Read["list[Record] | None"], frozen=True):
    """The records that own entries of this index in a range: by seq, each once.

    None if the range holds more than `limit` entries, or their records do not fit into a page.
    """

    container: int
    index: int
    range: KeyRange
    limit: int


class ScanIndex(Read["list[tuple[bytes, Record]]"], frozen=True):
    """The entries of an index in a range as (key, record): by key then seq, or in exactly the opposite order.

    A record with several entries in the range comes once for each; the caller removes duplicates. `after`: (key, seq) of the last
    entry of the page before. A page has at most `limit` entries, fewer when PAGE_BYTES is reached. Only an empty page is the end.
    """

    container: int
    index: int
    range: KeyRange
    descending: bool
    after: tuple[bytes, int] | None
    limit: int


class CompetingRule(msgspec.Struct, frozen=True):
    """Another rule of the container, by which a record may expire earlier than by the rule of a purge.

    Its deadline is max(path value + span, not_before); `span` None adds nothing, where the path value is a deadline already.
    `wins_tie`: of two equal deadlines, this rule's counts as the earlier one.
    """

    path: Path
    span: Span | None
    not_before: Instant | None
    wins_tie: bool


class Due(Read["list[Record]"], frozen=True):
    """Records on a due path with value <= `upto`, by path value then seq: a page, as in `Scan`.

    `after`: (path value, seq) of the last record of the page before.
    """

    container: int
    path: Path
    upto: Instant
    after: tuple[int, int] | None
    limit: int


class NextDue(Read["Instant | None"], frozen=True):
    """The smallest value on a due path that is greater than `after`; `after` None: the smallest of all. `spared`: records to
    ignore.
    """

    container: int
    path: Path
    after: Instant | None
    spared: tuple[Identity, ...] = ()


class CountDue(Read["tuple[int, ...]"], frozen=True):
    """The number of records on a due path at or below each bound. Bounds ascend."""

    container: int
    path: Path
    upto: tuple[Instant, ...]


class Count(Read[Totals], frozen=True):
    """The totals of a container, hidden records included."""

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
    """The ids of containers that were dropped and still have stored records or versions."""


class Expiries(Read["list[Expiry]"], frozen=True):
    """Expiry events with id > `after`, by id: those of one container, or of all (`container` None)."""

    container: int | None
    after: int
    limit: int


class LastExpiry(Read[int], frozen=True):
    """The id of the newest expiry event that is stored; 0 if none is."""


class History(Read["list[Version]"], frozen=True):
    """The versions in a container's history with lsn > `after`, by lsn: a page, as in `Scan`."""

    container: int
    after: int
    limit: int


MAX_HELD = 10_000
"""The most records locked by other nodes that a purge of one container can leave out. While there are more, it purges nothing."""


class HeldRecords(Read["tuple[Identity, ...] | None"], frozen=True):
    """The identities of records that open transactions of other nodes have locked in a container; None if there are too many.

    `purging`, in decisions only: until this transaction ends, a node that locks a record of the container waits before it reads
    the record. Errors: with `purging`, Unavailable while another node may have locks that it has not announced to this one.
    """

    container: int
    purging: bool = False


class StillHeld(Read[bool], frozen=True):
    """In decisions only: True if this node has held these records ever since it announced them (numbers of `Holds`)."""

    numbers: tuple[int, ...]


class NamedNumber(Read["int | None"], frozen=True):
    """A named whole number of the store, such as the high-water mark of the clock; None if it was never set."""

    name: str


class KeySegments(Read[list[KeySegment]], frozen=True):
    """The segments of a container, or of all (`container` None), by container, then `first`. Versions before the first one are
    plain.
    """

    container: int | None


class CountPlain(Read[int], frozen=True):
    """The number of records of a container whose values are not sealed."""

    container: int


class KeyBytes(Read["tuple[int, ...]"], frozen=True):
    """The bytes of the keys of all entries of each of these indexes, in their order; hidden records included."""

    container: int
    indexes: tuple[int, ...]


class KnownDamage(Read["str | None"], frozen=True):
    """The damage that a check of this store has found since it was opened, in words; None: none. Not in decisions.

    While there is any, a `Get` that finds nothing raises Corrupt: the record may be there, and its index damaged.
    """


class Allocate(Read["tuple[int, int]"], frozen=True):
    """In decisions only: the next lsn of a container and, with `seq`, its next sequence number (else 0). Gaps are allowed."""

    container: int
    seq: bool


class NewId(Read[int], frozen=True):
    """In decisions only: a catalogue id that was never used."""


# --- changes ---------------------------------------------------------------------------------------------------------


class Put(msgspec.Struct, frozen=True):
    """Insert the record, or replace the one with its seq. `entries` None: the entries stay; else they replace all entries of the
    record.

    A version may be put again with another anchor or other dates: its lsn stays then.
    """

    container: int
    record: Record
    insert: bool
    entries: tuple[Entry, ...] | None = None


class Delete(msgspec.Struct, frozen=True):
    """Remove a record and its entries. Its seq may be inserted again in the same outcome, under another key.

    `expiry`: the event to write if the record expired; the store gives the event its `id`. Its container is another one where the
    record stands for a version that left that container before.
    """

    container: int
    record: Record
    expiry: Expiry | None = None


class Purge(msgspec.Struct, frozen=True):
    """Remove up to `limit` records on a due path with value <= `upto`, oldest first, with their entries; write an event for each.

    An event has deadline = max(anchor + (span, or the record's own ttl), not_before). Its anchor is that of the record, or the
    date in the slot. The answer is a `Purged` in `Committed.purged`.

    `history`: each expiry is a version in the container's history too, with the lsn of its event. Its value is empty; with
    `stamp`, these bytes followed by the record's value. `competing`: a record that expires earlier by one of these rules is left
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
    """Add a version to a container's history."""

    container: int
    version: Version


class TrimHistory(msgspec.Struct, frozen=True):
    """Remove up to `limit` versions with written <= `upto`, or lsn <= `upto_lsn`, from a history, oldest first.

    The last of them stays in its place as a GAP, so that a reader from before it learns that versions are missing.
    """

    container: int
    upto: Instant
    limit: int
    upto_lsn: int = 0


class ClearDropped(msgspec.Struct, frozen=True):
    """Remove up to `limit` records of a dropped container, without events; or up to `limit` versions once no record is left.

    The id of the container leaves `DroppedContainers` when nothing is left of it. `history`: versions are removed too.
    """

    container: int
    limit: int
    history: bool = True


class ReplaceEntries(msgspec.Struct, frozen=True):
    """Give each of these stored records entries of one index with these keys, in place of its entries of that index.

    Without keys a record owns no entry of that index from then on.
    """

    container: int
    index: int
    entries: tuple[tuple[Record, tuple[bytes, ...]], ...]


class RemoveEntries(msgspec.Struct, frozen=True):
    """Remove up to `limit` entries of an index. The answer is a `Purged` whose `records` counts entries."""

    container: int
    index: int
    limit: int


class PutRow(msgspec.Struct, frozen=True):
    """Insert or replace a catalogue row by id (`lsn` and `seq` of an existing row stay)."""

    row: CatalogRow


class DropRow(msgspec.Struct, frozen=True):
    """Remove a catalogue row. Its records become unreachable at once and are removed later by `ClearDropped`."""

    id: int


class SetNumber(msgspec.Struct, frozen=True):
    """Set a named whole number; with `rising`, only to a larger one than it is."""

    name: str
    value: int
    rising: bool = False


class TrimEvents(msgspec.Struct, frozen=True):
    """Remove up to `limit` expiry events with id <= `upto`."""

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
    | BeginSegment
    | ShredEmpty
    | ShredUndone
    | ForgetSegments
)


class Purged(msgspec.Struct, frozen=True):
    """The result of one Purge, ClearDropped or RemoveEntries."""

    records: int
    value_bytes: int


# --- writing ---------------------------------------------------------------------------------------------------------


class Outcome(msgspec.Struct, Generic[T], frozen=True):
    """The result of a decision: the changes to commit, and the reply to give once they are committed."""

    changes: tuple[Change, ...]
    reply: T


class Committed(msgspec.Struct, Generic[T], frozen=True):
    """The result of a committed decision. Stores alone build it, after COMMIT has returned; success is answered from nothing
    else.

    `held`: the time for which a sweep occupied the writer (0 where the store does not measure it).
    """

    reply: T
    commit_seq: int
    purged: tuple[Purged, ...] = ()
    held: Span = 0


Decision: TypeAlias = Generator[Read[Any], Any, Outcome[T]]
Urgency = Literal["user", "sweep"]


def ask(read: Read[T]) -> Generator[Read[Any], Any, T]:
    """Ask for a read inside a decision, with a typed answer: `answer = yield from ask(read)`."""
    answer: T = yield read
    return answer


class DiskFacts(msgspec.Struct, frozen=True):
    """The space of a store's disk, in bytes. `least`: below so many free bytes, writes that make the store grow are refused.

    `reserve`: the space that is kept for purges on a full disk, of the `reserve_wanted`. `short`: writes are refused now.
    `refused`: writes that were refused since the start.
    """

    free: int
    least: int
    reserve: int
    reserve_wanted: int
    short: bool
    refused: int


class Holds(Protocol):
    """The locked records of this node, as a store that several nodes share announces them. Other nodes do not purge a held
    record.
    """

    async def hold(self, container: int, identity: Identity) -> int:
        """Hold a record and return the number by which it is released. A purge that does not see the hold has ended by then.

        Errors: Unavailable, and nothing is held.
        """

    def release(self, numbers: Iterable[int]) -> None:
        """End these holds. Other nodes learn of it soon afterwards."""


class Store(Protocol):
    """Errors: Unavailable (nothing was done), OutcomeUnknown (the commit failed midway), Corrupt (a checksum is wrong)."""

    @property
    def description(self) -> str:
        """`memory`, `sqlite:///absolute/path` or `postgresql://host/db`, without secrets."""

    @property
    def durable(self) -> bool:
        """True if a commit survives the process."""

    @property
    def catalog_version(self) -> int:
        """A number that grows whenever a committed catalogue row appears, changes its definition or goes.

        While it stays the same, copies of the catalogue stay valid.
        """

    async def read(self, request: Read[T]) -> T:
        """Answer from committed state. One request is one consistent view."""

    async def write(self, decide: Callable[[], Decision[T]], urgency: Urgency = "user") -> Committed[T]:
        """Run the decision in the next group and return after its commit.

        `sweep` decisions wait behind user decisions and take at most about half of the writer's time. `decide` makes a new
        generator at each call; the store calls it again if the transaction has to be run again.
        """

    async def reset(self) -> None:
        """Remove everything: rows, records, events, named numbers but that of restores. Ids are still never used again."""

    async def close(self) -> None:
        """Finish the decisions that are queued, then release everything."""
