"""Commands from within the process, such as the admin API's. They pass through the front end as a client's do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mayflydb.frontends.mongo.accounts.roles import Role, User
from mayflydb.frontends.mongo.app import MongoApp
from mayflydb.frontends.mongo.protocol.messages import OP_MSG, Message
from mayflydb.frontends.mongo.state import ConnectionState
from mayflydb.model.errors import BadRequest, Conflict, MayflyError, NotFound, OutcomeUnknown, OutOfSpace, Unavailable
from mayflydb.query.mongo.values import Document, decode, encode

# OutcomeUnknown for a time limit (50): a change of indexes goes on without its caller.
_ERRORS_BY_CODE: Final[Mapping[int, type[MayflyError]]] = {
    1: MayflyError,
    26: NotFound,
    27: NotFound,
    48: Conflict,
    50: OutcomeUnknown,
    85: Conflict,
    86: Conflict,
    91: Unavailable,
    112: Conflict,
    189: Unavailable,
    11000: Conflict,
    14031: OutOfSpace,
}


class MongoCaller:
    """A caller that sends commands as a user with the role `root`."""

    def __init__(self, app: MongoApp) -> None:
        self._app = app
        self._connection = ConnectionState(0, peer="localhost", user=User("mayfly", "admin", (Role("root", "admin"),)))

    async def __call__(self, database: str, command: Document) -> dict[str, Any]:
        """Send a command and return its answer. Raise the nearest kind of MayflyError where the answer is an error."""
        body = encode({**command, "$db": database})
        answer = decode(await self._app.answer(Message(0, OP_MSG, body, {}), self._connection))
        if answer.get("ok") == 1:
            return answer
        kind = _ERRORS_BY_CODE.get(int(answer.get("code", 2)), BadRequest)
        raise kind(str(answer.get("errmsg", "")))
