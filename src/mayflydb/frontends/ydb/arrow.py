"""Result sets as record batches of Apache Arrow, where pyarrow is installed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from importlib import import_module
from typing import Any, Final

from mayflydb.evaluation.statement import Computing
from mayflydb.frontends.ydb import wire
from mayflydb.frontends.ydb.query_run import Columns
from mayflydb.frontends.ydb.results import DEFAULT_MESSAGE_BYTES, SLICE_BYTES, SLICE_ROWS, ResultFormat, ResultMessages
from mayflydb.frontends.ydb.values import columns_field
from mayflydb.query.yql.faults import fault
from mayflydb.query.yql.schemas import Row
from mayflydb.query.yql.types import DecimalType, OptionalType, Primitive, Type, Value

ARROW_FORMAT: Final = 2
_CODECS: Final = {2: "zstd", 3: "lz4"}
"""Codecs by the number of `CompressionCodec.type`; other numbers stand for no compression."""


def arrow_format(settings: Any, schema_once: bool) -> ResultFormat:
    """Return the format of record batches with the requested compression. Faults: UNSUPPORTED without pyarrow."""
    try:
        pa: Any = import_module("pyarrow")
    except ImportError as error:
        raise fault("Result sets in Arrow format are not supported without pyarrow", status="UNSUPPORTED") from error
    codec = settings.compression_codec
    name = _CODECS.get(codec.type)
    level = codec.level if codec.HasField("level") else None
    compression = None if name is None else pa.Codec(name, level)
    return ArrowFormat(pa, compression, schema_once)


class ArrowFormat:
    """Result sets as record batches. `schema_once`: columns and schema stand in the first message of each result set only."""

    def __init__(self, pa: Any, compression: Any, schema_once: bool) -> None:
        self._arrow = pa
        self._options = pa.ipc.IpcWriteOptions(compression=compression)
        self._schema_once = schema_once

    def begin(self, columns: Columns, computing: Computing) -> ResultMessages:
        """See `ResultFormat.begin`."""
        return ArrowMessages(self._arrow, self._options, columns, self._schema_once, computing)


class ArrowMessages:
    """Encodes rows as record batches of about DEFAULT_MESSAGE_BYTES bytes, one in each message."""

    def __init__(self, pa: Any, options: Any, columns: Columns, schema_once: bool, computing: Computing) -> None:
        self._computing = computing
        self._arrow = pa
        self._options = options
        self._columns = columns
        self._arrow_types = [_arrow_type(pa, type) for _, type in columns]
        self._schema = pa.schema(
            [
                pa.field(name, kind, nullable=isinstance(type, OptionalType))
                for (name, type), (kind, _) in zip(columns, self._arrow_types, strict=True)
            ]
        )
        self._schema_once = schema_once
        self._with_schema = True
        self._batches: list[Any] = []
        self._size = 0

    async def add(self, rows: Sequence[Row]) -> AsyncGenerator[bytes, None]:
        """See `ResultMessages.add`."""
        for start in range(0, len(rows), SLICE_ROWS):
            for batch in await self._computing.call(SLICE_BYTES, self._build_batches, rows[start : start + SLICE_ROWS]):
                if self._batches and self._size + batch.nbytes > DEFAULT_MESSAGE_BYTES:
                    yield self.flush()
                self._batches.append(batch)
                self._size += batch.nbytes
            if start + SLICE_ROWS < len(rows):
                await asyncio.sleep(0)

    def flush(self) -> bytes:
        """See `ResultMessages.flush`."""
        batch = self._combine_batches()
        self._batches, self._size = [], 0
        head = columns_field(self._columns) if self._with_schema else b""
        schema = wire.bytes_field(1, batch.schema.serialize().to_pybytes()) if self._with_schema else b""
        self._with_schema = not self._schema_once
        # Fields of ResultSet: 1 columns, 4 format, 5 arrow_format_meta (its field 1 is the schema), 15 data.
        return (
            head
            + wire.int_field(4, ARROW_FORMAT)
            + wire.bytes_field(5, schema)
            + wire.bytes_field(15, self._encode_batch(batch))
        )

    def _combine_batches(self) -> Any:
        if len(self._batches) == 1:
            return self._batches[0]
        if not self._batches:
            return self._build_batch(())
        # Rows were converted slice by slice, and a message holds a single record batch.
        table = self._arrow.Table.from_batches(self._batches).combine_chunks()
        return table.to_batches()[0]

    def _build_batches(self, rows: Sequence[Row]) -> list[Any]:
        return _split_batch(self._build_batch(rows))

    def _build_batch(self, rows: Sequence[Row]) -> Any:
        arrays = []
        for number, (kind, convert) in enumerate(self._arrow_types):
            values = [None if row[number] is None else convert(row[number]) for row in rows]
            arrays.append(self._arrow.array(values, kind))
        return self._arrow.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _encode_batch(self, batch: Any) -> bytes:
        """Return the IPC message of a batch.

        Only streams of pyarrow compress, so the batch is written as a stream of schema and batch, and the second
        message is taken.
        """
        ipc = self._arrow.ipc
        sink = self._arrow.BufferOutputStream()
        with ipc.new_stream(sink, batch.schema, options=self._options) as stream:
            stream.write_batch(batch)
        messages = ipc.MessageReader.open_stream(sink.getvalue())
        # The first message of the stream is the schema.
        messages.read_next_message()
        message: bytes = messages.read_next_message().serialize().to_pybytes()
        return message


def _split_batch(batch: Any) -> list[Any]:
    """Halve a batch until each part is within the limit or a single row."""
    if batch.nbytes <= DEFAULT_MESSAGE_BYTES or batch.num_rows < 2:
        return [batch]
    half = batch.num_rows // 2
    return [*_split_batch(batch.slice(0, half)), *_split_batch(batch.slice(half))]


_SIMPLE: Final = {
    "Bool": "uint8",
    **{f"Int{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"Uint{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    "Float": "float32",
    "Double": "float64",
    "Date": "uint16",
    "Datetime": "uint32",
    "Timestamp": "uint64",
    "Interval": "int64",
    "Date32": "int32",
    **dict.fromkeys(("Datetime64", "Timestamp64", "Interval64"), "int64"),
    "String": "binary",
    "Yson": "binary",
    "Utf8": "string",
    "Json": "string",
    "JsonDocument": "string",
}
"""pyarrow's types by YQL type, for types whose values pyarrow takes unchanged."""


def _arrow_type(arrow: Any, type: Type) -> tuple[Any, Callable[[Value], Value]]:
    if isinstance(type, OptionalType):
        type = type.item
    if isinstance(type, Primitive) and type.name in _SIMPLE:
        # YDB has a byte for a Bool, and Arrow's own bool is a bit.
        convert: Callable[[Value], Value] = int if type.name == "Bool" else _identity
        return getattr(arrow, _SIMPLE[type.name])(), convert
    if isinstance(type, DecimalType):
        return arrow.binary(16), _decimal_bytes
    if type == Primitive("Uuid"):
        return arrow.binary(16), _identity
    raise fault(f"Values of type {type} are not supported in Arrow format", status="UNSUPPORTED")


def _identity(value: Value) -> Value:
    return value


def _decimal_bytes(value: int) -> bytes:
    return value.to_bytes(16, "little", signed=True)
