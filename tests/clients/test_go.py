"""The vendors' clients for Go: azcosmos, mongo-driver and ydb-go-sdk, with their default settings."""

from __future__ import annotations

import re

import pytest

from clients.languages import HERE, Client, Language, prepared, verify
from clients.outcomes import from_go

MODULES = {
    "cosmos": "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos",
    "mongo": "go.mongodb.org/mongo-driver/v2",
    "ydb": "github.com/ydb-platform/ydb-go-sdk/v3",
}


def pinned(module: str) -> Client:
    """A module that go.mod names, by the last word of its name that is no version."""
    found = re.search(rf"{re.escape(module)} v(\S+)", (HERE / "go" / "go.mod").read_text(encoding="utf-8"))
    assert found, module
    return Client(re.sub(r"/v\d+$", "", module).rpartition("/")[2], found[1])


# The packages share one server and its clock, so they take turns.
GO = Language(
    word="go",
    title="Go",
    command=("go", "test", "-json", "-count=1", "-p=1", "./..."),
    read=from_go,
    clients={wire: pinned(module) for wire, module in MODULES.items()},
    least=70,
)


@prepared("go")
def test_go(addresses: dict[str, str], subtests: pytest.Subtests) -> None:
    verify(GO, addresses | {"SSL_CERT_FILE": addresses["MAYFLY_CERT"]}, subtests)
