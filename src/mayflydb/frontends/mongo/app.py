"""The application of the MongoDB front end: a message in, the bytes of its answer out."""

from __future__ import annotations

import asyncio
import gc
import logging
import re
from collections.abc import Callable, Coroutine, Mapping
from random import Random  # noqa: TID251 - the type; what draws comes in from outside
from typing import Any, Final

from mayflydb.engine.access_log import EndedRequest
from mayflydb.engine.engine import Engine
from mayflydb.evaluation.statement import CHEAP_BYTES
from mayflydb.frontends.mongo import recent_log
from mayflydb.frontends.mongo.accounts.needs import right_of
from mayflydb.frontends.mongo.accounts.roles import User
from mayflydb.frontends.mongo.as_of import services_as_of
from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.charges import PRICED, settle
from mayflydb.frontends.mongo.commands.table import HANDLERS
from mayflydb.frontends.mongo.concerns import check_api_version, check_concerns, parse_time_limit, reads_snapshot
from mayflydb.frontends.mongo.errors import code_of, error_document, error_reply
from mayflydb.frontends.mongo.failpoints import ConnectionDropped, add_fields
from mayflydb.frontends.mongo.gossip import Gossip
from mayflydb.frontends.mongo.options import Options
from mayflydb.frontends.mongo.protocol.messages import OP_QUERY, Message
from mayflydb.frontends.mongo.protocol.time_limits import run_within
from mayflydb.frontends.mongo.services import CommandEntry, Services
from mayflydb.frontends.mongo.sessions.registry import parse_session_id
from mayflydb.frontends.mongo.sessions.work import perform_in_transaction, read_snapshot, write_concern_error
from mayflydb.frontends.mongo.state import ConnectionState, application_of
from mayflydb.model.errors import MayflyError, OutcomeUnknown, Overloaded, drop_frames
from mayflydb.model.instant import Instant
from mayflydb.query.mongo import raw
from mayflydb.query.mongo.faults import MqlError, name_of, type_mismatch
from mayflydb.query.mongo.values import Document, decode, encode, type_name
from mayflydb.sockets.in_flight import SMALL_ANSWER, BytesInFlight

log = logging.getLogger(__name__)

_WAITING = frozenset({"getMore", "hello", "isMaster", "ismaster"})
"""Commands that may wait for something to happen."""

_ON_COLLECTIONS = PRICED | {"create", "drop", "createIndexes", "dropIndexes", "listIndexes", "collMod"}
"""Commands whose first argument is the name of a collection."""

RAW_ARRAYS: Mapping[bytes, bytes] = {
    b"\x04documents\0": b"documents",
    b"\x04updates\0": b"updates",
    b"\x04deletes\0": b"deletes",
    b"\x04ops\0": b"ops",
    b"\x04nsInfo\0": b"nsInfo",
}
"""Array arguments that are not decoded in any command: the first bytes of the BSON element, and the argument's name."""

_RAW_ARRAY = re.compile(b"\x04(?:documents|updates|deletes|ops|nsInfo)\0")

HELLO_NAMES = frozenset({"hello", "isMaster", "ismaster"})
QUERY_WRAPPERS = frozenset({"$query", "query"})

READ_RIGHTS = frozenset({"open", "read", "stats", "monitor"})
"""Rights of commands that change nothing, and so never answer with a write concern error."""

_OK = encode({"ok": 1.0})
INTERNAL_ERROR: Final = 1
_FAILED = error_document(INTERNAL_ERROR, "An internal error occurred.")


class Hangup(Exception):
    """Raised to end the connection without an answer."""


class MongoApp:
    """The application that answers commands, one per server."""

    def __init__(
        self,
        engine: Engine,
        options: Options,
        chance: Random,
        monotonic: Callable[[], int],
        users: tuple[User, ...] = (),
        started: Instant = 0,
        handlers: Mapping[str, CommandEntry] = HANDLERS,
        in_flight: BytesInFlight | None = None,
    ) -> None:
        """`started`: the instant of the start, by the engine's clock. `users`: those of the settings.

        `chance`: an unguessable source of ids and salts. `monotonic`: the host's microseconds, which do not follow a
        virtual clock. `in_flight`: the account of the process, which the connections charge.
        """
        self.services = Services(engine, options, chance, monotonic, users, started, handlers, in_flight)
        self._gossip = Gossip(options)
        recent_log.keep()

    async def answer(self, message: Message, connection: ConnectionState) -> bytes:
        """Return the document that answers a message, as bytes. Raise Hangup where the connection ends without an answer."""
        return self._gossip.add_times(await self._answer_body(message, connection), self.services.engine.committed_at)

    async def _answer_body(self, message: Message, connection: ConnectionState) -> bytes:
        services = self.services
        started_monotonic = services.monotonic()
        body: Document = {}
        status = "error"
        try:
            size = len(message.body)
            if size <= CHEAP_BYTES:
                body, sequences = _split_message(message)
            else:
                body, sequences = await self._split_large(message, connection)
            name = next(iter(body), "")
            database = _database_of(message, name, body)
            if services.accounts.may_have_changed:
                await services.accounts.refresh()
            call = Call(
                name,
                database,
                body,
                sequences,
                connection,
                await services.engine.now(),
                started_monotonic=started_monotonic,
                size=size,
                raw=message.body if size <= CHEAP_BYTES else b"",
            )
            # From here on others may see the operation, and interrupt it.
            services.operations.current[connection.id] = call
            answer = self._gossip.add_recovery_token(await self._run_command(call), call)
            status = "ok"
            return answer
        except MayflyError as error:
            if isinstance(error, OutcomeUnknown) and "autocommit" not in body:
                # Any answer might be wrong. For a driver, a lost connection means exactly this: the outcome is unknown.
                raise Hangup from error
            status = name_of(code_of(error))
            return self._encode_error(error, body)
        except Hangup:
            raise
        except asyncio.CancelledError:
            interruption = services.operations.take_interruption(connection.id)
            if interruption is None:
                raise
            status = name_of(code_of(interruption))
            return self._encode_error(interruption, body)
        except Exception:
            status = name_of(INTERNAL_ERROR)
            services.counters.failures += 1
            log.exception("a command was not answered: %s", next(iter(body), ""))
            return encode(_FAILED)
        finally:
            self._end(message, connection, body, status, started_monotonic)

    def _end(self, message: Message, connection: ConnectionState, body: Document, status: str, began: int) -> None:
        """Count the command, and end what it holds. `status`: ok, the name of an error's code, or error without an answer."""
        name = next(iter(body), "")
        known = name if name in self.services.handlers else "unknown"
        self.services.engine.requests.count("mongo", known, "ok" if status == "ok" else "error", began)
        ended = self.services.operations.current.pop(connection.id, None)
        if ended is not None:
            self._count_use(ended, began)
            if ended.evaluation is not None:
                ended.evaluation.end_turn()
        if (observer := self.services.engine.observer) is not None:
            units = None if ended is None else ended.charge
            id = f"{connection.id}:{message.request}"
            target = _target_of(name, body)
            observer.note(EndedRequest("mongo", id, known, target, status, units, began, connection.address))

    def _count_use(self, call: Call, began: int) -> None:
        collections = self.services.collections
        named = call.body.get("collection" if call.name == "getMore" else call.name)
        # The cache may have been emptied meanwhile, so the name is looked up.
        used = collections.usage.find(call.database, named) if type(named) is str else None
        collections.usage.note(call.name, used, self.services.monotonic() - began, call.now)

    async def _split_large(
        self, message: Message, connection: ConnectionState
    ) -> tuple[Document, dict[str, list[bytes]]]:
        evaluation = self.services.begin_evaluation(connection.id)
        split = await evaluation.compute(False, len(message.body), _split_message, message)
        # The documents are copies; the message itself would stay until the answer.
        message.body = b""
        return split

    def _encode_error(self, error: MayflyError, body: Document) -> bytes:
        drop_frames(error)
        self.services.counters.refusals += 1
        if isinstance(error.__cause__, Overloaded):
            # Closures of the refused statement refer to each other, and to its documents.
            asyncio.get_running_loop().call_soon(gc.collect, 1)
        answer = error_reply(error, body, self.services.new_activity_id())
        database = body.get("$db")
        if isinstance(database, str) and self.services.contracts.of(database).is_cosmos:
            answer = {"_t": "OKMongoResponse", **answer, "$err": answer["errmsg"]}
        return encode(answer)

    def on_connect(self) -> None:
        """Count a connection that was opened."""
        counters = self.services.counters
        counters.connected += 1
        counters.connections += 1

    def on_disconnect(self, connection: ConnectionState) -> None:
        """Log out and count a connection that was closed."""
        self.services.counters.connected -= 1
        self.services.accounts.log_out(connection)

    async def _run_command(self, call: Call) -> bytes:
        services = self.services
        command = services.handlers.get(call.name)
        if command is None or (command.test_only and not services.options.test_commands):
            raise MqlError(59, f"no such command: '{call.name}'")
        services.require_right(call, right_of(call.name, call.body, command.right))
        services.counters.count(call.name, call.sequences)
        # Arguments are looked at only now: a client without the right learns nothing from their errors.
        check_api_version(call)
        check_concerns(call)
        if "lsid" in call.body:
            self._enter_session(call)
        # Sessions also end by other clients' commands, or by age. The next command of any client cleans up after them.
        if services.sessions.ended:
            await services.close_ended_sessions(call.now, call.connection.id)
        if len(services.transactions):
            await services.transactions.end_overdue_each_second()
        if len(services.snapshot_reads):
            services.snapshot_reads.end_overdue()
        if command.admin_only and call.database != "admin":
            raise MqlError(13, f"{call.name} may only be run against the admin database.")
        limit = 0 if "maxTimeMS" not in call.body else parse_time_limit(call)
        answering = (
            self._handle(call, command)
            if not services.failpoints.active
            else self._handle_with_fail_points(call, command)
        )
        try:
            answer = await (answering if not limit or command.handles_time_limit else run_within(limit, answering))
        finally:
            _account(services, call)
        if isinstance(answer, bytes):
            self._check_room(answer, command)
            return answer
        if "writeConcern" in call.body and command.right not in READ_RIGHTS and "writeConcernError" not in answer:
            unmet = write_concern_error(call)
            if unmet is not None:
                answer["writeConcernError"] = unmet
        if not answer:
            return _OK
        if "ok" not in answer:
            answer["ok"] = 1.0
        encoded = encode(answer)
        self._check_room(encoded, command)
        return encoded

    def _check_room(self, answer: bytes, command: CommandEntry) -> None:
        """Refuse a large answer while the server holds as many bytes for its clients as it may. Overloaded, Hangup."""
        if len(answer) <= SMALL_ANSWER or self.services.in_flight.may_hold(len(answer)):
            return
        if command.right not in READ_RIGHTS:
            # It has changed something, and any error would deny that.
            raise Hangup
        raise Overloaded("The server holds as many bytes for its clients as it may. Please retry later.")

    def _enter_session(self, call: Call) -> None:
        id = parse_session_id(call.body["lsid"], f"{call.name}.lsid")
        # Without a login there is no session: anyone could fill the table of sessions.
        if call.connection.user is not None or not self.services.options.auth:
            call.session = self.services.sessions.use(id, call.owner)

    def _handle(self, call: Call, command: CommandEntry) -> Coroutine[Any, Any, Document | bytes]:
        services = self.services if "comment" not in call.body else services_as_of(self.services, call)
        if "autocommit" in call.body or "startTransaction" in call.body:
            return perform_in_transaction(services, call, command.handler)
        if "readConcern" in call.body and reads_snapshot(call):
            return read_snapshot(services, call, command.handler)
        return command.handler(services, call)

    async def _handle_with_fail_points(self, call: Call, command: CommandEntry) -> Document | bytes:
        # The first hello of a connection names the application of that connection.
        named = call.body.get("client") if call.name in HELLO_NAMES else None
        application = application_of(named) if type(named) is dict else call.connection.application
        try:
            added = await self.services.failpoints.trigger(call.database, call.name, call.body, application)
        except ConnectionDropped:
            raise Hangup from None
        answer = await self._handle(call, command)
        return add_fields(answer, added) if added else answer


def _target_of(name: str, body: Document) -> str:
    """Return the database and the collection of a command, for the access log. Names of users are left out."""
    database = body.get("$db")
    if not isinstance(database, str):
        return ""
    collection = body.get("collection" if name == "getMore" else name) if name in _ON_COLLECTIONS else None
    return f"{database}.{collection}" if isinstance(collection, str) else database


def _account(services: Services, call: Call) -> None:
    """Log a command that was slow, and have its reads paid, also after an error."""
    if services.engine.slow_log.is_slow(call.started_monotonic):
        _note_slow(services, call)
    if call.name in PRICED:
        settle(services, call)


def _note_slow(services: Services, call: Call) -> None:
    units = 0.0 if call.spent is None else call.spent.total
    # A cursor or a `hello` that waits for something new is not slow.
    if call.name in _WAITING and not units:
        return
    collection = call.body.get(call.name)
    target = f"{call.database}.{collection}" if isinstance(collection, str) else call.database
    id = str(call.operation) if call.operation else call.connection.peer
    services.engine.slow_log.note(
        call.started_monotonic, "mongo", id, f"{call.name} {target}", f"{units:.2f} request units"
    )


def _split_message(message: Message) -> tuple[Document, dict[str, list[bytes]]]:
    """Decode the command, and leave its arrays of documents as bytes. Raise MqlError 22 for invalid BSON."""
    data, sequences = message.body, message.sequences
    # A mark may also occur within a value. `_extract_arrays` then finds no such element, and only time is lost.
    if _RAW_ARRAY.search(data) is not None:
        present = [mark for mark in RAW_ARRAYS if mark in data]
        data, sequences = _extract_arrays(data, dict(sequences), {RAW_ARRAYS[mark] for mark in present})
    else:
        raw.check_document_size(data)
    raw.check_depth(data)
    body = decode(data)
    if message.opcode == OP_QUERY:
        # Older drivers wrap the command, to send a read preference beside it.
        wrapped = next((body[name] for name in QUERY_WRAPPERS if next(iter(body), "") == name), None)
        body = wrapped if isinstance(wrapped, dict) else body
    return body, sequences


def _extract_arrays(
    data: bytes, sequences: dict[str, list[bytes]], names: set[bytes]
) -> tuple[bytes, dict[str, list[bytes]]]:
    extracted = []
    command = ""
    for element in raw.elements(data):
        command = command or element.name.decode("utf-8", "replace")
        if element.type != 0x04 or element.name not in names:
            continue
        name = element.name.decode()
        if name in sequences:
            raise MqlError(40413, f"BSON field '{command}.{name}' is a duplicate field")
        sequences[name] = raw.array_documents(data[element.value : element.end], f"{command}.{name}")
        extracted.append(element)
    return raw.remove_elements(data, extracted), sequences


def _database_of(message: Message, name: str, body: Document) -> str:
    if message.opcode != OP_QUERY:
        database = body.get("$db")
        if database is None:
            raise MqlError(40571, "OP_MSG requests require a $db argument")
        if not isinstance(database, str):
            raise type_mismatch(f"{name}.$db", type_name(database), "string")
        return database
    # Drivers send their first hello as OP_QUERY, before they know that the server speaks OP_MSG.
    if name not in HELLO_NAMES or not message.collection.endswith(".$cmd"):
        text = f"Unsupported OP_QUERY command: {name}. The client driver may require an upgrade."
        raise MqlError(352, text)
    return message.collection.partition(".")[0]
