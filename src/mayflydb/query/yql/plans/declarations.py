"""Statements that affect later statements: DECLARE, PRAGMA, `$x = ...`."""

from __future__ import annotations

from typing import Final

from mayflydb.model.durations import parse_instant
from mayflydb.query.yql import names as type_names
from mayflydb.query.yql.faults import fault, unsupported
from mayflydb.query.yql.members import find_arrangement
from mayflydb.query.yql.plans.binder import Binder, Context, NamedExpression, Names
from mayflydb.query.yql.plans.paths import is_prefix_pragma
from mayflydb.query.yql.statements import Declare, Pragma, Statement
from mayflydb.query.yql.syntax import Binding
from mayflydb.query.yql.types import format_long


def apply_declaration(context: Context, names: Names, statement: Statement) -> bool:
    """Apply DECLARE, PRAGMA or `$x = ...` to the context; False for any other statement."""
    match statement:
        case Declare(at, name, type_name):
            type = type_names.resolve_type(type_name)
            given = context.given.get(name)
            if given is not None and find_arrangement(given, type) is None:
                raise fault(
                    f"Parameter ${name} type mismatch, expected: {format_long(type)}, actual: {format_long(given)}",
                    at,
                    "BAD_REQUEST",
                )
            context.declare(name, type, at)
        case Pragma():
            _apply_pragma(context, statement)
        case Binding(_, bound, value):
            # A copy of the names so far: a later `$x = ...` changes nothing for expressions that were named before it.
            binder = Binder(context, dict(names))
            for place, name in enumerate(bound):
                names[name] = NamedExpression(value, binder, place if len(bound) > 1 else None)
        case _:
            return False
    return True


_OTHERS: Final = ("checkedops", "ansicurrentrow")
_REFUSED: Final = (*_OTHERS, "disableansiinforemptyornullableitemscollections")
"""Pragmas that change the meaning of queries, and that Mayfly does not support."""


def _is_on(pragma: Pragma, name: str) -> bool:
    """True if `PRAGMA Flag` or `PRAGMA Flag = "true"` sets a flag; `DisableFlag` clears it."""
    said = not pragma.values or pragma.values[-1].lower() not in ("false", "0")
    return said is not name.startswith("disable")


def _apply_pragma(context: Context, pragma: Pragma) -> None:
    """Apply a pragma. Pragmas that tune parts of YDB without a counterpart in Mayfly are ignored."""
    name = pragma.name.lower()
    if is_prefix_pragma(pragma):
        context.prefix = pragma.values[-1]
    elif name in ("orderedcolumns", "disableorderedcolumns"):
        context.ordered_columns = name == "orderedcolumns"
    elif name in ("classicdivision", "disableclassicdivision"):
        context.classic_division = _is_on(pragma, name)
    elif name in ("unicodeliterals", "disableunicodeliterals"):
        context.unicode_literals = _is_on(pragma, name)
    elif name in _REFUSED and _is_on(pragma, name) is (name in _OTHERS):
        raise unsupported(f"PRAGMA {pragma.name}", pragma.at)
    elif name in ("simplecolumns", "disablesimplecolumns"):
        context.simple_columns = name == "simplecolumns"
    elif name == "mayfly.asof":
        _set_as_of(context, pragma)
    elif name.startswith("mayfly."):
        raise unsupported(f"PRAGMA {pragma.name}", pragma.at)
    elif name in ("positionalunionall", "disablepositionalunionall"):
        context.positional_union = name == "positionalunionall"


def _set_as_of(context: Context, pragma: Pragma) -> None:
    """Set the instant whose rows the script reads. Faults: text that is no instant, or another one than before."""
    text = pragma.values[-1] if pragma.values else ""
    try:
        at = parse_instant(text)
    except ValueError as error:
        raise fault(f"PRAGMA {pragma.name}: {error}", pragma.at) from None
    if context.as_of not in (None, at):
        raise fault(f"PRAGMA {pragma.name} has two instants, and a script reads as of one", pragma.at)
    context.as_of = at
