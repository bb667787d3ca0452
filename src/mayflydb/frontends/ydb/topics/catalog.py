"""Lookups and changes of topics in the catalogue."""

from __future__ import annotations

from typing import Any

import msgspec

from mayflydb.engine.catalog import Definition, Node
from mayflydb.engine.catalog_changes import CatalogTransaction
from mayflydb.engine.reads import Steps
from mayflydb.engine.transactions import WriteTransaction
from mayflydb.frontends.ydb.schemes import tree
from mayflydb.frontends.ydb.schemes.catalog import Schemes
from mayflydb.frontends.ydb.schemes.entries import TopicEntry
from mayflydb.frontends.ydb.schemes.faults import (
    ALTER_STATUS,
    SCHEME_CODE,
    missing_path,
    path_conflict_text,
    refuse_invalid,
    wrong_kind,
)
from mayflydb.frontends.ydb.topics.bodies import Consumer, TopicBody, topic_body
from mayflydb.frontends.ydb.topics.definitions import altered_body, new_body
from mayflydb.frontends.ydb.topics.faults import missing_topic, not_a_topic
from mayflydb.frontends.ydb.topics.log import SPACE, add_state, forget_consumer, topic_definition
from mayflydb.model.errors import NotFound, OwnerNotFound
from mayflydb.model.instant import Instant
from mayflydb.query.yql.faults import fault


async def get_topic(schemes: Schemes, path: str) -> TopicEntry:
    """Return the topic at an absolute path. Faults: there is none."""
    entry = await schemes.find(path)
    if entry is None:
        raise missing_topic(path)
    if not isinstance(entry, TopicEntry):
        raise not_a_topic(path)
    return entry


async def create_topic(schemes: Schemes, path: str, request: Any, now: Instant, owner: str) -> None:
    """Create a topic by a CreateTopicRequest. Faults: the name is taken, or the description is invalid."""
    database, name = await schemes.split_new(path)
    with refuse_invalid(ALTER_STATUS):
        body = new_body(request, now, owner)
    found = await schemes.find(path)
    if isinstance(found, TopicEntry):
        raise fault(path_conflict_text(path), status="ALREADY_EXISTS", code=SCHEME_CODE)

    def create(catalog: CatalogTransaction) -> Steps[None]:
        node = yield from tree.create_entry(catalog, database, name, _build_unfinished(body, now), now)
        state = yield from add_state(catalog, node.id, now)
        definition = topic_definition(msgspec.structs.replace(body, state=state), now)
        catalog.put(msgspec.structs.replace(node, definition=definition))

    engine = schemes.engine
    # Catalogue transactions do not see their own changes.
    await engine.definitions.space(SPACE, now)
    await engine.definitions.transact(create)
    engine.reaper.notifier.notify()


def _build_unfinished(body: TopicBody, now: Instant) -> Definition:
    return Definition(msgspec.to_builtins(body), now)


async def alter_topic(schemes: Schemes, path: str, request: Any, now: Instant) -> None:
    """Change a topic by an AlterTopicRequest, as a whole. Faults: it does not exist, or the change is invalid."""
    entry = await _get_to_change(schemes, path)
    dropped: list[Consumer] = []

    def change(node: Node) -> Definition:
        before = topic_body(node)
        with refuse_invalid(ALTER_STATUS):
            after = altered_body(before, request, node.definition.version + 1)
        kept = {(each.name, each.number) for each in after.consumers}
        dropped[:] = [each for each in before.consumers if (each.name, each.number) not in kept]
        definition = node.definition
        rules = topic_definition(after, now).rules if after.retention != before.retention else definition.rules
        return msgspec.structs.replace(definition, body=msgspec.to_builtins(after), rules=rules)

    engine = schemes.engine
    try:
        node = await engine.definitions.replace(entry.node.id, change, now)
    except NotFound:
        raise missing_path(path) from None
    engine.reaper.notifier.notify()
    if dropped:
        await _forget(schemes, topic_body(node), dropped, now)


async def _forget(schemes: Schemes, body: TopicBody, dropped: list[Consumer], now: Instant) -> None:
    """Remove what dropped consumers have committed. Nothing finds it any more, also if this is not done."""

    def forget(transaction: WriteTransaction) -> Steps[None]:
        for consumer in dropped:
            yield from forget_consumer(transaction, body.state, consumer, body.partitions)

    try:
        await schemes.engine.transact(forget, now, size=len(dropped) * body.partitions)
    except OwnerNotFound:
        # The topic was dropped meanwhile.
        return


async def drop_topic(schemes: Schemes, path: str) -> None:
    """Drop a topic with its messages. Faults: it does not exist, or belongs to a changefeed."""
    entry = await _get_to_change(schemes, path)
    if entry.body.table is not None:
        raise fault(
            f"Check failed: path: '{path}', error: path is under operation of a table: drop the changefeed",
            status="SCHEME_ERROR",
            code=SCHEME_CODE,
        )
    try:
        await schemes.engine.definitions.drop(entry.node.id)
    except NotFound:
        raise missing_path(path) from None
    schemes.engine.reaper.notifier.notify()


async def _get_to_change(schemes: Schemes, path: str) -> TopicEntry:
    entry = await schemes.find(path)
    if entry is None:
        raise missing_path(path)
    if not isinstance(entry, TopicEntry):
        raise wrong_kind(path, "topic")
    return entry
