"""The part that topics have in transactions of tables: what is decided at the commit, behind the rows."""

from __future__ import annotations

import msgspec

from mayflydb.engine.snapshot import Snapshot
from mayflydb.frontends.ydb.calls import GrpcCall
from mayflydb.frontends.ydb.services import Services
from mayflydb.frontends.ydb.transactions import READ_ONLY_MODES, OpenTransaction, unknown_transaction
from mayflydb.query.yql.faults import Fault, Issue, fault


async def find_transaction(services: Services, call: GrpcCall, session: str, id: str) -> Snapshot:
    """Return the snapshot of an open transaction of a session, begun if it is not. Faults: BAD_SESSION, NOT_FOUND, or a mode that
    does not write.
    """
    owner = services.sessions.find(call, session)
    if owner is None:
        raise Fault("BAD_SESSION", Issue(f"Session not found: {session}"))
    transaction = services.executor.transactions(owner).get(id)
    if transaction.mode in READ_ONLY_MODES:
        raise fault("Topic operations can't be performed in read only transaction", status="BAD_REQUEST", code=2008)
    if transaction.snapshot is None:
        # A stream of messages lasts longer than the instant of its call.
        present = msgspec.structs.replace(call, now=await services.engine.now())
        begun = await services.environment.snapshot(present, transaction.mode, writes=True)
        # A query of the transaction, or its end, may have come in between.
        if is_begun(transaction) or owner.transactions.get(id) is not transaction:
            begun.close()
        else:
            transaction.snapshot = begun
    if transaction.snapshot is None:
        raise unknown_transaction(id)
    return transaction.snapshot


def is_begun(transaction: OpenTransaction) -> bool:
    """Return whether a transaction has read or written anything."""
    return transaction.snapshot is not None
