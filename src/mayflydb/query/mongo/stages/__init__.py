"""Aggregation: pipelines of stages over batches of documents. A `Source` reads other collections."""

from mayflydb.query.mongo.stages.base import MEMORY_LIMIT
from mayflydb.query.mongo.stages.head import Head
from mayflydb.query.mongo.stages.pipeline import STAGES, Pipeline, compile_pipeline
from mayflydb.query.mongo.stages.source import Batches, Merge, Namespace, Out, Row, Source

__all__ = [
    "MEMORY_LIMIT",
    "STAGES",
    "Batches",
    "Head",
    "Merge",
    "Namespace",
    "Out",
    "Pipeline",
    "Row",
    "Source",
    "compile_pipeline",
]
