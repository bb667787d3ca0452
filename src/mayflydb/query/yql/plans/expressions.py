"""Imports all modules that bind a kind of expression, so that their handlers are registered."""

from __future__ import annotations

from mayflydb.query.yql.plans import calls, documents, literals, membership, names, operators, patterns, subqueries

REGISTERED = (calls, documents, literals, membership, names, operators, patterns, subqueries)
