"""The built-in functions by upper-case name, and the names of functions that Mayfly refuses."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mayflydb.query.cosmos_sql.functions import (
    array,
    date,
    fulltext,
    mathematical,
    pattern,
    spatial,
    string,
    types,
    vector,
)
from mayflydb.query.cosmos_sql.functions.signature import BuiltinFunction

FAMILIES: Final = (mathematical, string, pattern, array, types, date, vector, fulltext, spatial)

_OTHER_SPELLINGS: Final = {
    "CONTAINS_ALL_CI": "CONTAINSALLCI",
    "CONTAINS_ALL_CS": "CONTAINSALLCS",
    "CONTAINS_ANY_CI": "CONTAINSANYCI",
    "CONTAINS_ANY_CS": "CONTAINSANYCS",
    "OBJECT_TO_ARRAY": "OBJECTTOARRAY",
}
"""Functions with two spellings in Microsoft's reference."""


def _table() -> dict[str, BuiltinFunction]:
    table = {function.name: function for family in FAMILIES for function in family.FUNCTIONS}
    table.update({spelling: table[name] for spelling, name in _OTHER_SPELLINGS.items()})
    return table


FUNCTIONS: Final[Mapping[str, BuiltinFunction]] = MappingProxyType(_table())

REFUSED: Final = frozenset({"HASH"})
"""Functions that are refused by name: the rule of this hash is not public."""
