"""Compilation of expressions to closures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from mayflydb.query.cosmos_sql import operators
from mayflydb.query.cosmos_sql.aggregates import AGGREGATES
from mayflydb.query.cosmos_sql.declarations import NO_DECLARATIONS, Declarations
from mayflydb.query.cosmos_sql.faults import (
    ARGUMENT_COUNT,
    SCORE_OUTSIDE_RANK,
    UNKNOWN_FUNCTION,
    UNRESOLVED,
    bad_query,
    composed_aggregate,
    unsupported,
)
from mayflydb.query.cosmos_sql.functions import FUNCTIONS, REFUSED, fulltext
from mayflydb.query.cosmos_sql.functions.signature import BuiltinFunction
from mayflydb.query.cosmos_sql.functions.vector import Embedding, distance_function, is_measure, with_options
from mayflydb.query.cosmos_sql.operators import Constant, Evaluate, Frame
from mayflydb.query.cosmos_sql.scope import (
    CONTEXT_SLOT,
    DOCUMENT_SLOT,
    AliasScope,
    Grouping,
    Parameters,
    Slots,
    find_aggregate,
    is_aggregate,
)
from mayflydb.query.cosmos_sql.syntax import (
    Array,
    Between,
    Binary,
    Conditional,
    Expression,
    FunctionCall,
    In,
    Like,
    Literal,
    Logical,
    Name,
    Object,
    Path,
    QueryParameter,
    Subquery,
    SyntaxNode,
    Unary,
)  # fmt: skip
from mayflydb.query.cosmos_sql.values import UNDEFINED, Value

SubqueryCompiler: TypeAlias = Callable[[Subquery, AliasScope], Evaluate]


class ExpressionCompiler:
    """Compiles the expressions of one SELECT.

    `subqueries` compiles a nested SELECT. With a `grouping`, an aggregate becomes a read of its result, and an expression
    without aggregates becomes a read of the group's value; without a grouping, aggregates are an error. `declared`: the
    declarations of the container.
    """

    def __init__(
        self, parameters: Parameters, slots: Slots, scope: AliasScope, subqueries: SubqueryCompiler,
        grouping: Grouping | None = None, declared: Declarations = NO_DECLARATIONS,
    ) -> None:  # fmt: skip
        self.parameters = parameters
        self.slots = slots
        self.scope = scope
        self.subqueries = subqueries
        self.grouping = grouping
        self.declared = declared

    def without_grouping(self) -> ExpressionCompiler:
        """Return a compiler in the same scope for expressions that are evaluated on single rows."""
        return ExpressionCompiler(self.parameters, self.slots, self.scope, self.subqueries, None, self.declared)

    def compile(self, node: Expression) -> Evaluate:
        """Compile `node` to a closure; BadQuery for unknown names, wrong argument counts and missing parameters."""
        if self.grouping is not None and not isinstance(node, Literal | QueryParameter):
            if is_aggregate(node):
                return self._compile_aggregate(node, self.grouping)
            # An expression without an aggregate is evaluated once for a group, on its first row, and read from a slot.
            if find_aggregate(node) is None:
                slot = self.slots.allocate()
                self.grouping.leaves.append((slot, self.without_grouping().compile(node)))
                return operators.read_slot(slot)
        compiler: Callable[[ExpressionCompiler, Any], Evaluate] = _COMPILERS[type(node)]
        return compiler(self, node)

    def compile_all(self, nodes: Sequence[Expression]) -> list[Evaluate]:
        """Compile several nodes."""
        return [self.compile(node) for node in nodes]

    def compile_condition(self, node: Expression) -> Evaluate:
        """Compile a condition to a closure that is true exactly where `node` is true; its other results have no meaning."""
        if isinstance(node, Logical):
            # WHERE treats false and undefined alike, so closures without three-valued logic suffice, and are faster.
            parts = [self.compile_condition(operand) for operand in node.operands]
            return operators.all_true(parts) if node.operator == "AND" else operators.any_true(parts)
        return self.compile(node)

    def _compile_aggregate(self, node: Any, grouping: Grouping) -> Evaluate:
        name = node.name.upper()
        if len(node.arguments) != 1:
            raise bad_query(f"The {name} function requires 1 argument(s).", node.start, node.end, ARGUMENT_COUNT)
        slot = self.slots.allocate()
        # The argument is evaluated on every row, hence outside of the grouping.
        grouping.aggregates.append((slot, AGGREGATES[name], self.without_grouping().compile(node.arguments[0])))
        return operators.read_slot(slot)

    def parameter_value(self, node: QueryParameter) -> Value:
        """The value of a parameter; BadQuery if the caller did not supply it."""
        if node.name not in self.parameters:
            raise bad_query(f"The query parameter '{node.name}' is used but was not supplied.", node.start, node.end)
        return self.parameters[node.name]

    def compile_name(self, node: Name) -> Evaluate:
        """Compile an alias to a read of its slot."""
        return operators.read_slot(self.slot_of(node))

    def slot_of(self, node: Name) -> int:
        """The slot of an alias; BadQuery for an unknown name."""
        slot = self.scope.resolve(node.name)
        if slot is None:
            raise bad_query(f"Identifier '{node.name}' could not be resolved.", node.start, node.end, UNRESOLVED)
        return slot

    def compile_path(self, node: Path) -> Evaluate:
        """Compile a path. Paths of constant property names have closures of their own, which are the fastest."""
        if self.declared.computed and isinstance(node.base, Name) and self.slot_of(node.base) == DOCUMENT_SLOT:
            return self.compile_document_path(node.steps)
        base = self.compile(node.base)
        steps = self.compile_all(node.steps)
        names = [step.value for step in steps if isinstance(step, Constant) and type(step.value) is str]
        if len(names) < len(steps):
            return _fold_constant(operators.steps_of(base, steps), [base, *steps])
        if len(names) == 1 and isinstance(node.base, Name) and self.grouping is None:
            return operators.property_of(self.slot_of(node.base), names[0])
        return _fold_constant(operators.properties_of(base, names), [base])

    def compile_document_path(self, nodes: Sequence[Expression]) -> Evaluate:
        """Compile a path that begins at the document; its first step names a stored or a computed property."""
        first, *rest = self.compile_all(nodes)
        known = self.declared.computed
        name = first.value if isinstance(first, Constant) else None
        # A constant step may be an array or an object, which no dictionary can look up.
        computed = known.get(name) if type(name) is str else None
        if computed is None:
            return operators.steps_of(operators.read_slot(DOCUMENT_SLOT), [first, *rest])
        scope = AliasScope(None, container=False)
        scope.own[computed.alias] = DOCUMENT_SLOT
        # A computed property sees stored properties only. So no property can refer to itself in a circle.
        plain = msgspec.structs.replace(self.declared, computed={})
        value = ExpressionCompiler({}, self.slots, scope, self.subqueries, None, plain).compile(computed.value)
        return operators.steps_of(value, rest) if rest else value

    def compile_unary(self, node: Unary) -> Evaluate:
        """Compile a prefix operator."""
        operand = self.compile(node.operand)
        found = (
            operators.negation(operand) if node.operator == "NOT" else operators.prefix_operator(node.operator, operand)
        )
        return _fold_constant(found, [operand])

    def compile_binary(self, node: Binary) -> Evaluate:
        """Compile an infix operator."""
        left, right = self.compile(node.left), self.compile(node.right)
        if node.operator in operators.COMPARISONS:
            found = operators.comparison(node.operator, left, right)
        elif node.operator == "||":
            found = operators.concatenation(left, right)
        elif node.operator == "??":
            found = operators.coalescence(left, right)
        else:
            found = operators.arithmetic(node.operator, left, right)
        return _fold_constant(found, [left, right])

    def compile_like(self, node: Like) -> Evaluate:
        """Compile LIKE."""
        escape = None if node.escape is None else self.compile(node.escape)
        if isinstance(escape, Constant) and type(escape.value) is str and len(escape.value) != 1 and node.escape:
            raise bad_query("The ESCAPE of LIKE must be a single character.", node.escape.start, node.escape.end)
        found = operators.matches_like(self.compile(node.operand), self.compile(node.pattern), escape)
        return operators.negation(found) if node.negated else found

    def compile_call(self, node: FunctionCall) -> Evaluate:
        """Compile a call of a built-in function."""
        name = node.name.upper()
        if node.udf:
            return self.compile_user_function(node)
        if name in AGGREGATES:
            raise composed_aggregate()
        if name.startswith("ST_") and self.declared.flat:
            raise unsupported(f"The function {node.name} in a container of Geometry", node.start, node.end)
        if name in REFUSED:
            raise unsupported(f"The function {node.name}", node.start, node.end)
        if name == "FULLTEXTSCORE":
            message = "The FullTextScore function is only allowed in the ORDER BY RANK clause."
            raise bad_query(message, node.start, node.end, SCORE_OUTSIDE_RANK)
        function = FUNCTIONS.get(name)
        if function is None:
            message = f"'{node.name}' is not a recognized built-in function name."
            raise bad_query(message, node.start, node.start + len(node.name), UNKNOWN_FUNCTION)
        if not function.accepts(len(node.arguments)):
            raise bad_query(_count_message(name, function), node.start, node.end, ARGUMENT_COUNT)
        arguments = self.compile_all(node.arguments)
        if is_measure(node):
            # The options are a part of the function, and only the two vectors are left as arguments.
            function, arguments = distance_function(self.embedding_of(node), node), arguments[:2]
        elif name in fulltext.NAMES:
            function = fulltext.in_language(self._language_of(node.arguments[0]))[name]
        found = _build_call(function, arguments)
        return found if function.contextual else _fold_constant(found, arguments)

    def compile_user_function(self, node: FunctionCall) -> Evaluate:
        """Compile a call of a user-defined function. The call goes through the context and is never folded into a constant."""
        name, known = node.name, self.declared.functions
        if known is None:
            raise unsupported(f"The user-defined function 'udf.{name}' here", node.start, node.end)
        if name not in known:
            raise bad_query(f"The user-defined function 'udf.{name}' does not exist.", node.start, node.end)
        arguments = self.compile_all(node.arguments)
        return lambda frame: frame[CONTEXT_SLOT].call(name, [argument(frame) for argument in arguments])

    def embedding_of(self, node: FunctionCall) -> Embedding:
        """Return the embedding of a VectorDistance: that of its first path with a declared one, changed by the call's options."""
        options = self.compile_all(node.arguments[2:])
        given = [option.value for option in options if isinstance(option, Constant)]
        if len(given) < len(options):
            raise bad_query("The options of VectorDistance must be constants.", node.start, node.end)
        known = (self.declared.embeddings.get(self._property_names(each) or ()) for each in node.arguments[:2])
        return with_options(next((found for found in known if found is not None), Embedding()), given, node)

    def _language_of(self, node: Expression) -> str:
        """The language of the text at the path `node`, or the container's default."""
        return self.declared.languages.get(self._property_names(node) or (), self.declared.language)

    def _property_names(self, node: Expression) -> tuple[str, ...] | None:
        """The property names of a path of the document; None for any other expression."""
        if not isinstance(node, Path) or not isinstance(node.base, Name):
            return None
        if self.scope.resolve(node.base.name) != DOCUMENT_SLOT:
            return None
        steps = self.compile_all(node.steps)
        names = tuple(step.value for step in steps if isinstance(step, Constant) and type(step.value) is str)
        return names if len(names) == len(steps) else None


def _count_message(name: str, function: BuiltinFunction) -> str:
    if function.maximum is None:
        wanted = f"at least {function.minimum}"
    elif function.minimum == function.maximum:
        wanted = str(function.minimum)
    else:
        wanted = f"{function.minimum} to {function.maximum}"
    return f"The {name} function requires {wanted} argument(s)."


def _fold_constant(found: Evaluate, parts: Sequence[Evaluate]) -> Evaluate:
    """Return a constant if all parts are constants, else `found` itself."""
    # The closure of a constant reads no slot, so an empty frame is enough.
    return Constant(found([])) if all(isinstance(part, Constant) for part in parts) else found


def _build_call(function: BuiltinFunction, arguments: Sequence[Evaluate]) -> Evaluate:
    """Return a call with its type checks. Calls with one and two arguments have closures of their own, which are faster."""
    compute, types = function.compute, function.types_of(len(arguments))
    if function.contextual:
        return lambda frame: compute(frame[CONTEXT_SLOT])
    if len(arguments) == 1:
        (argument,), (accepted,) = arguments, types

        def call_one(frame: Frame) -> Value:
            value = argument(frame)
            return compute(value) if type(value) in accepted else UNDEFINED

        return call_one
    if len(arguments) == 2:
        (first, second), (accepted_first, accepted_second) = arguments, types

        def call_two(frame: Frame) -> Value:
            one, other = first(frame), second(frame)
            return compute(one, other) if type(one) in accepted_first and type(other) in accepted_second else UNDEFINED

        return call_two

    def call(frame: Frame) -> Value:
        values = [argument(frame) for argument in arguments]
        for value, accepted in zip(values, types, strict=True):
            if type(value) not in accepted:
                return UNDEFINED
        return compute(*values)

    return call


def _compile_between(expressions: ExpressionCompiler, node: Between) -> Evaluate:
    found = operators.between(*expressions.compile_all((node.operand, node.low, node.high)))
    return operators.negation(found) if node.negated else found


def _compile_in(expressions: ExpressionCompiler, node: In) -> Evaluate:
    found = operators.membership(expressions.compile(node.operand), expressions.compile_all(node.choices))
    return operators.negation(found) if node.negated else found


def _compile_conditional(expressions: ExpressionCompiler, node: Conditional) -> Evaluate:
    return operators.conditional(*expressions.compile_all((node.test, node.chosen, node.otherwise)))


def _compile_array(expressions: ExpressionCompiler, node: Array) -> Evaluate:
    items = expressions.compile_all(node.items)
    return _fold_constant(operators.array_of(items), items)


def _compile_object(expressions: ExpressionCompiler, node: Object) -> Evaluate:
    fields = [(field.name, expressions.compile(field.value)) for field in node.fields]
    return _fold_constant(operators.object_of(fields), [field for _, field in fields])


_COMPILERS: Final[dict[type[SyntaxNode], Callable[[ExpressionCompiler, Any], Evaluate]]] = {
    Literal: lambda expressions, node: Constant(node.value),
    QueryParameter: lambda expressions, node: Constant(expressions.parameter_value(node)),
    Name: ExpressionCompiler.compile_name,
    Path: ExpressionCompiler.compile_path,
    Unary: ExpressionCompiler.compile_unary,
    Binary: ExpressionCompiler.compile_binary,
    Logical: lambda expressions, node: operators.logical(node.operator, expressions.compile_all(node.operands)),
    Between: _compile_between,
    In: _compile_in,
    Like: ExpressionCompiler.compile_like,
    Conditional: _compile_conditional,
    FunctionCall: ExpressionCompiler.compile_call,
    Array: _compile_array,
    Object: _compile_object,
    Subquery: lambda expressions, node: expressions.subqueries(node, expressions.scope),
}
