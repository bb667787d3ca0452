"""The life of a container's records beyond the protocols: its settings, and the way back for records that have expired."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
from starlette.responses import RedirectResponse, Response

from mayflydb.admin import formats, lifecycle_requests, requests
from mayflydb.admin.operations import Admin
from mayflydb.engine.expiry_counts import DueCounts
from mayflydb.expiry.rules import Rule
from mayflydb.expiry.undelete import needs_life, takes_life
from mayflydb.model.errors import BadRequest, MayflyError, PreconditionFailed
from mayflydb.model.instant import SECOND
from mayflydb.portal import words
from mayflydb.portal.forms import describe_error, format_question, is_agreed, parse_moment_field, read_parts
from mayflydb.portal.lifecycle_settings import SETTINGS, find_changes, read_texts, sign, write_texts
from mayflydb.portal.shell import Shell, Visit, build_branch, json_response, keep_message

CHANGED_MEANWHILE: Final = "The settings were changed after this page was loaded, so nothing was saved."
NOUNS: Final = {"cosmos": ("item", "items"), "mongo": ("document", "documents"), "ydb": ("row", "rows")}
NOTHING_LOST: Final = DueCounts([0])
SELECTION: Final = ("id", "pk", "from", "to", "life")
"""Fields of the undelete beside its causes."""


class LifecyclePage:
    """The page of a container of any protocol: a form of its settings, and the forms of an undelete."""

    def __init__(self, admin: Admin, shell: Shell) -> None:
        self._admin = admin
        self._shell = shell

    async def show(self, visit: Visit) -> Response:
        """Show the page."""
        return await self._render(visit)

    async def show_json(self, visit: Visit) -> Response:
        """Return the settings, the number of records that can come back, and the last undelete as JSON."""
        row, progress = await self._count(visit), await self._admin.undeleting.show(visit.container.target)
        return json_response(
            {
                "settings": await self._settings(visit),
                "hidden": row["hidden"],
                "exact": row["exact"],
                "undelete": progress,
            }
        )

    async def submit(self, visit: Visit) -> Response:
        """Save the settings, or begin an undelete."""
        parts = await read_parts(visit.request)
        sent = {part.name: part.text for part in parts}
        if sent.get("action", "save") == "save":
            return await self._save(visit, sent)
        return await self._undelete(visit, sent, [part.text for part in parts if part.name == "cause"])

    async def _save(self, visit: Visit, sent: Mapping[str, str]) -> Response:
        target, texts = visit.container.target, read_texts(sent)
        try:
            loaded = await self._settings(visit)
            if sent.get("seen") != sign(loaded):
                raise PreconditionFailed(CHANGED_MEANWHILE)
            wanted = find_changes(target, loaded, texts)
            if wanted is None:
                return _go_back(visit, "There was nothing to save")
            lost = await self._count_lost(visit, loaded["grace"], wanted)
            if lost.counts[0] and not is_agreed(sent.get("agreed", ""), str(wanted.grace), lost.counts[0]):
                return await self._render(
                    visit, texts, lost=lost, agreed=format_question(str(wanted.grace), lost.counts[0])
                )
            await self._admin.lifecycles.set(wanted)
        except MayflyError as error:
            message, status = describe_error(error)
            return await self._render(visit, texts, error=message, status=status)
        return _go_back(visit, f"Lifecycle settings of {visit.name} saved")

    async def _count_lost(self, visit: Visit, grace: int, wanted: lifecycle_requests.SetLifecycle) -> DueCounts:
        """Count the expired records that a shorter grace purges at once."""
        if wanted.grace is msgspec.UNSET or (shorter := requests.whole_seconds(wanted.grace)) >= grace:
            return NOTHING_LOST
        counts, node = self._admin.engine.expiry_counts, visit.container.node
        ended = await self._admin.engine.now() - shorter * SECOND
        return await counts.count_due(node, node.rules, [ended], counts.allow())

    async def _undelete(self, visit: Visit, sent: Mapping[str, str], causes: Sequence[str]) -> Response:
        kept = {name: sent.get(name, "").strip() for name in SELECTION} | {"causes": causes}
        one, many = NOUNS[visit.container.front_end.space]
        try:
            done = await self._admin.undeleting.undelete(_read_selection(visit, sent, causes))
        except MayflyError as error:
            message, status = describe_error(error)
            return await self._render(visit, kept=kept, error=message, status=status)
        back = done["undeleted"]
        said = f"{words.number(back)} {one if back == 1 else many} came back"
        return _go_back(visit, said if done["done"] else f"The undelete goes on: {said} so far")

    async def _settings(self, visit: Visit) -> dict[str, Any]:
        (found,) = (await self._admin.lifecycles.show(visit.container.target))["targets"]
        return dict(found)

    async def _count(self, visit: Visit) -> dict[str, Any]:
        (row,) = (await self._admin.reports.list_containers(visit.container.target))["targets"]
        return dict(row)

    async def _render(
        self,
        visit: Visit,
        texts: Mapping[str, str] | None = None,
        kept: Mapping[str, Any] | None = None,
        lost: DueCounts | None = None,
        agreed: str = "",
        error: str = "",
        status: int = 200,
    ) -> Response:
        container, values = visit.container, await self._settings(visit)
        row, progress = await self._count(visit), await self._admin.undeleting.show(container.target)
        content = {
            "settings": SETTINGS,
            "texts": write_texts(values) if texts is None else texts,
            "seen": sign(values),
            "notes": {"guard": self._describe_guard()},
            "asked": 0 if lost is None else lost.counts[0],
            "asked_exact": lost is None or lost.exact,
            "agreed": agreed,
            "hidden": row["hidden"],
            "exact": row["exact"],
            "progress": progress,
            "selection": kept or dict.fromkeys(SELECTION, "") | {"causes": ()},
            "causes": list_causes(container.node.definition.rules),
            "life": {"taken": takes_life(container.node.rules), "needed": needs_life(container.node.rules)},
            "nouns": NOUNS[container.front_end.space],
            "has_pk": container.front_end.space == "cosmos",
            "due": f"/_explorer/due?{urlencode({'target': container.target, 'to': progress['now']})}",
            "database": visit.database,
            "name": visit.name,
            "place": f"{visit.address}/lifecycle",
            "home": build_branch(container).home,
            "error": error,
        }
        return await self._shell.page(visit.request, "lifecycle.html", content, status, error)

    def _describe_guard(self) -> str:
        limits = self._admin.engine.reaper.guard.limits
        if limits is None:
            return "The server has no guard."
        own = f"The server's limits: {words.number(limits.records)} records and {limits.percent} percent"
        return f"{own}, on a real clock alone."


def list_causes(rules: Sequence[Rule]) -> list[tuple[str, str]]:
    """Return (cause, label) of the causes by which records can expire under these rules."""
    found = dict.fromkeys(
        cause for rule in rules for cause in ((rule.cause, "item") if rule.overrides else (rule.cause,))
    )
    return [(cause, words.CAUSES[cause]) for cause in found]


def _read_selection(visit: Visit, sent: Mapping[str, str], causes: Sequence[str]) -> lifecycle_requests.Undelete:
    """Return the undelete that a form asks for. BadRequest."""
    given = {name: text for name in SELECTION if (text := sent.get(name, "").strip())}
    for name in ("from", "to"):
        if name in given:
            given[name] = formats.time(parse_moment_field(given[name]))
    if sent.get("action") == "undelete-one" and "id" not in given:
        raise BadRequest("Name the record that comes back.")
    try:
        return msgspec.convert(
            {"target": visit.container.target, "causes": causes, **given}, lifecycle_requests.Undelete
        )
    except msgspec.ValidationError as error:
        raise BadRequest(str(error).partition(" - at")[0]) from None


def _go_back(visit: Visit, said: str) -> Response:
    return keep_message(RedirectResponse(f"{visit.address}/lifecycle", 303), said)
