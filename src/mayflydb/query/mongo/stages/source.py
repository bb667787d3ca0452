"""The interface of a pipeline to other collections, and the targets to which its reader writes its result."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol, TypeAlias

import msgspec

from mayflydb.query.mongo.values import Document, Value

Namespace: TypeAlias = tuple[str, str]
"""(database, collection)."""

Batches: TypeAlias = AsyncIterator[list[Document]]
"""Batches of documents passed from stage to stage. The receiver must not change documents in place."""


class Out(msgspec.Struct, frozen=True):
    """`$out`: when all documents have arrived, they replace the collection in one step.

    `series`: its option `timeseries`, unchecked; None: it is absent.
    """

    target: Namespace
    series: Value | None = None


class Merge(msgspec.Struct, frozen=True):
    """`$merge`. `on`: the paths that identify a document; the writer checks that a unique index covers them.

    `when_matched`: `replace`, `keepExisting`, `merge`, `fail`, or the stages of an update.
    `when_not_matched`: `insert`, `discard` or `fail`.
    """

    target: Namespace
    on: tuple[str, ...]
    when_matched: str | list[Document]
    when_not_matched: str


class MergeRow(msgspec.Struct, frozen=True, gc=False):
    """A document to merge, with the variables of the stages of `when_matched`: those of `let`, and `new`."""

    document: Document
    variables: dict[str, Value]


class PipelineSource(Protocol):
    """The collections that a pipeline reads. All reads of one pipeline see one snapshot."""

    @property
    def database(self) -> str:
        """The database of the command, to which collection names without a database belong."""

    def find(self, namespace: Namespace, query: Document) -> Batches:
        """Return the visible documents of a collection or view that match; none if it does not exist. `query` has no
        variables.
        """

    def stage_documents(self, name: str, spec: Value) -> Batches:
        """Return the documents of a stage that reads no collection, such as `$collStats`."""
