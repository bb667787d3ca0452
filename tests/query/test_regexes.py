"""Long runs of literals in a client's expression are split, and the expression keeps its meaning."""

from __future__ import annotations

import random

import pytest
import regex  # type: ignore[import-untyped, unused-ignore]

from mayflydb.query.regexes import compile_limited, split_literals

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
