"""Types in expressions, which may be those of named expressions: `CAST(x AS $type)`, `List<$item>`."""

from __future__ import annotations

from mayflydb.query.yql import names
from mayflydb.query.yql.expression import TypeOperand
from mayflydb.query.yql.faults import fault
from mayflydb.query.yql.plans.binder import Binder
from mayflydb.query.yql.syntax import Parameter, TypeName
from mayflydb.query.yql.types import Type


def bind_type(binder: Binder, tree: TypeName) -> Type:
    """The type that a tree names. Faults: it is unknown, or a named expression in it is no type."""

    def look_up(named: TypeName) -> Type:
        found = binder.operand(Parameter(named.at, named.name.removeprefix("$")))
        if not isinstance(found, TypeOperand):
            raise fault(f"Expected a type, but {named.name} is none", named.at)
        return found.type

    return names.resolve_type(tree, look_up)
