"""Collections as targets of the admin API. Modules that decode documents are loaded on first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any

import msgspec

from mayflydb.engine.catalog import Node
from mayflydb.engine.lifecycle.references import References
from mayflydb.engine.lifecycle.rolling_up import RollUpPlan
from mayflydb.engine.proposals import Anchors, Change, Proposal
from mayflydb.expiry.roll_up import RollUp
from mayflydb.expiry.rules import Cause
from mayflydb.model.errors import BadRequest, Unsupported
from mayflydb.model.hints import Hint
from mayflydb.model.instant import Instant
from mayflydb.model.record import Record

if TYPE_CHECKING:
    from mayflydb.frontends.mongo.caller import MongoCaller
    from mayflydb.frontends.mongo.contracts import Contract, Contracts

INTERNAL_DATABASE = "config"
"""The database of documents about retries and transactions, which belong to no user."""


class MongoTargets:
    """Facts about collections for the admin API, and changes of their TTL indexes."""

    space = "mongo"
    publisher = None
    causes: Mapping[Cause, str] = {"default": "expireAfterSeconds {} s after _ts", "item": "item ttl {} s after _ts"}
    separator = "."
    databases = None
    keeps_empty = False

    def __init__(self, contracts: Callable[[], Contracts], caller: Callable[[], MongoCaller] | None) -> None:
        """`contracts`: returns the TTL contracts.

        `caller`: returns the front end of this server; None: MongoDB is not served.

        Both are called on first use.
        """
        self._contracts = contracts
        self._caller = caller

    @cached_property
    def references(self) -> References:
        """The references between documents."""
        from mayflydb.frontends.mongo.references import MongoReferences

        return MongoReferences()

    def is_listed(self, database: str, container: Node | None = None) -> bool:
        """Return True if a database or container holds users' documents. Views hold none."""
        if database == INTERNAL_DATABASE:
            return False
        return container is None or "options" not in container.body or not _ttl_reports().is_view(container)

    def check_lifecycle(self, container: Node) -> None:
        """Do nothing: all containers take lifecycle settings."""

    def drop_event(self, node: Node) -> bytes:
        """The note that ends a history when the admin API drops the container, for change streams."""
        from mayflydb.frontends.mongo.streams import notes

        if "uuid" not in node.body:
            return notes.encode_drop_database_event()
        return notes.encode_drop_event("options" in node.body and _ttl_reports().is_view(node))

    def ttl_settings(self, database: str, container: Node) -> dict[str, Any]:
        """The TTL settings. `default_ttl`: that of the index on `_ts`, or of a time series. `indexes`: all TTL indexes, and the
        settings of the default.
        """
        indexes = (
            _ttl_reports().ttl_indexes(container, self._contract(database, container))
            if "uuid" in container.body
            else []
        )
        return {"default_ttl": self.default_ttl(container), "indexes": indexes}

    def default_ttl(self, container: Node) -> int | None:
        """The seconds of the TTL index on `_ts`, -1 without a default, or of the collection itself; None: there are none."""
        has_default = "ts" in container.body or _expires_itself(container)
        found: int | None = _ttl_reports().default_ttl(container) if has_default else None
        return found

    def index_names(self, container: Node) -> Mapping[int, str]:
        """The names of date indexes by slot."""
        has_slots = "slots" in container.body or _expires_itself(container)
        found: Mapping[int, str] = _ttl_reports().slot_names(container) if has_slots else {}
        return found

    def decode_identity(self, container: Node, partition: bytes, key: bytes) -> tuple[str, Any]:
        """(id, None): documents have no partition key."""
        return _ttl_reports().id_text(key), None

    def find_identities(self, container: Node, id: str, pk: str | None) -> list[tuple[bytes, bytes]]:
        """(partition, key) of each document that an id may mean: extended JSON, an ObjectId's 24 digits, or plain text."""
        if pk is not None:
            raise BadRequest("documents of MongoDB have no partition key", hint=Hint("no-pk"))
        reports = _ttl_reports()
        find = reports.find_measurements if _is_series(container) else reports.find_identities
        found: list[tuple[bytes, bytes]] = find(id)
        return found

    def shorten_life(self, container: Node, record: Mapping[str, Any], now: Instant) -> Mapping[str, Any] | None:
        """Raise BadRequest: a document's life lies in its own dates."""
        raise BadRequest("documents keep their life by their dates, and tell no _ts to count from")

    def describe_record(self, database: str, container: Node, record: Record) -> dict[str, Any]:
        """Last write, own ttl and the reason why it is ignored, and the date that each TTL index finds."""
        found: dict[str, Any] = _ttl_reports().describe(container, record, self._contract(database, container))
        return found

    def decode_record(self, container: Node, record: Record) -> Mapping[str, Any] | msgspec.Raw:
        """A document as extended JSON, from which it can be made again."""
        from mayflydb.query.mongo.extended_json import format_document

        return msgspec.Raw(format_document(record.value).encode())

    def record_reader(self, container: Node) -> Callable[[Record], Any]:
        """Return the function that decodes a document for the filters of holds."""
        from mayflydb.frontends.mongo import hold_filters

        return hold_filters.read_document

    def compile_condition(self, container: Node, text: str) -> Callable[[Any], bool]:
        """Compile the filter of a hold. BadRequest, Unsupported."""
        from mayflydb.frontends.mongo import hold_filters

        return hold_filters.compile_condition(container, text)

    def anchors(self, database: str, container: Node) -> Anchors:
        """Return what the TTL indexes of the collection's profile may count from."""
        contract = self._contract(database, container)
        if _is_series(container):
            return Anchors(last_write=False, dates=True)
        return Anchors(contract.profile != "native", contract.profile != "cosmos" or contract.custom_path)

    def find_dates(self, container: Node, record: Record) -> Mapping[str, Instant]:
        """Return the dates in the fields of a document, without those in documents inside it and in arrays."""
        if "uuid" not in container.body:
            return {}
        found: Mapping[str, Instant] = _ttl_reports().find_dates(container, record)
        return found

    def plan_roll_up(self, roll_up: RollUp, container: Node, into: Node) -> RollUpPlan:
        """The plan of a roll-up of documents."""
        from mayflydb.frontends.mongo.roll_ups import plan_roll_up

        return plan_roll_up(roll_up, container, into, self._contract(roll_up.names[1], into))

    def propose(self, database: str, container: Node, change: Change) -> Proposal:
        """The effect of a change of one TTL index. The default is that of the index on `_ts`."""
        contract = self._contract(database, container)
        if _concerns_itself(container, change):
            return _propose_for_itself(container, change, contract)
        resolved = _ttl_reports().resolve_index(container, change, contract)
        found: Proposal = _ttl_reports().propose(container, resolved, contract)
        return found

    async def apply_change(self, database: str, container: Node, change: Change) -> None:
        """Create, change or drop a TTL index, by the commands that a client would send."""
        if self._caller is None:
            raise Unsupported("MongoDB is not served here", hint=Hint("no-mongo"))
        contract, caller = self._contract(database, container), self._caller()
        if _concerns_itself(container, change):
            from mayflydb.frontends.mongo.time_series.reports import build_command

            _propose_for_itself(container, change, contract)
            await caller(database, build_command(container.name, change))
            return
        resolved = _ttl_reports().resolve_index(container, change, contract)
        for command in _ttl_reports().build_commands(container.name, resolved, contract):
            await caller(database, command)

    def _contract(self, database: str, container: Node) -> Contract:
        return self._contracts().of(database, container.name)


def _is_series(container: Node) -> bool:
    return "series" in container.body


def _expires_itself(container: Node) -> bool:
    """Return True if the collection itself may have `expireAfterSeconds`: a time series, or a clustered one."""
    return _is_series(container) or "clustered" in container.body


def _concerns_itself(container: Node, change: Change) -> bool:
    """Return True for a change of the setting of a collection itself, which reports list beside its indexes."""
    if not _expires_itself(container):
        return False
    return change.of_default or change.index == "expireAfterSeconds" or _is_time_field(container, change.field)


def _is_time_field(container: Node, field: str | None) -> bool:
    from mayflydb.frontends.mongo.time_series.series import series_in

    series = series_in(container.definition)
    return series is not None and field == series.time_field


def _propose_for_itself(container: Node, change: Change, contract: Contract) -> Proposal:
    from mayflydb.frontends.mongo import clustered
    from mayflydb.frontends.mongo.time_series.reports import propose
    from mayflydb.frontends.mongo.time_series.series import series_in

    series = series_in(container.definition)
    if series is None:
        return clustered.propose(container, change.seconds, contract)
    return propose(container, series, change.seconds, contract)


def _ttl_reports() -> ModuleType:
    from mayflydb.frontends.mongo import ttl_reports

    return ttl_reports
