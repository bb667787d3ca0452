"""Regular expressions as PCRE reads them."""

from __future__ import annotations

import pytest

from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.patterns import compile_pattern, pattern_test


@pytest.mark.parametrize(
    ("pattern", "letters", "text", "expected"),
    [
        ("abc", "", "xabcx", True),
        ("^abc", "", "xabc", False),
        ("^abc", "s", "abcd", True),
        ("abc", "i", "ABC", True),
        ("é", "i", "É", True),
        ("", "", "x", True),
        ("a b # c (", "x", "ab", True),
        ("a.b", "", "a\nb", False),
        ("a.b", "s", "a\nb", True),
        ("^b$", "", "a\nb", False),
        ("^b$", "m", "a\nb\nc", True),
        ("a$", "", "a\n", True),
        (r"a\Z", "", "a\n", True),
        (r"a\z", "", "a\n", False),
        (r"^\w+$", "", "é", False),
        (r"^\w+$", "u", "e", True),
        (r"^\d$", "", "٣", False),
        (r"^\W$", "", "é", True),
        (r"^[\w-]+$", "", "a-b", True),
        (r"^[^\d]$", "", "5", False),
        (r"^[\D]$", "", "x", True),
        (r"^[\W]$", "", "_", False),
        (r"\bfoo\b", "", "a foo b", True),
        (r"\bfoo\b", "", "afoo", False),
        (r"\Boo", "", "foo", True),
        (r"^\s\S$", "", "\tx", True),
        ("a(?i)b", "", "aB", True),
        ("a(?i)b", "", "AB", False),
        ("a(?i)b|c", "", "xC", True),
        ("(a(?i)b)c", "", "aBC", False),
        ("(?i:a)b", "", "Ab", True),
        ("(?i)abc", "", "ABC", True),
        ("a{x}", "", "a{x}", True),
        ("(?:a){e<=1}", "", "a{e<=1}", True),
        ("^a{2}$", "", "aa", True),
        ("^a{,2}$", "", "a{,2}", True),
        (r"(?<n>a)\k<n>", "", "aa", True),
        (r"(?<n>a)\k{n}", "", "aa", True),
        (r"(a)\g{1}", "", "aa", True),
        (r"(a)(b)\g{-1}", "", "abb", True),
        (r"(a)\1", "", "aa", True),
        (r"\Qa.b\E", "", "a.b", True),
        (r"\Qa.b\Ec", "", "axbc", False),
        (r"\x{e9}\x41", "", "éA", True),
        ("[]a]", "", "]", True),
        ("[^]a]", "", "]", False),
        ("^[[:alpha:]]$", "", "x", True),
        ("^[[:alpha:]_]$", "", "é", False),
        ("[a&&b]", "", "&", True),
        ("[[a]", "", "[", True),
        (r"\p{Lu}", "", "A", True),
        ("(?>a+)b", "", "aab", True),
        ("a++b", "", "aab", True),
        (r"a\Kb", "", "ab", True),
        ("(?<=a)b(?!c)", "", "ab", True),
        (r"^(\((?:[^()]|(?1))*\))$", "", "(a(b)c)", True),
        ("(?#note)a", "", "a", True),
    ],
)
def test_a_pattern_is_found(pattern: str, letters: str, text: str, expected: bool) -> None:
    assert pattern_test(pattern, letters)(text) is expected


@pytest.mark.parametrize(
    ("pattern", "letters", "code"),
    [
        ("(", "", 51091),
        (")", "", 51091),
        ("a**", "", 51091),
        ("[a", "", 51091),
        ("\\", "", 51091),
        ("(*ACCEPT)a", "", 51091),
        (r"\L<x>", "", 51091),
        ("a" * 20000, "", 51091),
        ("a", "g", 51108),
        ("a\0b", "", 2),
    ],
)
def test_invalid_patterns_are_refused(pattern: str, letters: str, code: int) -> None:
    with pytest.raises(MqlError) as refusal:
        pattern_test(pattern, letters)
    assert refusal.value.code == code


def test_a_slow_search_is_stopped() -> None:
    with pytest.raises(MqlError) as refusal:
        compile_pattern("^(a|a)*$").search("a" * 30 + "b")
    assert refusal.value.code == 51156
