"""The vendors' clients for Rust: azure_data_cosmos, mongodb and ydb, with their default settings."""

from __future__ import annotations

import os
import subprocess
import tomllib

import pytest

from clients.languages import HERE, Client, Language, prepared, verify
from clients.outcomes import from_cargo

CRATES = {"cosmos": "azure_data_cosmos", "mongo": "mongodb", "ydb": "ydb"}
COMMAND = ("cargo", "test", "--locked", "--lib", "--quiet", "--", "--test-threads=1", "--format=pretty")
STARTS = 10
PATIENCE = 60.0


def pinned(crate: str) -> Client:
    """A crate, and the version that Cargo.lock has of it."""
    packages = tomllib.loads((HERE / "rust" / "Cargo.lock").read_text(encoding="utf-8"))["package"]
    (version,) = [package["version"] for package in packages if package["name"] == crate]
    return Client(crate, version)


# They share one server and its clock, so they take turns.
RUST = Language(
    word="rust",
    title="Rust",
    command=COMMAND,
    read=from_cargo,
    clients={wire: pinned(crate) for wire, crate in CRATES.items()},
    least=60,
)


@prepared("rust")
def test_rust(addresses: dict[str, str], subtests: pytest.Subtests) -> None:
    verify(RUST, addresses | {"SSL_CERT_FILE": addresses["MAYFLY_CERT"]}, subtests)


@prepared("rust")
def test_the_cosmos_client_starts_each_time(addresses: dict[str, str]) -> None:
    """A new process each: the client opens with HTTP/2, and decides once how it goes on."""
    environment = os.environ | addresses | {"SSL_CERT_FILE": addresses["MAYFLY_CERT"]}
    for _ in range(STARTS):
        done = subprocess.run(
            (*COMMAND, "--exact", "cosmos::start"),
            check=False,
            cwd=RUST.place,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr
