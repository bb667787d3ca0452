"""The commands currentOp and killOp: operations in progress, and their end."""

from __future__ import annotations

from typing import Final

from mayflydb.frontends.mongo import arguments
from mayflydb.frontends.mongo.calls import GENERIC_ARGUMENTS, Call
from mayflydb.frontends.mongo.documents import to_milliseconds
from mayflydb.frontends.mongo.services import CommandEntry, Services
from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.faults import bad_value, type_mismatch
from mayflydb.query.mongo.filter import compile_filter
from mayflydb.query.mongo.numbers import exact_integer
from mayflydb.query.mongo.values import Document, is_number, type_name

_OPTIONS: Final = frozenset({"$all", "$ownOps", "$truncateOps"})


async def current_op(services: Services, call: Call) -> Document:
    """Return the operations in progress: all users' for an administrator, the sender's with `$ownOps`.

    All other fields are conditions on the operations.
    """
    own = arguments.flag(call.body, "$ownOps", call.name)
    if not own:
        services.require_right(call, "monitor", "admin")
    found = services.operations.describe(
        [each for each in services.operations.current.values() if not own or each.owner == call.owner]
    )
    ignored = _OPTIONS | GENERIC_ARGUMENTS | {call.name}
    query = {name: value for name, value in call.body.items() if name not in ignored}
    if query:
        env = Env(to_milliseconds(call.now))

        def select() -> list[Document]:
            filter = compile_filter(query, env)
            return [each for each in found if filter.matches(each)]

        found = await services.evaluation_of(call).compute(False, 0, select)
    return {"inprog": found}


async def kill_op(services: Services, call: Call) -> Document:
    """End an operation. One that is not in progress is no error, as on the server.

    Everyone may end their own operations, an administrator all.
    """
    call.check_fields({"op"})
    id = exact_integer(call.body.get("op"))
    target = None if id is None else services.operations.find(id)
    if target is None or target.owner != call.owner:
        services.require_right(call, "server", "admin")
    if "op" not in call.body:
        raise arguments.missing_argument("op", call.name)
    if id is None:
        given = call.body["op"]
        if is_number(given):
            raise bad_value(f"killOp: 'op' must be a whole number, not {given}")
        raise type_mismatch("killOp.op", type_name(given), *arguments.NUMERIC)
    if target is not None:
        services.operations.interrupt(target)
    return {"info": "attempting to kill op"}


HANDLERS: Final[dict[str, CommandEntry]] = {
    "currentOp": CommandEntry(current_op, "anyone", admin_only=True, help="Lists the operations in progress."),
    "killOp": CommandEntry(kill_op, "anyone", admin_only=True, help="Ends an operation."),
}
