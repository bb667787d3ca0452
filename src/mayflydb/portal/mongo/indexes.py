"""The indexes of a collection: shown, created and dropped, TTL indexes with a preview of what they would expire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import RedirectResponse, Response

from mayflydb.admin.operations import Admin
from mayflydb.admin.wires import Mongo
from mayflydb.engine.proposals import Change
from mayflydb.model.errors import BadRequest, MayflyError
from mayflydb.portal import forms, words
from mayflydb.portal.forms import NOT_SUBMITTED, Outcome
from mayflydb.portal.mongo.query import require_mongo
from mayflydb.portal.shell import Shell, Visit, json_response, keep_message
from mayflydb.query.mongo.extended_json import encode_pairs, fields_of, format_value
from mayflydb.query.mongo.raw import elements
from mayflydb.query.mongo.shell_json import parse_document

MAX_TTL = 2_147_483_647
_SHOWN_APART = frozenset({"v", "key", "name", "ns"})


class IndexFields(msgspec.Struct, frozen=True):
    """The fields of the forms, as text. `agreed`: the question that a second click answered."""

    field: str = ""
    seconds: str = ""
    agreed: str = ""
    keys: str = ""
    unique: str = ""
    sparse: str = ""
    partial: str = ""
    index: str = ""


class IndexesPage:
    """The page of indexes. Its forms are sent as the commands of a client."""

    def __init__(self, admin: Admin, shell: Shell, mongo: Mongo | None) -> None:
        self._admin = admin
        self._shell = shell
        self._mongo = mongo

    async def show(self, visit: Visit) -> Response:
        """Show the indexes and the forms. `field` and `seconds` of the address fill the one for a TTL index."""
        given = visit.request.query_params
        return await self._render(visit, IndexFields(given.get("field", ""), given.get("seconds", "")), NOT_SUBMITTED)

    async def show_json(self, visit: Visit) -> Response:
        """The same as JSON."""
        return json_response({"indexes": await self._list(visit)})

    async def submit(self, visit: Visit, sent: Mapping[str, str]) -> Response:
        """Preview or create a TTL index, create another one, or drop one."""
        wanted = msgspec.convert(
            {name: sent[name] for name in IndexFields.__struct_fields__ if name in sent}, IndexFields
        )
        action = sent.get("action", "")
        try:
            if action == "preview":
                return await self._render(visit, wanted, NOT_SUBMITTED)
            if action == "create":
                said = await self._create(visit, wanted)
            elif action == "drop":
                said = await self._drop(visit, wanted.index)
            else:
                change = _requested_change(wanted)
                asked: int = (await self._admin.reports.preview(visit.container.target, change))["expire_now"]
                if asked and not forms.is_agreed(wanted.agreed, _describe(wanted), asked):
                    return await self._render(visit, wanted, Outcome(asked=asked))
                await self._admin.reports.set_ttl(visit.container.target, change)
                said = f"The TTL index on {wanted.field} has {wanted.seconds.strip()} s"
        except MayflyError as error:
            text, status = forms.describe_error(error)
            return await self._render(visit, wanted, Outcome([text], status))
        return keep_message(RedirectResponse(f"{visit.address}/indexes", 303), said)

    async def _create(self, visit: Visit, wanted: IndexFields) -> str:
        keys = parse_document(wanted.keys, "Keys")
        parts = [(name, format_value(value).strip('"')) for name, value in fields_of(keys).items()]
        name = "_".join(f"{field}_{how}" for field, how in parts)
        options: list[tuple[str, Any]] = [(each, True) for each in ("unique", "sparse") if getattr(wanted, each)]
        if wanted.partial.strip():
            options.append(("partialFilterExpression", parse_document(wanted.partial, "Partial filter")))
        index = encode_pairs([("key", keys), ("name", name), *options])
        await self._send(visit, [("createIndexes", visit.name), ("indexes", [index])])
        return f"Index {name} was created"

    async def _drop(self, visit: Visit, name: str) -> str:
        await self._send(visit, [("dropIndexes", visit.name), ("index", name)])
        return f"Index {name} was dropped"

    async def _send(self, visit: Visit, command: list[tuple[str, Any]]) -> Any:
        return await require_mongo(self._mongo).send(visit.database, encode_pairs(command))

    async def _list(self, visit: Visit) -> list[dict[str, str]]:
        reply = await self._send(visit, [("listIndexes", visit.name)])
        found = []
        for document in reply.documents:
            fields = fields_of(document)
            key = fields["key"]
            path = next((each.name.decode("utf-8", "replace") for each in elements(key.data)), "")
            details = [
                name if format_value(value) == "true" else f"{name}: {format_value(value)}"
                for name, value in fields.items()
                if name not in _SHOWN_APART
            ]
            found.append(
                {
                    "name": format_value(fields["name"])[1:-1],
                    "key": format_value(key),
                    "details": ", ".join(details),
                    "kind": "collection TTL" if path == "_ts" and "expireAfterSeconds" in fields else "",
                }
            )
        return found

    async def _render(self, visit: Visit, fields: IndexFields, outcome: Outcome) -> Response:
        errors, preview, reading = list(outcome.errors), None, ""
        if (fields.field or fields.seconds) and not errors:
            try:
                change = _requested_change(fields)
                preview = await self._admin.reports.preview(visit.container.target, change)
                reading = "only documents with a ttl of their own" if change.seconds == -1 else ""
                reading = reading or words.seconds(change.seconds or 0)
            except MayflyError as error:
                errors = [error.message]
        (settings,) = (await self._admin.reports.list_containers(visit.container.target))["targets"]
        lives = {each["name"]: each for each in settings["indexes"]}
        content = {
            "lives": lives,
            "indexes": await self._list(visit),
            "collection": settings,
            "fields": fields,
            "errors": errors,
            "asked": outcome.asked,
            "agreed": forms.format_question(_describe(fields), outcome.asked) if outcome.asked else "",
            "preview": preview,
            "reading": reading,
            "max_ttl": MAX_TTL,
            "database": visit.database,
            "name": visit.name,
            "address": visit.address,
        }
        return await self._shell.page(visit.request, "mongo/indexes.html", content, outcome.status, " ".join(errors))


def _requested_change(fields: IndexFields) -> Change:
    if not fields.field.strip():
        raise BadRequest("Field: name the field that holds the date, or _ts.")
    text = fields.seconds.strip()
    if text != "-1" and not (text.isascii() and text.isdigit() and len(text) < 12 and int(text) <= MAX_TTL):
        raise BadRequest(f"seconds: a whole number from 0 to {MAX_TTL}; -1 on _ts alone.")
    return Change(int(text), field=fields.field.strip())


def _describe(fields: IndexFields) -> str:
    return f"{fields.field.strip()} {fields.seconds.strip()}"
