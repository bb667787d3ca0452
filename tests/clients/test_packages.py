"""The packages for tests of applications (`clients`), by their own tests in their own runners."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
import tree_sitter
import tree_sitter_c_sharp

from clients.languages import PATIENCE, ROOT, TAIL, prepared
from clients.outcomes import from_go, from_surefire
from mayflydb.version import __version__

PACKAGES = ROOT / "clients"
PROGRAM = "from mayflydb.cli.main import main; main()"
FENCED = re.compile(r"^```(?:javascript|go|java|csharp)\n(.*?)^```", re.MULTILINE | re.DOTALL)

EXAMPLES = {
    "javascript": "test/expiry.test.mjs",
    "go": "example/expiry_test.go",
    "java": "src/test/java/example/SessionTest.java",
    "dotnet": "Tests/SessionTests.cs",
}


class Package(NamedTuple):
    """`count` reads the number of tests that passed from what the command printed; at least `least` must have."""

    word: str
    place: Path
    command: Sequence[str]
    count: Callable[[str], int]
    least: int


def by_three_runners(said: str) -> int:
    """The tests of node:test, Jest and Vitest; each has a sum of its own."""
    sums = [re.search(pattern, said) for pattern in (r"# pass (\d+)", r"Tests: +(\d+) passed", r"Tests  (\d+) passed")]
    return sum(int(found[1]) for found in sums if found) if all(sums) else 0


def from_java(said: str) -> int:
    return sum(check.outcome == "passed" for check in from_surefire(JAVA / "target" / "surefire-reports"))


JAVA = PACKAGES / "java"
JUNITS = ("5.10.5", "5.14.1")
"""The first and the last line of JUnit 5 that the package promises. Its classes are compiled with JUnit 6, as users get them."""

RUNS = (
    Package("javascript", PACKAGES / "javascript", ("npm", "test"), by_three_runners, 25),
    Package(
        "go",
        PACKAGES / "go" / "example",
        ("go", "test", "-json", "-count=1", "./..."),
        lambda said: sum(check.outcome == "passed" for check in from_go(said)),
        13,
    ),
    Package(
        "java",
        JAVA,
        ("mvn", "-B", "-q", "-ntp", "-o", "test"),
        from_java,
        20,
    ),
    *(
        Package(
            f"java-junit-{version}",
            JAVA,
            ("mvn", "-B", "-q", "-ntp", "-o", "surefire:test", f"-Djunit.version={version}", "-Dtest=AdminTest"),
            from_java,
            8,
        )
        for version in JUNITS
    ),
)


@pytest.mark.parametrize(
    "package",
    [pytest.param(each, id=each.word, marks=prepared(f"package-{each.word.partition('-')[0]}")) for each in RUNS],
)
def test_the_package_in_its_own_runner(package: Package, tmp_path: Path) -> None:
    shutil.rmtree(JAVA / "target" / "surefire-reports", ignore_errors=True)
    ours = {name: value for name, value in os.environ.items() if not name.startswith("MAYFLY_")}
    command = f'{shlex.quote(sys.executable)} -c "{PROGRAM}"'
    places = {"XDG_DATA_HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path), "MAYFLY_COMMAND": command}
    done = subprocess.run(
        package.command,
        check=False,
        cwd=package.place,
        env=ours | places | {"NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
    )
    if done.returncode or package.count(done.stdout) < package.least:
        pytest.fail(f"exit code {done.returncode}\n{done.stdout[-TAIL:]}", pytrace=False)


@pytest.mark.parametrize("word", EXAMPLES)
def test_the_example_of_the_page_is_the_test(word: str) -> None:
    found = FENCED.search((PACKAGES / word / "README.md").read_text(encoding="utf-8"))
    assert found and found[1] == (PACKAGES / word / EXAMPLES[word]).read_text(encoding="utf-8")


def test_the_example_of_the_documentation_is_a_test() -> None:
    page = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
    example = (PACKAGES / "javascript" / "test" / "code.test.mjs").read_text(encoding="utf-8")
    assert f"```javascript\n{example}```" in page


def test_the_packages_have_the_version_of_the_server() -> None:
    assert json.loads((PACKAGES / "javascript" / "package.json").read_text(encoding="utf-8"))["version"] == __version__
    for place, pattern in (
        (JAVA / "pom.xml", r"<version>([\d.]+)</version>"),
        (PACKAGES / "go" / "README.md", r"mayflydb@v([\d.]+)"),
        (PACKAGES / "dotnet" / "Mayfly" / "Mayfly.csproj", r"<Version>([\d.]+)</Version>"),
    ):
        found = re.search(pattern, place.read_text(encoding="utf-8"))
        assert found and found[1] == __version__, place


def test_the_source_for_dotnet_can_be_parsed() -> None:
    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_c_sharp.language()))
    assert parser.parse(b"class Mayfly { int Purge( }").root_node.has_error
    sources = sorted((PACKAGES / "dotnet").glob("[MT]*/*.cs"))
    assert len(sources) >= 5
    wrong = [path.name for path in sources if parser.parse(path.read_bytes()).root_node.has_error]
    assert wrong == []


OPERATIONS = (
    *("seed", "snapshot", "restore", "deleteSnapshot", "snapshots", "reset", "purge", "expired", "events"),
    *("preview", "forecast", "explain", "stats", "certificate"),
)
MOVES = ("now", "advance", "set", "freeze", "resume", "nextExpiry", "advanceToNextExpiry")
DECLARED = {
    "javascript": (r"^    {}\(", "index.d.ts"),
    "go": (r"^func \(s \*Server\) {}\(", "*.go"),
    "java": (r"^    public \S+ {}\(", "src/main/java/mayflydb/*.java"),
    "dotnet": (r"^    public .*\b{}Async\(", "Mayfly/*.cs"),
}


@pytest.mark.parametrize("word", DECLARED)
def test_the_packages_have_the_same_operations(word: str) -> None:
    pattern, places = DECLARED[word]
    source = "\n".join(path.read_text(encoding="utf-8") for path in sorted((PACKAGES / word).glob(places)))
    upper = word in ("go", "dotnet")
    names = [name[0].upper() + name[1:] if upper else name for name in OPERATIONS + MOVES]
    assert [name for name in names if not re.search(pattern.format(name), source, re.MULTILINE)] == []
