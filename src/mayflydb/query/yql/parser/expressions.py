"""Expressions, by precedence.

From loose to tight: OR; AND; XOR; `= == != <>`, LIKE, IN, BETWEEN, IS; `< <= > >=`; `<< >> |<< >>| & | ^` and then
`??`; `+ -`; `* / %`; `||`; the prefixes `+ - ~ NOT`; the suffixes `[] () .`. So `NOT a = b` means `(NOT a) = b`, as in
YDB.
"""

from __future__ import annotations

from typing import Final

from mayflydb.query.yql.faults import fault
from mayflydb.query.yql.parser.calls import as_type
from mayflydb.query.yql.parser.operands import Operands
from mayflydb.query.yql.syntax import (
    Between,
    Binary,
    Expression,
    In,
    Like,
    ListLiteral,
    Subquery,
    TupleLiteral,
    TypeArgument,
    Unary,
)

OR, AND, XOR, CONDITION, COMPARISON, BITS, SUM, PRODUCT, CONCATENATION, OPERAND = range(1, 11)

BINDING_POWERS: Final = {
    "OR": OR,
    "AND": AND,
    "XOR": XOR,
    **dict.fromkeys(("=", "==", "!=", "<>", "IS", "ISNULL", "NOTNULL", "NOT", "IN", "BETWEEN"), CONDITION),
    **dict.fromkeys(("LIKE", "ILIKE", "GLOB", "REGEXP", "RLIKE", "MATCH"), CONDITION),
    **dict.fromkeys(("<", "<=", ">", ">="), COMPARISON),
    **dict.fromkeys(("<<", "|<<", "&", "|", "^", "?"), BITS),
    **dict.fromkeys(("+", "-"), SUM),
    **dict.fromkeys(("*", "/", "%"), PRODUCT),
    "||": CONCATENATION,
}
"""The binding power of each operator. Any other token ends an expression."""

PATTERN_OPERATORS: Final = frozenset({"LIKE", "ILIKE", "GLOB", "REGEXP", "RLIKE", "MATCH"})
EQUALITIES: Final = {"=": "==", "==": "==", "!=": "!=", "<>": "!="}

MAX_CHAIN: Final = 250
"""Operators in a row that the parser accepts as one deep tree. ANDs and ORs have no such limit."""
# AND and OR are associative in three-valued logic too, so a chain may be regrouped. Trees are walked
# recursively: one of 1,000 conditions that leans to one side would exceed Python's stack.
_BALANCED_FROM: Final = 24


class Expressions(Operands):
    def expression(self, level: int = OR) -> Expression:
        """Parse an expression of operators that bind at least as tightly as `level`."""
        left = self.operand()
        length = 0
        # `closed`: the last condition was IS NULL, LIKE, IN or BETWEEN, behind which no condition follows. `chained`:
        # a condition came before, so only an equality continues: `a = b = c` is `(a = b) = c`.
        closed = chained = False
        while True:
            kind = self.kinds[self.index]
            power = BINDING_POWERS.get(kind, 0)
            # `List<List<Int32>>` ends with `>>`, so the lexer has only `>`. Two of them side by side are a shift.
            if kind == ">" and self.next_kind == ">" and self.adjacent(2):
                power = BITS
            if power < level:
                return left
            # `Int32?` as an argument is a type; `??` is an operator.
            if kind == "?" and not self.is_coalescing():
                left = self._optional(left)
                continue
            if power == CONDITION:
                if closed or (chained and not self._is_equality()):
                    return left
                further = self._condition(left)
                if further is None:
                    return left
                left, closed = further
                chained = True
            elif power <= AND:
                left = self._logical(left, power)
            else:
                left = self._arithmetic(left, power)
            length += 1
            if length > MAX_CHAIN:
                raise fault(f"More than {MAX_CHAIN} operators in a row are not supported", self.at())

    def _logical(self, left: Expression, power: int) -> Expression:
        """Parse `a OR b OR c`. A long chain becomes a balanced tree, which means the same and is less deep."""
        operator = "OR" if power == OR else "AND"
        parts = [left]
        at = self.at()
        while self.accept(operator):
            parts.append(self.expression(power + 1))
        if len(parts) >= _BALANCED_FROM:
            return _balance(operator, parts)
        for part in parts[1:]:
            left = Binary(at, operator, left, part)
        return left

    def _arithmetic(self, left: Expression, power: int) -> Expression:
        kind, at = self.kind, self.at()
        if kind == "?":
            self.index += 2
            self.enter()
            # The right side takes operators of the same level: `a ?? b ?? c` is `a ?? (b ?? c)`. Each of them nests, so
            # each counts as a bracket.
            right = self.expression(BITS)
            self.leave()
            return Binary(at, "??", left, right)
        if kind == ">" and power == BITS:
            kind = ">>"
            self.index += 1
            if self.next_kind == "|" and self.adjacent(2):
                kind = ">>|"
                self.index += 1
        self.index += 1
        # The right side binds more tightly than the operator, so equal operators group to the left.
        return Binary(at, kind, left, self.expression(power + 1))

    def _optional(self, operand: Expression) -> Expression:
        """Parse the `?` of a type such as `Int32?` in the place of an expression."""
        named = as_type(operand)
        if named is None:
            raise fault("Unexpected token '?' at the end of expression", self.at())
        return TypeArgument(operand.at, self.optionals(named))

    # --- conditions -----------------------------------------------------------------------------------------------------

    def _is_equality(self) -> bool:
        """True if the next operator is an equality, which may follow another condition: `a = b = c`, but not `a = b IS
        NULL`."""
        if self.kind == "IS":
            return "DISTINCT" in (self.next_kind, self.kind_at(2) if self.next_kind == "NOT" else "")
        return self.kind in EQUALITIES

    def _condition(self, left: Expression) -> tuple[Expression, bool] | None:
        """Parse a condition after its left side; return it, and True if no other condition may follow.

        None if the next NOT belongs to no condition.
        """
        kind = self.kind
        at = left.at
        if kind in EQUALITIES:
            at = self.at()
            self.index += 1
            return Binary(at, EQUALITIES[kind], left, self.expression(COMPARISON)), False
        if kind == "IS":
            return self._is(left)
        if kind in ("ISNULL", "NOTNULL"):
            self.index += 1
            return Unary(at, "IS NULL" if kind == "ISNULL" else "IS NOT NULL", left), True
        negated = kind == "NOT"
        if negated:
            kind = self.next_kind
            if kind == "NULL":
                self.index += 2
                return Unary(at, "IS NOT NULL", left), True
            # Another NOT begins what follows the expression, such as NOT NULL of a column.
            if kind not in PATTERN_OPERATORS and kind not in ("IN", "BETWEEN"):
                return None
            self.index += 1
        self.index += 1
        if kind == "IN":
            compact = self.accept("COMPACT")
            return In(at, left, self._in_operand(), negated, compact), True
        if kind == "BETWEEN":
            return self._between(left, negated), True
        pattern = self.expression(COMPARISON)
        escape = None
        if self.accept("ESCAPE"):
            escape = self.expression(COMPARISON)
        return Like(at, kind, left, pattern, escape, negated), True

    def _is(self, left: Expression) -> tuple[Expression, bool]:
        self.index += 1
        negated = self.accept("NOT")
        if self.accept("NULL"):
            return Unary(left.at, "IS NOT NULL" if negated else "IS NULL", left), True
        if not self.accept("DISTINCT"):
            self.fail("DISTINCT", "NULL") if negated else self.fail("DISTINCT", "NOT", "NULL")
        self.expect("FROM")
        operator = "IS NOT DISTINCT FROM" if negated else "IS DISTINCT FROM"
        return Binary(left.at, operator, left, self.expression(COMPARISON)), False

    def _between(self, left: Expression, negated: bool) -> Between:
        symmetric = self.accept_any(("SYMMETRIC", "ASYMMETRIC")) == "SYMMETRIC"
        low = self.expression(COMPARISON)
        self.expect("AND")
        return Between(left.at, left, low, self.expression(COMPARISON), negated, symmetric)

    def _in_operand(self) -> Expression:
        """Parse the right side of IN. Parentheses make a list there, even of one item."""
        if self.kind != "(":
            return self.unsigned()
        start = self.at()
        inner, single = self.parentheses()
        # The parentheses were an operand, as in `IN (a, b).0`, and no list.
        if self.kind in (".", "["):
            return self.suffixes(inner)
        if single and not isinstance(inner, Subquery):
            return ListLiteral(start, (inner,))
        return ListLiteral(start, inner.items) if isinstance(inner, TupleLiteral) and not single else inner


def _balance(operator: str, parts: list[Expression]) -> Expression:
    if len(parts) == 1:
        return parts[0]
    middle = (len(parts) + 1) // 2
    return Binary(parts[0].at, operator, _balance(operator, parts[:middle]), _balance(operator, parts[middle:]))
