"""Moving everything from a source into a new store, so that an interrupted move goes on where it was.

How far a move has come is read from the target itself: rows are there or not, records arrive by seq, and what is committed is
committed. While it lasts, the target carries a mark that names the state of the source; a server refuses to serve such a store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from mayflydb.engine.catalog import catalogue
from mayflydb.engine.timekeeper import MARK
from mayflydb.model.errors import Conflict, Corrupt
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

UNFINISHED = "unfinished_copy"
"""The setting of a store that is being moved into: the fingerprint of the source. 0, or none: it is complete."""

ROWS_PER_COMMIT = 256
"""Catalogue rows in one transaction."""


class CopyResult(msgspec.Struct, frozen=True):
    """The number of records to move, and the number that the target had before."""

    records: int
    before: int


async def copy(source: Source, target: Store, report: Callable[[int, int], None]) -> CopyResult:
    """Make the target hold what the source does. `report` hears how many records are there by now, and of how many.

    A target that is complete already is left as it is. Conflict if it holds anything else, or the beginning of another copy;
    Corrupt if in the end records are missing; WriteConflict if the source was changed meanwhile.
    """
    if await _is_complete(source, target):
        return CopyResult(source.records, source.records)
    await _put_rows(source, target)
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
    """True: a copy into this store was begun and not finished."""
    begun = await store.read(NamedNumber(UNFINISHED))
    return bool(begun)


async def find_last_seq(store: Store, row: CatalogRow) -> int:
    """The largest seq of a container's records, 0 if it holds none."""
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
    """True: the target holds all of the source. An empty target is marked as the target of this copy."""
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
        # Its time, its ids and its events are of another life.
        raise Conflict(f"{target.description} is not new: it has been served before")


async def _put_rows(source: Source, target: Store) -> None:
    there = {row.id: row for row in await catalogue(target)}
    missing = [row for row in source.rows if row.id not in there]
    if len(there) + len(missing) != len(source.rows) or any(there.get(row.id, row) != row for row in source.rows):
        raise Conflict(f"{target.description} has been changed since the copy began")
    for start in range(0, len(missing), ROWS_PER_COMMIT):
        rows = missing[start : start + ROWS_PER_COMMIT]
        # Histories stay behind: whoever goes on where he was in one is told that what followed is not kept.
        gaps = [AddVersion(row.id, Version(Kind.GAP, row.lsn, written=0)) for row in rows if row.lsn]
        await _commit(target, [*map(PutRow, rows), *gaps])


async def _finish(source: Source, target: Store) -> None:
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
        yield

    await target.write(decide)
