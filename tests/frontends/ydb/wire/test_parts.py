"""Messages of streams: filled by bytes, within the limits that a client names, while others have their turn."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from mayflydb.embedded import RunningServer
from mayflydb.frontends.ydb.packing import rows_encoder
from mayflydb.frontends.ydb.results import DEFAULT_MESSAGE_BYTES, SLICE_BYTES, SLICE_ROWS, RowMessages
from mayflydb.query.yql.types import (
    BOOL,
    DATE,
    DOUBLE,
    FLOAT,
    INT8,
    INT64,
    INTERVAL,
    JSON,
    NULL,
    STRING,
    TIMESTAMP,
    TZ_TIMESTAMP,
    UINT64,
    UTF8,
    UUID,
    VOID,
    DecimalType,
    DictType,
    ListType,
    OptionalType,
    StructType,
    TupleType,
    Type,
    Value,
    VariantType,
)
from ydb_raw import Raw, connected

QUERY, TABLE = "Ydb.Query.V1.QueryService", "Ydb.Table.V1.TableService"
SCRIPTING = "Ydb.Scripting.V1.ScriptingService"
COUNT = 20_000
TEXT = "x" * 100
NUMBERS = "SELECT n, '{}'u AS t FROM AS_TABLE(ListMap(ListFromRange(0ul, {}ul), ($n) -> (<|n: $n|>)))"


def encode(rows: Sequence[tuple[bytes]]) -> bytes:
    return b"".join(row[0] for row in rows)


def pack_batches(filling: RowMessages, *batches: Sequence[Any]) -> tuple[list[bytes], int]:
    """Pack these batches. Return the messages, and how often other tasks ran meanwhile."""
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def gathered() -> list[bytes]:
        beside = asyncio.create_task(others())
        found = [content for batch in batches async for content in filling.add(batch)]
        beside.cancel()
        return [*found, filling.flush()]

    return asyncio.run(gathered()), turns


# Sizes of rows in batches; the limit; sizes of messages.
FILLED: list[tuple[list[list[int]], int, list[int]]] = [
    ([], 100, [0]),
    ([[]], 100, [0]),
    ([[10] * 5], 100, [50]),
    ([[10] * 5, [10] * 5], 100, [100]),
    ([[10] * 10, [1]], 100, [100, 1]),
    ([[10] * 11], 100, [50, 60]),
    ([[60], [60], [40]], 100, [60, 100]),
    ([[10], [500], [10]], 100, [10, 500, 10]),
    ([[500, 500]], 100, [500, 500]),
    ([[100], [0]], 100, [100]),
]


@pytest.mark.parametrize(("batches", "limit", "sizes"), FILLED)
def test_messages_are_filled_up_to_the_limit(batches: list[list[int]], limit: int, sizes: list[int]) -> None:
    given = [[(b"x" * size,) for size in batch] for batch in batches]
    found, _ = pack_batches(RowMessages(b"", encode, limit), *given)
    assert list(map(len, found)) == sizes


@pytest.mark.parametrize(("count", "most", "rows"), [(10, 4, [4, 4, 2]), (4, 4, [4]), (3, 1, [1, 1, 1]), (5, 0, [5])])
def test_messages_have_no_more_rows_than_asked_for(count: int, most: int, rows: list[int]) -> None:
    found, _ = pack_batches(RowMessages(b"", encode, 0, most), [(b"x",)] * count)
    assert list(map(len, found)) == rows


@pytest.mark.parametrize(("once", "heads"), [(True, [1, 0, 0]), (False, [1, 1, 1])])
def test_columns_stand_in_each_message_or_in_the_first(once: bool, heads: list[int]) -> None:
    found, _ = pack_batches(RowMessages(b"H", encode, 10, columns_once=once), [(b"x" * 10,)] * 3)
    assert [content.count(b"H") for content in found] == heads


@pytest.mark.parametrize("size", [1, 50, 1000, SLICE_BYTES, 4 * SLICE_BYTES])
def test_others_have_their_turn_while_rows_are_packed(size: int) -> None:
    count = min(100_000, (32 << 20) // size)
    found, turns = pack_batches(RowMessages(b"", encode), [(b"x" * size,)] * count)
    assert sum(map(len, found)) == count * size
    assert max(map(len, found)) <= max(DEFAULT_MESSAGE_BYTES, size)
    least = max(count // SLICE_ROWS, min(count, count * size // SLICE_BYTES))
    assert turns >= least // 2


VALUES: list[tuple[Type, Value]] = [
    (BOOL, True),
    (INT8, -5),
    (INT64, -(2**63)),
    (UINT64, 2**64 - 1),
    (FLOAT, 1.5),
    (DOUBLE, -2.25),
    (STRING, b"\x00\xff" * 70),
    (UTF8, "ж" * 70),
    (JSON, '{"a":1}'),
    (UUID, bytes(range(16))),
    (DATE, 18_000),
    (TIMESTAMP, 1_893_456_000_000_000),
    (INTERVAL, -7),
    (TZ_TIMESTAMP, (500_000, "Europe/Moscow")),
    (DecimalType(22, 9), -1_500_000_000),
    (NULL, None),
    (VOID, None),
    (OptionalType(UTF8), None),
    (OptionalType(UTF8), "x"),
    (ListType(INT64), [1, 2, 3]),
    (TupleType((INT8, UTF8)), (1, "x")),
    (StructType((("a", INT8), ("b", UTF8))), (1, "x")),
    (DictType(UTF8, INT64), {"a": 1}),
    (VariantType(TupleType((INT8, UTF8))), (1, "x")),
]


@pytest.mark.parametrize(("type", "value"), VALUES, ids=[f"{type}-{number}" for number, (type, _) in enumerate(VALUES)])
def test_values_of_all_types_are_the_same_in_parts_as_in_one(type: Type, value: Value) -> None:
    rows = [(value, number) for number in range(1500)]
    pack = rows_encoder((type, UINT64))
    found, _ = pack_batches(RowMessages(b"", pack, 5_000), rows[:700], rows[700:])
    assert len(found) > 2
    assert b"".join(found) == pack(rows)


# --- over the wire ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def filled_table(ydb_server: RunningServer) -> Iterator[Raw]:
    """A table `numbers` of COUNT small rows."""
    with connected(ydb_server.ydb.endpoint) as raw:
        scheme = "CREATE TABLE numbers (n Uint64 NOT NULL, t Utf8, PRIMARY KEY (n))"
        assert raw.ask(f"{SCRIPTING}/ExecuteYql", script=scheme).operation.status == 400000
        fill = f"UPSERT INTO numbers {NUMBERS.format(TEXT, COUNT)}"
        assert raw.ask(f"{SCRIPTING}/ExecuteYql", script=fill, timeout=100).operation.status == 400000
        yield raw


def sets(raw: Raw, name: str) -> list[Any]:
    """The result sets of all messages of a stream over `numbers`."""
    text = "SELECT n, t FROM numbers"
    if name.endswith("ExecuteQuery"):
        session = raw.ask(f"{QUERY}/CreateSession").session_id
        fields: dict[str, Any] = {"session_id": session, "exec_mode": 50, "query_content": {"text": text}}
        return [part.result_set for part in raw.stream(name, timeout=100, **fields)]
    if name.endswith("StreamReadTable"):
        return [part.result.result_set for part in raw.stream(name, timeout=100, path="/local/numbers")]
    if name.endswith("StreamExecuteYql"):
        return [part.result.result_set for part in raw.stream(name, timeout=100, script=text)]
    return [part.result.result_set for part in raw.stream(name, timeout=100, mode=3, query={"yql_text": text})]


@pytest.mark.parametrize(
    "name",
    [
        f"{QUERY}/ExecuteQuery",
        f"{TABLE}/StreamReadTable",
        f"{TABLE}/StreamExecuteScanQuery",
        f"{SCRIPTING}/StreamExecuteYql",
    ],
)
def test_rows_of_a_table_fill_messages(filled_table: Raw, name: str) -> None:
    found = sets(filled_table, name)
    assert len(found) == 3
    assert all(1 << 19 < each.ByteSize() < 1 << 21 for each in found[:-1])
    assert [row.items[0].uint64_value for each in found for row in each.rows] == list(range(COUNT))
    assert all([column.name for column in each.columns] == ["n", "t"] for each in found)


def test_a_hundred_thousand_small_rows_are_a_handful_of_messages(ydb_server: RunningServer) -> None:
    with connected(ydb_server.ydb.endpoint) as raw:
        session = raw.ask(f"{QUERY}/CreateSession").session_id
        fields: dict[str, Any] = {
            "session_id": session,
            "exec_mode": 50,
            "query_content": {"text": NUMBERS.format("row", 100_000)},
        }
        parts = list(raw.stream(f"{QUERY}/ExecuteQuery", timeout=100, **fields))
    assert sum(len(part.result_set.rows) for part in parts) == 100_000
    assert len(parts) <= 4


@pytest.mark.parametrize(("rows", "expected"), [(0, [COUNT]), (8_000, [8_000, 8_000, 4_000])])
def test_batches_of_a_table_have_as_many_rows_as_asked_for(filled_table: Raw, rows: int, expected: list[int]) -> None:
    fields: dict[str, Any] = {"path": "/local/numbers", "batch_limit_rows": rows, "columns": ["n"]}
    parts = list(filled_table.stream(f"{TABLE}/StreamReadTable", timeout=100, **fields))
    counts = [len(part.result.result_set.rows) for part in parts]
    assert sum(counts) == COUNT
    assert counts == expected


def test_a_row_larger_than_a_message_has_one_of_its_own(ydb_server: RunningServer) -> None:
    large = "ListConcat(ListReplicate('xxx', 1000000)) ?? ''"
    text = f"SELECT * FROM AS_TABLE([<|n: 1, t: 'a'|>, <|n: 2, t: {large}|>, <|n: 3, t: 'b'|>])"
    with connected(ydb_server.ydb.endpoint) as raw:
        session = raw.ask(f"{QUERY}/CreateSession").session_id
        fields: dict[str, Any] = {"session_id": session, "exec_mode": 50, "query_content": {"text": text}}
        parts = list(raw.stream(f"{QUERY}/ExecuteQuery", **fields))
    assert [[row.items[0].int32_value for row in part.result_set.rows] for part in parts] == [[1], [2], [3]]
    assert [part.result_set_index for part in parts] == [0, 0, 0]
