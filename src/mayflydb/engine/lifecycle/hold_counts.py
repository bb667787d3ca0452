"""Counts of the stored records that a hold would match, before it is added."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec

from mayflydb.engine.catalog import Node
from mayflydb.engine.count_budget import Allowance
from mayflydb.engine.lifecycle.hold_filters import ContainerFilters, HoldLanguage
from mayflydb.engine.record_samples import draw_sample
from mayflydb.expiry.legal_hold import LegalHold
from mayflydb.model.order import Order, Position
from mayflydb.model.record import Record
from mayflydb.store.interface import Count, Scan, Store

PAGE: Final = 32
"""Records that are decided in one turn of the event loop."""


class Matching(msgspec.Struct, frozen=True):
    """The number of stored records that match, hidden ones included; not `is_exact`: an estimate from a sample."""

    records: int
    is_exact: bool


async def count_matching(
    store: Store, container: Node, hold: LegalHold, language: HoldLanguage[Node], allowance: Allowance
) -> Matching:
    """Count what a hold would match now. What cannot be decided matches, as it will be held."""
    total = (await store.read(Count(container.id))).records
    if hold.where is None:
        return Matching(total, True)
    filters = ContainerFilters((hold,), language, container)
    if not allowance.take(total, by_record=True):
        sample = await draw_sample(store, container.id, allowance.take_sample())
        return Matching(sample.scale(await _count(filters, sample.records)), sample.is_whole)
    found = 0
    after: Position | None = None
    while page := await store.read(Scan(container.id, b"", None, Order.CREATED, after, PAGE)):
        found += await _count(filters, page)
        after = Position(page[-1].partition, page[-1].seq)
    return Matching(found, True)


async def _count(filters: ContainerFilters, records: Sequence[Record]) -> int:
    found = 0
    for start in range(0, len(records), PAGE):
        found += sum(bool(filters.match(record).holds) for record in records[start : start + PAGE])
        # Others come between pages.
        await asyncio.sleep(0)
    return found
