"""Execution of CREATE, ALTER and DROP of users and groups."""

from __future__ import annotations

from typing import Final

from mayflydb.frontends.ydb.accounts import Accounts
from mayflydb.frontends.ydb.calls import GrpcCall
from mayflydb.query.yql.definitions import UserSpec
from mayflydb.query.yql.faults import fault, unsupported

_LOGIN_PHRASES: Final = {"LOGIN": True, "NOLOGIN": False}
_MEMBERSHIP_PHRASES: Final = {"ADD USER": True, "WITH USER": True, "USER": True, "DROP USER": False}


async def execute(accounts: Accounts, call: GrpcCall, statement: UserSpec) -> None:
    """Execute a statement.

    Faults: UNAUTHORIZED without administrator's rights, GENERIC_ERROR, unsupported phrases by name.
    """
    await check_administrator(accounts, call)
    if statement.kind == "GROUP":
        await _execute_group(accounts, call, statement)
    else:
        await _execute_user(accounts, call, statement)


async def check_administrator(accounts: Accounts, call: GrpcCall) -> None:
    """Raise UNAUTHORIZED unless the caller may create and change users."""
    if not await accounts.is_administrator(call.user):
        raise fault("Access denied", status="UNAUTHORIZED", code=2018)


async def _execute_user(accounts: Accounts, call: GrpcCall, statement: UserSpec) -> None:
    if statement.verb == "DROP":
        for name in statement.names:
            if not (statement.if_exists and await accounts.find(name) is None):
                await accounts.drop(name)
        return
    password: str | None = None
    login: bool | None = None
    for phrase, value in statement.options:
        if phrase == "PASSWORD":
            password = value or ""
        elif phrase in _LOGIN_PHRASES:
            login = _LOGIN_PHRASES[phrase]
        elif phrase != "ENCRYPTED":
            raise unsupported(f"{phrase} of a user", statement.at)
    for name in statement.names:
        if statement.verb == "CREATE":
            await accounts.create(name, password, login is not False, call.now)
        else:
            await accounts.change(name, password, login, call.now)


async def _execute_group(accounts: Accounts, call: GrpcCall, statement: UserSpec) -> None:
    for group in statement.names:
        if statement.verb == "CREATE":
            await accounts.create_group(group, call.now)
        elif statement.verb == "DROP":
            await accounts.drop_group(group, call.now, statement.if_exists)
        for phrase, value in statement.options:
            if phrase not in _MEMBERSHIP_PHRASES or value is None:
                raise unsupported(f"{phrase} of a group", statement.at)
            await accounts.set_membership(value, group, _MEMBERSHIP_PHRASES[phrase], call.now)
