"""Login: a password in, a token out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mayflydb.frontends.ydb import wire
from mayflydb.frontends.ydb.calls import GrpcCall
from mayflydb.frontends.ydb.services import Services, Unary


async def login(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`Login`"""
    token = await services.accounts.login(request.user, request.password, call.now, call.address)
    return wire.operation_response(result=wire.text_field(1, token), type_name="Ydb.Auth.LoginResult")


COMMANDS: Final[Mapping[str, Unary]] = {"Ydb.Auth.V1.AuthService/Login": login}
