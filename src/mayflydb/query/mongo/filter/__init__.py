"""Filters: queries compiled once to closures, asked about documents many times."""

from __future__ import annotations

from mayflydb.query.mongo.filter.compile import Filter, asks_text, compile_element_filter, compile_filter, text_search
from mayflydb.query.mongo.filter.fields import is_operators

__all__ = ["Filter", "asks_text", "compile_element_filter", "compile_filter", "is_operators", "text_search"]
