"""The columns of a SELECT list and their names.

In a join, `*` gives the columns of all tables without their tables' names. A column by which tables are joined appears
once, with the first of its values that is not NULL. A column written with its table is named `table.column`. With
DisableSimpleColumns all columns are named so.

Source: https://github.com/ydb-platform/ydb `yql/essentials/docs/en/syntax/pragma.md` (SimpleColumns).
"""

from __future__ import annotations

from collections.abc import Sequence

from mayflydb.query.yql.expression import Expression
from mayflydb.query.yql.faults import Position, fault, type_fault
from mayflydb.query.yql.plans.binder import Binder
from mayflydb.query.yql.plans.operators import bind_coalesce
from mayflydb.query.yql.plans.scopes import EMPTY, RowScope, no_member, slot
from mayflydb.query.yql.syntax import At, Item, Member, Name, Star
from mayflydb.query.yql.syntax import Expression as Tree

Columns = list[tuple[str, Expression]]


def bind_columns(binder: Binder, trees: Sequence[Item | Star], without: Sequence[str] = ()) -> Columns:
    """Bind the columns of a SELECT list, with their names. Faults: duplicate names."""
    columns: Columns = []
    stars = [each for each in trees if isinstance(each, Star)]
    _check_stars(stars, trees)
    written = {each.name or _implicit_name(binder, each.value) for each in trees if isinstance(each, Item)}
    gone: set[str] = set()
    for place, tree in enumerate(trees):
        if isinstance(tree, Star):
            columns.extend(_bind_star(binder, tree, without, gone, len(stars) > 1))
        else:
            columns.append(
                (
                    tree.name or _implicit_name(binder, tree.value) or _default_name(place, written),
                    binder.expression(tree.value),
                )
            )
    for each in without:
        if stars and each not in gone:
            raise no_member(each, stars[0].at)
    # With a star, YQL orders all columns of the result by their names, unless OrderedColumns is on.
    if stars and not binder.context.ordered_columns:
        columns.sort(key=lambda each: each[0])
    seen: set[str] = set()
    for name, _ in columns:
        if name in seen:
            raise fault(f"Unable to use duplicate column names. Collision in name: {name}", trees[0].at)
        seen.add(name)
    return columns


def _check_stars(stars: Sequence[Star], trees: Sequence[Item | Star]) -> None:
    for each in stars:
        if each.source is None and len(trees) > 1:
            raise fault(
                "Unable to use plain '*' with other projection items. Please use qualified asterisk instead: "
                "'<table>.*' (<table> can be either table name or table alias).",
                each.at,
            )
    met: set[str | None] = set()
    for each in stars:
        if each.source in met:
            raise fault(f"Unable to use twice same qualified asterisk. Invalid source: {each.source}", each.at)
        met.add(each.source)


def _implicit_name(binder: Binder, tree: Tree) -> str | None:
    """The implicit name of a column; None for an expression that is no name."""
    if isinstance(tree, Name):
        return tree.name
    if isinstance(tree, Member) and isinstance(tree.name, str):
        of = tree.of
        if isinstance(of, Name) and of.name in binder.scope.sources and binder.scope.joined:
            return f"{of.name}.{tree.name}"
        return tree.name
    return None


def _default_name(place: int, written: set[str | None]) -> str:
    """Return `column0`, `column1`, ... for a column without a name: its number, or the next that is free."""
    while f"column{place}" in written:
        place += 1
    written.add(f"column{place}")
    return f"column{place}"


def _bind_star(binder: Binder, tree: Star, without: Sequence[str], gone: set[str], several: bool) -> Columns:
    """Bind `*` or `t.*`. `gone` collects the columns that WITHOUT removes; `several`: the list has other stars."""
    scope = binder.scope
    if scope is EMPTY:
        raise fault("* is not allowed without FROM", tree.at)
    # A star reads the row, also where all of its columns are removed again.
    binder.context.row_uses += 1
    if tree.source is not None and tree.source not in scope.sources:
        joined = "for asterisk" if scope.joined else ""
        raise fault(f"Unknown correlation name {joined}".rstrip() + f": {tree.source}", tree.at)
    simple = binder.context.simple_columns
    prefixed = not simple and (scope.joined or tree.source is not None)
    shared = scope.shared if simple and (tree.source is None or several) else {}
    found: Columns = []
    for index, field in enumerate(scope.fields):
        if not field.name or (tree.source is not None and field.source != tree.source):
            continue
        full = f"{field.source}.{field.name}"
        if field.name in without or full in without:
            gone.update((field.name, full))
        elif field.source not in shared.get(field.name, ()):
            found.append((full if prefixed else field.name, slot(field.type, index)))
        elif _is_first(scope, index, without):
            found.append((field.name, _coalesce_join_columns(scope, field.name, tree.at)))
    if tree.source is None:
        _check_collisions(found, tree)
    return found


def _is_first(scope: RowScope, index: int, without: Sequence[str]) -> bool:
    """True if no earlier table has this join column."""
    name, owners = scope.fields[index].name, scope.shared[scope.fields[index].name]
    for place, field in enumerate(scope.fields):
        if field.name == name and field.source in owners and f"{field.source}.{name}" not in without:
            return place == index
    return False


def _coalesce_join_columns(scope: RowScope, name: str, at: Position) -> Expression:
    """The first value that is not NULL of the join columns of this name."""
    owners = scope.shared[name]
    same = [slot(f.type, i) for i, f in enumerate(scope.fields) if f.name == name and f.source in owners]
    return bind_coalesce(list(same), at)


def _check_collisions(columns: Columns, tree: Star) -> None:
    met: set[str] = set()
    for name in sorted(name for name, _ in columns):
        if name in met:
            raise type_fault("SqlProject", f"Duplicated member: {name}", tree.at)
        met.add(name)


def bind_row_columns(binder: Binder, prefixed: bool, at: At) -> Columns:
    """The columns of TableRow(), or with `prefixed` of JoinTableRow(), in the order of their names."""
    scope = binder.scope
    joined = scope.joined
    if joined and not prefixed and binder.context.simple_columns:
        return sorted(_bind_star(binder, Star(at), (), set(), several=False), key=lambda each: each[0])
    found: Columns = [
        (f"{each.source}.{each.name}" if joined else each.name, slot(each.type, index))
        for index, each in enumerate(scope.fields)
    ]
    return sorted(found, key=lambda each: each[0])
