"""The indexing policy of a container: checked, completed with defaults, spelled one way."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any, Final

from mayflydb.frontends.cosmos.partition_key import parse_property_path
from mayflydb.model.errors import BadRequest
from mayflydb.model.keys import SortKeys

ETAG_PATH: Final = '/"_etag"/?'
APPENDED_PROPERTIES: Final = frozenset({"_rid", "_self", "_etag", "_attachments", "_ts"})
"""The system properties that are appended to an item in an answer."""

_MODES: Final = frozenset({"consistent", "lazy", "none"})
_SHAPES: Final = frozenset({"Point", "LineString", "Polygon", "MultiPolygon"})
_SUFFIX = re.compile(r"(?:/\?|/\*)\Z")
_MAX_COMPOSITE: Final = 8
_MAX_PATHS: Final = 1000
_VECTOR_TYPES: Final = ("flat", "quantizedFlat", "diskANN")
_QUANTIZERS: Final = ("product", "spherical")
_SEARCH_LIST: Final = range(25, 501)
_MAX_SHARD_PATHS: Final = 1


def parse_indexing(obj: object) -> dict[str, Any]:
    """Parse an indexing policy and fill in its defaults (None: nothing was sent). BadRequest names the property."""
    policy = {} if obj is None else _require_object(obj, "indexingPolicy")
    _check_names(policy, _MEMBERS, "indexingPolicy")
    mode = policy.get("indexingMode", "consistent")
    if not isinstance(mode, str) or mode.lower() not in _MODES:
        raise BadRequest("The property 'indexingPolicy.indexingMode' must be consistent, lazy or none.")
    automatic = policy.get("automatic", True)
    if type(automatic) is not bool:
        raise BadRequest("The property 'indexingPolicy.automatic' must be true or false.")
    result: dict[str, Any] = {"indexingMode": mode.lower(), "automatic": automatic}
    for name, parse in _MEMBERS.items():
        if policy.get(name) is not None and parse is not None:
            result[name] = parse(policy[name])
    return _add_defaults(result)


def _add_defaults(policy: dict[str, Any]) -> dict[str, Any]:
    included, excluded = policy.get("includedPaths"), policy.get("excludedPaths")
    if policy["indexingMode"] == "none":
        return policy | {"includedPaths": included or [], "excludedPaths": excluded or []}
    excluded = list(excluded or ())
    roots = {"path": "/*"} in excluded
    if included is None:
        included = [] if roots else [{"path": "/*"}]
    if ({"path": "/*"} in included) is roots:
        fault = "both included and excluded" if roots else "neither included nor excluded"
        raise BadRequest(
            f"The property 'indexingPolicy' has the root path '/*' {fault}: it must be exactly one of them."
        )
    if {"path": ETAG_PATH} not in excluded:
        # The service adds this path to every policy, and shows it.
        excluded.append({"path": ETAG_PATH})
    return policy | {"includedPaths": included, "excludedPaths": excluded}


def _parse_paths(name: str) -> Callable[[object], list[dict[str, str]]]:
    def parse(obj: object) -> list[dict[str, str]]:
        entries = []
        for entry in _require_list(obj, name):
            # `indexes` comes from an older service (kinds and precisions); the service ignores it too.
            _check_names(member := _require_object(entry, name), {"path": None, "indexes": None}, name)
            entries.append({"path": _parse_index_path(member.get("path"), name)})
        if len({entry["path"] for entry in entries}) != len(entries):
            raise BadRequest(f"The property 'indexingPolicy.{name}' names a path twice.")
        return entries

    return parse


def _parse_index_path(path: object, name: str) -> str:
    """Return `/*` (formerly written `/`), or a path of names and `[]` that ends in `/?` or `/*`."""
    if path in ("/*", "/"):
        return "/*"
    if not isinstance(path, str) or not _SUFFIX.search(path):
        raise BadRequest(f"A path in 'indexingPolicy.{name}' must be a string that ends in '/?' or '/*'.")
    parse_property_path(path[:-2], f"path in 'indexingPolicy.{name}'")
    return path


def _parse_composite(obj: object) -> list[list[dict[str, str]]]:
    indexes = []
    for entry in _require_list(obj, "compositeIndexes"):
        parts = _require_list(entry, "compositeIndexes")
        if not 2 <= len(parts) <= _MAX_COMPOSITE:
            raise BadRequest(
                f"A composite index must have 2 to {_MAX_COMPOSITE} paths ('indexingPolicy.compositeIndexes')."
            )
        indexes.append([_parse_composite_part(part) for part in parts])
    return indexes


def _parse_composite_part(part: object) -> dict[str, str]:
    member = _require_object(part, "compositeIndexes")
    _check_names(member, {"path": None, "order": None}, "compositeIndexes")
    path, order = member.get("path"), member.get("order", "ascending")
    parse_property_path(path, "path in 'indexingPolicy.compositeIndexes'")
    if not isinstance(order, str) or order.lower() not in {"ascending", "descending"}:
        raise BadRequest("The property 'order' in 'indexingPolicy.compositeIndexes' must be ascending or descending.")
    assert isinstance(path, str)
    return {"path": path, "order": order.lower()}


def _parse_spatial(obj: object) -> list[dict[str, Any]]:
    indexes = []
    for entry in _require_list(obj, "spatialIndexes"):
        member = _require_object(entry, "spatialIndexes")
        _check_names(member, {"path": None, "types": None, "boundingBox": None}, "spatialIndexes")
        types = member.get("types", sorted(_SHAPES))
        if (
            not isinstance(types, list)
            or not types
            or not all(isinstance(each, str) for each in types)
            or set(types) - _SHAPES
        ):
            raise BadRequest(
                f"'types' in 'indexingPolicy.spatialIndexes' must be some of {', '.join(sorted(_SHAPES))}."
            )
        index: dict[str, Any] = {"path": _parse_index_path(member.get("path"), "spatialIndexes"), "types": list(types)}
        if member.get("boundingBox") is not None:
            index["boundingBox"] = _parse_box(member["boundingBox"])
        indexes.append(index)
    return indexes


def _parse_box(obj: object) -> dict[str, float]:
    box = _require_object(obj, "spatialIndexes.boundingBox")
    sides = ("xmin", "ymin", "xmax", "ymax")
    if set(box) != set(sides) or not all(type(box[side]) in (int, float) for side in sides):
        raise BadRequest(
            "'boundingBox' in 'indexingPolicy.spatialIndexes' must have the numbers xmin, ymin, xmax, ymax."
        )
    return {side: box[side] for side in sides}


def _parse_vectors(obj: object) -> list[dict[str, Any]]:
    """Parse vector indexes. `search.check_indexes` checks sizes against the dimensions."""
    indexes = [_parse_vector(entry) for entry in _require_list(obj, "vectorIndexes")]
    _check_distinct_paths(indexes, "vectorIndexes")
    return indexes


def _parse_vector(entry: object) -> dict[str, Any]:
    where = "'indexingPolicy.vectorIndexes'"
    member = _require_object(entry, "vectorIndexes")
    _check_names(member, _VECTOR_MEMBERS, "vectorIndexes")
    parse_property_path(member.get("path"), f"path in {where}")
    index = {name: value for name, value in member.items() if value is not None}
    kind, quantizer = index.get("type"), index.get("quantizerType", "product")
    if kind not in _VECTOR_TYPES:
        raise BadRequest(
            f"The Vector Indexing Policy's Index Type::{_shorten(kind)} is invalid: "
            f"it must be one of {', '.join(_VECTOR_TYPES)} ({where})."
        )
    if quantizer not in _QUANTIZERS:
        raise BadRequest(f"The property 'quantizerType' in {where} must be one of {', '.join(_QUANTIZERS)}.")
    if type(index.get("quantizationByteSize", 1)) is not int:
        raise BadRequest(f"The property 'quantizationByteSize' in {where} must be a whole number.")
    size = index.get("indexingSearchListSize", _SEARCH_LIST.start)
    if type(size) is not int or size not in _SEARCH_LIST:
        raise BadRequest(
            f"The Vector Indexing Policy parameter IndexingSearchListSize value :: {_shorten(size)} is out of range. "
            f"The allowed range is between {_SEARCH_LIST.start} and {_SEARCH_LIST.stop - 1}. ({where})"
        )
    _check_shards(index.get("vectorIndexShardKey", []))
    return index


def _check_shards(paths: object) -> None:
    if not isinstance(paths, list):
        message = "'vectorIndexShardKey' in 'indexingPolicy.vectorIndexes' must be an array of paths."
        raise BadRequest(f"One of the specified inputs is invalid: {message}")
    if len(paths) > _MAX_SHARD_PATHS:
        raise BadRequest(
            f"The number of shard paths defined in the Vector Indexing Policy: {len(paths)} exceeds the maximum: "
            f"{_MAX_SHARD_PATHS}. ('indexingPolicy.vectorIndexes')"
        )
    for path in paths:
        try:
            parse_property_path(path, "shard path")
        except BadRequest:
            message = f"The Vector Indexing Policy has an invalid Shard Path: {_shorten(path)}."
            raise BadRequest(f"{message} ('indexingPolicy.vectorIndexes')") from None


def _parse_full_texts(obj: object) -> list[dict[str, str]]:
    indexes = []
    for entry in _require_list(obj, "fullTextIndexes"):
        _check_names(member := _require_object(entry, "fullTextIndexes"), {"path": None}, "fullTextIndexes")
        path = member.get("path")
        parse_property_path(path, "path in 'indexingPolicy.fullTextIndexes'")
        assert isinstance(path, str)
        indexes.append({"path": path})
    _check_distinct_paths(indexes, "fullTextIndexes")
    return indexes


def _check_distinct_paths(indexes: list[dict[str, Any]], name: str) -> None:
    if len({index["path"] for index in indexes}) != len(indexes):
        raise BadRequest(f"The property 'indexingPolicy.{name}' names a path twice.")


def _shorten(value: object) -> str:
    return str(value)[:255]


def _require_object(obj: object, name: str) -> Mapping[str, Any]:
    if not isinstance(obj, Mapping):
        raise BadRequest(f"The property '{name}' of the container must hold an object.")
    return obj


def _require_list(obj: object, name: str) -> list[Any]:
    if not isinstance(obj, list) or len(obj) > _MAX_PATHS:
        raise BadRequest(f"The property 'indexingPolicy.{name}' must hold an array of at most {_MAX_PATHS} entries.")
    return obj


def _check_names(obj: Mapping[str, Any], names: Iterable[str], where: str) -> None:
    if unknown := obj.keys() - set(names):
        raise BadRequest(f"The property '{min(unknown)[:255]}' in '{where}' is not known.")


_VECTOR_MEMBERS: Final = (
    "path", "type", "quantizerType", "quantizationByteSize", "indexingSearchListSize", "vectorIndexShardKey",
)  # fmt: skip
_MEMBERS: Final[dict[str, Callable[[object], list[Any]] | None]] = {
    "indexingMode": None,
    "automatic": None,
    "includedPaths": _parse_paths("includedPaths"),
    "excludedPaths": _parse_paths("excludedPaths"),
    "compositeIndexes": _parse_composite,
    "spatialIndexes": _parse_spatial,
    "vectorIndexes": _parse_vectors,
    "fullTextIndexes": _parse_full_texts,
}


def path_filter(policy: Mapping[str, Any]) -> Callable[[tuple[str, ...]], bool]:
    """Return a test of whether a policy indexes the values at a path of property names.

    The most precise path of the policy decides; `id` is always indexed.
    """
    if policy["indexingMode"] == "none":
        return lambda path: False
    # Included paths come last and win over the same path among the excluded ones.
    decided = {
        _split_index_path(entry["path"]): included
        for included, name in ((False, "excludedPaths"), (True, "includedPaths"))
        for entry in policy[name]
    }

    def is_indexed(path: tuple[str, ...]) -> bool:
        if path == ("id",):
            return True
        # `/a/?` names the value at a itself, which is more precise than any `/…/*`. Then the longest prefix decides.
        if (path, "?") in decided:
            return decided[path, "?"]
        prefixes = (path[:length] for length in range(len(path), -1, -1))
        return next((decided[prefix, "*"] for prefix in prefixes if (prefix, "*") in decided), False)

    return is_indexed


def index_filter(body: Mapping[str, Any], computed: Container[str]) -> Callable[[SortKeys], bool]:
    """Return a test of whether a container may have an ordered index over some keys.

    The policy must index the paths, and stored items must contain them: no computed and no system properties.
    """
    is_indexed, composite = path_filter(body["indexingPolicy"]), composite_orders(body["indexingPolicy"])

    def is_allowed(keys: SortKeys) -> bool:
        if len(keys) > 1 and keys not in composite:
            return False
        return all(
            path[0] not in computed and path[0] not in APPENDED_PROPERTIES and is_indexed(path) for path, _ in keys
        )

    return is_allowed


def _split_index_path(path: str) -> tuple[tuple[str, ...], str]:
    """Split a checked path into its names and its last character, `?` or `*`."""
    return parse_property_path(path[:-2], "path") if len(path) > len("/*") else (), path[-1]


def composite_orders(policy: Mapping[str, Any]) -> frozenset[SortKeys]:
    """Return the orders that a policy's composite indexes serve: each as declared, and exactly reversed."""
    declared = [
        tuple((parse_property_path(part["path"], "composite path"), part["order"] == "descending") for part in index)
        for index in policy.get("compositeIndexes", ())
    ]
    reverse = [tuple((path, not descending) for path, descending in order) for order in declared]
    return frozenset([*declared, *reverse])
