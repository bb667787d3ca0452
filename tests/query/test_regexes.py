"""Long runs of literals in a client's expression are split, and the expression keeps its meaning."""

from __future__ import annotations

import random
from typing import Any

import pytest
import regex  # type: ignore[import-untyped, unused-ignore]

from mayflydb.query.regexes import MAX_ELEMENTS, compile_limited, count_elements, keep_compiled, split_literals

A70, A130 = "a" * 70, "a" * 130


@pytest.mark.parametrize(
    ("pattern", "cut"),
    [
        ("", ""),
        ("a" * 64, "a" * 64),
        ("a" * 65, f"(?>{'a' * 64})a"),
        (A130, f"(?>{'a' * 64})(?>{'a' * 64})(?>a)a"),
        (A70 + "+", f"(?>{'a' * 64})(?>aaaaa)a+"),
        (A70 + "{2,3}b", f"(?>{'a' * 64})(?>aaaaa)a{{2,3}}b"),
        (r"\-" * 65, "(?>" + r"\-" * 64 + r")\-"),
        (r"\x61" * 65, "(?>" + r"\x61" * 64 + r")\x61"),
        ("[a]" * 65, "(?>" + "[a]" * 64 + ")[a]"),
        (f"({A70})", f"((?>{'a' * 64})(?>aaaaa)a)"),
        (f"(?:{A70})", f"(?:(?>{'a' * 64})(?>aaaaa)a)"),
        (f"(?i:{A70})", f"(?i:(?>{'a' * 64})(?>aaaaa)a)"),
        (f"(?<={A70})", f"(?<=(?>{'a' * 64})(?>aaaaa)a)"),
        (f"[{A70}]", f"[{A70}]"),
        (f"[^]{A70}]", f"[^]{A70}]"),
        (f"[[:alpha:]{A70}]", f"[[:alpha:]{A70}]"),
        (f"(?#{A70})", f"(?#{A70})"),
        (f"(?P<{A70}>b)", f"(?P<{A70}>b)"),
        (r"\d" * 70, r"\d" * 70),
        (".a" * 70, ".a" * 70),
    ],
)
def test_long_literals_are_split(pattern: str, cut: str) -> None:
    assert split_literals(pattern) == cut
    assert split_literals(pattern.encode("latin-1")) == cut.encode("latin-1")
    assert regex.compile(cut).groups == regex.compile(pattern).groups


@pytest.mark.parametrize("unit", ["a", "ab", r"\-", "[a]", r"\x61"])
@pytest.mark.parametrize("letters", ["", "i"])
def test_the_longest_literal_is_searched_fast(unit: str, letters: str) -> None:
    """Without the cut this takes minutes, and no limit ends it."""
    found = compile_limited(unit * (16_384 // len(unit)), letters, 60, AssertionError)
    assert found.search("b" * 100 + "a" * 4_000) is None


def test_a_split_expression_matches_as_before(chance: random.Random) -> None:
    def piece() -> str:
        literal = "".join(chance.choice("ab \n") for _ in range(chance.choice((1, 3, 70, 140))))
        count = chance.choice(("*", "+", "?", "{1,2}", "*?"))
        dots = r"\.\-" * chance.choice((1, 40))
        return chance.choice(
            (literal, literal + count, f"[{literal}x]", f"({literal})", f"(?:{literal}|b)", dots, f"(?#{literal})")
        )

    for _ in range(1_000):
        pattern = "".join(piece() for _ in range(chance.randrange(1, 4)))
        text = "".join(chance.choice("ab \n.-") for _ in range(30)) + pattern.replace("\\", "")[:200]
        flags = chance.choice((0, regex.I))
        whole, cut = (
            regex.compile(pattern, flags).search(text),
            regex.compile(split_literals(pattern), flags).search(text),
        )
        assert (whole and whole.regs) == (cut and cut.regs), (pattern, text)


@pytest.mark.parametrize(
    ("pattern", "count"),
    [
        ("a", 1),
        ("[0-9]{4}-[0-9]{2}", 7),
        ("(ab){1,60000}", 2),
        ("(ab){3,}c", 7),
        ("((ab){50}){50}", 5_000),
        ("(?:(?:ab){2}[)]){3}", 15),
        (r"(\)){4}", 4),
        ("(a)(?(1)b{9}|c){3}", 34),
        ("a" * 100 + "{20}", 2_000),
        ("(?#({3}()a{3}", 4),
        ("((((ab){50}){50}){50}){50}", MAX_ELEMENTS),
        ("(?x)(#)\n(#)\n(#)\n(ab){50}){50}){50}){50}", MAX_ELEMENTS),
    ],
)
def test_counts_are_written_out(pattern: str, count: int) -> None:
    assert count_elements(pattern) == count


def test_comments_of_a_verbose_pattern_hold_no_group() -> None:
    assert count_elements("(a #)\n{2} [#)]){3}", verbose=True) == 9


@pytest.mark.parametrize("pattern", ["a{16384}", b"((((ab){50}){50}){50}){50}"])
def test_a_pattern_that_grows_is_refused(pattern: Any) -> None:
    """The library writes counts out: these 26 bytes would take gigabytes."""
    with pytest.raises(ValueError, match="too large"):
        compile_limited(pattern, "", 1, TimeoutError)


def test_few_large_patterns_are_kept_and_many_small_ones() -> None:
    made: list[str] = []

    @keep_compiled
    def build(pattern: str) -> object:
        made.append(pattern)
        return compile_limited(pattern, "", 1, TimeoutError)

    small = [f"a{number}" for number in range(100)]
    large = [f"(ab){{4000}}{number}" for number in range(10)]
    for pattern in [*small, *small]:
        assert build(pattern) is build(pattern)
    assert made == small
    for pattern in large:
        build(pattern)
    made.clear()
    for pattern in [*reversed(large), small[0]]:
        build(pattern)
    assert made == [large[1], large[0], small[0]]
