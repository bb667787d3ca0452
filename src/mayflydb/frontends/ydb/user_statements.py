"""Execution of CREATE, ALTER and DROP of users and groups."""

from __future__ import annotations

from typing import Final

from mayflydb.frontends.ydb.accounts import Accounts
from mayflydb.frontends.ydb.calls import Call
from mayflydb.query.yql.definitions import UserSpec
from mayflydb.query.yql.faults import fault, unsupported

_LOGIN: Final = {"LOGIN": True, "NOLOGIN": False}
_MEMBERS: Final = {"ADD USER": True, "WITH USER": True, "USER": True, "DROP USER": False}


async def execute(accounts: Accounts, call: Call, statement: UserSpec) -> None:
    """Execute a statement.

    Faults: UNAUTHORIZED without administrator's rights, GENERIC_ERROR, unsupported phrases by name.
    """
    if not await accounts.is_administrator(call.user):
        raise fault("Access denied", status="UNAUTHORIZED", code=2018)
    if statement.kind == "GROUP":
        await _group(accounts, call, statement)
    else:
        await _user(accounts, call, statement)


async def _user(accounts: Accounts, call: Call, statement: UserSpec) -> None:
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
        elif phrase in _LOGIN:
            login = _LOGIN[phrase]
        elif phrase != "ENCRYPTED":
            raise unsupported(f"{phrase} of a user", statement.at)
    for name in statement.names:
        if statement.verb == "CREATE":
            await accounts.create(name, password, login is not False, call.now)
        else:
            await accounts.change(name, password, login, call.now)


async def _group(accounts: Accounts, call: Call, statement: UserSpec) -> None:
    for group in statement.names:
        if statement.verb == "CREATE":
            await accounts.create_group(group, call.now)
        elif statement.verb == "DROP":
            await accounts.drop_group(group, call.now, statement.if_exists)
        for phrase, value in statement.options:
            if phrase not in _MEMBERS or value is None:
                raise unsupported(f"{phrase} of a group", statement.at)
            await accounts.set_membership(value, group, _MEMBERS[phrase], call.now)
