"""Words a server's addresses and keys for a shell, a file or a program, as `mayfly connect` and the portal show them.

A key or password that is a secret is not in them: the program or command reads its file.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import msgspec


class Access(msgspec.Struct, frozen=True):
    """The addresses and keys of a running server. `mongo` is empty if MongoDB is off, `ydb` and `database` if YDB is.

    `ydb_url` and `ydb_tls_url` are connection strings; the second is empty where YDB is not served with TLS.

    `key` is empty where it is a secret, which `key_file` holds. `mongo` has its user, and `mongo_password_file` the password.
    """

    endpoint: str
    key: str
    mongo: str = ""
    ydb: str = ""
    database: str = ""
    ydb_url: str = ""
    ydb_tls: str = ""
    ydb_tls_url: str = ""
    key_file: str = ""
    mongo_password_file: str = ""
    ydb_password_file: str = ""

    @property
    def has_secrets(self) -> bool:
        """True where a program reads a key or a password from its file."""
        return bool(self.key_file or self.mongo_password_file or self.ydb_password_file)

    @property
    def mongo_user(self) -> str:
        return unquote(urlsplit(self.mongo).username or "")

    @property
    def mongo_without_user(self) -> str:
        """The URI for clients that are given user and password beside it."""
        parts = urlsplit(self.mongo)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def access_of(info: Mapping[str, Any]) -> Access:
    """Read what GET `info` of the admin API answers."""
    cosmos, mongo, ydb = info["cosmos"], info.get("mongo") or {}, info.get("ydb") or {}
    return Access(
        endpoint=cosmos["endpoint"],
        key=cosmos.get("key") or "",
        mongo=mongo.get("uri", ""),
        ydb=ydb.get("endpoint", ""),
        database=ydb.get("database", ""),
        ydb_url=ydb.get("connection_string", ""),
        ydb_tls=ydb.get("tls_endpoint") or "",
        ydb_tls_url=ydb.get("tls_connection_string") or "",
        key_file=cosmos.get("key_file") or "",
        mongo_password_file=mongo.get("password_file") or "",
        ydb_password_file=ydb.get("password_file") or "",
    )


_PERCENT_ENCODED = "$(printf %s \"$(cat {})\" | od -An -v -tx1 | tr -d ' \\n' | sed 's/../%&/g')"
"""The password in a file, for a URI, as a POSIX shell computes it: each byte as %xx."""


def _variables(access: Access) -> dict[str, str]:
    """Return names, and values as a POSIX shell takes them."""
    key = shlex.quote(access.key) if access.key else f'"$(cat {shlex.quote(access.key_file)})"'
    account = shlex.quote(f"AccountEndpoint={access.endpoint};AccountKey=")
    connection = shlex.quote(f"AccountEndpoint={access.endpoint};AccountKey={access.key};")
    found = {
        "COSMOS_ENDPOINT": shlex.quote(access.endpoint),
        "COSMOS_KEY": key,
        "COSMOS_CONNECTION_STRING": connection if access.key else f"{account}{key}';'",
    }
    if access.mongo_password_file:
        head, at, tail = access.mongo.partition("@")
        password = _PERCENT_ENCODED.format(shlex.quote(access.mongo_password_file))
        found["MONGODB_URI"] = f'{shlex.quote(head + ":")}"{password}"{shlex.quote(at + tail)}'
    elif access.mongo:
        found["MONGODB_URI"] = shlex.quote(access.mongo)
    if access.ydb:
        found["YDB_CONNECTION_STRING"] = shlex.quote(access.ydb_url)
    if access.ydb_tls:
        found["YDB_TLS_CONNECTION_STRING"] = shlex.quote(access.ydb_tls_url)
    return found


def _env(access: Access) -> str:
    """Return commands for `eval` in a POSIX shell."""
    return "\n".join(f"export {name}={value}" for name, value in _variables(access).items())


def _dotenv(access: Access) -> str:
    found = {"COSMOS_ENDPOINT": access.endpoint}
    if access.key:
        found["COSMOS_KEY"] = access.key
        found["COSMOS_CONNECTION_STRING"] = f"AccountEndpoint={access.endpoint};AccountKey={access.key};"
    else:
        found["COSMOS_KEY_FILE"] = access.key_file
    if access.mongo:
        found["MONGODB_URI"] = access.mongo
    if access.mongo_password_file:
        found["MONGODB_PASSWORD_FILE"] = access.mongo_password_file
    if access.ydb:
        found["YDB_CONNECTION_STRING"] = access.ydb_url
    if access.ydb_tls:
        found["YDB_TLS_CONNECTION_STRING"] = access.ydb_tls_url
    if access.ydb_password_file:
        found["YDB_PASSWORD_FILE"] = access.ydb_password_file
    return "\n".join(f"{name}={json.dumps(value)}" for name, value in found.items())


def _json(access: Access) -> str:
    cosmos = {"endpoint": access.endpoint}
    if access.key:
        connection = f"AccountEndpoint={access.endpoint};AccountKey={access.key};"
        cosmos |= {"key": access.key, "connection_string": connection}
    else:
        cosmos["key_file"] = access.key_file
    document: dict[str, dict[str, str]] = {"cosmos": cosmos}
    if access.mongo:
        document["mongo"] = {"uri": access.mongo}
    if access.mongo_password_file:
        document["mongo"]["password_file"] = access.mongo_password_file
    if access.ydb:
        document["ydb"] = {"endpoint": access.ydb, "database": access.database, "connection_string": access.ydb_url}
    if access.ydb_tls:
        document["ydb"] |= {"tls_endpoint": access.ydb_tls, "tls_connection_string": access.ydb_tls_url}
    if access.ydb_password_file:
        document["ydb"]["password_file"] = access.ydb_password_file
    return json.dumps(document, indent=2)


def _python(access: Access) -> str:
    def secret(place: str) -> str:
        return f"Path({json.dumps(place)}).read_text().strip()"

    key = json.dumps(access.key) if access.key else secret(access.key_file)
    lines = [
        "from azure.cosmos import CosmosClient",
        "",
        f"client = CosmosClient({json.dumps(access.endpoint)}, {key})",
    ]
    if access.mongo:
        lines.insert(1, "from pymongo import MongoClient")
        lines.append(f"mongo = MongoClient({json.dumps(access.mongo)})")
    if access.mongo_password_file:
        user, password = json.dumps(access.mongo_user), secret(access.mongo_password_file)
        uri = json.dumps(access.mongo_without_user)
        lines[-1] = f"mongo = MongoClient({uri}, username={user}, password={password})"
    if access.has_secrets:
        lines.insert(0, "from pathlib import Path")
    if access.ydb:
        lines.insert(1, "import ydb")
        place = f"endpoint={json.dumps(access.ydb)}, database={json.dumps(access.database)}"
        if access.ydb_password_file:
            login = f'ydb.StaticCredentials.from_user_password("root", {secret(access.ydb_password_file)})'
            place += f", credentials={login}"
        lines.append(f"driver = ydb.Driver({place})")
    return "\n".join(lines)


def _node(access: Access) -> str:
    def secret(place: str) -> str:
        return f'readFileSync({json.dumps(place)}, "utf8").trim()'

    key = json.dumps(access.key) if access.key else secret(access.key_file)
    account = f"{{ endpoint: {json.dumps(access.endpoint)}, key: {key} }}"
    lines = [
        'import { CosmosClient } from "@azure/cosmos";',
        "",
        f"const client = new CosmosClient({account});",
    ]
    if access.mongo:
        lines.insert(1, 'import { MongoClient } from "mongodb";')
        lines.append(f"const mongo = new MongoClient({json.dumps(access.mongo)});")
    if access.mongo_password_file:
        login = f"username: {json.dumps(access.mongo_user)}, password: {secret(access.mongo_password_file)}"
        lines[-1] = (
            f"const mongo = new MongoClient({json.dumps(access.mongo_without_user)}, {{ auth: {{ {login} }} }});"
        )
    if access.has_secrets:
        lines.insert(0, 'import { readFileSync } from "node:fs";')
    if access.ydb:
        lines.insert(1, 'import { Driver } from "@ydbjs/core";')
        lines.append(f"const driver = new Driver({json.dumps(access.ydb_url)});")
    if access.ydb_password_file:
        url, login = json.dumps(access.ydb_url), f'username: "root", password: {secret(access.ydb_password_file)}'
        lines.insert(1, 'import { StaticCredentialsProvider } from "@ydbjs/auth/static";')
        lines[-1:] = [
            f"const credentialsProvider = new StaticCredentialsProvider({{ {login} }}, {url});",
            f"const driver = new Driver({url}, {{ credentialsProvider }});",
        ]
    return "\n".join(lines)


def _csharp(access: Access) -> str:
    imports = ["using Microsoft.Azure.Cosmos;"]

    def secret(place: str) -> str:
        return f"File.ReadAllText({json.dumps(place)}).Trim()"

    key = json.dumps(access.key) if access.key else secret(access.key_file)
    lines = [f"var client = new CosmosClient({json.dumps(access.endpoint)}, {key});"]
    if access.mongo:
        imports.append("using MongoDB.Driver;")
        lines.append(f"var mongo = new MongoClient({json.dumps(access.mongo)});")
    if access.mongo_password_file:
        login = f'"admin", {json.dumps(access.mongo_user)}, {secret(access.mongo_password_file)}'
        lines[-1:] = [
            f"var settings = MongoClientSettings.FromConnectionString({json.dumps(access.mongo_without_user)});",
            f"settings.Credential = MongoCredential.CreateCredential({login});",
            "var mongo = new MongoClient(settings);",
        ]
    if access.ydb:
        url = urlsplit(access.ydb)
        tls = ";UseTls=true" if url.scheme == "grpcs" else ""
        text = f"Host={url.hostname};Port={url.port};Database={access.database}{tls}"
        imports.append("using Ydb.Sdk.Ado;")
        lines.append(f"var ydb = new YdbConnection({json.dumps(text)});")
        if access.ydb_password_file:
            text += ";User=root;Password="
            lines[-1] = f"var ydb = new YdbConnection({json.dumps(text)} + {secret(access.ydb_password_file)});"
    return "\n".join([*imports, "", *lines])


def _java(access: Access) -> str:
    def secret(place: str) -> str:
        return f"Files.readString(Path.of({json.dumps(place)})).strip()"

    key = json.dumps(access.key) if access.key else secret(access.key_file)
    builder = f"new CosmosClientBuilder().endpoint({json.dumps(access.endpoint)}).key({key})"
    imports = ["import com.azure.cosmos.CosmosClientBuilder;"]
    lines = [f"var client = {builder}.buildClient();"]
    if access.endpoint.startswith("http:"):
        # Direct mode uses TLS. Without the property the client speaks TLS to every address.
        lines = [
            'System.setProperty("COSMOS.HTTP_CONNECTION_WITHOUT_TLS_ALLOWED", "true");',
            f"var client = {builder}.gatewayMode().buildClient();",
        ]
    if access.mongo:
        imports.append("import com.mongodb.client.MongoClients;")
        lines.append(f"var mongo = MongoClients.create({json.dumps(access.mongo)});")
    if access.mongo_password_file:
        head, at, tail = access.mongo.partition("@")
        password = f'URLEncoder.encode({secret(access.mongo_password_file)}, UTF_8).replace("+", "%20")'
        lines[-1] = f"var mongo = MongoClients.create({json.dumps(head + ':')} + {password} + {json.dumps(at + tail)});"
        imports += ["import java.net.URLEncoder;", "import static java.nio.charset.StandardCharsets.UTF_8;"]
    if access.has_secrets:
        imports += ["import java.nio.file.Files;", "import java.nio.file.Path;"]
    if access.ydb:
        imports.append("import tech.ydb.core.grpc.GrpcTransport;")
        transport = f"GrpcTransport.forConnectionString({json.dumps(access.ydb_url)})"
        if access.ydb_password_file:
            imports.append("import tech.ydb.core.auth.StaticCredentials;")
            transport += f'.withAuthProvider(new StaticCredentials("root", {secret(access.ydb_password_file)}))'
        lines.append(f"var ydb = {transport}.build();")
    return "\n".join([*imports, "", *lines])


def _mongosh(access: Access) -> str:
    """Return the command that starts MongoDB's shell; empty where MongoDB is off. The shell asks for a password it needs."""
    return access.mongo and f"mongosh {shlex.quote(access.mongo)}"


def _ydb(access: Access) -> str:
    """Return the beginning of a command of YDB's program, which a subcommand completes; empty where YDB is off."""
    if not access.ydb:
        return ""
    command = f"ydb -e {shlex.quote(access.ydb)} -d {shlex.quote(access.database)}"
    if access.ydb_password_file:
        command += f" --user root --password-file {shlex.quote(access.ydb_password_file)}"
    return command


FORMATS: Final[Mapping[str, Callable[[Access], str]]] = {
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
