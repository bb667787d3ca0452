"""Tables as the admin API names them. What it takes to read rows is loaded when there are any."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from mayflydb.engine.catalog import Node
from mayflydb.engine.proposals import Change, Proposal
from mayflydb.expiry.rules import Cause
from mayflydb.model.errors import BadRequest, Unsupported
from mayflydb.model.record import Record

if TYPE_CHECKING:
    from mayflydb.frontends.ydb.schemes.catalog import Schemes


class YdbTargets:
    """What the admin API needs to know about tables, and how it changes their TTL."""

    space = "ydb"
    causes: Mapping[Cause, str] = {}
    separator = "/"
    keeps_empty = True

    def __init__(self, databases: Sequence[str], schemes: Callable[[], Schemes | None]) -> None:
        """`databases`: the paths of those that are served. `schemes`: those of this server; None: YDB is not served."""
        self.databases = tuple(databases)
        self._schemes = schemes

    def lists(self, database: str, container: Node | None = None) -> bool:
        """Whether it is a table; directories and views hold no rows."""
        return container is None or "columns" in container.body

    def last_words(self, node: Node) -> bytes:
        """Nothing: nobody is told."""
        return b""

    def settings(self, database: str, container: Node) -> dict[str, Any]:
        """`indexes`: the TTL column, as an index over dates that it is like. `partitions` that the table is said to have.

        `fitting`: the columns that a TTL may be set on; true for numbers, which count in a unit.
        """
        indexes = _lives().ttl_columns(container) if self._has_ttl(container) else []
        said = {"partitions": _lives().partitions_of(container), "fitting": _lives().fitting(container)}
        return {"default_ttl": None, "indexes": indexes, **said}

    def default_ttl(self, container: Node) -> int | None:
        """None: lives are counted from a column."""
        return None

    def names(self, container: Node) -> Mapping[int, str]:
        """The TTL column, by slot."""
        return {container.body["ttl"]["slot"]: container.body["ttl"]["column"]} if self._has_ttl(container) else {}

    def identity(self, container: Node, partition: bytes, key: bytes) -> tuple[str, Any]:
        """(key, None): a text, or of several columns a JSON list of texts; tables have no partition key."""
        return _lives().key_text(container, key), None

    def places(self, container: Node, id: str, pk: str | None) -> list[tuple[bytes, bytes]]:
        """(partition, key) of the row with this key, written as `identity` does."""
        if pk is not None:
            raise BadRequest("tables of YDB have no partition key", hint="leave --pk (pk) out")
        found: list[tuple[bytes, bytes]] = _lives().places(container, id)
        return found

    def details(self, database: str, container: Node, record: Record) -> dict[str, Any]:
        """Last write, and what the TTL column says."""
        found: dict[str, Any] = _lives().told(container, record)
        return found

    def proposal(self, database: str, container: Node, change: Change) -> Proposal:
        """What another TTL comes to."""
        found: Proposal = _lives().proposed(database, container, change)
        return found

    async def set(self, database: str, container: Node, change: Change) -> None:
        """Change the table as a client would."""
        schemes = self._schemes()
        if schemes is None:
            raise Unsupported("YDB is not served here", hint="serve with --ydb-port")
        await _lives().change(schemes, database, container, change)

    @staticmethod
    def _has_ttl(container: Node) -> bool:
        return "ttl" in container.body


def _lives() -> ModuleType:
    from mayflydb.frontends.ydb import lives

    return lives
