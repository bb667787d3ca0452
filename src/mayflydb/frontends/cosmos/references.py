"""References between items: a property that has the id of an item of another container."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mayflydb.engine.catalog import Index, Node
from mayflydb.engine.lifecycle.references import Children, CompletesIndexes, range_of
from mayflydb.frontends.cosmos.access import MAX_BUILT_INDEXES
from mayflydb.frontends.cosmos.indexing import index_filter
from mayflydb.frontends.cosmos.partition_key import parse_property_path
from mayflydb.frontends.cosmos.policies import computed_properties
from mayflydb.frontends.cosmos.views import ContainerView, decode_item
from mayflydb.model.errors import BadRequest
from mayflydb.model.record import Record
from mayflydb.query.cosmos_sql.index_keys import index_key, value_at


class CosmosReferences:
    """Finds the items that have the id of an item at a path.

    Where both containers have the same partition key, they lie in its logical partition.
    """

    async def open_index(self, indexes: CompletesIndexes, parent: Node, child: Node, path: str) -> Index:
        """Return the index over a path, built if it is missing. BadRequest for a path that the indexing policy excludes."""
        keys = ((parse_property_path(path, "path"), False),)
        if not index_filter(child.body, computed_properties(child.body))(keys):
            raise BadRequest(
                f"the indexing policy of {child.name} excludes {path}", hint="include the path in the policy"
            )

        return await indexes.complete(child.id, keys, ContainerView.index_keys, MAX_BUILT_INDEXES)

    def find_children(self, parent: Node, record: Record, child: Node, index: Index) -> Children | None:
        """Return the items of `child` that have the id of an item at the path of an index."""
        id = record.key.decode("utf-8", "surrogatepass")
        wanted = index_key(_document(index.keys[0][0], id), index.keys)
        is_local = parent.body["partitionKey"] == child.body["partitionKey"]

        def is_child(each: Record) -> bool:
            if is_local and each.partition != record.partition:
                return False
            return bool(value_at(decode_item(each.value), index.keys[0][0]) == id)

        return Children(range_of(wanted), is_child)


def _document(path: Sequence[str], value: Any) -> dict[str, Any]:
    for name in reversed(path):
        value = {name: value}
    return dict(value)
