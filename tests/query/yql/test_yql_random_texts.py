"""Parsing and printing of random trees and texts."""

from __future__ import annotations

import random

import pytest

from mayflydb.query.yql.faults import Fault
from mayflydb.query.yql.lexer import tokenize
from mayflydb.query.yql.parser import parse
from query.yql.printing import write
from query.yql.trees import Trees

ROUNDS = 150
NOISE = (*"()<>?'\"`$;,.{}\\\0漢", "@@", "::", "->", "|>", "<|", "/*", "--")


@pytest.mark.parametrize("part", range(4))
def test_printed_trees_parse_to_equal_trees(chance: random.Random, part: int) -> None:
    for _ in range(ROUNDS):
        script = Trees(chance).script()
        text = write(script)
        again = parse(text)
        assert again == script, text
        assert write(again) == text


def mutate(text: str, chance: random.Random) -> str:
    """The text with a few of its tokens dropped, doubled, swapped or replaced, or cut somewhere."""
    cut = tokenize(text)
    words = [text[cut.starts[i] : cut.end(i)] for i in range(len(cut.kinds))]
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(words))
        match chance.randrange(5):
            case 0:
                words[place] = ""
            case 1:
                words[place] += " " + words[place]
            case 2:
                other = chance.randrange(len(words))
                words[place], words[other] = words[other], words[place]
            case 3:
                words[place] = chance.choice(NOISE)
            case _:
                words[place] = words[place][: chance.randrange(len(words[place]) + 1)]
    return chance.choice((" ", " ", "\n", "")).join(words)


@pytest.mark.parametrize("part", range(4))
def test_broken_texts_raise_only_faults(chance: random.Random, part: int) -> None:
    for _ in range(ROUNDS):
        text = mutate(write(Trees(chance).script()), chance)
        try:
            script = parse(text)
        except Fault as fault:
            position = fault.issues[0].position
            assert position is not None, text
            assert position.row <= text.count("\n") + 1, text
        else:
            assert parse(write(script)) == script, text


@pytest.mark.parametrize(
    "text",
    [
        "SELECT " + "(" * 5000,
        "SELECT " + "(" * 5000 + "1" + ")" * 5000,
        "SELECT " + "[" * 5000,
        "SELECT " + "- " * 5000 + "1",
        "SELECT " + "NOT " * 5000 + "a",
        "SELECT " + "a(" * 5000,
        "SELECT a" + "[1" * 5000,
        "SELECT a" + ".b" * 5000,
        "SELECT a" + "(1)" * 5000,
        "SELECT a" + " + a" * 5000,
        "SELECT a" + " ?? a" * 5000,
        "SELECT a" + " == a" * 5000,
        "SELECT " + "CASE WHEN a THEN " * 5000,
        "SELECT 1" + " UNION ALL SELECT 1" * 5000,
        "SELECT 1" + " INTERSECT SELECT 1" * 5000,
        "SELECT * FROM " + "(SELECT * FROM " * 5000,
        "DECLARE $x AS " + "List<" * 5000,
        "DECLARE $x AS Int32" + "?" * 5000,
        "SELECT CAST(" * 5000,
        "SELECT ($a) -> (" * 5000,
        "SELECT * FROM a" + " CROSS JOIN a" * 5000,
        "DO BEGIN " * 5000,
        "EVALUATE IF a DO BEGIN " * 5000,
        "SELECT " + "/*" * 5000,
        "SELECT " + "@@" * 5001,
        "SELECT " + "`" * 5001,
        "SELECT " + "'" * 5001,
        "SELECT " + "1" * 100_000,
        "SELECT 0x" + "f" * 100_000,
        "SELECT 1e" + "9" * 100_000,
        "SELECT Decimal(" + "1" * 100_000 + ", 1)?",
        "SELECT a" + "." + "9" * 100_000,
    ],
    ids=lambda text: text[:24],
)
def test_texts_beyond_the_limits_are_refused(text: str) -> None:
    with pytest.raises(Fault):
        parse(text)


@pytest.mark.parametrize("word", ["AND", "OR"])
def test_long_chains_of_conditions_are_parsed(word: str) -> None:
    """Programs write thousands of alternatives; the tree is balanced, so that Python's stack suffices."""
    script = parse("SELECT * FROM t WHERE " + f" {word} ".join(f"id = {number}" for number in range(5000)))
    assert parse(write(script)) == script


@pytest.mark.parametrize("stack", [200, 600, 800])
def test_nesting_is_refused_from_deep_in_the_stack_too(stack: int) -> None:
    text = "SELECT " + "a BETWEEN 1 AND (a AND " * 60 + "a" + ")" * 60

    def deeper(levels: int) -> bool:
        if levels:
            return deeper(levels - 1)
        try:
            return bool(parse(text).statements)
        except Fault as fault:
            return "Nesting deeper" in str(fault)

    assert deeper(stack)
