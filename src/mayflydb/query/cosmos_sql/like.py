"""LIKE patterns as matchers whose time grows with the text, not with the ways to match it."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final, TypeAlias

from mayflydb.query.cosmos_sql.faults import bad_query

Matcher: TypeAlias = Callable[[str], bool]


LONGEST_SEGMENT: Final = 4096
"""Characters between two `%` when `_` or brackets are among them: each costs a bit per character of the text."""

_REMEMBERED_MASKS: Final = 1024


class CharacterSet:
    """`_`, `[a-f]` or `[^abc]`: which single characters match."""

    __slots__ = ("negated", "ranges", "singles")

    def __init__(self, singles: str, ranges: tuple[tuple[str, str], ...], negated: bool) -> None:
        self.singles = frozenset(singles)
        self.ranges = ranges
        self.negated = negated

    def __contains__(self, character: str) -> bool:
        held = character in self.singles or any(low <= character <= high for low, high in self.ranges)
        return held != self.negated


_ANY = CharacterSet("", (), True)

Segment: TypeAlias = list[str | CharacterSet]
"""What stands between two `%`: one element a character."""


@lru_cache(maxsize=512)
def like(pattern: str, escape: str | None) -> Matcher:
    """The matcher of `pattern`; BadQuery for an escape that is not one character, or too long a run of wildcards."""
    if escape is not None and len(escape) != 1:
        raise bad_query("The ESCAPE of LIKE must be a single character.", 0, 0)
    segments = _segments(pattern, escape)
    if all(type(element) is str for segment in segments for element in segment):
        return _plain(["".join(map(str, segment)) for segment in segments])
    if max(map(len, segments)) > LONGEST_SEGMENT:
        raise bad_query(f"A LIKE pattern with _ or [] may hold {LONGEST_SEGMENT} characters between two %.", 0, 0)
    return _general(segments)


def _segments(pattern: str, escape: str | None) -> list[Segment]:
    segments: list[Segment] = [[]]
    place, size = 0, len(pattern)
    while place < size:
        character = pattern[place]
        place += 1
        if character == escape:
            # An escape at the very end stands for itself.
            segments[-1].append(pattern[place] if place < size else character)
            place += 1
        elif character == "%":
            segments.append([])
        elif character == "_":
            segments[-1].append(_ANY)
        elif character == "[" and (closing := pattern.find("]", place + 1)) > 0:
            segments[-1].append(_character_set(pattern[place:closing]))
            place = closing + 1
        else:
            segments[-1].append(character)
    return segments


def _character_set(body: str) -> str | CharacterSet:
    negated = body.startswith("^") and len(body) > 1
    body = body[1:] if negated else body
    singles: list[str] = []
    ranges: list[tuple[str, str]] = []
    place = 0
    while place < len(body):
        if body[place + 1 : place + 2] == "-" and place + 2 < len(body):
            ranges.append((body[place], body[place + 2]))
            place += 3
        else:
            singles.append(body[place])
            place += 1
    if len(singles) == 1 and not ranges and not negated:
        return singles[0]
    return CharacterSet("".join(singles), tuple(ranges), negated)


def _plain(parts: list[str]) -> Matcher:
    """Without wildcards for single characters, strings do the searching."""
    if len(parts) == 1:
        return parts[0].__eq__
    first, *middle, last = parts
    shortest = len(first) + len(last)

    def matches(text: str) -> bool:
        if len(text) < shortest or not text.startswith(first) or not text.endswith(last):
            return False
        place, stop = len(first), len(text) - len(last)
        for part in middle:
            place = text.find(part, place, stop)
            if place < 0:
                return False
            place += len(part)
        return True

    return matches


def _general(segments: list[Segment]) -> Matcher:
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


def _accepts(element: str | CharacterSet, character: str) -> bool:
    return element == character if type(element) is str else character in element


class _Search:
    """Finds a segment by the shift-and method: one bit for each prefix of the segment that ends at the current character."""

    __slots__ = ("done", "masks", "segment")

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.done = 1 << (len(segment) - 1)
        self.masks: dict[str, int] = {}

    def find(self, text: str, place: int, stop: int) -> int:
        """Where the first match in text[place:stop] ends, or -1."""
        prefixes = 0
        masks = self.masks
        for at in range(place, stop):
            character = text[at]
            mask = masks.get(character)
            if mask is None:
                mask = self._mask(character)
                if len(masks) < _REMEMBERED_MASKS:
                    masks[character] = mask
            prefixes = (prefixes << 1 | 1) & mask
            if prefixes & self.done:
                return at + 1
        return -1

    def _mask(self, character: str) -> int:
        bits = "".join("1" if _accepts(element, character) else "0" for element in reversed(self.segment))
        return int(bits, 2)
