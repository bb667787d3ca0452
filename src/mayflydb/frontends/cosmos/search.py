"""The vector and full-text policies of a container, checked against the indexes over the same paths.

Every search is an exact scan. The policies define how vectors are measured and which language a text has. Indexes are checked
and shown, and change no answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from mayflydb.frontends.cosmos.partition_key import parse_property_path
from mayflydb.model.errors import BadRequest, Unsupported
from mayflydb.query.cosmos_sql import DATA_TYPES, DISTANCES, LANGUAGE, LANGUAGES, Embedding

MAX_DIMENSIONS: Final = 4096
MAX_FLAT_DIMENSIONS: Final = 505
"""The limit for vectors with an index of type flat."""

MAX_QUANTIZED_BYTES: Final = 512
DEFAULT_DIMENSIONS: Final = 1536
_VECTORS = "vectorEmbeddingPolicy.vectorEmbeddings"
_TEXTS = "fullTextPolicy.fullTextPaths"


def parse_vectors(obj: object) -> dict[str, Any] | None:
    """Parse a `vectorEmbeddingPolicy` (None: nothing was sent). BadRequest or Unsupported name the property."""
    if obj is None:
        return None
    policy = _parse_object(obj, "vectorEmbeddingPolicy", ("vectorEmbeddings",))
    return {"vectorEmbeddings": _parse_entries(policy, _VECTORS, _parse_embedding)}


def _parse_embedding(entry: object) -> dict[str, Any]:
    names = ("path", "dataType", "dimensions", "distanceFunction", "embeddingSource")
    member = _parse_object(entry, _VECTORS, names)
    if member.get("embeddingSource") is not None:
        raise Unsupported(f"The property 'embeddingSource' in '{_VECTORS}' is not supported by Mayfly.")
    path = _parse_path(member.get("path"), "The Vector Embedding Policy has an invalid Path", _VECTORS)
    data_type, distance = member.get("dataType", "float32"), member.get("distanceFunction", "cosine")
    if not isinstance(data_type, str) or data_type.lower() not in DATA_TYPES:
        raise BadRequest(f"The Vector Embedding Policy has an invalid DataType:{_shorten(data_type)} ('{_VECTORS}').")
    if not isinstance(distance, str) or distance.lower() not in DISTANCES:
        message = f"The Vector Embedding Policy has an invalid DistanceFunction:{_shorten(distance)} ('{_VECTORS}')."
        raise BadRequest(message)
    return {
        "path": path, "dataType": data_type.lower(),
        "dimensions": _parse_dimensions(member.get("dimensions", DEFAULT_DIMENSIONS)),
        "distanceFunction": distance.lower(),
    }  # fmt: skip


def _parse_dimensions(value: object) -> int:
    sentence = f"The Vector Embedding Policy has Dimensions:{_shorten(value)}"
    if type(value) is not int:
        raise BadRequest(f"{sentence} which is not a whole number ('{_VECTORS}').")
    if value > MAX_DIMENSIONS:
        raise BadRequest(f"{sentence} which is more than the maximum supported value {MAX_DIMENSIONS} ('{_VECTORS}').")
    if value < 1:
        raise BadRequest(f"{sentence} which is less than the minimum supported value 1 ('{_VECTORS}').")
    return value


def embeddings(body: Mapping[str, Any]) -> dict[tuple[str, ...], Embedding]:
    """Return the vector embeddings of a container's body, by path."""
    return {
        parse_property_path(entry["path"], "vector path"): Embedding(
            entry["distanceFunction"], entry["dataType"], entry["dimensions"]
        )
        for entry in (body.get("vectorEmbeddingPolicy") or {}).get("vectorEmbeddings", ())
    }


def parse_full_text(obj: object) -> dict[str, Any] | None:
    """Parse a `fullTextPolicy` (None: nothing was sent). BadRequest or Unsupported name the property."""
    if obj is None:
        return None
    policy = _parse_object(obj, "fullTextPolicy", ("defaultLanguage", "fullTextPaths"))
    language = _parse_language(policy.get("defaultLanguage", LANGUAGE))
    return {"defaultLanguage": language, "fullTextPaths": _parse_entries(policy, _TEXTS, _parse_text)}


def _parse_text(entry: object) -> dict[str, Any]:
    member = _parse_object(entry, _TEXTS, ("path", "language"))
    found = {"path": _parse_path(member.get("path"), "The Full Text Policy contains an invalid Path", _TEXTS)}
    if member.get("language") is not None:
        found["language"] = _parse_language(member["language"])
    return found


def _parse_language(value: object) -> str:
    if not isinstance(value, str) or value not in LANGUAGES:
        raise Unsupported(
            f"The Full Text Policy contains an unsupported Language:{_shorten(value)} ('fullTextPolicy'). "
            f"Mayfly supports {', '.join(LANGUAGES)}."
        )
    return value


def languages(body: Mapping[str, Any]) -> tuple[dict[tuple[str, ...], str], str]:
    """Return the languages of the texts in a container's body by path, and the default language."""
    policy = body.get("fullTextPolicy") or {}
    default: str = policy.get("defaultLanguage", LANGUAGE)
    return {
        parse_property_path(entry["path"], "full-text path"): entry.get("language", default)
        for entry in policy.get("fullTextPaths", ())
    }, default


# --- checks against indexes and previous policies ----------------------------------------------------------------------


def check_indexes(
    indexing: Mapping[str, Any], vectors: Mapping[str, Any] | None, texts: Mapping[str, Any] | None
) -> None:
    """Raise BadRequest for a vector or full-text index over a path without a policy, or one that does not fit it."""
    declared = {entry["path"]: entry["dimensions"] for entry in (vectors or {}).get("vectorEmbeddings", ())}
    for index in indexing.get("vectorIndexes", ()):
        if index["path"] not in declared:
            raise BadRequest(
                f"The Vector Indexing Policy's path::{index['path']} not matching in Embedding's path. "
                "('indexingPolicy.vectorIndexes')"
            )
        _check_vector_index(index, declared[index["path"]])
    paths = {entry["path"] for entry in (texts or {}).get("fullTextPaths", ())}
    for index in indexing.get("fullTextIndexes", ()):
        if index["path"] not in paths:
            raise BadRequest(
                f"The Full Text Indexing Policy's path::{index['path']} not matching in Full Text Policy's path. "
                "('indexingPolicy.fullTextIndexes')"
            )


def _check_vector_index(index: Mapping[str, Any], dimensions: int) -> None:
    if index["type"] == "flat" and dimensions > MAX_FLAT_DIMENSIONS:
        raise BadRequest(
            f"The Vector Indexing Policy's Index Type::flat takes at most {MAX_FLAT_DIMENSIONS} dimensions, and the vectors at "
            f"'{index['path']}' have {dimensions} ('indexingPolicy.vectorIndexes')."
        )
    size, most = index.get("quantizationByteSize", 1), min(dimensions, MAX_QUANTIZED_BYTES)
    if not 1 <= size <= most:
        raise BadRequest(
            f"The Vector Indexing Policy parameter QuantizationByteSize value :: {size} is out of range. "
            f"The allowed range is between 1 and {most}. ('indexingPolicy.vectorIndexes')"
        )


def check_unchanged(what: str, before: list[dict[str, Any]], after: list[dict[str, Any]]) -> None:
    """Raise BadRequest if an entry of `before` is missing or changed in `after`, which may have further entries."""
    if any(entry not in after for entry in before):
        raise BadRequest(f"Paths in existing {what} policy cannot be modified in Collection Replace.")


# --- parts -----------------------------------------------------------------------------------------------------------


def _parse_entries(
    policy: Mapping[str, Any], name: str, parse: Callable[[object], dict[str, Any]]
) -> list[dict[str, Any]]:
    sent = policy.get(name.rpartition(".")[2])
    if sent is not None and not isinstance(sent, list):
        raise BadRequest(f"The property '{name}' must be an array.")
    found = [parse(entry) for entry in sent or ()]
    if len({entry["path"] for entry in found}) != len(found):
        raise BadRequest(f"The property '{name}' names a path twice.")
    return found


def _parse_object(obj: object, name: str, names: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(obj, Mapping):
        raise BadRequest(f"The property '{name}' must hold an object.")
    if unknown := obj.keys() - set(names):
        raise BadRequest(f"The property '{min(unknown)[:255]}' in '{name}' is not known.")
    return obj


def _parse_path(path: object, sentence: str, name: str) -> str:
    try:
        parse_property_path(path, "path")
    except BadRequest:
        raise BadRequest(f"{sentence}: {_shorten(path)} ('{name}').") from None
    assert isinstance(path, str)
    return path


def _shorten(value: object) -> str:
    return str(value)[:255]
