"""Clients in other languages: the sections of the document, from the records that tests/clients makes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

WORD = "clients"
TITLES = ("Go", "Java", "Rust")
SEED = "0"

_MORE = {
    "Java": """

A client of Cosmos DB that is built by `new CosmosClientBuilder().endpoint(..).key(..).buildClient()` and nothing else works in
direct mode. These checks run in it and in gateway mode: items, batches, bulk operations, stored procedures, queries over pages
and across a split, the change feed and its processor, the TTL matrix to the second, 429, resource tokens, and the management of
databases, containers and throughput. Consistency levels, preferred regions and Spring Data run in direct mode."""
}


def run(root: Path) -> int:
    """Runs the checks of every language that is found. 0: all passed."""
    command = [sys.executable, "-m", "pytest", "-o", "verbosity_subtests=1", "--hypothesis-seed", SEED, "tests/clients"]
    return subprocess.run(command, check=False, cwd=root).returncode


def sections(records: Path) -> list[str]:
    """One for each record; a language that did not run has none, and keeps the section that it had."""
    return [_section(json.loads(path.read_text(encoding="utf-8"))) for path in sorted(records.glob("*.json"))]


def _section(record: dict[str, Any]) -> str:
    title, clients = record["language"], record["clients"]
    rows = [f"| {client['client']} | {client['version']} | {_counts(client)} |" for client in clients]
    table = ["| Client | Version | Checks | Passed | Failed | Skipped |", "|---|---|---:|---:|---:|---:|", *rows]
    failed = _listed("Failures", (name for client in clients for name in client["failed"]))
    skipped = [name for client in clients for name in client["skipped"]]
    parts = [f"## {title}", _head(title), "\n".join(table), failed]
    return "\n\n".join(parts + ([_listed("Skipped", skipped)] if skipped else []))


def _head(title: str) -> str:
    return (
        f"Checks below `tests/clients/{title.lower()}`, with the clients as published and their default settings,\n"
        "against a Mayfly in memory and on a virtual clock."
    ) + _MORE.get(title, "")


def _counts(client: dict[str, Any]) -> str:
    failed, skipped = len(client["failed"]), len(client["skipped"])
    passed = client["checks"] - failed - skipped
    return " | ".join(str(count) for count in (client["checks"], passed, failed, skipped))


def _listed(title: str, names: Iterable[str]) -> str:
    return f"### {title}\n\n" + ("\n".join(f"* `{name}`" for name in names) or "None.")
