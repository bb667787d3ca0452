"""Queries from within the process: values as JSON, limits, and faults with their issues."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from frontends.ydb.data.conftest import Place
from mayflydb.frontends.ydb.app import YdbApp
from mayflydb.frontends.ydb.caller import YdbCaller
from mayflydb.frontends.ydb.options import Options
from mayflydb.query.yql.answers import Answer, AnswerLimits
from mayflydb.query.yql.faults import Fault

Ask = Callable[..., Answer]

STORED = {
    "Bool": True,
    "Int8": -128,
    "Int16": -32768,
    "Int32": -(2**31),
    "Int64": -(2**63),
    "Uint8": 255,
    "Uint16": 65535,
    "Uint32": 2**32 - 1,
    "Uint64": 2**64 - 1,
    "Float": 0.1,
    "Double": 0.1,
    "String": {"base64": "/wA="},
    "Utf8": "é\n\u0000",
    "Yson": '{a="b"}',
    "Json": '{"b": 1.0}',
    "JsonDocument": '{"a":[1,null]}',
    "Uuid": "6e73b41c-4ede-4d08-9cfb-b7462d9e498b",
    "DyNumber": ".12e3",
    "Decimal(35,10)": "-1.5",
    "Date": "2030-01-01",
    "Datetime": "2030-01-01T00:00:01Z",
    "Timestamp": "2030-01-01T00:00:00.000001Z",
    "Interval": "-P1DT0.000001S",
    "Date32": "1900-01-01",
    "Datetime64": "1900-01-01T00:00:01Z",
    "Timestamp64": "1900-01-01T00:00:00.000001Z",
    "Interval64": "P100000D",
}
"""A value of each type that columns may have, as JSON."""

COMPUTED = {
    "Double": "-inf",
    "Float": "nan",
    "String": "é",
    "TzDate": "2030-01-01,Europe/Berlin",
    "TzDate32": "1900-01-01,Europe/Berlin",
    "TzDatetime64": "-144169-01-01T00:00:00,UTC",
    "TzTimestamp64": "148107-12-31T23:59:59.999999,UTC",
    "Int32??": [None],
    "List<Utf8?>": ["a", None],
    "Tuple<Int32,Utf8>": [1, "a"],
    "Struct<'a':Int32,'b':Utf8?>": {"a": 1, "b": None},
    "Dict<Utf8,Int32>": [["a", 1]],
    "Set<Utf8>": [["a", None]],
    "Variant<Int32,Utf8>": [1, "a"],
    "Tagged<Int32,'t'>": 7,
    "Tagged<Int32?,'t'>?": [None],
}


async def build_caller(place: Place) -> YdbCaller:
    """A caller that may have one query at a time."""
    return YdbCaller(YdbApp(place.engine, Options(max_calls=1), Random(1)))


@pytest.fixture
def ask(place: Place) -> Ask:
    caller = place.run(build_caller(place))

    def run(text: str, parameters: Any = None, **options: Any) -> Answer:
        return place.run(caller("/local", text, parameters, **options))

    return run


def fault_of(ask: Ask, text: str, parameters: Any = None, **options: Any) -> Fault:
    with pytest.raises(Fault) as raised:
        ask(text, parameters, **options)
    return raised.value


def test_values_of_all_types_survive(ask: Ask) -> None:
    columns = {f"c{n}": (type, value) for n, (type, value) in enumerate(STORED.items())}
    defined = ", ".join(f"{name} {type}" for name, (type, _) in columns.items())
    ask(f"CREATE TABLE every (id Int32 NOT NULL, {defined}, PRIMARY KEY (id))")
    row = {"id": 1} | {name: value for name, (_, value) in columns.items()}
    members = ", ".join(f"{name}:{type}?" for name, (type, _) in columns.items())
    given = {"rows": (f"List<Struct<id:Int32,{members}>>", [row, {"id": 2}])}
    ask("UPSERT INTO every SELECT * FROM AS_TABLE($rows)", given)
    (found,) = ask("SELECT * FROM every ORDER BY id").results
    names = [name for name, _ in found.columns]
    assert dict(zip(names, found.rows[0], strict=True)) == row
    assert [value for value in found.rows[1] if value is not None] == [2]
    assert dict(found.columns) == {"id": "Int32"} | {name: f"{type}?" for name, (type, _) in columns.items()}
    # The texts of all values are read too, as from CSV.
    texts = {name: str(value).lower() if value is True else value for name, value in row.items()}
    texts = {name: str(value) if isinstance(value, (int, float)) else value for name, value in texts.items()}
    ask("UPSERT INTO every SELECT * FROM AS_TABLE($rows)", {"rows": (given["rows"][0], [texts | {"id": "3"}])})
    assert ask("SELECT * FROM every WHERE id = 3").results[0].rows == [
        [3 if name == "id" else row[name] for name in names]
    ]
    for type, value in COMPUTED.items():
        assert ask(f"DECLARE $v AS {type}; SELECT $v AS v", {"$v": (type, value)}).results[0].rows == [[value]], type


@pytest.mark.parametrize(
    ("type", "value", "says"),
    [
        ("Uint8", 256, "$v: 256 is no Uint8"),
        ("Uint8", None, "$v: NULL is no Uint8"),
        ("Int32", True, "$v: true is no Int32"),
        ("Int32", 1.5, "$v: 1.5 is no Int32"),
        ("Interval", 10**18, "$v: 1000000000000000000 is no Interval"),
        ("Utf8", "\ud800", "A text has half of a surrogate pair."),
        ("Timestamp", "soon", '$v: "soon" is no Timestamp'),
        ("String", {"base64": "?"}, '$v: {"base64":"?"} is no String'),
        ("Yson", {"base64": "/w=="}, '$v: {"base64":"/w=="} is no Yson'),
        ("List<Struct<a:Int32>>", [{"a": 1}, {"a": "x: y"}], '$v[1].a: "x: y" is no Int32'),
        ("List<Struct<a:Int32>>", [{}], "$v[0].a: it is missing"),
        ("Struct<a:Int32>", {"a": 1, "b": 2}, "$v.b: there is no such member"),
        ("Variant<Int32,Utf8>", [2, "a"], '$v: [2,"a"] is no Variant<Int32,Utf8>'),
        ("Utf8", {"a": "x" * 100}, '$v: {"a":"' + "x" * 54 + "... is no Utf8"),
    ],
)
def test_values_that_do_not_fit(ask: Ask, type: str, value: Any, says: str) -> None:
    found = fault_of(ask, f"DECLARE $v AS {type}; SELECT $v", {"v": (type, value)})
    assert (found.status, found.message) == ("BAD_REQUEST", says)


def test_results_are_limited(ask: Ask) -> None:
    few = AnswerLimits(rows=2, bytes=40)
    text = "SELECT x FROM AS_TABLE(ListMap(ListFromRange(0, $n), ($i) -> (<|x: CAST($i AS Utf8) || $long|>)))"
    given: dict[str, Any] = {"n": ("Int32", 2), "long": ("Utf8", "")}
    assert [result.truncated for result in ask(text, given, limits=few).results] == [False]
    given["n"] = ("Int32", 20_000)
    (cut, whole) = ask(f"{text}; SELECT 1 AS one", given, limits=few).results
    assert (cut.rows, cut.truncated) == ([["0"], ["1"]], True)
    assert (whole.columns, whole.rows, whole.truncated) == ((("one", "Int32"),), [[1]], False)
    given["long"] = ("Utf8", "-" * 50)
    assert [len(result.rows) for result in ask(text, given, limits=few).results] == [1]


def test_reads_end_with_the_last_row_that_is_wanted(ask: Ask) -> None:
    ask("CREATE TABLE many (id Int32, PRIMARY KEY (id))")
    ask("UPSERT INTO many SELECT * FROM AS_TABLE(ListMap(ListFromRange(0, 20000), ($i) -> (<|id: $i|>)))")
    # Divided by zero after the first rows: an Unwrap that fails, unless it is not reached.
    text = "SELECT Unwrap(IF(id < 15000, id)) AS id FROM many"
    assert "unwrap" in fault_of(ask, text, limits=AnswerLimits(rows=20_000)).message
    assert len(ask(text, limits=AnswerLimits(rows=10)).results[0].rows) == 10
    # One that writes runs to its end.
    returned = ask("DELETE FROM many WHERE id < 100 RETURNING id", limits=AnswerLimits(rows=10)).results[0]
    assert (len(returned.rows), returned.truncated) == (10, True)
    assert ask("SELECT COUNT(*) AS n FROM many").results[0].rows == [[19_900]]


def test_statistics_and_plans(ask: Ask) -> None:
    assert ask("CREATE TABLE t (id Int32, PRIMARY KEY (id))", stats=True) == Answer(changes=True)
    ask("UPSERT INTO t (id) VALUES (1), (2)")
    text = "SELECT id FROM t WHERE id = $id"
    explained = ask(text, {"id": ("Int32", 1)}, mode="explain")
    assert explained.plan is not None
    assert "/local/t" in explained.plan
    assert explained.results == ()
    assert not explained.changes
    assert ask("DELETE FROM t", mode="explain").changes
    assert ask("DROP TABLE t", mode="explain").changes
    found = ask(text, {"id": ("Int32", 1)}, stats=True)
    assert found.stats is not None
    assert found.plan == explained.plan
    assert [(each.path, each.reads) for each in found.stats.tables] == [("/local/t", 1)]
    assert json.loads(found.plan or "")
    assert ask("UPSERT INTO t (id) VALUES (3)", mode="explain").results == ()
    assert len(ask("SELECT id FROM t").results[0].rows) == 2


def test_faults_have_issues(ask: Ask, place: Place) -> None:
    found = fault_of(ask, "SELECT\n  nothing FROM missing")
    assert found.status == "SCHEME_ERROR"
    assert found.issues[0].issues[0].code == 2003
    at = fault_of(ask, "SELECT 1;\n SELECT FROM").issues[0].position
    assert at is not None
    assert at.row == 2
    assert fault_of(ask, " ").status == "BAD_REQUEST"
    million = "ListFromRange(0, 1000000)"
    slow = f"SELECT ListLength(ListFilter({million}, ($i) -> (ListLength({million}) < $i)))"
    assert fault_of(ask, slow, limits=AnswerLimits(seconds=0.05)).status == "TIMEOUT"

    caller = place.run(build_caller(place))
    with pytest.raises(Fault, match="database not exists"):
        place.run(caller("/other", "SELECT 1"))

    async def leave() -> None:
        task = asyncio.create_task(caller("/local", slow))
        await asyncio.sleep(0)
        # Its quota is of one call.
        with pytest.raises(Fault, match="More than 1 calls") as refused:
            await caller("/local", "SELECT 1")
        assert refused.value.status == "OVERLOADED"
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await caller("/local", "SELECT 1")).results[0].rows == [[1]]

    place.run(leave())
