"""Binding of FROM and its joins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import msgspec

from mayflydb.query.yql.expression import Evaluate, Expression
from mayflydb.query.yql.faults import fault
from mayflydb.query.yql.plans.access import choose_access_path
from mayflydb.query.yql.plans.binder import Binder, Context, Names
from mayflydb.query.yql.plans.bound import BoundQuery
from mayflydb.query.yql.plans.constraints import find_column_conversion
from mayflydb.query.yql.plans.join_execution import JoinKey, JoinRows, JoinSide, LookupRows
from mayflydb.query.yql.plans.membership import find_common_keys
from mayflydb.query.yql.plans.operators import adapt_literal
from mayflydb.query.yql.plans.plan import Relation
from mayflydb.query.yql.plans.relations import FilterRows, Scan, project
from mayflydb.query.yql.plans.scopes import Field, RowScope, Slot, slot
from mayflydb.query.yql.plans.sources import bind_source
from mayflydb.query.yql.plans.trees import conjuncts, nodes
from mayflydb.query.yql.plans.values import bind_condition
from mayflydb.query.yql.schemas import Table
from mayflydb.query.yql.syntax import Binary, From, FunctionCall, Join, Lambda, Member, Name, Select, Subquery
from mayflydb.query.yql.syntax import Expression as Tree
from mayflydb.query.yql.types import bare, format_long, optional


def bind_from(
    context: Context, names: Names, tree: From, wanted: frozenset[str] | None, where: Tree | None = None
) -> BoundQuery:
    """Bind FROM, joining from left to right. Conditions of `where` on one source alone filter that source before the
    join."""
    bound = bind_source(context, names, tree.first, wanted)
    if not tree.joins:
        return bound
    rights = [bind_source(context, names, join.right, wanted) for join in tree.joins]
    _check_sources((bound, *rights), tree)
    kinds = [join.kind for join in tree.joins]
    parts = conjuncts(where)
    if not any(kind in _LEFT_NOT_KEPT for kind in kinds):
        bound = _push_down(context, names, bound, rights, parts)
    for place, (join, right) in enumerate(zip(tree.joins, rights, strict=True)):
        # A condition on the right side may not move below LEFT: rows that it drops would come back with NULLs.
        strict = join.kind in ("INNER", "CROSS") and not any(kind in _LEFT_NOT_KEPT for kind in kinds[place + 1 :])
        others = [bound, *rights[:place], *rights[place + 1 :]]
        mine = [each for each in parts if _is_about_one_source(context, names, each, right, others)] if strict else []
        any_sides = tree.any and place == 0, join.any
        bound = _bind_join(context, names, bound, right, join, mine, any_sides)
    return bound


_LEFT_NOT_KEPT = ("RIGHT", "FULL", "EXCLUSION", "RIGHT SEMI", "RIGHT ONLY")
"""Joins that can drop rows of the left side, or replace them by NULLs. A condition on the left side must not move below
them."""


def _check_sources(sources: Sequence[BoundQuery], tree: From) -> None:
    known: set[str] = set()
    for place, each in enumerate(sources):
        if known & each.sources:
            on = tree.joins[place - 1].on
            at = tree.at if on is None else on.at
            raise fault("JOIN: different correlation names are required for joined tables", at)
        if "" in each.sources:
            raise fault("JOIN: missing correlation name for source", tree.at)
        known |= each.sources


def _is_about_one_source(
    context: Context, names: Names, part: Tree, bound: BoundQuery, others: Sequence[BoundQuery]
) -> bool:
    """True if a condition names columns of `bound`, and of no other source."""
    # A subquery and a lambda have scopes of their own, and a call may read the whole row: TableRow().
    if any(isinstance(each, (Subquery, FunctionCall, Lambda)) for each in nodes(part)):
        return False
    for name in nodes(part):
        if isinstance(name, Name) and any(each.name == name.name for other in others for each in other.fields):
            return not _is_bare(name, part) and _is_of_side(part, _bind_over(context, names, bound))
    return _is_of_side(part, _bind_over(context, names, bound))


def _is_bare(name: Name, tree: Tree) -> bool:
    """True if the tree names the column without a source."""
    return not any(isinstance(node, Member) and node.of is name for node in nodes(tree)) and not any(
        isinstance(node, Member) and node.name == name.name for node in nodes(tree)
    )


def _push_down(
    context: Context, names: Names, bound: BoundQuery, others: Sequence[BoundQuery], parts: Sequence[Tree]
) -> BoundQuery:
    """Filter a source by the conditions that are about it alone."""
    mine = [each for each in parts if _is_about_one_source(context, names, each, bound, others)]
    return _filter_source(context, names, bound, mine)


def _filter_source(context: Context, names: Names, bound: BoundQuery, parts: Sequence[Tree]) -> BoundQuery:
    if not parts:
        return bound
    binder = _bind_over(context, names, bound)
    relation, exact = bound.relation, False
    whole = reduce(lambda a, b: Binary(a.at, "AND", a, b), parts)
    if isinstance(relation, Scan) and bound.table is not None:
        choice = choose_access_path(binder, relation, bound.table, Select(whole.at, (), where=whole), ())
        relation, exact = choice.scan, choice.exact
    if not exact:
        relation = FilterRows(relation, bind_condition(binder.expression(whole), "Where", whole.at))
    return msgspec.structs.replace(bound, relation=relation, table=None)


AnySides = tuple[bool, bool]
"""(left, right): True for a side of which one row of each key takes part (ANY)."""


def _bind_join(
    context: Context,
    names: Names,
    left: BoundQuery,
    right: BoundQuery,
    join: Join,
    parts: Sequence[Tree],
    any_sides: AnySides,
) -> BoundQuery:
    kind = join.kind
    pairs = _bind_equalities(context, names, left, right, join)
    shared = _shared_columns(left, right, pairs)
    # RIGHT SEMI and RIGHT ONLY are LEFT SEMI and LEFT ONLY with the sides exchanged.
    if kind.startswith("RIGHT") and kind != "RIGHT":
        turned = [(b, a, (y, x)) for a, b, (x, y) in pairs]
        bound = _join_sides(context, names, right, left, turned, kind.replace("RIGHT", "LEFT"), parts, any_sides[::-1])
    else:
        bound = _join_sides(context, names, left, right, pairs, kind, parts, any_sides)
    return msgspec.structs.replace(bound, shared=shared)


def _shared_columns(left: BoundQuery, right: BoundQuery, pairs: Sequence[JoinEquality]) -> Mapping[str, frozenset[str]]:
    """The columns of equal names by which the sides are joined, with the names of their tables."""
    found = {**left.shared, **right.shared}
    for _, _, (a, b) in pairs:
        if isinstance(a, Slot) and isinstance(b, Slot):
            first, second = left.fields[a.index], right.fields[b.index]
            if first.name == second.name:
                found[first.name] = found.get(first.name, frozenset()) | {first.source, second.source}
    return found


def _join_sides(
    context: Context,
    names: Names,
    left: BoundQuery,
    right: BoundQuery,
    pairs: list[JoinEquality],
    kind: str,
    parts: Sequence[Tree],
    any_sides: AnySides,
) -> BoundQuery:
    first, second = _nullable_sides(kind)
    left_fields = tuple(_as_nullable(each, first) for each in left.fields)
    right_fields = tuple(_as_nullable(each, second) for each in right.fields)
    lookup = None
    if kind in _LOOKUPS and isinstance(right.relation, Scan) and right.table:
        lookup = _find_lookup(right.relation, right.table, right.fields, pairs)
    if lookup is None:
        # A lookup reads by the keys of the left side, so conditions on the right one stay in the WHERE above.
        right = _filter_source(context, names, right, parts)
        if kind == "INNER" and not any(any_sides) and (turned := _swap_sides(left, right, pairs)) is not None:
            return turned
    left_side = JoinSide(left.relation, tuple(a for a, _, _ in pairs), len(left.fields), any_sides[0])
    right_side = JoinSide(right.relation, tuple(b for _, b, _ in pairs), len(right.fields), any_sides[1])
    one_sided = kind in ("LEFT SEMI", "LEFT ONLY")
    fields = left_fields if one_sided else left_fields + right_fields
    sources = left.sources if one_sided else left.sources | right.sources
    if lookup is not None:
        return BoundQuery(LookupRows(kind, left_side, right_side, *lookup), fields, sources=sources)
    return BoundQuery(JoinRows(kind, left_side, right_side), fields, sources=sources)


def _swap_sides(left: BoundQuery, right: BoundQuery, pairs: list[JoinEquality]) -> BoundQuery | None:
    """Bind an INNER JOIN with the sides swapped, if the right side reads little and the left table can be looked up by
    it."""
    scan = left.relation
    if not isinstance(scan, Scan) or left.table is None or not _is_narrow(right.relation):
        return None
    lookup = _find_lookup(scan, left.table, left.fields, [(b, a, (y, x)) for a, b, (x, y) in pairs])
    if lookup is None:
        return None
    first = JoinSide(right.relation, tuple(b for _, b, _ in pairs), len(right.fields))
    second = JoinSide(scan, tuple(a for a, _, _ in pairs), len(left.fields))
    here, there = len(right.fields), len(left.fields)
    values = [slot(each.type, here + place) for place, each in enumerate(left.fields)]
    values += [slot(each.type, place) for place, each in enumerate(right.fields)]
    relation = project(LookupRows("INNER", first, second, *lookup), values, here + there)
    return BoundQuery(relation, left.fields + right.fields, sources=left.sources | right.sources)


def _is_narrow(relation: Relation) -> bool:
    if isinstance(relation, FilterRows):
        relation = relation.source
    return isinstance(relation, Scan) and relation.ranges is not None


_LOOKUPS = ("INNER", "LEFT", "LEFT SEMI", "LEFT ONLY")


def _nullable_sides(kind: str) -> tuple[bool, bool]:
    """True for each side (left, right) whose columns may be NULL, because its row may be missing."""
    return kind in ("RIGHT", "FULL", "EXCLUSION"), kind in ("LEFT", "FULL", "EXCLUSION")


def _as_nullable(field: Field, absent: bool) -> Field:
    type = optional(field.type) if absent else field.type
    return Field(field.name, type, field.source)


JoinEquality = tuple[JoinKey, JoinKey, tuple[Expression, Expression]]


def _bind_equalities(
    context: Context, names: Names, left: BoundQuery, right: BoundQuery, join: Join
) -> list[JoinEquality]:
    """Bind the equalities of ON or USING."""
    if join.kind == "CROSS":
        return []
    first, second = _bind_over(context, names, left), _bind_over(context, names, right)
    trees: list[tuple[Tree, Tree]] = []
    if join.using:
        trees = [(Name(join.at, each), Name(join.at, each)) for each in join.using]
    elif join.on is None:
        raise fault(f"Expected ON or USING expression for {join.kind} JOIN", join.at)
    else:
        trees = [_split_equality(each, first, second) for each in conjuncts(join.on)]
    return [_bind_equality(first.expression(a), second.expression(b), join) for a, b in trees]


def _bind_over(context: Context, names: Names, bound: BoundQuery) -> Binder:
    return Binder(context, names, RowScope(bound.fields, bound.sources))


def _split_equality(tree: Tree, first: Binder, second: Binder) -> tuple[Tree, Tree]:
    """The operands of `a.x == b.y`, with the left source's operand first."""
    if not isinstance(tree, Binary) or tree.operator != "==":
        raise fault("JOIN ON expression must be a conjunction of equality predicates", tree.at)
    _check_names(tree, first, second)
    if _is_of_side(tree.left, first) and _is_of_side(tree.right, second):
        return tree.left, tree.right
    if _is_of_side(tree.right, first) and _is_of_side(tree.left, second):
        return tree.right, tree.left
    if _is_of_side(tree.left, first) and _is_of_side(tree.right, first):
        raise fault("JOIN ON equality predicate must have one of its arguments from the rightmost source", tree.at)
    raise fault("JOIN: each equality predicate argument must depend on exactly one JOIN input", tree.at)


def _check_names(tree: Binary, first: Binder, second: Binder) -> None:
    """Check the names in an equality of ON. Faults: a column without a source, a source not joined yet, one source on
    both sides."""
    known = first.scope.sources | second.scope.sources
    used: list[set[str]] = []
    for operand in (tree.left, tree.right):
        members = [each for each in nodes(operand) if isinstance(each, Member) and isinstance(each.of, Name)]
        of = {each.of.name for each in members if isinstance(each.of, Name)}
        if any(isinstance(each, Name) and each.name not in known and each.name not in of for each in nodes(operand)):
            raise fault("JOIN: column requires correlation name", tree.at)
        if len(of) != 1:
            raise fault("JOIN: each equality predicate argument must depend on exactly one JOIN input", tree.at)
        if not of <= known:
            raise fault(
                f"JOIN: can not use source: {min(of)} in equality predicate, it is out of current join scope", tree.at
            )
        used.append(of)
    if used[0] == used[1]:
        raise fault("JOIN: different correlation names are required for joined tables", tree.at)


def _is_of_side(tree: Tree, binder: Binder) -> bool:
    """True if `tree` names at least one column, and all of them are of this side."""
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


def _bind_equality(left: Expression, right: Expression, join: Join) -> JoinEquality:
    left, right = adapt_literal(left, right)
    found = find_common_keys(bare(left.type), bare(right.type))
    if found is None:
        kinds = f"{format_long(left.type)} and {format_long(right.type)}"
        raise fault(f"Cannot compare key columns of JOIN: {kinds}", join.at)
    return JoinKey(left.evaluate, found[0]), JoinKey(right.evaluate, found[1]), (left, right)


def _find_lookup(
    scan: Scan, table: Table, fields: tuple[Field, ...], pairs: list[JoinEquality]
) -> tuple[tuple[Evaluate, ...], tuple[str, ...]] | None:
    """The functions from a row of the left side to the first columns of the right table's key, and the names of these
    columns.

    None if no key column has an equality.
    """
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
        to_column = find_column_conversion(bare(left.type), bare(right.type))
        if to_column is not None:
            by_name[fields[index].name] = (left.evaluate, to_column)
    found: list[Evaluate] = []
    for name in key:
        if name not in by_name:
            break
        found.append(_convert_to_column(*by_name[name]))
    return (tuple(found), key[: len(found)]) if found else None


def _convert_to_column(evaluate: Evaluate, to_column: object) -> Evaluate:
    assert callable(to_column)
    return lambda row, run: None if (value := evaluate(row, run)) is None else to_column(value)
