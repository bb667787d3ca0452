"""VectorDistance by what a container declares about its vectors, and against the formulas."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from mayflydb.query.cosmos_sql import Context, Declarations, Embedding, compile_query, plan

DECLARED = Declarations(
    {
        ("v",): Embedding("euclidean", "float32", 2),
        ("in", "w"): Embedding("dotproduct", "int8", 2),
    }
)
DOCUMENT = {"v": [3, 4], "in": {"w": [3, 4]}, "plain": [3, 4], "list": [{"w": [3, 4]}]}


def value(expression: str, source: str = "c", **parameters: Any) -> Any:
    given = {f"@{name}": each for name, each in parameters.items()}
    accumulator = compile_query(f"SELECT VALUE {expression} FROM {source}", given, DECLARED).accumulator(Context(0))
    accumulator.add(DOCUMENT)
    return accumulator.results()


@pytest.mark.parametrize(
    ("expression", "source", "expected"),
    [
        ("VectorDistance(c.v, [0, 0])", "c", [5]),
        ("VectorDistance([0, 0], c['v'])", "c", [5]),
        ("VectorDistance(c[@name], [0, 0])", "c", [5]),
        ("VectorDistance(x.v, [0, 0])", "c AS x", [5]),
        ("VectorDistance(ROOT.v, [0, 0])", "c", [5]),
        ("(SELECT VALUE VectorDistance(c.v, [0, 0]))", "c", [5]),
        ("VectorDistance(c['in'].w, [1, 2])", "c", [11]),
        ("VectorDistance(c.v, c['in'].w)", "c", [0]),
        # Options of a call go before what is declared.
        ("VectorDistance(c.v, [4, 3], false, {'distanceFunction': 'dotproduct'})", "c", [24]),
        ("VectorDistance(c['in'].w, [0.5, 0.5])", "c", []),
        ("VectorDistance(c['in'].w, [0.5, 0.5], false, {'dataType': 'float32'})", "c", [3.5]),
        # Declared dimensions are those of both vectors.
        ("VectorDistance(c.v, [1])", "c", []),
        ("VectorDistance([1], [1])", "c", [1]),
        # Nothing is declared for these.
        ("VectorDistance(c.plain, [3, 4])", "c", [1]),
        ("VectorDistance(t.w, [3, 4])", "c JOIN t IN c.list", [1]),
        ("VectorDistance(c.list[0].w, [3, 4])", "c", [1]),
    ],
)
def test_declared_embeddings(expression: str, source: str, expected: list[Any]) -> None:
    assert value(expression, source, name="v") == expected


def test_vectors_of_another_length_than_declared() -> None:
    query = compile_query("SELECT VALUE VectorDistance(c.v, c.v) FROM c", {}, DECLARED)
    assert list(query.rows({"v": [1, 2, 3]}, Context(0))) == []


@pytest.mark.parametrize(("path", "direction"), [("v", "Ascending"), ("in.w", "Descending"), ("plain", "Descending")])
def test_the_direction_of_a_plan(path: str, direction: str) -> None:
    query = compile_query(
        f"SELECT TOP 1 * FROM c ORDER BY VectorDistance(c.{path}, [1, 1])", {}, DECLARED, lenient=True
    )
    features = frozenset({"OrderBy", "Top", "NonStreamingOrderBy"})
    assert plan(query, features, [("pk",)], lambda key: ("", ""))["queryInfo"]["orderBy"] == [direction]


def test_against_the_formulas() -> None:
    source = random.Random(11)
    for size in (1, 2, 3, 128, 1536):
        one, other = ([source.uniform(-1, 1) for _ in range(size)] for _ in range(2))
        dot = math.fsum(a * b for a, b in zip(one, other, strict=True))
        lengths = [math.sqrt(math.fsum(a * a for a in vector)) for vector in (one, other)]
        expected = {
            "cosine": dot / lengths[0] / lengths[1],
            "dotproduct": dot,
            "euclidean": math.sqrt(math.fsum((a - b) ** 2 for a, b in zip(one, other, strict=True))),
        }
        for name, wanted in expected.items():
            options = {"distanceFunction": name}
            (found,) = value("VectorDistance(@a, @b, false, @o)", a=one, b=other, o=options)
            assert math.isclose(found, wanted, rel_tol=1e-9, abs_tol=1e-12), (name, size)
