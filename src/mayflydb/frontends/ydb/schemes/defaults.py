"""Values that columns have where a row names none: literals of YQL, as text in the catalogue."""

from __future__ import annotations

from functools import lru_cache

from mayflydb.query.yql.types import Type, Value


@lru_cache(maxsize=4096)
def value_of(text: str, type: Type) -> Value:
    """The value of a literal in a column of this type. Faults: it is none that the column can hold."""
    raise NotImplementedError(text)
