"""ydb-sqlalchemy's expressions, types and reflection, one statement or table each."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa
from sqlalchemy import Unicode, and_, func, or_, select
from ydb_sqlalchemy import types, upsert

DAY = date(2030, 1, 1)
TABLES = sa.MetaData()

ITEM = sa.Table(
    "items",
    TABLES,
    sa.Column("id", types.UInt64, primary_key=True, autoincrement=False),
    sa.Column("kind", sa.Integer),
    sa.Column("name", Unicode),
    sa.Column("size", sa.Float),
    sa.Column("made", sa.Date),
    sa.Column("more", sa.JSON),
)
PRICE = sa.Table(
    "deep/prices",
    TABLES,
    sa.Column("item", types.UInt64, primary_key=True, autoincrement=False),
    sa.Column("currency", Unicode, primary_key=True),
    sa.Column("amount", sa.DECIMAL(22, 9)),
)


@pytest.fixture(scope="module")
def connection(engine: sa.Engine) -> Iterator[sa.Connection]:
    """Six items of three kinds; every second one has prices in two currencies."""
    TABLES.create_all(engine)
    with engine.connect() as found:
        items = [
            {
                "id": i,
                "kind": i % 3,
                "name": f"n{i}",
                "size": i / 2,
                "made": date(2030, 1, 1 + i),
                "more": {"a": [i, {"b": "x"}]},
            }
            for i in range(6)
        ]
        found.execute(ITEM.insert(), items)
        prices = [{"item": i, "currency": c, "amount": Decimal(i) / 2} for i in (0, 2, 4) for c in ("EUR", "USD")]
        found.execute(upsert(PRICE), prices)
        yield found
    TABLES.drop_all(engine)


A, B = ITEM.alias("a"), ITEM.alias("b")
BEST = select(PRICE.c.item, func.max(PRICE.c.amount).label("best")).group_by(PRICE.c.item).subquery()
GIVEN = sa.values(sa.column("a", sa.Integer), sa.column("b", Unicode), name="v")

QUERIES: list[tuple[Any, list[Any]]] = [
    (select(ITEM.c.id).where(ITEM.c.id.in_([1, 2, 9])).order_by(ITEM.c.id), [1, 2]),
    (select(ITEM.c.id).where(ITEM.c.id.not_in([1, 2, 9])).order_by(ITEM.c.id), [0, 3, 4, 5]),
    (select(ITEM.c.id).where(ITEM.c.id.in_([])), []),
    (select(ITEM.c.id).where(ITEM.c.id.in_(select(PRICE.c.item))).order_by(ITEM.c.id), [0, 2, 4]),
    (
        select(ITEM.c.id).where(or_(and_(ITEM.c.kind == 1, ITEM.c.id > 3), ITEM.c.name == "n0")).order_by(ITEM.c.id),
        [0, 4],
    ),
    (select(ITEM.c.id).where(ITEM.c.name.like("n%")).order_by(ITEM.c.id).limit(2), [0, 1]),
    (select(ITEM.c.id).where(ITEM.c.name.startswith("n1", autoescape=True)), [1]),
    (select(ITEM.c.id).where(ITEM.c.name.regexp_match("^n[12]$")).order_by(ITEM.c.id), [1, 2]),
    (select(ITEM.c.id).where(ITEM.c.made.between(date(2030, 1, 2), date(2030, 1, 3))).order_by(ITEM.c.id), [1, 2]),
    (select(ITEM.c.id).where(ITEM.c.name.is_distinct_from("n1")).order_by(ITEM.c.id.desc()), [5, 4, 3, 2, 0]),
    (select(ITEM.c.id).where(ITEM.c.name.is_(None)), []),
    (select(ITEM.c.id).order_by(ITEM.c.id).offset(4), [4, 5]),
    (select(ITEM.c.id).where(ITEM.c.size == select(func.max(ITEM.c.size)).scalar_subquery()), [5]),
    (select(ITEM.c.id).with_hint(ITEM, "VIEW PRIMARY KEY").where(ITEM.c.id == 1), [1]),
    (select(ITEM.c.name + "!", ITEM.c.id % 4, -ITEM.c.kind).where(ITEM.c.id == 5), [("n5!", 1, -2)]),
    (select(func.coalesce(ITEM.c.name, "x"), sa.cast(ITEM.c.kind, Unicode)).where(ITEM.c.id == 1), [("n1", "1")]),
    (
        select(ITEM.c.id, BEST.c.best).join(BEST, ITEM.c.id == BEST.c.item).order_by(ITEM.c.id).limit(1),
        [(0, Decimal(0))],
    ),
    (
        select(ITEM.c.id, BEST.c.best).outerjoin(BEST, ITEM.c.id == BEST.c.item).order_by(ITEM.c.id).offset(4),
        [(4, 2), (5, None)],
    ),
    (
        select(ITEM.c.id, PRICE.c.amount).where(ITEM.c.id == PRICE.c.item, PRICE.c.currency == "EUR", ITEM.c.id > 2),
        [(4, 2)],
    ),
    (
        select(A.c.id, B.c.id).join(B, A.c.kind == B.c.kind).where(A.c.id < B.c.id).order_by(A.c.id),
        [(0, 3), (1, 4), (2, 5)],
    ),
    (
        select(PRICE.c.amount).where(sa.tuple_(PRICE.c.item, PRICE.c.currency).in_([(2, "EUR"), (9, "USD")])),
        [Decimal(1)],
    ),
    (select(ITEM.c.kind, func.sum(ITEM.c.size)).group_by(ITEM.c.kind).having(func.sum(ITEM.c.size) > 3), [(2, 3.5)]),
    (
        select(ITEM.c.kind, func.count()).group_by(ITEM.c.kind).order_by(func.count().desc(), ITEM.c.kind).limit(1),
        [(0, 2)],
    ),
    (select(func.count(ITEM.c.kind.distinct()), func.min(ITEM.c.made)), [(3, DAY)]),
    (select(ITEM.c.kind).distinct().order_by(ITEM.c.kind), [0, 1, 2]),
    (
        select(sa.case((ITEM.c.kind == 0, "zero"), else_="other")).where(ITEM.c.id < 2).order_by(ITEM.c.id),
        ["zero", "other"],
    ),
    (
        select(ITEM.c.id, func.row_number().over(partition_by=ITEM.c.kind, order_by=ITEM.c.id.desc())).order_by(
            ITEM.c.id
        ),
        [(0, 2), (1, 2), (2, 2), (3, 1), (4, 1), (5, 1)],
    ),
    (
        sa.union_all(select(ITEM.c.id).where(ITEM.c.id == 1), select(ITEM.c.id).where(ITEM.c.id == 2)).order_by("id"),
        [1, 2],
    ),
    (sa.except_(select(ITEM.c.id), select(PRICE.c.item.label("id"))), [1, 3, 5]),
    (select(ITEM.c.more["a"]).where(ITEM.c.id == 1), [[1, {"b": "x"}]]),
    (select(ITEM.c.more[("a", 0)].as_integer()).where(ITEM.c.id == 5), [5]),
    (select(ITEM.c.more[("a", 1, "b")].as_string()).where(ITEM.c.id == 1), ["x"]),
    (select(ITEM.c.more[("z", 1)].as_string()).where(ITEM.c.id == 1), [None]),
    (
        select(sa.values(sa.column("a", sa.Integer), sa.column("b", Unicode), name="v").data([(1, "x"), (2, "y")])),
        [(1, "x"), (2, "y")],
    ),
    (sa.text("SELECT :a AS a, :b AS b").bindparams(a=1, b="100%"), [(1, "100%")]),
]


def asked(connection: sa.Connection, query: Any) -> list[Any]:
    return [row[0] if len(row) == 1 else tuple(row) for row in connection.execute(query)]


@pytest.mark.parametrize(("query", "expected"), QUERIES, ids=range(len(QUERIES)))
def test_queries(connection: sa.Connection, query: Any, expected: list[Any]) -> None:
    assert asked(connection, query) == expected


def test_writes(connection: sa.Connection) -> None:
    connection.execute(
        ITEM.insert().from_select(["id", "kind"], select(ITEM.c.id + 100, ITEM.c.kind).where(ITEM.c.id < 2))
    )
    connection.execute(ITEM.update().where(ITEM.c.id >= 100).values(kind=ITEM.c.kind + 10, name="n"))
    connection.execute(upsert(ITEM).values(id=100, size=1.5))
    new = select(ITEM.c.id, ITEM.c.kind, ITEM.c.name, ITEM.c.size).where(ITEM.c.id >= 100).order_by(ITEM.c.id)
    assert asked(connection, new) == [(100, 10, "n", 1.5), (101, 11, "n", None)]
    connection.execute(ITEM.delete().where(ITEM.c.id >= 100))
    assert asked(connection, new) == []


REFUSED = [
    (
        select(ITEM.c.id).join(PRICE, and_(ITEM.c.id == PRICE.c.item, PRICE.c.currency == "EUR")),
        "JOIN: each equality predicate argument must depend on exactly one JOIN input",
    ),
    (
        select(ITEM.c.kind, ITEM.c.name).group_by(ITEM.c.kind),
        "Column `items.name` must either be a key column in GROUP BY",
    ),
    (select(func.nonsense(ITEM.c.id)), "Unknown builtin: nonsense"),
    (select(select(func.count()).cte("c")), "WITH of a query"),
]


@pytest.mark.parametrize(("query", "message"), REFUSED)
def test_refused(connection: sa.Connection, query: Any, message: str) -> None:
    with pytest.raises(sa.exc.DataError) as caught:
        connection.execute(query)
    assert message in str(caught.value)


# --- types -----------------------------------------------------------------------------------------------------------

NOON = datetime(2030, 1, 1, 12, 30, 15, 123456, UTC)

TYPES: list[tuple[Any, list[Any]]] = [
    (sa.Integer, [0, -(2**63), 2**63 - 1]),
    (types.UInt64, [2**64 - 1]),
    (types.UInt32, [2**32 - 1]),
    (types.UInt16, [2**16 - 1]),
    (types.UInt8, [255]),
    (types.Int32, [-(2**31)]),
    (types.Int16, [-(2**15)]),
    (types.Int8, [-128]),
    (sa.Float, [0.5, -0.25]),
    (sa.Boolean, [True, False]),
    (Unicode, ["", "ж'\"\\%:x", "\0\n"]),
    (sa.LargeBinary, [b"", b"\0\xff"]),
    (sa.DECIMAL(22, 9), [Decimal("12.000000001"), Decimal("-0.5")]),
    (sa.DECIMAL(35, 5), [Decimal(10**29)]),
    (sa.Date, [DAY]),
    (sa.TIMESTAMP(timezone=True), [NOON]),
    (sa.TIMESTAMP, [NOON.replace(tzinfo=None)]),
    (types.YqlDateTime, [NOON.replace(tzinfo=None, microsecond=0)]),
    (types.YqlDate32, [date(1812, 6, 24)]),
    (types.YqlTimestamp64, [datetime(1900, 1, 1, 0, 0, 0, 1, UTC).replace(tzinfo=None)]),
    (sa.JSON, [{"a": [1, None, "ж"]}, [], 0]),
    (sa.Uuid, [UUID(int=5)]),
]


@pytest.mark.parametrize(("kind", "values"), TYPES, ids=[str(kind) for kind, _ in TYPES])
def test_values_are_kept(engine: sa.Engine, kind: Any, values: list[Any]) -> None:
    kept = sa.Table("kept", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True), sa.Column("v", kind))
    kept.create(engine)
    try:
        with engine.connect() as connection:
            rows = [{"id": id, "v": value} for id, value in enumerate([*values, None])]
            connection.execute(kept.insert(), rows)
            assert asked(connection, select(kept.c.v).order_by(kept.c.id)) == [*values, None]
            if kind is not sa.JSON:
                assert asked(connection, select(kept.c.id).where(kept.c.v == values[-1])) == [len(values) - 1]
    finally:
        kept.drop(engine)


# --- what is there ---------------------------------------------------------------------------------------------------


def test_reflection(connection: sa.Connection) -> None:
    found = sa.inspect(connection)
    assert {"items", "deep/prices"} <= set(found.get_table_names())
    assert (found.has_table("items"), found.has_table("deep/prices"), found.has_table("prices")) == (True, True, False)
    columns = {each["name"]: (type(each["type"]), each["nullable"]) for each in found.get_columns("items")}
    assert columns["id"] == (types.UInt64, False)
    assert columns["more"] == (sa.JSON, True)
    assert found.get_pk_constraint("deep/prices")["constrained_columns"] == ["item", "currency"]
    again = sa.Table("deep/prices", sa.MetaData(), autoload_with=connection)
    assert asked(connection, select(func.count()).select_from(again)) == [6]


def test_a_table_is_changed(engine: sa.Engine, connection: sa.Connection) -> None:
    ddl: Any = sa.DDL
    table = sa.Table("changing", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True), sa.Column("v", Unicode))
    index = sa.Index("by_v", table.c.v)
    table.create(engine)
    try:
        assert [(each["name"], each["column_names"]) for each in sa.inspect(engine).get_indexes("changing")] == [
            ("by_v", ["v"])
        ]
        index.drop(engine)
        for text in (
            "ALTER TABLE changing ADD COLUMN n Int64, ADD COLUMN at Timestamp",
            "ALTER TABLE changing DROP COLUMN v",
            'ALTER TABLE changing SET (TTL = Interval("PT1H") ON at)',
            "ALTER TABLE changing ADD INDEX by_n GLOBAL ON (n)",
            "ALTER TABLE changing RENAME TO `deep/changed`",
        ):
            connection.execute(ddl(text))
        found = sa.inspect(engine)
        assert [each["name"] for each in found.get_columns("deep/changed")] == ["id", "n", "at"]
        assert [each["name"] for each in found.get_indexes("deep/changed")] == ["by_n"]
        assert not found.has_table("changing")
    finally:
        connection.execute(ddl("DROP TABLE IF EXISTS `deep/changed`"))
        table.drop(engine, checkfirst=True)
