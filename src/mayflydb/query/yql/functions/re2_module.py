"""`Re2::`: compilation of expressions to functions of a text, `Re2::Match("a+")($text)`.

`Grep` finds a match anywhere, `Match` must match the whole text.
Source: https://ydb.tech/docs/en/yql/reference/udf/list/re2
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from mayflydb.query.yql.expression import BoundLambda, Builder, Expression, Invocation, Operand
from mayflydb.query.yql.faults import fault
from mayflydb.query.yql.functions.patterns import compile_pattern
from mayflydb.query.yql.functions.support import (
    argument_fault,
    coerce,
    constant,
    convert_operand,
    count_operands,
    evaluate_constant,
    map_value,
    mismatch_fault,
    value_at,
)
from mayflydb.query.yql.schemas import Row, Run
from mayflydb.query.yql.types import (
    BOOL,
    NULL,
    STRING,
    UINT32,
    UTF8,
    ListType,
    Primitive,
    StructType,
    Type,
    Value,
    bare,
    is_optional,
    optional,
)

OPTIONS: Final = Primitive("Resource<'Re2.Options'>")
Find = Callable[[bytes], Any]


class TextFunction:
    """A function of a text and of `extra` further Strings as the result of a call; `kind` maps the type of the text to that
    of the result.
    """

    def __init__(
        self, kind: Callable[[Type], Type], change: Callable[..., Value], nothing: Value, extra: int = 0
    ) -> None:
        self.arity = 1 + extra
        self._kind, self._change, self._nothing = kind, change, nothing

    def detach(self) -> TextFunction:
        return self

    def bind(self, types: Sequence[Type]) -> BoundLambda:
        for kind in types:
            if bare(kind) not in (STRING, UTF8) and kind != NULL:
                raise fault(f"Expected String, but got {kind}")
        result, change, nothing = self._kind(bare(types[0])), self._change, self._nothing
        text = bare(types[0]) == UTF8

        def call(arguments: tuple[Value, ...], row: Row, run: Run) -> Value:
            if arguments[0] is None:
                return nothing
            given = [each.encode() if isinstance(each, str) else each for each in arguments]
            return _as_source_type(change(*given), text)

        null = nothing is None and any(map(is_optional, types))
        return BoundLambda(optional(result) if null else result, call)


def _as_source_type(value: Value, text: bool) -> Value:
    """Convert the parts of the result to the type of the text: Utf8 for a Utf8."""
    if not text:
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, (list, tuple)):
        return value.__class__(_as_source_type(each, text) for each in value)
    return value


def _pattern_operand(call: Invocation) -> tuple[bytes, bool]:
    """The expression in the first operand, and whether it ignores case."""
    count_operands(call, 1, 2)
    given = coerce(value_at(call, 0), STRING)
    if given is None:
        raise mismatch_fault(call, 0, value_at(call, 0).type, STRING)
    any_case = False
    if len(call.operands) == 2:
        options = value_at(call, 1)
        if bare(options.type) != OPTIONS:
            raise mismatch_fault(call, 1, options.type, OPTIONS)
        any_case = bool(evaluate_constant(options, call))
    text: bytes = evaluate_constant(given, call)
    return text, any_case


def _test(whole: bool) -> Builder:
    def build(call: Invocation) -> Operand:
        text, any_case = _pattern_operand(call)
        pattern = compile_pattern(text, any_case, call.position)
        find = pattern.fullmatch if whole else pattern.search
        return TextFunction(lambda kind: BOOL, lambda value: find(value) is not None, False)

    return build


def _capture(call: Invocation) -> Operand:
    """A struct of the groups, `_0` for the whole match; NULL for a group that is empty or takes no part.

    Groups without a name have numbers of their own: the second group of `(?P<name>x)(y)` is `_1`.
    """
    text, any_case = _pattern_operand(call)
    pattern = compile_pattern(text, any_case, call.position)
    names = {index: name for name, index in pattern.groupindex.items()}
    unnamed = (f"_{number}" for number in itertools.count())
    labels = sorted((names.get(index) or next(unnamed), index) for index in range(pattern.groups + 1))

    def kind(of: Type) -> Type:
        return StructType(tuple((name, optional(of if of != NULL else STRING)) for name, _ in labels))

    def capture(value: bytes) -> Value:
        found = pattern.search(value)
        return tuple((found[index] or None) if found is not None else None for _, index in labels)

    return TextFunction(kind, capture, (None,) * len(labels))


def _find_and_consume(call: Invocation) -> Operand:
    """The successive matches: the first group of each, or the whole match if there are no groups."""
    text, any_case = _pattern_operand(call)
    pattern = compile_pattern(text, any_case, call.position)

    def find(value: bytes) -> Value:
        return [each[1 if pattern.groups else 0] or b"" for each in pattern.find_all(value)]

    return TextFunction(lambda of: ListType(of if of != NULL else STRING), find, [])


def _count(call: Invocation) -> Operand:
    """The number of matches that do not overlap; 0 for NULL."""
    text, any_case = _pattern_operand(call)
    pattern = compile_pattern(text, any_case, call.position)
    return TextFunction(lambda of: UINT32, lambda value: len(pattern.find_all(value)), 0)


def _replace(call: Invocation) -> Operand:
    r"""`Re2::Replace("expression")($text, "\1")`: replaces every match."""
    text, any_case = _pattern_operand(call)
    pattern = compile_pattern(text, any_case, call.position)

    def replace(value: bytes, by: bytes) -> Value:
        if by is None:
            return None

        def fill_template(found: Any) -> bytes:
            def group(escape: re.Match[bytes]) -> bytes:
                # `\\` is a backslash; only a digit names a group.
                if not escape[1].isdigit():
                    return escape[1]
                number = int(escape[1])
                if number > pattern.groups:
                    raise fault(f"Invalid rewrite: there is no group {number}", call.position)
                return found[number] or b""

            return re.sub(rb"\\(.)", group, by, flags=re.DOTALL)

        return pattern.replace(value, fill_template)

    return TextFunction(lambda of: of if of != NULL else STRING, replace, None, extra=1)


def _escape(call: Invocation) -> Operand:
    count_operands(call, 1)
    return map_value(
        convert_operand(call, 0, STRING), STRING, lambda value: re.sub(rb"([^A-Za-z0-9_\x80-\xff])", rb"\\\1", value)
    )


def _options(call: Invocation) -> Operand:
    """`Re2::Options(false AS CaseSensitive)`"""
    said = dict(call.named)
    if call.operands or set(said) - {"CaseSensitive"}:
        raise argument_fault(call, "Only CaseSensitive is supported, by name")
    given = said.get("CaseSensitive")
    if given is None:
        return constant(OPTIONS, False)
    if not isinstance(given, Expression) or bare(given.type) != BOOL:
        raise argument_fault(call, "Expected Bool as argument CaseSensitive")
    # The value of the options is True if case is ignored.
    return constant(OPTIONS, evaluate_constant(given, call) is False)


BUILDERS: Final[dict[str, Builder]] = {
    "Match": _test(whole=True),
    "Grep": _test(whole=False),
    "Capture": _capture,
    "FindAndConsume": _find_and_consume,
    "Count": _count,
    "Replace": _replace,
    "Escape": _escape,
    "Options": _options,
}
