"""Key patterns of indexes, such as `{a: 1, "b.c": -1}`, parsed and checked.

Rules and texts: https://github.com/mongodb/mongo `src/mongo/db/catalog/index_key_validate.cpp`.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from mayflydb.query.mongo.faults import MqlError, failed_to_parse
from mayflydb.query.mongo.indexes.options import cannot_create_index, check_type
from mayflydb.query.mongo.paths import REFERENCE
from mayflydb.query.mongo.values import Value, format_value, is_number, order_key, type_name

KeyPattern: TypeAlias = tuple[tuple[str, int | str], ...]
"""(path, 1 | -1 | "hashed" | "text") of each field, in order. A path of a wildcard index ends with `$**`."""

MAX_FIELDS: Final = 32
_PLUGINS: Final = ("hashed", "text")
_ABSENT_PLUGINS: Final = ("2d", "2dsphere", "geoHaystack", "columnstore")


def parse_key_pattern(pattern: Value, given: bool) -> KeyPattern:
    """Parse the `key` of an index specification; `given`: the specification has one. MqlError 9, 14, 67, 13103, 31303."""
    if not given:
        raise failed_to_parse("The 'key' field is a required property of an index specification")
    check_type("key", pattern, "object")
    if not pattern:
        raise cannot_create_index("Index keys cannot be empty.")
    if len(pattern) > MAX_FIELDS:
        raise MqlError(13103, "too many compound keys")
    key = tuple((path, _parse_direction(value)) for path, value in pattern.items())
    plugins = {direction for _, direction in key if isinstance(direction, str)}
    if len(plugins) > 1:
        raise cannot_create_index("Can't use more than one index plugin for a single index.")
    for path, direction in key:
        _check_path(path, direction)
    _check_wildcard(key)
    hashed = sum(direction == "hashed" for _, direction in key)
    if hashed > 1:
        raise MqlError(
            31303,
            f"A maximum of one index field is allowed to be hashed but found {hashed} for 'key' {format_value(pattern)}",
        )
    _check_text(key)
    return key


def _parse_direction(value: Value) -> int | str:
    if type(value) is str:
        if value in _PLUGINS:
            return value
        if not value:
            raise cannot_create_index("Values in the index key pattern cannot be empty strings")
        if value == "wildcard":
            raise cannot_create_index(
                "The key pattern value for an 'wildcard' index must be a non-zero number, not a string."
            )
        raise cannot_create_index(
            f"Index type '{value}' is not supported" if value in _ABSENT_PLUGINS else f"Unknown index plugin '{value}'"
        )
    if not is_number(value):
        raise cannot_create_index(
            f"Values in v:2 index key pattern cannot be of type {type_name(value)}. "
            "Only numbers > 0, numbers < 0, and strings are allowed."
        )
    key, zero = order_key(value), order_key(0)
    # Only NaN sorts below -infinity.
    if key < order_key(float("-inf")):
        raise cannot_create_index("Values in the index key pattern cannot be NaN.")
    if key == zero:
        raise cannot_create_index("Values in the index key pattern cannot be 0.")
    return 1 if key > zero else -1


def _check_path(path: str, direction: int | str) -> None:
    if not path:
        raise cannot_create_index("Index keys cannot be an empty field.")
    if path == "$**" and direction != "hashed":
        return
    if path == "_fts" and direction != "text":
        raise cannot_create_index("Index key contains an illegal field name: '_fts'")
    parts = path.split(".")
    for n, part in enumerate(parts):
        if not part:
            raise cannot_create_index("Index keys cannot contain an empty field.")
        last = n == len(parts) - 1
        if (
            part[0] == "$"
            and not (n and part in REFERENCE)
            and not (last and part == "$**" and not isinstance(direction, str))
        ):
            raise cannot_create_index("Index key contains an illegal field name: field name starts with '$'.")


def _check_wildcard(key: KeyPattern) -> None:
    wild = [direction for path, direction in key if path.rpartition(".")[2] == "$**" and direction != "text"]
    if wild and len(key) > 1:
        raise cannot_create_index("wildcard indexes do not allow compounding")
    if wild and wild[0] == -1:
        raise cannot_create_index("A numeric value in a $** index key pattern must be positive.")


def _check_text(key: KeyPattern) -> None:
    at = [n for n, (_, direction) in enumerate(key) if direction == "text"]
    if at and at != list(range(at[0], at[-1] + 1)):
        raise cannot_create_index("text index key pattern must have all its text fields together")
