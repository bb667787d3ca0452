"""Events as a stream: records that TTL removed, purges, writes, moves of the clock, resets.

A stream keeps no backlog. It reads the stored expiry events from its own place on, when its client has taken those before, so a
slow client delays only itself.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from itertools import groupby, islice
from typing import Any, Final, Literal, get_args

import msgspec

from mayflydb.admin import formats
from mayflydb.admin.targets import ContainerTarget, TargetResolver
from mayflydb.engine.engine import Engine
from mayflydb.engine.history import HistoryLost
from mayflydb.engine.scans import Scope
from mayflydb.expiry.explain import CAUSES, explain
from mayflydb.expiry.rules import CASCADE, Cause
from mayflydb.model.errors import BadRequest, NotFound, Overloaded
from mayflydb.model.hints import Hint
from mayflydb.model.instant import SECOND, Instant, Span
from mayflydb.model.order import Order, Position
from mayflydb.model.quota import Quota
from mayflydb.model.record import Expiry

EventType = Literal["expired", "purged", "write", "clock", "reset"]
TYPES: Final[tuple[EventType, ...]] = get_args(EventType)
USUAL: Final = "expired,purged,clock,reset"

PAGE: Final = 64
"""Events of one read. They are put into words in one turn of the event loop."""

SILENCE_SECONDS: Final = 15.0
"""Seconds after which a comment shows clients and proxies that the stream is open."""

PAUSE_SECONDS: Final = 0.1
"""Seconds between two looks: while clients write, each commit would cause one."""

RETRY_MILLISECONDS: Final = 2000
KEPT: Final = 1000
"""Moves of the clock and resets that are kept for streams that are behind."""


class Follow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`types`: names, separated by commas. `after`: the number of an expiry event; the stream begins behind it."""

    types: str = USUAL
    target: str | None = None
    after: int | None = None

    def checked_types(self) -> frozenset[str]:
        names = frozenset(filter(None, self.types.split(",")))
        unknown = sorted(names.difference(TYPES))
        if unknown or not names:
            raise BadRequest(f"types={self.types} names no events", hint=f"some of {','.join(TYPES)}")
        return names


class Event(msgspec.Struct, frozen=True):
    """`seq`: the place in the log of expiry events behind which a stream resumes; None: the event has no place in it."""

    type: str
    data: dict[str, Any]
    seq: int | None = None


class Journal:
    """The latest moves of the clock and resets of this process."""

    def __init__(self) -> None:
        self._kept: deque[Event] = deque(maxlen=KEPT)
        self.count = 0

    def note(self, event: Event) -> None:
        """Add an event."""
        self._kept.append(event)
        self.count += 1

    def after(self, number: int) -> list[Event]:
        """Return the events behind the first `number` ones that are still kept."""
        missed = min(self.count - number, len(self._kept))
        return list(islice(self._kept, len(self._kept) - missed, None))


class EventStreams:
    """Opens streams of events."""

    def __init__(self, engine: Engine, targets: TargetResolver, quota: Quota) -> None:
        self._engine = engine
        self._targets = targets
        self._quota = quota
        self._closing = asyncio.Event()
        self.journal = Journal()

    def close(self) -> None:
        """End all streams."""
        self._closing.set()
        self._engine.reaper.notifier.notify()

    async def note(self, type: EventType, action: str) -> None:
        """Note that a person moved the clock, or reset the store."""
        clock = self._engine.time.clock
        now = formats.time(await self._engine.now())
        frozen = clock.until(clock.now()) is None
        self.journal.note(Event(type, {"at": now, "action": action, "mode": clock.mode, "frozen": frozen}))
        self._engine.reaper.notifier.notify()

    async def open(self, wanted: Follow, last_seen: str | None) -> AsyncGenerator[bytes, None]:
        """Return the text of a stream. `last_seen`: the `Last-Event-ID` of a client that comes back.

        Errors: BadRequest, NotFound, and Overloaded if there are too many streams.
        """
        types = wanted.checked_types()
        await self._targets.list_containers(wanted.target)
        after = wanted.after if last_seen is None else _parse_number(last_seen)
        if after is None:
            after = await self._engine.last_expiry()
        if not self._quota.has_room():
            self._quota.take()
            raise Overloaded("too many streams of events are open", hint=Hint("event-streams"), limit=self._quota.limit)
        return self._stream(types, wanted.target, after)

    async def _stream(self, types: frozenset[str], target: str | None, after: int) -> AsyncGenerator[bytes, None]:
        # Taken here, so that a stream which never starts takes none.
        self._quota.take()
        try:
            # The number first: a client that is cut off before its first event resumes here.
            yield b"retry: %d\nid: %d\n\n" % (RETRY_MILLISECONDS, after)
            async for event in self._follow(types, target, after):
                yield b": \n\n" if event is None else _encode(event)
        finally:
            self._quota.give()

    async def _follow(self, types: frozenset[str], target: str | None, after: int) -> AsyncIterator[Event | None]:
        """Yield events as they come, and None after a silence."""
        notifier = self._engine.reaper.notifier
        seen = self.journal.count
        writes = await self._begin_writes(target) if "write" in types else {}
        loop = asyncio.get_running_loop()
        spoken = loop.time()
        while not self._closing.is_set():
            heard = notifier.notifications
            async for event in self.read(after, target):
                after = after if event.seq is None else event.seq
                if event.type in types or event.type == "lost":
                    spoken = loop.time()
                    yield event
            noted, seen = self.journal.after(seen), self.journal.count
            for event in noted:
                if event.type in types:
                    spoken = loop.time()
                    yield event
            if "write" in types:
                async for event in self._read_writes(writes, target):
                    spoken = loop.time()
                    yield event
            if loop.time() - spoken >= SILENCE_SECONDS:
                spoken = loop.time()
                yield None
            left = spoken + SILENCE_SECONDS - loop.time()
            await notifier.wait(heard, int(max(0, left if self._engine.lease is None else min(left, 1)) * SECOND))
            await self._rest()

    async def _rest(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PAUSE_SECONDS):
                await self._closing.wait()

    async def read(self, after: int, target: str | None) -> AsyncIterator[Event]:
        """Yield the stored events behind a number up to the present one: each expiry, and after those of a purge its sum.

        An event `lost` stands where events are no longer kept. Those of dropped containers are left out.
        """
        open_group: _Purge | None = None
        while True:
            await self._engine.reaper.give_way(after)
            now = await self._engine.now()
            try:
                page = await self._engine.expiries(after, PAGE, now)
            except HistoryLost:
                kept = await self._engine.find_first_kept_expiry(now)
                yield Event("lost", {"at": formats.time(now), "after": after, "first": kept + 1}, kept)
                after = kept
                continue
            containers = await self._containers(target)
            for key, group in groupby(page, lambda event: (event.container, event.purged)):
                if open_group is not None and open_group.key != key:
                    yield open_group.event()
                    open_group = None
                container = containers.get(key[0])
                for event in group:
                    after = event.id
                    if container is None:
                        continue
                    if open_group is None:
                        open_group = _Purge(key, container.target, event.id)
                    open_group.count(event)
                    yield Event("expired", await self._describe(event, container), event.id)
            if len(page) < PAGE:
                break
            # Others come before the next page.
            await asyncio.sleep(0)
        if open_group is not None:
            yield open_group.event()

    async def _describe(self, event: Expiry, container: ContainerTarget) -> dict[str, Any]:
        """Put an expiry event into words, with the last image of its record where it is kept."""
        said = describe_expiry(event, container)
        if container.node.definition.lifecycle.last_image:
            image = await self._engine.reaper.events.last_image(container.node, event)
            said["image"] = None if image is None else container.front_end.decode_record(container.node, image)
        return said

    async def _containers(self, target: str | None) -> Mapping[int, ContainerTarget]:
        try:
            return {each.node.id: each for each in await self._targets.list_containers(target)}
        except NotFound:
            return {}  # Dropped meanwhile.

    async def _begin_writes(self, target: str | None) -> dict[int, int]:
        return {id: await self._engine.lsn(id) for id in await self._containers(target)}

    async def _read_writes(self, places: dict[int, int], target: str | None) -> AsyncIterator[Event]:
        """Yield the latest version of each record that was written since the last look, and move the places."""
        for id, container in (await self._containers(target)).items():
            place, reached = places.setdefault(id, 0), await self._engine.lsn(id)
            if reached <= place:
                continue
            now = await self._engine.now()
            names = container.front_end.index_names(container.node)
            pages = self._engine.scan(container.node, Scope(order=Order.CHANGED), Position(b"", place), now, PAGE)
            async for batch in pages:
                for record in batch.records:
                    why = explain(record, container.node.rules, now, names, container.front_end.causes)
                    key, pk = container.front_end.decode_identity(container.node, record.partition, record.key)
                    data = {"at": formats.time(record.written), "target": container.target, "id": key, "pk": pk}
                    due = formats.time_or_none(why.deadline)
                    yield Event("write", data | {"due": due, "reason": why.reason, "text": why.text})
                places[id] = batch.position.number
            places[id] = max(places[id], reached)


class _Purge:
    """The events of one container and one instant, added up."""

    def __init__(self, key: tuple[int, Instant], target: str, first: int) -> None:
        self.key = key
        self._target = target
        self._first = self._last = first
        self._number = 0
        self._lag: Span = 0

    def count(self, event: Expiry) -> None:
        self._number += 1
        self._last = event.id
        self._lag = max(self._lag, event.purged - event.deadline)

    def event(self) -> Event:
        data = {
            "at": formats.time(self.key[1]),
            "target": self._target,
            "purged": self._number,
            "first": self._first,
            "last": self._last,
            "lag_seconds": formats.seconds(max(0, self._lag)),
        }
        return Event("purged", data, self._last)


def describe_expiry(event: Expiry, container: ContainerTarget) -> dict[str, Any]:
    """Put an expiry event into words."""
    id, pk = container.front_end.decode_identity(container.node, event.partition, event.key)
    return {
        "seq": event.id,
        "at": formats.time(event.purged),
        "target": container.target,
        "id": id,
        "pk": pk,
        "due": formats.time(event.deadline),
        "purged_at": formats.time(event.purged),
        "reason": event.cause,
        "text": describe_cause(event, container),
    }


def describe_cause(event: Expiry, container: ContainerTarget) -> str:
    """Return the rule by which a record expired. The name of an index is not kept."""
    if event.cause == "index":
        return "a TTL index"
    if event.cause == "column":
        return "the TTL column"
    if event.cause == CASCADE:
        return "the record that it names has expired"
    cause: Cause = "item" if event.cause == "item" else "default"
    span = event.override if event.override and cause == "item" else formats.seconds(event.deadline - event.anchor)
    return container.front_end.causes.get(cause, CAUSES[cause]).format(span)


def _encode(event: Event) -> bytes:
    id = b"" if event.seq is None else b"id: %d\n" % event.seq
    return b"%bevent: %b\ndata: %b\n\n" % (id, event.type.encode(), msgspec.json.encode(event.data))


def _parse_number(text: str) -> int | None:
    """Parse a `Last-Event-ID`. None for one that is not ours."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None
