"""Partition keys: their paths in an item, their hashes, and the ranges of a container.

Clients hash keys themselves to route queries and change feeds, so the effective partition key (EPK) must equal theirs bit by
bit. Mayfly keeps an EPK as bytes, whose order is that of its hex form.
Sources: the public azure-cosmos and @azure/cosmos clients.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import pairwise
from struct import Struct as Packing
from typing import Any, Final, Literal, TypeAlias

import msgspec
from mmh3 import mmh3_32_uintdigest, mmh3_x64_128_digest

from mayflydb.frontends.cosmos.headers import END_EPK, START_EPK
from mayflydb.model.errors import BadRequest
from mayflydb.query.cosmos_sql.values import UNDEFINED, Undefined

KeyValue: TypeAlias = str | float | int | bool | Undefined | None
KeyValues: TypeAlias = tuple[KeyValue, ...]
"""One value per path. A missing property is UNDEFINED, a value of its own and not null."""

KEY_MISMATCH: Final = (
    "PartitionKey extracted from document doesn't match the one specified in the header. "
    "Learn more: https://aka.ms/CosmosDB/sql/errors/wrong-pk-value"
)
WRONG_KEY_LENGTH: Final = (
    "Partition key provided either doesn't correspond to definition in the collection or doesn't match partition key field "
    "values specified in the document."
)
"""The message for a key with more or fewer values than the container has paths.

https://github.com/microsoft/vscode-cosmosdb/issues/300
"""

MAX_TEXT_BYTES: Final = 2048
"""The longest string key in UTF-8 bytes."""

_CACHED_BYTES = 512
_CACHED_TEXT = 128
_TAGS: Final[dict[object, bytes]] = {UNDEFINED: b"\x00", None: b"\x01", False: b"\x02", True: b"\x03"}
_NUMBER: Final = Packing("<Bd")
_BIG_DOUBLE: Final = Packing(">d")
_SEGMENT: Final = re.compile(r"""/(?:(["'])((?:(?!\1)[^\\]|\\.)+)\1|([^/"']+))""")
_SYSTEM: Final = frozenset({"_rid", "_self", "_etag", "_attachments", "_ts"})


def parse_property_path(path: object, what: str) -> tuple[str, ...]:
    """Parse `/a/"b c"/d` as ("a", "b c", "d"). BadRequest naming `what` for anything else."""
    if not isinstance(path, str) or not path:
        raise BadRequest(f"The {what} must be a string such as '/name'.")
    segments: list[str] = []
    position = 0
    while position < len(path):
        match = _SEGMENT.match(path, position)
        if match is None:
            raise BadRequest(
                f"The {what} '{path[:255]}' is not a valid path: it must look like '/name' or '/\"a b\"/c'."
            )
        _, quoted, plain = match.groups()
        segments.append(plain if quoted is None else re.sub(r"\\(.)", r"\1", quoted))
        position = match.end()
    return tuple(segments)


# --- encoding --------------------------------------------------------------------------------------------------------


def encode_component(value: KeyValue) -> bytes:
    """Encode one key value as tagged bytes, which are hashed. Different values differ, and 5 equals 5.0.

    0 and -0.0 are two keys, as for the .NET client; in JSON, -0 is the integer 0.
    """
    # One tag byte, then the value: 00 undefined, 01 null, 02 false, 03 true,
    # 05 and a little-endian double, 08 and UTF-8 and FF, which occurs in no UTF-8.
    kind = type(value)
    if kind is str:
        return b"\x08" + value.encode("utf-8", "surrogatepass") + b"\xff"  # type: ignore[union-attr]
    if kind is float or kind is int:
        try:
            return _NUMBER.pack(5, float(value))  # type: ignore[arg-type]
        except OverflowError:
            raise BadRequest("A partition key number is out of the range of a double.") from None
    return _TAGS[value]


def _hash_v2(data: bytes) -> bytes:
    # The library returns the low half first, each half in little-endian order.
    digest = mmh3_x64_128_digest(data)[::-1]
    # The two top bits are cleared, since FF is the end of all ranges.
    return bytes((digest[0] & 0x3F,)) + digest[1:]


def encode_number(number: float) -> bytes:
    """Encode a number in a version 1 EPK: 8 bits, then groups of 7 bits and a continuation bit. The order is kept."""
    bits = int.from_bytes(_BIG_DOUBLE.pack(number), "big")
    # The bits as a number in the order of the doubles: negative ones are negated, the others are moved above them.
    bits = (1 << 64) - bits if bits >> 63 else bits ^ (1 << 63)
    encoded = bytearray((5, bits >> 56))
    rest = bits << 8 & 0xFFFFFFFFFFFFFFFF
    while True:
        # The lowest bit of each byte tells that another byte follows.
        group = rest >> 56 & 0xFE
        rest = rest << 7 & 0xFFFFFFFFFFFFFFFF
        if not rest:
            encoded.append(group)
            return bytes(encoded)
        encoded.append(group | 1)


_NEXT_BYTE: Final = bytes((*range(1, 256), 255))


def _hash_v1(data: bytes) -> bytes:
    if data[0] == 8:
        # Layout: the hash as a number, then the first 100 characters, of which at most 101 bytes. Each byte is moved up
        # by one, so that 00 can end the text; a longer text has no end.
        text = data[1:-1].decode("utf-8", "surrogatepass")[:100].encode("utf-8", "surrogatepass")
        shifted = text[:101].translate(_NEXT_BYTE)
        encoded = b"\x08" + shifted + (b"\x00" if len(text) <= 100 else b"")
        return encode_number(float(mmh3_32_uintdigest(b"\x08" + text + b"\x00"))) + encoded
    encoded = encode_number(_NUMBER.unpack(data)[1]) if data[0] == 5 else data
    return encode_number(float(mmh3_32_uintdigest(data))) + encoded


_HASHES: Final[dict[int, Callable[[bytes], bytes]]] = {1: _hash_v1, 2: _hash_v2}
# The caches are keyed by tagged bytes: True, 1 and 1.0 would be one key of a dict, and clients could choose numbers whose
# dict hashes collide.
_CACHED_HASHES: Final[dict[int, Callable[[bytes], bytes]]] = {
    version: lru_cache(maxsize=8192)(function) for version, function in _HASHES.items()
}


def _hash(version: int, data: bytes) -> bytes:
    return (_CACHED_HASHES if len(data) <= _CACHED_BYTES else _HASHES)[version](data)


def _encode_partition(version: int, values: KeyValues) -> bytes:
    # Layout: all hashes, then all values. The hashes give the order, and the values tell apart keys whose hashes
    # collide.
    if len(values) == 1:
        data = encode_component(values[0])
        return _hash(version, data) + data
    components = [encode_component(value) for value in values]
    return b"".join([*[_hash(version, data) for data in components], *components])


# --- the header ------------------------------------------------------------------------------------------------------


def parse_header(text: bytes | str) -> KeyValues:
    """Parse `x-ms-documentdb-partitionkey`: `["a",5]`; `[{}]` is undefined, `[null]` null, `[]` none. Else BadRequest."""
    return _cached_header(text) if len(text) <= _CACHED_BYTES else _parse_header(text)


def _parse_header(text: bytes | str) -> KeyValues:
    try:
        values = msgspec.json.decode(text, type=list[Any])
    except (ValueError, RecursionError):
        raise BadRequest("The header x-ms-documentdb-partitionkey is not a JSON array.") from None
    return tuple(map(_parse_header_value, values))


def _parse_header_value(value: object) -> KeyValue:
    if value == {} and type(value) is dict:
        return UNDEFINED
    if type(value) is dict or type(value) is list:
        raise BadRequest(
            "A value in the header x-ms-documentdb-partitionkey must be a string, number, boolean, null or {}."
        )
    encode_component(value)  # type: ignore[arg-type]
    return value  # type: ignore[return-value]


_cached_header = lru_cache(maxsize=8192)(_parse_header)


def _parse_partition(version: int, count: int, text: bytes | str) -> bytes:
    values = parse_header(text)
    if len(values) != count:
        raise BadRequest(WRONG_KEY_LENGTH, substatus=1001)
    return _encode_partition(version, values)


_cached_partition = lru_cache(maxsize=8192)(_parse_partition)


@lru_cache(maxsize=8192)
def _cached_text_partition(version: int, value: str) -> bytes:
    return _encode_partition(version, (value,))


# --- bounds ----------------------------------------------------------------------------------------------------------


def parse_epk(text: str, header: bytes = START_EPK) -> bytes:
    """Parse an EPK in hex of either case; `""` is the start and `FF` the end of all ranges. Else BadRequest."""
    try:
        # `fromhex` would accept blanks.
        if not text.isalnum() and text:
            raise ValueError
        return bytes.fromhex(text)
    except ValueError:
        raise BadRequest(f"The header {header.decode()} is not an effective partition key in hex.") from None


def _successor(epk: bytes) -> bytes:
    return ((int.from_bytes(epk, "big") + 1) % (1 << 8 * len(epk))).to_bytes(len(epk), "big") if epk else b""


def _decode_number(epk: bytes, start: int) -> tuple[float, int] | None:
    """Decode the version 1 number at `start`; return it and the offset of its end."""
    if epk[start : start + 1] != b"\x05" or len(epk) < start + 3:
        return None
    bits = epk[start + 1]
    taken = 8
    for end in range(start + 2, min(len(epk), start + 12)):
        bits = bits << 7 | epk[end] >> 1
        taken += 7
        if not epk[end] & 1:
            bits = bits << 64 - taken if taken <= 64 else bits >> taken - 64
            bits = bits ^ 1 << 63 if bits >> 63 else (1 << 64) - bits
            return _BIG_DOUBLE.unpack((bits & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "big"))[0], end + 1
    return None


# --- the definition --------------------------------------------------------------------------------------------------


SYSTEM_KEY: Final = {"paths": ["/_partitionKey"], "kind": "Hash", "systemKey": True}
"""The definition by which clients see a container that was made without a partition key.

https://learn.microsoft.com/azure/cosmos-db/nosql/migrate-containers-partitioned-to-nonpartitioned
"""

NO_KEY: Final[KeyValues] = (UNDEFINED,)
"""The key of an item without the property of SYSTEM_KEY, which clients send as `[]`."""


class PartitionKeyDefinition(msgspec.Struct, frozen=True):
    """A container's `partitionKey`.

    `segments`: the parsed paths. `version_sent`: the client sent `version`, so answers repeat it. `is_system`: the container was
    made without a partition key; its items have the key `[]`, unless they have the property of SYSTEM_KEY.
    """

    paths: tuple[str, ...]
    kind: Literal["Hash", "MultiHash"]
    version: Literal[1, 2]
    version_sent: bool
    segments: tuple[tuple[str, ...], ...]
    is_system: bool = False

    @classmethod
    def from_json(cls, obj: object) -> PartitionKeyDefinition:
        """Parse `{"paths":["/pk"],"kind":"Hash","version":2}`; the defaults are Hash and 1, and 2 may be "V2".

        BadRequest otherwise.
        """
        if not isinstance(obj, Mapping):
            raise BadRequest("The property 'partitionKey' must be an object with 'paths'.")
        for name in obj:
            if name not in {"paths", "kind", "version", "systemKey"}:
                raise BadRequest(f"The property 'partitionKey.{str(name)[:255]}' is not supported.")
        kind = obj.get("kind", "Hash")
        if kind not in {"Hash", "MultiHash"} if isinstance(kind, str) else True:
            raise BadRequest("The property 'partitionKey.kind' must be 'Hash' or 'MultiHash'.")
        paths = obj.get("paths")
        if not isinstance(paths, list) or not 1 <= len(paths) <= (1 if kind == "Hash" else 3):
            wanted = "one path" if kind == "Hash" else "one to three paths"
            if isinstance(paths, list) and len(paths) > 1:
                raise BadRequest(f"Too many partition key paths: kind '{kind}' takes {wanted}.")
            raise BadRequest(f"The property 'partitionKey.paths' must hold {wanted} for kind '{kind}'.")
        segments = tuple(parse_property_path(path, "partition key path") for path in paths)
        if len(set(segments)) != len(segments):
            raise BadRequest("The property 'partitionKey.paths' names a path twice.")
        for path in segments:
            if path[0] in _SYSTEM:
                raise BadRequest(f"The partition key path '/{path[0]}' is a system property.")
        # The service takes `systemKey` with any path, and it has no effect there.
        is_system = obj.get("systemKey") is True and paths == SYSTEM_KEY["paths"]
        return cls(tuple(paths), kind, _parse_version(obj, kind), "version" in obj, segments, is_system)

    def to_json(self) -> dict[str, object]:
        """Return the property as the container body shows it."""
        body: dict[str, object] = {"paths": list(self.paths), "kind": self.kind}
        if self.is_system:
            body["systemKey"] = True
        return body | {"version": self.version} if self.version_sent else body

    def extract(self, doc: Mapping[str, Any]) -> KeyValues:
        """Return the key of a document, one value per path: UNDEFINED for a missing property, an object or an array."""
        return tuple([value_at(doc, path) for path in self.segments])

    def check(self, values: KeyValues) -> None:
        """Raise BadRequest for a string key over the limit. Writes check keys before they are hashed."""
        limit = MAX_TEXT_BYTES
        for value in values:
            if (
                isinstance(value, str)
                and len(value) * 3 > limit
                and len(value.encode("utf-8", "surrogatepass")) > limit
            ):
                raise BadRequest(f"The partition key value exceeds the limit of {limit} bytes.")

    def partition_of(self, doc: Mapping[str, Any]) -> bytes:
        """Return the logical partition of a document that is to be written. BadRequest for a string key over the limit."""
        path = self.segments[0]
        if len(path) == 1 == len(self.segments):
            value = doc.get(path[0])
            if type(value) is str and len(value) <= _CACHED_TEXT:
                return _cached_text_partition(self.version, value)
        values = self.extract(doc)
        self.check(values)
        return self.logical_partition(values)

    def effective_key(self, values: KeyValues) -> bytes:
        """Return the EPK. Fewer values than paths give the common prefix of all keys below them; none gives b""."""
        version = self.version
        return b"".join([_hash(version, encode_component(value)) for value in values])

    def logical_partition(self, values: KeyValues) -> bytes:
        """Return the EPK bytes, then the encoded values: equal exactly for equal values (5 = 5.0), and ordered by EPK."""
        return _encode_partition(self.version, values)

    def parse_values(self, header: bytes | str) -> KeyValues:
        """Return the values in a key header. `[]` is no key, except where the container was made without one."""
        return parse_header(header) or (NO_KEY if self.is_system else ())

    def parse_partition(self, header: bytes | str) -> bytes:
        """Return the `logical_partition` of a key header; BadRequest (1001) unless it has one value for each path."""
        if self.is_system:
            return self.logical_partition(self.parse_values(header))
        function = _cached_partition if len(header) <= _CACHED_BYTES else _parse_partition
        return function(self.version, len(self.paths), header)

    def prefix_range(self, values: KeyValues) -> tuple[bytes, bytes]:
        """Return [lower, upper) of all logical partitions at or below these values, at most one for each path."""
        if len(values) > len(self.paths):
            raise BadRequest(WRONG_KEY_LENGTH, substatus=1001)
        lower = self.effective_key(values)
        return lower, lower + b"\xff"

    def parse_client_range(self, start: str, end: str) -> tuple[bytes, bytes]:
        """Parse `x-ms-start-epk` and `x-ms-end-epk` as [lower, upper).

        start = end is a point. In version 1 the point range of an integer key may have a wrong hash, since the Python client
        first takes integers modulo 2^32. It is replaced by the range of the right hash.
        """
        lower, upper = parse_epk(start), parse_epk(end, END_EPK)
        if upper < lower:
            raise BadRequest("The header x-ms-end-epk lies below x-ms-start-epk.")
        # Clients write a point in three ways: equal bounds, the next EPK as the upper bound, and FF behind the EPK.
        if self.version == 1 and upper in (lower, _successor(lower), lower + b"\xff"):
            lower = self._correct_point(lower)
            return lower, lower + b"\xff"
        return lower, lower + b"\xff" if upper == lower else upper

    def _correct_point(self, epk: bytes) -> bytes:
        """Return the right version 1 EPK of an integer key, which the EPK holds behind its hash; others as they are."""
        hashed = _decode_number(epk, 0)
        value = _decode_number(epk, hashed[1]) if hashed else None
        if value is None or value[1] != len(epk) or not value[0].is_integer():
            return epk
        return self.effective_key((value[0],))


def _parse_version(obj: Mapping[str, Any], kind: str) -> Literal[1, 2]:
    # Hierarchical keys have version 2 only, so a missing version does not mean 1 for them.
    version = obj.get("version", 1 if kind == "Hash" else 2)
    # Java writes the name of its enumeration.
    version = {"V1": 1, "V2": 2}.get(version, version) if isinstance(version, str) else version
    if type(version) is not int or version not in (1, 2):
        raise BadRequest("The property 'partitionKey.version' must be 1 or 2.")
    if kind == "MultiHash" and version == 1:
        raise BadRequest("The property 'partitionKey.version' must be 2 for kind 'MultiHash'.")
    return 1 if version == 1 else 2


_SCALARS: Final = frozenset({str, int, float, bool, type(None)})


def value_at(doc: Mapping[str, Any], path: tuple[str, ...]) -> KeyValue:
    """Return the key value at a path of property names: UNDEFINED for a missing property, an object or an array."""
    value: Any = doc
    for name in path:
        if type(value) is not dict or name not in value:
            return UNDEFINED
        value = value[name]
    return value if type(value) in _SCALARS else UNDEFINED


def divide_key_space(count: int, definition: PartitionKeyDefinition) -> list[tuple[str, str]]:
    """Return (minInclusive, maxExclusive) in upper-case hex of `count` ranges that divide the key space evenly."""
    return list(pairwise([BEGIN, *split_bounds(BEGIN, END, count, definition), END]))


BEGIN, END = "", "FF"
"""The bounds of the key space."""


def split_bounds(lower: str, upper: str, count: int, definition: PartitionKeyDefinition) -> list[str]:
    """Return the `count` - 1 bounds that divide the range from `lower` to `upper` into even parts."""
    low, high = _bound_number(lower, definition), _bound_number(upper, definition)
    if definition.version == 1:
        return [_bound_v1(low + (high - low) * i // count) for i in range(1, count)]
    return [f"{low + (high - low) // count * i:032X}" for i in range(1, count)]


def range_width(lower: str, upper: str, definition: PartitionKeyDefinition) -> int:
    """Return the size of the key space between two bounds."""
    return _bound_number(upper, definition) - _bound_number(lower, definition)


def _bound_v1(place: int) -> str:
    return encode_number(float(place)).hex().upper()


def _bound_number(bound: str, definition: PartitionKeyDefinition) -> int:
    # Hashes of version 1 have 32 bits, and those of version 2 126 (`_hash_v2`).
    last = (2**32 if definition.version == 1 else 2**126) - 1
    if bound in (BEGIN, END):
        return 0 if bound == BEGIN else last
    # The order of version 1 bounds is that of the numbers that they encode.
    return bisect_left(range(last), bound, key=_bound_v1) if definition.version == 1 else int(bound, 16)
