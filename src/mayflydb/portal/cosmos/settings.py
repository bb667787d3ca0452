"""The page Scale & Settings of a container: shows, previews and saves the form."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.responses import RedirectResponse, Response

from mayflydb.admin.operations import Admin
from mayflydb.admin.requests import MAX_TTL
from mayflydb.admin.targets import ContainerTarget
from mayflydb.engine.proposals import Change
from mayflydb.model.errors import MayflyError, PreconditionFailed
from mayflydb.portal import forms, words
from mayflydb.portal.cosmos import form
from mayflydb.portal.cosmos.containers import Container, Containers
from mayflydb.portal.cosmos.form import Fields
from mayflydb.portal.forms import NOT_SUBMITTED, Outcome
from mayflydb.portal.shell import Shell, Visit, json_response, keep_message
from mayflydb.portal.usage import describe_usage, plot_usage

CHANGED_MEANWHILE = (
    "This container was changed after this page was loaded, so nothing was saved. Discard shows it as it is now."
)


class SettingsPage:
    """The page with the form of a container's settings."""

    def __init__(self, admin: Admin, shell: Shell, containers: Containers) -> None:
        self._admin = admin
        self._shell = shell
        self._containers = containers

    async def show(self, visit: Visit) -> Response:
        """Show the container as it is stored."""
        container = await self._containers.read(visit.database, visit.name)
        return await self._render(visit, container, _stored_fields(container))

    async def show_json(self, visit: Visit) -> Response:
        """The same as JSON."""
        container = await self._containers.read(visit.database, visit.name)
        offer = None if container.offer is None else msgspec.to_builtins(container.offer)
        preview = await self._admin.reports.preview(visit.container.target, Change(container.body.get("defaultTtl")))
        usage = describe_usage(self._admin.engine.meter.recent([visit.container.node.id]))
        shown = {"container": container.body, "throughput": offer, "preview": preview, "last_60_minutes": usage}
        return json_response(shown)

    async def submit(self, visit: Visit, sent: dict[str, str]) -> Response:
        """Preview, discard or save the submitted form."""
        here = f"{visit.address}/settings"
        action = sent.get("action", "save")
        if action == "discard":
            return RedirectResponse(here, 303)
        container = await self._containers.read(visit.database, visit.name)
        wanted = form.read_fields(sent, _stored_fields(container))
        if action == "preview":
            return await self._render(visit, container, wanted)
        # Checked before the question, so that a question is never about settings of before. The save checks it by If-Match again.
        if wanted.etag != container.etag:
            return await self._render(visit, container, wanted, Outcome([CHANGED_MEANWHILE], 412))
        if faults := form.find_faults(wanted):
            return await self._render(visit, container, wanted, Outcome(faults, 400))
        if asked := await self._count_unconfirmed(visit, container, wanted):
            return await self._render(visit, container, wanted, Outcome(asked=asked))
        said: list[str] = []
        try:
            await self._containers.save(visit.database, container, wanted, said)
        except MayflyError as error:
            # Throughput is a resource of its own, so the container may have been saved; the form goes on from there.
            container = await self._containers.read(visit.database, visit.name)
            if said:
                wanted = msgspec.structs.replace(wanted, etag=container.etag)
            text, status = _describe_error(error)
            return await self._render(visit, container, wanted, Outcome([*said, text], status))
        return keep_message(RedirectResponse(here, 303), ". ".join(said) or "There was nothing to save")

    async def _count_unconfirmed(self, visit: Visit, container: Container, wanted: Fields) -> int:
        """Return the number of items that would expire at once and that no answered question covers; 0: save."""
        default = wanted.default_ttl
        if default == container.body.get("defaultTtl"):
            return 0
        # Counted at each submission: while a person reads the question, more items may become old enough.
        expiring: int = (await self._admin.reports.preview(visit.container.target, Change(default)))["expire_now"]
        return 0 if forms.is_agreed(wanted.agreed, default, expiring) else expiring

    async def _render(
        self, visit: Visit, container: Container, fields: Fields, outcome: Outcome = NOT_SUBMITTED
    ) -> Response:
        loaded = _stored_fields(container)
        fields = form.with_valid_seconds(fields)
        content = {
            "database": visit.database,
            "name": visit.name,
            "address": visit.address,
            "label": "Settings" if container.offer is None else "Scale & Settings",
            "fields": fields,
            "loaded": {form.NAMES[name]: value for name, value in msgspec.structs.asdict(loaded).items()},
            "errors": outcome.errors,
            "asked": outcome.asked,
            "agreed": forms.format_question(fields.default_ttl, outcome.asked) if outcome.asked else "",
            "max_ttl": MAX_TTL,
            "amounts": form.AMOUNTS,
            "body": container.body,
            "offer": container.offer,
            "usage": plot_usage(self._admin.engine.meter.recent([visit.container.node.id])),
            "paused": visit.container.node.definition.paused,
            **(await self._describe_effects(visit.container, fields, loaded)),
        }
        said = " ".join(outcome.errors)
        return await self._shell.page(visit.request, "cosmos/settings.html", content, outcome.status, said)

    async def _describe_effects(self, container: ContainerTarget, fields: Fields, loaded: Fields) -> dict[str, Any]:
        """Return what the lines below the field say. They follow the typing, by previews."""
        default, now = fields.default_ttl, await self._admin.engine.now()
        preview = None if default == 0 else await self._admin.reports.preview(container.target, Change(default))
        census = await self._admin.engine.expiry_counts.census(container.node, now)
        current = loaded.default_ttl
        return {
            "preview": preview,
            "is_changed": default != current,
            "reading": _format_default(default),
            "refusals": [] if default == 0 else form.find_faults(fields),
            "census": census,
            "before": form.truth_table_row(current, _format_default(current)),
            "after": None if default == 0 else form.truth_table_row(default, _format_default(default)),
        }


def _stored_fields(container: Container) -> Fields:
    return form.stored_fields(container.body, container.etag, container.offer)


def _format_default(default: int | None) -> str:
    return words.seconds(default) if default and default > 0 else ""


def _describe_error(error: MayflyError) -> tuple[str, int]:
    if isinstance(error, PreconditionFailed):
        return CHANGED_MEANWHILE, 412
    return forms.describe_error(error)
