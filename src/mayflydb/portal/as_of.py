"""Grids as of another instant: what an address asks for, and the page that shows it, on which nothing can be changed.

The front end of the protocol reads, and decides which instants it can read, as for its clients.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from mayflydb.model.instant import Instant
from mayflydb.portal import words
from mayflydb.portal.forms import parse_moment_field
from mayflydb.portal.grid import GridView
from mayflydb.portal.shell import Shell, Visit

FIELD: Final = "as_of"
"""The parameter of an address."""


def read_as_of(request: Request) -> Instant | None:
    """Return the instant that an address asks for; None: the present. BadRequest for a text that is no time."""
    text = request.query_params.get(FIELD, "")
    return parse_moment_field(text) if text.strip() else None


async def render_as_of(
    shell: Shell, visit: Visit, view: GridView, exports: str, problem: str = "", status: int = 200
) -> Response:
    """Render a page of a grid. `exports`: the address of its files, up to their parameters; `problem`: a refusal."""
    kept = {name: value for name, value in view.kept.items() if name != FIELD}
    content: dict[str, Any] = {
        "view": lock_view(view),
        "at": "" if problem else words.moment(parse_moment_field(view.kept[FIELD])),
        "problem": problem,
        "present": f"{view.address}?{urlencode(kept, errors='replace')}" if kept else view.address,
        "export": f"{exports}?{urlencode(view.kept, errors='replace')}",
        "database": visit.database,
        "name": visit.name,
    }
    return await shell.page(visit.request, "as_of.html", content, status, problem, large=True)


def lock_view(view: GridView) -> GridView:
    """Return a page of the grid without buttons, and without links to editors, which show the present."""
    rows = [msgspec.structs.replace(row, address="", pick="") for row in view.rows]
    filter = None if view.filter is None else msgspec.structs.replace(view.filter, problem="")
    return msgspec.structs.replace(view, rows=rows, actions=None, filter=filter)
