"""One topic of a read session: its init request, checked."""

from __future__ import annotations

from typing import Any

import msgspec

from mayflydb.frontends.ydb.schemes.catalog import Schemes
from mayflydb.frontends.ydb.schemes.entries import TopicEntry
from mayflydb.frontends.ydb.schemes.paths import resolve_path
from mayflydb.frontends.ydb.topics.bodies import Consumer
from mayflydb.frontends.ydb.topics.catalog import get_topic
from mayflydb.frontends.ydb.topics.faults import bad_request, missing_consumer, missing_partition, unsupported
from mayflydb.model.instant import SECOND, Instant, Span
from mayflydb.query.yql.faults import Fault, Issue

MAX_TOPICS = 100
"""Topics of one read session."""


class TopicRead(msgspec.Struct, eq=False):
    """A topic of a read session. `path`: as the client gave it. `consumer` None: it reads without one.

    `partitions`: those that it names; None: all. `max_lag`: it skips what was written longer ago; `read_from`: what was written
    earlier; None: no such limit.
    """

    entry: TopicEntry
    path: str
    consumer: Consumer | None
    partitions: frozenset[int] | None
    max_lag: Span | None
    read_from: Instant | None

    async def renew(self, schemes: Schemes) -> bool:
        """Take over what has changed of the topic; False if nothing has. Faults: topic or consumer is gone."""
        entry = await get_topic(schemes, self.entry.path)
        if entry is self.entry:
            return False
        if entry.node.id != self.entry.node.id:
            raise _refuse_dropped(self.entry.path)
        if self.consumer is not None:
            self.consumer = _same_consumer(entry, self.consumer)
        self.entry = entry
        return True


def _refuse_dropped(path: str) -> Fault:
    return Fault("SCHEME_ERROR", Issue(f"topic '{path}' was dropped, Marker# PQ15", 500014))


def _same_consumer(entry: TopicEntry, before: Consumer) -> Consumer:
    after = entry.body.consumer(before.name)
    if after is None or after.number != before.number:
        raise missing_consumer(before.name, entry.path)
    return after


async def check_init(schemes: Schemes, database: str, request: Any) -> list[TopicRead]:
    """Return the topics of an InitRequest. Faults: the first violation."""
    if not request.topics_read_settings:
        raise bad_request("no topics in init request")
    if len(request.topics_read_settings) > MAX_TOPICS:
        raise bad_request(f"a read session has at most {MAX_TOPICS} topics")
    if request.direct_read:
        raise unsupported("direct_read")
    found: dict[str, TopicRead] = {}
    for settings in request.topics_read_settings:
        if not settings.path:
            raise bad_request("empty topic in init request")
        read = await _check_topic(schemes, database, settings, request.consumer, len(request.topics_read_settings) > 1)
        if read.entry.path in found:
            raise bad_request(f"topic '{settings.path}' is named twice in init request")
        found[read.entry.path] = read
    return list(found.values())


async def _check_topic(schemes: Schemes, database: str, settings: Any, name: str, several: bool) -> TopicRead:
    if any(number < 0 for number in settings.partition_ids):
        raise bad_request("partition id must be nonnegative number")
    if not name and not settings.partition_ids:
        raise bad_request("explicitly specify the partitions when reading without a consumer")
    try:
        entry = await get_topic(schemes, resolve_path(database, None, settings.path))
    except Fault as error:
        if not several:
            raise
        text = f"Discovery for all topics failed. The last error was: {error.message}"
        raise Fault(error.status, Issue(text, error.issues[0].code)) from None
    consumer = entry.body.consumer(name) if name else None
    if name and consumer is None:
        raise missing_consumer(name, entry.path)
    for number in settings.partition_ids:
        if number >= entry.body.partitions:
            raise missing_partition(number, entry.path)
    return TopicRead(
        entry,
        settings.path,
        consumer,
        frozenset(settings.partition_ids) or None,
        _instant(settings.max_lag) if settings.HasField("max_lag") else None,
        _instant(settings.read_from) if settings.HasField("read_from") else None,
    )


def _instant(given: Any) -> int:
    instant: int = given.seconds * SECOND + given.nanos // 1000
    return instant
