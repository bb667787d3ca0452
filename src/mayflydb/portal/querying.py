"""The page on which a person runs queries. A protocol's package brings the runner; results, paging and export are shared."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from mayflydb.model.errors import BadRequest, MayflyError, TooLarge
from mayflydb.portal import exports, results
from mayflydb.portal.forms import describe_error, parse_whole_number, read_form
from mayflydb.portal.presence import FILE_SECONDS, ClientLeft, run_while_present
from mayflydb.portal.shell import HEADERS, Shell, json_response

SECONDS: Final = 30
"""The time of one page of a query."""

LIMITS: Final = (25, 100, 500, 1000)
"""Rows of a page, as the page offers them."""

EXPORT_PAGE: Final = 1000
EXPORT_ROWS: Final = 100_000
EXPORT_BYTES: Final = 16 * 1024 * 1024
MAX_TRAIL: Final = 100
"""Pages over which a person can go back."""


class QueryOption(msgspec.Struct, frozen=True):
    """A choice of the page. `choices`: (value, label) of each; empty: a box to tick, whose value is `on`."""

    name: str
    label: str
    choices: Sequence[tuple[str, str]] = ()
    default: str = ""


class QueryPlace(msgspec.Struct, frozen=True):
    """The page of one database or container. `start`: the first text; `crumbs`: (label, address) of what stands above it.

    `language`: that of the editor (sql, yql, json, javascript). `examples`: (label, text).
    """

    address: str
    crumbs: Sequence[tuple[str, str]]
    language: str
    start: str
    label: str = "Query"
    options: Sequence[QueryOption] = ()
    examples: Sequence[tuple[str, str]] = ()
    hint: str = ""


class QueryRequest(msgspec.Struct, frozen=True):
    """A page of a query that is asked for. `continuation`: from the page before it; empty for the first.

    `limit`: most rows. `exports`: the rows are wanted for a file, so a text that changes data has to be refused.
    """

    text: str
    options: Mapping[str, str] = msgspec.field(default_factory=dict)
    continuation: str = ""
    limit: int = 100
    exports: bool = False


class QueryNote(msgspec.Struct, frozen=True):
    """A further part of an answer, on a tab of its own: index metrics, a plan."""

    title: str
    text: str


class QueryAnswer(msgspec.Struct, frozen=True):
    """A page of a query. `rows` are JSON values; `columns` are empty if the rows are objects and tell them.

    `continuation`: where the next page begins; empty after the last. `links`: the address of the record of each row, or empty.
    `done`: what a text without results has done; empty where there are results.
    """

    rows: Sequence[Any]
    stats: Sequence[tuple[str, str]] = ()
    continuation: str = ""
    columns: Sequence[str] = ()
    links: Sequence[str] = ()
    notes: Sequence[QueryNote] = ()
    done: str = ""


class QueryRunner(Protocol):
    """Runs queries through the front end of a protocol."""

    async def run(self, request: QueryRequest) -> QueryAnswer:
        """Return a page. A MayflyError otherwise; a BadQuery has `code`, `start` and `end` (characters of the text).

        It is cancelled when the client leaves or the time is up, and ends the query in the front end then.
        """
        ...


class Ran(msgspec.Struct, frozen=True):
    """The query that a page shows. `trail`: the continuation of each page up to this one, the first page's excepted.

    `offset`: the place of a selection in the whole text.
    """

    text: str
    options: Mapping[str, str] = msgspec.field(default_factory=dict)
    limit: int = LIMITS[1]
    trail: Sequence[str] = ()
    offset: int = 0


class QueryPage:
    """Shows the form, runs what is submitted, and shows rows or errors below it."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._exporting = asyncio.Semaphore(1)

    async def show(self, request: Request, place: QueryPlace) -> Response:
        """Show the form before any query. `query` of the address fills it."""
        text = request.query_params.get("query", place.start)
        defaults = {option.name: option.default for option in place.options}
        return await self._render(request, place, text, Ran("", defaults), None)

    async def show_json(self, place: QueryPlace) -> Response:
        """The same as JSON."""
        return json_response(place)

    async def submit(self, request: Request, place: QueryPlace, runner: QueryRunner) -> Response:
        """Run the query of the form, go to another of its pages, or send its rows as a file."""
        sent = await read_form(request)
        # Browsers send lines ended as in files of Windows. Errors count characters of the text that a person sees.
        text = sent.get("query", "").replace("\r\n", "\n")
        ran = _read_wanted(place, sent, text)
        try:
            if (form := exports.FORMS.get(sent.get("action", ""))) is not None:
                return await self._send_file(request, runner, ran, form, "query")
            asked = QueryRequest(ran.text, ran.options, ran.trail[-1] if ran.trail else "", ran.limit)
            answer = await run_while_present(request, runner.run(asked), SECONDS, "The query")
        except ClientLeft:
            return Response(status_code=204)
        except MayflyError as error:
            fault = results.locate(error, ran.text, text, ran.offset)
            return await self._render(request, place, text, ran, None, fault, describe_error(error)[1])
        return await self._render(request, place, text, ran, answer)

    async def export(self, request: Request, runner: QueryRunner, text: str, name: str) -> Response:
        """Send all rows of a query as a file. `form` of the address: jsonl or csv; `name`: of the file, without its suffix."""
        form = exports.FORMS.get(f"export-{request.query_params.get('form', 'jsonl')}")
        if form is None:
            raise BadRequest("form is jsonl or csv")
        try:
            return await self._send_file(request, runner, Ran(text), form, name)
        except ClientLeft:
            return Response(status_code=204)

    async def _send_file(
        self, request: Request, runner: QueryRunner, ran: Ran, form: exports.FileForm, name: str
    ) -> Response:
        rows, columns = await run_while_present(request, self._export(runner, ran), FILE_SECONDS, "The query")
        content = await asyncio.to_thread(form.encode, rows, columns)
        return Response(content, headers=HEADERS | exports.disposition(f"{name}.{form.suffix}"), media_type=form.kind)

    async def _export(self, runner: QueryRunner, ran: Ran) -> tuple[list[Any], Sequence[str]]:
        """Return all rows of a query, and its columns. TooLarge if they are more than a file may have."""
        rows: list[Any] = []
        size, continuation, columns = 0, "", ()  # type: tuple[int, str, Sequence[str]]
        async with self._exporting:
            while True:
                answer = await runner.run(QueryRequest(ran.text, ran.options, continuation, EXPORT_PAGE, exports=True))
                size += await asyncio.to_thread(exports.measure, answer.rows)
                rows += answer.rows
                columns, continuation = columns or answer.columns, answer.continuation
                if len(rows) > EXPORT_ROWS or size > EXPORT_BYTES:
                    raise TooLarge(
                        f"The result has more than {EXPORT_ROWS:,} rows or {EXPORT_BYTES // 2**20} MiB, so there is no file of "
                        "it. Export parts of it, or all data by `mayfly data export`."
                    )
                if not continuation:
                    return rows, columns

    async def _render(
        self,
        request: Request,
        place: QueryPlace,
        text: str,
        ran: Ran,
        answer: QueryAnswer | None,
        fault: results.Fault | None = None,
        status: int = 200,
    ) -> Response:
        shown, said = None, "" if fault is None else fault.message
        if answer is not None:
            shown = await asyncio.to_thread(results.describe, answer.rows, answer.columns, answer.links)
            said = f"{len(answer.rows):,} {'row' if len(answer.rows) == 1 else 'rows'}"
        content = {
            "place": place,
            "text": text,
            "ran": ran,
            "kept": msgspec.json.encode(msgspec.structs.replace(ran, trail=())).decode("utf-8", "replace"),
            "limits": LIMITS,
            "answer": answer,
            "shown": shown,
            "fault": fault,
            "page": len(ran.trail) + 1,
            "back": _encode_trail(ran.trail[:-1]) if ran.trail else None,
            "forward": _encode_trail([*ran.trail, answer.continuation]) if answer and answer.continuation else None,
        }
        return await self._shell.page(request, "query.html", content, status, said, large=True)


def _read_wanted(place: QueryPlace, sent: Mapping[str, str], text: str) -> Ran:
    """Return the query that a form asks for. A form that turns pages names the query that is shown."""
    if sent.get("action", "execute") == "execute" and "turn" not in sent:
        options = {option.name: sent.get(option.name, "") for option in place.options}
        limit = parse_whole_number(sent.get("limit", ""))
        limit = limit if limit in LIMITS else LIMITS[1]
        selection = sent.get("selection", "").replace("\r\n", "\n")
        # A selection that is not part of the text was made before the text changed.
        if selection.strip() and selection in text:
            offset = parse_whole_number(sent.get("selected_at", ""))
            return Ran(selection, options, limit, (), offset if text.startswith(selection, offset) else 0)
        return Ran(text, options, limit)
    try:
        ran = msgspec.json.decode(sent.get("ran", ""), type=Ran)
        trail = msgspec.json.decode(sent.get("turn", "[]"), type=list[str])
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeEncodeError):
        raise BadRequest("The form names no query that was run.") from None
    return msgspec.structs.replace(ran, trail=trail[-MAX_TRAIL:], limit=min(max(ran.limit, 1), LIMITS[-1]))


def _encode_trail(trail: Sequence[str]) -> str:
    return msgspec.json.encode(list(trail)).decode("utf-8", "replace")
