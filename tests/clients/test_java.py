"""The vendors' clients for Java: azure-cosmos and Spring Data over it, mongodb-driver-sync, YDB's SDK and JDBC driver."""

from __future__ import annotations

import re
from textwrap import dedent

import pytest

from clients.languages import HERE, ROOT, Client, Language, prepared, verify
from clients.outcomes import from_surefire

PLACE = HERE / "java"


def pinned(*artifacts: str) -> Client:
    """The artifacts that pom.xml names, as one client."""
    pom = (PLACE / "pom.xml").read_text(encoding="utf-8")
    versions = [re.search(rf"<artifactId>{each}</artifactId>\s*<version>([^<]+)</version>", pom) for each in artifacts]
    found = [version[1] for version in versions if version is not None]
    assert len(found) == len(artifacts), artifacts
    return Client(" and ".join(artifacts), " and ".join(found))


JAVA = Language(
    word="java",
    title="Java",
    command=("./run.sh", "-o"),
    read=lambda said: from_surefire(PLACE / "target" / "surefire-reports"),
    clients={
        "cosmos": pinned("azure-cosmos"),
        "spring": pinned("azure-spring-data-cosmos"),
        "mongo": pinned("mongodb-driver-sync"),
        "ydb": pinned("ydb-sdk-query", "ydb-jdbc-driver"),
    },
    least=258,
)


@prepared("java")
def test_java(addresses: dict[str, str], throttled: dict[str, str], subtests: pytest.Subtests) -> None:
    verify(JAVA, addresses | throttled, subtests)


def test_the_page_shows_code_that_runs() -> None:
    page = (ROOT / "docs" / "java.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```java\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    sources = [path.read_text(encoding="utf-8").splitlines() for path in sorted(PLACE.glob("src/**/*.java"))]
    assert blocks
    assert [block for block in blocks if not any(_is_part(block.splitlines(), lines) for lines in sources)] == []


def _is_part(block: list[str], lines: list[str]) -> bool:
    """Whether the lines of a block follow each other in a file, indented or not."""
    size = len(block)
    found = ("\n".join(lines[start : start + size]) for start in range(len(lines)))
    return any(dedent(part).splitlines() == block for part in found)
