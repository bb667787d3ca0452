"""The module Re2: regular expressions as functions."""

from __future__ import annotations

from typing import Any

import pytest

from mayflydb.query.yql.faults import Fault
from mayflydb.query.yql.types import INT32, NULL, STRING, UTF8, optional
from yql_calling import call, run

XAAAX = b"xaaxaaxaa"
ANY_CASE = call("Re2::Options", CaseSensitive=False)

ROWS = [
    ("Match", ("[ax]+\\d",), (XAAAX,), STRING, "Bool", False),
    ("Match", ("[ax]+",), (XAAAX,), STRING, "Bool", True),
    ("Grep", ("aa",), ("xaa",), UTF8, "Bool", True),
    ("Grep", ("AA",), (XAAAX,), STRING, "Bool", False),
    ("Grep", ("AA", ANY_CASE), (XAAAX,), STRING, "Bool", True),
    ("Grep", ("aa",), (None,), optional(STRING), "Bool", False),
    (
        "Capture",
        (".*(?P<foo>xa?)(a{2,}).*",),
        (XAAAX,),
        STRING,
        "Struct<'_0':String?,'_1':String?,'foo':String?>",
        (XAAAX, b"aa", b"x"),
    ),
    ("Capture", ("b",), (XAAAX,), STRING, "Struct<'_0':String?>", (None,)),
    ("FindAndConsume", ("x(a+)",), (XAAAX,), STRING, "List<String>", [b"aa", b"aa", b"aa"]),
    ("FindAndConsume", ("x",), ("axa",), UTF8, "List<Utf8>", ["x"]),
    ("Count", ("A", ANY_CASE), (XAAAX,), STRING, "Uint32", 6),
    ("Count", ("aa",), ("aaaaa",), UTF8, "Uint32", 2),
    ("Count", ("b",), (XAAAX,), STRING, "Uint32", 0),
    ("Count", ("b",), (None,), optional(STRING), "Uint32", 0),
    ("Replace", ("x(a+)x",), (XAAAX, b"b\\1b"), STRING, "String", b"baabaaxaa"),
    ("Replace", ("x",), (None, b""), optional(STRING), "String?", None),
]


@pytest.mark.parametrize(("name", "operands", "given", "kind", "result", "expected"), ROWS)
def test_functions(name: str, operands: Any, given: Any, kind: Any, result: str, expected: Any) -> None:
    bound = call(f"Re2::{name}", *operands).bind([kind] + [STRING] * (len(given) - 1))
    assert (str(bound.type), bound.call(given, (), run())) == (result, expected)


def test_escape() -> None:
    assert call("Re2::Escape", "a.b*").evaluate((), run()) == b"a\\.b\\*"


@pytest.mark.parametrize("operands", [("(",), ("(?=a)",), (1,), ("a", 1)])
def test_refused(operands: Any) -> None:
    with pytest.raises(Fault):
        call("Re2::Match", *operands)


def test_values_that_are_no_text_are_refused() -> None:
    with pytest.raises(Fault, match="Expected String"):
        call("Re2::Match", "a").bind([INT32])
    assert call("Re2::Match", "a").bind([NULL]).call((None,), (), run()) is False
