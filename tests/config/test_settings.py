"""The table of settings: precedence, what values are taken, what is refused and how."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mayflydb.announcement import StartFailed
from mayflydb.config import TABLE, LoadedSettings, RawValue, Settings, load
from mayflydb.config.values import Advertised
from mayflydb.frontends.mongo.options import CollectionOptions, DatabaseOptions
from mayflydb.model.instant import MILLISECOND, MINUTE, SECOND


def by_flag(**values: Any) -> dict[str, RawValue]:
    return {name.replace("__", "."): RawValue(value, "flag") for name, value in values.items()}


def read(environ: dict[str, str] | None = None, toml: str = "", **flags: Any) -> LoadedSettings:
    if toml:
        Path("mayfly.toml").write_text(toml, encoding="utf-8")
    return load(by_flag(**flags), environ or {})


def test_the_defaults() -> None:
    settings = read().settings
    assert settings.server.host == "localhost"
    assert settings.server.port == 8081
    assert settings.server.scheme == "http"
    assert settings.server.allow_time_travel
    assert settings.storage.path == Path("mayfly.db").absolute()
    assert (settings.clock.mode, settings.clock.start) == ("real", None)
    assert settings.cosmos.cross_partition == "azure"
    assert not settings.cosmos.check_date
    assert settings.ttl.sweep_interval == SECOND
    assert (settings.ydb.port, settings.ydb.tls_port) == (2136, 2135)


def test_every_row_has_its_field_and_every_field_its_row() -> None:
    rows = {(row.key.partition(".")[0], row.key.rpartition(".")[2]) for row in TABLE}
    # Beside the sections stands what the variables of emulators give.
    names = [name for name in Settings.__struct_fields__ if name != "drop_in"]
    sections = {section: type(getattr(read().settings, section)) for section in names}
    fields = {(section, name) for section, struct in sections.items() for name in struct.__struct_fields__}
    given_otherwise = {("mongo", "administrator")}  # By the variables of MongoDB's images.
    assert rows - fields == set(), "a row of the table without a field in config/settings.py"
    assert fields - rows - given_otherwise == set(), "a field of config/settings.py without a row in the table"


def test_flag_over_variable_over_file_over_default() -> None:
    toml, variable = "server.port = 1", {"MAYFLY_SERVER_PORT": "2"}
    assert read().settings.server.port == 8081
    assert read(toml=toml).settings.server.port == 1
    assert read(variable, toml).settings.server.port == 2
    assert read(variable, toml, server__port="3").settings.server.port == 3


def test_databases_of_mongo_are_tables_of_a_file() -> None:
    toml = """
        [mongo.databases.shop]
        profile = "cosmos"
        [mongo.databases.shop.collections."a.b"]
        expiry = "hide"
    """
    loaded = read(toml=toml)
    expected = {"shop": DatabaseOptions("cosmos", collections={"a.b": CollectionOptions("hide")})}
    assert loaded.settings.mongo.databases == expected
    shown = {key: value for key, value, _ in loaded.list_values()}["mongo.databases"]
    assert shown == {"shop": {"profile": "cosmos", "collections": {"a.b": {"expiry": "hide"}}}}


def test_origins() -> None:
    loaded = read({"MAYFLY_CLOCK_MODE": "virtual"}, "[ttl]\nsweep_interval = '2s'", server__port="0")
    origin = {key: source for key, _, source in loaded.list_values()}
    assert origin["server.port"] == "flag"
    assert origin["clock.mode"] == "variable MAYFLY_CLOCK_MODE"
    assert origin["ttl.sweep_interval"] == f"file {Path('mayfly.toml').absolute()}"
    assert origin["server.host"] == "default"


def test_the_first_file_found_is_the_only_one(tmp_path: Path) -> None:
    named, user = tmp_path / "named.toml", tmp_path / "xdg" / "mayfly" / "mayfly.toml"
    user.parent.mkdir(parents=True)
    user.write_text("server.port = 3", encoding="utf-8")
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "xdg")}
    assert load({}, environ).settings.server.port == 3

    Path("mayfly.toml").write_text("clock.mode = 'virtual'", encoding="utf-8")
    assert load({}, environ).settings.server.port == 8081

    named.write_text("server.port = 4", encoding="utf-8")
    assert load({}, environ | {"MAYFLY_CONFIG": str(named)}).settings.server.port == 4
    assert load({}, environ | {"MAYFLY_CONFIG": "absent.toml"}, named).settings.server.port == 4


@pytest.mark.parametrize(
    ("key", "raw", "path", "value"),
    [
        ("server.port", "0", "server.port", 0),
        ("server.port", 65535, "server.port", 65535),
        ("server.advertise", "", "server.advertise", None),
        ("server.advertise", "db.test", "server.advertise", Advertised("db.test")),
        ("server.advertise", "db.test:99", "server.advertise", Advertised("db.test", 99)),
        ("server.advertise", "https://db.test/", "server.advertise", Advertised("db.test", None, "https")),
        ("server.advertise", "http://[::1]:99", "server.advertise", Advertised("[::1]", 99, "http")),
        ("server.advertise", "http://[::1]:99", "server.advertised_names", ("::1",)),
        ("server.allow_hosts", "a.test, b.test", "server.allow_hosts", ("a.test", "b.test")),
        ("server.allow_hosts", ["a.test"], "server.allow_hosts", ("a.test",)),
        ("server.allow_time_travel", "no", "server.allow_time_travel", False),
        ("server.allow_time_travel", "auto", "server.allow_time_travel", True),
        ("server.log_level", "debug", "server.log_level", "debug"),
        ("storage.url", "memory", "storage.url", "memory"),
        ("storage.url", "memory", "storage.path", None),
        ("storage.url", "sqlite:////data/a.db", "storage.url", "sqlite:///data/a.db"),
        ("storage.url", "sqlite:///data/a.db", "storage.path", Path("/data/a.db")),
        ("storage.url", "sqlite:////a.db", "storage.path", Path("/a.db")),
        ("storage.history_limit", "5", "storage.history_limit", 5),
        ("ttl.event_retention", "auto", "ttl.event_retention", None),
        ("ttl.event_retention", "2h", "ttl.event_retention", 120 * MINUTE),
        ("ttl.event_limit", "1", "ttl.event_limit", 1),
        ("storage.reserve", "auto", "storage.reserve", None),
        ("storage.reserve", "0", "storage.reserve", 0),
        ("storage.reserve", 4096, "storage.reserve", 4096),
        ("storage.min_free", "3 mib", "storage.min_free", 3 << 20),
        ("storage.min_free", "1GB", "storage.min_free", 10**9),
        ("queries.memory", "24", "queries.memory", 24 << 20),
        ("queries.memory", 24, "queries.memory", 24 << 20),
        ("queries.memory", "1 GiB", "queries.memory", 1 << 30),
        ("queries.memory", "1000b", "queries.memory", 1000),
        ("mongo.cursor_bytes", "24", "mongo.cursor_bytes", 24),
        ("cosmos.check_date", "true", "cosmos.check_date", True),
        ("cosmos.throttling", "on", "cosmos.throttling", True),
        ("cosmos.capacity", "serverless", "cosmos.capacity", "serverless"),
        ("cosmos.query_rules", "lenient", "cosmos.query_rules", "lenient"),
        ("cosmos.consistency", "bounded-staleness", "cosmos.consistency", "bounded-staleness"),
        ("ttl.charge", "free", "ttl.charge", "free"),
        ("ttl.sweep_interval", "250ms", "ttl.sweep_interval", 250 * MILLISECOND),
        ("ttl.sweep_interval", 60, "ttl.sweep_interval", MINUTE),
        ("ttl.sweep_interval", 0.5, "ttl.sweep_interval", 500 * MILLISECOND),
        ("tls.names", ["db.test"], "tls.names", ("db.test",)),
        (
            "tls.names",
            "*.db.test,bücher.test,10.0.0.7,fe80::1",
            "tls.names",
            ("*.db.test", "bücher.test", "10.0.0.7", "fe80::1"),
        ),
        ("mongo.port", "-1", "mongo.port", -1),
        ("mongo.port", "0", "mongo.port", 0),
        ("mongo.port", "auto", "mongo.port", 27017),
        ("mongo.topology", "replicaset:rs0", "mongo.topology", "replicaset:rs0"),
        ("mongo.auth", "on", "mongo.auth", True),
        ("mongo.compressors", "zlib,zstd", "mongo.compressors", ("zlib", "zstd")),
        ("mongo.max_connections", "5", "mongo.max_connections", 5),
        ("mongo.databases", "", "mongo.databases", {}),
        ("mongo.databases", "shop.profile=cosmos", "mongo.databases", {"shop": DatabaseOptions("cosmos")}),
        (
            "mongo.databases",
            "shop.expiry=hide, shop.a.b.expiry=show,log.profile=native",
            "mongo.databases",
            {
                "shop": DatabaseOptions(expiry="hide", collections={"a.b": CollectionOptions("show")}),
                "log": DatabaseOptions("native"),
            },
        ),
        (
            "mongo.databases",
            ["shop.profile=cosmos", "shop.custom_path_ttl=on"],
            "mongo.databases",
            {"shop": DatabaseOptions("cosmos", custom_path_ttl=True)},
        ),
        (
            "mongo.databases",
            {"shop": {"collections": {"a": {"expiry": "hide"}}}},
            "mongo.databases",
            {"shop": DatabaseOptions(collections={"a": CollectionOptions("hide")})},
        ),
        ("ydb.port", "0", "ydb.port", 0),
        ("ydb.port", "0", "ydb.tls_port", -1),
        ("ydb.port", "auto", "ydb.tls_port", 2135),
        ("server.port", "0", "ydb.port", 0),
        ("ydb.tls_port", "0", "ydb.tls_port", 0),
        ("ydb.databases", "/a,/b/c", "ydb.databases", ("/a", "/b/c")),
        ("ydb.ttl.hide_expired", "on", "ydb.hide_expired", True),
        ("ttl.ydb_run_interval", "20m", "ttl.ydb_run_interval", 1200 * SECOND),
        ("ttl.ydb_min_run_interval", 1, "ttl.ydb_min_run_interval", SECOND),
        ("ttl.ydb_tick", "1s", "ttl.ydb_tick", SECOND),
        ("ttl.ydb_retry_interval", 30, "ttl.ydb_retry_interval", 30 * SECOND),
        ("ttl.ydb_removal", "off", "ttl.ydb_removal", False),
    ],
)
def test_values(key: str, raw: Any, path: str, value: object) -> None:
    found: Any = load({key: RawValue(raw, "flag")}, {}).settings
    for name in path.split("."):
        found = getattr(found, name)
    assert found == value


@pytest.mark.parametrize(
    ("advertise", "used", "told"),
    [
        ("", "https://localhost:8081", "https://localhost:8081"),
        ("127.0.0.1", "https://localhost:8081", "https://127.0.0.1:8081"),
        ("127.0.0.1", "http://[::1]:8081", "http://127.0.0.1:8081"),
        ("db.test", "http://localhost", "http://db.test"),
        ("db.test:99", "http://localhost:8081", "http://db.test:99"),
        ("https://db.test", "https://localhost:8081", "https://db.test:8081"),
        # The port that was used is not one of another scheme.
        ("https://db.test", "http://localhost:8081", "https://db.test"),
        ("https://db.test:99", "http://localhost:8081", "https://db.test:99"),
        ("[::1]", "http://localhost:8081", "http://[::1]:8081"),
    ],
)
def test_where_clients_are_told_to_go(advertise: str, used: str, told: str) -> None:
    assert read(server__advertise=advertise).settings.server.endpoint_for(used) == told


def test_a_relative_file_is_looked_for_where_the_server_starts(tmp_path: Path) -> None:
    assert read(storage__url="sqlite:///./x/../a.db").settings.storage.url == f"sqlite://{tmp_path.as_posix()}/a.db"


@pytest.mark.parametrize("start", ['"2030-01-01T00:00:00Z"', "2030-01-01T00:00:00Z", "1893456000"])
def test_a_start_time_in_a_file(start: str) -> None:
    settings = read(toml=f"[clock]\nmode = 'virtual'\nstart = {start}").settings
    assert settings.clock.start == 1_893_456_000 * SECOND


@pytest.mark.parametrize(
    ("flags", "code", "message", "setting"),
    [
        ({"server__port": "eighty"}, 2, "not a whole number", "server.port"),
        ({"server__port": "65536"}, 2, "not a port", "server.port"),
        ({"server__port": "-2"}, 2, "not a port", "server.port"),
        ({"server__port": True}, 2, "not a whole number", "server.port"),
        ({"server__port": "-1"}, 2, "nothing is left to serve", "server.port"),
        ({"server__scheme": "ftp"}, 2, "none of http, https", "server.scheme"),
        ({"server__allow_time_travel": "perhaps"}, 2, "neither true nor false", "server.allow_time_travel"),
        ({"server__advertise": 5}, 2, "text is needed", "server.advertise"),
        ({"server__advertise": "db.test:0"}, 2, "not an address", "server.advertise"),
        ({"server__advertise": "db.test:65536"}, 2, "not an address", "server.advertise"),
        ({"server__advertise": "ftp://db.test"}, 2, "not an address", "server.advertise"),
        ({"server__advertise": "db.test/path"}, 2, "not an address", "server.advertise"),
        ({"server__advertise": "user@db.test"}, 2, "not an address", "server.advertise"),
        ({"server__advertise": "db..test"}, 2, "not an address", "server.advertise"),
        ({"server__advertise": "::1"}, 2, "not an address", "server.advertise"),
        ({"server__advertise": "[1:2]"}, 2, "not an address", "server.advertise"),
        ({"server__allow_hosts": 5}, 2, "list of texts", "server.allow_hosts"),
        ({"tls__names": ["db.test:8081"]}, 2, "'db.test:8081' is no host name", "tls.names"),
        ({"tls__names": ["[::1]"]}, 2, "no host name", "tls.names"),
        ({"tls__names": ["*"]}, 2, "no host name", "tls.names"),
        ({"tls__names": ["db..test"]}, 2, "no host name", "tls.names"),
        ({"tls__names": ["x" * 64 + ".test"]}, 2, "no host name", "tls.names"),
        ({"clock__mode": "system"}, 2, "none of real, virtual", "clock.mode"),
        ({"clock__mode": "virtual", "clock__start": "noon"}, 2, "not a time", "clock.start"),
        ({"clock__start": "0"}, 2, "no effect on the real clock", "clock.start"),
        ({"storage__url": "mysql://h/d"}, 2, "'mysql:...' is not a storage", "storage.url"),
        ({"storage__url": "mayfly.db"}, 2, "'mayfly.db' is not a storage", "storage.url"),
        ({"storage__url": "postgresql://h/d", "clock__mode": "virtual"}, 4, "share the real time", "clock.mode"),
        ({"storage__url": "sqlite:///a.db"}, 2, "could mean two places", "storage.url"),
        ({"storage__url": ""}, 2, "text is needed", "storage.url"),
        ({"ttl__event_limit": "0"}, 2, "less than 1", "ttl.event_limit"),
        ({"ttl__event_retention": "59s"}, 2, "not between 1m and 365d", "ttl.event_retention"),
        ({"storage__history_limit": "0"}, 2, "less than 1", "storage.history_limit"),
        ({"storage__reserve": "much"}, 2, "is no size", "storage.reserve"),
        ({"storage__min_free": "-1"}, 2, "is no size", "storage.min_free"),
        ({"storage__min_free": "1TiB"}, 2, "is no size", "storage.min_free"),
        ({"storage__min_free": True}, 2, "is no size", "storage.min_free"),
        ({"queries__memory": "0"}, 2, "is no size", "queries.memory"),
        ({"queries__memory": "0MiB"}, 2, "is no size", "queries.memory"),
        ({"queries__memory": "192 MB/s"}, 2, "is no size", "queries.memory"),
        ({"queries__memory": False}, 2, "is no size", "queries.memory"),
        ({"mongo__cursor_bytes": "0"}, 2, "is no size", "mongo.cursor_bytes"),
        ({"storage__reserve": "0", "storage__url": "memory"}, 2, "disk of a file alone", "storage.reserve"),
        ({"storage__key_file": "k", "storage__url": "memory"}, 2, "in a file alone", "storage.key_file"),
        ({"ttl__erase": "secure", "storage__url": "memory"}, 2, "in no file", "ttl.erase"),
        ({"ttl__erase": "secure", "storage__url": "postgresql://host/db"}, 2, "until it vacuums", "ttl.erase"),
        ({"storage__min_free": "1", "storage__url": "postgresql://h/d"}, 2, "disk of a file alone", "storage.min_free"),
        (
            {"cosmos__throttling": "1", "cosmos__capacity": "serverless"},
            2,
            "nothing is provisioned",
            "cosmos.throttling",
        ),
        ({"cosmos__capacity": "shared"}, 2, "none of provisioned, serverless", "cosmos.capacity"),
        ({"ttl__charge": "all"}, 2, "none of leftover, free, serverless", "ttl.charge"),
        ({"ttl__sweep_interval": "1y"}, 2, "months or years", "ttl.sweep_interval"),
        ({"ttl__sweep_interval": "0"}, 2, "not between 10ms and 1h", "ttl.sweep_interval"),
        ({"ttl__sweep_interval": "2h"}, 2, "not between 10ms and 1h", "ttl.sweep_interval"),
        ({"ttl__sweep_interval": True}, 2, "duration is needed", "ttl.sweep_interval"),
        ({"mongo__port": "8081"}, 2, "two protocols", "mongo.port"),
        ({"mongo__topology": "ring"}, 2, "none of mongos, standalone and replicaset:NAME", "mongo.topology"),
        ({"mongo__wire_version": "8"}, 2, "none of 9, 13", "mongo.wire_version"),
        ({"mongo__advertise": "db.test"}, 2, "stay where they connected", "mongo.advertise"),
        ({"mongo__compressors": "lz4"}, 2, "'lz4' is none of", "mongo.compressors"),
        ({"mongo__auth": "off", "mongo__password_file": "p"}, 2, "no effect without logins", "mongo.auth"),
        ({"mongo__databases": "shop"}, 2, "does not look like shop.profile=cosmos", "mongo.databases"),
        ({"mongo__databases": "shop.a.profile=cosmos"}, 2, "does not look like", "mongo.databases"),
        ({"mongo__databases": "shop.profile=azure"}, 2, "azure", "mongo.databases"),
        ({"mongo__databases": "shop.ttl=1"}, 2, "ttl", "mongo.databases"),
        ({"mongo__databases": {"shop": {"expiry": "never"}}}, 2, "never", "mongo.databases"),
        ({"mongo__custom_path_ttl": "on"}, 2, "only profile cosmos", "mongo.custom_path_ttl"),
        ({"mongo__databases": "shop.custom_path_ttl=on"}, 2, "only profile cosmos", "mongo.databases"),
        ({"ydb__port": "8081"}, 2, "two protocols", "ydb.port"),
        ({"ydb__port": "2137", "ydb__tls_port": "2137"}, 2, "two protocols", "ydb.tls_port"),
        ({"ydb__tls_port": "27017"}, 2, "two protocols", "ydb.tls_port"),
        ({"ydb__databases": "local"}, 2, "is not the path of a database", "ydb.databases"),
        ({"ydb__databases": ""}, 2, "a database is needed", "ydb.databases"),
        ({"ydb__advertise": "http://db.test"}, 2, "has a scheme", "ydb.advertise"),
        ({"ttl__ydb_run_interval": "500ms"}, 2, "not between 1s and 365d", "ttl.ydb_run_interval"),
        ({"ttl__ydb_min_run_interval": "1500ms"}, 2, "in whole seconds", "ttl.ydb_min_run_interval"),
        ({"cosmos__key_file": "k", "cosmos__generate_key": True}, 2, "either read from a file", "cosmos.generate_key"),
        ({"server__host": "0.0.0.0"}, 4, "well-known key", "server.host"),
        ({"server__host": "::"}, 4, "well-known key", "server.host"),
        ({"server__host": "db.test"}, 4, "well-known key", "server.host"),
    ],
)
def test_refusals(flags: dict[str, Any], code: int, message: str, setting: str) -> None:
    with pytest.raises(StartFailed, match=message) as failed:
        read(**flags)
    assert (failed.value.exit_code, failed.value.setting) == (code, setting)


@pytest.mark.parametrize(
    ("given", "url", "shown"),
    [
        ("postgresql://h/d", "postgresql://h:5432/d", "postgresql://h:5432/d"),
        ("postgres://h/d", "postgresql://h:5432/d", "postgresql://h:5432/d"),
        ("postgresql://h:/d", "postgresql://h:5432/d", "postgresql://h:5432/d"),
        ("postgresql://h:65535/d", "postgresql://h:65535/d", "postgresql://h:65535/d"),
        ("postgresql://u@h:1/d", "postgresql://u@h:1/d", "postgresql://h:1/d"),
        ("postgresql://u:secret@h:1/d", "postgresql://u:secret@h:1/d", "postgresql://h:1/d"),
        ("postgresql://u:secr@et@h/d", "postgresql://u:secr%40et@h:5432/d", "postgresql://h:5432/d"),
        ("postgresql://u:[secr]@h/d", "postgresql://u:%5Bsecr%5D@h:5432/d", "postgresql://h:5432/d"),
        ("postgresql://u:secr%2Fet@[::1]/d", "postgresql://u:secr%2Fet@[::1]:5432/d", "postgresql://[::1]:5432/d"),
        ("postgresql://h:1/d?password=secr%26t", "postgresql://:secr%26t@h:1/d", "postgresql://h:1/d"),
        ("postgresql://h/d?sslmode=require", "postgresql://h:5432/d?sslmode=require", "postgresql://h:5432/d"),
        (
            "postgresql://h/d?sslkey=/a/b&sslpassword=secr%20et",
            "postgresql://h:5432/d?sslkey=/a/b&sslpassword=secr%20et",
            "postgresql://h:5432/d",
        ),
        (
            "postgresql:///d?host=/run/postgresql",
            "postgresql:///d?host=/run/postgresql&port=5432",
            "postgresql:///d?host=/run/postgresql",
        ),
        (
            "postgresql://u:secret@/d?host=/run/p&port=5433",
            "postgresql://u:secret@/d?host=/run/p&port=5433",
            "postgresql:///d?host=/run/p&port=5433",
        ),
        ("postgresql://u@%2Frun%2Fp/d", "postgresql://u@/d?host=/run/p&port=5432", "postgresql:///d?host=/run/p"),
        (
            "postgresql://u:secret@h,[::1]:2/d",
            "postgresql://u:secret@/d?host=h,[::1]&port=5432,2",
            "postgresql://h:5432,[::1]:2/d",
        ),
        (
            "postgresql:///?host=h,::1&port=7&dbname=a%20b&user=u&password=secr+t",
            "postgresql://u:secr%2Bt@/a%20b?host=h,[::1]&port=7,7",
            "postgresql://h:7,[::1]:7/a%20b",
        ),
    ],
)
def test_a_postgresql_storage_and_what_is_shown_of_it(given: str, url: str, shown: str) -> None:
    loaded = read(storage__url=given)
    storage = loaded.settings.storage
    assert (storage.url, storage.shown, storage.kind, storage.path) == (url, shown, "postgresql", None)
    assert {key: value for key, value, _ in loaded.list_values()}["storage.url"] == shown
    assert "secr" not in repr(loaded.settings)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("postgresql:///secret", "host or port"),
        ("postgresql://", "host or port"),
        ("postgresql://secret@/d", "host or port"),
        ("postgresql://u:secret@h:0/d", "host or port"),
        ("postgresql://u:secret@h:65536/d", "host or port"),
        ("postgresql://u:secret@h:x/d", "host or port"),
        ("postgresql://u:secret@h,/d", "host or port"),
        ("postgresql://u:secret@/d?host=h:1", "host or port"),
        ("postgresql://u:secret@h/d?host=/run", "the host stands twice"),
        ("postgresql://u:secret@h:1/d?port=2", "a port stands twice"),
        ("postgresql://u:secret@h/d?user=v", "the user stands twice"),
        ("postgresql://u:secret@h/d?password=secret", "the password stands twice"),
        ("postgresql://u:secret@h/d?dbname=e", "the database is named twice"),
        ("postgresql://u:secret@/d?host=h,i,j&port=1,2", "another number of ports"),
        (
            "postgresql://h/d?sslmode=secret",
            "sslmode is one of disable, allow, prefer, require, verify-ca, verify-full",
        ),
        ("postgresql://h/d?target_session_attrs=standby", "target_session_attrs is one of any, read-write, primary"),
        ("postgresql://h/d?connect_timeout=secret", "connect_timeout is no parameter"),
        ("postgresql://h/d?sslcert=a&sslcert=secret", "sslcert stands twice"),
        ("postgresql://h/d?secret", "cannot be read"),
        ("postgresql://u:secret/x@h/d", "host or port"),
        ("postgresql://u:1/secret@h/d", "database cannot be read"),
        ("postgresql://u:1?secret@h/d", "no database"),
        ("postgresql://u:1#secret@h/d", "no #"),
        ("postgresql://u:secret @h/d", "no spaces"),
        ("postgresql://u:secret@h", "no database"),
        ("postgresql://u:secret@h/", "no database"),
        ("postgresql://u:secret@h/a/b", "database cannot be read"),
        ("postgresql:/u:secret@h/d", "not a storage"),
        ("postgre://u:secret@h/d", "not a storage"),
    ],
)
def test_no_refusal_of_a_postgresql_storage_repeats_a_password(url: str, message: str) -> None:
    with pytest.raises(StartFailed, match=message) as failed:
        read(storage__url=url)
    assert (failed.value.exit_code, failed.value.setting) == (2, "storage.url")
    assert "secret" not in failed.value.message + failed.value.hint


@pytest.mark.parametrize(
    ("url", "flag", "allowed"),
    [
        ("memory", None, True),
        ("sqlite:///./mayfly.db", None, True),
        ("postgresql://h/d", None, False),
        ("postgresql://h/d", "auto", False),
        ("postgresql://h/d", True, True),
    ],
)
def test_on_a_shared_store_time_travel_is_allowed_by_name_alone(url: str, flag: Any, allowed: bool) -> None:
    given = {} if flag is None else {"server__allow_time_travel": flag}
    assert read(storage__url=url, **given).settings.server.allow_time_travel is allowed


def test_a_virtual_clock_on_a_shared_store_needs_time_travel() -> None:
    settings = read(storage__url="postgresql://h/d", clock__mode="virtual", server__allow_time_travel=True).settings
    assert (settings.clock.mode, settings.storage.shared) == ("virtual", True)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.9.9.9", "::1", "[::1]", "LOCALHOST"])
def test_loopback_needs_no_key_and_may_move_the_clock(host: str) -> None:
    server = read(server__host=host).settings.server
    assert server.loopback
    assert server.allow_time_travel


@pytest.mark.parametrize("key", [{"cosmos__key_file": "key"}, {"cosmos__generate_key": True}])
def test_elsewhere_needs_a_key_and_the_clock_stays(key: dict[str, Any]) -> None:
    settings: Settings = read(server__host="0.0.0.0", server__insecure=True, **key).settings
    assert not settings.server.loopback
    assert not settings.server.allow_time_travel
    assert read(
        server__host="0.0.0.0", server__insecure=True, server__allow_time_travel=True, **key
    ).settings.server.allow_time_travel


@pytest.mark.parametrize(
    ("toml", "message", "hint"),
    [
        ("server.prot = 1", "unknown setting server.prot", "did you mean server.port?"),
        ("[clock]\nmodus = 'real'", "unknown setting clock.modus", "did you mean clock.mode?"),
        ("zzz = 1", "unknown setting zzz", "`mayfly config show` lists all settings"),
        ("server.port = ", "cannot be read", ""),
    ],
)
def test_what_is_wrong_with_a_file(toml: str, message: str, hint: str) -> None:
    with pytest.raises(StartFailed, match=message) as failed:
        read(toml=toml)
    assert (failed.value.exit_code, failed.value.hint) == (2, hint)


def test_a_named_file_must_exist() -> None:
    with pytest.raises(StartFailed, match=r"absent\.toml is not a file"):
        load({}, {}, "absent.toml")


def test_an_unknown_variable_is_an_error() -> None:
    with pytest.raises(StartFailed, match="MAYFLY_SERVER_PROT is not a variable") as failed:
        read({"MAYFLY_SERVER_PROT": "1"})
    assert failed.value.hint == "did you mean MAYFLY_SERVER_PORT?"


def test_what_kubernetes_adds_for_a_service_named_mayfly_is_no_setting() -> None:
    read(
        {
            "MAYFLY_SERVICE_HOST": "10.0.0.1",
            "MAYFLY_SERVICE_PORT_HTTP": "8081",
            "MAYFLY_PORT": "tcp://10.0.0.1:8081",
            "MAYFLY_PORT_8081_TCP_ADDR": "10.0.0.1",
            "MAYFLY_DEV_SERVICE_HOST": "10.0.0.1",
        }
    )


def test_shown_values_can_be_put_into_a_file() -> None:
    loaded = read(
        server__advertise="https://db.test",
        server__allow_hosts=["a.test"],
        clock__mode="virtual",
        clock__start="0",
        ttl__sweep_interval="90",
        queries__memory="256",
        mongo__cursor_bytes="1000",
        storage__url="memory",
    )
    shown = {key: value for key, value, _ in loaded.list_values()}
    again = load({key: RawValue(value, "file") for key, value in shown.items()}, {})
    assert again.settings == loaded.settings
    assert shown["clock.start"] == "1970-01-01T00:00:00Z"
    assert shown["ttl.sweep_interval"] == "1m30s"
    assert (shown["queries.memory"], shown["mongo.cursor_bytes"]) == ("256MiB", "1000B")


@pytest.mark.parametrize(
    ("environ", "code"),
    [
        ({"MONGO_INITDB_ROOT_USERNAME": "u"}, 2),
        ({"MONGO_INITDB_ROOT_USERNAME": "u", "MONGO_INITDB_ROOT_PASSWORD_FILE": "absent"}, 2),
        (
            {
                "MONGO_INITDB_ROOT_USERNAME": "u",
                "MONGO_INITDB_ROOT_PASSWORD": "p",
                "MONGO_INITDB_ROOT_PASSWORD_FILE": "absent",
            },
            2,
        ),
    ],
)
def test_half_a_first_user_is_refused(environ: dict[str, str], code: int) -> None:
    with pytest.raises(StartFailed) as caught:
        read(environ)
    assert caught.value.exit_code == code


def test_the_first_user_of_mongodb_comes_from_the_variables_of_its_images(tmp_path: Path) -> None:
    place = tmp_path / "password"
    place.write_text("p\n", encoding="utf-8")
    environ = {"MONGO_INITDB_ROOT_USERNAME": "u", "MONGO_INITDB_ROOT_PASSWORD_FILE": str(place)}
    found = read(environ).settings.mongo.administrator
    assert found is not None
    assert (found.name, found.password) == ("u", "p")
    assert "p'" not in repr(found)


def test_a_free_port_for_one_is_a_free_port_for_both() -> None:
    assert read().settings.mongo.port == 27017
    assert read(server__port="0").settings.mongo.port == 0
    assert read(server__port="0", mongo__port="-1").settings.mongo.port == -1
