"""The HTTP side of the admin API: a Starlette route for each operation, and errors as problem documents."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from mayflydb.admin.events import Follow
from mayflydb.admin.export_records import RecordExport
from mayflydb.admin.import_records import FORMS, JSON_LINES, RecordImport
from mayflydb.admin.openapi import EVENT_STREAM, OCTETS, PEM, describe
from mayflydb.admin.operation import Operation
from mayflydb.admin.operations import Admin
from mayflydb.admin.problems import CONTENT_TYPE, problem, problem_of
from mayflydb.admin.requests import ExportPage, ImportFile
from mayflydb.admin.snapshots import SnapshotControl
from mayflydb.http.asgi import Streamed
from mayflydb.model.errors import BadRequest, MayflyError, TooLarge

T = TypeVar("T", bound=msgspec.Struct)

Endpoint = Callable[[Request], Awaitable[Response]]

EXPORT = "data/export"

MAX_RECORDS_BODY = 512 * 1024
MAX_OBJECTS = 10_000
"""Limits of records in one JSON document, nested objects included: finding the records takes 2 ms."""


def admin_routes(admin: Admin) -> list[BaseRoute]:
    """Return a route for each operation, `info`, the description, and the certificate, also where Cosmos DB's emulator has it."""

    described: list[bytes] = []

    async def info(request: Request) -> Response:
        _no_query(request)
        return _json(admin.info(f"{request.scope['scheme']}://{request.headers['host']}"))

    async def events(request: Request) -> Streamed:
        wanted = _convert(request, Follow)
        stream = await admin.events.open(wanted, request.headers.get("last-event-id"))
        headers = ((b"content-type", EVENT_STREAM.encode()), (b"cache-control", b"no-store"))
        return Streamed(200, headers, stream)

    async def openapi(request: Request) -> Response:
        _no_query(request)
        # Off the event loop, and once: it takes some milliseconds.
        if not described:
            described.append(await asyncio.to_thread(lambda: msgspec.json.encode(describe(admin.operations()))))
        return Response(described[0], media_type="application/json")

    async def certificate(request: Request) -> Response:
        return Response(await admin.ca_pem(), media_type=PEM)

    files = SnapshotFiles(admin.snapshots)

    def endpoint_of(operation: Operation) -> Endpoint:
        endpoint = _endpoint(operation)
        if operation.path == EXPORT:
            return _export_endpoint(admin.exports, endpoint)
        return _import_endpoint(admin.imports, endpoint) if operation.file is not None else endpoint

    return [
        *(
            Route(
                f"/_mayfly/{operation.path}",
                _choose(_endpoint(operation), files.upload) if operation.uploads else endpoint_of(operation),
                methods=[operation.method],
            )
            for operation in admin.operations()
        ),
        Route("/_mayfly/snapshots/{name}", files.download),
        Route("/_mayfly/events", events),
        Route("/_mayfly/info", info),
        Route("/_mayfly/openapi.json", openapi),
        Route("/_mayfly/cert", certificate),
        Route("/_explorer/emulator.pem", certificate),
    ]


class SnapshotFiles:
    """Endpoints for snapshots as files."""

    def __init__(self, snapshots: SnapshotControl) -> None:
        self._snapshots = snapshots

    async def download(self, request: Request) -> Streamed:
        """Send a snapshot."""
        _no_query(request)
        name = request.path_params["name"]
        headers = (
            (b"content-type", OCTETS.encode()),
            (b"content-disposition", f'attachment; filename="{name}.snapshot"'.encode()),
            (b"cache-control", b"no-store"),
        )
        return Streamed(200, headers, await self._snapshots.download(name))

    async def upload(self, request: Request) -> Response:
        """Take one."""
        _no_query(request)
        size = int(request.headers.get("content-length", 0))
        return _json(await self._snapshots.upload(request.path_params["name"], request.stream(), size))


def error_handlers() -> dict[Any, Any]:
    """Return Starlette's handlers of exceptions. They answer with problem documents."""
    return {MayflyError: _answer_failure, HTTPException: _answer_refusal, Exception: _answer_bug}


def _endpoint(operation: Operation) -> Endpoint:
    decode = msgspec.json.Decoder(operation.parameters).decode

    async def from_body(request: Request) -> Response:
        _no_query(request)
        body = await request.body()
        if request.path_params:
            _no_body(body)
            return await answer(lambda: msgspec.convert(request.path_params, operation.parameters))
        return await answer(lambda: decode(body or b"{}"))

    # A query has text alone, so numbers are converted here (strict=False), and only here.
    async def from_query(request: Request) -> Response:
        if operation.method != "GET":
            _no_body(await request.body())
        query = dict(request.query_params)
        for name in request.path_params.keys() & query:
            raise BadRequest(f"{name} is in the path")
        query |= request.path_params
        return await answer(lambda: msgspec.convert(query, operation.parameters, strict=False))

    async def answer(parse: Callable[[], msgspec.Struct]) -> Response:
        try:
            taken = parse()
        except (msgspec.DecodeError, RecursionError) as error:
            raise BadRequest(str(error)) from error
        return _json(await operation.handler(taken))

    return from_body if operation.method == "POST" else from_query


def is_upload(content_type: str) -> bool:
    """Return whether a request of this type has the bytes of a file as its body."""
    return content_kind(content_type) == OCTETS


def _choose(endpoint: Endpoint, upload: Endpoint) -> Endpoint:
    """Return an endpoint that gives bytes of a file, which may be many, to `upload`."""

    async def answer(request: Request) -> Response:
        return await (upload if is_upload(request.headers.get("content-type", "")) else endpoint)(request)

    return answer


def content_kind(content_type: str) -> str:
    """Return a content type without its parameters."""
    return content_type.partition(";")[0].strip().lower()


def _import_endpoint(imports: RecordImport, endpoint: Endpoint) -> Endpoint:
    """Return an endpoint that takes files of records as they arrive, and small requests in JSON."""

    async def answer(request: Request) -> Response:
        kind = content_kind(request.headers.get("content-type", ""))
        if kind in FORMS:
            wanted = _convert(request, ImportFile)
            return _json(await imports.write_file(wanted, kind, request.stream()))
        body = await request.body()
        # The places of the records are found in one go, and each record takes its time.
        if len(body) > MAX_RECORDS_BODY or body.count(b"}") > MAX_OBJECTS:
            raise TooLarge(
                f"records in JSON have at most {MAX_RECORDS_BODY >> 10} KiB and {MAX_OBJECTS} objects",
                hint=f"send a line for each record, as {FORMS[0]}",
            )
        return await endpoint(request)

    return answer


def _export_endpoint(exports: RecordExport, endpoint: Endpoint) -> Endpoint:
    """Return an endpoint that sends a page, or a line of each record to a client that accepts them."""

    async def answer(request: Request) -> Response | Streamed:
        if content_kind(request.headers.get("accept", "")) != JSON_LINES:
            return await endpoint(request)
        headers = ((b"content-type", JSON_LINES.encode()), (b"cache-control", b"no-store"))
        return Streamed(200, headers, await exports.open_lines(_convert(request, ExportPage)))

    return answer  # type: ignore[return-value]  # Starlette calls either with the request's scope.


def _no_body(body: bytes) -> None:
    if body not in (b"", b"{}"):
        raise BadRequest("there are no parameters in a body here", hint=f"bytes of a snapshot are {OCTETS}")


def _convert(request: Request, kind: type[T]) -> T:
    """Return the query as parameters. BadRequest for one that does not fit."""
    try:
        return msgspec.convert(dict(request.query_params), kind, strict=False)
    except msgspec.ValidationError as error:
        raise BadRequest(str(error)) from error


def _no_query(request: Request) -> None:
    for name in request.query_params:
        raise BadRequest(f"there is no query parameter {name} here")


def _json(document: Any) -> Response:
    return Response(msgspec.json.encode(document), media_type="application/json")


async def _answer_failure(request: Request, error: Exception) -> Response:
    assert isinstance(error, MayflyError)
    status, document = problem_of(error)
    return Response(document, status, media_type=CONTENT_TYPE)


async def _answer_refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail = f"{request.method} {request.url.path}"
    document = problem(error.status_code, error.detail, detail, "the admin API is described in the documentation")
    return Response(document, error.status_code, dict(error.headers or {}), CONTENT_TYPE)


async def _answer_bug(request: Request, error: Exception) -> Response:
    # Starlette raises it again afterwards, so that the listener logs it.
    return Response(problem(500, "Internal error", "the log says more"), 500, media_type=CONTENT_TYPE)
