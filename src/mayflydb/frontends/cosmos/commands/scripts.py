"""Stored procedures, triggers and user-defined functions of a container: list, query, create, upsert, read, replace, delete."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from mayflydb.engine.catalog import Definition, Node
from mayflydb.engine.companions import DefinitionMaker, home_of
from mayflydb.frontends.cosmos import policies
from mayflydb.frontends.cosmos.calls import NOT_FOUND, SCRIPTS, CosmosCall
from mayflydb.frontends.cosmos.commands import metadata
from mayflydb.frontends.cosmos.paths import Resource
from mayflydb.frontends.cosmos.resources import RidKind, parse_rid, script_body
from mayflydb.frontends.cosmos.scripting.functions import row_name, script_at
from mayflydb.frontends.cosmos.views import ContainerView
from mayflydb.frontends.cosmos.wire import Response
from mayflydb.model.errors import BadRequest, NotFound, TooLarge


class ScriptKind(msgspec.Struct, frozen=True):
    """A kind of script: its names in paths, feeds, rids and messages."""

    word: str
    feed: str
    rid: RidKind
    noun: str


KINDS: Final[Mapping[Resource, ScriptKind]] = {
    Resource.STORED_PROCEDURE: ScriptKind("sprocs", "StoredProcedures", RidKind.STORED_PROCEDURE, "stored procedure"),
    Resource.TRIGGER: ScriptKind("triggers", "Triggers", RidKind.TRIGGER, "trigger"),
    Resource.USER_DEFINED_FUNCTION: ScriptKind(
        "udfs", "UserDefinedFunctions", RidKind.USER_DEFINED_FUNCTION, "user-defined function"
    ),
}

TRIGGER_TYPES: Final = ("pre", "post")
TRIGGER_OPERATIONS: Final = ("all", "create", "update", "delete", "replace")
"""The position of an operation is the number that some clients send for it."""


def parse_word(value: object, words: tuple[str, ...], name: str) -> str:
    """Parse a trigger's property, a name or number, to a word in lower case. BadRequest for any other."""
    if isinstance(value, str) and value.lower() in words:
        return value.lower()
    if type(value) is int and 0 <= value < len(words):
        return words[value]
    allowed = ", ".join(word.capitalize() for word in words)
    raise BadRequest(f"The property '{name}' of the trigger must be one of {allowed}.")


async def get_script(call: CosmosCall, view: ContainerView, kind: ScriptKind, name: str) -> Node:
    """Return the script of this name or rid; NotFound if there is none."""
    node = await script_at(call.engine.reads, view.id, kind.word, name)
    rid = parse_rid(name) if node is None else None
    if rid is not None and rid.kind is kind.rid and rid.owner == view.id:
        home = await call.engine.node(*home_of(SCRIPTS, view.id))
        found = await call.engine.node_by_id(rid.number)
        node = found if found is not None and home is not None and found.parent == home.id else None
    if node is None:
        raise NotFound(NOT_FOUND)
    return node


def body_of(view: ContainerView, kind: ScriptKind, node: Node) -> dict[str, Any]:
    """Return the body of a script."""
    properties = {"id": node.name.removeprefix(row_name(kind.word, "")), **node.body}
    definition = node.definition
    return script_body(properties, view.links, kind.rid, kind.word, node.id, definition.version, definition.written)


async def _read_bodies(call: CosmosCall, view: ContainerView, kind: ScriptKind) -> list[dict[str, Any]]:
    home = await call.engine.node(*home_of(SCRIPTS, view.id))
    nodes = [] if home is None else await call.engine.children(home.id)
    return [body_of(view, kind, node) for node in nodes if node.name.startswith(row_name(kind.word, ""))]


async def read_feed(call: CosmosCall) -> Response:
    """GET …/sprocs, …/triggers or …/udfs."""
    view, kind = await call.get_owning_container(), KINDS[call.target.resource]
    return metadata.answer_feed(call, kind.feed, metadata.in_container(view), await _read_bodies(call, view, kind))


async def query(call: CosmosCall) -> Response:
    """POST …/sprocs, …/triggers or …/udfs with a query."""
    view, kind = await call.get_owning_container(), KINDS[call.target.resource]
    return await metadata.answer_query(
        call, kind.feed, metadata.in_container(view), await _read_bodies(call, view, kind)
    )


async def create(call: CosmosCall) -> Response:
    """POST …/sprocs, …/triggers or …/udfs."""
    view, kind = await call.get_owning_container(), KINDS[call.target.resource]
    name, body = _parse(call, kind)
    home = await call.engine.companions.home(SCRIPTS, view.id, call.now)
    row = row_name(kind.word, name)
    node = await call.engine.companions.create(home.id, row, _definition_maker(call, view, kind, body))
    return _answer(201, view, kind, node)


async def upsert(call: CosmosCall) -> Response:
    """POST …/sprocs, …/triggers or …/udfs with x-ms-documentdb-is-upsert."""
    view, kind = await call.get_owning_container(), KINDS[call.target.resource]
    name, body = _parse(call, kind)
    home = await call.engine.companions.home(SCRIPTS, view.id, call.now)
    row = row_name(kind.word, name)
    node, is_new = await call.engine.companions.upsert(
        home.id, row, _definition_maker(call, view, kind, body), call.now
    )
    return _answer(201 if is_new else 200, view, kind, node)


async def read(call: CosmosCall) -> Response:
    """GET …/sprocs/{s}, …/triggers/{t} or …/udfs/{u}."""
    view, kind = await call.get_owning_container(), KINDS[call.target.resource]
    return _answer(200, view, kind, await get_script(call, view, kind, call.target.id or ""))


async def replace(call: CosmosCall) -> Response:
    """PUT …/sprocs/{s}, …/triggers/{t} or …/udfs/{u}: a new text. The name may change."""
    view, kind = await call.get_owning_container(), KINDS[call.target.resource]
    node = await get_script(call, view, kind, call.target.id or "")
    name, body = _parse(call, kind)
    row = row_name(kind.word, name)
    changed = await call.engine.companions.replace(node.id, row, _definition_maker(call, view, kind, body), call.now)
    return _answer(200, view, kind, changed)


async def delete(call: CosmosCall) -> Response:
    """DELETE …/sprocs/{s}, …/triggers/{t} or …/udfs/{u}."""
    view, kind = await call.get_owning_container(), KINDS[call.target.resource]
    node = await get_script(call, view, kind, call.target.id or "")
    call.check_if_match(body_of(view, kind, node)["_etag"])
    await call.engine.definitions.drop(node.id)
    return metadata.answer_no_content(metadata.in_container(view))


def _parse(call: CosmosCall, kind: ScriptKind) -> tuple[str, dict[str, Any]]:
    """Parse the body to its id and the stored properties.

    As in the service, a text that is no function fails when it runs.
    """
    given = call.parse_body()
    if not isinstance(given, dict):
        raise BadRequest(f"The body must be a JSON object that describes a {kind.noun}.")
    known = {"id", "body"} | ({"triggerType", "triggerOperation"} if kind.rid is RidKind.TRIGGER else set())
    for member in given:
        if member not in known and not member.startswith("_"):
            raise BadRequest(f"The property '{member[:255]}' of the {kind.noun} is not known.")
    name, text = policies.check_name(given.get("id"), kind.noun), given.get("body")
    if not isinstance(text, str):
        raise BadRequest(f"The property 'body' of the {kind.noun} must be a string, the text of a function.")
    if len(text) > (most := call.account.scripts.text):
        raise TooLarge(f"The text of the {kind.noun} is longer than {most} characters.")
    if kind.rid is RidKind.TRIGGER:
        parse_word(given.get("triggerType"), TRIGGER_TYPES, "triggerType")
        parse_word(given.get("triggerOperation"), TRIGGER_OPERATIONS, "triggerOperation")
    return name, {member: given[member] for member in sorted(known - {"id"})}


def _definition_maker(call: CosmosCall, view: ContainerView, kind: ScriptKind, body: dict[str, Any]) -> DefinitionMaker:
    def make_definition(before: Node | None) -> Definition:
        if before is not None:
            call.check_if_match(body_of(view, kind, before)["_etag"])
        return Definition(body, call.now)

    return make_definition


def _answer(status: int, view: ContainerView, kind: ScriptKind, node: Node) -> Response:
    return metadata.answer_resource(status, body_of(view, kind, node), metadata.in_container(view))
