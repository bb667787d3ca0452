"""The description of the admin API, OpenAPI 3.1: made from the table of operations and the types of their messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from mayflydb.admin import answers as a
from mayflydb.admin.events import Follow
from mayflydb.admin.import_records import FORMS, JSON_LINES
from mayflydb.admin.operation import Operation
from mayflydb.admin.problems import CONTENT_TYPE, STATUS
from mayflydb.admin.requests import LoginLinkWish, SnapshotName
from mayflydb.version import __version__

REFERENCE: Final = "#/components/schemas/{name}"

JSON: Final = "application/json"
EVENT_STREAM: Final = "text/event-stream"
PEM: Final = "application/x-pem-file"
OCTETS: Final = "application/octet-stream"


class OtherOperation(msgspec.Struct, frozen=True):
    """An operation outside of the table. `answer`: its type; None: the answer is no JSON. POST has its parameters in a body."""

    path: str
    summary: str
    answer: Any
    content_type: str = JSON
    needs_token: bool = True
    parameters: type[msgspec.Struct] | None = None
    method: str = "GET"


OTHERS: Final = (
    OtherOperation("/_mayfly/live", "Answers 200 while the process runs.", a.Live, needs_token=False),
    OtherOperation(
        "/_mayfly/ready", "Answers 200 when every listener and the store answer, else 503.", a.Ready, needs_token=False
    ),
    OtherOperation(
        "/_mayfly/events",
        "Streams events: expired records, purges, writes, moves of the clock, resets.",
        None,
        EVENT_STREAM,
        parameters=Follow,
    ),
    OtherOperation(
        "/_mayfly/snapshots/{name}", "Returns the bytes of a snapshot.", None, OCTETS, parameters=SnapshotName
    ),
    OtherOperation(
        "/_mayfly/login-links",
        "Makes a link that logs a browser in, where a token is needed.",
        a.LoginLink,
        parameters=LoginLinkWish,
        method="POST",
    ),
    OtherOperation("/_mayfly/info", "Tells version and addresses, with the host that the client used.", a.Info),
    OtherOperation("/_mayfly/openapi.json", "Describes all operations of this API as an OpenAPI 3.1 document.", dict),
    OtherOperation(
        "/_mayfly/cert",
        "Returns the certificate that clients of TLS have to trust, in PEM.",
        None,
        PEM,
        needs_token=False,
    ),
    OtherOperation(
        "/_explorer/emulator.pem", "The same, where Cosmos DB's emulator has it.", None, PEM, needs_token=False
    ),
)


def describe(operations: Iterable[Operation]) -> dict[str, Any]:
    """Return the document for these operations and the others below `/_mayfly`."""
    operations = tuple(operations)
    types = [a.Problem, *(each.answer for each in OTHERS if each.answer is not None)]
    types += [type for each in operations for type in (each.parameters, *answers_of(each))]
    types += [each.file for each in operations if each.file is not None]
    types += [each.parameters for each in OTHERS if each.parameters is not None]
    schemas, components = msgspec.json.schema_components(types, ref_template=REFERENCE)
    shapes = dict(zip(types, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for each in operations:
        described = _describe(each, shapes, components)
        paths.setdefault(f"/_mayfly/{each.path}", {})[each.method.lower()] = described
    for other in OTHERS:
        paths.setdefault(other.path, {})[other.method.lower()] = _describe_other(other, shapes, components)
    queries = {each.parameters.__name__ for each in operations if in_address(each)}
    queries |= {each.file.__name__ for each in operations if each.file is not None}
    queries |= {each.parameters.__name__ for each in OTHERS if each.parameters is not None and each.method == "GET"}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Mayfly's admin API",
            "version": __version__,
            "description": "Moves the clock, reports what expires, changes TTL settings, purges and resets.",
        },
        "security": [{}, {"token": []}],
        "paths": paths,
        "components": {
            "schemas": {name: schema for name, schema in components.items() if name not in queries},
            "responses": {"Problem": _describe_problem()},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "Needed on addresses other than loopback."}
            },
        },
    }


def _describe(operation: Operation, shapes: Mapping[Any, Any], components: Mapping[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": _operation_id(operation.method, operation.path),
        "summary": operation.summary,
        "responses": _describe_responses(JSON, _any_of([shapes[each] for each in answers_of(operation)])),
    }
    parameters = components[operation.parameters.__name__]
    if in_address(operation):
        described["parameters"] = _describe_query(parameters, operation.path, operation.example)
    elif parameters["properties"]:
        described["requestBody"] = _describe_body(shapes[operation.parameters], parameters, operation.example)
    if operation.uploads:
        described["requestBody"] = {"content": {OCTETS: {}}}
    if operation.path == "data/export":
        described["responses"]["200"]["content"][JSON_LINES] = {"schema": {"type": "string"}}
    if operation.file is not None:
        # These are the query of a request whose body is a file. Beside a document they are its members.
        query = _describe_query(components[operation.file.__name__], operation.path, {})
        described["parameters"] = [each | {"required": False} for each in query]
        described["requestBody"]["content"] |= {form: {"schema": {"type": "string"}} for form in FORMS}
    return described


def _describe_body(schema: Any, parameters: Mapping[str, Any], example: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "required": bool(parameters.get("required")),
        "content": {JSON: {"schema": schema, "example": example}},
    }


def _describe_query(parameters: Mapping[str, Any], path: str, example: Mapping[str, Any]) -> list[dict[str, Any]]:
    required = parameters.get("required", ())
    return [
        _describe_parameter(name, schema, name in required, example)
        | ({"in": "path"} if "{" + name + "}" in path else {})
        for name, schema in parameters["properties"].items()
    ]


def _describe_parameter(
    name: str, schema: Mapping[str, Any], required: bool, example: Mapping[str, Any]
) -> dict[str, Any]:
    # A query has no null: what is left out has its default.
    kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
    kept = {key: value for key, value in schema.items() if key not in ("anyOf", "description")}
    if kinds:
        kept = {key: value for key, value in kept.items() if key != "default"}
        kept |= kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    described = {"name": name, "in": "query", "required": required, "schema": kept}
    if "description" in schema:
        described["description"] = schema["description"]
    if name in example:
        described["example"] = example[name]
    return described


def in_address(operation: Operation) -> bool:
    """Return whether an operation has its parameters in path and query, and not in a body."""
    return operation.method != "POST" or "{" in operation.path


def answers_of(operation: Operation) -> tuple[type[msgspec.Struct], ...]:
    """Return the types that an operation's answer may have."""
    return operation.answer if isinstance(operation.answer, tuple) else (operation.answer,)


def _any_of(schemas: list[Any]) -> Any:
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def _describe_other(other: OtherOperation, shapes: Mapping[Any, Any], components: Mapping[str, Any]) -> dict[str, Any]:
    schema = {"type": "string"} if other.answer is None else shapes[other.answer]
    described: dict[str, Any] = {
        "operationId": _operation_id(other.method, other.path.strip("/").removeprefix("_mayfly/")),
        "summary": other.summary,
        "responses": _describe_responses(other.content_type, schema),
    }
    if other.parameters is not None:
        parameters = components[other.parameters.__name__]
        if other.method == "GET":
            described["parameters"] = _describe_query(parameters, other.path, {})
        else:
            described["requestBody"] = _describe_body(shapes[other.parameters], parameters, {})
    if other.answer is a.Ready:
        described["responses"]["503"] = {"description": "Not ready.", "content": {JSON: {"schema": schema}}}
    if not other.needs_token:
        described["security"] = [{}]
    return described


def _describe_responses(content_type: str, schema: Any) -> dict[str, Any]:
    problem = {"$ref": "#/components/responses/Problem"}
    return {
        "200": {"description": "Done.", "content": {content_type: {"schema": schema}}},
        "4XX": problem,
        "5XX": problem,
    }


def _describe_problem() -> dict[str, Any]:
    statuses = sorted({(status, title) for status, title in STATUS.values()})
    return {
        "description": "A refusal or a failure. " + "; ".join(f"{status}: {title}" for status, title in statuses) + ".",
        "content": {CONTENT_TYPE: {"schema": {"$ref": REFERENCE.format(name="Problem")}}},
    }


def _operation_id(method: str, path: str) -> str:
    words = "".join(letter if letter.isalnum() else "_" for letter in path)
    return f"{method.lower()}_{words.strip('_')}"
