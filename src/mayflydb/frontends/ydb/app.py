"""Calls of the YDB front end: the bytes of a request in, the bytes of its answer out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from random import Random  # noqa: TID251 - the type; what draws comes in from outside
from typing import Any, Final

import msgspec
from google.protobuf.message import DecodeError

from mayflydb.engine.access_log import EndedRequest
from mayflydb.engine.engine import Engine
from mayflydb.engine.slow_log import SlowLog
from mayflydb.frontends.ydb.accounts import DEFAULT_USER
from mayflydb.frontends.ydb.calls import GrpcCall, ServedPort, address_of
from mayflydb.frontends.ydb.commands.table import COMMANDS
from mayflydb.frontends.ydb.conversations import Requests
from mayflydb.frontends.ydb.errors import ANSWERED, LoginRequired, describe_error, internal_error
from mayflydb.frontends.ydb.methods import Method
from mayflydb.frontends.ydb.options import Options
from mayflydb.frontends.ydb.schemes.paths import join_path
from mayflydb.frontends.ydb.services import Handler, Services
from mayflydb.frontends.ydb.topics.faults import NodeStopping
from mayflydb.model.errors import drop_frames
from mayflydb.model.instant import Instant
from mayflydb.query.yql.faults import Status, fault

log = logging.getLogger(__name__)

SERVICES_WITHOUT_LOGIN = frozenset({"Ydb.Auth.V1.AuthService"})
"""Services that need no login."""

MAX_MESSAGE_BYTES: Final = 64 << 20
"""The size limit of a gRPC message in either direction, in bytes."""

SERVICES_WITHOUT_DATABASE = frozenset({"Ydb.Discovery.V1.DiscoveryService", *SERVICES_WITHOUT_LOGIN})
"""Services whose requests name their database themselves, or need none."""


class CallMetadata(msgspec.Struct):
    """The metadata of a request.

    `trace`: YDB's own id; `parent`: W3C's trace context. `remaining`: seconds until the client's deadline; None: no deadline.
    `user`: the one that the ticket stands for; None: it was not judged yet.
    """

    database: str = ""
    ticket: str | None = None
    trace: str = ""
    parent: str = ""
    peer: str = ""
    remaining: float | None = None
    served_port: ServedPort | None = None
    user: str | None = None


class _Named(msgspec.Struct, frozen=True):
    """The path that a stream is about, for the log."""

    path: str


class YdbApp:
    """Answers calls. One per server."""

    def __init__(
        self, engine: Engine, options: Options, chance: Random, handlers: Mapping[str, Handler] = COMMANDS
    ) -> None:
        """Build the services. `chance`: an unguessable source of ids."""
        self.services = Services(engine, options, chance)
        self.handlers = handlers
        self.stopping = False

    async def resume(self) -> None:
        """Resume the work that an earlier process left unfinished."""
        await self.services.resume()

    def stop(self) -> None:
        """Close all sessions and tell their clients that the node shuts down."""
        self.stopping = True
        self.services.sessions.close_all("node_shutdown")
        self.services.topics.stop()

    async def close(self) -> None:
        """Stop all background work."""
        await self.services.close()

    async def answer(self, method: Method, data: bytes, metadata: CallMetadata) -> bytes:
        """Return the response to a request. LoginRequired: the caller has to log in."""
        slow_log, call, request = self.services.engine.slow_log, None, None
        began, status = slow_log.stopwatch(), "SUCCESS"
        try:
            call, request = await self._parse_call(method, data, metadata)
            handler: Any = _get_handler(method)
            # A CancelledError comes from this limit or from gRPC, whose client has gone. Only the first becomes a
            # status.
            async with asyncio.timeout(None) as limit:
                timeout_status = _apply_timeouts(method, request, limit)
                try:
                    return _check_size(await handler(self.services, call, request))
                except asyncio.CancelledError:
                    if limit.expired():
                        raise fault(TIMEOUT_TEXTS[timeout_status], status=timeout_status) from None
                    raise
        except TimeoutError:
            status = "TIMEOUT"
            return method.refuse("TIMEOUT", fault(TIMEOUT_TEXTS["TIMEOUT"], status="TIMEOUT").issues)
        except ANSWERED as error:
            drop_frames(error)
            status, issues = describe_error(error)
            return method.refuse(status, issues)
        # The server ends the call with a status of gRPC instead of an answer.
        except LoginRequired:
            status = "UNAUTHORIZED"
            raise
        except Exception:
            # An exception that reached gRPC would become UNKNOWN: clients then drop the channel, and wait for up to a
            # minute.
            log.exception("a call was not answered: %s", method.name)
            status, issues = internal_error()
            return method.refuse(status, issues)
        finally:
            self._count(method, status, began, metadata, call, request)
            if call is not None and slow_log.is_slow(began):
                note_slow(slow_log, began, method.name, call)

    async def stream(self, method: Method, data: bytes, metadata: CallMetadata) -> AsyncIterator[bytes]:
        """Yield the messages that answer a request. Errors as in `answer`."""
        slow_log, call, request = self.services.engine.slow_log, None, None
        began, status = slow_log.stopwatch(), "SUCCESS"
        try:
            call, request = await self._parse_call(method, data, metadata)
            handler: Any = _get_handler(method)
            # If the client goes, the handler ends here and now, and frees its session and snapshot. Otherwise the
            # garbage collector would end it at some later time.
            async with aclosing(handler(self.services, call, request)) as messages:
                async for each in messages:
                    yield _check_size(each)
        except ANSWERED as error:
            drop_frames(error)
            status, issues = describe_error(error)
            yield method.refuse(status, issues)
        except LoginRequired:
            status = "UNAUTHORIZED"
            raise
        except Exception:
            log.exception("a stream was broken off: %s", method.name)
            status, issues = internal_error()
            yield method.refuse(status, issues)
        finally:
            self._count(method, status, began, metadata, call, request)
            # A stream without a query, such as that of a session, lasts as long as its client likes.
            if call is not None and call.row_counts and slow_log.is_slow(began):
                note_slow(slow_log, began, method.name, call)

    async def converse(self, method: Method, requests: Requests, metadata: CallMetadata) -> AsyncGenerator[bytes, None]:
        """Yield the messages that answer the requests of a stream. Errors as in `answer`, and NodeStopping."""
        call, status = None, "SUCCESS"
        began = self.services.engine.slow_log.stopwatch()
        try:
            call = await self._begin_call(method, metadata, 0)
            handler: Any = _get_handler(method)
            async with aclosing(handler(self.services, call, requests)) as messages:
                async for each in messages:
                    yield each
        except ANSWERED as error:
            drop_frames(error)
            status, issues = describe_error(error)
            yield method.refuse(status, issues)
        except LoginRequired:
            status = "UNAUTHORIZED"
            raise
        except NodeStopping:
            status = "UNAVAILABLE"
            raise
        except Exception:
            log.exception("a stream was broken off: %s", method.name)
            status, issues = internal_error()
            yield method.refuse(status, issues)
        finally:
            self._count(method, status, began, metadata, call, _Named(requests.target))

    def _count(
        self, method: Method, status: str, began: int, metadata: CallMetadata, call: GrpcCall | None, request: Any
    ) -> None:
        """Count a call that has ended, and note it in the access log."""
        engine, operation = self.services.engine, (method.service, method.method)
        engine.requests.count("ydb", operation, status, began)
        if engine.observer is not None:
            database = "" if call is None else call.database
            target, client = _target_of(database, call, request), address_of(metadata.peer)
            engine.observer.note(
                EndedRequest(
                    "ydb", metadata.trace, operation, target, status, None, began, client, database, metadata.parent
                )
            )

    async def admit(self, method: Method, metadata: CallMetadata) -> None:
        """Judge the ticket of a request before its message is taken. LoginRequired: the caller has to log in."""
        if self.services.accounts.login_required:
            metadata.user = await self._authenticate(method, metadata, await self.services.engine.now())

    async def _parse_call(self, method: Method, data: bytes, metadata: CallMetadata) -> tuple[GrpcCall, Any]:
        try:
            request = method.request.FromString(data)
        except DecodeError:
            raise fault("The request cannot be read.", status="BAD_REQUEST") from None
        return await self._begin_call(method, metadata, len(data)), request

    async def _begin_call(self, method: Method, metadata: CallMetadata, size: int) -> GrpcCall:
        # Read once: token, TTL and CurrentUtcTimestamp() of one call see the same instant.
        now = await self.services.engine.now()
        user = metadata.user
        if user is None:
            user = await self._authenticate(method, metadata, now)
        database = self._resolve_database(method, metadata.database)
        return GrpcCall(
            database,
            now,
            user,
            metadata.peer,
            metadata.trace,
            metadata.remaining,
            metadata.served_port,
            size,
        )

    def _resolve_database(self, method: Method, named: str) -> str:
        databases = self.services.options.databases
        if not named:
            return databases[0]
        path = join_path(named)
        # Clients do not retry SCHEME_ERROR, so a wrong database shows at once.
        if path not in databases and method.service not in SERVICES_WITHOUT_DATABASE:
            raise fault("Requested database not exists", status="SCHEME_ERROR", code=2003)
        return path

    async def _authenticate(self, method: Method, metadata: CallMetadata, now: Instant) -> str:
        if method.service in SERVICES_WITHOUT_LOGIN:
            return DEFAULT_USER
        return await self.services.accounts.authenticate(metadata.ticket, now)


def _target_of(database: str, call: GrpcCall | None, request: Any) -> str:
    """Return the path that a call names, else those of the tables of its queries, else the database."""
    named = getattr(request, "path", "") or getattr(request, "table", "")
    if not isinstance(named, str) or not named:
        tables = {} if call is None else dict.fromkeys(path for query in call.row_counts for path in query)
        named = ",".join(tables)
    if not named:
        return database
    return named if named.startswith("/") else f"{database}/{named}"


def note_slow(slow_log: SlowLog, began: int, method: str, call: GrpcCall) -> None:
    """Note a slow call with the number of rows that its queries have read."""
    rows = sum(counts.reads for query in call.row_counts for counts in query.values())
    slow_log.note(began, "ydb", call.trace or call.peer, f"{method} {call.database}", f"{rows} rows")


def _check_size(answer: bytes) -> bytes:
    """Return an answer. Faults: PRECONDITION_FAILED if the answer is larger than a message of gRPC.

    gRPC itself would break off such a message, and the client would repeat the call.
    """
    if len(answer) > MAX_MESSAGE_BYTES:
        text = f"Query result size limit exceeded. ({len(answer)} > {MAX_MESSAGE_BYTES})"
        raise fault(text, status="PRECONDITION_FAILED", code=2013)
    return answer


def _get_handler(method: Method) -> Handler:
    if method.handler is None:
        raise fault(f"{method.name.replace('/', '.')} is not supported", status="UNSUPPORTED")
    return method.handler


TIMEOUT_TEXTS: Final[dict[Status, str]] = {"TIMEOUT": "Operation timeout.", "CANCELLED": "Operation cancelled."}
"""The refusals of a call whose time is over."""


def _apply_timeouts(method: Method, request: Any, limit: asyncio.Timeout) -> Status:
    """Apply the timeouts of a request's `operation_params`.

    Return the status that the call ends with when the time is over.
    """
    if not (method.has_parameters and request.HasField("operation_params")):
        return "TIMEOUT"
    parameters = request.operation_params
    timeouts: list[tuple[float, Status]] = []
    if parameters.HasField("operation_timeout"):
        timeouts.append((parameters.operation_timeout.seconds + parameters.operation_timeout.nanos / 1e9, "TIMEOUT"))
    if parameters.HasField("cancel_after"):
        timeouts.append((parameters.cancel_after.seconds + parameters.cancel_after.nanos / 1e9, "CANCELLED"))
    # A duration of 0 sets no limit.
    timeouts = [each for each in timeouts if each[0] > 0]
    if not timeouts:
        return "TIMEOUT"
    seconds, status = min(timeouts)
    limit.reschedule(asyncio.get_running_loop().time() + seconds)
    return status
