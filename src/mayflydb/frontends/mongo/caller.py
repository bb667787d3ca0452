"""Commands from within the process. They pass through the front end as those of a client do."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from struct import pack
from typing import Any, ClassVar, Final

from mayflydb.frontends.mongo.accounts.roles import Role, User
from mayflydb.frontends.mongo.app import Hangup, MongoApp
from mayflydb.frontends.mongo.protocol.messages import OP_MSG, Message
from mayflydb.frontends.mongo.state import ConnectionState
from mayflydb.model.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    MayflyError,
    NotFound,
    OutcomeUnknown,
    OutOfSpace,
    Overloaded,
    Throttled,
    TooLarge,
    Unavailable,
    Unsupported,
)
from mayflydb.query.mongo import raw
from mayflydb.query.mongo.replies import Reply
from mayflydb.query.mongo.values import Document, decode, encode

# OutcomeUnknown for a time limit (50): a change of indexes goes on without its caller.
_ERRORS_BY_CODE: Final[Mapping[int, type[MayflyError]]] = {
    1: MayflyError,
    13: Forbidden,
    26: NotFound,
    27: NotFound,
    48: Conflict,
    50: OutcomeUnknown,
    85: Conflict,
    86: Conflict,
    91: Unavailable,
    112: Conflict,
    115: Unsupported,
    189: Unavailable,
    238: Unsupported,
    365: Overloaded,
    10334: TooLarge,
    11000: Conflict,
    11600: Unavailable,
    14031: OutOfSpace,
    16500: Throttled,
}
_USER: Final = User("mayfly", "admin", (Role("root", "admin"),))
_BATCHES: Final = frozenset({b"firstBatch", b"nextBatch"})


class MongoCaller:
    """A caller that sends commands as a user with the role `root`, each over a connection of its own."""

    # Clients' connections count from 1 up. Of two commands with one number, each would end the other's evaluation.
    _connection_ids: ClassVar = count(-1, -1)

    def __init__(self, app: MongoApp) -> None:
        self._app = app

    async def __call__(self, database: str, command: Document) -> dict[str, Any]:
        """Send a command and return its answer. Raise the nearest kind of MayflyError where the answer is an error."""
        answer, _ = await self._ask(encode({**command, "$db": database}))
        return _check(decode(answer))

    async def send(self, database: str, command: bytes) -> Reply:
        """Send a command that is encoded already, and return its answer with the documents of its batch as they are stored."""
        name = database.encode()
        body = command[4:-1] + b"\x02$db\0" + pack("<i", len(name) + 1) + name + b"\0\0"
        answer, connection = await self._ask(pack("<i", len(body) + 4) + body)
        priced = connection.last_priced
        has_prices = priced is not None and self._app.services.contracts.of(database).is_cosmos
        charge = round(priced.charge, 2) if priced is not None and has_prices else None
        cursor = next((each for each in raw.elements(answer) if each.name == b"cursor"), None)
        if cursor is None or cursor.type != raw.EMBEDDED:
            return Reply(_check(decode(answer)), charge=charge)
        inner = answer[cursor.value : cursor.end]
        batches = [each for each in raw.elements(inner) if each.name in _BATCHES]
        documents = [
            document
            for each in batches
            for document in raw.array_documents(inner[each.value : each.end], "cursor.batch")
        ]
        checked = _check(decode(raw.remove_elements(answer, [cursor])))
        return Reply(checked, documents, int(decode(raw.remove_elements(inner, batches))["id"]), charge)

    async def _ask(self, body: bytes) -> tuple[bytes, ConnectionState]:
        connection = ConnectionState(next(self._connection_ids), peer="localhost", user=_USER)
        try:
            return await self._app.answer(Message(0, OP_MSG, body, {}), connection), connection
        except Hangup:
            raise OutcomeUnknown("the server cannot tell whether the command was carried out") from None


def _check(answer: dict[str, Any]) -> dict[str, Any]:
    if answer.get("ok") == 1:
        return answer
    kind = _ERRORS_BY_CODE.get(int(answer.get("code", 2)), BadRequest)
    raise kind(str(answer.get("errmsg", "")))
