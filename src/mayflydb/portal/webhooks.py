"""Webhooks: how far each is, a form that adds one, and buttons that test, retry and remove. A removal is asked about once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, get_args

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from mayflydb.admin.lifecycle_requests import AddWebhook
from mayflydb.admin.operations import Admin
from mayflydb.expiry.rules import Cause
from mayflydb.model.errors import BadRequest, MayflyError
from mayflydb.portal import words
from mayflydb.portal.forms import describe_error, read_parts
from mayflydb.portal.presence import FILE_SECONDS, ClientLeft, run_while_present
from mayflydb.portal.shell import Shell, json_response, keep_message

PLACE: Final = "/_explorer/webhooks"
FIELDS: Final = ("name", "url", "target", "secret")
"""Fields of the form beside the causes."""

REASON: Final = 200
"""Characters of a receiver's refusal that a message shows."""

Filled = Mapping[str, Any]
"""The fields of the form, as they were sent."""


class WebhooksPage:
    """The list, with its forms."""

    def __init__(self, admin: Admin, shell: Shell) -> None:
        self._admin = admin
        self._shell = shell

    async def show(self, request: Request) -> Response:
        """Show the page."""
        return await self._render(request)

    async def show_json(self, request: Request) -> Response:
        """Return the same as JSON, in the admin API's form."""
        return json_response(await self._admin.webhooks.list_all())

    async def submit(self, request: Request) -> Response:
        """Add, test, retry or remove a webhook. An addition answers with the page, which shows the secret this once."""
        parts = await read_parts(request)
        sent = {part.name: part.text.strip() for part in parts}
        name, action = sent.get("name", ""), sent.get("action", "")
        causes = [part.text for part in parts if part.name == "cause"]
        filled: Filled = {each: sent.get(each, "") for each in FIELDS} | {"causes": causes}
        try:
            if action == "add":
                added = await self._admin.webhooks.add(_read_webhook(sent, causes))
                return await self._render(request, added=added, said=f"Added webhook {added['name']}")
            if action == "remove":
                return await self._render(request, asks=name)
            said = await run_while_present(request, self._act(action, name), FILE_SECONDS, "The webhook's receiver")
        except ClientLeft:
            return Response(status_code=204)
        except MayflyError as error:
            message, status = describe_error(error)
            return await self._render(request, filled if action == "add" else None, error=message, status=status)
        return keep_message(RedirectResponse(PLACE, 303), said)

    async def _act(self, action: str, name: str) -> str:
        webhooks = self._admin.webhooks
        if action == "test":
            tested = await webhooks.test(name)
            return f"{name} accepted the test" if tested["accepted"] else f"{name} refused: {tested['error'][:REASON]}"
        if action == "retry":
            done = await webhooks.retry(name)
            return f"{name} accepted {words.number(done['sent'])} dead letters; {words.number(done['left'])} are left"
        if action == "remove-for-good":
            await webhooks.remove(name)
            return f"Removed webhook {name}"
        raise BadRequest(f"the page has no button {action!r}")

    async def _render(
        self,
        request: Request,
        filled: Filled | None = None,
        added: Mapping[str, Any] | None = None,
        asks: str = "",
        error: str = "",
        status: int = 200,
        said: str = "",
    ) -> Response:
        content = {
            "rows": (await self._admin.webhooks.list_all())["webhooks"],
            "filled": filled or dict.fromkeys(FIELDS, "") | {"causes": ()},
            "targets": await self._list_targets(),
            "causes": [(cause, words.CAUSES[cause]) for cause in get_args(Cause)],
            "added": added,
            "asks": asks,
            "error": error,
        }
        return await self._shell.page(request, "webhooks.html", content, status, error or said, large=True)

    async def _list_targets(self) -> list[str]:
        names = [name for name, _ in await self._admin.targets.list_databases()]
        return sorted(names + [container.target for container in await self._admin.targets.list_containers()])


def _read_webhook(sent: Mapping[str, str], causes: Sequence[str]) -> AddWebhook:
    """Return the webhook that a form describes. BadRequest."""
    given = {"name": sent.get("name", ""), "url": sent.get("url", ""), "causes": causes}
    given |= {name: sent[name] for name in ("target", "secret") if sent.get(name)}
    try:
        return msgspec.convert(given, AddWebhook)
    except msgspec.ValidationError as error:
        if "$.name" in str(error):
            raise BadRequest("Name: up to 64 letters, digits, dots, dashes and underscores.") from None
        raise BadRequest(str(error)) from None
