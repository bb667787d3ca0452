"""The ledger of archives: how many of a container's expired versions are in files, and the limits of those that are not yet.

The node above all archives is a container as well: its records have the progress of each container of retired versions. Numbers
of a store would be lost in a copy, and then versions would be archived once more.
"""

from __future__ import annotations

from typing import Final

import msgspec

from mayflydb.engine.catalog import ROOT, Definition
from mayflydb.engine.reads import Steps
from mayflydb.model.errors import NotFound, OutOfSpace
from mayflydb.model.record import Record
from mayflydb.store.interface import FindRow, Get, LoadRow, ask

SPACE: Final = "archives"
"""The name of the node above all archives."""

MOST_WAITING = 100_000
"""Versions of one container that wait for its archive, beyond which nothing is purged there."""

MOST_FORCED = 1_000_000
"""As many more, beyond which a write is refused that would purge an expired record to take its place."""


class ArchiveProgress(msgspec.Struct, frozen=True):
    """The progress of one container's versions. `place`: the last one that is done.

    `end`: the last one of the file that is written, or was written, for the container named `target`; it is done when it is no
    greater than `place`.
    """

    place: int = 0
    end: int = 0
    target: str = ""


_decode = msgspec.json.Decoder(ArchiveProgress).decode
encode_progress = msgspec.json.encode


def key_of(number: int) -> bytes:
    """Return the key that stands for a number: the id of a container of versions, or the lsn at which a version ended."""
    return number.to_bytes(8, "big")


def read_progress(record: Record | None) -> ArchiveProgress:
    """Return the progress that a record of the ledger has."""
    return ArchiveProgress() if record is None else _decode(record.value)


def find_archive(name: str) -> Steps[int]:
    """Return the id of the ledger. NotFound if there is no archive of this name."""
    space = yield from ask(FindRow(ROOT, SPACE))
    if space is None or (yield from ask(FindRow(space.id, name))) is None:
        raise NotFound(f"there is no archive {name}", hint="`mayfly archives list` shows them")
    return space.id


def count_waiting(ledger: int, home: int) -> Steps[int]:
    """Return at most how many versions of a container of retired versions are not archived."""
    row = yield from ask(LoadRow(home))
    if row is None:
        return 0
    return row.seq - read_progress((yield from ask(Get(ledger, b"", key_of(home))))).place


def room_of(definition: Definition, limit: int) -> Steps[int]:
    """Return how many of up to `limit` records may be purged in a container before its archive has accepted more."""
    home, ledger = definition.retired, definition.ledger
    if definition.lifecycle.archive is None or home is None or ledger is None:
        return limit
    return max(0, min(limit, MOST_WAITING - (yield from count_waiting(ledger, home))))


def check_room(definition: Definition, home: int) -> Steps[None]:
    """OutOfSpace if so many versions wait for the archive that no write may add one."""
    if definition.lifecycle.archive is None or definition.ledger is None:
        return
    if (yield from count_waiting(definition.ledger, home)) >= MOST_WAITING + MOST_FORCED:
        raise OutOfSpace(
            f"the archive {definition.lifecycle.archive} does not accept, and too many expired records wait for it",
            hint="`mayfly archives list` tells why",
        )
