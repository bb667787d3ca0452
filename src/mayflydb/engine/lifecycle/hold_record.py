"""The record of holds: a line for each addition and release, which nothing removes, and the names that are taken.

Both are records of one container, in partitions of their own. The key of a line is its number; that of a name is the name, with
the id of the held container as value.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final, Literal

import msgspec

from mayflydb.engine.catalog_changes import open_container
from mayflydb.engine.reads import row_at
from mayflydb.expiry.legal_hold import LegalHold
from mayflydb.model.errors import Conflict
from mayflydb.model.instant import Instant
from mayflydb.model.order import Order, Position
from mayflydb.model.record import Record
from mayflydb.store.interface import Allocate, Change, Decision, Delete, Get, Outcome, Put, Read, Scan, Store, ask

RECORD: Final = ("audit", "holds")
"""The path of the container."""

_LINES, _NAMES = b"line", b"name"


class HoldLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of the record. `target`: the container, as the admin API names it; the other members as in LegalHold."""

    action: Literal["added", "released"]
    hold: int
    name: str
    target: str
    at: Instant
    by: str
    why: str
    matter: str | None = None
    where: str | None = None
    versions: bool = True


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(HoldLine).decode


# --- outside of decisions ------------------------------------------------------------------------------------------------


async def open_record(store: Store, now: Instant) -> int:
    """Return the container of the record, created if it is missing."""
    found = await row_at(store, *RECORD)
    if found is not None:
        return found.id

    def decide() -> Decision[int]:
        changes: list[Change] = []
        container = yield from open_container(RECORD, now, changes)
        return Outcome(tuple(changes), container)

    return (await store.write(decide)).reply


async def find_container(store: Store, name: str) -> int | None:
    """Return the container of the hold with a name; None: there is no such hold."""
    home = await row_at(store, *RECORD)
    taken = None if home is None else await store.read(Get(home.id, _NAMES, name.encode()))
    return None if taken is None else int(taken.value)


async def read_lines(store: Store, after: int, limit: int) -> list[tuple[int, HoldLine]]:
    """Return (place, line) of the lines behind a place, oldest first. An empty list is the end."""
    home = await row_at(store, *RECORD)
    if home is None:
        return []
    start = Position(_LINES, after)
    page = await store.read(Scan(home.id, _LINES, _LINES + b"\0", Order.CREATED, start, limit))
    return [(each.seq, _decode(each.value)) for each in page]


# --- in decisions --------------------------------------------------------------------------------------------------------


def add_line(home: int, line: HoldLine, changes: list[Change]) -> Generator[Read[Any], Any, int]:
    """Add a line to the changes, and return its number. The hold of a line with the hold 0 gets this number."""
    lsn, seq = yield from ask(Allocate(home, seq=True))
    if not line.hold:
        line = msgspec.structs.replace(line, hold=seq)
    stored = Record(_LINES, seq.to_bytes(8, "big"), _encode(line), line.at, None, None, lsn, seq)
    changes.append(Put(home, stored, True, ()))
    return seq


def take_name(
    home: int, name: str, container: int, now: Instant, changes: list[Change]
) -> Generator[Read[Any], Any, None]:
    """Take a name for a hold on a container. Conflict if another hold has it."""
    if (yield from ask(Get(home, _NAMES, name.encode()))) is not None:
        raise Conflict(f"there is a hold {name}", hint="holds have different names on the whole server")
    lsn, seq = yield from ask(Allocate(home, seq=True))
    changes.append(Put(home, Record(_NAMES, name.encode(), b"%d" % container, now, None, None, lsn, seq), True, ()))


def free_name(home: int, hold: LegalHold, changes: list[Change]) -> Generator[Read[Any], Any, None]:
    """Free the name of a hold."""
    taken = yield from ask(Get(home, _NAMES, hold.name.encode()))
    if taken is not None:
        yield from ask(Allocate(home, seq=False))
        changes.append(Delete(home, taken))
