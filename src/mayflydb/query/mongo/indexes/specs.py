"""Index specifications: parsed from createIndexes, stored in the catalogue, printed by listIndexes.

Rules and texts: https://github.com/mongodb/mongo `src/mongo/db/catalog/index_key_validate.cpp`, `index_catalog_impl.cpp`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias

import msgspec

from mayflydb.query.mongo.collation import SIMPLE, Collation
from mayflydb.query.mongo.faults import MqlError, bad_value, failed_to_parse
from mayflydb.query.mongo.indexes.key_patterns import KeyPattern, parse_key_pattern
from mayflydb.query.mongo.indexes.options import (
    cannot_create_index,
    check_type,
    parse_flag,
    parse_partial_filter,
    parse_ttl,
    parse_weights,
    parse_wildcard_projection,
)
from mayflydb.query.mongo.languages import DEFAULT, NONE, language_of
from mayflydb.query.mongo.text import TextIndex
from mayflydb.query.mongo.values import Document, equal, format_value

Profile: TypeAlias = Literal["both", "native", "cosmos"]
"""The meaning of a TTL index on `_ts`: Cosmos DB's in `both` and `cosmos`. In `cosmos` no other TTL index exists."""

MAX_INDEXES: Final = 64
"""The maximum number of indexes of a collection, the index on `_id` included."""

FIELDS: Final = frozenset(
    {
        *(
            "v",
            "key",
            "name",
            "unique",
            "sparse",
            "background",
            "hidden",
            "expireAfterSeconds",
            "partialFilterExpression",
            "prepareUnique",
        ),
        *("collation", "weights", "default_language", "language_override", "textIndexVersion", "wildcardProjection"),
        *("storageEngine", "ns"),
    }
)
_ID_FIELDS: Final = frozenset({"v", "key", "name", "ns", "collation"})
_TS_FIELDS: Final = frozenset({"v", "key", "name", "ns", "background", "expireAfterSeconds"})


@lru_cache(maxsize=4096)
def _kind_of(key: KeyPattern) -> Literal["ordered", "hashed", "text", "wildcard"]:
    if any(path.rpartition(".")[2] == "$**" for path, direction in key if direction != "text"):
        return "wildcard"
    directions = [direction for _, direction in key]
    return "hashed" if "hashed" in directions else "text" if "text" in directions else "ordered"


class IndexSpec(msgspec.Struct, frozen=True):
    """The specification of one index.

    `key`: paths, each with 1, -1, "hashed" or "text". `expire_after`: seconds; -1 only for a TTL index on `_ts` of Cosmos DB.
    `partial`, `collation`, `projection`, `weights`, `storage`: documents as the client sent them, None if absent.
    `clustered`: the index on `_id` by which a clustered collection is ordered.
    """

    name: str
    key: KeyPattern
    unique: bool = False
    sparse: bool = False
    hidden: bool = False
    prepare_unique: bool = False
    expire_after: int | None = None
    partial: Document | None = None
    collation: Document | None = None
    projection: Document | None = None
    weights: Document | None = None
    language: str = NONE
    language_override: str = "language"
    storage: Document | None = None
    v: int = 2
    clustered: bool = False

    @property
    def kind(self) -> Literal["ordered", "hashed", "text", "wildcard"]:
        """The kind of the index's keys."""
        return _kind_of(self.key)

    @property
    def text(self) -> TextIndex | None:
        """The text index that `$text` searches; None if this is no text index."""
        if self.kind != "text":
            return None
        weights = {path: float(by) for path, by in (self.weights or {}).items()}
        return TextIndex(weights, language_of(self.language) or NONE, self.language_override)

    @property
    def is_id(self) -> bool:
        """True for the index on `_id`, which every collection has."""
        return self.key == (("_id", 1),)

    @property
    def collator(self) -> Collation:
        """The collation of the index's strings."""
        return SIMPLE if self.collation is None else Collation.parse(self.collation)

    @property
    def pattern(self) -> Document:
        """The key pattern as a document: `{"a": 1, "b": -1}`. A text index has its two internal fields in it."""
        if self.kind != "text":
            return dict(self.key)
        at = next(n for n, (_, direction) in enumerate(self.key) if direction == "text")
        others = [(path, direction) for path, direction in self.key if direction != "text"]
        return dict([*others[:at], ("_fts", "text"), ("_ftsx", 1), *others[at:]])

    def is_cosmos_ttl(self, profile: Profile) -> bool:
        """Return whether this is a TTL index on `_ts`, whose deadlines count from the last write."""
        return profile != "native" and self.expire_after is not None and self.key[0][0] == "_ts"

    def expires_by_date(self, profile: Profile) -> bool:
        """Return whether deadlines count from dates at the index's path. Hidden indexes count; hashed and text
        indexes do not.
        """
        return self.expire_after is not None and self.kind == "ordered" and not self.is_cosmos_ttl(profile)

    def to_document(self, namespace: str | None = None) -> Document:
        """Return the document that listIndexes prints. With a `namespace`, as a `cosmos` database prints it: `v` 1,
        and `ns`.
        """
        document: Document = {"v": 1 if namespace else self.v, "key": self.pattern, "name": self.name}
        if namespace:
            document["ns"] = namespace
        for name, value in (
            ("unique", self.unique),
            ("sparse", self.sparse),
            ("hidden", self.hidden),
            ("prepareUnique", self.prepare_unique),
            ("clustered", self.clustered),
        ):
            if value:
                document[name] = True
        for name, kept in (
            ("expireAfterSeconds", self.expire_after),
            ("partialFilterExpression", self.partial),
            ("storageEngine", self.storage),
            ("wildcardProjection", self.projection),
            ("weights", self.weights),
        ):
            if kept is not None:
                document[name] = kept
        if self.kind == "text":
            document |= {"default_language": self.language, "language_override": self.language_override}
            document["textIndexVersion"] = 3
        if self.collation is not None:
            document["collation"] = self.collation
        return document

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> IndexSpec:
        """Return the specification that `to_document` printed."""
        return cls(
            name=document["name"],
            key=_stored_key(document["key"], document.get("weights")),
            unique=document.get("unique", False),
            sparse=document.get("sparse", False),
            hidden=document.get("hidden", False),
            prepare_unique=document.get("prepareUnique", False),
            expire_after=document.get("expireAfterSeconds"),
            partial=document.get("partialFilterExpression"),
            collation=_stored_collation(document.get("collation")),
            projection=document.get("wildcardProjection"),
            weights=document.get("weights"),
            language=document.get("default_language", NONE),
            language_override=document.get("language_override", "language"),
            storage=document.get("storageEngine"),
            v=document["v"],
            clustered=document.get("clustered", False),
        )


ID: Final = IndexSpec("_id_", (("_id", 1),))
"""The index on `_id`, which every collection has."""


def _stored_collation(document: Document | None) -> Document | None:
    # Collections have given their indexes the default collation as it was sent, without the options that it left out.
    return None if document is None else Collation.parse(document).document()


def _stored_key(pattern: Mapping[str, Any], weights: Mapping[str, Any] | None) -> KeyPattern:
    key: list[tuple[str, int | str]] = []
    for path, direction in pattern.items():
        if path == "_fts":
            key += [(each, "text") for each in weights or {}]
        elif path != "_ftsx":
            key.append((path, direction))
    return tuple(key)


# --- createIndexes -----------------------------------------------------------------------------------------------------


def parse_spec(
    document: Document,
    profile: Profile = "both",
    default_collation: Document | None = None,
    custom_path: bool = False,
) -> IndexSpec:
    """Parse one element of `indexes` of createIndexes.

    `default_collation`: that of the collection, in full. `custom_path`: a `cosmos` database allows a TTL index on any field.
    MqlError 2, 9, 14, 67, 197, and the errors of hashed indexes.
    """
    for field in document:
        if field not in FIELDS:
            raise _invalid_field_error(field, "an index specification", document)
    key = _add_text_fields(document, parse_key_pattern(_client_key_pattern(document), "key" in document))
    name = _parse_name(document)
    if key[0][0] == "_id" and len(key) == 1 and key[0][1] != "hashed":
        name = "_id_"
        _check_id(document, key)
    elif name in ("_id_", "*"):
        raise _reserved_name_error(name, document)
    spec = _parse_options(document, IndexSpec(name, key))
    spec = _set_collation(document, spec, default_collation)
    spec = msgspec.structs.replace(spec, expire_after=_parse_expire_after(document, spec, profile, custom_path))
    _check_exclusive_options(spec)
    return spec


def _client_key_pattern(document: Document) -> Any:
    """Return the key pattern as a client writes it: a text index that listIndexes printed has its paths in `weights`."""
    key, weights = document.get("key"), document.get("weights")
    if type(key) is dict and key.get("_fts") == "text" and type(weights) is dict:
        return dict(_stored_key(key, weights))
    return key


def _add_text_fields(document: Document, key: KeyPattern) -> KeyPattern:
    """Return the key with the text fields that `weights` adds, sorted by name."""
    weights = parse_weights(document, key)
    if weights is None:
        return key
    at = next(n for n, (_, direction) in enumerate(key) if direction == "text")
    others = [field for field in key if field[1] != "text"]
    return (*others[:at], *[(path, "text") for path in weights], *others[at:])


def _invalid_field_error(field: str, of: str, document: Document) -> MqlError:
    return MqlError(197, f"The field '{field}' is not valid for {of}. Specification: {format_value(document)}")


def _parse_name(document: Document) -> str:
    name = document.get("name")
    if "name" not in document:
        raise failed_to_parse("The 'name' field is a required property of an index specification")
    check_type("name", name, "string")
    if not name or "\0" in name:
        raise cannot_create_index("index name cannot be empty" if not name else "index name cannot contain NUL bytes")
    return str(name)


def _reserved_name_error(name: str, document: Document) -> MqlError:
    if name == "*":
        return bad_value("The index name '*' is not valid.")
    return bad_value(
        "The index name '_id_' is reserved for the _id index, which must have key pattern {_id: 1}, "
        f"found {format_value(document['key'])}"
    )


def _check_id(document: Document, key: KeyPattern) -> None:
    for field in document:
        if field not in _ID_FIELDS:
            raise _invalid_field_error(field, "an _id index specification", document)
    if key != (("_id", 1),):
        raise bad_value(f"The field 'key' for an _id index must be {{_id: 1}}, but got {format_value(document['key'])}")


def _parse_options(document: Document, spec: IndexSpec) -> IndexSpec:
    """Return the specification with the options that do not depend on each other."""
    v = document.get("v", 2)
    if "v" in document and (type(v) is bool or v not in (1, 2)):
        raise cannot_create_index(
            f"Invalid index specification {format_value(document)}; cannot create an index with v={format_value(v)}"
        )
    hidden = document.get("hidden", False)
    if type(hidden) is not bool:
        check_type("hidden", hidden, "bool")
    if "storageEngine" in document:
        check_type("storageEngine", document["storageEngine"], "object")
    parse_flag(document, "background")
    text = spec.kind == "text"
    return msgspec.structs.replace(
        spec,
        unique=parse_flag(document, "unique"),
        sparse=parse_flag(document, "sparse"),
        prepare_unique=parse_flag(document, "prepareUnique"),
        hidden=hidden,
        partial=parse_partial_filter(document),
        projection=parse_wildcard_projection(document, spec.kind),
        weights=parse_weights(document, spec.key),
        language=_parse_language(document) if text else spec.language,
        language_override=_parse_text(document, "language_override", "language"),
        storage=document.get("storageEngine"),
    )


def _parse_text(document: Document, field: str, otherwise: str) -> str:
    value = document.get(field, otherwise)
    check_type(field, value, "string")
    return str(value)


def _parse_language(document: Document) -> str:
    language = _parse_text(document, "default_language", DEFAULT)
    if language_of(language) is None:
        raise cannot_create_index(f'unsupported language: "{language}" for text index version 3')
    version = document.get("textIndexVersion", 3)
    check_type("textIndexVersion", version, "number")
    if version != 3:
        raise cannot_create_index(f"bad textIndexVersion: {format_value(version)}")
    return language


def _set_collation(document: Document, spec: IndexSpec, default: Document | None) -> IndexSpec:
    if "collation" not in document:
        if default is not None and spec.kind == "text":
            raise cannot_create_index(f"Index type 'text' does not support collation: {format_value(default)}")
        return msgspec.structs.replace(spec, collation=default)
    collation = document["collation"]
    check_type("collation", collation, "object")
    if not collation:
        raise bad_value("The field 'collation' cannot be an empty object.")
    given = Collation.parse(collation)
    full = None if given.is_simple else given.document()
    if full is not None and spec.kind == "text":
        raise cannot_create_index(f"Index type 'text' does not support collation: {format_value(full)}")
    return msgspec.structs.replace(spec, collation=full)


def _parse_expire_after(document: Document, spec: IndexSpec, profile: Profile, custom_path: bool) -> int | None:
    if "expireAfterSeconds" not in document:
        return None
    cosmos = profile != "native" and spec.key[0][0] == "_ts"
    seconds = parse_ttl(document, least=-1 if cosmos and len(spec.key) == 1 else 0)
    if len(spec.key) != 1:
        raise cannot_create_index(
            f"TTL indexes are single-field indexes, compound indexes do not support TTL. Index spec: {format_value(document)}"
        )
    if spec.kind == "wildcard":
        raise cannot_create_index("Index type 'wildcard' cannot be a TTL index")
    if cosmos:
        check_cosmos_ttl(spec, seconds)
        for field in document:
            if field not in _TS_FIELDS:
                raise cannot_create_index(f"The option '{field}' is not supported for a TTL index on '_ts'")
    elif profile == "cosmos" and not custom_path:
        raise bad_value("The 'expireAfterSeconds' option is supported on '_ts' field only.")
    return seconds


def check_cosmos_ttl(spec: IndexSpec, seconds: int, code: int = 67) -> None:
    """Raise MqlError `code` for an invalid TTL index on `_ts`. A value of 0 would hide the whole collection."""
    if spec.kind != "ordered":
        raise MqlError(code, f"Index type '{spec.kind}' cannot be a TTL index on '_ts'")
    if seconds == 0:
        raise MqlError(code, "The 'expireAfterSeconds' option on '_ts' must be -1 or between 1 and 2147483647.")


def _check_exclusive_options(spec: IndexSpec) -> None:
    """Raise MqlError for options that exclude each other."""
    if spec.partial is not None and spec.sparse:
        raise cannot_create_index('cannot mix "partialFilterExpression" and "sparse" options')
    if spec.kind == "hashed" and spec.unique:
        raise MqlError(16764, "Currently hashed indexes cannot guarantee uniqueness. Use a regular index.")
    if spec.kind == "wildcard":
        for name, given in (("unique", spec.unique), ("sparse", spec.sparse)):
            if given:
                raise cannot_create_index(f"Index type 'wildcard' does not support the {name} option")
    if spec.kind == "text" and spec.unique:
        raise cannot_create_index("Index type 'text' does not support the unique option")


# --- beside what is there ------------------------------------------------------------------------------------------------


def compare_with_existing(spec: IndexSpec, existing: Sequence[IndexSpec]) -> Literal["same", "new"]:
    """Return "same" if the index exists already, else "new". MqlError 85, 86 if another index has the name or the key."""
    named = next((each for each in existing if each.name == spec.name), None)
    if named is not None:
        return _compare_named(spec, named)
    for each in existing:
        if _has_same_signature(each, spec):
            if _has_equal_options(each, spec):
                raise MqlError(85, f"Index already exists with a different name: {each.name}")
            raise MqlError(
                85,
                f"An equivalent index already exists with a different name and options. {_describe_both(spec, each)}",
            )
    return "new"


def _compare_named(spec: IndexSpec, named: IndexSpec) -> Literal["same"]:
    if not _has_same_signature(named, spec):
        raise MqlError(
            86,
            "An existing index has the same name as the requested index. When index names are not specified, they are auto "
            f"generated and can cause conflicts. Please refer to our documentation. {_describe_both(spec, named)}",
        )
    if not _has_equal_options(named, spec):
        raise MqlError(
            85,
            f"An equivalent index already exists with the same name but different options. {_describe_both(spec, named)}",
        )
    return "same"


def _describe_both(spec: IndexSpec, existing: IndexSpec) -> str:
    return (
        f"Requested index: {format_value(spec.to_document())}, existing index: {format_value(existing.to_document())}"
    )


def _has_same_signature(one: IndexSpec, other: IndexSpec) -> bool:
    """Return whether two indexes are equivalent: equal in all that distinguishes indexes apart from their names."""
    return (
        tuple(one.pattern.items()) == tuple(other.pattern.items())
        and (one.unique, one.sparse) == (other.unique, other.sparse)
        and equal(one.partial, other.partial)
        and equal(one.collation, other.collation)
        and equal(one.projection, other.projection)
    )


def _has_equal_options(one: IndexSpec, other: IndexSpec) -> bool:
    def options(spec: IndexSpec) -> tuple[Any, ...]:
        return spec.expire_after, spec.language, spec.language_override

    return options(one) == options(other) and equal(one.weights, other.weights) and equal(one.storage, other.storage)


def check_against_existing(
    spec: IndexSpec, existing: Sequence[IndexSpec], namespace: str, profile: Profile = "both", custom_path: bool = False
) -> None:
    """Raise MqlError if an index cannot be added: 67 for too many or a second text index, 2 for a second custom-path
    TTL index.
    """
    # `existing` includes the index on `_id`.
    if len(existing) >= MAX_INDEXES:
        raise cannot_create_index(f"add index fails, too many indexes for {namespace} key:{format_value(spec.pattern)}")
    text = next((each for each in existing if each.kind == "text"), None)
    if spec.kind == "text" and text is not None:
        raise cannot_create_index(
            f'only one text index per collection allowed, found existing text index "{text.name}"'
        )
    taken = custom_path and any(each.expire_after is not None for each in existing)
    if profile == "cosmos" and spec.expire_after is not None and taken:
        raise bad_value("Only one TTL index is supported when TTL on a custom path is enabled.")
