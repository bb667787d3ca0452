"""GROUP BY, ORDER BY, windows, and the JSON functions of the SQL standard."""

from __future__ import annotations

from itertools import chain, combinations
from typing import Final, Literal

from mayflydb.query.yql.faults import fault
from mayflydb.query.yql.lexer import ID, INTEGER, QUOTED, STRING
from mayflydb.query.yql.parser.expressions import COMPARISON, Expressions
from mayflydb.query.yql.parser.literals import split_integer
from mayflydb.query.yql.syntax import (
    Expression,
    Frame,
    FunctionCall,
    GroupBy,
    Item,
    Json,
    Member,
    Name,
    OrderItem,
    TypeName,
    Window,
)

_UNITS: Final[dict[str, Literal["ROWS", "RANGE", "GROUPS"]]] = {"ROWS": "ROWS", "RANGE": "RANGE", "GROUPS": "GROUPS"}
# Each grouping set keeps groups of its own. CUBE doubles the sets with each column: 12 columns make 4096.
_MAX_SETS: Final = 4096
_Clause = tuple[str, Expression | None, TypeName | None]


class Grouping(Expressions):
    def named_item(self) -> Item:
        """`value AS name`"""
        at = self.at()
        value = self.expression()
        return Item(at, value, self.name() if self.accept("AS") else None)

    def column_reference(self) -> Expression:
        """`a`, or `t.a`"""
        at = self.at()
        found: Expression = Name(at, self.name(), self.kinds[self.index - 1] == QUOTED)
        return Member(at, found, self.name()) if self.accept(".") else found

    def order(self) -> tuple[OrderItem, ...]:
        """`ORDER BY a, b DESC`"""
        self.expect("ORDER", "BY")
        return self.parse_list(self._order_item, None)

    def _order_item(self) -> OrderItem:
        at = self.at()
        value = self.expression()
        return OrderItem(at, value, self.accept_any(("ASC", "DESC")) == "DESC")

    # --- GROUP BY -------------------------------------------------------------------------------------------------------

    def group(self) -> GroupBy:
        at = self.at()
        self.expect("GROUP")
        compact = self.accept("COMPACT")
        self.expect("BY")
        if self.kind in ("ALL", "DISTINCT"):
            self.refuse(f"GROUP BY {self.kind}")
        items: list[Item] = []
        hops: list[FunctionCall] = []
        elements = self.parse_list(lambda: self._group_element(items, hops), None)
        if self.kind == "WITH":
            self.refuse("WITH behind GROUP BY")
        if len(hops) > 1:
            raise fault("Duplicate hop specification", hops[1].at)
        sets: tuple[tuple[int, ...], ...] | None = None
        if any(element is not None for element in elements):
            items, sets = _renumber_sets(items, _combine_sets(elements, len(items), self))
        return GroupBy(at, tuple(items), sets, compact, hops[0] if hops else None)

    def _group_element(self, items: list[Item], hops: list[FunctionCall]) -> tuple[tuple[int, ...], ...] | None:
        """Parse one element of GROUP BY, and add its expressions to `items`.

        Returns the grouping sets of ROLLUP, CUBE or GROUPING SETS, as numbers of items; None for a plain element.
        """
        following = self.next_kind
        if self.kind in ("ROLLUP", "CUBE") and following == "(":
            rollup = self.word() == "ROLLUP"
            self.expect("(")
            numbers = [
                _item_number(items, _require_name(each, "ROLLUP" if rollup else "CUBE"))
                for each in self.parse_list(self.named_item)
            ]
            # Checked before the combinations are built.
            if len(numbers) > 12:
                raise fault("More than 12 columns of ROLLUP or CUBE are not supported", self.at())
            lengths = range(len(numbers), -1, -1)
            if rollup:
                return tuple(tuple(numbers[:length]) for length in lengths)
            return tuple(chain.from_iterable(combinations(numbers, length) for length in lengths))
        if self.kind == "GROUPING" and following == "SETS":
            self.index += 2
            self.enter()
            found = self.parse_in_parentheses(lambda: self._grouping_set(items))
            self.leave()
            return tuple(chain.from_iterable(found))
        if self.kind == "HOP" and following == "(":
            call = self.operand()
            assert isinstance(call, FunctionCall)
            hops.append(call)
            return None
        _item_number(items, self.named_item())
        return None

    def _grouping_set(self, items: list[Item]) -> tuple[tuple[int, ...], ...]:
        if self.kind == "HOP":
            self.refuse("HOP in GROUPING SETS")
        if self.kind in ("ROLLUP", "CUBE", "GROUPING"):
            return self._group_element(items, []) or ()
        if self.accept("("):
            if self.accept(")"):
                return ((),)
            return (tuple(_item_number(items, _require_name(each)) for each in self.parse_list(self.named_item)),)
        return ((_item_number(items, _require_name(self.named_item())),),)

    # --- windows --------------------------------------------------------------------------------------------------------

    def window_definition(self) -> tuple[str, Window]:
        """`name AS (...)`"""
        name = self.name()
        self.expect("AS")
        return name, self._window()

    def over(self) -> Window | str:
        return self._window() if self.kind == "(" else self.name()

    def _window(self) -> Window:
        at = self.at()
        self.expect("(")
        self.enter()
        if self.kind in (ID, QUOTED):
            self.refuse("A window that begins with another one")
        partition: tuple[Item, ...] = ()
        if self.accept("PARTITION"):
            self.accept("COMPACT")
            self.expect("BY")
            partition = self.parse_list(self.named_item, None)
        order = self.order() if self.kind == "ORDER" else ()
        frame = self._frame() if self.kind in _UNITS else None
        self.leave()
        self.expect(")")
        return Window(at, partition, order, frame)

    def _frame(self) -> Frame:
        at = self.at()
        unit = _UNITS[self.word()]
        begin, end = "Frame cannot start from UNBOUNDED FOLLOWING", "Frame cannot end with UNBOUNDED PRECEDING"
        upper_by = None
        if self.accept("BETWEEN"):
            first = self.at()
            lower, lower_by = self._frame_end("PRECEDING", begin, unit)
            self.expect("AND")
            upper, upper_by = self._frame_end("FOLLOWING", end, unit)
            # Only sides are compared, as in YDB: `BETWEEN 1 PRECEDING AND 3 PRECEDING` is allowed, and always empty.
            if lower is not None and upper is not None and _direction(lower) > _direction(upper):
                start, end = (_ENDS[_direction(each)] for each in (lower, upper))
                raise fault(f"Frame cannot start from {start} and end with {end}", first)
        else:
            # A lone bound is the lower one; the frame ends at the current row.
            lower, lower_by = self._frame_end("PRECEDING", begin, unit)
            upper = 0
        if self.kind == "EXCLUDE":
            self.refuse("EXCLUDE of a window's frame")
        return Frame(at, unit, lower, upper, lower_by, upper_by)

    def _frame_end(self, unbounded: str, otherwise: str, unit: str) -> tuple[int | None, Expression | None]:
        """Parse one end of a frame: the bound, and its distance if that is an expression. UNBOUNDED must point outwards."""
        if self.accept("CURRENT"):
            self.expect("ROW")
            return 0, None
        if self.kind == "UNBOUNDED":
            at = self.at()
            self.index += 1
            if self.expect_any(("FOLLOWING", "PRECEDING")) != unbounded:
                raise fault(otherwise, at)
            return None, None
        if self.kind == INTEGER and self.next_kind in ("FOLLOWING", "PRECEDING"):
            # 18 digits are beyond any partition, so a longer distance may be cut to them.
            value, _ = split_integer(self.texts[self.index][:18])
            self.index += 1
            return (value if self._is_following() else -value), None
        if unit != "RANGE":
            self.refuse("A window's frame by an expression")
        distance = self.expression(COMPARISON)
        return (1 if self._is_following() else -1), distance

    def _is_following(self) -> bool:
        return self.expect_any(("FOLLOWING", "PRECEDING")) == "FOLLOWING"

    # --- JSON -----------------------------------------------------------------------------------------------------------

    def json(self) -> Json:
        at = self.at()
        function = self.word()
        self.expect("(")
        self.enter()
        operand = self.expression()
        self.expect(",")
        if self.kind != STRING:
            self.fail(STRING)
        path = self.string()
        clauses = self._passing()
        if function == "JSON_VALUE":
            clauses += self._value_clauses()
        elif function == "JSON_EXISTS":
            if self.kind != ")":
                clauses.append((f"{self.expect_any(('TRUE', 'FALSE', 'UNKNOWN', 'ERROR'))} ON ERROR", None, None))
                self.expect("ON", "ERROR")
        else:
            clauses += self._query_clauses()
        self.leave()
        self.expect(")")
        return Json(at, function, operand, path, tuple(clauses))

    def _passing(self) -> list[_Clause]:
        if not self.accept("PASSING"):
            return []
        return list(self.parse_list(self._variable, None))

    def _variable(self) -> _Clause:
        value = self.expression()
        self.expect("AS")
        return f"PASSING {self.tag()}", value, None

    def _value_clauses(self) -> list[_Clause]:
        clauses: list[_Clause] = []
        if self.accept("RETURNING"):
            clauses.append(("RETURNING", None, self.type_name()))
        while self.kind != ")":
            word = self.expect_any(("ERROR", "NULL", "DEFAULT"))
            value = self.expression() if word == "DEFAULT" else None
            self.expect("ON")
            clauses.append((f"{word} ON {self.expect_any(('EMPTY', 'ERROR'))}", value, None))
        return clauses

    def _query_clauses(self) -> list[_Clause]:
        clauses: list[_Clause] = []
        if self.kind in ("WITH", "WITHOUT"):
            words = [self.word()]
            while self.kind != "WRAPPER":
                words.append(self.expect_any(("CONDITIONAL", "UNCONDITIONAL", "ARRAY")))
            self.index += 1
            clauses.append((" ".join([each for each in words if each != "ARRAY"] + ["WRAPPER"]), None, None))
        while self.kind != ")":
            word = self.expect_any(("ERROR", "NULL", "EMPTY"))
            if word == "EMPTY":
                word = f"EMPTY {self.expect_any(('ARRAY', 'OBJECT'))}"
            self.expect("ON")
            clauses.append((f"{word} ON {self.expect_any(('EMPTY', 'ERROR'))}", None, None))
        return clauses


def _require_name(item: Item, where: str = "GROUPING SETS") -> Item:
    """Return the item. Faults: it is no column and has no name."""
    if item.name is None and not isinstance(item.value, (Name, Member)):
        raise fault(f"Unnamed expressions are not supported in {where}. Please use '<expr> AS <name>'.", item.value.at)
    return item


_ENDS: Final = {-1: "PRECEDING", 0: "CURRENT ROW", 1: "FOLLOWING"}


def _direction(bound: int) -> int:
    """-1 before, 0 at, 1 after the current row."""
    return (bound > 0) - (bound < 0)


def _item_number(items: list[Item], item: Item) -> int:
    """The number of an item of GROUP BY; a new item is added to `items`."""
    for number, known in enumerate(items):
        if known.value == item.value and known.name == item.name:
            return number
    items.append(item)
    return len(items) - 1


def _renumber_sets(
    items: list[Item], sets: tuple[tuple[int, ...], ...]
) -> tuple[list[Item], tuple[tuple[int, ...], ...]]:
    """Renumber the items, and the sets that name them, in the order in which the sets first mention them."""
    order = list(dict.fromkeys(chain.from_iterable(sets)))
    places = {number: place for place, number in enumerate(order)}
    renumbered = tuple(tuple(sorted(places[number] for number in each)) for each in sets)
    return [items[number] for number in order], renumbered


def _combine_sets(
    elements: tuple[tuple[tuple[int, ...], ...] | None, ...], count: int, cursor: Grouping
) -> tuple[tuple[int, ...], ...]:
    """Every combination of one set from each element; each contains the items of the plain elements."""
    grouped = {number for element in elements if element is not None for each in element for number in each}
    plain = tuple(number for number in range(count) if number not in grouped)
    sets: list[tuple[int, ...]] = [plain]
    for element in elements:
        if element is not None:
            sets = [tuple(dict.fromkeys(before + each)) for before in sets for each in element]
        if len(sets) > _MAX_SETS:
            raise fault(f"More than {_MAX_SETS} grouping sets are not supported", cursor.at())
    return tuple(tuple(sorted(each)) for each in sets)
