"""References between rows: a column that has the primary key of a row of another table."""

from __future__ import annotations

from mayflydb.engine.catalog import Index, Node
from mayflydb.engine.lifecycle.references import Children, CompletesIndexes, range_of
from mayflydb.frontends.ydb.rows import MAX_LAYOUTS, PREFIX_BYTES, RowLayout
from mayflydb.frontends.ydb.schemes.views import table_view
from mayflydb.frontends.ydb.tables import is_primary
from mayflydb.model.errors import BadRequest, Conflict
from mayflydb.model.record import Record
from mayflydb.query.yql.keys import decode_key, encode_key
from mayflydb.query.yql.types import Type, bare


class YdbReferences:
    """Finds the rows that have the key of a row in a column. The key has one column, of the same type."""

    def __init__(self) -> None:
        self._layouts: dict[int, RowLayout] = {}

    async def open_index(self, indexes: CompletesIndexes, parent: Node, child: Node, path: str) -> Index:
        """Return the index, or the primary key, that begins with a column. BadRequest if the column cannot have keys of
        `parent`; Conflict if there is no such index: clients create the indexes of a table.
        """
        types, owners = _types(self._layout(child)), _types(self._layout(parent))
        if path not in types:
            raise BadRequest(f"there is no column {path} in {child.name}")
        keys = [owners[name] for name in parent.body["key"]]
        if len(keys) != 1 or bare(keys[0]) != bare(types[path]):
            raise BadRequest(f"{path} is {types[path]}, and the key of {parent.name} is {', '.join(map(str, keys))}")
        for index in child.definition.indexes:
            if index.state == "ready" and _first_column(child, index) == path:
                return index
        raise Conflict(
            f"{child.name} has no index that begins with {path}",
            hint=f"create one: ALTER TABLE `{child.name}` ADD INDEX by_{path} GLOBAL ON ({path})",
        )

    def find_children(self, parent: Node, record: Record, child: Node, index: Index) -> Children | None:
        """Return the rows of `child` whose first column of an index has the key of a row."""
        layout, owners = self._layout(child), _types(self._layout(parent))
        (value,) = decode_key([owners[name] for name in parent.body["key"]], record.key)
        if value is None:
            return None
        number = layout.numbers[_first_column(child, index)]
        prefix = encode_key(layout.index_types(index)[:1], [value])[:PREFIX_BYTES]
        return Children(range_of(prefix), lambda each: layout.decode(each.value)[number] == value)

    def _layout(self, table: Node) -> RowLayout:
        known = self._layouts.get(table.id)
        if known is None or known.view.node is not table:
            if len(self._layouts) >= MAX_LAYOUTS:
                self._layouts.clear()
            known = self._layouts[table.id] = RowLayout(table_view(table, table.name))
        return known


def _types(layout: RowLayout) -> dict[str, Type]:
    return {column.name: column.type for column in layout.view.table.columns}


def _first_column(table: Node, index: Index) -> str:
    columns = table.body["key"] if is_primary(index) else (index.spec or {})["columns"]
    return str(columns[0])
