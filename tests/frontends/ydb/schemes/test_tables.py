"""Tables come, change and go; what paths lead to."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mayflydb.expiry.rules import Rule
from mayflydb.frontends.ydb.schemes.entries import DirectoryEntry, IndexEntry, SystemEntry
from mayflydb.frontends.ydb.schemes.specs import (
    AlterSpec,
    ColumnChange,
    ColumnSpec,
    DropTtl,
    IndexSpec,
    TableSpec,
    TtlSpec,
)
from mayflydb.frontends.ydb.tables import TableView
from mayflydb.query.yql.types import (
    DYNUMBER,
    FLOAT,
    INT32,
    INT64,
    TIMESTAMP,
    TZ_DATE,
    TZ_DATE32,
    UINT32,
    UINT64,
    UTF8,
    DecimalType,
    ListType,
    OptionalType,
    Type,
)


def column(name: str, type: Type, **more: Any) -> ColumnSpec:
    return ColumnSpec(name, OptionalType(type), **more)


PLAIN = TableSpec((column("id", UINT64), column("at", TIMESTAMP), column("n", UINT32), column("s", UTF8)), ("id",))
INDEXED = TableSpec(PLAIN.columns, ("id",), (IndexSpec("by_s", ("s",), ("n",)),))
TIMED = TableSpec(PLAIN.columns, ("id",), ttl=TtlSpec("at", 3600))


def made(place: Any, spec: TableSpec = PLAIN, path: str = "/local/t") -> TableView:
    view: TableView = place.run(place.schemes.create(path, spec, place.now))
    return view


def test_a_table_is_found_as_it_was_made(place: Any) -> None:
    made(place, INDEXED)
    view = place.run(place.schemes.find("/local//t/"))
    assert isinstance(view, TableView)
    assert [(each.name, str(each.type)) for each in view.table.columns] == [
        ("id", "Uint64?"),
        ("at", "Timestamp?"),
        ("n", "Uint32?"),
        ("s", "Utf8?"),
    ]
    assert view.table.key == ("id",)
    assert [(each.name, each.columns, each.cover, each.kind, each.ready) for each in view.table.indexes] == [
        ("by_s", ("s",), ("n",), "sync", True)
    ]
    assert view.numbers == (0, 1, 2, 3)
    assert view.primary.spec == {"primary": True}
    assert view.indexes["by_s"].number != view.primary.number
    assert view.body.created == place.now
    assert place.run(place.schemes.find("/local/t")) is view
    assert list(place.run(place.schemes.schemas(["/local/t", "/local/none"]))) == ["/local/t"]


def test_directories_above_a_table_are_made_and_stay(place: Any) -> None:
    made(place, path="/local/shop/eu/carts")
    assert isinstance(place.run(place.schemes.find("/local/shop/eu")), DirectoryEntry)
    place.run(place.schemes.drop("/local/shop/eu/carts"))
    assert isinstance(place.run(place.schemes.find("/local/shop/eu")), DirectoryEntry)
    assert place.run(place.schemes.find("/local/shop/eu/carts")) is None
    assert place.refused(place.schemes.remove_directory("/local/shop"))[0] == "PRECONDITION_FAILED"
    place.run(place.schemes.remove_directory("/local/shop/eu"))
    place.run(place.schemes.remove_directory("/local/shop"))
    assert place.run(place.schemes.find("/local/shop")) is None


def test_what_lies_below(place: Any) -> None:
    made(place, path="/local/b/t")
    made(place, path="/local/a")
    place.run(place.schemes.create_view("/local/v", "SELECT 1", place.now))
    children = place.run(place.schemes.children("/local"))
    assert [type(each).__name__ for each in children] == ["DirectoryEntry", "TableView", "DirectoryEntry", "ViewEntry"]
    assert [each.path for each in place.run(place.schemes.children("/local/.sys"))] == [
        "/local/.sys/nodes",
        "/local/.sys/partition_stats",
    ]
    assert isinstance(place.run(place.schemes.find("/local/.sys/partition_stats")), SystemEntry)
    assert place.run(place.schemes.find("/local/.sys/nothing")) is None
    assert isinstance(place.run(place.schemes.find("/Root")), DirectoryEntry)
    assert place.run(place.schemes.find("/elsewhere")) is None


def test_an_index_reads_as_a_table(place: Any) -> None:
    made(place, INDEXED)
    entry = place.run(place.schemes.find("/local/t/by_s/indexImplTable"))
    assert isinstance(entry, IndexEntry)
    assert (entry.table.key, [each.name for each in entry.table.columns]) == (("s", "id"), ["s", "id", "n"])
    assert place.run(place.schemes.find("/local/t/other/indexImplTable")) is None


def spec_of(*columns: ColumnSpec, key: tuple[str, ...] = ("id",), **more: Any) -> TableSpec:
    return TableSpec((column("id", UINT64), *columns), key, **more)


DEEP = "/local/" + "/".join("d" * 33)

CREATE_REFUSED = [
    ("/local/t", spec_of(key=()), "At least one key column must be specified"),
    ("/local/t", spec_of(key=("x",)), "Unknown column 'x' specified in key column list"),
    ("/local/t", spec_of(key=("id", "id")), "Column 'id' specified more than once in key column list"),
    ("/local/t", spec_of(column("id", UTF8)), "Column 'id' specified more than once"),
    ("/local/t", spec_of(column("a b", UTF8)), "Invalid name for column 'a b'"),
    ("/local/t", spec_of(column("f", FLOAT), key=("f",)), "Column f has wrong key type Float"),
    ("/local/t", spec_of(column("z", TZ_DATE)), "Type 'TzDate' specified for column 'z' is not supported by storage"),
    (
        "/local/t",
        spec_of(column("z", TZ_DATE32)),
        "Type 'TzDate32' specified for column 'z' is not supported by storage",
    ),
    (
        "/local/t",
        spec_of(column("l", ListType(INT32))),
        "Type 'List<Int32>' specified for column 'l' is not supported by storage",
    ),
    ("/local/t", spec_of(column("x", UTF8, family="cold")), "Unknown column family 'cold' of column 'x'"),
    (
        "/local/t",
        spec_of(indexes=(IndexSpec("i", ("x",)),)),
        "Index column with name: x is not present in table columns",
    ),
    (
        "/local/t",
        spec_of(column("x", UTF8), indexes=(IndexSpec("i", ("x",)), IndexSpec("i", ("x",)))),
        "index 'i' already exists",
    ),
    ("/local/.sys/t", PLAIN, "Check failed: path: '/.sys/t', error: path part '.sys' is reserved by the system"),
    ("/local/.tmp/t", PLAIN, "Check failed: path: '/.tmp/t', error: path part '.tmp' is reserved by the system"),
    (
        "/local/d/.metadata",
        PLAIN,
        "Check failed: path: '/d/.metadata', error: path part '.metadata' is reserved by the system",
    ),
    ("/local/..", PLAIN, "Check failed: path: '/..', error: is not allowed path part contains only dots '..'"),
    ("/local/a b", PLAIN, "Check failed: path: '/a b', error: symbol ' ' is not allowed in the path part 'a b'"),
    ("/local", PLAIN, "Check failed: path: '/local', error: path is a database"),
    ("/elsewhere/t", PLAIN, "Path not found"),
]


@pytest.mark.parametrize(("path", "spec", "text"), CREATE_REFUSED)
def test_what_cannot_be_made(place: Any, path: str, spec: TableSpec, text: str) -> None:
    assert place.refused(place.schemes.create(path, spec, place.now)) == ("SCHEME_ERROR", text)


def test_paths_have_an_end(place: Any) -> None:
    assert place.refused(place.schemes.create(DEEP, PLAIN, place.now))[0] == "SCHEME_ERROR"


def test_a_name_that_is_taken(place: Any) -> None:
    made(place, path="/local/a/t")
    for path, text in {
        "/local/a/t": "Check failed: path: '/local/a/t', error: path exist, request accepts it",
        "/local/a": "Check failed: path: '/local/a', error: path exist, request accepts it",
        "/local/a/t/u": "Check failed: path: '/local/a/t', error: path is not a directory",
    }.items():
        assert place.refused(place.schemes.create(path, PLAIN, place.now)) == ("SCHEME_ERROR", text)


TIME = "TTL should be less than 1893456000 seconds (21915 days, 60 years). The ttl behaviour is undefined before 1970."
DATE_MODE = "To enable TTL on date type column 'DateTypeColumnModeSettings' should be specified"
COUNT_MODE = "To enable TTL on integral type column 'ValueSinceUnixEpochModeSettings' should be specified"
TTL_REFUSED = [
    (TtlSpec("x", 0), "Cannot enable TTL on unknown column: 'x'"),
    (TtlSpec("at", 0, "SECONDS"), DATE_MODE),
    (TtlSpec("n", 0), COUNT_MODE),
    (TtlSpec("s", 0), "Unsupported column type"),
    (TtlSpec("s", 0, "SECONDS"), "Unsupported column type"),
    (TtlSpec("at", 1893456001), TIME),
    (TtlSpec("at", 2**32 - 1), TIME),
    (TtlSpec("at", 0, None, 899), "TTL run interval cannot be less than limit: 900"),
]


@pytest.mark.parametrize(("ttl", "text"), TTL_REFUSED)
def test_ttl_that_cannot_be(place: Any, ttl: TtlSpec, text: str) -> None:
    spec = TableSpec(PLAIN.columns, ("id",), ttl=ttl)
    assert place.refused(place.schemes.create("/local/t", spec, place.now)) == ("SCHEME_ERROR", text)
    made(place)
    assert place.refused(place.schemes.alter("/local/t", AlterSpec(ttl=ttl), place.now)) == ("BAD_REQUEST", text)


def rules(view: TableView) -> tuple[Rule, ...]:
    return view.node.definition.rules


def test_ttl_is_one_rule_over_one_slot(place: Any) -> None:
    view = made(place, TIMED)
    (slot,) = view.node.definition.slots
    assert slot.state == "ready"
    assert view.body.ttl is not None
    assert view.body.ttl.slot == slot.number
    assert rules(view) == (Rule("column", 3600, slot=slot.number, passes=True),)


@pytest.mark.parametrize(
    ("ttl", "same_slot"), [(TtlSpec("at", 60), True), (TtlSpec("n", 60, "SECONDS"), False)], ids=["span", "column"]
)
def test_another_ttl(place: Any, ttl: TtlSpec, same_slot: bool) -> None:
    before = made(place, TIMED)
    after = place.run(place.schemes.alter("/local/t", AlterSpec(ttl=ttl), place.now))
    assert before.body.ttl is not None
    assert (after.body.ttl.slot == before.body.ttl.slot) is same_slot
    assert [rule.after for rule in rules(after)] == [60]
    assert [rule.slot for rule in rules(after)] == [after.body.ttl.slot]


def test_no_ttl_any_more(place: Any) -> None:
    made(place, TIMED)
    for _ in range(2):
        after = place.run(place.schemes.alter("/local/t", AlterSpec(ttl=DropTtl()), place.now))
        assert (after.body.ttl, rules(after)) == (None, ())


def test_hiding_is_asked_for_by_attribute_or_server(place: Any) -> None:
    made(place, TIMED)
    for text, hides in {"true": True, "": False}.items():
        view = place.run(
            place.schemes.alter("/local/t", AlterSpec(attributes={"mayfly_hide_expired": text}), place.now)
        )
        assert [rule.hides for rule in rules(view)] == [hides]
    for everywhere in (True, False):
        place.again(hide_expired=everywhere)
        assert [rule.hides for rule in rules(place.run(place.schemes.get_table("/local/t")))] == [everywhere]


ALTER_REFUSED = [
    (PLAIN, AlterSpec(add_columns=(column("at", UTF8),)), "Column 'at' specified more than once"),
    (PLAIN, AlterSpec(add_columns=(ColumnSpec("x", UTF8),)), "Cannot add not null column without default value"),
    (PLAIN, AlterSpec(drop_columns=("x",)), "Can't drop unknown column: 'x'"),
    (PLAIN, AlterSpec(drop_columns=("id",)), "Can't drop key column: 'id'"),
    (PLAIN, AlterSpec(drop_columns=("s", "s")), "Duplicate drop column: s"),
    (PLAIN, AlterSpec(add_columns=(column("x", UTF8),), drop_columns=("x",)), "Add + drop same column: 'x'"),
    (TIMED, AlterSpec(drop_columns=("at",)), "Can't drop TTL column: 'at', disable TTL first"),
    (PLAIN, AlterSpec(drop_columns=("at",), ttl=TtlSpec("at", 0)), "Cannot enable TTL on dropped column: 'at'"),
    (INDEXED, AlterSpec(drop_columns=("s",)), "Impossible drop column because table has an index with that column"),
    (INDEXED, AlterSpec(drop_columns=("n",)), "Impossible drop column because table index covers that column"),
    (INDEXED, AlterSpec(add_indexes=(IndexSpec("by_s", ("n",)),)), "index 'by_s' already exists"),
    (PLAIN, AlterSpec(change_columns=(ColumnChange("x", True),)), "Column 'x' cannot be altered (does not exist)"),
]


@pytest.mark.parametrize(("spec", "change", "text"), ALTER_REFUSED)
def test_what_cannot_be_changed(place: Any, spec: TableSpec, change: AlterSpec, text: str) -> None:
    before = made(place, spec)
    assert place.refused(place.schemes.alter("/local/t", change, place.now)) == ("BAD_REQUEST", text)
    assert place.run(place.schemes.find("/local/t")).table == before.table


def test_a_unique_index_cannot_be_added(place: Any) -> None:
    made(place)
    change = AlterSpec(add_indexes=(IndexSpec("u", ("s",), kind="unique"),))
    assert place.refused(place.schemes.alter("/local/t", change, place.now))[0] == "UNSUPPORTED"


def test_columns_come_and_go_and_their_numbers_are_not_used_again(place: Any) -> None:
    made(place)
    place.run(place.schemes.alter("/local/t", AlterSpec(drop_columns=("s",)), place.now))
    change = AlterSpec(add_columns=(column("s", INT64), column("d", DecimalType(22, 9)), column("y", DYNUMBER)))
    view = place.run(place.schemes.alter("/local/t", change, place.now))
    assert [(each.name, number) for each, number in zip(view.table.columns, view.numbers, strict=True)] == [
        ("id", 0),
        ("at", 1),
        ("n", 2),
        ("s", 4),
        ("d", 5),
        ("y", 6),
    ]
    assert str(view.table.columns[4].type) == "Decimal(22,9)?"
    assert view.body.numbered == 7


def test_a_column_and_ttl_on_it_in_one_change(place: Any) -> None:
    made(place)
    change = AlterSpec(add_columns=(column("ends", TIMESTAMP),), ttl=TtlSpec("ends", 0))
    view = place.run(place.schemes.alter("/local/t", change, place.now))
    assert view.body.ttl.column == "ends"


def test_indexes_come_and_go(place: Any) -> None:
    made(place, INDEXED)
    view = place.run(place.schemes.alter("/local/t", AlterSpec(add_indexes=(IndexSpec("by_n", ("n",)),)), place.now))
    assert [(each.name, each.ready) for each in view.table.indexes] == [("by_s", True), ("by_n", False)]
    place.run(place.schemes.builds.wait_until_complete(view))
    view = place.run(place.schemes.get_table("/local/t"))
    assert [(each.name, each.ready) for each in view.table.indexes] == [("by_s", True), ("by_n", True)]
    change = AlterSpec(drop_indexes=("by_s",), rename_indexes=(("by_n", "other", False),))
    view = place.run(place.schemes.alter("/local/t", change, place.now))
    assert [each.name for each in view.table.indexes] == ["other"]
    place.run(place.schemes.builds.wait_until_complete(view))
    node = place.run(place.schemes.get_table("/local/t")).node
    assert len(node.definition.indexes) == 2
    assert place.refused(place.schemes.alter("/local/t", AlterSpec(drop_indexes=("by_s",)), place.now))[0] == (
        "SCHEME_ERROR"
    )


def test_tables_are_renamed_together(place: Any) -> None:
    first = made(place, path="/local/a")
    second = made(place, path="/local/b")
    place.run(
        place.schemes.rename(
            [("/local/a", "/local/x", False), ("/local/b", "/local/a", False), ("/local/x", "/local/d/b", False)],
            place.now,
        )
    )
    assert place.run(place.schemes.get_table("/local/a")).node.id == second.node.id
    assert place.run(place.schemes.get_table("/local/d/b")).node.id == first.node.id
    assert place.run(place.schemes.find("/local/b")) is None
    refused = place.refused(place.schemes.rename([("/local/a", "/local/d/b", False)], place.now))
    assert refused[0] == "SCHEME_ERROR"
    place.run(place.schemes.rename([("/local/a", "/local/d/b", True)], place.now))
    assert place.run(place.schemes.get_table("/local/d/b")).node.id == second.node.id


def test_of_many_who_want_a_table_one_makes_it(place: Any) -> None:
    async def all_at_once() -> list[bool]:
        wanted = [place.schemes.create_unless_exists("/local/d/t", PLAIN, place.now) for _ in range(5)]
        return list(await asyncio.gather(*wanted))

    assert sorted(place.run(all_at_once())) == [False] * 4 + [True]


def test_a_table_moves_below_its_own_name(place: Any) -> None:
    first = made(place, path="/local/a")
    second = made(place, path="/local/b")
    place.run(
        place.schemes.rename(
            [("/local/a", "/local/a/b", False), ("/local/b", "/local/x", False), ("/local/x", "/local/b/c", False)],
            place.now,
        )
    )
    assert place.run(place.schemes.get_table("/local/a/b")).node.id == first.node.id
    assert place.run(place.schemes.get_table("/local/b/c")).node.id == second.node.id
    assert [each.table.path for each in place.run(place.schemes.children("/local/a"))] == ["/local/a/b"]
    assert place.refused(place.schemes.rename([("/local/b/c", "/local/b", False)], place.now))[0] == "SCHEME_ERROR"
