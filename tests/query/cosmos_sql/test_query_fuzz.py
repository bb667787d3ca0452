"""Queries at random: tokens, characters, and valid texts that were broken. Only errors of the language may come out.

What is accepted is printed: the text that comes out is read as the same tree, and answers the same.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mayflydb.model.errors import BadQuery, BadRequest, Unsupported
from mayflydb.query.cosmos_sql import Context, Declarations, compile_query, parse, plan, print_select, run
from mayflydb.query.cosmos_sql.lexer import TokenKind, tokenize
from query.cosmos_sql.trees import without_places

DOCUMENTS: list[Any] = [
    {
        "id": "1",
        "_rid": "a",
        "n": 5,
        "s": "abc",
        "a": [1, 2, {"b": 3}],
        "o": {"k": None},
        "v": [1, 0],
        "x": "a red fox",
    },
    {"id": "2", "_rid": "b", "n": -0.5, "s": "", "a": [[], None], "v": [0, 1], "x": "foxes"},
    {"id": "3", "_rid": "c"},
]
PARAMETERS: dict[str, Any] = {"@p": 1, "@q": "a", "@w": [1, -0.5], "@o": {"k": [None]}, "@n": 10**400}
EVERYTHING = frozenset({
    "Aggregate", "CompositeAggregate", "CountIf", "Distinct", "GroupBy", "HybridSearch", "ListAndSetAggregate",
    "MultipleAggregates", "MultipleOrderBy", "NonStreamingOrderBy", "NonValueAggregate", "OffsetAndLimit", "OrderBy", "Top",
    "WeightedRankFusion",
})  # fmt: skip
PATIENCE = 60
"""Seconds after which a query hangs, however slow the machine is; most take less than one of a thousandth."""

_WORDS = (
    "SELECT SELECT VALUE DISTINCT TOP FROM FROM WHERE GROUP BY ORDER BY RANK OFFSET LIMIT JOIN IN AS AND OR NOT LIKE ESCAPE "
    "BETWEEN EXISTS ARRAY ALL FIRST LAST ASC DESC c c c x t . . , , ( ( ) ) [ ] { } : ? ?? = != <> < <= > >= + - * / % & | ^ ~ "
    "<< >> >>> || 1 2 0.5 1e308 99999999999999999999999 'a' 'b%' \"\" true false null undefined @p @q @w @o @n @missing COUNT "
    "SUM MIN AVG MAKESET ABS UPPER CONCAT ARRAY_LENGTH RegexMatch udf ROOT rank n s a o v id * -- ST_DISTANCE IIF DateTimeAdd "
    "FullTextScore RRF VectorDistance FullTextContains _FullTextScore _VectorScore REPLICATE ObjectToArray NumberBin POWER"
)
VOCABULARY = _WORDS.split()
CHARACTERS = "SELECTselect *.c'\"\\u00@{}[]()<>=!|&?:;-+~é\n\x00😀123eE\ud800\udc00\u2028\u00a0\ufeff٣ⅧİßK"
SEEDS = [
    "SELECT c.a, COUNT(1) AS k FROM c JOIN t IN c.a WHERE c.n > 1 AND c.s LIKE 'a%' GROUP BY c.a OFFSET 1 LIMIT 2",
    "SELECT DISTINCT TOP 3 VALUE { 'k' : ARRAY ( SELECT VALUE x FROM x IN c.a ) } FROM c ORDER BY c . n DESC , c.s",
    "SELECT VALUE c.n BETWEEN 1 AND 2 ? EXISTS ( SELECT 1 ) : c.o . k ?? [ 1 , ABS ( - c.n ) ] FROM c",
    "SELECT TOP 2 c.id FROM c ORDER BY RANK RRF ( FullTextScore ( c.x , 'fox' ) , VectorDistance ( c.v , [ 1 , 0 ] ) , @w )",
]


def specified() -> list[str]:
    """The texts of the specifications, without those of shapes, which take long to answer."""
    found: list[str] = []
    place = Path(__file__).parent / "specs"
    for path in sorted((place / "expressions").glob("*.txt")):
        if path.stem == "spatial":
            continue
        lines = (line for line in path.read_text().splitlines() if " => " in line and not line.startswith("#"))
        found += (f"SELECT VALUE {line.rpartition(' => ')[0]} FROM c" for line in lines)
    for path in sorted((place / "queries").glob("*.txt")):
        for block in path.read_text().split("\n\n"):
            lines = (line for line in block.splitlines() if not line.startswith(("#", "->", "!!", "@", "{", "data")))
            found += filter(None, ["\n".join(lines)])
    return found


CORPUS = specified()


@contextmanager
def without_hanging(text: str) -> Iterator[None]:
    """An error that shows the text, in place of a run that never ends."""

    def hung(*_: object) -> None:
        raise TimeoutError(f"more than {PATIENCE} s: {text[:2000]!r}")

    before = signal.signal(signal.SIGALRM, hung)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def tried(text: str) -> bool:
    """Whether the query is accepted, and answered without an error; then it is printed and planned as well."""
    with without_hanging(text):
        try:
            rows = answers(text)
        except (BadQuery, Unsupported) as error:
            check_place(error, text)
            return False
        printed = print_select(parse(text).select)
        tree = parse(printed).select
        assert without_places(tree) == without_places(parse(text).select), text
        assert print_select(tree) == printed, text
        assert answers(printed) == rows, text
        try:
            msgspec.json.encode(plan(compile_query(text, PARAMETERS), EVERYTHING, [("id",)], lambda key: ("", "")))
        except BadQuery as error:
            check_place(error, text)
        return True


def answers(text: str) -> bytes:
    """The rows as JSON, under a declaration that has everything."""
    declared = Declarations(languages={("x",): "de-DE"})
    return msgspec.json.encode(run(compile_query(text, PARAMETERS, declared), DOCUMENTS, Context(0)), order="sorted")


def check_place(error: BadRequest, text: str) -> None:
    start, end = error.detail.get("start", 0), error.detail.get("end", 0)
    assert isinstance(start, int)
    assert isinstance(end, int)
    assert 0 <= start <= end <= len(text), text


# --- ways to break a text --------------------------------------------------------------------------------------------


def parts(text: str) -> list[str]:
    """The tokens of a text, and what is between them; its characters, if it has none."""
    try:
        tokens = [token for token in tokenize(text) if token.kind is not TokenKind.END]
    except BadQuery:
        return list(text)
    found: list[str] = []
    end = 0
    for token in tokens:
        found += [text[end : token.start], token.text]
        end = token.end
    return [*filter(None, found), text[end:]]


def tokens_changed(chance: random.Random, text: str) -> str:
    """Some tokens taken out, put in, doubled or exchanged."""
    found = parts(text)
    for _ in range(chance.randrange(1, 4)):
        place = chance.randrange(len(found) + 1)
        bits = chance.choices(VOCABULARY, k=chance.randrange(3))
        found[place : place + chance.randrange(3)] = [f" {bit} " for bit in bits]
    return "".join(found)


def characters_changed(chance: random.Random, text: str) -> str:
    """Some characters, likewise."""
    for _ in range(chance.randrange(1, 5)):
        place = chance.randrange(len(text) + 1)
        bits = "".join(chance.choices(CHARACTERS, k=chance.randrange(3)))
        text = text[:place] + bits + text[place + chance.randrange(3) :]
    return text


def spliced(chance: random.Random, text: str) -> str:
    """The beginning of one query and the end of another, or one inside another."""
    one, other = parts(text), parts(chance.choice(CORPUS))
    place = chance.randrange(len(one) + 1)
    if chance.random() < 0.3:
        return "".join([*one[:place], " (", *other, ") ", *one[place:]])
    return "".join([*one[:place], " ", *other[chance.randrange(len(other) + 1) :]])


WRAPPERS = [
    ("(", ")"), ("[", "]"), ("{'k': ", "}"), ("NOT ", ""), ("- ", ""), ("ABS(", ")"), ("(SELECT VALUE ", ")"),
    ("ARRAY(SELECT VALUE ", " FROM c)"), ("EXISTS(SELECT ", ")"), ("true ? ", " : 1"), ("1 + (", ")"), ("c.a[", "]"),
    ("c.n IN (", ")"), ("IIF(true, ", ", 2)"), ("1 BETWEEN ", " AND 2"), ("c.s LIKE ", ""), ("null ?? ", ""), ("@o.", ""),
]  # fmt: skip


def nested(chance: random.Random, text: str) -> str:
    """A stretch of tokens inside up to 300 brackets, operators and subqueries, of one kind or of several."""
    found = parts(text)
    start = chance.randrange(len(found))
    end = chance.randrange(start, len(found)) + 1
    depth = chance.choice([1, 2, 5, 20, 24, 25, 26, 50, 99, 100, 101, 150, 300])
    chosen = chance.choices(WRAPPERS, k=depth) if chance.random() < 0.5 else [chance.choice(WRAPPERS)] * depth
    before = "".join(opening for opening, _ in chosen)
    after = "".join(closing for _, closing in reversed(chosen))
    return "".join([*found[:start], before, *found[start:end], after, *found[end:]])


def numbers_grown(chance: random.Random, text: str) -> str:
    """Its numbers in place of others, most of them huge."""
    huge = [
        "9" * chance.randrange(1, 400), "1e308", "1e309", "1e-400", "0" * 300, f"0.{'0' * 300}1", "4294967296",
        "9223372036854775808", "-1", "1.", ".5", "0x10", "1e", "00", "@n",
    ]  # fmt: skip
    found = [chance.choice(huge) if part[0:1].isdigit() and chance.random() < 0.7 else part for part in parts(text)]
    return "".join(found)


WAYS: list[Callable[[random.Random, str], str]] = [tokens_changed, characters_changed, spliced, nested, numbers_grown]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_broken_queries_raise_nothing_else(way: Callable[[random.Random, str], str], chance: random.Random) -> None:
    accepted = 0
    for _ in range(900):
        text = way(chance, chance.choice(CORPUS))
        if chance.random() < 0.2:
            text = chance.choice(WAYS)(chance, text)
        accepted += tried(text)
    assert accepted > 5


def test_random_tokens_raise_nothing_else(chance: random.Random) -> None:
    accepted = 0
    for _ in range(3_000):
        words = chance.choice(SEEDS).split() if chance.random() < 0.7 else ["SELECT"]
        for _ in range(chance.randrange(1, 8)):
            place = chance.randrange(len(words) + 1)
            words[place : place + chance.randrange(3)] = chance.choices(VOCABULARY, k=chance.randrange(3))
        accepted += tried(" ".join(words))
    assert accepted > 50


def test_random_characters_raise_nothing_else(chance: random.Random) -> None:
    for _ in range(3_000):
        text = "".join(chance.choices(CHARACTERS, k=chance.randrange(60)))
        tried(text)
        tried(f"SELECT VALUE {text} FROM c")


@pytest.mark.parametrize("count", [1, 200, 10_000])
@pytest.mark.parametrize("opening", [opening for opening, _ in WRAPPERS])
def test_unclosed_brackets_raise_nothing_else(opening: str, count: int) -> None:
    assert not tried(f"SELECT VALUE {opening * count}")


def test_specified_queries_print_as_they_are() -> None:
    assert sum(tried(text) for text in CORPUS) > len(CORPUS) / 2


@pytest.mark.parametrize("text", ["SELECT c.a AS ß FROM c", "SELECT VALUE c.ß FROM c", "SELECT VALUE ǅ.é2 FROM c AS ǅ"])
def test_names_in_any_script_print_as_they_are(text: str) -> None:
    """A printed alias in quotes is refused."""
    assert tried(text)
