"""Which queries, projections, pipelines and updates are cheap: their time is linear, with a small factor, in the bytes they read.

This is decided on what the client sent, which the caller knows to be small. A wrong "not cheap" costs a thread's call, a wrong
"cheap" would hold the event loop. So an operator that is not named here is not cheap.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from bson import Regex

from mayflydb.query.mongo.expressions import OPERATORS
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.patterns import is_literal
from mayflydb.query.mongo.values import Document, Value, decode

MAX_CONDITIONS: Final = 32
"""The maximum number of conditions of a cheap query: each may look at every byte of a document."""

MAX_NODES: Final = 64
"""The maximum number of operators and paths in the expressions of a cheap pipeline or projection."""

MAX_GROWTH: Final = 16
"""The maximum factor by which the computed fields of a cheap pipeline can make a document grow."""

MAX_STAGES: Final = 16


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_LIST_OPERATORS: Final = frozenset({"$and", "$or", "$nor"})
_VALUE_OPERATORS: Final = _names(
    "$eq $ne $gt $gte $lt $lte $exists $type $size $mod $bitsAllSet $bitsAllClear $bitsAnySet $bitsAnyClear $comment "
    "$sampleRate $alwaysTrue $alwaysFalse $ref $id $db"
)
_MEMBERSHIP: Final = frozenset({"$in", "$nin"})

_EXPRESSIONS: Final = _names(
    "$abs $add $and $arrayElemAt $ceil $cmp $cond $dateFromParts $dateToParts $dateToString $dateTrunc $dayOfMonth "
    "$dayOfWeek $dayOfYear $divide $eq $first $floor $getField $gt $gte $hour $ifNull $in $isArray $isNumber "
    "$isoDayOfWeek $isoWeek $isoWeekYear $last $lt $lte $max $millisecond $min $minute $mod $month $multiply $ne $not "
    "$or $second $size $strLenBytes $strLenCP $substrBytes $substrCP $subtract $switch $toBool $toDate $toDouble $toInt "
    "$toLong $toLower $toObjectId $toUpper $type $week $year $concat $toString $strcasecmp $allElementsTrue "
    "$anyElementTrue $bsonSize $binarySize $sum $avg"
)
_ACCUMULATORS: Final = _names("$sum $avg $min $max $first $last $count $push $addToSet")


class _NotCheap(Exception):
    pass


# --- messages --------------------------------------------------------------------------------------------------------

# These names mean something cheap outside of expressions, or everywhere.
_OTHER_MEANINGS: Final = _names("$literal $const $slice $meta")
_COSTLY_NAMES: Final = frozenset({"$jsonSchema", "$options", *OPERATORS} - _EXPRESSIONS - _OTHER_MEANINGS)
_LITERAL_PATTERN: Final = rb"\^?[A-Za-z0-9_ /-]*\0"
_COSTLY: Final = re.compile(
    # Each alternative begins with one certain byte: only then does a search skip quickly what cannot match.
    rb"\$(?<=[\x01-\x13\xff\x7f]\$)(?:%b)\0|\$regex\0(?!....%b)|\x0b[^\0]+\0(?!%b\0)"
    % (b"|".join(name[1:].encode() for name in sorted(_COSTLY_NAMES)), _LITERAL_PATTERN, _LITERAL_PATTERN),
    re.DOTALL,
)


def is_costly_message(data: bytes) -> bool:
    """Return True if a BSON document, or one in it, may have an operator or a pattern that takes long to compile.

    Constant expressions are computed when they are compiled: `{$max: {$range: [0, 5000000]}}` takes seconds. So does a pattern
    of some thousand characters. Plain documents with such names are taken for costly, too.
    """
    # The names that a driver sends with every command come first: without a further `$` or a pattern there is nothing to search.
    plain = data.count(b"$db\0") + data.count(b"$clusterTime\0")
    if (data.count(b"$") <= plain and b"\x0b" not in data) or _COSTLY.search(data) is None:
        return False
    # The bytes of a session's id or of a number may look like a pattern, and its commands would all be computed on a thread.
    try:
        return _has_costly_part(decode(data))
    except (MqlError, RecursionError):
        return True


def _has_costly_part(document: Document) -> bool:
    left: list[Value] = [document]
    while left:
        part = left.pop()
        if type(part) is list:
            left += part
        elif type(part) is Regex:
            if type(part.pattern) is not str or part.flags or not is_literal(part.pattern):
                return True
        elif isinstance(part, dict):
            for name, value in part.items():
                if name in _COSTLY_NAMES or (name == "$regex" and not (type(value) is str and is_literal(value))):
                    return True
                left.append(value)
    return False


# --- queries ---------------------------------------------------------------------------------------------------------


def is_cheap_query(query: Document) -> bool:
    """Return True if a query is cheap."""
    try:
        _count_conditions(query)
    except _NotCheap:
        return False
    return True


def _count_conditions(query: Document) -> int:
    count = 0
    for name, operand in query.items():
        if name[:1] != "$":
            count += _count_operators(operand)
        elif name in _LIST_OPERATORS and type(operand) is list:
            count += sum(_count_conditions(each) for each in operand if type(each) is dict)
        elif name == "$expr":
            count += _Expressions().count(operand)
        elif name in _VALUE_OPERATORS:
            count += 1
        else:
            raise _NotCheap
        if count > MAX_CONDITIONS:
            raise _NotCheap
    return count


def _count_operators(operand: Value) -> int:
    if type(operand) is Regex:
        return _count_pattern(operand)
    if type(operand) is not dict or next(iter(operand), "")[:1] != "$":
        return 1
    count = 0
    for name, each in operand.items():
        if name == "$not":
            count += _count_operators(each)
        elif name == "$elemMatch" and type(each) is dict:
            # Within an array a condition on the elements and one on their fields look alike.
            count += _count_operators(each) if next(iter(each), "")[:1] == "$" else _count_conditions(each)
        elif name in _MEMBERSHIP and type(each) is list:
            count += 1 + sum(_count_pattern(one) for one in each if type(one) is Regex)
        elif name == "$all" and type(each) is list:
            count += sum(map(_count_operators, each))
        elif name == "$regex":
            count += _count_regex(operand)
        elif name in _VALUE_OPERATORS:
            count += 1
        elif name != "$options":
            raise _NotCheap
    return count


def _count_pattern(pattern: Regex[str]) -> int:
    # Plain text is found by a search of strings; anything else may look at a text again and again.
    if type(pattern.pattern) is str and not pattern.flags and is_literal(pattern.pattern):
        return 1
    raise _NotCheap


def _count_regex(operators: Document) -> int:
    pattern = operators["$regex"]
    if type(pattern) is Regex:
        return _count_pattern(pattern)
    if type(pattern) is str and not operators.get("$options") and is_literal(pattern):
        return 1
    raise _NotCheap


# --- expressions -----------------------------------------------------------------------------------------------------


class _Expressions:
    """Counts the operators and paths of expressions; `paths` may each copy a whole document into the output."""

    def __init__(self) -> None:
        self.nodes = 0
        self.paths = 0

    def count(self, spec: Value) -> int:
        """Add one expression, and return the number of nodes so far. _NotCheap for an operator that may not be cheap."""
        if type(spec) is str:
            if spec[:1] == "$":
                self.nodes += 1
                self.paths += 1
        elif type(spec) is list:
            # A list of constants may be searched for each document.
            self.nodes += len(spec)
            for each in spec:
                self.count(each)
        elif type(spec) is dict:
            for name, each in spec.items():
                if name in ("$literal", "$const"):
                    continue
                if name[:1] == "$" and name not in _EXPRESSIONS:
                    raise _NotCheap
                self.nodes += 1
                self.count(each)
        if self.nodes > MAX_NODES:
            raise _NotCheap
        return self.nodes


_WITHOUT_EXPRESSION: Final = (int, bool, float)


def is_cheap_projection(spec: Document) -> bool:
    """Return True if a projection of find is cheap."""
    for each in spec.values():
        if type(each) not in _WITHOUT_EXPRESSION:
            break
    else:
        return True
    try:
        found = _Expressions()
        conditions = 0
        for each in spec.values():
            if type(each) is dict and "$elemMatch" in each:
                conditions += _count_operators(each)
            elif type(each) is not dict or "$slice" not in each:
                found.count(each)
        return found.paths <= MAX_GROWTH and conditions <= MAX_CONDITIONS
    except _NotCheap:
        return False


# --- pipelines -------------------------------------------------------------------------------------------------------


def is_cheap_pipeline(stages: Sequence[Value]) -> bool:
    """Return True if all stages of a pipeline are cheap."""
    if len(stages) > MAX_STAGES:
        return False
    found, conditions, growth = _Expressions(), 0, 1
    try:
        for stage in stages:
            if type(stage) is not dict or len(stage) != 1:
                return False
            ((name, spec),) = stage.items()
            before = found.paths
            if name == "$match" and type(spec) is dict:
                conditions += _count_conditions(spec)
            elif name in ("$project", "$addFields", "$set", "$replaceRoot", "$replaceWith"):
                found.count(spec)
                growth *= max(1, found.paths - before)
            elif name == "$group" and type(spec) is dict:
                _count_group(spec, found)
            elif name == "$sortByCount":
                found.count(spec)
            elif name not in ("$limit", "$skip", "$count", "$unset", "$sample") and not _is_plain_sort(name, spec):
                return False
    except _NotCheap:
        return False
    return conditions <= MAX_CONDITIONS and growth <= MAX_GROWTH


def _count_group(spec: Document, found: _Expressions) -> None:
    for name, each in spec.items():
        if name == "_id":
            found.count(each)
            continue
        if type(each) is not dict or len(each) != 1:
            raise _NotCheap
        ((operator, operand),) = each.items()
        if operator not in _ACCUMULATORS:
            raise _NotCheap
        found.count(operand)


def _is_plain_sort(name: str, spec: Value) -> bool:
    # A sort of arrays by several paths compares rows, and `$meta` needs the words of a text.
    return name == "$sort" and type(spec) is dict and not any(type(each) is dict for each in spec.values())


# --- updates ---------------------------------------------------------------------------------------------------------

_MODIFIERS: Final = frozenset(
    "$set $unset $setOnInsert $inc $mul $min $max $currentDate $rename $push $pop $bit".split()  # noqa: SIM905
)

MAX_CHANGES: Final = 256
"""The maximum number of paths that a cheap update changes."""


def is_cheap_update(updates: Value, array_filters: Sequence[Value] = ()) -> bool:
    """Return True if an update is cheap: a replacement, or plain modifiers of paths without `$[]`."""
    if type(updates) is not dict or array_filters:
        return False
    if next(iter(updates), "")[:1] != "$":
        return True
    paths = 0
    for name, changes in updates.items():
        if name not in _MODIFIERS or type(changes) is not dict:
            return False
        paths += len(changes)
        for path, value in changes.items():
            if "[" in path or (name == "$push" and type(value) is dict and "$sort" in value):
                return False
    return paths <= MAX_CHANGES
