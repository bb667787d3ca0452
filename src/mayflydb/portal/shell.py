"""Renders pages, with the parts that all of them have: the bar with the clock, the tree, the last message."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from mayflydb.admin.operations import Admin
from mayflydb.admin.targets import ContainerTarget
from mayflydb.clock import Jump
from mayflydb.model.instant import SECOND
from mayflydb.portal import words
from mayflydb.portal.life import draw_life
from mayflydb.portal.results import format_json
from mayflydb.portal.static import Static
from mayflydb.version import __version__

DIRECTORY = Path(__file__).parent
CONTENT_SECURITY_POLICY = (
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
)
HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    # Under `no-referrer` browsers send `Origin: null` with forms, which the gateway refuses. Other sites get no address at all.
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
}
EDITOR = "vendor/editor.js"
OVERVIEW = ("/", "/_explorer/", "/_explorer/index.html")
OVERVIEW_TWIN, TWIN = "/_explorer/index.json", ".json"
MESSAGE_COOKIE = "mayfly-said"
"""The cookie that carries one message over the redirect after a form."""

_CHANGING_FORM = re.compile(
    r'<form\b(?=[^>]*\bmethod="post")(?![^>]*\baction="/_explorer/logout")[^>]*>(.*?)</form>', re.DOTALL
)
_CONTROL = re.compile(r"<(input|button|select|textarea)\b")


class Visit(msgspec.Struct, frozen=True):
    """A request for one of the pages of a container."""

    request: Request
    container: ContainerTarget
    database: str

    @property
    def name(self) -> str:
        return self.container.node.name

    @property
    def address(self) -> str:
        """The path below which the container's pages lie."""
        return container_address(self.container.front_end.space, self.database, self.name)


PageHandler = Callable[[Visit], Awaitable[Response]]
"""Answers a request for a page."""


class Branch(msgspec.Struct, frozen=True):
    """A container in the tree. `address`: the path below which its pages lie, `home`: its first page.

    `leaves`: (label, path) of all its pages. `ttl`: the page of its TTL settings.
    """

    name: str
    address: str
    home: str
    leaves: tuple[tuple[str, str], ...]
    ttl: str

    @property
    def lifecycle(self) -> str:
        """The page of its lifecycle settings."""
        return f"{self.address}/lifecycle"


class Tree(msgspec.Struct, frozen=True):
    """The databases of one protocol."""

    space: str
    title: str
    databases: list[tuple[str, list[Branch]]]


TITLES = {"cosmos": "Cosmos NoSQL", "mongo": "MongoDB", "ydb": "YDB"}


class Shell:
    """Renders pages."""

    def __init__(self, admin: Admin, static: Static) -> None:
        self._admin = admin
        self._static = static
        self._templates = Environment(
            loader=FileSystemLoader(DIRECTORY / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters["number"] = words.number
        self._templates.filters["life"] = draw_life
        self._templates.filters["json"] = format_json
        self._templates.filters["left"] = words.format_wait
        self._templates.filters["count"] = words.count
        self._templates.filters["items"] = words.items
        self._templates.filters["address"] = partial(quote, safe="", errors="surrogatepass")
        # Compiled here, in the thread that loads the pages, and not at first use in the event loop.
        for name in self._templates.list_templates():
            self._templates.get_template(name)

    async def page(
        self,
        request: Request,
        template: str,
        content: Mapping[str, Any],
        status: int = 200,
        said: str = "",
        *,
        large: bool = False,
    ) -> Response:
        """Render a page, or its content as JSON where the path ends with `.json`.

        `said`: the message at its head; empty: the message that the last form left in a cookie. `large`: the page has many lines,
        and is rendered on a thread.
        """
        if request.url.path.endswith(TWIN):
            return json_response(content, status)
        kept = unquote(request.cookies.get(MESSAGE_COOKIE, ""))
        # The styles that the editor makes while it runs carry this word; no other style of a page is accepted.
        nonce = secrets.token_urlsafe(16)
        containers = await self._admin.targets.list_containers()
        shell = {
            "version": __version__,
            "storage": self._admin.info(None)["storage"],
            "health": (await self._admin.maintenance.health())["store"],
            "clock": await self.clock(),
            "trees": await self._trees(containers),
            "held": sum(container.node.definition.held is not None for container in containers),
            "here": request.url.path,
            "overview": OVERVIEW,
            "again": request.url.path + (f"?{request.url.query}" if request.url.query else ""),
            "twin": _twin_address(request) if request.method == "GET" and status < 400 else "",
            "said": said or kept,
            "session": request.scope.get("mayfly.role", ""),
            "may_write": request.scope.get("mayfly.role") != "read-only",
            "nonce": nonce,
            "editor_built": self._static.has(EDITOR),
        }
        render = self._renderer(template, may_write=bool(shell["may_write"]))
        text = await asyncio.to_thread(render, shell | dict(content)) if large else render(shell | dict(content))
        policy = f"{CONTENT_SECURITY_POLICY}; style-src 'self' 'nonce-{nonce}'"
        # A stored text may hold half of a surrogate pair, which UTF-8 cannot encode.
        response = HTMLResponse(text.encode("utf-8", "replace"), status, HEADERS | {"content-security-policy": policy})
        if kept:
            response.delete_cookie(MESSAGE_COOKIE, path="/", httponly=True, samesite="strict")
        return response

    def _renderer(self, template: str, *, may_write: bool) -> Callable[[dict[str, Any]], str]:
        render = self._templates.get_template(template).render
        return render if may_write else lambda content: lock_forms(render(content))

    async def clock(self) -> dict[str, Any]:
        """Return the state of the clock, and whether the page offers to move it."""
        now = await self._admin.engine.now()
        jump = self._admin.engine.time.observe()
        shown = self._admin.clock.describe(now)
        away = shown["offset_seconds"]
        sign = "+" if away >= 0 else ""
        state = "frozen" if shown["frozen"] else "ticking"
        return {
            "virtual": shown["mode"] != "real",
            "differs": shown["mode"] == "real" and away != 0,
            "jump": None if jump is None else _describe_jump(jump),
            "frozen": shown["frozen"],
            "now": words.moment(now),
            "offset": f"{sign}{words.short_span(away * SECOND)}",
            "state": state,
            "movable": shown["mode"] == "virtual" and self._admin.info(None)["allow_time_travel"],
        }

    async def _trees(self, containers: Sequence[ContainerTarget]) -> list[Tree]:
        databases: dict[int, tuple[str, list[Branch]]] = {}
        trees = {space: Tree(space, title, []) for space, title in TITLES.items()}
        for target, node in await self._admin.targets.list_databases():
            databases[node.id] = (node.name, [])
            trees[target.partition(":")[0]].databases.append(databases[node.id])
        for container in containers:
            found = databases.get(container.node.parent)
            if found is not None:
                found[1].append(build_branch(container))
        # A new server shows one empty group, that of Cosmos DB, which every server has.
        return [tree for tree in trees.values() if tree.databases or tree.space == "cosmos"]


def lock_forms(page: str) -> str:
    """Return a page whose forms that change something show their contents, and can neither be filled in nor sent.

    Forms are not nested, and stored texts are escaped, so that no text of a record looks like a form.
    """
    # Not by a disabled fieldset: what scrolls in it would count as disabled too.
    return _CHANGING_FORM.sub(lambda form: "<div>" + _CONTROL.sub(r"<\1 disabled", form[1]) + "</div>", page)


def _describe_jump(jump: Jump) -> dict[str, str]:
    """Return both times, what happens now, and the times that each button takes as right."""
    host, time = words.moment(jump.host), words.moment(jump.time)
    if jump.size < 0:
        effect, later, earlier = f"Mayfly's time stands still at {time}", time, host
    elif jump.followed:
        effect, later, earlier = f"reads follow it; nothing due after {time} is purged", host, time
    else:
        effect, later, earlier = f"nothing follows it yet: Mayfly goes by {time}", host, time
    return {"host": host, "effect": effect, "later": later, "earlier": earlier}


def build_branch(container: ContainerTarget) -> Branch:
    """Build a container's branch of the tree. A container without throughput of its own has no `Scale`."""
    node, space = container.node, container.front_end.space
    base = container_address(space, container.database, node.name)
    lifecycle = ("Lifecycle", f"{base}/lifecycle")
    if space == "mongo":
        return Branch(
            node.name,
            base,
            f"{base}/documents",
            (("Documents", f"{base}/documents"), ("Query", f"{base}/query"), ("Indexes", f"{base}/indexes"), lifecycle),
            f"{base}/indexes",
        )
    if space == "ydb" and node.body.get("kind") == "topic":
        return Branch(node.name, base, f"{base}/topic", (("Topic", f"{base}/topic"),), f"{base}/topic")
    if space == "ydb":
        return Branch(
            node.name,
            base,
            f"{base}/rows",
            (("Rows", f"{base}/rows"), ("Query", f"{base}/query"), ("Indexes", f"{base}/indexes"), lifecycle),
            f"{base}/rows#ttl",
        )
    label = "Settings" if node.definition.offer is None else "Scale & Settings"
    return Branch(
        node.name,
        base,
        f"{base}/items",
        (("Items", f"{base}/items"), ("New SQL Query", f"{base}/query"), (label, f"{base}/settings"), lifecycle),
        f"{base}/settings",
    )


def container_address(space: str, database: str, container: str) -> str:
    """Return the path below which a container's pages lie."""
    if database.startswith("/"):
        return f"/_explorer/{space}{quote(database)}/{quote(container)}"
    parts = [quote(name, safe="", errors="surrogatepass") for name in (database, container)]
    return f"/_explorer/{space}/{'/'.join(parts)}"


def _twin_address(request: Request) -> str:
    """Return the address of the same page as JSON."""
    path = OVERVIEW_TWIN if request.url.path in OVERVIEW else request.url.path + TWIN
    return f"{path}?{request.url.query}" if request.url.query else path


def json_response(document: Any, status: int = 200) -> Response:
    """Return the JSON form of a page."""
    return Response(msgspec.json.encode(document), status, headers=HEADERS, media_type="application/json")


def keep_message(response: Response, said: str) -> Response:
    """Leave a message for the next page. It is read once, and lost after a minute."""
    response.set_cookie(MESSAGE_COOKIE, quote(said), max_age=60, path="/", httponly=True, samesite="strict")
    return response
