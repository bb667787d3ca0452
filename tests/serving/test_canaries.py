"""Secrets that are planted everywhere, and looked for in everything that the server tells."""

from __future__ import annotations

import base64
import json
import logging
import re
import signal
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import quote

import grpc
import pytest
from azure.cosmos import CosmosClient, PartitionKey
from azure.cosmos.exceptions import CosmosHttpResponseError
from click.testing import CliRunner
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from mayflydb.cli.main import mayfly
from mayflydb.serving.logs import configure
from served import Http
from serving.test_process import PATIENCE, launch
from ydb_raw import Raw, connected

WORD = "CANARY"
KEY = base64.b64encode(b"key".ljust(64, b"k")).decode()
MONGO, YDB, GUESS, OWN = (f"{WORD}-{name}-'\"%/{name}" for name in ("mongo", "ydb", "guess", "own"))


def exercise_cosmos(endpoint: str) -> list[str]:
    """Ask with the right key, a wrong one and tokens; return the secrets that were given."""
    client = CosmosClient(endpoint, KEY)
    shop = client.create_database("shop")
    shop.create_container("c", partition_key=PartitionKey("/pk"))
    rights = {"id": "p", "permissionMode": "All", "resource": "dbs/shop/colls/c"}
    token = shop.create_user({"id": "ann"}).create_permission(rights).properties["_token"]
    wrong = base64.b64encode(GUESS.encode().ljust(64, b".")).decode()
    with pytest.raises(CosmosHttpResponseError):
        CosmosClient(endpoint, wrong)
    http = Http(int(endpoint.rstrip("/").rpartition(":")[2]))
    for header in (token, f"type=master&ver=1.0&sig={WORD}", f"type=aad&ver=1.0&sig={WORD}.{WORD}.{WORD}", WORD):
        http("GET", "/dbs/shop/colls/c/docs", None, authorization=quote(header, safe=""), x_ms_version="2018-12-31")
    return [wrong, token, token.split("sig=")[1].split(";")[0]]


def exercise_mongo(uri: str) -> None:
    place = uri.rpartition("@")[2].partition("/")[0]
    with MongoClient[dict[str, Any]](f"mongodb://{place}", username="admin", password=MONGO) as client:
        client.shop.command("createUser", "ann", pwd=OWN, roles=["read"])
        for wrong in ({"roles": ["none"]}, {"roles": 1}, {"roles": [], "mechanisms": [WORD]}):
            with pytest.raises(OperationFailure):
                client.shop.command("createUser", "ben", pwd=OWN, **wrong)
        for command in ("getCmdLineOpts", "serverStatus"):
            assert WORD not in repr(client.admin.command(command))
        client.shop.c.insert_one({"text": OWN})
    guesser = MongoClient[dict[str, Any]](f"mongodb://{place}", username="admin", password=GUESS)
    with guesser, pytest.raises(OperationFailure):
        guesser.admin.command("ping")


def exercise_ydb(raw: Raw) -> list[str]:
    from frontends.ydb.wire.test_logins import login, query, token

    ticket = token(raw, "root", YDB)
    login(raw, "root", GUESS)
    quoted = OWN.replace("'", "\\'")
    for text in (
        f"CREATE USER ann PASSWORD '{quoted}'",
        f"CREATE USER ann PASSWORD '{quoted}' NONSENSE",
        f"SELECT '{quoted}",
    ):
        query(raw, ticket, text)
    with pytest.raises(grpc.RpcError):
        raw.ask("Ydb.Table.V1.TableService/CreateSession", [("x-ydb-auth-ticket", WORD)])
    return [ticket[1]]


def test_nothing_tells_a_secret(tmp_path: Path) -> None:
    files = {"--key-file": KEY, "--mongo-password-file": MONGO, "--ydb-password-file": YDB}
    arguments = ["-m", "-p", "0", "--log-level", "debug", "--ready-file", str(tmp_path / "ready.json")]
    for flag, secret in files.items():
        place = tmp_path / flag.strip("-")
        place.write_text(secret)
        arguments += [flag, str(place)]
    process = launch(tmp_path, *arguments)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        ready = json.loads(line)
        given = exercise_cosmos(ready["cosmos"]["endpoint"])
        exercise_mongo(ready["mongo"]["uri"])
        with connected(ready["ydb"]["endpoint"]) as raw:
            given += exercise_ydb(raw)
        told = {"ready file": (tmp_path / "ready.json").read_text(), "command line": _command_line(process.pid)}
        http = Http(int(ready["admin"].removesuffix("/_mayfly").rpartition(":")[2]))
        for path in ("/metrics", "/_mayfly/info", "/_mayfly/stats", "/_mayfly/ready", "/_mayfly/ttl", "/"):
            told[path] = http("GET", path).body.decode()
        told["portal"] = http("GET", "/", accept="text/html").body.decode()
        for words in (
            ["status", "-o", "json"],
            ["connect"],
            ["connect", "--format", "json"],
            ["connect", "--format", "dotenv"],
            ["clock", "show"],
            ["ttl", "list", "-o", "wide"],
            ["metrics"],
            ["cert", "show"],
            ["config", "show", *arguments[3:]],
        ):
            told[" ".join(words[:3])] = _mayfly(ready["admin"], words)
        process.send_signal(signal.SIGTERM)
        told["stdout"], told["log"] = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0
    assert "debug" in told["log"]
    secrets = [KEY, *given]
    found = {
        where for where, text in told.items() for secret in secrets if secret in text or quote(secret, safe="") in text
    }
    assert not found and not {where for where, text in told.items() if WORD in text}


def _command_line(process: int) -> str:
    return Path(f"/proc/{process}/cmdline").read_text(encoding="utf-8")


def _mayfly(url: str, words: list[str]) -> str:
    ended = CliRunner().invoke(mayfly, ["--url", url, *words], catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    return ended.stdout + ended.stderr


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"the key {KEY} is wrong", "the key ... is wrong"),
        (f"url {quote(KEY, safe='')}", "url ..."),
        ("Authorization: Bearer abcdefgh123", "Authorization: Bearer ..."),
        ("type=resource&ver=1&sig=AbC+/=;x;", "type=resource&ver=1&sig=..."),
        ("type%3Dmaster%26ver%3D1.0%26sig%3DAbC", "type%3Dmaster%26ver%3D1.0%26sig%3D..."),
        ("CREATE USER a PASSWORD 'AbC'", "CREATE USER a PASSWORD '...'"),
        ("ticket eyJhbGci.eyJzdWIi.c2ln.", "ticket ...."),
        (r"CREATE USER a PASSWORD 'ab\'cd'", "CREATE USER a PASSWORD '...'"),
        ('{"createUser": "a", "pwd": "AbC"}', '"...'),
        ("design=plain", "design=plain"),
        ("short: abc", "short: abc"),
        ("what it says stays", "what it says stays"),
    ],
)
def test_a_line_of_the_log_has_no_secret(form: Any, text: str, shown: str) -> None:
    root, stream = logging.getLogger(), StringIO()
    handlers, level = root.handlers[:], root.level
    try:
        configure(form, "info", lambda: None, stream, lambda: [KEY, "abc"])
        logging.getLogger("mayflydb.x").warning("%s", text)
        try:
            raise ValueError(text)
        except ValueError:
            logging.getLogger("mayflydb.x").exception("a request failed")
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    lines = stream.getvalue()
    assert lines.count(shown) >= 2
    assert text == shown or not {"ab", "cd", "AbC", "abcdefgh", "c2ln", KEY}.intersection(
        re.findall(r"[\w+/=]+", lines)
    )
    if form == "json":
        assert all(json.loads(line)["msg"] for line in lines.splitlines())
