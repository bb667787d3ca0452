"""Preserved versions: versions of records that left their container under a legal hold, until the hold is released.

A preserved version is a record of a companion of its container. The transaction that ends the version writes it there, with the
facts of its expiry. The event is published when the version is removed, so it stands for the real end of the data.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

import msgspec

from mayflydb.engine.catalog import Node
from mayflydb.engine.lifecycle.archive_ledger import key_of
from mayflydb.engine.lifecycle.hold_filters import NO_MATCHES, ContainerFilters, HoldFilters, Matches
from mayflydb.engine.lifecycle.retired_versions import (
    Bequest,
    RetiredVersion,
    decode_version,
    encode_version,
    retention_of,
    retire,
)
from mayflydb.expiry.legal_hold import RELEASED
from mayflydb.expiry.lifecycle import Lifecycle
from mayflydb.model.instant import Instant
from mayflydb.model.order import Order, Position
from mayflydb.model.record import Expiry, Record
from mayflydb.store.interface import Allocate, Change, Delete, Put, Read, Scan, ask

SPACE: Final = "mayfly preserved"
"""The name of the node above all containers of preserved versions: a space of companions."""


class Cause(msgspec.Struct, frozen=True, array_like=True):
    """The facts of an expiry that its event will state. Instants are texts: those of dates may have any length."""

    anchor: str
    cause: str
    rule_version: int
    deadline: str


class _Header(msgspec.Struct, frozen=True, array_like=True):
    holds: tuple[int, ...]
    undecided: tuple[int, ...]
    cause: Cause | None


class PreservedVersion(msgspec.Struct, frozen=True):
    """A version that left its container under holds, named by their numbers. `cause`: of the expiry; None: a client's write
    ended the version. `seq`: its place among the preserved versions of its container.
    """

    version: RetiredVersion
    matches: Matches
    cause: Cause | None
    seq: int = 0


_encode_header = msgspec.msgpack.Encoder().encode
_decode_header = msgspec.msgpack.Decoder(_Header).decode


def _encode(preserved: PreservedVersion) -> bytes:
    # length of the header (4 bytes) | header | retired version
    header = _encode_header(_Header(preserved.matches.holds, preserved.matches.undecided, preserved.cause))
    return len(header).to_bytes(4, "big") + header + encode_version(preserved.version)


def decode_hold_version(stored: Record) -> PreservedVersion:
    """Return the version that a record of a container of preserved versions stands for."""
    start = 4 + int.from_bytes(stored.value[:4], "big")
    header = _decode_header(stored.value[4:start])
    version = decode_version(msgspec.structs.replace(stored, value=stored.value[start:]))
    return PreservedVersion(version, Matches(header.holds, header.undecided), header.cause, stored.seq)


def cause_of(event: Expiry) -> Cause:
    """Return what is kept of an event until it is published."""
    return Cause(str(event.anchor), event.cause, event.rule_version, str(event.deadline))


def event_of(preserved: PreservedVersion, container: int, cause: Cause, now: Instant, lsn: int) -> Expiry:
    """Return the expiry event of a version that is removed now."""
    record = preserved.version.record
    return Expiry(
        id=0,
        container=container,
        partition=record.partition,
        key=record.key,
        version=record.lsn,
        lsn=lsn,
        anchor=int(cause.anchor),
        override=record.override,
        cause=cause.cause,
        rule_version=cause.rule_version,
        deadline=int(cause.deadline),
        purged=now,
        how=RELEASED,
    )


def page_of(home: int, after: int, limit: int) -> Scan:
    """Return the read of preserved versions behind a place, in the order in which they left."""
    return Scan(home, b"", None, Order.CREATED, Position(b"", after), limit)


# --- writing -------------------------------------------------------------------------------------------------------------


class Keeper:
    """Keeps the versions of one container that end in a transaction, as its holds and its lifecycle say."""

    __slots__ = ("_filters", "_lifecycle", "_preserved", "_retired")

    def __init__(self, container: Node, filters: HoldFilters[Node]) -> None:
        definition = container.definition
        self._lifecycle: Lifecycle = definition.lifecycle
        self._retired = definition.retired if definition.lifecycle.keeps_versions else None
        self._preserved = definition.preserved
        self._filters: ContainerFilters | None = None
        if definition.holds:
            self._filters = filters.find(container.id, container, definition.holds)

    def match(self, record: Record, after: Record | None = None) -> Matches:
        """Return the holds under which a version ends. `after`: the version that replaces it."""
        return NO_MATCHES if self._filters is None else self._filters.match(record, after)

    def keep(
        self, version: RetiredVersion, matches: Matches, event: Expiry | None = None
    ) -> Generator[Read[Any], Any, list[Change]]:
        """Return the changes that keep a version. `event`: the event of its expiry, which waits while it is held."""
        changes: list[Change] = []
        if matches.holds and self._preserved is not None:
            lsn, seq = yield from ask(Allocate(self._preserved, seq=True))
            held = PreservedVersion(version, matches, None if event is None else cause_of(event))
            stored = Record(
                version.record.partition, key_of(version.until), _encode(held), version.ended, None, None, lsn, seq
            )
            changes.append(Put(self._preserved, stored, True, ()))
        # The image of an expiry goes with its event, but an earlier state has the version as it was.
        kept = self._lifecycle.history if matches.holds else retention_of(self._lifecycle, version.end)
        archive = self._lifecycle.archive
        if archive is not None and event is not None and not matches.holds:
            bequest = Bequest(archive, event.cause, event.rule_version, event.deadline)
            version = msgspec.structs.replace(version, bequest=bequest)
        if self._retired is not None and (kept or version.bequest is not None):
            changes.append((yield from retire(self._retired, version)))
        return changes


def remove_preserved(
    container: Node, preserved: PreservedVersion, stored: Record, now: Instant
) -> Generator[Read[Any], Any, list[Change]]:
    """Return the changes that remove a preserved version for good, with its event if it expired."""
    home, lifecycle = container.definition.preserved, container.definition.lifecycle
    assert home is not None
    if preserved.cause is None:
        return [Delete(home, stored)]
    lsn, _ = yield from ask(Allocate(container.id, seq=False))
    changes: list[Change] = [Delete(home, stored, event_of(preserved, container.id, preserved.cause, now, lsn))]
    retired = container.definition.retired
    cause, archive = preserved.cause, lifecycle.archive
    bequest = None if archive is None else Bequest(archive, cause.cause, cause.rule_version, int(cause.deadline))
    if retired is not None and (lifecycle.last_image or bequest is not None):
        # For earlier states it ended when it left its container.
        ended = preserved.version.ended if lifecycle.history else now
        image = msgspec.structs.replace(preserved.version, ended=ended, until=lsn, bequest=bequest)
        changes.append((yield from retire(retired, image)))
    return changes
