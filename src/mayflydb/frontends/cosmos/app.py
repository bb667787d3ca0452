"""The HTTP handler of the front end: authorizes a request, finds its command, sends the answer, translates errors."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from functools import lru_cache
from itertools import count
from urllib.parse import unquote

from mayflydb.clock import wall_us
from mayflydb.engine.access_log import EndedRequest, Observer
from mayflydb.engine.engine import Engine
from mayflydb.engine.lifecycle.past_engine import engine_as_of
from mayflydb.engine.slow_log import SlowLog
from mayflydb.evaluation.stops import EvaluationStopped, TooManyEvaluations
from mayflydb.expiry.as_of import is_past, parse_as_of
from mayflydb.frontends.cosmos import auth, consistency, emulator_tokens, errors, resource_tokens
from mayflydb.frontends.cosmos.access import IndexDemand
from mayflydb.frontends.cosmos.binary_json.forms import PREAMBLE
from mayflydb.frontends.cosmos.binary_json.reader import to_text
from mayflydb.frontends.cosmos.calls import Account, CosmosCall, NameResolver
from mayflydb.frontends.cosmos.commands.table import Route, find_route, reads_items, with_triggers
from mayflydb.frontends.cosmos.commands.triggered import INCLUDE_HEADERS
from mayflydb.frontends.cosmos.direct import progress
from mayflydb.frontends.cosmos.direct.requests import SCHEME as DIRECT
from mayflydb.frontends.cosmos.entra.authorization import EntraAccess
from mayflydb.frontends.cosmos.entra.tokens import Principal
from mayflydb.frontends.cosmos.headers import (
    ACTIVITY_ID,
    AS_OF,
    AUTHORIZATION,
    CONSISTENCY_LEVEL,
    CONTENT_FORMAT,
    CONTENT_LOCATION,
    DATE,
    GATEWAY_VERSION,
    HOST,
    INDEXING_DIRECTIVE,
    MS_DATE,
    REQUEST_CHARGE,
    RETRY_AFTER_MS,
    SERVICE_VERSION,
    SUBSTATUS,
    TRACEPARENT,
    check_indexing_directive,
)
from mayflydb.frontends.cosmos.paths import parse, request_path
from mayflydb.frontends.cosmos.resource_tokens import TokenGrant
from mayflydb.frontends.cosmos.scripting.threads import ScriptThreads
from mayflydb.frontends.cosmos.views import ContainerView
from mayflydb.frontends.cosmos.wire import JSON, MAX_BODY, Request, Response
from mayflydb.http.messages import Request as HttpRequest
from mayflydb.http.messages import Response as HttpResponse
from mayflydb.model.errors import MayflyError, Unauthenticated, Unsupported, drop_frames
from mayflydb.model.instant import SECOND, Instant
from mayflydb.version import __version__

log = logging.getLogger(__name__)

SERVER = f"mayfly/{__version__}"
GATEWAY_HEADERS = [JSON, (GATEWAY_VERSION, b"version=2.14.0"), (SERVICE_VERSION, SERVER.encode())]

OPTION_HEADERS = frozenset({CONTENT_FORMAT, INDEXING_DIRECTIVE, *INCLUDE_HEADERS.values()})
"""Headers besides the consistency level that Mayfly may have to refuse, or that select another command."""


_CONTAINER = re.compile(rb"/(dbs/[^/]+(?:/colls/[^/]+)?)")
"""The database and the container of a path, by names or by ids of resources."""


class CosmosApp:
    """The HTTP handler of one account. `boot_id`: hexadecimal digits by which activity ids of processes differ."""

    def __init__(self, engine: Engine, account: Account, boot_id: bytes) -> None:
        self._engine = engine
        self._account = account
        self._level = account.consistency_level.encode()
        self._resolver = NameResolver(engine)
        self._demand = IndexDemand(engine, account.index_after)
        self._threads = ScriptThreads(engine.reads)
        # The form of a UUID of version 4, whose last 12 digits count the requests of this process.
        self._activity_prefix = b"%b-%b-4%b-8%b-" % (boot_id[:8], boot_id[8:12], boot_id[12:15], boot_id[15:18])
        self._request_numbers = count(1)
        self._entra = None if account.entra_policy is None else EntraAccess(account.entra_policy)
        self._advertised_address = lru_cache(maxsize=64)(self._resolve_address)

    async def __call__(self, http: HttpRequest) -> HttpResponse:
        requests = self._engine.requests
        began = requests.stopwatch()
        activity_id = http.headers.get(ACTIVITY_ID) or self._activity_prefix + b"%012x" % next(self._request_numbers)
        try:
            response = await self._handle(http, activity_id)
        except (EvaluationStopped, TooManyEvaluations) as stop:
            response = _build_refusal(errors.of_stop(stop), activity_id, http)
        except MayflyError as error:
            drop_frames(error)
            response = _build_refusal(error, activity_id, http)
        # A defect of the server. The log has the details; the client learns none.
        except Exception:
            log.exception("a request failed: %s", http.method)
            response = _build_refusal(MayflyError("An internal error occurred."), activity_id, http)
        requests.count("cosmos", http.operation, response.status, began)
        if (observer := self._engine.observer) is not None:
            _note_access(observer, http, activity_id, response, began)
        charge = (REQUEST_CHARGE, _format_charge(response.charge))
        if http.scheme == DIRECT:
            # The headers of all answers by HTTP, and the activity id, are no tokens.
            headers = [*response.headers, charge]
            if not progress.has_version(headers):
                headers += await progress.missing_headers(http, response, self._engine, self._resolver)
            return HttpResponse(response.status, response.body, headers, error=response.error)
        headers = [*GATEWAY_HEADERS, (ACTIVITY_ID, activity_id), *response.headers, charge]
        if response.status < 300:
            host = http.headers.get(HOST) or b"localhost"
            headers.append(
                (CONTENT_LOCATION, self._advertised_address(http.scheme, host) + request_path(http.path, http.query))
            )
        return HttpResponse(response.status, response.body, headers, error=response.error)

    async def _handle(self, http: HttpRequest, activity_id: bytes) -> Response:
        path = request_path(http.path, http.query)
        target = parse(path)
        request = Request(http, path, target, activity_id)
        # Authorized before the body is read: no body is taken from a client without a key.
        principal = self._verify_key(request) or await self._authorize_otherwise(request)
        if http.size or not http.ended:
            request.body = await http.read(MAX_BODY)
            if request.body.startswith(PREAMBLE):
                request.body = await to_text(request.body, MAX_BODY)
        route = find_route(request)
        http.operation = route.operation or route.handler.__name__
        headers = http.headers
        # A request that names the default level exactly or none, and no further option, skips these checks.
        if headers.get(CONSISTENCY_LEVEL, self._level) != self._level or not OPTION_HEADERS.isdisjoint(headers):
            _check_options(headers, self._account.consistency_level)
            route = with_triggers(route, headers)
        # Kinds of keys are checked here. The rights of a token depend on containers, so its check waits for the call,
        # which resolves names.
        if isinstance(principal, auth.KeyKind) and not principal.may_write:
            if route.writes:
                auth.check_write(principal, request.method, _decode_path(http))
            if route.issues_tokens:
                auth.check_token_issue(principal, request.method, _decode_path(http))
        # The instant is taken after the body has arrived, and once: a slow upload does not write with an old time.
        now = self._engine.time.steady_now() or await self._engine.now()
        call = CosmosCall(self._account, self._engine, self._resolver, self._demand, self._threads, request, now)
        if isinstance(principal, TokenGrant):
            await resource_tokens.authorize(principal, call, route.writes)
        elif isinstance(principal, Principal) and self._entra is not None:
            await self._entra.authorize(principal, call, route.handler)
        # After the authorization: a token is valid now, and not at the instant of the read.
        if AS_OF in headers and reads_items(route):
            _read_as_of(call, parse_as_of(headers[AS_OF].decode("latin-1")))
        slow_log = self._engine.slow_log
        began = slow_log.stopwatch()
        try:
            response = await route.handler(call)
        except MayflyError as error:
            # A refused request has cost reads, too.
            self._record_charge(call, route, _charge_of(error))
            raise
        finally:
            if slow_log.is_slow(began):
                _note_slow(slow_log, began, call)
        self._record_charge(call, route, response.charge)
        return response

    def _record_charge(self, call: CosmosCall, route: Route, charge: float) -> None:
        if route.operation is None or call.view is None:
            return
        self._engine.meter.charge(call.view.id, route.operation, charge)
        if call.spending is not None:
            call.spending.settle(charge)

    def _resolve_address(self, scheme: str, host: bytes) -> bytes:
        """Return the address that the account advertises to a client that connected by this one."""
        return self._account.resolve_address(f"{scheme}://{host.decode('latin-1')}").encode("latin-1")

    def _verify_key(self, request: Request) -> auth.KeyKind | None:
        """Return the kind of the key that signed a request in the usual form; None for any other request."""
        headers = request.headers
        sent = headers.get(AUTHORIZATION)
        if sent is None:
            raise Unauthenticated(
                "Required Header authorization is missing. Ensure a valid Authorization token is passed."
            )
        ms_date, date = headers.get(MS_DATE, b""), headers.get(DATE, b"")
        target = request.target
        kind = auth.verify_common(self._account.keys, sent, request.method, target.signed_links[0], ms_date, date)
        if kind is not None and self._account.check_date:
            self._check_date(ms_date or date)
        return kind

    async def _authorize_otherwise(self, request: Request) -> auth.KeyKind | TokenGrant | Principal:
        """Authorize a request whose signature is not of the usual form, or wrong."""
        headers = request.headers
        header = headers[AUTHORIZATION].decode("latin-1")
        if not header.startswith(auth.COMMON_PREFIX):
            if resource_tokens.is_resource_token(header):
                # A resource token expires by the clock of records, so its time is checked when the request has its `now`.
                return resource_tokens.unseal(self._account.keys, header)
            if emulator_tokens.is_entra_token(header):
                if self._entra is not None:
                    return await self._entra.authenticate(header, wall_us())
                principal = emulator_tokens.verify(self._account.keys, header, wall_us())
                emulator_tokens.check_permitted(request.target, request.method, unquote(request.path.decode("latin-1")))
                return principal
        ms_date, date = headers.get(MS_DATE, b""), headers.get(DATE, b"")
        if self._account.check_date:
            self._check_date(ms_date or date)
        dates = ms_date.decode("latin-1"), date.decode("latin-1")
        return auth.verify(self._account.keys, header, request.method, request.target.signed_links, *dates)

    def _check_date(self, sent: bytes) -> None:
        # The client's own clock wrote this date. It is compared with the host's clock, never with a virtual one.
        auth.check_request_date(sent.decode("latin-1"), wall_us() / SECOND)


def _read_as_of(call: CosmosCall, at: Instant) -> None:
    """Make an instant that of the reads of a call."""
    if is_past(at, call.now):
        call.engine = engine_as_of(call.engine, at, lambda node: ContainerView.index_keys)
        # The containers with the rules of then.
        call.resolver, call.view = NameResolver(call.engine), None
        call.threads = call.threads.over(call.engine.reads)
    call.now = at


@lru_cache(maxsize=1024)
def _format_charge(charge: float) -> bytes:
    return b"%.2f" % charge


def _check_options(headers: Mapping[bytes, bytes], level: str) -> None:
    """Raise BadRequest or Unsupported for an option that this account does not grant. `level`: its consistency level."""
    if (sent := headers.get(CONSISTENCY_LEVEL)) is not None:
        consistency.check_requested(sent, level)
    if headers.get(CONTENT_FORMAT, b"").lower() == b"hybridrow":
        raise Unsupported("Answers in HybridRow, other than results of batches, are not supported by Mayfly.")
    check_indexing_directive(headers.get(INDEXING_DIRECTIVE, b"default").decode("latin-1"))


def _note_slow(slow_log: SlowLog, began: int, call: CosmosCall) -> None:
    request, view = call.request, call.view
    # Ids of items are left out: they may be personal data.
    place = "" if view is None else f" dbs/{view.database}/colls/{view.node.name}"
    read = f"{call.reads.records} items of {call.reads.size} bytes"
    slow_log.note(began, "cosmos", request.activity_id.decode("latin-1"), f"{request.method}{place}", read)


def _note_access(observer: Observer, http: HttpRequest, activity_id: bytes, response: Response, began: int) -> None:
    client = "" if http.peer is None else http.peer.address
    place = _CONTAINER.match(http.path)
    # What lies behind the container is left out: ids of items may be personal data.
    target = "" if place is None else place[1].decode("latin-1")
    id = activity_id.decode("latin-1")
    parent = http.headers.get(TRACEPARENT, b"").decode("latin-1")
    status, charge = response.status, response.charge
    observer.note(EndedRequest("cosmos", id, http.operation, target, status, charge, began, client, parent=parent))


def _decode_path(http: HttpRequest) -> str:
    return unquote(http.path.decode("latin-1"))


def _build_refusal(error: MayflyError, activity_id: bytes, http: HttpRequest) -> Response:
    rendered = errors.render(error, activity_id.decode("latin-1"), _decode_path(http), SERVER)
    headers = list(error.detail.get("headers", ()))  # type: ignore[call-overload]
    if rendered.substatus:
        headers.append((SUBSTATUS, b"%d" % rendered.substatus))
    if rendered.retry_after_ms is not None:
        headers.append((RETRY_AFTER_MS, b"%d" % rendered.retry_after_ms))
    told = type(error)(errors.message_of(error), **error.detail)
    return Response(rendered.status, rendered.body, headers, _charge_of(error), told)


def _charge_of(error: MayflyError) -> float:
    charge = error.detail.get("charge", 0.0)
    return charge if isinstance(charge, float) else 0.0
