"""Documents that are read as bytes."""

from __future__ import annotations

import pytest

from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.raw import MAX_DEPTH, check_depth


def nest(levels: int) -> bytes:
    """Return a document of so many levels in as few bytes as possible."""
    document = b"\x05\0\0\0\0"
    for _ in range(levels - 1):
        document = (len(document) + 7).to_bytes(4, "little") + b"\x03\0" + document + b"\0"
    return document


def test_the_smallest_document_that_is_nested_too_deep_is_refused() -> None:
    check_depth(nest(MAX_DEPTH))
    with pytest.raises(MqlError):
        check_depth(nest(MAX_DEPTH + 1))
