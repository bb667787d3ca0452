"""Commands that begin, prolong and end sessions and transactions."""

from __future__ import annotations

from typing import Final

from bson import Binary

from mayflydb.frontends.mongo import arguments
from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.commands.handshake import SESSION_MINUTES
from mayflydb.frontends.mongo.services import CommandEntry, Services
from mayflydb.frontends.mongo.sessions.arguments import get_session, parse_transaction_number
from mayflydb.frontends.mongo.sessions.registry import parse_session_id
from mayflydb.frontends.mongo.sessions.work import write_concern_error
from mayflydb.query.mongo.faults import MqlError, type_mismatch
from mayflydb.query.mongo.values import Document, type_name

_UUID: Final = 4


async def start_session(services: Services, call: Call) -> Document:
    """Begin a session."""
    call.check_fields(())
    id = services.new_uuid().bytes
    services.sessions.use(id, call.owner)
    return {"id": {"id": Binary(id, _UUID)}, "timeoutMinutes": SESSION_MINUTES}


async def end_sessions(services: Services, call: Call) -> Document:
    """End the named sessions, with their cursors and transactions."""
    call.check_fields(())
    services.sessions.end(_parse_session_ids(call), call.owner)
    await services.close_ended_sessions(call.now, call.connection.id)
    return {}


async def refresh_sessions(services: Services, call: Call) -> Document:
    """Restart the timeout of the named sessions."""
    call.check_fields(())
    for id in _parse_session_ids(call):
        services.sessions.use(id, call.owner)
    return {}


async def kill_sessions(services: Services, call: Call) -> Document:
    """End the named sessions; without names, all of the sender's."""
    call.check_fields(())
    ids = _parse_session_ids(call)
    if ids:
        services.sessions.end(ids, call.owner)
    else:
        services.sessions.end_all_of([call.owner])
    await services.close_ended_sessions(call.now, call.connection.id)
    return {}


async def kill_all_sessions(services: Services, call: Call) -> Document:
    """End the sessions of the named users; without names, of all users."""
    call.check_fields(())
    owners = []
    owner = f"{call.name}.{call.name}"
    for each in _get_array(call):
        if type(each) is not dict:
            raise type_mismatch(owner, type_name(each), "object")
        owners.append(f"{arguments.text(each, 'db', owner)}.{arguments.text(each, 'user', owner)}")
    services.sessions.end_all_of(owners or None)
    await services.close_ended_sessions(call.now, call.connection.id)
    return {}


async def commit_transaction(services: Services, call: Call) -> Document:
    """Commit a transaction. Repeating the command is harmless."""
    _check_ending(call)
    number = parse_transaction_number(call, services.options.topology)
    await services.transactions.commit(get_session(call), number, call.now)
    concern = write_concern_error(call)
    return {} if concern is None else {"writeConcernError": concern}


async def abort_transaction(services: Services, call: Call) -> Document:
    """Abort a transaction."""
    _check_ending(call)
    number = parse_transaction_number(call, services.options.topology)
    await services.transactions.abort(get_session(call), number)
    concern = write_concern_error(call)
    return {} if concern is None else {"writeConcernError": concern}


def _check_ending(call: Call) -> None:
    call.check_fields(())
    if "autocommit" not in call.body:
        raise MqlError(125, f"{call.name} must be run within a transaction")


def _parse_session_ids(call: Call) -> list[bytes]:
    return [parse_session_id(each, f"{call.name}.{call.name}") for each in _get_array(call)]


def _get_array(call: Call) -> list[object]:
    given = call.body[call.name]
    if not isinstance(given, list):
        raise type_mismatch(f"{call.name}.{call.name}", type_name(given), "array")
    return given


HANDLERS: Final[dict[str, CommandEntry]] = {
    "startSession": CommandEntry(start_session, "anyone", help="Begins a session."),
    "endSessions": CommandEntry(end_sessions, "open", help="Ends sessions."),
    "refreshSessions": CommandEntry(refresh_sessions, "anyone", help="Prolongs sessions."),
    "killSessions": CommandEntry(kill_sessions, "anyone", help="Ends sessions and what is open in them."),
    "commitTransaction": CommandEntry(commit_transaction, "anyone", admin_only=True, help="Makes a transaction hold."),
    "abortTransaction": CommandEntry(abort_transaction, "anyone", admin_only=True, help="Undoes a transaction."),
    "killAllSessions": CommandEntry(kill_all_sessions, "server", help="Ends the sessions of all users, or of some."),
}
