"""Copies everything from a source into a new store. An interrupted copy continues where it was.

The progress is read from the target: its catalogue rows, and the last seq of each container, because records arrive in the order
of their seqs. Until the end the target carries the fingerprint of the source. A server refuses to serve such a store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from mayflydb.engine.catalog import catalogue, node_of
from mayflydb.engine.timekeeper import MARK
from mayflydb.expiry.lifecycle import UNDATED
from mayflydb.model.errors import Conflict, Corrupt, Unsupported
from mayflydb.model.record import Kind, Version
from mayflydb.moving.source import Source, count_records, fingerprint, raise_ids, scan_after
from mayflydb.store.interface import (
    AddVersion,
    CatalogRow,
    Change,
    Decision,
    DroppedContainers,
    Expiries,
    NamedNumber,
    Outcome,
    Put,
    PutRow,
    SetNumber,
    Store,
)
from mayflydb.store.segments import BeginSegment

UNFINISHED = "unfinished_copy"
"""The setting of a target: the fingerprint of the source. 0, or no setting: the store is complete."""

ROWS_PER_COMMIT = 256
"""Catalogue rows in one transaction."""


class CopyResult(msgspec.Struct, frozen=True):
    """The number of records of the source, and how many of them the target had before."""

    records: int
    before: int


async def copy(source: Source, target: Store, report: Callable[[int, int], None], seals: bool = False) -> CopyResult:
    """Copy all of the source into the target. `report` gets the number of copied records and that of all records. `seals`: the
    target can seal records.

    A complete target is left as it is. Conflict if the target holds anything else, or the beginning of another copy; Corrupt if
    records are missing at the end; WriteConflict if the source was changed meanwhile; Unsupported if records are to be sealed and
    the target cannot.
    """
    if await _is_complete(source, target):
        return CopyResult(source.records, source.records)
    await _put_rows(source, target, seals)
    # Each commit adds the next records by seq, so the last seq in the target is where the interrupted copy stopped.
    after = {row.id: await find_last_seq(target, row) for row in source.rows}
    before = done = await count_records(target, [row for row in source.rows if after[row.id]])
    report(done, source.records)
    async for piece in source.pieces(after):
        puts = [Put(piece.container, record, insert=True, entries=own or None) for record, own in piece.records]
        await _commit(target, puts)
        done += len(puts)
        report(done, source.records)
    await _finish(source, target)
    return CopyResult(source.records, before)


async def is_unfinished(store: Store) -> bool:
    """Return whether a copy into this store was begun and not finished."""
    begun = await store.read(NamedNumber(UNFINISHED))
    return bool(begun)


async def find_last_seq(store: Store, row: CatalogRow) -> int:
    """Return the largest seq of a container's records, 0 if it holds none.

    Halves (low, high]: some record lies at `low`, or it is 0, and none behind `high`, which begins as the source's counter.
    """
    low, high, middle = 0, row.seq, 0
    while low < high:
        found = await store.read(scan_after(row.id, middle, 1))
        if found:
            low = found[0].seq
        else:
            high = middle
        middle = (low + high) // 2
    return low


async def _is_complete(source: Source, target: Store) -> bool:
    """Return whether the target holds all of the source. An empty target is marked as the target of this copy."""
    wanted = fingerprint(source.rows)
    begun = await target.read(NamedNumber(UNFINISHED))
    if begun:
        if begun != wanted:
            raise Conflict(
                f"{target.description} holds the beginning of a copy of something else,"
                f" or of {source.description} before it was changed"
            )
        return False
    rows = await catalogue(target)
    if rows and fingerprint(rows) == wanted:
        return True
    await _refuse_unless_new(target, rows)
    await _commit(target, [SetNumber(UNFINISHED, wanted)])
    return False


async def _refuse_unless_new(target: Store, rows: Sequence[CatalogRow]) -> None:
    if rows:
        names = ", ".join(repr(row.name) for row in rows[:5])
        raise Conflict(f"{target.description} is not empty: it holds {names}{', ...' if len(rows) > 5 else ''}")
    dropped, events = await target.read(DroppedContainers()), await target.read(Expiries(None, 0, 1))
    mark = await target.read(NamedNumber(MARK))
    if dropped or events or mark is not None:
        # A store that was served and emptied has used ids and instants that the copy would use again.
        raise Conflict(f"{target.description} is not new: it has been served before")


async def _put_rows(source: Source, target: Store, seals: bool) -> None:
    there = {row.id: row for row in await catalogue(target)}
    missing = [row for row in source.rows if row.id not in there]
    if len(there) + len(missing) != len(source.rows) or any(there.get(row.id, row) != row for row in source.rows):
        raise Conflict(f"{target.description} has been changed since the copy began")
    for start in range(0, len(missing), ROWS_PER_COMMIT):
        rows = missing[start : start + ROWS_PER_COMMIT]
        # Histories are not copied. The GAP tells a reader of a change feed or stream that versions are missing: it gets an error
        # and no silent hole.
        gaps = [AddVersion(row.id, Version(Kind.GAP, row.lsn, written=0)) for row in rows if row.lsn]
        segments = [change for row in rows for change in await _segments(source, target, row, seals)]
        await _commit(target, [*map(PutRow, rows), *gaps, *segments])


async def _segments(source: Source, target: Store, row: CatalogRow, seals: bool) -> list[BeginSegment]:
    """Return the segments of a container in the target, with keys of its own. Unsupported if it is to seal records and cannot."""
    # Decoded only where the row may say so: a copy needs no row to be readable.
    is_off = b'"shred"' not in row.data or node_of(row).definition.lifecycle.shred == "off"
    if seals:
        found = await source.segments(row.id)
        begun = [BeginSegment(row.id, each.first, each.number, each.state == "live") for each in found]
        return begun if begun or is_off else [BeginSegment(row.id, 0, UNDATED)]
    if is_off:
        return []
    raise Unsupported(
        f"the container {row.name!r} shreds its records, which {target.description} cannot",
        hint="`mayfly lifecycle set TARGET --shred off` before the copy, or copy into a file of SQLite",
    )


async def _finish(source: Source, target: Store) -> None:
    # Asked last: the source compares its state with the beginning, and notices writes during the copy.
    ending = await source.ending()
    there = await count_records(target, source.rows)
    if there != source.records:
        raise Corrupt(f"{target.description} holds {there} of {source.records} records; copy again, into a new store")

    def decide() -> Decision[None]:
        yield from raise_ids(ending.last_id)
        mark = [] if ending.mark is None else [SetNumber(MARK, ending.mark, rising=True)]
        settings = [SetNumber(name, value) for name, value in ending.settings]
        return Outcome((*mark, *settings, SetNumber(UNFINISHED, 0)), None)

    await target.write(decide)


async def _commit(target: Store, changes: Sequence[Change]) -> None:
    def decide() -> Decision[None]:
        return Outcome(tuple(changes), None)
        yield  # Makes this a generator, as a decision has to be.

    await target.write(decide)
