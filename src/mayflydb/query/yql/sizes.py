"""How large a value may become that a function makes out of little."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar

from mayflydb.query.yql.faults import Position, fault

S = TypeVar("S", str, bytes)

MAX_ITEMS: Final = 10_000_000
MAX_TEXT: Final = 64 << 20
"""Bytes, or characters, of a string: no message could carry a longer one."""


def check_items(count: float, what: str, position: Position | None = None) -> None:
    """Faults: a list would have more items than any may have."""
    if count > MAX_ITEMS:
        raise fault(f"{what} makes more than {MAX_ITEMS} items", position)


def check_text(length: int) -> None:
    """Faults: a string would be longer than any may be."""
    if length > MAX_TEXT:
        raise fault(f"A string longer than {MAX_TEXT} is not supported")


def chain_lists(lists: Iterable[Sequence[Any] | None], what: str) -> list[Any]:
    """The items of lists, of which some may be NULL, one after the other. Faults: they are too many."""
    found: list[Any] = []
    for each in lists:
        if each is not None:
            check_items(len(found) + len(each), what)
            found.extend(each)
    return found


def concatenate(left: S, right: S) -> S:
    """Both. Faults: they are too long."""
    check_text(len(left) + len(right))
    return left + right


def join_texts(parts: Sequence[S], separator: S) -> S:
    """All, with something between them. Faults: they are too long."""
    check_text(sum(map(len, parts)) + len(separator) * len(parts))
    return separator.join(parts)


def replace_text(text: S, find: S, by: S) -> S:
    """With one thing in place of another wherever it stands; nothing stands nowhere. Faults: it becomes too long."""
    if not find:
        return text
    if len(by) > len(find):
        check_text(len(text) + text.count(find) * (len(by) - len(find)))
    return text.replace(find, by)
