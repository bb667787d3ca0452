"""Names of databases."""

from __future__ import annotations


def database_path(named: str) -> str:
    """`/local` for `/local/`, `local` and `//local`."""
    return "/" + "/".join(part for part in named.split("/") if part)
