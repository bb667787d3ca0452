"""The gRPC server around the front end. Messages pass through as bytes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing
from typing import Any, Final

import grpc
import grpc.aio

from mayflydb.frontends.ydb.app import MAX_MESSAGE_BYTES, CallMetadata, YdbApp
from mayflydb.frontends.ydb.calls import ServedPort
from mayflydb.frontends.ydb.conversations import StreamRequests
from mayflydb.frontends.ydb.errors import LoginRequired
from mayflydb.frontends.ydb.intake import TOO_MANY_BYTES, CallEnded, Charge, Intake
from mayflydb.frontends.ydb.methods import SERVICES, Method, all_methods
from mayflydb.frontends.ydb.topics.faults import NodeStopping
from mayflydb.sockets.in_flight import BytesInFlight

GRPC_OPTIONS: Final = (
    # Clients ping every ten seconds while a stream is open. By default, gRPC counts these pings as abuse and closes the
    # connection after a minute.
    ("grpc.http2.min_ping_interval_without_data_ms", 1000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 1000),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.keepalive_permit_without_calls", 1),
    # Pings find connections whose client is gone, so that their streams end.
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    # The window of a stream follows the speed of the line by default, so that a call that is not asked for its message yet could
    # fill it with megabytes. A message that is asked for gets a window of its own size in any case.
    ("grpc.http2.bdp_probe", 0),
    # With port reuse, a second server could bind the same port and would get half of the connections.
    ("grpc.so_reuseport", 0),
)

SESSION_CLOSE_HINT: Final = (("x-ydb-server-hints", "session-close"),)
"""The metadata that makes a client replace its session."""

_DATABASE_KEY, _TICKET_KEY, _TRACE_KEY = "x-ydb-database", "x-ydb-auth-ticket", "x-ydb-trace-id"
_PARENT_KEY = "traceparent"


class GrpcServer:
    """One port. The port takes calls from `open` to `close`."""

    def __init__(
        self,
        app: YdbApp,
        served_port: ServedPort,
        in_flight: BytesInFlight | None = None,
        max_connections: int = 1_000,
        peers: Mapping[str, str] | None = None,
    ) -> None:
        """`in_flight`: the account of the process; by default one of this port's own. `max_connections`: more are closed.

        `peers`: the addresses of clients by those of the connections through which they are relayed. Calls on other connections
        are refused. None: clients connect by themselves.
        """
        self._app = app
        self._peers = peers
        self._served_port = served_port
        self._in_flight = in_flight or BytesInFlight()
        calls = app.services.engine.quotas.get("ydb_calls", app.services.options.max_calls)
        largest = min(MAX_MESSAGE_BYTES, self._in_flight.quota.limit)
        self._intake = Intake(self._in_flight, calls, largest)
        limits = (
            ("grpc.max_allowed_incoming_connections", max_connections),
            # gRPC refuses a larger message by its head, before any byte of it is held.
            ("grpc.max_receive_message_length", largest),
        )
        self._server = grpc.aio.server(options=GRPC_OPTIONS + limits)
        methods_by_service: dict[str, list[Method]] = {}
        for each in all_methods(app.handlers):
            methods_by_service.setdefault(each.service, []).append(each)
        # Handlers without serializers get and give the bytes of messages; `app` parses them with a descriptor pool of
        # its own.
        self._server.add_generic_rpc_handlers(
            tuple(
                grpc.method_handlers_generic_handler(name, self._rpc_handlers(methods_by_service[name]))
                for name in SERVICES
            )
        )

    def bind(
        self,
        address: str,
        pair: tuple[bytes, bytes] | None = None,
        renew: Callable[[], tuple[bytes, bytes]] | None = None,
    ) -> int:
        """Bind an address such as `127.0.0.1:2136`, and return the port.

        `pair`: private key and certificate chain, PEM. `renew`: gives the present pair, and is called on a thread of gRPC's for
        each connection. OSError if the address is taken.
        """
        try:
            if pair is None:
                bound = self._server.add_insecure_port(address)
            else:
                bound = self._server.add_secure_port(address, _credentials(pair, renew))
        except RuntimeError as error:
            raise OSError(str(error)) from error
        # gRPC tells of a taken port in two ways: by RuntimeError, and by 0 as the number of the bound port.
        if not bound:
            raise OSError(f"{address} cannot be listened on")
        port: int = bound
        return port

    async def open(self) -> None:
        """Start to take calls."""
        await self._server.start()

    async def close(self, grace: float) -> None:
        """Refuse new calls, and let running calls finish within `grace` seconds."""
        await self._server.stop(grace)

    def _rpc_handlers(self, methods: Iterable[Method]) -> dict[str, Any]:
        return {each.method: self._rpc_handler(each) for each in methods}

    def _rpc_handler(self, method: Method) -> Any:
        # All take a stream of requests, also where clients send one: gRPC would collect a single request before the handler is
        # called, and judge nothing.
        if method.converses:
            return grpc.stream_stream_rpc_method_handler(self._conversation_handler(method))
        if method.streams_requests or method.streams_responses:
            return grpc.stream_stream_rpc_method_handler(self._stream_handler(method))
        return grpc.stream_unary_rpc_method_handler(self._unary_handler(method))

    def _unary_handler(self, method: Method) -> Callable[[Any, Any], Any]:
        app, intake = self._app, self._intake

        async def handle(_: Any, context: Any) -> bytes:
            await intake.enter(context)
            charge = Charge(self._in_flight)
            try:
                metadata = self._metadata_of(context)
                await app.admit(method, metadata)
                data = await intake.read(context, charge)
                answer = await app.answer(method, data, metadata)
                await intake.check_answer(context, len(answer))
            except LoginRequired as denied:
                # `abort` raises; the `raise` below shows readers and type checkers that the function ends here.
                await context.abort(grpc.StatusCode.UNAUTHENTICATED, str(denied))
                raise
            except CallEnded:
                return b""
            finally:
                charge.set(0)
                intake.leave()
            if app.stopping:
                # Sessions of the table service have no stream that could announce the shutdown, so each answer does.
                context.set_trailing_metadata(SESSION_CLOSE_HINT)
            return answer

        return handle

    def _stream_handler(self, method: Method) -> Callable[[Any, Any], Any]:
        """Return the handler of a method whose answer is a stream.

        Of a stream of requests without a handler the first one gets the refusal, and is the only one that is read.
        """
        app, intake = self._app, self._intake

        async def handle(_: Any, context: Any) -> AsyncIterator[bytes]:
            await intake.enter(context)
            charge = Charge(self._in_flight)
            try:
                metadata = self._metadata_of(context)
                await app.admit(method, metadata)
                data = await intake.read(context, charge)
                # gRPC asks for the next message when the transport has room for it (flow control of HTTP/2). So a slow
                # client slows its query down, and does not fill the memory.
                async for each in app.stream(method, data, metadata):
                    if not charge.take_answer(len(each)):
                        await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, TOO_MANY_BYTES)
                    yield each
            except LoginRequired as denied:
                await context.abort(grpc.StatusCode.UNAUTHENTICATED, str(denied))
            except CallEnded:
                return
            finally:
                charge.set(0)
                intake.leave()

        return handle

    def _conversation_handler(self, method: Method) -> Callable[[Any, Any], Any]:
        """Return the handler of a method whose requests and answers are streams."""
        app, intake = self._app, self._intake

        async def handle(_: Any, context: Any) -> AsyncIterator[bytes]:
            await intake.enter(context)
            charge, requests = Charge(self._in_flight), None
            try:
                metadata = self._metadata_of(context)
                await app.admit(method, metadata)
                requests = StreamRequests(context, self._in_flight, method.request)
                async with aclosing(app.converse(method, requests, metadata)) as messages:
                    async for each in messages:
                        if not charge.take_answer(len(each)):
                            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, TOO_MANY_BYTES)
                        yield each
            except LoginRequired as denied:
                await context.abort(grpc.StatusCode.UNAUTHENTICATED, str(denied))
            except NodeStopping:
                await context.abort(grpc.StatusCode.UNAVAILABLE, "The node is shutting down")
            finally:
                if requests is not None:
                    await requests.close()
                charge.set(0)
                intake.leave()

        return handle

    def _metadata_of(self, context: Any) -> CallMetadata:
        # gRPC does not show handlers the name that the client dialed (`:authority`). The port is known all the same, since
        # each port has a server of its own.
        peer = context.peer()
        if self._peers is not None:
            if peer not in self._peers:
                raise LoginRequired("This port serves the connections of another one.")
            peer = self._peers[peer]
        metadata = CallMetadata(peer=peer, remaining=context.time_remaining(), served_port=self._served_port)
        for key, value in context.invocation_metadata():
            if key == _DATABASE_KEY:
                metadata.database = value
            elif key == _TICKET_KEY:
                metadata.ticket = value
            elif key == _TRACE_KEY:
                metadata.trace = value
            elif key == _PARENT_KEY and isinstance(value, str):
                metadata.parent = value
        return metadata


def _credentials(pair: tuple[bytes, bytes], renew: Callable[[], tuple[bytes, bytes]] | None) -> Any:
    if renew is None:
        return grpc.ssl_server_credentials([pair])
    served = [pair]

    def fetch() -> Any:
        present = renew()
        if present == served[0]:
            return None
        served[0] = present
        return grpc.ssl_server_certificate_configuration([present])

    return grpc.dynamic_ssl_server_credentials(grpc.ssl_server_certificate_configuration([pair]), fetch)
