"""The syntax tree. Every node has the range [start, end) of its characters in the text; nodes of rewritten queries have 0, 0."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias, Union, get_args

import msgspec

from mayflydb.query.cosmos_sql.values import Value


class SyntaxNode(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Base of all nodes."""

    start: int = 0
    end: int = 0


class Literal(SyntaxNode, frozen=True):
    """A number, string, true, false, null or undefined."""

    value: Value


class QueryParameter(SyntaxNode, frozen=True):
    """`@name`; the name includes the @."""

    name: str


class Name(SyntaxNode, frozen=True):
    """An identifier: an alias or the container."""

    name: str


class Path(SyntaxNode, frozen=True):
    """`base.a["b"][0][@p]`: properties and elements below a value. `c.a` and `c["a"]` are the same path."""

    base: Expression
    steps: tuple[Expression, ...]


class Unary(SyntaxNode, frozen=True):
    """`NOT`, `-`, `+` or `~`."""

    operator: str
    operand: Expression


class Binary(SyntaxNode, frozen=True):
    """Arithmetic, bitwise, comparison, `||` and `??`; `<>` is stored as `!=`."""

    operator: str
    left: Expression
    right: Expression


class Logical(SyntaxNode, frozen=True):
    """`AND` or `OR` of two or more operands; a long chain is one node."""

    operator: str
    operands: tuple[Expression, ...]


class Between(SyntaxNode, frozen=True):
    """`operand [NOT] BETWEEN low AND high`."""

    operand: Expression
    low: Expression
    high: Expression
    negated: bool


class In(SyntaxNode, frozen=True):
    """`operand [NOT] IN (choices)`."""

    operand: Expression
    choices: tuple[Expression, ...]
    negated: bool


class Like(SyntaxNode, frozen=True):
    """`operand [NOT] LIKE pattern [ESCAPE escape]`."""

    operand: Expression
    pattern: Expression
    escape: Expression | None
    negated: bool


class Conditional(SyntaxNode, frozen=True):
    """`test ? chosen : otherwise`."""

    test: Expression
    chosen: Expression
    otherwise: Expression


class FunctionCall(SyntaxNode, frozen=True):
    """`name(arguments)`, the name as written; `udf` for `udf.name(arguments)`."""

    name: str
    arguments: tuple[Expression, ...]
    udf: bool


class Array(SyntaxNode, frozen=True):
    """`[a, b]`."""

    items: tuple[Expression, ...]


class Field(SyntaxNode, frozen=True):
    """One `name: value` of an object."""

    name: str
    value: Expression


class Object(SyntaxNode, frozen=True):
    """`{"a": x}`."""

    fields: tuple[Field, ...]


class Subquery(SyntaxNode, frozen=True):
    """`(SELECT …)`; `form` is empty for a scalar, or EXISTS, ARRAY, ALL, FIRST, LAST."""

    form: str
    select: Select


class FilterSlot(SyntaxNode, frozen=True):
    """WHERE of a rewritten query: `condition` and the placeholder that clients replace by `true` or a resume condition.

    The parser never builds this node.
    """

    condition: Expression | None


class StatisticPlaceholder(SyntaxNode, frozen=True):
    """The placeholder in a rewritten query that clients replace by a number, or an array of numbers, from the statistics.

    The parser never builds this node. `name`: the name of the placeholder without its braces.
    """

    name: str


class SelectItem(SyntaxNode, frozen=True):
    """`expression [AS alias]` in a SELECT list."""

    expression: Expression
    alias: str | None


class FromSource(SyntaxNode, frozen=True):
    """One input of FROM: `expression [AS alias]`, or `alias IN expression` when `unnest`."""

    expression: Expression
    alias: str | None
    unnest: bool


class Order(SyntaxNode, frozen=True):
    """One sort key. `rank`: the key stands after RANK, and its range is that of the whole clause."""

    expression: Expression
    descending: bool
    rank: bool = False


HIGHEST_COUNT: Final = (1 << 32) - 1
"""The greatest number of TOP, OFFSET and LIMIT, as the public tests of the .NET client show it."""


class Select(SyntaxNode, frozen=True):
    """A SELECT. Exactly one of `star`, `value` and a non-empty `items` is present; `sources` is empty without FROM."""

    distinct: bool = False
    top: Expression | None = None
    star: bool = False
    value: Expression | None = None
    items: tuple[SelectItem, ...] = ()
    sources: tuple[FromSource, ...] = ()
    where: Expression | None = None
    group_by: tuple[Expression, ...] = ()
    order_by: tuple[Order, ...] = ()
    offset: Expression | None = None
    limit: Expression | None = None


Expression: TypeAlias = Union[  # noqa: UP007 -- the classes above are named before this exists
    Literal, QueryParameter, Name, Path, Unary, Binary, Logical, Between, In, Like, Conditional, FunctionCall, Array, Object,
    Subquery, FilterSlot, StatisticPlaceholder,
]  # fmt: skip

EXPRESSIONS: Final[tuple[type[SyntaxNode], ...]] = get_args(Expression)


class ParsedQuery(msgspec.Struct, frozen=True, gc=False):
    """A parsed query."""

    text: str
    select: Select


def children(node: SyntaxNode) -> Iterator[SyntaxNode]:
    """The nodes directly below `node`, in the order of the text; below an object they are the values of its fields."""
    if isinstance(node, Object):
        yield from (field.value for field in node.fields)
        return
    for name in node.__struct_fields__:
        held = getattr(node, name)
        if isinstance(held, SyntaxNode):
            yield held
        elif type(held) is tuple:
            yield from held


def is_identity(select: Select) -> bool:
    """True if the rows of a SELECT from the container are the documents themselves that WHERE keeps."""
    source = select.sources[0] if len(select.sources) == 1 else None
    if source is None or source.unnest or not isinstance(source.expression, Name):
        return False
    alias = source.expression.name if source.alias is None else source.alias
    return select.star or (isinstance(select.value, Name) and select.value.name == alias)


def output_name(expression: Expression) -> str | None:
    """The property name of an expression without an alias in a SELECT list; None if it has no name of its own."""
    if isinstance(expression, Name):
        return expression.name
    if isinstance(expression, Path) and isinstance(last := expression.steps[-1], Literal) and type(last.value) is str:
        return last.value
    return None


def output_names(select: Select) -> list[str]:
    """The names of the SELECT list: alias, last property, or `$1`, `$2`… counted over the expressions without a name."""
    names: list[str] = []
    nameless = 0
    for item in select.items:
        name = item.alias if item.alias is not None else output_name(item.expression)
        if name is None:
            nameless += 1
            name = f"${nameless}"
        names.append(name)
    return names
