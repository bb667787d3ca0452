"""Scale & Settings of a container: shown, previewed, saved."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from mayflydb.model.errors import MayflyError, PreconditionFailed
from mayflydb.portal.admin import Admin
from mayflydb.portal.pages import form, words
from mayflydb.portal.pages.container import Container, Containers
from mayflydb.portal.pages.form import Fields
from mayflydb.portal.pages.shell import Shell, address, json_page, keep
from mayflydb.portal.problems import STATUS
from mayflydb.portal.requests import MAX_TTL
from mayflydb.portal.targets import Place

MOVED = (
    "Somebody else has changed this container since this page was loaded, so nothing was saved. "
    "Discard shows it as it is now."
)


class SettingsPage:
    """One page for all containers."""

    def __init__(self, admin: Admin, shell: Shell, containers: Containers) -> None:
        self._admin = admin
        self._shell = shell
        self._containers = containers

    async def show(self, request: Request, place: Place, database: str) -> Response:
        """The container as it is."""
        container = await self._containers.read(database, place.node.name)
        fields = form.loaded(container.body, container.etag, container.offer)
        return await self._render(request, place, database, container, fields)

    async def twin(self, place: Place, database: str) -> Response:
        """The same as JSON."""
        container = await self._containers.read(database, place.node.name)
        offer = None if container.offer is None else msgspec.to_builtins(container.offer)
        preview = await self._admin.outlook.preview(place.target, container.body.get("defaultTtl"))
        return json_page({"container": container.body, "throughput": offer, "preview": preview})

    async def submit(self, request: Request, place: Place, database: str, sent: dict[str, str]) -> Response:
        """Preview, discard or save what was sent."""
        here = f"{address(database, place.node.name)}/settings"
        action = sent.get("action", "save")
        if action == "discard":
            return RedirectResponse(here, 303)
        container = await self._containers.read(database, place.node.name)
        wanted = form.read(sent, form.loaded(container.body, container.etag, container.offer))
        if action == "preview":
            return await self._render(request, place, database, container, wanted)
        if wanted.etag != container.etag:
            return await self._render(request, place, database, container, wanted, [MOVED], 412)
        if faults := form.faults(wanted):
            return await self._render(request, place, database, container, wanted, faults, 400)
        default = wanted.default_ttl
        if default != container.body.get("defaultTtl"):
            going = (await self._admin.outlook.preview(place.target, default))["expire_now"]
            if going and not form.is_agreed(wanted.agreed, default, going):
                return await self._render(request, place, database, container, wanted, asked=going)
        said: list[str] = []
        try:
            await self._containers.save(database, container, wanted, said)
        except MayflyError as error:
            # Throughput is a resource of its own, so the container may have been saved; the form goes on from there.
            container = await self._containers.read(database, place.node.name)
            if said:
                wanted = msgspec.structs.replace(wanted, etag=container.etag)
            told, status = _told(error)
            return await self._render(request, place, database, container, wanted, [*said, told], status)
        return keep(RedirectResponse(here, 303), ". ".join(said) or "There was nothing to save")

    async def _render(
        self,
        request: Request,
        place: Place,
        database: str,
        container: Container,
        fields: Fields,
        errors: list[str] | None = None,
        status: int = 200,
        asked: int = 0,
    ) -> Response:
        loaded = form.loaded(container.body, container.etag, container.offer)
        content = {
            "database": database,
            "name": place.node.name,
            "address": address(database, place.node.name),
            "label": "Settings" if container.offer is None else "Scale & Settings",
            "fields": fields,
            "loaded": {form.NAMES[name]: value for name, value in msgspec.structs.asdict(loaded).items()},
            "errors": errors or [],
            "asked": asked,
            "agreed": form.question(fields.default_ttl, asked) if asked else "",
            "max_ttl": MAX_TTL,
            "amounts": form.AMOUNTS,
            "body": container.body,
            "offer": container.offer,
            "paused": place.node.definition.paused,
            **(await self._outlook(place, fields, loaded)),
        }
        return await self._shell.page(request, "settings.html", content, status, said=" ".join(errors or []))

    async def _outlook(self, place: Place, fields: Fields, loaded: Fields) -> dict[str, Any]:
        """The lines below the field, which follow what is typed."""
        default, now = fields.default_ttl, await self._admin.engine.now()
        preview = None if default == 0 else await self._admin.outlook.preview(place.target, default)
        census = await self._admin.engine.insight.census(place.node, now)
        current = loaded.default_ttl
        return {
            "preview": preview,
            "is_changed": default != current,
            "reading": words.seconds(default) if default and default > 0 else "",
            "refusals": [] if default == 0 else form.faults(fields),
            "census": census,
            "before": form.truth(current, _reading(current)),
            "after": None if default == 0 else form.truth(default, _reading(default)),
        }


def _reading(default: int | None) -> str:
    return words.seconds(default) if default and default > 0 else ""


def _told(error: MayflyError) -> tuple[str, int]:
    if isinstance(error, PreconditionFailed):
        return MOVED, 412
    status = next(STATUS[kind][0] for kind in type(error).__mro__ if kind in STATUS)
    return error.message, status
