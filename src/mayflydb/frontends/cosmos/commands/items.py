"""Point operations on items: create, upsert, read, replace, patch, delete."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, TypeAlias, TypeVar

from mayflydb.engine import prices
from mayflydb.engine.commands import Command, Mode
from mayflydb.engine.reads import record_at
from mayflydb.evaluation.statement import CHEAP_BYTES
from mayflydb.frontends.cosmos import patch as patches
from mayflydb.frontends.cosmos.binary_json.writer import to_binary
from mayflydb.frontends.cosmos.calls import NOT_FOUND, CosmosCall
from mayflydb.frontends.cosmos.headers import ETAG, IF_NONE_MATCH, ITEM_LSN
from mayflydb.frontends.cosmos.partition_key import KEY_MISMATCH
from mayflydb.frontends.cosmos.patching import PatchWork, compile_change, write_prepared
from mayflydb.frontends.cosmos.resources import Address, encode_etag, etag_matches, item_body, item_number
from mayflydb.frontends.cosmos.scopes import admit_partition
from mayflydb.frontends.cosmos.values import ItemLimits, ParsedItem, item_id, parse_item
from mayflydb.frontends.cosmos.views import ContainerView
from mayflydb.frontends.cosmos.wire import Response
from mayflydb.model.errors import BadRequest, MayflyError, NotFound
from mayflydb.model.record import Record

T = TypeVar("T")
Answer: TypeAlias = Coroutine[Any, Any, Response]

BINARY_BYTES = 16 * 1024
"""The length of an item, as text, up to which it is answered in binary JSON."""

_CREATE, _READ, _UPSERT, _REPLACE = Mode.CREATE, Mode.READ, Mode.UPSERT, Mode.REPLACE


async def read(call: CosmosCall) -> Response:
    """GET …/docs/{id}."""
    # Here and in writes, coroutines begin only where there may be something to wait for.
    view = call.find_owning_container() or await call.get_owning_container()
    partition = admit_partition(call, view, prices.likely, _READ, 0)
    key, seq = own_address(call, view) or await resolve_address(call, view, record_finder(call, view, partition))
    engine, now = call.engine, call.now
    record = engine.get_kept(view.node, partition, key, now) or await engine.get(view.node, partition, key, now)
    # Another item has taken this key since the rid was looked up.
    if record is not None and seq not in (None, record.seq):
        record = None
    lsn = None if record is None else call.known_session_lsn(view, record.lsn)
    if lsn is None:
        lsn = await call.read_session_lsn(view)
    headers = view.item_headers(partition, lsn)
    if record is None:
        raise NotFound(NOT_FOUND, headers=headers, charge=prices.MISS)
    etag = encode_etag(view.links, record)
    headers += ((ETAG, etag), (ITEM_LSN, b"%d" % record.lsn))
    seen = call.request.headers.get(IF_NONE_MATCH)
    if seen is not None and etag_matches(seen.decode("latin-1"), etag.decode()):
        return Response(304, b"", headers, prices.MISS)
    body = _in_wanted_form(call, item_body(view.links, record, etag))
    return Response(200, body, headers, prices.point_read(len(record.value)))


def create(call: CosmosCall) -> Answer:
    """POST …/docs."""
    return _write_item(call, _CREATE)


def upsert(call: CosmosCall) -> Answer:
    """POST …/docs with x-ms-documentdb-is-upsert."""
    return _write_item(call, _UPSERT)


def replace(call: CosmosCall) -> Answer:
    """PUT …/docs/{id}."""
    return _write_item(call, _REPLACE)


async def _write_item(call: CosmosCall, mode: Mode) -> Response:
    view = call.find_owning_container() or await call.get_owning_container()
    body, limits = call.request.body, call.account.limits
    item = parse_item(body, limits) if len(body) <= CHEAP_BYTES else await parse_body(call, parse_item)
    id = item_id(item.doc, limits).encode()
    partition = check_partition(view, item, admit_partition(call, view, prices.likely, mode, len(item.text)))
    # A replace may give its item another id.
    key, seq = id, None
    if mode is _REPLACE:
        key, seq = own_address(call, view) or await resolve_address(call, view, record_finder(call, view, partition))
    command = Command(mode, partition, key, view.draft(item, partition), call.expected_lsn(view.id), id, seq)
    return await _commit_and_answer(call, view, command)


async def parse_body(call: CosmosCall, parse: Callable[[bytes, ItemLimits], T]) -> T:
    """Parse the body of a request, a large one on a thread."""
    body, limits = call.request.body, call.account.limits
    return (
        parse(body, limits) if len(body) <= CHEAP_BYTES else await call.statement().call(len(body), parse, body, limits)
    )


def own_address(call: CosmosCall, view: ContainerView) -> Address | None:
    """Return the address of the item that the path names by its id; None: it may be a rid, which `resolve_address` tells."""
    return None if call.target.container == view.links.rid else ((call.target.id or "").encode(), None)


async def resolve_address(
    call: CosmosCall, view: ContainerView, find: Callable[[int], Awaitable[Record | None]]
) -> Address:
    """Return the address of the item that the path names: by its id or, below the rid of its container, by its rid.

    Clients follow the `_self` of an item, which consists of rids. `find`: finds an item by its sequence number.
    """
    id = call.target.id or ""
    number = item_number(view.id, id) if call.target.container == view.links.rid else None
    found = None if number is None else await find(number)
    return (id.encode(), None) if found is None else (found.key, number)


def record_finder(call: CosmosCall, view: ContainerView, partition: bytes) -> Callable[[int], Awaitable[Record | None]]:
    """Return a function that finds a stored item of a partition by its sequence number.

    A concurrent replace may change the key before the write is decided, so the command names the number as well.
    """
    return partial(record_at, call.engine.reads, view.id, partition)


def check_partition(view: ContainerView, item: ParsedItem, addressed: bytes) -> bytes:
    """Return the addressed logical partition; BadRequest (1001) if the item's own key gives another one."""
    if view.key.partition_of(item.doc) != addressed:
        raise BadRequest(KEY_MISMATCH, substatus=1001)
    return addressed


async def patch(call: CosmosCall) -> Response:
    """PATCH …/docs/{id}."""
    view = await call.get_owning_container()
    patch = await parse_body(call, patches.parse_patch)
    partition = admit_partition(call, view, prices.likely, Mode.REPLACE, len(call.request.body))
    change = await compile_change(call, view, partition, patch, PatchWork(call))
    key, seq = await resolve_address(call, view, record_finder(call, view, partition))
    command = Command(Mode.REPLACE, partition, key, change, call.expected_lsn(view.id), seq=seq)
    return await write_prepared(lambda: _commit_and_answer(call, view, command))


async def delete(call: CosmosCall) -> Response:
    """DELETE …/docs/{id}."""
    view = await call.get_owning_container()
    partition = admit_partition(call, view, prices.likely, Mode.DELETE, 0)
    key, seq = await resolve_address(call, view, record_finder(call, view, partition))
    command = Command(Mode.DELETE, partition, key, None, call.expected_lsn(view.id), seq=seq)
    try:
        written = await call.engine.write(view.id, command, call.now)
    except MayflyError as error:
        await _add_headers(error, call, view, command)
        raise
    lsn = await call.engine.lsn(view.id)
    return Response(204, b"", view.item_headers(partition, lsn), prices.charge(written))


async def _commit_and_answer(call: CosmosCall, view: ContainerView, command: Command) -> Response:
    try:
        written = await call.engine.write(view.id, command, call.now)
    except MayflyError as error:
        await _add_headers(error, call, view, command)
        raise
    record = written.record
    if record.lsn > view.known_lsn:
        view.known_lsn = record.lsn
    headers = view.item_headers(command.partition, record.lsn)
    etag = encode_etag(view.links, record)
    headers += ((ETAG, etag), (ITEM_LSN, b"%d" % record.lsn))
    body = b"" if call.request.minimal else _in_wanted_form(call, item_body(view.links, record, etag))
    return Response(201 if written.created else 200, body, headers, prices.charge(written))


def _in_wanted_form(call: CosmosCall, body: bytes) -> bytes:
    """Return the body of an item in binary JSON if the client takes no text, and it is not too long for one turn of the loop."""
    return to_binary(body) if len(body) <= BINARY_BYTES and call.request.wants_binary else body


async def _add_headers(error: MayflyError, call: CosmosCall, view: ContainerView, command: Command) -> None:
    """Add a session token to the refusal of a write: clients read it from refusals too."""
    headers = view.item_headers(command.partition, await call.engine.lsn(view.id))
    error.detail = {"charge": prices.MISS, **error.detail, "headers": headers}
