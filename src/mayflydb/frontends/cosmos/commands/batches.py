"""Transactional batch and bulk: many operations in one request, as one transaction or independent of each other."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from mayflydb.engine import prices
from mayflydb.engine.commands import Command, Mode, Written
from mayflydb.engine.engine import BatchRefused, Scope
from mayflydb.evaluation.statement import CHEAP_BYTES
from mayflydb.frontends.cosmos import errors, partition_key
from mayflydb.frontends.cosmos import patch as patches
from mayflydb.frontends.cosmos.calls import CosmosCall, lsn_of_etag
from mayflydb.frontends.cosmos.commands.items import check_partition
from mayflydb.frontends.cosmos.errors import message_of
from mayflydb.frontends.cosmos.headers import BATCH_ATOMIC, BATCH_CONTINUE_ON_ERROR, PARTITION_KEY_RANGE_ID
from mayflydb.frontends.cosmos.patching import ItemChange, PatchWork, compile_change, write_prepared
from mayflydb.frontends.cosmos.resources import item_body, item_etag
from mayflydb.frontends.cosmos.scopes import admit, admit_partition
from mayflydb.frontends.cosmos.values import ItemLimits, item_id, parse_item, parse_json
from mayflydb.frontends.cosmos.views import ContainerView, RangeView, gone_error
from mayflydb.frontends.cosmos.wire import Response
from mayflydb.model.errors import BadRequest, MayflyError, Throttled, TooLarge, Unsupported

T = TypeVar("T")

MAX_OPERATIONS = 100

MAX_RESULT_BYTES = 4 * 1024 * 1024
"""The bytes of items in the results of a batch after which no further operation reads or patches an item.

The service limits an answer to 4 MB. Its .NET client sends the operations of a bulk request again that it answers with the
substatus 3402.
"""

READS_AT_ONCE = 8
"""The reads and patches of a bulk request that are in work at once. Other operations answer at most what they were sent."""

HYBRID_ROW_PREFIX = b"\x81"
"""The first byte of a batch in HybridRow, its version. No JSON begins with it.

https://github.com/microsoft/HybridRow: HybridRowVersion.V1.
"""

MODES = {
    "Create": Mode.CREATE,
    "Upsert": Mode.UPSERT,
    "Read": Mode.READ,
    "Replace": Mode.REPLACE,
    "Patch": Mode.REPLACE,
    "Delete": Mode.DELETE,
}


class BatchOperation(msgspec.Struct, rename="camel"):
    """One operation as clients send it. `resource_body` stays text, so that an item is stored as it was sent."""

    operation_type: str
    id: str | None = None
    if_match: str | None = None
    if_none_match: str | None = None
    partition_key: Any = None
    resource_body: msgspec.Raw = msgspec.Raw(b"")
    minimal_return_preference: bool | None = None


async def execute(call: CosmosCall) -> Response:
    """POST …/docs with x-ms-cosmos-is-batch-request."""
    view = await call.get_owning_container()
    work = PatchWork(call)
    body, limits = call.request.body, call.account.limits
    operations = (
        _parse_operations(body, limits)
        if len(body) <= CHEAP_BYTES
        else await work.compute(_parse_operations, body, limits)
    )
    if call.request.flag(BATCH_ATOMIC):
        return await _run_transaction(call, view, operations, work)
    return await _run_bulk(call, view, operations, work)


def _parse_operations(body: bytes, limits: ItemLimits) -> list[BatchOperation]:
    if body.startswith(HYBRID_ROW_PREFIX):
        raise Unsupported(
            "Batches in HybridRow, the binary form that the .NET client sends, are not supported by Mayfly."
        )
    # Counted before anything is built from them. A body that is no array is refused below.
    with contextlib.suppress(ValueError, RecursionError):
        _check_count(len(msgspec.json.decode(body, type=list[msgspec.Raw])))
    # The typed decoder below lets pass what the strict parser refuses: names that occur twice, huge numbers, deep
    # nesting.
    parse_json(body, limits, limits.item_bytes)
    try:
        operations = msgspec.json.decode(body, type=list[BatchOperation])
    except msgspec.ValidationError as error:
        raise BadRequest(f"The batch is invalid: {error}") from None
    if not operations:
        raise BadRequest("Batch request has no operations.")
    return operations


def _check_count(count: int) -> None:
    if count > MAX_OPERATIONS:
        raise BadRequest(
            "Batch request has more operations than what is supported."
            f" It has {count}; at most {MAX_OPERATIONS} are allowed."
        )


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
    if_match = None if operation.if_match is None else lsn_of_etag(operation.if_match, view.id)
    limits = call.account.limits
    body = bytes(operation.resource_body)
    if operation.operation_type == "Patch":
        named = _require_id(operation)
        is_written_before = any(each.key_after == named and each.mode is not Mode.READ for each in before)
        patch = await _parse_part(work, patches.parse_patch, body, limits)
        change = await compile_change(call, view, partition, patch, work, is_written_before)
        return Command(mode, partition, named, change, if_match)
    if mode in (Mode.READ, Mode.DELETE):
        return Command(mode, partition, _require_id(operation), None, if_match)
    item = await _parse_part(work, parse_item, body, limits)
    id = item_id(item.doc, limits)
    check_partition(view, item, partition)
    # A replace may give its item another id: the operation names the old one, and the body has the new one.
    key = operation.id if mode is Mode.REPLACE and operation.id is not None else id
    return Command(mode, partition, key.encode(), view.draft(item, partition), if_match, id.encode())


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
    results = [_build_result(view, one, _omits_item(call, each)) for one, each in zip(written, operations, strict=True)]
    return await _answer(call, view, partition, 200, results)


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
    return await _answer(call, view, partition, 207, results)


def _build_failed_dependency() -> dict[str, Any]:
    return {"statusCode": 424, "requestCharge": 0.0}


# --- bulk --------------------------------------------------------------------------------------------------------------


class _BulkRun:
    """The operations of one bulk request. `size`: the bytes of items in their results so far."""

    def __init__(self, call: CosmosCall, view: ContainerView, work: PatchWork) -> None:
        self._call = call
        self._view = view
        self._work = work
        self._reads = asyncio.Semaphore(READS_AT_ONCE)
        self._size = 0

    async def run(self, operation: BatchOperation) -> dict[str, Any]:
        """Run one operation and return its result."""
        call, view = self._call, self._view
        try:
            partition = _parse_partition(view, operation.partition_key)
            command = await _build_command(call, view, operation, partition, self._work)
            spending = None
            if view.budget is not None:
                spending = admit(call, view, Scope.of_partition(partition), _likely_charge(operation))
        except MayflyError as error:
            return _build_failure(error)
        omits_item = _omits_item(call, operation)
        if _reads_items(command):
            async with self._reads:
                result = await self._execute(command, omits_item)
        else:
            result = await self._execute(command, omits_item)
        if spending is not None:
            spending.settle(result["requestCharge"])
        return result

    async def _execute(self, command: Command, omits_item: bool) -> dict[str, Any]:
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
        return _build_result(view, written, omits_item)

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
    failed = any(result["statusCode"] >= 400 for result in results)
    # The Java client reads one session token from an answer, so it must be that of the range that the client named.
    partition = None if within is None else within.lower
    return await _answer(call, view, partition, 207 if failed else 200, list(results))


async def _run_until_failure(run: _BulkRun, operations: list[BatchOperation]) -> list[dict[str, Any]]:
    """Run operations one after the other. Those after the first failure are not run and answered 424."""
    results: list[dict[str, Any]] = []
    for operation in operations:
        results.append(await run.run(operation))
        if results[-1]["statusCode"] >= 400:
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
        with contextlib.suppress(BadRequest):
            if view.range_of(_parse_partition(view, operation.partition_key)) is not within:
                raise gone_error(
                    f"A partition key of the request does not belong to the partition key range '{within.id}'."
                )
    return within


def _parse_partition(view: ContainerView, key: object) -> bytes:
    """Parse the key of a bulk operation, which is JSON inside a JSON string."""
    if isinstance(key, list):
        key = msgspec.json.encode(key).decode()
    if not isinstance(key, str):
        raise BadRequest("PartitionKey value must be supplied for this operation.")
    return view.key.logical_partition(_check_full_key(view, partition_key.parse_header(key)))


def _check_full_key(view: ContainerView, values: partition_key.KeyValues) -> partition_key.KeyValues:
    if len(values) != len(view.key.paths):
        raise BadRequest(partition_key.WRONG_KEY_LENGTH, substatus=1001)
    return values


# --- results -----------------------------------------------------------------------------------------------------------


def _omits_item(call: CosmosCall, operation: BatchOperation) -> bool:
    """Return True if the answer of a write omits its item, by a header of the batch or a flag of the operation."""
    return call.request.minimal or operation.minimal_return_preference is True


def _build_result(view: ContainerView, written: Written, omits_item: bool) -> dict[str, Any]:
    if written.mode is Mode.DELETE:
        return {"statusCode": 204, "requestCharge": prices.charge(written)}
    result: dict[str, Any] = {
        "statusCode": 201 if written.created else 200,
        "requestCharge": prices.charge(written),
        "eTag": item_etag(view.links, written.record),
    }
    if not omits_item or written.mode is Mode.READ:
        result["resourceBody"] = msgspec.Raw(item_body(view.links, written.record))
    return result


def _build_failure(error: MayflyError) -> dict[str, Any]:
    answer = errors.answer_of(error)
    # A throttled operation was refused before anything was read.
    charged = 0.0 if isinstance(error, Throttled) else prices.MISS
    result: dict[str, Any] = {"statusCode": answer.status, "requestCharge": charged, "message": message_of(error)}
    if answer.substatus:
        result["subStatusCode"] = answer.substatus
    if isinstance(error, Throttled):
        result["retryAfterMilliseconds"] = error.detail["retry_after_ms"]
    return result


async def _answer(
    call: CosmosCall, view: ContainerView, partition: bytes | None, status: int, results: list[dict[str, Any]]
) -> Response:
    headers = view.item_headers(partition, await call.engine.lsn(view.id))
    charged = sum(float(result["requestCharge"]) for result in results)
    return Response(status, msgspec.json.encode(results), headers, charged)
