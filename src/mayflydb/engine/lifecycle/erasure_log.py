"""The erasure log: lines about every record that expired, never its data, in a chain that shows each later change.

It follows the stored expiry events by a cursor. A segment of lines, the new head and the cursor are committed together, only if
no other node has added lines meanwhile; so each event has exactly one line, whatever process ends when. While the log is on,
events are not trimmed before it has read them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from mayflydb.engine.catalog import ROOT, Nodes
from mayflydb.engine.catalog_changes import open_container
from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.engine.expiry_events import TRIMMED
from mayflydb.engine.ordered_histories import ChangeNotifier
from mayflydb.engine.reads import row_at
from mayflydb.engine.timekeeper import Timekeeper
from mayflydb.engine.workspace import Workspace
from mayflydb.expiry.erasure_chain import Head, Line, chain, describe_erased, describe_shredded, format_time
from mayflydb.model.errors import MayflyError, OutOfSpace
from mayflydb.model.instant import SECOND, Span
from mayflydb.model.order import Order, Position
from mayflydb.model.record import Expiry, Record
from mayflydb.store.interface import (
    Change,
    Decision,
    Expiries,
    Get,
    LastExpiry,
    LoadRow,
    NamedNumber,
    Outcome,
    Scan,
    SetNumber,
    Store,
    ask,
)
from mayflydb.store.segments import ForgetSegments, KeySegment

log = logging.getLogger(__name__)

SPACE: Final = "audit"
CONTAINER: Final = "erasure"

LOGGED: Final = "erasure_logged"
"""The name under which the store keeps the number of the last event that has its line."""

SELF_TEST: Final = "self-test"
"""The trigger of purges of the self-test, whose record is no user's."""

SEGMENT: Final = 256
"""The most events whose lines one transaction writes; they are put into words in one turn of the event loop."""

PAUSE: Final[Span] = SECOND // 5
"""The pause between two looks, so that a segment has more than one line."""

LOOK: Final[Span] = 5 * SECOND
"""The longest time until purges of other nodes are noticed."""

AT_ONCE: Final = 64
"""Segments that a request for lines writes at most before it is answered."""

LATEST: Final = 24
"""Segments among which the last lines are looked for."""

PATHS: Final = 10_000
"""Paths of containers that are kept, for events that are read when their container is gone."""

_HEAD: Final = b"head"


class StoredHead(msgspec.Struct, frozen=True):
    """The head, the secret of the hashes of keys in hexadecimal, and the last event of a line about secure erase."""

    lines: int
    hash: str
    secret: str
    scrubbed: int = 0

    @property
    def key(self) -> bytes:
        return bytes.fromhex(self.secret)


class Progress(msgspec.Struct, frozen=True):
    """The state of the log. `event`: the number of the last event with a line; `lag`: at most so many events have none yet."""

    head: Head
    event: int
    lag: int


class Segment(msgspec.Struct, frozen=True):
    """Lines that were written together, and their place, behind which the next segment lies."""

    place: int
    lines: tuple[bytes, ...]


_decode = msgspec.json.Decoder(StoredHead).decode


class ErasureLog:
    """Reads the log of one store, and writes it while it is on (`is_on`)."""

    def __init__(
        self,
        store: Store,
        time: Timekeeper,
        nodes: Nodes,
        notifier: ChangeNotifier,
    ) -> None:
        self._store = store
        self._time = time
        self._nodes = nodes
        self._notifier = notifier
        self._chance: Callable[[int], bytes] | None = None
        self._rest = ChangeNotifier()
        self._paths: dict[int, tuple[str, ...]] = {}
        self._scrubbed = 0
        self._shredded: dict[KeySegment, int] = {}

    @property
    def is_on(self) -> bool:
        """Return whether lines are written."""
        return self._chance is not None

    def turn_on(self, chance: Callable[[int], bytes]) -> None:
        """Let the log be written from now on. `chance`: gives random bytes, for the secret of a new log."""
        self._chance = chance

    def note_scrub(self, event: int) -> None:
        """Let a line say that what the events up to this one erased is overwritten."""
        self._scrubbed = event
        if self.is_on:
            self._notifier.notify()

    def note_destruction(self, segments: Sequence[KeySegment], event: int) -> None:
        """Let lines say that the keys of these segments were destroyed, behind the lines of the events up to this one."""
        self._shredded |= {each: event for each in segments if each not in self._shredded}
        self._notifier.notify()

    def turn_off(self) -> None:
        """Let events pass without lines."""
        self._chance = None

    # --- reads -----------------------------------------------------------------------------------------------------------

    async def progress(self) -> Progress:
        """Return how far the log is."""
        logged = await self._store.read(NamedNumber(LOGGED)) or 0
        lag = max(0, await self._store.read(LastExpiry()) - logged)
        head = await self._head(await self._id())
        return Progress(Head() if head is None else Head(head[0].lines, head[0].hash), logged, lag)

    async def segments(self, after: int) -> list[Segment]:
        """Return some segments behind a place, 0: the first ones. An empty list is the end."""
        container = await self._id()
        if container is None:
            return []
        start = Position(b"", after)
        records = await self._store.read(Scan(container, b"", None, Order.CREATED, start, 4))
        return [Segment(each.seq, () if each.key == _HEAD else tuple(each.value.split(b"\n"))) for each in records]

    async def latest(self, most: int) -> list[bytes]:
        """Return the last lines, up to `most`. They may be fewer than the log has: a few segments are read."""
        container = await self._id()
        head = await self._head(container)
        if container is None or head is None:
            return []
        # Numbers of changes have gaps. So the search goes back from the head in steps that double, until a page from there ends
        # before the head; then it halves the last step.
        before, upto, step = -1, head[1].lsn - 1, 2
        lines: list[bytes] = []
        while len(lines) < most and before + 1 < upto:
            middle = max(upto - step, (before + upto) // 2)
            page = await self._store.read(Scan(container, b"", None, Order.CHANGED, Position(b"", middle), LATEST))
            if page and page[-1].key == _HEAD:
                lines = [line for each in page if each.key != _HEAD for line in each.value.split(b"\n")]
                upto, step = middle, 2 * step
            else:
                before = middle
        return lines[-most:]

    async def secret(self) -> bytes | None:
        """Return the secret of the hashes of keys; None: there is no log yet."""
        head = await self._head(await self._id())
        return None if head is None else head[0].key

    async def read_cursor(self) -> int | None:
        """Return the number up to which events may be trimmed; None: the log is off."""
        return (await self._store.read(NamedNumber(LOGGED)) or 0) if self.is_on else None

    async def _id(self) -> int | None:
        row = await row_at(self._store, SPACE, CONTAINER)
        return None if row is None else row.id

    async def _head(self, container: int | None) -> tuple[StoredHead, Record] | None:
        record = None if container is None else await self._store.read(Get(container, b"", _HEAD))
        return None if record is None else (_decode(record.value), record)

    # --- lines -----------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Write lines until cancelled. After a failure of the store the log tries again; its events wait for it."""
        while True:
            heard = self._notifier.notifications
            try:
                await self.catch_up()
            except OutOfSpace as error:
                log.warning("the erasure log waits for free space, and expiry events wait for it: %s", error)
                await self._rest.wait(0, LOOK)
            except MayflyError as error:
                log.warning("the erasure log could not be written and will be tried again: %s", error)
            await self._rest.wait(0, PAUSE)
            await self._notifier.wait(heard, LOOK)

    async def catch_up(self, segments: int | None = None) -> None:
        """Write the lines of all events so far, or of as many as fit into some segments. Errors: those of a write."""
        written = 0
        while self._chance and (segments is None or written < segments) and await self._append(self._chance):
            written += 1
            await asyncio.sleep(0)

    async def _append(self, chance: Callable[[int], bytes]) -> bool:
        """Write one segment. False: there is nothing to write."""
        container = await self._open()
        cursor = await self._store.read(NamedNumber(LOGGED))
        known = await self._head(container)
        events = await self._store.read(Expiries(None, cursor or 0, SEGMENT))
        # Read after the events, so that a removal before their read is known here.
        trimmed = await self._store.read(NamedNumber(TRIMMED)) or 0
        events = [event for event in events if event.id > trimmed]
        secret = chance(32) if known is None else known[0].key
        lines = await self._describe(events, cursor, trimmed, secret)
        upto = max(cursor or 0, trimmed, *(event.id for event in events))
        scrubbed = 0 if known is None or cursor is None else known[0].scrubbed
        # After the lines of those events, in whichever segment.
        if scrubbed < self._scrubbed <= upto:
            scrubbed = self._scrubbed
            lines.append(Line(0, "scrubbed", format_time(await self._time.now()), scrubbed, ""))
        shredded = [each for each, event in self._shredded.items() if event <= upto][:SEGMENT]
        lines += [await self._describe_shredded(each, upto) for each in shredded]
        if cursor is not None and upto == cursor and not lines:
            return False
        before = Head() if known is None else Head(known[0].lines, known[0].hash)
        encoded, head = chain(before, lines)
        stored = msgspec.json.encode(StoredHead(head.lines, head.hash, secret.hex(), scrubbed))
        version = None if known is None else known[1].lsn
        commands = [_put_head(stored, version)]
        if encoded:
            key = (before.lines + 1).to_bytes(8, "big")
            commands.insert(0, Command(Mode.CREATE, b"", key, Draft(b"\n".join(encoded))))
        if await self._commit(container, commands, cursor, version, upto, shredded):
            for each in shredded:
                del self._shredded[each]
        return True

    async def _describe(self, events: list[Expiry], cursor: int | None, trimmed: int, secret: bytes) -> list[Line]:
        now = format_time(await self._time.now())
        paths = {id: await self._path(id) for id in {event.container for event in events}}
        lines = []
        if cursor is None:
            lines.append(Line(0, "start", now, trimmed, ""))
        elif trimmed > cursor:
            lines.append(Line(0, "gap", now, trimmed, "", after=cursor))
        lines += [describe_erased(event, paths[event.container], secret) for event in events if event.how != SELF_TEST]
        return lines

    async def _describe_shredded(self, segment: KeySegment, upto: int) -> Line:
        now = format_time(await self._time.now())
        return describe_shredded(segment.container, segment.number, await self._path(segment.container), upto, now)

    async def _commit(
        self,
        container: int,
        commands: list[Command],
        cursor: int | None,
        version: int | None,
        upto: int,
        shredded: Sequence[KeySegment],
    ) -> bool:
        """Commit a segment of lines. False: another node was first, and nothing is written."""
        now = await self._time.now()
        told = tuple((each.container, each.first) for each in shredded)

        def decide() -> Decision[bool]:
            row = yield from ask(LoadRow(container))
            head = yield from ask(Get(container, b"", _HEAD))
            there = yield from ask(NamedNumber(LOGGED))
            if row is None or (None if head is None else head.lsn) != version or there != cursor:
                return Outcome((), False)
            space = Workspace(self._nodes.of(row), now)
            for command in commands:
                yield from space.run(command)
            forgotten = (ForgetSegments(told),) if told else ()
            return Outcome((*space.changes, SetNumber(LOGGED, upto), *forgotten), True)

        return (await self._store.write(decide, "sweep")).reply

    async def _open(self) -> int:
        """Return the container of the log, created if it is missing."""
        found = await self._id()
        if found is not None:
            return found
        now = await self._time.now()

        def decide() -> Decision[int]:
            changes: list[Change] = []
            container = yield from open_container((SPACE, CONTAINER), now, changes)
            return Outcome(tuple(changes), container)

        return (await self._store.write(decide)).reply

    async def _path(self, container: int) -> tuple[str, ...]:
        """Return the names of a container and of the nodes above it; the last known ones if it was dropped."""
        names: list[str] = []
        id = container
        while id != ROOT:
            row = await self._store.read(LoadRow(id))
            if row is None:
                return self._paths.get(container, ())
            names.append(row.name)
            id = row.parent
        path = tuple(reversed(names))
        if self._paths.get(container) != path:
            while len(self._paths) >= PATHS:
                self._paths.pop(next(iter(self._paths)))
            self._paths[container] = path
        return path

    async def finish(self, seconds: float) -> None:
        """Write what is left, for at most this long. After a failure it waits for the next start."""
        try:
            async with asyncio.timeout(seconds):
                await self.catch_up()
        except (TimeoutError, MayflyError) as error:
            log.warning("the last lines of the erasure log wait for the next start: %r", error)


def _put_head(value: bytes, version: int | None) -> Command:
    if version is None:
        return Command(Mode.CREATE, b"", _HEAD, Draft(value))
    return Command(Mode.REPLACE, b"", _HEAD, Draft(value), if_match=version)
