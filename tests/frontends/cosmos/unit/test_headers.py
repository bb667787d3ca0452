"""The table of HTTP headers is the only place that names them, and it is complete."""

from __future__ import annotations

import ast
import importlib.util
import inspect
from collections import Counter
from pathlib import Path

import pytest
from azure.cosmos import _base, http_constants

import mayflydb.frontends.cosmos
from mayflydb.frontends.cosmos import headers
from mayflydb.frontends.cosmos.headers import TABLE, Treatment

ROOT = Path(__file__).parents[4]
SOURCE = Path(mayflydb.frontends.cosmos.__file__).parent
FILES = [path for path in sorted(SOURCE.rglob("*.py")) if path.name != "headers.py"]
NAMES = {row.name for row in TABLE}
READERS = {"text", "flag", "number"}
"""Methods of a request that read one of its headers."""


def literals(tree: ast.AST) -> list[tuple[int, bytes]]:
    """Constants that name a header: bytes of the table, whatever begins as the vendor's do, and arguments of readers."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            name = node.value.encode() if isinstance(node.value, str) else node.value
            lonely = b" " not in name and name.lower().startswith(b"x-ms-")
            if lonely or (isinstance(node.value, bytes) and name in NAMES):
                found.append((node.lineno, name))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            first, on = node.args[0], node.func.value
            reads = node.func.attr in READERS and ast.unparse(on).endswith("request")
            reads = reads or (node.func.attr == "get" and ast.unparse(on).endswith("headers"))
            if reads and isinstance(first, ast.Constant):
                found.append((first.lineno, str(first.value).encode()))
    return found


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(SOURCE)) for path in FILES])
def test_no_header_is_named_outside_of_the_table(path: Path) -> None:
    found = literals(ast.parse(path.read_text(encoding="utf-8")))
    assert found == [], "name them in frontends/cosmos/headers.py, with their meaning"


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ('request.text(b"if-range")', 1),
        ('call.request.flag("x-ms-new")', 2),
        ('http.headers.get(b"pragma")', 1),
        ('h = {"x-ms-new": "1"}', 1),
        ('h = (b"etag", b"1")', 1),
        ('raise BadRequest("The header x-ms-date is wrong.")', 0),
        ('body.get("etag")', 0),
        ("request.text(IF_MATCH)", 0),
    ],
)
def test_a_literal_is_seen(code: str, count: int) -> None:
    assert len(literals(ast.parse(code))) == count


def test_a_header_has_one_row() -> None:
    assert [name for name, rows in Counter(row.name for row in TABLE).items() if rows > 1] == []
    assert [row.name for row in TABLE if not row.note or row.name != row.name.lower()] == []


def test_headers_that_are_not_ignored_are_used() -> None:
    constants = {name: value for name, value in vars(headers).items() if name.isupper() and isinstance(value, bytes)}
    assert set(constants.values()) == {row.name for row in TABLE if row.treatment is not Treatment.IGNORED}
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in FILES]
    used = {node.id for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert constants.keys() - used == set(), "a row that no code reads or sends"


def test_every_header_that_the_vendors_client_sends_has_a_row() -> None:
    names = {
        node.slice.attr
        for node in ast.walk(ast.parse(inspect.getsource(_base)))
        if isinstance(node, ast.Subscript)
        and isinstance(node.slice, ast.Attribute)
        and isinstance(node.slice.value, ast.Attribute)
        and node.slice.value.attr == "HttpHeaders"
    }
    sent = {getattr(http_constants.HttpHeaders, name).lower().encode() for name in names}
    assert len(sent) > 30
    assert sent - NAMES == set(), (
        "say in frontends/cosmos/headers.py whether they are honoured, refused or ignored, and why"
    )


def test_the_page_says_what_the_table_says() -> None:
    spec = importlib.util.spec_from_file_location("tools_headers", ROOT / "tools" / "headers.py")
    assert spec is not None and spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    page = (ROOT / "docs" / "cosmos-headers.md").read_text(encoding="utf-8")
    assert page == tool.page(), "run .venv/bin/python tools/headers.py"
