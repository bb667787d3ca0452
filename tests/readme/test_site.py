"""The documentation's site: it builds without a warning, and has every setting, command, metric and operation.

The blocks of its pages are run by `test_blocks`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import click
import pytest

import reference
from mayflydb.cli.main import mayfly
from mayflydb.config.table import TABLE
from mayflydb.metrics import exposition

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("site")
    # A browser's log of warnings is an error here, and so is a link that leads nowhere.
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-d", str(built / "trees")]
    done = subprocess.run(
        [*command, str(ROOT / "docs"), str(built / "html")], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return built / "html"


def words(page: Path) -> str:
    return unescape(re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8")))


def paths(command: click.Command, context: click.Context) -> Iterator[str]:
    yield context.command_path
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            each = command.get_command(context, name)
            if each is not None and not each.hidden:
                yield from paths(each, click.Context(each, info_name=name, parent=context))


def test_the_site_has_everything(site: Path) -> None:
    pages = {name: words(site / "reference" / f"{name}.html") for name in ("settings", "commands", "metrics", "errors")}
    for row in TABLE:
        assert all(name in pages["settings"] for name in (row.key, row.variable, *row.flags)), row.key
    missing = [
        path for path in paths(mayfly, click.Context(mayfly, info_name="mayfly")) if path not in pages["commands"]
    ]
    assert missing == []
    assert [name for name in exposition.HELP if name not in pages["metrics"]] == []
    assert [kind.__name__ for kind in reference.kinds_of_errors() if kind.__name__ not in pages["errors"]] == []


def test_pages_load_nothing_from_other_hosts(site: Path) -> None:
    loads = re.compile(r"<(?:script|link|img)[^>]+(?:src|href)=[\"'](?:https?:)?//", re.IGNORECASE)
    assert [page.name for page in site.rglob("*.html") if loads.search(page.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(
    ("text", "cell"),
    [("a | b", r"a \| b"), ("`a|b` <c>", r"`a\|b` \<c\>"), ("one\n two", "one two"), ("[env: X_Y]", r"\[env: X\_Y\]")],
)
def test_text_stands_in_a_cell_as_it_is(text: str, cell: str) -> None:
    assert reference._cell(text) == cell
