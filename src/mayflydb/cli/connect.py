"""`mayfly connect`: the running server's addresses and keys, for a shell, a file or a program."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from urllib.parse import urlsplit

import click
import msgspec

from mayflydb.cli.admin import CommandFailed, admin_client


class Access(msgspec.Struct, frozen=True):
    """The addresses and keys of a running server. `mongo` is empty if MongoDB is off, `ydb` and `database` if YDB is."""

    endpoint: str
    key: str
    mongo: str = ""
    ydb: str = ""
    database: str = ""


def _variables(access: Access) -> dict[str, str]:
    found = {
        "COSMOS_ENDPOINT": access.endpoint,
        "COSMOS_KEY": access.key,
        "COSMOS_CONNECTION_STRING": f"AccountEndpoint={access.endpoint};AccountKey={access.key};",
    }
    if access.mongo:
        found["MONGODB_URI"] = access.mongo
    if access.ydb:
        found["YDB_CONNECTION_STRING"] = f"{access.ydb}?database={access.database}"
    return found


def _env(access: Access) -> str:
    """Return commands for `eval` in a POSIX shell."""
    return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in _variables(access).items())


def _dotenv(access: Access) -> str:
    return "\n".join(f"{name}={json.dumps(value)}" for name, value in _variables(access).items())


def _json(access: Access) -> str:
    connection = _variables(access)["COSMOS_CONNECTION_STRING"]
    document: dict[str, object] = {
        "cosmos": {"endpoint": access.endpoint, "key": access.key, "connection_string": connection}
    }
    if access.mongo:
        document["mongo"] = {"uri": access.mongo}
    if access.ydb:
        document["ydb"] = {"endpoint": access.ydb, "database": access.database}
    return json.dumps(document, indent=2)


def _python(access: Access) -> str:
    lines = [
        "from azure.cosmos import CosmosClient",
        "",
        f"client = CosmosClient({json.dumps(access.endpoint)}, {json.dumps(access.key)})",
    ]
    if access.mongo:
        lines.insert(1, "from pymongo import MongoClient")
        lines.append(f"mongo = MongoClient({json.dumps(access.mongo)})")
    if access.ydb:
        lines.insert(1, "import ydb")
        lines.append(f"driver = ydb.Driver(endpoint={json.dumps(access.ydb)}, database={json.dumps(access.database)})")
    return "\n".join(lines)


def _node(access: Access) -> str:
    account = f"{{ endpoint: {json.dumps(access.endpoint)}, key: {json.dumps(access.key)} }}"
    lines = [
        'import { CosmosClient } from "@azure/cosmos";',
        "",
        f"const client = new CosmosClient({account});",
    ]
    if access.mongo:
        lines.insert(1, 'import { MongoClient } from "mongodb";')
        lines.append(f"const mongo = new MongoClient({json.dumps(access.mongo)});")
    if access.ydb:
        lines.insert(1, 'import { Driver } from "@ydbjs/core";')
        lines.append(f"const driver = new Driver({json.dumps(access.ydb + access.database)});")
    return "\n".join(lines)


def _csharp(access: Access) -> str:
    imports = ["using Microsoft.Azure.Cosmos;"]
    lines = [f"var client = new CosmosClient({json.dumps(access.endpoint)}, {json.dumps(access.key)});"]
    if access.mongo:
        imports.append("using MongoDB.Driver;")
        lines.append(f"var mongo = new MongoClient({json.dumps(access.mongo)});")
    if access.ydb:
        url = urlsplit(access.ydb)
        tls = ";UseTls=true" if url.scheme == "grpcs" else ""
        text = f"Host={url.hostname};Port={url.port};Database={access.database}{tls}"
        imports.append("using Ydb.Sdk.Ado;")
        lines.append(f"var ydb = new YdbConnection({json.dumps(text)});")
    return "\n".join([*imports, "", *lines])


def _java(access: Access) -> str:
    builder = f"new CosmosClientBuilder().endpoint({json.dumps(access.endpoint)}).key({json.dumps(access.key)})"
    imports = ["import com.azure.cosmos.CosmosClientBuilder;"]
    lines = [f"var client = {builder}.gatewayMode().buildClient();"]
    if access.endpoint.startswith("http:"):
        # Without this property the client speaks TLS to every address.
        lines.insert(0, 'System.setProperty("COSMOS.HTTP_CONNECTION_WITHOUT_TLS_ALLOWED", "true");')
    if access.mongo:
        imports.append("import com.mongodb.client.MongoClients;")
        lines.append(f"var mongo = MongoClients.create({json.dumps(access.mongo)});")
    if access.ydb:
        imports.append("import tech.ydb.core.grpc.GrpcTransport;")
        lines.append(
            f"var ydb = GrpcTransport.forConnectionString({json.dumps(access.ydb + access.database)}).build();"
        )
    return "\n".join([*imports, "", *lines])


def _mongosh(access: Access) -> str:
    """Return the command that starts MongoDB's shell."""
    if not access.mongo:
        raise CommandFailed("this server does not serve MongoDB")
    return f"mongosh {shlex.quote(access.mongo)}"


def _ydb(access: Access) -> str:
    """Return the beginning of a command of YDB's program, which a subcommand completes."""
    if not access.ydb:
        raise CommandFailed("this server does not serve YDB")
    return f"ydb -e {shlex.quote(access.ydb)} -d {shlex.quote(access.database)}"


FORMATS: dict[str, Callable[[Access], str]] = {
    "env": _env,
    "dotenv": _dotenv,
    "json": _json,
    "python": _python,
    "csharp": _csharp,
    "java": _java,
    "node": _node,
    "mongosh": _mongosh,
    "ydb": _ydb,
}


@click.command()
@click.option("--format", "form", type=click.Choice(list(FORMATS)), default="env", show_default=True)
@click.pass_context
def connect(ctx: click.Context, form: str) -> None:
    """Print how clients connect, for a shell, a file or a program."""
    info = admin_client(ctx).get("info")
    cosmos = info.get("cosmos")
    if not cosmos:
        raise CommandFailed("this server does not serve Cosmos")
    mongo = info.get("mongo") or {}
    ydb = info.get("ydb") or {}
    access = Access(
        cosmos["endpoint"], cosmos["key"], mongo.get("uri", ""), ydb.get("endpoint", ""), ydb.get("database", "")
    )
    click.echo(FORMATS[form](access))
