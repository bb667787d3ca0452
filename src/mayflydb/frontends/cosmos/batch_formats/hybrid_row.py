"""Batches in HybridRow, as the .NET client sends and reads them: a stream of rows, one for each operation or result.

https://github.com/Azure/azure-cosmos-dotnet-v3, src/Batch (HybridRowBatchSchemas.json, ItemBatchOperation)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
from msgspec import UNSET

from mayflydb.frontends.cosmos.batch_formats.operations import BatchOperation, OperationResult, check_count
from mayflydb.frontends.cosmos.batch_formats.record_io import read_records, write_records
from mayflydb.frontends.cosmos.batch_formats.rows import (
    VERSION,
    Column,
    Schema,
    Storage,
    Type,
    read_row,
    refuse,
    write_row,
)
from mayflydb.frontends.cosmos.values import ItemLimits
from mayflydb.model.errors import Unsupported

PREFIX: Final = bytes([VERSION])
"""The first byte of a batch in HybridRow."""

OPERATION: Final = Schema(
    "BatchOperation",
    2145473648,
    Column("operationType", Type.INT32, Storage.FIXED),
    Column("resourceType", Type.INT32, Storage.FIXED),
    Column("partitionKey", Type.UTF8, Storage.VARIABLE),
    Column("effectivePartitionKey", Type.BINARY, Storage.VARIABLE),
    Column("id", Type.UTF8, Storage.VARIABLE),
    Column("binaryId", Type.BINARY, Storage.VARIABLE),
    Column("resourceBody", Type.BINARY, Storage.VARIABLE),
    Column("indexingDirective", Type.UTF8, Storage.SPARSE),
    Column("ifMatch", Type.UTF8, Storage.SPARSE),
    Column("ifNoneMatch", Type.UTF8, Storage.SPARSE),
    Column("timeToLiveInSeconds", Type.INT32, Storage.SPARSE),
    Column("minimalReturnPreference", Type.BOOL, Storage.SPARSE),
)

RESULT: Final = Schema(
    "BatchResult",
    2145473649,
    Column("statusCode", Type.INT32, Storage.FIXED),
    Column("subStatusCode", Type.INT32, Storage.FIXED),
    Column("eTag", Type.UTF8, Storage.VARIABLE),
    Column("resourceBody", Type.BINARY, Storage.VARIABLE),
    Column("retryAfterMilliseconds", Type.UINT32, Storage.SPARSE),
    Column("requestCharge", Type.FLOAT64, Storage.SPARSE),
)

OPERATION_TYPES: Final = {0: "Create", 1: "Patch", 2: "Read", 4: "Delete", 5: "Replace", 20: "Upsert"}
"""The client's numbers (Microsoft.Azure.Documents.OperationType), which are not those of direct mode."""

_OPERATION_FIELDS: Final = {each.encode_name: each.name for each in msgspec.structs.fields(BatchOperation)}
_RESULT_FIELDS: Final = {each.encode_name: each.name for each in msgspec.structs.fields(OperationResult)}

DOCUMENT: Final = 2
"""The only type of resources in batches (Microsoft.Azure.Documents.ResourceType)."""


def read_operations(body: bytes, limits: ItemLimits) -> list[BatchOperation]:
    """Read the operations. BadRequest or Unsupported if the body is no stream of them, or has too many."""
    operations: list[BatchOperation] = []
    for row in read_records(body):
        operations.append(_read_operation(read_row(OPERATION, row)))
        check_count(len(operations))
    check_count(len(operations))
    return operations


def _read_operation(values: dict[str, Any]) -> BatchOperation:
    kind = values.pop("operationType", None)
    if kind is None:
        refuse("an operation has no operationType")
    if (resource := values.pop("resourceType", DOCUMENT)) != DOCUMENT:
        raise Unsupported(f"The resource type {resource} of a batch operation is not supported by Mayfly.")
    values["operationType"] = OPERATION_TYPES.get(kind, str(kind))
    if (body := values.get("resourceBody")) is not None:
        values["resourceBody"] = msgspec.Raw(body)
    return BatchOperation(**{_OPERATION_FIELDS[name]: value for name, value in values.items()})


def write_results(results: Iterable[OperationResult]) -> Iterator[bytes]:
    """Return the pieces of an answer."""
    return write_records(write_row(RESULT, _result_values(each)) for each in results)


def _result_values(result: OperationResult) -> dict[str, Any]:
    given = {
        column: value for column, field in _RESULT_FIELDS.items() if (value := getattr(result, field)) is not UNSET
    }
    # The client reads why an operation failed from the place of its item.
    if (message := given.pop("message", None)) is not None:
        given["resourceBody"] = msgspec.json.encode({"Errors": [message]})
    return {"subStatusCode": 0, **given}
