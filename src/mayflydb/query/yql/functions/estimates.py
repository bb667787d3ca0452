"""Aggregates that estimate within fixed memory: CountDistinctEstimate (HyperLogLog), TOPFREQ and MODE.

Source: https://ydb.tech/docs/en/yql/reference/builtins/aggregation, and `udfs/common/topfreq` below `yql/essentials` of
https://github.com/ydb-platform/ydb. HyperLogLog: Flajolet, Fusy, Gandouet and Meunier (2007).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from hashlib import blake2b
from typing import Any, Final

from mayflydb.query.sorting import sort_in_runs
from mayflydb.query.yql import comparison
from mayflydb.query.yql.expression import AggregateBuilder, Aggregation, Invocation
from mayflydb.query.yql.functions.aggregates import Values, nullable_like
from mayflydb.query.yql.functions.support import argument_fault, count_operands, evaluate_constant, value_at
from mayflydb.query.yql.types import UINT64, ListType, StructType, Value, bare

_EXACT: Final = 4096
"""Up to this number the hashes of values are counted, which is exact; beyond it they fill the registers."""

_HASH_BITS: Final = 64


class _Distinct:
    """The distinct values seen: their hashes while they are few, then a register for each of 2^precision buckets.

    A register has the greatest number of leading zeros, plus one, of the hashes in its bucket.
    """

    def __init__(self, precision: int) -> None:
        self._precision = precision
        self._few: set[int] | None = set()
        self._registers = bytearray()

    def add(self, key: Hashable) -> None:
        hashed = int.from_bytes(blake2b(repr(key).encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
        if self._few is None:
            self._fill(hashed)
            return
        self._few.add(hashed)
        if len(self._few) > _EXACT:
            self._registers = bytearray(1 << self._precision)
            for each in self._few:
                self._fill(each)
            self._few = None

    def _fill(self, hashed: int) -> None:
        rest = _HASH_BITS - self._precision
        bucket, tail = hashed >> rest, hashed & ((1 << rest) - 1)
        zeros = rest - tail.bit_length() + 1
        if zeros > self._registers[bucket]:
            self._registers[bucket] = zeros

    def estimate(self) -> int:
        if self._few is not None:
            return len(self._few)
        size = len(self._registers)
        total = sum(self._registers.count(rank) * 2.0**-rank for rank in range(_HASH_BITS + 1))
        found = _correction(size) * size * size / total
        empty = self._registers.count(0)
        # Few values leave buckets empty, and their number then tells more than the registers.
        if found <= 2.5 * size and empty:
            found = size * math.log(size / empty)
        return round(found)


def _correction(size: int) -> float:
    known = {16: 0.673, 32: 0.697, 64: 0.709}
    return known.get(size, 0.7213 / (1 + 1.079 / size))


def _count_distinct(call: Invocation) -> Aggregation:
    """`CountDistinctEstimate(value [, precision])`"""
    precision = _natural(call, 1) if count_operands(call, 1, 2) == 2 else 14
    if not 4 <= precision <= 18:
        raise argument_fault(call, f"precision is expected to be between 4 and 18 (inclusive), got {precision}")
    given = value_at(call, 0)
    key = comparison.group_key(bare(given.type))

    def step(state: Value, values: Values) -> Value:
        if values[0] is None:
            return state
        state = _Distinct(precision) if state is None else state
        state.add(key(values[0]))
        return state

    return Aggregation(
        nullable_like(given, UINT64),
        lambda: None,
        step,
        lambda state: None if state is None else state.estimate(),
    )


def _natural(call: Invocation, index: int) -> int:
    value = evaluate_constant(value_at(call, index), call)
    if type(value) is not int or value < 0:
        raise argument_fault(call, "invalid argument, numeric literal is expected")
    return value


_LEAST_BUFFER: Final = 100
_MOST_ITEMS: Final = 2**32 - 1


def _top_frequent(call: Invocation) -> Aggregation:
    """`TOPFREQ(value [, number [, buffer]])`, `MODE`: the most frequent values with their frequencies, most frequent first.

    When more than twice `buffer` values are counted, the rarest are forgotten down to `buffer`.
    """
    given_count = count_operands(call, 1, 3)
    number = min(_natural(call, 1), _MOST_ITEMS) if given_count > 1 else 1
    buffer = _natural(call, 2) if given_count > 2 else number * 3 // 2
    buffer = max(buffer, _LEAST_BUFFER)
    given = value_at(call, 0)
    kind = bare(given.type)
    key = comparison.group_key(kind)

    def step(state: Value, values: Values) -> Value:
        if values[0] is None:
            return state
        _count_value(state, key, values[0])
        return state if len(state) <= 2 * buffer else dict(_most_frequent(state, buffer))

    def finish(state: Value) -> Value:
        return [(count, value) for _, (value, count) in _most_frequent(state, number)]

    return Aggregation(ListType(StructType((("Frequency", UINT64), ("Value", kind)))), dict, step, finish)


def _count_value(state: dict[Hashable, tuple[Value, int]], key: Callable[[Value], Hashable], value: Value) -> None:
    mark = key(value)
    known = state.get(mark)
    state[mark] = (value, 1) if known is None else (known[0], known[1] + 1)


def _most_frequent(state: dict[Hashable, tuple[Value, int]], number: int) -> list[tuple[Hashable, Any]]:
    """Values with equal frequencies stay in the order of their first rows."""
    return sort_in_runs(list(state.items()), lambda item: item[1][1], True)[:number]


AGGREGATES: Final[dict[str, AggregateBuilder]] = {
    "countdistinctestimate": _count_distinct,
    "hyperloglog": _count_distinct,
    "hll": _count_distinct,
    "topfreq": _top_frequent,
    "mode": _top_frequent,
}
