"""`mayfly connect`: the running server's address and key, in the form that is needed."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable

import click

from mayflydb.cli.admin import CommandFailed, admin_of


def _variables(endpoint: str, key: str) -> dict[str, str]:
    return {
        "COSMOS_ENDPOINT": endpoint,
        "COSMOS_KEY": key,
        "COSMOS_CONNECTION_STRING": f"AccountEndpoint={endpoint};AccountKey={key};",
    }


def _env(endpoint: str, key: str) -> str:
    """For `eval` in a POSIX shell."""
    return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in _variables(endpoint, key).items())


def _dotenv(endpoint: str, key: str) -> str:
    return "\n".join(f"{name}={json.dumps(value)}" for name, value in _variables(endpoint, key).items())


def _json(endpoint: str, key: str) -> str:
    connection = _variables(endpoint, key)["COSMOS_CONNECTION_STRING"]
    return json.dumps({"cosmos": {"endpoint": endpoint, "key": key, "connection_string": connection}}, indent=2)


def _python(endpoint: str, key: str) -> str:
    return "\n".join(
        (
            "from azure.cosmos import CosmosClient",
            "",
            f"client = CosmosClient({json.dumps(endpoint)}, {json.dumps(key)})",
        )
    )


def _node(endpoint: str, key: str) -> str:
    return "\n".join(
        (
            'import { CosmosClient } from "@azure/cosmos";',
            "",
            f"const client = new CosmosClient({{ endpoint: {json.dumps(endpoint)}, key: {json.dumps(key)} }});",
        )
    )


FORMATS: dict[str, Callable[[str, str], str]] = {
    "env": _env,
    "dotenv": _dotenv,
    "json": _json,
    "python": _python,
    "node": _node,
}


@click.command()
@click.option("--format", "form", type=click.Choice(list(FORMATS)), default="env", show_default=True)
@click.pass_context
def connect(ctx: click.Context, form: str) -> None:
    """Print how clients connect, for a shell, a file or a program."""
    cosmos = admin_of(ctx).get("info").get("cosmos")
    if not cosmos:
        raise CommandFailed("this server does not serve Cosmos")
    click.echo(FORMATS[form](cosmos["endpoint"], cosmos["key"]))
