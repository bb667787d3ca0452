"""What each command asks of the server, how answers are printed, and the exit codes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest
from click.testing import Result

import mayflydb
from mayflydb.announcement import ydb_access
from mayflydb.cli.main import COMMANDS, mayfly
from mayflydb.config import TABLE

if TYPE_CHECKING:
    from cli.conftest import AdminStub

Run = Callable[..., Result]


@pytest.mark.parametrize(
    ("arguments", "method", "target", "body"),
    [
        (["clock", "show"], "GET", "clock", None),
        (["clock", "advance", "1h30m"], "POST", "clock/advance", {"seconds": 5400, "sweep": "scheduled"}),
        (["clock", "advance", "0"], "POST", "clock/advance", {"seconds": 0, "sweep": "scheduled"}),
        (["clock", "advance", "PT1H", "--sweep", "now"], "POST", "clock/advance", {"seconds": 3600, "sweep": "now"}),
        (["clock", "advance", "250ms"], "POST", "clock/advance", {"by": "250ms", "sweep": "scheduled"}),
        (["clock", "next"], "POST", "clock/advance", {"to": "next-expiry", "sweep": "scheduled"}),
        (["clock", "set", "1893456000"], "POST", "clock/set", {"to": "2030-01-01T00:00:00Z"}),
        (
            ["clock", "set", "2030-01-01T00:00:00Z", "--force"],
            "POST",
            "clock/set",
            {"to": "2030-01-01T00:00:00Z", "force": True},
        ),
        (["clock", "freeze"], "POST", "clock/freeze", {}),
        (["clock", "resume"], "POST", "clock/resume", {}),
        (["clock", "reset"], "POST", "clock/reset", {}),
        (["clock", "accept"], "POST", "clock/accept", {}),
        (["clock", "reject"], "POST", "clock/reject", {}),
        (["ttl", "preview", "cosmos:a/b", "30m"], "POST", "ttl/preview", {"target": "cosmos:a/b", "default_ttl": 1800}),
        (["ttl", "preview", "cosmos:a/b", "off"], "POST", "ttl/preview", {"target": "cosmos:a/b", "default_ttl": None}),
        (["ttl", "preview", "cosmos:a/b", "on"], "POST", "ttl/preview", {"target": "cosmos:a/b", "default_ttl": -1}),
        (
            ["ttl", "preview", "mongo:a.b", "0", "--field", "at"],
            "POST",
            "ttl/preview",
            {"target": "mongo:a.b", "field": "at", "expire_after_seconds": 0},
        ),
        (
            ["ttl", "preview", "mongo:a.b", "--index", "at_1", "--seconds", "10"],
            "POST",
            "ttl/preview",
            {"target": "mongo:a.b", "index": "at_1", "expire_after_seconds": 10},
        ),
        (
            ["ttl", "preview", "mongo:a.b", "off", "--field", "at"],
            "POST",
            "ttl/preview",
            {"target": "mongo:a.b", "field": "at", "expire_after_seconds": None},
        ),
        (
            ["ttl", "preview", "mongo:a.b", "--seconds", "10"],
            "POST",
            "ttl/preview",
            {"target": "mongo:a.b", "default_ttl": 10},
        ),
        (
            ["ttl", "preview", "ydb:/local/t", "--column", "at", "--expire-after", "3600"],
            "POST",
            "ttl/preview",
            {"target": "ydb:/local/t", "expire_after_seconds": 3600, "column": "at"},
        ),
        (
            ["ttl", "preview", "ydb:/local/t", "1h", "--column", "n", "--unit", "ms", "--run-interval", "900"],
            "POST",
            "ttl/preview",
            {
                "target": "ydb:/local/t",
                "expire_after_seconds": 3600,
                "column": "n",
                "unit": "milliseconds",
                "run_interval_seconds": 900,
            },
        ),
        (
            ["ttl", "preview", "ydb:/local/t", "--column", "at"],
            "POST",
            "ttl/preview",
            {"target": "ydb:/local/t", "expire_after_seconds": 0, "column": "at"},
        ),
        (
            ["ttl", "preview", "ydb:/local/t", "off"],
            "POST",
            "ttl/preview",
            {"target": "ydb:/local/t", "expire_after_seconds": None},
        ),
        (["ttl", "purge", "ydb:/local/t"], "POST", "purge", {"target": "ydb:/local/t"}),
        (
            ["ttl", "explain", "cosmos:a/b", "s 1", "--pk", "u"],
            "GET",
            "ttl/explain?target=cosmos%3Aa%2Fb&id=s+1&pk=u",
            None,
        ),
        (["ttl", "explain", "cosmos:a/b", "s1"], "GET", "ttl/explain?target=cosmos%3Aa%2Fb&id=s1", None),
        (["ttl", "purge"], "POST", "purge", {}),
        (["ttl", "purge", "cosmos:a/b"], "POST", "purge", {"target": "cosmos:a/b"}),
        (["reset", "-y"], "POST", "reset", {}),
        (["reset", "cosmos:a", "--keep-clock", "-y"], "POST", "reset", {"target": "cosmos:a", "keep_clock": True}),
    ],
)
def test_requests(run: Run, server: AdminStub, arguments: list[str], method: str, target: str, body: Any) -> None:
    server.answers[method, "/_mayfly/" + target.partition("?")[0]] = (200, {"now": "2030-01-01T00:00:00Z"})
    result = run("--url", server.url, *arguments)
    assert result.exit_code == 0, result.output
    assert server.asked == [(method, "/_mayfly/" + target, body)]
    assert json.loads(result.stdout) == {"now": "2030-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("status", "answer", "code", "words"),
    [
        (
            409,
            {"title": "Past", "detail": "the store is newer", "hint": "force"},
            1,
            ["Past: the store is newer", "force"],
        ),
        (403, {"title": "Not allowed"}, 4, ["Not allowed"]),
        (401, {"title": "Who?"}, 4, ["Who?"]),
        (503, {"title": "Starting"}, 3, ["Starting"]),
        (500, None, 1, ["answered 500"]),
        (200, b"<html>", 1, ["is not Mayfly"]),
    ],
)
def test_failures(run: Run, server: AdminStub, status: int, answer: Any, code: int, words: list[str]) -> None:
    server.answers["GET", "/_mayfly/clock"] = (status, answer)
    result = run("--url", server.url, "clock", "show")
    assert result.exit_code == code
    assert result.stdout == ""
    assert all(word in result.stderr for word in words), result.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["serv"], 2, "Did you mean 'serve'?"),
        (["clock", "advanc", "1"], 2, "Did you mean 'advance'?"),
        (["clock", "advance", "1y"], 2, "months or years"),
        (["clock", "advance", "--", "-5"], 2, "not a duration"),
        (["clock", "set", "noon"], 2, "not a time"),
        (["ttl", "preview", "cosmos:a/b", "0"], 2, "1 to 2147483647"),
        (["ttl", "preview", "cosmos:a/b", "2147483648"], 2, "1 to 2147483647"),
        (["ttl", "preview", "cosmos:a/b", "500ms"], 2, "1 to 2147483647"),
        (["ttl", "preview", "cosmos:a/b"], 2, "one of off, on, DURATION and --seconds"),
        (["ttl", "preview", "cosmos:a/b", "5", "--seconds", "5"], 2, "one of off, on, DURATION and --seconds"),
        (["ttl", "preview", "cosmos:a/b", "--seconds", "0"], 2, "1 to 2147483647"),
        (["ttl", "preview", "mongo:a.b", "5", "--field", "x", "--index", "x_1"], 2, "one is enough"),
        (["ttl", "set", "mongo:a.b"], 2, "one of off, on, DURATION and --seconds"),
        (["ttl", "preview", "mongo:a.b", "5", "--column", "x"], 2, "--column is of tables of YDB"),
        (["ttl", "preview", "cosmos:a/b", "5", "--run-interval", "5"], 2, "--run-interval is of tables of YDB"),
        (["ttl", "preview", "ydb:/local/t"], 2, "one of off, DURATION and --expire-after"),
        (["ttl", "preview", "ydb:/local/t", "on"], 2, "off, or a DURATION"),
        (["ttl", "preview", "ydb:/local/t", "5", "--expire-after", "5"], 2, "is enough"),
        (["ttl", "preview", "ydb:/local/t", "off", "--expire-after", "5"], 2, "is enough"),
        (["ttl", "preview", "ydb:/local/t", "--column", "x", "--unit", "weeks"], 2, "--unit"),
        (["ttl", "forecast", "--horizon", "later"], 2, "not a duration"),
        (["reset"], 4, "with -y"),
        (["reset"], 4, "This needs a confirmation."),
        (["--url", "absent.json", "clock", "show"], 3, "no ready file"),
        (["--url", "ftp://x", "clock", "show"], 1, "neither an address nor a ready file"),
        (["serve", "--prt", "1"], 2, "--port"),
        (["serve", "a.db", "--memory"], 2, "two storages: flag --memory and argument PATH"),
        (["serve", "-m", "--storage", "memory"], 2, "two storages"),
        (["serve", ":memory:"], 2, "Try:   --memory"),
        (["serve", "postgresql://h/d"], 2, "PATH is a file"),
        (["serve", "postgresql://u:secret@h/d"], 2, "Try:   --storage postgresql:..."),
        (["serve", "--storage", "postgresql://h"], 2, "names no database"),
        (["serve", "--storage", "postgresql://h/d", "--clock", "virtual"], 4, "Try:   --allow-time-travel"),
        (["serve", "--host", "0.0.0.0"], 4, "Setting: server.host"),
        (["serve", "-p", "-1"], 2, "nothing is left to serve"),
        (["-c", "absent.toml", "serve"], 2, "is not a file"),
    ],
)
def test_refusals(run: Run, arguments: list[str], code: int, words: str) -> None:
    result = run(*arguments)
    assert result.exit_code == code, result.output
    assert words in result.stderr


def test_nobody_answers(run: Run, server: AdminStub) -> None:
    server.close()
    result = run("--url", server.url, "clock", "show")
    assert result.exit_code == 3
    assert "no server answers" in result.stderr


def test_the_url_may_be_a_ready_file(run: Run, server: AdminStub, tmp_path: Path) -> None:
    place = tmp_path / "ready.json"
    server.answers["GET", "/_mayfly/clock"] = (200, {"mode": "virtual"})
    place.write_text(json.dumps({"admin": server.url + "/_mayfly"}), encoding="utf-8")
    assert run("--url", str(place), "clock", "show").exit_code == 0
    place.write_text(json.dumps({"admin": None}), encoding="utf-8")
    assert "admin API off" in run("--url", str(place), "clock", "show").stderr
    place.write_text("[]", encoding="utf-8")
    assert "is not a ready file" in run("--url", str(place), "clock", "show").stderr


def test_the_url_may_be_a_variable(run: Run, server: AdminStub, monkeypatch: pytest.MonkeyPatch) -> None:
    server.answers["GET", "/_mayfly/clock"] = (200, {"mode": "virtual"})
    monkeypatch.setenv("MAYFLY_URL", server.url)
    assert run("clock", "show").exit_code == 0


# --- status ----------------------------------------------------------------------------------------------------------


def test_status_of_a_ready_server(run: Run, server: AdminStub) -> None:
    for path in ("ready", "info", "stats"):
        server.answers["GET", "/_mayfly/" + path] = (200, {"is": path})
    result = run("--url", server.url, "status")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {"readiness": {"is": "ready"}, "info": {"is": "info"}, "stats": {"is": "stats"}}


def test_status_names_what_is_not_ready(run: Run, server: AdminStub) -> None:
    server.answers["GET", "/_mayfly/ready"] = (
        503,
        {"ready": False, "store": "disk full", "protocols": {"cosmos": "ok"}},
    )
    result = run("--url", server.url, "status")
    assert result.exit_code == 3
    assert "store: disk full" in result.stderr
    assert "cosmos" not in result.stderr


def test_status_waits_until_the_server_is_ready(run: Run, server: AdminStub) -> None:
    class Answers(dict[tuple[str, str], tuple[int, Any]]):
        """Ready at the third question."""

        def get(self, key: tuple[str, str], default: Any = None) -> Any:
            questions = [target for _, target, _ in server.asked if target.endswith("/ready")]
            return (503, {}) if key[1].endswith("/ready") and len(questions) < 3 else (200, {})

    server.answers = Answers()
    assert run("--url", server.url, "status", "--wait", "30").exit_code == 0
    assert [target for _, target, _ in server.asked] == ["/_mayfly/ready"] * 3 + ["/_mayfly/info", "/_mayfly/stats"]


# --- output ----------------------------------------------------------------------------------------------------------

FORECAST = {
    "now": "2030-01-01T00:00:00Z",
    "bucket_seconds": 60,
    "buckets": [
        {"from": "2030-01-01T00:00:00Z", "to": "2030-01-01T00:01:00Z", "count": 0},
        {"from": "2030-01-01T00:01:00Z", "to": "2030-01-01T00:02:00Z", "count": 7},
    ],
    "due_now": 2,
    "in_horizon": 7,
    "later": 5,
    "never": 1,
    "exact": True,
}


def test_forecast_as_json_lines_and_as_a_table(run: Run, server: AdminStub) -> None:
    server.answers["GET", "/_mayfly/ttl/forecast"] = (200, FORECAST)
    command = ("--url", server.url, "ttl", "forecast", "--horizon", "2m", "--buckets", "2")
    lines = [json.loads(line) for line in run(*command, "-o", "jsonl").stdout.splitlines()]
    assert lines == [
        {"from": "due now", "to": "2030-01-01T00:00:00Z", "count": 2, "exact": True},
        {"from": "2030-01-01T00:01:00Z", "to": "2030-01-01T00:02:00Z", "count": 7, "exact": True},
        {"from": "within 2m", "to": "2030-01-01T00:02:00Z", "count": 7, "exact": True},
        {"from": "later", "count": 5, "exact": True},
        {"from": "never", "count": 1, "exact": True},
    ]
    table = run("-o", "table", *command).stdout
    assert [line.split() for line in table.splitlines() if "2030" in line] == [
        ["due", "now", "2030-01-01T00:00:00Z", "2"],
        ["2030-01-01T00:01:00Z", "2030-01-01T00:02:00Z", "7"],
        ["within", "2m", "2030-01-01T00:02:00Z", "7"],
    ]
    assert json.loads(run(*command).stdout) == FORECAST
    assert server.asked[0][1] == "/_mayfly/ttl/forecast?horizon=2m&buckets=2"


GUESS = {"now": "2030-01-01T00:00:00Z", "exact": False}
PREVIEWED = GUESS | {"current": None, "proposed": 60, "records": 31, "expire_now": 32, "own_ttl": 33, "never": 34}
PREVIEWED |= {"expire_within": {"1h": 35, "1d": 36, "7d": 37}, "reappear_now": 38, "sample": []}
LISTED = {"target": "cosmos:a/b", "default_ttl": 60, "paused": None, "records": 31, "hidden": 32, "due": 33}
LISTED |= {"own_ttl": 34, "ignored_ttl": 35, "exact": False, "next_expiry": None}
ESTIMATES: list[tuple[tuple[str, ...], tuple[str, str], Any, set[int]]] = [
    (("ttl", "preview", "cosmos:a/b", "60"), ("POST", "ttl/preview"), PREVIEWED, {*range(31, 39)}),
    (("ttl", "forecast"), ("GET", "ttl/forecast"), FORECAST | {"exact": False, "due_now": 31, "later": 35}, {31, 35}),
    (("ttl", "list"), ("GET", "ttl"), GUESS | {"targets": [LISTED]}, {31, 33}),
    (("-o", "wide", "ttl", "list"), ("GET", "ttl"), GUESS | {"targets": [LISTED]}, {*range(31, 36)}),
    (
        ("ttl", "pause"),
        ("POST", "ttl/pause"),
        {"now": GUESS["now"], "targets": [{"target": "mongo:a.b", "paused": "purge", "due": 31, "exact": False}]},
        {31},
    ),
    (
        ("clock", "advance", "1h"),
        ("POST", "clock/advance"),
        GUESS | {"expired": 31, "purged": 41, "by_target": {"mongo:a.b": {"expired": 32, "purged": 42}}},
        {31, 32},
    ),
]
"""command | its request | an answer with estimates, whose counts are 31 and more | the counts that a table shows as such"""


@pytest.mark.parametrize(("command", "request_line", "answer", "estimates"), ESTIMATES, ids=lambda each: str(each)[:24])
def test_each_estimate_in_a_table_says_about(
    run: Run,
    server: AdminStub,
    command: tuple[str, ...],
    request_line: tuple[str, str],
    answer: Any,
    estimates: set[int],
) -> None:
    method, path = request_line
    server.answers[method, f"/_mayfly/{path}"] = (200, answer)
    table = run("--url", server.url, *(() if "-o" in command else ("-o", "table")), *command).stdout
    assert {int(count) for count in re.findall(r"about (3\d)\b", table)} == estimates, table
    assert {int(count) for count in re.findall(r"(?<!about )\b(3\d)\b", table)} == set(), table
    exact = json.loads(json.dumps(answer).replace('"exact": false', '"exact": true'))
    server.answers[method, f"/_mayfly/{path}"] = (200, exact)
    assert "about" not in run("--url", server.url, "-o", "table", *command).stdout
    assert json.loads(run("--url", server.url, "-o", "json", *command[2 * ("-o" in command) :]).stdout) == exact


def test_the_question_before_a_change_says_about(run: Run, server: AdminStub) -> None:
    server.answers["POST", "/_mayfly/ttl/preview"] = (200, PREVIEWED)
    asked = run("--url", server.url, "ttl", "set", "cosmos:a/b", "60").output
    assert (
        "about 32 of about 31 would expire now, about 35 within the hour, about 38 hidden ones would come back" in asked
    )


def test_status_says_about(run: Run, server: AdminStub) -> None:
    stats = GUESS | {"databases": 1, "containers": 1, "records": 31, "targets": {"cosmos:a/b": LISTED | {"purged": 3}}}
    server.answers["GET", "/_mayfly/ready"] = (200, {"clock": "virtual"})
    server.answers["GET", "/_mayfly/info"] = (200, {"version": "1"})
    server.answers["GET", "/_mayfly/stats"] = (200, stats)
    table = run("--url", server.url, "-o", "table", "status").output
    assert re.search(r"records\s+about 31\b", table) and re.search(r"hidden\s+about 32\b", table), table


def test_a_table_shows_names_as_they_are(run: Run, server: AdminStub) -> None:
    answer = {"now": None, "frozen": True, "by_target": {"cosmos:[red]x[/red]/y": {"purged": 1}}, "sample": ["a", "b"]}
    server.answers["GET", "/_mayfly/clock"] = (200, answer)
    table = run("--url", server.url, "clock", "show", "-o", "table").stdout
    for words in (["frozen", "yes"], ["by_target.cosmos:[red]x[/red]/y.purged", "1"], ["sample", "a,", "b"], ["now"]):
        assert words in [line.split() for line in table.splitlines()], table


# --- connect ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("env", "export COSMOS_CONNECTION_STRING='AccountEndpoint=http://127.0.0.1:1/;AccountKey=k==;'"),
        ("dotenv", 'COSMOS_ENDPOINT="http://127.0.0.1:1/"'),
        ("json", '"connection_string": "AccountEndpoint=http://127.0.0.1:1/;AccountKey=k==;"'),
        ("python", 'CosmosClient("http://127.0.0.1:1/", "k==")'),
        ("csharp", 'using Microsoft.Azure.Cosmos;\n\nvar client = new CosmosClient("http://127.0.0.1:1/", "k==");'),
        ("java", 'new CosmosClientBuilder().endpoint("http://127.0.0.1:1/").key("k==").gatewayMode().buildClient();'),
        ("java", 'System.setProperty("COSMOS.HTTP_CONNECTION_WITHOUT_TLS_ALLOWED", "true");\nvar client = new Cosmos'),
        ("node", 'new CosmosClient({ endpoint: "http://127.0.0.1:1/", key: "k==" })'),
    ],
)
def test_connect(run: Run, server: AdminStub, form: str, words: str) -> None:
    server.answers["GET", "/_mayfly/info"] = (200, {"cosmos": {"endpoint": "http://127.0.0.1:1/", "key": "k=="}})
    result = run("--url", server.url, "connect", "--format", form)
    assert result.exit_code == 0
    assert words in result.stdout


def test_java_connects_in_direct_mode_over_tls(run: Run, server: AdminStub) -> None:
    server.answers["GET", "/_mayfly/info"] = (200, {"cosmos": {"endpoint": "https://127.0.0.1:1/", "key": "k=="}})
    shown = run("--url", server.url, "connect", "--format", "java").stdout
    assert 'endpoint("https://127.0.0.1:1/").key("k==").buildClient();' in shown and "WITHOUT_TLS" not in shown


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("env", "export YDB_CONNECTION_STRING='grpc://localhost:2136?database=/local'"),
        ("env", "export YDB_TLS_CONNECTION_STRING='grpcs://localhost:2135?database=/local'"),
        ("dotenv", 'YDB_TLS_CONNECTION_STRING="grpcs://localhost:2135?database=/local"'),
        ("json", '"tls_connection_string": "grpcs://localhost:2135?database=/local"'),
        ("python", 'driver = ydb.Driver(endpoint="grpc://localhost:2136", database="/local")'),
        ("csharp", 'var ydb = new YdbConnection("Host=localhost;Port=2136;Database=/local");'),
        ("java", 'var ydb = GrpcTransport.forConnectionString("grpc://localhost:2136?database=/local").build();'),
        ("node", 'const driver = new Driver("grpc://localhost:2136?database=/local");'),
        ("ydb", "ydb -e grpc://localhost:2136 -d /local\n"),
    ],
)
def test_connect_where_ydb_is_served(run: Run, server: AdminStub, form: str, words: str) -> None:
    info = {
        "cosmos": {"endpoint": "http://127.0.0.1:1/", "key": "k=="},
        "mongo": {"uri": "mongodb://localhost:27017/"},
        "ydb": ydb_access("grpc://localhost:2136", "grpcs://localhost:2135", "/local", None),
    }
    server.answers["GET", "/_mayfly/info"] = (200, info)
    result = run("--url", server.url, "connect", "--format", form)
    assert result.exit_code == 0
    assert words in result.stdout


def test_the_environment_survives_a_shell(run: Run, server: AdminStub) -> None:
    server.answers["GET", "/_mayfly/info"] = (200, {"cosmos": {"endpoint": "http://127.0.0.1:1/", "key": "k'$(x)"}})
    script = run("--url", server.url, "connect").stdout + '\nprintf %s "$COSMOS_KEY"'
    assert subprocess.run(["sh", "-c", script], capture_output=True, check=True, text=True).stdout == "k'$(x)"


# --- config, help, version -------------------------------------------------------------------------------------------


def test_config_show(run: Run) -> None:
    result = run("config", "show", "--origin", "-m", "-p", "0", "--clock", "virtual")
    rows = {row["key"]: (row["value"], row["origin"]) for row in json.loads(result.stdout)}
    assert list(rows) == [row.key for row in TABLE]
    assert rows["storage.url"] == ("memory", "flag --memory")
    assert rows["server.port"] == (0, "flag --port")
    assert rows["server.host"] == ("localhost", "default")


def test_config_show_keeps_the_password_to_itself(run: Run) -> None:
    result = run("config", "show", "--origin", "--storage", "postgres://someone:secret@db.test/shop?sslmode=require")
    rows = {row["key"]: row["value"] for row in json.loads(result.stdout)}
    assert rows["storage.url"] == "postgresql://db.test:5432/shop"
    assert "secret" not in result.output
    assert "someone" not in result.output


def test_every_setting_is_a_flag_and_says_its_variable(run: Run) -> None:
    text = "".join(run("serve", "--help").stdout.split())
    for row in TABLE:
        assert all(flag in text for flag in row.flags), row.key
        assert f"[env:{row.variable}]" in text


def test_repeated_flags_and_switches(run: Run) -> None:
    arguments = ("--allow-host", "a", "--allow-host", "b", "--no-allow-time-travel", "--generate-key")
    rows = {row["key"]: row["value"] for row in json.loads(run("config", "show", *arguments).stdout)}
    assert rows["server.allow_hosts"] == ["a", "b"]
    assert rows["server.allow_time_travel"] is False
    assert rows["cosmos.generate_key"] is True


def leaves(command: click.Command, name: str = "mayfly") -> list[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        return [(name, command)]
    context = click.Context(command)
    found = []
    for child in command.list_commands(context):
        member = command.get_command(context, child)
        assert member is not None
        found += leaves(member, f"{name} {child}")
    return found


def test_every_command_says_what_it_does() -> None:
    commands = leaves(mayfly)
    assert {name.split()[1] for name, _ in commands} == set(COMMANDS)
    for name, command in commands:
        assert command.help, name
        assert command.help.strip().endswith("."), name


def test_the_version_is_quick_because_it_imports_nothing_heavy() -> None:
    script = (
        "import sys\n"
        "from mayflydb.cli.main import mayfly\n"
        "mayfly(['--version'], standalone_mode=False)\n"
        "heavy = {'msgspec', 'apsw', 'httptools', 'asyncio', 'cryptography', 'starlette', 'http.client'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True).stdout
    assert out.splitlines() == [f"mayfly {mayflydb.__version__}", "[]"]


def test_both_scripts_are_the_same_program() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(project["scripts"].values()) == {"mayflydb.cli.main:main"}
    assert set(project["scripts"]) == {"mayfly", "mayflydb"}


AHEAD = {
    "current": None,
    "proposed": 10,
    "records": 5,
    "expire_now": 2,
    "expire_within": {"1h": 3},
    "reappear_now": 0,
    "exact": True,
}


def test_a_preview_says_when_it_adds_an_index(run: Run, server: AdminStub) -> None:
    said = "there is no TTL index _ts_1 yet; --field or --index names another one"
    arguments = ("--url", server.url, "ttl", "preview", "mongo:a.b", "10")
    for answer, expected in (
        ({"index": "_ts_1"}, True),
        ({"index": "_ts_1", "current": 60}, False),
        ({"index": "_ts_1", "proposed": None}, False),
        ({}, False),
    ):
        server.answers["POST", "/_mayfly/ttl/preview"] = (200, AHEAD | answer)
        result = run(*arguments)
        assert (said in result.stderr) == expected
        assert json.loads(result.stdout) == AHEAD | answer
    server.answers["POST", "/_mayfly/ttl/preview"] = (200, AHEAD | {"index": "at_1"})
    assert run(*arguments, "--field", "at").stderr == ""


def test_what_follows_is_shown_before_a_ttl_is_set(run: Run, server: AdminStub) -> None:
    """Without a terminal nobody can agree to it."""
    server.answers["POST", "/_mayfly/ttl/preview"] = (200, {**AHEAD, "index": "at_1"})
    server.answers["POST", "/_mayfly/ttl/set"] = (200, {"target": "mongo:a.b"})
    arguments = ("--url", server.url, "ttl", "set", "mongo:a.b", "10", "--field", "at")
    refused = run(*arguments)
    assert refused.exit_code == 4
    assert "Set index at_1 of mongo:a.b from off to 10 s? 2 of 5 would expire now, 3 within the hour." in refused.stderr
    assert [path for _, path, _ in server.asked] == ["/_mayfly/ttl/preview"]
    note = "no document of mongo:a.b has a date in `at`"
    server.answers["POST", "/_mayfly/ttl/preview"] = (200, {**AHEAD, "index": "at_1", "exact": False, "notes": [note]})
    assert f"Note: {note}\n" in run(*arguments).stderr
    assert "to 10 s? about 2 of about 5 would expire now, about 3 within" in run(*arguments).stderr
    assert json.loads(run(*arguments, "-y").stdout) == {"target": "mongo:a.b"}
    assert server.asked[-1] == (
        "POST",
        "/_mayfly/ttl/set",
        {"target": "mongo:a.b", "field": "at", "expire_after_seconds": 10},
    )
