"""Each kind of store is known wherever kinds are told apart, and one that is not fails by its name."""

from __future__ import annotations

import asyncio
from typing import get_args

import pytest

from mayflydb.config.settings import StorageKind, StorageSettings
from mayflydb.serving.http_port import STORE_NAMES
from mayflydb.serving.stores import open_store

URLS = {
    "memory": "memory",
    "sqlite": "sqlite:///data/a.db",
    "postgresql": "postgresql://user:password@host:5432/database",
}


def test_every_kind_has_its_url_here_and_its_name_on_the_page() -> None:
    assert URLS.keys() == set(get_args(StorageKind)), "URLS of this file"
    assert STORE_NAMES.keys() == set(get_args(StorageKind)), "STORE_NAMES of serving/http_port.py"


@pytest.mark.parametrize("kind", URLS)
def test_a_url_names_its_kind(kind: str) -> None:
    assert StorageSettings(URLS[kind]).kind == kind, "StorageSettings.kind of config/settings.py"


@pytest.mark.parametrize("url", ["tape://user:secret@host/d", "postgres://user:secret@host/d", "file.db", ""])
def test_a_url_of_no_kind_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ValueError, match=url.partition(":")[0] + ".*names no kind of store") as refusal:
        _ = StorageSettings(url).kind
    assert "secret" not in str(refusal.value)
    assert "secret" not in StorageSettings(url).shown


class Tape(StorageSettings, frozen=True):
    """A kind of store that has settings and no store."""

    @property
    def kind(self) -> StorageKind:
        return "tape"  # type: ignore[return-value]


def test_a_kind_that_nothing_opens_is_refused_by_its_name() -> None:
    with pytest.raises(AssertionError, match="tape"):
        asyncio.run(open_store(Tape("memory"), alone=True))
