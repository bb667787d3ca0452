"""Upper bounds of the source: lengths, circles, names, sentences; reads of time, leftovers, and the locks."""

from __future__ import annotations

import ast
import functools
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

import house

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "mayflydb"

LONGEST_FILE = 560
TABLES: set[str] = set()
"""Files that may be longer because they are tables, not logic; paths below src/mayflydb."""

LONGEST_FUNCTION = 52
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
DIALECTS = re.compile(
    r"cosmos|mongo|\bydb\b|yql|defaultTtl|expireAfterSeconds|\b_ts\b|collMod|DyNumber|Resource Not Found|Owner resource",
    re.IGNORECASE,
)
"""Words of protocols and their vendors, which engine, expiry, model and store do not use."""

LEFTOVERS = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b|NotImplementedError")
MACHINE_PATHS = re.compile(r"(?<![\w.])/(?:home|root|Users|work|tmp|opt|usr/local)/\w+|[A-Z]:\\\\?Users\b")
EXAMPLE_PATHS = re.compile(r"/home/(?:you|me|user)\b|/usr/local/share/ca-certificates\b")

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
    if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".png"
)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def calls(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str, ast.Call]]:
    """(object, function, call) of every `object.function(...)`; the last name of the object, so `datetime.datetime` too."""
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            name = owner.attr if isinstance(owner, ast.Attribute) else owner.id if isinstance(owner, ast.Name) else ""
            yield name, node.func.attr, node


def clock_reads(nodes: Sequence[ast.AST]) -> list[str]:
    found = []
    for owner, function, call in calls(nodes):
        if function in CLOCK_READS.get(owner, ()) and len(call.args) < WITH_ARGUMENT.get(function, 1000):
            found.append(f"line {call.lineno}: {owner}.{function}()")
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            found += [f"line {node.lineno}: {name.name}" for name in node.names if name.name in CLOCK_READS["time"]]
    return found


def sleeps(nodes: Sequence[ast.AST]) -> list[str]:
    """Sleeping for a length of time. `asyncio.sleep(0)` only gives others a turn."""
    found = []
    for owner, function, call in calls(nodes):
        if function == "sleep" and owner in ("time", "asyncio", "anyio", "trio"):
            turn = owner != "time" and len(call.args) == 1
            if not (turn and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0):
                found.append(f"line {call.lineno}: {owner}.sleep")
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module in ("time", "asyncio"):
            found += [f"line {node.lineno}: sleep" for name in node.names if name.name == "sleep"]
    return found


def sql_times(nodes: Iterable[ast.AST]) -> list[str]:
    return [
        f"line {node.lineno}"
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and SQL_TIME.search(node.value)
    ]


@dataclass(frozen=True)
class Findings:
    clock_reads: list[str]
    sleeps: list[str]
    sql_times: list[str]
    leftovers: list[int]
    stores: list[int]
    module: house.Module


@functools.cache
def look_at(path: Path) -> Findings:
    """Each file is parsed and walked once."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text, str(path))
    nodes = list(ast.walk(tree))
    leftovers = [number for number, line in enumerate(text.splitlines(), 1) if LEFTOVERS.search(line)]
    stores = [node.lineno for node in nodes if isinstance(node, ast.Attribute) and node.attr == "store"]
    return Findings(
        clock_reads(nodes), sleeps(nodes), sql_times(nodes), leftovers, stores, house.measure(path, text, tree)
    )


def modules() -> list[house.Module]:
    return [look_at(path).module for path in SOURCES]


def test_files_are_short() -> None:
    tables = {f"src/mayflydb/{name}" for name in TABLES}
    lengths = {module.file: module.lines for module in modules()}
    assert tables <= lengths.keys()
    assert {name: length for name, length in lengths.items() if length > LONGEST_FILE and name not in tables} == {}


def test_functions_are_short() -> None:
    long = [
        f"{module.file}:{function.line} {function.name}"
        for module in modules()
        for function in module.functions
        if function.lines > LONGEST_FUNCTION
    ]
    assert long == []


def test_only_the_clock_reads_the_time() -> None:
    readers = {name_of(path): look_at(path).clock_reads for path in SOURCES if path != SOURCE / "clock.py"}
    assert {name: reads for name, reads in readers.items() if reads} == {}


def test_no_sql_reads_the_time() -> None:
    found = {name_of(path): look_at(path).sql_times for path in SOURCES if path.is_relative_to(SOURCE / "store")}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_nothing_sleeps() -> None:
    found = {name_of(path): look_at(path).sleeps for path in (*SOURCES, *TESTS)}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_nothing_is_left_for_later() -> None:
    found = {name_of(path): look_at(path).leftovers for path in SOURCES}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_no_path_of_a_machine_is_written_down() -> None:
    found = [
        f"{name_of(path)}:{number}: {line.strip()}"
        for path in TEXTS
        if path != Path(__file__)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if MACHINE_PATHS.search(EXAMPLE_PATHS.sub("", line))
    ]
    assert found == []


ACROSS = {"clients", "javascript", "nodes", "readme", "reliability", "store_suite"}
"""Folders of tests that cross the packages; CONTRIBUTING names each."""


def test_tests_lie_as_the_source_lies() -> None:
    packages = {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*") if path.is_dir()}
    folders = {path.relative_to(ROOT / "tests") for path in (ROOT / "tests").rglob("test_*.py")}
    tops = {folder.parts[0] for folder in folders if len(folder.parts) > 1}
    assert sorted(tops - packages - ACROSS) == []
    below = {"/".join(folder.parts[:2]) for folder in folders if folder.parts[0] in ("frontends", "query")}
    assert sorted(name for name in below if not name.endswith(".py") and name not in packages) == []


def test_product_code_knows_no_tests() -> None:
    imported = {one.module for module in modules() for one in module.imports}
    assert {name for name in imported if name.partition(".")[0] in ("tests", "conftest", "hypothesis")} == set()


# --- the house -------------------------------------------------------------------------------------------------------

# Bounds by package that only shrink: lower one when its figure in docs/house.md has fallen. Where no bound stands, it is 0.
PARTICIPLES: dict[str, int] = {}
VAGUE: dict[str, int] = {}
CLASSES: dict[str, int] = {}
"""Names that classes of more than two modules have."""


def check_bounds(bounds: Mapping[str, int], found: Iterable[tuple[str, str]]) -> None:
    """Fails with all (key, thing) pairs of the keys that have more things than their bounds allow."""
    things: dict[str, list[str]] = defaultdict(list)
    for key, thing in found:
        things[key].append(thing)
    over = [
        "\n  ".join((f"{key}: {len(named)}, and the bound is {bounds.get(key, 0)}", *named))
        for key, named in things.items()
        if len(named) > bounds.get(key, 0)
    ]
    assert not over, "\n".join(over)


def test_nothing_imports_in_circles() -> None:
    """Imports for types and inside functions included."""
    assert house.circles(house.imported(modules(), with_deferred=True)) == []


def test_functions_are_named_by_verbs() -> None:
    check_bounds(PARTICIPLES, ((module.package, one) for module in modules() for one in module.participles))


def test_docstrings_name_their_subject() -> None:
    check_bounds(VAGUE, ((module.package, one) for module in modules() for one in module.vague))


def test_front_ends_reach_the_store_through_the_engine() -> None:
    assert house.store_imports(modules()) == []


def test_the_store_of_the_engine_is_used_below_front_ends() -> None:
    above = [SOURCE / name for name in ("frontends", "admin", "metrics", "portal")]
    found = {name_of(path): look_at(path).stores for path in SOURCES if any(map(path.is_relative_to, above))}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_the_core_has_no_words_of_front_ends() -> None:
    found = [
        f"{name_of(path)}:{number} {line.strip()}"
        for package in ("engine", "expiry", "model", "store")
        for path in sorted((SOURCE / package).rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if DIALECTS.search(line)
    ]
    assert found == [], "the core states facts; front ends have words for them"


def test_a_class_name_means_one_thing() -> None:
    classes = house.common_classes(modules())
    check_bounds(CLASSES, ((name, file) for name, files in classes.items() for file in files))


# --- documents -------------------------------------------------------------------------------------------------------

DOCUMENTS = sorted(
    path for pattern in ("*.md", "docs/*.md", "src/**/DESIGN.md") for path in ROOT.glob(pattern) if path.is_file()
)
COMPATIBILITY = ROOT / "docs" / "compatibility.md"
"""Names the files of others."""

LONGEST_DOCUMENTS = {"README.md": 130, "ARCHITECTURE.md": 150, "DESIGN.md": 120}
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"[a-z_][\w-]*(?:/[\w.-]+)+/?|[\w-]+\.(?:py|md|sh)")
NO_PATHS = {"application/json", "test_session_store.py", "test_sessions.py", "ttl/due", "write.py"}
"""What looks like the path of a file of this repository and is none."""

LINK = re.compile(r"\]\(([^)\s]+)\)")


def prose(document: Path) -> str:
    return FENCED.sub("", document.read_text(encoding="utf-8"))


@functools.cache
def known_files() -> tuple[str, ...]:
    return tuple(f"/{name_of(path)}" for path in (*SOURCES, *TESTS, *DOCUMENTS))


def is_there(name: str, document: Path) -> bool:
    """Whether a path that a document names exists: from the root, from the package, from the document, or as the end of one."""
    places = [base / name for base in (ROOT, SOURCE, document.parent)]
    if any(place.exists() or place.with_name(f"{place.name}.py").exists() for place in places):
        return True
    ends = (f"/{name}", f"/{name}.py", f"/{name}/__init__.py")
    return any(file.endswith(ends) for file in known_files())


def lost_paths(text: str, document: Path) -> list[str]:
    names = [name for name in CODE.findall(text) if PATH.fullmatch(name) and name not in NO_PATHS]
    return [name for name in names if not is_there(name.rstrip("/"), document)]


def anchors(document: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", prose(document), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(text: str, document: Path) -> list[str]:
    broken = []
    for link in LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = document.parent / name if name else document
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    return broken


@pytest.mark.parametrize("document", [path for path in DOCUMENTS if path != COMPATIBILITY], ids=name_of)
def test_paths_and_links_of_documents_lead_somewhere(document: Path) -> None:
    text = prose(document)
    assert lost_paths(text, document) == []
    assert broken_links(text, document) == []


def test_documents_are_short() -> None:
    lengths = {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in DOCUMENTS}
    bounds = {name: LONGEST_DOCUMENTS.get(Path(name).name) for name in lengths}
    assert {name: lines for name, lines in lengths.items() if lines > (bounds[name] or lines)} == {}


def test_the_map_has_every_package() -> None:
    named = set(CODE.findall((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")))
    packages = {
        path.relative_to(SOURCE).with_suffix("").as_posix()
        for base in (SOURCE, SOURCE / "frontends", SOURCE / "query")
        for path in base.iterdir()
        if path.name not in ("__init__.py", "frontends", "query")
        and (path.suffix == ".py" or (path / "__init__.py").exists())
    }
    assert packages - named == set()


@pytest.mark.parametrize(
    ("text", "lost", "broken"),
    [
        ("`engine/locks`, `engine/locks.py`, `store/sqlite`, `commands/table`", 0, 0),
        ("`engine/padlocks`, `no-such-file.py`", 2, 0),
        ("`/dbs/shop`, `a.b`, `GET /x`", 0, 0),
        ("[a](README.md), [b](https://example.com/x), [c](docs/glossary.md#data)", 0, 0),
        ("[a](NO.md), [b](docs/glossary.md#no-heading)", 0, 2),
    ],
)
def test_a_path_that_leads_nowhere_is_seen(text: str, lost: int, broken: int) -> None:
    document = ROOT / "ARCHITECTURE.md"
    assert (len(lost_paths(text, document)), len(broken_links(text, document))) == (lost, broken)


# --- packaging -------------------------------------------------------------------------------------------------------


def pinned(lock: str) -> dict[str, str]:
    text = (ROOT / lock).read_text(encoding="utf-8")
    return dict(re.findall(r"^([a-z0-9][a-z0-9._-]*)==([^\s;\\]+)", text, re.MULTILINE))


def test_the_locks_agree_and_name_no_registry() -> None:
    everything, runtime = pinned("requirements.lock"), pinned("requirements-runtime.lock")
    assert runtime.items() <= everything.items()
    for lock in ("requirements.lock", "requirements-runtime.lock"):
        assert "://" not in (ROOT / lock).read_text(encoding="utf-8")
    for place in ("clients/javascript", "tests/javascript", "tools/web"):
        assert '"resolved": "http' not in (ROOT / place / "package-lock.json").read_text(encoding="utf-8"), place


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
    assert len(clock_reads([*ast.walk(ast.parse(code))])) == count


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
    assert len(sleeps([*ast.walk(ast.parse(code))])) == count


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


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("gathered", True),
        ("_told", True),
        ("sessions_ended", True),
        ("expired", False),
        ("_locked", False),
        ("is_locked", False),
        ("drop_unfinished", False),
        ("feed", False),
        ("gather", False),
        ("read", False),
    ],
)
def test_a_bare_participle_is_seen(name: str, seen: bool) -> None:
    assert house.is_bare_participle(name) is seen


@pytest.mark.parametrize(
    ("docstring", "seen"),
    [
        ("What it reads.", True),
        ("Whoever asks.", True),
        ("Rows that nobody reads.", True),
        ("Whatever follows.", False),
        ("Rows that no query reads.", False),
    ],
)
def test_a_vague_docstring_is_seen(docstring: str, seen: bool) -> None:
    assert house.is_vague(docstring) is seen


def test_a_circle_is_seen() -> None:
    edges = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": set(), "f": {"a"}}
    assert house.circles(edges) == [["a", "b", "c"]]
    assert house.circles({**edges, "e": {"d"}}) == [["a", "b", "c"], ["d", "e"]]
    assert house.circles({**edges, "c": {"d"}}) == []


def test_imports_inside_functions_and_for_types_are_deferred() -> None:
    code = "import a\nif TYPE_CHECKING:\n  import b\ndef f():\n  if x:\n    from c import d\nclass E:\n  import f\n"
    found = house.measure(SOURCE / "x.py", code, ast.parse(code)).imports
    assert {one.module: one.deferred for one in found} == {"a": False, "b": True, "c": True, "f": False}


def test_lines_of_one_shape_are_seen() -> None:
    one: list[tuple[int, tuple[str, ...]]] = [(line, ("name", "=", "name", "(", "name", ")")) for line in range(1, 7)]
    other = [(line + 10, shape) for line, shape in one]
    assert house.duplicates({"a": one, "b": other}) == [(("a", 1), ("b", 11), 1)]
    assert house.duplicates({"a": one[1:], "b": other}) == []


def test_a_bound_that_is_passed_names_what_is_over() -> None:
    check_bounds({"a": 1}, [("a", "x")])
    with pytest.raises(AssertionError, match=r"a: 2, and the bound is 1\s+x\s+y"):
        check_bounds({"a": 1}, [("a", "x"), ("b", "z"), ("a", "y")])
