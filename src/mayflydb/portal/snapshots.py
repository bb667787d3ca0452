"""Snapshots: saved, restored, deleted, downloaded and uploaded by forms. What cannot be undone is asked about once."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from mayflydb.admin.operations import Admin
from mayflydb.admin.snapshots import BEFORE_ADVANCE
from mayflydb.http.asgi import Streamed
from mayflydb.model.errors import BadRequest, Conflict, Forbidden, MayflyError
from mayflydb.portal import words
from mayflydb.portal.file_forms import FileForm
from mayflydb.portal.forms import describe_error, read_form
from mayflydb.portal.shell import Shell, json_response, keep_message

PLACE: Final = "/_explorer/snapshots"


class SnapshotsPage:
    """The list, with its forms."""

    def __init__(self, admin: Admin, shell: Shell) -> None:
        self._admin = admin
        self._shell = shell

    async def show(self, request: Request) -> Response:
        """Show the page."""
        return await self._render(request)

    async def show_json(self, request: Request) -> Response:
        """Return the same as JSON, in the admin API's form."""
        return json_response(await self._admin.snapshots.list_all())

    async def download(self, request: Request) -> Streamed:
        """Send a snapshot as a file. A session that may only look gets none: it holds the credentials of users."""
        if request.scope.get("mayfly.role") == "read-only":
            raise Forbidden(
                "this session is read-only, and a snapshot holds credentials", hint="mayfly token --role admin"
            )
        name = request.path_params["name"]
        headers = (
            (b"content-type", b"application/octet-stream"),
            (b"content-disposition", f'attachment; filename="{name}.snapshot"'.encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"cache-control", b"no-store"),
        )
        return Streamed(200, headers, await self._admin.snapshots.download(name))

    async def upload(self, request: Request) -> Response:
        """Take a file as a snapshot: under the name of the form, or that of the file."""
        name = ""
        try:
            form = FileForm(request.stream(), request.headers.get("content-type", ""))
            sent = await form.read_fields()
            name = sent.get("name", "").strip() or sent["filename"].removesuffix(".snapshot")
            found = await self._admin.snapshots.list_all()
            if any(row["name"] == name for row in found["snapshots"]):
                raise Conflict(f"There is a snapshot {name}: delete it first, or give another name.")
            taken = await self._admin.snapshots.upload(name, form.read_file())
        except MayflyError as error:
            message, status = describe_error(error)
            return await self._render(request, error=message, status=status)
        return keep_message(RedirectResponse(PLACE, 303), f"Uploaded snapshot {name}: {taken['bytes']:,} bytes")

    async def submit(self, request: Request) -> Response:
        """Save, restore or delete. The last two are asked about once."""
        sent = await read_form(request)
        name, action = sent.get("name", "").strip(), sent.get("action", "")
        if action in ("restore", "delete"):
            return await self._render(request, action, name)
        try:
            said = await self._act(action, name)
        except MayflyError as error:
            message, status = describe_error(error)
            return await self._render(request, name=name, error=message, status=status)
        return keep_message(RedirectResponse(PLACE, 303), said)

    async def _act(self, action: str, name: str) -> str:
        snapshots = self._admin.snapshots
        if action == "save":
            saved = await snapshots.save(name)
            return f"Saved snapshot {name} of {words.readable(saved['saved_at'])}"
        if action == "restore-for-good":
            shown = await snapshots.restore(name)
            return f"Restored snapshot {name}: it is {words.readable(shown['now'])}"
        if action == "delete-for-good":
            await snapshots.delete(name)
            return f"Deleted snapshot {name}"
        raise BadRequest(f"the page has no button {action!r}")

    async def _render(
        self, request: Request, asks: str = "", name: str = "", error: str = "", status: int = 200
    ) -> Response:
        rows: list[dict[str, Any]] = []
        if self._admin.engine.snapshots is not None:
            found = (await self._admin.snapshots.list_all())["snapshots"]
            rows = [row | {"saved_at": words.readable(row["saved_at"])} for row in found]
        content = {
            "rows": rows,
            "kept": self._admin.engine.snapshots is not None,
            "asks": asks,
            "name": name,
            "error": error,
            "automatic": BEFORE_ADVANCE,
        }
        return await self._shell.page(request, "snapshots.html", content, status, error)
