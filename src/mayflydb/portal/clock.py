"""The clock: its time in large, forms that move it, what expires next, and the way back by a snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from mayflydb.admin.operations import Admin
from mayflydb.admin.requests import DueList, parse_duration, parse_moment
from mayflydb.admin.snapshots import BEFORE_ADVANCE
from mayflydb.engine.timekeeper import Verdict
from mayflydb.model.errors import BadRequest, MayflyError
from mayflydb.model.instant import SECOND
from mayflydb.portal import words
from mayflydb.portal.forms import describe_error, parse_moment_field, read_form
from mayflydb.portal.shell import Shell, json_response, keep_message

STEPS: Final = {"+1 min": "1m", "+1 h": "1h", "+1 day": "1d"}
VERDICTS: Final[Mapping[str, Verdict]] = {"accept": "accept", "reject": "reject"}
AHEAD: Final = 20
"""Expiries that the page lists."""

PLACE: Final = "/_explorer/clock"


class ClockPage:
    """The page, and the buttons that all pages have."""

    def __init__(self, admin: Admin, shell: Shell) -> None:
        self._admin = admin
        self._shell = shell

    async def show(self, request: Request) -> Response:
        """Show the page."""
        return await self._render(request, {})

    async def show_json(self, request: Request) -> Response:
        """Return the same as JSON."""
        shown = await self._admin.clock.show()
        return json_response(shown | {"next": await self._list_ahead(shown["now"])})

    async def move(self, request: Request) -> Response:
        """Move the clock as a button of any page says. A form of this page that cannot be obeyed is shown again."""
        sent = await read_form(request)
        try:
            said = await self._obey(sent)
        except MayflyError as error:
            if sent.get("by") not in ("advance", "set"):
                raise
            message, status = describe_error(error)
            return await self._render(request, sent, message, status)
        return keep_message(RedirectResponse(_return_address(sent), 303), said)

    async def _obey(self, sent: Mapping[str, str]) -> str:
        clock, by = self._admin.clock, sent.get("by", "")
        if by == "resume":
            await clock.resume()
            return "The clock ticks"
        if by == "freeze":
            await clock.freeze()
            return "The clock stands still"
        if by == "host":
            return f"The clock follows the host's: it is {words.readable((await clock.follow_host())['now'])}"
        if (verdict := VERDICTS.get(by)) is not None:
            shown = await clock.settle(verdict)
            return f"The {'later' if by == 'accept' else 'earlier'} time holds: it is {shown['now']}"
        if by == "set":
            done = await clock.set(parse_moment_field(sent.get("to", "")))
        elif by in (*STEPS, "next", "advance"):
            length = sent.get("duration", "") if by == "advance" else STEPS.get(by)
            done = await clock.advance(None if length is None else parse_duration(length))
        else:
            raise BadRequest(f"the clock has no button {by!r}")
        if by == "next" and not done["advanced_seconds"]:
            return "Nothing is going to expire"
        length = words.span(round(done["advanced_seconds"] * SECOND))
        return f"Advanced {length}: {words.count(done['expired'], done['exact'])} expired, {words.number(done['purged'])} purged"

    async def _list_ahead(self, now: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self._admin.reports.list_due(DueList(None, now, None, AHEAD)))["records"]
        return found

    async def _render(self, request: Request, sent: Mapping[str, str], error: str = "", status: int = 200) -> Response:
        shown = await self._admin.clock.show()
        now = parse_moment(shown["now"])
        rows = [
            {
                **row,
                "at": words.deadline(row["deadline"]),
                # The clock of RFC 3339 ends with the year 9999; a deadline may not.
                "within": words.short_span(max(0, parse_moment(row["deadline"]) - now))
                if row["deadline"].endswith("Z")
                else "",
            }
            for row in await self._list_ahead(shown["now"])
        ]
        content = {
            "rows": rows,
            "mode": shown["mode"],
            "allowed": self._admin.info(None)["allow_time_travel"],
            "duration": sent.get("duration", "1h30m"),
            "to": sent.get("to", words.readable(shown["now"]).replace(" ", "T").rstrip("Z")),
            "error": error,
            "back": PLACE,
            "undo": BEFORE_ADVANCE if await self._has_undo() else "",
        }
        return await self._shell.page(request, "clock.html", content, status, error)

    async def _has_undo(self) -> bool:
        if self._admin.engine.snapshots is None:
            return False
        return any(row["name"] == BEFORE_ADVANCE for row in (await self._admin.snapshots.list_all())["snapshots"])


def _return_address(sent: Mapping[str, str]) -> str:
    """Return the path of the form's page. Only a path of these pages is accepted, so that no form redirects to another site."""
    back = sent.get("back", "")
    # A backslash is refused: browsers read it as a slash.
    return back if back.startswith("/_explorer/") and "\\" not in back else "/_explorer/"
