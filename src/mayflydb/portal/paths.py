"""The routes of one page: the page, its JSON twin, and what takes its form."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mayflydb.portal.shell import TWIN

Endpoint = Callable[[Request], Awaitable[Response]]


def page_routes(path: str, show: Endpoint, twin: Endpoint, submit: Endpoint | None = None) -> Iterator[Route]:
    """Yield the routes of a page: the page, the same as JSON, and, of a form, what takes it.

    `twin` may be `show`: a page is rendered as JSON where the path says so.
    """
    yield Route(path, show)
    yield Route(path + TWIN, twin)
    if submit is not None:
        yield Route(path, submit, methods=["POST"])
