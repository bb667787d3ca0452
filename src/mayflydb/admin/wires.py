"""Callers by which the admin API and the portal send requests to the front ends in this process.

A request passes the checks, limits and budgets of a client's request. So nothing is stored that the protocol refuses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from mayflydb.http.messages import Response
from mayflydb.query.mongo.replies import Reply
from mayflydb.query.yql.answers import DEFAULT_LIMITS, Answer, AnswerLimits, Mode, Parameters


class Cosmos(Protocol):
    """Sends an authorized request to Cosmos DB's front end."""

    async def __call__(
        self, method: str, path: Sequence[str], body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Response:
        """`path`: its segments, as they are (`dbs`, `shop`). An error is a response too."""
        ...


class Mongo(Protocol):
    """Sends a command to MongoDB's front end."""

    async def __call__(self, database: str, command: dict[str, Any]) -> dict[str, Any]:
        """`command`: a command's document, its name first. Return the answer. Raise the MayflyError that an error stands for."""
        ...

    async def send(self, database: str, command: bytes) -> Reply:
        """`command`: the document as BSON, so that each value has the very type that is meant. Raise as above."""
        ...


class Ydb(Protocol):
    """Runs queries in YDB's front end, as the administrator."""

    async def __call__(
        self,
        database: str,
        text: str,
        parameters: Parameters | None = None,
        *,
        mode: Mode = "execute",
        stats: bool = False,
        limits: AnswerLimits = DEFAULT_LIMITS,
    ) -> Answer:
        """Run a query in a transaction of its own, or definitions one by one. An error is a Fault, with YDB's issues.

        `database`: its path, `/local`. `stats`: the answer has statistics and the plan. A cancelled query ends at once.
        """
        ...


class Wires(msgspec.Struct, frozen=True):
    """The callers of the served protocols. None: the protocol is not served."""

    cosmos: Cosmos
    mongo: Mongo | None = None
    ydb: Ydb | None = None
