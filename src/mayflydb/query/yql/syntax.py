"""The syntax tree of YQL: the text with positions, before any name or type is resolved.

Trees compare without their positions.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Literal, TypeAlias

import msgspec

from mayflydb.query.yql.faults import Position


class At(Position, frozen=True):
    """The position where a node begins. All positions are equal, so that comparisons of trees ignore them."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, At)

    def __hash__(self) -> int:
        return 0


class Syntax(msgspec.Struct, frozen=True):
    """Base of all nodes."""

    at: At


# --- types -----------------------------------------------------------------------------------------------------------


class TypeName(Syntax, frozen=True):
    """A type: `Uint64`, `Decimal(22, 9)`, `List<T>`, `T?`, `Struct<a: T>`.

    `name` is as written ("Optional" for `T?`). `arguments` are types, numbers or, for a tag, a text. `members` are the
    names of the arguments of a Struct, or of a Variant over one. A named expression is called `$x`. `TypeNames.callable_type`
    tells what a Callable has.
    """

    name: str
    arguments: tuple[TypeName | int | str, ...] = ()
    members: tuple[str, ...] | None = None


# --- expressions -----------------------------------------------------------------------------------------------------


class Literal_(Syntax, frozen=True):  # noqa: N801  # `Literal` is a name of `typing`.
    """A literal. `value` is a bool, int, float, bytes or str; None for NULL.

    `kind`: "null", "bool", "integer" (with a suffix or not), "float", "double" or "string" (String, Utf8, Yson or Json
    by `suffix`). `suffix`: the suffix in lower case (`u`, `ul`, `l`, `s`, `us`, `t`, `ut`, `f`, `y`, `j`), or "".
    """

    kind: Literal["null", "bool", "integer", "float", "double", "string"]
    value: bool | int | float | bytes | str | Decimal | None
    suffix: str = ""


class Name(Syntax, frozen=True):
    """A column `a`, or a bare word. `quoted`: written in backticks."""

    name: str
    quoted: bool = False


class Parameter(Syntax, frozen=True):
    """`$name`: a parameter or a named expression. `name` has no dollar."""

    name: str


class Member(Syntax, frozen=True):
    """`of.name`, or `of.0` of a tuple. Where `of` is a Name, that name may be a table's: `t.column`."""

    of: Expression
    name: str | int


class NamedMember(Syntax, frozen=True):
    """`of.$name`: the member that a named expression names."""

    of: Expression
    name: Parameter


class Subscript(Syntax, frozen=True):
    """`of[index]`"""

    of: Expression
    index: Expression


class Unary(Syntax, frozen=True):
    """`operator` is `-`, `+`, `~`, `NOT`, `IS NULL`, `IS NOT NULL`."""

    operator: str
    operand: Expression


class Binary(Syntax, frozen=True):
    """An operator with two operands: `+ - * / % || ?? == != < <= > >= AND OR XOR & | ^ << >> |<< >>|`, `IS DISTINCT
    FROM`, `IS NOT DISTINCT FROM`. `=` becomes `==`, and `<>` becomes `!=`."""

    operator: str
    left: Expression
    right: Expression


class Like(Syntax, frozen=True):
    """LIKE and other pattern operators: `operator` is LIKE, ILIKE, REGEXP, RLIKE, MATCH or GLOB; only the first two
    have an `escape`."""

    operator: str
    operand: Expression
    pattern: Expression
    escape: Expression | None = None
    negated: bool = False


class Between(Syntax, frozen=True):
    operand: Expression
    low: Expression
    high: Expression
    negated: bool = False
    symmetric: bool = False


class In(Syntax, frozen=True):
    """`operand IN collection`. `collection`: a ListLiteral for `(a, b)`, a Subquery, or any expression (`$list`).

    `compact`: `IN COMPACT`.
    """

    operand: Expression
    collection: Expression
    negated: bool = False
    compact: bool = False


class Case(Syntax, frozen=True):
    """CASE. `operand` None: the conditions are booleans."""

    operand: Expression | None
    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression | None


class Cast(Syntax, frozen=True):
    """`CAST(operand AS to)`, or with `bitwise` `BITCAST`."""

    operand: Expression
    to: TypeName
    bitwise: bool = False


class Argument(Syntax, frozen=True):
    """`value`, or `value AS name`."""

    value: Expression
    name: str | None = None


class FunctionCall(Syntax, frozen=True):
    """`Name(arguments)`, `Module::Name(arguments)`; `name` is as written, with the module.

    `distinct`: `COUNT(DISTINCT x)`. `star`: `COUNT(*)`. `over`: the window of a window function. A constructor such as
    `Date("2030-01-01")` is a Call, too. A type as an argument (`Nothing(Int32?)`) is a TypeArgument.
    """

    name: str
    arguments: tuple[Argument, ...]
    distinct: bool = False
    star: bool = False
    over: Window | str | None = None
    ignore_nulls: bool | None = None


class Apply(Syntax, frozen=True):
    """A call of an expression: `$lambda(1)`, `(DateTime::Format("%Y"))($x)`."""

    callee: Expression
    arguments: tuple[Argument, ...]


class TypeArgument(Syntax, frozen=True):
    """A type where a value is expected."""

    type: TypeName


class Lambda(Syntax, frozen=True):
    """`($a, $b?) -> (body)`, `($a) -> { $x = ..; RETURN body; }`. `optional`: how many of the last parameters a call
    may omit."""

    parameters: tuple[str, ...]
    bindings: tuple[Binding, ...]
    body: Expression
    optional: int = 0


class ListLiteral(Syntax, frozen=True):
    """`[a, b]`; also the right side of `IN (a, b)`."""

    items: tuple[Expression, ...]


class TupleLiteral(Syntax, frozen=True):
    """`(a, b)`, `(a,)`, `()`."""

    items: tuple[Expression, ...]


class StructLiteral(Syntax, frozen=True):
    """`<|a: 1|>`. The name of a member may be an expression: `<|$name: 1, "a" || "b": 2|>`."""

    members: tuple[tuple[str | Expression, Expression], ...]


class DictLiteral(Syntax, frozen=True):
    """`{a: 1}`, or a set `{a, b}`, whose payloads are None."""

    items: tuple[tuple[Expression, Expression | None], ...]


class Subquery(Syntax, frozen=True):
    """`(SELECT ...)` as a value or behind IN. `exists`: `EXISTS (SELECT ...)`."""

    query: Query
    exists: bool = False


class Json(Syntax, frozen=True):
    """`JSON_VALUE(operand, path ...)`, `JSON_EXISTS` or `JSON_QUERY`.

    `clauses`: (phrase, expression or None, type or None), such as ("RETURNING", None, type), ("DEFAULT ON EMPTY", e,
    None), ("NULL ON ERROR", None, None), ("WITH WRAPPER", None, None), ("PASSING name", e, None).
    """

    function: str
    operand: Expression
    path: Expression
    clauses: tuple[tuple[str, Expression | None, TypeName | None], ...] = ()


Expression: TypeAlias = (
    Literal_
    | Name
    | Parameter
    | Member
    | NamedMember
    | Subscript
    | Unary
    | Binary
    | Like
    | Between
    | In
    | Case
    | Cast
    | FunctionCall
    | Apply
    | TypeArgument
    | Lambda
    | ListLiteral
    | TupleLiteral
    | StructLiteral
    | DictLiteral
    | Subquery
    | Json
)


class Binding(Syntax, frozen=True):
    """`$x = value;`, `$a, $b = tuple;`. `value` is a Query for `$x = (SELECT ...);` and `$x = SELECT ...;`."""

    names: tuple[str, ...]
    value: Expression | Query


# --- queries ---------------------------------------------------------------------------------------------------------


class OrderItem(Syntax, frozen=True):
    value: Expression
    descending: bool = False


class Frame(Syntax, frozen=True):
    """`ROWS BETWEEN lower AND upper`: each bound is None for UNBOUNDED, 0 for CURRENT ROW, negative for PRECEDING.

    `lower_by` and `upper_by`: the distance where it is an expression; the bound is then 1 or -1.
    """

    kind: Literal["ROWS", "RANGE", "GROUPS"]
    lower: int | None
    upper: int | None
    lower_by: Expression | None = None
    upper_by: Expression | None = None


class Window(Syntax, frozen=True):
    partition: tuple[Item, ...] = ()
    order: tuple[OrderItem, ...] = ()
    frame: Frame | None = None


class Item(Syntax, frozen=True):
    """`value AS name` of a SELECT list, GROUP BY or PARTITION BY."""

    value: Expression
    name: str | None = None


class Star(Syntax, frozen=True):
    """`*`, or `t.*`"""

    source: str | None = None


class TableRef(Syntax, frozen=True):
    """A table of FROM or of a write. `view`: the index of VIEW, or "PRIMARY KEY"; `cluster` of ``cluster.`table` ``;
    `hints` of WITH."""

    name: str
    view: str | None = None
    cluster: str | None = None
    hints: tuple[str, ...] = ()


class QuerySource(Syntax, frozen=True):
    """`$named`, a query in parentheses, or with `rows` `AS_TABLE(list)`."""

    query: Query | None = None
    parameter: str | None = None
    rows: Expression | None = None


class Source(Syntax, frozen=True):
    """A source of FROM. `columns`: `AS t(a, b)`.

    `flatten`: FLATTEN BY as (mode "", "OPTIONAL", "LIST", "DICT" or "COLUMNS", items).
    """

    of: TableRef | QuerySource
    alias: str | None = None
    columns: tuple[str, ...] = ()
    flatten: tuple[str, tuple[Item, ...]] | None = None


class Join(Syntax, frozen=True):
    """A join. `kind`: "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "LEFT SEMI", "RIGHT SEMI", "LEFT ONLY", "RIGHT ONLY"
    or "EXCLUSION"."""

    kind: str
    right: Source
    on: Expression | None = None
    using: tuple[str, ...] = ()
    any: bool = False


class From(Syntax, frozen=True):
    """FROM with its joins. `any`: `FROM ANY first JOIN ...`."""

    first: Source
    joins: tuple[Join, ...] = ()
    any: bool = False


class GroupBy(Syntax, frozen=True):
    """GROUP BY. `sets`: the grouping sets of GROUPING SETS, ROLLUP and CUBE, as indexes of `items`; None: one set of
    all items."""

    items: tuple[Item, ...]
    sets: tuple[tuple[int, ...], ...] | None = None
    compact: bool = False
    hop: FunctionCall | None = None


class Select(Syntax, frozen=True):
    """A SELECT. `items` include Stars. `without`: columns of WITHOUT. `windows`: WINDOW w AS (...).

    `order`, `limit` and `offset` belong to a SELECT alone or in parentheses; those of a whole UNION belong to its
    Compound.
    """

    items: tuple[Item | Star, ...]
    source: From | None = None
    where: Expression | None = None
    group: GroupBy | None = None
    having: Expression | None = None
    order: tuple[OrderItem, ...] = ()
    limit: Expression | None = None
    offset: Expression | None = None
    distinct: bool = False
    without: tuple[str, ...] = ()
    windows: tuple[tuple[str, Window], ...] = ()
    assume_order: bool = False


class Values(Syntax, frozen=True):
    """`VALUES (1, 2), (3, 4)`"""

    rows: tuple[tuple[Expression, ...], ...]


class Compound(Syntax, frozen=True):
    """`left UNION ALL right`. `operator`: "UNION", "UNION ALL", "EXCEPT", "EXCEPT ALL", "INTERSECT" or "INTERSECT ALL"."""

    operator: str
    left: Query
    right: Query
    order: tuple[OrderItem, ...] = ()
    limit: Expression | None = None
    offset: Expression | None = None


Query: TypeAlias = Select | Values | Compound | QuerySource
"""A QuerySource stands for the short forms `$x` and `(...)` where a query is expected."""
