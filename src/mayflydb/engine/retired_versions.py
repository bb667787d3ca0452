"""Retired versions: versions of records that have left their container, each kept for a purpose that the lifecycle names.

A retired version is a record of a container of its own, a companion of the container that it has left. The transaction that ends
the version writes it there, so neither is there without the other. Versions are kept for a time that begins when they end, and
are removed in that order.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, Final, Literal

import msgspec

from mayflydb.engine.catalog import NODE_MISSING, ROOT, Definition, Node, Nodes, row_of
from mayflydb.expiry.deadline import has_passed
from mayflydb.expiry.lifecycle import Lifecycle
from mayflydb.model.errors import NotFound
from mayflydb.model.instant import SECOND, Instant
from mayflydb.model.order import Identity, Order
from mayflydb.model.record import Record
from mayflydb.store.interface import (
    Allocate,
    Change,
    ChildRows,
    Decision,
    Delete,
    FindRow,
    Get,
    LoadRow,
    NewId,
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

End = Literal["expired", "deleted", "replaced"]
"""The way in which a version ended. A version that expired has an expiry event, whose `lsn` is the version's `until`."""


class RetiredVersion(msgspec.Struct, frozen=True):
    """A version of a record that was stored from its own lsn until the lsn `until`, and ended at the instant `ended`."""

    record: Record
    end: End
    ended: Instant
    until: int


class _Header(msgspec.Struct, frozen=True, array_like=True):
    """A retired version without its value. Anchor and dates are texts: they may have any length."""

    end: End
    ended: Instant
    written: Instant
    key: bytes
    anchor: str | None
    override: int | None
    lsn: int
    seq: int
    dates: tuple[tuple[int, str], ...]


_encode_header = msgspec.msgpack.Encoder().encode
_decode_header = msgspec.msgpack.Decoder(_Header).decode


def key_of(until: int) -> bytes:
    """Return the key, within its partition, of the version that ended at an lsn."""
    return until.to_bytes(8, "big")


def _encode(retired: RetiredVersion) -> bytes:
    # length of the header (4 bytes) | header | value
    record = retired.record
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
    return RetiredVersion(record, header.end, header.ended, int.from_bytes(stored.key, "big"))


# --- writing -------------------------------------------------------------------------------------------------------------


def retention_of(lifecycle: Lifecycle, end: End) -> int:
    """Return the seconds for which a version is kept after it has ended in this way; 0: it is not kept."""
    return lifecycle.last_image if end == "expired" else 0


def retire(home: int, retired: RetiredVersion) -> Generator[Read[Any], Any, Change]:
    """Return the change that keeps a version that ends in this transaction. `home`: the container of retired versions."""
    lsn, seq = yield from ask(Allocate(home, seq=True))
    partition, key = retired.record.partition, key_of(retired.until)
    stored = Record(partition, key, _encode(retired), retired.ended, None, None, lsn, seq)
    return Put(home, stored, True, ())


def change_lifecycle(
    nodes: Nodes, container: int, change: Callable[[Lifecycle], Lifecycle], now: Instant
) -> Decision[Node]:
    """Change the lifecycle settings of a container, which gets a container of retired versions when the settings first need
    one. NotFound if it is gone.
    """
    row = yield from ask(LoadRow(container))
    if row is None:
        raise NotFound(NODE_MISSING)
    node = nodes.of(row)
    lifecycle = change(node.definition.lifecycle)
    changes: list[Change] = []
    retired = node.definition.retired
    if retired is None and lifecycle.keeps_versions:
        retired = yield from _open(container, now, changes)
    # What held another roll-up does not hold this one.
    held = node.definition.held_roll_up if lifecycle.roll_up == node.definition.lifecycle.roll_up else None
    definition = msgspec.structs.replace(node.definition, lifecycle=lifecycle, retired=retired, held_roll_up=held)
    node = msgspec.structs.replace(node, definition=definition)
    changes.append(PutRow(row_of(node)))
    return Outcome(tuple(changes), node)


def _open(owner: int, now: Instant, changes: list[Change]) -> Generator[Read[Any], Any, int]:
    """Return the container of retired versions of an owner, created if it is missing."""
    parent = ROOT
    for name in (SPACE, str(owner)):
        row = None if changes else (yield from ask(FindRow(parent, name)))
        if row is None:
            node = Node((yield from ask(NewId())), parent, name, Definition({}, now))
            changes.append(PutRow(row_of(node)))
            parent = node.id
        else:
            parent = row.id
    return parent


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
        owner, oldest = await store.read(LoadRow(int(home.name))), await store.read(_page(home.id, 1))
        # Most looks find nothing, and need no transaction.
        if owner is None or not _old(oldest, nodes.of(owner), now):
            continue
        found |= (await store.write(partial(_forget, nodes, home.id, owner.id, now), "sweep")).reply
    return found


def _page(home: int, limit: int) -> Scan:
    return Scan(home, b"", None, Order.CREATED, None, limit)


def _old(page: Sequence[Record], owner: Node, now: Instant) -> list[Record]:
    """Return the first versions of a page that are not kept any longer."""
    lifecycle, old = owner.definition.lifecycle, []
    for stored in page:
        retired = decode_version(stored)
        if not has_passed(retired.ended + retention_of(lifecycle, retired.end) * SECOND, now):
            break
        old.append(stored)
    return old


def _forget(nodes: Nodes, home: int, owner: int, now: Instant) -> Decision[bool]:
    row = yield from ask(LoadRow(owner))
    # If the container was dropped, this one was dropped with it.
    if row is None or (yield from ask(LoadRow(home))) is None:
        return Outcome((), False)
    old = _old((yield from ask(_page(home, FORGET_BATCH))), nodes.of(row), now)
    if old:
        yield from ask(Allocate(home, seq=False))
    return Outcome(tuple([Delete(home, stored) for stored in old]), bool(old))
