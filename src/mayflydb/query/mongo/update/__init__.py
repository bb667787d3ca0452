"""Updates: modifiers, replacement documents, pipelines, the document of an upsert, and the difference of two documents."""

from __future__ import annotations

from mayflydb.query.mongo.update.compile import Update, compile_update
from mayflydb.query.mongo.update.difference import difference
from mayflydb.query.mongo.update.pipeline import check_stage_names
from mayflydb.query.mongo.update.upsert import build_upsert

__all__ = ["Update", "build_upsert", "check_stage_names", "compile_update", "difference"]
