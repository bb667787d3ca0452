"""Tables and directories through the vendor's client."""

from __future__ import annotations

from typing import Any

import pytest

ydb: Any = pytest.importorskip("ydb")


def description() -> Any:
    return (
        ydb.TableDescription()
        .with_column(ydb.Column("id", ydb.OptionalType(ydb.DataType.Uint64)))
        .with_column(ydb.Column("expire_at", ydb.OptionalType(ydb.DataType.Timestamp)))
        .with_column(ydb.Column("n", ydb.OptionalType(ydb.DataType.Uint32)))
        .with_primary_key("id")
    )


def test_ttl_as_everybody_sets_it(table_session: Any) -> None:
    session = table_session
    session.create_table(
        "/local/sdk/first", description().with_ttl(ydb.TtlSettings().with_date_type_column("expire_at"))
    )
    ttl = session.describe_table("/local/sdk/first").ttl_settings
    assert (ttl.date_type_column.column_name, ttl.date_type_column.expire_after_seconds) == ("expire_at", 0)
    session.alter_table("/local/sdk/first", drop_ttl_settings=True)
    assert session.describe_table("/local/sdk/first").ttl_settings is None
    session.alter_table("/local/sdk/first", drop_ttl_settings=True)
    session.alter_table(
        "/local/sdk/first", set_ttl_settings=ydb.TtlSettings().with_value_since_unix_epoch("n", 2, 3600)
    )
    ttl = session.describe_table("/local/sdk/first").ttl_settings
    assert ttl.value_since_unix_epoch.column_name == "n"
    assert (ttl.value_since_unix_epoch.column_unit, ttl.value_since_unix_epoch.expire_after_seconds) == (2, 3600)
    session.drop_table("/local/sdk/first")


def test_what_is_described(table_session: Any) -> None:
    session = table_session
    session.create_table(
        "/local/sdk/told",
        description()
        .with_index(ydb.TableIndex("by_n").with_index_columns("n"))
        .with_attributes({"a": "b"})
        .with_uniform_partitions(4),
    )
    told = session.describe_table(
        "/local/sdk/told",
        ydb.DescribeTableSettings().with_include_table_stats(True).with_include_shard_key_bounds(True),
    )
    assert [(each.name, str(each.type)) for each in told.columns] == [
        ("id", "Uint64?"),
        ("expire_at", "Timestamp?"),
        ("n", "Uint32?"),
    ]
    assert told.primary_key == ["id"]
    assert [(each.name, list(each.index_columns)) for each in told.indexes] == [("by_n", ["n"])]
    assert dict(told.attributes) == {"a": "b"}
    assert told.table_stats.partitions == 4
    assert len(told.shard_key_ranges) == 4
    session.copy_table("/local/sdk/told", "/local/sdk/copied")
    copied = session.describe_table("/local/sdk/copied")
    assert [each.name for each in copied.indexes] == ["by_n"]
    session.rename_tables([ydb.RenameItem("/local/sdk/copied", "/local/sdk/moved")])
    with pytest.raises(ydb.SchemeError):
        session.describe_table("/local/sdk/copied")
    session.alter_table("/local/sdk/moved", alter_attributes={"a": ""}, drop_columns=["expire_at"])
    assert dict(session.describe_table("/local/sdk/moved").attributes) == {}
    session.drop_table("/local/sdk/moved")
    session.drop_table("/local/sdk/told")


def test_an_index_is_added(table_session: Any) -> None:
    session = table_session
    session.create_table("/local/sdk/indexed", description())
    session.alter_table(
        "/local/sdk/indexed",
        add_indexes=[ydb.TableIndex("by_n").with_index_columns("n").with_data_columns("expire_at")],
    )
    (index,) = session.describe_table("/local/sdk/indexed").indexes
    assert (index.name, list(index.index_columns), index.status) == ("by_n", ["n"], ydb.IndexStatus.READY)
    session.drop_table("/local/sdk/indexed")


def test_directories(ydb_driver: Any, table_session: Any) -> None:
    client = ydb_driver.scheme_client
    client.make_directory("/local/dirs/a/b")
    client.make_directory("/local/dirs/a/b")
    table_session.create_table("/local/dirs/t", description())
    listed = client.list_directory("/local/dirs")
    assert [(each.name, each.type.name) for each in listed.children] == [("a", "DIRECTORY"), ("t", "TABLE")]
    assert client.describe_path("/local").type.name == "DATABASE"
    assert ".sys" in [each.name for each in client.list_directory("/local").children]
    with pytest.raises(ydb.SchemeError, match="Path not found"):
        client.describe_path("/local/none")
    with pytest.raises(ydb.issues.PreconditionFailed):
        client.remove_directory("/local/dirs")
    client.modify_permissions(
        "/local/dirs/a", ydb.ModifyPermissionsSettings().grant_permissions("alice", ("ydb.generic.read",))
    )
    (permission,) = client.describe_path("/local/dirs/a").permissions
    assert (permission.subject, list(permission.permission_names)) == ("alice", ["ydb.generic.read"])
    table_session.drop_table("/local/dirs/t")
    for path in ("a/b", "a", ""):
        client.remove_directory(f"/local/dirs/{path}".rstrip("/"))


TTL_REFUSED: list[tuple[Any, Any, Any, str]] = [
    (
        ydb.TtlSettings().with_date_type_column("x"),
        ydb.SchemeError,
        ydb.BadRequest,
        "Cannot enable TTL on unknown column: ",
    ),
    (
        ydb.TtlSettings().with_value_since_unix_epoch("n", 0),
        ydb.Unsupported,
        ydb.Unsupported,
        "Unsupported unit: 0",
    ),
]


@pytest.mark.parametrize(("ttl", "create", "alter", "text"), TTL_REFUSED)
def test_ttl_that_cannot_be(table_session: Any, ttl: Any, create: Any, alter: Any, text: str) -> None:
    with pytest.raises(create, match=text):
        table_session.create_table("/local/sdk/wrong", description().with_ttl(ttl))
    table_session.create_table("/local/sdk/wrong", description())
    with pytest.raises(alter, match=text):
        table_session.alter_table("/local/sdk/wrong", set_ttl_settings=ttl)
    table_session.drop_table("/local/sdk/wrong")


def test_a_table_that_is_there_is_accepted(table_session: Any) -> None:
    table_session.create_table("/local/sdk/twice", description())
    table_session.create_table("/local/sdk/twice", description())
    table_session.execute_scheme('ALTER TABLE `sdk/twice` SET (TTL = Interval("PT1H") ON expire_at)')
    assert table_session.describe_table("/local/sdk/twice").ttl_settings.date_type_column.expire_after_seconds == 3600
    table_session.drop_table("/local/sdk/twice")
