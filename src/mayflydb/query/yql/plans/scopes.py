"""Scopes: the columns of rows by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from mayflydb.query.yql.expression import Expression
from mayflydb.query.yql.faults import Position, fault, type_fault
from mayflydb.query.yql.types import Type


class Slot(Expression, frozen=True):
    """An expression that reads the value at `index` of the row."""

    index: int = -1


def slot(type: Type, index: int) -> Slot:
    """The value at `index` of the row."""
    return Slot(type, lambda row, run: row[index], index=index)


class Field(msgspec.Struct, frozen=True):
    """A column of rows. `source`: the name of its table, or "".

    `literal`: the literal that the column was selected from, if it was one, so that it may still take another type.
    """

    name: str
    type: Type
    source: str = ""
    literal: Expression | None = None


class RowScope:
    """The columns of a row, in the row's order. `sources`: the names of the tables, also of tables without a column here.

    `joined`: the row is from a join. `shared`: for each name of a join column, the tables that are joined by it.
    """

    def __init__(
        self,
        fields: Sequence[Field],
        sources: frozenset[str] = frozenset(),
        shared: Mapping[str, frozenset[str]] | None = None,
        joined: bool = False,
    ) -> None:
        self.fields = tuple(fields)
        self.joined = joined
        self.shared = shared or {}
        self.sources = sources | {each.source for each in fields if each.source}
        self._by_name: dict[str, list[int]] = {}
        for index, each in enumerate(self.fields):
            self._by_name.setdefault(each.name, []).append(index)
        self._by_end: dict[str, list[int]] = {}
        for index, each in enumerate(self.fields):
            if "." in each.name:  # `a.id`, a column of a subquery with a join, is also found as `id`.
                self._by_end.setdefault(each.name.partition(".")[2], []).append(index)

    def __len__(self) -> int:
        return len(self.fields)

    def _of(self, places: Mapping[str, list[int]], name: str, source: str | None) -> list[int]:
        found = places.get(name, [])
        return found if source is None else [index for index in found if self.fields[index].source == source]

    def find(self, name: str, source: str | None = None) -> int | None:
        """The index of a column; None if there is none. Faults: several tables have the column."""
        # The whole name goes first: the end of `a.id` counts only where no column is called `id`.
        found = self._of(self._by_name, name, source) or self._of(self._by_end, name, source)
        if len(found) > 1 and len({self.fields[index].source for index in found}) > 1:
            raise fault(f"Column {name} is ambiguous: it is in {', '.join(self.fields[i].source for i in found)}")
        return found[0] if found else None

    def slot(self, name: str, source: str | None, at: Position) -> Slot:
        """The value of a column. Faults: the row has no such column."""
        index = self.find(name, source)
        if index is None:
            raise no_member(name, at)
        return slot(self.fields[index].type, index)


EMPTY = RowScope(())


def no_member(name: str, at: Position) -> Exception:
    return type_fault("Member", f"Member not found: {name}", at)
