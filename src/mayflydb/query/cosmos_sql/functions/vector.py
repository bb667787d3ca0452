"""VectorDistance: the distance of two vectors, computed exactly over the documents of a scan. An index does not change it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from operator import mul
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeGuard

import msgspec

from mayflydb.query.cosmos_sql.faults import bad_query
from mayflydb.query.cosmos_sql.functions.signature import BuiltinFunction, function
from mayflydb.query.cosmos_sql.numbers import normalize_number
from mayflydb.query.cosmos_sql.syntax import FunctionCall, SyntaxNode
from mayflydb.query.cosmos_sql.values import NUMBERS, UNDEFINED, Value

DISTANCE: Final = "VectorDistance"
SCORE: Final = "_VectorScore"
"""The service's own name, which the plans of hybrid searches use: the distance as a number that is higher for nearer vectors."""


class Embedding(msgspec.Struct, frozen=True):
    """The measure of vectors: a key of DISTANCES, a key of DATA_TYPES, and the length of the vectors (None: any)."""

    distance: str = "cosine"
    data_type: str = "float32"
    dimensions: int | None = None

    @property
    def is_descending(self) -> bool:
        """True if nearer vectors have the higher number."""
        return self.distance != "euclidean"


Embeddings: TypeAlias = Mapping[tuple[str, ...], Embedding]
"""The embeddings that a container declares for the vectors at paths of its documents."""

NO_EMBEDDINGS: Final[Embeddings] = MappingProxyType({})

Vector: TypeAlias = list[Any]


def _dot(one: Vector, other: Vector) -> float:
    total: float = sum(map(mul, one, other))
    return total


def _cosine(one: Vector, other: Vector) -> Value:
    lengths = math.hypot(*one) * math.hypot(*other)
    # Rounding can give a number slightly beyond -1 or 1. A vector of zeros has no direction.
    return normalize_number(max(-1.0, min(1.0, _dot(one, other) / lengths))) if lengths else UNDEFINED


DISTANCES: Final[dict[str, Callable[[Vector, Vector], Value]]] = {
    "cosine": _cosine,
    "dotproduct": lambda one, other: normalize_number(_dot(one, other)),
    "euclidean": lambda one, other: normalize_number(math.dist(one, other)),
}

_FLOAT16: Final = 65504.0
_FLOAT32: Final = 3.4028234663852886e38
DATA_TYPES: Final[dict[str, tuple[float, float, bool]]] = {
    "float32": (-_FLOAT32, _FLOAT32, False),
    "float16": (-_FLOAT16, _FLOAT16, False),
    "int8": (-128, 127, True),
    "uint8": (0, 255, True),
}
"""The least and the greatest component, and whether components are whole numbers."""

_CHOICES: Final = {"distanceFunction": tuple(DISTANCES), "dataType": tuple(DATA_TYPES)}
_TUNING: Final = frozenset({"searchListSizeMultiplier", "quantizedVectorListMultiplier", "filterPriority"})
"""Options that trade exactness of an index for speed; a scan is always exact."""


def is_distance(node: SyntaxNode) -> TypeGuard[FunctionCall]:
    """True if `node` is a call of VectorDistance."""
    return isinstance(node, FunctionCall) and not node.udf and node.name.upper() == DISTANCE.upper()


def is_measure(node: SyntaxNode) -> TypeGuard[FunctionCall]:
    """True if `node` is a call of VectorDistance or of its score."""
    return is_distance(node) or (isinstance(node, FunctionCall) and not node.udf and node.name.upper() == SCORE.upper())


def with_options(declared: Embedding, given: Sequence[Value], call: FunctionCall) -> Embedding:
    """Return `declared` changed by the values of a call's third and fourth argument. BadQuery for wrong values."""
    fault = _find_fault(given)
    if fault is not None:
        raise bad_query(fault, call.start, call.end)
    options: dict[str, Any] = given[1] if len(given) > 1 else {}
    distance, data_type = options.get("distanceFunction"), options.get("dataType")
    return msgspec.structs.replace(
        declared,
        distance=declared.distance if distance is None else distance.lower(),
        data_type=declared.data_type if data_type is None else data_type.lower(),
    )


def _find_fault(given: Sequence[Value]) -> str | None:
    if given and type(given[0]) is not bool:
        return "The third argument of VectorDistance must be true or false."
    options = given[1] if len(given) > 1 else {}
    if type(options) is not dict:
        return "The fourth argument of VectorDistance must be an object."
    for name, value in options.items():
        choices = _CHOICES.get(name)
        if choices is not None and (type(value) is not str or value.lower() not in choices):
            return f"The option '{name}' of VectorDistance must be one of {', '.join(choices)}."
        if name in _TUNING and type(value) not in NUMBERS:
            return f"The option '{name}' of VectorDistance must be a number."
        if choices is None and name not in _TUNING:
            return f"The option '{name[:255]}' of VectorDistance is not known."
    return None


def distance_function(embedding: Embedding, call: FunctionCall) -> BuiltinFunction:
    """Build the function of a call: VectorDistance of two vectors, or its score.

    Undefined for vectors that are empty, differ in length, do not have the declared length, or have a component that the data
    type cannot represent.
    """
    measure, length = DISTANCES[embedding.distance], embedding.dimensions
    low, high, whole = DATA_TYPES[embedding.data_type]
    is_negated = not embedding.is_descending and not is_distance(call)

    def fits(vector: Vector) -> bool:
        if not NUMBERS.issuperset(map(type, vector)):
            return False
        # A vector of length `high` has no component above it. Most vectors pass here.
        if not whole and _is_shorter(vector, high):
            return True
        return low <= min(vector) and max(vector) <= high and not (whole and any(each % 1 for each in vector))

    def compute(one: Vector, other: Vector) -> Value:
        if not one or len(one) != len(other) or (length is not None and len(one) != length):
            return UNDEFINED
        if not fits(one) or not fits(other):
            return UNDEFINED
        found: Any = measure(one, other)
        return -found if is_negated and found is not UNDEFINED else found

    return function(call.name.upper(), "aa", compute)


def _is_shorter(vector: Vector, bound: float) -> bool:
    """True if the length of the vector is at most `bound`; then so is each component. This is faster than a test of each
    component.
    """
    try:
        return math.hypot(*vector) <= bound
    except OverflowError:
        return False


def _default_distance(one: Vector, other: Vector, *options: Value) -> Value:
    value: Value = distance_function(Embedding(), FunctionCall(name=DISTANCE, arguments=(), udf=False)).compute(
        one, other
    )
    return value


FUNCTIONS: Final[tuple[BuiltinFunction, ...]] = tuple(
    function(name.upper(), "aa?bo", _default_distance) for name in (DISTANCE, SCORE)
)
"""The functions with their numbers of arguments; the compiler calls `distance_function` for the options of a call."""
