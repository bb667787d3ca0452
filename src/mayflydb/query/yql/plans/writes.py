"""Binding of UPSERT, REPLACE, INSERT, UPDATE and DELETE."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import msgspec

from mayflydb.query.yql.expression import Evaluate, Expression
from mayflydb.query.yql.faults import WARNING, Fault, Issue, Position, fault, type_fault, unsupported
from mayflydb.query.yql.plans.access import choose_access_path
from mayflydb.query.yql.plans.binder import Binder, Context, Names
from mayflydb.query.yql.plans.bound import bind_query
from mayflydb.query.yql.plans.columns import bind_columns
from mayflydb.query.yql.plans.plan import Action, Batch, Relation, ResultColumns
from mayflydb.query.yql.plans.relations import FilterRows, Scan, ValueRows, collect_rows, project
from mayflydb.query.yql.plans.scopes import Field, RowScope, no_member, slot
from mayflydb.query.yql.plans.sources import resolve_table
from mayflydb.query.yql.plans.trees import named_columns
from mayflydb.query.yql.plans.values import bind_condition, convert
from mayflydb.query.yql.schemas import Column, Effect, Run, Table, Tables, Verb
from mayflydb.query.yql.statements import Delete, Update, Write
from mayflydb.query.yql.syntax import Item, Query, Select, Star, Values
from mayflydb.query.yql.types import NULL, StructType, Type, bare, format_long, is_optional

BoundWrite = tuple[Action, ResultColumns | None]


class Change(msgspec.Struct, frozen=True):
    """A write of all rows of `source`, which are values of `columns`.

    `returning`: the columns to read back. `returned`: the expressions of RETURNING over them.
    """

    verb: Verb
    table: str
    columns: tuple[str, ...]
    source: Relation
    returning: tuple[str, ...] | None = None
    returned: tuple[Evaluate, ...] = ()
    ignore_existing: bool = False

    def inputs(self) -> tuple[Relation, ...]:
        return (self.source,)

    async def act(self, run: Run, tables: Tables) -> AsyncIterator[Batch]:
        """Write all rows. The source is read completely before the first write, so that a statement does not see its
        own writes."""
        rows = await collect_rows(self.source, run, tables)
        if not rows:
            return
        effect = Effect(self.verb, self.table, self.columns, rows, self.returning, self.ignore_existing)
        back = await tables.write(effect)
        run.budget += len(rows)
        if self.returning is not None:
            values = self.returned
            yield [tuple([each(row, run) for each in values]) for row in back]


def bind_write(context: Context, names: Names, statement: Write | Update | Delete) -> BoundWrite:
    """Bind a write, and the columns of RETURNING. Faults: names and types, missing columns, read-only tables."""
    found = resolve_table(context, statement.table)
    if not isinstance(found, Table) or not found.writable:
        raise fault(f"Table {found.path} is read only", statement.at)
    if statement.table.view is not None:
        raise fault("VIEW is not allowed in a write", statement.at)
    context.writes.add(found.path)
    if isinstance(statement, Write):
        change = _bind_into(context, names, statement, found)
    elif isinstance(statement, Update):
        change = _bind_update(context, names, statement, found)
    else:
        change = _bind_delete(context, names, statement, found)
    return _bind_returning(context, names, change, found, statement.returning)


# --- UPSERT, REPLACE, INSERT -----------------------------------------------------------------------------------------


def _bind_into(context: Context, names: Names, statement: Write, table: Table) -> Change:
    if statement.or_ not in (None, "ABORT", "IGNORE"):
        raise unsupported(f"INSERT OR {statement.or_}", statement.at)
    columns, source = _bind_rows(context, names, statement.source, statement.columns, table, statement.at)
    check_columns(table, columns, statement.at)
    ignore = statement.or_ == "IGNORE"
    return Change(statement.verb, table.path, columns, source, ignore_existing=ignore)


def check_columns(table: Table, columns: Sequence[str], at: Position) -> None:
    """Refuse a write of new rows without the columns that they need."""
    numbered = {column.name for column in table.columns if column.serial}
    for name in table.key:
        if name not in columns and name not in numbered:
            raise missing_key_fault(name, at)
    for column in table.columns:
        if column.not_null and not (column.has_default or column.serial) and column.name not in columns:
            raise fault(
                f"Missing not null column in input: {column.name}. All not null columns should be initialized",
                at,
                "BAD_REQUEST",
                2032,
            )


def missing_key_fault(name: str, at: Position) -> Fault:
    return fault(f"Missing key column in input type: {name}", at, "PRECONDITION_FAILED", 2029)


def _bind_rows(
    context: Context, names: Names, query: Query, columns: tuple[str, ...] | None, table: Table, at: Position
) -> tuple[tuple[str, ...], Relation]:
    """The names of the columns to write, and their rows, converted to the types of the table."""
    if isinstance(query, Values):
        columns = columns or tuple(each.name for each in table.columns)
        return columns, _bind_values(context, names, query, columns, table)
    bound = bind_query(context, names, query)
    given = tuple(each.name for each in bound.fields)
    if columns is None:
        columns = given
    # Columns of a star or a UNION are taken by name, since the text does not show their order; others by position.
    elif _has_star(query):
        return columns, _project_columns(bound.relation, bound.fields, columns, table, at)
    elif len(columns) != len(given):
        raise fault(f"SELECT has {len(given)} columns, but the statement expects: {len(columns)}", at)
    elif columns != given:
        text = "Column names in SELECT don't match column specification in parenthesis"
        context.warnings.append(Issue(text, 4517, WARNING, at))
    fields = [msgspec.structs.replace(f, name=n) for f, n in zip(bound.fields, columns, strict=True)]
    return columns, _project_columns(bound.relation, fields, columns, table, at)


def _has_star(query: Query) -> bool:
    return not isinstance(query, Select) or any(isinstance(each, Star) for each in query.items)


def _bind_values(context: Context, names: Names, query: Values, columns: tuple[str, ...], table: Table) -> Relation:
    binder = Binder(context, names)
    targets = _targets(table, columns, query.at)
    rows = []
    for row in query.rows:
        if len(row) != len(columns):
            raise fault(f"VALUES have {len(row)} columns, INTO expects: {len(columns)}", query.at)
        cells = [
            fit_to_column(binder.expression(tree), target, tree.at) for tree, target in zip(row, targets, strict=True)
        ]
        rows.append(tuple(each.evaluate for each in cells))
    return ValueRows(tuple(rows))


def _project_columns(
    relation: Relation, fields: Sequence[Field], columns: tuple[str, ...], table: Table, at: Position
) -> Relation:
    scope = RowScope(fields)
    values = []
    for name, target in zip(columns, _targets(table, columns, at), strict=True):
        index = scope.find(name)
        if index is None:
            raise no_member(name, at)
        values.append(fit_to_column(fields[index].literal or slot(fields[index].type, index), target, at))
    return project(relation, values, len(fields))


def _targets(table: Table, columns: Sequence[str], at: Position) -> list[Column]:
    """The columns of these names. Faults: an unknown or a repeated name."""
    known = {each.name: each for each in table.columns}
    for place, name in enumerate(columns):
        if name not in known:
            raise no_member(name, at)
        if name in columns[:place]:
            raise fault(f"Duplicated column: {name}", at)
    return [known[name] for name in columns]


def fit_to_column(value: Expression, column: Column, at: Position) -> Expression:
    """Convert a value to the type of a column. Faults: the types do not allow it."""
    # YDB names NULL as the problem only if nothing but the Optional is wrong.
    if column.not_null and is_optional(value.type) and (value.type == NULL or _fits(value, column.type)):
        raise fault(
            f"Can't set NULL or optional value to not null column: {column.name}. "
            "All not null columns should be initialized",
            at,
            "BAD_REQUEST",
            2031,
        )
    made = convert(value, column.type)
    if made is None:
        raise conversion_fault(column.name, value.type, column.type, at)
    return made


def _fits(value: Expression, to: Type) -> bool:
    return convert(msgspec.structs.replace(value, type=bare(value.type)), to) is not None


def conversion_fault(name: str, given: Type, wanted: Type, at: Position) -> Fault:
    """`Failed to convert type: Struct<..> to Struct<..>` > `Failed to convert 'v': String to Optional<Int32>`."""
    source, target = StructType(((name, given),)), StructType(((name, wanted),))
    cause = Issue(f"Failed to convert '{name}': {format_long(given)} to {format_long(wanted)}", position=at)
    outer = type_fault("KiWriteTable!", "", at).issues[0]
    whole = f"Failed to convert type: {format_long(source)} to {format_long(target)}"
    text = Issue(whole, position=at, issues=(cause,))
    inner = msgspec.structs.replace(outer.issues[0], issues=(text,))
    return Fault("GENERIC_ERROR", msgspec.structs.replace(outer, issues=(inner,)))


# --- UPDATE, DELETE --------------------------------------------------------------------------------------------------


def _bind_update(context: Context, names: Names, statement: Update, table: Table) -> Change:
    if statement.on is not None:
        columns, source = _bind_rows(context, names, statement.on[1], statement.on[0], table, statement.at)
        for name in table.key:
            if name not in columns:
                raise missing_key_fault(name, statement.at)
        return Change("UPDATE", table.path, columns, source)
    targets = _targets(table, [name for name, _ in statement.sets], statement.at)
    for each in targets:
        if each.name in table.key:
            raise fault(f"Cannot update primary key column: {each.name}", statement.at)
    binder, relation = _find_rows(context, names, table, statement)
    values: list[Expression] = [binder.scope.slot(name, None, statement.at) for name in table.key]
    for (_, tree), target in zip(statement.sets, targets, strict=True):
        values.append(fit_to_column(binder.expression(tree), target, tree.at))
    columns = (*table.key, *(each.name for each in targets))
    return Change("UPDATE", table.path, columns, project(relation, values, len(binder.scope)))


def _bind_delete(context: Context, names: Names, statement: Delete, table: Table) -> Change:
    if statement.on is not None:
        query = statement.on[1]
        columns, source = _bind_rows(context, names, query, statement.on[0], table, statement.at)
        for name in table.key:
            if name not in columns:
                raise missing_key_fault(name, statement.at)
        # Columns beside the key are allowed and ignored.
        keys = [slot(_type(table, name), columns.index(name)) for name in table.key]
        return Change("DELETE", table.path, table.key, project(source, keys, len(columns)))
    binder, relation = _find_rows(context, names, table, statement)
    keys = [binder.scope.slot(name, None, statement.at) for name in table.key]
    return Change("DELETE", table.path, table.key, project(relation, keys, len(binder.scope)))


def _type(table: Table, name: str) -> Type:
    return next(each.type for each in table.columns if each.name == name)


def _find_rows(context: Context, names: Names, table: Table, statement: Update | Delete) -> tuple[Binder, Relation]:
    """The rows that match WHERE, with the key and all columns that the statement may name."""
    context.reads.add(table.path)
    mentioned = named_columns(statement) | set(table.key)
    columns = [each for each in table.columns if each.name in mentioned]
    alias = statement.table.name
    scope = RowScope([Field(each.name, each.type, alias) for each in columns])
    binder = Binder(context, names, scope)
    scan = Scan(table.path, tuple(each.name for each in columns))
    if statement.where is None:
        return binder, scan
    select = Select(statement.at, (), where=statement.where)
    choice = choose_access_path(binder, scan, table, select, ())
    keep = bind_condition(binder.expression(statement.where), "Where", statement.where.at)
    return binder, choice.scan if choice.exact else FilterRows(choice.scan, keep)


def _bind_returning(
    context: Context, names: Names, change: Change, table: Table, trees: tuple[Item | Star, ...] | None
) -> BoundWrite:
    if trees is None:
        return change, None
    binder = Binder(context, names, RowScope([Field(each.name, each.type) for each in table.columns]))
    columns = bind_columns(binder, trees)
    wanted = tuple(each.name for each in table.columns)
    change = msgspec.structs.replace(change, returning=wanted, returned=tuple(each.evaluate for _, each in columns))
    return change, tuple((name, each.type) for name, each in columns)
