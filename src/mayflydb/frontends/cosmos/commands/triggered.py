"""Writes of an item with a trigger before or after them, in one transaction."""

from __future__ import annotations

from typing import Final

import msgspec

from mayflydb.engine import prices
from mayflydb.engine.catalog import Node
from mayflydb.engine.commands import Command, Mode
from mayflydb.frontends.cosmos.calls import CosmosCall
from mayflydb.frontends.cosmos.commands.items import check_partition, resolve_address
from mayflydb.frontends.cosmos.commands.procedures import script_headers
from mayflydb.frontends.cosmos.commands.scripts import KINDS, TRIGGER_OPERATIONS, TRIGGER_TYPES, get_script, parse_word
from mayflydb.frontends.cosmos.headers import ETAG, ITEM_LSN, POST_TRIGGER_INCLUDE, PRE_TRIGGER_INCLUDE
from mayflydb.frontends.cosmos.paths import Resource
from mayflydb.frontends.cosmos.resources import Address, item_body, item_etag
from mayflydb.frontends.cosmos.scopes import admit_partition
from mayflydb.frontends.cosmos.scripting.attempts import CommittedScripts, ScriptAttempt, transact
from mayflydb.frontends.cosmos.scripting.program import Program, ScriptContext
from mayflydb.frontends.cosmos.values import item_id, parse_item
from mayflydb.frontends.cosmos.views import ContainerView
from mayflydb.frontends.cosmos.wire import Response
from mayflydb.model.errors import BadRequest, MayflyError, NotFound

INCLUDE_HEADERS: Final = {
    "pre": PRE_TRIGGER_INCLUDE,
    "post": POST_TRIGGER_INCLUDE,
}
EMPTY_BODY: Final = msgspec.Raw(b'""')


class TriggeredResult(msgspec.Struct, frozen=True):
    """The position of the write among the commands of the transaction, and the body that a post-trigger has set."""

    index: int
    body: str | None


class Triggers(msgspec.Struct, frozen=True):
    """The triggers before and after a write."""

    pre: Node | None
    post: Node | None


async def create(call: CosmosCall) -> Response:
    """POST …/docs."""
    return await _write(call, Mode.CREATE)


async def upsert(call: CosmosCall) -> Response:
    """POST …/docs with x-ms-documentdb-is-upsert."""
    return await _write(call, Mode.UPSERT)


async def replace(call: CosmosCall) -> Response:
    """PUT …/docs/{id}."""
    return await _write(call, Mode.REPLACE)


async def delete(call: CosmosCall) -> Response:
    """DELETE …/docs/{id}."""
    return await _write(call, Mode.DELETE)


async def _write(call: CosmosCall, mode: Mode) -> Response:
    view = await call.get_owning_container()
    partition = admit_partition(call, view, prices.likely, mode, len(call.request.body))
    triggers = Triggers(await _find_trigger(call, view, "pre", mode), await _find_trigger(call, view, "post", mode))
    text = b""
    if mode is not Mode.DELETE:
        item = parse_item(call.request.body, call.account.limits)
        # An invalid item is refused before any trigger runs.
        item_id(item.doc, call.account.limits)
        check_partition(view, item, partition)
        text = item.text
    write = _TriggeredWrite(call, view, mode, partition, triggers)
    try:
        done = await transact(call, partition, lambda attempt: write.run(attempt, text))
    except MayflyError as error:
        headers = view.item_headers(partition, await call.engine.lsn(view.id))
        error.detail = {**error.detail, "headers": headers}
        raise
    # A deletion advances the container's lsn too, and returns no record with the new one.
    return _answer(call, view, done, await call.engine.lsn(view.id))


async def _find_trigger(call: CosmosCall, view: ContainerView, kind: str, mode: Mode) -> Node | None:
    """Return the trigger that the request includes, or None; BadRequest for a trigger of another type or operation."""
    name = (call.request.text(INCLUDE_HEADERS[kind]) or "").strip()
    if not name:
        return None
    if "," in name:
        raise BadRequest(f"Only one {kind}-trigger is permitted for an operation.")
    try:
        node = await get_script(call, view, KINDS[Resource.TRIGGER], name)
    except NotFound:
        raise BadRequest(f"The {kind}-trigger '{name}' does not exist.") from None
    defined = parse_word(node.body["triggerType"], TRIGGER_TYPES, "triggerType")
    if defined != kind:
        raise BadRequest(
            f"Trigger '{name}' was defined with type '{defined.capitalize()}', and therefore is no {kind}-trigger."
        )
    on = parse_word(node.body["triggerOperation"], TRIGGER_OPERATIONS, "triggerOperation")
    if on not in ("all", mode.value):
        raise BadRequest(
            f"Trigger '{name}' was defined with operation type '{on.capitalize()}', and therefore is invalid for "
            f"'{mode.value.capitalize()}'."
        )
    return node


class _TriggeredWrite:
    """One write with its triggers. `run` is called for each attempt."""

    def __init__(self, call: CosmosCall, view: ContainerView, mode: Mode, partition: bytes, triggers: Triggers) -> None:
        self._call = call
        self._view = view
        self._mode = mode
        self._partition = partition
        self._triggers = triggers
        self._headers = script_headers(call)

    async def run(self, attempt: ScriptAttempt, text: bytes) -> TriggeredResult:
        """Run the pre-trigger, the write and the post-trigger."""
        operation = self._mode.value.capitalize()
        if self._triggers.pre is not None:
            context = ScriptContext("pre", _raw_json(text), operation=operation, headers=self._headers)
            program = Program(self._triggers.pre, context, [], attempt.transaction, attempt.time_budget)
            changed = (await program.run(attempt.collection)).request
            # A delete has no body that a trigger could change.
            text = text if changed is None or self._mode is Mode.DELETE else changed.encode()
        command = await self._build_command(attempt, text)
        # Triggers may write further items. The index finds the write of the request among them.
        index = attempt.transaction.command_count
        written = await attempt.collection.run(command)
        if self._triggers.post is None:
            return TriggeredResult(index, None)
        deleted = self._mode is Mode.DELETE
        response = EMPTY_BODY if deleted else msgspec.Raw(item_body(self._view.links, written.record))
        context = ScriptContext("post", _raw_json(text), response, operation, self._headers)
        program = Program(self._triggers.post, context, [], attempt.transaction, attempt.time_budget)
        return TriggeredResult(index, (await program.run(attempt.collection)).response)

    async def _build_command(self, attempt: ScriptAttempt, text: bytes) -> Command:
        mode, partition = self._mode, self._partition
        if_match = self._call.expected_lsn(self._view.id)
        address: Address | None = None
        if mode in (Mode.REPLACE, Mode.DELETE):
            address = await resolve_address(self._call, self._view, attempt.transaction.record_at)
            if mode is Mode.DELETE:
                return Command(mode, partition, address[0], None, if_match, seq=address[1])
        item = attempt.collection.parse_document(text)
        id = item_id(item.doc, self._call.account.limits).encode()
        key, seq = address or (id, None)
        return Command(mode, partition, key, self._view.draft(item, partition), if_match, id, seq)


def _raw_json(text: bytes) -> msgspec.Raw:
    return msgspec.Raw(text) if text else EMPTY_BODY


def _answer(call: CosmosCall, view: ContainerView, done: CommittedScripts[TriggeredResult], lsn: int) -> Response:
    written = done.written[done.result.index]
    record = written.record
    headers = view.item_headers(done.attempt.transaction.partition, lsn)
    charge = prices.METADATA + done.attempt.collection.charge
    body = None if done.result.body is None else done.replace_provisional(done.result.body.encode())
    if written.mode is Mode.DELETE:
        return Response(204 if body is None else 200, body or b"", headers, charge)
    headers += ((ETAG, item_etag(view.links, record).encode()), (ITEM_LSN, b"%d" % record.lsn))
    if body is None:
        body = b"" if call.request.minimal else item_body(view.links, record)
    return Response(201 if written.created else 200, body, headers, charge)
