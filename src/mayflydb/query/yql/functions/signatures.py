"""Functions that are defined by a signature such as `(String, Uint64?, [Bool]) -> List<String>` and a Python function.

An argument of a type `T` may be NULL, and the result is NULL then; a function with an argument of type `T?` gets NULL itself.
Arguments in brackets are optional, and None if the call omits them. `name:T` names an argument, which a call may give as
`value AS name`. `A|B` accepts either type. The result `#` has the type of the first argument.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

import msgspec

from mayflydb.query.yql.expression import Builder, Expression, Invocation, Operand
from mayflydb.query.yql.functions.support import argument_fault, coerce, mismatch_fault
from mayflydb.query.yql.schemas import Row, Run
from mayflydb.query.yql.types import (
    PRIMITIVES,
    STRING,
    DictType,
    ListType,
    Primitive,
    StructType,
    TaggedType,
    TupleType,
    Type,
    Value,
    bare,
    is_optional,
    optional,
)

NODE: Final = Primitive("Resource<'Yson2.Node'>")
OPTIONS: Final = Primitive("Resource<'Yson2.Options'>")
VECTORS: Final = {name: TaggedType(name, STRING) for name in ("FloatVector", "Uint8Vector", "Int8Vector", "BitVector")}
EXTRA: Final[dict[str, Type]] = {"Node": NODE, "Options": OPTIONS, **VECTORS}
"""Types of function arguments alone. Except for the vectors, their values are never stored or sent."""


class ArgumentSpec(msgspec.Struct, frozen=True):
    """`kinds`: the accepted types, best first. `nullable`: the function gets NULL itself. `optional`: a call may omit the
    argument.
    """

    kinds: tuple[Type, ...]
    nullable: bool
    optional: bool
    name: str


class Signature(msgspec.Struct, frozen=True):
    """`result` None: the type of the first argument."""

    arguments: tuple[ArgumentSpec, ...]
    result: Type | None
    nullable: bool


_TOKEN: Final = re.compile(r"\s*([A-Za-z]\w*|[<>(),?|\[\]:#]|->)")


@lru_cache(maxsize=1024)
def parse(text: str) -> Signature:
    """Parse a signature."""
    return _SignatureParser(text).signature()


class _SignatureParser:
    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)
        self._at = 0

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self, token: str = "") -> str:
        found = self._peek()
        assert not token or found == token, (self._tokens, self._at, token)
        self._at += 1
        return found

    def _skip(self, token: str) -> bool:
        if self._peek() != token:
            return False
        self._at += 1
        return True

    def signature(self) -> Signature:
        arguments: list[ArgumentSpec] = []
        self._take("(")
        open_ended = False
        while not self._skip(")"):
            # Brackets close only at the end, so all arguments behind an opening one are optional.
            open_ended = self._skip("[") or open_ended
            arguments.append(self._argument(open_ended))
            self._skip("]")
            self._skip(",")
        self._take("->")
        if self._skip("#"):
            return Signature(tuple(arguments), None, self._skip("?"))
        result = self.type()
        return Signature(tuple(arguments), result, is_optional(result))

    def _argument(self, open_ended: bool) -> ArgumentSpec:
        name = ""
        if self._at + 1 < len(self._tokens) and self._tokens[self._at + 1] == ":":
            name = self._take()
            self._take(":")
        kinds = [self.type()]
        while self._skip("|"):
            kinds.append(self.type())
        return ArgumentSpec(tuple(map(bare, kinds)), is_optional(kinds[-1]), open_ended, name)

    def type(self) -> Type:
        found = self._item()
        while self._skip("?"):
            found = optional(found)
        return found

    def _item(self) -> Type:
        name = self._take()
        if not self._skip("<"):
            return EXTRA.get(name) or PRIMITIVES[name]
        if name == "Struct":
            members = []
            while not self._skip(">"):
                label = self._take()
                self._take(":")
                members.append((label, self.type()))
                self._skip(",")
            return StructType(tuple(members))
        parts = [self.type()]
        while self._skip(","):
            parts.append(self.type())
        self._take(">")
        if name == "List":
            return ListType(parts[0])
        return DictType(parts[0], parts[1]) if name == "Dict" else TupleType(tuple(parts))


def build_by_signature(line: str, call: Callable[..., Value]) -> Builder:
    """Return the builder of a function with this signature. `call` gets the values in order, None for omitted arguments."""

    def build(invocation: Invocation) -> Operand:
        signature = parse(line)
        given = _arrange(invocation, signature)
        return _expression(given, signature, call)

    return build


def build_module(functions: Mapping[str, tuple[str, Callable[..., Value]]]) -> dict[str, Builder]:
    """Return the builders of functions that are given as (signature, call)."""
    return {name: build_by_signature(line, call) for name, (line, call) in functions.items()}


def _arrange(invocation: Invocation, signature: Signature) -> list[tuple[ArgumentSpec, Expression | None]]:
    """Match the operands of a call with the arguments; each operand is converted to the argument's type."""
    arguments = signature.arguments
    needed = sum(not each.optional for each in arguments)
    total = len(invocation.operands) + len(invocation.named)
    if not needed <= total <= len(arguments):
        wanted = str(needed) if needed == len(arguments) else f"from {needed} to {len(arguments)}"
        raise argument_fault(invocation, f"Expected {wanted} argument(s), but got {total}")
    named = dict(invocation.named)
    given: list[tuple[ArgumentSpec, Expression | None]] = []
    for index, argument in enumerate(arguments):
        operand = invocation.operands[index] if index < len(invocation.operands) else named.pop(argument.name, None)
        if operand is None:
            if not argument.optional:
                raise argument_fault(invocation, f"Missing argument #{index + 1}")
            given.append((argument, None))
            continue
        if not isinstance(operand, Expression):
            raise argument_fault(invocation, f"Expected a value as argument #{index + 1}")
        found = _convert(operand, argument)
        if found is None:
            raise mismatch_fault(invocation, index, operand.type, argument.kinds[0])
        given.append((argument, found))
    if named:
        raise argument_fault(invocation, f"Unknown argument name: {next(iter(named))}")
    return given


def _convert(operand: Expression, argument: ArgumentSpec) -> Expression | None:
    if bare(operand.type) in argument.kinds:
        return operand
    for kind in argument.kinds:
        found = coerce(operand, optional(kind) if is_optional(operand.type) else kind)
        if found is not None:
            return found
    return None


def _expression(
    given: list[tuple[ArgumentSpec, Expression | None]], signature: Signature, call: Callable[..., Value]
) -> Expression:
    expressions = [each for _, each in given if each is not None]
    passes_null = any(each is not None and is_optional(each.type) and not argument.nullable for argument, each in given)
    first = expressions[0].type if expressions else None
    result = signature.result if signature.result is not None else bare(first) if first is not None else None
    assert result is not None
    kind = optional(result) if passes_null or signature.nullable else result
    is_constant = all(each.constant for each in expressions)
    # Omitted arguments at the end are not passed, so that the Python function's defaults hold; one that may be NULL is
    # passed as None.
    while given and given[-1][1] is None and not signature.arguments[len(given) - 1].nullable:
        given = given[:-1]
    evaluates = [(argument.nullable or each is None, each.evaluate if each else _nothing) for argument, each in given]
    # Most functions have one argument; the loop over several is not for them.
    if len(evaluates) == 1:
        ((nullable, evaluate),) = evaluates
        if nullable or not passes_null:
            return Expression(kind, lambda row, run: call(evaluate(row, run)), constant=is_constant)

    def several(row: Row, run: Run) -> Value:
        values = []
        for nullable, evaluate in evaluates:
            value = evaluate(row, run)
            if value is None and not nullable:
                return None
            values.append(value)
        return call(*values)

    return Expression(kind, several, constant=is_constant)


def _nothing(row: Row, run: Run) -> Value:
    return None
