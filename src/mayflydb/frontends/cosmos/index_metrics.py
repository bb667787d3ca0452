"""Index metrics of a query: the indexes of the container's policy that serve it, and those that would.

The metrics describe the indexing policy, which people tune for the service: an included path counts as indexed. The indexes that
Mayfly has built show in `retrievedDocumentCount`. Composite indexes that might help are not searched for.
Format: https://learn.microsoft.com/azure/cosmos-db/nosql/index-metrics.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from mayflydb.engine.scans import Scope
from mayflydb.frontends.cosmos.headers import INDEX_UTILIZATION, POPULATE_INDEX_METRICS, POPULATE_INDEX_METRICS_V2
from mayflydb.frontends.cosmos.indexing import path_filter
from mayflydb.frontends.cosmos.views import ContainerView
from mayflydb.frontends.cosmos.wire import Request
from mayflydb.query.cosmos_sql import Query

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def index_metrics(request: Request, view: ContainerView, query: Query, scope: Scope) -> list[tuple[bytes, bytes]]:
    """Return the header, if the request asks for it. Python reads base64, other clients URL-encoding."""
    plain = request.flag(POPULATE_INDEX_METRICS)
    if not plain and not request.flag(POPULATE_INDEX_METRICS_V2):
        return []
    indexed = path_filter(view.node.body["indexingPolicy"])
    paths = query.filter_paths()
    order = [(path, descending) for path, descending in query.sort_paths() if path is not None]
    # A sort by one path uses the same index as a filter over it. More paths need a composite index.
    if len(order) == 1:
        paths = [*paths, order[0][0]]
    used = [_single_index("/_epk/?")] if scope.is_one_partition else []
    composite = [{"IndexSpecs": list(map(_composite_spec, order)), "IndexPreciseSet": True, "IndexImpactScore": "High"}]
    text = msgspec.json.encode({
        "UtilizedSingleIndexes": used + [_single_index(_path_spec(path)) for path in dict.fromkeys(paths) if indexed(path)],
        "PotentialSingleIndexes": [_single_index(_path_spec(path)) for path in dict.fromkeys(paths) if not indexed(path)],
        "UtilizedCompositeIndexes": composite if len(order) > 1 else [],
        "PotentialCompositeIndexes": [],
    })  # fmt: skip
    return [(INDEX_UTILIZATION, b64encode(text) if plain else quote(text).encode())]


def _single_index(spec: str) -> dict[str, Any]:
    precise = {"FilterPreciseSet": True, "IndexPreciseSet": True}
    return {"FilterExpression": "", "IndexSpec": spec, **precise, "IndexImpactScore": "High"}


def _path_spec(path: Sequence[str]) -> str:
    return _path_text(path) + "/?"


def _composite_spec(key: tuple[Sequence[str], bool]) -> str:
    path, descending = key
    return f"{_path_text(path)} {'DESC' if descending else 'ASC'}"


def _path_text(path: Sequence[str]) -> str:
    """Format a path as `/a/"b c"`."""
    return "".join("/" + (name if _PLAIN.fullmatch(name) else msgspec.json.encode(name).decode()) for name in path)
