"""Patterns of LIKE. The time of a match grows with the length of the text and not with the number of possible matches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias

Matcher: TypeAlias = Callable[[str], bool]

MAX_SEGMENT_LENGTH: Final = 4096
"""The maximum length of a segment that contains `_` or sets: matching costs one bit of work for each element and character."""

_MAX_CACHED_MASKS: Final = 1024


class Characters(Protocol):
    """A set of characters."""

    def __contains__(self, character: str, /) -> bool: ...


Element: TypeAlias = str | Characters
"""A single character, or the set of characters that match."""

Segment: TypeAlias = Sequence[Element]
"""The elements between two `%`."""


class _AnyCharacter:
    """The set of all characters, for `_`."""

    def __contains__(self, character: str) -> bool:
        return True


ANY: Final = _AnyCharacter()


class SegmentTooLong(ValueError):
    """A segment with sets of characters is longer than MAX_SEGMENT_LENGTH."""


def match_segments(segments: Sequence[Segment]) -> Matcher:
    """Return the matcher of texts that consist of the segments with any text between them. Raises SegmentTooLong."""
    if all(type(element) is str for segment in segments for element in segment):
        return _match_plain(["".join(map(str, segment)) for segment in segments])
    if max(map(len, segments)) > MAX_SEGMENT_LENGTH:
        raise SegmentTooLong
    return _match_general(segments)


def _match_plain(parts: list[str]) -> Matcher:
    """Return the matcher of segments without wildcards, which uses string search."""
    if len(parts) == 1:
        return parts[0].__eq__
    first, *middle, last = parts
    shortest = len(first) + len(last)

    def matches(text: str) -> bool:
        # First and last segment may not overlap.
        if len(text) < shortest or not text.startswith(first) or not text.endswith(last):
            return False
        place, stop = len(first), len(text) - len(last)
        for part in middle:
            # The leftmost place is enough: it leaves the most text to the other segments.
            place = text.find(part, place, stop)
            if place < 0:
                return False
            place += len(part)
        return True

    return matches


def _match_general(segments: Sequence[Segment]) -> Matcher:
    first, last = segments[0], segments[-1]
    middle = [_Search(segment) for segment in segments[1:-1] if segment]
    exact = len(segments) == 1

    def matches(text: str) -> bool:
        size = len(text)
        if not _fits(first, text, 0) or (exact and size != len(first)):
            return False
        if exact:
            return True
        place, stop = len(first), size - len(last)
        if stop < place or not _fits(last, text, stop):
            return False
        for search in middle:
            place = search.find(text, place, stop)
            if place < 0:
                return False
        return True

    return matches


def _fits(segment: Segment, text: str, place: int) -> bool:
    if len(text) - place < len(segment):
        return False
    return all(_accepts(element, text[place + at]) for at, element in enumerate(segment))


def _accepts(element: Element, character: str) -> bool:
    return element == character if type(element) is str else character in element


class _Search:
    """Finds a segment by the shift-and algorithm: bit n is set if the first n + 1 elements match up to the current
    character.
    """

    __slots__ = ("done", "masks", "segment")

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.done = 1 << (len(segment) - 1)
        self.masks: dict[str, int] = {}

    def find(self, text: str, place: int, stop: int) -> int:
        """Return the end of the first match in text[place:stop], or -1."""
        prefixes = 0
        masks = self.masks
        for at in range(place, stop):
            character = text[at]
            mask = masks.get(character)
            if mask is None:
                mask = self._mask(character)
                # A text may contain any number of different characters.
                if len(masks) < _MAX_CACHED_MASKS:
                    masks[character] = mask
            # Each started match grows by one element, a new one starts at bit 0, and those that do not accept the
            # character go.
            prefixes = (prefixes << 1 | 1) & mask
            if prefixes & self.done:
                return at + 1
        return -1

    def _mask(self, character: str) -> int:
        bits = "".join("1" if _accepts(element, character) else "0" for element in reversed(self.segment))
        return int(bits, 2)
