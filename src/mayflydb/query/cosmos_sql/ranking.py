"""ORDER BY RANK: its scores, and the queries that compute them.

A full-text score depends on statistics over all items, which a query of its own counts first. Then one query for each score
gives the items that rank best by that score, with all scores of each item. Reciprocal rank fusion merges these lists. Over
several ranges the clients do this by the plan; over one range `search` does. The queries are those of the plans that the .NET
client's public tests expect.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from mayflydb.query.cosmos_sql.faults import (
    ARGUMENT_COUNT,
    NO_SCORE,
    RANK_OF_ELEMENTS,
    RANK_OF_SUBQUERY,
    RANK_WITH_JOIN,
    WEIGHTS,
    bad_query,
    unsupported,
)
from mayflydb.query.cosmos_sql.functions import fulltext, vector
from mayflydb.query.cosmos_sql.numbers import to_double
from mayflydb.query.cosmos_sql.rewrite import from_first_row, object_of, payload_expression, with_sort_keys
from mayflydb.query.cosmos_sql.scope import Parameters
from mayflydb.query.cosmos_sql.syntax import (
    HIGHEST_COUNT,
    Array,
    Binary,
    Expression,
    FromSource,
    FunctionCall,
    Literal,
    Order,
    QueryParameter,
    Select,
    SelectItem,
    StatisticPlaceholder,
    Subquery,
    SyntaxNode,
    Unary,
)  # fmt: skip
from mayflydb.query.cosmos_sql.values import NUMBERS, Value

MIN_ROWS: Final = 120
"""Each component query gives at least so many items; for larger results, twice as many as the result needs."""

MAX_SCORES: Final = 20
"""The most scores of an RRF. The component query of each score repeats all scores. The service documents no limit."""

RANK_CONSTANT: Final = 60
"""The k of reciprocal rank fusion, 60 as in the paper (Cormack, Clarke and Büttcher, SIGIR 2009)."""

_WORST_TEXT: Final = -1
_WORST_VECTOR: Final = 1.79769e308
"""The scores of items without a score, in the service's own numbers."""


class TextStatistics(msgspec.Struct, frozen=True):
    """The statistics for full-text scores.

    `documents`: the number of items. `texts`: for each score, the number of words in all texts, and for each of its phrases the
    number of texts that contain it.
    """

    documents: Expression
    texts: tuple[tuple[Expression, Expression], ...]


class Score(msgspec.Struct, frozen=True):
    """A VectorDistance or a FullTextScore of `phrases`. A negative `weight` ranks the lowest score first."""

    call: FunctionCall
    phrases: tuple[Expression, ...] = ()
    weight: float = 1.0

    @property
    def descending(self) -> bool:
        """True if the highest score ranks first."""
        return self.weight >= 0


class Ranking(msgspec.Struct, frozen=True):
    """ORDER BY RANK of one query. `weighted`: the query gives weights."""

    select: Select
    scores: tuple[Score, ...]
    weighted: bool

    @property
    def texts(self) -> tuple[Score, ...]:
        """The full-text scores."""
        return tuple(score for score in self.scores if score.phrases)

    def statistics_query(self) -> Select:
        """The query for the statistics of full-text scores; the results of several ranges can be added up."""
        texts = Array(items=tuple(_statistics_expression(score) for score in self.texts))
        count = FunctionCall(name="COUNT", arguments=(Literal(value=1),), udf=False)
        items = (
            SelectItem(expression=count, alias="documentCount"),
            SelectItem(expression=texts, alias="fullTextStatistics"),
        )
        return Select(items=items, sources=self.select.sources)

    def components(self, statistics: TextStatistics, stop: int) -> tuple[Select, ...]:
        """Return for each score the query for the items that rank best by it, enough for a result that ends at row `stop`."""
        expressions = self._expressions(statistics)
        shown = [_score_or_worst(*each) for each in zip(self.scores, expressions, strict=True)]
        fields = [("payload", payload_expression(self.select)), ("componentScores", Array(items=tuple(shown)))]
        bound = min(max(MIN_ROWS, 2 * stop), HIGHEST_COUNT)
        found: list[Select] = []
        for score, expression in zip(self.scores, expressions, strict=True):
            order = Order(expression=expression, descending=score.descending)
            select = with_sort_keys(self.select, (order,), object_of(fields))
            if select.top is not None:
                select = replace(select, top=Literal(value=bound))
            found.append(select if select.offset is None else from_first_row(select, bound))
        return tuple(found)

    def _expressions(self, statistics: TextStatistics) -> list[Expression]:
        texts = iter(statistics.texts)
        found: list[Expression] = []
        for score in self.scores:
            if score.phrases:
                arguments = (score.call.arguments[0], Array(items=score.phrases), statistics.documents, *next(texts))
                found.append(_build_call(fulltext.SCORE, *arguments))
            else:
                found.append(_build_call(vector.SCORE, *score.call.arguments))
        return found


def placeholders(ranking: Ranking) -> TextStatistics:
    """The statistics as placeholders, which clients replace by the numbers that they have counted."""
    prefix = "documentdb-formattablehybridsearchquery"
    texts = (
        (
            StatisticPlaceholder(name=f"{prefix}-totalwordcount-{number}"),
            StatisticPlaceholder(name=f"{prefix}-hitcountsarray-{number}"),
        )
        for number in range(len(ranking.texts))
    )
    return TextStatistics(StatisticPlaceholder(name=f"{prefix}-totaldocumentcount"), tuple(texts))


def parse_statistics(row: dict[str, Any]) -> TextStatistics:
    """The statistics from the result row of the statistics query."""
    texts = (
        (Literal(value=each["totalWordCount"]), Array(items=tuple(Literal(value=hits) for hits in each["hitCounts"])))
        for each in row["fullTextStatistics"]
    )
    return TextStatistics(Literal(value=row["documentCount"]), tuple(texts))


def empty_statistics(ranking: Ranking) -> TextStatistics:
    """The statistics of a container without items."""
    none = Literal(value=0)
    return TextStatistics(none, tuple((none, Array(items=(none,) * len(score.phrases))) for score in ranking.texts))


def fuse_ranks(scores: Sequence[Score], found: Sequence[list[Any]]) -> list[Value]:
    """Merge the results of the component queries: payloads by descending sum of weight / (60 + rank), as clients merge them.

    Ranks are dense: equal scores have the same rank. Equal sums are ordered by rid, as text.
    """
    if len(scores) == 1:
        # One list is in order already.
        return [row["payload"]["payload"] for row in found[0]]
    # Each item once, by rid. The sort below is stable and keeps this order among equal sums.
    rows = sorted({row["_rid"]: row["payload"] for each in found for row in each}.items())
    sums = [0.0] * len(rows)
    for position, score in enumerate(scores):
        values = [payload["componentScores"][position] for _, payload in rows]
        order = sorted(set(values), reverse=score.descending)
        ranks = {value: rank for rank, value in enumerate(order, 1)}
        for row, value in enumerate(values):
            sums[row] += abs(score.weight) / (RANK_CONSTANT + ranks[value])
    best = sorted(range(len(rows)), key=lambda row: -sums[row])
    return [rows[row][1]["payload"] for row in best]


def _build_call(name: str, *arguments: Expression) -> FunctionCall:
    return FunctionCall(name=name, arguments=arguments, udf=False)


def _statistics_expression(score: Score) -> Expression:
    text = score.call.arguments[0]
    hits = (_build_call("COUNTIF", _build_call(fulltext.CONTAINS, text, phrase)) for phrase in score.phrases)
    total = _build_call("SUM", _build_call(fulltext.WORD_COUNT, text))
    return object_of([("totalWordCount", total), ("hitCounts", Array(items=tuple(hits)))])


def _score_or_worst(score: Score, expression: Expression) -> Expression:
    """The score, or the worst score where it is undefined: another component found the item and this one cannot score it."""
    worst: float = _WORST_VECTOR
    if score.descending:
        worst = _WORST_TEXT if score.phrases else -_WORST_VECTOR
    return Binary(operator="??", left=expression, right=Literal(value=worst))


# The expression after RANK.


def ranking_of(select: Select, parameters: Parameters) -> Ranking | None:
    """Return the ranking of ORDER BY RANK; None without RANK, and for RANK VectorDistance, which equals ORDER BY. BadQuery
    for a wrong clause.
    """
    order = next((order for order in select.order_by if order.rank), None)
    if order is None:
        return None
    _check_sources(select, order)
    if vector.is_distance(order.expression):
        return None
    if select.distinct:
        raise unsupported("DISTINCT with ORDER BY RANK", order.start, order.end)
    calls, weights = _fused_calls(order, parameters)
    if not calls or not all(vector.is_distance(call) or _is_score(call) for call in calls):
        message = "The ORDER BY RANK clause must be followed by a VectorDistance and/or a FullTextScore function call."
        raise bad_query(message, order.start, order.end, NO_SCORE)
    if len(calls) > MAX_SCORES:
        raise bad_query(f"RRF takes at most {MAX_SCORES} scores.", order.start, order.end)
    scores = tuple(Score(call, _phrases(call, parameters)) for call in calls if isinstance(call, FunctionCall))
    if weights is not None:
        scores = tuple(replace(score, weight=weight) for score, weight in zip(scores, weights, strict=True))
    return Ranking(select, scores, weights is not None)


def _is_score(node: SyntaxNode) -> bool:
    return isinstance(node, FunctionCall) and not node.udf and node.name.upper() == "FULLTEXTSCORE"


def _check_sources(select: Select, order: Order) -> None:
    if not select.sources:
        raise bad_query("The ORDER BY RANK clause needs a FROM clause.", order.start, order.end)
    first, last = select.sources[0], select.sources[-1]
    if len(select.sources) > 1:
        message = "The JOIN operator is not allowed with the ORDER BY RANK clause."
        raise bad_query(message, first.start, last.end, RANK_WITH_JOIN)
    if first.unnest:
        message = "The FROM clause with the IN operator is not allowed with the ORDER BY RANK clause."
        raise bad_query(message, first.start, first.end, RANK_OF_ELEMENTS)
    _check_subquery(first)


def _check_subquery(source: FromSource) -> None:
    node = source.expression
    if isinstance(node, Subquery):
        message = "Subqueries in the FROM clause are not allowed with the ORDER BY RANK clause."
        raise bad_query(message, node.start, node.end, RANK_OF_SUBQUERY)


def _fused_calls(order: Order, parameters: Parameters) -> tuple[tuple[Expression, ...], list[float] | None]:
    """The scores and their weights, if the query gives weights; no scores for an RRF of fewer than two."""
    node = order.expression
    if not isinstance(node, FunctionCall) or node.udf or node.name.upper() != "RRF":
        return (node,), None
    calls, weights = node.arguments, None
    if calls and isinstance(calls[-1], Array | QueryParameter):
        *scored, last = calls
        calls, weights = tuple(scored), _weights(last, parameters, len(scored))
    return (calls if len(calls) > 1 else ()), weights


def _weights(node: Expression, parameters: Parameters, count: int) -> list[float]:
    if isinstance(node, QueryParameter):
        given = parameters.get(node.name)
    else:
        given = [_constant(item) for item in node.items] if isinstance(node, Array) else None
    if type(given) is list and len(given) == count and all(map(_is_weight, given)):
        return [float(weight) for weight in given]
    raise bad_query(
        "The last parameter of the RRF function is an optional array of weights. When present, it must be a literal array of "
        "numbers, one for each of the component scores used for the RRF function. The length of this array must be the same as "
        "the number of the component scores.",
        node.start, node.end, WEIGHTS,
    )  # fmt: skip


def _constant(node: Expression) -> Any:
    if isinstance(node, Unary) and node.operator == "-" and isinstance(node.operand, Literal):
        value = node.operand.value
        return -value if type(value) in NUMBERS else None
    return node.value if isinstance(node, Literal) else None


def _is_weight(value: Any) -> bool:
    return type(value) in NUMBERS and math.isfinite(to_double(value))


def _phrases(call: Expression, parameters: Parameters) -> tuple[Expression, ...]:
    """The phrases of a FullTextScore: its further arguments, or the elements of a single array."""
    if not isinstance(call, FunctionCall) or not _is_score(call):
        return ()
    phrases = call.arguments[1:]
    if len(phrases) == 1:
        (given,) = phrases
        held = parameters.get(given.name) if isinstance(given, QueryParameter) else None
        if isinstance(given, Array):
            phrases = given.items
        elif type(held) is list:
            phrases = tuple(Literal(value=each, start=given.start, end=given.end) for each in held)
    if not phrases:
        message = "The FULLTEXTSCORE function requires at least 2 argument(s)."
        raise bad_query(message, call.start, call.end, ARGUMENT_COUNT)
    return phrases
