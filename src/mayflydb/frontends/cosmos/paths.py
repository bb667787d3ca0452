"""Request paths: the resource that a URL names, and the links that a client may sign for it."""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from typing import Final
from urllib.parse import parse_qs, unquote_to_bytes

import msgspec

from mayflydb.frontends.cosmos.resources import parse_rid
from mayflydb.model.errors import BadRequest, Unsupported


class Resource(Enum):
    """The kinds of resource, by the word that names them in paths."""

    ACCOUNT = ""
    DATABASE = "dbs"
    CONTAINER = "colls"
    ITEM = "docs"
    RANGE = "pkranges"
    OFFER = "offers"
    ADDRESS = "addresses"
    USER = "users"
    PERMISSION = "permissions"
    CONFLICT = "conflicts"
    STORED_PROCEDURE = "sprocs"
    TRIGGER = "triggers"
    USER_DEFINED_FUNCTION = "udfs"

    # A kind is part of the key under which every request finds its route; that of Enum is a function in Python.
    __hash__ = object.__hash__


_CHILDREN: Final[dict[str, frozenset[str]]] = {
    "": frozenset({"dbs", "offers"}),
    "dbs": frozenset({"colls", "users"}),
    "colls": frozenset({"docs", "pkranges", "sprocs", "triggers", "udfs", "conflicts", "operations"}),
    "users": frozenset({"permissions"}),
}
_OPERATIONS: Final = frozenset({"partitionkeydelete"})
_CACHED_BYTES = 512


class Target(msgspec.Struct, frozen=True, gc=False):
    """The resource that a path names. Ids are percent-decoded once; a feed has no id.

    `id`: the last id of a path that names one resource of any kind, a database or container too. `operation`: the word after
    `operations/`, with the container as resource. `signed_links`: the (resource type, resource link) pairs that a client may
    have signed, the usual one first.
    """

    resource: Resource
    is_feed: bool
    database: str | None
    container: str | None
    user: str | None
    id: str | None
    operation: str | None
    signed_links: tuple[tuple[str, str], ...]


def parse(raw: bytes) -> Target:
    """Parse a path as it was sent, with or without outer slashes. BadRequest, with the path, for an unknown one."""
    return _parse_cached(raw) if len(raw) <= _CACHED_BYTES else _parse(raw)


def request_path(path: bytes, query: bytes) -> bytes:
    """Return the path of a request: with the query string where the path names an item or addresses, without it otherwise.

    Clients of .NET and JavaScript do not encode a `?` in the id of an item, so a part of the id arrives as the query string.
    The query string of addresses names the container whose replicas are wanted.
    """
    return b"%b?%b" % (path, query) if query and (b"/docs/" in path or _is_addresses(path)) else path


def _is_addresses(path: bytes) -> bool:
    return path.strip(b"/") == b"addresses"


def _unknown_path_error(raw: bytes) -> BadRequest:
    return BadRequest(f"The path '{raw[:1024].decode('ascii', 'backslashreplace')}' names no resource.")


def _split_segments(raw: bytes) -> list[str]:
    path = raw.strip(b"/")
    try:
        if b"%" not in path:
            return path.decode().split("/")
        return [unquote_to_bytes(segment).decode() for segment in path.split(b"/")]
    except UnicodeDecodeError:
        raise _unknown_path_error(raw) from None


# The characters of rids: offers 4, databases 8, containers and users 12, children 24.
_RID_LENGTHS: Final = frozenset({4, 8, 12, 24})


def _parse(raw: bytes) -> Target:
    feed, _, last = raw.rstrip(b"/").rpartition(b"/")
    # Paths of items differ in their last segment only, so the target of the feed is reused. An id that may be a rid is left to
    # the full parser, since clients sign a rid in another way.
    if feed.endswith(b"/docs") and b"%" not in last and len(last) not in _RID_LENGTHS and last.isascii():
        feed_target = parse(feed)
        if feed_target.is_feed and feed_target.resource is Resource.ITEM:
            id = last.decode()
            link = f"{feed_target.signed_links[0][1]}/docs/{id}"
            return Target(
                Resource.ITEM, False, feed_target.database, feed_target.container, None, id, None, (("docs", link),)
            )
    return _parse_whole(raw)


def _parse_whole(raw: bytes) -> Target:
    path, _, query = raw.partition(b"?")
    if _is_addresses(path):
        return _parse_addresses(raw, query)
    segments = _split_segments(raw)
    if segments == [""]:
        return Target(Resource.ACCOUNT, True, None, None, None, None, None, (("", ""),))
    # A path alternates: dbs/d/colls/c/docs/i. Without a last id it names a feed.
    words, ids = segments[::2], segments[1::2]
    operation = None
    if words[-1] == "operations" and len(words) == len(ids) and ids[-1] in _OPERATIONS:
        operation = ids.pop()
        words.pop()
    parent = ""
    for word in words:
        if word == "operations" or word not in _CHILDREN.get(parent, ()):
            raise _unknown_path_error(raw)
        parent = word
    if not all(ids) or (parent == "pkranges" and len(words) == len(ids)) or (operation and parent != "colls"):
        raise _unknown_path_error(raw)
    return _build_target(words, ids, operation)


def _parse_addresses(raw: bytes, query: bytes) -> Target:
    """Parse `/addresses/?$resolveFor=…`, which asks for the replicas of a container, or of the account for `dbs`.

    The client signs the rid or the path of the container as the owner of items, or databases without a name.
    """
    wanted = parse_qs(query.decode("latin-1")).get("$resolveFor", [""])[-1].strip("/")
    segments = wanted.split("/")
    if segments == ["dbs"]:
        return Target(Resource.ADDRESS, True, None, None, None, None, None, (("dbs", ""),))
    match segments:
        case ["dbs", database, "colls", container, "docs"] if database and container:
            links = tuple(("docs", link) for link in (container.lower(), f"dbs/{database}/colls/{container}"))
            return Target(Resource.ADDRESS, True, database, container, None, None, None, links)
        case ["dbs", _, "colls", _, _]:
            raise Unsupported(
                f"Addresses for '{wanted[:200]}' are not supported by Mayfly: its last word must be docs."
            )
    raise _unknown_path_error(raw)


def _build_target(words: list[str], ids: list[str], operation: str | None) -> Target:
    is_feed = len(words) > len(ids)
    names = dict(zip(words, ids, strict=False))
    return Target(
        Resource(words[-1]),
        is_feed,
        names.get("dbs"),
        names.get("colls"),
        names.get("users"),
        None if is_feed else ids[-1],
        operation,
        _signed_links(words, ids, operation),
    )


def _signed_links(words: list[str], ids: list[str], operation: str | None) -> tuple[tuple[str, str], ...]:
    """Return the (resource type, resource link) pairs that a client may sign.

    The link is the whole path in its own case. A resource addressed by rid is signed by its last rid alone, in lower case.
    """
    kind = words[-1]
    whole = "/".join(part for pair in zip(words, ids, strict=False) for part in pair)
    links = [whole]
    if ids and kind == "offers":
        links.insert(0, ids[-1].lower())
    elif ids and parse_rid(ids[-1]) is not None:
        links.append(ids[-1].lower())
    kinds = [kind, "partitionkey"] if operation else [kind]
    return tuple((kind, link) for kind in kinds for link in links)


_parse_cached = lru_cache(maxsize=8192)(_parse)
