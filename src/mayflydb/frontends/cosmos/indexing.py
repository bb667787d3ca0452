"""The indexing policy of a container: checked, completed with defaults, spelled one way."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from mayflydb.frontends.cosmos.partition_key import parse_property_path
from mayflydb.model.errors import BadRequest, Unsupported

ETAG_PATH: Final = '/"_etag"/?'
_MODES: Final = frozenset({"consistent", "lazy", "none"})
_SHAPES: Final = frozenset({"Point", "LineString", "Polygon", "MultiPolygon"})
_SUFFIX = re.compile(r"(?:/\?|/\*)\Z")
_MAX_COMPOSITE: Final = 8
_MAX_PATHS: Final = 1000


def parse_indexing(obj: object) -> dict[str, Any]:
    """A whole indexing policy from what was sent (None: nothing). BadRequest or Unsupported naming the property."""
    policy = {} if obj is None else _object(obj, "indexingPolicy")
    _known(policy, _MEMBERS, "indexingPolicy")
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
    return _completed(result)


def _completed(policy: dict[str, Any]) -> dict[str, Any]:
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
        excluded.append({"path": ETAG_PATH})
    return policy | {"includedPaths": included, "excludedPaths": excluded}


def _paths(name: str) -> Callable[[object], list[dict[str, str]]]:
    def parse(obj: object) -> list[dict[str, str]]:
        entries = []
        for entry in _list(obj, name):
            # `indexes` is from an older service: kinds and precisions that it, too, has long stopped obeying.
            _known(member := _object(entry, name), {"path": None, "indexes": None}, name)
            entries.append({"path": _index_path(member.get("path"), name)})
        if len({entry["path"] for entry in entries}) != len(entries):
            raise BadRequest(f"The property 'indexingPolicy.{name}' names a path twice.")
        return entries

    return parse


def _index_path(path: object, name: str) -> str:
    """`/*`, or names and `[]` that end in `/?` or `/*`."""
    if path == "/*":
        return "/*"
    if not isinstance(path, str) or not _SUFFIX.search(path):
        raise BadRequest(f"A path in 'indexingPolicy.{name}' must be a string that ends in '/?' or '/*'.")
    parse_property_path(path[:-2], f"path in 'indexingPolicy.{name}'")
    return path


def _composite(obj: object) -> list[list[dict[str, str]]]:
    indexes = []
    for entry in _list(obj, "compositeIndexes"):
        parts = _list(entry, "compositeIndexes")
        if not 2 <= len(parts) <= _MAX_COMPOSITE:
            raise BadRequest(
                f"A composite index must have 2 to {_MAX_COMPOSITE} paths ('indexingPolicy.compositeIndexes')."
            )
        indexes.append([_composite_part(part) for part in parts])
    return indexes


def _composite_part(part: object) -> dict[str, str]:
    member = _object(part, "compositeIndexes")
    _known(member, {"path": None, "order": None}, "compositeIndexes")
    path, order = member.get("path"), member.get("order", "ascending")
    parse_property_path(path, "path in 'indexingPolicy.compositeIndexes'")
    if not isinstance(order, str) or order.lower() not in {"ascending", "descending"}:
        raise BadRequest("The property 'order' in 'indexingPolicy.compositeIndexes' must be ascending or descending.")
    assert isinstance(path, str)
    return {"path": path, "order": order.lower()}


def _spatial(obj: object) -> list[dict[str, Any]]:
    indexes = []
    for entry in _list(obj, "spatialIndexes"):
        member = _object(entry, "spatialIndexes")
        _known(member, {"path": None, "types": None, "boundingBox": None}, "spatialIndexes")
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
        index: dict[str, Any] = {"path": _index_path(member.get("path"), "spatialIndexes"), "types": list(types)}
        if member.get("boundingBox") is not None:
            index["boundingBox"] = _box(member["boundingBox"])
        indexes.append(index)
    return indexes


def _box(obj: object) -> dict[str, float]:
    box = _object(obj, "spatialIndexes.boundingBox")
    sides = ("xmin", "ymin", "xmax", "ymax")
    if set(box) != set(sides) or not all(type(box[side]) in (int, float) for side in sides):
        raise BadRequest(
            "'boundingBox' in 'indexingPolicy.spatialIndexes' must have the numbers xmin, ymin, xmax, ymax."
        )
    return {side: box[side] for side in sides}


def _later(name: str) -> Callable[[object], list[Any]]:
    def parse(obj: object) -> list[Any]:
        if _list(obj, name):
            raise Unsupported(f"The property 'indexingPolicy.{name}' is not supported by Mayfly.")
        return []

    return parse


def _object(obj: object, name: str) -> Mapping[str, Any]:
    if not isinstance(obj, Mapping):
        raise BadRequest(f"The property '{name}' of the container must hold an object.")
    return obj


def _list(obj: object, name: str) -> list[Any]:
    if not isinstance(obj, list) or len(obj) > _MAX_PATHS:
        raise BadRequest(f"The property 'indexingPolicy.{name}' must hold an array of at most {_MAX_PATHS} entries.")
    return obj


def _known(obj: Mapping[str, Any], names: Iterable[str], where: str) -> None:
    if unknown := obj.keys() - set(names):
        raise BadRequest(f"The property '{min(unknown)[:255]}' in '{where}' is not known.")


_MEMBERS: Final[dict[str, Callable[[object], list[Any]] | None]] = {
    "indexingMode": None,
    "automatic": None,
    "includedPaths": _paths("includedPaths"),
    "excludedPaths": _paths("excludedPaths"),
    "compositeIndexes": _composite,
    "spatialIndexes": _spatial,
    "vectorIndexes": _later("vectorIndexes"),
    "fullTextIndexes": _later("fullTextIndexes"),
}


SortOrder: TypeAlias = tuple[tuple[tuple[str, ...], bool], ...]
"""Sort keys as (path, descending)."""


def composite_orders(policy: Mapping[str, Any]) -> frozenset[SortOrder]:
    """The orders that a policy's composite indexes serve: each as it is declared, and exactly reversed."""
    declared = [
        tuple((parse_property_path(part["path"], "composite path"), part["order"] == "descending") for part in index)
        for index in policy.get("compositeIndexes", ())
    ]
    reverse = [tuple((path, not descending) for path, descending in order) for order in declared]
    return frozenset([*declared, *reverse])
