"""What a test can watch so that nobody has to: length, time, leftovers, and what the repository says about itself."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "mayflydb"

LONGEST_FILE = 600
TABLES: set[str] = set()
"""Files that may be longer because they are tables, not logic; paths below src/mayflydb."""

LONGEST_FUNCTION = 60
"""A ratchet: lower it when the longest function has become shorter."""

# Reading a clock: `time` functions that take a moment from the host, and datetime's.
CLOCK_READS = {
    "time": {
        "time",
        "time_ns",
        "gmtime",
        "localtime",
        "ctime",
        "asctime",
        "strftime",
        "clock_gettime",
        "clock_gettime_ns",
    },
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
}
WITH_ARGUMENT = {"gmtime": 1, "localtime": 1, "ctime": 1, "asctime": 1, "strftime": 2}
"""These convert when they are given a moment, and read the clock when they are not."""

SQL_TIME = re.compile(
    r"\bCURRENT_(?:TIMESTAMP|TIME|DATE)\b|\bnow\(\)|['\"]now['\"]|\bunixepoch\(|\bjulianday\(", re.IGNORECASE
)
LEFTOVERS = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b|NotImplementedError")
MACHINE_PATHS = re.compile(r"(?<![\w.])/(?:home|root|Users|work|tmp|opt|usr/local)/\w+|[A-Z]:\\\\?Users\b")
EXAMPLE_PATHS = re.compile(r"/home/(?:you|me|user)\b")

SOURCES = sorted(SOURCE.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
TEXTS = sorted(
    path
    for pattern in (
        "*.md",
        "*.toml",
        "*.lock",
        "Makefile",
        ".ci/run",
        "tools/*",
        "docs/**/*",
        "src/**/*.py",
        "tests/**/*.py",
    )
    for path in ROOT.glob(pattern)
    if path.is_file() and "__pycache__" not in path.parts
)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def calls(tree: ast.AST) -> Iterator[tuple[str, str, ast.Call]]:
    """(object, function, call) of every `object.function(...)`; the last name of the object, so `datetime.datetime` too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            name = owner.attr if isinstance(owner, ast.Attribute) else owner.id if isinstance(owner, ast.Name) else ""
            yield name, node.func.attr, node


def clock_reads(tree: ast.AST) -> list[str]:
    found = []
    for owner, function, call in calls(tree):
        if function in CLOCK_READS.get(owner, ()) and len(call.args) < WITH_ARGUMENT.get(function, 1000):
            found.append(f"line {call.lineno}: {owner}.{function}()")
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            found += [f"line {node.lineno}: {name.name}" for name in node.names if name.name in CLOCK_READS["time"]]
    return found


def sleeps(tree: ast.AST) -> list[str]:
    """Sleeping for a length of time. `asyncio.sleep(0)` only gives others a turn."""
    found = []
    for owner, function, call in calls(tree):
        if function == "sleep" and owner in ("time", "asyncio", "anyio", "trio"):
            turn = owner != "time" and len(call.args) == 1
            if not (turn and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0):
                found.append(f"line {call.lineno}: {owner}.sleep")
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in ("time", "asyncio"):
            found += [f"line {node.lineno}: sleep" for name in node.names if name.name == "sleep"]
    return found


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def test_files_are_short() -> None:
    tables = {f"src/mayflydb/{name}" for name in TABLES}
    lengths = {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}
    assert tables <= lengths.keys()
    assert {name: length for name, length in lengths.items() if length > LONGEST_FILE and name not in tables} == {}


def test_functions_are_short() -> None:
    long = [
        f"{name_of(path)}:{function.lineno} {function.name}"
        for path in SOURCES
        for function in functions(parse(path))
        if (function.end_lineno or 0) - function.lineno >= LONGEST_FUNCTION
    ]
    assert long == []


def test_only_the_clock_reads_the_time() -> None:
    readers = {name_of(path): clock_reads(parse(path)) for path in SOURCES if path != SOURCE / "clock.py"}
    assert {name: reads for name, reads in readers.items() if reads} == {}


def test_no_sql_reads_the_time() -> None:
    found = [
        f"{name_of(path)}:{node.lineno}"
        for path in sorted((SOURCE / "store").rglob("*.py"))
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and SQL_TIME.search(node.value)
    ]
    assert found == []


def test_nothing_sleeps() -> None:
    found = {name_of(path): sleeps(parse(path)) for path in (*SOURCES, *TESTS)}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_nothing_is_left_for_later() -> None:
    found = [
        f"{name_of(path)}:{number}"
        for path in SOURCES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if LEFTOVERS.search(line)
    ]
    assert found == []


def test_no_path_of_a_machine_is_written_down() -> None:
    found = [
        f"{name_of(path)}:{number}: {line.strip()}"
        for path in TEXTS
        if path != Path(__file__)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if MACHINE_PATHS.search(EXAMPLE_PATHS.sub("", line))
    ]
    assert found == []


def test_product_code_knows_no_tests() -> None:
    imported = {
        name
        for path in SOURCES
        for node in ast.walk(parse(path))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert {name for name in imported if name.partition(".")[0] in ("tests", "conftest", "hypothesis")} == set()


# --- packaging -------------------------------------------------------------------------------------------------------


def pinned(lock: str) -> dict[str, str]:
    text = (ROOT / lock).read_text(encoding="utf-8")
    return dict(re.findall(r"^([a-z0-9][a-z0-9._-]*)==([^\s;\\]+)", text, re.MULTILINE))


def test_the_locks_agree_and_name_no_registry() -> None:
    everything, runtime = pinned("requirements.lock"), pinned("requirements-runtime.lock")
    assert runtime.items() <= everything.items()
    for lock in ("requirements.lock", "requirements-runtime.lock"):
        assert "://" not in (ROOT / lock).read_text(encoding="utf-8")


def test_every_requirement_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    wanted = [
        *project["project"]["dependencies"],
        *extras["test"],
        *extras["demo"],
        *extras["postgres"],
        *project["dependency-groups"]["build"],
    ]
    names = {re.split(r"[\[<>=;~! ]", requirement)[0] for requirement in wanted} - {"mayflydb"}
    assert names <= pinned("requirements.lock").keys()


# --- the watchers themselves -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("time.time()", 1),
        ("datetime.now(UTC)", 1),
        ("datetime.datetime.utcnow()", 1),
        ("date.today()", 1),
        ("time.gmtime()", 1),
        ("time.strftime('%Y')", 1),
        ("from time import time_ns", 1),
        ("time.gmtime(0)", 0),
        ("time.monotonic()", 0),
        ("clock.now()", 0),
    ],
)
def test_a_clock_read_is_seen(code: str, count: int) -> None:
    assert len(clock_reads(ast.parse(code))) == count


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("time.sleep(0)", 1),
        ("asyncio.sleep(0.1)", 1),
        ("asyncio.sleep(delay)", 1),
        ("from asyncio import sleep", 1),
        ("asyncio.sleep(0)", 0),
        ("timer.sleep(5)", 0),
    ],
)
def test_a_sleep_is_seen(code: str, count: int) -> None:
    assert len(sleeps(ast.parse(code))) == count


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ("see /home/alice/x", True),
        ("C:\\Users\\bob", True),
        ("open('/work/a')", True),
        ("/home/you/mayfly.db", False),
        ("a/tmp/b", False),
    ],
)
def test_a_machine_path_is_seen(line: str, seen: bool) -> None:
    assert bool(MACHINE_PATHS.search(EXAMPLE_PATHS.sub("", line))) is seen


@pytest.mark.parametrize("text", ["SELECT now()", "datetime('now')", "DEFAULT CURRENT_TIMESTAMP", "unixepoch()"])
def test_sql_time_is_seen(text: str) -> None:
    assert SQL_TIME.search(text)
