"""Updates, deletes and indexes that a time series collection refuses.

Rules: https://www.mongodb.com/docs/manual/core/timeseries/timeseries-limitations/ and
https://www.mongodb.com/docs/manual/core/timeseries/timeseries-secondary-index/
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from mayflydb.frontends.mongo.collections import Collection
from mayflydb.frontends.mongo.time_series.series import Series
from mayflydb.query.mongo.expressions import depends_on
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.indexes.specs import IndexSpec
from mayflydb.query.mongo.values import Document, Value

ON: Final = "on a time-series collection"


def fields_of(query: Document) -> frozenset[str] | None:
    """The top-level fields that a filter reads; None: it may read any."""
    found: set[str] = set()
    for name, operand in query.items():
        if name in ("$and", "$or", "$nor"):
            parts: Iterable[frozenset[str] | None] = [fields_of(each) for each in operand if type(each) is dict]
        elif name == "$expr":
            parts = [depends_on(operand)]
        elif name == "$comment":
            parts = []
        else:
            parts = [None if name.startswith("$") else frozenset((name.partition(".")[0],))]
        for part in parts:
            if part is None:
                return None
            found |= part
    return frozenset(found)


def _is_only(fields: frozenset[str] | None, field: str | None) -> bool:
    return fields is not None and field is not None and fields <= {field}


# --- statements ------------------------------------------------------------------------------------------------------


def check_update(collection: Collection | None, query: Document, updates: Value, many: bool, upsert: bool) -> None:
    """Raise MqlError 72 for an update that does more than change the meta field of all measurements with some of its values."""
    if collection is None or collection.series is None:
        return
    meta = collection.series.meta_field
    if not many:
        raise MqlError(72, f"Cannot perform a non-multi update {ON}")
    if upsert:
        raise MqlError(72, f"Cannot perform an upsert {ON}")
    if meta is None:
        raise MqlError(72, f"Cannot perform an update {ON} that does not have a metaField")
    if type(updates) is not dict or not all(name.startswith("$") for name in updates):
        raise MqlError(72, f"Cannot perform an update {ON} with a pipeline or a replacement document")
    if not _is_only(fields_of(query), meta):
        raise MqlError(72, f"Cannot perform an update {ON} whose query reads a field other than the metaField '{meta}'")
    if not _is_only(_changed_fields(updates), meta):
        raise MqlError(72, f"Cannot perform an update {ON} that changes a field other than the metaField '{meta}'")


def _changed_fields(updates: Mapping[str, Any]) -> frozenset[str]:
    found: set[str] = set()
    for name, operands in updates.items():
        if type(operands) is dict:
            found.update(path.partition(".")[0] for path in operands)
            if name == "$rename":
                found.update(to.partition(".")[0] for to in operands.values() if type(to) is str)
    return frozenset(found)


def check_delete(collection: Collection, order: Document | None) -> None:
    """Raise MqlError 72 for a findAndModify that removes the first measurement of an order."""
    if collection.series is not None and order:
        raise MqlError(72, f"Cannot perform a findAndModify with a query and sort {ON}.")


# --- indexes ---------------------------------------------------------------------------------------------------------


def check_index(series: Series, spec: IndexSpec) -> None:
    """Raise MqlError 72 and 67 for an index that no time series can have."""
    if spec.unique or spec.prepare_unique:
        raise MqlError(72, "Unique indexes are not supported on time-series collections")
    if any(path == "$**" for path, _ in spec.key):
        raise MqlError(7246201, "Wildcard indexes over all fields are not supported on time-series collections")
    if spec.kind == "text":
        raise MqlError(72, "Text indexes are not supported on time-series collections")
    on_measurements = [
        path for path, _ in spec.key if path.partition(".")[0] not in (series.time_field, series.meta_field)
    ]
    if spec.sparse and on_measurements:
        raise MqlError(72, "Sparse indexes are not supported on time-series measurements")
    if spec.kind == "hashed" and any(_is_hashed_outside(series, *part) for part in spec.key):
        raise MqlError(67, "Hashed indexes are not supported on time-series measurements and times")
    if spec.expire_after is not None:
        _check_ttl(series, spec)


def _is_hashed_outside(series: Series, path: str, way: int | str) -> bool:
    return way == "hashed" and path.partition(".")[0] != series.meta_field


def _check_ttl(series: Series, spec: IndexSpec) -> None:
    if [path for path, _ in spec.key] != [series.time_field]:
        raise MqlError(72, "TTL indexes on non-time fields are not supported on time-series collections")
    # Under Cosmos DB's semantics a TTL index on `_ts` counts from the last write.
    if spec.partial is None or not _is_only(fields_of(spec.partial), series.meta_field):
        raise MqlError(72, "TTL indexes on time-series collections require a partialFilterExpression on the metaField")


def check_index_documents(documents: Iterable[Document]) -> None:
    """Raise MqlError 85 for a specification with a partial filter and a collation."""
    for each in documents:
        if each.get("partialFilterExpression") is not None and each.get("collation") is not None:
            text = "On a time-series collection, partialFilterExpression and collation arguments are incompatible"
            raise MqlError(85, text)
