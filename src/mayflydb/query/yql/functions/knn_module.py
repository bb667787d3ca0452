"""`Knn::`: vectors as bytes, and distances and similarities of vectors.

A vector is its elements, little-endian, and a byte for their kind. Bits are packed into words of 64, the first one highest.
The last word is cut to whole bytes; a byte before the kind gives the number of unused bits.
Source: https://ydb.tech/docs/en/yql/reference/udf/list/knn and `ydb/library/yql/udfs/common/knn` of
https://github.com/ydb-platform/ydb.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from typing import Final

from mayflydb.query.yql.expression import Builder
from mayflydb.query.yql.functions.signatures import build_module
from mayflydb.query.yql.texts import to_single

FLOATS, UINT8S, INT8S, BITS = 1, 2, 3, 10
_CODES: Final = {FLOATS: "f", UINT8S: "B", INT8S: "b"}
_WORD: Final = 64

Vector = Sequence[float]


def _pack(kind: int) -> Callable[[Vector], bytes]:
    code = _CODES[kind]
    # | elements | kind |
    return lambda items: struct.pack(f"<{len(items)}{code}B", *items, kind)


def _pack_bits(items: Vector) -> bytes:
    found = bytearray()
    for start in range(0, len(items), _WORD):
        word = items[start : start + _WORD]
        number = sum((item > 0) << place for place, item in enumerate(reversed(word)))
        found += number.to_bytes((len(word) + 7) // 8, "little")
    # | words of 64 bits, the last one cut to whole bytes | unused bits | kind |
    return bytes((*found, -len(items) % 8, BITS))


def _decode(vector: bytes) -> tuple[int, Vector] | None:
    """Decode a vector to its kind and elements; None for bytes that are no vector."""
    kind = vector[-1] if vector else 0
    if kind == BITS and len(vector) > 1:
        return kind, _decode_bits(vector)
    size = struct.calcsize(_CODES.get(kind, "f"))
    if kind not in _CODES or (len(vector) - 1) % size:
        return None
    count = (len(vector) - 1) // size
    return kind, struct.unpack_from(f"<{count}{_CODES[kind]}", vector)


def _decode_bits(vector: bytes) -> Vector:
    content = vector[:-2]
    count = len(content) * 8 - vector[-2]
    found: list[int] = []
    for start in range(0, len(content), 8):
        number = int.from_bytes(content[start : start + 8], "little")
        size = min(_WORD, count - start * 8)
        found += (number >> place & 1 for place in range(size - 1, -1, -1))
    return found


def _floats(vector: bytes) -> list[float] | None:
    found = _decode(vector)
    if found is None or found[0] == BITS:
        return None
    return [float(item) for item in found[1]]


def _of_both(compute: Callable[[Vector, Vector], float]) -> Callable[[bytes, bytes], float | None]:
    """Build a function of two vectors; None if they differ in kind or length, or are no vectors."""

    def call(one: bytes, other: bytes) -> float | None:
        left, right = _decode(one), _decode(other)
        if left is None or right is None or left[0] != right[0] or len(left[1]) != len(right[1]):
            return None
        return to_single(compute(left[1], right[1]))

    return call


def _product(left: Vector, right: Vector) -> float:
    return math.fsum(a * b for a, b in zip(left, right, strict=True))


def _cosine(left: Vector, right: Vector) -> float:
    norm = math.sqrt(_product(left, left) * _product(right, right))
    return _product(left, right) / norm if norm else 1.0


def _manhattan(left: Vector, right: Vector) -> float:
    return math.fsum(abs(a - b) for a, b in zip(left, right, strict=True))


def _euclidean(left: Vector, right: Vector) -> float:
    return math.dist(left, right)


_ANY: Final = "String|FloatVector|Uint8Vector|Int8Vector|BitVector"
_BOTH: Final = f"({_ANY}, {_ANY}) -> Float?"
_NUMBERS: Final = "(List<Float>|List<Double>|List<Uint8>|List<Int8>) -> BitVector"

BUILDERS: Final[dict[str, Builder]] = build_module(
    {
        "ToBinaryString": ("(List<Float>) -> FloatVector", _pack(FLOATS)),
        "ToBinaryStringFloat": ("(List<Float>) -> FloatVector", _pack(FLOATS)),
        "ToBinaryStringUint8": ("(List<Uint8>) -> Uint8Vector", _pack(UINT8S)),
        "ToBinaryStringInt8": ("(List<Int8>) -> Int8Vector", _pack(INT8S)),
        "ToBinaryStringBit": (_NUMBERS, _pack_bits),
        "FloatFromBinaryString": (f"({_ANY}) -> List<Float>?", _floats),
        "InnerProductSimilarity": (_BOTH, _of_both(_product)),
        "CosineSimilarity": (_BOTH, _of_both(_cosine)),
        "CosineDistance": (_BOTH, _of_both(lambda left, right: 1 - _cosine(left, right))),
        "ManhattanDistance": (_BOTH, _of_both(_manhattan)),
        "EuclideanDistance": (_BOTH, _of_both(_euclidean)),
    }
)
