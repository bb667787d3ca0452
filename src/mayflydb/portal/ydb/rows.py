"""A table of YDB: its rows, and the form of its TTL settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
from starlette.responses import RedirectResponse, Response

from mayflydb.admin.operations import Admin
from mayflydb.admin.wires import Ydb
from mayflydb.engine.proposals import Change
from mayflydb.model.durations import format_span, parse_span
from mayflydb.model.errors import BadRequest, MayflyError
from mayflydb.model.instant import SECOND
from mayflydb.portal import forms
from mayflydb.portal.as_of import FIELD, read_as_of, render_as_of
from mayflydb.portal.forms import Outcome, describe_error
from mayflydb.portal.records import NOTHING, RecordsPage
from mayflydb.portal.shell import Shell, Visit, json_response, keep_message
from mayflydb.portal.ydb.row_grid import read_grid, read_lives, read_records
from mayflydb.portal.ydb.table import RowTable

UNITS = ("SECONDS", "MILLISECONDS", "MICROSECONDS", "NANOSECONDS")
CHANGED_MEANWHILE = "The TTL settings were changed after this page was loaded, so nothing was saved."


class Fields(msgspec.Struct, frozen=True):
    """The fields of the form, as text. `seen`: the settings when the form was loaded; `agreed`: the answered question."""

    status: str = "disabled"
    column: str = ""
    unit: str = UNITS[0]
    lifetime: str = ""
    seen: str = ""
    agreed: str = ""


class RowsPage(RecordsPage):
    """The page of a table. A change that would expire rows at once takes a second click."""

    def __init__(self, admin: Admin, shell: Shell, ydb: Ydb | None) -> None:
        super().__init__(admin, shell, "rows")
        self._ydb = ydb

    async def show(self, visit: Visit) -> Response:
        """Show the table as it is stored, or its rows as of another instant."""
        if self._ydb is not None and visit.request.query_params.get(FIELD, "").strip():
            view, status = await read_grid(self._admin, self._ydb, visit)
            problem = "" if view.filter is None else view.filter.problem
            return await render_as_of(self._shell, visit, view, f"{visit.address}/export", problem, status)
        return await self._render(visit, None, Outcome())

    async def show_json(self, visit: Visit) -> Response:
        """The same as JSON. `after` of the answer is the `at` of the next page where rows are filtered or sorted."""
        query, at = visit.request.query_params, read_as_of(visit.request)
        if self._ydb is not None and at is not None:
            return json_response(await read_lives(self._admin, self._ydb, visit, at))
        if self._ydb is None or not (query.keys() & {"filter", "sort", "at"}):
            return await super().show_json(visit)
        page = await read_records(self._admin, RowTable(self._ydb, visit.container), visit)
        return json_response(await self._read_page(visit, page))

    async def submit(self, visit: Visit, sent: Mapping[str, str]) -> Response:
        """Preview or save the submitted form."""
        wanted = msgspec.convert({name: sent[name] for name in Fields.__struct_fields__ if name in sent}, Fields)
        if sent.get("action", "save") == "preview":
            return await self._render(visit, wanted, Outcome())
        settings = visit.container.front_end.ttl_settings(visit.database, visit.container.node)
        loaded = _stored_fields(settings)
        # A table has no ETag. The form carries the settings that it was loaded with instead.
        if wanted.seen != loaded.seen:
            return await self._render(visit, wanted, Outcome([CHANGED_MEANWHILE], 412))
        try:
            if (said := _ttl_as_text(settings, wanted)) != loaded.seen:
                change = _requested_change(settings, wanted)
                expiring: int = (await self._admin.reports.preview(visit.container.target, change))["expire_now"]
                if expiring and not forms.is_agreed(wanted.agreed, said, expiring):
                    return await self._render(visit, wanted, Outcome(asked=expiring))
                await self._admin.reports.set_ttl(visit.container.target, change)
        except MayflyError as error:
            text, status = describe_error(error)
            return await self._render(visit, wanted, Outcome([text], status))
        news = "There was nothing to save" if said == loaded.seen else "TTL settings saved"
        return keep_message(RedirectResponse(f"{visit.address}/rows", 303), news)

    async def _render(self, visit: Visit, sent: Fields | None, outcome: Outcome) -> Response:
        found = await self._read_page(visit, None if self._ydb is None else NOTHING)
        loaded = _stored_fields(found["collection"])
        fields, errors = sent or loaded, list(outcome.errors)
        preview, said = None, loaded.seen
        try:
            said = _ttl_as_text(found["collection"], fields)
            if said or loaded.seen:
                preview = await self._admin.reports.preview(
                    visit.container.target, _requested_change(found["collection"], fields)
                )
        except MayflyError as error:
            errors = errors or [error.message]
        content = {
            **self._content(visit, found),
            "fields": fields,
            "units": UNITS,
            "preview": preview,
            "is_changed": said != loaded.seen,
            "errors": errors,
            "asked": outcome.asked,
            "agreed": forms.format_question(said, outcome.asked) if outcome.asked else "",
            # Without the front end there are the keys and deadlines of the store alone.
            "view": None if self._ydb is None else (await read_grid(self._admin, self._ydb, visit))[0],
            "export": urlencode({"filter": visit.request.query_params.get("filter", "")}),
            "root": f"/_explorer/ydb{quote(visit.database)}",
        }
        return await self._shell.page(visit.request, "ydb/rows.html", content, outcome.status, " ".join(errors))


def _stored_fields(settings: Mapping[str, Any]) -> Fields:
    if not settings["indexes"]:
        return Fields()
    (ttl,) = settings["indexes"]
    unit = ttl.get("unit", UNITS[0])
    lifetime = format_span(ttl["expire_after_seconds"] * SECOND)
    fields = Fields("enabled", ttl["name"], unit, lifetime)
    return msgspec.structs.replace(fields, seen=_ttl_as_text(settings, fields))


def _ttl_as_text(settings: Mapping[str, Any], fields: Fields) -> str:
    """Return the settings of the form as one text, to compare and to sign a question with; empty: no TTL. BadRequest."""
    if fields.status == "disabled":
        return ""
    change = _requested_change(settings, fields)
    return f"{change.seconds} {change.unit or '-'} {change.field}"


def _requested_change(settings: Mapping[str, Any], fields: Fields) -> Change:
    """Return the change that the form asks for. BadRequest with a sentence about the wrong field."""
    if fields.status == "disabled":
        return Change(None)
    if fields.status != "enabled":
        raise BadRequest("Status is Enabled or Disabled.")
    if fields.column not in settings["fitting"]:
        raise BadRequest("Choose the column that says when rows go.")
    try:
        seconds, rest = divmod(parse_span(fields.lifetime), SECOND)
    except ValueError as error:
        raise BadRequest(f"Lifetime: {error}") from None
    if rest or seconds < 0:
        raise BadRequest("Lifetime is a whole number of seconds, such as 90, 1h30m or PT1H.")
    return Change(seconds, field=fields.column, unit=fields.unit if settings["fitting"][fields.column] else None)
