"""What a pipeline needs of the world around it: other collections to read, something to write its result to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol, TypeAlias

import msgspec

from mayflydb.query.mongo.values import Document, Value

Namespace: TypeAlias = tuple[str, str]
"""(database, collection)."""

Batches: TypeAlias = AsyncIterator[list[Document]]
"""Documents as they flow from stage to stage. Whoever receives them must not change them in place."""


class Out(msgspec.Struct, frozen=True):
    """`$out`: the documents replace the collection, all at once when the last has come."""

    target: Namespace


class Merge(msgspec.Struct, frozen=True):
    """`$merge`. `on`: the paths that identify a document; that a unique index covers them is for the writer to check.

    `when_matched`: `replace`, `keepExisting`, `merge`, `fail`, or the stages of an update; `when_not_matched`: `insert`,
    `discard`, `fail`.
    """

    target: Namespace
    on: tuple[str, ...]
    when_matched: str | list[Document]
    when_not_matched: str


class Row(msgspec.Struct, frozen=True, gc=False):
    """A document to merge, with the variables that the stages of `when_matched` see: those of `let`, and `new`."""

    document: Document
    variables: dict[str, Value]


class Source(Protocol):
    """Given by the caller of `compile_pipeline`; all reads of one pipeline see the same moment."""

    @property
    def database(self) -> str:
        """The database the command was sent to: names of collections without one belong to it."""

    def find(self, namespace: Namespace, query: Document) -> Batches:
        """The visible documents of a collection or view that match; none if it is not there. `query` has no variables."""

    def special(self, name: str, spec: Value) -> Batches:
        """What a stage reports that reads no documents, `$collStats` say. Asked for by a pipeline that begins with it."""

    async def out(self, target: Out, batches: Batches) -> None:
        """Carries out `$out`: reads `batches` to their end, then replaces the collection."""

    async def merge(self, target: Merge, rows: Sequence[Row]) -> None:
        """Merges some rows, in their order."""
