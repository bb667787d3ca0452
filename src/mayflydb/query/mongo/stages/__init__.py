"""Aggregation: pipelines of stages over batches of documents. A `PipelineSource` reads other collections."""

from mayflydb.query.mongo.stages.base import MEMORY_LIMIT
from mayflydb.query.mongo.stages.head import Head
from mayflydb.query.mongo.stages.pipeline import STAGES, Pipeline, compile_pipeline
from mayflydb.query.mongo.stages.source import Batches, Merge, MergeRow, Namespace, Out, PipelineSource

__all__ = [
    "MEMORY_LIMIT",
    "STAGES",
    "Batches",
    "Head",
    "Merge",
    "MergeRow",
    "Namespace",
    "Out",
    "Pipeline",
    "PipelineSource",
    "compile_pipeline",
]
