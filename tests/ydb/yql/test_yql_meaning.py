"""What expressions come to in queries, with their types: facts of YQL's documentation and of its own tests.

Sources: https://ydb.tech/docs/en/yql/reference/, https://github.com/ydb-platform/ydb `yql/essentials/tests/sql/suites` and
`yql/essentials/sql/v1/sql_ut_common.h`.
"""

from __future__ import annotations

from typing import Any

import pytest

from ydb.yql.asking import columns, refusal, rows

VALUES: list[tuple[str, str, Any]] = [
    # A literal takes the type of what stands beside it, in functions as in operators.
    ("COALESCE(v, 'x')", "Utf8", "a"),
    ("v ?? 'x'", "Utf8", "a"),
    ("NVL(NULL, v, 'x')", "Utf8", "a"),
    ("IF(n > 100, v, 'x')", "Utf8?", "x"),
    ("CASE WHEN n > 100 THEN v ELSE 'x' END", "Utf8?", "x"),
    ("COALESCE(n, 0)", "Int64", 10),
    ("COALESCE(id, 0)", "Uint64", 1),
    ("AsList(v, 'x')", "List<Utf8?>", ["a", "x"]),
    ("[v, 'x']", "List<Utf8?>", ["a", "x"]),
    ("BITCAST(n AS Uint64)", "Uint64?", 10),
    ("BITCAST(n AS Uint8)", "Uint8?", 10),
]


@pytest.mark.parametrize(("text", "type", "value"), VALUES)
def test_values(text: str, type: str, value: Any) -> None:
    """Over the row `id` 1, `v` 'a', `n` 10."""
    query = f"SELECT {text} AS c FROM t WHERE id = 1"
    assert columns(query) == f"c {type}"
    assert rows(query) == [(value,)]


REFUSED = [
    ("SELECT DateTime::Format(1)", "1:25 Mismatch type argument #1, type diff: Int32 != String"),
    ("SELECT DateTime::Split(Date('2020-01-01'))", "1:8 Expected persistable data, but got: Resource<'DateTime2.TM'>"),
    (
        "SELECT [Yson::Parse('{a=1}'y)]",
        "1:8 Expected persistable data, but got: List<Resource<'Yson2.Node'>>",
    ),
    (
        "SELECT DateTime::StartOfMonth(Date('2020-01-11')) AS a",
        "1:8 Expected persistable data, but got: Optional<Resource<'DateTime2.TM'>>",
    ),
]


@pytest.mark.parametrize(("text", "expected"), REFUSED)
def test_refusals(text: str, expected: str) -> None:
    assert refusal(text) == expected
