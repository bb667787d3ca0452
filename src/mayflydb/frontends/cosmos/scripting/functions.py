"""User-defined functions in queries."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

from mayflydb.engine.catalog import Node
from mayflydb.engine.companions import home_of
from mayflydb.engine.reads import Reads, node_at
from mayflydb.engine.scans import Batch, Scope, scan
from mayflydb.frontends.cosmos.calls import SCRIPTS
from mayflydb.frontends.cosmos.scripting.sandbox import Sandbox, TimeBudget, decode_answer
from mayflydb.model.errors import BadRequest
from mayflydb.model.instant import MILLISECOND, Instant
from mayflydb.model.order import Position
from mayflydb.query.cosmos_sql import UNDEFINED, Caller, functions_in

MAX_REFERENCES: Final = 10
TOO_MANY_REFERENCES: Final = f"The query refers to user-defined functions more than {MAX_REFERENCES} times."


def row_name(word: str, id: str) -> str:
    """Return the name of a script's catalogue row. Ids are unique per kind (`sprocs`, `triggers`, `udfs`)."""
    return f"{word}/{id}"


async def script_at(reads: Reads, container: int, word: str, id: str) -> Node | None:
    """Find a script of a container by its id."""
    return await node_at(reads, *home_of(SCRIPTS, container), row_name(word, id))


def wanted_functions(text: str) -> list[str]:
    """Return the names of the functions that a query calls. BadQuery, and BadRequest for too many references."""
    wanted = functions_in(text)
    if len(wanted) > MAX_REFERENCES:
        raise BadRequest(TOO_MANY_REFERENCES)
    return list(dict.fromkeys(wanted))


async def find_functions(reads: Reads, container: int, wanted: Sequence[str]) -> dict[str, str]:
    """Return the texts of those functions that exist, by name."""
    found: dict[str, str] = {}
    for name in wanted:
        node = await script_at(reads, container, "udfs", name)
        if node is not None:
            found[name] = node.body["body"]
    return found


def function_caller(texts: Mapping[str, str], time_budget: TimeBudget, now: Instant) -> Caller | None:
    """Return a function that calls these functions by name on the current thread; None without functions.

    Calls raise BadRequest for an exception of the script, and TimedOut.
    """
    if not texts:
        return None
    sandbox = Sandbox(time_budget)
    sandbox("define", {"now": now // MILLISECOND, "udfs": texts})

    def call(name: str, arguments: Sequence[Any]) -> Any:
        # As in the service, a function is not called with an undefined argument; its result is undefined.
        if any(argument is UNDEFINED for argument in arguments):
            return UNDEFINED
        text = sandbox.call(name, list(arguments))
        return decode_answer(text, object) if text else UNDEFINED

    return call


class ReadsScanner:
    """Scans of committed records through `Reads`."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads

    def scan(
        self, container: Node, scope: Scope, after: Position | None, now: Instant, batch: int
    ) -> AsyncIterator[Batch]:
        """Yield the visible records in order, in batches."""
        return scan(self._reads, container, scope, after, now, batch)
