"""The definition of a container: name, key, ttl, unique keys and the other policies, checked and with defaults."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec

from mayflydb.frontends.cosmos import search
from mayflydb.frontends.cosmos.indexing import parse_indexing
from mayflydb.frontends.cosmos.partition_key import PartitionKeyDefinition, encode_component, parse_property_path
from mayflydb.frontends.cosmos.values import MAX_TTL, SYSTEM_PROPERTIES, parse_default_ttl
from mayflydb.model.errors import BadRequest, Unsupported
from mayflydb.query.cosmos_sql import ComputedProperty, parse_computed_property

UniquePaths: TypeAlias = tuple[tuple[str, ...], ...]
"""The paths of one unique key, each as property names."""

MAX_UNIQUE_KEYS: Final = 10
MAX_UNIQUE_PATHS: Final = 16
MAX_COMPUTED: Final = 20
_FORBIDDEN_IN_NAME = re.compile(r"[/\\?#]")
_UNSUPPORTED: Final = frozenset({
    "clientEncryptionPolicy", "materializedViewDefinition", "materializedViews", "dataMaskingPolicy",
    "partitionKeyDeleteThroughputFraction", "inAccountRestoreParameters", "restoreParameters", "createMode",
})  # fmt: skip
_KNOWN: Final = frozenset({
    "id", "partitionKey", "defaultTtl", "ttlPropertyPath", "analyticalStorageTtl", "indexingPolicy", "uniqueKeyPolicy",
    "conflictResolutionPolicy", "geospatialConfig", "computedProperties", "changeFeedPolicy", "vectorEmbeddingPolicy",
    "fullTextPolicy",
})  # fmt: skip
_MODE_NONE_TTL: Final = "Indexing mode value cannot be 'none' when 'defaultTtl' is specified in the collection"


class ContainerDefinition(msgspec.Struct, frozen=True):
    """A container's policies in their complete form.

    `default_ttl`: None off, -1 on without a default, or seconds. `change_feed_minutes`: the retention of versions and deletes.
    The other members are JSON as answers show it; None: not shown.
    """

    name: str
    partition_key: PartitionKeyDefinition
    default_ttl: int | None
    indexing: dict[str, Any]
    unique_keys: tuple[tuple[str, ...], ...]
    conflicts: dict[str, Any]
    geospatial: dict[str, Any]
    computed: tuple[tuple[str, str], ...] | None
    change_feed_minutes: int | None
    analytical_ttl: Literal[0] | None
    vectors: dict[str, Any] | None = None
    full_text: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the body of the container without its system properties. `parse_container` parses it again."""
        body: dict[str, Any] = {"id": self.name, "partitionKey": self.partition_key.to_json()}
        if self.default_ttl is not None:
            body["defaultTtl"] = self.default_ttl
        body["indexingPolicy"] = self.indexing
        body["uniqueKeyPolicy"] = {"uniqueKeys": [{"paths": list(paths)} for paths in self.unique_keys]}
        body["conflictResolutionPolicy"] = self.conflicts
        body["geospatialConfig"] = self.geospatial
        if self.computed is not None:
            body["computedProperties"] = [{"name": name, "query": query} for name, query in self.computed]
        if self.change_feed_minutes is not None:
            body["changeFeedPolicy"] = {"retentionDuration": self.change_feed_minutes}
        if self.analytical_ttl is not None:
            body["analyticalStorageTtl"] = self.analytical_ttl
        if self.vectors is not None:
            body["vectorEmbeddingPolicy"] = self.vectors
        if self.full_text is not None:
            body["fullTextPolicy"] = self.full_text
        return body


def parse_container(obj: object, previous: ContainerDefinition | None = None) -> ContainerDefinition:
    """Parse the body of a create, or (with `previous`) of a replace. BadRequest or Unsupported name the property.

    In a replace, `partitionKey`, `uniqueKeyPolicy` and `conflictResolutionPolicy` may be absent and must not change otherwise.
    Other absent properties get their defaults. Vector embeddings and their indexes must be sent again unchanged.
    """
    body = _require_object(obj, "container")
    _check_members(body)
    name = check_name(body.get("id"), "container")
    if previous is not None and name != previous.name:
        raise BadRequest("The 'id' of a container cannot be changed.")
    ttl = parse_default_ttl(body.get("defaultTtl", msgspec.UNSET), "create" if previous is None else "replace")
    _check_ttl_path(body.get("ttlPropertyPath"), ttl)
    indexing = parse_indexing(body.get("indexingPolicy"))
    if ttl is not None and indexing["indexingMode"] == "none":
        raise BadRequest(_MODE_NONE_TTL)
    vectors = search.parse_vectors(body.get("vectorEmbeddingPolicy"))
    full_text = search.parse_full_text(body.get("fullTextPolicy"))
    search.check_indexes(indexing, vectors, full_text)
    if previous is not None:
        _check_vectors(previous, indexing, vectors)
    key = _parse_partition_key(body.get("partitionKey"), previous)
    return ContainerDefinition(
        name,
        key,
        ttl,
        indexing,
        _parse_unchanged("uniqueKeyPolicy", _parse_unique_policy, body, previous and previous.unique_keys),
        _parse_unchanged("conflictResolutionPolicy", _parse_conflicts, body, previous and previous.conflicts),
        _parse_geospatial(body.get("geospatialConfig")),
        _parse_computed(body.get("computedProperties"), key),
        _parse_change_feed(body.get("changeFeedPolicy")),
        _parse_analytical(body),
        vectors,
        full_text,
    )


def parse_database(obj: object) -> str:
    """Parse the name in the body of a database create. BadRequest for any other property."""
    body = _require_object(obj, "database")
    for name in body:
        if name != "id" and not name.startswith("_"):
            raise BadRequest(f"The property '{name[:255]}' of the database is not known.")
    return check_name(body.get("id"), "database")


def check_name(name: object, what: str) -> str:
    """Return the name of a database, container or user: 1 to 255 characters, none of / \\ ? #. BadRequest otherwise."""
    if not isinstance(name, str) or not 1 <= len(name) <= 255:
        raise BadRequest(
            f"The property 'id' of the {what} is not valid."
            " Ensure to provide a unique non-empty string less than '255' characters."
        )
    if _FORBIDDEN_IN_NAME.search(name):
        raise BadRequest(f"The property 'id' of the {what} holds one of the characters / \\ ? #.")
    return name


def _require_object(obj: object, what: str) -> Mapping[str, Any]:
    if not isinstance(obj, Mapping):
        raise BadRequest(f"The body must be a JSON object that describes a {what}.")
    return obj


def _check_members(body: Mapping[str, Any]) -> None:
    for name, value in body.items():
        if name in _UNSUPPORTED and value is not None:
            raise Unsupported(f"The property '{name}' of a container is not supported by Mayfly.")
        if name not in _KNOWN and name not in _UNSUPPORTED and not name.startswith("_"):
            raise BadRequest(f"The property '{name[:255]}' of the container is not known.")


def _check_vectors(
    previous: ContainerDefinition, indexing: Mapping[str, Any], vectors: Mapping[str, Any] | None
) -> None:
    before, after = ((each or {}).get("vectorEmbeddings", []) for each in (previous.vectors, vectors))
    search.check_unchanged("embedding", before, after)
    before, after = (each.get("vectorIndexes", []) for each in (previous.indexing, indexing))
    search.check_unchanged("vector indexing", before, after)


def _check_ttl_path(path: object, ttl: int | None) -> None:
    if path is not None:
        if ttl is None:
            raise BadRequest("The property 'ttlPropertyPath' can only be set together with 'defaultTtl'.")
        raise Unsupported("The property 'ttlPropertyPath' is not supported by Mayfly.")


def _parse_partition_key(obj: object, previous: ContainerDefinition | None) -> PartitionKeyDefinition:
    if previous is None:
        if obj is None:
            raise BadRequest("The property 'partitionKey' of the container is missing.")
        return PartitionKeyDefinition.from_json(obj)
    before = previous.partition_key
    if obj is not None:
        key = PartitionKeyDefinition.from_json(obj)
        if (key.segments, key.kind, key.version) != (before.segments, before.kind, before.version):
            raise BadRequest("The 'partitionKey' of a container cannot be changed.")
    return before


def _parse_unchanged(name: str, parse: Callable[[object], Any], body: Mapping[str, Any], before: Any) -> Any:
    """Parse a policy of a new container; for an existing one return `before`, and BadRequest if the body has another."""
    value = body.get(name)
    if before is None:
        return parse(value)
    if value is not None and parse(value) != before:
        raise BadRequest(f"The '{name}' of a container cannot be changed.")
    return before


# --- unique keys -----------------------------------------------------------------------------------------------------


def _parse_unique_policy(obj: object) -> tuple[tuple[str, ...], ...]:
    keys = [] if obj is None else obj.get("uniqueKeys", []) if isinstance(obj, Mapping) else None
    if not isinstance(keys, list) or len(keys) > MAX_UNIQUE_KEYS:
        raise BadRequest(
            f"The property 'uniqueKeyPolicy.uniqueKeys' must be an array of at most {MAX_UNIQUE_KEYS} keys."
        )
    parsed = tuple(_parse_unique_key(key) for key in keys)
    if len({frozenset(key) for key in parsed}) != len(parsed):
        raise BadRequest("The property 'uniqueKeyPolicy.uniqueKeys' has the same key twice.")
    return parsed


def _parse_unique_key(key: object) -> tuple[str, ...]:
    paths = key.get("paths") if isinstance(key, Mapping) else None
    if not isinstance(paths, list) or not 1 <= len(paths) <= MAX_UNIQUE_PATHS:
        raise BadRequest(f"A unique key must have 1 to {MAX_UNIQUE_PATHS} 'paths' ('uniqueKeyPolicy.uniqueKeys').")
    segments = [parse_property_path(path, "path in 'uniqueKeyPolicy.uniqueKeys'") for path in paths]
    if len(set(segments)) != len(segments):
        raise BadRequest("A unique key names a path twice ('uniqueKeyPolicy.uniqueKeys').")
    for path in segments:
        if path[0] in SYSTEM_PROPERTIES:
            raise BadRequest(f"The unique key path '/{path[0]}' is a system property ('uniqueKeyPolicy.uniqueKeys').")
    return tuple(paths)


def unique_keys(body: Mapping[str, Any]) -> tuple[UniquePaths, ...]:
    """Return the unique keys of a container's body, parsed for `unique_values`."""
    return tuple(
        tuple(parse_property_path(path, "unique key path") for path in paths)
        for paths in _parse_unique_policy(body.get("uniqueKeyPolicy"))
    )


def unique_values(doc: Mapping[str, Any], paths: Sequence[tuple[str, ...]]) -> bytes:
    """Encode a document's values at the paths of one unique key. Only equal values are equal bytes; missing is null."""
    return b"".join([_unique_value(doc, path) for path in paths])


def _unique_value(doc: Mapping[str, Any], path: tuple[str, ...]) -> bytes:
    value: Any = doc
    for name in path:
        value = value.get(name) if type(value) is dict else None
    if type(value) is dict or type(value) is list:
        # 09 is a tag beside those of `encode_component`: arrays and objects cannot be partition keys, but can be
        # unique.
        return b"\x09" + msgspec.json.encode(_as_doubles(value), order="sorted") + b"\xff"
    # -0.0 and 0 are two partition keys, and one unique value.
    return encode_component(0 if type(value) is float and value == 0 else value)


def _as_doubles(value: Any) -> Any:
    """Return the value with every number as a double, so that 5 and 5.0 have one encoding."""
    if type(value) is dict:
        return {name: _as_doubles(inner) for name, inner in value.items()}
    if type(value) is list:
        return [_as_doubles(inner) for inner in value]
    return value + 0.0 if type(value) in (int, float) else value


# --- the smaller policies --------------------------------------------------------------------------------------------


def _parse_conflicts(obj: object) -> dict[str, Any]:
    policy = {} if obj is None else obj
    if not isinstance(policy, Mapping):
        raise BadRequest("The property 'conflictResolutionPolicy' must be an object.")
    mode = policy.get("mode", "LastWriterWins")
    procedure = policy.get("conflictResolutionProcedure") or ""
    if not isinstance(mode, str) or mode.lower() not in {"lastwriterwins", "custom"}:
        raise BadRequest("The property 'conflictResolutionPolicy.mode' must be LastWriterWins or Custom.")
    if procedure:
        raise Unsupported(
            "The property 'conflictResolutionPolicy.conflictResolutionProcedure' is not supported by Mayfly."
        )
    custom = mode.lower() == "custom"
    path = policy.get("conflictResolutionPath") or ("" if custom else "/_ts")
    if path:
        parse_property_path(path, "conflictResolutionPath")
    if custom and path:
        raise BadRequest("The property 'conflictResolutionPolicy.conflictResolutionPath' does not go with mode Custom.")
    mode = "Custom" if custom else "LastWriterWins"
    return {"mode": mode, "conflictResolutionPath": path, "conflictResolutionProcedure": ""}


def _parse_geospatial(obj: object) -> dict[str, Any]:
    kind = "Geography" if obj is None else obj.get("type", "Geography") if isinstance(obj, Mapping) else None
    if kind not in ("Geography", "Geometry"):
        raise BadRequest("The property 'geospatialConfig.type' must be Geography or Geometry.")
    return {"type": kind}


def computed_properties(body: Mapping[str, Any]) -> dict[str, ComputedProperty]:
    """Return the computed properties of a container's body, by name."""
    return {
        each["name"]: parse_computed_property(each["name"], each["query"])
        for each in body.get("computedProperties") or ()
    }


def _parse_computed(obj: object, key: PartitionKeyDefinition) -> tuple[tuple[str, str], ...] | None:
    if obj is None:
        return None
    if not isinstance(obj, list) or len(obj) > MAX_COMPUTED:
        raise BadRequest(
            "One of the specified inputs is invalid:"
            f" the property 'computedProperties' must be an array of at most {MAX_COMPUTED} entries."
        )
    pairs = tuple(_parse_computed_pair(entry) for entry in obj)
    if len({name for name, _ in pairs}) != len(pairs):
        raise BadRequest("The property 'computedProperties' has the same name twice.")
    for name, query in pairs:
        parse_computed_property(name, query)
        if any(segments[0] == name for segments in key.segments):
            raise BadRequest(f"The name '{name[:255]}' in 'computedProperties' is that of the partition key.")
    return pairs


def _parse_computed_pair(entry: object) -> tuple[str, str]:
    pair = (entry.get("name"), entry.get("query")) if isinstance(entry, Mapping) else (None, None)
    name, query = pair
    if not isinstance(name, str) or not name or not isinstance(query, str) or not query:
        raise BadRequest("Each entry of 'computedProperties' must have a 'name' and a 'query'.")
    if name == "id" or name in SYSTEM_PROPERTIES or not re.fullmatch(r"\w+", name):
        raise BadRequest(f"The name '{name[:255]}' in 'computedProperties' is reserved or no plain name.")
    return name, query


def _parse_change_feed(obj: object) -> int | None:
    if obj is None:
        return None
    minutes = (
        obj.get("retentionDuration", 0) if isinstance(obj, Mapping) and not obj.keys() - {"retentionDuration"} else None
    )
    if type(minutes) is not int or not 0 <= minutes <= MAX_TTL // 60:
        raise BadRequest("The property 'changeFeedPolicy' must be like {\"retentionDuration\":10}, in whole minutes.")
    return minutes


def _parse_analytical(body: Mapping[str, Any]) -> Literal[0] | None:
    value = body.get("analyticalStorageTtl")
    if value is None:
        return None
    if type(value) is not int or value != 0:
        raise Unsupported(
            "The property 'analyticalStorageTtl' is not supported by Mayfly, which has no analytical store."
        )
    return 0
