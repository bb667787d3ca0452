"""Tables made, written and read through the language."""

from __future__ import annotations

from typing import Any

import pytest

ORDERS = "CREATE TABLE orders (id Uint64, customer Utf8, total Int64, PRIMARY KEY (id))"


@pytest.fixture
def orders(place: Any) -> Any:
    place.parts(ORDERS)
    return place


def test_upsert_and_select(orders: Any) -> None:
    orders.parts("UPSERT INTO orders (id, customer, total) VALUES (1, 'a', 10), (2, 'b', 20), (3, NULL, 30)")
    assert orders.rows("SELECT id, total, customer FROM orders") == [(1, 10, "a"), (2, 20, "b"), (3, 30, None)]
    assert orders.rows("SELECT total FROM orders WHERE id = 2") == [(20,)]
