"""Record batches of Arrow, as queries give them, read by pyarrow; Mayfly itself does without it."""

from __future__ import annotations

from typing import Any

import pytest

pa: Any = pytest.importorskip("pyarrow")
ydb: Any = pytest.importorskip("ydb")


def batches(pool: Any, text: str, **settings: Any) -> list[Any]:
    found = pool.execute_with_retries(text, result_set_format=ydb.QueryResultSetFormat.ARROW, **settings)
    return [
        pa.ipc.read_record_batch(
            pa.py_buffer(each.data), pa.ipc.read_schema(pa.py_buffer(each.arrow_format_meta.schema))
        )
        for each in found
    ]


TYPES = [
    ("true", "uint8", 1),
    ("-1t", "int8", -1),
    ("255ut", "uint8", 255),
    ("18446744073709551615ul", "uint64", 18446744073709551615),
    ("Date('2020-01-01')", "uint16", 18262),
    ("Timestamp('1970-01-01T00:00:01Z')", "uint64", 1_000_000),
    ("Interval('PT1S')", "int64", 1_000_000),
    ("'ab'", "binary", b"ab"),
    ("'ab'u", "string", "ab"),
    ("Decimal('-1.5', 5, 1)", "fixed_size_binary[16]", (-15).to_bytes(16, "little", signed=True)),
    ("Nothing(Int32?)", "int32", None),
]


@pytest.mark.parametrize(("text", "kind", "expected"), TYPES)
def test_types(query_pool: Any, text: str, kind: str, expected: Any) -> None:
    [batch] = batches(query_pool, f"SELECT {text} AS v")
    assert (str(batch.schema.field("v").type), batch.to_pylist()) == (kind, [{"v": expected}])


@pytest.mark.parametrize("codec", [None, "LZ4_FRAME", "ZSTD"])
def test_rows_come_in_batches_with_or_without_compression(query_pool: Any, codec: str | None) -> None:
    settings: dict[str, Any] = {}
    if codec is not None:
        kind = ydb.ArrowCompressionCodec(getattr(ydb.ArrowCompressionCodecType, codec))
        settings["arrow_format_settings"] = ydb.ArrowFormatSettings(compression_codec=kind)
    text = "SELECT * FROM AS_TABLE(ListMap(ListFromRange(0ul, 5000ul), ($n) -> (<|n: $n, t: 'x'|>)))"
    found = batches(query_pool, text, **settings)
    assert [row["n"] for batch in found for row in batch.to_pylist()] == list(range(5000))


def test_a_set_without_rows_has_its_columns(query_pool: Any) -> None:
    [batch] = batches(query_pool, "SELECT 1 AS a, 'x' AS b LIMIT 0")
    assert (batch.schema.names, batch.num_rows) == (["a", "b"], 0)


def test_large_rows_are_cut(query_pool: Any) -> None:
    wide = "SELECT String::LeftPad('x', 300000u) AS v FROM AS_TABLE(ListMap(ListFromRange(0, 50), ($n) -> (<|n: $n|>)))"
    found = batches(query_pool, wide)
    assert len(found) > 2
    assert sum(batch.num_rows for batch in found) == 50
