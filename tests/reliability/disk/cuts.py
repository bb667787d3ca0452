"""Power cuts: from the log of a disk, the images that it may show after losing power at some point of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import TypeAlias

from reliability.disk.platter import SECTOR, Create, Event, Forget, Mark, Sync, Truncate, Unlink, Write

Image: TypeAlias = dict[str, bytes]
Change: TypeAlias = Write | Truncate


class Durable:
    """What is safe after a number of events, and what is not: per file its synced bytes and the changes pending on them.

    Syncing a new file makes its name durable too. SQLite syncs the directory with a new journal or log; until then, a removal
    that was not synced may come back.
    """

    def __init__(self) -> None:
        self.synced: dict[str, bytearray] = {}
        self.pending: dict[str, list[Change]] = {}
        self.new: set[str] = set()
        self.unlinked: dict[str, tuple[bytearray, list[Change]]] = {}

    def take(self, event: Event) -> None:
        """One more event has happened."""
        match event:
            case Write(path) | Truncate(path):
                self.pending[path].append(event)
            case Sync(path):
                for change in self.pending[path]:
                    apply(self.synced[path], change)
                self.pending[path].clear()
                if path in self.new and path.endswith(("-journal", "-wal")):
                    self.unlinked.clear()
                self.new.discard(path)
                self.unlinked.pop(path, None)
            case Forget(path):
                self.pending[path].clear()
            case Create(path):
                self.synced[path], self.pending[path] = bytearray(), []
                self.new.add(path)
            case Unlink(path, durable):
                content = self.synced.pop(path, None)
                changes = self.pending.pop(path, [])
                if path in self.new:
                    self.new.discard(path)
                elif content is not None and not durable:
                    self.unlinked[path] = content, changes
            case Mark():
                pass

    def image(self, mode: str, draw: random.Random) -> Image:
        """One of the states that the disk may be found in."""
        survive = MODES[mode]
        image: Image = {}
        for path, (content, changes) in self.unlinked.items():
            if draw.random() < 0.5:
                image[path] = survive(bytearray(content), changes, draw)
        for path, content in self.synced.items():
            if path in self.new and not self.pending[path] and draw.random() < 0.5:
                continue
            if path in self.new and mode == "none":
                continue
            image[path] = survive(bytearray(content), self.pending[path], draw)
        return image

    @property
    def at_risk(self) -> bool:
        """Whether a cut now could lose anything."""
        return any(self.pending.values()) or bool(self.new) or bool(self.unlinked)


def apply(content: bytearray, change: Change) -> None:
    """Do one change."""
    if isinstance(change, Truncate):
        del content[change.size :]
        return
    if change.offset > len(content):
        content.extend(bytes(change.offset - len(content)))
    content[change.offset : change.offset + len(change.data)] = change.data


def _none(content: bytearray, changes: list[Change], draw: random.Random) -> bytes:
    return bytes(content)


def _all(content: bytearray, changes: list[Change], draw: random.Random) -> bytes:
    for change in changes:
        apply(content, change)
    return bytes(content)


def _prefix(content: bytearray, changes: list[Change], draw: random.Random) -> bytes:
    return _all(content, changes[: draw.randint(0, len(changes))], draw)


def _sectors(content: bytearray, changes: list[Change], draw: random.Random) -> bytes:
    share = draw.choice((0.1, 0.5, 0.9))
    for change in changes:
        if isinstance(change, Truncate):
            if draw.random() < share:
                apply(content, change)
            continue
        for offset, data in _pieces(change):
            if draw.random() < share:
                apply(content, Write(change.path, offset, data))
    return bytes(content)


def _garbage(content: bytearray, changes: list[Change], draw: random.Random) -> bytes:
    for change in changes:
        if isinstance(change, Truncate):
            apply(content, change)
            continue
        for offset, data in _pieces(change):
            fate = draw.random()
            if fate < 0.3:
                data = draw.randbytes(len(data))
            if fate < 0.8:
                apply(content, Write(change.path, offset, data))
    return bytes(content)


def _pieces(write: Write) -> list[tuple[int, bytes]]:
    """A write cut at sector boundaries."""
    pieces, offset, end = [], write.offset, write.offset + len(write.data)
    while offset < end:
        stop = min(end, (offset // SECTOR + 1) * SECTOR)
        pieces.append((offset, write.data[offset - write.offset : stop - write.offset]))
        offset = stop
    return pieces


MODES: Mapping[str, Callable[[bytearray, list[Change], random.Random], bytes]] = {
    "none": _none,
    "prefix": _prefix,
    "all": _all,
    "sectors": _sectors,
    "garbage": _garbage,
}
"""What becomes of the writes that were pending."""
