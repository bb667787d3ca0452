"""Retired versions: versions of records that have left their container, each kept for a purpose that the lifecycle names.

A retired version is a record of a container of its own, a companion of the container that it has left. The transaction that ends
the version writes it there, so neither is there without the other. Versions are kept for a time that begins when they end, and
are removed in that order: those that expired and all others each in their own, since they may be kept for different times.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, Final, Literal

import msgspec

from mayflydb.engine.catalog import NODE_MISSING, ROOT, Definition, Node, Nodes, row_of, with_rules_remembered
from mayflydb.engine.catalog_changes import open_container
from mayflydb.engine.lifecycle.archive_ledger import find_archive, key_of, read_progress
from mayflydb.engine.lifecycle.segments import check_shredding, switch
from mayflydb.expiry.lifecycle import Lifecycle
from mayflydb.expiry.past import Past, find_first_known
from mayflydb.model.due import DuePath
from mayflydb.model.errors import NotFound
from mayflydb.model.instant import SECOND, Instant, Span
from mayflydb.model.order import Identity, Order
from mayflydb.model.record import Record
from mayflydb.store.interface import (
    Allocate,
    CatalogRow,
    Change,
    ChildRows,
    Decision,
    Delete,
    Due,
    FindRow,
    Get,
    LoadRow,
    Outcome,
    Put,
    PutRow,
    Read,
    Scan,
    Store,
    ask,
)

SPACE: Final = "mayfly retired"
"""The name of the node above all containers of retired versions: a space of companions."""

FORGET_BATCH: Final = 256
"""Retired versions that one transaction removes."""

MAX_RETIRED: Final = 1_000_000
"""Retired versions of one container. Beyond them the first ones are removed before their time, and the past begins later."""

End = Literal["expired", "deleted", "replaced"]
"""The way in which a version ended. A version that expired has an expiry event, whose `lsn` is the version's `until`. A version
that was given a new life counts as replaced, even if its successor has its lsn.
"""

MARGIN: Final[Span] = SECOND
"""The span from the end of a version that did not expire to its value on its due path."""

ENDS: Final[tuple[tuple[DuePath, End, Span], ...]] = (
    (DuePath.ANCHOR, "expired", 0),
    (DuePath.DEADLINE, "replaced", MARGIN),
)
"""The due paths that order versions by their ends, an end on each path, and the span from the end to the value on the path."""


class Bequest(msgspec.Struct, frozen=True):
    """The archive that a version waits for, and the facts of its expiry: cause, version of the rule, and deadline."""

    archive: str
    cause: str
    rule_version: int
    deadline: Instant


class RetiredVersion(msgspec.Struct, frozen=True):
    """A version of a record that was stored from its own lsn until the lsn `until`, and ended at the instant `ended`.

    `bequest`: the version goes into an archive. `seq`: its place among the versions of its container, in their order; 0: it has
    none yet.
    """

    record: Record
    end: End
    ended: Instant
    until: int
    bequest: Bequest | None = None
    seq: int = 0

    def was_stored(self, at: Instant) -> bool:
        """Return whether the version was stored at an instant. Of several of one record, that is the one that ended first."""
        return self.record.written <= at < self.ended

    def ended_before(self, other: RetiredVersion | None) -> bool:
        """Return whether the version ended before another one; None: there is none."""
        return other is None or (self.ended, self.until) < (other.ended, other.until)


class _Header(msgspec.Struct, frozen=True, array_like=True):
    """A retired version without its value. Anchor, dates and deadline are texts: they may have any length.

    `bequest`: its archive, cause, version of the rule, and deadline.
    """

    end: End
    ended: Instant
    written: Instant
    key: bytes
    anchor: str | None
    override: int | None
    lsn: int
    seq: int
    dates: tuple[tuple[int, str], ...]
    bequest: tuple[str, str, int, str] | None = None


_encode_header = msgspec.msgpack.Encoder().encode
_decode_header = msgspec.msgpack.Decoder(_Header).decode


def encode_version(retired: RetiredVersion) -> bytes:
    """Return the value of the record that stands for a version in a container of ended ones."""
    # length of the header (4 bytes) | header | value
    record, left = retired.record, retired.bequest
    header = _encode_header(
        _Header(
            retired.end,
            retired.ended,
            record.written,
            record.key,
            None if record.anchor is None else str(record.anchor),
            record.override,
            record.lsn,
            record.seq,
            tuple([(slot, str(date)) for slot, date in record.dates]),
            None if left is None else (left.archive, left.cause, left.rule_version, str(left.deadline)),
        )
    )
    return len(header).to_bytes(4, "big") + header + record.value


def decode_version(stored: Record) -> RetiredVersion:
    """Return the version that a record of a container of retired versions stands for."""
    start = 4 + int.from_bytes(stored.value[:4], "big")
    header = _decode_header(stored.value[4:start])
    record = Record(
        stored.partition,
        header.key,
        stored.value[start:],
        header.written,
        None if header.anchor is None else int(header.anchor),
        header.override,
        header.lsn,
        header.seq,
        tuple([(slot, int(date)) for slot, date in header.dates]),
    )
    left = header.bequest
    bequest = None if left is None else Bequest(*left[:3], int(left[3]))
    return RetiredVersion(record, header.end, header.ended, int.from_bytes(stored.key, "big"), bequest, stored.seq)


# --- writing -------------------------------------------------------------------------------------------------------------


def retention_of(lifecycle: Lifecycle, end: End) -> int:
    """Return the seconds for which a version is kept after it has ended in this way; 0: it is not kept."""
    return max(lifecycle.last_image, lifecycle.history) if end == "expired" else lifecycle.history


def retire(home: int, retired: RetiredVersion) -> Generator[Read[Any], Any, Change]:
    """Return the change that keeps a version that ends in this transaction. `home`: the container of retired versions."""
    lsn, seq = yield from ask(Allocate(home, seq=True))
    partition, key = retired.record.partition, key_of(retired.until)
    # On one due path with those that expired, or on the other one: a container without rules expires none of them.
    own = None if retired.end == "expired" else MARGIN // SECOND
    stored = Record(partition, key, encode_version(retired), retired.ended, retired.ended, own, lsn, seq)
    return Put(home, stored, True, ())


def change_lifecycle(
    nodes: Nodes, container: int, change: Callable[[Lifecycle], Lifecycle], now: Instant
) -> Decision[Node]:
    """Change the lifecycle settings of a container, which gets a container of retired versions when the settings first need
    one. NotFound if it is gone, or if there is no such archive.
    """
    row = yield from ask(LoadRow(container))
    if row is None:
        raise NotFound(NODE_MISSING)
    node = nodes.of(row)
    lifecycle = change(node.definition.lifecycle)
    changes: list[Change] = []
    retired = node.definition.retired
    if retired is None and lifecycle.keeps_versions:
        retired = yield from open_container((SPACE, str(container)), now, changes)
    ledger = node.definition.ledger
    if lifecycle.archive is not None:
        ledger = yield from find_archive(lifecycle.archive)
    past = _past_under(node.definition, lifecycle, now)
    # What held another roll-up does not hold this one.
    held = node.definition.held_roll_up if lifecycle.roll_up == node.definition.lifecycle.roll_up else None
    definition = msgspec.structs.replace(
        node.definition, lifecycle=lifecycle, retired=retired, past=past, ledger=ledger, held_roll_up=held
    )
    check_shredding(definition)
    changes += yield from switch(now, node, definition)
    changed = with_rules_remembered(node, msgspec.structs.replace(node, definition=definition), now)
    changes.append(PutRow(row_of(changed)))
    return Outcome(tuple(changes), changed)


def _past_under(before: Definition, lifecycle: Lifecycle, now: Instant) -> Past | None:
    """Return the past of a container under new lifecycle settings."""
    if not lifecycle.history:
        return None
    if before.past is None:
        return Past(now)
    # Kept for a longer time from now on: what an earlier, shorter time has removed does not come back.
    return msgspec.structs.replace(before.past, since=find_first_known(before.past, before.lifecycle.history, now))


# --- reading and forgetting ----------------------------------------------------------------------------------------------


async def find_version(store: Store, container: Node, identity: Identity, until: int) -> RetiredVersion | None:
    """Find the version of a record that ended at an lsn; None: it is not kept."""
    home = container.definition.retired
    if home is None:
        return None
    stored = await store.read(Get(home, identity[0], key_of(until)))
    return None if stored is None else decode_version(stored)


async def forget_retired(store: Store, nodes: Nodes, now: Instant) -> bool:
    """Remove one batch of versions, in every container, that are not kept any longer; False: there are none."""
    space = await store.read(FindRow(ROOT, SPACE))
    if space is None:
        return False
    found = False
    for home in await store.read(ChildRows(space.id)):
        found |= await forget_versions(store, nodes, home, now)
    return found


async def forget_versions(store: Store, nodes: Nodes, home: CatalogRow, now: Instant) -> bool:
    """Remove one batch of the versions of one container; False: there are none. `home`: the container of the versions."""
    owner = await store.read(LoadRow(int(home.name)))
    # Most looks find nothing, and need no transaction.
    if owner is None or not await _is_old(store, home, nodes.of(owner), now):
        return False
    return (await store.write(partial(_forget, nodes, home.id, owner.id, now), "sweep")).reply


async def _is_old(store: Store, home: CatalogRow, owner: Node, now: Instant) -> bool:
    """Return whether a version is not kept any longer."""
    ledger = owner.definition.ledger
    place = 0 if ledger is None else read_progress(await store.read(Get(ledger, b"", key_of(home.id)))).place
    for old in _old(home.id, owner, now, 1):
        page = await store.read(old)
        if _without_waiting(page, place):
            return True
    first = await store.read(_first(home.id, 1))
    return bool(_without_waiting(_beyond(home, first), place))


def _old(home: int, owner: Node, now: Instant, limit: int) -> list[Due]:
    """Return the reads of the first versions that are not kept any longer, of each path."""
    lifecycle = owner.definition.lifecycle
    return [
        Due(home, path, now - retention_of(lifecycle, end) * SECOND + span, None, limit) for path, end, span in ENDS
    ]


def _without_waiting(page: Sequence[Record], place: int) -> list[Record]:
    """Return those that wait for no archive. `place`: of the last version that is archived."""
    return [stored for stored in page if stored.seq <= place or decode_version(stored).bequest is None]


def _first(home: int, limit: int) -> Scan:
    return Scan(home, b"", None, Order.CREATED, None, limit)


def _beyond(home: CatalogRow, first: Sequence[Record]) -> list[Record]:
    """Return the versions of the first page that are too many."""
    # By their numbers, which have few gaps: a count would cost as much as there are.
    return [stored for stored in first if home.seq - stored.seq >= MAX_RETIRED]


def _forget(nodes: Nodes, home: int, owner: int, now: Instant) -> Decision[bool]:
    row = yield from ask(LoadRow(owner))
    above = yield from ask(LoadRow(home))
    # If the container was dropped, this one was dropped with it, or waits for its archive.
    if row is None or above is None:
        return Outcome((), False)
    node, place = nodes.of(row), 0
    if node.definition.ledger is not None:
        place = read_progress((yield from ask(Get(node.definition.ledger, b"", key_of(home))))).place
    gone: dict[int, Record] = {}
    for read in _old(home, node, now, FORGET_BATCH):
        gone.update({stored.seq: stored for stored in _without_waiting((yield from ask(read)), place)})
    beyond = _without_waiting(_beyond(above, (yield from ask(_first(home, FORGET_BATCH)))), place)
    gone.update({stored.seq: stored for stored in beyond})
    changes: list[Change] = [Delete(home, stored) for stored in gone.values()]
    past = node.definition.past
    if beyond and past is not None:
        # In the order of writes of the container, so that neither waits for the other.
        yield from ask(Allocate(owner, seq=False))
        since = max(past.since, *(decode_version(stored).ended for stored in beyond))
        past = msgspec.structs.replace(past, since=since)
        definition = msgspec.structs.replace(node.definition, past=past)
        changes.append(PutRow(row_of(msgspec.structs.replace(node, definition=definition))))
    if gone:
        yield from ask(Allocate(home, seq=False))
    return Outcome(tuple(changes), bool(gone))
