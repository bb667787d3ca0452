"""Tables as targets of the admin API. The modules that read rows are imported on first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from mayflydb.engine.catalog import Node
from mayflydb.engine.lifecycle.references import References
from mayflydb.engine.lifecycle.rolling_up import RollUpPlan
from mayflydb.engine.proposals import Anchors, Change, Proposal
from mayflydb.engine.publishing import Publisher
from mayflydb.expiry.roll_up import RollUp
from mayflydb.expiry.rules import Cause
from mayflydb.model.errors import BadRequest, Unsupported
from mayflydb.model.hints import Hint
from mayflydb.model.instant import Instant
from mayflydb.model.record import Record

if TYPE_CHECKING:
    from mayflydb.frontends.ydb.schemes.catalog import Schemes

MOST_READERS: Final = 1000
"""Tables whose columns of dates are kept."""


class YdbTargets:
    """YDB's part of the admin API: settings of tables, rows by key, and changes of TTL."""

    space = "ydb"
    causes: Mapping[Cause, str] = {}
    separator = "/"
    keeps_empty = True

    def __init__(self, databases: Sequence[str], schemes: Callable[[], Schemes | None]) -> None:
        """Take the served databases and the function that returns the schemes; None if YDB is not served."""
        self.databases = tuple(databases)
        self._schemes = schemes
        self._publisher: Publisher | None = None
        self._date_readers: dict[int, tuple[Node, Callable[[Record], Mapping[str, Instant]]]] = {}

    @cached_property
    def references(self) -> References:
        """The references between rows."""
        from mayflydb.frontends.ydb.references import YdbReferences

        return YdbReferences()

    def publisher(self) -> Publisher:
        """Return what writes of the changes of rows into the topics of changefeeds."""
        if self._publisher is None:
            from mayflydb.frontends.ydb.changefeeds.publisher import TablePublisher

            self._publisher = TablePublisher()
        return self._publisher

    def is_listed(self, database: str, container: Node | None = None) -> bool:
        """True for a database, a table and a topic. Directories and views have no rows."""
        return container is None or "columns" in container.body or _is_topic(container)

    def check_lifecycle(self, container: Node) -> None:
        """Raise Unsupported for a topic: its messages are read in order, by offsets, and end with their retention."""
        if _is_topic(container):
            raise Unsupported("a topic takes retention alone, and its messages go through its own streams")

    def drop_event(self, node: Node) -> bytes:
        """Return no event: YDB's clients are not told of drops."""
        return b""

    def ttl_settings(self, database: str, container: Node) -> dict[str, Any]:
        """Return the settings of a table: the TTL column, shown like an index of dates; `partitions`, the number that
        the table reports; `fitting`, the columns that a TTL may use, True for numbers, which need a unit.
        """
        if _is_topic(container):
            settings: dict[str, Any] = _topics().settings_of(container)
            return settings
        indexes = _reports().ttl_columns(container) if self._has_ttl(container) else []
        said = {"partitions": _reports().partitions_of(container), "fitting": _reports().possible_columns(container)}
        return {"default_ttl": None, "indexes": indexes, **said}

    def default_ttl(self, container: Node) -> int | None:
        """Return the retention of a topic; None for a table, where every deadline counts from a column."""
        return _topics().retention_of(container) if _is_topic(container) else None

    def index_names(self, container: Node) -> Mapping[int, str]:
        """Return the name of the TTL column, by slot."""
        return {container.body["ttl"]["slot"]: container.body["ttl"]["column"]} if self._has_ttl(container) else {}

    def decode_identity(self, container: Node, partition: bytes, key: bytes) -> tuple[str, Any]:
        """Return (key, None). A key of several columns is a JSON list of texts. Tables have no partition key.

        A batch of a topic has the id `PARTITION/OFFSET`.
        """
        if _is_topic(container):
            return _topics().identity_text(partition, key), None
        return _reports().key_text(container, key), None

    def find_identities(self, container: Node, id: str, pk: str | None) -> list[tuple[bytes, bytes]]:
        """Return the (partition, key) pairs of a row whose key is written as in `decode_identity`."""
        if pk is not None:
            raise BadRequest("tables of YDB have no partition key", hint=Hint("no-pk"))
        reports = _topics() if _is_topic(container) else _reports()
        found: list[tuple[bytes, bytes]] = reports.parse_identities(container, id)
        return found

    def shorten_life(self, container: Node, record: Mapping[str, Any], now: Instant) -> Mapping[str, Any] | None:
        """Raise BadRequest: a row's life lies in its TTL column."""
        raise BadRequest("rows keep their life by their TTL column")

    def describe_record(self, database: str, container: Node, record: Record) -> dict[str, Any]:
        """Return the last write of a row and the date in its TTL column."""
        found: dict[str, Any]
        found = _topics().describe_batch(record) if _is_topic(container) else _reports().describe_row(container, record)
        return found

    def decode_record(self, container: Node, record: Record) -> Mapping[str, Any] | msgspec.Raw:
        """Return a row by the names of its columns, or a batch of messages."""
        found: dict[str, Any]
        found = _topics().batch_json(record) if _is_topic(container) else _reports().row_json(container, record)
        return found

    def record_reader(self, container: Node) -> Callable[[Record], Any]:
        """Return the function that decodes a row for the filters of holds."""
        from mayflydb.frontends.ydb import hold_filters

        return hold_filters.row_reader(container)

    def compile_condition(self, container: Node, text: str) -> Callable[[Any], bool]:
        """Compile the filter of a hold. BadRequest, Unsupported."""
        from mayflydb.frontends.ydb import hold_filters

        return hold_filters.compile_condition(container, text)

    def anchors(self, database: str, container: Node) -> Anchors:
        """Return dates alone: a TTL counts from a column. A retention counts from the write."""
        return Anchors(last_write=_is_topic(container), dates=not _is_topic(container))

    def find_dates(self, container: Node, record: Record) -> Mapping[str, Instant]:
        """Return the dates in the columns of a row. Numbers are left out: their unit is not known."""
        if "columns" not in container.body:
            return {}
        known = self._date_readers.get(container.id)
        if known is None or known[0] is not container:
            if len(self._date_readers) >= MOST_READERS:
                self._date_readers.clear()
            known = self._date_readers[container.id] = container, _reports().date_reader(container)
        return known[1](record)

    def plan_roll_up(self, roll_up: RollUp, container: Node, into: Node) -> RollUpPlan:
        """Return the plan of a roll-up of rows. Unsupported for topics."""
        if _is_topic(container) or _is_topic(into):
            raise Unsupported("a topic cannot be rolled up, nor take a roll-up")
        from mayflydb.frontends.ydb.roll_ups import plan_roll_up

        return plan_roll_up(roll_up, container, into)

    def propose(self, database: str, container: Node, change: Change) -> Proposal:
        """Return the preview of a TTL change."""
        reports = _topics() if _is_topic(container) else _reports()
        found: Proposal = reports.preview_change(database, container, change)
        return found

    async def apply_change(self, database: str, container: Node, change: Change) -> None:
        """Change the TTL of a table, as ALTER TABLE does, or the retention of a topic, as ALTER TOPIC does."""
        schemes = self._schemes()
        if schemes is None:
            raise Unsupported("YDB is not served here", hint=Hint("no-ydb"))
        if _is_topic(container):
            await _topics().change_retention(schemes, database, container, change)
            return
        await _reports().change_ttl(schemes, database, container, change)

    @staticmethod
    def _has_ttl(container: Node) -> bool:
        return "ttl" in container.body


def _reports() -> ModuleType:
    from mayflydb.frontends.ydb import ttl_reports

    return ttl_reports


def _topics() -> ModuleType:
    from mayflydb.frontends.ydb.topics import reports

    return reports


def _is_topic(container: Node) -> bool:
    return bool(container.body.get("kind") == "topic")
