"""Advice on the ttl of every container: a table, and for each proposal the cost of other lives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from mayflydb.admin.operations import Admin
from mayflydb.portal import words
from mayflydb.portal.shell import Shell, build_branch, json_response


class AdvicePage:
    """The table. `target` of the address: one container or database."""

    def __init__(self, admin: Admin, shell: Shell) -> None:
        self._admin = admin
        self._shell = shell

    async def show(self, request: Request) -> Response:
        """Show the page."""
        found = await self._advise(request)
        ways = {each.target: build_branch(each).ttl for each in await self._admin.targets.list_containers()}
        rows = [
            _describe(container, advice) | {"way": ways.get(container["target"], "/_explorer/")}
            for container in found["targets"]
            for advice in container["advice"]
        ]
        growing = [
            {"target": each["target"], **each["only_grows"]}
            for each in found["targets"]
            if each["only_grows"] is not None
        ]
        content = {"rows": rows, "growing": growing, "sampling": found["sampling"]}
        return await self._shell.page(request, "advice.html", content, large=True)

    async def show_json(self, request: Request) -> Response:
        """Return the same as JSON, in the admin API's form."""
        return json_response(await self._advise(request))

    async def _advise(self, request: Request) -> dict[str, Any]:
        return await self._admin.advice.advise(request.query_params.get("target") or None)


def _describe(container: Mapping[str, Any], advice: Mapping[str, Any]) -> dict[str, Any]:
    """Build a line of the table. `costs`: by life, the accesses that would have come too late."""
    frees = advice["frees"]
    longest = [advice[kind]["longest"] for kind in ("reads", "updates") if advice[kind]["longest"] is not None]
    sampled = advice["reads"]["sampled"] + advice["updates"]["sampled"]
    return {
        "target": container["target"],
        "since": "" if container["since"] is None else words.readable(container["since"]),
        "from": advice["field"] or "last write",
        "present": "Off" if advice["present"] is None else words.seconds(advice["present"]),
        "sampled": sampled,
        "longest": words.seconds(int(max(longest))) if longest else "",
        "proposed": "" if advice["proposed"] is None else words.seconds(advice["proposed"]),
        "frees": "" if frees is None else words.count(frees["records"], frees["exact"]),
        "text": advice["text"],
        "command": advice["command"],
        "costs": [
            {
                "life": words.seconds(cost["seconds"]),
                "late": cost["late_reads"] + cost["late_updates"],
                "share": f"{100 * cost['share']:.2f} %",
                "chosen": cost["seconds"] == advice["proposed"],
            }
            for cost in advice["costs"]
        ],
    }
