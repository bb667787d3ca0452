"""Segments: ranges of a container's versions whose values are sealed with one key, the changes of segments, and their keys."""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

import msgspec

SegmentState: TypeAlias = Literal["live", "plain", "gone", "undone"]


class KeySegment(msgspec.Struct, frozen=True):
    """A segment of a container: the versions with lsn >= `first`, up to the next segment's. `number` names it for the engine.

    `live`: their values are sealed with the segment's key. `plain`: they are not sealed. `gone`: none is stored any more, and the
    key is destroyed, or about to be. `undone`: a restore has undone them, and a snapshot may need the key.
    """

    container: int
    first: int
    number: int
    state: SegmentState


class BeginSegment(msgspec.Struct, frozen=True):
    """Begin a segment of a container at an lsn that no stored version has, unless the newest one has this number or a higher one.

    The values of its versions are sealed with a key of its own; with `sealed` false they are not, and the newest segment ends.
    For stores that seal (`Keys`).
    """

    container: int
    first: int
    number: int
    sealed: bool = True


class ShredEmpty(msgspec.Struct, frozen=True):
    """Make the segments of a container `gone` of which no version is stored.

    The newest one stays if its number is `number` or a higher one; else another takes its place. `dropped`: the container is
    gone, and its newest segment goes too.
    """

    container: int
    number: int
    dropped: bool = False


class ShredUndone(msgspec.Struct, frozen=True):
    """Make the segments `gone` that are `undone`, except those whose keys have these serial numbers."""

    needed: tuple[int, ...]


class ForgetSegments(msgspec.Struct, frozen=True):
    """Forget segments that are `gone`, as (container, first)."""

    segments: tuple[tuple[int, int], ...]


class Keys(Protocol):
    """The keys of the segments of a store that seals values, apart from what they seal."""

    @property
    def is_used(self) -> bool:
        """True if the store has segments, or had some."""

    def check(self) -> None:
        """Raise Unavailable if no key can be made."""

    async def destroy(self) -> list[KeySegment]:
        """Destroy the keys of all segments that are `gone`, and return these. Afterwards nothing that they sealed can be read."""

    async def read_needed(self) -> tuple[int, ...]:
        """Return the serial numbers of the keys that snapshots of the store have."""
