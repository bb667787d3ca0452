"""The page that finds databases, containers, collections and tables by a part of their names."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from mayflydb.admin.operations import Admin
from mayflydb.portal.shell import TITLES, Shell, build_branch, json_response

MOST: Final = 200


class FindPage:
    """The page of the search field. With JavaScript the tree filters itself while a person types."""

    def __init__(self, admin: Admin, shell: Shell) -> None:
        self._admin = admin
        self._shell = shell

    async def show(self, request: Request) -> Response:
        """Show up to MOST containers whose database or name contains `q` of the address, whatever its case."""
        text = request.query_params.get("q", "").strip()
        rows = await self._find(text)
        return await self._shell.page(request, "find.html", {"text": text, "rows": rows, "most": MOST})

    async def show_json(self, request: Request) -> Response:
        """Return the same as JSON."""
        return json_response({"found": await self._find(request.query_params.get("q", "").strip())})

    async def _find(self, text: str) -> list[dict[str, Any]]:
        names = {node.id: node.name for _, node in await self._admin.targets.list_databases()}
        found: list[dict[str, Any]] = []
        for container in await self._admin.targets.list_containers():
            database = names.get(container.node.parent)
            if database is None or text.casefold() not in f"{database}/{container.node.name}".casefold():
                continue
            branch = build_branch(container)
            protocol = TITLES[container.front_end.space]
            found.append({"protocol": protocol, "database": database, "name": branch.name, "address": branch.home})
            if len(found) == MOST:
                break
        return found
