"""The last move of a store's clock by a person, kept for a later start that finds the store ahead of the host's clock."""

from __future__ import annotations

from typing import Final, Literal, get_args

import msgspec

from mayflydb.model.instant import Instant
from mayflydb.store.interface import Decision, NamedNumber, Outcome, SetNumber, Store

_KIND, _AT, _TO = "clock_move", "clock_moved_at", "clock_moved_to"

FORGET: Final = SetNumber(_TO, 0)
"""The change by which a store forgets the move: the clock follows the host's again."""

Kind = Literal["start", "advance", "set"]
"""A virtual clock was started there, advanced by a span, or set to an instant."""


class ClockMove(msgspec.Struct, frozen=True):
    """`at`: the host's time when it began. `to`: where it led."""

    kind: Kind
    at: Instant
    to: Instant


async def save_move(store: Store, move: ClockMove) -> None:
    """Keep a move in the place of the last one, where the store outlives its process."""
    await _save(
        store, SetNumber(_KIND, get_args(Kind).index(move.kind)), SetNumber(_AT, move.at), SetNumber(_TO, move.to)
    )


async def forget_move(store: Store) -> None:
    """Forget the last move."""
    await _save(store, FORGET)


async def read_move(store: Store) -> ClockMove | None:
    """Return the last move; None: there was none, or the clock follows the host's again."""
    kind, at, to = [await store.read(NamedNumber(name)) for name in (_KIND, _AT, _TO)]
    kinds: tuple[Kind, ...] = get_args(Kind)
    return None if kind is None or not at or not to or not 0 <= kind < len(kinds) else ClockMove(kinds[kind], at, to)


async def _save(store: Store, *changes: SetNumber) -> None:
    def save() -> Decision[None]:
        return Outcome(changes, None)
        yield

    if store.durable:
        await store.write(save)
