"""The built-in functions of YQL: `find` for functions of one row, `find_aggregate` for aggregates.

Names are looked up without regard to case, names of builtin functions also without regard to underscores. A module of
functions is imported when one of its names is first looked up. A builder is named after its function: `_flat_map` builds
calls of ListFlatMap. Operators, COALESCE with `??`, CASE, IN and LIKE belong to the language; `patterns` has the matchers
of LIKE, `json` the functions of SQL's JSON.
Source: https://ydb.tech/docs/en/yql/reference/builtins/ and https://ydb.tech/docs/en/yql/reference/udf/list/
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from typing import Final

from mayflydb.query.yql.expression import AggregateBuilder, Builder
from mayflydb.query.yql.functions import unsupported

_PACKAGE: Final = "mayflydb.query.yql.functions"
_BUILTINS: Final = (
    *("constructors", "optionals", "lists", "list_sources", "dicts", "structs", "type_functions", "strings", "clock"),
    *("factories", "callables", "folds", "list_choices", "pickles", "type_handles"),
)
_MODULES: Final = {
    "datetime": ("datetime_intervals", "datetime_module", "datetime_formats"),
    "string": ("string_module",),
    "yson": ("yson_module",),
    "yson2": ("yson_module",),
    "unicode": ("unicode_module",),
    "hyperscan": ("pattern_modules",),
    "pire": ("pattern_modules",),
    "re2": ("re2_module",),
    "math": ("math_module",),
    "digest": ("digest_module",),
    "histogram": ("histogram_module",),
    "ip": ("ip_module",),
    "url": ("url_module",),
    "knn": ("knn_module",),
    "datetime2": ("datetime_intervals", "datetime_module", "datetime_formats"),
}
_TABLES: Final = {"hyperscan": "HYPERSCAN", "pire": "PIRE"}
"""The tables of modules that share one of Python's with another module."""
_AGGREGATES: Final = ("aggregates", "statistics", "estimates", "histograms", "factories")


def find(name: str) -> Builder | None:
    """Return the builder for calls of a function; None for an unknown name.

    The builder of a function that YDB has and Mayfly does not refuses the call by name. So does the builder of an unknown
    name in a module of YDB's, which may have that function.
    """
    module, colons, function = name.lower().partition("::")
    if not colons:
        plain = module.replace("_", "")
        return _builtins().get(plain) or (unsupported.refuse if plain in unsupported.BUILTINS else None)
    found = _module(module).get(function)
    return unsupported.refuse if found is None and (module in unsupported.MODULES or module in _MODULES) else found


def find_aggregate(name: str) -> AggregateBuilder | None:
    """Return the builder of an aggregate; None for an unknown name. `COUNT(*)` is a call without operands."""
    plain = name.lower().replace("_", "")
    return _aggregates().get(plain) or (unsupported.refuse if plain in unsupported.AGGREGATES else None)


def builtin_names() -> frozenset[str]:
    """Return the names of functions and aggregates outside of modules, in lower case, for an editor that completes them."""
    return frozenset({*_builtins(), *_aggregates()})


@lru_cache(maxsize=1)
def _builtins() -> dict[str, Builder]:
    return _gather(_BUILTINS, "BUILDERS")


@lru_cache(maxsize=64)
def _module(name: str) -> dict[str, Builder]:
    return _gather(_MODULES.get(name, ()), _TABLES.get(name, "BUILDERS"))


@lru_cache(maxsize=1)
def _aggregates() -> dict[str, AggregateBuilder]:
    found: dict[str, AggregateBuilder] = {}
    for module in _AGGREGATES:
        tables: Mapping[str, AggregateBuilder] = import_module(f"{_PACKAGE}.{module}").AGGREGATES
        found.update({name.lower(): builder for name, builder in tables.items()})
    return found


def _gather(modules: tuple[str, ...], table: str) -> dict[str, Builder]:
    found: dict[str, Builder] = {}
    for module in modules:
        tables: Mapping[str, Builder] = getattr(import_module(f"{_PACKAGE}.{module}"), table)
        found.update({name.lower(): builder for name, builder in tables.items()})
    return found
