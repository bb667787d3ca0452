"""Words for counts that are estimates: a table says "about" where the answer says `"exact": false`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

COUNTS: Final = frozenset(
    {"count", "records", "hidden", "due", "own_ttl", "ignored_ttl", "expired", "never", "reappear_now"}
    | {"expire_now", "expire_within"}
)
"""Members of answers that `exact` speaks of. `purged` is always exact."""


def count_in_words(count: int, exact: bool) -> int | str:
    """Return a count for people."""
    return count if exact else f"about {count}"


def with_words(answer: Any, exact: bool = True, is_count: bool = False) -> Any:
    """Return an answer, or a part of it, with its counts in words. An `exact` holds for its object and those inside it."""
    if isinstance(answer, list):
        return [with_words(each, exact) for each in answer]
    if not isinstance(answer, Mapping):
        return count_in_words(answer, exact) if is_count and isinstance(answer, int) else answer
    exact = answer.get("exact", exact)
    return {name: with_words(value, exact, is_count or name in COUNTS) for name, value in answer.items()}
