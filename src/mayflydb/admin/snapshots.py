"""Snapshots of the whole store: saved, restored, listed and deleted by name. The clock belongs to a snapshot."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Sequence
from typing import Any, Final, TypeVar

import msgspec

from mayflydb.admin import formats
from mayflydb.admin.clock_control import ClockControl, ClockState, Note
from mayflydb.engine.catalog import check_rows
from mayflydb.engine.engine import Engine
from mayflydb.model.errors import Corrupt, OutOfSpace, Overloaded, TimedOut
from mayflydb.model.snapshots import SavedSnapshot
from mayflydb.version import __version__

T = TypeVar("T")

log = logging.getLogger(__name__)

BEFORE_ADVANCE: Final = "before-advance"
"""The snapshot that the first move of the clock over a file saves."""


class Facts(msgspec.Struct, frozen=True):
    """The clock at the time of a snapshot, and the version that saved it."""

    clock: ClockState
    version: str


MAX_DOWNLOADS: Final = 4
"""Snapshots that are downloaded at a time."""

UPLOAD_SECONDS: Final = 3600
"""Seconds that an upload may take."""


class SnapshotControl:
    """Saves and restores snapshots, each with the clock."""

    def __init__(self, engine: Engine, clock: ClockControl, note: Note) -> None:
        self._note = note
        self._engine = engine
        self._clock = clock
        self._tasks: set[asyncio.Task[Any]] = set()
        self._downloads = 0
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

        Forbidden where the clock may not be moved; Conflict for a snapshot from the future of a real clock; Held while a legal
        hold keeps what is there now.
        """
        self._clock.check_allowed("restored")
        await self._engine.holds.refuse_reset()
        # A client that leaves does not interrupt it between the content and the clock.
        shredded = await self._finish(self._restore(name))
        return {**await self._clock.show(), "restored": name, "shredded": shredded}

    async def download(self, name: str) -> AsyncGenerator[bytes, None]:
        """Return the bytes of a snapshot, to be read at once. NotFound, Overloaded if too many are read."""
        snapshots = self._engine.snapshots_or_refusal()
        await snapshots.find(name)
        if self._downloads >= MAX_DOWNLOADS:
            raise Overloaded(f"{MAX_DOWNLOADS} snapshots are being downloaded", hint="try again when one is complete")
        return self._read(snapshots.read(name))

    async def upload(self, name: str, parts: AsyncIterator[bytes], size: int = 0) -> dict[str, Any]:
        """Take the bytes of a snapshot, in the place of one that had the name. `size`: their number, 0: not known.

        Errors: those of `Snapshots.receive`; TimedOut.
        """

        async def receive() -> SavedSnapshot:
            try:
                async with asyncio.timeout(UPLOAD_SECONDS):
                    return await self._engine.snapshots_or_refusal().receive(name, parts, size, _accept)
            except TimeoutError as error:
                raise TimedOut(f"the snapshot was not there after {UPLOAD_SECONDS} seconds") from error

        # A client that leaves ends `parts`, and not the work on a thread.
        saved = await self._finish(receive())
        return {"now": formats.time(await self._engine.now()), **_describe(saved)}

    async def delete(self, name: str) -> dict[str, Any]:
        """Delete a snapshot."""
        await self._engine.snapshots_or_refusal().delete(name)
        return {"now": formats.time(await self._engine.now()), "deleted": name}

    async def _finish(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    async def _read(self, parts: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        self._downloads += 1
        try:
            async for part in parts:
                yield part
        finally:
            self._downloads -= 1
            await parts.aclose()

    async def _restore(self, name: str) -> int:
        snapshots = self._engine.snapshots_or_refusal()
        async with self._clock.moving:
            facts = _facts_of(await snapshots.find(name))
            real = await self._clock.check_restore(facts.clock)
            shredded = await self._engine.restore(name, real, lambda: self._clock.return_to(facts.clock))
            await self._engine.holds.releases.resume()
            await self._note("reset", f"snapshot {name}")
        self._engine.reaper.wake()
        return shredded

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


def _accept(facts: bytes, rows: Sequence[Any]) -> None:
    """Look at what came with a snapshot. ValueError says what cannot be read: restored, it would be found too late."""
    msgspec.json.decode(facts, type=Facts)
    check_rows(rows)


def _facts_of(saved: SavedSnapshot) -> Facts:
    try:
        return msgspec.json.decode(saved.facts, type=Facts)
    except msgspec.DecodeError as error:
        raise Corrupt(f"the snapshot {saved.name} cannot be read: {error}") from error


def _describe(saved: SavedSnapshot) -> dict[str, Any]:
    facts = _facts_of(saved)
    clock = {"saved_at": formats.time(facts.clock.now), "mode": facts.clock.mode, "frozen": facts.clock.frozen}
    return {"name": saved.name, **clock, "bytes": saved.size, "version": facts.version}
