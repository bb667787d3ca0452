"""All modules that know a kind of expression: whoever binds imports this one, so that they are there."""

from __future__ import annotations

from mayflydb.query.yql.plans import calls, documents, literals, membership, names, operators, patterns, subqueries

LOADED = (calls, documents, literals, membership, names, operators, patterns, subqueries)
