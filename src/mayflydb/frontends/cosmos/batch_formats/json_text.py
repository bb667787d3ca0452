"""Batches in JSON: an array of operations, answered by an array of results."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

import msgspec

from mayflydb.frontends.cosmos.batch_formats.operations import BatchOperation, OperationResult, check_count
from mayflydb.frontends.cosmos.values import ItemLimits, parse_json
from mayflydb.model.errors import BadRequest


def read_operations(body: bytes, limits: ItemLimits) -> list[BatchOperation]:
    """Read the operations. BadRequest or TooLarge if the body is no array of them, or has too many."""
    # Counted before anything is built from them. A body that is no array is refused below.
    with contextlib.suppress(ValueError, RecursionError):
        check_count(len(msgspec.json.decode(body, type=list[msgspec.Raw])))
    # The typed decoder below lets pass what the strict parser refuses: names that occur twice, huge numbers, deep
    # nesting.
    parse_json(body, limits, limits.item_bytes)
    try:
        return msgspec.json.decode(body, type=list[BatchOperation])
    except msgspec.ValidationError as error:
        raise BadRequest(f"The batch is invalid: {error}") from None


def write_results(results: Iterable[OperationResult]) -> Iterator[bytes]:
    """Return the pieces of an answer."""
    yield msgspec.json.encode(list(results))
