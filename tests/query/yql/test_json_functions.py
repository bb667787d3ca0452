"""JSON_EXISTS, JSON_VALUE, JSON_QUERY, and their paths: examples of YQL's documentation, and special cases."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mayflydb.query.yql.faults import Fault
from mayflydb.query.yql.functions import json as json_functions
from mayflydb.query.yql.functions import json_path
from mayflydb.query.yql.types import BOOL, DATE, DOUBLE, INT32, INT64, JSON, STRING, UINT8, UTF8, ListType
from yql_calling import HERE, null, operand, run, utf8, value

FRIENDS = '{"name": "Amos", "friends": [{"name": "Jim"}, {"name": "Alex"}]}'
CREW = (
    '[{"name": "Camina", "surname": "Drummer"}, {"name": "Josephus", "surname": "Miller"},'
    ' {"name": "Bobbie", "surname": "Draper"}, {"name": "Julie", "surname": "Mao"}]'
)
PROFILE = '{"profile": {"id": 123, "name": "Amos"}, "friends": [{"name": "Jim"}, {"name": "Alex"}]}'
ERROR = json_path.PathError

PATHS = [
    (FRIENDS, "$.name", ["Amos"], ["Amos"]),
    (FRIENDS, "$.surname", [], ERROR),
    (FRIENDS, "$.friends.name", ["Jim", "Alex"], ERROR),
    (PROFILE, "$.profile.*", [123, "Amos"], [123, "Amos"]),
    (PROFILE, "$.friends.*", ["Jim", "Alex"], ERROR),
    (CREW, "$[0].name", ["Camina"], ["Camina"]),
    (CREW, "$[1, 2 to 3].name", ["Josephus", "Bobbie", "Julie"], ["Josephus", "Bobbie", "Julie"]),
    (CREW, "$[last - 2].name", ["Josephus"], ["Josephus"]),
    (CREW, "$[2, last + 200 to 50].name", ["Bobbie"], ERROR),
    (CREW, "$[50].name", [], ERROR),
    (FRIENDS, "$[0].name", ["Amos"], ERROR),
    ("[1, 2, 3, 4]", "-$[*]", [-1, -2, -3, -4], [-1, -2, -3, -4]),
    ("[1, 2, 3, 4]", "-$", ERROR, ERROR),
    ("[1, 2, 3, 4]", "$[*] + $[*]", ERROR, ERROR),
    ("{}", "(1 + 2) * 3", [9], [9]),
    ("{}", "1 / 2", [0.5], [0.5]),
    ("{}", "5 % 2", [1], [1]),
    ("{}", "1 / 0", ERROR, ERROR),
    ("[-32.4, 5.2]", "$[0] % $[1]", [pytest.approx(-1.2)], [pytest.approx(-1.2)]),
    ("{}", "! (true == true)", [False], [False]),
    ("{}", "(true == true) || (true == false)", [True], [True]),
    ("{}", "null == null", [True], [True]),
    ("{}", "null <= null", [False], [False]),
    ("{}", "null != 1", [False], [False]),
    ("{}", "null == $", [None], [None]),
    ("[1]", "$ == 1", [True], [None]),
    ("{}", '(1 == "x") is unknown', [True], [True]),
    ("[1, 5, 9]", "$[*] ? (@ > 3)", [5, 9], [5, 9]),
    (FRIENDS, '$.friends[*] ? (@.name starts with "A").name', ["Alex"], ["Alex"]),
    (FRIENDS, '$.friends[*] ? (@.name like_regex "^j" flag "i").name', ["Jim"], ["Jim"]),
    ('["ab", "b"]', '$[*] starts with "a"', ERROR, ERROR),
    ("{}", '1 starts with "a"', ERROR, ERROR),
    ('["x", "a"]', '"ab" starts with $[*]', [True], [True]),
    ('["a", 1]', '"ab" starts with $[*]', [True], [None]),
    ('[1, "a"]', '"ab" starts with $[*]', [None], [None]),
    ('["ab", 1, "b"]', '$[*] ? (@ starts with "a")', ["ab"], ["ab"]),
    ('["ab", 1]', '$[*] like_regex "a"', [True], [None]),
    ("{}", '(1 + "x") like_regex "a"', ERROR, ERROR),
    ("[]", "$[*] is unknown", ERROR, ERROR),
    ("{}", "1 is unknown", ERROR, ERROR),
    ('["a", 5]', "$[*] ? (@.floor() + 1 is unknown)", [], []),
    (FRIENDS, "$ ? (exists(@.name)).name", ["Amos"], ["Amos"]),
    (FRIENDS, "$.friends.size()", [2], [2]),
    (FRIENDS, "$.name.type()", ["string"], ["string"]),
    ('{"a": "1.5"}', "$.a.double()", [1.5], [1.5]),
    ('{"a": -1.5}', "$.a.abs()", [1.5], [1.5]),
    ('{"a": 1.5}', "$.a.ceiling()", [2], [2]),
    ('{"a": 1.5}', "$.a.floor()", [1], [1]),
    ('{"a": {"b": 1}}', "$.a.keyvalue()", [{"name": "b", "value": 1}], [{"name": "b", "value": 1}]),
    ('{"a b": 1}', '$."a b"', [1], [1]),
    ("{}", "$missing", ERROR, ERROR),
    ("[]", "$[*]", [], []),
    ("{}", "last", ERROR, ERROR),
]


@pytest.mark.parametrize(("document", "path", "lax", "strict"), PATHS)
def test_paths(document: str, path: str, lax: Any, strict: Any) -> None:
    for mode, expected in (("lax", lax), ("strict", strict)):
        given = msgspec.json.decode(document)
        if expected is ERROR:
            with pytest.raises(ERROR):
                json_path.parse(f"{mode} {path}")(given, {})
        else:
            assert json_path.parse(f"{mode} {path}")(given, {}) == expected


TOO_DEEP = [
    "(" * 500,
    "-" * 5000 + "1",
    "!" * 5000 + "true",
    "$" + "[$" * 5000 + "]" * 5000,
    "$" + " ? (@" * 500 + ")" * 500,
]


@pytest.mark.parametrize("path", ["", "$.", "$[", "$ $", "$.a.nothing()", "1 +", "$ ? @.a", "#", '$."a', *TOO_DEEP])
def test_invalid_paths_are_refused(path: str) -> None:
    with pytest.raises(Fault, match="Invalid JsonPath"):
        json_path.parse(path)


DATA = '{"a": 1, "b": "x", "c": [1, 2], "d": {"e": null}, "f": 2.5, "g": true, "h": "2020-01-01"}'


def call(function: str, document: Any, path: str, *clauses: Any) -> tuple[str, Any]:
    given = value(JSON, document) if isinstance(document, str) else document
    bound = [
        (words, None if each is None else operand(each), kind)
        for words, each, kind in ((*clause, None, None)[:3] for clause in clauses)
    ]
    path_given = operand(path)
    assert path_given is not None
    expression = json_functions.bind_json_function(function, given, path_given, bound, HERE)  # type: ignore[arg-type]
    return str(expression.type), expression.evaluate((), run())


def test_a_path_of_too_many_steps_is_refused_when_it_is_followed() -> None:
    with pytest.raises(Fault, match="too many steps"):
        call("JSON_EXISTS", DATA, "$" + ".z" * 5000)


CALLS = [
    ("JSON_EXISTS", DATA, "$.a", (), "Bool?", True),
    ("JSON_EXISTS", DATA, "$.z", (), "Bool?", False),
    ("JSON_EXISTS", DATA, "strict $.z", (), "Bool?", False),
    ("JSON_EXISTS", DATA, "strict $.z", (("TRUE ON ERROR",),), "Bool?", True),
    ("JSON_EXISTS", DATA, "strict $.z", (("UNKNOWN ON ERROR",),), "Bool?", None),
    ("JSON_EXISTS", null(JSON), "$.a", (), "Bool?", None),
    ("JSON_EXISTS", DATA, "$ ? (@.a == $x)", (("PASSING x", value(INT32, 1)),), "Bool?", True),
    ("JSON_EXISTS", DATA, "$ ? (@.b == $x)", (("PASSING x", utf8("x")),), "Bool?", True),
    ("JSON_VALUE", DATA, "$.b", (), "Utf8?", "x"),
    ("JSON_VALUE", DATA, "$.a", (), "Utf8?", "1"),
    ("JSON_VALUE", DATA, "$.g", (), "Utf8?", "true"),
    ("JSON_VALUE", DATA, "$.d.e", (), "Utf8?", None),
    ("JSON_VALUE", DATA, "$.a", (("RETURNING", None, INT64),), "Int64?", 1),
    ("JSON_VALUE", DATA, "$.f", (("RETURNING", None, DOUBLE),), "Double?", 2.5),
    ("JSON_VALUE", DATA, "$.a", (("RETURNING", None, DOUBLE),), "Double?", 1.0),
    ("JSON_VALUE", DATA, "$.b", (("RETURNING", None, STRING),), "String?", b"x"),
    ("JSON_VALUE", DATA, "$.g", (("RETURNING", None, BOOL),), "Bool?", True),
    ("JSON_VALUE", DATA, "$.h", (("RETURNING", None, DATE),), "Date?", 18262),
    ("JSON_VALUE", '{"a": 300}', "$.a", (("RETURNING", None, UINT8),), "Uint8?", None),
    ("JSON_VALUE", DATA, "$.b", (("RETURNING", None, INT64), ("DEFAULT ON ERROR", 7)), "Int64?", 7),
    ("JSON_VALUE", DATA, "$.z", (("DEFAULT ON EMPTY", utf8("none")),), "Utf8?", "none"),
    ("JSON_VALUE", DATA, "$.c", (), "Utf8?", None),
    ("JSON_QUERY", DATA, "$.c", (), "Json?", "[1,2]"),
    ("JSON_QUERY", DATA, "$.a", (), "Json?", None),
    ("JSON_QUERY", DATA, "$.a", (("WITH WRAPPER",),), "Json?", "[1]"),
    ("JSON_QUERY", DATA, "$.c", (("WITH UNCONDITIONAL WRAPPER",),), "Json?", "[[1,2]]"),
    ("JSON_QUERY", DATA, "$.c", (("WITH CONDITIONAL WRAPPER",),), "Json?", "[1,2]"),
    ("JSON_QUERY", DATA, "$.c[*]", (("WITH CONDITIONAL WRAPPER",),), "Json?", "[1,2]"),
    ("JSON_QUERY", DATA, "$.z", (("EMPTY ARRAY ON EMPTY",),), "Json?", "[]"),
    ("JSON_QUERY", DATA, "strict $.z", (("EMPTY OBJECT ON ERROR",),), "Json?", "{}"),
]


@pytest.mark.parametrize(("function", "document", "path", "clauses", "kind", "expected"), CALLS)
def test_calls(function: str, document: Any, path: str, clauses: Any, kind: str, expected: Any) -> None:
    assert call(function, document, path, *clauses) == (kind, expected)


@pytest.mark.parametrize(
    ("function", "document", "path", "clauses", "message"),
    [
        ("JSON_VALUE", value(UTF8, "{}"), "$", (), "Expected Json type, but got: Utf8"),
        ("JSON_VALUE", DATA, "$.z", (("ERROR ON EMPTY",),), "JSON_VALUE: Result is empty"),
        ("JSON_QUERY", DATA, "strict $.z", (("ERROR ON ERROR",),), "JSON_QUERY: Member not found"),
        ("JSON_VALUE", DATA, "$.a", (("RETURNING", None, ListType(INT64)),), "cannot be List<Int64>"),
    ],
)
def test_refused(function: str, document: Any, path: str, clauses: Any, message: str) -> None:
    with pytest.raises(Fault, match=message):
        call(function, document, path, *clauses)
