"""Changes of the changefeeds of a table, as bodies of catalogue transactions.

The topic of a changefeed has the path of the table and the name of the changefeed, and is there exactly as long as it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mayflydb.engine.catalog import Definition, Node
from mayflydb.engine.catalog_changes import CatalogTransaction
from mayflydb.engine.lifecycle.segments import check_shredding, refuse_history
from mayflydb.engine.reads import Steps
from mayflydb.frontends.ydb.changefeeds.options import DEFAULT_RETENTION, check_spec
from mayflydb.frontends.ydb.schemes.definitions import body_of, body_to_builtins
from mayflydb.frontends.ydb.schemes.faults import SCHEME_CODE, Invalid, missing_path, path_conflict_text
from mayflydb.frontends.ydb.schemes.paths import join_path
from mayflydb.frontends.ydb.schemes.specs import AlterSpec, ChangefeedSpec
from mayflydb.frontends.ydb.tables import Changefeed, InitialScan, TableBody
from mayflydb.frontends.ydb.topics.bodies import TopicBody
from mayflydb.frontends.ydb.topics.log import add_state, topic_definition
from mayflydb.model.instant import Instant

PUBLISHER = "ydb"
"""The space by whose publisher a table with changefeeds tells of its changes."""


def changes_feeds(spec: AlterSpec) -> bool:
    """Return whether a change of a table is one of its changefeeds. Invalid: it is more than one of those."""
    if not spec.add_changefeeds and not spec.drop_changefeeds:
        return False
    if spec != AlterSpec(add_changefeeds=spec.add_changefeeds, drop_changefeeds=spec.drop_changefeeds):
        raise Invalid("Mixed alter is unsupported", "UNSUPPORTED")
    if len(spec.add_changefeeds) + len(spec.drop_changefeeds) > 1:
        raise Invalid("Only one changefeed can be added or dropped by one operation", "UNSUPPORTED")
    return True


def alter_feeds(catalog: CatalogTransaction, id: int, database: str, spec: AlterSpec, now: Instant) -> Steps[Node]:
    """Add or drop a changefeed of a table. Faults: the table is gone, or has no such changefeed. Invalid: the first violation."""
    table = yield from catalog.load(id)
    if table is None:
        raise missing_path(str(id))
    for name in spec.drop_changefeeds:
        table = yield from _drop_feed(catalog, table, database, name, now)
    if spec.add_changefeeds:
        table = yield from add_feeds(catalog, table, database, spec.add_changefeeds, now, is_new=False)
    return table


def add_feeds(
    catalog: CatalogTransaction,
    table: Node,
    database: str,
    specs: Sequence[ChangefeedSpec],
    now: Instant,
    is_new: bool = True,
) -> Steps[Node]:
    """Add changefeeds with their topics to a table. `is_new`: the table has no rows yet. Invalid: the first violation.

    The space of the states of topics has to be there already.
    """
    body = body_of(table.definition)
    types = {column.name: column.type.removesuffix("?") for column in body.columns}
    if not is_new:
        yield from refuse_history(table.id)
    feeds = list(body.changefeeds)
    for spec in specs:
        check_spec(spec, body.attributes, types[body.key[0]])
        if any(spec.name == feed.name for feed in feeds):
            text = path_conflict_text(join_path(database, f"{table.name}/{spec.name}"))
            raise Invalid(text, "SCHEME_ERROR", SCHEME_CODE)
        topic = yield from _add_topic(catalog, table, body, spec, now)
        feeds.append(
            Changefeed(
                spec.name,
                spec.mode,
                spec.format,
                topic,
                spec.virtual_timestamps,
                spec.user_sids,
                spec.aws_region,
                dict(spec.attributes),
                (yield from _begin_scan(catalog, table, now)) if spec.initial_scan and not is_new else None,
            )
        )
    return _put(catalog, table, msgspec.structs.replace(body, changefeeds=tuple(feeds)), now)


def _add_topic(
    catalog: CatalogTransaction, table: Node, body: TableBody, spec: ChangefeedSpec, now: Instant
) -> Steps[int]:
    topic = yield from catalog.add(table.parent, f"{table.name}/{spec.name}", Definition({}, now))
    state = yield from add_state(catalog, topic.id, now)
    settings = TopicBody(
        state,
        partitions=spec.partitions or 1,
        retention=DEFAULT_RETENTION if spec.retention is None else spec.retention,
        table=table.id,
        created=now,
        owner=body.owner,
    )
    catalog.put(msgspec.structs.replace(topic, definition=topic_definition(settings, now)))
    return topic.id


def _begin_scan(catalog: CatalogTransaction, table: Node, now: Instant) -> Steps[InitialScan]:
    # Every version up to this number is there; every later one is told of as a change.
    lsn = yield from catalog.next_number(table.id)
    number = yield from catalog.next_number(table.parent)
    return InitialScan(lsn, now, number)


def _drop_feed(catalog: CatalogTransaction, table: Node, database: str, name: str, now: Instant) -> Steps[Node]:
    body = body_of(table.definition)
    feed = next((each for each in body.changefeeds if each.name == name), None)
    if feed is None:
        raise missing_path(join_path(database, f"{table.name}/{name}"))
    yield from catalog.drop(feed.topic)
    left = tuple(each for each in body.changefeeds if each is not feed)
    return _put(catalog, table, msgspec.structs.replace(body, changefeeds=left), now)


def end_scan(catalog: CatalogTransaction, id: int, topic: int) -> Steps[bool]:
    """Note that the initial scan of a changefeed has ended; False: the table or changefeed is gone."""
    table = yield from catalog.load(id)
    if table is None:
        return False
    body = body_of(table.definition)
    feeds = tuple(
        msgspec.structs.replace(each, scan=None) if each.topic == topic else each for each in body.changefeeds
    )
    if feeds == body.changefeeds:
        return False
    _put(catalog, table, msgspec.structs.replace(body, changefeeds=feeds), table.definition.written)
    return True


def _put(catalog: CatalogTransaction, table: Node, body: TableBody, now: Instant) -> Node:
    definition = msgspec.structs.replace(
        table.definition,
        body=body_to_builtins(body),
        publisher=PUBLISHER if body.changefeeds else None,
        version=table.definition.version + 1,
        written=now,
    )
    check_shredding(definition)
    node = msgspec.structs.replace(table, definition=definition)
    catalog.put(node)
    return node
