r"""The modules Hyperscan and Pire: regular expressions, over the engine and the time limit of the others.

Both match bytes, and characters where the expression has some beyond ASCII. `(?i)` at its beginning ignores case. Their
expressions are a part of those that the engine takes.
Source: https://ydb.tech/docs/en/yql/reference/udf/list/hyperscan and `udf/list/pire`
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from mayflydb.query.yql.expression import Builder, Invocation, Operand
from mayflydb.query.yql.functions.patterns import compile_pattern
from mayflydb.query.yql.functions.re2_module import TextFunction
from mayflydb.query.yql.functions.support import (
    argument_fault,
    coerce,
    count_operands,
    evaluate_constant,
    mismatch_fault,
    value_at,
)
from mayflydb.query.yql.types import BOOL, NULL, STRING, TupleType, Value, optional

_MOST_PATTERNS: Final = 100
_IGNORES_CASE: Final = b"(?i)"


def _pattern_at(call: Invocation) -> bytes:
    count_operands(call, 1)
    given = coerce(value_at(call, 0), STRING)
    if given is None:
        raise mismatch_fault(call, 0, value_at(call, 0).type, STRING)
    text: bytes = evaluate_constant(given, call)
    return text


def _compile(call: Invocation, text: bytes) -> Any:
    any_case = text.startswith(_IGNORES_CASE)
    return compile_pattern(text.removeprefix(_IGNORES_CASE), any_case, call.position)


def _finder(call: Invocation, text: bytes, whole: bool) -> Callable[[bytes], bool]:
    pattern = _compile(call, text)
    find = pattern.fullmatch if whole else pattern.search
    return lambda value: find(value) is not None


def _test(whole: bool) -> Builder:
    def build(call: Invocation) -> Operand:
        return TextFunction(lambda kind: BOOL, _finder(call, _pattern_at(call), whole), False)

    return build


def _test_several(whole: bool) -> Builder:
    """MultiGrep and MultiMatch: one expression in each line, one Bool for each."""

    def build(call: Invocation) -> Operand:
        lines = _pattern_at(call).split(b"\n")
        if len(lines) > _MOST_PATTERNS:
            raise argument_fault(call, f"More than {_MOST_PATTERNS} expressions are not supported")
        finders = [_finder(call, line, whole) for line in lines]
        kind = TupleType((BOOL,) * len(lines))
        nothing = (False,) * len(lines)
        return TextFunction(lambda of: kind, lambda value: tuple(find(value) for find in finders), nothing)

    return build


def _capture_group(call: Invocation) -> Operand:
    """`Pire::Capture`: the text of the only group; NULL without a match."""
    pattern = _compile(call, _pattern_at(call))
    if pattern.groups != 1:
        raise argument_fault(call, "Expected an expression with exactly one group")

    def capture(value: bytes) -> Value:
        found = pattern.search(value)
        return None if found is None else found[1]

    return TextFunction(lambda of: optional(of if of != NULL else STRING), capture, None)


def _replace_group(call: Invocation) -> Operand:
    """`Pire::Replace`: the text of the only group becomes the other text."""
    pattern = _compile(call, _pattern_at(call))
    if pattern.groups != 1:
        raise argument_fault(call, "Expected an expression with exactly one group")

    def replace(value: bytes, by: bytes | None) -> Value:
        found = pattern.search(value)
        if by is None or found is None or found[1] is None:
            return None if by is None else value
        start, end = found.span(1)
        return value[:start] + by + value[end:]

    return TextFunction(lambda of: of if of != NULL else STRING, replace, None, extra=1)


def _replace(call: Invocation) -> Operand:
    """`Hyperscan::Replace`: every match becomes the text, which stands for itself."""
    pattern = _compile(call, _pattern_at(call))

    def replace(value: bytes, by: bytes | None) -> Value:
        return None if by is None else pattern.replace(value, lambda found: by)

    return TextFunction(lambda of: of if of != NULL else STRING, replace, None, extra=1)


_TESTS: Final[dict[str, Builder]] = {
    "Grep": _test(whole=False),
    "Match": _test(whole=True),
    "MultiGrep": _test_several(whole=False),
    "MultiMatch": _test_several(whole=True),
}
PIRE: Final[dict[str, Builder]] = {**_TESTS, "Capture": _capture_group, "Replace": _replace_group}
HYPERSCAN: Final[dict[str, Builder]] = {
    **_TESTS,
    "BacktrackingGrep": _test(whole=False),
    "BacktrackingMatch": _test(whole=True),
    "Replace": _replace,
}
"""Without Capture, which returns what YDB's engine happens to end with."""
