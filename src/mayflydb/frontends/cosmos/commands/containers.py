"""Containers: list, query, create, read, replace, delete, and their partition key ranges."""

from __future__ import annotations

from typing import Any

import msgspec

from mayflydb.engine import prices
from mayflydb.engine.catalog import Definition, Node, PartitionRange
from mayflydb.engine.indexes import drop_ineligible
from mayflydb.engine.throughput import encode_offer
from mayflydb.frontends.cosmos import partition_key, policies
from mayflydb.frontends.cosmos.calls import NOT_FOUND, CosmosCall
from mayflydb.frontends.cosmos.commands import metadata, statistics
from mayflydb.frontends.cosmos.commands.offers import throughput_of_container
from mayflydb.frontends.cosmos.headers import (
    ETAG,
    IF_NONE_MATCH,
    INDEX_TRANSFORMATION_PROGRESS,
    ITEM_COUNT,
    LAZY_INDEXING_PROGRESS,
    POPULATE_PARTITION_STATISTICS,
    POPULATE_QUOTA_INFO,
    RESOURCE_QUOTA,
    RESOURCE_USAGE,
)
from mayflydb.frontends.cosmos.indexing import index_filter
from mayflydb.frontends.cosmos.resources import (
    container_body,
    container_links,
    database_rid,
    etag_matches,
    feed_body,
    range_rows,
)
from mayflydb.frontends.cosmos.rules import rules_of
from mayflydb.frontends.cosmos.views import ContainerView
from mayflydb.frontends.cosmos.wire import Response
from mayflydb.model.errors import NotFound, OwnerNotFound
from mayflydb.model.instant import MINUTE, Span


def body_of(node: Node) -> dict[str, Any]:
    """Return the body of a container."""
    definition = node.definition
    return container_body(
        definition.body, container_links(node.parent, node.id), definition.version, definition.written
    )


async def _read_bodies(call: CosmosCall, database: Node) -> list[dict[str, Any]]:
    return [body_of(node) for node in await call.engine.children(database.id)]


async def read_feed(call: CosmosCall) -> Response:
    """GET /dbs/{d}/colls."""
    database = await call.get_owning_database()
    return metadata.answer_feed(
        call, "DocumentCollections", metadata.in_database(database), await _read_bodies(call, database)
    )


async def query(call: CosmosCall) -> Response:
    """POST /dbs/{d}/colls with a query."""
    database = await call.get_owning_database()
    return await metadata.answer_query(
        call, "DocumentCollections", metadata.in_database(database), await _read_bodies(call, database)
    )


async def create(call: CosmosCall) -> Response:
    """POST /dbs/{d}/colls."""
    database = await call.get_owning_database()
    wanted = policies.parse_container(_with_system_key(call, call.parse_body()))
    throughput = throughput_of_container(call, database)
    ranges = 1 if throughput is None or wanted.partition_key.is_system else throughput.ranges
    bounds = partition_key.divide_key_space(ranges, wanted.partition_key)
    definition = Definition(
        body=wanted.to_json(),
        written=call.now,
        rules=rules_of(wanted.default_ttl),
        ranges=tuple(PartitionRange(str(n), lower, upper) for n, (lower, upper) in enumerate(bounds)),
        offer=encode_offer(throughput),
        history=_history_span(wanted),
    )
    node = await call.engine.definitions.create(database.id, wanted.name, definition)
    return metadata.answer_resource(201, _shown_body(call, node), metadata.in_database(database))


def _with_system_key(call: CosmosCall, body: Any) -> Any:
    """Give a container that an earlier version of the protocol makes without a partition key that of the system."""
    if call.is_before_migration and isinstance(body, dict) and body.get("partitionKey") is None:
        return body | {"partitionKey": partition_key.SYSTEM_KEY}
    return body


def _shown_body(call: CosmosCall, node: Node) -> dict[str, Any]:
    """Return the body of a container, without a partition key where the version of the protocol has none."""
    body = body_of(node)
    if call.is_before_migration and body["partitionKey"].get("systemKey"):
        del body["partitionKey"]
    return body


async def read(call: CosmosCall) -> Response:
    """GET /dbs/{d}/colls/{c}."""
    view = await call.get_container()
    response = _answer(call, view, view.node)
    if call.request.flag(POPULATE_PARTITION_STATISTICS):
        response.body = msgspec.json.encode(
            body_of(view.node) | {"statistics": await statistics.range_statistics(call, view)}
        )
    headers = [*response.headers, (INDEX_TRANSFORMATION_PROGRESS, b"100")]
    if view.node.body["indexingPolicy"]["indexingMode"] == "lazy":
        # Lazy indexing is always complete for queries: items that are not indexed yet are scanned.
        headers.append((LAZY_INDEXING_PROGRESS, b"100"))
    headers += await _quota_headers(call, view)
    response.headers = [*headers, *view.progress_headers(await call.engine.lsn(view.id))]
    return response


async def read_state(call: CosmosCall) -> Response:
    """HEAD /dbs/{d}/colls/{c}, by which a client in direct mode asks how far the container is."""
    view = await call.get_container()
    return Response(200, b"", view.item_headers(None, await call.engine.lsn(view.id)), prices.METADATA)


async def _quota_headers(call: CosmosCall, view: ContainerView) -> list[tuple[bytes, bytes]]:
    if not call.request.flag(POPULATE_QUOTA_INFO):
        return []
    visible, kilobytes = await call.engine.expiry_counts.usage(view.node, call.now)
    # Sizes are in KB. The quota is a form that clients parse: 10 GB, and -1 for no limit.
    usage = f"documentSize=0;documentsSize={kilobytes};documentsCount={visible};collectionSize={kilobytes};"
    quota = "documentSize=10240;documentsSize=10485760;documentsCount=-1;collectionSize=10485760;"
    return [(RESOURCE_QUOTA, quota.encode()), (RESOURCE_USAGE, usage.encode())]


async def replace(call: CosmosCall) -> Response:
    """PUT /dbs/{d}/colls/{c}: new policies for the same items, in force from the commit on."""
    view = await call.get_container()
    wanted = call.parse_body()

    def change(before: Node) -> Definition:
        # This function runs in the writer, over the definition as it is there: two replaces cannot lose each other's
        # changes.
        call.check_if_match(body_of(before)["_etag"])
        previous = policies.parse_container(before.body)
        after = policies.parse_container(wanted, previous)
        body = after.to_json()
        may_index = index_filter(body, policies.computed_properties(body))
        return msgspec.structs.replace(
            before.definition,
            body=body,
            rules=rules_of(after.default_ttl),
            indexes=drop_ineligible(before.definition.indexes, may_index),
            history=_history_span(after, before.definition),
        )

    replaced = await call.engine.definitions.replace(view.id, change, call.now)
    # Indexes that the new policy excludes are marked as dropped. Their entries are removed in the background.
    if any(index.state != "ready" for index in replaced.definition.indexes):
        call.engine.indexes.resume(view.id, view.index_keys)
    return _answer(call, view, replaced)


async def delete(call: CosmosCall) -> Response:
    """DELETE /dbs/{d}/colls/{c}. Its items are invisible from the commit on, and removed from the store later."""
    view = await call.get_container()
    call.check_if_match(body_of(view.node)["_etag"])
    await call.engine.definitions.drop(view.id)
    return metadata.answer_no_content(_owner_names(view))


async def read_ranges(call: CosmosCall) -> Response:
    """GET …/pkranges. The Python client repeats the request with the etag until the answer is 304."""
    view, rows = await _range_rows(call)
    # Ranges are split and never merged, so their number is a version of them.
    etag = f'"{view.links.rid}-{len(rows)}"'
    headers = [(ETAG, etag.encode()), *view.item_headers(None, await call.engine.lsn(view.id))]
    seen = call.request.text(IF_NONE_MATCH)
    if seen is not None and etag_matches(seen, etag):
        return Response(304, b"", headers, prices.METADATA)
    headers.append((ITEM_COUNT, b"%d" % len(rows)))
    body = feed_body(view.links.rid, "PartitionKeyRanges", [msgspec.json.encode(row) for row in rows])
    return Response(200, body, headers, prices.METADATA)


def _history_span(wanted: policies.ContainerDefinition, before: Definition | None = None) -> Span | None:
    """Return the retention of versions for the feed of all versions and deletes.

    None: the container has never kept versions. 0: it keeps them no longer.
    """
    never = before is None or before.history is None
    return (wanted.change_feed_minutes or 0) * MINUTE or (None if never else 0)


async def query_ranges(call: CosmosCall) -> Response:
    """POST …/pkranges with a query."""
    view, rows = await _range_rows(call)
    return await metadata.answer_query(call, "PartitionKeyRanges", metadata.in_container(view), rows)


async def _range_rows(call: CosmosCall) -> tuple[ContainerView, list[dict[str, Any]]]:
    try:
        view = await call.get_container()
    except NotFound:
        raise OwnerNotFound(NOT_FOUND) from None
    definition = view.node.definition
    return view, range_rows(view.links, definition.ranges, 1, definition.written)


def _answer(call: CosmosCall, view: ContainerView, node: Node) -> Response:
    """Answer with a container, which may be newer than the view."""
    return metadata.answer_resource(200, _shown_body(call, node), _owner_names(view))


def _owner_names(view: ContainerView) -> metadata.OwnerNames:
    return metadata.OwnerNames(f"dbs/{view.database}", database_rid(view.node.parent))
