"""The real server, killed amid YQL transactions: what was acknowledged is there, and what was not is there whole or not."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest

from reliability.kill9.process import Server
from ydb_raw import Raw, connected

QUERY = "Ydb.Query.V1.QueryService"
ROUNDS, WRITES, CLIENTS, PAIRS = 12, 120, 4, 5
SUCCESS, EXECUTE = 400000, 50
TABLE = """CREATE TABLE t (id Int64, n Int64, a Int64, word Utf8, PRIMARY KEY (id),
    INDEX by_a GLOBAL ON (a) COVER (n), INDEX by_word GLOBAL UNIQUE ON (word))"""

Row = tuple[int, int, int, str]


class Link:
    """One connection and its session."""

    def __init__(self, raw: Raw) -> None:
        self._raw = raw
        self._session: str = raw.ask(f"{QUERY}/CreateSession").session_id

    def run(self, text: str, **control: Any) -> tuple[list[tuple[Any, ...]], str]:
        """Its rows, and the id of the transaction that is open afterwards. grpc.RpcError when the server is gone."""
        fields: dict[str, Any] = {"tx_control": control} if control else {}
        rows: list[tuple[Any, ...]] = []
        transaction = ""
        content = {"text": text}
        request = {"session_id": self._session, "exec_mode": EXECUTE, "query_content": content, **fields}
        for part in self._raw.stream(f"{QUERY}/ExecuteQuery", **request):
            assert part.status == SUCCESS, part
            transaction = transaction or part.tx_meta.id
            rows += [
                tuple(getattr(item, item.WhichOneof("value")) for item in row.items) for row in part.result_set.rows
            ]
        return rows, transaction


class Pair:
    """Two rows of one client that are always written together. A version is a number, or None: they are not there."""

    def __init__(self, number: int) -> None:
        self.ids = (2 * number, 2 * number + 1)
        self.acknowledged: int | None = None
        self.maybe: list[int | None] = []

    def rows(self, version: int | None) -> list[Row]:
        if version is None:
            return []
        return [(id, version, (version * (id + 1)) % 11, f"{id} {version}") for id in self.ids]

    def write(self, link: Link, version: int | None, form: int) -> None:
        """In one of the forms in which a transaction comes."""
        self.maybe = [self.acknowledged, version]
        values = [f"({id}, {n}, {a}, '{word}'u)" for id, n, a, word in self.rows(version)]
        into = "UPSERT INTO t (id, n, a, word) VALUES"
        if version is None:
            link.run(f"DELETE FROM t WHERE id IN {self.ids}")
        elif form == 0:
            link.run(f"{into} {', '.join(values)}")
        elif form == 1:
            link.run("; ".join(f"{into} {each}" for each in values))
        else:
            _, id = link.run(f"{into} {values[0]}", begin_tx={"serializable_read_write": {}})
            link.run(f"{into} {values[1]}", tx_id=id, commit_tx=True)
        self.acknowledged = version
        self.maybe = []


class Life:
    """One file, and what clients know about it over many starts."""

    def __init__(self, server: Server, seed: int) -> None:
        self.server = server
        self.random = random.Random(seed)
        self.pairs = [[Pair(client * PAIRS + slot) for slot in range(PAIRS)] for client in range(CLIENTS)]
        self.done = self.undecided = self.happened = 0
        self.failures: list[BaseException] = []
        self._lock = threading.Lock()
        self._version = 0

    def load(self, writes: int) -> None:
        """All clients write, until so many writes more are acknowledged, and the server is killed in the middle of the others."""
        end = self.done + writes
        threads = [
            threading.Thread(target=self._client, args=(pairs, random.Random(self.random.random()), end))
            for pairs in self.pairs
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        if self.failures:
            raise self.failures[0]

    def _client(self, pairs: list[Pair], chance: random.Random, end: int) -> None:
        try:
            with suppress(grpc.RpcError), connected(self.server.ydb) as raw:
                link = Link(raw)
                while True:
                    with self._lock:
                        self._version += 1
                        version = None if chance.random() < 0.15 else self._version
                    chance.choice(pairs).write(link, version, chance.randrange(3))
                    with self._lock:
                        self.done += 1
                        if self.done == end:
                            os.kill(self.server.pid, signal.SIGKILL)
        except BaseException as failure:  # noqa: BLE001 - it is raised again by who waits for this thread
            self.failures.append(failure)

    def check(self) -> None:
        with connected(self.server.ydb) as raw:
            link = Link(raw)
            found, _ = link.run("SELECT id, n, a, word FROM t")
            by_a, _ = link.run("SELECT id, n, a FROM t VIEW by_a")
            by_word, _ = link.run("SELECT id, word FROM t VIEW by_word")
        assert sorted(by_a) == sorted((id, n, a) for id, n, a, _ in found)
        assert sorted(by_word) == sorted((id, word) for id, _, _, word in found)
        for pair in (pair for pairs in self.pairs for pair in pairs):
            there = [row for row in found if row[0] in pair.ids]
            version = there[0][1] if there else None
            assert there == pair.rows(version), pair.ids
            if pair.maybe:
                assert version in pair.maybe, (pair.ids, version, pair.maybe)
                self.undecided += 1
                self.happened += version != pair.acknowledged
            else:
                assert version == pair.acknowledged, pair.ids
            pair.acknowledged, pair.maybe = version, []


def test_nothing_acknowledged_is_lost_to_a_kill(seed: int, tmp_path: Path, figure: Callable[[str], None]) -> None:
    pytest.importorskip("grpc")
    with Server(tmp_path, ydb=True) as server:
        server.start()
        life = Life(server, seed)
        with connected(server.ydb) as raw:
            Link(raw).run(TABLE)
        for _ in range(ROUNDS):
            life.load(life.random.randint(WRITES // 2, WRITES * 3 // 2))
            server.ended()
            server.start()
            life.check()
    assert life.undecided >= ROUNDS
    figure(
        f"N={ROUNDS} rounds (3/N = {3 / ROUNDS:.0%}), {life.done} acknowledged transactions of two rows and four entries,"
        f" {life.undecided} under way, {life.happened} of which had happened"
    )


SERIAL = "CREATE TABLE s (id BigSerial, client Int64, PRIMARY KEY (id))"
STARTS, INSERTS = 6, 40


class Numbers:
    """What clients were told of the numbers of one sequence, over many starts."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.told: list[int] = []
        self.failures: list[BaseException] = []
        self._lock = threading.Lock()

    def load(self) -> None:
        """All clients insert rows until so many more are acknowledged; the server is killed in the middle of the others."""
        end = len(self.told) + INSERTS
        threads = [threading.Thread(target=self._client, args=(client, end)) for client in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        if self.failures:
            raise self.failures[0]

    def _client(self, client: int, end: int) -> None:
        try:
            with suppress(grpc.RpcError), connected(self.server.ydb) as raw:
                link = Link(raw)
                while True:
                    [(number,)], _ = link.run(f"INSERT INTO s (client) VALUES ({client}) RETURNING id")
                    with self._lock:
                        self.told.append(number)
                        if len(self.told) == end:
                            os.kill(self.server.pid, signal.SIGKILL)
        except BaseException as failure:  # noqa: BLE001 - it is raised again by who waits for this thread
            self.failures.append(failure)


def test_no_number_of_a_sequence_is_given_twice(tmp_path: Path, figure: Callable[[str], None]) -> None:
    pytest.importorskip("grpc")
    with Server(tmp_path, ydb=True) as server:
        server.start()
        numbers = Numbers(server)
        with connected(server.ydb) as raw:
            Link(raw).run(SERIAL)
        for _ in range(STARTS):
            numbers.load()
            server.ended()
            server.start()
            assert len(set(numbers.told)) == len(numbers.told)
            with connected(server.ydb) as raw:
                found = {number for (number,) in Link(raw).run("SELECT id FROM s")[0]}
            assert set(numbers.told) <= found
    figure(f"N={STARTS} rounds, {len(numbers.told)} acknowledged numbers up to {max(numbers.told)}, each given once")
