"""Runs the text specifications in specs/: expressions by line, queries by block.

A block that begins with `lenient` has the rows that a lenient compiler gives, and the error of a strict one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from mayflydb.model.errors import BadQuery, BadRequest, Unsupported
from mayflydb.model.instant import from_rfc3339
from mayflydb.query import cosmos_sql
from mayflydb.query.cosmos_sql import Context, Query, compile_query, index_key, parse, print_select

SPECS = Path(__file__).parent / "specs"
NOW = from_rfc3339("2030-05-06T07:08:09.123456Z")
ERROR = re.compile(r"!!\s*(?P<code>SC[0-9]+|2206|Unsupported|)\s*(?:(?P<start>\d+)-(?P<end>\d+))?:\s?(?P<message>.*)")


class Case(NamedTuple):
    """One block of a specification."""

    documents: list[Any]
    parameters: dict[str, Any]
    lenient: bool
    text: str
    rows: list[Any]
    error: re.Match[str] | None


def expressions() -> Iterator[Any]:
    for path in sorted((SPECS / "expressions").glob("*.txt")):
        document: Any = None
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if line.startswith("data "):
                document = json.loads(line.removeprefix("data "))
            elif line and not line.startswith("#"):
                expression, _, expected = line.rpartition(" => ")
                yield pytest.param(document, expression, expected, id=f"{path.stem}:{number}")


def blocks() -> Iterator[Any]:
    for path in sorted((SPECS / "queries").glob("*.txt")):
        documents: list[Any] = []
        number = 1
        for block in path.read_text().split("\n\n"):
            lines = [line for line in block.splitlines() if not line.startswith("#")]
            if lines and lines[0] == "data":
                documents = [json.loads(line) for line in lines[1:]]
            elif lines:
                yield pytest.param(case(documents, lines), id=f"{path.stem}:{number}")
            number += block.count("\n") + 2


def case(documents: list[Any], lines: list[str]) -> Case:
    parameters: dict[str, Any] = {}
    lenient = lines[0] == "lenient"
    text: list[str] = []
    rows: list[Any] = []
    error = None
    for line in lines[lenient:]:
        if line.startswith("@"):
            name, _, value = line.partition(" = ")
            parameters[name] = json.loads(value)
        elif line.startswith("!!"):
            error = ERROR.fullmatch(line)
            assert error, line
        elif line == "-> none":
            pass
        elif line.startswith("-> "):
            rows.append(json.loads(line.removeprefix("-> ")))
        else:
            text.append(line)
    return Case(documents, parameters, lenient, "\n".join(text), rows, error)


def run(query: Query, documents: list[Any]) -> list[Any]:
    """The rows, which are the same from no more than the query says it reads; what matches lies within its bounds."""
    found = results(query, documents)
    reads = query.reads
    if reads is not None and not query.is_identity and query.ranking is None:
        narrow = [{name: value for name, value in each.items() if name in reads} for each in documents]
        assert exact(results(query, narrow)) == exact(found), reads
    for document in documents:
        if query.matches(document, Context(NOW)):
            for path, spans in query.bounds().items():
                entry = index_key(document, ((path, False),)) + bytes(8)
                assert any(span.lower <= entry < span.upper for span in spans), (path, document)
    return found


def results(query: Query, documents: list[Any]) -> list[Any]:
    if query.ranking is not None:
        return cosmos_sql.run(query, documents, Context(NOW))
    accumulator = query.accumulator(Context(NOW))
    for document in documents:
        accumulator.add(document)
    return accumulator.results()


def exact(value: Any) -> bytes:
    """JSON text, in which 1, 1.0 and true differ."""
    return msgspec.json.encode(value, order="sorted")


@pytest.mark.parametrize(("document", "expression", "expected"), list(expressions()))
def test_expression(document: Any, expression: str, expected: str) -> None:
    text = f"SELECT VALUE {expression} FROM c"
    for form in (text, print_select(parse(text).select)):
        rows = run(compile_query(form, {}), [document])
        wanted = [] if expected == "undefined" else [json.loads(expected)]
        assert exact(rows) == exact(wanted), form


@pytest.mark.parametrize("case", list(blocks()))
def test_query(case: Case) -> None:
    if case.error is not None:
        with pytest.raises(BadRequest) as caught:
            run(compile_query(case.text, case.parameters), case.documents)
        check_error(caught.value, case.error)
        if not case.lenient:
            return
    for text in (case.text, print_select(parse(case.text, case.lenient).select)):
        query = compile_query(text, case.parameters, lenient=case.lenient)
        assert exact(run(query, case.documents)) == exact(case.rows), text
        if query.streams:
            assert exact(streamed(query, case.documents)) == exact(case.rows), text


def check_error(error: BadRequest, wanted: re.Match[str]) -> None:
    if wanted["code"] == "Unsupported":
        assert isinstance(error, Unsupported)
    else:
        assert isinstance(error, BadQuery)
        assert str(error.detail.get("code", "")) == wanted["code"]
    if wanted["start"]:
        assert (error.detail["start"], error.detail["end"]) == (int(wanted["start"]), int(wanted["end"]))
    assert wanted["message"] in error.message


def streamed(query: Query, documents: list[Any]) -> list[Any]:
    context = Context(NOW)
    found = [row for document in documents for row in query.rows(document, context)]
    for document in documents:
        if not query.matches(document, context):
            assert not list(query.rows(document, context))
    return list(islice(found, query.skip, None if query.take is None else query.skip + query.take))


def test_there_are_enough_specifications() -> None:
    assert len(list(expressions())) + len(list(blocks())) >= 1000
