"""Filters: queries compiled once to closures, then applied to many documents."""

from __future__ import annotations

from mayflydb.query.mongo.filter.compile import (
    Filter,
    compile_element_filter,
    compile_filter,
    has_text_search,
    text_search,
)
from mayflydb.query.mongo.filter.fields import is_operators

__all__ = ["Filter", "compile_element_filter", "compile_filter", "has_text_search", "is_operators", "text_search"]
