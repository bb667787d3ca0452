"""Random operands for every operator: the result is a value of BSON or an MqlError, never another exception."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from bson import Binary, Code, DatetimeMS, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp

from mayflydb.query.mongo.accumulators import NAMES, compile_accumulator
from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.expressions import OPERATORS, compile_expression, frame_of
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.values import MISSING, encode, order_key

VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 5, 2147483647, -2147483648, Int64(0), Int64(2**63 - 1), Int64(-(2**63)), 1 << 40),
    *(0.0, -0.0, 1.5, -2.5, 1e308, -1e308, 5e-324, float("inf"), float("-inf"), float("nan"), 2.0**63),
    *(
        Decimal128(text)
        for text in ("0", "-0", "1.5", "1E+6144", "9E-6176", "NaN", "sNaN", "Infinity", "-Infinity", "1E-6176")
    ),
    *(
        "",
        "a",
        "é😀",
        "day",
        "month",
        "UTC",
        "+05:30",
        "America/New_York",
        "2024-02-29",
        "%Y-%m",
        "5",
        "1e5",
        "(",
        "\0",
        "x" * 30,
    ),
    *(
        {},
        {"a": 1},
        {"k": "a", "v": 1},
        [],
        [1],
        [1, 2, 3],
        [[1, 2]],
        ["a", None],
        [{"k": "a", "v": 1}],
        [{}],
        [["a", 1]],
    ),
    *(b"", b"ab", Binary(b"0" * 16, 4), ObjectId("a" * 24), DatetimeMS(0), DatetimeMS(2**62), DatetimeMS(-(2**63))),
    *(DatetimeMS(2**63 - 1), Timestamp(1, 2), Regex("a", "i"), Code("x"), MinKey(), MaxKey()),
]
DOCUMENT = {f"v{index}": value for index, value in enumerate(VALUES)}
FIELDS = {
    name: fields.split()
    for fields, names in (
        ("date unit timezone binSize startOfWeek", "$dateTrunc"),
        ("startDate endDate unit timezone startOfWeek", "$dateDiff"),
        ("startDate unit amount timezone", "$dateAdd $dateSubtract"),
        ("date timezone", "$year $week $isoWeekYear $dayOfYear"),
        ("date timezone iso8601", "$dateToParts"),
        ("year month day hour millisecond timezone", "$dateFromParts"),
        ("isoWeekYear isoWeek isoDayOfWeek second", "$dateFromParts"),
        ("date format timezone onNull", "$dateToString"),
        ("dateString format timezone onNull", "$dateFromString"),
        ("input to", "$convert"),
        ("input regex options", "$regexMatch $regexFind $regexFindAll"),
        ("input find replacement", "$replaceOne $replaceAll"),
        ("input chars", "$trim $ltrim $rtrim"),
        ("input in", "$map"),
        ("input cond limit", "$filter"),
        ("input initialValue in", "$reduce"),
        ("n input", "$firstN $lastN $minN $maxN"),
        ("field input", "$getField $unsetField"),
        ("input p method", "$percentile"),
    )
    for name in names.split()
}


def random_argument(chance: Random, name: str) -> Any:
    def value() -> Any:
        return (
            f"$v{chance.randrange(len(VALUES) + 1)}" if chance.random() < 0.7 else {"$literal": chance.choice(VALUES)}
        )

    if name in FIELDS and chance.random() < 0.9:
        spec = {field: value() for field in FIELDS[name] if chance.random() < 0.95}
        if "unit" in spec and chance.random() < 0.8:
            spec["unit"] = chance.choice(
                ["year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond"]
            )
        return spec
    return [value() for _ in range(chance.choice((0, 1, 1, 1, 2, 2, 2, 3, 4)))]


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_an_operator_yields_a_value_or_refuses(name: str, chance: Random) -> None:
    env = Env(now=0, random=chance.random)
    frame = frame_of(DOCUMENT, env)
    for _ in range(60):
        spec = {name: random_argument(chance, name)}
        try:
            value = compile_expression(spec, env)(frame)
        except MqlError:
            continue
        if value is not MISSING:
            encode({"": value})
            order_key(value)


@pytest.mark.parametrize("name", sorted(NAMES))
def test_an_accumulator_yields_a_value_or_refuses(name: str, chance: Random) -> None:
    env = Env(now=0)
    specs: list[Any] = ["$v", {"n": 3, "input": "$v"}, {"n": 2, "sortBy": {"v": -1}, "output": "$v"}, {}]
    specs += [{"sortBy": {"v.a": 1}, "output": "$v"}, {"input": "$v", "p": [0.5], "method": "approximate"}]
    for spec in specs:
        try:
            accumulator = compile_accumulator(name, spec, env)()
            for _ in range(40):
                accumulator.add(frame_of({"v": chance.choice(VALUES)}, env))
            encode({"": accumulator.result()})
        except MqlError:
            continue
