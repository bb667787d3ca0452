"""Values of a query's parameters, from `-p '$name=JSON'`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from mayflydb.cli.ydb.client import Client
from mayflydb.cli.ydb.faults import Misuse
from mayflydb.cli.ydb.json_values import from_json
from mayflydb.frontends.ydb.descriptors import message
from mayflydb.frontends.ydb.values import type_of, typed_value


def parameters(client: Client, text: str, given: Sequence[str], in_base64: bool) -> dict[str, Any]:
    """TypedValues by name, of the types that the query wants; the server is asked for them where any are given.

    Misuse: one that is malformed, unknown, or of another type.
    """
    if not given:
        return {}
    answer = client.call("Ydb.Scripting.V1.ScriptingService/ExplainYql", script=text, mode=2)
    types = {name: type_of(each) for name, each in answer.parameters_types.items()}
    found = {}
    for each in given:
        name, equals, value = each.partition("=")
        name = name if name.startswith("$") else f"${name}"
        if not equals or name == "$":
            raise Misuse(
                'Wrong parameter format for "'
                + each
                + '". Parameter option should have equal sign. Examples (for linux):\n'
                "--param '$input=1'\n--param 'name=\"value\"'"
            )
        if name in found:
            raise Misuse(f"Parameter {name} is given twice")
        if name not in types:
            raise Misuse(f'Query does not contain parameter "{name}".')
        document = _document(name, value)
        type = types[name]
        found[name] = message("Ydb.TypedValue").FromString(typed_value(type, from_json(type, document, in_base64)))
    return found


def _document(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise Misuse(f"Parameter {name}: {text} is not JSON") from error
