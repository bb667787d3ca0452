"""The functions that take types as arguments."""

from __future__ import annotations

from typing import Final

from mayflydb.query.yql.syntax import Argument, Expression, FunctionCall, Literal_, Name, TypeArgument, TypeName

ALL_ARGUMENTS: Final = frozenset(range(256))

TYPE_ARGUMENTS: Final = {
    **dict.fromkeys(
        (
            "NOTHING",
            "LISTCREATE",
            "SETCREATE",
            "FORMATTYPE",
            "INSTANCEOF",
            "TYPEHANDLE",
            "CALLABLE",
            "UNPICKLE",
            "ASOPTIONALTYPE",
            "CALLABLERESULTTYPE",
            "CALLABLEARGUMENTTYPE",
        ),
        frozenset({0}),
    ),
    **dict.fromkeys(("OPTIONALTYPE", "LISTTYPE", "SETTYPE", "STREAMTYPE", "VARIANTTYPE", "TAGGEDTYPE"), frozenset({0})),
    **dict.fromkeys(
        ("OPTIONALITEMTYPE", "LISTITEMTYPE", "DICTKEYTYPE", "DICTPAYLOADTYPE", "VARIANTUNDERLYINGTYPE"), frozenset({0})
    ),
    **dict.fromkeys(("TUPLEELEMENTTYPE", "STRUCTMEMBERTYPE"), frozenset({0})),
    **dict.fromkeys(("CALLABLETYPE",), ALL_ARGUMENTS - {0}),
    **dict.fromkeys(("DICTCREATE", "DICTTYPE"), frozenset({0, 1})),
    **dict.fromkeys(("TUPLETYPE", "STRUCTTYPE"), ALL_ARGUMENTS),
    **dict.fromkeys(("VARIANT",), frozenset({2})),
    **dict.fromkeys(
        ("ENUM", "ENSURETYPE", "ENSURECONVERTIBLETO", "FROMBYTES", "YSON::CONVERTTO", "YSON::PARSETO"), frozenset({1})
    ),
}
"""The numbers of the arguments that are types, by the function's name in capitals."""


def mark_type_arguments(name: str, arguments: tuple[Argument, ...]) -> tuple[Argument, ...]:
    """Return the arguments of a call; those that must be types become TypeArguments."""
    places = TYPE_ARGUMENTS.get(name.upper())
    if places is None:
        return arguments
    return tuple(_as_type_argument(each) if number in places else each for number, each in enumerate(arguments))


def _as_type_argument(argument: Argument) -> Argument:
    named = as_type(argument.value)
    if named is None or isinstance(argument.value, TypeArgument):
        return argument
    return Argument(argument.at, TypeArgument(argument.value.at, named), argument.name)


def as_type(operand: Expression) -> TypeName | None:
    """The type that an operand names: `Int32`, `Decimal(22, 9)`, `List<Int32>`. None if it names none."""
    if isinstance(operand, TypeArgument):
        return operand.type
    # A type without arguments looks like a column; `Module::Name` is a function without a call.
    if isinstance(operand, Name):
        return None if operand.quoted or ":" in operand.name else TypeName(operand.at, operand.name)
    if not isinstance(operand, FunctionCall) or operand.name.upper() != "DECIMAL" or len(operand.arguments) != 2:
        return None
    digits = [each.value.value for each in operand.arguments if isinstance(each.value, Literal_)]
    numbers = tuple(each for each in digits if isinstance(each, int) and not isinstance(each, bool))
    return TypeName(operand.at, operand.name, numbers) if len(numbers) == len(operand.arguments) else None
