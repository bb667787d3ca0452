"""Deletion of a logical partition."""

from __future__ import annotations

import asyncio

from mayflydb.engine import prices
from mayflydb.engine.commands import Command, Mode
from mayflydb.engine.scans import Scope
from mayflydb.frontends.cosmos.calls import CosmosCall
from mayflydb.frontends.cosmos.scopes import admit_partition
from mayflydb.frontends.cosmos.views import ContainerView
from mayflydb.frontends.cosmos.wire import Response
from mayflydb.model.errors import MayflyError, NotFound, PreconditionFailed
from mayflydb.model.record import Record

BATCH_SIZE = 64
"""Items that are deleted at a time: enough to share commits, few enough to let other writes in between."""


async def delete_all(call: CosmosCall) -> Response:
    """POST …/operations/partitionkeydelete: delete the items of one logical partition that exist now.

    Each item is deleted by its own write, so other requests may see some of them meanwhile. Items written later stay. The answer
    comes when all are deleted; after an interruption the same request deletes the rest.
    """
    view = await call.get_owning_container()
    partition = admit_partition(call, view, prices.likely, Mode.DELETE, 0)
    last = await call.engine.lsn(view.id)
    scope = Scope.of_partition(partition)
    charge = 0.0
    try:
        async for batch in call.engine.scan(view.node, scope, None, call.now, BATCH_SIZE):
            # Items that were written after this request began stay: a client that writes in a loop could keep the
            # request busy for ever.
            deletions = [_delete(call, view, record) for record in batch.records if record.lsn <= last]
            outcomes = await asyncio.gather(*deletions, return_exceptions=True)
            charge += outcomes.count(True) * prices.DELETE
            for failure in outcomes:
                # The other deletions of the batch have ended by now, so that the charge counts each of them.
                if isinstance(failure, BaseException):
                    raise failure
    except MayflyError as error:
        error.detail = {
            **error.detail,
            "charge": charge or prices.MISS,
        }  # The deletions before the error are committed.
        raise
    lsn = await call.engine.lsn(view.id)
    return Response(200, b"", view.item_headers(partition, lsn), charge or prices.MISS)


async def _delete(call: CosmosCall, view: ContainerView, record: Record) -> bool:
    command = Command(Mode.DELETE, record.partition, record.key, None, record.lsn)
    try:
        await call.engine.write(view.id, command, call.now)
    except (NotFound, PreconditionFailed):
        # The item was deleted, has expired, or was written again after this request began.
        return False
    return True
