"""Values of a query's parameters, from `-p '$name=JSON'` and from a file or standard input, a JSON object for each set."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from mayflydb.cli.ydb.client import Client
from mayflydb.cli.ydb.faults import Misuse
from mayflydb.cli.ydb.json_values import from_json
from mayflydb.frontends.ydb.descriptors import message
from mayflydb.frontends.ydb.values import decode_type, encode_typed_value
from mayflydb.query.yql.types import Type

C = TypeVar("C", bound=Callable[..., Any])

LINE_FRAMING = "newline-delimited"


class ParameterInput(msgspec.Struct, frozen=True):
    """The options about parameters.

    `given`: values of `-p`. `file`: a file with sets of parameters; None: standard input unless it is a terminal. `form`:
    the notation of bytes. `stdin_is_taken`: the text of the query comes from there.
    """

    given: Sequence[str] = ()
    file: str | None = None
    form: str = "json-unicode"
    framing: str = "no-framing"
    stdin_is_taken: bool = False


def input_options(command: C) -> C:
    """`-p`, `--input-file`, `--input-format` and `--input-framing`."""
    for option in (
        click.option(
            "--input-framing",
            type=click.Choice(["no-framing", LINE_FRAMING]),
            default="no-framing",
            show_default=True,
            help="One set of parameters, or one on each line, for each of which the query runs.",
        ),
        click.option(
            "--input-format",
            type=click.Choice(["json-unicode", "json-base64"]),
            default="json-unicode",
            show_default=True,
            help="The notation of bytes in parameters.",
        ),
        click.option("--input-file", metavar="PATH", help="Parameters, as JSON objects.  [default: standard input]"),
        click.option(
            "-p", "--param", "given", multiple=True, metavar="$NAME=JSON", help="A parameter; may be repeated."
        ),
    ):
        command = option(command)
    return command


def parameter_sets(client: Client, text: str, source: ParameterInput) -> Iterator[dict[str, Any]]:
    """Yield one set of parameters for each run of the query: TypedValues by name, in the types that the query declares.

    The types come from the server. Standard input is read only if a parameter has no value yet. Misuse for a malformed
    or unknown parameter, or a value of another type.
    """
    given = _parse_options(source.given)
    # Saves a request for the types of parameters.
    if not given and source.file is None and "$" not in text:
        yield {}
        return
    types = _fetch_types(client, text)
    for name in given:
        if name not in types:
            raise Misuse(f'Query does not contain parameter "{name}".')
    own = {name: _build_typed_value(name, types[name], value, source) for name, value in given.items()}
    # Nothing is left to be read, so standard input stays untouched: it may be a terminal, or another program's.
    if types.keys() <= own.keys():
        yield own
        return
    for line in _read_sets(source):
        named = {name if name.startswith("$") else f"${name}": value for name, value in line.items()}
        rest = {
            name: _build_typed_value(name, types[name], value, source) for name, value in named.items() if name in types
        }
        yield own | rest


def _fetch_types(client: Client, text: str) -> dict[str, Type]:
    answer = client.call("Ydb.Scripting.V1.ScriptingService/ExplainYql", script=text, mode=2)
    return {name: decode_type(each) for name, each in answer.parameters_types.items()}


def _parse_options(options: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in options:
        name, equals, value = each.partition("=")
        name = name if name.startswith("$") else f"${name}"
        if not equals or name == "$":
            raise Misuse(
                f'Wrong parameter format for "{each}". Parameter option should have equal sign. Examples (for linux):\n'
                "--param '$input=1'\n--param 'name=\"value\"'"
            )
        if name in found:
            raise Misuse(f"Parameter {name} is given twice")
        try:
            found[name] = json.loads(value)
        except ValueError as error:
            raise Misuse(f"Parameter {name}: {value} is not JSON") from error
    return found


def _build_typed_value(name: str, type: Type, document: Any, source: ParameterInput) -> Any:
    try:
        value = from_json(type, document, "base64" in source.form)
    except Misuse as error:
        raise Misuse(f"Parameter {name}: {error.message}") from error
    return message("Ydb.TypedValue").FromString(encode_typed_value(type, value))


def _read_sets(source: ParameterInput) -> Iterator[Mapping[str, Any]]:
    """Yield the sets in a file or on standard input. Without any, yield an empty set: the server names what is missing."""
    if source.file is not None:
        try:
            text = Path(source.file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise Misuse(f"Can't read file {source.file}: {error}") from error
    else:
        text = "" if source.stdin_is_taken or sys.stdin.isatty() else sys.stdin.read()
    documents = text.splitlines() if source.framing == LINE_FRAMING else [text]
    kept = [each for each in documents if each.strip()]
    for each in kept or ["{}"]:
        try:
            found = json.loads(each)
        except ValueError as error:
            raise Misuse(f"Parameters are not JSON: {error}") from error
        if not isinstance(found, dict):
            raise Misuse("Parameters are given as a JSON object, each by its name")
        yield found
