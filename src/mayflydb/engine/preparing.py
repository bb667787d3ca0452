"""Stored records for which something is computed on a thread, before the decision that writes it: index keys, dates.

A decision must be quick, and an array of a record may give a hundred thousand keys. So a page of records is read and computed
outside of the writer. The decision reads the records again and takes what still holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeAlias, TypeVar

from mayflydb.evaluation.statement import Computing
from mayflydb.evaluation.stops import EvaluationStopped, TooManyEvaluations
from mayflydb.model.errors import Unavailable
from mayflydb.model.order import Order, Position
from mayflydb.model.record import Record
from mayflydb.store.interface import Scan, Store

T = TypeVar("T")

Prepared: TypeAlias = list[tuple[Record, T]]
"""Records in the order of their creation, each with what was computed from it."""

MOST_ENTRIES: Final = 512
"""The most entries that one decision writes, which takes about 3 ms; a record with more is written alone."""


class Pages(Generic[T]):
    """The records of a container from the first to the last, with what is computed from them.

    `compute`: pure; what it raises ends the work. `count`: the entries that a computed value gives.
    """

    def __init__(
        self,
        store: Store,
        container: int,
        computing: Computing,
        compute: Callable[[Record], T],
        count: Callable[[T], int],
    ) -> None:
        self._store = store
        self._container = container
        self._computing = computing
        self._compute = compute
        self._count = count
        self._ready: Prepared[T] = []

    async def take(self, after: Position | None, page_size: int) -> Prepared[T]:
        """Return the records behind a position that one decision may write; none: the position is the end.

        Errors: Unavailable if the computation was stopped; those of `compute`.
        """
        last = -1 if after is None else after.number
        self._ready = [each for each in self._ready if each[0].seq > last]
        if not self._ready:
            records = await self._store.read(Scan(self._container, b"", None, Order.CREATED, after, page_size))
            self._ready = list(zip(records, await self._compute_all(records), strict=True))
        entries = 0
        for number, (_, value) in enumerate(self._ready):
            entries += self._count(value)
            if number and entries > MOST_ENTRIES:
                return self._ready[:number]
        return self._ready

    async def _compute_all(self, records: Sequence[Record]) -> list[T]:
        if not records:
            return []
        size = sum(len(record.value) for record in records)
        try:
            return await self._computing.call(size, lambda: [self._compute(record) for record in records])
        except EvaluationStopped as stop:
            raise Unavailable(f"the work on an index was stopped: {stop.reason.value}") from None
        except TooManyEvaluations:
            raise Unavailable("too many evaluations wait for a thread") from None

    def reconcile(self, prepared: Prepared[T], present: Sequence[Record]) -> Prepared[T]:
        """Return what a decision writes: the records that are there, as far as what was computed from them holds.

        `present`: the records behind the same position, as the decision reads them. At least one is returned, if one is there.
        """
        known = {record.seq: (record.lsn, value) for record, value in prepared}
        found: Prepared[T] = []
        for record in present:
            lsn, value = known.get(record.seq, (None, None))
            if lsn == record.lsn:
                found.append((record, value))  # type: ignore[arg-type]
            elif not found:
                # Written meanwhile. It is computed here, lest a record that is written all the time stops the work.
                found.append((record, self._compute(record)))
                break
            else:
                break
        return found
