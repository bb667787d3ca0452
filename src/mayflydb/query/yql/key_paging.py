"""Conditions of YQL for pages by primary key: each page is a read of the key's range behind the last row of the page before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def quote_name(name: str) -> str:
    """Quote a name with backticks."""
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def condition_behind(
    key: Sequence[str], types: Mapping[str, str], last: Sequence[Any]
) -> tuple[str, dict[str, tuple[str, Any]]]:
    """Return the condition of the rows behind a key, and its parameters. NULL comes before all values.

    Each side of the OR limits the key, which a comparison of tuples would not: plans read its ranges alone.
    """
    choices, same = [], []  # type: list[str], list[str]
    for n, (name, value) in enumerate(zip(key, last, strict=True)):
        quoted = quote_name(name)
        larger = f"{quoted} IS NOT NULL" if value is None else f"{quoted} > $_k{n}"
        choices.append(f"({' AND '.join([*same, larger])})")
        same.append(same_value(name, value, n))
    return f"({' OR '.join(choices)})", key_parameters(key, types, last)


def same_value(name: str, value: Any, n: int) -> str:
    """Return the condition that the key's column number `n` has a value."""
    return f"{quote_name(name)} IS NULL" if value is None else f"{quote_name(name)} = $_k{n}"


def key_parameters(key: Sequence[str], types: Mapping[str, str], values: Sequence[Any]) -> dict[str, tuple[str, Any]]:
    """Return the parameters of conditions on a key: type and value of each column that is not NULL."""
    pairs = enumerate(zip(key, values, strict=True))
    return {f"_k{n}": (types[name], value) for n, (name, value) in pairs if value is not None}
