"""What a built-in function is: its name, the types it accepts and what it computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from mayflydb.query.cosmos_sql.values import NUMBERS, Undefined, Value

_DEFINED: Final = frozenset({type(None), bool, int, float, str, list, dict})

TYPES: Final[dict[str, frozenset[type]]] = {
    "s": frozenset({str}),
    "n": NUMBERS,
    "b": frozenset({bool}),
    "a": frozenset({list}),
    "o": frozenset({dict}),
    "v": _DEFINED,
    "*": _DEFINED | {Undefined},
}
"""Letters of a pattern: string, number, boolean, array, object, any value, any value or undefined."""


class BuiltinFunction(msgspec.Struct, frozen=True):
    """A built-in function.

    `types` has one set for each argument, the last repeated for further ones; an argument of another type makes the result
    undefined before `compute` is called. `maximum` None: any number. `contextual`: `compute` gets the query's context first, so
    that its result is not a constant even if all arguments are.
    """

    name: str
    types: tuple[frozenset[type], ...]
    minimum: int
    maximum: int | None
    compute: Callable[..., Value]
    contextual: bool = False

    def types_of(self, count: int) -> tuple[frozenset[type], ...]:
        """The accepted types of a call with `count` arguments."""
        return (self.types + (self.types[-1:] * count))[:count]

    def accepts(self, count: int) -> bool:
        """Whether `count` is a possible number of arguments."""
        return self.minimum <= count and (self.maximum is None or count <= self.maximum)


def function(name: str, pattern: str, compute: Callable[..., Any], *, contextual: bool = False) -> BuiltinFunction:
    """`pattern`: letters of TYPES, those after `?` optional, a closing `+` repeats the last one without end."""
    endless = pattern.endswith("+")
    required, _, optional = pattern.rstrip("+").partition("?")
    types = tuple(TYPES[letter] for letter in required + optional)
    return BuiltinFunction(name, types, len(required), None if endless else len(types), compute, contextual)
