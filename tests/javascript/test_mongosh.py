"""MongoDB's shell: the session that Cosmos DB's documentation shows, typed into it.

https://learn.microsoft.com/azure/cosmos-db/mongodb/time-to-live
"""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from mayflydb.embedded import RunningServer, serve

HERE = Path(__file__).parent / "mongosh"
SHELL = HERE / "node_modules" / "mongosh" / "bin" / "mongosh.js"
START = "2030-01-01T00:00:00Z"
PROMPT = "[direct: mongos] {}> "
PATIENCE = 60.0

CREATED = (
    '{ "_t" : "CreateIndexesResponse", "ok" : 1, "createdCollectionAutomatically" : true, '
    '"numIndexesBefore" : 1, "numIndexesAfter" : 4 }'
)
CREATE = '{createIndexes: "coll", indexes: [{key: {"_ts": 1}, name: "_ts_1", expireAfterSeconds: %d}]}'

pytestmark = pytest.mark.skipif(
    shutil.which("node") is None or not SHELL.exists(),
    reason="Node or the shell is missing: tools/javascript.sh says why",
)


class Shell:
    """Somebody who types into mongosh and reads what it prints."""

    def __init__(self, uri: str, home: Path) -> None:
        command = ["node", str(SHELL), uri, "--norc", "--quiet"]
        # What the shell keeps between sessions goes into a home of its own.
        environment = os.environ | {"HOME": str(home), "NO_COLOR": "1"}
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self._database = "test"
        self._answer()

    def __call__(self, line: str) -> str:
        """What is printed before the next prompt, its white space made single."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        self._process.stdin.flush()
        if line.startswith("use "):
            self._database = line.removeprefix("use ")
        return " ".join(self._answer().split())

    def close(self) -> int:
        """The shell's exit code."""
        with self._process as process:
            assert process.stdin is not None
            process.stdin.write(b"exit\n")
            process.stdin.close()
            return process.wait(PATIENCE)

    def _answer(self) -> str:
        assert self._process.stdout is not None
        out = self._process.stdout.fileno()
        end = PROMPT.format(self._database).encode()
        text = b""
        while not text.endswith(end):
            assert select.select([out], [], [], PATIENCE)[0], f"no prompt came: {text!r}"
            piece = os.read(out, 65536)
            assert piece, f"the shell ended: {text!r}"
            text += piece
        return text.removesuffix(end).decode()


@pytest.fixture(scope="module")
def shell_server() -> Iterator[RunningServer]:
    with serve(memory=True, port=0, mongo_port=0, clock="virtual", clock_start=START) as server:
        yield server


@pytest.fixture(scope="module")
def typed(shell_server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """One shell for all tests: its start takes longer than any of them."""
    shell = Shell(shell_server.mongo.uri, tmp_path_factory.mktemp("mongosh"))
    yield shell
    assert shell.close() == 0


def ids(typed: Shell) -> list[int]:
    """The `n` of the documents that are there."""
    found: list[int] = json.loads(typed("JSON.stringify(db.coll.find().sort({n: 1}).map(each => each.n).toArray())"))
    return found


def printed_as(text: str) -> str:
    """JSON as mongosh prints it."""
    return re.sub(r'"(\w+)" :', r"\1:", text).replace('"', "'")


def test_the_documented_session(typed: Shell, shell_server: RunningServer) -> None:
    typed("use documented")
    assert typed(f"db.runCommand({CREATE % 10})") == printed_as(CREATED)
    inserted = [
        typed(f'db.coll.insert({{id: 1, location: "Paris", n: {n}, ttl: {ttl}}})')
        for n, ttl in enumerate(
            ("20.0", "NumberInt(20)", "NumberLong(20)", "20.5", "NumberLong(2147483649)", "Double(20)", "-1")
        )
    ]
    assert all("acknowledged: true" in each for each in inserted)
    assert ids(typed) == [0, 1, 2, 3, 4, 5, 6]
    shell_server.clock.advance(seconds=9)
    assert ids(typed) == [0, 1, 2, 3, 4, 5, 6]
    shell_server.clock.advance(seconds=1)
    assert ids(typed) == [0, 1, 2, 5, 6]
    shell_server.clock.advance(seconds=9)
    assert ids(typed) == [0, 1, 2, 5, 6]
    shell_server.clock.advance(seconds=1)
    assert ids(typed) == [6]


def test_the_reply_to_the_letter(typed: Shell) -> None:
    typed("use letters")
    assert json.loads(typed(f"JSON.stringify(db.runCommand({CREATE % -1}))")) == json.loads(CREATED)
    assert typed("db.other.createIndex({'_ts': 1}, {expireAfterSeconds: 10})") == "_ts_1"


LINES: Final = (
    ("db.coll.insertOne({_id: 1, at: ISODate('2030-01-01')})", "{ acknowledged: true, insertedId: 1 }"),
    ("db.coll.createIndex({at: 1}, {expireAfterSeconds: 3600})", "at_1"),
    ("db.coll.getIndexes()", "[ { v: 2, key: { _id: 1 }, name: '_id_' }, { v: 2, key: { at: 1 }, name: 'at_1', "),
    (
        "db.runCommand({collMod: 'coll', index: {name: 'at_1', expireAfterSeconds: 60}})",
        "{ expireAfterSeconds_old: Long('3600'), expireAfterSeconds_new: Long('60'), ok: 1, operationTime: ",
    ),
    ("db.coll.createIndex({at: 1}, {expireAfterSeconds: -1})", "MongoServerError[CannotCreateIndex]: "),
    (
        "db.coll.insertOne({_id: 1})",
        "MongoServerError: E11000 duplicate key error collection: shell.coll index: _id_",
    ),
    ("db.coll.find({at: {$lt: new Date(2040, 1)}}, {at: 0})", "[ { _id: 1 } ]"),
    ("db.coll.countDocuments()", "1"),
    ("db.coll.aggregate([{$group: {_id: null, n: {$sum: NumberLong(2)}}}])", "[ { _id: null, n: Long('2') } ]"),
    ("db.coll.updateOne({_id: 1}, {$set: {n: Double(1)}}).modifiedCount", "1"),
    ("show collections", "coll"),
    ("db.stats().objects", "1"),
    ("db.coll.stats().nindexes", "2"),
    ("db.coll.find({_id: 1}).explain().queryPlanner.winningPlan.stage", "IDHACK"),
    ("db.coll.stats().indexSizes['_id_']", "0"),
    ("db.coll.aggregate([{$indexStats: {}}]).toArray().map(each => each.name)", "[ '_id_', 'at_1' ]"),
    ("db.coll.latencyStats()[0].latencyStats.reads.ops > 0", "true"),
    ("db.coll.getPlanCache().list()[0].cachedPlan.inputStage.indexName", "at_1"),
    ("db.stats().indexSize >= 0", "true"),
    ("db.currentOp().inprog.length", "1"),
    ("db.killOp(12345).info", "attempting to kill op"),
    ("db.getRoles({showBuiltinRoles: true}).roles.length", "5"),
    ("db.createRole({role: 'clerk', privileges: [], roles: ['read']}).ok", "1"),
    ("db.getRole('clerk').inheritedRoles", "[ { role: 'read', db: 'shell' } ]"),
    ("db.dropRole('clerk').ok", "1"),
    ("db.getProfilingStatus().was", "0"),
    ("db.setProfilingLevel(1)", "MongoServerError[BadValue]: Profiling is not permitted here"),
    ("db.fsyncUnlock()", "MongoServerError[IllegalOperation]: fsyncUnlock called when not locked"),
    ("db.serverCmdLineOpts().parsed.security.authorization", "disabled"),
    ("db.hostInfo().system.numCores > 0", "true"),
    ("sh.isBalancerRunning().mode", "off"),
    ("sh.status()", "This db does not have sharding enabled"),
    ("rs.conf()", "MongoServerError[NoReplicationEnabled]: not running with --replSet"),
    ("rs.status()", "MongoServerError[NoReplicationEnabled]: not running with --replSet"),
    ("db.coll.renameCollection('other')", "{ ok: 1 }"),
    ("show tables", "other"),
    ("db.other.drop()", "true"),
    ("db.serverStatus().metrics.ttl.passes >= 0", "true"),
    ("db.adminCommand({setParameter: 1, ttlMonitorSleepSecs: 30})", "{ was: 60, ok: 1, operationTime: Timestamp({ t: "),
    ("db.adminCommand({setParameter: 1, ttlMonitorSleepSecs: 60}).was", "30"),
    ("db.getUsers().users", "[]"),
    ("show dbs", "documented"),
    ("db.version()", "8.0.0"),
    ("db.hello().msg", "isdbgrid"),
    ("db.coll.mapReduce(() => 1, () => 1, {out: 'x'})", "MongoServerError"),
)
"""What people type, each line after those before it, and a part of what is printed."""


def test_lines_typed(typed: Shell) -> None:
    typed("use documented")
    typed("db.coll.insertOne({n: 1})")
    typed("use shell")
    wrong = {line: (answer, printed) for line, answer in LINES if answer not in (printed := typed(line))}
    assert wrong == {}


def test_moving_time_lets_dates_die(typed: Shell, shell_server: RunningServer) -> None:
    typed("use dates")
    typed("db.coll.createIndex({at: 1}, {expireAfterSeconds: 10})")
    now = shell_server.clock.now()
    typed(f"db.coll.insertMany([{{n: 1, at: new Date({now.timestamp() * 1000:.0f})}}, {{n: 2, at: 'never'}}])")
    shell_server.clock.advance(seconds=9)
    assert ids(typed) == [1, 2]
    shell_server.clock.advance(minutes=2)
    assert ids(typed) == [2]
