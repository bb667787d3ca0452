"""References between documents: a field that has the `_id` of a document of another collection."""

from __future__ import annotations

from typing import Any

from mayflydb.engine.catalog import Index, Node
from mayflydb.engine.lifecycle.references import Children, CompletesIndexes, range_of
from mayflydb.frontends.mongo.catalog_rows import parse_index
from mayflydb.model.errors import Conflict
from mayflydb.model.record import Record
from mayflydb.query.mongo.indexes.keys import compile_keys
from mayflydb.query.mongo.indexes.specs import IndexSpec
from mayflydb.query.mongo.values import decode


class MongoReferences:
    """Finds the documents that have the `_id` of a document at a path, or in an array there."""

    async def open_index(self, indexes: CompletesIndexes, parent: Node, child: Node, path: str) -> Index:
        """Return the index over a path alone. Conflict if there is none: clients create the indexes of a collection."""
        for index in child.definition.indexes:
            if index.state == "ready" and _fits(parse_index(index).spec, path):
                return index
        raise Conflict(
            f"{child.name} has no index over {path} alone that has every document",
            hint=f'create one: db.{child.name}.createIndex({{"{path}": 1}})',
        )

    def find_children(self, parent: Node, record: Record, child: Node, index: Index) -> Children | None:
        """Return the documents of `child` that have the `_id` of a document at the path of an index."""
        spec = parse_index(index).spec
        keys = compile_keys(spec)
        value: Any = decode(record.value)["_id"]
        for name in reversed(spec.key[0][0].split(".")):
            value = {name: value}
        (wanted,) = keys.document_keys(value)
        return Children(range_of(wanted), lambda each: wanted in keys.document_keys(decode(each.value)))


def _fits(spec: IndexSpec, path: str) -> bool:
    """Return whether an index finds each document that has a value at a path, and by this value alone."""
    is_whole = spec.partial is None and spec.collator.is_simple
    return spec.kind == "ordered" and is_whole and [name for name, _ in spec.key] == [path]
