"""The parts that all operators share: frames, the scope of compilation, paths, operands, limits of size."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec
from bson import DatetimeMS

from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.faults import MqlError, failed_to_parse
from mayflydb.query.mongo.paths import REFERENCE
from mayflydb.query.mongo.values import MISSING, Document, OrderKey, Value, format_value, order_key, type_name


class Frame(msgspec.Struct, gc=False):
    """The input of an expression: `$$ROOT`, `$$CURRENT` (the document that a path such as `$a` reads), and the bound
    variables.
    """

    root: Value
    current: Value
    variables: Mapping[str, Value]


Expression: TypeAlias = Callable[[Frame], Value]
"""A function from a frame to a value; MISSING for no value."""


class Constant:
    """An expression that reads nothing from its frame."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value

    def __call__(self, frame: Frame) -> Value:
        return self.value


Parser: TypeAlias = Callable[[str, Value, "CompileScope"], Expression]
"""Compiles an operator from its name with `$`, its operand, and the scope."""


class CompileScope(msgspec.Struct, frozen=True):
    """The scope in which an expression is compiled. `names`: the variables that a frame binds beside those of `env`."""

    env: Env
    names: frozenset[str]
    operators: Mapping[str, Parser]

    def compile(self, spec: Value) -> Expression:
        """Compile a specification.

        MqlError 168 for an unknown operator, 17276 for an undefined variable, 16493 for a text of 16 MB or more, and the errors
        of the operators.
        """
        kind = type(spec)
        if kind is str:
            return compile_path(spec, self) if spec.startswith("$") else Constant(check_text(spec))
        if kind is dict:
            return _compile_object(spec, self)
        if kind is list:
            return _compile_list([self.compile(each) for each in spec])
        return Constant(spec)

    def with_names(self, *names: str) -> CompileScope:
        """Return this scope with more variables."""
        return CompileScope(self.env, self.names | set(names), self.operators)

    def comparison_key(self) -> Callable[[Value], OrderKey]:
        """Return the function that gives the comparison key of a value: by the collation, or the faster `order_key`."""
        return order_key if self.env.collation.is_simple else self.env.collation.order_key


# --- paths and variables ---------------------------------------------------------------------------------------------


def field_names(path: str) -> tuple[str, ...]:
    """Split a path into its parts. MqlError 40353, 15998, 16410 or 16411 for an invalid path."""
    if path.endswith("."):
        raise MqlError(40353, "FieldPath must not end with a '.'.")
    parts = tuple(path.split("."))
    for part in parts:
        if not part:
            raise MqlError(15998, "FieldPath field names may not be empty strings.")
        if part[0] == "$" and part not in REFERENCE:
            raise MqlError(
                16410, f"FieldPath field names may not start with '$'. Consider using $getField or $setField. ({part})"
            )
        if "\0" in part:
            raise MqlError(16411, "FieldPath field names may not contain '\\0'.")
    return parts


def field_values(value: Value, parts: Sequence[str], at: int = 0) -> Value:
    """Return the value at a path. An array yields the array of its documents' values; numbers are field names, not indexes."""
    for index in range(at, len(parts)):
        if type(value) is dict:
            value = value.get(parts[index], MISSING)
        elif type(value) is list:
            found = [field_values(each, parts, index) for each in value if type(each) is dict]
            return [each for each in found if each is not MISSING]
        else:
            return MISSING
    return value


def compile_path(text: str, scope: CompileScope) -> Expression:
    """Compile `$a.b`, `$$ROOT` or `$$name.a`."""
    if text == "$":
        raise MqlError(16872, "'$' by itself is not a valid FieldPath")
    if not text.startswith("$$"):
        return _compile_current_path(field_names(text[1:]))
    name, *rest = text[2:].split(".", 1)
    if not name:
        raise failed_to_parse("empty variable names are not allowed")
    parts = field_names(rest[0]) if rest else ()
    if name == "CURRENT":
        return _compile_current_path(parts) if parts else lambda frame: frame.current
    if name == "ROOT":
        return (lambda frame: field_values(frame.root, parts)) if parts else lambda frame: frame.root
    if name in scope.names:
        return _compile_inner_variable(name, parts)
    # Variables of the command do not change while it runs, so their values are constants.
    return Constant(field_values(_resolve_outer_variable(name, scope), parts))


def _resolve_outer_variable(name: str, scope: CompileScope) -> Value:
    if name in scope.env.variables:
        return scope.env.variables[name]
    if name == "NOW":
        return DatetimeMS(scope.env.now)
    if name == "REMOVE":
        return MISSING
    if name == "CLUSTER_TIME":
        if scope.env.cluster_time is not None:
            return scope.env.cluster_time
        raise MqlError(51144, "Builtin variable '$$CLUSTER_TIME' is not available")
    raise MqlError(17276, f"Use of undefined variable: {name}")


def _compile_current_path(parts: tuple[str, ...]) -> Expression:
    if len(parts) > 1:
        return lambda frame: field_values(frame.current, parts)
    name = parts[0]

    def field(frame: Frame) -> Value:
        current = frame.current
        return current.get(name, MISSING) if type(current) is dict else field_values(current, parts)

    return field


def _compile_inner_variable(name: str, parts: tuple[str, ...]) -> Expression:
    if parts:
        return lambda frame: field_values(frame.variables.get(name, MISSING), parts)
    return lambda frame: frame.variables.get(name, MISSING)


def check_variable(name: Value) -> str:
    """Return a name that `let`, `as` and `vars` may bind. MqlError 9 for an invalid name."""
    if type(name) is not str or not name:
        raise failed_to_parse("empty variable names are not allowed")
    if name == "CURRENT":
        return name
    if not (name[0].islower() or ord(name[0]) > 127):
        raise failed_to_parse(f"'{name}' starts with an invalid character for a user variable name")
    for letter in name:
        if not (letter.isalnum() or letter == "_" or ord(letter) > 127):
            raise failed_to_parse(f"'{name}' contains an invalid character for a variable name: '{letter}'")
    return name


def make_binder(*names: str) -> Callable[[Frame], tuple[Frame, Callable[..., None]]]:
    """Return a function from a frame to (inner frame, function). The second function assigns the variables `names`, in
    order, in the inner frame.
    """

    # One inner frame is reused for all elements of an array, which saves two allocations for each.
    def bind(frame: Frame) -> tuple[Frame, Callable[..., None]]:
        variables = dict(frame.variables)
        inner = Frame(frame.root, frame.current, variables)

        def assign(*values: Value) -> None:
            for name, value in zip(names, values, strict=True):
                if name == "CURRENT":
                    # A path such as `$a` reads the value that `$let` bound to CURRENT.
                    inner.current = value
                else:
                    variables[name] = value

        return inner, assign

    return bind


# --- objects and arrays ----------------------------------------------------------------------------------------------


def _compile_object(spec: Document, scope: CompileScope) -> Expression:
    for index, name in enumerate(spec):
        if name.startswith("$"):
            if index:
                raise MqlError(
                    16410,
                    f"FieldPath field names may not start with '$'. Consider using $getField or $setField. ({name})",
                )
            if len(spec) > 1:
                raise MqlError(
                    15983, f"An object representing an expression must have exactly one field: {format_value(spec)}"
                )
            return compile_operator(name, spec[name], scope)
        if "." in name:
            raise MqlError(
                16412, f"FieldPath field names may not contain '.'. Consider using $getField or $setField. ({name})"
            )
    fields = [(name, scope.compile(each)) for name, each in spec.items()]

    def make(frame: Frame) -> Document:
        document = {}
        for name, expression in fields:
            value = expression(frame)
            if value is not MISSING:
                document[name] = value
        return document

    return fold_constants(make, [expression for _, expression in fields])


def compile_operator(name: str, spec: Value, scope: CompileScope) -> Expression:
    """Compile the operator `name`. MqlError 168 if it does not exist."""
    parser = scope.operators.get(name)
    if parser is None:
        raise MqlError(168, f"Unrecognized expression '{name}'")
    return parser(name, spec, scope)


def _compile_list(items: list[Expression]) -> Expression:
    def make(frame: Frame) -> list[Value]:
        values = [item(frame) for item in items]
        return [None if value is MISSING else value for value in values]

    return fold_constants(make, items)


_EMPTY_FRAME = Frame({}, {}, {})


def fold_constants(expression: Expression, parts: Collection[Expression]) -> Expression:
    """Return a Constant of the expression's value if all parts are constant.

    An expression that raises an error stays as it is, because it may never be evaluated.
    """
    if all(type(part) is Constant for part in parts):
        try:
            # Constant parts read no frame, so an empty one does.
            return Constant(expression(_EMPTY_FRAME))
        except MqlError:
            return expression
    return expression


# --- operands --------------------------------------------------------------------------------------------------------


def compile_operands(name: str, spec: Value, scope: CompileScope, least: int, most: int | None) -> list[Expression]:
    """Compile the operands of an operator: an array of them, or a single one. MqlError 16020 and 28667 for a wrong number."""
    specs = spec if type(spec) is list else [spec]
    count = len(specs)
    if least == most and count != least:
        raise MqlError(16020, f"Expression {name} takes exactly {least} arguments. {count} were passed in.")
    if count < least or (most is not None and count > most):
        limit = most if most is not None else "unlimited"
        raise MqlError(
            28667,
            f"Expression {name} takes at least {least} arguments, and at most {limit}, but {count} were passed in.",
        )
    return [scope.compile(each) for each in specs]


def apply_function(function: Callable[..., Value], parts: Sequence[Expression]) -> Expression:
    """Return the expression that applies a function to the values of the parts."""
    if len(parts) == 1:
        (only,) = parts
        return fold_constants(lambda frame: function(only(frame)), parts)
    if len(parts) == 2:
        first, second = parts
        return fold_constants(lambda frame: function(first(frame), second(frame)), parts)
    return fold_constants(lambda frame: function(*[part(frame) for part in parts]), parts)


Function: TypeAlias = Callable[..., Value]


def fixed_arity(count: int, function: Function) -> Parser:
    """Return the parser of an operator with exactly `count` operands."""
    return ranged_arity(count, count, function)


def ranged_arity(least: int, most: int | None, function: Function) -> Parser:
    """Return the parser of an operator with `least` to `most` operands (None: no limit), evaluated from left to right."""
    return lambda name, spec, scope: apply_function(function, compile_operands(name, spec, scope, least, most))


def with_scope(least: int, most: int | None, make: Callable[[CompileScope], Function]) -> Parser:
    """Return a parser as `ranged_arity` does. `make` builds the function for a scope, whose collation it uses."""
    return lambda name, spec, scope: apply_function(make(scope), compile_operands(name, spec, scope, least, most))


def with_name(least: int, most: int | None, make: Callable[[str], Function]) -> Parser:
    """Return a parser as `ranged_arity` does. `make` builds the function for one of the operators that share it, by name."""
    return lambda name, spec, scope: apply_function(make(name), compile_operands(name, spec, scope, least, most))


class ArgumentCodes(msgspec.Struct, frozen=True):
    """The error codes of an operator with named operands.

    `shape`: for a specification that is no document. `unknown`: for an unknown field. `missing`: for a missing field, by its
    name.
    """

    shape: int
    unknown: int
    missing: Mapping[str, int]


def check_arguments(
    name: str, spec: Value, required: Sequence[str], optional: Sequence[str], codes: ArgumentCodes
) -> Document:
    """Return the named operands of an operator, uncompiled. MqlError with one of `codes` for a wrong field."""
    if type(spec) is not dict:
        raise MqlError(codes.shape, f"{name} requires an object as an argument, found: {type_name(spec)}")
    for field in spec:
        if field not in required and field not in optional:
            raise MqlError(codes.unknown, f"{name} found an unknown argument: {field}")
    for field in required:
        if field not in spec:
            raise MqlError(codes.missing.get(field, codes.unknown), f"{name} requires '{field}' to be specified")
    given: Document = spec
    return given


def is_nullish(value: Value) -> bool:
    """Return whether a value is null or missing."""
    return value is None or value is MISSING


# --- limits ----------------------------------------------------------------------------------------------------------

MAX_VALUE_SIZE: Final = 64 * 1024 * 1024
MAX_DOCUMENT_SIZE: Final = 16 * 1024 * 1024
_MAX_DEPTH: Final = 180


def check_size(size: int) -> None:
    """Raise MqlError 13548 for a value of more than 64 MB. Called before the value is built."""
    if size > MAX_VALUE_SIZE:
        raise MqlError(13548, f"BufBuilder attempted to grow() to {size} bytes, past the 64MB limit.")


def text_size(text: str) -> int:
    """Return the size of a text in bytes of UTF-8."""
    return len(text) if text.isascii() else len(text.encode(errors="surrogateescape"))


def check_text_size(size: int) -> None:
    """Raise MqlError 16493 for a text of 16 MB or more, which no expression may contain or produce."""
    if size >= MAX_DOCUMENT_SIZE:
        raise MqlError(16493, "Tried to create string longer than 16MB")


def check_text(text: str) -> str:
    """Return `text`. MqlError 16493 if it is too long (`check_text_size`)."""
    # A character has at most 4 bytes in UTF-8, so shorter texts need no count.
    if len(text) * 4 >= MAX_DOCUMENT_SIZE:
        check_text_size(text_size(text))
    return text


def measure_value(value: Value) -> int:
    """Return the approximate size of a value in bytes. MqlError 31392 if it is too large or too deep to be stored."""
    size, level = 0, [value]
    for _ in range(_MAX_DEPTH):
        # An element of a long array takes 11 bytes.
        # Level by level, without recursion: the value may be deeper than Python's stack.
        size += sum(len(each) if type(each) is str else 11 for each in level)
        if size > MAX_DOCUMENT_SIZE:
            break
        level = [
            child
            for each in level
            if type(each) in (list, dict)
            for child in (each if type(each) is list else each.values())
        ]
        if not level:
            return size
    raise MqlError(31392, "Value too large to reduce")
