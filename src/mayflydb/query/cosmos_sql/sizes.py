"""The size of a value, measured before it is encoded: it may refer to one large value many times, at no cost until then."""

from __future__ import annotations

from typing import Final

from mayflydb.model.errors import BadQuery
from mayflydb.query.cosmos_sql.values import Value

MAX_VALUE_BYTES: Final = 32 * 1024 * 1024
"""The maximum size of a row, and of a value that becomes a text. A page ends at 4 MB, and an item has at most 2 MB."""


def check_size(given: Value) -> None:
    """Raise BadQuery for a value that is larger than MAX_VALUE_BYTES as JSON, in a low estimate."""
    size, values = 0, [given]
    while values:
        value = values.pop()
        if type(value) is str:
            size += len(value)
        elif type(value) is dict:
            size += 4 * len(value) + sum(map(len, value))
            values += [each for each in value.values() if type(each) in (str, list, dict)]
        elif type(value) is list:
            size += 2 * len(value)
            values += [each for each in value if type(each) in (str, list, dict)]
        if size > MAX_VALUE_BYTES:
            raise BadQuery(f"The query computes a value that is larger than {MAX_VALUE_BYTES // (1024 * 1024)} MB.")
