"""Reads the settings: flag > MAYFLY_* > mayfly.toml > default."""

from __future__ import annotations

import os
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import msgspec

from mayflydb.announcement import StartFailed
from mayflydb.config.emulators import DropIn, read_drop_in, read_settings
from mayflydb.config.row import RawValue, Row
from mayflydb.config.settings import (
    Administrator,
    ArchiveSettings,
    ClockSettings,
    CosmosSettings,
    LimitSettings,
    MongoSettings,
    QuerySettings,
    ServerSettings,
    Settings,
    StorageSettings,
    TlsSettings,
    TtlSettings,
    YdbSettings,
)
from mayflydb.config.table import TABLE
from mayflydb.config.values import (
    Advertised,
    clock_jump,
    clock_wait,
    format_size,
    interval,
    is_loopback,
    optional_interval,
    optional_retention,
    optional_size,
    public_url,
    retention,
    run_interval,
    size,
    size_in_mib,
    storage,
)
from mayflydb.model.durations import format_span
from mayflydb.model.instant import to_rfc3339


class LoadedSettings(msgspec.Struct, frozen=True):
    """The settings, and by key the origin and the parsed value of each."""

    settings: Settings
    origins: Mapping[str, str]
    values: Mapping[str, Any]

    def list_values(self) -> Iterator[tuple[str, object, str]]:
        """(key, value as in TOML, origin) of every setting, in the table's order."""
        for row in TABLE:
            yield row.key, _as_toml(row, self.values[row.key]), self.origins[row.key]


_BY_KEY: dict[str, Row] = {row.key: row for row in TABLE}
_SECTIONS = {
    "server": ServerSettings,
    "storage": StorageSettings,
    "clock": ClockSettings,
    "queries": QuerySettings,
    "cosmos": CosmosSettings,
    "tls": TlsSettings,
    "ttl": TtlSettings,
    "archive": ArchiveSettings,
    "mongo": MongoSettings,
    "ydb": YdbSettings,
    "limits": LimitSettings,
}

TLS_OR_NOT = "add --scheme https to serve with TLS alone, or --insecure to serve without it as well"

MONGO_PORT = 27017
YDB_PORT, YDB_TLS_PORT = 2136, 2135

_FIRST_USER = "MONGO_INITDB_ROOT_"
"""The prefix of the variables by which images of MongoDB get their first user."""

# Variables that the command line reads itself.
_OTHER_VARIABLES = ("MAYFLY_CONFIG", "MAYFLY_URL", "MAYFLY_TOKEN_FILE")

# Kubernetes sets these variables in every pod beside a service whose name starts with mayfly.
_SERVICE_LINKS = re.compile(r"MAYFLY_(\w+_)?(SERVICE_(HOST|PORT\w*)|PORT(_\d+_(TCP|UDP)\w*)?)")


def load(
    flags: Mapping[str, RawValue] | None = None,
    environ: Mapping[str, str] | None = None,
    config_file: str | Path | None = None,
    *,
    search: bool = True,
) -> LoadedSettings:
    """Read all settings once. `flags`: raw values by key. `config_file`: the file of -c.

    `search`: True to look for a settings file if none was named.

    StartFailed with exit code 2 for a value that is wrong or has no effect, and with 4 for one that is not safe.
    """
    environ = os.environ if environ is None else environ
    given = {row.key: RawValue(row.default, "default") for row in TABLE}
    given |= _from_file(find_config_file(config_file, environ) if search or config_file else None)
    wins = _from_environment(environ) | dict(flags or {})
    row = _BY_KEY["server.drop_in"]
    is_drop_in = bool(_parse(row, (given | wins)[row.key]))
    given |= (read_settings(environ) if is_drop_in else {}) | wins
    values = {row.key: _parse(row, given[row.key]) for row in TABLE}
    drop_in = read_drop_in(environ, usual=values["server.port"] != 0) if is_drop_in else None
    loaded = LoadedSettings(
        _assemble(values, _administrator(environ), drop_in),
        {key: source.origin for key, source in given.items()},
        values,
    )
    _refuse_contradictions(loaded)
    return loaded


def find_config_file(named: str | Path | None, environ: Mapping[str, str]) -> Path | None:
    """The first of: the file that was named, $MAYFLY_CONFIG, ./mayfly.toml, the user's, the machine's. A named one must exist."""
    named = named or environ.get("MAYFLY_CONFIG") or None
    if named is not None:
        path = Path(named).expanduser().absolute()
        if not path.is_file():
            raise StartFailed(
                f"{path} is not a file", hint="name the settings file with -c or MAYFLY_CONFIG", exit_code=2
            )
        return path
    places = (Path("mayfly.toml"), user_config_directory(environ) / "mayfly.toml", Path("/etc/mayfly/mayfly.toml"))
    return next((place.absolute() for place in places if place.is_file()), None)


def user_config_directory(environ: Mapping[str, str]) -> Path:
    """The directory of the user's settings: $XDG_CONFIG_HOME/mayfly or ~/.config/mayfly; %APPDATA%\\mayfly on Windows."""
    name = "APPDATA" if sys.platform == "win32" else "XDG_CONFIG_HOME"
    base = environ.get(name)
    return (Path(base) if base else Path.home() / ".config") / "mayfly"


def _from_file(path: Path | None) -> dict[str, RawValue]:
    if path is None:
        return {}
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise StartFailed(f"{path} cannot be read: {error}", exit_code=2) from error
    found = {}
    for key, value in _flatten(tree):
        if key not in _BY_KEY:
            raise StartFailed(f"{path} holds an unknown setting {key}", hint=_suggestion(key, _BY_KEY), exit_code=2)
        found[key] = RawValue(value, f"file {path}")
    return found


def _flatten(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        # `mongo.databases` is a table in TOML and one setting: it is not split further.
        if isinstance(value, dict) and prefix + name not in _BY_KEY:
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _from_environment(environ: Mapping[str, str]) -> dict[str, RawValue]:
    variables = {row.variable: row.key for row in TABLE}
    found = {}
    for name, value in environ.items():
        if name in variables:
            found[variables[name]] = RawValue(value, f"variable {name}")
        elif name.startswith("MAYFLY_") and name not in _OTHER_VARIABLES and not _SERVICE_LINKS.fullmatch(name):
            hint = _suggestion(name, (*variables, *_OTHER_VARIABLES))
            raise StartFailed(f"{name} is not a variable that Mayfly knows", hint=hint, exit_code=2)
    return found


def _suggestion(word: str, known: Mapping[str, object] | tuple[str, ...]) -> str:
    close = get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"did you mean {close[0]}?" if close else "`mayfly config show` lists all settings"


def _parse(row: Row, given: RawValue) -> Any:
    try:
        return row.parse(given.value)
    except ValueError as error:
        raise StartFailed(f"{error} ({given.origin})", setting=row.key, exit_code=2) from error


def _assemble(values: Mapping[str, Any], administrator: Administrator | None, drop_in: DropIn | None) -> Settings:
    groups: dict[str, dict[str, Any]] = {section: {} for section in _SECTIONS}
    for key, value in values.items():
        # `ydb.ttl.hide_expired` is a matter of YDB's settings too.
        groups[key.partition(".")[0]][key.rpartition(".")[2]] = value
    # Unset means: safe to allow. A clock that anyone on the network may move, or that other servers share, is not.
    if groups["server"]["allow_time_travel"] is None:
        shared = StorageSettings(**groups["storage"]).shared
        groups["server"]["allow_time_travel"] = is_loopback(groups["server"]["host"]) and not shared
    near = is_loopback(groups["server"]["host"])
    # The emulators' clients connect without TLS.
    groups["server"]["insecure"] |= drop_in is not None and not near
    if groups["cosmos"]["check_date"] is None:
        groups["cosmos"]["check_date"] = not near or groups["server"]["secure"]
    if groups["server"]["secure"]:
        for protocol in ("mongo", "ydb"):
            if groups[protocol]["auth"] is None:
                groups[protocol]["auth"] = True
    mongo = groups["mongo"]
    # A server on a free port is one of several, as in tests: its other ports must be free ones too.
    if mongo["port"] is None:
        mongo["port"] = MONGO_PORT if groups["server"]["port"] else 0
    mongo["administrator"] = administrator
    _choose_ydb_ports(groups["ydb"], bool(groups["server"]["port"]), near or groups["server"]["insecure"])
    return Settings(**{section: struct(**groups[section]) for section, struct in _SECTIONS.items()}, drop_in=drop_in)


def _choose_ydb_ports(ydb: dict[str, Any], usual: bool, plain: bool) -> None:
    """Choose the ports that are not given. `usual`: no free ones; `plain`: TLS is not required."""
    if ydb["port"] is None and not plain:
        ydb["port"] = -1
        if ydb["tls_port"] is None:
            ydb["tls_port"] = YDB_TLS_PORT if usual else 0
    if ydb["port"] is None:
        ydb["port"] = YDB_PORT if usual else 0
    if ydb["tls_port"] is None:
        ydb["tls_port"] = YDB_TLS_PORT if ydb["port"] == YDB_PORT else -1


def _administrator(environ: Mapping[str, str]) -> Administrator | None:
    """MongoDB's first user as its images are given it: name and password in variables, or in files that variables name."""
    given = {}
    for name in ("USERNAME", "PASSWORD"):
        variable = _FIRST_USER + name
        value, place = environ.get(variable), environ.get(f"{variable}_FILE")
        if value and place:
            raise StartFailed(f"both {variable} and {variable}_FILE are set", exit_code=2)
        if place:
            try:
                value = Path(place).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise StartFailed(f"{place} cannot be read ({variable}_FILE): {error}", exit_code=2) from error
        if value:
            given[name] = value
    if not given:
        return None
    if len(given) == 1:
        raise StartFailed(f"{_FIRST_USER}USERNAME and {_FIRST_USER}PASSWORD belong together", exit_code=2)
    file = environ.get(f"{_FIRST_USER}PASSWORD_FILE")
    return Administrator(given["USERNAME"], given["PASSWORD"], Path(file).absolute() if file else None)


def _refuse_contradictions(loaded: LoadedSettings) -> None:
    """Refuse settings that cannot have an effect, and those that would open the store to strangers."""
    settings = loaded.settings
    if settings.server.port == -1:
        raise StartFailed(
            "nothing is left to serve", setting="server.port", hint="give a port, or 0 for a free one", exit_code=2
        )
    _refuse_keys_in_vain(settings)
    if settings.clock.start is not None and settings.clock.mode == "real":
        raise StartFailed(
            "a start time has no effect on the real clock",
            setting="clock.start",
            hint="add --clock virtual",
            exit_code=2,
        )
    if settings.clock.hold > settings.clock.steady:
        raise StartFailed(
            "purging would trust a step of the clock that reads do not follow yet",
            setting="clock.steady",
            hint="give --clock-steady at least the duration of --clock-hold",
            exit_code=2,
        )
    if settings.storage.shared and settings.clock.mode == "virtual" and not settings.server.allow_time_travel:
        raise StartFailed(
            "servers that share a PostgreSQL database share the real time",
            setting="clock.mode",
            hint="--allow-time-travel permits a virtual clock over a database that is for tests alone",
            exit_code=4,
        )
    _refuse_limits_without_a_disk(settings.storage)
    _refuse_secure_erase_in_vain(settings)
    _refuse_contradictions_of_mongo(settings)
    _refuse_contradictions_of_ydb(settings)
    _refuse_custom_paths_in_vain(settings)
    if settings.cosmos.throttling and settings.cosmos.capacity == "serverless":
        raise StartFailed(
            "in a serverless account nothing is provisioned that requests could be over",
            setting="cosmos.throttling",
            hint="leave out --throttling or --capacity serverless",
            exit_code=2,
        )
    if settings.cosmos.key_file and settings.cosmos.generate_key:
        raise StartFailed(
            "a key is either read from a file or generated",
            setting="cosmos.generate_key",
            hint="leave out --key-file or --generate-key",
            exit_code=2,
        )
    _refuse_open_doors(settings)


def _refuse_open_doors(settings: Settings) -> None:
    server = settings.server
    if server.secure and settings.drop_in is not None:
        raise StartFailed(
            "--drop-in leaves open what --secure closes",
            setting="server.secure",
            hint="leave out --secure or --drop-in",
            exit_code=2,
        )
    if server.loopback:
        if server.insecure:
            raise StartFailed(
                "only this machine can connect, and TLS is not required here",
                setting="server.insecure",
                hint="leave out --insecure",
                exit_code=2,
            )
        if server.secure:
            _refuse_half_security(settings)
        return
    if settings.drop_in is not None:
        return
    reached = f"{server.host} can be reached from other machines"
    if not (settings.cosmos.key_file or settings.cosmos.generate_key):
        raise StartFailed(
            f"{reached}, and the well-known key opens the store to all of them",
            setting="server.host",
            hint="add --generate-key or --key-file PATH, and --scheme https (TLS) or --insecure; or listen on localhost",
            exit_code=4,
        )
    if server.scheme == "http" and not server.insecure:
        raise StartFailed(
            f"{reached}, and without TLS keys, passwords and data can be read on the way",
            setting="server.scheme",
            hint=TLS_OR_NOT,
            exit_code=4,
        )
    if not settings.cosmos.check_date:
        raise StartFailed(
            f"{reached}, and a signature without a date could be used again for ever",
            setting="cosmos.check_date",
            hint="leave out --no-check-date, or listen on localhost",
            exit_code=4,
        )
    if settings.ydb.port != -1 and not server.insecure:
        raise StartFailed(
            f"{reached}, and YDB's port {settings.ydb.port or ''} would be without TLS".replace("  ", " "),
            setting="ydb.port",
            hint="give --ydb-tls-port instead of --ydb-port, or add --insecure",
            exit_code=4,
        )


def _refuse_half_security(settings: Settings) -> None:
    if not (settings.cosmos.key_file or settings.cosmos.generate_key):
        raise StartFailed(
            "--secure asks for a key of your own, and the well-known key opens the store to every program here",
            setting="server.secure",
            hint="add --generate-key or --key-file PATH",
            exit_code=4,
        )
    given = (("mongo", "auth", settings.mongo.auth), ("ydb", "auth", settings.ydb.auth))
    for section, name, value in (*given, ("cosmos", "check_date", settings.cosmos.check_date)):
        if not value:
            flag = "--no-check-date" if section == "cosmos" else f"--no-{section}-auth"
            raise StartFailed(
                f"{flag} contradicts --secure",
                setting=f"{section}.{name}",
                hint=f"leave out {flag} or --secure",
                exit_code=4,
            )


def _refuse_limits_without_a_disk(storage: StorageSettings) -> None:
    for name, given in (("reserve", storage.reserve), ("min_free", storage.min_free)):
        if storage.kind != "sqlite" and given is not None:
            raise StartFailed(
                "Mayfly knows the disk of a file alone",
                setting=f"storage.{name}",
                hint=f"leave it out, or store in a file instead of {storage.shown}",
                exit_code=2,
            )
    if storage.kind != "sqlite" and storage.key_file is not None:
        raise StartFailed(
            "records are shredded in a file alone, so there are no keys",
            setting="storage.key_file",
            hint=f"leave it out, or store in a file instead of {storage.shown}",
            exit_code=2,
        )


_NO_SECURE_ERASE: Final = {
    "memory": ("what is in memory is in no file that could be overwritten", "leave it out, or store in a file"),
    "postgresql": (
        "PostgreSQL keeps copies of deleted rows until it vacuums, and in its write-ahead log",
        "leave it out, or store in a file; an encrypted disk, vacuums and the age of WAL archives are PostgreSQL's own means",
    ),
}


def _refuse_secure_erase_in_vain(settings: Settings) -> None:
    refusal = _NO_SECURE_ERASE.get(settings.storage.kind)
    if settings.ttl.erase == "secure" and refusal is not None:
        message, hint = refusal
        raise StartFailed(message, setting="ttl.erase", hint=hint, exit_code=2)


def _refuse_keys_in_vain(settings: Settings) -> None:
    tls = settings.tls
    for setting, place in (("tls.key_file", tls.key_file), ("tls.key_password_file", tls.key_password_file)):
        if place is not None and tls.cert_file is None:
            hint = "add --tls-cert-file PATH, or leave it out"
            raise StartFailed("there is no certificate of your own", setting=setting, hint=hint, exit_code=2)


def _refuse_contradictions_of_mongo(settings: Settings) -> None:
    mongo = settings.mongo
    if mongo.port == settings.server.port and mongo.port > 0:
        raise StartFailed(
            f"port {mongo.port} is given to two protocols",
            setting="mongo.port",
            hint="--mongo-port 0 picks a free one",
            exit_code=2,
        )
    if mongo.advertise is not None and not mongo.topology.startswith("replicaset:"):
        raise StartFailed(
            f"clients of the topology {mongo.topology} stay where they connected",
            setting="mongo.advertise",
            hint="leave it out, or add --mongo-topology replicaset:NAME",
            exit_code=2,
        )
    if mongo.password_file is not None and mongo.administrator is not None:
        raise StartFailed(
            f"{_FIRST_USER}PASSWORD and a password file give two administrators",
            setting="mongo.password_file",
            hint="leave out one of them",
            exit_code=2,
        )
    if mongo.auth is False and (mongo.password_file is not None or mongo.administrator is not None):
        raise StartFailed(
            "a password has no effect without logins",
            setting="mongo.auth",
            hint="leave out --no-mongo-auth, or the password",
            exit_code=2,
        )


def _refuse_contradictions_of_ydb(settings: Settings) -> None:
    ydb = settings.ydb
    others = (settings.server.port, settings.mongo.port)
    for setting, port, taken in (
        ("ydb.port", ydb.port, others),
        ("ydb.tls_port", ydb.tls_port, (*others, ydb.port)),
    ):
        if port > 0 and port in taken:
            raise StartFailed(
                f"port {port} is given to two protocols",
                setting=setting,
                hint=f"--{setting.replace('.', '-').replace('_', '-')} 0 picks a free one",
                exit_code=2,
            )


def _refuse_custom_paths_in_vain(settings: Settings) -> None:
    mongo = settings.mongo
    own = mongo.databases
    in_vain = [
        name for name, each in own.items() if each.custom_path_ttl and (each.profile or mongo.profile) != "cosmos"
    ]
    profiles = {mongo.profile, *(each.profile for each in own.values())}
    if in_vain or (mongo.custom_path_ttl and "cosmos" not in profiles):
        setting = "mongo.databases" if in_vain else "mongo.custom_path_ttl"
        hint = "add the profile cosmos, or leave it out"
        raise StartFailed("only profile cosmos restricts TTL indexes to _ts", setting=setting, hint=hint, exit_code=2)


def _as_toml(row: Row, value: Any) -> object:
    """A parsed value as the settings file holds it, without passwords."""
    if value is None:
        return "off" if row.parse is optional_interval else row.default
    if row.key == "clock.start":
        return to_rfc3339(value)
    if row.parse is storage:
        return public_url(value)
    if row.parse in (clock_jump, clock_wait, interval, optional_interval, optional_retention, retention, run_interval):
        return format_span(value)
    if row.parse in (optional_size, size, size_in_mib):
        return format_size(value)
    if isinstance(value, Path | Advertised):
        return str(value)
    return msgspec.to_builtins(value)
