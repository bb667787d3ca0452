"""A process in which rows change and expire under a changefeed, until it is killed. Its argument is a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from mayflydb.embedded import serve

TABLE = """CREATE TABLE t (id Uint64, n Uint64, at Timestamp, PRIMARY KEY (id),
    CHANGEFEED f WITH (MODE = 'NEW_IMAGE', FORMAT = 'JSON', USER_SIDS = TRUE, TOPIC_MIN_ACTIVE_PARTITIONS = 3))
    WITH (TTL = Interval('PT2S') ON at)"""
ROWS = 20


def run(file: Path) -> None:
    with serve(
        file, port=0, mongo_port=-1, clock="virtual", ydb_min_run_interval="1s", ydb_run_interval="1s"
    ) as server:
        import ydb

        with server.ydb.driver() as driver, ydb.QuerySessionPool(driver) as pool:

            def do(text: str, parameters: dict[str, Any] | None = None) -> None:
                pool.execute_with_retries(text, parameters)

            do(TABLE.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS"))
            begin = int(server.clock.now().timestamp() * 1000)
            for turn in range(10_000):
                first = begin * 10_000 + turn * ROWS
                one = "AsStruct({}ul AS id, 0ul AS n, CurrentUtcTimestamp() AS at)"
                rows = f"AsList({','.join(one.format(first + n) for n in range(ROWS))})"
                do(f"UPSERT INTO t SELECT * FROM AS_TABLE({rows})")
                # Changes and deletes by clients, beside those by age; the last in a transaction of several statements.
                do(f"UPDATE t SET n = n + 1ul WHERE id = {first}ul")
                do(f"DELETE FROM t WHERE id = {first + 1}ul")

                def change(transaction: Any, first: int = first) -> None:
                    with transaction.execute(f"UPDATE t SET n = n + 1ul WHERE id = {first}ul"):
                        pass
                    with transaction.execute(f"DELETE FROM t WHERE id = {first + 2}ul", commit_tx=True):
                        pass

                pool.retry_tx_sync(change)
                server.clock.advance(seconds=2)
                print(turn, flush=True)


if __name__ == "__main__":
    run(Path(sys.argv[1]))
