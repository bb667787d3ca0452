"""The number of a session's document, read from its bytes."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Binary, Int64, encode

from mayflydb.frontends.mongo.sessions.retries import _number_of

ID = {"id": Binary(bytes(16), 4), "uid": Binary(bytes(32))}


@pytest.mark.parametrize(
    ("document", "number"),
    [
        ({"_id": ID, "txnNum": Int64(1 << 40), "done": []}, 1 << 40),
        ({"_id": ID, "lastWriteDate": 1, "txnNum": Int64(5)}, None),
        ({"_id": ID, "txnNum": 5}, None),
        ({"txnNum": Int64(5), "done": []}, None),
    ],
)
def test_a_number_is_read_where_it_is_written(document: dict[str, Any], number: int | None) -> None:
    assert _number_of(encode(document)) == number
