"""The check whether the holder of a token may make a request, by data actions as the service's access control has them.

A command without a data action needs a key, so that a new command is closed until a row of the table opens it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

from mayflydb.frontends.cosmos import emulator_tokens
from mayflydb.frontends.cosmos.auth import parse_authorization
from mayflydb.frontends.cosmos.calls import CosmosCall
from mayflydb.frontends.cosmos.commands import (
    account,
    addresses,
    batches,
    changes,
    conflicts,
    containers,
    databases,
    items,
    partitions,
    procedures,
    query,
    triggered,
)
from mayflydb.frontends.cosmos.entra import roles
from mayflydb.frontends.cosmos.entra.policy import AccessPolicy, PolicyFile
from mayflydb.frontends.cosmos.entra.tokens import Principal
from mayflydb.frontends.cosmos.resources import parse_rid
from mayflydb.frontends.cosmos.wire import Response
from mayflydb.model.errors import Forbidden, NotFound
from mayflydb.model.instant import Instant

Handler: TypeAlias = Callable[[CosmosCall], Awaitable[Response]]

ACTIONS: Final[Mapping[Handler, str]] = {
    account.read: roles.READ_METADATA,
    addresses.read: roles.READ_METADATA,
    databases.read_state: roles.READ_METADATA,
    databases.read_feed: roles.READ_METADATA,
    databases.query: roles.READ_METADATA,
    databases.read: roles.READ_METADATA,
    containers.read_feed: roles.READ_METADATA,
    containers.read_state: roles.READ_METADATA,
    containers.query: roles.READ_METADATA,
    containers.read: roles.READ_METADATA,
    containers.read_ranges: roles.READ_METADATA,
    containers.query_ranges: roles.READ_METADATA,
    items.create: roles.CREATE_ITEM,
    items.read: roles.READ_ITEM,
    items.replace: roles.REPLACE_ITEM,
    items.patch: roles.REPLACE_ITEM,
    items.upsert: roles.UPSERT_ITEM,
    items.delete: roles.DELETE_ITEM,
    triggered.create: roles.CREATE_ITEM,
    triggered.replace: roles.REPLACE_ITEM,
    triggered.upsert: roles.UPSERT_ITEM,
    triggered.delete: roles.DELETE_ITEM,
    partitions.delete_all: roles.DELETE_ITEM,
    query.execute: roles.EXECUTE_QUERY,
    query.plan: roles.EXECUTE_QUERY,
    query.read_feed: roles.READ_CHANGE_FEED,
    changes.read_feed: roles.READ_CHANGE_FEED,
    procedures.execute: roles.EXECUTE_STORED_PROCEDURE,
    account.read_conflict_feed: roles.MANAGE_CONFLICTS,
    conflicts.query: roles.MANAGE_CONFLICTS,
    conflicts.answer_missing: roles.MANAGE_CONFLICTS,
}
"""The data action that each request for data needs. A batch needs those of its operations; others need a key."""

_FOR_ALL: Final = frozenset({account.read, addresses.read, databases.read_state})
"""Requests of each client before those for its data. A right at any scope suffices, unless the path names a database."""

BATCH_ACTIONS: Final[Mapping[str, str]] = {
    "Create": roles.CREATE_ITEM,
    "Read": roles.READ_ITEM,
    "Replace": roles.REPLACE_ITEM,
    "Patch": roles.REPLACE_ITEM,
    "Upsert": roles.UPSERT_ITEM,
    "Delete": roles.DELETE_ITEM,
}
"""The data actions of the operations of a batch, by their types."""

_METADATA, _BY_NAME, _BY_RID = 5301, 5302, 5303
"""Substatuses of a refusal: of metadata, of data by name, of data by rid (`SubStatusCodes` of the .NET client)."""


class EntraAccess:
    """Authorizes requests with tokens, by the policy of a file."""

    def __init__(self, policy: PolicyFile) -> None:
        self._policy = policy

    async def authenticate(self, header: str, now: Instant) -> Principal:
        """Return the holder of the token in an authorization header. Unauthenticated if it is not valid at the host's `now`."""
        access = await self._policy.access()
        return await access.tokens.verify(parse_authorization(header)[2], now)

    async def authorize(self, principal: Principal, call: CosmosCall, handler: Handler) -> None:
        """Raise Forbidden unless a role permits the request. The operations of a batch are checked as it reads them."""
        access = await self._policy.access()
        if handler is batches.execute:
            scope = await _find_scope(call)

            def check_operation(kind: str) -> None:
                # A kind that is not known is refused by the batch itself.
                if (action := BATCH_ACTIONS.get(kind)) is not None:
                    _check(access, principal, call, action, scope)

            call.check_operation = check_operation
            return
        action = ACTIONS.get(handler)
        if action is None:
            request = call.request
            raise emulator_tokens.refuse(request.method, request.path.decode("latin-1"))
        if handler in _FOR_ALL and call.target.database is None:
            if not access.roles.permits_anywhere(principal.ids, action):
                raise _refuse(principal, action, "on any scope", _METADATA)
            return
        _check(access, principal, call, action, await _find_scope(call))


def _check(access: AccessPolicy, principal: Principal, call: CosmosCall, action: str, scope: str) -> None:
    if access.roles.permits(principal.ids, action, scope):
        return
    if action == roles.READ_METADATA:
        substatus = _METADATA
    else:
        substatus = _BY_NAME if parse_rid(call.target.container or "") is None else _BY_RID
    raise _refuse(principal, action, f"on resource [{scope.strip('/') or '/'}]", substatus)


def _refuse(principal: Principal, action: str, place: str, substatus: int) -> Forbidden:
    return Forbidden(
        f"Request blocked by Auth mayfly : Request is blocked because principal [{principal.ids[0]}] does not have required RBAC "
        f"permissions to perform action [{action}] {place}. Learn more: https://aka.ms/cosmos-native-rbac.",
        substatus=substatus,
    )


async def _find_scope(call: CosmosCall) -> str:
    """Return the scope of a request, by names. A database or container that does not exist has the name of the path."""
    database, container = call.target.database, call.target.container
    if database is None:
        return roles.ACCOUNT
    try:
        if container is not None:
            view = await call.get_container()
            return roles.container_scope(view.database, view.node.name)
        return roles.database_scope((await call.get_database()).name)
    except NotFound:
        pass
    return roles.database_scope(database) if container is None else roles.container_scope(database, container)
