"""Limits of values that functions build: a small text or list can ask for a very large one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar

from mayflydb.query.yql.faults import Position, fault

S = TypeVar("S", str, bytes)

MAX_ITEMS: Final = 1_000_000
"""Items of a list that is built in one step, which nothing interrupts."""

MAX_TEXT: Final = 16 << 20
"""Bytes of a String, or characters of a Utf8: as many as a cell may have."""

JOINED_AT_ONCE: Final = 10_000
"""Texts that are joined in one step."""


def check_items(count: float, what: str, position: Position | None = None) -> None:
    """Refuse a list of more than MAX_ITEMS items."""
    if count > MAX_ITEMS:
        raise fault(f"{what} makes more than {MAX_ITEMS} items", position)


def check_text(length: int) -> None:
    """Refuse a text longer than MAX_TEXT."""
    if length > MAX_TEXT:
        raise fault(f"A string longer than {MAX_TEXT} is not supported")


def chain_lists(lists: Iterable[Sequence[Any] | None], what: str) -> list[Any]:
    """Concatenate lists, skipping those that are NULL. Faults: too many items."""
    found: list[Any] = []
    for each in lists:
        if each is not None:
            check_items(len(found) + len(each), what)
            found.extend(each)
    return found


def concatenate(left: S, right: S) -> S:
    """Concatenate two texts. Faults: the result is too long."""
    check_text(len(left) + len(right))
    return left + right


def join_texts(parts: Sequence[S], separator: S) -> S:
    """Join texts with a separator. Faults: the result is too long."""
    check_text(sum(map(len, parts)) + len(separator) * len(parts))
    if len(parts) > JOINED_AT_ONCE:
        # The interpreter takes 80 bytes for each of the texts that it joins at once.
        starts = range(0, len(parts), JOINED_AT_ONCE)
        parts = [separator.join(parts[start : start + JOINED_AT_ONCE]) for start in starts]
    return separator.join(parts)


def replace_text(text: S, find: S, by: S) -> S:
    """Replace every occurrence of `find`; an empty `find` occurs nowhere. Faults: the result is too long."""
    if not find:
        return text
    if len(by) > len(find):
        check_text(len(text) + text.count(find) * (len(by) - len(find)))
    return text.replace(find, by)
