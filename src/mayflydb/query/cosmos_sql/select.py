"""Compilation of SELECT statements to programs: names, clauses and the rules about aggregates."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, cast

from mayflydb.query.cosmos_sql import operators
from mayflydb.query.cosmos_sql.compile import ExpressionCompiler
from mayflydb.query.cosmos_sql.declarations import NO_DECLARATIONS, Declarations
from mayflydb.query.cosmos_sql.execute import BlockingSource, Input, Program, collect_rows, rows
from mayflydb.query.cosmos_sql.faults import (
    CARDINALITY,
    LIMIT_COUNT,
    NESTED_AGGREGATES,
    NOT_GROUPED,
    OFFSET_COUNT,
    RANK_IN_SUBQUERY,
    STAR_WITH_GROUP_BY,
    TOP_COUNT,
    bad_query,
    composed_aggregate,
    unmapped_order,
)  # fmt: skip
from mayflydb.query.cosmos_sql.functions.fulltext import is_score
from mayflydb.query.cosmos_sql.functions.vector import is_distance, is_measure
from mayflydb.query.cosmos_sql.numbers import to_whole
from mayflydb.query.cosmos_sql.operators import Evaluate, Frame
from mayflydb.query.cosmos_sql.printer import print_expression
from mayflydb.query.cosmos_sql.scope import (
    DOCUMENT_SLOT,
    ROOT,
    AliasScope,
    Grouping,
    Parameters,
    Slots,
    find_aggregate,
    is_aggregate,
)
from mayflydb.query.cosmos_sql.syntax import (
    EXPRESSIONS,
    HIGHEST_COUNT,
    Array,
    Expression,
    FromSource,
    Literal,
    Name,
    Object,
    Order,
    Path,
    QueryParameter,
    Select,
    Subquery,
    SyntaxNode,
    children,
    is_identity,
    output_name,
    output_names,
)  # fmt: skip
from mayflydb.query.cosmos_sql.values import NUMBERS, UNDEFINED, Value

MAX_JOINS: Final = 10


class SelectCompiler:
    """Compiles the SELECTs of one query; they share its parameters, the container's declarations and the slots of the frame."""

    def __init__(self, parameters: Parameters, declared: Declarations = NO_DECLARATIONS) -> None:
        self.parameters = parameters
        self.declared = declared
        self.slots = Slots()

    def compile_select(self, select: Select, outer: AliasScope | None = None, *, container: bool = False) -> Program:
        """Compile a SELECT inside `outer`. `container`: an unknown name at the head of FROM means the container."""
        scope = AliasScope(outer, container=container or (outer is not None and outer.container))
        expressions = self._expressions(scope)
        # FROM comes first: it binds the aliases that all other clauses use.
        blocking, inputs = self._compile_inputs(select, expressions, container=container)
        where = None if select.where is None else expressions.compile_condition(select.where)
        grouping = self._compile_grouping(select, expressions)
        # Queries of their own compute the scores after RANK.
        orders = tuple(_compile_order(each, expressions) for each in _check_orders(select, outer) if _is_key(each))
        nearest = any(is_measure(order.expression) or is_score(order.expression) for order in select.order_by)
        if grouping is not None:
            # The one row of an aggregate has no order. https://github.com/Azure/azure-cosmos-dotnet-v3/issues/2244
            orders, nearest = (), False
            expressions = self._expressions(scope, grouping)
        skip, take = self._resolve_window(select, expressions)
        return Program(
            inputs=inputs, where=where, project=self._compile_projection(select, expressions, inputs), orders=orders,
            grouping=grouping,
            # Items differ by their ids. DISTINCT over whole items is left out, so that such a first source still
            # streams.
            distinct=select.distinct and not (container and outer is not None and is_identity(select)),
            skip=skip, take=take, nearest=nearest, blocking_source=blocking,
        )  # fmt: skip

    def _expressions(self, scope: AliasScope, grouping: Grouping | None = None) -> ExpressionCompiler:
        return ExpressionCompiler(self.parameters, self.slots, scope, self.compile_subquery, grouping, self.declared)

    # FROM.

    def _compile_inputs(
        self, select: Select, expressions: ExpressionCompiler, *, container: bool
    ) -> tuple[BlockingSource | None, tuple[Input, ...]]:
        if len(select.sources) > MAX_JOINS + 1:
            extra = select.sources[MAX_JOINS + 1]
            raise bad_query(f"A query may have at most {MAX_JOINS} JOINs.", extra.start, extra.end)
        blocking: BlockingSource | None = None
        inputs: list[Input] = []
        for position, source in enumerate(select.sources):
            head = container and position == 0
            if head and isinstance(source.expression, Name) and not source.unnest:
                self._bind_alias(expressions.scope, source, DOCUMENT_SLOT)
                continue
            found = self._compile_source(source, expressions, head=head)
            slot = self.slots.allocate()
            # Bound after the source is compiled, since a source does not see its own alias.
            self._bind_alias(expressions.scope, source, slot)
            if isinstance(found, Program):
                blocking = BlockingSource(slot, found, source.unnest)
            else:
                inputs.append(Input(slot, found))
        return blocking, tuple(inputs)

    def _bind_alias(self, scope: AliasScope, source: FromSource, slot: int) -> None:
        alias = source.alias if source.alias is not None else output_name(source.expression)
        if alias is None:
            return
        if alias in scope.own:
            message = f"The input alias '{alias}' is specified more than once in the FROM clause."
            raise bad_query(message, source.start, source.end)
        scope.own[alias] = slot

    def _compile_source(
        self, source: FromSource, expressions: ExpressionCompiler, *, head: bool
    ) -> Program | Callable[[Frame], Iterable[Value]]:
        """Return a function that gives the source's values for one row, or the program of a blocking source."""
        if isinstance(source.expression, Subquery):
            program = self.compile_select(source.expression.select, expressions.scope, container=head)
            # Groups, order and limits need every document before they give a row.
            if head and not program.is_plain:
                return program
            produce = _subquery_rows(program)
            return (lambda frame: _elements(produce(frame))) if source.unnest else produce
        evaluate = self._compile_collection(source.expression, expressions, head=head)
        if source.unnest:

            def elements(frame: Frame) -> Iterable[Value]:
                held = evaluate(frame)
                return held if type(held) is list else ()

            return elements

        def single(frame: Frame) -> Iterable[Value]:
            held = evaluate(frame)
            return () if held is UNDEFINED else (held,)

        return single

    def _compile_collection(self, node: Expression, expressions: ExpressionCompiler, *, head: bool) -> Evaluate:
        """Compile a source that is no subquery. At the head of FROM the first name is the container, whatever the name."""
        if not head:
            return expressions.compile(node)
        if isinstance(node, Path):
            return expressions.compile_document_path(node.steps)
        return operators.read_slot(DOCUMENT_SLOT)

    # Subqueries in expressions.

    def compile_subquery(self, node: Subquery, scope: AliasScope) -> Evaluate:
        """Compile `(SELECT …)`, EXISTS, ARRAY, ALL, FIRST or LAST as an expression."""
        program = self.compile_select(node.select, scope)
        match node.form:
            case "EXISTS":
                return _compile_exists(program)
            case "ARRAY":
                return lambda frame: collect_rows(program, frame)
            case "ALL":
                return lambda frame: all(value is True for value in collect_rows(program, frame))
            case "FIRST":
                return lambda frame: next(iter(collect_rows(program, frame)), UNDEFINED)
            case "LAST":
                return lambda frame: next(reversed(collect_rows(program, frame)), UNDEFINED)
        start, end = node.start, node.end

        def scalar(frame: Frame) -> Value:
            found = collect_rows(program, frame)
            if len(found) > 1:
                raise bad_query(CARDINALITY, start, end)
            return found[0] if found else UNDEFINED

        return scalar

    # SELECT.

    def _compile_projection(
        self, select: Select, expressions: ExpressionCompiler, inputs: tuple[Input, ...]
    ) -> Evaluate:
        if select.star:
            return self._compile_star(select, inputs)
        if select.value is not None:
            return expressions.compile(select.value)
        values = [expressions.compile(item.expression) for item in select.items]
        return operators.object_of(list(zip(output_names(select), values, strict=True)))

    def _compile_star(self, select: Select, inputs: tuple[Input, ...]) -> Evaluate:
        if not select.sources:
            raise bad_query("'SELECT *' is not valid if FROM clause is omitted.", select.start, select.end)
        if len(select.sources) > 1:
            raise bad_query("'SELECT *' is only valid with a single input set.", select.start, select.end)
        return operators.read_slot(inputs[0].slot if inputs else DOCUMENT_SLOT)

    # Groups.

    def _compile_grouping(self, select: Select, expressions: ExpressionCompiler) -> Grouping | None:
        selected = [select.value] if select.value is not None else [item.expression for item in select.items]
        if not select.group_by and not any(map(find_aggregate, selected)):
            return None
        if select.star:
            raise bad_query("'SELECT *' is not allowed with GROUP BY.", select.start, select.end, STAR_WITH_GROUP_BY)
        ranked = not all(map(_is_key, select.order_by))
        if select.order_by and (select.group_by or ranked):
            first, what = select.order_by[0], "GROUP BY" if select.group_by else "aggregates"
            raise bad_query(f"ORDER BY {'RANK ' * ranked}cannot be combined with {what}.", first.start, first.end)
        if expressions.scope.outer is None:
            for node in selected:
                _check_composition(node)
        keys = frozenset(map(print_expression, select.group_by))
        for node in selected:
            _check_grouped(node, keys, expressions.scope)
        return Grouping(tuple(expressions.compile_all(select.group_by)))

    # TOP, OFFSET, LIMIT.

    def _resolve_window(self, select: Select, expressions: ExpressionCompiler) -> tuple[int, int | None]:
        if select.top is not None and select.offset is not None:
            raise bad_query("TOP and OFFSET LIMIT cannot be combined.", select.top.start, select.top.end)
        skip = 0 if select.offset is None else _resolve_count("OFFSET", select.offset, expressions)
        if select.top is not None:
            return skip, _resolve_count("TOP", select.top, expressions)
        return skip, None if select.limit is None else _resolve_count("LIMIT", select.limit, expressions)


def _resolve_count(clause: str, node: Expression, expressions: ExpressionCompiler) -> int:
    value: Any = expressions.parameter_value(node) if isinstance(node, QueryParameter) else getattr(node, "value", None)
    number = to_whole(value) if type(value) in NUMBERS else None
    top = clause == "TOP"
    if top and (number is None or number > HIGHEST_COUNT):
        message = "The count value provided for a TOP clause must be an integer."
        raise bad_query(message, node.start, node.end, TOP_COUNT)
    if number is None or number < 0:
        raise bad_query(f"{clause} must be followed by a non-negative integer.", node.start, node.end)
    if number > HIGHEST_COUNT:
        message = f"The {clause} count value exceeds the maximum allowed value."
        raise bad_query(message, node.start, node.end, LIMIT_COUNT if clause == "LIMIT" else OFFSET_COUNT)
    return number


def _elements(held: Iterable[Value]) -> Iterable[Value]:
    """The elements of the rows that are arrays."""
    return (item for row in held if type(row) is list for item in row)


def _subquery_rows(program: Program) -> Callable[[Frame], Iterable[Value]]:
    """Return a function that gives the rows of a subquery over one document."""
    return (lambda frame: rows(program, frame)) if program.is_plain else (lambda frame: collect_rows(program, frame))


def _compile_exists(program: Program) -> Evaluate:
    if program.is_plain:
        return lambda frame: any(True for _ in rows(program, frame))
    return lambda frame: bool(collect_rows(program, frame))


def _is_key(order: Order) -> bool:
    return not order.rank or is_distance(order.expression)


def _check_orders(select: Select, outer: AliasScope | None) -> tuple[Order, ...]:
    for order in select.order_by:
        if order.rank and outer is not None:
            message = "The ORDER BY RANK clause is not supported in subqueries."
            raise bad_query(message, order.start, order.end, RANK_IN_SUBQUERY)
        if isinstance(order.expression, Literal | QueryParameter):
            raise unmapped_order()
        if is_distance(order.expression) and len(select.order_by) > 1:
            raise bad_query("ORDER BY VectorDistance cannot have a second sort key.", order.start, order.end)
    return select.order_by


def _compile_order(order: Order, expressions: ExpressionCompiler) -> tuple[Evaluate, bool]:
    """Return the closure of a sort key and whether it is descending. A distance sorts from the nearest to the farthest."""
    node, key = order.expression, expressions.compile(order.expression)
    return key, expressions.embedding_of(node).is_descending if is_distance(node) else order.descending


def _check_composition(root: SyntaxNode) -> None:
    """Check that aggregates stand alone or in array and object constructors; nothing else is computed from them."""
    stack = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, Array):
            stack.extend(node.items)
        elif isinstance(node, Object):
            stack.extend(field.value for field in node.fields)
        elif is_aggregate(node):
            inner = next((found for child in children(node) if (found := find_aggregate(child))), None)
            if inner is not None:
                message = "Cannot perform an aggregate function on an expression containing an aggregate or a subquery."
                raise bad_query(message, node.start, node.end, NESTED_AGGREGATES)
        elif find_aggregate(node) is not None:
            raise composed_aggregate()


def _check_grouped(root: SyntaxNode, keys: frozenset[str], scope: AliasScope) -> None:
    """Check that a SELECT with groups uses its rows, outside of aggregates, only through the grouping keys."""
    stack = [root]
    while stack:
        node = stack.pop()
        if is_aggregate(node) or (keys and _is_group_key(node, keys)):
            continue
        name = node.base if isinstance(node, Path) else node
        if isinstance(name, Name) and (name.name in scope.own or (scope.outer is None and name.name.upper() == ROOT)):
            shown = print_expression(cast("Expression", node))
            message = (
                f"Property reference '{shown}' is invalid in the select list because it is not contained in either an "
                "aggregate function or the GROUP BY clause."
            )
            raise bad_query(message, node.start, node.end, NOT_GROUPED)
        stack.extend(children(node))


def _is_group_key(node: SyntaxNode, keys: frozenset[str]) -> bool:
    """True if `node` is a grouping key or a path below one."""
    if isinstance(node, Path):
        shorter = [Path(base=node.base, steps=node.steps[:size]) for size in range(1, len(node.steps))]
        return any(print_expression(path) in keys for path in (node, node.base, *shorter))
    return isinstance(node, EXPRESSIONS) and print_expression(cast("Expression", node)) in keys
