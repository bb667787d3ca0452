"""Plans queries. Long texts, and texts whose constants may take long to compute, are handled on a thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, ParamSpec, TypeVar

from mayflydb.engine.engine import Engine
from mayflydb.evaluation.statement import Statement
from mayflydb.frontends.ydb.calls import GrpcCall
from mayflydb.frontends.ydb.query_cache import PreparedQuery, QueryCache
from mayflydb.frontends.ydb.schemes.catalog import Schemes as SchemeCatalog
from mayflydb.frontends.ydb.store_tables import Readable, Views
from mayflydb.query.yql import plans
from mayflydb.query.yql.faults import fault
from mayflydb.query.yql.parser import parse
from mayflydb.query.yql.plans import Plan
from mayflydb.query.yql.plans.effort import Effort, estimate_plan, estimate_script
from mayflydb.query.yql.schemas import Schemas, Table, View
from mayflydb.query.yql.statements import Script
from mayflydb.query.yql.types import Type

P = ParamSpec("P")
T = TypeVar("T")

MAX_TEXT_LENGTH: Final = 256 << 10
"""The most characters of a query. YDB documents a limit of 10 KB, and refuses longer texts with the same message."""

SHORT_TEXT: Final = 512
"""Texts up to this length are parsed and bound on the event loop: about a millisecond."""


class Planner:
    """Plans the queries of one server, and caches trees and plans."""

    def __init__(self, engine: Engine, schemes: SchemeCatalog) -> None:
        self.cache = QueryCache()
        self._engine = engine
        self._schemes = schemes

    async def parse(self, statement: Statement, text: str) -> Script:
        """Return the syntax tree of a text. Faults: syntax errors, BAD_REQUEST for a text that is too long."""
        found = self.cache.trees.get(text)
        if found is None:
            if len(text) > MAX_TEXT_LENGTH:
                sizes = f"{len(text)}b > {MAX_TEXT_LENGTH}b"
                raise fault(f"Query text size exceeds limit ({sizes})", status="BAD_REQUEST")
            found = await _compute(statement, len(text) <= SHORT_TEXT, parse, text)
            self.cache.trees.put(text, found, len(text))
        return found

    async def prepare(
        self,
        call: GrpcCall,
        statement: Statement,
        text: str,
        script: Script,
        types: Mapping[str, Type],
        schemes: SchemeCatalog | None = None,
    ) -> tuple[PreparedQuery, bool]:
        """Return the plan of a query, and True if the plan was cached.

        `schemes`: those of its session, in place of the server's.
        """
        schemes = schemes or self._schemes
        key = (text, call.database, tuple(sorted(types.items(), key=lambda each: each[0])), schemes.session)
        # Read before the tables: after a change in between, the plan looks older than it is, and is checked once more. Read
        # after them, the version would make an outdated plan look new.
        version = self._engine.catalog_version
        known = self.cache.plans.get(key)
        if known is not None and known.version == version:
            return known, True
        is_short = len(text) <= SHORT_TEXT
        paths = await _compute(statement, is_short, plans.tables_of, script, call.database)
        schemas = await self._schemas(statement, paths, call.database, schemes)
        # The catalogue changed, but the tables of this plan may not have: then the plan stays valid for the new
        # version.
        if known is not None and known.schemas == schemas and await self._are_current(known.views, schemes):
            known.version = version
            return known, True
        found = {path: await schemes.find(path) for path in schemas}
        views = {path: entry for path, entry in found.items() if isinstance(entry, Readable)}
        effort = Effort.UNBOUNDED
        # The query of a view may be anything.
        if not any(isinstance(each, View) for each in schemas.values()):
            effort = await _compute(statement, is_short, estimate_script, script)
        # Constants are computed when they are bound.
        is_cheap = is_short and effort is not Effort.UNBOUNDED
        plan, effort = await _compute(statement, is_cheap, _bind, script, schemas, call.database, types, effort)
        prepared = PreparedQuery(plan, effort, schemas, views, version)
        self.cache.plans.put(key, prepared, len(text))
        return prepared, False

    async def _schemas(
        self, statement: Statement, paths: Sequence[str], database: str, schemes: SchemeCatalog
    ) -> Schemas:
        """Return the tables and views at these paths, and those that the queries of views name."""
        found: dict[str, Table | View] = {}
        # Queries of views name tables and further views. Each path is looked up once, so views that name each other
        # end.
        while paths:
            new = await schemes.schemas(paths)
            found.update(new)
            texts = [each.text for each in new.values() if isinstance(each, View)]
            scripts = [await self.parse(statement, text) for text in texts]
            named = [path for script in scripts for path in plans.tables_of(script, database)]
            paths = [path for path in dict.fromkeys(named) if path not in found]
        return found

    async def _are_current(self, views: Views, schemes: SchemeCatalog) -> bool:
        for path, view in views.items():
            # A lookup returns the same object as long as the definition is the same.
            if await schemes.find(path) is not view:
                return False
        return True


def _bind(
    script: Script, schemas: Schemas, database: str, types: Mapping[str, Type], of_script: Effort
) -> tuple[Plan, Effort]:
    plan = plans.bind(script, schemas, database, types)
    return plan, estimate_plan(of_script, plan)


async def _compute(statement: Statement, here: bool, function: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """Return the result of a function. `here`: True for a quick function, which runs on the event loop."""
    return function(*given, **named) if here else await statement.call(0, function, *given)
