"""The words that cannot be names."""

from __future__ import annotations

from typing import Final

RESERVED: Final = frozenset({
    "AND", "ARRAY", "AS", "ASC", "BETWEEN", "BY", "DESC", "DISTINCT", "ESCAPE", "EXISTS", "FROM", "GROUP", "IN", "JOIN", "LIKE",
    "LIMIT", "NOT", "OFFSET", "OR", "ORDER", "SELECT", "TOP", "UDF", "VALUE", "WHERE",
})  # fmt: skip
"""The words of the grammar. A lenient parser takes them as names after a dot and after AS."""

STRICTLY_RESERVED: Final = RESERVED | {
    "CASE", "CAST", "CONVERT", "CROSS", "ELSE", "END", "FOR", "HAVING", "INNER", "INSERT", "INTO", "IS", "LEFT", "ON", "OUTER",
    "OVER", "RIGHT", "SET", "THEN", "UPDATE", "WHEN", "WITH",
}  # fmt: skip
"""The words of the grammar and the words that the service reserves without using them.

Source: the keywords of the vendor's query editor (npm `@azure/cosmos-language-service`, lexer grammar). The service's answers
show that it uses the same list, such as SC1001 near 'over' in https://github.com/Azure/azure-cosmos-dotnet-v2/issues/858.
ALL, FIRST, LAST and RANK are names as well (`sql.g4` and parser tests of https://github.com/Azure/azure-cosmos-dotnet-v3).
"""

_EXACTLY: Final = frozenset({"false", "null", "true", "udf", "undefined"})
"""These words are reserved in this case only."""

_IN_ANY_CASE: Final = STRICTLY_RESERVED - {"UDF"}


def is_reserved(word: str) -> bool:
    """True if the service refuses `word` as a name after a dot, after AS and in FROM."""
    return word.upper() in _IN_ANY_CASE or word in _EXACTLY
