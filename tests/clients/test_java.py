"""The vendors' clients for Java: azure-cosmos in gateway mode, mongodb-driver-sync, and YDB's SDK with its JDBC driver."""

from __future__ import annotations

import re

import pytest

from clients.languages import HERE, Client, Language, prepared, verify
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
        "mongo": pinned("mongodb-driver-sync"),
        "ydb": pinned("ydb-sdk-query", "ydb-jdbc-driver"),
    },
    least=200,
)


@prepared("java")
def test_java(addresses: dict[str, str], throttled: dict[str, str], subtests: pytest.Subtests) -> None:
    verify(JAVA, addresses | throttled, subtests)
