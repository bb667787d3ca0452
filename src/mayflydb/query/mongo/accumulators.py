"""Accumulators of `$group`, `$bucket` and `$setWindowFields`: one object for each group, fed one frame for each document."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final, Protocol, TypeAlias

from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.expressions import Expression, Frame, compile_expression, frame_of
from mayflydb.query.mongo.expressions.core import ArgumentCodes, check_arguments
from mayflydb.query.mongo.expressions.ordering import Ranking, compile_ranking
from mayflydb.query.mongo.expressions.statistics import (
    N_CODES,
    PERCENTILE_CODES,
    check_method,
    count_of,
    numbers_in,
    shares_of,
)
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.numbers import Number
from mayflydb.query.mongo.totals import Deviation, Extreme, Sum, percentile, pick_extremes
from mayflydb.query.mongo.values import MISSING, Document, OrderKey, Value, format_value, type_name


class Accumulator(Protocol):
    """The running state of one output field of one group."""

    def add(self, frame: Frame) -> None:
        """Add one document, given as its frame."""

    def result(self) -> Value:
        """Return the value of all documents added so far. More documents may be added afterwards."""


class AccumulatorFactory(Protocol):
    """A factory of accumulators, called once for each group. `key`: the group's `_id`, which the `n` of `$firstN` may read."""

    def __call__(self, key: Value = MISSING) -> Accumulator: ...


_Compiler: TypeAlias = Callable[[str, Value, Env, Collection[str]], AccumulatorFactory]


def compile_accumulator(name: str, spec: Value, env: Env, variables: Collection[str] = ()) -> AccumulatorFactory:
    """Compile `{name: spec}`; `name` begins with `$`. MqlError 15952 for an unknown accumulator, 238 for `$accumulator`."""
    if name == "$accumulator":
        raise MqlError(238, "$accumulator is not supported: there is no JavaScript here")
    maker = _COMPILERS.get(name)
    if maker is None:
        raise MqlError(15952, f"unknown group operator '{name}'")
    return maker(name, spec, env, variables)


def _compile_operand(name: str, spec: Value, env: Env, variables: Collection[str]) -> Expression:
    if type(spec) is list:
        if len(spec) != 1:
            raise MqlError(40237, f"The {name} accumulator is a unary operator")
        (spec,) = spec
    return compile_expression(spec, env, variables)


# --- one value at a time ---------------------------------------------------------------------------------------------


class _State(Protocol):
    def add(self, value: Value) -> None: ...


class _FoldAccumulator:
    """An accumulator that evaluates its operand for each document and adds the value to a state."""

    __slots__ = ("_operand", "_result", "_state")

    def __init__(self, operand: Expression, state: _State, result: Callable[[_State], Value]) -> None:
        self._operand = operand
        self._state = state
        self._result = result

    def add(self, frame: Frame) -> None:
        self._state.add(self._operand(frame))

    def result(self) -> Value:
        return self._result(self._state)


class _EndState:
    """The state of `$first` and `$last`: the first or last value; a missing value becomes null."""

    __slots__ = ("_empty", "_last", "value")

    def __init__(self, last: bool) -> None:
        self._last = last
        self._empty = True
        self.value: Value = None

    def add(self, value: Value) -> None:
        if self._last or self._empty:
            self.value = None if value is MISSING else value
            self._empty = False


class _PushState:
    """The state of `$push`: all values that are not missing."""

    __slots__ = ("values",)

    def __init__(self) -> None:
        self.values: list[Value] = []

    def add(self, value: Value) -> None:
        if value is not MISSING:
            self.values.append(value)


class _DistinctState:
    """The state of `$addToSet`: one value for each comparison key; missing values are left out."""

    __slots__ = ("_key", "found")

    def __init__(self, key: Callable[[Value], OrderKey]) -> None:
        self._key = key
        self.found: dict[OrderKey, Value] = {}

    def add(self, value: Value) -> None:
        if value is not MISSING:
            self.found.setdefault(self._key(value), value)


def _array_of(name: str, value: Value) -> list[Value]:
    """Return the elements of an array; a missing value has none. MqlError 14 for another type, null among them."""
    if value is MISSING:
        return []
    if type(value) is not list:
        raise MqlError(
            14, f"{name} requires array inputs, but input {format_value(value)} is of type {type_name(value)}"
        )
    return value


class _ConcatState:
    """The state of `$concatArrays`: the elements of all arrays, one behind the other."""

    __slots__ = ("values",)

    def __init__(self) -> None:
        self.values: list[Value] = []

    def add(self, value: Value) -> None:
        self.values += _array_of("$concatArrays", value)


class _UnionState(_DistinctState):
    """The state of `$setUnion`: one element of the arrays for each comparison key."""

    __slots__ = ()

    def add(self, value: Value) -> None:
        for each in _array_of("$setUnion", value):
            super().add(each)


class _MergeState:
    """The state of `$mergeObjects`: later documents overwrite the fields of earlier ones."""

    __slots__ = ("document",)

    def __init__(self) -> None:
        self.document: Document = {}

    def add(self, value: Value) -> None:
        if value is None or value is MISSING:
            return
        if type(value) is not dict:
            raise MqlError(
                40400,
                f"$mergeObjects requires object inputs, but input {format_value(value)} is of type {type_name(value)}",
            )
        self.document.update(value)


def _compile_fold(make: Callable[[Env], _State], result: Callable[..., Value]) -> _Compiler:
    def maker(name: str, spec: Value, env: Env, variables: Collection[str]) -> AccumulatorFactory:
        operand = _compile_operand(name, spec, env, variables)
        return lambda key=MISSING: _FoldAccumulator(operand, make(env), result)

    return maker


def _compile_array_fold(make: Callable[[Env], _State], result: Callable[..., Value]) -> _Compiler:
    """Compile as a fold does. A list is no operand here, not even one of a single element."""
    fold = _compile_fold(make, result)

    def maker(name: str, spec: Value, env: Env, variables: Collection[str]) -> AccumulatorFactory:
        if type(spec) is list:
            raise MqlError(40237, f"The {name} accumulator is a unary operator")
        return fold(name, spec, env, variables)

    return maker


def _compile_count(name: str, spec: Value, env: Env, variables: Collection[str]) -> AccumulatorFactory:
    if spec != {}:
        raise MqlError(9, "$count takes no arguments, i.e. $count:{}")
    # `$count` is the sum of a constant.
    one = compile_expression(1, env)
    return lambda key=MISSING: _FoldAccumulator(one, Sum(), _sum_of)


def _sum_of(state: _State) -> Number:
    assert isinstance(state, Sum)
    return state.result()


# --- several values --------------------------------------------------------------------------------------------------


class _ValueList:
    """An accumulator that keeps all values (null for missing ones) and computes the result from the list."""

    __slots__ = ("_operand", "_pick", "_values")

    def __init__(self, operand: Expression, pick: Callable[[list[Value]], Value]) -> None:
        self._operand = operand
        self._pick = pick
        self._values: list[Value] = []

    def add(self, frame: Frame) -> None:
        value = self._operand(frame)
        self._values.append(None if value is MISSING else value)

    def result(self) -> Value:
        return self._pick(self._values)


_Pick: TypeAlias = Callable[[list[Value], int, Env], list[Value]]


def _compile_pick(pick: _Pick) -> _Compiler:
    def maker(name: str, spec: Value, env: Env, variables: Collection[str]) -> AccumulatorFactory:
        given = check_arguments(name, spec, ("n", "input"), (), N_CODES)
        count = compile_expression(given["n"], env)
        operand = compile_expression(given["input"], env, variables)

        def make(key: Value = MISSING) -> Accumulator:
            most = count_of(count(frame_of(key, env)))
            return _ValueList(operand, lambda values: pick(values, most, env))

        return make

    return maker


def _key_of(env: Env) -> Callable[[Value], OrderKey]:
    return env.collation.order_key


def _compile_percentile(name: str, spec: Value, env: Env, variables: Collection[str]) -> AccumulatorFactory:
    fields = ("input", "method") if name == "$median" else ("input", "p", "method")
    given = check_arguments(name, spec, fields, (), PERCENTILE_CODES)
    check_method(name, given["method"])
    operand = compile_expression(given["input"], env, variables)
    if name == "$median":
        return lambda key=MISSING: _ValueList(operand, lambda values: percentile(numbers_in(values), 0.5))
    shares = shares_of(compile_expression(given["p"], env)(frame_of({}, env)))

    def pick(values: list[Value]) -> list[float | None]:
        ordered = numbers_in(values)
        return [percentile(ordered, share) for share in shares]

    return lambda key=MISSING: _ValueList(operand, pick)


# --- by an order of their own ----------------------------------------------------------------------------------------

# A smaller buffer would be sorted again after every few documents.
_MIN_BUFFER: Final = 64


class _RankedOutputs:
    """The accumulator of `$top`, `$bottom`, `$topN` and `$bottomN`: the first or last outputs in the order of the ranking.

    The list is sorted and cut whenever it holds twice the wanted number, so memory stays proportional to that number.
    """

    __slots__ = ("_items", "_last", "_most", "_output", "_ranking", "_single")

    def __init__(self, ranking: Ranking, output: Expression, most: int | None, last: bool) -> None:
        self._ranking = ranking
        self._output = output
        self._single = most is None
        self._most = most or 1
        self._last = last
        self._items: list[tuple[tuple[OrderKey, ...], Value]] = []

    def add(self, frame: Frame) -> None:
        value = self._output(frame)
        self._items.append((self._ranking.keys(frame.current), None if value is MISSING else value))
        if len(self._items) >= 2 * max(self._most, _MIN_BUFFER):
            self._items = self._best()

    def _best(self) -> list[tuple[tuple[OrderKey, ...], Value]]:
        ordered = self._ranking.sort(self._items)
        return ordered[-self._most :] if self._last else ordered[: self._most]

    def result(self) -> Value:
        values = [value for _, value in self._best()]
        if self._single:
            return values[0] if values else None
        return values


def _compile_ranked(last: bool, several: bool) -> _Compiler:
    codes = ArgumentCodes(5788001, 5788002, {"n": 5788003, "output": 5788004, "sortBy": 5788005})
    required = ("n", "sortBy", "output") if several else ("sortBy", "output")

    def maker(name: str, spec: Value, env: Env, variables: Collection[str]) -> AccumulatorFactory:
        given = check_arguments(name, spec, required, (), codes)
        if type(given["sortBy"]) is not dict:
            raise MqlError(10065, "invalid parameter: expected an object (sortBy)")
        ranking = compile_ranking(given["sortBy"], env)
        output = compile_expression(given["output"], env, variables)
        count = compile_expression(given["n"], env) if several else None

        def make(key: Value = MISSING) -> Accumulator:
            return _RankedOutputs(ranking, output, count_of(count(frame_of(key, env))) if count else None, last)

        return make

    return maker


_COMPILERS: Final[Mapping[str, _Compiler]] = {
    "$sum": _compile_fold(lambda env: Sum(), Sum.result),
    "$avg": _compile_fold(lambda env: Sum(), Sum.average),
    "$min": _compile_fold(lambda env: Extreme(_key_of(env), False), lambda state: state.value),
    "$max": _compile_fold(lambda env: Extreme(_key_of(env), True), lambda state: state.value),
    "$first": _compile_fold(lambda env: _EndState(False), lambda state: state.value),
    "$last": _compile_fold(lambda env: _EndState(True), lambda state: state.value),
    # Results are copies, because a window function goes on adding to the accumulator.
    "$push": _compile_fold(lambda env: _PushState(), lambda state: list(state.values)),
    "$addToSet": _compile_fold(lambda env: _DistinctState(_key_of(env)), lambda state: list(state.found.values())),
    "$concatArrays": _compile_array_fold(lambda env: _ConcatState(), lambda state: list(state.values)),
    "$setUnion": _compile_array_fold(lambda env: _UnionState(_key_of(env)), lambda state: list(state.found.values())),
    "$mergeObjects": _compile_fold(lambda env: _MergeState(), lambda state: dict(state.document)),
    "$stdDevPop": _compile_fold(lambda env: Deviation(), lambda state: state.result(False)),
    "$stdDevSamp": _compile_fold(lambda env: Deviation(), lambda state: state.result(True)),
    "$count": _compile_count,
    "$firstN": _compile_pick(lambda values, count, env: values[:count]),
    # `count_of` admits no 0, for which this slice would be the whole list.
    "$lastN": _compile_pick(lambda values, count, env: values[-count:]),
    "$minN": _compile_pick(lambda values, count, env: pick_extremes(values, count, _key_of(env), False)),
    "$maxN": _compile_pick(lambda values, count, env: pick_extremes(values, count, _key_of(env), True)),
    "$percentile": _compile_percentile,
    "$median": _compile_percentile,
    "$top": _compile_ranked(False, False),
    "$bottom": _compile_ranked(True, False),
    "$topN": _compile_ranked(False, True),
    "$bottomN": _compile_ranked(True, True),
}

NAMES: Final = frozenset(_COMPILERS)
"""The names of all accumulators, with `$`."""
