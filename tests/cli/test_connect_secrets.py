"""`mayfly connect` prints no secret: what it prints reads the files that hold them."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from mayflydb.connecting import FORMATS
from mayflydb.embedded import RunningServer, serve

Run = Callable[..., Result]

KEY = base64.b64encode(b"canary".ljust(64, b"k")).decode()
PASSWORD = "canary pass'word$(x)%/@:"


class Guarded:
    def __init__(self, server: RunningServer, directory: Path) -> None:
        self.server = server
        self.key, self.password = directory / "account key", directory / "pass'word"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    directory = tmp_path_factory.mktemp("secrets")
    key, password = directory / "account key", directory / "pass'word"
    key.write_text(KEY + "\n")
    password.write_text(PASSWORD + "\n")
    files = {"key_file": str(key), "mongo_password_file": str(password), "ydb_password_file": str(password)}
    with serve(memory=True, port=0, **files) as server:
        yield Guarded(server, directory)


@pytest.mark.parametrize("form", list(FORMATS))
def test_no_form_has_a_secret(run: Run, guarded: Guarded, form: str) -> None:
    result = run("--url", guarded.server.admin_url, "connect", "--format", form)
    assert result.exit_code == 0, result.output
    assert KEY not in result.output and "canary" not in result.output
    if form != "mongosh":
        place = guarded.password if form == "ydb" else guarded.key
        assert place.name in result.stdout or place.name.replace("'", "'\"'\"'") in result.stdout


def test_a_shell_has_the_secrets(run: Run, guarded: Guarded) -> None:
    script = run("--url", guarded.server.admin_url, "connect").stdout
    names = ("COSMOS_KEY", "COSMOS_CONNECTION_STRING", "MONGODB_URI")
    script += "\n" + "\n".join(f'printf "%s\\n" "${name}"' for name in names)
    ended = subprocess.run(["sh", "-eu", "-c", script], capture_output=True, check=True, text=True)
    key, connection, uri = ended.stdout.splitlines()
    assert (key, connection) == (KEY, f"AccountEndpoint={guarded.server.cosmos.url};AccountKey={KEY};")
    from pymongo import MongoClient

    with MongoClient[dict[str, Any]](uri) as client:
        assert client.admin.command("connectionStatus")["authInfo"]["authenticatedUsers"]


def test_the_program_for_python_connects(run: Run, guarded: Guarded) -> None:
    program = run("--url", guarded.server.admin_url, "connect", "--format", "python").stdout
    program += "\nprint(list(client.list_databases()), mongo.list_database_names())"
    program += (
        "\ndriver.wait(10, fail_fast=True)\nprint(driver.scheme_client.list_directory('/local').name)\ndriver.stop()"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert ended.stdout == "[] ['admin']\n/local\n"


def test_the_document_names_the_files(run: Run, guarded: Guarded) -> None:
    document = json.loads(run("--url", guarded.server.admin_url, "connect", "--format", "json").stdout)
    assert document["cosmos"]["key_file"] == str(guarded.key) and "key" not in document["cosmos"]
    assert {document[name]["password_file"] for name in ("mongo", "ydb")} == {str(guarded.password)}
    assert document["mongo"]["uri"].startswith("mongodb://admin@")
