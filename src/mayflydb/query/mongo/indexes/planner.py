"""Query plans: a lookup by `_id`, scans of index ranges, or a scan of the collection. The filter is applied to all
documents found.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal, NamedTuple

import msgspec

from mayflydb.query.mongo.collation import SIMPLE
from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.faults import MqlError, bad_value
from mayflydb.query.mongo.indexes.bounds import (
    ALL,
    MAX_RANGES,
    NULLS,
    CollationMatch,
    Interval,
    Intervals,
    Range,
    are_points,
    contains,
    explain_bounds,
    has_text,
    intersect,
    merge_ranges,
    ranges_of,
)
from mayflydb.query.mongo.indexes.conditions import (
    Condition,
    Conjuncts,
    excludes_missing,
    implies,
    intervals_of,
    split_conjuncts,
)
from mayflydb.query.mongo.indexes.key_bytes import encode_text, id_key, prefix_end
from mayflydb.query.mongo.indexes.keys import KEY_PREFIX_SIZE, covers_path, hash_value
from mayflydb.query.mongo.indexes.specs import ID, IndexSpec
from mayflydb.query.mongo.paths import array_index, split_path
from mayflydb.query.mongo.text import compile_text
from mayflydb.query.mongo.values import Document, Value, equal, format_value, is_number, order_key, type_name


class Plan(msgspec.Struct, frozen=True):
    """The way to find a superset of the documents that a query matches. The filter is applied to each document found.

    `kind`: `none` finds nothing; `ids` reads the documents of `ids`; `seek` reads the documents with keys of `index` in
    `ranges`; `walk` reads the same documents in key order, reversed if `descending`; `either` is the union of `branches`;
    `scan` reads all documents in natural order, reversed if `descending`.
    `ranges` are half open, ascending and disjoint, over the keys of `indexes.keys`. `sorted`: the documents come in the
    requested order, except those whose keys share a `keys.truncated_prefix`. `duplicates`: a document may come several times;
    the first counts. `fields`: those of `index`, or `words` those of a text search, for `bounds`.
    """

    kind: Literal["none", "ids", "seek", "walk", "either", "scan"]
    ids: tuple[Value, ...] = ()
    index: IndexSpec | None = None
    ranges: tuple[Range, ...] = ()
    descending: bool = False
    sorted: bool = False
    duplicates: bool = False
    multikey: bool = False
    fields: tuple[_IndexField, ...] = ()
    words: tuple[str, ...] | None = None
    branches: tuple[Plan, ...] = ()

    @property
    def bounds(self) -> Document | None:
        """The intervals of each path, printed: explain alone shows them."""
        if self.words is not None:
            return {"_fts": [f'["{word}", "{word}"]' for word in self.words]}
        return explain_bounds(self.fields) if self.fields else None


class _IndexField(NamedTuple):
    """A field of an index, with the intervals that a query leaves of its values."""

    path: str
    intervals: Intervals
    direction: int | str


class _Candidate(NamedTuple):
    """A plan by one index. `narrow`: it excludes documents, so it is preferred to the branches of an `$or`."""

    score: int
    plan: Plan
    narrow: bool = True


class _PlanRequest(NamedTuple):
    """The conjuncts and the order of a query, and the indexes of its collection."""

    parts: Conjuncts
    sort: Document
    specs: Sequence[IndexSpec]
    env: Env
    multikey: Collection[str] | None

    def is_multikey(self, spec: IndexSpec) -> bool:
        return self.multikey is None or spec.name in self.multikey

    def collation_match(self, spec: IndexSpec) -> CollationMatch:
        return CollationMatch(spec.collator, spec.collator == self.env.collation)


def plan(
    query: Document,
    sort: Document | None,
    hint: Value,
    specs: Sequence[IndexSpec],
    env: Env,
    multikey: Collection[str] | None = None,
    namespace: str = "",
) -> Plan:
    """Return the plan of a query that compiles.

    `specs`: the readable indexes. `hint`: None, a name, a key pattern or `$natural`. `env.collation` is the query's; `_id`s
    compare without collation. `multikey`: the names of the multikey indexes; None if each index may be one. MqlError 2 for a
    hint that names no index, 27 for `$text` without a text index.
    """
    parts = split_conjuncts(query)
    request = _PlanRequest(parts, sort or {}, [spec for spec in specs if not spec.hidden], env, multikey)
    if parts.text is not None:
        if hint is not None and hint != {}:
            raise bad_value("text and hint not allowed in same query")
        if _natural_direction(sort):
            raise bad_value("text expression not allowed with $natural sort order")
        return _plan_by_text(request)
    natural = _natural_direction(hint) or _natural_direction(sort)
    if natural:
        return Plan("scan", descending=natural < 0, sorted=_natural_direction(sort) == natural or not sort)
    if hint is not None and hint != {}:
        return _plan_by_hint(request, hint, namespace)
    return _choose_plan(request)


def _natural_direction(of: Value) -> int:
    """Return 1 or -1 if a hint or sort is by `$natural`, else 0."""
    if type(of) is not dict or "$natural" not in of:
        return 0
    if len(of) > 1:
        raise bad_value(f"$natural cannot be given with other fields: {format_value(of)}")
    direction = of["$natural"]
    if not is_number(direction) or order_key(direction) not in (order_key(1), order_key(-1)):
        raise bad_value("$natural sort cannot be set to a value other than -1 or 1.")
    return 1 if order_key(direction) > order_key(0) else -1


def _choose_plan(request: _PlanRequest) -> Plan:
    by_ids = _plan_by_ids(request)
    if by_ids is not None:
        return by_ids
    named = {each.path for each in request.parts.conditions}
    candidates = [
        found
        for spec in request.specs
        if _may_help(request, spec, named) and (found := _plan_by_index(request, spec)) is not None
    ]
    best = max(candidates, key=lambda each: each.score, default=None)
    # An index that only sorts reads every document, so the branches of an `$or` come before it.
    if best is not None and best.narrow:
        return best.plan
    for n, branches in enumerate(request.parts.disjunctions):
        either = _plan_disjunction(request, n, branches)
        if either is not None:
            return either
    return best.plan if best is not None else Plan("scan", sorted=not request.sort)


def _may_help(request: _PlanRequest, spec: IndexSpec, named: Collection[str]) -> bool:
    """Return False only for an index that neither narrows nor orders the result: it is not looked at further."""
    if request.sort or spec.partial is not None or spec.sparse:
        return True
    return any(path in named for path, _ in spec.key) or spec.kind == "wildcard"


def _plan_by_hint(request: _PlanRequest, hint: Value, namespace: str) -> Plan:
    if type(hint) is not str and type(hint) is not dict:
        raise MqlError(9, f"Hint must be a string or an object, but got {type_name(hint)}")
    named = [spec for spec in (*request.specs, ID) if (spec.name == hint or equal(spec.pattern, hint))]
    if not named:
        raise bad_value(
            f"error processing query: {f'ns={namespace} ' if namespace else ''}planner returned error :: caused by :: "
            "hint provided does not correspond to an existing index"
        )
    spec = named[0]
    if spec.is_id:
        by_ids = _plan_by_ids(request)
        if by_ids is not None:
            return by_ids
        if spec not in request.specs:
            return Plan("scan", sorted=not request.sort)
    found = _plan_by_index(request, spec, forced=True)
    if found is None:
        raise MqlError(
            291,
            f"error processing query: planner returned error :: caused by :: index {spec.name} cannot answer this query",
        )
    return found.plan


# --- by _id ----------------------------------------------------------------------------------------------------------------


def _plan_by_ids(request: _PlanRequest) -> Plan | None:
    for operator in ("$eq", "$in"):
        for each in request.parts.conditions:
            if each.path == "_id" and each.operator == operator:
                wanted = [each.operand] if operator == "$eq" else each.operand
                # In `$in` a regular expression is a pattern, which may match any number of ids.
                if any(type_name(value) == "regex" for value in wanted if operator == "$in"):
                    continue
                # Under a collation several ids may equal one text; the identity holds its bytes.
                if request.env.collation != SIMPLE and any(map(has_text, wanted)):
                    continue
                # An `_id` is never an array.
                ids = {id_key(value): value for value in wanted if type(value) is not list}
                alone = len(ids) <= 1
                return (
                    Plan("ids", tuple(ids.values()), sorted=alone or not request.sort)
                    if ids
                    else Plan("none", sorted=True)
                )
    return None


# --- by an index -------------------------------------------------------------------------------------------------------


def _plan_by_index(request: _PlanRequest, spec: IndexSpec, forced: bool = False) -> _Candidate | None:
    """Return a plan by an index that contains all possible matches and narrows or orders the result; None if there is none.

    `forced`: the index is hinted and used even if it helps neither.
    """
    by = request.collation_match(spec)
    conditions = request.parts.conditions
    if spec.partial is not None and not implies(conditions, spec.partial, by):
        return None
    if spec.kind == "text":
        return None
    if spec.kind == "wildcard":
        return _plan_by_wildcard(request, spec, by)
    if (
        spec.sparse
        and not forced
        and not any(each.path in dict(spec.key) and excludes_missing(each, by) for each in conditions)
    ):
        return None
    fields = _bound_fields(request, spec, by)
    if any(not field.intervals for field in fields):
        # Conditions that exclude each other: no index finds less.
        return _Candidate(1 << 20, Plan("none", sorted=True))
    bounded = fields[0].intervals != ALL
    direction = _sort_direction(request, spec, fields, by)
    if forced and not request.sort and spec.kind == "ordered":
        # Without a requested order, a hinted index determines the order.
        direction = 1
    if not (bounded or direction or forced or spec.sparse or spec.partial is not None):
        return None
    return _Candidate(_score_index(fields, direction, spec), _build_plan(request, spec, fields, direction), bounded)


def _build_plan(request: _PlanRequest, spec: IndexSpec, fields: Sequence[_IndexField], direction: int) -> Plan:
    repeats = request.is_multikey(spec)
    ranges = ranges_of([(field.intervals, field.direction) for field in fields], MAX_RANGES, KEY_PREFIX_SIZE)
    if not ranges:
        return Plan("none", sorted=True)
    return Plan(
        "walk" if direction else "seek",
        index=spec,
        ranges=ranges,
        descending=direction < 0,
        sorted=bool(direction) or not request.sort,
        # A seek returns each document once; a walk returns it once for each of its keys.
        duplicates=repeats and bool(direction),
        multikey=repeats,
        fields=tuple(fields),
    )


def _score_index(fields: Sequence[_IndexField], direction: int, spec: IndexSpec) -> int:
    """Return the score of an index: more for each narrowed field, most for points, and a little for the requested order."""
    score = 8 if direction else 0
    for n, field in enumerate(fields):
        if field.intervals == ALL:
            break
        if not are_points(field.intervals):
            return score + 10
        score += 20 if len(field.intervals) == 1 else 16
        if spec.unique and n == len(fields) - 1:
            # All fields of a unique index are points: at most one document for each.
            score += 100
    return score


def _bound_fields(request: _PlanRequest, spec: IndexSpec, by: CollationMatch) -> list[_IndexField]:
    """Return the intervals that the conditions leave of each field of an index.

    A multikey index has one row for each array element, and different elements may satisfy different conditions. So only one
    condition counts for each field, and among fields of one array only conditions that an `$elemMatch` applies to one element.
    """
    repeats, taken = request.is_multikey(spec), dict[str, object]()
    fields = []
    for path, direction in spec.key:
        usable = []
        root = split_path(path)[0]
        for each in request.parts.conditions:
            if each.path != path or (repeats and root in taken and (each.group is None or each.group != taken[root])):
                continue
            intervals = _usable_intervals(each, direction, spec, by)
            if intervals is not None and intervals != ALL:
                usable.append((each, intervals))
        found = ALL
        if repeats and usable:
            chosen, found = min(usable, key=lambda each: (not are_points(each[1]), len(each[1])))
            taken[root] = chosen.group
        else:
            for _, intervals in usable:
                found = intersect(found, intervals)
        fields.append(_IndexField(path, found, direction))
    return fields


def _usable_intervals(
    condition: Condition, direction: int | str, spec: IndexSpec, by: CollationMatch
) -> Intervals | None:
    if direction == "hashed":
        return _hash_intervals(condition, by)
    intervals = intervals_of(condition, by)
    if intervals is not None and spec.sparse and contains(intervals, NULLS):
        # If only some elements of an array have the path, a sparse index lacks the others.
        return None
    return intervals


def _hash_intervals(condition: Condition, by: CollationMatch) -> Intervals | None:
    if condition.operator not in ("$eq", "$in"):
        return None
    wanted = [condition.operand] if condition.operator == "$eq" else condition.operand
    if any(type(value) is list or type_name(value) == "regex" for value in wanted):
        return None
    if not by.is_same and any(map(has_text, wanted)):
        return None
    keys = sorted({hash_value(value, by.collation) for value in wanted})
    return tuple(Interval(key, prefix_end(key), f"[{key.hex()}", f"{key.hex()}]", True) for key in keys)


def _sort_direction(request: _PlanRequest, spec: IndexSpec, fields: Sequence[_IndexField], by: CollationMatch) -> int:
    """Return 1 if an index has the requested order, -1 if it has the reverse, else 0."""
    if not request.sort or spec.kind != "ordered" or not by.is_same:
        return 0
    if len({split_path(path)[0] for path in request.sort}) < len(request.sort):
        # A sort considers all elements of a shared array, an index only those that have fields.
        return 0
    wanted = []
    for path, direction in request.sort.items():
        if not is_number(direction) or any(array_index(part) is not None for part in split_path(path)):
            # In a sort a number is an index of the array or a field of its elements; in an index key it is the former only.
            return 0
        wanted.append((path, 1 if order_key(direction) > order_key(0) else -1))
    fixed = 0
    while fixed < len(fields) and len(fields[fixed].intervals) == 1 and fields[fixed].intervals[0].point:
        fixed += 1
    repeats = request.is_multikey(spec)
    # Fields with a single value do not change the order, so the sort may begin behind any of them.
    for start in (fixed,) if repeats else range(fixed + 1):
        part = fields[start : start + len(wanted)]
        if [field.path for field in part] != [path for path, _ in wanted]:
            continue
        directions = {direction * int(field.direction) for field, (_, direction) in zip(part, wanted, strict=True)}
        if len(directions) == 1 and (not repeats or _sorts_multikey(fields[:start], part)):
            return directions.pop()
    return 0


def _sorts_multikey(fixed: Sequence[_IndexField], part: Sequence[_IndexField]) -> bool:
    """Return whether the first key of each document is its sort key, which holds if no key of the document is excluded."""
    roots = [split_path(field.path)[0] for field in (*fixed, *part)]
    return all(field.intervals == ALL for field in part) and len(set(roots)) == len(roots)


# --- wildcards and words -----------------------------------------------------------------------------------------------


def _plan_by_wildcard(request: _PlanRequest, spec: IndexSpec, by: CollationMatch) -> _Candidate | None:
    best: _Candidate | None = None
    for each in request.parts.conditions:
        intervals = _wildcard_intervals(each, spec, by)
        if intervals is None:
            continue
        key = encode_text(each.path)
        here = Interval(key, prefix_end(key), f'["{each.path}"', f'"{each.path}"]', True)
        fields = [_IndexField("$_path", (here,), 1), _IndexField(each.path, intervals, 1)]
        score = 15 if are_points(intervals) else 9
        if best is None or score > best.score:
            best = _Candidate(score, _build_plan(request._replace(multikey=None), spec, fields, 0))
    return best


def _wildcard_intervals(condition: Condition, spec: IndexSpec, by: CollationMatch) -> Intervals | None:
    """Return the intervals of a condition if a wildcard index has all values at the path.

    A wildcard index stores the leaves of documents and arrays, not the documents and arrays themselves.
    """
    operand = condition.operand
    parts = split_path(condition.path)
    if condition.operator in ("$exists", "$elemMatch") or any(array_index(part) is not None for part in parts):
        return None
    values = operand if condition.operator == "$in" else [operand]
    if any(type_name(value) in ("object", "array") for value in values if type(value) is not tuple):
        return None
    intervals = intervals_of(condition, by)
    whole = intervals is None or intervals == ALL or contains(intervals, NULLS)
    return None if whole or not covers_path(spec, condition.path) else intervals


def _plan_by_text(request: _PlanRequest) -> Plan:
    spec = next((each for each in request.specs if each.kind == "text"), None)
    search = compile_text(request.parts.text, None if spec is None else spec.text)
    assert spec is not None
    words = sorted(search.keys)
    if spec.partial is not None and not implies(request.parts.conditions, spec.partial, request.collation_match(spec)):
        raise MqlError(291, "error processing query: the text index is partial, and the query is not inside its filter")
    ranges = merge_ranges(
        (encode_text(word)[:KEY_PREFIX_SIZE], prefix_end(encode_text(word)[:KEY_PREFIX_SIZE])) for word in words
    )
    return Plan(
        "seek" if words else "none",
        index=spec,
        ranges=ranges,
        sorted=not request.sort,
        multikey=True,
        words=tuple(words),
    )


# --- several ways --------------------------------------------------------------------------------------------------------


def _plan_disjunction(request: _PlanRequest, n: int, branches: Sequence[Document]) -> Plan | None:
    """Return a plan with one branch for each branch of an `$or`; None if a branch needs a scan."""
    plans = []
    others = [each for m, each in enumerate(request.parts.disjunctions) if m != n]
    for branch in branches:
        inner = split_conjuncts(branch)
        conditions = [*request.parts.conditions, *inner.conditions]
        parts = Conjuncts(conditions, [*others, *inner.disjunctions], inner.text)
        # The branches are read one after the other, so their order is lost and no index is chosen for it.
        found = _choose_plan(request._replace(parts=parts, sort={}))
        # One branch without an index reads everything anyway.
        if found.kind in ("scan", "walk") or inner.text is not None:
            return None
        plans.append(found)
    kept = tuple(each for each in plans if each.kind != "none")
    if not kept:
        return Plan("none", sorted=True)
    repeats = len(kept) > 1 or any(each.duplicates for each in kept)
    return Plan("either", branches=kept, sorted=not request.sort, duplicates=repeats)
