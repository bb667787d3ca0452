"""Transactional batch and bulk: many operations in one request, as one transaction or independent of each other."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import ModuleType
from typing import TypeVar

import msgspec
from msgspec import UNSET

from mayflydb.engine import prices
from mayflydb.engine.commands import ANY_VERSION, Command, Mode, Written
from mayflydb.engine.engine import BatchRefused
from mayflydb.engine.scans import Scope
from mayflydb.evaluation.statement import CHEAP_BYTES
from mayflydb.frontends.cosmos import errors, partition_key
from mayflydb.frontends.cosmos import patch as patches
from mayflydb.frontends.cosmos.batch_formats import hybrid_row, json_text
from mayflydb.frontends.cosmos.batch_formats.operations import BatchOperation, OperationResult
from mayflydb.frontends.cosmos.binary_json.forms import PREAMBLE
from mayflydb.frontends.cosmos.binary_json.reader import to_text
from mayflydb.frontends.cosmos.calls import CosmosCall, lsn_of_etag
from mayflydb.frontends.cosmos.commands.items import check_partition
from mayflydb.frontends.cosmos.errors import message_of
from mayflydb.frontends.cosmos.headers import (
    BATCH_ATOMIC,
    BATCH_CONTINUE_ON_ERROR,
    PARTITION_KEY,
    PARTITION_KEY_RANGE_ID,
    check_indexing_directive,
)
from mayflydb.frontends.cosmos.patching import ItemChange, PatchWork, compile_change, write_prepared
from mayflydb.frontends.cosmos.resources import item_body, item_etag
from mayflydb.frontends.cosmos.scopes import admit, admit_partition
from mayflydb.frontends.cosmos.values import ItemLimits, item_id, parse_item
from mayflydb.frontends.cosmos.views import ContainerView, RangeView, gone_error
from mayflydb.frontends.cosmos.wire import MAX_BODY, Response
from mayflydb.model.errors import BadRequest, MayflyError, Throttled, TooLarge, Unsupported
from mayflydb.model.record import Record

T = TypeVar("T")

MAX_RESULT_BYTES = 4 * 1024 * 1024
"""The bytes of items in the results of a batch after which no further operation reads or patches an item.

The service limits an answer to 4 MB. Its .NET client sends the operations of a bulk request again that it answers with the
substatus 3402.
"""

READS_AT_ONCE = 8
"""The reads and patches of a bulk request that are in work at once. Other operations answer at most what they were sent."""

MODES = {
    "Create": Mode.CREATE,
    "Upsert": Mode.UPSERT,
    "Read": Mode.READ,
    "Replace": Mode.REPLACE,
    "Patch": Mode.REPLACE,
    "Delete": Mode.DELETE,
}


async def execute(call: CosmosCall) -> Response:
    """POST …/docs with x-ms-cosmos-is-batch-request."""
    view = await call.get_owning_container()
    work = PatchWork(call)
    body, limits = call.request.body, call.account.limits
    read_operations = _format_of(body).read_operations
    operations: list[BatchOperation] = (
        read_operations(body, limits) if len(body) <= CHEAP_BYTES else await work.compute(read_operations, body, limits)
    )
    if (check_operation := call.check_operation) is not None:
        for kind in {operation.operation_type for operation in operations}:
            check_operation(kind)
    await _decode_bodies(operations)
    if call.request.flag(BATCH_ATOMIC):
        return await _run_transaction(call, view, operations, work)
    return await _run_bulk(call, view, operations, work)


async def _decode_bodies(operations: list[BatchOperation]) -> None:
    """Decode the bodies in binary JSON that rows contain. TooLarge if they are longer than a request may be, as text."""
    remaining = MAX_BODY
    for operation in operations:
        body = bytes(operation.resource_body)
        if body.startswith(PREAMBLE):
            text = await to_text(body, remaining)
            remaining -= len(text)
            operation.resource_body = msgspec.Raw(text)


def _format_of(body: bytes) -> ModuleType:
    """Return the module for the form of a batch, in which its results are answered as well."""
    return hybrid_row if body.startswith(hybrid_row.PREFIX) else json_text


async def _build_command(
    call: CosmosCall,
    view: ContainerView,
    operation: BatchOperation,
    partition: bytes,
    work: PatchWork,
    before: Sequence[Command] = (),
) -> Command:
    """`before`: the earlier commands of the same transaction."""
    mode = MODES.get(operation.operation_type)
    if mode is None:
        raise BadRequest(f"The batch operation type '{operation.operation_type[:100]}' is not known.")
    _check_options(call, view, operation, partition)
    if_match = None if operation.if_match is None else lsn_of_etag(operation.if_match, view.id)
    limits = call.account.limits
    body = bytes(operation.resource_body)
    if operation.operation_type == "Patch":
        named = _require_id(operation)
        is_written_before = any(each.key_after == named and each.mode is not Mode.READ for each in before)
        patch = await _parse_part(work, patches.parse_patch, body, limits)
        change = await compile_change(call, view, partition, patch, work, is_written_before)
        return Command(mode, partition, named, change, if_match)
    if mode is Mode.READ:
        return Command(mode, partition, _require_id(operation), None)
    if mode is Mode.DELETE:
        return Command(mode, partition, _require_id(operation), None, if_match)
    item = await _parse_part(work, parse_item, body, limits)
    id = item_id(item.doc, limits)
    check_partition(view, item, partition)
    # A replace may give its item another id: the operation names the old one, and the body has the new one.
    key = operation.id if mode is Mode.REPLACE and operation.id is not None else id
    return Command(mode, partition, key.encode(), view.draft(item, partition), if_match, id.encode())


def _check_options(call: CosmosCall, view: ContainerView, operation: BatchOperation, partition: bytes) -> None:
    """Raise Unsupported for an option that is not honoured, and BadRequest for a key other than that of `partition`."""
    if operation.indexing_directive is not None:
        check_indexing_directive(operation.indexing_directive)
    if operation.time_to_live_in_seconds is not None:
        raise Unsupported(
            "The option timeToLiveInSeconds of a batch operation is not supported by Mayfly. An item has its own life in its"
            " property ttl."
        )
    if operation.binary_id is not None:
        raise Unsupported("The option binaryId of a batch operation is not supported by Mayfly.")
    if operation.partition_key is not None and _parse_partition(view, operation.partition_key) != partition:
        raise BadRequest(partition_key.KEY_MISMATCH, substatus=1001)
    if (effective := operation.effective_partition_key) is not None:
        given = operation.partition_key
        key = call.request.headers[PARTITION_KEY] if given is None else _key_text(given)
        if view.key.effective_key(partition_key.parse_header(key)) != effective:
            raise BadRequest(partition_key.KEY_MISMATCH, substatus=1001)


async def _parse_part(work: PatchWork, parse: Callable[[bytes, ItemLimits], T], body: bytes, limits: ItemLimits) -> T:
    """Parse the body of an operation, a large one on a thread, and let other requests run between operations."""
    if len(body) > CHEAP_BYTES:
        return await work.compute(parse, body, limits)
    await work.take_turn()
    return parse(body, limits)


def _likely_charge(operation: BatchOperation) -> float:
    return prices.likely(MODES.get(operation.operation_type, Mode.READ), len(operation.resource_body))


def _likely_total(operations: list[BatchOperation]) -> float:
    return sum(map(_likely_charge, operations))


def _require_id(operation: BatchOperation) -> bytes:
    if not operation.id:
        raise BadRequest(f"The batch operation {operation.operation_type} needs an id.")
    return operation.id.encode()


# --- transactions ------------------------------------------------------------------------------------------------------


async def _run_transaction(
    call: CosmosCall, view: ContainerView, operations: list[BatchOperation], work: PatchWork
) -> Response:
    partition = admit_partition(call, view, _likely_total, operations)
    commands: list[Command] = []
    for index, operation in enumerate(operations):
        try:
            commands.append(await _build_command(call, view, operation, partition, work, commands))
        # An operation that is invalid is answered like one that failed: its own status, and 424 for all others.
        except (BadRequest, TooLarge) as error:
            return await _answer_refusal(call, view, partition, len(operations), index, error)
    steps = [partial(_admit_step, each) if _reads_items(each) else each for each in commands]
    try:
        written = await write_prepared(lambda: call.engine.write_all(view.id, steps, call.now))
    except BatchRefused as refusal:
        return await _answer_refusal(call, view, partition, len(operations), refusal.index, refusal.cause)
    results = [_build_result(call, view, one, each) for one, each in zip(written, operations, strict=True)]
    return await _answer(call, view, partition, results)


def _reads_items(command: Command) -> bool:
    """Return True for a read or a patch, whose result is larger than the operation that was sent."""
    return command.mode is Mode.READ or isinstance(command.draft, ItemChange)


def _admit_step(command: Command, results: Sequence[Written]) -> Command:
    _check_size(sum(len(each.record.value) for each in results))
    return command


def _check_size(size: int) -> None:
    if size > MAX_RESULT_BYTES:
        raise TooLarge(
            f"The operations of the batch before this one have results of more than {MAX_RESULT_BYTES} bytes.",
            substatus=3402,
        )


async def _answer_refusal(
    call: CosmosCall, view: ContainerView, partition: bytes, count: int, index: int, error: MayflyError
) -> Response:
    results = [_build_failure(error) if n == index else _build_failed_dependency() for n in range(count)]
    return await _answer(call, view, partition, results)


def _build_failed_dependency() -> OperationResult:
    return OperationResult(424, 0.0)


# --- bulk --------------------------------------------------------------------------------------------------------------


class _BulkRun:
    """The operations of one bulk request. `size`: the bytes of items in their results so far."""

    def __init__(self, call: CosmosCall, view: ContainerView, work: PatchWork) -> None:
        self._call = call
        self._view = view
        self._work = work
        self._reads = asyncio.Semaphore(READS_AT_ONCE)
        self._size = 0

    async def run(self, operation: BatchOperation) -> OperationResult:
        """Run one operation and return its result."""
        call, view = self._call, self._view
        try:
            partition = _operation_partition(view, operation)
            command = await _build_command(call, view, operation, partition, self._work)
            spending = None
            if view.budget is not None:
                spending = admit(call, view, Scope.of_partition(partition), _likely_charge(operation))
        except MayflyError as error:
            return _build_failure(error)
        if _reads_items(command):
            async with self._reads:
                result = await self._execute(command, operation)
        else:
            result = await self._execute(command, operation)
        if spending is not None:
            spending.settle(result.request_charge)
        return result

    async def _execute(self, command: Command, operation: BatchOperation) -> OperationResult:
        call, view = self._call, self._view
        try:
            if _reads_items(command):
                self._check_size()
            if command.mode is Mode.READ:
                (written,) = await call.engine.write_all(view.id, [command], call.now)
            else:
                commit = partial(call.engine.write, view.id, command, call.now)
                written = await write_prepared(commit, self._check_size)
        except BatchRefused as refusal:
            return _build_failure(refusal.cause)
        except MayflyError as error:
            return _build_failure(error)
        self._size += len(written.record.value)
        return _build_result(call, view, written, operation)

    def _check_size(self) -> None:
        _check_size(self._size)


async def _run_bulk(
    call: CosmosCall, view: ContainerView, operations: list[BatchOperation], work: PatchWork
) -> Response:
    within = _named_range(call, view, operations)
    run = _BulkRun(call, view, work)
    if call.request.headers.get(BATCH_CONTINUE_ON_ERROR, b"").lower() == b"false":
        results = await _run_until_failure(run, operations)
    else:
        # All writes are queued at once, so that they share group commits.
        results = await asyncio.gather(*map(run.run, operations))
    # The Java client reads one session token from an answer, so it must be that of the range that the client named.
    partition = None if within is None else within.lower
    return await _answer(call, view, partition, list(results))


async def _run_until_failure(run: _BulkRun, operations: list[BatchOperation]) -> list[OperationResult]:
    """Run operations one after the other. Those after the first failure are not run and answered 424."""
    results: list[OperationResult] = []
    for operation in operations:
        results.append(await run.run(operation))
        if results[-1].status_code >= 400:
            break
    return [*results, *(_build_failed_dependency() for _ in operations[len(results) :])]


def _named_range(call: CosmosCall, view: ContainerView, operations: list[BatchOperation]) -> RangeView | None:
    """Return the range that the request names, if any. Gone for a key outside of it, since the client's ranges are stale."""
    named = call.request.text(PARTITION_KEY_RANGE_ID)
    if named is None:
        return None
    within = view.range_by_id(named)
    for operation in operations:
        # An operation whose key is invalid gets its own 400 later.
        with contextlib.suppress(BadRequest, Unsupported):
            if view.range_of(_operation_partition(view, operation)) is not within:
                raise gone_error(
                    f"A partition key of the request does not belong to the partition key range '{within.id}'."
                )
    return within


def _operation_partition(view: ContainerView, operation: BatchOperation) -> bytes:
    if operation.partition_key is None and operation.effective_partition_key is not None:
        raise Unsupported(
            "A batch operation with an effectivePartitionKey and no partitionKey is not supported by Mayfly."
        )
    return _parse_partition(view, operation.partition_key)


def _parse_partition(view: ContainerView, key: object) -> bytes:
    return view.key.parse_partition(_key_text(key))


def _key_text(key: object) -> str:
    """Return the key of an operation, which is JSON inside a string."""
    if isinstance(key, list):
        key = msgspec.json.encode(key).decode()
    if not isinstance(key, str):
        raise BadRequest("PartitionKey value must be supplied for this operation.")
    return key


# --- results -----------------------------------------------------------------------------------------------------------


def _omits_item(call: CosmosCall, operation: BatchOperation) -> bool:
    """Return True if the answer of a write omits its item, by a header of the batch or a flag of the operation."""
    return call.request.minimal or operation.minimal_return_preference is True


def _build_result(
    call: CosmosCall, view: ContainerView, written: Written, operation: BatchOperation
) -> OperationResult:
    if written.mode is Mode.DELETE:
        return OperationResult(204, prices.charge(written))
    etag = item_etag(view.links, written.record)
    if written.mode is Mode.READ and _is_known(operation, view, written.record):
        return OperationResult(304, prices.MISS, etag)
    result = OperationResult(201 if written.created else 200, prices.charge(written), etag)
    if written.mode is Mode.READ or not _omits_item(call, operation):
        result.resource_body = msgspec.Raw(item_body(view.links, written.record))
    return result


def _is_known(operation: BatchOperation, view: ContainerView, record: Record) -> bool:
    """Return True if the client has this version. A read takes either condition for the version that the client has.

    azure-cosmos-dotnet-v3: RunBatchSessionTokenPropertiesTestAsync reads with ifMatch and is answered 304.
    """
    etag = operation.if_none_match if operation.if_match is None else operation.if_match
    return etag is not None and lsn_of_etag(etag, view.id) in (ANY_VERSION, record.lsn)


def _build_failure(error: MayflyError) -> OperationResult:
    answer = errors.answer_of(error)
    # A throttled operation was refused before anything was read.
    charged = 0.0 if isinstance(error, Throttled) else prices.MISS
    result = OperationResult(answer.status, charged, message=message_of(error))
    if answer.substatus:
        result.sub_status_code = answer.substatus
    if isinstance(error, Throttled):
        retry_after = error.detail["retry_after_ms"]
        result.retry_after_milliseconds = retry_after if isinstance(retry_after, int) else UNSET
    return result


async def _answer(
    call: CosmosCall, view: ContainerView, partition: bytes | None, results: list[OperationResult]
) -> Response:
    headers = view.item_headers(partition, await call.engine.lsn(view.id))
    charged = sum(result.request_charge for result in results)
    # The client looks at the results one by one if one of them is no success.
    status = 207 if any(result.status_code >= 300 for result in results) else 200
    return Response(status, await _join(_format_of(call.request.body).write_results(results)), headers, charged)


async def _join(pieces: Iterable[bytes]) -> bytes:
    """Join the pieces of an answer. The event loop runs other work in between."""
    joined, held = bytearray(), 0
    for piece in pieces:
        joined += piece
        held += len(piece)
        if held > CHEAP_BYTES:
            held = 0
            await asyncio.sleep(0)
    return bytes(joined)
