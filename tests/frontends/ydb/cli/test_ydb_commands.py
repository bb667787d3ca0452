"""Commands of YDB's command line: what they print, and that they print nothing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mayflydb.cli.ydb.client import Client
from mayflydb.cli.ydb.endpoint import Login, parse_endpoint
from mayflydb.embedded import RunningServer

if TYPE_CHECKING:
    from frontends.ydb.cli.conftest import Ask

Say = Callable[..., str]

DESCRIBED = """\
<table> mytable

Columns:
┌────────────┬────────────┬────────┬─────┐
│ Name       │ Type       │ Family │ Key │
├────────────┼────────────┼────────┼─────┤
│ id         │ Uint64?    │        │ K0  │
│ created_at │ Timestamp? │        │     │
└────────────┴────────────┴────────┴─────┘
"""
FAMILIES = """\
Column families:\x20
┌─────────┬──────┬─────────────┬────────────────┐
│ Name    │ Data │ Compression │ Keep in memory │
├─────────┼──────┼─────────────┼────────────────┤
│ default │      │ None        │                │
└─────────┴──────┴─────────────┴────────────────┘
"""
TTL = """\
Ttl settings (date type column):
Column name: created_at
Expire after: 3600.000000s
"""
PARTITIONING = """\
Auto partitioning settings:\x20
Partitioning by size: true
Partitioning by load: false
Preferred partition size (Mb): 2048
Min partitions count: 1
"""


def make(say: Say, name: str, rest: str = "") -> None:
    assert say("sql", "-s", f"CREATE TABLE `{name}` (id Uint64, created_at Timestamp{rest}, PRIMARY KEY (id))") == ""


# --- as it is in the documents ---------------------------------------------------------------------------------------


def test_the_three_commands_run_in_a_shell(ydb_server: RunningServer, say: Say) -> None:
    make(say, "mytable")
    script = """
        ydb() { "$PYTHON" -c 'from mayflydb.cli.main import main; main()' ydb "$@"; }
        ydb -e $endpoint -d $database table ttl set --column created_at --expire-after 3600 mytable || exit 1
        ydb -e $endpoint -d $database scheme describe mytable || exit 2
        ydb -e $endpoint -d $database table ttl drop mytable || exit 3
        ydb -e $endpoint -d $database scheme describe mytable || exit 4
    """
    place = {"PYTHON": sys.executable, "endpoint": ydb_server.ydb.endpoint, "database": ydb_server.ydb.database}
    done = subprocess.run(
        ["sh", "-c", script], env={**os.environ, **place, "PYTHONUTF8": "1"}, capture_output=True, check=False
    )
    with_ttl = f"{DESCRIBED}\n{FAMILIES}\n{TTL}\n{PARTITIONING}"
    without = f"{DESCRIBED}\n{FAMILIES}\n{PARTITIONING}"
    assert (done.returncode, done.stderr.decode()) == (0, "")
    assert done.stdout.decode() == with_ttl + without
    say("table", "drop", "mytable")


def test_a_whole_description(ydb_server: RunningServer, say: Say) -> None:
    say(
        "sql",
        "-s",
        "CREATE TABLE whole (id Uint64 NOT NULL, s Utf8, n Uint32, v Utf8, PRIMARY KEY (id, s), "
        "INDEX by_n GLOBAL SYNC ON (n, s) COVER (v), INDEX u GLOBAL UNIQUE SYNC ON (v), INDEX a GLOBAL ASYNC ON (v)) "
        "WITH (AUTO_PARTITIONING_BY_LOAD = ENABLED, AUTO_PARTITIONING_MAX_PARTITIONS_COUNT = 5, "
        'KEY_BLOOM_FILTER = ENABLED, READ_REPLICAS_SETTINGS = "PER_AZ:1", UNIFORM_PARTITIONS = 2)',
    )
    say(
        "table", "ttl", "set", "--column", "n", "--unit", "s", "--expire-after", "60", "--run-interval", "1200", "whole"
    )
    say("table", "attribute", "add", "--attribute", "a=1,b=x y", "--attribute", "c=", "whole")
    say("scheme", "permissions", "grant", "-p", "ydb.generic.read", "-p", "ydb.generic.write", "whole", "me")
    text = say("scheme", "describe", "--permissions", "--stats", "--partition-boundaries", "--partition-stats", "whole")
    sections = text.split("\n\n")
    assert sections[1].splitlines()[3:] == [
        "├──────┼─────────┼────────┼─────┤",
        "│ id   │ Uint64  │        │ K0  │",
        "│ s    │ Utf8?   │        │ K1  │",
        "│ n    │ Uint32? │        │     │",
        "│ v    │ Utf8?   │        │     │",
        "└──────┴─────────┴────────┴─────┘",
    ]
    assert re.findall(r"│ (.*?) +│ (.*?) +│ (.*?) +│ (.*?) +│\n", sections[2] + "\n") == [
        ("Name", "Type", "Index columns", "Cover columns"),
        ("by_n", "GlobalSync", "n,s", "v"),
        ("u", "GlobalUnique", "v", ""),
        ("a", "GlobalAsync", "v", ""),
    ]
    assert [section.split("\n")[0] for section in sections] == [
        "<table> whole",
        "Columns:",
        "Indexes:",
        "Column families: ",
        "Attributes: ",
        "Ttl settings (value since unix epoch):",
        "Auto partitioning settings: ",
        "Bloom filter by key: true",
        "Read replicas settings: ",
        "Owner: root@builtin",
        "Permissions: ",
        "Effective permissions: ",
        "Table stats:",
        "Partitions info:",
    ]
    assert sections[5].splitlines()[1:] == [
        "Column name: n",
        "Column unit: Seconds",
        "Expire after: 60.000000s",
        "Run interval: 1200.000000s",
    ]
    assert "me:ydb.generic.read,ydb.generic.write" in sections[10]
    assert sections[12].splitlines()[1:] == [
        "Partitions count: 2",
        "Approximate number of rows: 0",
        "Approximate size of table: 0 b",
        "Last modified: Tue, 01 Jan 2030 00:00:00 UTC",
        "Created: Tue, 01 Jan 2030 00:00:00 UTC",
    ]
    assert sections[13] == (
        "Partitions info:\n"
        "┌───┬───┬───────────────────────┬───────────────────────┬───┬──────┬──────┐\n"
        "│ # │   │ From                  │ To                    │   │ Rows │ Size │\n"
        "├───┼───┼───────────────────────┼───────────────────────┼───┼──────┼──────┤\n"
        "│ 1 │ ( │ -Inf                  │ [9223372036854775808] │ ) │ 0    │ 0 b  │\n"
        "│ 2 │ [ │ [9223372036854775808] │ +Inf                  │ ) │ 0    │ 0 b  │\n"
        "└───┴───┴───────────────────────┴───────────────────────┴───┴──────┴──────┘\n"
    )


@pytest.mark.parametrize(
    ("unit", "shown"),
    [
        *[(word, "Seconds") for word in ("seconds", "s", "sec")],
        *[(word, "MilliSeconds") for word in ("milliseconds", "ms", "msec")],
        *[(word, "MicroSeconds") for word in ("microseconds", "us", "usec")],
        *[(word, "NanoSeconds") for word in ("nanoseconds", "ns", "nsec")],
    ],
)
def test_units(say: Say, unit: str, shown: str) -> None:
    if "units" not in say("scheme", "ls", "-1").split():
        make(say, "units")
    assert say("table", "ttl", "set", "--column", "id", "--unit", unit, "units") == ""
    assert f"Column unit: {shown}\nExpire after: 0.000000s\n" in say("scheme", "describe", "units")
    assert say("table", "ttl", "reset", "units") == ""
    assert "Ttl" not in say("scheme", "describe", "units")


# --- what is wrong ---------------------------------------------------------------------------------------------------

OUTSIDE = (
    "Provided path \"/other/t\" starts with '/'. That means you are using an absolute path that should start with the path "
    'to your database "/local", but it doesn\'t. \n'
    'Please, provide full path starting from the domain root (example: "/domain/my_base/dir1/table1"). \n'
    'Or consider using relative path from your database (example: "dir1/table1").'
)
UNITS = (
    "Unknown unit: x\nAllowed units: seconds (s, sec), milliseconds (ms, msec), microseconds (us, usec), "
    "nanoseconds (ns, nsec)"
)


SCRIPT = '"Text of script" ("--script", "-s")'
FILE = '"Path to file with query text" ("--file", "-f")'
EXPLAINS = 'Both mutually exclusive options "Explain mode" ("--explain") and "Explain-AST mode" ("--explain-ast") were provided.'
SIGN = (
    'Wrong parameter format for "a". Parameter option should have equal sign. Examples (for linux):\n'
    "--param '$input=1'\n--param 'name=\"value\"'"
)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["table", "ttl", "set", "--column", "c", "--unit", "x", "t"], UNITS),
        (["table", "ttl", "set", "t"], "Missing option '--column'."),
        (["table", "nothing"], "No such command 'nothing'."),
        (["nothing"], "No such command 'nothing'."),
        (["scheme", "ls", "-1", "-l"], "Options -1 and -l are incompatible"),
        (["scheme", "describe", "/other/t"], OUTSIDE),
        (["sql", "-s", "SELECT 1", "-f", "x"], f"Both mutually exclusive options {SCRIPT} and {FILE} were provided."),
        (["sql"], f"Neither {SCRIPT} nor {FILE} were provided."),
        (["sql", "--explain", "--explain-ast", "-s", "SELECT 1"], EXPLAINS),
        (["operation", "get", "x"], "Invalid operation ID"),
        (["operation", "list", "x"], "Invalid kind. Use one of: buildindex, export/s3, import/s3, scriptexec"),
        (["sql", "-s", "SELECT $a", "-p", "a"], SIGN),
        (["sql", "-s", "SELECT 1", "-p", "$a=1"], 'Query does not contain parameter "$a".'),
        (
            ["sql", "-s", "DECLARE $a AS Uint8; SELECT $a", "-p", "$a=256"],
            "Parameter $a: Json value 256 doesn't fit in Uint8",
        ),
        (["sql", "-s", "DECLARE $a AS Uint8; SELECT $a", "-p", "$a=x"], "Parameter $a: x is not JSON"),
    ],
)
def test_misuse(ask: Ask, arguments: list[str], said: str) -> None:
    result = ask(*arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f'{said}\nTry "--help" option for more info.\n'


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["scheme", "describe", "nowhere"], "Status: SCHEME_ERROR\nIssues: \n<main>: Error: Path not found\n"),
        (
            ["table", "query", "execute", "-q", "SELECT\n x"],
            "Status: GENERIC_ERROR\nIssues: \n<main>:2:2: Error: Column references are not allowed without FROM: x\n",
        ),
        (
            ["sql", "-s", "SELECT * FROM nowhere"],
            (
                "Status: SCHEME_ERROR\nIssues: \n<main>:1:15: Error: Table metadata loading, code: 1050\n"
                "    <main>:1:15: Error: Cannot find table 'db.[/local/nowhere]' because it does not exist or you do not have "
                "access permissions. Please check correctness of table path and user permissions., code: 2003\n"
            ),
        ),
        (
            ["operation", "get", "ydb://scriptexec/9?id=x"],
            "Status: NOT_FOUND\nIssues: \n<main>: Error: Operation not found: ydb://scriptexec/9?id=x\n",
        ),
    ],
)
def test_refusals(ask: Ask, arguments: list[str], said: str) -> None:
    result = ask(*arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(said)


def test_nobody_listens(bare: Ask) -> None:
    result = bare("ydb", "-e", "grpc://127.0.0.1:1", "-d", "/local", "scheme", "ls")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("Status: TRANSPORT_UNAVAILABLE\nIssues: \n<main>: Error: GRpc error: (14): ")
    assert result.stderr.endswith("\n<main>: Error: Grpc error response on endpoint 127.0.0.1:1\n")


# --- scheme ----------------------------------------------------------------------------------------------------------


def test_directories(ask: Ask, say: Say) -> None:
    assert say("scheme", "mkdir", "tree/inner") == ""
    again = ask("scheme", "mkdir", "tree/inner")
    assert (again.exit_code, again.stdout) == (0, "")
    assert re.fullmatch(
        r"Status: SUCCESS\nIssues: \n<main>: Warning: .* path exist, request accepts it, code: 2003\n", again.stderr
    )
    make(say, "tree/inner/t")
    make(say, "tree/another")
    assert say("scheme", "ls", "tree") == "another  inner\n"
    assert say("scheme", "ls", "-1", "tree") == "another\ninner\n"
    assert say("scheme", "ls", "-R", "tree") == "./:\nanother  inner\n\ninner:\nt\n"
    assert say("scheme", "ls", "tree/another") == "another\n"
    assert say("scheme", "describe", "tree") == "<dir> tree\n"
    long = [re.split(r" *│ *", line)[1:-1] for line in say("scheme", "ls", "-lR", "tree").splitlines() if "│" in line]
    started = "Tue, 01 Jan 2030 00:00:00 UTC"
    assert long == [
        ["Type", "Owner", "Size", "Created", "Modified", "Name"],
        ["table", "root@builtin", "0 b", started, started, "another"],
        ["dir", "root@builtin", "", "", "", "inner"],
        ["table", "root@builtin", "0 b", started, started, "inner/t"],
    ]
    assert json.loads(say("scheme", "ls", "--format", "json", "tree")) == [
        {"type": "table", "path": "another"},
        {"type": "dir", "path": "inner"},
    ]
    refused = ask("scheme", "rmdir", "tree")
    assert refused.exit_code == 1
    assert say("scheme", "rmdir", "-r", "-f", "tree") == ""
    assert "tree" not in say("scheme", "ls", "-1").split()


def test_permissions(say: Say) -> None:
    say("scheme", "mkdir", "guarded")
    say("scheme", "permissions", "set", "-p", "ydb.generic.read", "guarded", "a")
    say("scheme", "permissions", "grant", "-p", "ydb.generic.write", "guarded", "b")
    say("scheme", "permissions", "chown", "guarded", "me")
    both = "a:ydb.generic.read\nb:ydb.generic.write\n"
    expected = f"\nOwner: me\n\nPermissions: \n{both}\nEffective permissions: \n{both}"
    assert say("scheme", "permissions", "list", "guarded") == expected
    say("scheme", "permissions", "revoke", "-p", "ydb.generic.write", "guarded", "b")
    say("scheme", "permissions", "clear", "guarded")
    assert say("scheme", "describe", "--permissions", "guarded") == (
        "<dir> guarded\n\nOwner: me\n\nPermissions: \nnone\n\nEffective permissions: \nnone\n"
    )


def test_a_view(say: Say, ask: Ask) -> None:
    say("sql", "-s", "CREATE VIEW seen WITH (security_invoker = TRUE) AS SELECT 1 AS one")
    assert say("scheme", "describe", "seen") == "<view> seen\n\nQuery text:\nSELECT 1 AS one\n"
    noted = ask("scheme", "describe", "--stats", "seen")
    assert noted.stderr == (
        'Note: "seen" is not a table. Option "stats" is used only for tables and thus has no effect for this command.\n'
    )


def test_a_system_view(say: Say) -> None:
    text = say("scheme", "describe", ".sys/partition_stats")
    assert re.match(r"<sys-view> partition_stats\nId: \d+ \(partition_stats\)\n\nColumns:\n┌", text)
    assert "│ LastTtlRunTime " in text


# --- rows ------------------------------------------------------------------------------------------------------------

SETS = """\
┌────┬───────┐
│ id │ value │
├────┼───────┤
│ 1  │ "one" │
├────┼───────┤
│ 2  │ null  │
└────┴───────┘
┌────┐
│ id │
├────┤
└────┘
"""
TWO = "SELECT id, value FROM AS_TABLE([<|id:1, value:Just('one')|>, <|id:2, value:NULL|>]); SELECT 1 AS id WHERE false"


@pytest.mark.parametrize("command", [["sql", "-s"], ["yql", "-s"], ["table", "query", "execute", "-q"]])
@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("pretty", SETS),
        ("json-unicode", '{"id":1,"value":"one"}\n{"id":2,"value":null}\n'),
        ("json-unicode-array", '[{"id":1,"value":"one"},\n{"id":2,"value":null}]\n[]\n'),
        ("json-base64", '{"id":1,"value":"b25l"}\n{"id":2,"value":null}\n'),
        ("json-base64-array", '[{"id":1,"value":"b25l"},\n{"id":2,"value":null}]\n[]\n'),
        ("csv", '1,"one"\n2,null\n'),
        ("tsv", '1\t"one"\n2\tnull\n'),
    ],
)
def test_formats(say: Say, command: list[str], form: str, expected: str) -> None:
    assert say(*command, TWO, "--format", form) == expected


def test_a_result_that_the_table_service_cuts(ask: Ask) -> None:
    text = "SELECT n FROM (SELECT ListFromRange(0, 1001) AS n) FLATTEN LIST BY n"
    cut = ask("table", "query", "execute", "-q", text, "--format", "csv")
    assert (cut.exit_code, len(cut.stdout.splitlines())) == (0, 1000)
    assert cut.stderr == "Result set 0 was truncated by the server.\n"
    assert len(ask("sql", "-s", text, "--format", "csv").stdout.splitlines()) == 1001


def test_parameters_and_files(say: Say, tmp_path: Path) -> None:
    text = "DECLARE $id AS Uint64; DECLARE $value AS String; SELECT $id AS id, $value AS value"
    given = ("-p", "$id=7", "--param", 'value="x"')
    assert say("sql", "-s", text, *given, "--format", "csv") == '7,"x"\n'
    assert say("yql", "-f", "-", *given, "--format", "csv", stdin=text) == '7,"x"\n'
    some = ("-p", "$id=7", "--format", "csv")
    assert say("sql", "-s", text, *some, stdin='{"value": "y", "other": 1}') == '7,"y"\n'
    lines = '{"id": 1, "value": "y"}\n\n{"id": 2, "value": "z"}\n'
    framed = ("--input-framing", "newline-delimited", "--format", "csv")
    assert say("table", "query", "execute", "-q", text, *framed, stdin=lines) == '1,"y"\n2,"z"\n'
    (tmp_path / "given.json").write_text(lines.splitlines()[0], encoding="utf-8")
    assert say("yql", "-s", text, "--input-file", str(tmp_path / "given.json"), "--format", "csv") == '1,"y"\n'
    assert say("sql", "-f", "-", *given, "--format", "csv", stdin=text) == '7,"x"\n'
    encoded = ("-p", "$id=7", "-p", '$value="/w=="', "--input-format", "json-base64")
    assert say("table", "query", "execute", "-q", text, *encoded, "--format", "csv") == '7,"\\u00FF"\n'


KINDS = (
    (["-t", "scheme"], "CREATE TABLE kinds (a Int32, PRIMARY KEY (a))", ""),
    (["-t", "data"], "UPSERT INTO kinds (a) VALUES (1)", ""),
    (["-t", "data", "--tx-mode", "online-ro"], "SELECT a FROM kinds", '{"a":1}\n'),
    (["-t", "data", "--tx-mode", "stale-ro"], "SELECT a FROM kinds", '{"a":1}\n'),
    (["-t", "scan"], "SELECT a FROM kinds", '{"a":1}\n'),
    (["-t", "generic", "--tx-mode", "snapshot-ro"], "SELECT a FROM kinds", '{"a":1}\n'),
    (["-t", "generic", "--tx-mode", "no-tx"], "DROP TABLE kinds", ""),
)


def test_kinds_of_queries(say: Say) -> None:
    """One after the other, because each needs what those before have done."""
    for options, text, expected in KINDS:
        assert say("table", "query", "execute", *options, "-q", text, "--format", "json-unicode") == expected


def test_statistics_stand_behind_the_rows(say: Say) -> None:
    for command in (["sql", "-s"], ["yql", "-s"], ["table", "query", "execute", "-q"]):
        text = say(*command, "SELECT 1 AS a", "--format", "csv", "--stats", "basic")
        assert text.startswith("1\n\nStatistics:\n")
        assert "\ntotal_duration_us: " in text


def test_plans(say: Say) -> None:
    make(say, "planned")
    expected = "Query Plan:\nResultSet\n└──"
    told = say("sql", "--explain", "-s", "SELECT id FROM planned WHERE id = 1")
    assert told.startswith(expected)
    assert "TablePointLookup" in told
    assert say("table", "query", "explain", "-q", "SELECT id FROM planned WHERE id = 1") == told
    document = json.loads(say("sql", "--explain", "-s", "SELECT 1", "--format", "json-unicode"))
    assert document["meta"]["type"] == "query"
    assert say("sql", "--explain-analyze", "-s", "SELECT 1").startswith("Execution plan:\nResultSet\n")
    assert "SELECT" in say("sql", "--explain-ast", "-s", "SELECT 1")


def test_reading_a_table(say: Say) -> None:
    make(say, "read")
    say("sql", "-s", "UPSERT INTO read (id) VALUES (1), (2), (3)")
    csv = ("--format", "csv", "--columns", "id")
    assert say("table", "read", "read", *csv, "--ordered") == "1\n2\n3\n"
    assert say("table", "read", "read", *csv, "--ordered", "--limit", "2") == "1\n2\n"
    assert say("table", "read", "read", *csv, "--from", "[2]") == "2\n3\n"
    assert (
        say("table", "read", "read", *csv, "--from", "[1]", "--from-exclusive", "--to", "[3]", "--to-exclusive")
        == "2\n"
    )
    assert say("table", "read", "read", "--count-only") == "3\n"


# --- indexes, attributes, operations ---------------------------------------------------------------------------------


def test_indexes(say: Say, ask: Ask) -> None:
    make(say, "indexed", ", name Utf8")
    added = say("table", "index", "add", "global-sync", "--index-name", "i", "--columns", "name,created_at", "indexed")
    lines = [re.split(r" *│ *", line)[1:-1] for line in added.splitlines() if "│" in line]
    assert lines[0] == ["id", "ready", "status", "state", "progress", "table", "index"]
    assert lines[1][1:] == ["true", "SUCCESS", "Done", "100.00%", "/local/indexed", "i"]
    assert added.endswith("┘\n\n")
    say(
        "table",
        "index",
        "add",
        "global-async",
        "--index-name",
        "a",
        "--columns",
        "name",
        "--cover",
        "created_at",
        "indexed",
    )
    described = say("scheme", "describe", "indexed")
    assert "│ i    │ GlobalSync  │ name,created_at │               │" in described
    assert "│ a    │ GlobalAsync │ name            │ created_at    │" in described
    assert say("table", "index", "rename", "--index-name", "i", "--to", "j", "indexed") == ""
    assert say("table", "index", "drop", "--index-name", "j", "indexed") == ""
    assert "GlobalSync" not in say("scheme", "describe", "indexed")
    refused = ask("table", "index", "drop", "--index-name", "j", "indexed")
    assert (refused.exit_code, refused.stdout) == (1, "")


def test_attributes(say: Say) -> None:
    make(say, "noted")
    assert say("table", "attribute", "add", "--attribute", "mayfly_hide_expired=true", "noted") == ""
    assert "Attributes: \n" in say("scheme", "describe", "noted")
    assert say("table", "attribute", "drop", "--attributes", "mayfly_hide_expired", "noted") == ""
    assert "Attributes" not in say("scheme", "describe", "noted")


@pytest.fixture
def client(ydb_server: RunningServer) -> Iterator[Client]:
    """For calls that no command makes."""
    with closing(Client(parse_endpoint(ydb_server.ydb.endpoint), "/local", None, Login)) as made:
        yield made


def test_operations(say: Say, ask: Ask, client: Client) -> None:
    assert say("operation", "list", "scriptexec") == ""
    assert say("operation", "list", "buildindex") == ""
    execute = "Ydb.Query.V1.QueryService/ExecuteScript"
    text = {"syntax": 1, "text": "SELECT 1"}
    id = client.call_raw(execute, exec_mode=50, script_content=text).id
    while not client.call_raw("Ydb.Operation.V1.OperationService/GetOperation", id=id).operation.ready:
        pass
    rows = [re.split(r" *│ *", line)[1:-1] for line in say("operation", "get", id).splitlines() if "│" in line]
    row = [id, "true", "SUCCESS", id.partition("&id=")[2], "completed", "execute"]
    assert rows == [["id", "ready", "status", "execution_id", "exec_status", "exec_mode"], row]
    assert id in say("operation", "list", "scriptexec")
    told = json.loads(say("operation", "list", "scriptexec", "--format", "proto-json-base64"))
    assert (told["status"], [each["id"] for each in told["operations"]]) == ("SUCCESS", [id])
    ended = ask("operation", "cancel", id)
    assert (ended.exit_code, ended.stderr.splitlines()[0]) == (1, "Status: PRECONDITION_FAILED")
    assert say("operation", "forget", id) == ""
    assert ask("operation", "get", id).stderr.startswith("Status: NOT_FOUND\n")
    assert ask("operation", "list", "export/s3").stderr.startswith("Status: UNSUPPORTED\n")


def test_without_a_command_there_is_help(ask: Ask) -> None:
    helped = ask("scheme")
    assert helped.exit_code == 1
    assert "Usage: mayfly ydb scheme " in helped.output


def test_discovery(ydb_server: RunningServer, say: Say) -> None:
    endpoint = ydb_server.ydb.endpoint
    assert re.match(rf"{re.escape(endpoint)} \[.+\]( #[a-z_]+)+\n", say("discovery", "list"))
    assert say("discovery", "whoami") == "User SID: root@builtin\n"
    assert say("discovery", "whoami", "-g").startswith("User SID: root@builtin\n\n")


# --- where, who ------------------------------------------------------------------------------------------------------


def test_profiles(ydb_server: RunningServer, bare: Ask) -> None:
    def said(*arguments: str) -> str:
        result = bare("ydb", *arguments)
        assert (result.exit_code, result.stderr) == (0, "")
        return result.stdout

    assert said("config", "profile", "list") == ""
    said("config", "profile", "create", "here", "-e", ydb_server.ydb.endpoint, "-d", "/local")
    said("config", "profile", "create", "away", "-e", "grpc://127.0.0.1:1", "-d", "/other")
    assert said("config", "profile", "list") == "away\nhere\n"
    assert said("-p", "here", "sql", "-s", "SELECT 1", "--format", "csv") == "1\n"
    assert said("config", "profile", "activate", "here") == 'Profile "here" was activated.\n'
    assert said("config", "profile", "list") == "away\nhere (active)\n"
    assert said("sql", "-s", "SELECT 2", "--format", "csv") == "2\n"
    assert said("config", "profile", "get", "here") == f"  endpoint: {ydb_server.ydb.endpoint}\n  database: /local\n"
    said("config", "profile", "update", "here", "--user", "me", "--password-file", "p", "--no-database")
    content = f"  endpoint: {ydb_server.ydb.endpoint}\n  static-credentials\n    user: me\n    password file: p\n"
    assert said("config", "profile", "list", "--with-content").endswith(f"here (active):\n{content}")
    said("config", "profile", "replace", "here", "--token-file", "t")
    assert said("config", "profile", "get", "here") == "  token-file: t\n"
    assert said("config", "profile", "deactivate") == 'Profile "here" was deactivated.\n'
    assert said("config", "profile", "deactivate") == "There is no profile active. Nothing is done.\n"
    assert said("config", "profile", "delete", "-f", "here") == ""
    assert said("config", "profile", "list") == "away\n"
    told = bare("ydb", "config", "profile", "remove", "away", stdin="y\n").stdout
    assert told.endswith('Profile "away" was removed.\n')
    for command in ("get", "activate", "delete"):
        missing = bare("ydb", "config", "profile", command, "away")
        assert (missing.exit_code, missing.stdout) == (1, "")
        assert missing.stderr == (
            'No existing profile "away". Run "ydb config profile list" without arguments to see existing profiles\n'
        )


def test_the_server_that_url_names_says_where_it_is(ydb_server: RunningServer, bare: Ask) -> None:
    result = bare("--url", ydb_server.admin_url, "ydb", "sql", "-s", "SELECT 1", "--format", "csv")
    assert (result.exit_code, result.stdout) == (0, "1\n")


@pytest.mark.parametrize(
    ("text", "address", "secure"),
    [
        ("grpc://host:2136", "host:2136", False),
        ("grpcs://host:1", "host:1", True),
        ("host", "host:2135", True),
        ("grpc://host", "host:2135", False),
        ("[::1]:7", "[::1]:7", True),
    ],
)
def test_endpoints(text: str, address: str, secure: bool) -> None:
    found = parse_endpoint(text)
    assert (found.address, found.secure) == (address, secure)


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["ydb", "--help"]])
def test_nothing_heavy_is_imported(arguments: list[str]) -> None:
    script = (
        "import sys\nfrom click.testing import CliRunner\nfrom mayflydb.cli.main import mayfly\n"
        f"assert CliRunner().invoke(mayfly, {arguments!r}).exit_code == 0\n"
        "print('grpc' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout == b"False\n"
