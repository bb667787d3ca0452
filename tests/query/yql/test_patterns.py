"""LIKE, ILIKE, REGEXP and MATCH: the texts that match a pattern."""

from __future__ import annotations

import re

import pytest

from mayflydb.query.yql.faults import Fault
from mayflydb.query.yql.functions import patterns

ROWS = [
    ("LIKE", "abc", None, ["abc"], ["ab", "abcd", "ABC", ""]),
    ("LIKE", "", None, [""], ["a"]),
    ("LIKE", "abc%", None, ["abc", "abcd"], ["ab", "xabc"]),
    ("LIKE", "%abc", None, ["abc", "xabc"], ["abcd"]),
    ("LIKE", "%b%", None, ["b", "abc"], ["ac", ""]),
    ("LIKE", "%", None, ["", "abc"], []),
    ("LIKE", "a%b%c", None, ["abc", "axbxc", "abbbc"], ["ab", "acb", "abcd"]),
    ("LIKE", "_", None, ["a", "é", "日"], ["", "ab"]),
    ("LIKE", "a_c%", None, ["abc", "abcd"], ["ac"]),
    ("LIKE", "%_a", None, ["ba", "xxa"], ["a"]),
    ("LIKE", "100!%", "!", ["100%"], ["1000"]),
    ("LIKE", "a!_b!!%", "!", ["a_b!c"], ["axb!c"]),
    ("LIKE", "a.c", None, ["a.c"], ["abc"]),
    ("LIKE", "%\n%", None, ["a\nb"], ["ab"]),
    ("ILIKE", "ABC%", None, ["abcd", "AbC"], ["ab"]),
    ("ILIKE", "жУК", None, ["Жук", "ЖУК"], ["жу"]),
    ("ILIKE", "stra_e", None, ["straße", "STRAßE"], ["strasse"]),
    ("ILIKE", "straß%", None, ["straße", "STRAß"], ["stras"]),
    ("ILIKE", "%A_", None, ["aß", "baf"], ["aff"]),
    ("GLOB", "a?c*", None, ["abc", "abcd"], ["ac"]),
    ("REGEXP", "b+", None, ["abba"], ["aca"]),
    ("REGEXP", "^a.c$", None, ["abc"], ["abcd"]),
    ("RLIKE", "жук", None, ["большой жук"], ["паук"]),
    ("REGEXP", "ж+у", None, ["жжу"], ["ж"]),
    ("REGEXP", "(?i)ABC", None, ["xabc"], ["xab"]),
    ("MATCH", "a+", None, ["aaa"], ["aab"]),
    ("MATCH", "[0-9]{2,3}", None, ["12", "123"], ["1", "1234"]),
]


@pytest.mark.parametrize(("operator", "pattern", "escape", "yes", "no"), ROWS)
def test_patterns(operator: str, pattern: str, escape: str | None, yes: list[str], no: list[str]) -> None:
    for given in (pattern, pattern.encode()):
        test = patterns.compile_matcher(operator, given, escape)
        for each in yes:
            assert test(each), each
            assert test(each.encode()), each
        for each in no:
            assert not test(each), each
            assert not test(each.encode()), each


@pytest.mark.parametrize(
    ("operator", "pattern", "escape", "message"),
    [
        ("LIKE", "a", "ab", "ESCAPE clause requires single character argument"),
        ("LIKE", "a!b", "!", "the escape character stands before what needs none"),
        ("LIKE", "%a_" + "b" * 4095 + "%", None, "between two %"),
        ("REGEXP", "(a", None, "Invalid regular expression"),
        ("REGEXP", "(?=a)b", None, "looking ahead is not supported"),
        ("REGEXP", r"(a)\1", None, r"\1 is not supported"),
        ("REGEXP", "a++", None, "a possessive quantifier is not supported"),
        ("REGEXP", "a", "!", "ESCAPE is not allowed with REGEXP"),
        ("REGEXP", "[ж]", None, "beyond ASCII is not supported"),
    ],
)
def test_refused(operator: str, pattern: str, escape: str | None, message: str) -> None:
    with pytest.raises(Fault, match=re.escape(message)):
        patterns.compile_matcher(operator, pattern, escape)


@pytest.mark.parametrize("operator", ["LIKE", "ILIKE"])
def test_a_pattern_takes_time_by_the_length_of_the_text(operator: str) -> None:
    test = patterns.compile_matcher(operator, "%" + "a" * 4_000 + "_b%", None)
    assert not test("a" * 50_000)
    assert test("a" * 50_000 + "b")


@pytest.mark.parametrize(
    ("pattern", "escape", "expected"),
    [
        ("abc%", None, (b"abc", True)),
        ("a%b", None, (b"a", False)),
        ("abc", None, (b"abc", False)),
        ("a!%b%", "!", (b"a%b", True)),
        ("%a", None, (b"", False)),
    ],
)
def test_prefixes(pattern: str, escape: str | None, expected: tuple[bytes, bool]) -> None:
    assert patterns.prefix_of(pattern, escape) == expected


def test_an_expression_that_would_run_forever_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "SEARCH_SECONDS", 0.001)
    with pytest.raises(Fault, match="takes too long"):
        patterns.compile_matcher("MATCH", "(a|aa)+(a|b|ab)*c", None)("a" * 5000 + "d")
