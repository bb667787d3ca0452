"""Updates: modifiers, replacement documents and pipelines, what an upsert inserts, and what an update changed."""

from __future__ import annotations

from mayflydb.query.mongo.update.compile import Update, compile_update
from mayflydb.query.mongo.update.difference import difference
from mayflydb.query.mongo.update.pipeline import check_names
from mayflydb.query.mongo.update.upsert import upserted

__all__ = ["Update", "check_names", "compile_update", "difference", "upserted"]
