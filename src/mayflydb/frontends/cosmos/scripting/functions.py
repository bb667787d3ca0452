"""User-defined functions, as queries call them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

from mayflydb.engine.catalog import Node
from mayflydb.engine.companions import home_of
from mayflydb.engine.engine import Batch, Scope, scan
from mayflydb.engine.reads import Reads, node_at
from mayflydb.frontends.cosmos.calls import SCRIPTS
from mayflydb.frontends.cosmos.scripting.sandbox import Budget, Sandbox, decode_answer
from mayflydb.model.errors import BadRequest
from mayflydb.model.instant import MILLISECOND, Instant
from mayflydb.model.order import Position
from mayflydb.query.cosmos_sql import UNDEFINED, Caller, functions_in

MAX_REFERENCES: Final = 10
TOO_MANY_REFERENCES: Final = f"The query refers to user-defined functions more than {MAX_REFERENCES} times."


def row_name(word: str, id: str) -> str:
    """The name of a script's row: ids are unique among scripts of one kind (`sprocs`, `triggers`, `udfs`)."""
    return f"{word}/{id}"


async def script_at(reads: Reads, container: int, word: str, id: str) -> Node | None:
    """A script of a container by its id."""
    return await node_at(reads, *home_of(SCRIPTS, container), row_name(word, id))


async def find_functions(reads: Reads, container: int, text: str) -> dict[str, str]:
    """The texts of the functions that a query names and that exist, by name. BadQuery; BadRequest for too many references."""
    wanted = functions_in(text)
    if len(wanted) > MAX_REFERENCES:
        raise BadRequest(TOO_MANY_REFERENCES)
    found: dict[str, str] = {}
    for name in dict.fromkeys(wanted):
        node = await script_at(reads, container, "udfs", name)
        if node is not None:
            found[name] = node.body["body"]
    return found


def function_caller(texts: Mapping[str, str], budget: Budget, now: Instant) -> Caller | None:
    """Calls these functions by name, on the thread that it is made on; None where there are none.

    BadRequest for what they throw, TimedOut.
    """
    if not texts:
        return None
    sandbox = Sandbox(budget)
    sandbox("define", {"now": now // MILLISECOND, "udfs": texts})

    def call(name: str, arguments: Sequence[Any]) -> Any:
        # Without one of its arguments a function is not called at all.
        if any(argument is UNDEFINED for argument in arguments):
            return UNDEFINED
        text = sandbox.call(name, list(arguments))
        return decode_answer(text, object) if text else UNDEFINED

    return call


class ReadsScanner:
    """Scans of what is committed, through whatever answers reads."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads

    def scan(
        self, container: Node, scope: Scope, after: Position | None, now: Instant, batch: int
    ) -> AsyncIterator[Batch]:
        """Visible records in order, stretch by stretch."""
        return scan(self._reads, container, scope, after, now, batch)
