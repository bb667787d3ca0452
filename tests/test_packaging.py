"""What is installed: its size, and what is said where an optional part is missing."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MOST = 82_000_000
"""Bytes of a default install, without compiled bytecode."""


def requirements(names: list[str]) -> set[str]:
    """These distributions and all that they need."""
    found: set[str] = set()
    waiting = [re.split(r"[\[<>=!;~ ]", name, maxsplit=1)[0].lower() for name in names]
    while waiting:
        name = waiting.pop().replace("_", "-")
        if name in found:
            continue
        try:
            wanted = distribution(name).requires or []
        except PackageNotFoundError:
            continue  # For another system or Python.
        found.add(name)
        waiting += [re.split(r"[\[<>=!;~( ]", each, maxsplit=1)[0].lower() for each in wanted if "extra ==" not in each]
    return found


def size_of(package: Distribution) -> int:
    return sum(each.size or 0 for each in package.files or () if each.suffix != ".pyc")


def own_size() -> int:
    files = (ROOT / "src").rglob("*")
    # The wheel has no designs of packages.
    return sum(each.stat().st_size for each in files if each.is_file() and each.suffix not in (".pyc", ".md"))


def test_default_install_is_small() -> None:
    names = requirements(PROJECT["dependencies"])
    sizes = {name: size_of(distribution(name)) for name in names}
    assert {"grpcio", "pymongo", "apsw"} <= names, "all three protocols are served by default"
    assert sum(sizes.values()) + own_size() < MOST, sorted(sizes.items(), key=lambda each: -each[1])


def test_extras_repeat_what_the_protocols_need() -> None:
    extras = PROJECT["optional-dependencies"]
    assert set(extras["mongo"] + extras["ydb"]) <= set(PROJECT["dependencies"])


HIDDEN = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {hidden!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hidden())
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name: None if name in {hidden!r} else found(name)
from mayflydb.cli.main import main
main()
"""


@pytest.mark.parametrize(
    ("hidden", "arguments", "said"),
    [
        (("bson", "pymongo"), ["--ydb-port", "-1"], ("mongo.port", 'pip install "mayflydb[mongo]"', "--mongo-port -1")),
        (("grpc", "google"), ["--mongo-port", "-1"], ("ydb.port", 'pip install "mayflydb[ydb]"', "--ydb-port -1")),
    ],
)
def test_a_protocol_without_its_package_is_refused(
    hidden: tuple[str, ...], arguments: list[str], said: tuple[str, ...]
) -> None:
    command = [sys.executable, "-c", HIDDEN.format(hidden=hidden), "serve", "-m", "-p", "0", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1 and not ended.stdout
    assert [part for part in said if part not in ended.stderr] == []
