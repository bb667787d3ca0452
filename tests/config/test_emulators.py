"""The variables of emulators' images, which count with --drop-in alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mayflydb.announcement import StartFailed
from mayflydb.config import LoadedSettings, RawValue, load
from mayflydb.config.emulators import DropIn
from mayflydb.frontends.cosmos.auth import WELL_KNOWN_KEY

OWN = "b3du" * 22


def read(environ: dict[str, str], **flags: Any) -> LoadedSettings:
    given = {"server.drop_in": True, "server.host": "0.0.0.0"} | {k.replace("__", "."): v for k, v in flags.items()}
    return load({key: RawValue(value, "flag") for key, value in given.items()}, environ)


@pytest.mark.parametrize(
    ("environ", "key", "value"),
    [
        ({"PORT": "9000"}, "server.port", 9000),
        ({"PORT": "9000", "MAYFLY_SERVER_PORT": "9001"}, "server.port", 9001),
        ({"PORT": ""}, "server.port", 8081),
        ({"PROTOCOL": "HTTPS"}, "server.scheme", "https"),
        ({"GATEWAY_PUBLIC_ENDPOINT": "db.test:99"}, "server.advertise", "db.test:99"),
        ({"KEY_FILE": "/run/key"}, "cosmos.key_file", "/run/key"),
        ({"DATA_PATH": "/srv/data"}, "storage.url", "sqlite:///srv/data/mayfly.db"),
        ({"AZURE_COSMOS_EMULATOR_ENABLE_DATA_PERSISTENCE": "False"}, "storage.url", "memory"),
        ({"AZURE_COSMOS_EMULATOR_ENABLE_DATA_PERSISTENCE": "true", "DATA_PATH": "/d/e"}, "storage.url", "sqlite:///d/e/mayfly.db"),
        ({"YDB_USE_IN_MEMORY_PDISKS": "true", "DATA_PATH": "/d/e"}, "storage.url", "memory"),
        ({"LOG_LEVEL": "quiet"}, "server.log_level", "error"),
        ({"LOG_LEVEL": "Info"}, "server.log_level", "info"),
        ({"GRPC_PORT": "3136"}, "ydb.port", 3136),
        ({"GRPC_TLS_PORT": "3135"}, "ydb.tls_port", 3135),
    ],
)  # fmt: skip
def test_a_variable_sets_a_setting(environ: dict[str, str], key: str, value: object) -> None:
    loaded = read(environ)
    assert {name: shown for name, shown, _ in loaded.list_values()}[key] == value


def test_flags_win_and_a_server_that_is_no_drop_in_reads_none() -> None:
    environ = {"PORT": "9000", "LOG_LEVEL": "nonsense", "CERT_PATH": "/x"}
    assert read({"PORT": "9000"}, server__port="1").settings.server.port == 1
    loaded = load({}, environ)
    assert (loaded.settings.server.port, loaded.settings.drop_in) == (8081, None)


def test_what_no_setting_has() -> None:
    given = {"EXPLORER_PORT": "1", "MON_PORT": "2", "ENABLE_EXPLORER": "false", "ENABLE_TELEMETRY": "true"}
    assert read(given).settings.drop_in == DropIn(1, 8080, 2, 10255, False, None, ("ENABLE_TELEMETRY",))
    assert read({}, server__port="0").settings.drop_in == DropIn(0, 0, 0, 0)


@pytest.mark.parametrize(
    ("environ", "is_open"),
    [
        ({}, True),
        ({"AZURE_COSMOS_EMULATOR_KEY": WELL_KNOWN_KEY}, True),
        ({"AZURE_COSMOS_EMULATOR_KEY": OWN}, False),
        ({"KEY_FILE": "/run/key"}, False),
        ({"MAYFLY_COSMOS_GENERATE_KEY": "true"}, False),
    ],
)
def test_a_key_of_its_own_closes_the_server(environ: dict[str, str], is_open: bool) -> None:
    settings = read(environ).settings
    assert (settings.is_open, settings.server.insecure) == (is_open, True)
    assert OWN not in repr(settings)
    assert not load({}, {}).settings.is_open


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("CERT_SECRET", "x", "certificate"),
        ("PORT", "many", "many"),
        ("EXPLORER_PORT", "70000", "EXPLORER_PORT"),
        ("ENABLE_EXPLORER", "perhaps", "ENABLE_EXPLORER"),
        ("LOG_LEVEL", "loud", "LOG_LEVEL"),
        ("PROTOCOL", "gopher", "PROTOCOL"),
    ],
)
def test_a_wrong_value_is_refused_by_name(name: str, value: str, said: str) -> None:
    with pytest.raises(StartFailed, match=said) as caught:
        read({name: value})
    assert caught.value.exit_code == 2


def test_the_file_stays_where_nothing_else_is_said() -> None:
    assert read({}).settings.storage.path == Path("mayfly.db").absolute()
