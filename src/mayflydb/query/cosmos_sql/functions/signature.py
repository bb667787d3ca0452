"""The signature of a built-in function: its name, the types of its arguments and its computation."""

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
"""The letters of a pattern: string, number, boolean, array, object, any defined value, any value or undefined."""


class BuiltinFunction(msgspec.Struct, frozen=True):
    """A built-in function.

    `types` has one set for each argument; the last one repeats for further arguments. An argument of another type makes the
    result undefined, without a call of `compute`. `maximum` None: any number. `contextual`: `compute` gets the query's
    context alone, so the result is never folded into a constant. ValueError for a contextual function with arguments.
    """

    name: str
    types: tuple[frozenset[type], ...]
    minimum: int
    maximum: int | None
    compute: Callable[..., Value]
    contextual: bool = False

    def __post_init__(self) -> None:
        # A call hands over the context alone, so the arguments would be lost in silence.
        if self.contextual and self.types:
            raise ValueError(f"{self.name} is contextual and takes arguments")

    def types_of(self, count: int) -> tuple[frozenset[type], ...]:
        """The accepted types of a call with `count` arguments."""
        return (self.types + (self.types[-1:] * count))[:count]

    def accepts(self, count: int) -> bool:
        """True if a call may have `count` arguments."""
        return self.minimum <= count and (self.maximum is None or count <= self.maximum)


def function(name: str, pattern: str, compute: Callable[..., Any], *, contextual: bool = False) -> BuiltinFunction:
    """Build a function. `pattern`: letters of TYPES, optional ones after `?`; a closing `+` repeats the last one without end."""
    endless = pattern.endswith("+")
    required, _, optional = pattern.rstrip("+").partition("?")
    types = tuple(TYPES[letter] for letter in required + optional)
    return BuiltinFunction(name, types, len(required), None if endless else len(types), compute, contextual)
