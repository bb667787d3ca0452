"""Collation: how strings are compared where a command, a collection or an index says so."""

from __future__ import annotations

from typing import Any

import msgspec

from mayflydb.query.mongo.values import OrderKey, Value, order_key


class Collation(msgspec.Struct, frozen=True):
    """One way to compare strings; `simple` is by code points."""

    locale: str = "simple"

    @property
    def is_simple(self) -> bool:
        """Whether strings compare as they are."""
        return self.locale == "simple"

    def key(self, text: str) -> Any:
        """What a string is compared by."""
        return text

    def order_key(self, value: Value) -> OrderKey:
        """`values.order_key` with strings, nested ones too, by this collation."""
        return order_key(value)


SIMPLE = Collation()
