"""JsonPath, the path language of SQL's JSON functions: compilation of paths to functions of a document.

A path gives a sequence of values. In `lax` mode, the default, a step skips values that do not fit it, unpacks arrays where it
expects an object, and wraps other values where it expects an array; in `strict` mode these are errors.
Source: https://ydb.tech/docs/en/yql/reference/builtins/json#jsonpath
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias

import msgspec

from mayflydb.query.yql.faults import fault
from mayflydb.query.yql.functions.patterns import compile_pattern

Items: TypeAlias = list[Any]
MAX_DEPTH: Final = 100


class PathError(Exception):
    """The document does not have the structure that a path expects."""


class PathContext(msgspec.Struct):
    """The input of a step: the document, variables, the item of a filter, the last index of an array."""

    root: Any
    variables: Mapping[str, Any]
    strict: bool
    current: Any = None
    last: int | None = None


Step: TypeAlias = Callable[[PathContext], Items]

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)|(?P<string>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')"
    r"|(?P<variable>\$[A-Za-z_][A-Za-z0-9_]*)|(?P<name>[A-Za-z_][A-Za-z0-9_$]*)"
    r"|(?P<sign>&&|\|\||==|!=|<>|<=|>=|[$@.*\[\](),?!<>+\-/%]))",
    re.DOTALL,
)


@lru_cache(maxsize=512)
def parse(path: str) -> Callable[[Any, Mapping[str, Any]], Items]:
    """Compile a path to a function that gives its sequence for a document and variables. Fault: a path that cannot be parsed."""
    reader = _PathParser(path)
    strict, step = reader.path()
    return lambda document, variables: step(PathContext(document, variables, strict))


class _PathParser:
    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        at = 0
        text = text.rstrip()
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None or found.lastgroup is None:
                raise fault(f"Invalid JsonPath: unexpected {text[at : at + 10]!r}")
            self._tokens.append((found.lastgroup, found[found.lastgroup]))
            at = found.end()
        self._at = 0
        self._depth = 0

    def _peek(self, ahead: int = 0) -> tuple[str, str]:
        index = self._at + ahead
        return self._tokens[index] if index < len(self._tokens) else ("end", "")

    def _skip(self, *words: str) -> bool:
        if all(self._peek(n)[1] == word and self._peek(n)[0] != "string" for n, word in enumerate(words)):
            self._at += len(words)
            return True
        return False

    def _expect(self, word: str) -> None:
        if not self._skip(word):
            raise fault(f"Invalid JsonPath: expected {word!r}, but got {self._peek()[1]!r}")

    def path(self) -> tuple[bool, Step]:
        strict = self._skip("strict")
        if not strict:
            self._skip("lax")
        step = self._parse_or()
        if self._at < len(self._tokens):
            raise fault(f"Invalid JsonPath: unexpected {self._peek()[1]!r}")
        return strict, step

    # predicates

    def _parse_or(self) -> Step:
        left = self._parse_and()
        while self._skip("||"):
            left = _or(left, self._parse_and())
        return left

    def _parse_and(self) -> Step:
        left = self._parse_comparison()
        while self._skip("&&"):
            left = _and(left, self._parse_comparison())
        return left

    def _parse_comparison(self) -> Step:
        left = self._parse_sum()
        for operator in ("==", "!=", "<>", "<=", ">=", "<", ">"):
            if self._skip(operator):
                return _comparison("!=" if operator == "<>" else operator, left, self._parse_sum())
        if self._skip("starts", "with"):
            return _starts_with(left, self._parse_sum())
        if self._skip("like_regex"):
            pattern = self._parse_string()
            flags = self._parse_string() if self._skip("flag") else ""
            return _like_regex(left, pattern, flags)
        if self._skip("is", "unknown"):
            return lambda context: [_truth(left(context)) is None]
        return left

    # arithmetic

    def _parse_sum(self) -> Step:
        left = self._parse_product()
        while self._peek()[1] in ("+", "-") and self._peek()[0] == "sign":
            left = _arithmetic(self._take(), left, self._parse_product())
        return left

    def _parse_product(self) -> Step:
        left = self._parse_unary()
        while self._peek()[1] in ("*", "/", "%") and self._peek()[0] == "sign":
            left = _arithmetic(self._take(), left, self._parse_unary())
        return left

    def _take(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1][1]

    def _parse_unary(self) -> Step:
        # Brackets, filters, subscripts and signs all come back to this rule, so counting here bounds every nesting.
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise fault("Invalid JsonPath: too deep")
        if self._skip("-"):
            step = _with_sign(self._parse_unary(), -1)
        elif self._skip("+"):
            step = _with_sign(self._parse_unary(), 1)
        elif self._skip("!"):
            inner = self._parse_unary()
            step = lambda context: [_not(_truth(inner(context)))]  # noqa: E731
        else:
            step = self._parse_accessors(self._parse_primary())
        self._depth -= 1
        return step

    def _parse_primary(self) -> Step:
        kind, word = self._peek()
        self._at += 1
        if kind == "number":
            value = whole_as_int(float(word)) if any(each in word for each in ".eE") else int(word)
            return lambda context: [value]
        if kind == "string":
            text = _unquote(word)
            return lambda context: [text]
        if kind == "variable":
            return _variable(word[1:])
        constant = {"true": True, "false": False, "null": None}
        if kind == "name" and word.lower() in constant:
            known = constant[word.lower()]
            return lambda context: [known]
        if word == "$":
            return lambda context: [context.root]
        if word == "@":
            return lambda context: [context.current]
        if word == "last":
            return _last
        if word == "exists":
            self._expect("(")
            inner = self._parse_or()
            self._expect(")")
            return _exists(inner)
        if word == "(":
            inner = self._parse_or()
            self._expect(")")
            return inner
        raise fault(f"Invalid JsonPath: unexpected {word!r}" if word else "Invalid JsonPath: it ends too early")

    # accessors

    def _parse_accessors(self, step: Step) -> Step:
        while True:
            if self._skip("."):
                step = self._parse_member(step)
            elif self._skip("[", "*", "]"):
                step = _all_items(step)
            elif self._skip("["):
                step = _subscripts(step, self._parse_subscripts())
            elif self._skip("?"):
                self._expect("(")
                step = _filter(step, self._parse_or())
                self._expect(")")
            else:
                return step

    def _parse_member(self, step: Step) -> Step:
        kind, word = self._peek()
        self._at += 1
        if word == "*" and kind == "sign":
            return _all_members(step)
        if kind == "string":
            return _member(step, _unquote(word))
        if kind != "name":
            raise fault(f"Invalid JsonPath: unexpected {word!r}")
        if self._skip("(", ")"):
            method = _METHODS.get(word)
            if method is None:
                raise fault(f"Invalid JsonPath: unknown method {word}")
            return _call_method(step, method)
        return _member(step, word)

    def _parse_subscripts(self) -> list[tuple[Step, Step | None]]:
        found: list[tuple[Step, Step | None]] = []
        while True:
            low = self._parse_sum()
            found.append((low, self._parse_sum() if self._skip("to") else None))
            if not self._skip(","):
                self._expect("]")
                return found

    def _parse_string(self) -> str:
        kind, word = self._peek()
        if kind != "string":
            raise fault(f"Invalid JsonPath: expected a string, but got {word!r}")
        self._at += 1
        return _unquote(word)


def _unquote(word: str) -> str:
    inner = word[1:-1]
    if word[0] == "'":
        # Text in single quotes is rewritten to a JSON text, which msgspec decodes.
        inner = inner.replace("\\'", "'").replace('"', '\\"')
    try:
        found: str = msgspec.json.decode(f'"{inner}"', type=str)
    except msgspec.DecodeError:
        raise fault(f"Invalid JsonPath: invalid string {word}") from None
    return found


# --- steps -----------------------------------------------------------------------------------------------------------


def _variable(name: str) -> Step:
    def step(context: PathContext) -> Items:
        if name not in context.variables:
            raise PathError(f"Undefined variable '{name}'")
        return [context.variables[name]]

    return step


def _last(context: PathContext) -> Items:
    if context.last is None:
        raise PathError("'last' is only allowed inside array subscripts")
    return [context.last]


def _unpack(items: Items, strict: bool) -> Items:
    if strict:
        return items
    return [inner for item in items for inner in (item if isinstance(item, list) else [item])]


def _member(step: Step, key: str) -> Step:
    def of_key(context: PathContext) -> Items:
        found = []
        for item in _unpack(step(context), context.strict):
            if isinstance(item, dict) and key in item:
                found.append(item[key])
            elif context.strict:
                raise PathError("Member not found" if isinstance(item, dict) else "Expected object")
        return found

    return of_key


def _all_members(step: Step) -> Step:
    def members(context: PathContext) -> Items:
        found: Items = []
        for item in _unpack(step(context), context.strict):
            if isinstance(item, dict):
                found.extend(item.values())
            elif context.strict:
                raise PathError("Expected object")
        return found

    return members


def _all_items(step: Step) -> Step:
    def items(context: PathContext) -> Items:
        found: Items = []
        for item in step(context):
            if isinstance(item, list):
                found.extend(item)
            elif context.strict:
                raise PathError("Expected array")
            else:
                found.append(item)
        return found

    return items


def _subscripts(step: Step, subscripts: list[tuple[Step, Step | None]]) -> Step:
    def items(context: PathContext) -> Items:
        found: Items = []
        for item in step(context):
            if not isinstance(item, list):
                if context.strict:
                    raise PathError("Expected array")
                item = [item]
            # `last` is that of the innermost array.
            inner = msgspec.structs.replace(context, last=len(item) - 1)
            for low, high in subscripts:
                first = math.floor(_number(low(inner)))
                last = first if high is None else math.floor(_number(high(inner)))
                if context.strict and not 0 <= first <= last < len(item):
                    raise PathError("Array index out of bounds")
                found.extend(item[max(first, 0) : last + 1] if last >= 0 else [])
        return found

    return items


def _filter(step: Step, test: Step) -> Step:
    def holds(context: PathContext, item: Any) -> bool:
        try:
            return _truth(test(msgspec.structs.replace(context, current=item))) is True
        except PathError:
            # As in YDB: an item for which the predicate fails is left out, in `strict` mode too.
            return False

    def filter_items(context: PathContext) -> Items:
        return [item for item in _unpack(step(context), context.strict) if holds(context, item)]

    return filter_items


def _call_method(step: Step, method: Callable[[Any], Items]) -> Step:
    def call_each(context: PathContext) -> Items:
        items = step(context)
        # `type()` and `size()` describe an array itself; other methods take its items in lax mode.
        if method not in (_type, _size):
            items = _unpack(items, context.strict)
        return [found for item in items for found in method(item)]

    return call_each


# --- values ----------------------------------------------------------------------------------------------------------


def _number(items: Items) -> float:
    if len(items) != 1 or isinstance(items[0], bool) or not isinstance(items[0], (int, float)):
        raise PathError("Expected a number")
    return items[0]


def _with_sign(step: Step, sign: int) -> Step:
    return lambda context: [sign * _number([item]) for item in step(context)]


def whole_as_int(number: float) -> float:
    """The same number, as an int if it is whole and exact: JSON writes `1`, never `1.0`."""
    return int(number) if abs(number) < 2**53 and number == int(number) and (number or _positive(number)) else number


def _positive(zero: float) -> bool:
    return math.copysign(1, zero) > 0


def _arithmetic(operator: str, left: Step, right: Step) -> Step:
    def calculate(context: PathContext) -> Items:
        a, b = _number(left(context)), _number(right(context))
        if operator in ("/", "%") and b == 0:
            raise PathError("Division by zero")
        found = {
            "+": lambda: a + b,
            "-": lambda: a - b,
            "*": lambda: a * b,
            "/": lambda: a / b,
            "%": lambda: math.fmod(a, b),
        }[operator]()
        if not math.isfinite(found):
            raise PathError("The result is no number")
        return [whole_as_int(found)]

    return calculate


def _truth(items: Items) -> bool | None:
    if len(items) != 1 or not (items[0] is None or isinstance(items[0], bool)):
        raise PathError("Expected a single boolean value")
    return items[0]


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value


def _and(left: Step, right: Step) -> Step:
    def both(context: PathContext) -> Items:
        # Three-valued: None is unknown, and FALSE && unknown is FALSE.
        values = (_truth(left(context)), _truth(right(context)))
        return [False if False in values else None if None in values else True]

    return both


def _or(left: Step, right: Step) -> Step:
    def either(context: PathContext) -> Items:
        values = (_truth(left(context)), _truth(right(context)))
        return [True if True in values else None if None in values else False]

    return either


def _type_name(item: Any) -> str:
    if item is None:
        return "null"
    if isinstance(item, bool):
        return "boolean"
    if isinstance(item, (int, float)):
        return "number"
    return {str: "string", list: "array", dict: "object"}[item.__class__]


def _comparison(operator: str, left: Step, right: Step) -> Step:
    def compare(context: PathContext) -> Items:
        try:
            strict = context.strict
            pairs = [(a, b) for a in _unpack(left(context), strict) for b in _unpack(right(context), strict)]
        except PathError:
            return [None]
        # `lax` stops at the first pair that matches or cannot be compared; `strict` looks at all pairs, since one that
        # cannot be compared makes the result unknown.
        error = found = False
        for a, b in pairs:
            outcome = _compare_items(operator, a, b)
            error, found = error or outcome is None, found or outcome is True
            if (error or found) and not context.strict:
                break
        return [None if error else found]

    return compare


def _compare_items(operator: str, a: Any, b: Any) -> bool | None:
    """True or False for two items; None if they cannot be compared."""
    one, two = _type_name(a), _type_name(b)
    if not {one, two}.isdisjoint(("array", "object")):
        return None
    if "null" in (one, two):
        # Of all comparisons with null, YDB answers only `null == null` with true.
        return one == two and operator == "=="
    if one != two:
        return None
    outcomes: dict[str, bool] = {
        "==": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b
    }  # fmt: skip
    return outcomes[operator]


def _any_matches(items: Items, test: Callable[[str], bool], strict: bool) -> bool | None:
    """True if a string passes the test; None (unknown) for an item that is no string."""
    # As in comparisons: `lax` stops at the first item that passes or is no string; `strict` looks at all items.
    error = found = False
    for item in items:
        if isinstance(item, str):
            found = found or test(item)
        else:
            error = True
        if (error or found) and not strict:
            break
    return None if error else found


def _starts_with(left: Step, right: Step) -> Step:
    def has_prefix(context: PathContext) -> Items:
        texts = left(context)
        # YDB demands one string on the left, and takes a sequence of prefixes on the right: the reverse of SQL's standard.
        if len(texts) != 1 or not isinstance(texts[0], str):
            raise PathError("Expected a string before 'starts with'")
        return [_any_matches(right(context), texts[0].startswith, context.strict)]

    return has_prefix


def _like_regex(step: Step, pattern: str, flags: str) -> Step:
    if set(flags) - {"i"}:
        raise fault(f"Invalid JsonPath: flags {flags!r} of like_regex are not supported")
    expression = compile_pattern(pattern.encode(), any_case="i" in flags)

    def matches(context: PathContext) -> Items:
        items = _unpack(step(context), context.strict)
        return [_any_matches(items, lambda text: expression.search(text.encode()) is not None, context.strict)]

    return matches


def _exists(step: Step) -> Step:
    def exists(context: PathContext) -> Items:
        try:
            return [bool(step(context))]
        except PathError:
            return [None]

    return exists


# --- methods ---------------------------------------------------------------------------------------------------------


def _type(item: Any) -> Items:
    return [_type_name(item)]


def _size(item: Any) -> Items:
    return [len(item) if isinstance(item, list) else 1]


def _double(item: Any) -> Items:
    if not isinstance(item, str):
        raise PathError("Expected a string")
    try:
        found = float(item)
    except ValueError:
        raise PathError("Expected a string with a number") from None
    return [whole_as_int(found)]


def _keys(item: Any) -> Items:
    if not isinstance(item, dict):
        raise PathError("Expected object")
    return [{"name": name, "value": item[name]} for name in sorted(item)]


_METHODS: Final[dict[str, Callable[[Any], Items]]] = {
    "type": _type,
    "size": _size,
    "double": _double,
    "ceiling": lambda item: [math.ceil(_number([item]))],
    "floor": lambda item: [math.floor(_number([item]))],
    "abs": lambda item: [whole_as_int(abs(_number([item])))],
    "keyvalue": _keys,
}
