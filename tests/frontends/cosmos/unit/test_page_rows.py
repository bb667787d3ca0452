"""The rows of pages: however large the chunks in which records come, a query has the same rows, and its pages fit together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from random import Random
from typing import Any

import msgspec
import pytest

from mayflydb.frontends.cosmos.calls import ReadCounts
from mayflydb.frontends.cosmos.page_rows import PAGE_BYTES, ItemRows, PageStart, StreamedRows, add_documents
from mayflydb.frontends.cosmos.resources import container_links, item_body, system_properties
from mayflydb.model.instant import SECOND
from mayflydb.model.record import Record
from mayflydb.query.cosmos_sql import UNDEFINED, Context, Query, compile_query


def batched(items: Iterable[Record], size: int) -> Iterator[list[Record]]:
    """The items in lists of `size`, as itertools has it from Python 3.12 on."""
    remaining = iter(items)
    while part := list(islice(remaining, size)):
        yield part


LINKS = container_links(7, 9)


def records(count: int, size: int = 0) -> list[Record]:
    values = [{"id": f"i{n}", "n": n % 7, "s": {"x": n}, "tags": [n, n + 1], "pad": "x" * size} for n in range(count)]
    return [
        Record(b"p", b"k%d" % n, msgspec.json.encode(value), (n + 5) * SECOND, None, None, 100 + n, n + 1)
        for n, value in enumerate(values)
    ]


def document(record: Record) -> dict[str, Any]:
    found: dict[str, Any] = {**msgspec.json.decode(record.value), **system_properties(LINKS, record)}
    return found


def expected(query: Query, stored: list[Record]) -> list[bytes]:
    """The rows of all records, one record after the other, without any page."""
    found = []
    for each in stored:
        if query.is_identity:
            found += [item_body(LINKS, each)] if query.matches(document(each), Context(0)) else []
        else:
            found += [query.encode(row) for row in query.rows(document(each), Context(0))]
    end = None if query.take is None else query.skip + query.take
    return found[query.skip : end]


def read_pages(query: Query, stored: list[Record], limit: int, chunk: int) -> list[list[bytes]]:
    """All pages, each begun where the one before says, in chunks of so many records."""
    pages, start, counted = [], PageStart(), 0
    kind = ItemRows if query.is_identity else StreamedRows
    while True:
        counts = ReadCounts()
        rows = kind(query, Context(0), LINKS, document, start, limit, counts, lambda: False)
        first = start.number - 1 if start.rows else start.number
        if not rows.is_complete:
            for part in batched([each for each in stored if each.seq > first], chunk):
                if rows.add(part):
                    break
        pages.append(rows.rows)
        assert len(rows.rows) <= limit
        assert rows.matched <= max(1, counts.records) * 2
        counted += counts.records
        if rows.next is None:
            assert counted <= len(stored) + len(pages)
            return pages
        start = rows.next


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM c",
        "SELECT * FROM c WHERE c.n = 3",
        "SELECT * FROM c WHERE c.n = 99",
        "SELECT TOP 13 * FROM c",
        "SELECT * FROM c OFFSET 5 LIMIT 20",
        "SELECT c.id, c.s.x AS y FROM c",
        "SELECT VALUE c.n FROM c WHERE c.n > 2",
        "SELECT VALUE c.missing FROM c",
        "SELECT c.id, c._ts, c._etag FROM c",
        "SELECT VALUE t FROM c JOIN t IN c.tags",
        "SELECT TOP 9 c.id FROM c",
        "SELECT c.id, c.id AS b, c.id AS d, c.id AS e, c.id AS f, c.id AS g, c.id AS h, c.id AS i, c.id AS j FROM c",
    ],
)
def test_pages_have_all_rows_in_order(text: str, chance: Random) -> None:
    query = compile_query(text, {}, lenient=True)
    stored = records(60)
    wanted = expected(query, stored)
    for _ in range(20):
        pages = read_pages(query, stored, chance.randrange(1, 70), chance.randrange(1, 70))
        assert [row for page in pages for row in page] == wanted


@pytest.mark.parametrize(
    "text", ["SELECT * FROM c", "SELECT c.id, c.pad FROM c", "SELECT c.pad, c.pad AS again FROM c"]
)
def test_a_page_ends_with_the_row_that_makes_it_large(text: str) -> None:
    query = compile_query(text, {}, lenient=True)
    stored = records(60, PAGE_BYTES // 9)
    one_by_one, together = (read_pages(query, stored, 1000, chunk) for chunk in (1, 60))
    assert [row for page in together for row in page] == expected(query, stored)
    assert [len(page) for page in together] == [len(page) for page in one_by_one]
    assert all(sum(map(len, page[:-1])) <= PAGE_BYTES for page in together)


@pytest.mark.parametrize(
    ("text", "at_once"),
    [
        ("SELECT VALUE COUNT(1) FROM c", True),
        ("SELECT COUNT(1) AS a, COUNT('x') AS b, 5 AS c FROM c", True),
        ("SELECT VALUE COUNT(undefined) FROM c", True),
        ("SELECT VALUE COUNT(c.n) FROM c", False),
        ("SELECT VALUE COUNT(1) FROM c WHERE c.n = 3", False),
        ("SELECT VALUE COUNT(1) FROM c WHERE true", False),
        ("SELECT VALUE COUNT(1) FROM c JOIN t IN c.tags", False),
        ("SELECT VALUE SUM(1) FROM c", False),
        ("SELECT COUNT(1) AS a, c.n FROM c GROUP BY c.n", False),
    ],
)
@pytest.mark.parametrize("count", [0, 1, 20])
def test_documents_that_count_alike_are_counted_at_once(text: str, at_once: bool, count: int) -> None:
    query, stored = compile_query(text, {}, lenient=True), records(count)
    one_by_one, together = query.accumulator(Context(0)), query.accumulator(Context(0))
    assert together.count_all(0) is at_once
    for each in stored:
        one_by_one.add(document(each), each.seq)
    counts = ReadCounts()
    for part in batched(stored, 7):
        add_documents(together, document, counts, part)
    assert counts == ReadCounts(count, sum(len(each.value) for each in stored))
    assert together.matched == one_by_one.matched
    assert together.results() == one_by_one.results()
    assert UNDEFINED not in together.results()
