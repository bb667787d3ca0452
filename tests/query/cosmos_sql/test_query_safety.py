"""Hostile queries: depth, size, slow patterns, big numbers and random tokens. Only BadQuery and Unsupported may come out."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from mayflydb.model.errors import BadQuery
from mayflydb.query import cosmos_sql
from mayflydb.query.cosmos_sql import Context, compile_query
from mayflydb.query.cosmos_sql.like import compile_like
from mayflydb.query.cosmos_sql.parser import MAX_NESTING, MAX_TEXT_BYTES, MAX_TREE_HEIGHT, SUBQUERY_LEVELS
from mayflydb.query.cosmos_sql.ranking import MAX_SCORES

DOCUMENT: Any = {"id": "1", "n": 5, "s": "abc", "a": [1, 2, {"b": 3}], "o": {"k": None}}


def run(text: str, document: Any = DOCUMENT) -> list[Any]:
    accumulator = compile_query(text, {"@p": 1}, lenient=True).accumulator(Context(0))
    accumulator.add(document)
    return accumulator.results()


NESTINGS: dict[str, Callable[[int], str]] = {
    "parentheses": lambda depth: "(" * depth + "1" + ")" * depth,
    "arrays": lambda depth: "[" * depth + "1" + "]" * depth,
    "objects": lambda depth: '{"a": ' * depth + "1" + "}" * depth,
    "calls": lambda depth: "ABS(" * depth + "1" + ")" * depth,
    "right operands": lambda depth: "1 + (" * depth + "1" + ")" * depth,
    "logic": lambda depth: "true AND (false OR (" * (depth // 2) + "true" + "))" * (depth // 2),
    "minus": lambda depth: "- " * depth + "1",
    "not": lambda depth: "NOT " * depth + "true",
    "steps": lambda depth: "c.a[" * depth + "0" + "]" * depth,
    "conditions": lambda depth: "true ? " * depth + "1" + " : 2" * depth,
}


@pytest.mark.parametrize("name", NESTINGS)
def test_nesting_is_bounded(name: str) -> None:
    build = NESTINGS[name]
    run(f"SELECT VALUE {build(MAX_NESTING)} FROM c")
    for depth in (MAX_NESTING + 2, 5_000, 40_000):
        with pytest.raises(BadQuery, match="levels deep"):
            run(f"SELECT VALUE {build(depth)} FROM c")


@pytest.mark.parametrize("form", ["", "ARRAY", "EXISTS", "FIRST"])
def test_subqueries_are_bounded(form: str) -> None:
    def build(depth: int) -> str:
        return f"{form}(SELECT VALUE x FROM x IN c.a WHERE x = 1 AND " * depth + "true" + ")" * depth

    most = MAX_NESTING // SUBQUERY_LEVELS
    run(f"SELECT VALUE {build(most)} FROM c")
    with pytest.raises(BadQuery, match="levels deep"):
        run(f"SELECT VALUE {build(most + 1)} FROM c")


def test_chains_of_operators_are_bounded_but_not_those_of_logic() -> None:
    assert run("SELECT VALUE " + "+".join(["1"] * (MAX_TREE_HEIGHT - 5)))
    with pytest.raises(BadQuery, match="levels deep"):
        run("SELECT VALUE " + "+".join(["1"] * 10_000))
    assert run("SELECT VALUE " + " OR ".join(["c.n = 1"] * 10_000) + " OR c.n = 5 FROM c") == [True]
    assert run("SELECT VALUE c.n IN (" + ",".join(map(str, range(20_000))) + ") FROM c") == [True]


def test_text_length_is_bounded_in_bytes() -> None:
    body = "SELECT VALUE 1 --"
    assert run(body + "x" * (MAX_TEXT_BYTES - len(body))) == [1]
    for filler in ("x" * (MAX_TEXT_BYTES - len(body) + 1), "é" * (MAX_TEXT_BYTES // 2)):
        with pytest.raises(BadQuery, match="longer than"):
            run(body + filler)


def test_scores_are_bounded() -> None:
    score = "FullTextScore(c.s, 'abc')"
    text = "SELECT VALUE c.n FROM c ORDER BY RANK RRF(" + ", ".join([score] * MAX_SCORES)
    assert cosmos_sql.run(compile_query(text + ")", {}), [DOCUMENT | {"_rid": "a"}], Context(0)) == [5]
    for more in (1, 10_000):
        with pytest.raises(BadQuery, match="at most 20 scores"):
            compile_query(f"{text}{(', ' + score) * more})", {})
    many = ", ".join(map(repr, map(str, range(2_000))))
    text = f"SELECT VALUE c.n FROM c ORDER BY RANK FullTextScore(c.s, {many})"
    assert cosmos_sql.run(compile_query(text, {}), [DOCUMENT | {"_rid": "a"}], Context(0)) == [5]


@pytest.mark.parametrize("text", ["'\ud800'", "'\udc00\ud800'", "{'\ud800': 1}", "c['\udfff']", "'é\ud800'"])
def test_half_a_character_is_an_error(text: str) -> None:
    with pytest.raises(BadQuery, match="Syntax error"):
        run(f"SELECT VALUE {text} FROM c")


@pytest.mark.parametrize(
    "pattern",
    [
        "%" * 1000 + "b",
        "%a" * 1000 + "b",
        "a%_" * 500 + "b",
        "%_" * 2000 + "b",
        "%[a-z]" * 500 + "b",
        "%[^b]%" * 300 + "b",
    ],
)
def test_like_never_tries_all_ways(pattern: str) -> None:
    assert compile_like(pattern, None)("a" * 20_000) is False


def test_like_agrees_with_a_plain_definition(chance: random.Random) -> None:
    for _ in range(3_000):
        pattern = "".join(chance.choice(["a", "b", "%", "_", "[ab]", "[^a]"]) for _ in range(chance.randrange(7)))
        text = "".join(chance.choice("abc") for _ in range(chance.randrange(8)))
        assert compile_like(pattern, None)(text) is matches(pattern, text), (pattern, text)


def matches(pattern: str, text: str) -> bool:
    """LIKE by definition, one step at a time; exponential, for short patterns."""
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(matches(pattern[1:], text[at:]) for at in range(len(text) + 1))
    if not text:
        return False
    if pattern[0] == "[":
        body, rest = pattern[1:].split("]", 1)
        held = text[0] not in body[1:] if body.startswith("^") else text[0] in body
        return held and matches(rest, text[1:])
    return pattern[0] in ("_", text[0]) and matches(pattern[1:], text[1:])


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*$", "(.*a){20}$", "^(([a-z])+.)+[A-Z]([a-z])+$"])
def test_a_slow_regular_expression_is_cut_off(pattern: str) -> None:
    try:
        assert run(f'SELECT VALUE RegexMatch("{"a" * 5_000}!", "{pattern}")') == [False]
    except BadQuery as error:
        if "more than 50 ms" not in error.message:
            raise


@pytest.mark.parametrize(
    "pattern", ["(", "[", "*", "(?P<n", "a{2,1}", "(" * 2_000, "\\\\", "a" * 5_000, "(?<=a*)b{99999999999}"]
)
def test_a_bad_regular_expression_is_an_error_or_matches_nothing(pattern: str) -> None:
    with suppress(BadQuery):
        assert run(f'SELECT VALUE RegexMatch("x", "{pattern}")') == [False]


@pytest.mark.parametrize("operator", ["+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", ">>>", "=", "<"])
def test_huge_integers_cost_nothing(operator: str) -> None:
    huge = 10**5_000
    for one, other in ((huge, huge), (huge, 3), (3, huge), (-huge, 0.5)):
        document = {"a": one, "b": other}
        rows = run(f"SELECT VALUE c.a {operator} c.b FROM c ORDER BY c.a", document)
        assert rows == [] or abs(rows[0]) <= 2**63
    run("SELECT DISTINCT VALUE [c.a, ABS(c.a), IntAdd(c.a, 1), -c.a, ~c.a, ROUND(c.a), TRUNC(c.a)] FROM c", {"a": huge})
    assert run("SELECT VALUE SUM(c.a) FROM c", {"a": huge}) == []


def test_results_are_always_json() -> None:
    rows = run(
        "SELECT VALUE [1e308 * 10, -1e308 * 10, 0 / 0, LOG(0), POWER(10, 400), SQRT(-1), EXP(1e6), [undefined]] FROM c"
    )
    assert msgspec.json.encode(rows) == b"[[[]]]"
