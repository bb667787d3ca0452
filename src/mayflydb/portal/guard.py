"""The purges that the guard holds: why, and a form that confirms each."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from mayflydb.admin.operations import Admin
from mayflydb.model.errors import MayflyError
from mayflydb.portal import words
from mayflydb.portal.forms import describe_error, read_form
from mayflydb.portal.shell import Shell, build_branch, json_response, keep_message

PLACE: Final = "/_explorer/guard"


class GuardPage:
    """The list, with a form for each purge."""

    def __init__(self, admin: Admin, shell: Shell) -> None:
        self._admin = admin
        self._shell = shell

    async def show(self, request: Request) -> Response:
        """Show the page."""
        return await self._render(request)

    async def show_json(self, request: Request) -> Response:
        """Return the same as JSON, in the admin API's form."""
        return json_response(await self._admin.lifecycles.list_held())

    async def submit(self, request: Request) -> Response:
        """Confirm the purge that the form names. The page shows why it cannot be confirmed."""
        sent = await read_form(request)
        target = sent.get("target", "")
        try:
            done = await self._admin.lifecycles.confirm(target, sent.get("token", ""))
        except MayflyError as error:
            message, status = describe_error(error)
            return await self._render(request, message, status)
        return keep_message(
            RedirectResponse(PLACE, 303), f"Confirmed: {words.number(done['due'])} due records of {target} are purged"
        )

    async def _render(self, request: Request, error: str = "", status: int = 200) -> Response:
        listing = await self._admin.lifecycles.list_held()
        ways = {each.target: build_branch(each) for each in await self._admin.targets.list_containers()}
        rows: list[dict[str, Any]] = [
            {
                **row,
                "ttl": ways[row["target"]].ttl,
                "lifecycle": ways[row["target"]].lifecycle,
                "due_query": urlencode({"target": row["target"], "to": listing["now"]}),
            }
            for row in listing["held"]
            # Each list is read by itself, so a container may have been dropped between the two.
            if row["target"] in ways
        ]
        return await self._shell.page(request, "guard.html", {"rows": rows, "error": error}, status, error)
