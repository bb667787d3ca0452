"""Hints: what to try after an error. Here they have keys; `admin/hints.py` has their words for each surface."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Hint(msgspec.Struct, frozen=True):
    """The key of a hint, and the values that its words name."""

    key: str
    values: Mapping[str, str] = {}
