"""Compilation of LIKE patterns to matchers."""

from __future__ import annotations

from functools import lru_cache

from mayflydb.query.cosmos_sql.faults import bad_query
from mayflydb.query.wildcards import ANY, MAX_SEGMENT_LENGTH, Element, Matcher, SegmentTooLong, match_segments


class CharacterSet:
    """A set of single characters: `[a-f]` or `[^abc]`."""

    __slots__ = ("negated", "ranges", "singles")

    def __init__(self, singles: str, ranges: tuple[tuple[str, str], ...], negated: bool) -> None:
        self.singles = frozenset(singles)
        self.ranges = ranges
        self.negated = negated

    def __contains__(self, character: str) -> bool:
        held = character in self.singles or any(low <= character <= high for low, high in self.ranges)
        return held != self.negated


@lru_cache(maxsize=512)
def compile_like(pattern: str, escape: str | None) -> Matcher:
    """Compile a pattern to a matcher; BadQuery for an escape that is not one character, or too long a run of wildcards."""
    if escape is not None and len(escape) != 1:
        raise bad_query("The ESCAPE of LIKE must be a single character.", 0, 0)
    try:
        return match_segments(_split_segments(pattern, escape))
    except SegmentTooLong:
        raise bad_query(
            f"A LIKE pattern with _ or [] may hold {MAX_SEGMENT_LENGTH} characters between two %.", 0, 0
        ) from None


def plain_text(pattern: str, escape: str | None) -> str | None:
    """Return the only text that matches a pattern; None for a pattern with wildcards."""
    segments = _split_segments(pattern, escape)
    elements = [element for element in segments[0] if isinstance(element, str)]
    return "".join(elements) if len(segments) == 1 and len(elements) == len(segments[0]) else None


def _split_segments(pattern: str, escape: str | None) -> list[list[Element]]:
    segments: list[list[Element]] = [[]]
    position, size = 0, len(pattern)
    while position < size:
        character = pattern[position]
        position += 1
        if character == escape:
            # An escape at the very end stands for itself.
            segments[-1].append(pattern[position] if position < size else character)
            position += 1
        elif character == "%":
            segments.append([])
        elif character == "_":
            segments[-1].append(ANY)
        # The bracket may be the first member of its set, as in `[]]`. A `[` that nothing closes is a plain character.
        elif character == "[" and (closing := pattern.find("]", position + 1)) > 0:
            segments[-1].append(_parse_character_set(pattern[position:closing]))
            position = closing + 1
        else:
            segments[-1].append(character)
    return segments


def _parse_character_set(body: str) -> str | CharacterSet:
    negated = body.startswith("^") and len(body) > 1
    body = body[1:] if negated else body
    singles: list[str] = []
    ranges: list[tuple[str, str]] = []
    position = 0
    while position < len(body):
        if body[position + 1 : position + 2] == "-" and position + 2 < len(body):
            ranges.append((body[position], body[position + 2]))
            position += 3
        else:
            singles.append(body[position])
            position += 1
    if len(singles) == 1 and not ranges and not negated:
        return singles[0]
    return CharacterSet("".join(singles), tuple(ranges), negated)
