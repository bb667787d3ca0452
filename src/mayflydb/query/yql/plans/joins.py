"""FROM with its joins."""

from __future__ import annotations

from mayflydb.query.yql.expression import Evaluate, Expression
from mayflydb.query.yql.faults import fault, unsupported
from mayflydb.query.yql.plans.binder import Binder, Context
from mayflydb.query.yql.plans.constraints import fitting
from mayflydb.query.yql.plans.joining import JoinRows, LookupRows, Pairing, Side
from mayflydb.query.yql.plans.membership import keys
from mayflydb.query.yql.plans.operators import alike
from mayflydb.query.yql.plans.relations import Scan
from mayflydb.query.yql.plans.scopes import Field, Names, Scope
from mayflydb.query.yql.plans.sources import Bound, bind_source
from mayflydb.query.yql.plans.trees import conjuncts, nodes
from mayflydb.query.yql.schemas import Table
from mayflydb.query.yql.syntax import Binary, From, Join, Member, Name
from mayflydb.query.yql.syntax import Expression as Tree
from mayflydb.query.yql.types import bare, format_long, optional


def bind_from(context: Context, names: Names, tree: From, wanted: frozenset[str] | None) -> Bound:
    """All that FROM names, joined from left to right."""
    bound = bind_source(context, names, tree.first, wanted)
    for join in tree.joins:
        right = bind_source(context, names, join.right, wanted)
        known = {each.source for each in bound.fields}
        if any(each.source in known for each in right.fields):
            raise fault(f"Duplicate source in join: {right.fields[0].source}", join.at)
        bound = _joined(context, names, bound, right, join)
    return bound


def _joined(context: Context, names: Names, left: Bound, right: Bound, join: Join) -> Bound:
    kind = join.kind
    if join.any:
        raise unsupported("ANY in JOIN", join.at)
    if kind.startswith("RIGHT") and kind != "RIGHT":
        return _oriented(context, names, right, left, join, kind.replace("RIGHT", "LEFT"), swapped=True)
    return _oriented(context, names, left, right, join, kind, swapped=False)


def _oriented(context: Context, names: Names, left: Bound, right: Bound, join: Join, kind: str, swapped: bool) -> Bound:
    pairs = _pairs(context, names, left, right, join)
    first, second = _sides(kind)
    left_fields = tuple(_as(each, first, join.using) for each in left.fields)
    right_fields = tuple(_as(each, second, join.using) for each in right.fields)
    left_side = Side(left.relation, tuple(a for a, _, _ in pairs), len(left.fields))
    right_side = Side(right.relation, tuple(b for _, b, _ in pairs), len(right.fields))
    one_sided = kind in ("LEFT SEMI", "LEFT ONLY")
    fields = left_fields if one_sided else left_fields + right_fields
    lookup = None
    if kind in ("INNER", "LEFT", "LEFT SEMI", "LEFT ONLY") and isinstance(right.relation, Scan) and right.table:
        lookup = _lookup(right.relation, right.table, right.fields, pairs)
    if lookup is not None:
        return Bound(LookupRows(kind, left_side, right_side, lookup), fields)
    return Bound(JoinRows(kind, left_side, right_side), fields)


def _sides(kind: str) -> tuple[bool, bool]:
    """Whether columns of the left side, and of the right, may be NULL because there is no row."""
    return kind in ("RIGHT", "FULL", "EXCLUSION"), kind in ("LEFT", "FULL", "EXCLUSION")


def _as(field: Field, absent: bool, using: tuple[str, ...]) -> Field:
    type = optional(field.type) if absent else field.type
    return Field(field.name, type, field.source)


Pair = tuple[Pairing, Pairing, tuple[Expression, Expression]]


def _pairs(context: Context, names: Names, left: Bound, right: Bound, join: Join) -> list[Pair]:
    """What has to be equal on both sides."""
    if join.kind == "CROSS":
        return []
    first, second = Binder(context, names, Scope(left.fields)), Binder(context, names, Scope(right.fields))
    trees: list[tuple[Tree, Tree]] = []
    if join.using:
        trees = [(Name(join.at, each), Name(join.at, each)) for each in join.using]
    elif join.on is None:
        raise fault(f"Expected ON or USING expression for {join.kind} JOIN", join.at)
    else:
        trees = [_equality(each, first, second) for each in conjuncts(join.on)]
    return [_pair(first.expression(a), second.expression(b), join) for a, b in trees]


def _equality(tree: Tree, first: Binder, second: Binder) -> tuple[Tree, Tree]:
    """The two sides of `a.x == b.y`, that of the left source first."""
    if not isinstance(tree, Binary) or tree.operator != "==":
        raise fault("JOIN ON expression must be a conjunction of equality predicates", tree.at)
    if _belongs(tree.left, first) and _belongs(tree.right, second):
        return tree.left, tree.right
    if _belongs(tree.right, first) and _belongs(tree.left, second):
        return tree.right, tree.left
    raise fault("JOIN ON expression must compare a column of each side", tree.at)


def _belongs(tree: Tree, binder: Binder) -> bool:
    """Whether all columns in `tree`, and at least one, are of this side."""
    found = False
    for node in nodes(tree):
        if isinstance(node, Member) and isinstance(node.of, Name) and isinstance(node.name, str):
            if binder.scope.find(node.name, node.of.name) is None:
                return False
            found = True
        elif isinstance(node, Name) and node.name not in binder.scope.sources:
            if binder.scope.find(node.name) is None:
                return any(isinstance(n, Member) and n.of == node for n in nodes(tree)) and found
            found = True
    return found


def _pair(left: Expression, right: Expression, join: Join) -> Pair:
    left, right = alike(left, right)
    found = keys(bare(left.type), bare(right.type))
    if found is None:
        kinds = f"{format_long(left.type)} and {format_long(right.type)}"
        raise fault(f"Cannot compare key columns of JOIN: {kinds}", join.at)
    return Pairing(left.evaluate, found[0]), Pairing(right.evaluate, found[1]), (left, right)


def _lookup(scan: Scan, table: Table, fields: tuple[Field, ...], pairs: list[Pair]) -> tuple[Evaluate, ...] | None:
    """What gives, for a row of the left side, the first columns of the right table's key; None: nothing does."""
    if scan.ranges is not None:
        return None
    key = table.key
    if scan.index is not None:
        columns = next(each.columns for each in table.indexes if each.name == scan.index)
        key = (*columns, *(name for name in table.key if name not in columns))
    by_name = {}
    for _, _, (left, right) in pairs:
        index = getattr(right, "index", None)
        if index is None:
            continue
        fit = fitting(bare(left.type), bare(right.type))
        if fit is not None:
            by_name[fields[index].name] = (left.evaluate, fit)
    found: list[Evaluate] = []
    for name in key:
        if name not in by_name:
            break
        found.append(_fitted(*by_name[name]))
    return tuple(found) or None


def _fitted(evaluate: Evaluate, fit: object) -> Evaluate:
    assert callable(fit)
    return lambda row, run: None if (value := evaluate(row, run)) is None else fit(value)
