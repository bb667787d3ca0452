"""Snapshots of the whole store: saved, restored, listed and deleted by name. The clock belongs to a snapshot."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final, Literal

import msgspec

from mayflydb.admin import formats
from mayflydb.admin.clock_control import ClockControl, ClockState, Note
from mayflydb.engine.engine import Engine
from mayflydb.model.errors import Corrupt, OutOfSpace
from mayflydb.model.snapshots import SavedSnapshot
from mayflydb.version import __version__

log = logging.getLogger(__name__)

BEFORE_ADVANCE: Final = "before-advance"
"""The snapshot that the first move of the clock over a file saves."""


class Facts(msgspec.Struct, frozen=True):
    """The clock at the time of a snapshot, and the version that saved it."""

    clock: ClockState
    version: str


class SnapshotControl:
    """Saves and restores snapshots, each with the clock."""

    def __init__(self, engine: Engine, clock: ClockControl, note: Note) -> None:
        self._note = note
        self._engine = engine
        self._clock = clock
        self._restoring: set[asyncio.Task[None]] = set()
        clock.before_move = self._save_before_move

    async def list_all(self) -> dict[str, Any]:
        """Return the facts of all snapshots, by name."""
        found = await self._engine.snapshots_or_refusal().list_all()
        return {"now": formats.time(await self._engine.now()), "snapshots": [_describe(each) for each in found]}

    async def save(self, name: str) -> dict[str, Any]:
        """Save the present state and the clock under a name, in the place of a snapshot that had it."""
        saved = await self._engine.snapshots_or_refusal().save(name, self._describe_state)
        return {"now": formats.time(await self._engine.now()), **_describe(saved)}

    async def restore(self, name: str) -> dict[str, Any]:
        """Replace everything by a snapshot. A virtual clock returns to its instant; a real one goes on.

        Forbidden where the clock may not be moved; Conflict for a snapshot from the future of a real clock.
        """
        self._clock.check_allowed("restored")
        # A client that leaves does not interrupt it between the content and the clock.
        task = asyncio.create_task(self._restore(name))
        self._restoring.add(task)
        task.add_done_callback(self._restoring.discard)
        await asyncio.shield(task)
        return {**await self._clock.show(), "restored": name}

    async def delete(self, name: str) -> dict[str, Any]:
        """Delete a snapshot."""
        await self._engine.snapshots_or_refusal().delete(name)
        return {"now": formats.time(await self._engine.now()), "deleted": name}

    async def _restore(self, name: str) -> None:
        snapshots = self._engine.snapshots_or_refusal()
        async with self._clock.moving:
            facts = _facts_of(await snapshots.find(name))
            real = self._clock.check_restore(facts.clock)
            await self._engine.restore(name, real, lambda: self._clock.return_to(facts.clock))
            await self._note("reset", f"snapshot {name}")
        self._engine.reaper.wake()

    async def _describe_state(self) -> bytes:
        return msgspec.json.encode(Facts(self._clock.state(await self._engine.now()), __version__))

    async def _save_before_move(self, is_real: bool) -> str | None:
        """Save the state before the first move of the clock over a file. Return the name of the snapshot, or None."""
        snapshots = self._engine.snapshots
        if snapshots is None or not self._engine.durable:
            return None
        if not is_real and any(each.name == BEFORE_ADVANCE for each in await snapshots.list_all()):
            return None
        try:
            await snapshots.save(BEFORE_ADVANCE, self._describe_state)
        except OutOfSpace as error:
            if is_real:
                raise
            # On a full disk the purges of a move make room.
            log.warning("the clock is moved without a snapshot of before: %s", error)
            return None
        return BEFORE_ADVANCE


def _facts_of(saved: SavedSnapshot) -> Facts:
    try:
        return msgspec.json.decode(saved.facts, type=Facts)
    except msgspec.DecodeError as error:
        raise Corrupt(f"the snapshot {saved.name} cannot be read: {error}") from error


def _describe(saved: SavedSnapshot) -> dict[str, Any]:
    facts = _facts_of(saved)
    mode: Literal["real", "virtual"] = facts.clock.mode
    clock = {"saved_at": formats.time(facts.clock.now), "mode": mode, "frozen": facts.clock.frozen}
    return {"name": saved.name, **clock, "bytes": saved.size, "version": facts.version}
