"""The parts of YDB's front end that run queries, without a server around them."""

from __future__ import annotations

from random import Random

from mayflydb.engine.engine import Engine
from mayflydb.frontends.ydb.accounts import Accounts
from mayflydb.frontends.ydb.environment import Environment
from mayflydb.frontends.ydb.executor import Executor
from mayflydb.frontends.ydb.schemes.catalog import Schemes


def accounts_of(engine: Engine) -> Accounts:
    """The users of a server without login."""
    return Accounts(engine, Random(1), login_required=False, secret=b"", root_password=None)


def executor_of(engine: Engine, schemes: Schemes, seed: int = 1) -> Executor:
    """An executor whose stopwatch stands still."""
    return Executor(Environment(engine, schemes, Random(seed), lambda: 0), accounts_of(engine))
