"""The columns of rows, and what their names mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from mayflydb.query.yql.expression import Expression
from mayflydb.query.yql.faults import Position, fault, type_fault
from mayflydb.query.yql.types import Type


class Slot(Expression, frozen=True):
    """A value that stands in the row."""

    index: int = -1


def slot(type: Type, index: int) -> Slot:
    """What stands at `index`."""
    return Slot(type, lambda row, run: row[index], index=index)


class Field(msgspec.Struct, frozen=True):
    """A column of rows: `source` is the name of the table it came from, "" if that has none.

    `literal`: what it was selected as, where that is a literal and so may still become of another type.
    """

    name: str
    type: Type
    source: str = ""
    literal: Expression | None = None


class RowScope:
    """The columns of a row, in the order in which it has them. `sources`: names of tables that may have no column in it.

    `joined`: they are of a join. `shared`: for columns by which tables of the same column's name were joined, those tables.
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
            if "." in each.name:  # `a.id` of a join inside is also `id`.
                self._by_end.setdefault(each.name.partition(".")[2], []).append(index)

    def __len__(self) -> int:
        return len(self.fields)

    def _of(self, places: Mapping[str, list[int]], name: str, source: str | None) -> list[int]:
        found = places.get(name, [])
        return found if source is None else [index for index in found if self.fields[index].source == source]

    def find(self, name: str, source: str | None = None) -> int | None:
        """The place of a column; None: there is none. Faults: there are several."""
        found = self._of(self._by_name, name, source) or self._of(self._by_end, name, source)
        if len(found) > 1 and len({self.fields[index].source for index in found}) > 1:
            raise fault(f"Column {name} is ambiguous: it is in {', '.join(self.fields[i].source for i in found)}")
        return found[0] if found else None

    def slot(self, name: str, source: str | None, at: Position) -> Slot:
        """The value of a column. Faults: it is none of this row."""
        index = self.find(name, source)
        if index is None:
            raise no_member(name, at)
        return slot(self.fields[index].type, index)


EMPTY = RowScope(())


def no_member(name: str, at: Position) -> Exception:
    return type_fault("Member", f"Member not found: {name}", at)
