"""Schemes across starts of a server, and as an ORM makes and finds them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mayflydb.embedded import RunningServer, serve

ydb: Any = pytest.importorskip("ydb")

TABLE = """CREATE TABLE `shop/t` (id Uint64, at Timestamp, s Utf8 DEFAULT 'x'u, PRIMARY KEY (id), INDEX i GLOBAL ON (s))
    WITH (TTL = Interval('PT10S') ON at)"""


def test_what_was_made_is_there_after_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    shown = []
    for start in range(2):
        with (
            serve(str(tmp_path / "x.db"), port=0, mongo_port=-1, ydb_port=0, clock="virtual") as server,
            server.ydb.driver() as driver,
            ydb.QuerySessionPool(driver) as pool,
        ):
            if not start:
                for text in (
                    TABLE,
                    "UPSERT INTO `shop/t` (id) VALUES (1), (2)",
                    "CREATE VIEW v WITH (security_invoker = TRUE) AS SELECT COUNT(*) AS c FROM `shop/t`",
                ):
                    pool.execute_with_retries(text)
            shown.append(pool.execute_with_retries("SHOW CREATE TABLE `shop/t`")[0].rows[0].CreateQuery)
            found = pool.execute_with_retries("SELECT id FROM `shop/t` VIEW i WHERE s = 'x' ORDER BY id")
            assert [row.id for row in found[0].rows] == [1, 2]
            assert pool.execute_with_retries("SELECT * FROM v")[0].rows[0].c == 2
    assert shown[0] == shown[1]


def test_an_orm_makes_and_finds_its_tables(ydb_server: RunningServer) -> None:
    sa: Any = pytest.importorskip("sqlalchemy")
    pytest.importorskip("ydb_sqlalchemy")
    engine = sa.create_engine(f"yql+ydb://{ydb_server.ydb.endpoint.partition('://')[2]}/local")
    metadata = sa.MetaData()
    orders = sa.Table(
        "orders",
        metadata,
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String),
        sa.Column("d", sa.Numeric(22, 9)),
        sa.Index("ix_name", "name"),
    )
    try:
        metadata.create_all(engine)
        metadata.create_all(engine)
        inspector = sa.inspect(engine)
        assert inspector.has_table("orders")
        assert not inspector.has_table("none")
        assert [column["name"] for column in inspector.get_columns("orders")] == ["id", "name", "d"]
        assert [index["column_names"] for index in inspector.get_indexes("orders")] == [["name"]]
        assert inspector.get_pk_constraint("orders")["constrained_columns"] == ["id"]
        with engine.begin() as connection:
            connection.execute(orders.insert().values(id=1, name="a"))
            assert connection.execute(sa.select(orders)).all() == [(1, "a", None)]
        metadata.drop_all(engine)
        assert not sa.inspect(engine).has_table("orders")
    finally:
        engine.dispose()
